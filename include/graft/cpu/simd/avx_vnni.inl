// What machines with AVX-VNNI do with bytes: text, included inside a region that has it. simd/vnni.inl says what each does.

GRAFT_VECTOR I add_bytes(I sum, I pixels, I weights) { return {_mm256_dpbusd_avx_epi32(sum.r, pixels.r, weights.r)}; }
GRAFT_VECTOR I max_bytes(I a, I b) { return {_mm256_max_epu8(a.r, b.r)}; }
GRAFT_VECTOR I zip_bytes_low(I a, I b) { return {_mm256_unpacklo_epi8(a.r, b.r)}; }
GRAFT_VECTOR I zip_bytes_high(I a, I b) { return {_mm256_unpackhi_epi8(a.r, b.r)}; }
GRAFT_VECTOR I pack_bytes(I a, I b, I c, I d) { return {_mm256_packus_epi16(_mm256_packs_epi32(a.r, b.r), _mm256_packs_epi32(c.r, d.r))}; }
GRAFT_VECTOR I repeat_four(const std::int32_t* p) { return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
