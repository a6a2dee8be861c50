// Kernels along one dimension: softmax, normalisations, reductions.
#pragma once

#include "../rows.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct rows_parameters {
    std::int64_t outer, n, inner;
    float epsilon;
    int option;
};

// The rows of input `x`: [outer, n, inner] around the axis, or [outer, n] with everything from it on.
inline const char* read_rows(const kernel_query& q, int x, std::int64_t otherwise, bool to_the_end, rows_parameters& p, int may_be_kept = -1,
                             bool narrow = false) {
    if ((!narrow && !q.all_float32(may_be_kept)) || !q.all_row_major()) return "it is not float32, row-major";
    const shape& s = q.in[x].extents;
    std::int64_t axis = integer_of(q.n, "axis", otherwise);
    if (axis < 0) axis += s.rank();
    if (axis < 0 || axis >= s.rank() || s.elements() == 0) return "it is empty or a scalar";
    const int a = static_cast<int>(axis);
    p = {s.product(0, a), to_the_end ? s.product(a, s.rank()) : s[a], to_the_end ? 1 : s.product(a + 1, s.rank()), 0, 0};
    return nullptr;
}

inline GRAFT_COLD const char* choose_softmax(const kernel_query& q, kernel_choice& choice) {
    rows_parameters p{};
    // Before opset 13 everything from the axis on is one row.
    const bool flat = q.version() < 13;
    if (const char* reason = read_rows(q, 0, flat ? 1 : -1, flat, p)) return reason;
    p.option = graft::ops::row_of(q.n).traits.role == op_role::log_softmax;
    choice.set(p);
    choice.note = "rows";
    return nullptr;
}
inline void run_softmax_kernel(const kernel_call& c) {
    const auto& p = c.parameters<rows_parameters>();
    run_softmax(c.level, c.input(0), c.output(0), p.outer, p.n, p.inner, p.option != 0, c.pool);
}

inline GRAFT_COLD const char* choose_layer_norm(const kernel_query& q, kernel_choice& choice) {
    rows_parameters p{};
    const bool narrow = q.out[0].type == dtype::bfloat16 && q.in[0].type == dtype::float32 && q.outputs == 1;
    if (const char* reason = read_rows(q, 0, -1, true, p, -1, narrow)) return reason;
    if (narrow && p.n > narrow_row_numbers) return "its rows are too long for bfloat16";
    p.epsilon = real_of(q.n, "epsilon", 1e-5f);
    p.option = q.n.op_type == "LayerNormalization";
    for (int i = 1; i < q.inputs; ++i)
        if (q.has(i) && q.in[i].elements() != p.n) return "its scale or bias is broadcast";
    choice.set(p);
    choice.note = "rows";
    return nullptr;
}
inline void run_layer_norm_kernel(const kernel_call& c) {
    const auto& p = c.parameters<rows_parameters>();
    if (c.out[0].type == dtype::bfloat16)
        return run_narrow_layer_norm(c.level, c.input(0), c.out[0].as<std::uint16_t>(), p.outer, p.n, c.input(1), c.input(2), p.epsilon, p.option != 0, c.pool);
    float* mean = c.outputs > 1 ? c.output(1) : nullptr;
    float* inverse = c.outputs > 2 ? c.output(2) : nullptr;
    run_layer_norm(c.level, c.input(0), c.output(0), p.outer, p.n, c.input(1), c.input(2), p.epsilon, p.option != 0, mean, inverse, c.pool);
}

// InstanceNormalization, and GroupNormalization in the form of opset 21 and later (scale and bias by channel).
inline GRAFT_COLD const char* choose_group_norm(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32() || !q.all_row_major()) return "it is not float32, row-major";
    const shape& x = q.in[0].extents;
    if (x.rank() < 3 || x.elements() == 0) return "it is empty or has no images";
    const std::int64_t groups = q.n.op_type == "GroupNormalization" ? integer_of(q.n, "num_groups", 1) : x[1];
    if (groups < 1 || x[1] % groups) return "its channels are no multiple of its groups";
    if (q.in[1].elements() != x[1] || q.in[2].elements() != x[1]) return "its scale is by group";
    choice.set(rows_parameters{x[0], x[1], x.product(2, x.rank()), real_of(q.n, "epsilon", 1e-5f), static_cast<int>(groups)});
    choice.note = "planes";
    return nullptr;
}
inline void run_group_norm_kernel(const kernel_call& c) {
    const auto& p = c.parameters<rows_parameters>();
    run_group_norm(c.level, c.input(0), c.output(0), p.outer, p.n, p.inner, p.option, c.input(1), c.input(2), p.epsilon, c.pool);
}

inline GRAFT_COLD const char* choose_local_response_norm(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32() || !q.all_row_major()) return "it is not float32, row-major";
    const shape& x = q.in[0].extents;
    const std::int64_t size = integer_of(q.n, "size", 0);
    if (x.rank() < 2 || x.elements() == 0) return "it is empty";
    if (size < 1 || size > 64) return "its neighbours are too many";
    const float alpha = real_of(q.n, "alpha", 1e-4f), beta = real_of(q.n, "beta", 0.75f), bias = real_of(q.n, "bias", 1);
    const std::int64_t before = (size - 1) / 2;
    choice.set(
        neighbour_channels{nullptr, nullptr, x[1], x.product(2, x.rank()), 0, 0, before, size - 1 - before, alpha / static_cast<float>(size), bias, beta});
    choice.note = "planes";
    return nullptr;
}
inline void run_local_response_norm_kernel(const kernel_call& c) {
    run_local_response_norm(c.level, c.input(0), c.output(0), c.in[0].extents[0], c.parameters<neighbour_channels>(), c.pool);
}

// Reductions over neighbouring axes.
template <reduce_kind Kind>
inline GRAFT_COLD const char* choose_reduce(const kernel_query& q, kernel_choice& choice) {
    if (!q.has(0) || q.in[0].type != dtype::float32 || !q.all_row_major()) return "it is not float32, row-major";
    const shape& x = q.in[0].extents;
    if (x.elements() == 0 || x.rank() == 0) return "it is empty or a scalar";
    bool reduced[shape::max_rank] = {};
    const integer_list axes = q.integers("axes");
    std::int64_t count = axes.size;
    const bool by_input = q.inputs > 1 && q.has(1);
    if (by_input) {
        if (!q.in[1].data) return "its axes are not known before it runs";
        count = q.in[1].elements();
    }
    if (count == 0 && integer_of(q.n, "noop_with_empty_axes", 0)) return "it reduces nothing";
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t axis = by_input ? q.in[1].integer(i) : axes[static_cast<int>(i)];
        if (axis < 0) axis += x.rank();
        if (axis < 0 || axis >= x.rank()) return "its axes are out of range";
        reduced[axis] = true;
    }
    int first = 0, last = x.rank();
    if (count) {
        while (!reduced[first]) ++first;
        while (!reduced[last - 1]) --last;
        for (int d = first; d < last; ++d)
            if (!reduced[d] && x[d] != 1) return "its axes are not neighbours";
    }
    choice.set(rows_parameters{x.product(0, first), x.product(first, last), x.product(last, x.rank()), 0, static_cast<int>(Kind)});
    choice.note = "rows";
    return nullptr;
}
inline void run_reduce_kernel(const kernel_call& c) {
    const auto& p = c.parameters<rows_parameters>();
    run_reduce(c.level, static_cast<reduce_kind>(p.option), c.input(0), c.output(0), p.outer, p.n, p.inner, c.pool);
}

inline kernel_rows rows_kernel_rows() {
#define GRAFT_ROWS(name, choose, run, in_place) \
    kernel_row { name, "", wanted(name) ? choose : nullptr, wanted(name) ? run : nullptr, in_place }
    static constexpr kernel_row rows[] = {
        GRAFT_ROWS("Softmax", choose_softmax, run_softmax_kernel, true),
        GRAFT_ROWS("LogSoftmax", choose_softmax, run_softmax_kernel, true),
        GRAFT_ROWS("LayerNormalization", choose_layer_norm, run_layer_norm_kernel, true),
        GRAFT_ROWS("RMSNormalization", choose_layer_norm, run_layer_norm_kernel, true),
        GRAFT_ROWS("InstanceNormalization", choose_group_norm, run_group_norm_kernel, true),
        GRAFT_ROWS("GroupNormalization", choose_group_norm, run_group_norm_kernel, true),
        GRAFT_ROWS("LRN", choose_local_response_norm, run_local_response_norm_kernel, false),
        GRAFT_ROWS("ReduceSum", choose_reduce<reduce_kind::sum>, run_reduce_kernel, false),
        GRAFT_ROWS("ReduceMean", choose_reduce<reduce_kind::mean>, run_reduce_kernel, false),
        GRAFT_ROWS("ReduceMax", choose_reduce<reduce_kind::max>, run_reduce_kernel, false),
        GRAFT_ROWS("ReduceMin", choose_reduce<reduce_kind::min>, run_reduce_kernel, false),
        GRAFT_ROWS("ReduceL1", choose_reduce<reduce_kind::l1>, run_reduce_kernel, false),
        GRAFT_ROWS("ReduceL2", choose_reduce<reduce_kind::l2>, run_reduce_kernel, false),
        GRAFT_ROWS("ReduceSumSquare", choose_reduce<reduce_kind::sum_square>, run_reduce_kernel, false),
    };
#undef GRAFT_ROWS
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
