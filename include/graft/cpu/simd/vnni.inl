// What machines with AVX-512 VNNI do with bytes: text, included inside a region that has it.

/// sum + the four products of each lane's unsigned bytes by signed ones. What leaves int32 wraps.
GRAFT_VECTOR I add_bytes(I sum, I pixels, I weights) { return {_mm512_dpbusd_epi32(sum.r, pixels.r, weights.r)}; }
/// The larger of unsigned bytes.
GRAFT_VECTOR I max_bytes(I a, I b) { return {_mm512_max_epu8(a.r, b.r)}; }
/// The bytes of two vectors in turn, of the first or the second eight of each sixteen.
GRAFT_VECTOR I zip_bytes_low(I a, I b) { return {_mm512_unpacklo_epi8(a.r, b.r)}; }
GRAFT_VECTOR I zip_bytes_high(I a, I b) { return {_mm512_unpackhi_epi8(a.r, b.r)}; }
/// Of each four lanes of a, of b, of c and of d, numbers that fit them, sixteen bytes.
GRAFT_VECTOR I pack_bytes(I a, I b, I c, I d) { return {_mm512_packus_epi16(_mm512_packs_epi32(a.r, b.r), _mm512_packs_epi32(c.r, d.r))}; }
/// Four numbers again and again.
GRAFT_VECTOR I repeat_four(const std::int32_t* p) { return {_mm512_maskz_broadcast_i32x4(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
