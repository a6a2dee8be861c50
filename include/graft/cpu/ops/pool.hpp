// Kernels of pooling, of changes of layout, and of concatenation along the channels.
#pragma once

#include "../pool.hpp"
#include "../reorder.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// The problem of a node; else why it is none. Windows of one axis, and of three where one or two of them stay as they are, have two axes once those are
// joined: a mean over neighbouring channels is such a one.
inline GRAFT_COLD const char* pool_problem_of(const kernel_query& q, pool_problem& p) {
    const int axes = q.in[0].extents.rank() - 2;
    if (axes < 1 || axes > 3 || q.out[0].elements() == 0) return "its window has no axis, or more than three";
    if (q.outputs > 1 && q.wants(1)) return "its indices are wanted";
    const shape &x = q.in[0].extents, &y = q.out[0].extents;
    std::int64_t kernel[3], stride[3], dilation[3], begin[3], end[3];
    if (!window_list(q.n, "kernel_shape", axes, 1, kernel) || !window_list(q.n, "strides", axes, 1, stride) ||
        !window_list(q.n, "dilations", axes, 1, dilation))
        return "its attributes do not fit";
    if (!window_pads(q.n, axes, x.begin() + 2, y.begin() + 2, kernel, stride, dilation, begin, end)) return "its pads do not fit";
    const auto stays = [&](int i) { return kernel[i] == 1 && stride[i] == 1 && begin[i] == 0 && end[i] == 0; };
    p.n = x[0], p.c = x[1];
    int first = 0;
    if (axes == 1) {
        kernel[1] = kernel[0], stride[1] = stride[0], dilation[1] = dilation[0], begin[1] = begin[0], end[1] = end[0];
        kernel[0] = stride[0] = dilation[0] = 1, begin[0] = end[0] = 0;
        p.iw = x[2], p.ow = y[2];
    } else if (axes == 2) {
        p.ih = x[2], p.iw = x[3], p.oh = y[2], p.ow = y[3];
    } else if (stays(1) && stays(2)) {
        p.ih = x[2], p.iw = x[3] * x[4], p.oh = y[2], p.ow = y[3] * y[4];
    } else if (stays(0)) {
        p.c *= x[2], p.ih = x[3], p.iw = x[4], p.oh = y[3], p.ow = y[4], first = 1;
    } else {
        return "its window spans three axes";
    }
    if (!narrow_window(p, kernel + first, stride + first, dilation + first, begin + first, end + first)) return "its window is too large";
    p.count_include_pad = integer_of(q.n, "count_include_pad", 0) != 0;
    p.l = q.in_layout[0].as;
    return nullptr;
}
inline GRAFT_COLD const char* choose_pool(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32()) return "it is not float32";
    pool_problem p;
    if (const char* reason = pool_problem_of(q, p)) return reason;
    choice.set(p);
    choice.note = p.l == layout::blocked ? "pool on blocks" : "pool on planes";
    return nullptr;
}
inline void run_max_pool_kernel(const kernel_call& c) { run_max_pool(c.level, c.parameters<pool_problem>(), c.input(0), c.output(0), c.pool); }
inline void run_average_pool_kernel(const kernel_call& c) { run_average_pool(c.level, c.parameters<pool_problem>(), c.input(0), c.output(0), c.pool); }

struct plane_parameters {
    layout::kind l;
    std::int64_t n, c, pixels;
};
inline GRAFT_COLD const char* choose_global_pool(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32() || q.in[0].extents.rank() < 3) return "it is not float32 images";
    const shape& x = q.in[0].extents;
    const plane_parameters p{q.in_layout[0].as, x[0], x[1], x.product(2, x.rank())};
    if (p.pixels == 0) return "it is empty";
    choice.set(p);
    choice.note = "whole planes";
    return nullptr;
}
inline void run_global_average_kernel(const kernel_call& c) {
    const auto& p = c.parameters<plane_parameters>();
    run_global_average_pool(c.level, p.l, p.n, p.c, p.pixels, c.input(0), c.output(0), c.pool);
}
inline void run_global_max_kernel(const kernel_call& c) {
    const auto& p = c.parameters<plane_parameters>();
    run_global_max_pool(c.level, p.l, p.n, p.c, p.pixels, c.input(0), c.output(0), c.pool);
}

// A change of layout.
inline GRAFT_COLD const char* choose_reorder(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32()) return "it is not of float32";
    const shape& x = q.in[0].extents;
    choice.set(plane_parameters{q.in_layout[0].as, x[0], x[1], x.product(2, x.rank())});
    choice.note = q.in_layout[0] == layout::blocked ? "to planes" : "to blocks";
    return nullptr;
}
inline void run_reorder(const kernel_call& c) {
    const auto& p = c.parameters<plane_parameters>();
    if (p.l == layout::blocked)
        to_nchw(c.level, c.input(0), p.n, p.c, p.pixels, c.output(0), c.pool);
    else
        to_blocked(c.level, c.input(0), p.n, p.c, p.pixels, c.output(0), c.pool);
}

inline kernel_rows pool_kernel_rows() {
    constexpr bool blocks = wanted("Conv");
    static constexpr kernel_row rows[] = {
        {"MaxPool", "", wanted("MaxPool") ? choose_pool : nullptr, wanted("MaxPool") ? run_max_pool_kernel : nullptr, false},
        {"AveragePool", "", wanted("AveragePool") ? choose_pool : nullptr, wanted("AveragePool") ? run_average_pool_kernel : nullptr, false},
        {"GlobalAveragePool", "", wanted("GlobalAveragePool") ? choose_global_pool : nullptr, wanted("GlobalAveragePool") ? run_global_average_kernel : nullptr,
         false},
        {"GlobalMaxPool", "", wanted("GlobalMaxPool") ? choose_global_pool : nullptr, wanted("GlobalMaxPool") ? run_global_max_kernel : nullptr, false},
        {"Reorder", "graft", blocks ? choose_reorder : nullptr, blocks ? run_reorder : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
