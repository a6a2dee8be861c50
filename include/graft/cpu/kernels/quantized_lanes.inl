// 8-bit images in lanes of four channels, as unsigned numbers, on machines that multiply four bytes a lane: text, included for each kind of them. A convolution
// of one tap reads them where they lie; for others the image is copied once, with its padding.

GRAFT_VECTOR I load_some(const std::int32_t* from, int lanes) { return as_int(V::load_partial(reinterpret_cast<const float*>(from), lanes)); }
GRAFT_VECTOR void store_some(I a, std::int32_t* to, int lanes) { as_float(a).store_partial(reinterpret_cast<float*>(to), lanes); }

// Four planes (of which `channels` are there) to lanes and back. `flip` is 0x80808080 where the codes are signed.
inline void codes_to_lanes(const std::uint8_t* x, std::int64_t plane, int channels, std::int32_t flip, std::int64_t count, std::int32_t* y) {
    const std::uint8_t* from[4];
    for (int c = 0; c < 4; ++c) from[c] = x + (c < channels ? c : 0) * plane;
    std::int64_t i = 0;
    for (; i + V::W <= count; i += V::W)
        (((load_u8(from[0] + i) | shift_left<8>(load_u8(from[1] + i))) | (shift_left<16>(load_u8(from[2] + i)) | shift_left<24>(load_u8(from[3] + i)))) ^
         I::set1(flip))
            .store(y + i);
    for (; i < count; ++i) {
        std::uint32_t all = 0;
        for (int c = 0; c < 4; ++c) all |= std::uint32_t(from[c][i]) << (8 * c);
        y[i] = static_cast<std::int32_t>(all) ^ flip;
    }
}
inline void lanes_to_codes(const std::int32_t* x, std::int64_t plane, int channels, std::int32_t flip, std::int64_t count, std::uint8_t* y) {
    std::int64_t i = 0;
    for (; i + V::W <= count; i += V::W) {
        const I all = I::load(x + i) ^ I::set1(flip);
        store_8(all, y + i);
        if (channels > 1) store_8(shift_right<8>(all), y + plane + i);
        if (channels > 2) store_8(shift_right<16>(all), y + 2 * plane + i);
        if (channels > 3) store_8(shift_right<24>(all), y + 3 * plane + i);
    }
    for (; i < count; ++i)
        for (int c = 0; c < channels; ++c) y[c * plane + i] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(x[i] ^ flip) >> (8 * c));
}

GRAFT_VECTOR void fill_lanes_with(std::int32_t lane, std::int64_t count, std::int32_t* to) {
    const I all = I::set1(lane);
    std::int64_t i = 0;
    for (; i + V::W <= count; i += V::W) all.store(to + i);
    if (i < count) store_some(all, to + i, static_cast<int>(count - i));
}
// Every `step`-th of what lies at `from`. Rows are short, and images are copied lane by lane: written out, as compilers do not make vectors of such loops.
GRAFT_VECTOR void copy_lanes(const std::int32_t* from, std::int64_t step, std::int64_t count, std::int32_t* to) {
    std::int64_t i = 0;
    if (step == 1) {
        for (; i + V::W <= count; i += V::W) I::load(from + i).store(to + i);
        if (i < count) store_some(load_some(from + i, static_cast<int>(count - i)), to + i, static_cast<int>(count - i));
    } else if (step == 2) {
        for (; i + V::W < count; i += V::W) even_lanes(I::load(from + 2 * i), I::load(from + 2 * i + V::W)).store(to + i);
        if (i == count) return;
        const int rest = static_cast<int>(count - i), first = 2 * rest - 1 < V::W ? 2 * rest - 1 : V::W;
        const I high = 2 * rest - 1 > V::W ? load_some(from + 2 * i + V::W, 2 * rest - 1 - V::W) : I::set1(0);
        store_some(even_lanes(load_some(from + 2 * i, first), high), to + i, rest);
    } else
        for (; i < count; ++i) to[i] = from[i * step];
}
// Rows [first, first + rows) of a lane's planes, those of phase py one below the other, then those of the next.
GRAFT_VECTOR void copy_planes(const quantized_conv_problem& p, const image_planes& g, const std::int32_t* x, std::int64_t first, std::int64_t rows,
                              std::int32_t* to) {
    const std::int32_t empty = in_all_bytes(p.unsigned_zero());
    for (std::int64_t py = 0; py < g.row_phases; ++py)
        for (std::int64_t px = 0; px < g.column_phases; ++px) {
            const std::int64_t ix = g.column_phase[px] - p.pl;
            const column_span inside = columns_inside(ix, p.iw, p.sw, g.pitch);
            for (std::int64_t row = first; row < first + rows; ++row, to += g.pitch) {
                const std::int64_t iy = row * p.sh + g.row_phase[py] - p.pt;
                if (iy < 0 || iy >= p.ih || inside.first >= inside.last) {
                    fill_lanes_with(empty, g.pitch, to);
                    continue;
                }
                fill_lanes_with(empty, inside.first, to);
                copy_lanes(x + iy * p.iw + ix + inside.first * p.sw, p.sw, inside.last - inside.first, to + inside.first);
                fill_lanes_with(empty, g.pitch - inside.last, to + inside.last);
            }
        }
}
inline void gather_lanes(const quantized_conv_args& a, std::int64_t lane) {
    const quantized_conv_problem& p = a.p;
    std::int32_t* const to = a.gathered + lane * a.from.planes();
    if (lane * 4 < p.ic)
        copy_planes(p, a.from, reinterpret_cast<const std::int32_t*>(a.x) + lane * p.ih * p.iw, 0, a.from.rows, to);
    else
        fill_lanes_with(0, a.from.planes(), to);
}

// A row of a matrix, its codes unsigned; what is beyond its columns meets weights of zero.
inline void gather_row_of_codes(const quantized_conv_args& a, std::int64_t row) {
    const std::int64_t columns = a.p.ic, bytes = a.p.lanes(columns) * 4;
    const std::uint8_t* const from = a.x + row * columns;
    std::uint8_t *const to = reinterpret_cast<std::uint8_t*>(a.gathered) + row * bytes, flip = a.p.x_signed ? 0x80 : 0;
    for (std::int64_t i = 0; i < columns; ++i) to[i] = static_cast<std::uint8_t>(from[i] ^ flip);
    for (std::int64_t i = columns; i < bytes; ++i) to[i] = 0;
}

// Sums become codes, as store_codes has it, but unsigned ones: as their steps fit int32, what is too low or too high is cut off as they become bytes,
// sixty-four at once.
struct lane_end {
    std::int32_t zero, low, high;  // codes, the last two in all four bytes
};
GRAFT_VECTOR lane_end lane_end_of(int zero, int low, int high) { return {zero, in_all_bytes(low), in_all_bytes(high)}; }
GRAFT_VECTOR lane_end end_of(const quantized_conv_problem& p) {
    const int lift = p.y_signed ? 128 : 0;
    return lane_end_of(p.y_zero + lift, p.low + lift, p.high + lift);
}
GRAFT_VECTOR I steps_of(I sum, V scale) { return to_int(to_float(sum) * scale); }
// Of each four lanes of a, of b, of c and of d the codes: sixteen bytes.
GRAFT_VECTOR I pack_codes(const lane_end& e, I a, I b, I c, I d) {
    return min_bytes(max_bytes(pack_bytes(a, b, c, d, I::set1(e.zero * 0x00010001)), I::set1(e.low)), I::set1(e.high));
}

// `count` neighbours in an image whose rows lie `pitch` apart, of which those that are outputs go to their rows.
GRAFT_VECTOR void store_rows(const quantized_conv_problem& p, const std::int32_t* codes, std::int64_t first, std::int64_t count, std::int64_t pitch,
                             std::int32_t* y) {
    std::int64_t row = first / pitch, column = first % pitch;
    for (std::int64_t i = 0; i < count; ++row, column = 0) {
        const std::int64_t whole = pitch - column, here = whole < count - i ? whole : count - i, used = p.ow - column < here ? p.ow - column : here;
        if (used > 0) copy_lanes(codes + i, 1, used, y + row * p.ow + column);
        i += here;
    }
}
// Four channels' sums of some neighbours: one lane of each.
template <int Columns>
GRAFT_VECTOR void store_lane(const quantized_conv_args& a, std::int64_t channel, std::int64_t first, int count, std::int64_t pitch, const I (*sums)[Columns]) {
    const quantized_conv_problem& p = a.p;
    const lane_end e = end_of(p);
    V scale[4];
    GRAFT_UNROLL
    for (int r = 0; r < 4; ++r) scale[r] = V::set1(channel + r < p.oc ? a.scale[channel + r] : 0);
    I lanes[Columns];
    GRAFT_UNROLL
    for (int c = 0; c < Columns; ++c)
        lanes[c] = turn_fours(
            pack_codes(e, steps_of(sums[0][c], scale[0]), steps_of(sums[1][c], scale[1]), steps_of(sums[2][c], scale[2]), steps_of(sums[3][c], scale[3])));
    std::int32_t* const y = reinterpret_cast<std::int32_t*>(a.y) + channel / 4 * p.oh * p.ow;
    const int last = count - (Columns - 1) * V::W;
    if (pitch == p.ow) {
        GRAFT_UNROLL
        for (int c = 0; c + 1 < Columns; ++c) lanes[c].store(y + first + c * V::W);
        store_some(lanes[Columns - 1], y + first + (Columns - 1) * V::W, last);
        return;
    }
    std::int32_t codes[Columns * V::W];
    GRAFT_UNROLL
    for (int c = 0; c < Columns; ++c) lanes[c].store(codes + c * V::W);
    store_rows(p, codes, first, count, pitch, y);
}

#include "quantized_lanes_conv.inl"
#include "quantized_lanes_depthwise.inl"

// Of each lane of codes one, less its zero point, in reals: the bits of a code behind those of 2^23 are 2^23 and the code.
template <int Byte>
GRAFT_VECTOR V code_in(I lanes, V zero) {
    const I code = Byte == 3 ? shift_right<24>(lanes) : shift_right<8 * (Byte & 3)>(lanes) & I::set1(0xff);
    return as_float(code | I::set1(0x4b000000)) - zero;
}
// The sums of sum_codes, of four channels a lane. Their quotients by y_scale fit int32.
struct lane_sum {
    V a_zero, a_scale, b_zero, b_scale;  // zero points with 2^23
    sum_divider by;
    lane_end codes;
};
template <int Byte>
GRAFT_VECTOR I steps_of_sum(const lane_sum& s, I a, I b) {
    return to_int(divide(code_in<Byte>(a, s.a_zero) * s.a_scale + code_in<Byte>(b, s.b_zero) * s.b_scale, s.by));
}
GRAFT_VECTOR I sum_of_lanes(const lane_sum& s, I a, I b) {
    return turn_fours(pack_codes(s.codes, steps_of_sum<0>(s, a, b), steps_of_sum<1>(s, a, b), steps_of_sum<2>(s, a, b), steps_of_sum<3>(s, a, b)));
}
inline void sum_lanes(const quantized_sum_problem& p, const std::int32_t* a, const std::int32_t* b, std::int32_t* y, std::int64_t count) {
    const auto with_power = [](int zero) { return V::set1(static_cast<float>((1 << 23) + zero)); };
    const lane_sum s = {with_power(p.a_zero), V::set1(p.a_scale), with_power(p.b_zero),
                        V::set1(p.b_scale),   divider_of(p),      lane_end_of(p.y_zero, p.low, p.high)};
    std::int64_t i = 0;
    for (; i + V::W <= count; i += V::W) sum_of_lanes(s, I::load(a + i), I::load(b + i)).store(y + i);
    if (i == count) return;
    const int rest = static_cast<int>(count - i);
    store_some(sum_of_lanes(s, load_some(a + i, rest), load_some(b + i, rest)), y + i, rest);
}

// Of some columns of a row of windows the largest of their rows, which lie `row` apart.
GRAFT_VECTOR void largest_of_rows(const std::int32_t* from, std::int64_t row, std::int64_t rows, std::int64_t count, std::int32_t* to) {
    for (std::int64_t i = 0; i < count; i += V::W) {
        const int some = static_cast<int>(count - i < V::W ? count - i : V::W);
        I most = I::set1(0);
        for (std::int64_t r = 0; r < rows; ++r) most = max_bytes(most, some == V::W ? I::load(from + r * row + i) : load_some(from + r * row + i, some));
        store_some(most, to + i, some);
    }
}
// Of each window's columns the largest, and of these every sw-th: two at a time by vectors, as most have it, and further ones picked behind that.
inline void max_pool_lanes(const pool_problem& p, const std::int32_t* x, std::int32_t* y) {
    const std::int64_t columns = std::int64_t(p.kw - 1) * p.dw, width = (p.ow - 1) * p.sw + columns + 1, starts = width - columns;
    const std::int64_t first = p.pl < width ? p.pl : width, last = p.pl + p.iw < width ? p.pl + p.iw : width;
    constexpr std::int64_t behind = 3 * V::W;  // what the last vectors read
    const bool pairs = p.sw == 2, picks = p.sw > 2;
    std::int32_t down[quantized_row + behind], across[quantized_row];
    fill_lanes_with(0, width + behind, down);
    for (std::int64_t oy = 0; oy < p.oh; ++oy, y += p.ow) {
        const std::int64_t top = oy * p.sh - p.pt;
        const column_span inside = columns_inside(top, p.ih, p.dh, p.kh);
        const std::int64_t rows = inside.last - inside.first, row = rows > 0 ? top + inside.first * p.dh : 0;
        largest_of_rows(x + row * p.iw + first - p.pl, p.iw * p.dh, rows, last - first, down + first);
        const std::int64_t outputs = picks ? starts : p.ow;
        std::int32_t* const to = picks ? across : y;
        for (std::int64_t i = 0; i < outputs; i += V::W) {
            I most = I::set1(0);
            for (int kx = 0; kx < p.kw; ++kx) {
                const std::int32_t* const at = down + (pairs ? 2 : 1) * i + std::int64_t(kx) * p.dw;
                most = max_bytes(most, pairs ? even_lanes(I::load(at), I::load(at + V::W)) : I::load(at));
            }
            store_some(most, to + i, static_cast<int>(outputs - i < V::W ? outputs - i : V::W));
        }
        if (picks) copy_lanes(across, p.sw, p.ow, y);
    }
}

inline const byte_kernels* bytes_in_lanes() {
    static constexpr byte_kernels all = {&codes_to_lanes,    &lanes_to_codes,  &gather_lanes, &gather_row_of_codes, &conv_lanes,
                                         &conv_lanes_of_few, &depthwise_lanes, &sum_lanes,    &max_pool_lanes};
    return &all;
}
