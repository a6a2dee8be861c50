// Initial weights: the distributions that networks are usually begun with.
#pragma once

#include "../core/error.hpp"
#include "../tensor/tensor.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// How new weights are drawn; fan_in and fan_out are the inputs and outputs of one element, taps counted.
enum class initializer {
    zeros,
    ones,
    kaiming_uniform,         ///< within sqrt(6 / fan_in): He et al., "Delving Deep into Rectifiers" (2015)
    kaiming_normal,          ///< deviation sqrt(2 / fan_in)
    kaiming_normal_fan_out,  ///< deviation sqrt(2 / fan_out)
    xavier_uniform,          ///< within sqrt(6 / (fan_in + fan_out)): Glorot and Bengio (2010)
    xavier_normal,           ///< deviation sqrt(2 / (fan_in + fan_out))
    torch_default,           ///< what torch's Conv2d and Linear begin with: within 1 / sqrt(fan_in)
    normal_001,              ///< deviation 0.01
    truncated_normal_002,    ///< deviation 0.02, cut at two deviations
};

/// A float32 tensor [outputs, inputs, taps...] drawn by (seed, stream): the same on every machine. `fan_in` > 0 stands for the shape's
/// own, as biases need it. Errors: memory.oom.
result<tensor> initial(initializer kind, const shape& extents, std::uint64_t seed, std::uint64_t stream, std::int64_t fan_in = 0);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/rng.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<tensor> initial(initializer kind, const shape& extents, std::uint64_t seed, std::uint64_t stream, std::int64_t fan_in) GRAFT_MEMORY_TRY {
    tensor made;
    GRAFT_TRY_ASSIGN(made, tensor::make(dtype::float32, extents));
    const std::int64_t taps = extents.rank() > 2 ? extents.product(2, extents.rank()) : 1;
    const double in = static_cast<double>(fan_in > 0 ? fan_in : extents.rank() > 1 ? extents[1] * taps : extents.elements());
    const double out = static_cast<double>(extents.rank() > 0 ? extents[0] * taps : 1);
    double bound = 0, deviation = 0;
    switch (kind) {
    case initializer::zeros:
    case initializer::ones: break;
    case initializer::kaiming_uniform: bound = std::sqrt(6 / in); break;
    case initializer::kaiming_normal: deviation = std::sqrt(2 / in); break;
    case initializer::kaiming_normal_fan_out: deviation = std::sqrt(2 / out); break;
    case initializer::xavier_uniform: bound = std::sqrt(6 / (in + out)); break;
    case initializer::xavier_normal: deviation = std::sqrt(2 / (in + out)); break;
    case initializer::torch_default: bound = 1 / std::sqrt(in); break;
    case initializer::normal_001: deviation = 0.01; break;
    case initializer::truncated_normal_002: deviation = 0.02; break;
    }
    const random_stream random(seed, stream);
    float* to = made.data<float>();
    for (std::int64_t i = 0; i < made.elements(); ++i) {
        const std::uint64_t at = static_cast<std::uint64_t>(i);
        double v = kind == initializer::ones ? 1 : 0;
        if (bound > 0) v = bound * (2 * random.uniform(at) - 1);
        if (deviation > 0) v = random.normal(at);
        // Draws beyond the cut are drawn again, from places that nobody else uses.
        for (std::uint64_t again = 1; kind == initializer::truncated_normal_002 && std::fabs(v) > 2 && again < 64; ++again)
            v = random.normal(at + again * static_cast<std::uint64_t>(made.elements()));
        if (deviation > 0) v *= deviation;
        to[i] = static_cast<float>(v);
    }
    return made;
}
GRAFT_MEMORY_CATCH("initial")

GRAFT_END_NAMESPACE
#endif
