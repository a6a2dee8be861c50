// Numbers of optimisers: those that a user wrote in decimal and a file keeps as float32, and those that change with the step.
#pragma once

#include "../config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE
/// The decimal number of fewest digits that rounds to x, as a double: 0.9 for the float nearest to 0.9. So an optimiser computes
/// 1 - 0.999 as those do that were given 0.999 in double. x itself where no nine digits at a usual size are it.
inline double decimal_of(float x) {
    const double wide = static_cast<double>(x), size = std::fabs(wide);
    if (!(size >= 1e-12 && size <= 1e6)) return wide;
    // A whole number below 2^53 over a power of ten up to 10^22 is rounded once, as a decimal read from text is.
    double power = 1;
    for (int digits = 0; digits <= 21; ++digits, power *= 10) {
        const double whole = std::floor(size * power + 0.5);
        if (whole > 4e15) break;
        if (static_cast<float>(whole / power) == static_cast<float>(size)) return wide < 0 ? -whole / power : whole / power;
    }
    return wide;
}

// The decay of a running average at its step t, counted from 1. It begins low, so that the random weights that learning starts from are soon
// forgotten: min(decay, (1 + t) / (10 + t)), as tf.train.ExponentialMovingAverage has it with num_updates.
inline double warm_decay(double decay, std::int64_t step) {
    const double t = static_cast<double>(std::max<std::int64_t>(step, 1));
    return std::min(decay, (1 + t) / (10 + t));
}

GRAFT_END_NAMESPACE
