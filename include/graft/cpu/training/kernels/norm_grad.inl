// Batch normalisation in training: text, included once for each instruction set.
//
// Sums run in four vectors over at most norm_chunk rows, which stay in the first cache, and are then added up in double: no
// sum in float has more terms than a quarter of that.

constexpr std::int64_t norm_chunk = 256;

// A number for each lane: those of its channels, or one for all.
GRAFT_VECTOR V channel_values(const float* p, int channels) { return channels ? V::load_partial(p, channels) : V::set1(*p); }

// Rows [from, from + n) of a run as its own.
GRAFT_FORCE_INLINE norm_rows rows_between(const norm_rows& r, std::int64_t from, std::int64_t n) {
    norm_rows part = r;
    const std::int64_t whole = r.whole - from;
    part.whole = whole < 0 ? 0 : whole < n ? whole : n;
    part.tail = n - part.whole;
    return part;
}

// Lanes of a float sum in double: one by one, or added up in a tree of halves.
GRAFT_FORCE_INLINE void widen(V v, int channels, double* out) {
    float lane[V::W];
    v.store(lane);
    for (int i = 0; i < V::W; ++i) out[i] = static_cast<double>(lane[i]);
    if (channels) return;
    for (int half = V::W / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) out[i] += out[i + half];
}

// To the bits of ops::join_moments, which members of a run join by: products are not fused into sums.
inline void merge_moments(double* mean_a, double* square_a, double count_a, const double* mean_b, const double* square_b, double count_b, std::int64_t n) {
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    const double share = count_b / (count_a + count_b), both = count_a * share;
    for (std::int64_t i = 0; i < n; ++i) {
        const double apart = mean_b[i] - mean_a[i];
        mean_a[i] += apart * share;
        square_a[i] += square_b[i] + apart * apart * both;
    }
}

// Mean and squared distances of one chunk: the mean first, then distances from it, corrected by what they sum up to.
GRAFT_VECTOR void chunk_moments(const norm_rows& r, const float* x, double* mean, double* square) {
    const std::int64_t step = r.step;
    V a[4], b[4];
    GRAFT_UNROLL
    for (int j = 0; j < 4; ++j) a[j] = V::zero();
    std::int64_t i = 0;
    for (; i + 4 <= r.whole; i += 4) {
        GRAFT_UNROLL
        for (int j = 0; j < 4; ++j) a[j] = a[j] + V::load(x + (i + j) * step);
    }
    for (; i < r.whole; ++i) a[0] = a[0] + V::load(x + i * step);
    for (std::int64_t t = 0; t < r.tail; ++t) a[t & 1] = a[t & 1] + V::load_partial(x + (i + t) * step, r.tail_lanes);
    const V total = (a[0] + a[1]) + (a[2] + a[3]);
    const std::int64_t count = r.channels ? r.whole + r.tail : r.whole * V::W + r.tail * r.tail_lanes;
    const float share = 1.0f / static_cast<float>(count);
    const V centre = r.channels ? total * V::set1(share) : V::set1(sum(total) * share);
    GRAFT_UNROLL
    for (int j = 0; j < 4; ++j) a[j] = b[j] = V::zero();
    for (i = 0; i + 4 <= r.whole; i += 4) {
        GRAFT_UNROLL
        for (int j = 0; j < 4; ++j) {
            const V d = V::load(x + (i + j) * step) - centre;
            a[j] = a[j] + d;
            b[j] = fma(d, d, b[j]);
        }
    }
    for (; i < r.whole; ++i) {
        const V d = V::load(x + i * step) - centre;
        a[0] = a[0] + d;
        b[0] = fma(d, d, b[0]);
    }
    const M there = M::lanes(r.tail_lanes);
    for (std::int64_t t = 0; t < r.tail; ++t) {
        const V d = select(there, V::load_partial(x + (i + t) * step, r.tail_lanes) - centre, V::zero());
        a[t & 1] = a[t & 1] + d;
        b[t & 1] = fma(d, d, b[t & 1]);
    }
    double off[V::W], from[V::W];
    widen((a[0] + a[1]) + (a[2] + a[3]), r.channels, off);
    widen((b[0] + b[1]) + (b[2] + b[3]), r.channels, square);
    float centres[V::W];
    centre.store(centres);
    for (int j = 0; j < V::W; ++j) from[j] = static_cast<double>(centres[j]);
    const double one = 1.0 / static_cast<double>(count);
    for (int j = 0; j < V::W; ++j) {
        mean[j] = from[j] + off[j] * one;
        square[j] -= off[j] * off[j] * one;
    }
}

inline void moments(const norm_rows& r, const float* x, std::int64_t images, std::int64_t image_step, double* mean, double* square) {
    double all_mean[V::W], all_square[V::W], part_mean[V::W], part_square[V::W];
    for (int j = 0; j < V::W; ++j) all_mean[j] = all_square[j] = 0;
    const std::int64_t rows = r.whole + r.tail;
    double count = 0;
    for (std::int64_t image = 0; image < images; ++image)
        for (std::int64_t i = 0; i < rows; i += norm_chunk) {
            const norm_rows part = rows_between(r, i, rows - i < norm_chunk ? rows - i : norm_chunk);
            chunk_moments(part, x + image * image_step + i * r.step, part_mean, part_square);
            const double more = static_cast<double>(r.channels ? part.whole + part.tail : part.whole * V::W + part.tail * r.tail_lanes);
            merge_moments(all_mean, all_square, count, part_mean, part_square, more, V::W);
            count += more;
        }
    for (int j = 0; j < (r.channels ? V::W : 1); ++j) mean[j] = all_mean[j], square[j] = all_square[j];
}

template <bool Residual, bool Narrow>
GRAFT_FORCE_INLINE void normalize_rows(const norm_rows& r, const norm_forward& g) {
    const V mean = channel_values(g.mean, r.channels), scale = channel_values(g.scale, r.channels);
    const V shift = channel_values(g.shift, r.channels), low = V::set1(g.low), high = V::set1(g.high);
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < r.whole; ++i, at += r.step) {
        const V x = V::load(g.x + at);
        V v = fma(x - mean, scale, shift);
        if constexpr (Residual) v = v + V::load(g.residual + at);
        v = clamp(v, low, high);
        if constexpr (Narrow) {
            if (g.x_narrow) store_bf16(x, g.x_narrow + at);
            if (g.y_narrow) store_bf16(v, g.y_narrow + at);
        }
        v.store(g.y + at);
    }
    for (std::int64_t i = 0; i < r.tail; ++i, at += r.step) {
        const V x = V::load_partial(g.x + at, r.tail_lanes);
        V v = fma(x - mean, scale, shift);
        if constexpr (Residual) v = v + V::load_partial(g.residual + at, r.tail_lanes);
        v = clamp(v, low, high);
        if constexpr (Narrow) {
            if (g.x_narrow) store_saved(x, g.x_narrow + at, r.tail_lanes);
            if (g.y_narrow) store_saved(v, g.y_narrow + at, r.tail_lanes);
        }
        v.store_partial(g.y + at, r.tail_lanes);
    }
}
inline void normalize(const norm_rows& r, const norm_forward& g) {
    if (g.x_narrow || g.y_narrow) return g.residual ? normalize_rows<true, true>(r, g) : normalize_rows<false, true>(r, g);
    if (g.residual) return normalize_rows<true, false>(r, g);
    normalize_rows<false, false>(r, g);
}

// dy where the activation let y through, which is kept, or made of x again as the forward pass has made it: to the same bits, without an array to read.
template <gradient_mask Mask>
struct norm_mask {
    V low, high, gain, offset;
    bool again;

    GRAFT_VECTOR norm_mask(const norm_rows& r, const norm_backward& g)
        : low(V::set1(g.low)), high(V::set1(g.high)), gain(V::zero()), offset(V::zero()), again(Mask != gradient_mask::none && g.gain) {
        if (again) gain = channel_values(g.gain, r.channels), offset = channel_values(g.offset, r.channels);
    }
    template <class Load>
    GRAFT_VECTOR V operator()(V dy, V centred, const Load& y) const {
        if constexpr (Mask == gradient_mask::none) return dy;
        return pass_gradient<Mask>(dy, again ? fma(centred, gain, offset) : y(), low, high);
    }
};

template <gradient_mask Mask, bool Store, class T>
GRAFT_FORCE_INLINE void sums_of(const norm_rows& r, const norm_backward& g, const T* x, std::int64_t images, std::int64_t image_step, double* sum,
                                double* product) {
    const T* const y = static_cast<const T*>(g.y.data);
    const norm_mask<Mask> mask(r, g);
    const V mean = channel_values(g.mean, r.channels);
    const std::int64_t rows = r.whole + r.tail;
    const int width = r.channels ? V::W : 1;
    double part[V::W];
    for (int j = 0; j < width; ++j) sum[j] = product[j] = 0;
    for (std::int64_t image = 0; image < images; ++image)
        for (std::int64_t first = 0; first < rows; first += norm_chunk) {
            const norm_rows c = rows_between(r, first, rows - first < norm_chunk ? rows - first : norm_chunk);
            std::int64_t at = image * image_step + first * r.step, i = 0;
            V a[4], b[4];
            GRAFT_UNROLL
            for (int j = 0; j < 4; ++j) a[j] = b[j] = V::zero();
            for (; i + 4 <= c.whole; i += 4, at += 4 * r.step) {
                GRAFT_UNROLL
                for (int j = 0; j < 4; ++j) {
                    const std::int64_t o = at + j * r.step;
                    const V centred = load_saved(x + o) - mean, dy = mask(V::load(g.dy + o), centred, [&] { return load_saved(y + o); });
                    if constexpr (Store) dy.store(g.masked + o);
                    a[j] = a[j] + dy;
                    b[j] = fma(dy, centred, b[j]);
                }
            }
            for (; i < c.whole; ++i, at += r.step) {
                const V centred = load_saved(x + at) - mean, dy = mask(V::load(g.dy + at), centred, [&] { return load_saved(y + at); });
                if constexpr (Store) dy.store(g.masked + at);
                a[0] = a[0] + dy;
                b[0] = fma(dy, centred, b[0]);
            }
            for (std::int64_t t = 0; t < c.tail; ++t, at += r.step) {
                const V centred = load_saved(x + at, r.tail_lanes) - mean;
                const V dy = mask(V::load_partial(g.dy + at, r.tail_lanes), centred, [&] { return load_saved(y + at, r.tail_lanes); });
                if constexpr (Store) dy.store_partial(g.masked + at, r.tail_lanes);
                // Lanes that are not there have a gradient of 0.
                a[t & 1] = a[t & 1] + dy;
                b[t & 1] = fma(dy, centred, b[t & 1]);
            }
            widen((a[0] + a[1]) + (a[2] + a[3]), r.channels, part);
            for (int j = 0; j < width; ++j) sum[j] += part[j];
            widen((b[0] + b[1]) + (b[2] + b[3]), r.channels, part);
            for (int j = 0; j < width; ++j) product[j] += part[j];
        }
}
inline void norm_sums(const norm_rows& r, const norm_backward& g, std::int64_t images, std::int64_t image_step, double* sum, double* product) {
    constexpr gradient_mask none = gradient_mask::none, relu = gradient_mask::relu, clip = gradient_mask::clip;
    with_saved(g.x, [&](const auto* x) {
        if (g.mask == relu && g.masked) return sums_of<relu, true>(r, g, x, images, image_step, sum, product);
        if (g.mask == relu) return sums_of<relu, false>(r, g, x, images, image_step, sum, product);
        if (g.mask == clip && g.masked) return sums_of<clip, true>(r, g, x, images, image_step, sum, product);
        if (g.mask == clip) return sums_of<clip, false>(r, g, x, images, image_step, sum, product);
        if (g.masked) return sums_of<none, true>(r, g, x, images, image_step, sum, product);
        sums_of<none, false>(r, g, x, images, image_step, sum, product);
    });
}

template <gradient_mask Mask, class T>
GRAFT_FORCE_INLINE void gradient_rows(const norm_rows& r, const norm_backward& g, const T* x) {
    const T* const y = static_cast<const T*>(g.y.data);
    const V mean = channel_values(g.mean, r.channels), scale = channel_values(g.scale, r.channels);
    const V slope = channel_values(g.slope, r.channels), shift = channel_values(g.shift, r.channels);
    const norm_mask<Mask> mask(r, g);
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < r.whole; ++i, at += r.step) {
        const V centred = load_saved(x + at) - mean, dy = mask(V::load(g.dy + at), centred, [&] { return load_saved(y + at); });
        (fnma(centred, slope, dy - shift) * scale).store(g.dx + at);
    }
    for (std::int64_t i = 0; i < r.tail; ++i, at += r.step) {
        const V centred = load_saved(x + at, r.tail_lanes) - mean;
        const V dy = mask(V::load_partial(g.dy + at, r.tail_lanes), centred, [&] { return load_saved(y + at, r.tail_lanes); });
        (fnma(centred, slope, dy - shift) * scale).store_partial(g.dx + at, r.tail_lanes);
    }
}
inline void norm_gradient(const norm_rows& r, const norm_backward& g) {
    with_saved(g.x, [&](const auto* x) {
        switch (g.mask) {
        case gradient_mask::none: return gradient_rows<gradient_mask::none>(r, g, x);
        case gradient_mask::relu: return gradient_rows<gradient_mask::relu>(r, g, x);
        case gradient_mask::clip: return gradient_rows<gradient_mask::clip>(r, g, x);
        }
    });
}

inline const norm_grad_kernels* norm_grad_table() {
    static constexpr norm_grad_kernels all = {&moments, &merge_moments, &normalize, &norm_sums, &norm_gradient};
    return &all;
}
