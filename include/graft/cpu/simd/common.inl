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
GRAFT_VECTOR I rounded_bf16(V a) {  // in the upper halves
    const I bits = as_int(a), odd = shift_right<16>(bits) & I::set1(1);
    return select(is_nan(a), bits | I::set1(0x400000), bits + I::set1(0x7fff) + odd);
}
GRAFT_VECTOR void store_bf16(V a, std::uint16_t* p) { store_16(shift_right<16>(rounded_bf16(a)), p); }

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

// How channels that are computed together lie in an image: side by side, pixel by pixel.
struct float_pixels {
    using number = float;
    static constexpr int step = V::W, vectors = 1;  // numbers from a pixel to the next; vectors that one load gives
    static GRAFT_VECTOR void load(const number* p, V (&to)[vectors]) { to[0] = V::load(p); }
    static GRAFT_VECTOR void store(const V (&a)[vectors], number* p) { a[0].store(p); }
};
// Of pairs of bfloat16 the even ones are a vector, the odd ones another: neither takes more than a shift or a mask.
struct bfloat16_pixels {
    using number = std::uint16_t;
    static constexpr int step = bfloat16_block, vectors = 2;
    static GRAFT_VECTOR void load(const number* p, V (&to)[vectors]) {
        const I both = I::load(reinterpret_cast<const std::int32_t*>(p));
        to[0] = as_float(shift_left<16>(both));
        to[1] = as_float(both & I::set1(static_cast<std::int32_t>(0xffff0000u)));
    }
    static GRAFT_VECTOR void store(const V (&a)[vectors], number* p) {
        (shift_right<16>(rounded_bf16(a[0])) | (rounded_bf16(a[1]) & I::set1(static_cast<std::int32_t>(0xffff0000u))))
            .store(reinterpret_cast<std::int32_t*>(p));
    }
};
// Where the channels `group` of images of so many pixels begin.
template <class Pixels>
GRAFT_VECTOR std::int64_t group_at(std::int64_t group, std::int64_t pixels) {
    constexpr int together = Pixels::vectors * V::W, groups = Pixels::step / together;
    return group / groups * pixels * Pixels::step + group % groups * together;
}
