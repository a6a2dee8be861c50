// The vector wrapper for NEON on 64-bit ARM: 4 floats.
#pragma once

struct V {
    static constexpr int W = 4;
    static constexpr int registers = 32;
    static constexpr bool fuses = true;
    float32x4_t r;
    static GRAFT_VECTOR V load(const float* p) { return {vld1q_f32(p)}; }
    static GRAFT_VECTOR V load_partial(const float* p, int n) {
        float all[4] = {0, 0, 0, 0};
        for (int i = 0; i < n; ++i) all[i] = p[i];
        return load(all);
    }
    static GRAFT_VECTOR V set1(float x) { return {vdupq_n_f32(x)}; }
    static GRAFT_VECTOR V zero() { return set1(0); }
    GRAFT_VECTOR void store(float* p) const { vst1q_f32(p, r); }
    GRAFT_VECTOR void store_partial(float* p, int n) const {
        float all[4];
        store(all);
        for (int i = 0; i < n; ++i) p[i] = all[i];
    }
};
struct I {
    int32x4_t r;
    static GRAFT_VECTOR I set1(std::int32_t x) { return {vdupq_n_s32(x)}; }
    static GRAFT_VECTOR I load(const std::int32_t* p) { return {vld1q_s32(p)}; }
    GRAFT_VECTOR void store(std::int32_t* p) const { vst1q_s32(p, r); }
};
struct M {
    uint32x4_t r;
    static GRAFT_VECTOR M lanes(int n) {
        const std::int32_t lane[4] = {0, 1, 2, 3};
        return {vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lane))};
    }
};

GRAFT_VECTOR I as_int(V a) { return {vreinterpretq_s32_f32(a.r)}; }
GRAFT_VECTOR V as_float(I a) { return {vreinterpretq_f32_s32(a.r)}; }
GRAFT_VECTOR I operator+(I a, I b) { return {vaddq_s32(a.r, b.r)}; }
GRAFT_VECTOR I multiply_pairs(I a, I b) {
    const int16x8_t x = vreinterpretq_s16_s32(a.r), y = vreinterpretq_s16_s32(b.r);
    return {vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y))};
}
GRAFT_VECTOR I operator-(I a, I b) { return {vsubq_s32(a.r, b.r)}; }
GRAFT_VECTOR I operator&(I a, I b) { return {vandq_s32(a.r, b.r)}; }
GRAFT_VECTOR I operator|(I a, I b) { return {vorrq_s32(a.r, b.r)}; }
GRAFT_VECTOR I operator^(I a, I b) { return {veorq_s32(a.r, b.r)}; }
GRAFT_VECTOR I max(I a, I b) { return {vmaxq_s32(a.r, b.r)}; }
GRAFT_VECTOR I min(I a, I b) { return {vminq_s32(a.r, b.r)}; }
template <int N>
GRAFT_VECTOR I shift_left(I a) {
    return {vshlq_n_s32(a.r, N)};
}
template <int N>
GRAFT_VECTOR I shift_right(I a) {
    return {vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.r), N))};
}
template <int N>
GRAFT_VECTOR I shift_right_arithmetic(I a) {
    return {vshrq_n_s32(a.r, N)};
}

GRAFT_VECTOR V operator+(V a, V b) { return {vaddq_f32(a.r, b.r)}; }
GRAFT_VECTOR V operator-(V a, V b) { return {vsubq_f32(a.r, b.r)}; }
GRAFT_VECTOR V operator*(V a, V b) { return {vmulq_f32(a.r, b.r)}; }
GRAFT_VECTOR V operator/(V a, V b) { return {vdivq_f32(a.r, b.r)}; }
GRAFT_VECTOR V operator&(V a, V b) { return as_float(as_int(a) & as_int(b)); }
GRAFT_VECTOR V operator|(V a, V b) { return as_float(as_int(a) | as_int(b)); }
GRAFT_VECTOR V operator^(V a, V b) { return as_float(as_int(a) ^ as_int(b)); }
GRAFT_VECTOR V fma(V a, V b, V c) { return {vfmaq_f32(c.r, a.r, b.r)}; }
GRAFT_VECTOR V fnma(V a, V b, V c) { return {vfmsq_f32(c.r, a.r, b.r)}; }
// Not vmaxq: the wrapper's rule about NaN is x86's.
GRAFT_VECTOR V max(V a, V b) { return {vbslq_f32(vcgtq_f32(a.r, b.r), a.r, b.r)}; }
GRAFT_VECTOR V min(V a, V b) { return {vbslq_f32(vcltq_f32(a.r, b.r), a.r, b.r)}; }
GRAFT_VECTOR V sqrt(V a) { return {vsqrtq_f32(a.r)}; }
GRAFT_VECTOR V floor(V a) { return {vrndmq_f32(a.r)}; }
GRAFT_VECTOR V ceil(V a) { return {vrndpq_f32(a.r)}; }
GRAFT_VECTOR V trunc(V a) { return {vrndq_f32(a.r)}; }
GRAFT_VECTOR V round_even(V a) { return {vrndnq_f32(a.r)}; }
GRAFT_VECTOR I to_int(V a) { return {vcvtnq_s32_f32(a.r)}; }
GRAFT_VECTOR V to_float(I a) { return {vcvtq_f32_s32(a.r)}; }

GRAFT_VECTOR M operator<(V a, V b) { return {vcltq_f32(a.r, b.r)}; }
GRAFT_VECTOR M operator<=(V a, V b) { return {vcleq_f32(a.r, b.r)}; }
GRAFT_VECTOR M operator==(V a, V b) { return {vceqq_f32(a.r, b.r)}; }
GRAFT_VECTOR M is_nan(V a) { return {vmvnq_u32(vceqq_f32(a.r, a.r))}; }
GRAFT_VECTOR M operator>(I a, I b) { return {vcgtq_s32(a.r, b.r)}; }
GRAFT_VECTOR M operator==(I a, I b) { return {vceqq_s32(a.r, b.r)}; }
GRAFT_VECTOR M operator&(M a, M b) { return {vandq_u32(a.r, b.r)}; }
GRAFT_VECTOR M operator|(M a, M b) { return {vorrq_u32(a.r, b.r)}; }
GRAFT_VECTOR M operator~(M a) { return {vmvnq_u32(a.r)}; }
GRAFT_VECTOR bool any(M a) { return vmaxvq_u32(a.r) != 0; }
GRAFT_VECTOR V select(M m, V a, V b) { return {vbslq_f32(m.r, a.r, b.r)}; }
GRAFT_VECTOR I select(M m, I a, I b) { return {vbslq_s32(m.r, a.r, b.r)}; }

GRAFT_VECTOR V load_f16(const std::uint16_t* p) { return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))}; }
GRAFT_VECTOR V load_bf16(const std::uint16_t* p) { return {vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16))}; }
GRAFT_VECTOR void store_f16(V a, std::uint16_t* p) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a.r))); }
GRAFT_VECTOR I load_u8(const std::uint8_t* p) {
    const std::int32_t all[4] = {p[0], p[1], p[2], p[3]};
    return I::load(all);
}
GRAFT_VECTOR I load_u8_halves(const std::uint8_t* p) { return {vreinterpretq_s32_u16(vmovl_u8(vld1_u8(p)))}; }
GRAFT_VECTOR I load_halves(const void* p) { return {vreinterpretq_s32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p)))}; }
GRAFT_VECTOR void store_halves(I a, std::int16_t* p) { vst1q_s16(p, vreinterpretq_s16_s32(a.r)); }
GRAFT_VECTOR I zip_halves_low(I a, I b) { return {vreinterpretq_s32_s16(vzip1q_s16(vreinterpretq_s16_s32(a.r), vreinterpretq_s16_s32(b.r)))}; }
GRAFT_VECTOR I zip_halves_high(I a, I b) { return {vreinterpretq_s32_s16(vzip2q_s16(vreinterpretq_s16_s32(a.r), vreinterpretq_s16_s32(b.r)))}; }
GRAFT_VECTOR void order_zipped(I&, I&) {}
GRAFT_VECTOR I load_s8(const std::int8_t* p) {
    const std::int32_t all[4] = {p[0], p[1], p[2], p[3]};
    return I::load(all);
}
GRAFT_VECTOR void store_16(I a, std::uint16_t* p) { vst1_u16(p, vreinterpret_u16_s16(vmovn_s32(a.r))); }
GRAFT_VECTOR void store_8(I a, void* p) {
    const int16x4_t words = vmovn_s32(a.r);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    std::memcpy(p, &bytes, 4);
}

GRAFT_VECTOR V zip_low(V a, V b) { return {vzip1q_f32(a.r, b.r)}; }
GRAFT_VECTOR V zip_high(V a, V b) { return {vzip2q_f32(a.r, b.r)}; }

GRAFT_VECTOR V permute(V a, I at) {
    // A table look-up by bytes: lane k of four bytes is 4k, 4k+1, 4k+2, 4k+3.
    const uint32x4_t first = vmulq_n_u32(vreinterpretq_u32_s32(at.r), 0x04040404u);
    const uint8x16_t bytes = vreinterpretq_u8_u32(vaddq_u32(first, vdupq_n_u32(0x03020100u)));
    return {vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(a.r), bytes))};
}
#include "codes.inl"
