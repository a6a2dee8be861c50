// Gradients of pooling: text, included once for each instruction set. Windows hand their gradients out in order; the rows of a plane
// are cleared just before the first window that reaches them.

// The taps of one window that are inside.
struct window_taps {
    std::int64_t row_step, column_step;  // floats from tap to tap
    int rows, columns;
};

// The first largest pixel of each channel. A NaN is larger than nothing; where it comes first it stays the place, and it is the
// window's value wherever it comes.
GRAFT_VECTOR void find_largest(const window_taps& w, const float* x, float* y, std::uint8_t* places) {
    V best = V::load(x);
    I place = I::set1(0);
    M bad = is_nan(best);
    int tap = 0;
    for (int ky = 0; ky < w.rows; ++ky)
        for (int kx = 0; kx < w.columns; ++kx, ++tap) {
            const V v = V::load(x + ky * w.row_step + kx * w.column_step);
            const M more = best < v;
            best = select(more, v, best);
            place = select(more, I::set1(tap), place);
            bad = bad | is_nan(v);
        }
    store_8(place, places);
    if (y) select(bad, V::set1(std::numeric_limits<float>::quiet_NaN()), best).store(y);
}
GRAFT_VECTOR void give_to_place(const window_taps& w, const std::uint8_t* places, V gradient, float* dx) {
    const I place = load_u8(places);
    int tap = 0;
    for (int ky = 0; ky < w.rows; ++ky)
        for (int kx = 0; kx < w.columns; ++kx, ++tap) {
            float* to = dx + ky * w.row_step + kx * w.column_step;
            (V::load(to) + select(place == I::set1(tap), gradient, V::zero())).store(to);
        }
}
GRAFT_VECTOR void give_to_all(const window_taps& w, V share, float* dx) {
    for (int ky = 0; ky < w.rows; ++ky)
        for (int kx = 0; kx < w.columns; ++kx) {
            float* to = dx + ky * w.row_step + kx * w.column_step;
            (V::load(to) + share).store(to);
        }
}

template <bool Max>
inline GRAFT_NOINLINE void pool_grad_block(const pool_grad_args& a, std::int64_t plane) {
    const pool_problem& p = a.p;
    const std::int64_t row = p.iw * V::W;
    float* dx = a.dx + plane * p.ih * row;
    const float* dy = a.dy + plane * p.oh * p.ow * V::W;
    const std::uint8_t* places = Max ? a.places + plane * p.oh * p.ow * V::W : nullptr;
    const std::int64_t left = (p.pl + p.sw - 1) / p.sw;  // windows from here on begin inside
    window_taps w{p.dh * row, std::int64_t(p.dw) * V::W, 0, 0};
    std::int64_t cleared = 0;
    for (std::int64_t oy = 0; oy < p.oh; ++oy) {
        const std::int64_t iy = oy * p.sh - p.pt;
        const pool_span rows = window(iy, p.kh, p.dh, p.ih, p.pb, p.count_include_pad);
        w.rows = rows.last - rows.first;
        const std::int64_t reached = w.rows > 0 ? iy + std::int64_t(rows.last - 1) * p.dh + 1 : 0;
        for (std::int64_t i = cleared * row; i < reached * row; i += V::W) V::zero().store(dx + i);
        if (reached > cleared) cleared = reached;
        for (std::int64_t ox = 0; ox < p.ow; ++ox, dy += V::W, places += Max ? V::W : 0) {
            const std::int64_t ix = ox * p.sw - p.pl;
            pool_span columns{0, p.kw, p.kw};
            if (ox < left || ix + std::int64_t(p.kw - 1) * p.dw >= p.iw) columns = window(ix, p.kw, p.dw, p.iw, p.pr, p.count_include_pad);
            w.columns = columns.last - columns.first;
            if (w.rows <= 0 || w.columns <= 0) continue;
            const std::int64_t at = (iy + std::int64_t(rows.first) * p.dh) * row + (ix + std::int64_t(columns.first) * p.dw) * V::W;
            if constexpr (Max)
                give_to_place(w, places, V::load(dy), dx + at);
            else
                give_to_all(w, V::load(dy) / V::set1(static_cast<float>(rows.counted * columns.counted)), dx + at);
        }
    }
    for (std::int64_t i = cleared * row; i < p.ih * row; i += V::W) V::zero().store(dx + i);
}

inline GRAFT_NOINLINE void max_places_block(const max_places_args& a, std::int64_t plane) {
    const pool_problem& p = a.p;
    const std::int64_t row = p.iw * V::W;
    const float* x = a.x + plane * p.ih * row;
    std::int64_t out = plane * p.oh * p.ow * V::W;
    window_taps w{p.dh * row, std::int64_t(p.dw) * V::W, 0, 0};
    for (std::int64_t oy = 0; oy < p.oh; ++oy) {
        const std::int64_t iy = oy * p.sh - p.pt;
        const pool_span rows = window(iy, p.kh, p.dh, p.ih, p.pb, false);
        w.rows = rows.last - rows.first;
        for (std::int64_t ox = 0; ox < p.ow; ++ox, out += V::W) {
            const std::int64_t ix = ox * p.sw - p.pl;
            const pool_span columns = window(ix, p.kw, p.dw, p.iw, p.pr, false);
            w.columns = columns.last - columns.first;
            if (w.rows > 0 && w.columns > 0) {
                const std::int64_t at = (iy + std::int64_t(rows.first) * p.dh) * row + (ix + std::int64_t(columns.first) * p.dw) * V::W;
                find_largest(w, x + at, a.y ? a.y + out : nullptr, a.places + out);
            } else {
                std::memset(a.places + out, 0, V::W);
                if (a.y) V::set1(-std::numeric_limits<float>::infinity()).store(a.y + out);
            }
        }
    }
}

// A plane at a time, window by window; `f` gets the window's place in the output and its spans.
template <class F>
inline void over_windows(const pool_problem& p, std::int64_t plane, bool include_pad, const F& f) {
    std::int64_t out = plane * p.oh * p.ow;
    for (std::int64_t oy = 0; oy < p.oh; ++oy) {
        const std::int64_t iy = oy * p.sh - p.pt;
        const pool_span rows = window(iy, p.kh, p.dh, p.ih, p.pb, include_pad);
        for (std::int64_t ox = 0; ox < p.ow; ++ox, ++out) {
            const std::int64_t ix = ox * p.sw - p.pl;
            f(out, rows, window(ix, p.kw, p.dw, p.iw, p.pr, include_pad), plane * p.ih * p.iw + iy * p.iw + ix);
        }
    }
}
inline GRAFT_NOINLINE void max_places_plane(const max_places_args& a, std::int64_t plane) {
    const pool_problem& p = a.p;
    over_windows(p, plane, false, [&](std::int64_t out, pool_span rows, pool_span columns, std::int64_t at) {
        int place = 0, tap = 0;
        float best = -std::numeric_limits<float>::infinity();
        bool bad = false;
        for (int ky = rows.first; ky < rows.last; ++ky)
            for (int kx = columns.first; kx < columns.last; ++kx, ++tap) {
                const float v = a.x[at + std::int64_t(ky) * p.dh * p.iw + std::int64_t(kx) * p.dw];
                bad |= v != v;
                if (tap == 0 || v > best) best = v, place = tap;
            }
        a.places[out] = static_cast<std::uint8_t>(place);
        if (a.y) a.y[out] = bad ? std::numeric_limits<float>::quiet_NaN() : best;
    });
}
template <bool Max>
inline GRAFT_NOINLINE void pool_grad_plane(const pool_grad_args& a, std::int64_t plane) {
    const pool_problem& p = a.p;
    std::memset(a.dx + plane * p.ih * p.iw, 0, static_cast<std::size_t>(p.ih * p.iw) * sizeof(float));
    over_windows(p, plane, p.count_include_pad, [&](std::int64_t out, pool_span rows, pool_span columns, std::int64_t at) {
        if (rows.last <= rows.first || columns.last <= columns.first) return;
        if constexpr (Max) {
            const int width = columns.last - columns.first, ky = rows.first + a.places[out] / width, kx = columns.first + a.places[out] % width;
            a.dx[at + std::int64_t(ky) * p.dh * p.iw + std::int64_t(kx) * p.dw] += a.dy[out];
        } else {
            const float share = a.dy[out] / static_cast<float>(rows.counted * columns.counted);
            for (int ky = rows.first; ky < rows.last; ++ky)
                for (int kx = columns.first; kx < columns.last; ++kx) a.dx[at + std::int64_t(ky) * p.dh * p.iw + std::int64_t(kx) * p.dw] += share;
        }
    });
}

inline void max_places(const max_places_args& a, std::int64_t first, std::int64_t count) {
    for (std::int64_t plane = first; plane < first + count; ++plane) a.p.l == layout::blocked ? max_places_block(a, plane) : max_places_plane(a, plane);
}
inline void max_pool_grad(const pool_grad_args& a, std::int64_t first, std::int64_t count) {
    for (std::int64_t plane = first; plane < first + count; ++plane)
        a.p.l == layout::blocked ? pool_grad_block<true>(a, plane) : pool_grad_plane<true>(a, plane);
}
inline void average_pool_grad(const pool_grad_args& a, std::int64_t first, std::int64_t count) {
    for (std::int64_t plane = first; plane < first + count; ++plane)
        a.p.l == layout::blocked ? pool_grad_block<false>(a, plane) : pool_grad_plane<false>(a, plane);
}

inline void global_average_grad(const float* dy, std::int64_t planes, std::int64_t pixels, bool blocked, float* dx) {
    const V count = V::set1(static_cast<float>(pixels));
    for (std::int64_t plane = 0; plane < planes; ++plane) {
        const V share = (blocked ? V::load(dy + plane * V::W) : V::set1(dy[plane])) / count;
        const std::int64_t n = blocked ? pixels * V::W : pixels;
        for (std::int64_t i = 0; i < n; i += V::W) store_some(share, dx + i, lanes_from(n - i));
        dx += n;
    }
}

inline const pool_grad_kernels* pool_grad_table() {
    static constexpr pool_grad_kernels all = {&max_places, &max_pool_grad, &average_pool_grad, &global_average_grad};
    return &all;
}
