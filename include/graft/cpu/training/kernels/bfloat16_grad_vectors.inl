// Rows of gradients by vectors: text, included for each set that multiplies pairs.

// [pair of pixels][row][2]: neighbouring rows are read together, and nothing is transposed.
inline void gather_rows_bfloat16(pair_unit&, const bfloat16_grad_args& a, int shard, std::int64_t block, std::int64_t channel, std::int64_t channels,
                                 std::uint16_t* to) {
    gather_taps(a, shard, block, channel, channels, [&](const auto& pixel, std::int64_t row) {
        std::uint16_t* rows = to + row * 2;
        for (int i = 0; i < bfloat16_block; i += 2, rows += a.rows * 2) narrow_pairs(pixel(i), pixel(i + 1), rows);
    });
}

// Runs of nearly one length. Rows of no channel are left out where they are many enough to be worth it.
GRAFT_VECTOR void sum_rows_bfloat16(pair_unit&, const pixel_args& a, const std::uint16_t* x, const std::uint16_t* w, sums_from start, const sums_to& to,
                                    const bfloat16_rows& of) {
    constexpr int many = 11;
    using sum_run = decltype(&sum_pairs_bfloat16<many, 2>);
    static constexpr sum_run sums[many] = {&sum_pairs_bfloat16<1, 2>, &sum_pairs_bfloat16<2, 2>,  &sum_pairs_bfloat16<3, 2>, &sum_pairs_bfloat16<4, 2>,
                                           &sum_pairs_bfloat16<5, 2>, &sum_pairs_bfloat16<6, 2>,  &sum_pairs_bfloat16<7, 2>, &sum_pairs_bfloat16<8, 2>,
                                           &sum_pairs_bfloat16<9, 2>, &sum_pairs_bfloat16<10, 2>, &sum_pairs_bfloat16<11, 2>};
    const bool all = of.pitch - of.channels < 4;
    const std::int64_t rows = all ? of.rows : of.channels, runs = (rows + many - 1) / many;
    for (std::int64_t first = 0; first < of.rows; first += all ? of.rows : of.pitch)
        for (std::int64_t run = 0; run < runs; ++run) {
            const std::int64_t r = first + rows * run / runs, count = first + rows * (run + 1) / runs - r;
            sums[count - 1](a, x + r * 2, a.block_pixels * 2, w, {start.first + r * start.pixel, start.pixel}, to.from_pixel(r));
        }
}

inline const bfloat16_grad_kernels* bfloat16_grad_by_vectors() {
    static constexpr bfloat16_grad_kernels all = {&grad_pack_bfloat16<false>, &grad_sum_bfloat16<pair_unit, false>, &grad_end_bfloat16};
    return &all;
}
