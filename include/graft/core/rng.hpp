// Random numbers by counter: any number of a stream at once, the same on every thread and machine (Philox4x32-10).
#pragma once

#include "../config.hpp"

#include <cmath>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// A stream of random numbers that is a function: number i depends on (seed, stream, i) alone. Salmon et al., "Parallel
/// random numbers: as easy as 1, 2, 3" (2011). 2^64 streams a seed, 2^63 numbers a stream.
class random_stream {
public:
    explicit random_stream(std::uint64_t seed, std::uint64_t stream = 0) noexcept : seed_(seed), stream_(stream) {}

    /// 64 random bits.
    std::uint64_t bits(std::uint64_t i) const noexcept { return philox(i >> 1).half(i & 1); }
    /// Uniform in [0, 1), a multiple of 2^-53.
    double uniform(std::uint64_t i) const noexcept { return unit(bits(i)); }
    /// Numbers first ... first + n - 1 of `uniform`; two of them share their bits' making.
    void uniform(std::uint64_t first, std::int64_t n, double* out) const noexcept {
        for (std::int64_t i = 0; i < n;) {
            const std::uint64_t at = first + static_cast<std::uint64_t>(i);
            const block b = philox(at >> 1);
            for (std::uint64_t half = at & 1; half < 2 && i < n; ++half, ++i) out[i] = unit(b.half(half));
        }
    }
    /// Uniform among the integers 0 ... n - 1; n >= 1.
    std::uint64_t below(std::uint64_t i, std::uint64_t n) const noexcept { return high_product(bits(i), n); }
    /// Normal with mean 0 and deviation 1, by Box and Muller; uses other bits than `bits` and `uniform`.
    double normal(std::uint64_t i) const noexcept {
        const block b = philox(i | std::uint64_t(1) << 63);
        return std::sqrt(-2 * std::log1p(-unit(b.half(0)))) * std::cos(6.283185307179586476925 * unit(b.half(1)));
    }

private:
    struct block {
        std::uint32_t word[4];
        std::uint64_t half(std::uint64_t i) const noexcept { return std::uint64_t(word[2 * i + 1]) << 32 | word[2 * i]; }
    };
    // The upper 53 bits as a number in [0, 1).
    static double unit(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 1.1102230246251565e-16; }
    static std::uint64_t high_product(std::uint64_t a, std::uint64_t b) noexcept {
        const std::uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
        const std::uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
        return a1 * b1 + (middle >> 32) + (other >> 32);
    }
    block philox(std::uint64_t counter) const noexcept {
        std::uint32_t x0 = static_cast<std::uint32_t>(counter), x1 = static_cast<std::uint32_t>(counter >> 32);
        std::uint32_t x2 = static_cast<std::uint32_t>(stream_), x3 = static_cast<std::uint32_t>(stream_ >> 32);
        std::uint32_t k0 = static_cast<std::uint32_t>(seed_), k1 = static_cast<std::uint32_t>(seed_ >> 32);
        for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
            const std::uint64_t p = std::uint64_t(0xd2511f53u) * x0, q = std::uint64_t(0xcd9e8d57u) * x2;
            x0 = static_cast<std::uint32_t>(q >> 32) ^ x1 ^ k0;
            x1 = static_cast<std::uint32_t>(q);
            x2 = static_cast<std::uint32_t>(p >> 32) ^ x3 ^ k1;
            x3 = static_cast<std::uint32_t>(p);
        }
        return {{x0, x1, x2, x3}};
    }
    std::uint64_t seed_, stream_;
};

GRAFT_END_NAMESPACE
