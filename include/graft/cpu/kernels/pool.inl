// Pooling: text, included once for each instruction set. NaN goes through: a window that holds one gives NaN.

struct max_of {
    V best;
    M bad;
    GRAFT_VECTOR max_of() : best(V::set1(-std::numeric_limits<float>::infinity())), bad(M::lanes(0)) {}
    GRAFT_VECTOR void take(V x) {
        best = max(x, best);
        bad = bad | is_nan(x);
    }
    GRAFT_VECTOR V value(float) const { return select(bad, V::set1(std::numeric_limits<float>::quiet_NaN()), best); }
};

struct sum_of {
    V total;
    GRAFT_VECTOR sum_of() : total(V::zero()) {}
    GRAFT_VECTOR void take(V x) { total = total + x; }
    GRAFT_VECTOR V value(float count) const { return total / V::set1(count); }
};

// The part of a window that is inside: taps [first, last) of one direction, and how many count for an average.
struct pool_span {
    int first, last, counted;
};
inline pool_span window(std::int64_t at, int kernel, int dilation, std::int64_t size, int pad_end, bool include_pad) {
    pool_span s{0, kernel, 0};
    while (s.first < kernel && at + s.first * dilation < 0) ++s.first;
    while (s.last > s.first && at + (s.last - 1) * dilation >= size) --s.last;
    s.counted = s.last - s.first;
    if (include_pad) {
        // With the padding, but not what a last window of ceil mode has beyond it.
        s.counted = 0;
        for (int k = 0; k < kernel; ++k) s.counted += at + k * dilation < size + pad_end;
    }
    return s;
}

// N outputs of a row of a blocked image, `step` numbers apart on the input side.
template <class Reduce, class Pixels, int N>
GRAFT_VECTOR void pool_tile(const pool_args& a, const typename Pixels::number* x, std::int64_t step, pool_span rows, pool_span columns,
                            typename Pixels::number* y) {
    const pool_problem& p = a.p;
    Reduce r[N][Pixels::vectors];
    for (int ky = rows.first; ky < rows.last; ++ky)
        for (int kx = columns.first; kx < columns.last; ++kx) {
            const auto* at = x + (std::int64_t(ky) * p.dh * p.iw + std::int64_t(kx) * p.dw) * Pixels::step;
            GRAFT_UNROLL
            for (int i = 0; i < N; ++i) {
                V some[Pixels::vectors];
                Pixels::load(at + i * step, some);
                GRAFT_UNROLL
                for (int v = 0; v < Pixels::vectors; ++v) r[i][v].take(some[v]);
            }
        }
    const float count = static_cast<float>(rows.counted * columns.counted);
    GRAFT_UNROLL
    for (int i = 0; i < N; ++i) {
        V some[Pixels::vectors];
        GRAFT_UNROLL
        for (int v = 0; v < Pixels::vectors; ++v) some[v] = r[i][v].value(count);
        Pixels::store(some, y + i * Pixels::step);
    }
}

// The next outputs of a row of a plane; returns how many. Of windows `inside`, next to each other, up to W at once: with a stride those that start between
// them too, of which no use is made.
template <class Reduce>
GRAFT_VECTOR int pool_some(const pool_problem& p, const float* x, pool_span rows, std::int64_t inside, pool_span columns, float* y) {
    constexpr int most_steps = 4;
    if (p.sw <= most_steps && inside > 0) {
        const int count = inside < V::W ? static_cast<int>(inside) : V::W, starts = (count - 1) * p.sw + 1;
        alignas(64) float made[most_steps * V::W];
        for (int first = 0; first < starts; first += V::W) {
            const int lanes = starts - first < V::W ? starts - first : V::W;
            Reduce r;
            for (int ky = rows.first; ky < rows.last; ++ky)
                for (int kx = 0; kx < p.kw; ++kx) {
                    const float* at = x + std::int64_t(ky) * p.dh * p.iw + std::int64_t(kx) * p.dw + first;
                    r.take(lanes == V::W ? V::load(at) : V::load_partial(at, lanes));
                }
            const V all = r.value(static_cast<float>(rows.counted * p.kw));
            if (p.sw == 1)
                all.store_partial(y, count);
            else
                all.store(made + first);
        }
        for (int i = 0; p.sw > 1 && i < count; ++i) y[i] = made[i * p.sw];
        return count;
    }
    Reduce r;
    for (int ky = rows.first; ky < rows.last; ++ky)
        for (int kx = columns.first; kx < columns.last; ++kx) r.take(V::set1(x[std::int64_t(ky) * p.dh * p.iw + std::int64_t(kx) * p.dw]));
    r.value(static_cast<float>(rows.counted * columns.counted)).store_partial(y, 1);
    return 1;
}

// One task: a band of rows of one plane, or of channels that are computed together. What is not float32 is blocked.
template <class Reduce, class Pixels>
GRAFT_VECTOR void pool_band(const pool_args& a, std::int64_t task) {
    using number = typename Pixels::number;
    constexpr bool floats = std::is_same<number, float>::value;
    const pool_problem& p = a.p;
    const bool blocked = !floats || p.l == layout::blocked;
    const std::int64_t plane = task / a.bands, width = blocked ? Pixels::step : 1;
    const std::int64_t oy0 = task % a.bands * a.band_rows, oy1 = oy0 + a.band_rows < p.oh ? oy0 + a.band_rows : p.oh;
    const number* x = static_cast<const number*>(a.x) + (blocked ? group_at<Pixels>(plane, p.ih * p.iw) : plane * p.ih * p.iw);
    number* y = static_cast<number*>(a.y) + (blocked ? group_at<Pixels>(plane, p.oh * p.ow) : plane * p.oh * p.ow) + oy0 * p.ow * width;
    const std::int64_t left = (p.pl + p.sw - 1) / p.sw;
    std::int64_t right = p.iw + p.pl - std::int64_t(p.kw - 1) * p.dw;
    right = right > 0 ? (right - 1) / p.sw + 1 : 0;
    if (right > p.ow) right = p.ow;
    for (std::int64_t oy = oy0; oy < oy1; ++oy) {
        const std::int64_t iy = oy * p.sh - p.pt;
        const pool_span rows = window(iy, p.kh, p.dh, p.ih, p.pb, p.count_include_pad), all{0, p.kw, p.kw};
        const number* row = x + iy * p.iw * width;
        for (std::int64_t ox = 0; ox < p.ow;) {
            const std::int64_t ix = ox * p.sw - p.pl;
            if constexpr (floats)
                if (!blocked) {
                    ox += pool_some<Reduce>(p, row + ix, rows, ox >= left ? right - ox : 0, window(ix, p.kw, p.dw, p.iw, p.pr, p.count_include_pad), y + ox);
                    continue;
                }
            if (ox >= left && ox + 4 <= right) {
                pool_tile<Reduce, Pixels, 4>(a, row + ix * width, p.sw * width, rows, all, y + ox * width);
                ox += 4;
            } else {
                const pool_span columns = window(ix, p.kw, p.dw, p.iw, p.pr, p.count_include_pad);
                pool_tile<Reduce, Pixels, 1>(a, row + ix * width, 0, rows, columns, y + ox * width);
                ox += 1;
            }
        }
        y += p.ow * width;
    }
}

inline void max_pool(const pool_args& a, std::int64_t task) { pool_band<max_of, float_pixels>(a, task); }
inline void average_pool(const pool_args& a, std::int64_t task) { pool_band<sum_of, float_pixels>(a, task); }

// One value for each plane or block: four running results, joined in one order.
template <class Reduce>
GRAFT_VECTOR void reduce_planes(const float* x, std::int64_t planes, std::int64_t pixels, bool blocked, float divisor, float neutral, float* y) {
    const std::int64_t vectors = blocked ? pixels : pixels / V::W, step = blocked ? pixels * V::W : pixels;
    const int tail = blocked ? 0 : static_cast<int>(pixels % V::W);
    for (std::int64_t plane = 0; plane < planes; ++plane, x += step) {
        Reduce r[4];
        std::int64_t i = 0;
        for (; i + 4 <= vectors; i += 4) {
            GRAFT_UNROLL
            for (int j = 0; j < 4; ++j) r[j].take(V::load(x + (i + j) * V::W));
        }
        for (; i < vectors; ++i) r[0].take(V::load(x + i * V::W));
        if (tail) r[1].take(select(M::lanes(tail), V::load_partial(x + i * V::W, tail), V::set1(neutral)));
        for (int j = 1; j < 4; ++j) r[0].take(r[j].value(1));
        if (blocked) {
            r[0].value(divisor).store(y + plane * V::W);
        } else {
            alignas(64) float lane[V::W];
            r[0].value(1).store(lane);
            Reduce whole;
            for (int j = 0; j < V::W; ++j) whole.take(V::set1(lane[j]));
            whole.value(divisor).store_partial(y + plane, 1);
        }
    }
}

inline void global_average(const float* x, std::int64_t planes, std::int64_t pixels, bool blocked, float* y) {
    reduce_planes<sum_of>(x, planes, pixels, blocked, static_cast<float>(pixels), 0, y);
}
inline void global_max(const float* x, std::int64_t planes, std::int64_t pixels, bool blocked, float* y) {
    reduce_planes<max_of>(x, planes, pixels, blocked, 1, -std::numeric_limits<float>::infinity(), y);
}

inline const pool_kernels* pool_table() {
    static constexpr pool_kernels all = {
        wanted("MaxPool") ? &max_pool : nullptr,
        wanted("AveragePool") ? &average_pool : nullptr,
        wanted("GlobalAveragePool") || wanted("ReduceMean") ? &global_average : nullptr,
        wanted("GlobalMaxPool") || wanted("ReduceMax") ? &global_max : nullptr,
    };
    return &all;
}
