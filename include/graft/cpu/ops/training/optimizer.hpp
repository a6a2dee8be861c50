// Kernels of the optimisers, which update weights and their state in place.
#pragma once

#include "../../training/optimizer.hpp"
#include "../attributes.hpp"
#include "../../../core/decimal.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// Weights, gradients and state: all in rows, all of one size; the scalars behind them have one element. Only input `whole` is int64.
inline const char* refuse_update(const kernel_query& q, int arrays, int inputs, int whole = -1) {
    if (q.inputs < inputs || !q.all_row_major()) return "it is not row-major, or lacks inputs";
    for (int i = 0; i < q.inputs; ++i) {
        if (!q.has(i)) continue;
        if (q.in[i].type != (i == whole ? dtype::int64 : dtype::float32)) return "it is not float32";
        if (i < arrays ? q.in[i].extents != q.in[0].extents : q.in[i].elements() != 1) return "its shapes differ";
    }
    return nullptr;
}

// A step with a loss that is not a number leaves everything as it was.
inline bool finite_loss(const kernel_call& c, int i) { return !c.input(i) || std::isfinite(*c.input(i)); }
inline void leave_as_it_was(const kernel_call& c, int output, int input) {
    if (output >= c.outputs || !c.output(output) || !c.input(input) || c.output(output) == c.input(input)) return;
    std::memcpy(c.output(output), c.input(input), static_cast<std::size_t>(c.in[input].elements()) * sizeof(float));
}

struct sgd_parameters {
    sgd_options options;
    double rate;
};
// W, G, momentum_buffer or nothing, learning_rate, loss or nothing
inline const char* choose_sgd(const kernel_query& q, kernel_choice& choice) {
    if (const char* reason = refuse_update(q, 3, 4)) return reason;
    if (real_of(q.n, "dampening", 0) != 0) return "it has dampening";
    sgd_parameters p{};
    p.options.momentum = decimal_of(real_of(q.n, "momentum", 0));
    p.options.weight_decay = decimal_of(real_of(q.n, "weight_decay", 0));
    p.options.nesterov = integer_of(q.n, "nesterov", 0) != 0;
    p.rate = decimal_of(real_of(q.n, "rate", 1));
    if (q.has(2) != q.wants(1)) return "its momentum comes without going, or goes without coming";
    if (!q.has(2) && p.options.momentum != 0) return "its momentum has no buffer";
    choice.set(p);
    choice.note = "update in place";
    return nullptr;
}
inline void run_sgd_kernel(const kernel_call& c) {
    if (!finite_loss(c, 4)) {
        leave_as_it_was(c, 0, 0);
        leave_as_it_was(c, 1, 2);
        return;
    }
    const auto& p = c.parameters<sgd_parameters>();
    const sgd_step step = sgd_step_of(p.options, static_cast<double>(*c.input(3)) * p.rate);
    const bool momentum = c.input(2) && p.options.momentum != 0;
    if (!momentum) leave_as_it_was(c, 1, 2);
    run_sgd(c.level, step, c.input(0), c.input(1), momentum ? c.input(2) : nullptr, c.output(0), momentum ? c.output(1) : nullptr, c.in[0].elements(), c.pool);
}

struct adam_parameters {
    adam_options options;
    double rate;
};
// W, G, M, V, learning_rate, step, loss or nothing
inline const char* choose_adam(const kernel_query& q, kernel_choice& choice) {
    if (const char* reason = refuse_update(q, 4, 6, 5)) return reason;
    if (!q.has(2) || !q.has(3) || !q.wants(1) || !q.wants(2)) return "its moments are left out";
    adam_parameters p{};
    p.options.beta1 = decimal_of(real_of(q.n, "beta1", 0.9f));
    p.options.beta2 = decimal_of(real_of(q.n, "beta2", 0.999f));
    p.options.epsilon = decimal_of(real_of(q.n, "epsilon", 1e-8f));
    p.options.weight_decay = decimal_of(real_of(q.n, "weight_decay", 0));
    p.options.decoupled = integer_of(q.n, "decoupled", 0) != 0;
    p.rate = decimal_of(real_of(q.n, "rate", 1));
    choice.set(p);
    choice.note = "update in place";
    return nullptr;
}
inline void run_adam_kernel(const kernel_call& c) {
    if (!finite_loss(c, 6)) {
        leave_as_it_was(c, 0, 0);
        leave_as_it_was(c, 1, 2);
        leave_as_it_was(c, 2, 3);
        return;
    }
    const auto& p = c.parameters<adam_parameters>();
    const std::int64_t count = *c.in[5].as<const std::int64_t>();
    const adam_step step = adam_step_of(p.options, static_cast<double>(*c.input(4)) * p.rate, count < 1 ? 1 : count);
    run_adam(c.level, step, c.input(0), c.input(1), c.input(2), c.input(3), c.output(0), c.output(1), c.output(2), c.in[0].elements(), c.pool);
}

// E, W, loss or nothing, step or nothing
inline const char* choose_moving_average(const kernel_query& q, kernel_choice& choice) {
    if (const char* reason = refuse_update(q, 2, 2, 3)) return reason;
    choice.set(decimal_of(real_of(q.n, "decay", 0.999f)));
    choice.note = "update in place";
    return nullptr;
}
inline void run_moving_average_kernel(const kernel_call& c) {
    if (!finite_loss(c, 2)) return leave_as_it_was(c, 0, 0);
    const double given = c.parameters<double>();
    const std::int64_t* step = c.inputs > 3 ? c.in[3].as<const std::int64_t>() : nullptr;
    run_moving_average(c.level, step ? warm_decay(given, *step) : given, c.input(0), c.input(1), c.output(0), c.in[0].elements(), c.pool);
}

inline const char* choose_global_norm(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32() || !q.all_row_major()) return "it is not float32, row-major";
    std::int64_t elements = 0;
    for (int i = 0; i < q.inputs; ++i) elements += q.has(i) ? q.in[i].elements() : 0;
    choice.workspace_bytes = global_norm_workspace_bytes(q.inputs, elements) + q.inputs * std::int64_t(16);
    choice.note = "norm in double";
    return nullptr;
}
inline void run_global_norm_kernel(const kernel_call& c) {
    const float** arrays = static_cast<const float**>(c.workspace);
    std::int64_t* sizes = reinterpret_cast<std::int64_t*>(arrays + c.inputs);
    for (int i = 0; i < c.inputs; ++i) arrays[i] = c.input(i), sizes[i] = arrays[i] ? c.in[i].elements() : 0;
    c.output(0)[0] = run_global_norm(c.level, arrays, sizes, c.inputs, sizes + c.inputs, c.pool);
}

// G, norm
inline const char* choose_scale_by_norm(const kernel_query& q, kernel_choice& choice) {
    if (const char* reason = refuse_update(q, 1, 2)) return reason;
    choice.set(real_of(q.n, "max_norm", 1));
    choice.note = "scaled in place";
    return nullptr;
}
inline void run_scale_by_norm_kernel(const kernel_call& c) {
    run_scale_by_norm(c.level, *c.input(1), c.parameters<float>(), c.input(0), c.output(0), c.in[0].elements(), c.pool);
}

inline kernel_rows optimizer_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"SGD", "graft", choose_sgd, run_sgd_kernel, true},
        {"Adam", "graft", choose_adam, run_adam_kernel, true},
        {"ExponentialMovingAverage", "graft", choose_moving_average, run_moving_average_kernel, true},
        {"GlobalNorm", "graft", choose_global_norm, run_global_norm_kernel, false},
        {"ScaleByNorm", "graft", choose_scale_by_norm, run_scale_by_norm_kernel, true},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
