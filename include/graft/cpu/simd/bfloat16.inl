// What machines with AVX-512 BF16 do with pairs of bfloat16: text, included inside a region that has it.

/// Rounded half to even; numbers below the least normal one become zeros, as products take them.
GRAFT_VECTOR void narrow_bfloat16(V a, std::uint16_t* to) {
    const auto rounded = _mm512_maskz_cvtneps_pbh(0xffff, a.r);
    std::memcpy(to, &rounded, sizeof rounded);
}
/// sum + the product of each lane's odd numbers, then + that of its even ones, each fused. Numbers below the least normal one are zeros, what is added to and
/// sums as well.
GRAFT_VECTOR V add_pairs(V sum, I a, I b) { return {_mm512_dpbf16_ps(sum.r, (__m512bh)a.r, (__m512bh)b.r)}; }
