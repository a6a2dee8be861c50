// The convolution of bytes by tiles: text, included for each kind of them. The lanes of four channels of an image are the rows of a tile already.

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
// What is not there is none of an output's: past the last pixel of an image the next lane's are read, or what the gathered memory has behind it.
inline void conv_quantized_tiles(const quantized_conv_args& a, std::int64_t tile, std::int64_t, std::int64_t part) {
    static_assert(quantized_rows_of_tiles == 32 && quantized_pixels == 48, "two tiles of output channels, three of pixels");
    constexpr int rows = quantized_rows_of_tiles, columns = quantized_pixels / V::W;
    const quantized_conv_problem& p = a.p;
    const std::int64_t pitch = a.from.pitch, pixels = (p.oh - 1) * pitch + p.ow, steps = p.lanes_of_channels();
    const auto [begin, end] = blocks_of_task(a, part);
    const std::int64_t first = tile * quantized_pixels, left = pixels - first;
    const int window = p.kh * p.kw, count = static_cast<int>(left < quantized_pixels ? left : quantized_pixels);
    const std::int32_t* const x = a.gathered + first;
    tile_unit tiles;
    alignas(64) std::int32_t made[rows * quantized_pixels];
    for (std::int64_t block = begin; block < end; ++block) {
        const std::int32_t* const w = a.weights + block * steps * window * rows;
        if (count > 16)
            sum_bytes<2>(tiles, x, a.from.taps, window, steps, a.from.planes(), w, made);
        else
            sum_bytes<1>(tiles, x, a.from.taps, window, steps, a.from.planes(), w, made);
        if (count > 32) sum_bytes<1>(tiles, x + 32, a.from.taps, window, steps, a.from.planes(), w, made + 32);
        for (int r = 0; r < rows && block * rows + r < p.oc; r += 4) {
            I sums[4][1];
            for (int c = 0; c < columns && c * V::W < count; ++c) {
                for (int k = 0; k < 4; ++k) {
                    const std::int64_t channel = block * rows + r + k;
                    sums[k][0] = I::load(made + (r + k) * quantized_pixels + c * V::W) + I::set1(channel < p.oc ? a.bias[channel] : 0);
                }
                const int here = count - c * V::W < V::W ? count - c * V::W : V::W;
                store_lane<1>(a, block * rows + r, first + c * V::W, here, pitch, sums);
            }
        }
    }
}
