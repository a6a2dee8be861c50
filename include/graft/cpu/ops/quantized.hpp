// Kernels of graft.QuantizedConv and graft.QuantizedSum.
#pragma once

#include "../quantized.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Keeps a problem of 8-bit images in a lowered node, as integers; of reals, the bits.
inline void set_quantized_problem(node& n, const quantized_conv_problem& p) {
    attribute a;
    a.name = "problem";
    a.kind = attribute_kind::integers;
    a.integers = {p.n,  p.ic, p.ih, p.iw, p.oc,       p.oh,       p.ow,     p.groups, p.kh,  p.kw,   p.sh,   p.sw,
                  p.dh, p.dw, p.pt, p.pl, p.x_signed, p.y_signed, p.x_zero, p.y_zero, p.low, p.high, p.bytes};
    n.attributes.assign(1, a);
}
inline bool quantized_problem_in(const node& n, quantized_conv_problem& p) {
    const attribute* a = n.find("problem");
    if (!a || a->integers.size() != 23) return false;
    const std::int64_t* next = a->integers.data();
    for (std::int64_t* field : {&p.n, &p.ic, &p.ih, &p.iw, &p.oc, &p.oh, &p.ow}) *field = *next++;
    for (int* field : {&p.groups, &p.kh, &p.kw, &p.sh, &p.sw, &p.dh, &p.dw, &p.pt, &p.pl}) *field = static_cast<int>(*next++);
    p.x_signed = *next++ != 0;
    p.y_signed = *next++ != 0;
    for (int* field : {&p.x_zero, &p.y_zero, &p.low, &p.high}) *field = static_cast<int>(*next++);
    p.bytes = *next++ != 0;
    return true;
}
inline void set_quantized_problem(node& n, const quantized_sum_problem& p) {
    attribute a;
    a.name = "problem";
    a.kind = attribute_kind::integers;
    a.integers = {p.a_signed, p.b_signed, p.y_signed, p.a_zero, p.b_zero, p.y_zero, p.low, p.high};
    for (const float scale : {p.a_scale, p.b_scale, p.y_scale}) a.integers.push_back(bit_cast<std::int32_t>(scale));
    n.attributes.assign(1, a);
}
inline bool quantized_problem_in(const node& n, quantized_sum_problem& p) {
    const attribute* a = n.find("problem");
    if (!a || a->integers.size() != 11) return false;
    const std::int64_t* next = a->integers.data();
    for (bool* field : {&p.a_signed, &p.b_signed, &p.y_signed}) *field = *next++ != 0;
    for (int* field : {&p.a_zero, &p.b_zero, &p.y_zero, &p.low, &p.high}) *field = static_cast<int>(*next++);
    for (float* field : {&p.a_scale, &p.b_scale, &p.y_scale}) *field = bit_cast<float>(static_cast<std::int32_t>(*next++));
    return true;
}

inline const char* choose_quantized_conv(const kernel_query& q, kernel_choice& choice) {
    quantized_conv_problem p;
    if (!quantized_problem_in(q.n, p)) return "its parameters are missing";
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
    if (!quantized_problem_in(q.n, p)) return "its parameters are missing";
    choice.note = "8 bits";
    choice.set(p);
    return nullptr;
}
inline void run_quantized_sum_kernel(const kernel_call& c) {
    run_quantized_sum(c.level, c.parameters<quantized_sum_problem>(), c.in[0].data, c.in[1].data, c.out[0].data, c.out[0].elements(), c.pool);
}

inline kernel_rows quantized_kernel_rows() {
    constexpr bool pairs = wanted("QuantizeLinear") && wanted("DequantizeLinear"), conv = wanted("QLinearConv") || (pairs && wanted("Conv"));
    constexpr bool sum = pairs && wanted("Add");
    static constexpr kernel_row rows[] = {
        {"QuantizedConv", "graft", conv ? choose_quantized_conv : nullptr, conv ? run_quantized_conv_kernel : nullptr, false},
        {"QuantizedSum", "graft", sum ? choose_quantized_sum : nullptr, sum ? run_quantized_sum_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
