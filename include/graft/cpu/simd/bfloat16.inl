// What machines with AVX-512 BF16 do with pairs of bfloat16: text, included inside a region that has it.

/// Rounded half to even; numbers below the least normal one become zeros, as products take them.
GRAFT_VECTOR void narrow_bfloat16(V a, std::uint16_t* to) {
    const auto rounded = _mm512_maskz_cvtneps_pbh(0xffff, a.r);
    std::memcpy(to, &rounded, sizeof rounded);
}
/// The same of two vectors, one behind the other.
GRAFT_VECTOR void narrow_neighbours(V first, V second, std::uint16_t* to) {
    const auto both = _mm512_maskz_cvtne2ps_pbh(0xffffffffu, second.r, first.r);
    std::memcpy(to, &both, sizeof both);
}
/// The same of two vectors, a lane of either after the other.
GRAFT_VECTOR void narrow_pairs(V first, V second, std::uint16_t* to) {
    alignas(64) static constexpr std::uint16_t places[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                             8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = (__m512i)_mm512_maskz_cvtne2ps_pbh(0xffffffffu, second.r, first.r);
    _mm512_storeu_si512(to, _mm512_maskz_permutexvar_epi16(0xffffffffu, _mm512_load_si512(places), both));
}
/// sum + the product of each lane's odd numbers, then + that of its even ones, each fused. Numbers below the least normal one are zeros, what is added to and
/// sums as well.
GRAFT_VECTOR V add_pairs(V sum, I a, I b) { return {_mm512_dpbf16_ps(sum.r, (__m512bh)a.r, (__m512bh)b.r)}; }
/// Into the first cache.
GRAFT_VECTOR void fetch_line(const void* line) { _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T0); }
