// Convolutions and matrix products of bfloat16 with float32 sums: text, included for each set that rounds to them.

#include "pixels.inl"

GRAFT_VECTOR V load_lanes(const float* from, std::int64_t lanes) {
    return lanes >= V::W ? V::load(from) : lanes > 0 ? V::load_partial(from, static_cast<int>(lanes)) : V::zero();
}

// Where sixteen output channels of a pair of channels lie in a step's weights.
GRAFT_VECTOR std::uint16_t* pair_in_step(bool tiles, std::uint16_t* step, int pair, int channel) {
    constexpr int half = bfloat16_block / 2;
    const int pairs = tiles ? bfloat16_block : 2 * bfloat16_block, beside = tiles ? bfloat16_step / 2 : bfloat16_block;
    return step + pair * pairs + channel / half * beside + channel % half * 2;
}

// Output channels of some channels and all taps, as floats: `to` is [channel][tap][W], zeros past the last output channel. Rows of memory are read as they
// lie: an output channel's, a channel's, or, of a matrix, a channel's of one tap.
inline GRAFT_NOINLINE void load_weights(const bfloat16_weights& w, const float* weight, std::int64_t channel, std::int64_t channels, int lanes, float* to) {
    const int taps = static_cast<int>(w.taps);
    const float* const first_tap = w.tap < 0 ? weight - (taps - 1) : weight;
    const bool adjacent = w.unrolled == 1 && (taps == 1 || w.tap == 1 || w.tap == -1);
    const std::int64_t at_once = adjacent && w.in == taps ? channels : 1;
    for (std::int64_t c = channel; c < channel + channels; c += at_once, to += at_once * taps * V::W) {
        const float* const of = (adjacent ? first_tap : weight) + c / w.unrolled * w.in + c % w.unrolled;
        if (adjacent && w.out == 1)
            load_lanes(of, lanes).store(to);
        else if (adjacent)
            planes_to_block(of, w.out, lanes, 0, at_once * taps, to);
        else
            for (int i = 0; i < taps * V::W; ++i) to[i] = i % V::W < lanes ? of[i % V::W * w.out + i / V::W * w.tap] : 0;
    }
}

inline void pack_bfloat16_weights(const bfloat16_weights& w, const float* weight, std::int64_t count, bool tiles, std::uint16_t* to) {
    const bool turned = w.tap < 0 && w.unrolled == 1;
    const V by = V::set1(w.factor);
    alignas(64) float some[2 * bfloat16_most_taps * V::W];
    const std::int64_t at_once = bfloat16_most_taps / w.taps * 2;  // channels, evenly many
    for (std::int64_t block = 0; block < w.channels; block += bfloat16_block, to += w.taps * bfloat16_step) {
        const std::int64_t left = w.channels - block, channels = left < bfloat16_block ? left : bfloat16_block;
        if (channels < bfloat16_block || count < bfloat16_block) std::memset(to, 0, static_cast<std::size_t>(w.taps) * bfloat16_step * sizeof *to);
        for (int v = 0; v < bfloat16_block && v < count; v += V::W)
            for (std::int64_t first = 0, n; first < channels; first += n) {
                n = channels - first < at_once ? channels - first : at_once;
                const int lanes = static_cast<int>(count - v < V::W ? count - v : V::W);
                load_weights(w, weight + v * w.out, block + first, n, lanes, some);
                for (std::int64_t k = 0; k < n; k += 2)
                    for (std::int64_t t = 0; t < w.taps; ++t) {
                        const float* const a = some + (k * w.taps + (turned ? w.taps - 1 - t : t)) * V::W;
                        narrow_pairs(V::load(a) * by, k + 1 < n ? V::load(a + w.taps * V::W) * by : V::zero(),
                                     pair_in_step(tiles, to + t * bfloat16_step, static_cast<int>((first + k) / 2), v));
                    }
            }
    }
}

// One block of channels of a pixel; those past the last are zeros.
GRAFT_VECTOR void narrow_pixel(const float* x, std::int64_t vector, std::int64_t channels, std::uint16_t* to) {
    GRAFT_UNROLL
    for (int v = 0; v < bfloat16_block / V::W; ++v) {
        const std::int64_t left = channels - v * V::W;
        narrow_bfloat16(load_lanes(x + v * vector, left), to + v * V::W);
    }
}
inline void gather_bfloat16(const pixel_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    const image_planes& g = a.from;
    const std::int64_t channels = a.channels - block * bfloat16_block, of_block = block * (bfloat16_block / V::W) * a.x_vector;
    std::uint16_t* to = a.gathered + (block * a.block_pixels + first) * bfloat16_block;
    std::int64_t row = first / g.pitch, column = first % g.pitch;
    for (; first < last; ++row, column = 0) {
        const auto [row_phase, column_phase, image, iy, count, in_image] = source_of(a, row, column, last - first);
        const std::int64_t ix = g.column_phase[column_phase] - a.pl + column * a.sw;
        // Of these columns, ix, ix + sw, ...: those before the image, and those in it.
        const std::int64_t before = ix < 0 ? (a.sw - 1 - ix) / a.sw : 0, end = a.iw > ix ? (a.iw - ix + a.sw - 1) / a.sw : 0;
        const std::int64_t inside = in_image && before < count ? (end < count ? end : count) : 0;
        std::int64_t i = 0;
        if (before < inside) {
            clear_pixels(to, before, a.padding);
            const std::int64_t at = of_block + image * a.x_image + iy * a.x_row + (ix + before * a.sw) * a.x_pixel, step = a.sw * a.x_pixel;
            i = before;
            if (a.narrow_x) {
                const std::uint16_t* from = a.narrow_x + at;
                for (; i < inside; ++i, from += step) std::memcpy(to + i * bfloat16_block, from, bfloat16_block * sizeof *to);
            } else if (channels >= bfloat16_block) {
                for (const float* from = a.x + at; i < inside; ++i, from += step) narrow_pixel(from, a.x_vector, bfloat16_block, to + i * bfloat16_block);
            } else
                for (const float* from = a.x + at; i < inside; ++i, from += step) narrow_pixel(from, a.x_vector, channels, to + i * bfloat16_block);
        }
        clear_pixels(to + i * bfloat16_block, count - i, a.padding);
        to += count * bfloat16_block;
        first += count;
    }
}

// Numbers [from, from + count) of a row of `size`, zeros beyond it.
inline void narrow_row(const float* row, std::int64_t size, std::int64_t from, std::int64_t count, std::uint16_t* to) {
    const std::int64_t begin = from < 0 ? 0 : from, end = from + count < size ? from + count : size;
    if (begin >= end) return std::memset(to, 0, static_cast<std::size_t>(count) * sizeof *to), void();
    std::memset(to, 0, static_cast<std::size_t>(begin - from) * sizeof *to);
    for (std::int64_t i = begin; i < end; i += V::W) narrow_bfloat16(load_lanes(row + i, end - i), to + i - from);
    std::memset(to + end - from, 0, static_cast<std::size_t>(from + count - end) * sizeof *to);
}
// A few planes, of which a row of up to eight neighbouring taps is unrolled: eight numbers of each plane are copied for a pixel, of which the next plane's take
// the place of those that are too many.
inline void gather_bfloat16_neighbours(const pixel_args& a, std::int64_t first, std::int64_t last) {
    constexpr std::int64_t together = 8;
    const image_planes& g = a.from;
    std::uint16_t rows[bfloat16_row], kept[together] = {};
    for (int t = 0; t < a.unrolled; ++t) kept[t] = 0xffff;
    std::uint64_t mask[2];
    std::memcpy(mask, kept, sizeof mask);
    const std::int64_t step = a.unrolled_step, planes = a.channels / a.unrolled;
    std::uint16_t* to = a.gathered + first * bfloat16_block;
    std::int64_t row = first / g.pitch, column = first % g.pitch;
    for (; first < last; ++row, column = 0) {
        const auto [row_phase, column_phase, image, iy, count, inside] = source_of(a, row, column, last - first);
        const std::int64_t numbers = (count - 1) * step + together, room = numbers + V::W;
        for (std::int64_t p = 0; p < planes; ++p)
            narrow_row(a.x + image * a.x_image + p * a.x_vector + (inside ? iy : 0) * a.x_row, inside ? a.iw : 0, column * step - a.unrolled_pad, numbers,
                       rows + p * room);
        clear_pixels(to, count);
        for (std::int64_t i = 0; i < count; ++i, to += bfloat16_block)
            for (std::int64_t p = 0; p < planes; ++p) {
                std::uint64_t some[2];
                std::memcpy(some, rows + p * room + i * step, sizeof some);
                some[0] &= mask[0], some[1] &= mask[1];
                std::memcpy(to + p * a.unrolled, some, sizeof some);
            }
        first += count;
    }
}

// The same of any planes.
inline void gather_bfloat16_planes(const pixel_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
    if (a.unrolled <= 8 && a.unrolled_dilation == 1 && a.channels <= 4 * a.unrolled) return gather_bfloat16_neighbours(a, first, last);
    const image_planes& g = a.from;
    alignas(64) float rows[bfloat16_row];
    const std::int64_t step = a.unrolled_step, beside = std::int64_t(a.unrolled - 1) * a.unrolled_dilation / step + 1;
    std::uint16_t* to = a.gathered + (block * a.block_pixels + first) * bfloat16_block;
    std::int64_t row = first / g.pitch, column = first % g.pitch;
    for (; first < last; ++row, column = 0) {
        const auto [row_phase, column_phase, image, iy, count, inside] = source_of(a, row, column, last - first);
        const std::int64_t n = count + beside, plane_floats = n * step + V::W;  // whole vectors are read
        const float* from[bfloat16_block];
        const std::int64_t first_plane = block * bfloat16_block / a.unrolled;
        for (std::int64_t k = 0, last_plane = -1; k < bfloat16_block; ++k) {
            const std::int64_t channel = block * bfloat16_block + k, plane = channel / a.unrolled, at = channel % a.unrolled * a.unrolled_dilation;
            from[k] = nullptr;
            if (channel >= a.channels) continue;
            float* const gathered = rows + (plane - first_plane) * plane_floats;
            if (plane != last_plane) {
                last_plane = plane;
                gather_row(a.x + image * a.x_image + plane * a.x_vector + (inside ? iy : 0) * a.x_row, inside ? a.iw : 0, column * step - a.unrolled_pad, step,
                           n, gathered);
            }
            from[k] = gathered + at % step * n + at / step;
        }
        for (std::int64_t i = 0; i < count; i += V::W)
            for (int v = 0; v < bfloat16_block; v += V::W) {
                V some[V::W];
                GRAFT_UNROLL
                for (int r = 0; r < V::W; ++r) some[r] = from[v + r] ? V::load(from[v + r] + i) : V::zero();
                transpose(some);
                GRAFT_UNROLL
                for (int r = 0; r < V::W; ++r)
                    if (i + r < count) narrow_bfloat16(some[r], to + (i + r) * bfloat16_block + v);
            }
        to += count * bfloat16_block;
        first += count;
    }
}

// What becomes of the sums of one block of output channels.
struct bfloat16_end {
    const pixel_args* args;
    std::int64_t channels;  // from the block's first one on
    bool function, simple;  // function: of all sums before they are handed out; simple: whole vectors, and no more than a residual and a clamp then
    bool residual;
    float low, high;
    alignas(64) float start[bfloat16_block];  // what sums begin with: the bias
    std::int64_t at;                          // where the block lies in y
};
GRAFT_NOINLINE inline bfloat16_end bfloat16_end_of(const pixel_args& a, std::int64_t block) {
    bfloat16_end e{&a, a.out_channels - block * bfloat16_block, false, false, a.residual || a.narrow_residual, 0, 0, {}, 0};
    for (std::int64_t c = 0; a.bias && c < bfloat16_block && c < e.channels; ++c) e.start[c] = a.bias[block * bfloat16_block + c];
    e.at = block * (bfloat16_block / V::W) * a.y_vector;
    const bool clamped = bounds_of(a.ep, e.low, e.high), late = a.ep.residual_after_activation;
    e.function = functions_wanted() && !clamped && (!e.residual || late);
    e.simple = (clamped ? !(e.residual && late) : e.function) && (a.whole_vectors || e.channels >= bfloat16_block);
    return e;
}

// Any other pixel.
inline GRAFT_NOINLINE void finish_pixel(const bfloat16_end& e, float* sum, std::int64_t at, std::int64_t residual_at) {
    const pixel_args& a = *e.args;
    float none = 0;
    const bool late = a.ep.residual_after_activation, function = functions_wanted() && !e.function && !bounds_of(a.ep, none, none);
    const V low = V::set1(e.low), high = V::set1(e.high);
    const auto residual = [&](int v) {
        return a.narrow_residual ? load_bf16(a.narrow_residual + residual_at + v)
                                 : load_lanes(a.residual + residual_at + v / V::W * a.y_vector, e.channels - v);
    };
    const std::int64_t channels = a.narrow_y ? bfloat16_block : e.channels;
    for (int v = 0; e.residual && !late && v < bfloat16_block && v < channels; v += V::W) (V::load(sum + v) + residual(v)).store(sum + v);
    if (function) activate_run(sum, bfloat16_block, a.ep.act, a.ep.alpha, a.ep.beta);
    for (int v = 0; v < bfloat16_block && v < channels; v += V::W) {
        const std::int64_t lanes = a.whole_vectors ? V::W : channels - v;
        V y = V::load(sum + v);
        if (!function) y = clamp(y, low, high);
        if (e.residual && late) y = y + residual(v);
        if (a.narrow_y) {
            narrow_bfloat16(y, a.narrow_y + at + v);
            continue;
        }
        float* const to = a.y + at + v / V::W * a.y_vector;
        if (lanes >= V::W)
            y.store(to);
        else
            y.store_partial(to, static_cast<int>(lanes));
    }
}

// Pixels [next, end) of simple ones.
template <bool Narrow, bool Residual>
GRAFT_VECTOR void finish_simple(const bfloat16_end& e, const pixel_sums& of, int next, int end) {
    static_assert(bfloat16_block % (2 * V::W) == 0, "vectors are rounded two at a time");
    const V low = V::set1(e.low), high = V::set1(e.high);
    const bool capped = e.high < std::numeric_limits<float>::infinity();
    const pixel_args& a = *e.args;
    const float* const residual = a.residual;
    const std::uint16_t* const narrow_residual = a.narrow_residual;
    float* const y = a.y;
    std::uint16_t* const narrow_y = a.narrow_y;
    const std::int64_t vector = a.y_vector, channels = e.channels, *const residual_at = of.residual_at;
    const auto bounded = [&](V sum) {
        sum = max(low, sum);
        return capped ? min(high, sum) : sum;
    };
    for (; next < end; ++next) {
        const std::int64_t at = of.place(next);
        if (at < 0) continue;
        const std::int64_t from = a.residual_pixel ? residual_at[next] : at;
        const float* const sum = of.sum[next];
        if constexpr (Narrow) {
            GRAFT_UNROLL
            for (int v = 0; v < bfloat16_block; v += 2 * V::W) {
                V first = V::load(sum + v), second = V::load(sum + v + V::W);
                if constexpr (Residual) {
                    const std::uint16_t* const add = narrow_residual + from + v;
                    first = first + load_bf16(add), second = second + load_bf16(add + V::W);
                }
                narrow_neighbours(bounded(first), bounded(second), narrow_y + at + v);
            }
        } else {
            GRAFT_UNROLL
            for (int v = 0; v < bfloat16_block / V::W; ++v) {
                if (v * V::W >= channels) break;
                V total = V::load(sum + v * V::W);
                if constexpr (Residual) total = total + V::load(residual + from + v * vector);
                bounded(total).store(y + at + v * vector);
            }
        }
    }
}
// The next few pixels.
inline GRAFT_NOINLINE void finish_some(const bfloat16_end& e, pixel_sums& of, int count) {
    int next = of.next;
    const int end = of.pixels < next + count ? of.pixels : next + count;
    if (next >= end) return;
    if (e.function && next == 0) activate_run(of.sum[0], of.pixels * bfloat16_block, e.args->ep.act, e.args->ep.alpha, e.args->ep.beta);
    of.next = end;
    if (!e.simple) {
        for (; next < end; ++next)
            if (const std::int64_t at = of.place(next); at >= 0) finish_pixel(e, of.sum[next], at, e.args->residual_pixel ? of.residual_at[next] : at);
        return;
    }
    if (e.args->narrow_y)
        e.residual ? finish_simple<true, true>(e, of, next, end) : finish_simple<true, false>(e, of, next, end);
    else
        e.residual ? finish_simple<false, true>(e, of, next, end) : finish_simple<false, false>(e, of, next, end);
}
