// How fast this machine can compute and read at most, measured.
#pragma once

#include "../core/error.hpp"
#include "../core/executor.hpp"
#include "../tensor/tensor.hpp"
#include "isa.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The limits of a machine for one instruction set and number of threads; 0: not measured.
struct machine_peak {
    isa level = isa::baseline;
    int threads = 1;
    double flop_per_second = 0;  ///< float32, a product and a sum counting two
    double read_per_second = 0;  ///< bytes from memory, of an array of peak_meter::array_bytes
};

/// Measures piece by piece, beside what is compared with it, so that both meet the machine alike; the fastest piece counts.
class peak_meter {
public:
    /// What is read: more than the caches of most machines hold. It is kept as long as the meter.
    static constexpr std::int64_t array_bytes = std::int64_t(128) << 20;

    /// `pool` must outlive it. Errors: memory.oom.
    static result<peak_meter> make(isa level, executor& pool);
    /// One piece of each: the array once, and four stretches of products and sums of 2 ms or so.
    void measure();
    const machine_peak& best() const noexcept { return best_; }

private:
    double chains_seconds() const;
    double read_seconds() const;

    machine_peak best_;
    executor* pool_ = nullptr;
    tensor array_;
    std::int64_t rounds_ = 1024;  // of each task
};

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/clock.hpp"
#include "peak_dispatch.hpp"

#include <algorithm>
#include <atomic>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// More tasks than threads: one that is late, or shares its core, holds the others up by a task at most.
constexpr std::int64_t peak_tasks_a_thread = 8, read_tasks = 64;

GRAFT_INLINE result<peak_meter> peak_meter::make(isa level, executor& pool) {
    return graft::detail::or_out_of_memory<result<peak_meter>>("peak_meter", [&]() -> result<peak_meter> {
        peak_meter made;
        made.best_.level = level;
        made.best_.threads = pool.threads();
        made.pool_ = &pool;
        constexpr std::int64_t floats = array_bytes / 4, piece = floats / read_tasks;
        static_assert(floats % read_tasks == 0 && piece % most_chain_floats == 0, "kernels read whole vectors");
        GRAFT_TRY_ASSIGN(made.array_, tensor::make(dtype::float32, {floats}));
        // Written by the threads that read it: pages lie with who touches them first.
        float* const to = made.array_.data<float>();
        parallel_for(pool, read_tasks, [&](std::int64_t t) { std::fill(to + t * piece, to + (t + 1) * piece, 0.25f); });
        return made;
    });
}

GRAFT_INLINE double peak_meter::chains_seconds() const {
    const peak_kernels& k = measuring_kernels(best_.level);
    const float* const start = array_.data<float>();
    std::atomic<bool> odd{false};
    const double begun = graft::detail::seconds_now();
    parallel_for(*pool_, peak_tasks_a_thread * best_.threads, [&](std::int64_t) {
        if (!(k.multiply_add(start, rounds_) > 0)) odd = true;
    });
    const double took = graft::detail::seconds_now() - begun;
    return odd ? 0 : took;
}
GRAFT_INLINE double peak_meter::read_seconds() const {
    const peak_kernels& k = measuring_kernels(best_.level);
    const float* const from = array_.data<float>();
    constexpr std::int64_t piece = array_bytes / 4 / read_tasks;
    std::atomic<bool> odd{false};
    const double begun = graft::detail::seconds_now();
    parallel_for(*pool_, read_tasks, [&](std::int64_t t) {
        if (!(k.read(from + t * piece, piece) > 0)) odd = true;
    });
    const double took = graft::detail::seconds_now() - begun;
    return odd ? 0 : took;
}
GRAFT_INLINE void peak_meter::measure() {
    // Short stretches, of which others on the machine leave some alone; long enough that starting the threads is a small part.
    constexpr double enough = 0.002;
    constexpr int stretches = 4;
    constexpr std::int64_t most_rounds = std::int64_t(1) << 40;
    double took = chains_seconds();
    for (; took > 0 && took < enough / 2 && rounds_ < most_rounds; took = chains_seconds())
        rounds_ *= std::min<std::int64_t>(64, std::max<std::int64_t>(2, static_cast<std::int64_t>(enough / took)));
    const double flop =
        2.0 * measuring_kernels(best_.level).chain_floats * static_cast<double>(rounds_) * static_cast<double>(peak_tasks_a_thread * best_.threads);
    for (int i = 0; i < stretches; took = chains_seconds(), ++i)
        if (took > 0) best_.flop_per_second = std::max(best_.flop_per_second, flop / took);
    const double read = read_seconds();
    if (read > 0) best_.read_per_second = std::max(best_.read_per_second, static_cast<double>(array_bytes) / read);
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
