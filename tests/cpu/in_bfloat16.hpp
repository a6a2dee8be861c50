// Numbers rounded to bfloat16, and what those stand for.
#pragma once

#include <graft/core/dtype.hpp>

#include <cstdint>
#include <vector>

namespace kernel_test {

inline float rounded(float x) { return graft::to_float(graft::to_bfloat16(static_cast<double>(x))); }

inline std::vector<std::uint16_t> narrowed(const float* x, std::size_t n) {
    std::vector<std::uint16_t> bits;
    for (std::size_t i = 0; i < n; ++i) bits.push_back(graft::to_bfloat16(static_cast<double>(x[i])).bits);
    return bits;
}
inline std::vector<std::uint16_t> narrowed(const std::vector<float>& x) { return narrowed(x.data(), x.size()); }
inline std::vector<float> widened(const std::vector<std::uint16_t>& x) {
    std::vector<float> y;
    for (std::uint16_t bits : x) y.push_back(graft::to_float(graft::bfloat16{bits}));
    return y;
}

}  // namespace kernel_test
