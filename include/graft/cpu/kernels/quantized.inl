// Convolutions of 8-bit images: text, included once for each instruction set. Sums are integers, so their order changes nothing;
// reals behind them are computed one by one, in the same steps on every set.

// Pixels of two channels in 32-bit lanes: differences from the zero point in 16 bits.
struct quantized_lanes {
    const std::uint8_t* plane[2];
    const std::uint8_t* limit;           // of what may be read
    std::uint32_t flip, add, flip_back;  // ((codes ^ flip) + add) ^ flip_back; no sum carries into the next channel
};
GRAFT_VECTOR quantized_lanes lanes_of(const quantized_conv_args& a, std::int64_t lane) {
    const quantized_conv_problem& p = a.p;
    quantized_lanes l{};
    for (int c = 0; c < 2; ++c) {
        const std::int64_t channel = lane * 2 + c;
        // Channels that are not there meet weights of zero.
        l.plane[c] = a.x + (channel < p.ic ? channel : p.ic - 1) * p.ih * p.iw;
    }
    l.limit = a.x + p.ic * p.ih * p.iw;
    l.flip = p.x_signed ? 0x00800080u : 0;
    l.add = (0x8000u - static_cast<std::uint32_t>(p.unsigned_zero())) * 0x00010001u;
    l.flip_back = 0x80008000u;
    return l;
}
// n / step, rounded up: a division only where the step is no common one.
GRAFT_VECTOR std::int64_t steps_up(std::int64_t n, std::int64_t step) { return step == 1 ? n : step == 2 ? (n + 1) >> 1 : (n + step - 1) / step; }
// Codes `stride` apart, 1 or 2, each in a lane; 2 V::W bytes may be read where it is 2.
GRAFT_VECTOR I load_apart(const std::uint8_t* from, std::int64_t stride) {
    if (stride == 1) return load_u8(from);
    std::uint16_t pairs[V::W];  // that need not lie on even addresses
    std::memcpy(pairs, from, sizeof pairs);
    return shift_right<24>(shift_left<8>(as_int(load_bf16(pairs))));
}
// to[i] = the lane of the pixel `offset + i * stride` of each plane, for i in [0, count); up to `room` may be written.
GRAFT_VECTOR void fill_lanes(const quantized_lanes& l, std::int64_t offset, std::int64_t stride, std::int64_t count, std::int64_t room, std::uint32_t* to) {
    const std::uint8_t* const last = l.plane[0] < l.plane[1] ? l.plane[1] : l.plane[0];
    const I flip = I::set1(static_cast<std::int32_t>(l.flip)), add = I::set1(static_cast<std::int32_t>(l.add)),
            back = I::set1(static_cast<std::int32_t>(l.flip_back));
    std::int64_t i = 0;
    if (stride <= 2) {
        const std::int64_t bytes = l.limit - (last + offset), readable = stride == 2 ? bytes >> 1 : bytes, most = room < readable ? room : readable;
        for (; i < count && i + V::W <= most; i += V::W) {
            const std::int64_t at = offset + i * stride;
            const I both = load_apart(l.plane[0] + at, stride) | shift_left<16>(load_apart(l.plane[1] + at, stride));
            (((both ^ flip) + add) ^ back).store(reinterpret_cast<std::int32_t*>(to + i));
        }
    }
    for (; i < count; ++i) {
        const std::uint32_t both = l.plane[0][offset + i * stride] | std::uint32_t(l.plane[1][offset + i * stride]) << 16;
        to[i] = ((both ^ l.flip) + l.add) ^ l.flip_back;
    }
}
// Of columns ix, ix + step, ...: which of the first `count` are inside an image of that width.
struct column_span {
    std::int64_t first, last;
};
GRAFT_VECTOR column_span columns_inside(std::int64_t ix, std::int64_t width, std::int64_t step, std::int64_t count) {
    const std::int64_t end = width > ix ? steps_up(width - ix, step) : 0, start = ix < 0 ? steps_up(-ix, step) : 0, last = end < count ? end : count;
    return {start < last ? start : last, last};
}
// The lanes of `count` pixels of row iy, `step` apart from column ix on, padding among them; up to `room` may be written.
GRAFT_VECTOR void fill_row(const quantized_conv_problem& p, const quantized_lanes& l, std::int64_t iy, std::int64_t ix, std::int64_t step, std::int64_t count,
                           std::int64_t room, std::uint32_t* to) {
    const column_span inside = columns_inside(ix, p.iw, step, iy >= 0 && iy < p.ih ? count : 0);
    for (std::int64_t i = 0; i < inside.first; ++i) to[i] = 0;
    if (inside.first < inside.last)
        fill_lanes(l, iy * p.iw + ix + inside.first * step, step, inside.last - inside.first, room - inside.first, to + inside.first);
    for (std::int64_t i = inside.last; i < count; ++i) to[i] = 0;
}
// What the taps of one tile read: [lanes][taps][pixels of the tile], which it takes in one stream. `slot` is the tile's place in the memory.
inline void gather_quantized_tile(const quantized_conv_args& a, std::int64_t tile, std::int64_t slot) {
    const quantized_conv_problem& p = a.p;
    const std::int64_t lanes = p.lanes_of_channels(), begin = tile * quantized_pixels, pixels = p.oh * p.ow;
    const std::int64_t end = begin + quantized_pixels < pixels ? begin + quantized_pixels : pixels, first_row = begin / p.ow, first_column = begin % p.ow;
    std::uint32_t* to = reinterpret_cast<std::uint32_t*>(a.gathered) + slot * a.slot;
    std::uint32_t* const stop = to + a.slot;
    const bool flat = p.sw == 1 && p.sh == 1 && p.iw == p.ow && p.kh * p.kw == 1 && p.pt == 0 && p.pl == 0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const quantized_lanes l = lanes_of(a, lane);
        if (flat) {
            fill_lanes(l, begin, 1, end - begin, stop - to, to);
            to += quantized_pixels;
            continue;
        }
        for (int ky = 0; ky < p.kh; ++ky)
            for (int kx = 0; kx < p.kw; ++kx, to += quantized_pixels) {
                std::int64_t oy = first_row, ox = first_column;
                std::uint32_t* at = to;
                for (std::int64_t left = end - begin; left > 0; ++oy, ox = 0) {
                    const std::int64_t here = p.ow - ox < left ? p.ow - ox : left;
                    fill_row(p, l, oy * p.sh - p.pt + std::int64_t(ky) * p.dh, ox * p.sw - p.pl + std::int64_t(kx) * p.dw, p.sw, here, stop - at, at);
                    at += here;
                    left -= here;
                }
            }
    }
}

// Rows are short: a call for each would cost more than the copy.
GRAFT_VECTOR void copy_bytes(const std::uint8_t* from, std::int64_t count, std::uint8_t* to) {
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) std::memcpy(to + i, from + i, 8);
    if (i == count) return;
    if (count >= 8)
        std::memcpy(to + count - 8, from + count - 8, 8);
    else if (count >= 4) {
        std::memcpy(to, from, 4);
        std::memcpy(to + count - 4, from + count - 4, 4);
    } else
        for (; i < count; ++i) to[i] = from[i];
}

// Sums of a tile of outputs become bytes in a channel's rows.
GRAFT_VECTOR void store_quantized(const quantized_conv_args& a, std::int64_t channel, std::int64_t first, std::int64_t count, const std::int32_t* sums) {
    const quantized_conv_problem& p = a.p;
    const V scale = V::set1(a.scale[channel]);
    const I bias = I::set1(a.bias[channel]);
    std::uint8_t codes[quantized_pixels], *const y = a.y + channel * p.oh * p.ow + first;
    std::uint8_t* const to = count == quantized_pixels ? y : codes;
    for (std::int64_t i = 0; i < count; i += 16) {
        V steps[16 / V::W];
        GRAFT_UNROLL
        for (int k = 0; k < 16 / V::W; ++k) steps[k] = to_float(I::load(sums + i + k * V::W) + bias) * scale;
        store_codes(steps, p.y_zero, p.low, p.high, to + i);
    }
    if (to == codes) copy_bytes(codes, count, y);
}

// Two 16-bit products a lane.
template <int R, int C>
GRAFT_VECTOR void add_pairs(I (&total)[R][C], const std::int32_t* x, const std::int32_t* w) {
    I pixels[C];
    GRAFT_UNROLL
    for (int c = 0; c < C; ++c) pixels[c] = I::load(x + c * V::W);
    GRAFT_UNROLL
    for (int r = 0; r < R; ++r) {
        const I by = I::set1(w[r]);
        GRAFT_UNROLL
        for (int c = 0; c < C; ++c) total[r][c] = total[r][c] + multiply_pairs(pixels[c], by);
    }
}
// R of a tile's rows, C vectors of its pixels, all of whose sums stay in registers.
template <int R, int C>
GRAFT_NOINLINE inline void sum_pairs(const std::int32_t* x, std::int64_t steps, const std::int32_t* w, std::int32_t* sums) {
    I total[R][C];
    GRAFT_UNROLL
    for (int r = 0; r < R; ++r) GRAFT_UNROLL
    for (int c = 0; c < C; ++c) total[r][c] = I::set1(0);
    const std::int32_t* const end = w + steps * quantized_rows;
    for (; w != end; x += quantized_pixels, w += quantized_rows) add_pairs(total, x, w);
    GRAFT_UNROLL
    for (int r = 0; r < R; ++r) GRAFT_UNROLL
    for (int c = 0; c < C; ++c) total[r][c].store(sums + r * quantized_pixels + c * V::W);
}
// Sums of 8 output channels for `pixels` pixels, which are gathered tile by tile.
GRAFT_VECTOR void sum_tile(const std::int32_t* x, std::int64_t steps, const std::int32_t* w, std::int64_t pixels, std::int32_t* sums) {
    constexpr int columns = V::registers == 32 ? 3 : 2, rows = V::registers == 32 ? 8 : 4;
    std::int64_t c = 0;
    for (; c + V::W < pixels; c += columns * V::W)
        for (int r = 0; r < quantized_rows; r += rows) sum_pairs<rows, columns>(x + c, steps, w + r, sums + r * quantized_pixels + c);
    if (c < pixels) sum_pairs<quantized_rows, 1>(x + c, steps, w, sums + c);
}
// The blocks of output channels of a task.
struct block_span {
    std::int64_t begin, end;
};
GRAFT_VECTOR block_span blocks_of_task(const quantized_conv_args& a, std::int64_t part) {
    const std::int64_t begin = part * a.blocks_a_task, end = begin + a.blocks_a_task, blocks = a.p.blocks();
    return {begin, end < blocks ? end : blocks};
}
// A task of a convolution: the tile of pixels that is gathered in `slot`, and some blocks of channels.
inline void conv_quantized(const quantized_conv_args& a, std::int64_t tile, std::int64_t slot, std::int64_t part) {
    const quantized_conv_problem& p = a.p;
    const std::int64_t pixels = p.oh * p.ow, taps = p.kh * p.kw, steps = p.lanes_of_block() * taps;
    const std::int64_t first = tile * quantized_pixels, count = pixels - first < quantized_pixels ? pixels - first : quantized_pixels;
    const auto [begin, end] = blocks_of_task(a, part);
    alignas(64) std::int32_t sums[quantized_rows * quantized_pixels];
    for (std::int64_t block = begin; block < end; ++block) {
        sum_tile(a.gathered + slot * a.slot + p.first_lane(block) * taps * quantized_pixels, steps, a.weights + block * steps * quantized_rows, count, sums);
        for (int r = 0; r < quantized_rows && block * quantized_rows + r < p.oc; ++r)
            store_quantized(a, block * quantized_rows + r, first, count, sums + r * quantized_pixels);
    }
}
