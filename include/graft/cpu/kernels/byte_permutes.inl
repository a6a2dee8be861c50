// Functions of bytes by permutations of 64 (AVX-512 VBMI): text, included inside a region that has them.

inline void look_up_bytes(const std::uint8_t* table, const std::uint8_t* x, std::uint8_t* y, std::int64_t n) {
    const __m512i first = _mm512_loadu_si512(table), second = _mm512_loadu_si512(table + 64), third = _mm512_loadu_si512(table + 128),
                  fourth = _mm512_loadu_si512(table + 192);
    for (std::int64_t i = 0; i < n; i += 64) {
        const std::int64_t left = n - i;
        const __mmask64 some = left >= 64 ? ~__mmask64(0) : (__mmask64(1) << left) - 1;
        const __m512i at = _mm512_maskz_loadu_epi8(some, x + i);
        // Of an index the permutations read seven bits.
        const __m512i low = _mm512_permutex2var_epi8(first, at, second), high = _mm512_permutex2var_epi8(third, at, fourth);
        _mm512_mask_storeu_epi8(y + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
    }
}
