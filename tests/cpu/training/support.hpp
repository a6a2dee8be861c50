// What the tests of training kernels share: the sets of this machine, numbers, blocks whose gaps hold NaN.
#pragma once

#include "../../difference.hpp"
#include "../in_bfloat16.hpp"
#include "../sets.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace training_test {

using kernel_test::narrowed;
using kernel_test::sets;
using kernel_test::widened;

/// Numbers in [low, high), the same for the same seed.
inline std::vector<float> numbers(std::int64_t n, std::uint32_t seed, float low = -1, float high = 1) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) seed = seed * 1664525u + 1013904223u, v = low + (high - low) * (static_cast<float>(seed >> 8) / 16777216.0f);
    return x;
}

/// [n][c][pixels] to [n][ceil(c / w)][pixels][w]; lanes past c hold `gap`.
inline std::vector<float> to_blocks(const std::vector<float>& x, std::int64_t n, std::int64_t c, std::int64_t pixels, int w,
                                    float gap = std::numeric_limits<float>::quiet_NaN()) {
    const std::int64_t blocks = (c + w - 1) / w;
    std::vector<float> y(static_cast<std::size_t>(n * blocks * pixels * w), gap);
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < c; ++k)
            for (std::int64_t p = 0; p < pixels; ++p)
                y[static_cast<std::size_t>(((i * blocks + k / w) * pixels + p) * w + k % w)] = x[static_cast<std::size_t>((i * c + k) * pixels + p)];
    return y;
}
inline std::vector<float> to_planes(const std::vector<float>& x, std::int64_t n, std::int64_t c, std::int64_t pixels, int w) {
    const std::int64_t blocks = (c + w - 1) / w;
    std::vector<float> y(static_cast<std::size_t>(n * c * pixels));
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < c; ++k)
            for (std::int64_t p = 0; p < pixels; ++p)
                y[static_cast<std::size_t>((i * c + k) * pixels + p)] = x[static_cast<std::size_t>(((i * blocks + k / w) * pixels + p) * w + k % w)];
    return y;
}

/// Whether two arrays have the same bits.
inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// The largest distance, in units of the largest true value (at least `unit`); NaN counts as infinite.
inline double distance(const std::vector<float>& got, const std::vector<double>& want, double unit = 1e-30) {
    if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
    double most = 0;
    for (double v : want) unit = std::fmax(unit, std::fabs(v));
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double d = std::fabs(static_cast<double>(got[i]) - want[i]);
        if (!(d <= 1e300)) return std::numeric_limits<double>::infinity();
        most = larger_error(most, d);
    }
    return most / unit;
}

}  // namespace training_test
