// Kernels of graft.Narrow, graft.Widen, graft.ActivationTraining and graft.ActivationAgain: activations between the forward part of a step, which computes in
// float32, and the backward part.
#pragma once

#include "../../move.hpp"
#include "../../training/saved.hpp"
#include "../attributes.hpp"
#include "../elementwise.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Whether an input has a type that activations are kept in.
inline bool is_saved(const tensor_view& x) { return x.type == dtype::float32 || x.type == dtype::bfloat16; }
/// Whether input i has, and all others are float32.
inline bool float32_but_saved(const kernel_query& q, int i) { return q.all_float32(i) && is_saved(q.in[i]); }
/// It, as kernels read it.
inline saved_activation saved_input(const kernel_call& c, int i) {
    if (i >= c.inputs) return {};
    return c.in[i].type == dtype::bfloat16 ? saved_activation(c.in[i].as<const std::uint16_t>()) : saved_activation(c.input(i));
}

inline const char* choose_conversion(const kernel_query& q, kernel_choice& choice) {
    if (q.in_layout[0] != q.out_layout[0]) return "its operands lie differently";
    choice.set(stored_elements(q.in[0], q.in_layout[0]));
    choice.note = "conversion";
    return nullptr;
}
inline void run_narrow(const kernel_call& c) { run_to_bfloat16(c.level, c.input(0), c.out[0].as<std::uint16_t>(), c.parameters<std::int64_t>(), c.pool); }
inline void run_widen(const kernel_call& c) { run_from_bfloat16(c.level, c.in[0].as<std::uint16_t>(), c.output(0), c.parameters<std::int64_t>(), c.pool); }

inline const char* choose_activation_training(const kernel_query& q, kernel_choice& choice) {
    for (int i = 0; i < q.outputs; ++i)
        if (q.wants(i) && q.out_layout[i] != q.in_layout[0]) return "its operands lie differently";
    choice.set(activation_parameters{epilogue_of(q.n), stored_elements(q.out[0], q.out_layout[0])});
    choice.note = "activation in bfloat16";
    return nullptr;
}
inline void run_activation_training_kernel(const kernel_call& c) {
    const auto& p = c.parameters<activation_parameters>();
    const auto narrow = [&](int i) { return i < c.outputs ? c.out[i].as<std::uint16_t>() : nullptr; };
    run_activation_training(c.level, p.ep.act, p.ep.alpha, p.ep.beta, c.input(0), c.output(0), narrow(1), narrow(2), p.elements, c.pool);
}
inline void run_activation_again_kernel(const kernel_call& c) {
    const auto& p = c.parameters<activation_parameters>();
    const bool narrow = c.out[0].type == dtype::bfloat16;
    run_activation_again(c.level, p.ep.act, p.ep.alpha, p.ep.beta, c.in[0].as<const std::uint16_t>(), narrow ? nullptr : c.output(0),
                         narrow ? c.out[0].as<std::uint16_t>() : nullptr, p.elements, c.pool);
}

inline kernel_rows saved_kernel_rows() {
    static constexpr kernel_row rows[] = {{"Narrow", "graft", choose_conversion, run_narrow, false},
                                          {"Widen", "graft", choose_conversion, run_widen, false},
                                          {"ActivationTraining", "graft", choose_activation_training, run_activation_training_kernel, true},
                                          {"ActivationAgain", "graft", choose_activation_training, run_activation_again_kernel, false}};
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
