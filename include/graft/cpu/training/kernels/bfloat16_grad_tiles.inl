// Rows of gradients by tiles: text, included for each kind of them. Whole tiles are computed: there is room for the rows that are none.

// Where 32 neighbouring pixels of a plane lie in x, null outside the image; whether all are inside.
template <class T>
GRAFT_VECTOR bool plane_pixels(const bfloat16_grad_args& a, const T* x, std::int64_t plane, int shard, std::int64_t first, const T** from) {
    const conv_problem& p = a.p;
    const std::int64_t of_image = a.image_rows * a.pitch, in_image = first % of_image, last = a.shards.last(p.n, shard), step = p.sw * a.x_pixel;
    std::int64_t image = a.shards.first(p.n, shard) + first / of_image, row = in_image / a.pitch, column = in_image % a.pitch;
    bool all = true;
    for (int i = 0; i < bfloat16_block;) {
        const std::int64_t iy = row * p.sh + a.turned.down[plane] - p.pt, left = a.pitch - column;
        std::int64_t ix = column * p.sw + a.turned.right[plane] - p.pl, at = image * a.x_image + iy * a.x_row + ix * a.x_pixel;
        const int count = left < bfloat16_block - i ? static_cast<int>(left) : bfloat16_block - i;
        const bool in_row = image < last && iy >= 0 && iy < p.ih;
        for (const int end = i + count; i < end; ++i, ix += p.sw, at += step) {
            const bool inside = in_row && ix >= 0 && ix < p.iw;
            from[i] = inside ? x + at : nullptr;
            all &= inside;
        }
        column += count;
        if (column < a.pitch) continue;
        column = 0;
        if (++row == a.image_rows) row = 0, ++image;
    }
    return all;
}

// Pixels of W channels become rows of channels, `row` numbers apart.
template <class F>
GRAFT_FORCE_INLINE void turn_pixels(const float*, const F& pixel, std::uint16_t* to, std::int64_t row) {
    for (int first = 0; first < bfloat16_block; first += V::W) {
        V some[V::W];
        GRAFT_UNROLL
        for (int i = 0; i < V::W; ++i) some[i] = pixel(first + i);
        transpose(some);
        GRAFT_UNROLL
        for (int i = 0; i < V::W; ++i) narrow_bfloat16(some[i], to + i * row + first);
    }
}
// The same of pixels that are narrow: a lane takes two neighbours.
template <class F>
GRAFT_FORCE_INLINE void turn_pixels(const std::uint16_t*, const F& pixel, std::uint16_t* to, std::int64_t row) {
    for (int first = 0; first < bfloat16_block; first += 2 * V::W) {
        V some[V::W];
        GRAFT_UNROLL
        for (int i = 0; i < V::W; ++i) some[i] = as_float(shift_right<16>(as_int(pixel(first + 2 * i))) | as_int(pixel(first + 2 * i + 1)));
        transpose(some);
        GRAFT_UNROLL
        for (int i = 0; i < V::W; ++i) as_int(some[i]).store(reinterpret_cast<std::int32_t*>(to + i * row + first));
    }
}

template <class T>
GRAFT_FORCE_INLINE void turn_planes(const bfloat16_grad_args& a, const T* x, int shard, std::int64_t block, std::int64_t blocks, std::int64_t channel,
                                    std::int64_t channels, std::uint16_t* to) {
    const turned_planes& t = a.turned;
    const std::int64_t end = block + blocks + (t.halo + bfloat16_block - 1) / bfloat16_block;
    for (std::int64_t plane = 0; plane < t.count; ++plane, to += a.lanes * t.row)
        for (std::int64_t b = block; b < end; ++b) {
            const T* from[bfloat16_block];
            const bool inside = plane_pixels(a, x, plane, shard, b * bfloat16_block, from);
            for (std::int64_t c = 0; c < channels; c += V::W) {
                const std::int64_t step = (channel + c) / V::W * a.x_vector, lanes = channels - c;
                const bool whole = a.whole_vectors || lanes >= V::W;
                std::uint16_t* const rows = to + c * t.row + (b - block) * bfloat16_block;
                if (inside && whole)
                    turn_pixels(
                        x, [&](int i) { return training::load_saved(from[i] + step); }, rows, t.row);
                else
                    turn_pixels(
                        x, [&](int i) { return from[i] ? grad_lanes(from[i] + step, lanes, whole) : V::zero(); }, rows, t.row);
            }
        }
}
inline void gather_rows_bfloat16(bfloat16_tiles&, const bfloat16_grad_args& a, int shard, std::int64_t block, std::int64_t blocks, std::int64_t channel,
                                 std::int64_t channels, std::uint16_t* to) {
    training::with_saved(a.x, [&](const auto* x) { turn_planes(a, x, shard, block, blocks, channel, channels, to); });
}

// Sixteen rows of pixels, or twice sixteen, by 32 output channels.
template <int Tiles>
inline GRAFT_NOINLINE void sum_turned(bfloat16_tiles& tiles, const std::uint16_t* x, const std::uint16_t* below, std::int64_t x_row, std::int64_t steps,
                                      const std::uint16_t* w, sums_from start, float* to) {
    constexpr int half = bfloat16_block / 2;
    const std::ptrdiff_t start_row = start.pixel * std::ptrdiff_t(sizeof(float)), to_row = bfloat16_block * std::ptrdiff_t(sizeof(float)),
                         row = x_row * std::ptrdiff_t(sizeof *x);
    const float* const start_below = start.first + half * start.pixel;
    tiles.template load<0>(start.first, start_row);
    tiles.template load<1>(start.first + half, start_row);
    if (Tiles == 2) tiles.template load<2>(start_below, start_row);
    if (Tiles == 2) tiles.template load<3>(start_below + half, start_row);
    for (; steps > 0; --steps, x += bfloat16_block, below += bfloat16_block, w += bfloat16_step) {
        tiles.template load<6>(w, 64);
        tiles.template load<4>(x, row);
        tiles.template multiply<0, 4, 6>();
        tiles.template load<7>(w + bfloat16_step / 2, 64);
        tiles.template multiply<1, 4, 7>();
        if (Tiles == 2) {
            tiles.template load<5>(below, row);
            tiles.template multiply<2, 5, 6>();
            tiles.template multiply<3, 5, 7>();
        }
    }
    float* const to_below = to + half * bfloat16_block;
    tiles.template store<0>(to, to_row);
    tiles.template store<1>(to + half, to_row);
    if (Tiles == 2) tiles.template store<2>(to_below, to_row);
    if (Tiles == 2) tiles.template store<3>(to_below + half, to_row);
}

GRAFT_VECTOR void sum_rows_bfloat16(bfloat16_tiles& tiles, const bfloat16_grad_args& g, const pixel_args& a, const std::uint16_t* x, const std::uint16_t* w,
                                    sums_from start, const sums_to& to, const bfloat16_rows& of) {
    constexpr int half = bfloat16_block / 2;
    const turned_planes& t = g.turned;
    const auto at = [&](std::int64_t row) {
        const std::int64_t tap = row / of.pitch;
        return x + (t.plane_of[tap] * g.lanes + row % of.pitch) * t.row + t.behind[tap];
    };
    for (std::int64_t r = 0; r < of.rows; r += bfloat16_block) {
        const bool two = of.rows - r > half;
        const auto sum = two ? &sum_turned<2> : &sum_turned<1>;
        sum(tiles, at(r), at(two ? r + half : r), t.row, a.steps, w, {start.first + r * start.pixel, start.pixel}, to.first + r * to.pixel);
    }
    for (int i = 0; i < to.count; ++i) grad_add_sums(to.earlier + i * to.step, to.first, of.rows * bfloat16_block);
}

inline const bfloat16_grad_kernels* bfloat16_grad_by_tiles() {
    static constexpr bfloat16_grad_kernels all = {&grad_pack_bfloat16<true>, &grad_sum_bfloat16<bfloat16_tiles, true>, &grad_end_bfloat16};
    return &all;
}
