// Activations that a kernel can apply to what it made, and what else it does to it.
#pragma once

#include "../core/wanted.hpp"

#include <cstdint>

// X(name, one or two operators by which a network comes to need it: by itself, or fused from several; null: always). The numbers that follow
// from the order stand in attributes: new ones come last. What each computes is told in ops/activation.hpp, its vector form in
// cpu/kernels/activation.inl.
#define GRAFT_ACTIVATION_LIST(X) \
    X(relu, nullptr, nullptr) \
    X(clip, nullptr, nullptr) \
    X(leaky_relu, "LeakyRelu", nullptr) \
    X(sigmoid, "Sigmoid", nullptr) \
    X(silu, "Sigmoid", "Swish") \
    X(hard_sigmoid, "HardSigmoid", nullptr) \
    X(hard_swish, "HardSigmoid", "HardSwish") \
    X(tanh, "Tanh", nullptr) \
    X(gelu, "Erf", "Gelu") \
    X(gelu_tanh, "Tanh", "Gelu") \
    X(elu, "Elu", nullptr) \
    X(softplus, "Softplus", nullptr) \
    X(mish, "Mish", nullptr)

GRAFT_BEGIN_NAMESPACE

/// Functions of one element that can follow a convolution, a matrix product or a sum.
enum class activation {
    none,
#define GRAFT_X(name, first, second) name,
    GRAFT_ACTIVATION_LIST(GRAFT_X)
#undef GRAFT_X
};

/// How many activations there are, `none` among them.
#define GRAFT_X(name, first, second) +1
constexpr int activation_count = 1 GRAFT_ACTIVATION_LIST(GRAFT_X);
#undef GRAFT_X

/// Whether an operator that this build holds can come to need the function.
constexpr bool activation_wanted(activation kind) noexcept {
    constexpr const char* operators[][2] = {{nullptr, nullptr},
#define GRAFT_X(name, first, second) {first, second},
                                            GRAFT_ACTIVATION_LIST(GRAFT_X)
#undef GRAFT_X
    };
    const auto& by = operators[static_cast<int>(kind)];
    return !by[0] || wanted(by[0]) || (by[1] && wanted(by[1]));
}

/// Whether this build can come to need one that is no clamp.
constexpr bool functions_wanted() noexcept {
    bool any = false;
#define GRAFT_X(name, first, second) any = any || (activation::name > activation::clip && activation_wanted(activation::name));
    GRAFT_ACTIVATION_LIST(GRAFT_X)
#undef GRAFT_X
    return any;
}

/// y = act(x [+ residual]), or act(x) + residual where `residual_after_activation`.
struct epilogue {
    activation act = activation::none;
    float alpha = 0, beta = 0;
    bool residual = false;
    bool residual_after_activation = false;
};

GRAFT_END_NAMESPACE
