// What AVX-512 BF16 does with pairs of bfloat16, in any vectors and to the same bits: text, included inside the namespace and region of an instruction set.

GRAFT_VECTOR V without_denormals(V a) { return select(abs(a) < V::set1(std::numeric_limits<float>::min()), a & V::set1(-0.0f), a); }
GRAFT_VECTOR V even_of_pair(I a) { return without_denormals(as_float(shift_left<16>(a))); }
GRAFT_VECTOR V odd_of_pair(I a) { return without_denormals(as_float(a & I::set1(static_cast<std::int32_t>(0xffff0000u)))); }

GRAFT_VECTOR void narrow_bfloat16(V a, std::uint16_t* to) { store_bf16(without_denormals(a), to); }
GRAFT_VECTOR void narrow_neighbours(V first, V second, std::uint16_t* to) {
    narrow_bfloat16(first, to);
    narrow_bfloat16(second, to + V::W);
}
GRAFT_VECTOR void narrow_pairs(V first, V second, std::uint16_t* to) {
    std::uint16_t a[V::W], b[V::W];
    narrow_bfloat16(first, a);
    narrow_bfloat16(second, b);
    for (int i = 0; i < V::W; ++i) to[2 * i] = a[i], to[2 * i + 1] = b[i];
}
GRAFT_VECTOR void fetch_line(const void*) {}
GRAFT_VECTOR V add_pairs(V sum, I a, I b) {
    const V odd = without_denormals(fma(odd_of_pair(a), odd_of_pair(b), without_denormals(sum)));
    return without_denormals(fma(even_of_pair(a), even_of_pair(b), odd));
}
