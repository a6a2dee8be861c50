// The vector wrapper for AVX-512 (F, BW, DQ, VL): 16 floats, masks in mask registers. The names are explained in baseline.hpp.
#pragma once

struct V {
    static constexpr int W = 16;
    static constexpr int registers = 32;
    static constexpr bool fuses = true;
    __m512 r;
    static GRAFT_VECTOR V load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static GRAFT_VECTOR V load_partial(const float* p, int n) { return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)}; }
    static GRAFT_VECTOR V set1(float x) { return {_mm512_set1_ps(x)}; }
    static GRAFT_VECTOR V zero() { return {_mm512_setzero_ps()}; }
    GRAFT_VECTOR void store(float* p) const { _mm512_storeu_ps(p, r); }
    GRAFT_VECTOR void store_partial(float* p, int n) const { _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), r); }
};
struct I {
    __m512i r;
    static GRAFT_VECTOR I set1(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
    static GRAFT_VECTOR I load(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
    GRAFT_VECTOR void store(std::int32_t* p) const { _mm512_storeu_si512(p, r); }
};
struct M {
    __mmask16 r;
    static GRAFT_VECTOR M lanes(int n) { return {static_cast<__mmask16>((1u << n) - 1)}; }
};

GRAFT_VECTOR V operator+(V a, V b) { return {_mm512_add_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator-(V a, V b) { return {_mm512_sub_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator*(V a, V b) { return {_mm512_mul_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator/(V a, V b) { return {_mm512_div_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator&(V a, V b) { return {_mm512_and_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator|(V a, V b) { return {_mm512_or_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator^(V a, V b) { return {_mm512_xor_ps(a.r, b.r)}; }
GRAFT_VECTOR V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.r, b.r, c.r)}; }
GRAFT_VECTOR V fnma(V a, V b, V c) { return {_mm512_fnmadd_ps(a.r, b.r, c.r)}; }
GRAFT_VECTOR V max(V a, V b) { return {_mm512_maskz_max_ps(0xffff, a.r, b.r)}; }
GRAFT_VECTOR V min(V a, V b) { return {_mm512_maskz_min_ps(0xffff, a.r, b.r)}; }
GRAFT_VECTOR V sqrt(V a) { return {_mm512_maskz_sqrt_ps(0xffff, a.r)}; }
GRAFT_VECTOR V floor(V a) { return {_mm512_maskz_roundscale_ps(0xffff, a.r, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
GRAFT_VECTOR V ceil(V a) { return {_mm512_maskz_roundscale_ps(0xffff, a.r, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
GRAFT_VECTOR V trunc(V a) { return {_mm512_maskz_roundscale_ps(0xffff, a.r, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
GRAFT_VECTOR V round_even(V a) { return {_mm512_maskz_roundscale_ps(0xffff, a.r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

GRAFT_VECTOR I operator+(I a, I b) { return {_mm512_add_epi32(a.r, b.r)}; }
GRAFT_VECTOR I multiply_pairs(I a, I b) { return {_mm512_madd_epi16(a.r, b.r)}; }
GRAFT_VECTOR I operator-(I a, I b) { return {_mm512_sub_epi32(a.r, b.r)}; }
GRAFT_VECTOR I operator&(I a, I b) { return {_mm512_and_si512(a.r, b.r)}; }
GRAFT_VECTOR I operator|(I a, I b) { return {_mm512_or_si512(a.r, b.r)}; }
GRAFT_VECTOR I operator^(I a, I b) { return {_mm512_xor_si512(a.r, b.r)}; }
GRAFT_VECTOR I max(I a, I b) { return {_mm512_maskz_max_epi32(0xffff, a.r, b.r)}; }
GRAFT_VECTOR I min(I a, I b) { return {_mm512_maskz_min_epi32(0xffff, a.r, b.r)}; }
template <int N>
GRAFT_VECTOR I shift_left(I a) {
    return {_mm512_maskz_slli_epi32(0xffff, a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right(I a) {
    return {_mm512_maskz_srli_epi32(0xffff, a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right_arithmetic(I a) {
    return {_mm512_maskz_srai_epi32(0xffff, a.r, N)};
}
GRAFT_VECTOR I to_int(V a) { return {_mm512_maskz_cvtps_epi32(0xffff, a.r)}; }
GRAFT_VECTOR V to_float(I a) { return {_mm512_maskz_cvtepi32_ps(0xffff, a.r)}; }
GRAFT_VECTOR I as_int(V a) { return {_mm512_castps_si512(a.r)}; }
GRAFT_VECTOR V as_float(I a) { return {_mm512_castsi512_ps(a.r)}; }

GRAFT_VECTOR M operator<(V a, V b) { return {_mm512_cmp_ps_mask(a.r, b.r, _CMP_LT_OQ)}; }
GRAFT_VECTOR M operator<=(V a, V b) { return {_mm512_cmp_ps_mask(a.r, b.r, _CMP_LE_OQ)}; }
GRAFT_VECTOR M operator==(V a, V b) { return {_mm512_cmp_ps_mask(a.r, b.r, _CMP_EQ_OQ)}; }
GRAFT_VECTOR M is_nan(V a) { return {_mm512_cmp_ps_mask(a.r, a.r, _CMP_UNORD_Q)}; }
GRAFT_VECTOR M operator>(I a, I b) { return {_mm512_cmpgt_epi32_mask(a.r, b.r)}; }
GRAFT_VECTOR M operator==(I a, I b) { return {_mm512_cmpeq_epi32_mask(a.r, b.r)}; }
GRAFT_VECTOR M operator&(M a, M b) { return {static_cast<__mmask16>(a.r & b.r)}; }
GRAFT_VECTOR M operator|(M a, M b) { return {static_cast<__mmask16>(a.r | b.r)}; }
GRAFT_VECTOR M operator~(M a) { return {static_cast<__mmask16>(~a.r)}; }
GRAFT_VECTOR bool any(M a) { return a.r != 0; }
GRAFT_VECTOR V select(M m, V a, V b) { return {_mm512_mask_blend_ps(m.r, b.r, a.r)}; }
GRAFT_VECTOR I select(M m, I a, I b) { return {_mm512_mask_blend_epi32(m.r, b.r, a.r)}; }

GRAFT_VECTOR V load_f16(const std::uint16_t* p) { return {_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
GRAFT_VECTOR V load_bf16(const std::uint16_t* p) {
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, wide, 16))};
}
GRAFT_VECTOR void store_f16(V a, std::uint16_t* p) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtps_ph(0xffff, a.r, _MM_FROUND_TO_NEAREST_INT));
}
GRAFT_VECTOR I load_u8(const std::uint8_t* p) { return {_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
GRAFT_VECTOR I load_u8_halves(const std::uint8_t* p) { return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
GRAFT_VECTOR I load_halves(const void* p) { return {_mm512_loadu_si512(p)}; }
GRAFT_VECTOR void store_halves(I a, std::int16_t* p) { _mm512_storeu_si512(p, a.r); }
GRAFT_VECTOR I zip_halves_low(I a, I b) { return {_mm512_unpacklo_epi16(a.r, b.r)}; }
GRAFT_VECTOR I zip_halves_high(I a, I b) { return {_mm512_unpackhi_epi16(a.r, b.r)}; }
GRAFT_VECTOR void order_zipped(I& low, I& high) {
    const __m512i first = _mm512_permutex2var_epi64(low.r, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high.r);
    high.r = _mm512_permutex2var_epi64(low.r, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high.r);
    low.r = first;
}
GRAFT_VECTOR I load_s8(const std::int8_t* p) { return {_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
GRAFT_VECTOR void store_8(I a, void* p) { _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_maskz_cvtepi32_epi8(0xffff, a.r)); }
GRAFT_VECTOR void store_16(I a, std::uint16_t* p) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtepi32_epi16(0xffff, a.r)); }

GRAFT_VECTOR V zip_low(V a, V b) {
    const __m512i at = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return {_mm512_permutex2var_ps(a.r, at, b.r)};
}
GRAFT_VECTOR V zip_high(V a, V b) {
    const __m512i at = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    return {_mm512_permutex2var_ps(a.r, at, b.r)};
}
GRAFT_VECTOR V permute(V a, I at) { return {_mm512_maskz_permutexvar_ps(0xffff, at.r, a.r)}; }
#include "codes.inl"
