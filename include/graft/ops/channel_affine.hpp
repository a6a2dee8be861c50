// What batch normalisation by given statistics does to a channel.
#pragma once

#include "../config.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// What batch normalisation with given statistics does to a channel: y = scale * x + shift.
struct channel_affine {
    double scale, shift;
};
inline channel_affine normalized_channel(double gamma, double beta, double mean, double variance, double epsilon) {
    const double scale = gamma / std::sqrt(variance + epsilon);
    return {scale, beta - mean * scale};
}

}  // namespace ops
GRAFT_END_NAMESPACE
