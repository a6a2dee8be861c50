// What machines with AVX-512 VNNI do with bytes: text, included inside a region that has it.

/// sum + the four products of each lane's unsigned bytes by signed ones. What leaves int32 wraps.
GRAFT_VECTOR I add_bytes(I sum, I pixels, I weights) { return {_mm512_dpbusd_epi32(sum.r, pixels.r, weights.r)}; }
/// The larger of unsigned bytes.
GRAFT_VECTOR I max_bytes(I a, I b) { return {_mm512_max_epu8(a.r, b.r)}; }
/// The bytes of two vectors in turn, of the first or the second eight of each sixteen.
GRAFT_VECTOR I zip_bytes_low(I a, I b) { return {_mm512_unpacklo_epi8(a.r, b.r)}; }
GRAFT_VECTOR I zip_bytes_high(I a, I b) { return {_mm512_unpackhi_epi8(a.r, b.r)}; }
/// Of each four lanes of a, of b, of c and of d, and what is added to them, sixteen bytes: what leaves 16 bits, and then bytes, is cut off. `added` has the
/// number in both halves of each lane.
GRAFT_VECTOR I pack_bytes(I a, I b, I c, I d, I added) {
    return {_mm512_packus_epi16(_mm512_adds_epi16(_mm512_packs_epi32(a.r, b.r), added.r), _mm512_adds_epi16(_mm512_packs_epi32(c.r, d.r), added.r))};
}
/// Of sixteen bytes, four times four, the first of each four, then the second ones, and so on.
GRAFT_VECTOR I turn_fours(I a) {
    return {_mm512_shuffle_epi8(a.r, _mm512_maskz_broadcast_i32x4(0xffff, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)))};
}
/// Of each sixteen bytes the first four, behind each other, to `first`, the second four to 16 bytes behind that, and the others to `second` likewise.
GRAFT_VECTOR void store_fours(I a, std::uint8_t* first, std::uint8_t* second) {
    const __m512i apart = _mm512_maskz_permutexvar_epi32(0xffff, _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), a.r);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(first), _mm512_maskz_extracti64x4_epi64(0xf, apart, 0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(second), _mm512_maskz_extracti64x4_epi64(0xf, apart, 1));
}
/// The smaller of unsigned bytes.
GRAFT_VECTOR I min_bytes(I a, I b) { return {_mm512_min_epu8(a.r, b.r)}; }
/// Every other lane of two vectors behind each other, from the first on.
GRAFT_VECTOR I even_lanes(I a, I b) {
    return {_mm512_permutex2var_epi32(a.r, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b.r)};
}
/// Four numbers again and again.
GRAFT_VECTOR I repeat_four(const std::int32_t* p) { return {_mm512_maskz_broadcast_i32x4(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
