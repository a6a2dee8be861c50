// The convolution of bytes by AVX-512 VNNI: unsigned pixels by signed weights, four products a lane, summed without saturation. Text of
// namespace avx512, in a region of its own, since only some machines of that set have the instruction.

inline void tile_of_bytes(const std::int32_t* x, const std::int64_t* taps, int count, std::int64_t steps, std::int64_t step, const std::int32_t* w, int,
                          std::int32_t* sums) {
    static_assert(quantized_rows == 8 && quantized_pixels == 48, "24 sums, 3 vectors of pixels and a weight fill the registers");
    __m512i total[8][3];
    GRAFT_UNROLL
    for (int r = 0; r < 8; ++r) GRAFT_UNROLL
    for (int c = 0; c < 3; ++c) total[r][c] = _mm512_setzero_si512();
    for (std::int64_t s = 0; s < steps; ++s)
        for (int t = 0; t < count; ++t, w += 8) {
            const std::int32_t* at = x + s * step + taps[t];
            const __m512i p0 = _mm512_loadu_si512(at), p1 = _mm512_loadu_si512(at + 16), p2 = _mm512_loadu_si512(at + 32);
            GRAFT_UNROLL
            for (int r = 0; r < 8; ++r) {
                const __m512i by = _mm512_set1_epi32(w[r]);
                total[r][0] = _mm512_dpbusd_epi32(total[r][0], p0, by);
                total[r][1] = _mm512_dpbusd_epi32(total[r][1], p1, by);
                total[r][2] = _mm512_dpbusd_epi32(total[r][2], p2, by);
            }
        }
    GRAFT_UNROLL
    for (int r = 0; r < 8; ++r) GRAFT_UNROLL
    for (int c = 0; c < 3; ++c) _mm512_storeu_si512(sums + r * 48 + c * 16, total[r][c]);
}
inline void conv_quantized_bytes(const quantized_conv_args& a, std::int64_t tile, std::int64_t slot, std::int64_t part) {
    conv_quantized_by<quantized_rows>(a, tile, slot, part, tile_of_bytes);
}
