// What the benchmarks of kernels share: the clock, the best of many runs, arrays.
#pragma once

#include <graft/core/buffer.hpp>

#include <chrono>
#include <cstdint>
#include <ctime>

namespace bench {

/// Seconds of processor time for one thread, so that other work on the machine disturbs little; of the wall for more.
inline double now(int threads) {
#if defined(CLOCK_PROCESS_CPUTIME_ID)
    std::timespec t{};
    if (threads == 1 && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0) return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
#else
    if (threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
#endif
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The shortest of many runs: five at least, a thousand or a quarter of a second at most.
template <class F>
double best_seconds(int threads, const F& f) {
    double best = 1e9, spent = 0;
    for (int round = 0; round < 1000 && (spent < 0.25 || round < 5); ++round) {
        const double start = now(threads);
        f();
        const double s = now(threads) - start;
        spent += s;
        if (s < best) best = s;
    }
    return best;
}

/// `n` floats in [-1, 1), as aligned as tensors are.
struct array {
    graft::buffer memory;
    float* data;
    explicit array(std::int64_t n)
        : memory(graft::buffer::allocate(static_cast<std::size_t>(n) * 4 + 64).value()), data(reinterpret_cast<float*>(memory.data())) {
        std::uint32_t seed = 12345;
        for (std::int64_t i = 0; i < n; ++i) seed = seed * 1664525u + 1013904223u, data[i] = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
    }
};

}  // namespace bench
