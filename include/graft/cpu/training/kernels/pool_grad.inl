// Gradients of pooling: text, included once for each instruction set. Windows hand their gradients out in order; the rows of a plane
// are cleared just before the first window that reaches them.

// The taps of one window that are inside.
struct window_taps {
    std::int64_t row_step, column_step; // floats from tap to tap
    int rows, columns;
};

// The first largest pixel of each channel gets the gradient. A NaN is larger than nothing; where it comes first it stays.
GRAFT_VECTOR void give_to_largest(const window_taps& w, const float* x, V gradient, float* dx) {
    V best = V::load(x);
    I place = I::set1(0);
    int tap = 0;
    for (int ky = 0; ky < w.rows; ++ky)
        for (int kx = 0; kx < w.columns; ++kx, ++tap) {
            const V v = V::load(x + ky * w.row_step + kx * w.column_step);
            const M more = best < v;
            best = select(more, v, best);
            place = select(more, I::set1(tap), place);
        }
    tap = 0;
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

template <bool Max> inline GRAFT_NOINLINE void pool_grad_block(const pool_grad_args& a, std::int64_t plane) {
    const pool_problem& p = a.p;
    const std::int64_t row = p.iw * V::W;
    const float* x = Max ? a.x + plane * p.ih * row : nullptr;
    float* dx = a.dx + plane * p.ih * row;
    const float* dy = a.dy + plane * p.oh * p.ow * V::W;
    const std::int64_t left = (p.pl + p.sw - 1) / p.sw; // windows from here on begin inside
    window_taps w{p.dh * row, std::int64_t(p.dw) * V::W, 0, 0};
    std::int64_t cleared = 0;
    for (std::int64_t oy = 0; oy < p.oh; ++oy) {
        const std::int64_t iy = oy * p.sh - p.pt;
        const pool_span rows = window(iy, p.kh, p.dh, p.ih, p.pb, p.count_include_pad);
        w.rows = rows.last - rows.first;
        const std::int64_t reached = w.rows > 0 ? iy + std::int64_t(rows.last - 1) * p.dh + 1 : 0;
        for (std::int64_t i = cleared * row; i < reached * row; i += V::W) {
            if (Max) GRAFT_PREFETCH(x + i);
            V::zero().store(dx + i);
        }
        if (reached > cleared) cleared = reached;
        for (std::int64_t ox = 0; ox < p.ow; ++ox, dy += V::W) {
            const std::int64_t ix = ox * p.sw - p.pl;
            pool_span columns{0, p.kw, p.kw};
            if (ox < left || ix + std::int64_t(p.kw - 1) * p.dw >= p.iw) columns = window(ix, p.kw, p.dw, p.iw, p.pr, p.count_include_pad);
            w.columns = columns.last - columns.first;
            if (w.rows <= 0 || w.columns <= 0) continue;
            const std::int64_t at = (iy + std::int64_t(rows.first) * p.dh) * row + (ix + std::int64_t(columns.first) * p.dw) * V::W;
            if constexpr (Max)
                give_to_largest(w, x + at, V::load(dy), dx + at);
            else
                give_to_all(w, V::load(dy) / V::set1(static_cast<float>(rows.counted * columns.counted)), dx + at);
        }
    }
    for (std::int64_t i = cleared * row; i < p.ih * row; i += V::W) V::zero().store(dx + i);
}

template <bool Max> inline GRAFT_NOINLINE void pool_grad_plane(const pool_grad_args& a, std::int64_t plane) {
    const pool_problem& p = a.p;
    const float* x = Max ? a.x + plane * p.ih * p.iw : nullptr;
    float* dx = a.dx + plane * p.ih * p.iw;
    const float* dy = a.dy + plane * p.oh * p.ow;
    std::memset(dx, 0, static_cast<std::size_t>(p.ih * p.iw) * sizeof(float));
    for (std::int64_t oy = 0; oy < p.oh; ++oy) {
        const std::int64_t iy = oy * p.sh - p.pt;
        const pool_span rows = window(iy, p.kh, p.dh, p.ih, p.pb, p.count_include_pad);
        for (std::int64_t ox = 0; ox < p.ow; ++ox, ++dy) {
            const std::int64_t ix = ox * p.sw - p.pl;
            const pool_span columns = window(ix, p.kw, p.dw, p.iw, p.pr, p.count_include_pad);
            const float share = Max ? *dy : *dy / static_cast<float>(rows.counted * columns.counted);
            std::int64_t best = -1;
            for (int ky = rows.first; ky < rows.last; ++ky)
                for (int kx = columns.first; kx < columns.last; ++kx) {
                    const std::int64_t at = (iy + std::int64_t(ky) * p.dh) * p.iw + ix + std::int64_t(kx) * p.dw;
                    if constexpr (Max) {
                        if (best < 0 || x[at] > x[best]) best = at;
                    } else {
                        dx[at] += share;
                    }
                }
            if (Max && best >= 0) dx[best] += share;
        }
    }
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
    static constexpr pool_grad_kernels all = {&max_pool_grad, &average_pool_grad, &global_average_grad};
    return &all;
}
