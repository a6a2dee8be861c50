// What machines with AVX-VNNI do with bytes: text, included inside a region that has it. simd/vnni.inl says what each does.

GRAFT_VECTOR I add_bytes(I sum, I pixels, I weights) { return {_mm256_dpbusd_avx_epi32(sum.r, pixels.r, weights.r)}; }
GRAFT_VECTOR I max_bytes(I a, I b) { return {_mm256_max_epu8(a.r, b.r)}; }
GRAFT_VECTOR I zip_bytes_low(I a, I b) { return {_mm256_unpacklo_epi8(a.r, b.r)}; }
GRAFT_VECTOR I zip_bytes_high(I a, I b) { return {_mm256_unpackhi_epi8(a.r, b.r)}; }
GRAFT_VECTOR I pack_bytes(I a, I b, I c, I d, I added) {
    return {_mm256_packus_epi16(_mm256_adds_epi16(_mm256_packs_epi32(a.r, b.r), added.r), _mm256_adds_epi16(_mm256_packs_epi32(c.r, d.r), added.r))};
}
GRAFT_VECTOR I turn_fours(I a) {
    return {_mm256_shuffle_epi8(a.r, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)))};
}
GRAFT_VECTOR I min_bytes(I a, I b) { return {_mm256_min_epu8(a.r, b.r)}; }
GRAFT_VECTOR I even_lanes(I a, I b) {
    const __m256 both = _mm256_shuffle_ps(_mm256_castsi256_ps(a.r), _mm256_castsi256_ps(b.r), 0x88);
    return {_mm256_permute4x64_epi64(_mm256_castps_si256(both), 0xd8)};
}
GRAFT_VECTOR I repeat_four(const std::int32_t* p) { return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
