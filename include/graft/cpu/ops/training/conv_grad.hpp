// Kernels of graft.ConvGradWeight, graft.ConvGradInput and graft.PackConvGradInputWeights.
#pragma once

#include "../../training/conv_grad.hpp"
#include "../conv.hpp"
#include "saved.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// What tells two packings of the same weights for the gradient of the input apart; as conv_pack_key.
inline std::string conv_grad_input_pack_key(isa level, const conv_problem& forward, const conv_grad_input_choice& c) {
    return "gradient " + conv_pack_key(level, forward, c.conv) + " " + std::to_string(static_cast<int>(c.algorithm)) + " " + std::to_string(forward.sh) + "x" +
           std::to_string(forward.sw) + " " + std::to_string(forward.pt) + "," + std::to_string(forward.pl) + " " + std::to_string(c.packed_bytes);
}

struct conv_grad_weight_parameters {
    conv_problem problem;
    conv_grad_weight_choice choice;
};

// dW (output 0) and, where it is wanted, dB (output 1) from X and dY.
inline const char* choose_conv_grad_weight_kernel(const kernel_query& q, kernel_choice& choice) {
    conv_grad_weight_parameters p;
    if (!problem_in(q.n, p.problem)) return "its parameters are missing";
    if (!float32_but_saved(q, 0)) return "it is not float32";
    const std::int64_t shards = integer_of(q.n, "shards", 8);
    if (!shards::legal(shards)) return "its number of shards is not a power of two";
    p.choice = choose_conv_grad_weight(q.level, p.problem, static_cast<int>(shards));
    if (p.choice.in != q.in_layout[0].as || q.in_layout[1] != layout::blocked) return "its inputs lie in another layout";
    if (q.in[0].type != dtype::float32 && !p.choice.takes_narrow()) return "its algorithm reads float32";
    choice.workspace_bytes = p.choice.workspace_bytes;
    choice.note = p.choice.reason;
    choice.set(p);
    return nullptr;
}
inline void run_conv_grad_weight_kernel(const kernel_call& c) {
    const conv_grad_weight_parameters& p = c.parameters<conv_grad_weight_parameters>();
    run_conv_grad_weight(c.level, p.problem, p.choice, saved_input(c, 0), c.input(1), c.output(0), c.outputs > 1 ? c.output(1) : nullptr, c.workspace, c.pool);
}

struct conv_grad_input_parameters {
    conv_problem problem;
    conv_grad_input_choice choice;
};

// dX from dY, packed weights and, where there is one, a residual of dX's shape.
inline const char* choose_conv_grad_input_kernel(const kernel_query& q, kernel_choice& choice) {
    conv_grad_input_parameters p;
    if (!problem_in(q.n, p.problem)) return "its parameters are missing";
    p.choice = choose_conv_grad_input(q.level, p.problem);
    choice.workspace_bytes = p.choice.workspace_bytes;
    choice.note = p.choice.reason;
    choice.set(p);
    return nullptr;
}
inline void run_conv_grad_input_kernel(const kernel_call& c) {
    const conv_grad_input_parameters& p = c.parameters<conv_grad_input_parameters>();
    run_conv_grad_input(c.level, p.problem, p.choice, c.input(0), c.in[1].data, c.input(2), c.output(0), c.workspace, c.pool);
}

inline const char* choose_conv_grad_input_pack_kernel(const kernel_query& q, kernel_choice& choice) {
    const char* refused = choose_conv_grad_input_kernel(q, choice);
    if (refused) return refused;
    conv_grad_input_parameters p;
    std::memcpy(static_cast<void*>(&p), choice.parameters, sizeof p);
    choice.workspace_bytes = p.choice.pack_workspace_bytes;
    choice.note = "packs weights";
    return nullptr;
}
inline void run_conv_grad_input_pack_kernel(const kernel_call& c) {
    const conv_grad_input_parameters& p = c.parameters<conv_grad_input_parameters>();
    pack_conv_grad_input_weights(c.level, p.problem, p.choice, c.input(0), c.out[0].data, c.workspace, c.pool);
}

// Weights that change are packed anew at every step, by all threads.
inline void run_conv_repack_kernel(const kernel_call& c) {
    const conv_parameters& p = c.parameters<conv_parameters>();
    repack_conv_weights(c.level, p.problem, p.choice, c.input(0), c.out[0].data, c.pool);
}

inline kernel_rows conv_grad_kernel_rows() {
    constexpr bool weight = wanted("ConvGradWeight"), input = wanted("ConvGradInput");
    static constexpr kernel_row rows[] = {
        {"ConvGradWeight", "graft", weight ? choose_conv_grad_weight_kernel : nullptr, weight ? run_conv_grad_weight_kernel : nullptr, false},
        {"ConvGradInput", "graft", input ? choose_conv_grad_input_kernel : nullptr, input ? run_conv_grad_input_kernel : nullptr, false},
        {"PackConvGradInputWeights", "graft", input ? choose_conv_grad_input_pack_kernel : nullptr, input ? run_conv_grad_input_pack_kernel : nullptr, false},
        {"PackConvWeights", "graft", wanted("Conv") ? choose_conv_pack_kernel : nullptr, wanted("Conv") ? run_conv_repack_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
