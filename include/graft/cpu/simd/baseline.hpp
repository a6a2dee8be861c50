// The vector wrapper that every machine can run: 4 floats, SSE2 on x86-64, plain C++ elsewhere.
// Text that regions.inl includes once, as it does those of the other sets, inside the set's region and namespace.
//
// All wrappers have the same names. V: floats, I: int32, M: a mask of lanes; W lanes each.
//   V::load / load_partial(p, n) (other lanes 0) / set1 / zero, .store / .store_partial(p, n); I::set1 / load, .store;
//   M::lanes(n): the first n. Free: load_f16(p) load_bf16(p) store_f16(v, p) store_bf16(v, p); load_u8(p) load_s8(p) to I,
//   store_8(i, p) store_16(i, p) (the low bits of each lane)
//   + - * / & | ^ on V (the last three on the bits), fma(a, b, c) = a*b + c and fnma = c - a*b (rounded once where the set has
//   FMA (V::fuses), twice in baseline and wasm), sqrt floor ceil trunc round_even; + - & | ^ shift_left<n> shift_right<n>
//   shift_right_arithmetic<n> max min > == on I; to_int (half to even; needs |x| < 2^31) to_float as_int as_float;
//   multiply_pairs(a, b): of int16 in the halves of each lane, the sum of the two products; load_u8_halves(p): 2 W bytes, each a half;
//   load_halves(p) store_halves(i, p): 2 W halves; zip_halves_low / zip_halves_high interleave the halves of two vectors, and order_zipped(low, high)
//   brings sums of such pairs, in whole lanes, into the order of the halves;
//   < <= == is_nan on V; any, & | ~ on M; select(m, a, b) is m ? a : b
//   max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, so where one is NaN the SECOND comes out: max(zero, x) keeps the
//   NaN of x. zip_low / zip_high interleave two vectors; permute(a, at) is a[at[lane]].
//   From common.inl: abs, sum, highest, lowest (horizontal, fixed order), transpose(V (&)[W]).
#pragma once

#if GRAFT_ARCH_X86_64

struct V {
    static constexpr int W = 4;
    static constexpr int registers = 16;
    static constexpr bool fuses = false;
    __m128 r;
    static GRAFT_VECTOR V load(const float* p) { return {_mm_loadu_ps(p)}; }
    static GRAFT_VECTOR V load_partial(const float* p, int n) {
        float all[4] = {0, 0, 0, 0};
        for (int i = 0; i < n; ++i) all[i] = p[i];
        return load(all);
    }
    static GRAFT_VECTOR V set1(float x) { return {_mm_set1_ps(x)}; }
    static GRAFT_VECTOR V zero() { return {_mm_setzero_ps()}; }
    GRAFT_VECTOR void store(float* p) const { _mm_storeu_ps(p, r); }
    GRAFT_VECTOR void store_partial(float* p, int n) const {
        float all[4];
        store(all);
        for (int i = 0; i < n; ++i) p[i] = all[i];
    }
};
struct I {
    __m128i r;
    static GRAFT_VECTOR I set1(std::int32_t x) { return {_mm_set1_epi32(x)}; }
    static GRAFT_VECTOR I load(const std::int32_t* p) { return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))}; }
    GRAFT_VECTOR void store(std::int32_t* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), r); }
};
struct M {
    __m128 r;
    static GRAFT_VECTOR M lanes(int n) { return {_mm_castsi128_ps(_mm_cmpgt_epi32(_mm_set1_epi32(n), _mm_setr_epi32(0, 1, 2, 3)))}; }
};

GRAFT_VECTOR V operator+(V a, V b) { return {_mm_add_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator-(V a, V b) { return {_mm_sub_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator*(V a, V b) { return {_mm_mul_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator/(V a, V b) { return {_mm_div_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator&(V a, V b) { return {_mm_and_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator|(V a, V b) { return {_mm_or_ps(a.r, b.r)}; }
GRAFT_VECTOR V operator^(V a, V b) { return {_mm_xor_ps(a.r, b.r)}; }
GRAFT_VECTOR V max(V a, V b) { return {_mm_max_ps(a.r, b.r)}; }
GRAFT_VECTOR V min(V a, V b) { return {_mm_min_ps(a.r, b.r)}; }
GRAFT_VECTOR V sqrt(V a) { return {_mm_sqrt_ps(a.r)}; }

GRAFT_VECTOR I operator+(I a, I b) { return {_mm_add_epi32(a.r, b.r)}; }
GRAFT_VECTOR I multiply_pairs(I a, I b) { return {_mm_madd_epi16(a.r, b.r)}; }
GRAFT_VECTOR I operator-(I a, I b) { return {_mm_sub_epi32(a.r, b.r)}; }
GRAFT_VECTOR I operator&(I a, I b) { return {_mm_and_si128(a.r, b.r)}; }
GRAFT_VECTOR I operator|(I a, I b) { return {_mm_or_si128(a.r, b.r)}; }
GRAFT_VECTOR I operator^(I a, I b) { return {_mm_xor_si128(a.r, b.r)}; }
template <int N>
GRAFT_VECTOR I shift_left(I a) {
    return {_mm_slli_epi32(a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right(I a) {
    return {_mm_srli_epi32(a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right_arithmetic(I a) {
    return {_mm_srai_epi32(a.r, N)};
}
GRAFT_VECTOR I to_int(V a) { return {_mm_cvtps_epi32(a.r)}; }
GRAFT_VECTOR V to_float(I a) { return {_mm_cvtepi32_ps(a.r)}; }
GRAFT_VECTOR I as_int(V a) { return {_mm_castps_si128(a.r)}; }
GRAFT_VECTOR V as_float(I a) { return {_mm_castsi128_ps(a.r)}; }

GRAFT_VECTOR M operator<(V a, V b) { return {_mm_cmplt_ps(a.r, b.r)}; }
GRAFT_VECTOR M operator<=(V a, V b) { return {_mm_cmple_ps(a.r, b.r)}; }
GRAFT_VECTOR M operator==(V a, V b) { return {_mm_cmpeq_ps(a.r, b.r)}; }
GRAFT_VECTOR M is_nan(V a) { return {_mm_cmpunord_ps(a.r, a.r)}; }
GRAFT_VECTOR M operator>(I a, I b) { return {_mm_castsi128_ps(_mm_cmpgt_epi32(a.r, b.r))}; }
GRAFT_VECTOR M operator==(I a, I b) { return {_mm_castsi128_ps(_mm_cmpeq_epi32(a.r, b.r))}; }
GRAFT_VECTOR M operator&(M a, M b) { return {_mm_and_ps(a.r, b.r)}; }
GRAFT_VECTOR M operator|(M a, M b) { return {_mm_or_ps(a.r, b.r)}; }
GRAFT_VECTOR M operator~(M a) { return {_mm_xor_ps(a.r, _mm_castsi128_ps(_mm_set1_epi32(-1)))}; }
GRAFT_VECTOR bool any(M a) { return _mm_movemask_ps(a.r) != 0; }
GRAFT_VECTOR V select(M m, V a, V b) { return {_mm_or_ps(_mm_and_ps(m.r, a.r), _mm_andnot_ps(m.r, b.r))}; }
GRAFT_VECTOR I select(M m, I a, I b) { return as_int(select(m, as_float(a), as_float(b))); }
GRAFT_VECTOR V zip_low(V a, V b) { return {_mm_unpacklo_ps(a.r, b.r)}; }
GRAFT_VECTOR V zip_high(V a, V b) { return {_mm_unpackhi_ps(a.r, b.r)}; }
GRAFT_VECTOR I load_u8_halves(const std::uint8_t* p) { return {_mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), _mm_setzero_si128())}; }
GRAFT_VECTOR I load_halves(const void* p) { return {_mm_loadu_si128(static_cast<const __m128i*>(p))}; }
GRAFT_VECTOR void store_halves(I a, std::int16_t* p) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a.r); }
GRAFT_VECTOR I zip_halves_low(I a, I b) { return {_mm_unpacklo_epi16(a.r, b.r)}; }
GRAFT_VECTOR I zip_halves_high(I a, I b) { return {_mm_unpackhi_epi16(a.r, b.r)}; }

GRAFT_VECTOR V trunc(V a) {
    // From 2^23 on floats have no fraction (and would not fit an int32); NaN fails the comparison and stays.
    const V sign = V::set1(-0.0f);
    const V cut{_mm_cvtepi32_ps(_mm_cvttps_epi32(a.r))};
    return select(V{_mm_andnot_ps(sign.r, a.r)} < V::set1(8388608.0f), cut | (a & sign), a);
}
GRAFT_VECTOR V round_even(V a) {
    const V sign = V::set1(-0.0f);
    return select(V{_mm_andnot_ps(sign.r, a.r)} < V::set1(8388608.0f), to_float(to_int(a)) | (a & sign), a);
}

#else

// Loops of four: any compiler turns them into whatever vectors the machine has.
struct V {
    static constexpr int W = 4;
    static constexpr int registers = 16;
    static constexpr bool fuses = false;
    float r[4];
    static GRAFT_VECTOR V load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
    static GRAFT_VECTOR V load_partial(const float* p, int n) {
        V v = zero();
        for (int i = 0; i < n; ++i) v.r[i] = p[i];
        return v;
    }
    static GRAFT_VECTOR V set1(float x) { return {{x, x, x, x}}; }
    static GRAFT_VECTOR V zero() { return set1(0); }
    GRAFT_VECTOR void store(float* p) const { std::memcpy(p, r, sizeof r); }
    GRAFT_VECTOR void store_partial(float* p, int n) const {
        for (int i = 0; i < n; ++i) p[i] = r[i];
    }
};
struct I {
    std::int32_t r[4];
    static GRAFT_VECTOR I set1(std::int32_t x) { return {{x, x, x, x}}; }
    static GRAFT_VECTOR I load(const std::int32_t* p) { return {{p[0], p[1], p[2], p[3]}}; }
    GRAFT_VECTOR void store(std::int32_t* p) const { std::memcpy(p, r, sizeof r); }
};
struct M {
    bool r[4];
    static GRAFT_VECTOR M lanes(int n) { return {{n > 0, n > 1, n > 2, n > 3}}; }
};

GRAFT_VECTOR I as_int(V a) {
    I b;
    std::memcpy(b.r, a.r, sizeof b.r);
    return b;
}
GRAFT_VECTOR V as_float(I a) {
    V b;
    std::memcpy(b.r, a.r, sizeof b.r);
    return b;
}

#define GRAFT_LANES(T, name, A, expression) \
    GRAFT_VECTOR T name(A a, A b) { \
        T c; \
        for (int i = 0; i < 4; ++i) c.r[i] = expression; \
        return c; \
    }
#define GRAFT_LANES_1(T, name, A, expression) \
    GRAFT_VECTOR T name(A a) { \
        T c; \
        for (int i = 0; i < 4; ++i) c.r[i] = expression; \
        return c; \
    }
GRAFT_LANES(I, multiply_pairs, I,
            static_cast<std::int16_t>(a.r[i]) * static_cast<std::int16_t>(b.r[i]) +
                static_cast<std::int16_t>(a.r[i] >> 16) * static_cast<std::int16_t>(b.r[i] >> 16))
GRAFT_LANES(V, operator+, V, a.r[i] + b.r[i])
GRAFT_LANES(V, operator-, V, a.r[i] - b.r[i])
GRAFT_LANES(V, operator*, V, a.r[i] * b.r[i])
GRAFT_LANES(V, operator/, V, a.r[i] / b.r[i])
GRAFT_LANES(V, max, V, a.r[i] > b.r[i] ? a.r[i] : b.r[i])
GRAFT_LANES(V, min, V, a.r[i] < b.r[i] ? a.r[i] : b.r[i])
GRAFT_LANES(I, operator+, I, static_cast<std::int32_t>(static_cast<std::uint32_t>(a.r[i]) + static_cast<std::uint32_t>(b.r[i])))
GRAFT_LANES(I, operator-, I, static_cast<std::int32_t>(static_cast<std::uint32_t>(a.r[i]) - static_cast<std::uint32_t>(b.r[i])))
GRAFT_LANES(I, operator&, I, a.r[i] & b.r[i])
GRAFT_LANES(I, operator|, I, a.r[i] | b.r[i])
GRAFT_LANES(I, operator^, I, a.r[i] ^ b.r[i])
GRAFT_LANES(M, operator<, V, a.r[i] < b.r[i])
GRAFT_LANES(M, operator<=, V, a.r[i] <= b.r[i])
GRAFT_LANES(M, operator==, V, a.r[i] == b.r[i])
GRAFT_LANES(M, operator>, I, a.r[i] > b.r[i])
GRAFT_LANES(M, operator==, I, a.r[i] == b.r[i])
GRAFT_LANES(M, operator&, M, a.r[i] && b.r[i])
GRAFT_LANES(M, operator|, M, a.r[i] || b.r[i])
GRAFT_LANES_1(M, operator~, M, !a.r[i])
GRAFT_LANES_1(M, is_nan, V, a.r[i] != a.r[i])
GRAFT_LANES_1(V, sqrt, V, std::sqrt(a.r[i]))
GRAFT_LANES_1(V, trunc, V, std::trunc(a.r[i]))
GRAFT_LANES_1(V, round_even, V, std::nearbyint(a.r[i]))
GRAFT_LANES_1(V, to_float, I, static_cast<float>(a.r[i]))
// As x86 has it: what no int32 can hold, NaN included, becomes the smallest.
GRAFT_LANES_1(I, to_int, V, a.r[i] >= -2147483648.0f && a.r[i] < 2147483648.0f ? static_cast<std::int32_t>(std::nearbyint(a.r[i])) : INT32_MIN)
#undef GRAFT_LANES
#undef GRAFT_LANES_1
GRAFT_VECTOR V operator&(V a, V b) { return as_float(as_int(a) & as_int(b)); }
GRAFT_VECTOR V operator|(V a, V b) { return as_float(as_int(a) | as_int(b)); }
GRAFT_VECTOR V operator^(V a, V b) { return as_float(as_int(a) ^ as_int(b)); }
template <int N>
GRAFT_VECTOR I shift_left(I a) {
    for (int i = 0; i < 4; ++i) a.r[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.r[i]) << N);
    return a;
}
template <int N>
GRAFT_VECTOR I shift_right(I a) {
    for (int i = 0; i < 4; ++i) a.r[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.r[i]) >> N);
    return a;
}
template <int N>
GRAFT_VECTOR I shift_right_arithmetic(I a) {
    for (int i = 0; i < 4; ++i) a.r[i] >>= N;
    return a;
}
GRAFT_VECTOR bool any(M a) { return a.r[0] || a.r[1] || a.r[2] || a.r[3]; }
GRAFT_VECTOR V select(M m, V a, V b) {
    for (int i = 0; i < 4; ++i) b.r[i] = m.r[i] ? a.r[i] : b.r[i];
    return b;
}
GRAFT_VECTOR I select(M m, I a, I b) { return as_int(select(m, as_float(a), as_float(b))); }
GRAFT_VECTOR V zip_low(V a, V b) { return {{a.r[0], b.r[0], a.r[1], b.r[1]}}; }
GRAFT_VECTOR V zip_high(V a, V b) { return {{a.r[2], b.r[2], a.r[3], b.r[3]}}; }
GRAFT_VECTOR I load_u8_halves(const std::uint8_t* p) { return {{p[0] | p[1] << 16, p[2] | p[3] << 16, p[4] | p[5] << 16, p[6] | p[7] << 16}}; }
GRAFT_VECTOR I load_halves(const void* p) {
    I a;
    std::memcpy(a.r, p, sizeof a.r);
    return a;
}
GRAFT_VECTOR void store_halves(I a, std::int16_t* p) { std::memcpy(p, a.r, sizeof a.r); }
GRAFT_VECTOR I zip_halves(const std::int16_t* a, const std::int16_t* b) {
    const std::int16_t all[8] = {a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]};
    return load_halves(all);
}
GRAFT_VECTOR I zip_halves_low(I a, I b) {
    std::int16_t x[8], y[8];
    store_halves(a, x), store_halves(b, y);
    return zip_halves(x, y);
}
GRAFT_VECTOR I zip_halves_high(I a, I b) {
    std::int16_t x[8], y[8];
    store_halves(a, x), store_halves(b, y);
    return zip_halves(x + 4, y + 4);
}

#endif

GRAFT_VECTOR void order_zipped(I&, I&) {}

GRAFT_VECTOR V fma(V a, V b, V c) { return a * b + c; }
GRAFT_VECTOR V fnma(V a, V b, V c) { return c - a * b; }

#include "emulated.inl"
#include "codes.inl"
