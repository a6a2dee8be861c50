// Kernels of graft.Conv and graft.PackConvWeights.
#pragma once

#include "../bfloat16.hpp"
#include "../conv.hpp"
#include "attributes.hpp"

#include <cstdio>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The problem of a two-dimensional Conv node with known shapes, layouts left open. False where its attributes do not fit, or
/// are larger than the kernels count.
inline bool conv_problem_of(const node& n, const shape& x, const shape& w, const shape& y, conv_problem& p) {
    std::int64_t kernel[2] = {w[2], w[3]}, stride[2], dilation[2], begin[2], end[2];
    if (!window_list(n, "strides", 2, 1, stride) || !window_list(n, "dilations", 2, 1, dilation)) return false;
    if (!window_pads(n, 2, x.begin() + 2, y.begin() + 2, kernel, stride, dilation, begin, end)) return false;
    p.n = x[0], p.ic = x[1], p.ih = x[2], p.iw = x[3];
    p.oc = y[1], p.oh = y[2], p.ow = y[3];
    const std::int64_t groups = integer_of(n, "group", 1);
    p.groups = static_cast<int>(groups);
    p.ep = epilogue_of(n);
    return groups >= 1 && groups <= INT32_MAX && narrow_window(p, kernel, stride, dilation, begin);
}

template <>
struct problem_fields<conv_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, in, out, ep, exact, bfloat16] = p;
        auto& [act, alpha, beta, residual, late] = ep;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, in, out, exact, bfloat16, act, alpha, beta, residual, late);
    }
};

/// What tells two packings of the same weights apart. The sizes of the image are left out where the form does not depend on them:
/// the algorithm says that already.
inline std::string conv_pack_key(isa level, const conv_problem& p, const conv_choice& c) {
    char text[160];
    std::snprintf(text, sizeof text, "conv %s %d %d %dx%d %lld %d%d%s", name(level), static_cast<int>(c.algorithm), p.groups, p.kh, p.kw,
                  static_cast<long long>(c.packed_bytes), static_cast<int>(c.in), static_cast<int>(c.out),
                  c.algorithm == conv_algorithm::bfloat16 ? bfloat16_form(level) : "");
    return text;
}

struct conv_parameters {
    conv_problem problem;
    conv_choice choice;
    bool narrow_x, narrow_y;  // images in bfloat16
};

inline GRAFT_COLD const char* choose_conv_kernel(const kernel_query& q, kernel_choice& choice) {
    conv_parameters p;
    if (!problem_in(q.n, p.problem)) return "its parameters are missing";
    p.choice = choose_conv(q.level, p.problem);
    const bool narrow_y = q.out[0].type == dtype::bfloat16;
    p.narrow_x = q.in[0].type == dtype::bfloat16;
    if ((p.narrow_x || narrow_y) && !takes_narrow_images(p.problem, p.choice, p.narrow_x, narrow_y)) return "it reads or writes float32";
    if (q.has(3) && (q.in[3].type == dtype::bfloat16) != narrow_y) return "its residual is of another type than what it writes";
    p.narrow_y = narrow_y;
    choice.workspace_bytes = p.choice.workspace_bytes;
    choice.note = p.choice.reason;
    choice.set(p);
    return nullptr;
}
inline void run_conv_kernel(const kernel_call& c) {
    const conv_parameters& p = c.parameters<conv_parameters>();
    if (bfloat16_wanted() && (p.narrow_x || p.narrow_y)) {
        narrow_images narrow;
        if (p.narrow_x) narrow.x = c.in[0].as<const std::uint16_t>();
        if (p.narrow_y) narrow.residual = c.inputs > 3 ? c.in[3].as<const std::uint16_t>() : nullptr, narrow.y = c.out[0].as<std::uint16_t>();
        return run_narrow_conv(c.level, p.problem, p.choice, c.input(0), c.in[1].data, c.input(2), c.input(3), c.output(0), narrow, c.workspace, c.pool);
    }
    run_conv(c.level, p.problem, p.choice, c.input(0), c.in[1].data, c.input(2), c.input(3), c.output(0), c.workspace, c.pool);
}
inline void run_conv_pack_kernel(const kernel_call& c) {
    const conv_parameters& p = c.parameters<conv_parameters>();
    pack_conv_weights(c.level, p.problem, p.choice, c.input(0), c.out[0].data, c.pool);
}
inline GRAFT_COLD const char* choose_conv_pack_kernel(const kernel_query& q, kernel_choice& choice) {
    const char* refused = choose_conv_kernel(q, choice);
    choice.workspace_bytes = 0;
    choice.note = "packs weights";
    return refused;
}

inline kernel_rows conv_kernel_rows() {
    static constexpr kernel_row rows[] = {
        {"Conv", "graft", wanted("Conv") ? choose_conv_kernel : nullptr, wanted("Conv") ? run_conv_kernel : nullptr, false},
        {"PackConvWeights", "graft", wanted("Conv") ? choose_conv_pack_kernel : nullptr, wanted("Conv") ? run_conv_pack_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
