// Planes to blocks of channels and back: text, included once for each instruction set.

GRAFT_NOINLINE inline void planes_to_block(const float* x, std::int64_t plane, int channels, std::int64_t first, std::int64_t last, float* y) {
    for (std::int64_t i = first; i < last; i += V::W) {
        const int n = last - i < V::W ? static_cast<int>(last - i) : V::W;
        V a[V::W];
        GRAFT_UNROLL
        for (int c = 0; c < V::W; ++c) {
            a[c] = V::zero();
            if (c < channels) a[c] = n == V::W ? V::load(x + c * plane + i) : V::load_partial(x + c * plane + i, n);
        }
        transpose(a);
        GRAFT_UNROLL
        for (int j = 0; j < V::W; ++j)
            if (j < n) a[j].store(y + (i + j) * V::W);
    }
}

inline void block_to_planes(const float* x, std::int64_t plane, int channels, std::int64_t first, std::int64_t last, float* y) {
    for (std::int64_t i = first; i < last; i += V::W) {
        const int n = last - i < V::W ? static_cast<int>(last - i) : V::W;
        V a[V::W];
        GRAFT_UNROLL
        for (int j = 0; j < V::W; ++j) a[j] = j < n ? V::load(x + (i + j) * V::W) : V::zero();
        transpose(a);
        GRAFT_UNROLL
        for (int c = 0; c < V::W; ++c)
            if (c < channels) n == V::W ? a[c].store(y + c * plane + i) : a[c].store_partial(y + c * plane + i, n);
    }
}

inline const reorder_kernels* reorder_table() {
    static constexpr reorder_kernels all = {&planes_to_block, &block_to_planes};
    return &all;
}
