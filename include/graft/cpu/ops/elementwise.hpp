// Kernels of elementwise operators: activations, functions of one and of two operands, per-channel scales.
#pragma once

#include "../elementwise.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// Elements as they lie in memory: what stands in the gaps of the last block does no harm.
inline std::int64_t stored_elements(const tensor_view& v, layout lies) { return stored_extents(v.extents, lies).elements(); }

struct activation_parameters {
    epilogue ep;
    std::int64_t elements;
};
inline GRAFT_COLD const char* choose_activation(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32()) return "it is not float32";
    choice.set(activation_parameters{epilogue_of(q.n), stored_elements(q.out[0], q.out_layout[0])});
    choice.note = "activation";
    return nullptr;
}
inline void run_activation_kernel(const kernel_call& c) {
    const auto& p = c.parameters<activation_parameters>();
    run_activation(c.level, p.ep.act, p.ep.alpha, p.ep.beta, c.input(0), c.output(0), p.elements, c.pool);
}

struct unary_parameters {
    unary op;
    std::int64_t elements;
};
template <unary Op>
inline GRAFT_COLD const char* choose_unary(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32()) return "it is not float32";
    choice.set(unary_parameters{Op, q.out[0].elements()});
    choice.note = "elementwise";
    return q.all_row_major() ? nullptr : "a layout that it does not take";
}
inline void run_unary_kernel(const kernel_call& c) {
    const auto& p = c.parameters<unary_parameters>();
    run_unary(c.level, p.op, c.input(0), c.output(0), p.elements, c.pool);
}

inline GRAFT_COLD const char* choose_binary_kernel(const kernel_query& q, kernel_choice& choice, binary op) {
    if (!q.all_float32() || q.inputs != 2) return "it is not float32 with two operands";
    if (q.n.domain.empty() && q.version() < 7 && q.in[0].extents != q.in[1].extents) return "it broadcasts as before opset 7";
    const layout lies = q.out_layout[0];
    shape operand[2] = {q.in[0].extents, q.in[1].extents};
    if (lies == layout::row_major && !q.all_row_major()) return "a layout that it does not take";
    if (lies != layout::row_major)
        for (int i = 0; i < 2; ++i) {
            shape& s = operand[i];
            if (s.elements() == 1 && q.in_layout[i] == layout::row_major) {
                s = {};
                continue;
            }
            // [C, 1, 1] lies in blocks as it is where these are whole.
            if (s.rank() == 3 && q.in_layout[i] == layout::row_major && s[1] * s[2] == 1 && s[0] % lies.channels == 0) {
                s = {s[0] / lies.channels, 1, 1, lies.channels};
                continue;
            }
            if (q.in_layout[i] != lies) return "its operands lie differently";
            // [N, C, H, W] in blocks is [N, C / c, H, W, c].
            const std::int64_t channels = s[1];
            s[1] = (channels + lies.channels - 1) / lies.channels;
            s.push_back(lies.channels);
        }
    if (operand[0].rank() > 8 || operand[1].rank() > 8) return "its rank is over 8";
    binary_problem p = broadcast(op, operand[0].begin(), operand[0].rank(), operand[1].begin(), operand[1].rank());
    p.ep = epilogue_of(q.n);
    choice.set(p);
    choice.note = "elementwise";
    return nullptr;
}
template <binary Op>
inline GRAFT_COLD const char* choose_binary(const kernel_query& q, kernel_choice& choice) {
    return choose_binary_kernel(q, choice, Op);
}
inline void run_binary_kernel(const kernel_call& c) { run_binary(c.level, c.parameters<binary_problem>(), c.input(0), c.input(1), c.output(0), c.pool); }

inline GRAFT_COLD const char* choose_scale_shift(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_float32()) return "it is not float32";
    channel_problem p;
    const shape& x = q.in[0].extents;
    p.n = x[0];
    p.c = x[1];
    p.area = x.product(2, x.rank());
    // A row of a matrix is a pixel in whole blocks.
    p.blocked = q.in_layout[0] == layout::blocked || (p.area == 1 && p.c % vector_width(q.level) == 0);
    p.ep = epilogue_of(q.n);
    choice.set(p);
    choice.note = "scale and shift of each channel";
    return nullptr;
}
inline void run_scale_shift(const kernel_call& c) {
    run_channel(c.level, c.parameters<channel_problem>(), c.input(0), c.input(1), c.input(2), c.output(0), c.pool);
}

inline kernel_rows elementwise_kernel_rows() {
#define GRAFT_UNARY(name, op) \
    kernel_row { name, "", wanted(name) ? choose_unary<unary::op> : nullptr, wanted(name) ? run_unary_kernel : nullptr, true }
#define GRAFT_BINARY(name, domain, op, wanted_name) \
    kernel_row { name, domain, wanted(wanted_name) ? choose_binary<binary::op> : nullptr, wanted(wanted_name) ? run_binary_kernel : nullptr, false }
    static constexpr kernel_row rows[] = {
        {"Activation", "graft", choose_activation, run_activation_kernel, true},
        {"ScaleShift", "graft", wanted("BatchNormalization") ? choose_scale_shift : nullptr, wanted("BatchNormalization") ? run_scale_shift : nullptr, true},
        GRAFT_BINARY("Sum", "graft", add, "Add"),
        GRAFT_BINARY("Add", "", add, "Add"),
        GRAFT_BINARY("Sub", "", sub, "Sub"),
        GRAFT_BINARY("Mul", "", mul, "Mul"),
        GRAFT_BINARY("Div", "", div, "Div"),
        GRAFT_BINARY("Max", "", max, "Max"),
        GRAFT_BINARY("Min", "", min, "Min"),
        GRAFT_BINARY("Pow", "", pow, "Pow"),
        GRAFT_BINARY("PRelu", "", prelu, "PRelu"),
        GRAFT_UNARY("Abs", abs),
        GRAFT_UNARY("Neg", neg),
        GRAFT_UNARY("Exp", exp),
        GRAFT_UNARY("Log", log),
        GRAFT_UNARY("Sqrt", sqrt),
        GRAFT_UNARY("Reciprocal", reciprocal),
        GRAFT_UNARY("Floor", floor),
        GRAFT_UNARY("Ceil", ceil),
        GRAFT_UNARY("Round", round),
        GRAFT_UNARY("Sign", sign),
        GRAFT_UNARY("Erf", erf),
    };
#undef GRAFT_UNARY
#undef GRAFT_BINARY
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
