// MixUp and CutMix: a batch blended with itself, moved on by one sample, as in torchvision.
#pragma once

#include "../tensor/tensor.hpp"
#include "augment.hpp"

GRAFT_BEGIN_NAMESPACE

/// What is done to one batch.
struct mix_plan {
    enum class way { none, mixup, cutmix };
    way kind = way::none;
    double lambda = 1;  ///< share of the sample itself, also in its label; the rest is of the one before it
    crop_box box;       ///< of cutmix: what comes from the other sample
};

/// A number distributed as Beta(a, b); by gamma numbers (Marsaglia and Tsang 2000).
double random_beta(double a, double b, random_sequence& random);

/// Draws the plan for one batch of pictures of `height` x `width`: mixup (Zhang et al. 2017) or cutmix (Yun et al. 2019), one of
/// them by a fair coin where both are asked for. Cutmix's lambda is that of the box after it was cut at the edges.
mix_plan draw_mix(const augmentation& augment, std::int64_t height, std::int64_t width, random_sequence& random);

/// Blends sample i with sample i - 1 (the first with the last), in place; float32, (N, C, H, W) or (N, H, W, C). Errors:
/// input.shape, input.dtype, memory.oom.
status mix(tensor& batch, const mix_plan& plan, bool nchw);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Gamma(shape, 1).
inline double random_gamma(double shape, random_sequence& random) {
    if (shape < 1) {
        // Gamma(shape + 1) times U^(1 / shape).
        const double u = 1 - random.uniform();
        return random_gamma(shape + 1, random) * std::pow(u, 1 / shape);
    }
    const double d = shape - 1.0 / 3.0, c = 1 / std::sqrt(9 * d);
    // A try fails once in twenty at worst.
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const double x = random.normal(), u = 1 - random.uniform(), t = 1 + c * x, v = t * t * t;
        if (t > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
    return d;
}

inline void cut_in(const float* other, float* own, const mix_plan& plan, const shape& e, bool nchw) {
    const std::int64_t planes = nchw ? e[1] : 1, pixel = nchw ? 1 : e[3], height = e[nchw ? 2 : 1], width = e[nchw ? 3 : 2];
    for (std::int64_t c = 0; c < planes; ++c)
        for (std::int64_t y = plan.box.top; y < plan.box.top + plan.box.height; ++y) {
            const std::int64_t at = ((c * height + y) * width + plan.box.left) * pixel;
            std::memcpy(own + at, other + at, static_cast<std::size_t>(plan.box.width * pixel) * sizeof(float));
        }
}

}  // namespace detail

GRAFT_INLINE double random_beta(double a, double b, random_sequence& random) {
    const double x = detail::random_gamma(a, random), y = detail::random_gamma(b, random);
    // Both underflow where a and b are tiny: all of it is at the ends then.
    return x + y > 0 ? x / (x + y) : random.uniform() * (a + b) < a ? 1.0 : 0.0;
}

GRAFT_INLINE mix_plan draw_mix(const augmentation& augment, std::int64_t height, std::int64_t width, random_sequence& random) {
    mix_plan plan;
    const bool heads = random.below(2) == 0;
    if (augment.mixup <= 0 && augment.cutmix <= 0) return plan;
    plan.kind = augment.cutmix <= 0 || (augment.mixup > 0 && heads) ? mix_plan::way::mixup : mix_plan::way::cutmix;
    const double alpha = plan.kind == mix_plan::way::mixup ? augment.mixup : augment.cutmix;
    plan.lambda = random_beta(alpha, alpha, random);
    if (plan.kind == mix_plan::way::mixup) return plan;
    const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
    const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height)));
    const double r = 0.5 * std::sqrt(1 - plan.lambda);
    const auto half_width = static_cast<std::int64_t>(r * static_cast<double>(width));
    const auto half_height = static_cast<std::int64_t>(r * static_cast<double>(height));
    plan.box.left = x > half_width ? x - half_width : 0;
    plan.box.top = y > half_height ? y - half_height : 0;
    plan.box.width = (x + half_width < width ? x + half_width : width) - plan.box.left;
    plan.box.height = (y + half_height < height ? y + half_height : height) - plan.box.top;
    plan.lambda = 1 - static_cast<double>(plan.box.width * plan.box.height) / static_cast<double>(width * height);
    return plan;
}

GRAFT_INLINE status mix(tensor& batch, const mix_plan& plan, bool nchw) GRAFT_MEMORY_TRY {
    if (plan.kind == mix_plan::way::none || !batch.elements()) return {};
    if (batch.type() != dtype::float32) return fail(errc::input_dtype, "mix", std::string("batches of float32 are mixed, not of ") + name(batch.type()));
    const shape& e = batch.shape();
    if (e.rank() != 4) return fail(errc::input_shape, "mix", "a batch of pictures has 4 dimensions; this one is " + text(e));
    const std::int64_t samples = e[0], n = batch.elements() / samples;
    const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
    buffer last;
    GRAFT_TRY_ASSIGN(last, buffer::allocate(bytes));
    float* x = batch.data<float>();
    // From the end, so that every sample meets its neighbour as it was; the first one's neighbour is kept aside.
    std::memcpy(last.data(), x + (samples - 1) * n, bytes);
    const auto own_share = static_cast<float>(plan.lambda), other_share = static_cast<float>(1 - plan.lambda);
    for (std::int64_t i = samples - 1; i >= 0; --i) {
        float* own = x + i * n;
        const float* other = i ? own - n : reinterpret_cast<const float*>(last.data());
        if (plan.kind == mix_plan::way::cutmix)
            detail::cut_in(other, own, plan, e, nchw);
        else
            for (std::int64_t k = 0; k < n; ++k) own[k] = other[k] * other_share + own[k] * own_share;
    }
    return {};
}
GRAFT_MEMORY_CATCH("mix")

GRAFT_END_NAMESPACE
#endif
