// The vector wrapper for AVX2 with FMA and F16C: 8 floats, masks as vectors of all ones or zeros.
#pragma once

GRAFT_VECTOR __m256i first_lanes(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }

struct V {
    static constexpr int W = 8;
    static constexpr int registers = 16;
    static constexpr bool fuses = true;
    __m256 r;
    static GRAFT_VECTOR V load(const float* p) { return {_mm256_loadu_ps(p)}; }
    static GRAFT_VECTOR V load_partial(const float* p, int n) { return {_mm256_maskload_ps(p, first_lanes(n))}; }
    static GRAFT_VECTOR V set1(float x) { return {_mm256_set1_ps(x)}; }
    static GRAFT_VECTOR V zero() { return {_mm256_setzero_ps()}; }
    GRAFT_VECTOR void store(float* p) const { _mm256_storeu_ps(p, r); }
    GRAFT_VECTOR void store_partial(float* p, int n) const { _mm256_maskstore_ps(p, first_lanes(n), r); }
};
struct I {
    __m256i r;
    static GRAFT_VECTOR I set1(std::int32_t x) { return {_mm256_set1_epi32(x)}; }
    static GRAFT_VECTOR I load(const std::int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
    GRAFT_VECTOR void store(std::int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), r); }
};
struct M {
    __m256 r;
    static GRAFT_VECTOR M lanes(int n) { return {_mm256_castsi256_ps(first_lanes(n))}; }
};

GRAFT_VECTOR V operator+(V a, V b) { return {_mm256_add_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator-(V a, V b) { return {_mm256_sub_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator*(V a, V b) { return {_mm256_mul_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator/(V a, V b) { return {_mm256_div_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator&(V a, V b) { return {_mm256_and_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator|(V a, V b) { return {_mm256_or_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator^(V a, V b) { return {_mm256_xor_ps(a.r, b.r)}; }
GRAFT_VECTOR V fma(V a, V b, V c) { return {_mm256_fmadd_ps(a.r, b.r, c.r)}; }
GRAFT_VECTOR V fnma(V a, V b, V c) { return {_mm256_fnmadd_ps(a.r, b.r, c.r)}; }
GRAFT_VECTOR V max(V a, V b) { return {_mm256_max_ps(a.r, b.r)}; }
GRAFT_VECTOR V min(V a, V b) { return {_mm256_min_ps(a.r, b.r)}; }
GRAFT_VECTOR V sqrt(V a) { return {_mm256_sqrt_ps(a.r)}; }
GRAFT_VECTOR V floor(V a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
GRAFT_VECTOR V ceil(V a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
GRAFT_VECTOR V trunc(V a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
GRAFT_VECTOR V round_even(V a) { return {_mm256_round_ps(a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

GRAFT_VECTOR I operator+(I a, I b) { return {_mm256_add_epi32(a.r, b.r)}; }
GRAFT_VECTOR I multiply_pairs(I a, I b) { return {_mm256_madd_epi16(a.r, b.r)}; }
GRAFT_VECTOR I operator-(I a, I b) { return {_mm256_sub_epi32(a.r, b.r)}; }
GRAFT_VECTOR I operator&(I a, I b) { return {_mm256_and_si256(a.r, b.r)}; }
GRAFT_VECTOR I operator|(I a, I b) { return {_mm256_or_si256(a.r, b.r)}; }
GRAFT_VECTOR I operator^(I a, I b) { return {_mm256_xor_si256(a.r, b.r)}; }
GRAFT_VECTOR I max(I a, I b) { return {_mm256_max_epi32(a.r, b.r)}; }
GRAFT_VECTOR I min(I a, I b) { return {_mm256_min_epi32(a.r, b.r)}; }
template <int N>
GRAFT_VECTOR I shift_left(I a) {
    return {_mm256_slli_epi32(a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right(I a) {
    return {_mm256_srli_epi32(a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right_arithmetic(I a) {
    return {_mm256_srai_epi32(a.r, N)};
}
GRAFT_VECTOR I to_int(V a) { return {_mm256_cvtps_epi32(a.r)}; }
GRAFT_VECTOR V to_float(I a) { return {_mm256_cvtepi32_ps(a.r)}; }
GRAFT_VECTOR I as_int(V a) { return {_mm256_castps_si256(a.r)}; }
GRAFT_VECTOR V as_float(I a) { return {_mm256_castsi256_ps(a.r)}; }

GRAFT_VECTOR M operator<(V a, V b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_LT_OQ)}; }
GRAFT_VECTOR M operator<=(V a, V b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_LE_OQ)}; }
GRAFT_VECTOR M operator==(V a, V b) { return {_mm256_cmp_ps(a.r, b.r, _CMP_EQ_OQ)}; }
GRAFT_VECTOR M is_nan(V a) { return {_mm256_cmp_ps(a.r, a.r, _CMP_UNORD_Q)}; }
GRAFT_VECTOR M operator>(I a, I b) { return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.r, b.r))}; }
GRAFT_VECTOR M operator==(I a, I b) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.r, b.r))}; }
GRAFT_VECTOR M operator&(M a, M b) { return {_mm256_and_ps(a.r, b.r)}; }
GRAFT_VECTOR M operator|(M a, M b) { return {_mm256_or_ps(a.r, b.r)}; }
GRAFT_VECTOR M operator~(M a) { return {_mm256_xor_ps(a.r, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
GRAFT_VECTOR bool any(M a) { return _mm256_movemask_ps(a.r) != 0; }
GRAFT_VECTOR V select(M m, V a, V b) { return {_mm256_blendv_ps(b.r, a.r, m.r)}; }
GRAFT_VECTOR I select(M m, I a, I b) { return as_int(select(m, as_float(a), as_float(b))); }

GRAFT_VECTOR V load_f16(const std::uint16_t* p) { return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
GRAFT_VECTOR V load_bf16(const std::uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
GRAFT_VECTOR void store_f16(V a, std::uint16_t* p) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.r, _MM_FROUND_TO_NEAREST_INT)); }
GRAFT_VECTOR I load_u8(const std::uint8_t* p) { return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))}; }
GRAFT_VECTOR I load_u8_halves(const std::uint8_t* p) { return {_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
GRAFT_VECTOR I load_halves(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
GRAFT_VECTOR void store_halves(I a, std::int16_t* p) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.r); }
GRAFT_VECTOR I zip_halves_low(I a, I b) { return {_mm256_unpacklo_epi16(a.r, b.r)}; }
GRAFT_VECTOR I zip_halves_high(I a, I b) { return {_mm256_unpackhi_epi16(a.r, b.r)}; }
GRAFT_VECTOR void order_zipped(I& low, I& high) {
    const __m256i first = _mm256_permute2x128_si256(low.r, high.r, 0x20);
    high.r = _mm256_permute2x128_si256(low.r, high.r, 0x31);
    low.r = first;
}
GRAFT_VECTOR I load_s8(const std::int8_t* p) { return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))}; }
GRAFT_VECTOR void store_8(I a, void* p) {
    const __m256i low = _mm256_and_si256(a.r, _mm256_set1_epi32(255));
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
GRAFT_VECTOR void store_16(I a, std::uint16_t* p) {
    const __m256i low = _mm256_and_si256(a.r, _mm256_set1_epi32(65535));
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words);
}

GRAFT_VECTOR V zip_low(V a, V b) { return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.r, b.r), _mm256_unpackhi_ps(a.r, b.r), 0x20)}; }
GRAFT_VECTOR V zip_high(V a, V b) { return {_mm256_permute2f128_ps(_mm256_unpacklo_ps(a.r, b.r), _mm256_unpackhi_ps(a.r, b.r), 0x31)}; }

GRAFT_VECTOR V permute(V a, I at) { return {_mm256_permutevar8x32_ps(a.r, at.r)}; }

// Sixteen reals, in steps from the zero point, become codes, as codes.inl has it. Bounds may be those of int8 or of uint8: 16 bits hold both, and
// numbers below all integers become the least one.
GRAFT_VECTOR void store_codes(const V (&steps)[2], int zero, int low, int high, std::uint8_t* to) {
    const V most = V::set1(32767.0f);
    const __m256i words = _mm256_packs_epi32(to_int(min(steps[0], most)).r, to_int(min(steps[1], most)).r);
    const __m256i shifted = _mm256_adds_epi16(words, _mm256_set1_epi16(static_cast<short>(zero)));
    const __m256i cut = _mm256_max_epi16(_mm256_min_epi16(shifted, _mm256_set1_epi16(static_cast<short>(high))), _mm256_set1_epi16(static_cast<short>(low)));
    const __m256i low_bytes = _mm256_and_si256(cut, _mm256_set1_epi16(255));
    // Words stand as 0-3, 8-11, 4-7, 12-15.
    const __m256i bytes = _mm256_packus_epi16(low_bytes, low_bytes);
    const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(ordered));
}
