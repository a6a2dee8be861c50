// The convolution of bytes by tiles: text, included for each kind of them. The lanes of four channels that were gathered are the rows of a tile already.

// 32 output channels by some pixels, 16 lanes of channels of one tap at a time: Columns vectors of sixteen pixels.
template <int Columns>
GRAFT_VECTOR void sum_bytes(tile_unit& tiles, const std::int32_t* x, const std::int64_t* taps, int count, std::int64_t steps, std::int64_t step,
                            const std::int32_t* w, std::int32_t* sums) {
    const std::ptrdiff_t lane = static_cast<std::ptrdiff_t>(step) * 4;
    tiles.zero<0>();
    tiles.zero<2>();
    if (Columns == 2) tiles.zero<1>(), tiles.zero<3>();
    for (; steps > 0; steps -= 16, x += 16 * step)
        for (int t = 0; t < count; ++t, w += 512) {
            const std::int32_t* const from = x + taps[t];
            tiles.load<4>(w, 64);
            tiles.load<6>(from, lane);
            tiles.multiply_bytes<0, 4, 6>();
            tiles.load<5>(w + 256, 64);
            tiles.multiply_bytes<2, 5, 6>();
            if (Columns == 2) {
                tiles.load<7>(from + 16, lane);
                tiles.multiply_bytes<1, 4, 7>();
                tiles.multiply_bytes<3, 5, 7>();
            }
        }
    constexpr std::ptrdiff_t row = quantized_pixels * 4;
    tiles.store<0>(sums, row);
    tiles.store<2>(sums + 16 * quantized_pixels, row);
    if (Columns == 2) {
        tiles.store<1>(sums + 16, row);
        tiles.store<3>(sums + 16 * quantized_pixels + 16, row);
    }
}
inline void conv_quantized_tiles(const quantized_conv_args& a, std::int64_t tile, std::int64_t slot, std::int64_t part) {
    static_assert(quantized_rows_of_tiles == 32 && quantized_pixels == 48, "two tiles of output channels, three of pixels");
    tile_unit tiles;
    const auto multiply = [&tiles](const std::int32_t* x, const std::int64_t* taps, int count, std::int64_t steps, std::int64_t step, const std::int32_t* w,
                                   int pixels, std::int32_t* sums) {
        if (pixels > 16)
            sum_bytes<2>(tiles, x, taps, count, steps, step, w, sums);
        else
            sum_bytes<1>(tiles, x, taps, count, steps, step, w, sums);
        if (pixels > 32) sum_bytes<1>(tiles, x + 32, taps, count, steps, step, w, sums + 32);
    };
    conv_quantized_by<quantized_rows_of_tiles>(a, tile, slot, part, multiply);
}
