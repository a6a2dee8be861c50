// Convolutions and matrix products of bfloat16 with float32 sums: text, included for each set that rounds to them. Pixels of 32 channels lie side by side, so
// that neighbours of the padded image are read alike for every tap, across its rows.

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
// Where the pixels of a plane's row come from, of those from `column` on that are wanted.
struct bfloat16_source {
    std::int64_t row_phase, column_phase, image, iy, count;
    bool inside;  // whether the row is one of the image
};
GRAFT_VECTOR bfloat16_source source_of(const bfloat16_args& a, std::int64_t row, std::int64_t column, std::int64_t wanted) {
    const image_planes& g = a.from;
    const std::int64_t phase = row / g.rows, of_plane = row % g.rows, left = g.pitch - column;
    bfloat16_source s{phase / g.column_phases, phase % g.column_phases, of_plane / a.image_rows, 0, left < wanted ? left : wanted, false};
    s.iy = (a.first_row + of_plane % a.image_rows) * a.sh + g.row_phase[s.row_phase] - a.pt;
    s.inside = s.iy >= 0 && s.iy < a.ih;
    return s;
}
GRAFT_VECTOR void clear_pixels(std::uint16_t* to, std::int64_t count, int with = 0) {
    std::memset(to, with, static_cast<std::size_t>(count) * bfloat16_block * sizeof *to);
}

inline void gather_bfloat16(const bfloat16_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
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
inline void gather_bfloat16_neighbours(const bfloat16_args& a, std::int64_t first, std::int64_t last) {
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
inline void gather_bfloat16_planes(const bfloat16_args& a, std::int64_t block, std::int64_t first, std::int64_t last) {
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

// What sums begin with: that of a pixel lies `pixel` numbers behind that of the one before, or is the same for all where it is 0.
struct sums_from {
    const float* first;
    std::int64_t pixel;
};

// Sums of 32 pixels by 32 output channels, and where they go: handed out a few pixels at a time, between products, which vectors then overlap.
constexpr int bfloat16_room_of_sums = bfloat16_block + 1;
struct bfloat16_sums {
    alignas(64) float sum[bfloat16_room_of_sums][bfloat16_block];
    std::int64_t at[bfloat16_block], residual_at[bfloat16_block];  // at below 0: no output; the other where residual_pixel tells of it
    std::int64_t first, step;                                      // where it is not 0: all are outputs, so far apart, and `at` says nothing
    int next, pixels;
    std::int64_t place(int pixel) const { return step ? first + pixel * step : at[pixel]; }
};

// What becomes of the sums of one block of output channels.
struct bfloat16_end {
    const bfloat16_args* args;
    std::int64_t channels;  // from the block's first one on
    bool function, simple;  // function: of all sums before they are handed out; simple: whole vectors, and no more than a residual and a clamp then
    bool residual;
    float low, high;
    alignas(64) float start[bfloat16_block];  // what sums begin with: the bias
    std::int64_t at;                          // where the block lies in y
};
inline bfloat16_end bfloat16_end_of(const bfloat16_args& a, std::int64_t block) {
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
    const bfloat16_args& a = *e.args;
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
GRAFT_VECTOR void finish_simple(const bfloat16_end& e, const bfloat16_sums& of, int next, int end) {
    static_assert(bfloat16_block % (2 * V::W) == 0, "vectors are rounded two at a time");
    const V low = V::set1(e.low), high = V::set1(e.high);
    const bool capped = e.high < std::numeric_limits<float>::infinity();
    const bfloat16_args& a = *e.args;
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
inline GRAFT_NOINLINE void finish_some(const bfloat16_end& e, bfloat16_sums& of, int count) {
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

// The weights of the next block, some lines of which are asked for at every step: of layers of few pixels they come from memory. Where a task reads its weights
// once, they are a stream that the machine fetches by itself.
struct weights_ahead {
    const std::uint16_t* at;
    int lines;
};

// The sums of the last tiles, perhaps of other blocks. Those before the last are handed out while the next are made: the last ones' stores may be on their way.
template <class End>
struct last_sums {
    static constexpr int count = 2;
    bfloat16_sums sums[count];
    const End* ends[count];
    int turn;  // which are the next
    int behind(int tiles) const { return (turn + count - tiles) % count; }
};

// By tiles or by vectors: `Unit` says whose sum_block it is, and what becomes of the sums.
template <class Unit, class End>
inline void multiply_block(Unit& unit, const bfloat16_args& a, std::int64_t block, std::int64_t first, std::int64_t last, const End& end,
                           last_sums<End>& of) {
    const image_planes& g = a.from;
    const std::int64_t channels = a.out_channels - block * bfloat16_block;
    const std::uint16_t* const w = a.weights + block * a.steps * bfloat16_step;
    const std::int64_t row = first * bfloat16_block / g.pitch;
    std::int64_t image = row / a.image_rows, oy = row % a.image_rows, column = first * bfloat16_block % g.pitch;
    const std::int64_t tiles = last - first;
    const int lines = tiles > 1 && channels > bfloat16_block ? static_cast<int>((bfloat16_step / bfloat16_block + tiles - 1) / tiles) : 0;
    for (std::int64_t tile = first; tile < last; ++tile) {
        bfloat16_sums &here = of.sums[of.turn], &before = of.sums[of.behind(1)];
        const End& end_before = *of.ends[of.behind(1)];
        const std::int64_t pixel = tile * bfloat16_block, left = a.pixels - pixel;
        // What lies there as it is ends with the last pixel: the last tile begins with some that were computed before.
        const std::int64_t whole = left > bfloat16_block / 2 ? bfloat16_block : bfloat16_block / 2,
                           again = a.narrow_x == a.source && left < whole ? whole - left : 0;
        const std::uint16_t* const x = a.source + (pixel - again) * a.source_pixel;
        const weights_ahead next{w + a.steps * (bfloat16_step + (tile - first) * lines * bfloat16_block), lines};
        here.pixels = left < bfloat16_block ? static_cast<int>(left + again) : bfloat16_block;
        sum_block(unit, a, x, w, next, end.start, here, end_before, before);
        finish_some(end_before, before, bfloat16_block);
        of.ends[of.turn] = &end;
        of.turn = (of.turn + 1) % last_sums<End>::count;
        here.next = 0;
        here.first = end.at + image * a.y_image + (a.first_row + oy) * a.y_row + column * a.y_pixel;
        here.step = again == 0 && oy < a.oh && column + here.pixels <= a.ow && !a.residual_pixel ? a.y_pixel : 0;
        if (here.step && column + here.pixels < g.pitch) {
            column += here.pixels;
            continue;
        }
        for (int i = 0; i < again; ++i) here.at[i] = -1;
        for (int i = static_cast<int>(again); i < here.pixels;) {
            const std::int64_t of_row = g.pitch - column, wanted = here.pixels - i, count = of_row < wanted ? of_row : wanted;
            const std::int64_t used = oy < a.oh ? a.ow - column : 0, outputs = used < 0 ? 0 : used < count ? used : count;
            const std::int64_t at = end.at + image * a.y_image + (a.first_row + oy) * a.y_row + column * a.y_pixel;
            for (std::int64_t k = 0; k < count; ++k) here.at[i + k] = k < outputs ? at + k * a.y_pixel : -1;
            if (a.residual_pixel)
                for (std::int64_t k = 0; k < outputs; ++k) here.residual_at[i + k] = end.at + (column + k) * a.residual_pixel;
            i += static_cast<int>(count), column += count;
            if (column < g.pitch) continue;
            column = 0;
            if (++oy == a.image_rows) oy = 0, ++image;
        }
    }
}
template <class Unit>
inline void multiply_pixels(const bfloat16_args& a, std::int64_t block, std::int64_t blocks, std::int64_t first, std::int64_t last) {
    using end_type = decltype(Unit::end_of(a, block));
    Unit unit;
    last_sums<end_type> of;
    end_type ends[] = {Unit::end_of(a, block), Unit::end_of(a, block), Unit::end_of(a, block)};
    of.turn = 0;
    for (int i = 0; i < of.count; ++i) of.ends[i] = ends, of.sums[i].next = of.sums[i].pixels = 0;
    int next = 0;
    for (const std::int64_t end = block + blocks; block < end; ++block) {
        end_type& here = ends[next++ % of.count];
        here = Unit::end_of(a, block);
        multiply_block(unit, a, block, first, last, here, of);
    }
    for (const int tiles : {1}) finish_some(*of.ends[of.behind(tiles)], of.sums[of.behind(tiles)], bfloat16_block);
}
