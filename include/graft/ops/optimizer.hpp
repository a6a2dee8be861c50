// Optimisers as operators of the domain graft: the updates of torch.optim, a running average of weights, and clipping by the norm.
#pragma once

#include "../core/decimal.hpp"
#include "window.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// What the updates share. Arithmetic is in double, from inputs rounded to their types; attributes are the decimals that were meant.
inline double decimal(const op_context& c, const char* name, double otherwise) { return c.has_attribute(name) ? decimal_of(c.real(name, 0)) : otherwise; }

/// Inputs [0, alike) (the first is there, others may be left out) are of one type and shape; those of `scalars` have one element.
inline status check_update(const op_context& c, int alike, std::initializer_list<int> scalars) {
    GRAFT_TRY(check_real(c, 0));
    for (int i = 1; i < alike; ++i) {
        GRAFT_TRY(check_same_type(c, i, 0));
        if (c.has(i) && c.in[i].extents != c.in[0].extents) return c.fail_shapes("a weight, its gradient and its state must have one shape");
    }
    for (int i : scalars) GRAFT_TRY(check_scalar(c, i));
    return {};
}
/// Whether input i, the loss, is a finite number; where it is not, an update leaves everything as it was.
inline bool loss_is_finite(const run_context& c, int i) noexcept { return !c.has(i) || std::isfinite(c.in[i].real(0)); }

/// Loads up to four inputs in blocks, calls f(n, blocks) and stores the outputs: block k is input from[k] and becomes output to[k]
/// (-1: none, or left out).
template <int Blocks, class F>
inline void for_update(run_context& c, const int (&from)[Blocks], const int (&to)[Blocks], const F& f) {
    for_blocks(c.pool, c.in[0].elements(), [&](std::int64_t first, int n) {
        double block[Blocks][block_size];
        for (int k = 0; k < Blocks; ++k) {
            if (from[k] >= 0 && c.has(from[k]))
                graft::load_as_double(c.in[from[k]].type, c.in[from[k]].data, first, n, block[k]);
            else
                std::fill(block[k], block[k] + n, 0.0);
        }
        f(n, block);
        for (int k = 0; k < Blocks; ++k)
            if (to[k] >= 0 && c.wants(to[k])) store_from_double(c.out[to[k]].type, c.out[to[k]].data, first, n, block[k]);
    });
}
/// Gives every output i the input from[i].
template <int Outputs>
inline status keep_all(run_context& c, const int (&from)[Outputs]) {
    for (int i = 0; i < Outputs; ++i)
        if (c.wants(i) && c.has(from[i])) GRAFT_TRY(copy_input(c, from[i], i));
    return {};
}

// graft.SGD(W, G, momentum_buffer?, learning_rate, loss?) -> W', momentum_buffer': torch.optim.SGD. g = G + weight_decay * W;
// b = momentum * b + (1 - dampening) * g; g = nesterov ? g + momentum * b : b; W' = W - learning_rate * rate * g. The first buffer is
// zeros, which is torch's first step for dampening = 0. Where `loss` is there and not finite, nothing changes.
inline status sgd_infer(infer_context& c) {
    GRAFT_TRY(check_update(c, 3, {3, 4}));
    GRAFT_TRY(check_real(c, 3));
    if (c.has(4)) GRAFT_TRY(check_real(c, 4));
    if (!c.has(2) && c.real("momentum", 0) != 0) return c.fail(errc::op_attribute, "momentum needs a buffer");
    GRAFT_TRY(c.set(0, c.in[0].type, c.in[0].extents));
    return c.set(1, c.in[0].type, c.in[0].extents);
}
inline status sgd_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    if (!loss_is_finite(c, 4)) return keep_all(c, {0, 2});
    const double momentum = decimal(c, "momentum", 0), damped = 1 - decimal(c, "dampening", 0), decay = decimal(c, "weight_decay", 0);
    const double step = c.in[3].real(0) * decimal(c, "rate", 1);
    const bool nesterov = c.integer("nesterov", 0) != 0;
    for_update(c, {0, 1, 2}, {0, -1, 1}, [&](int n, double(*block)[block_size]) {
        double *w = block[0], *g = block[1], *b = block[2];
        for (int i = 0; i < n; ++i) {
            g[i] += decay * w[i];
            if (momentum != 0) {
                b[i] = momentum * b[i] + damped * g[i];
                g[i] = nesterov ? g[i] + momentum * b[i] : b[i];
            }
            w[i] -= step * g[i];
        }
    });
    return {};
}

// graft.Adam(W, G, M, V, learning_rate, step, loss?) -> W', M', V': torch.optim.Adam, and AdamW where `decoupled`; `step` counts the
// updates from 1. lr = learning_rate * rate; decoupled: W = W * (1 - lr * weight_decay), else G = G + weight_decay * W;
// M' = M + (1 - beta1) * (G - M), V' = beta2 * V + (1 - beta2) * G^2;
// W' = W - lr / (1 - beta1^step) * M' / (sqrt(V') / sqrt(1 - beta2^step) + epsilon). Where `loss` is not finite nothing changes.
inline status adam_infer(infer_context& c) {
    GRAFT_TRY(check_update(c, 4, {4, 5, 6}));
    GRAFT_TRY(check_real(c, 4));
    if (c.in[5].type != dtype::int64) return c.fail(errc::op_type, "the step must be int64");
    if (c.has(6)) GRAFT_TRY(check_real(c, 6));
    for (int i = 0; i < 3; ++i) GRAFT_TRY(c.set(i, c.in[0].type, c.in[0].extents));
    return {};
}
inline status adam_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    if (!loss_is_finite(c, 6)) return keep_all(c, {0, 2, 3});
    const double beta1 = decimal(c, "beta1", 0.9), beta2 = decimal(c, "beta2", 0.999), epsilon = decimal(c, "epsilon", 1e-8),
                 decay = decimal(c, "weight_decay", 0);
    const double rate = c.in[4].real(0) * decimal(c, "rate", 1), step = static_cast<double>(std::max<std::int64_t>(c.in[5].integer(0), 1));
    const double size = rate / (1 - std::pow(beta1, step)), correction = std::sqrt(1 - std::pow(beta2, step));
    const bool decoupled = c.integer("decoupled", 0) != 0;
    for_update(c, {0, 1, 2, 3}, {0, -1, 1, 2}, [&](int n, double(*block)[block_size]) {
        double *w = block[0], *g = block[1], *m = block[2], *v = block[3];
        for (int i = 0; i < n; ++i) {
            if (decoupled)
                w[i] *= 1 - rate * decay;
            else
                g[i] += decay * w[i];
            m[i] += (1 - beta1) * (g[i] - m[i]);
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
            w[i] -= size * m[i] / (std::sqrt(v[i]) / correction + epsilon);
        }
    });
    return {};
}

// graft.ExponentialMovingAverage(E, W, loss?, step?) -> E' = decay * E + (1 - decay) * W, as torch.optim.swa_utils has it; with a step, by
// warm_decay
inline status average_infer(infer_context& c) {
    GRAFT_TRY(check_update(c, 2, {2, 3}));
    if (c.has(2)) GRAFT_TRY(check_real(c, 2));
    if (c.has(3) && c.in[3].type != dtype::int64) return c.fail(errc::op_type, "the step must be int64");
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status average_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    if (!loss_is_finite(c, 2)) return keep_all(c, {0});
    const double given = decimal(c, "decay", 0.999), decay = c.has(3) ? warm_decay(given, c.in[3].integer(0)) : given;
    for_update(c, {0, 1}, {0, -1}, [&](int n, double(*block)[block_size]) {
        for (int i = 0; i < n; ++i) block[0][i] = decay * block[0][i] + (1 - decay) * block[1][i];
    });
    return {};
}

// graft.GlobalNorm(G...) -> the square root of the sum of all squares, as a scalar; graft.ScaleByNorm(G, norm) -> G *
// min(1, max_norm / (norm + 1e-6)): together torch.nn.utils.clip_grad_norm_. A norm that is no number makes every gradient that.
inline status global_norm_infer(infer_context& c) {
    for (int i = 0; i < c.inputs; ++i) GRAFT_TRY(check_real(c, i));
    return c.set(0, c.in[0].type, {});
}
inline status global_norm_run(run_context& c) {
    double total = 0;
    for (int i = 0; i < c.inputs; ++i) {
        double block[block_size], sum = 0;
        const std::int64_t n = is_empty(c.in[i]) ? 0 : c.in[i].elements();
        for (std::int64_t first = 0; first < n; first += block_size) {
            const std::int64_t count = std::min<std::int64_t>(block_size, n - first);
            graft::load_as_double(c.in[i].type, c.in[i].data, first, count, block);
            for (std::int64_t k = 0; k < count; ++k) sum += block[k] * block[k];
        }
        total += sum;
    }
    total = std::sqrt(total);
    store_from_double(c.out[0].type, c.out[0].data, 0, 1, &total);
    return {};
}
inline status scale_by_norm_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_real(c, 1));
    GRAFT_TRY(check_scalar(c, 1));
    if (!c.has_attribute("max_norm") || !(c.real("max_norm", 0) > 0)) return c.fail(errc::op_attribute, "max_norm must be given, and be above 0");
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status scale_by_norm_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    const double ratio = decimal(c, "max_norm", 1) / (c.in[1].real(0) + 1e-6), factor = ratio > 1 ? 1 : ratio;
    for_update(c, {0}, {0}, [&](int n, double(*block)[block_size]) {
        for (int i = 0; i < n; ++i) block[0][i] *= factor;
    });
    return {};
}

inline op_table optimizer_ops() {
    static constexpr op_row rows[] = {
        own("SGD")
            .inputs(4, 5)
            .outputs(1, 2)
            .functions(sgd_infer, sgd_run)
            .plays(op_role::update)
            .exact_outputs_from(0)
            .attributes("dampening:f momentum:f nesterov:i rate:f weight_decay:f")
            .problems("f32[5,17] f32[5,17] - f32(0.1) f32(1); f32[1000] f32[1000] f32[1000] f32(0.1) f32(1) momentum=0.9 weight_decay=0.01; f32[33] f32[33] "
                      "f32[33] f32(0.1) f32(1) momentum=0.9 nesterov=1 rate=0.5; "
                      "f32[7] f32[7] f32[7] f32(0.1) - momentum=0.5 dampening=0.25; f64[9] f64[9] f64[9] f64(0.1) f64(1) momentum=0.9; f32[0] f32[0] - "
                      "f32(0.1) f32(1)"),
        own("Adam")
            .inputs(6, 7)
            .outputs(1, 3)
            .functions(adam_infer, adam_run)
            .plays(op_role::update)
            .exact_outputs_from(0)
            .attributes("beta1:f beta2:f decoupled:i epsilon:f rate:f weight_decay:f")
            .problems("f32[5,17] f32[5,17] f32[5,17] f32[5,17]~0:1 f32(0.01) i64(1) f32(1); f32[1000] f32[1000] f32[1000] f32[1000]~0:1 f32(0.01) i64(7) "
                      "f32(1) weight_decay=0.1 decoupled=1 rate=0.5; "
                      "f32[33] f32[33] f32[33] f32[33]~0:1 f32(0.01) i64(100) - beta1=0.8 beta2=0.99 epsilon=0.001 weight_decay=0.1; f64[9] f64[9] f64[9] "
                      "f64[9]~0:1 f64(0.01) i64(2) f64(1); "
                      "f32[0] f32[0] f32[0] f32[0] f32(0.1) i64(1) f32(1)"),
        own("ExponentialMovingAverage")
            .inputs(2, 4)
            .functions(average_infer, average_run)
            .plays(op_role::update)
            .exact_outputs_from(0)
            .attributes("decay:f")
            .problems("f32[5,17] f32[5,17] f32(1) decay=0.9; f32[1000] f32[1000]; f64[9] f64[9] f64(1) decay=0.5; f32[33] f32[33] f32(1) i64(3) decay=0.9; "
                      "f32[0] f32[0] f32(1) i64(1)"),
        own("GlobalNorm")
            .inputs_from(1)
            .functions(global_norm_infer, global_norm_run)
            .plays(op_role::update)
            .exact_outputs_from(0)
            .problems("f32[5,17]; f32[1000] f32[3,5] f32(2); f64[9]; f32[0] f32[7]"),
        own("ScaleByNorm")
            .inputs(2)
            .functions(scale_by_norm_infer, scale_by_norm_run)
            .plays(op_role::update)
            .exact_outputs_from(0)
            .elementwise()
            .attributes("max_norm:f")
            .problems("f32[5,17] f32(10) max_norm=1; f32[1000] f32(0.5) max_norm=1; f64[9] f64(3) max_norm=0.5; f32[0] f32(1) max_norm=1"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
