// The vector wrapper for WebAssembly's simd128: 4 floats. There is no fused multiply-add.
#pragma once

struct V {
    static constexpr int W = 4;
    static constexpr int registers = 16;
    static constexpr bool fuses = false;
    v128_t r;
    static GRAFT_VECTOR V load(const float* p) { return {wasm_v128_load(p)}; }
    static GRAFT_VECTOR V load_partial(const float* p, int n) {
        float all[4] = {0, 0, 0, 0};
        for (int i = 0; i < n; ++i) all[i] = p[i];
        return load(all);
    }
    static GRAFT_VECTOR V set1(float x) { return {wasm_f32x4_splat(x)}; }
    static GRAFT_VECTOR V zero() { return set1(0); }
    GRAFT_VECTOR void store(float* p) const { wasm_v128_store(p, r); }
    GRAFT_VECTOR void store_partial(float* p, int n) const {
        float all[4];
        store(all);
        for (int i = 0; i < n; ++i) p[i] = all[i];
    }
};
struct I {
    v128_t r;
    static GRAFT_VECTOR I set1(std::int32_t x) { return {wasm_i32x4_splat(x)}; }
    static GRAFT_VECTOR I load(const std::int32_t* p) { return {wasm_v128_load(p)}; }
    GRAFT_VECTOR void store(std::int32_t* p) const { wasm_v128_store(p, r); }
};
struct M {
    v128_t r;
    static GRAFT_VECTOR M lanes(int n) { return {wasm_i32x4_gt(wasm_i32x4_splat(n), wasm_i32x4_make(0, 1, 2, 3))}; }
};

GRAFT_VECTOR V operator+(V a, V b) { return {wasm_f32x4_add(a.r, b.r)}; }
GRAFT_VECTOR V operator-(V a, V b) { return {wasm_f32x4_sub(a.r, b.r)}; }
GRAFT_VECTOR V operator*(V a, V b) { return {wasm_f32x4_mul(a.r, b.r)}; }
GRAFT_VECTOR V operator/(V a, V b) { return {wasm_f32x4_div(a.r, b.r)}; }
GRAFT_VECTOR V operator&(V a, V b) { return {wasm_v128_and(a.r, b.r)}; }
GRAFT_VECTOR V operator|(V a, V b) { return {wasm_v128_or(a.r, b.r)}; }
GRAFT_VECTOR V operator^(V a, V b) { return {wasm_v128_xor(a.r, b.r)}; }
GRAFT_VECTOR V fma(V a, V b, V c) { return a * b + c; }
GRAFT_VECTOR V fnma(V a, V b, V c) { return c - a * b; }
// pmax(x, y) is x < y ? y : x, so the order is turned round to have the second come out where one is NaN.
GRAFT_VECTOR V max(V a, V b) { return {wasm_f32x4_pmax(b.r, a.r)}; }
GRAFT_VECTOR V min(V a, V b) { return {wasm_f32x4_pmin(b.r, a.r)}; }
GRAFT_VECTOR V sqrt(V a) { return {wasm_f32x4_sqrt(a.r)}; }
GRAFT_VECTOR V trunc(V a) { return {wasm_f32x4_trunc(a.r)}; }
GRAFT_VECTOR V round_even(V a) { return {wasm_f32x4_nearest(a.r)}; }

GRAFT_VECTOR I operator+(I a, I b) { return {wasm_i32x4_add(a.r, b.r)}; }
GRAFT_VECTOR I multiply_pairs(I a, I b) { return {wasm_i32x4_dot_i16x8(a.r, b.r)}; }
GRAFT_VECTOR I operator-(I a, I b) { return {wasm_i32x4_sub(a.r, b.r)}; }
GRAFT_VECTOR I operator&(I a, I b) { return {wasm_v128_and(a.r, b.r)}; }
GRAFT_VECTOR I operator|(I a, I b) { return {wasm_v128_or(a.r, b.r)}; }
GRAFT_VECTOR I operator^(I a, I b) { return {wasm_v128_xor(a.r, b.r)}; }
template <int N>
GRAFT_VECTOR I shift_left(I a) {
    return {wasm_i32x4_shl(a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right(I a) {
    return {wasm_u32x4_shr(a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right_arithmetic(I a) {
    return {wasm_i32x4_shr(a.r, N)};
}
GRAFT_VECTOR I to_int(V a) { return {wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(a.r))}; }
GRAFT_VECTOR V to_float(I a) { return {wasm_f32x4_convert_i32x4(a.r)}; }
GRAFT_VECTOR I as_int(V a) { return {a.r}; }
GRAFT_VECTOR V as_float(I a) { return {a.r}; }

GRAFT_VECTOR M operator<(V a, V b) { return {wasm_f32x4_lt(a.r, b.r)}; }
GRAFT_VECTOR M operator<=(V a, V b) { return {wasm_f32x4_le(a.r, b.r)}; }
GRAFT_VECTOR M operator==(V a, V b) { return {wasm_f32x4_eq(a.r, b.r)}; }
GRAFT_VECTOR M is_nan(V a) { return {wasm_f32x4_ne(a.r, a.r)}; }
GRAFT_VECTOR M operator>(I a, I b) { return {wasm_i32x4_gt(a.r, b.r)}; }
GRAFT_VECTOR M operator==(I a, I b) { return {wasm_i32x4_eq(a.r, b.r)}; }
GRAFT_VECTOR M operator&(M a, M b) { return {wasm_v128_and(a.r, b.r)}; }
GRAFT_VECTOR M operator|(M a, M b) { return {wasm_v128_or(a.r, b.r)}; }
GRAFT_VECTOR M operator~(M a) { return {wasm_v128_not(a.r)}; }
GRAFT_VECTOR bool any(M a) { return wasm_v128_any_true(a.r); }
GRAFT_VECTOR V select(M m, V a, V b) { return {wasm_v128_bitselect(a.r, b.r, m.r)}; }
GRAFT_VECTOR I select(M m, I a, I b) { return {wasm_v128_bitselect(a.r, b.r, m.r)}; }
GRAFT_VECTOR V zip_low(V a, V b) { return {wasm_i32x4_shuffle(a.r, b.r, 0, 4, 1, 5)}; }
GRAFT_VECTOR V zip_high(V a, V b) { return {wasm_i32x4_shuffle(a.r, b.r, 2, 6, 3, 7)}; }
GRAFT_VECTOR I load_u8_halves(const std::uint8_t* p) { return {wasm_u16x8_load8x8(p)}; }
GRAFT_VECTOR I load_halves(const void* p) { return {wasm_v128_load(p)}; }
GRAFT_VECTOR void store_halves(I a, std::int16_t* p) { wasm_v128_store(p, a.r); }
GRAFT_VECTOR I zip_halves_low(I a, I b) { return {wasm_i16x8_shuffle(a.r, b.r, 0, 8, 1, 9, 2, 10, 3, 11)}; }
GRAFT_VECTOR I zip_halves_high(I a, I b) { return {wasm_i16x8_shuffle(a.r, b.r, 4, 12, 5, 13, 6, 14, 7, 15)}; }
GRAFT_VECTOR void order_zipped(I&, I&) {}

#include "emulated.inl"
#include "codes.inl"
