// What every vector wrapper gets from the same text: included inside the namespace and region of each instruction set.

GRAFT_VECTOR V abs(V a) { return a & as_float(I::set1(0x7fffffff)); }

// Horizontal results: a tree that halves the lanes, so the order is the same everywhere on one instruction set.
GRAFT_VECTOR float sum(V a) {
    float lane[V::W];
    a.store(lane);
    for (int half = V::W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
}
GRAFT_VECTOR float highest(V a) {
    float lane[V::W];
    a.store(lane);
    for (int half = V::W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
}
GRAFT_VECTOR float lowest(V a) {
    float lane[V::W];
    a.store(lane);
    for (int half = V::W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) lane[i] = lane[i] < lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
}

// Rounds half to even; NaN stays NaN (quiet).
GRAFT_VECTOR void store_bf16(V a, std::uint16_t* p) {
    const I bits = as_int(a), odd = shift_right<16>(bits) & I::set1(1);
    const I rounded = shift_right<16>(bits + I::set1(0x7fff) + odd), quiet = shift_right<16>(bits) | I::set1(0x40);
    store_16(select(is_nan(a), quiet, rounded), p);
}

// a[i][j] and a[j][i] change places: log2(W) rounds of perfect shuffles.
GRAFT_VECTOR void transpose(V (&a)[V::W]) {
    V b[V::W];
    GRAFT_UNROLL
    for (int round = 1; round < V::W; round *= 2) {
        GRAFT_UNROLL
        for (int i = 0; i < V::W / 2; ++i) {
            b[2 * i] = zip_low(a[i], a[i + V::W / 2]);
            b[2 * i + 1] = zip_high(a[i], a[i + V::W / 2]);
        }
        GRAFT_UNROLL
        for (int i = 0; i < V::W; ++i) a[i] = b[i];
    }
}
