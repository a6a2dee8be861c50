// What the tests of kernels share: numbers drawn by a fixed rule.
#pragma once

#include <cstdint>
#include <vector>

namespace kernel_test {

struct random_source {
    std::uint64_t state = 88172645463325252ull;
    std::uint64_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    }
    std::int64_t between(std::int64_t low, std::int64_t high) { return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1)); }
    float real() { return static_cast<float>(static_cast<double>(next() >> 40) / double(1 << 23) - 1.0); }
    std::vector<float> reals(std::int64_t n) {
        std::vector<float> v(static_cast<std::size_t>(n));
        for (float& f : v) f = real();
        return v;
    }
};

}  // namespace kernel_test
