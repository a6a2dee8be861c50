// Winograd convolution F(2 x 2, 3 x 3) of 8-bit images in integers: text, included once for each instruction set. Pixels are differences from the zero
// point, weights four times what Lavin and Gray (Fast Algorithms for Convolutional Neural Networks, 2015) have, so that both are whole numbers of 16
// bits and sums four times those of the window: the answer is exact. Sums may leave int32 on the way and are right again at the end, modulo 2^32.

// One lane of channels, two of them, for `count` tiles from `first` on: [tasks][16][lanes][tiles of a task]. Until it is stored a pair of numbers is low +
// 65536 * high: sums of such are the sums of both.
inline void gather_winograd(const quantized_conv_args& a, std::int64_t lane, std::int64_t first_tile, std::int64_t count) {
    const quantized_conv_problem& p = a.p;
    const std::int64_t wide = p.winograd_tiles_wide(), element = p.lanes_of_channels() * quantized_pixels;
    constexpr std::int64_t room = quantized_winograd_width / 2 + 1 + V::W;
    std::int32_t even[room], odd[room], rows[4][4][room];
    quantized_lanes l = lanes_of(a, lane);
    // Codes as they are, less the zero point in both halves.
    l.add = 0u - static_cast<std::uint32_t>(p.unsigned_zero()) * 0x00010001u;
    l.flip_back = 0;
    std::int32_t* const to = a.gathered + lane * quantized_pixels;
    const I half = I::set1(0x8000);
    for (std::int64_t ty = first_tile / wide, row = 2 * ty; ty * wide < first_tile + count; ++ty) {
        for (; row < 2 * ty + 4; ++row) {
            const std::int64_t iy = row - p.pt;
            std::int32_t(&h)[4][room] = rows[row % 4];
            // Padded columns 0, 2, ... and 1, 3, ....
            for (int phase = 0; phase < 2; ++phase)
                fill_row(p, l, iy, phase - p.pl, 2, wide + V::W, wide + V::W, reinterpret_cast<std::uint32_t*>(phase ? odd : even));
            for (std::int64_t i = 0; i < wide; i += V::W) {
                I d[4] = {I::load(even + i), I::load(odd + i), I::load(even + i + 1), I::load(odd + i + 1)};
                input_transform(d);
                GRAFT_UNROLL
                for (int j = 0; j < 4; ++j) d[j].store(h[j] + i);
            }
        }
        for (std::int64_t i = 0; i < wide; i += V::W) {
            const std::int64_t tile = ty * wide + i - first_tile, left = wide - i < V::W ? wide - i : V::W;
            const bool whole = tile >= 0 && tile % quantized_pixels + V::W <= quantized_pixels && tile < count;
            // Beyond the row lie tiles that come later.
            std::int32_t some[16 * V::W];
            std::int32_t* const stored = whole ? to + tile / quantized_pixels * a.slot + tile % quantized_pixels : some;
            const std::int64_t step = whole ? element : V::W;
            GRAFT_UNROLL
            for (int j = 0; j < 4; ++j) {
                I d[4];
                GRAFT_UNROLL
                for (int k = 0; k < 4; ++k) d[k] = I::load(rows[(2 * ty + k) % 4][j] + i);
                input_transform(d);
                // Back to two numbers of 16 bits: what the low one borrowed from the high one is returned.
                GRAFT_UNROLL
                for (int k = 0; k < 4; ++k) ((d[k] + half) ^ half).store(stored + (4 * k + j) * step);
            }
            for (std::int64_t n = 0; !whole && n < left; ++n) {
                if (tile + n < 0 || tile + n >= count) continue;
                std::int32_t* const one = to + (tile + n) / quantized_pixels * a.slot + (tile + n) % quantized_pixels;
                for (int e = 0; e < 16; ++e) one[e * element] = some[e * V::W + n];
            }
        }
    }
}

// The sums of a task's tiles, of one channel, become two rows of codes.
GRAFT_VECTOR void finish_winograd(const quantized_conv_args& a, std::int64_t channel, std::int64_t count, const std::int32_t* sums,
                                  std::uint8_t (&codes)[2][2 * quantized_pixels]) {
    const quantized_conv_problem& p = a.p;
    const V scale = V::set1(a.scale[channel]);
    const I bias = I::set1(a.bias[channel]);
    float steps[2][2 * quantized_pixels];
    for (std::int64_t i = 0; i < count; i += V::W) {
        I half[2][4];  // of the two rows of outputs
        GRAFT_UNROLL
        for (int j = 0; j < 4; ++j) {
            I m[4], y[2];
            GRAFT_UNROLL
            for (int k = 0; k < 4; ++k) m[k] = I::load(sums + (4 * k + j) * quantized_rows * quantized_pixels + i);
            output_transform(m, y);
            half[0][j] = y[0];
            half[1][j] = y[1];
        }
        GRAFT_UNROLL
        for (int row = 0; row < 2; ++row) {
            I y[2];
            output_transform(half[row], y);
            const V left = to_float(shift_right_arithmetic<2>(y[0]) + bias) * scale, right = to_float(shift_right_arithmetic<2>(y[1]) + bias) * scale;
            zip_low(left, right).store(steps[row] + 2 * i);
            zip_high(left, right).store(steps[row] + 2 * i + V::W);
        }
    }
    for (int row = 0; row < 2; ++row)
        for (std::int64_t i = 0; i < 2 * count; i += 16) {
            V some[16 / V::W];
            GRAFT_UNROLL
            for (int k = 0; k < 16 / V::W; ++k) some[k] = V::load(steps[row] + i + k * V::W);
            store_codes(some, p.y_zero, p.low, p.high, codes[row] + i);
        }
}

// As conv_quantized, with tiles of 2 x 2 outputs in place of pixels.
inline void conv_winograd(const quantized_conv_args& a, std::int64_t group, std::int64_t slot, std::int64_t part) {
    const quantized_conv_problem& p = a.p;
    const std::int64_t wide = p.winograd_tiles_wide(), all = wide * p.winograd_tiles_high(), lanes = p.lanes_of_channels();
    const std::int64_t first = group * quantized_pixels, count = all - first < quantized_pixels ? all - first : quantized_pixels;
    const auto [begin, end] = blocks_of_task(a, part);
    alignas(64) std::int32_t sums[16 * quantized_rows * quantized_pixels];
    for (std::int64_t block = begin; block < end; ++block) {
        for (int e = 0; e < 16; ++e)
            sum_tile(a.gathered + slot * a.slot + e * lanes * quantized_pixels, lanes, a.weights + (block * 16 + e) * lanes * quantized_rows, count,
                     sums + e * quantized_rows * quantized_pixels);
        for (int r = 0; r < quantized_rows && block * quantized_rows + r < p.oc; ++r) {
            const std::int64_t channel = block * quantized_rows + r;
            std::uint8_t codes[2][2 * quantized_pixels], *const y = a.y + channel * p.oh * p.ow;
            finish_winograd(a, channel, count, sums + r * quantized_pixels, codes);
            for (std::int64_t i = 0; i < count;) {
                const std::int64_t ty = (first + i) / wide, tx = (first + i) % wide, run = wide - tx < count - i ? wide - tx : count - i;
                const std::int64_t columns = p.ow - 2 * tx < 2 * run ? p.ow - 2 * tx : 2 * run;
                for (std::int64_t row = 0; row < 2 && 2 * ty + row < p.oh; ++row) copy_bytes(codes[row] + 2 * i, columns, y + (2 * ty + row) * p.ow + 2 * tx);
                i += run;
            }
        }
    }
}
