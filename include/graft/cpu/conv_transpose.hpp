// Transposed convolution of float32 NCHW tensors: a matrix product, whose columns are then added into the image.
#pragma once

#include "../core/shape.hpp"
#include "elementwise.hpp"
#include "gemm.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Extents of a transposed convolution; the weight is [ic][oc / groups][kh][kw]. oh and ow are given, pads at the end follow from
/// them.
struct conv_transpose_problem {
    std::int64_t n = 0, ic = 0, ih = 0, iw = 0, oc = 0, oh = 0, ow = 0;
    int groups = 1, kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1, pt = 0, pl = 0;
    epilogue ep;  ///< only the activation is looked at
};

/// Bytes of workspace (alignment 64) that run_conv_transpose needs.
std::int64_t conv_transpose_workspace_bytes(isa set, const conv_transpose_problem& problem);
/// y = act(conv_transpose(x, weight) + bias); bias may be null, y must not overlap the others.
void run_conv_transpose(isa set, const conv_transpose_problem& problem, const float* x, const float* weight, const float* bias, float* y, void* workspace,
                        executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// columns[(oc kh kw)][ih iw] = weight^T x of one image and group.
inline gemm_problem conv_transpose_product(const conv_transpose_problem& p) {
    gemm_problem g;
    g.m = p.oc / p.groups * p.kh * p.kw, g.n = p.ih * p.iw, g.k = p.ic / p.groups;
    g.trans_a = true;
    return g;
}

// Floats of the columns, whole cache lines; more than any limit allows where the number does not fit.
inline std::int64_t conv_transpose_columns(const conv_transpose_problem& p) {
    const std::int64_t taps = checked_mul(p.oc / p.groups, checked_mul(p.kh, p.kw)), plane = checked_mul(p.ih, p.iw);
    const std::int64_t floats = taps < 0 || plane < 0 ? -1 : checked_mul(taps, plane), most = std::int64_t(1) << 56;
    return floats < 0 || floats > most ? most : (floats + 15) / 16 * 16;
}

// Adds the columns of one output channel into its plane, tap by tap: the order is the same for every split into tasks.
inline void add_columns(const conv_transpose_problem& p, const float* columns, float start, float* y) {
    for (std::int64_t i = 0; i < p.oh * p.ow; ++i) y[i] = start;
    for (int r = 0; r < p.kh; ++r)
        for (int s = 0; s < p.kw; ++s, columns += p.ih * p.iw) {
            // Input columns whose output column is inside.
            const std::int64_t shift = std::int64_t(s) * p.dw - p.pl;
            const std::int64_t first = shift >= 0 ? 0 : (-shift + p.sw - 1) / p.sw;
            const std::int64_t last = p.ow - shift <= 0 ? 0 : std::min(p.iw, (p.ow - shift + p.sw - 1) / p.sw);
            for (std::int64_t h = 0; h < p.ih; ++h) {
                const std::int64_t row = h * p.sh + std::int64_t(r) * p.dh - p.pt;
                if (row < 0 || row >= p.oh) continue;
                const float* from = columns + h * p.iw;
                float* to = y + row * p.ow;
                if (p.sw == 1)
                    for (std::int64_t v = first; v < last; ++v) to[v + shift] += from[v];
                else
                    for (std::int64_t v = first; v < last; ++v) to[v * p.sw + shift] += from[v];
            }
        }
}

}  // namespace detail

GRAFT_INLINE std::int64_t conv_transpose_workspace_bytes(isa set, const conv_transpose_problem& p) {
    return detail::conv_transpose_columns(p) * 4 + gemm_workspace_bytes(set, detail::conv_transpose_product(p));
}

GRAFT_INLINE void run_conv_transpose(isa set, const conv_transpose_problem& p, const float* x, const float* weight, const float* bias, float* y,
                                     void* workspace, executor& pool) {
    const elementwise_kernels& k = *kernels(set).elementwise;
    const gemm_problem product = detail::conv_transpose_product(p);
    float* columns = static_cast<float*>(workspace);
    float* rest = columns + detail::conv_transpose_columns(p);
    const std::int64_t out_channels = p.oc / p.groups, in_channels = p.ic / p.groups, plane = p.oh * p.ow, taps = std::int64_t(p.kh) * p.kw;
    for (std::int64_t i = 0; i < p.n; ++i)
        for (int g = 0; g < p.groups; ++g) {
            run_gemm(set, product, weight + g * in_channels * product.m, x + (i * p.ic + g * in_channels) * p.ih * p.iw, nullptr, nullptr, columns, rest, pool);
            parallel_for(pool, out_channels, [&](std::int64_t o) {
                const std::int64_t channel = g * out_channels + o;
                float* out = y + (i * p.oc + channel) * plane;
                detail::add_columns(p, columns + o * taps * p.ih * p.iw, bias ? bias[channel] : 0.0f, out);
                if (p.ep.act != activation::none) k.activation_run(p.ep.act, p.ep.alpha, p.ep.beta, out, out, plane);
            });
        }
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
