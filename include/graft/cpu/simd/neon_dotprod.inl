// What machines with the dot product of Armv8.2 do with bytes: text, included inside a region that has it. simd/vnni.inl says what each does.

GRAFT_VECTOR uint8x16_t as_bytes(I a) { return vreinterpretq_u8_s32(a.r); }
GRAFT_VECTOR I as_lanes(uint8x16_t a) { return {vreinterpretq_s32_u8(a)}; }
/// Of signed bytes by signed ones: pixels are 128 less (see quantized_conv_problem::signed_pixels).
GRAFT_VECTOR I add_bytes(I sum, I pixels, I weights) {
    const int8x16_t lower = vreinterpretq_s8_u8(veorq_u8(as_bytes(pixels), vdupq_n_u8(0x80)));
    return {vdotq_s32(sum.r, lower, vreinterpretq_s8_s32(weights.r))};
}
GRAFT_VECTOR I max_bytes(I a, I b) { return as_lanes(vmaxq_u8(as_bytes(a), as_bytes(b))); }
GRAFT_VECTOR I min_bytes(I a, I b) { return as_lanes(vminq_u8(as_bytes(a), as_bytes(b))); }
GRAFT_VECTOR I zip_bytes_low(I a, I b) { return as_lanes(vzip1q_u8(as_bytes(a), as_bytes(b))); }
GRAFT_VECTOR I zip_bytes_high(I a, I b) { return as_lanes(vzip2q_u8(as_bytes(a), as_bytes(b))); }
GRAFT_VECTOR int16x8_t pack_halves(I a, I b, I added) { return vqaddq_s16(vcombine_s16(vqmovn_s32(a.r), vqmovn_s32(b.r)), vreinterpretq_s16_s32(added.r)); }
GRAFT_VECTOR I pack_bytes(I a, I b, I c, I d, I added) {
    return as_lanes(vcombine_u8(vqmovun_s16(pack_halves(a, b, added)), vqmovun_s16(pack_halves(c, d, added))));
}
GRAFT_VECTOR I turn_fours(I a) {
    const std::uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return as_lanes(vqtbl1q_u8(as_bytes(a), vld1q_u8(order)));
}
GRAFT_VECTOR I even_lanes(I a, I b) { return {vuzp1q_s32(a.r, b.r)}; }
GRAFT_VECTOR I repeat_four(const std::int32_t* p) { return {vld1q_s32(p)}; }
