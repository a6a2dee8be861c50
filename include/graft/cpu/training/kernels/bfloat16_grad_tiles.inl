// Rows of gradients by tiles: text, included for each kind of them. Whole tiles are computed: there is room for the rows that are none.

// [row][32 pixels]: sixteen rows are one load of a tile.
inline void gather_rows_bfloat16(bfloat16_tiles&, const bfloat16_grad_args& a, int shard, std::int64_t block, std::int64_t channel, std::int64_t channels,
                                 std::uint16_t* to) {
    gather_taps(a, shard, block, channel, channels, [&](const auto& pixel, std::int64_t row) {
        std::uint16_t* const rows = to + row * bfloat16_block;
        for (int first = 0; first < bfloat16_block; first += V::W) {
            V some[V::W];
            GRAFT_UNROLL
            for (int i = 0; i < V::W; ++i) some[i] = pixel(first + i);
            transpose(some);
            GRAFT_UNROLL
            for (int i = 0; i < V::W; ++i) narrow_bfloat16(some[i], rows + i * bfloat16_block + first);
        }
    });
}

// Whole tiles: there is room behind the last row.
GRAFT_VECTOR void sum_rows_bfloat16(bfloat16_tiles& tiles, const pixel_args& a, const std::uint16_t* x, const std::uint16_t* w, sums_from start,
                                    const sums_to& to, const bfloat16_rows& of) {
    constexpr int half = bfloat16_block / 2;
    const bfloat16_end nothing{&a, 0, false, true, false, 0, 0, {}, 0};
    pixel_sums before;
    before.next = before.pixels = 0;
    for (std::int64_t r = 0; r < of.rows; r += bfloat16_block) {
        const auto sum = of.rows - r > half ? &sum_tiles<2, bfloat16_tiles, bfloat16_end> : &sum_tiles<1, bfloat16_tiles, bfloat16_end>;
        sum(tiles, a, x + r * bfloat16_block, w, {nullptr, 0}, {start.first + r * start.pixel, start.pixel}, to.first + r * to.pixel, to.pixel, nothing,
            before);
    }
    for (int i = 0; i < to.count; ++i) grad_add_sums(to.earlier + i * to.step, to.first, of.rows * bfloat16_block);
}

inline const bfloat16_grad_kernels* bfloat16_grad_by_tiles() {
    static constexpr bfloat16_grad_kernels all = {&grad_pack_bfloat16<true>, &grad_sum_bfloat16<bfloat16_tiles, true>, &grad_end_bfloat16};
    return &all;
}
