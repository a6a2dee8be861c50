// Depthwise convolution of blocked images: text, included once for each instruction set.

// M outputs of one row, all of whose columns are inside; S is the stride, ky runs over the rows that are inside.
template <int M, int S>
GRAFT_VECTOR void depthwise_tile(const conv_args& a, const float* x, const float* w, V bias, int ky0, int ky1, float* y, const float* residual) {
    const conv_problem& p = a.p;
    V sum[M];
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) sum[m] = bias;
    for (int ky = ky0; ky < ky1; ++ky) {
        const float* row = x + std::int64_t(ky) * p.dh * p.iw * V::W;
        const float* wk = w + ky * p.kw * V::W;
        for (int kx = 0; kx < p.kw; ++kx, row += p.dw * V::W, wk += V::W) {
            const V b = V::load(wk);
            GRAFT_UNROLL
            for (int m = 0; m < M; ++m) sum[m] = fma(V::load(row + m * S * V::W), b, sum[m]);
        }
    }
    const bool before = residual && !a.p.ep.residual_after_activation, after = residual && a.p.ep.residual_after_activation;
    const V low = V::set1(a.low), high = V::set1(a.high);
    GRAFT_UNROLL
    for (int m = 0; m < M; ++m) {
        if (before) sum[m] = sum[m] + V::load(residual + m * V::W);
        if (a.clamp) sum[m] = min(high, max(low, sum[m]));
        if (after) sum[m] = sum[m] + V::load(residual + m * V::W);
        sum[m].store(y + m * V::W);
    }
}

// One output at the left or right border, or between tiles.
GRAFT_VECTOR void depthwise_pixel(const conv_args& a, const float* x, std::int64_t ix, const float* w, V bias, int ky0, int ky1,
                                  float* y, const float* residual) {
    const conv_problem& p = a.p;
    V sum = bias;
    for (int ky = ky0; ky < ky1; ++ky) {
        const float* row = x + std::int64_t(ky) * p.dh * p.iw * V::W;
        for (int kx = 0; kx < p.kw; ++kx) {
            const std::int64_t at = ix + kx * p.dw;
            if (at >= 0 && at < p.iw) sum = fma(V::load(row + kx * p.dw * V::W), V::load(w + (ky * p.kw + kx) * V::W), sum);
        }
    }
    if (residual && !p.ep.residual_after_activation) sum = sum + V::load(residual);
    if (a.clamp) sum = min(V::set1(a.high), max(V::set1(a.low), sum));
    if (residual && p.ep.residual_after_activation) sum = sum + V::load(residual);
    sum.store(y);
}

template <int S> GRAFT_VECTOR void depthwise_rows(const conv_args& a, const float* x, const float* w, V bias, std::int64_t oy0, std::int64_t oy1,
                                                  float* y, const float* residual) {
    const conv_problem& p = a.p;
    // Outputs [left, right) read no column outside the image.
    std::int64_t left = (p.pl + p.sw - 1) / p.sw, right = p.iw + p.pl - std::int64_t(p.kw - 1) * p.dw;
    right = right > 0 ? (right - 1) / p.sw + 1 : 0;
    if (left > p.ow) left = p.ow;
    if (right > p.ow) right = p.ow;
    for (std::int64_t oy = oy0; oy < oy1; ++oy) {
        const std::int64_t iy = oy * p.sh - p.pt;
        int ky0 = 0, ky1 = p.kh;
        while (ky0 < p.kh && iy + ky0 * p.dh < 0) ++ky0;
        while (ky1 > ky0 && iy + (ky1 - 1) * p.dh >= p.ih) --ky1;
        const float* row = x + (iy * p.iw - p.pl) * V::W;
        const std::int64_t out = oy * p.ow * V::W;
        for (std::int64_t ox = 0; ox < p.ow;) {
            const float* at = row + ox * p.sw * V::W;
            float* to = y + out + ox * V::W;
            const float* add = residual && !a.run_activation ? residual + out + ox * V::W : nullptr;
            if (S && ox >= left && ox + 8 <= right) {
                depthwise_tile<8, S>(a, at, w, bias, ky0, ky1, to, add);
                ox += 8;
            } else if (S && ox >= left && ox + 4 <= right) {
                depthwise_tile<4, S>(a, at, w, bias, ky0, ky1, to, add);
                ox += 4;
            } else {
                depthwise_pixel(a, at, ox * p.sw - p.pl, w, bias, ky0, ky1, to, add);
                ox += 1;
            }
        }
        if (a.run_activation) finish_run(a, y + out, residual ? residual + out : nullptr, p.ow * V::W);
    }
}

// One task: some rows (`batch_tiles`) of one block of channels of one image.
inline void conv_depthwise(const conv_args& a, std::int64_t task) {
    const conv_problem& p = a.p;
    const std::int64_t blocks = (p.oc + V::W - 1) / V::W;
    const std::int64_t oy0 = task % a.batches * a.batch_tiles, oy1 = oy0 + a.batch_tiles < p.oh ? oy0 + a.batch_tiles : p.oh;
    task /= a.batches;
    const std::int64_t channel = task % blocks * V::W;
    const float* x = a.x + task * p.ih * p.iw * V::W;
    const float* w = a.weight + channel * p.kh * p.kw;
    const std::int64_t out = task * p.oh * p.ow * V::W;
    V bias = V::zero();
    if (a.bias) bias = p.oc - channel >= V::W ? V::load(a.bias + channel) : V::load_partial(a.bias + channel, static_cast<int>(p.oc - channel));
    const float* residual = a.residual ? a.residual + out : nullptr;
    if (p.sw == 1)
        depthwise_rows<1>(a, x, w, bias, oy0, oy1, a.y + out, residual);
    else if (p.sw == 2)
        depthwise_rows<2>(a, x, w, bias, oy0, oy1, a.y + out, residual);
    else
        depthwise_rows<0>(a, x, w, bias, oy0, oy1, a.y + out, residual);
}
