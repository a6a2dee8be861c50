// Kernels of the gradients of pooling.
#pragma once

#include "../../training/pool_grad.hpp"
#include "../attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// The problem of the forward pass from x [n, c, h, w] to y.
inline const char* pool_grad_problem_of(const node& n, const shape& x, const shape& y, pool_problem& p) {
    if (x.rank() != 4 || y.rank() != 4 || x.elements() == 0 || y.elements() == 0 || x[0] != y[0] || x[1] != y[1]) return "it is not two-dimensional";
    std::int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
    if (!window_list(n, "kernel_shape", 2, 1, kernel) || !window_list(n, "strides", 2, 1, stride) || !window_list(n, "dilations", 2, 1, dilation))
        return "its attributes do not fit";
    if (!list_of(n, "kernel_shape")) {
        if (y[2] != 1 || y[3] != 1) return "its attributes do not fit";
        kernel[0] = x[2], kernel[1] = x[3];
    }
    if (!window_pads(n, 2, x.begin() + 2, y.begin() + 2, kernel, stride, dilation, begin, end)) return "its pads do not fit";
    p.n = x[0], p.c = x[1], p.ih = x[2], p.iw = x[3], p.oh = y[2], p.ow = y[3];
    if (!narrow_window(p, kernel, stride, dilation, begin, end)) return "its window is too large";
    p.count_include_pad = integer_of(n, "count_include_pad", 0) != 0;
    return nullptr;
}

// The choice for the problem from x to y, on blocks or on planes.
inline const char* choose_pool_problem(const kernel_query& q, const shape& x, const shape& y, kernel_choice& choice, const char* on_blocks,
                                       const char* on_planes) {
    pool_problem p;
    if (const char* reason = pool_grad_problem_of(q.n, x, y, p)) return reason;
    p.l = q.out_layout[0].as;
    choice.set(p);
    choice.note = q.out_layout[0] == layout::blocked ? on_blocks : on_planes;
    return nullptr;
}

// X -> places, Y?: both outputs lie as X does.
inline const char* choose_max_pool_places(const kernel_query& q, kernel_choice& choice) {
    if (q.in[0].type != dtype::float32 || q.out[0].type != dtype::uint8) return "it is not float32";
    if (q.in_layout[0] != q.out_layout[0] || (q.outputs > 1 && q.in_layout[0] != q.out_layout[1])) return "its operands lie differently";
    return choose_pool_problem(q, q.in[0].extents, q.out[0].extents, choice, "pool on blocks, keeps places", "pool on planes, keeps places");
}
inline void run_max_pool_places_kernel(const kernel_call& c) {
    run_max_pool_places(c.level, c.parameters<pool_problem>(), c.input(0), c.outputs > 1 ? c.output(1) : nullptr, static_cast<std::uint8_t*>(c.out[0].data),
                        c.pool);
}

// dY and the places that the forward pass kept.
inline const char* choose_max_pool_grad(const kernel_query& q, kernel_choice& choice) {
    if (q.in[0].type != dtype::float32 || q.inputs != 2 || q.in[1].type != dtype::uint8) return "no places were kept";
    if (q.in_layout[0] != q.out_layout[0] || q.in_layout[1] != q.out_layout[0]) return "its operands lie differently";
    return choose_pool_problem(q, q.out[0].extents, q.in[0].extents, choice, "gradient on blocks", "gradient on planes");
}
inline void run_max_pool_grad_kernel(const kernel_call& c) {
    run_max_pool_grad(c.level, c.parameters<pool_problem>(), c.input(0), static_cast<const std::uint8_t*>(c.in[1].data), c.output(0), c.pool);
}

// dY; the attribute `shape` is that of the forward pass's input, which the output has.
inline const char* choose_average_pool_grad(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32()) return "it is not float32";
    if (q.in_layout[0] != q.out_layout[0]) return "its operands lie differently";
    return choose_pool_problem(q, q.out[0].extents, q.in[0].extents, choice, "gradient on blocks", "gradient on planes");
}
inline void run_average_pool_grad_kernel(const kernel_call& c) {
    run_average_pool_grad(c.level, c.parameters<pool_problem>(), c.input(0), c.output(0), c.pool);
}

inline kernel_rows pool_grad_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"MaxPoolPlaces", "graft", choose_max_pool_places, run_max_pool_places_kernel, false},
        {"MaxPoolGradPlaces", "graft", choose_max_pool_grad, run_max_pool_grad_kernel, false},
        {"AveragePoolGrad", "graft", choose_average_pool_grad, run_average_pool_grad_kernel, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
