// Numbers that a user wrote in decimal and a file keeps as float32.
#pragma once

#include "../../../config.hpp"

#include <cmath>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

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

}  // namespace cpu
GRAFT_END_NAMESPACE
