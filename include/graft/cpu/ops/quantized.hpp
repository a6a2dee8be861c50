// Kernels of graft.QuantizedConv and graft.QuantizedSum.
#pragma once

#include "../quantized.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

template <>
struct problem_fields<quantized_conv_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, x_signed, y_signed, x_zero, y_zero, low, high, bytes] = p;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, x_signed, y_signed, x_zero, y_zero, low, high, bytes);
    }
};
template <>
struct problem_fields<quantized_sum_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [a_signed, b_signed, y_signed, a_zero, b_zero, y_zero, low, high, a_scale, b_scale, y_scale] = p;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(a_signed, b_signed, y_signed, a_zero, b_zero, y_zero, low, high, a_scale, b_scale, y_scale);
    }
};

inline const char* choose_quantized_conv(const kernel_query& q, kernel_choice& choice) {
    quantized_conv_problem p;
    if (!problem_in(q.n, p)) return "its parameters are missing";
    choice.workspace_bytes = quantized_conv_workspace(p);
    choice.note = p.depthwise() ? "8 bits, depthwise" : p.bytes ? "8 bits, four products a lane" : "8 bits, two products a lane";
    choice.set(p);
    return nullptr;
}
inline void run_quantized_conv_kernel(const kernel_call& c) {
    run_quantized_conv(c.level, c.parameters<quantized_conv_problem>(), c.in[0].data, c.in[1].data, c.input(2), c.in[3].as<const std::int32_t>(), c.out[0].data,
                       c.workspace, c.pool);
}
inline const char* choose_quantized_sum(const kernel_query& q, kernel_choice& choice) {
    quantized_sum_problem p;
    if (!problem_in(q.n, p)) return "its parameters are missing";
    choice.note = "8 bits";
    choice.set(p);
    return nullptr;
}
inline void run_quantized_sum_kernel(const kernel_call& c) {
    run_quantized_sum(c.level, c.parameters<quantized_sum_problem>(), c.in[0].data, c.in[1].data, c.out[0].data, c.out[0].elements(), c.pool);
}

inline kernel_rows quantized_kernel_rows() {
    constexpr bool conv = quantized_conv_wanted(), sum = quantized_sum_wanted();
    static constexpr kernel_row rows[] = {
        {"QuantizedConv", "graft", conv ? choose_quantized_conv : nullptr, conv ? run_quantized_conv_kernel : nullptr, false},
        {"QuantizedSum", "graft", sum ? choose_quantized_sum : nullptr, sum ? run_quantized_sum_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
