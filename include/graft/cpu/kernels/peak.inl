// Chains of products and sums in registers, and a read of memory: what a machine can do at most. Text, included once for each instruction set.

// As many chains as registers hold beside the two operands: each waits for its own last sum alone.
constexpr int peak_chains = V::registers >= 32 ? 24 : 12;

inline float peak_multiply_add(const float* start, std::int64_t rounds) {
    V chain[peak_chains];
    GRAFT_UNROLL
    for (int i = 0; i < peak_chains; ++i) chain[i] = V::load(start + i * V::W);
    // Towards 1, far from what is slow to compute with.
    const V a = V::set1(0.5f), b = V::set1(0.5f);
    for (std::int64_t r = 0; r < rounds; ++r) {
        GRAFT_UNROLL
        for (int i = 0; i < peak_chains; ++i) chain[i] = fma(chain[i], a, b);
    }
    V total = V::zero();
    GRAFT_UNROLL
    for (int i = 0; i < peak_chains; ++i) total = total + chain[i];
    return sum(total);
}

inline float peak_read(const float* from, std::int64_t n) {
    constexpr int at_once = 8;
    V total[at_once];
    GRAFT_UNROLL
    for (int i = 0; i < at_once; ++i) total[i] = V::zero();
    for (std::int64_t at = 0; at < n; at += at_once * V::W) {
        GRAFT_UNROLL
        for (int i = 0; i < at_once; ++i) total[i] = total[i] + V::load(from + at + i * V::W);
    }
    GRAFT_UNROLL
    for (int i = 1; i < at_once; ++i) total[0] = total[0] + total[i];
    return sum(total[0]);
}

inline const peak_kernels& peak_table() {
    static_assert(peak_chains * V::W <= most_chain_floats && most_chain_floats % (8 * V::W) == 0, "both loops end with their arrays");
    static constexpr peak_kernels all = {&peak_multiply_add, &peak_read, peak_chains * V::W};
    return all;
}
