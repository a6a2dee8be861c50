// Kernels of Resize and its ancestor Upsample, on planes, on blocks of channels, and on codes in lanes.
#pragma once

#include "../resize.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// The problem of a node; else why it is none.
inline GRAFT_COLD const char* resize_problem_of(const kernel_query& q, resize_problem& p) {
    if (q.in_layout[0] != q.out_layout[0]) return "its images lie differently";
    for (int i = 1; i < q.inputs; ++i)
        if (q.has(i) && q.in[i].extents.elements() != 0 && !q.in[i].data) return "its sizes are not known before it runs";
    ops::resize_plan plan;
    if (!ops::read_resize(q, plan).ok()) return "its attributes do not fit";
    if (plan.coordinate == ops::coordinate_mode::tf_crop_and_resize) return "it crops";
    const shape& x = q.in[0].extents;
    const dtype type = q.in[0].type;
    p.element_bytes = static_cast<int>(size_of(type));
    if (plan.mode == ops::interpolation_mode::nearest ? p.element_bytes == 0 : type != dtype::float32) return "its type";
    if (x.elements() == 0 || q.out[0].elements() == 0) return "it is empty";
    int first = -1, last = -1;
    for (int d = 0; d < x.rank(); ++d)
        if (plan.resized[d]) last = d, first = first < 0 ? d : first;
    if (first < 0 || last - first > 1) return "not one axis is resized, or two side by side";
    const auto axis = [&](int d) { return resize_problem::axis{x[d], plan.out[d], plan.scale[d], plan.width[d], true}; };
    p.columns = axis(last);
    if (first < last) p.rows = axis(first);
    if (p.rows.in > INT32_MAX || p.rows.out > INT32_MAX || p.columns.in > INT32_MAX || p.columns.out > INT32_MAX) return "an axis is too long";
    p.outer = x.product(0, first), p.inner = x.product(last + 1, x.rank());
    if (const layout l = q.in_layout[0]; l != layout::row_major) {
        if (first < 2) return "its channels are in blocks";
        p.outer = x[0] * ((x[1] + l.channels - 1) / l.channels) * x.product(2, first);
        p.inner *= l.channels;
    }
    // Rows between the axes: as many as y has, as long as those of x.
    if (p.rows.out * p.columns.in > 2 * (p.rows.in * p.columns.in + p.rows.out * p.columns.out)) return "one axis grows while the other shrinks";
    p.mode = plan.mode, p.coordinate = plan.coordinate, p.nearest = plan.nearest;
    p.antialias = plan.antialias, p.exclude_outside = plan.exclude_outside, p.cubic_a = plan.cubic_a;
    return nullptr;
}
inline GRAFT_COLD const char* choose_resize(const kernel_query& q, kernel_choice& choice) {
    resize_problem p;
    if (const char* reason = resize_problem_of(q, p)) return reason;
    choice.set(p);
    choice.workspace_bytes = resize_workspace_bytes(p);
    const bool blocks = q.in_layout[0] != layout::row_major;
    choice.note = p.mode == ops::interpolation_mode::nearest ? blocks ? "nearest, on blocks" : "nearest"
                  : blocks                                   ? "rows, then columns, on blocks"
                                                             : "rows, then columns";
    return nullptr;
}
inline void run_resize_kernel(const kernel_call& c) { run_resize(c.parameters<resize_problem>(), c.in[0].data, c.out[0].data, c.workspace, c.pool); }

inline kernel_rows resize_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"Resize", "", wanted("Resize") ? choose_resize : nullptr, wanted("Resize") ? run_resize_kernel : nullptr, false},
        {"Upsample", "", wanted("Upsample") ? choose_resize : nullptr, wanted("Upsample") ? run_resize_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
