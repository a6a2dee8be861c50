// Optimizers: the updates of torch.optim, with its order of float operations; norms of gradients and averages of weights.
#pragma once

#include "../../core/executor.hpp"
#include "../isa.hpp"
#include "optimizer_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// torch.optim.SGD without dampening. Sutskever et al. 2013 for the momentum, as PyTorch writes it.
struct sgd_options {
    double momentum = 0, weight_decay = 0;
    bool nesterov = false;
};
/// torch.optim.Adam, and AdamW where `decoupled`. Kingma, Ba 2015; Loshchilov, Hutter 2019.
struct adam_options {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
    bool decoupled = false;
};

/// The numbers of a step, made in double as PyTorch makes them. `step` counts from 1.
sgd_step sgd_step_of(const sgd_options& options, double learning_rate) noexcept;
adam_step adam_step_of(const adam_options& options, double learning_rate, std::int64_t step) noexcept;

/// Each result may be the memory that it follows from (new_w that of w), or separate. m and new_m null: no momentum.
void run_sgd(isa set, const sgd_step& step, const float* w, const float* g, const float* m, float* new_w, float* new_m, std::int64_t n, executor& pool);
void run_adam(isa set, const adam_step& step, const float* w, const float* g, const float* m, const float* v, float* new_w, float* new_m, float* new_v,
              std::int64_t n, executor& pool);
/// average + (1 - decay) * (w - average)
void run_moving_average(isa set, double decay, const float* average, const float* w, float* new_average, std::int64_t n, executor& pool);

/// Bytes of workspace (alignment 64) for run_global_norm over `arrays` arrays with `elements` numbers together.
std::int64_t global_norm_workspace_bytes(std::int64_t arrays, std::int64_t elements);
/// The Euclidean norm of all arrays as one vector; sums in double, in an order that their sizes alone fix.
float run_global_norm(isa set, const float* const* arrays, const std::int64_t* sizes, std::int64_t count, void* workspace, executor& pool);
/// x * min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; y may be x. A norm that is NaN makes NaN.
void run_scale_by_norm(isa set, float norm, float max_norm, const float* x, float* y, std::int64_t n, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr std::int64_t norm_grain = 16384;   // of the global norm, whose bits depend on it
constexpr std::int64_t update_grain = 4096;  // small arrays go to those threads too that have just written their gradients

// The sum of n numbers in pairs of halves.
inline double sum_pairwise(const double* x, std::int64_t n) {
    if (n <= 8) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += x[i];
        return sum;
    }
    return sum_pairwise(x, n / 2) + sum_pairwise(x + n / 2, n - n / 2);
}

}  // namespace detail

GRAFT_INLINE sgd_step sgd_step_of(const sgd_options& o, double learning_rate) noexcept {
    return {static_cast<float>(-learning_rate), static_cast<float>(o.momentum), static_cast<float>(o.weight_decay), o.nesterov};
}

GRAFT_INLINE adam_step adam_step_of(const adam_options& o, double learning_rate, std::int64_t step) noexcept {
    const double n = static_cast<double>(step), correction1 = 1 - std::pow(o.beta1, n), correction2 = 1 - std::pow(o.beta2, n);
    adam_step s{};
    s.shrink = o.decoupled && o.weight_decay != 0 ? static_cast<float>(1 - learning_rate * o.weight_decay) : 1.0f;
    s.weight_decay = o.decoupled ? 0.0f : static_cast<float>(o.weight_decay);
    s.share = static_cast<float>(1 - o.beta1);
    s.keep = static_cast<float>(o.beta2);
    s.square_share = static_cast<float>(1 - o.beta2);
    s.correction = static_cast<float>(std::sqrt(correction2));
    s.epsilon = static_cast<float>(o.epsilon);
    s.minus_step = static_cast<float>(-(learning_rate / correction1));
    return s;
}

GRAFT_INLINE void run_sgd(isa set, const sgd_step& step, const float* w, const float* g, const float* m, float* new_w, float* new_m, std::int64_t n,
                          executor& pool) {
    const optimizer_kernels& k = *training_kernels(set).optimizer;
    parallel_for_pieces(pool, n, detail::update_grain,
                        [&](std::int64_t i, std::int64_t count) { k.sgd(step, w + i, g + i, m ? m + i : nullptr, new_w + i, m ? new_m + i : nullptr, count); });
}

GRAFT_INLINE void run_adam(isa set, const adam_step& step, const float* w, const float* g, const float* m, const float* v, float* new_w, float* new_m,
                           float* new_v, std::int64_t n, executor& pool) {
    const optimizer_kernels& k = *training_kernels(set).optimizer;
    parallel_for_pieces(pool, n, detail::update_grain,
                        [&](std::int64_t i, std::int64_t count) { k.adam(step, w + i, g + i, m + i, v + i, new_w + i, new_m + i, new_v + i, count); });
}

GRAFT_INLINE void run_moving_average(isa set, double decay, const float* average, const float* w, float* new_average, std::int64_t n, executor& pool) {
    const optimizer_kernels& k = *training_kernels(set).optimizer;
    const float share = static_cast<float>(1 - decay);
    parallel_for_pieces(pool, n, detail::update_grain, [&](std::int64_t i, std::int64_t count) { k.blend(share, average + i, w + i, new_average + i, count); });
}

GRAFT_INLINE std::int64_t global_norm_workspace_bytes(std::int64_t arrays, std::int64_t elements) {
    // A sum for each piece, of which every array may leave one half empty, and the first piece of each array.
    return (elements / detail::norm_grain + 2 * arrays + 1) * 8;
}

GRAFT_INLINE float run_global_norm(isa set, const float* const* arrays, const std::int64_t* sizes, std::int64_t count, void* workspace, executor& pool) {
    const optimizer_kernels& k = *training_kernels(set).optimizer;
    const std::int64_t grain = detail::norm_grain;
    std::int64_t* first = static_cast<std::int64_t*>(workspace);
    double* sums = reinterpret_cast<double*>(first + count + 1);
    first[0] = 0;
    for (std::int64_t i = 0; i < count; ++i) first[i + 1] = first[i] + (sizes[i] + grain - 1) / grain;
    const std::int64_t pieces = first[count];
    // Small arrays share a task.
    const std::int64_t tasks = (pieces + 3) / 4;
    parallel_for(pool, tasks, [&](std::int64_t t) {
        for (std::int64_t piece = 4 * t; piece < std::min(pieces, 4 * t + 4); ++piece) {
            const std::int64_t array = std::upper_bound(first, first + count + 1, piece) - first - 1, at = (piece - first[array]) * grain;
            sums[piece] = k.square_sum(arrays[array] + at, std::min(grain, sizes[array] - at));
        }
    });
    return static_cast<float>(std::sqrt(detail::sum_pairwise(sums, pieces)));
}

GRAFT_INLINE void run_scale_by_norm(isa set, float norm, float max_norm, const float* x, float* y, std::int64_t n, executor& pool) {
    const optimizer_kernels& k = *training_kernels(set).optimizer;
    const float fits = max_norm / (norm + 1e-6f), factor = fits > 1.0f ? 1.0f : fits;
    if (factor == 1.0f && x == y) return;
    parallel_for_pieces(pool, n, detail::update_grain, [&](std::int64_t i, std::int64_t count) { k.scale(factor, x + i, y + i, count); });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
