// Sums of products of bfloat16 by tiles: text, included for each kind of them. The pixels of 32 channels are the rows of a tile: sixteen are one load.

struct bfloat16_tiles : tile_unit {
    // Written out: those that compilers make belong to no region.
    GRAFT_VECTOR bfloat16_tiles() {}
    GRAFT_VECTOR ~bfloat16_tiles() {}
    template <int C, int A, int B>
    GRAFT_VECTOR void multiply() {
        multiply_bfloat16<C, A, B>();
    }
    static bfloat16_end end_of(const pixel_args& a, std::int64_t block) { return bfloat16_end_of(a, block); }
};

// Rows: tiles of sixteen pixels; of output channels there are two, the second perhaps of none.
template <int Rows, class Unit, class End>
inline GRAFT_NOINLINE void sum_tiles(Unit& tiles, const pixel_args& a, const std::uint16_t* x, const std::uint16_t* w, weights_ahead next, sums_from start,
                                     float* to, std::int64_t to_pixel, const End& end, pixel_sums& before) {
    constexpr int half = bfloat16_block / 2;
    const std::ptrdiff_t start_row = start.pixel * std::ptrdiff_t(sizeof(float)), to_row = to_pixel * std::ptrdiff_t(sizeof(float));
    const std::ptrdiff_t x_row = a.source_pixel * std::ptrdiff_t(sizeof *x);
    const float* const below = start.first + half * start.pixel;
    tiles.template load<0>(start.first, start_row);
    tiles.template load<1>(start.first + half, start_row);
    if (Rows == 2) tiles.template load<2>(below, start_row);
    if (Rows == 2) tiles.template load<3>(below + half, start_row);
    // Vectors work beside tiles: a quarter of the pixels before, from time to time.
    const std::int64_t every = a.steps / 4;
    std::int64_t until = a.steps < 8 ? a.steps : every;
    for (std::int64_t left = a.steps; left > 0; left -= a.taps, x += a.source_block)
        for (int t = 0; t < a.taps; ++t, w += bfloat16_step) {
            const std::uint16_t* const from = x + a.from.taps[t] * bfloat16_block;
            tiles.template load<6>(w, 64);
            tiles.template load<4>(from, x_row);
            tiles.template multiply<0, 4, 6>();
            tiles.template load<7>(w + bfloat16_step / 2, 64);
            tiles.template multiply<1, 4, 7>();
            if (Rows == 2) {
                tiles.template load<5>(from + half * a.source_pixel, x_row);
                tiles.template multiply<2, 5, 6>();
                tiles.template multiply<3, 5, 7>();
            }
            for (int line = 0; line < next.lines; ++line, next.at += bfloat16_block) tile_unit::fetch(next.at);
            if (--until) continue;
            finish_some(end, before, bfloat16_block / 4);
            until = every;
        }
    finish_some(end, before, bfloat16_block);
    float* const to_below = to + half * to_pixel;
    tiles.template store<0>(to, to_row);
    tiles.template store<1>(to + half, to_row);
    if (Rows == 2) tiles.template store<2>(to_below, to_row);
    if (Rows == 2) tiles.template store<3>(to_below + half, to_row);
}

template <class Unit, class End>
inline void sum_block(Unit& tiles, const pixel_args& a, const std::uint16_t* x, const std::uint16_t* w, weights_ahead next, const float* start, pixel_sums& to,
                      const End& end, pixel_sums& before) {
    const auto sum = to.pixels > bfloat16_block / 2 ? &sum_tiles<2, Unit, End> : &sum_tiles<1, Unit, End>;
    sum(tiles, a, x, w, next, {start, 0}, to.sum[0], bfloat16_block, end, before);
}

// A step of a tile takes some 20 ns, and what follows the last one as much as three: tasks of 10 us.
inline const bfloat16_kernels* bfloat16_by_tiles() {
    static constexpr bfloat16_kernels all = {
        {&gather_bfloat16, &gather_bfloat16_planes, &multiply_pixels<bfloat16_tiles>, true, 500, 3}, &pack_bfloat16_weights, &bfloat16_images};
    return &all;
}
