// Kernels of graft.QuantizedConv and graft.QuantizedSum, and of MaxPool on 8-bit images.
#pragma once

#include "../quantized.hpp"
#include "attributes.hpp"
#include "pool.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

template <>
struct problem_fields<quantized_conv_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, x_signed, y_signed, x_zero, y_zero, low, high, bytes, tiles, winograd] = p;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, x_signed, y_signed, x_zero, y_zero, low, high, bytes, tiles, winograd);
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
    choice.note = p.depthwise() ? "8 bits, depthwise"
                  : p.winograd  ? "8 bits, Winograd F(2x2, 3x3)"
                  : p.tiles     ? "8 bits, by tiles"
                  : p.bytes     ? "8 bits, four products a lane"
                                : "8 bits, two products a lane";
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

struct code_pool_problem {
    pool_problem window;
    bool is_signed;
};
inline const char* choose_max_pool_of_codes(const kernel_query& q, kernel_choice& choice) {
    const dtype type = q.in[0].type;
    if (type != dtype::uint8 && type != dtype::int8) return "it is not of 8 bits";
    code_pool_problem p{{}, type == dtype::int8};
    if (const char* reason = pool_problem_of(q, p.window)) return reason;
    if (!takes_max_pool_of_codes(p.window)) return "its rows are too long";
    choice.set(p);
    choice.note = "8 bits, planes";
    return nullptr;
}
inline void run_max_pool_of_codes_kernel(const kernel_call& c) {
    const auto& p = c.parameters<code_pool_problem>();
    run_max_pool_of_codes(c.level, p.window, p.is_signed, c.in[0].data, c.out[0].data, c.pool);
}

inline kernel_rows quantized_kernel_rows() {
    constexpr bool conv = quantized_conv_wanted(), sum = quantized_sum_wanted(), max_pool = quantized_max_pool_wanted();
    static constexpr kernel_row rows[] = {
        {"QuantizedConv", "graft", conv ? choose_quantized_conv : nullptr, conv ? run_quantized_conv_kernel : nullptr, false},
        {"QuantizedSum", "graft", sum ? choose_quantized_sum : nullptr, sum ? run_quantized_sum_kernel : nullptr, false},
        {"MaxPool", "", max_pool ? choose_max_pool_of_codes : nullptr, max_pool ? run_max_pool_of_codes_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
