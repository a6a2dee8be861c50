// The kernel of ConvTranspose.
#pragma once

#include "../conv_transpose.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

inline GRAFT_COLD const char* choose_conv_transpose(const kernel_query& q, kernel_choice& choice) {
    const shape &x = q.in[0].extents, &w = q.in[1].extents, &y = q.out[0].extents;
    if (!q.all_float32() || !q.all_row_major() || x.rank() != 4 || x.elements() == 0 || y.elements() == 0) return "it is not float32 images";
    std::int64_t stride[2], dilation[2], padding[2], begin[2] = {0, 0};
    if (!window_list(q.n, "strides", 2, 1, stride) || !window_list(q.n, "dilations", 2, 1, dilation) || !window_list(q.n, "output_padding", 2, 0, padding))
        return "its attributes do not fit";
    const attribute* pads = list_of(q.n, "pads");
    const bool same = q.is("auto_pad", "SAME_UPPER", "NOTSET") || q.is("auto_pad", "SAME_LOWER", "NOTSET");
    if (same || list_of(q.n, "output_shape")) {
        // The padding follows from the size of the output (ConvTranspose's own rule); a larger output than the input reaches goes on behind it.
        for (int i = 0; i < 2; ++i) {
            const std::int64_t reached = stride[i] * (x[2 + i] - 1) + padding[i] + (w[2 + i] - 1) * dilation[i] + 1;
            const std::int64_t total = std::max<std::int64_t>(reached - y[2 + i], 0);
            begin[i] = q.is("auto_pad", "SAME_UPPER", "NOTSET") ? total / 2 : total - total / 2;
        }
    } else if (pads && !q.is("auto_pad", "VALID", "NOTSET")) {
        if (pads->integers.size() != 4) return "its pads do not fit";
        begin[0] = pads->integers[0], begin[1] = pads->integers[1];
    }
    conv_transpose_problem p;
    p.n = x[0], p.ic = x[1], p.ih = x[2], p.iw = x[3], p.oc = y[1], p.oh = y[2], p.ow = y[3];
    const std::int64_t groups = integer_of(q.n, "group", 1);
    if (groups > INT32_MAX || !narrow_window(p, w.begin() + 2, stride, dilation, begin)) return "its window is too large";
    p.groups = static_cast<int>(groups);
    choice.workspace_bytes = conv_transpose_workspace_bytes(q.level, p);
    choice.note = "matrix product, then columns to image";
    choice.set(p);
    return nullptr;
}
inline void run_conv_transpose_kernel(const kernel_call& c) {
    run_conv_transpose(c.level, c.parameters<conv_transpose_problem>(), c.input(0), c.input(1), c.input(2), c.output(0), c.workspace, c.pool);
}

inline kernel_rows conv_transpose_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"ConvTranspose", "", wanted("ConvTranspose") ? choose_conv_transpose : nullptr, wanted("ConvTranspose") ? run_conv_transpose_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
