// How loops are spread over threads: an interface that apps may implement, and parallel_for on top of it.
#pragma once

#include "../config.hpp"

#include <cstdint>
#include <memory>

GRAFT_BEGIN_NAMESPACE

/// Runs the tasks of a loop, in any order, on any threads. graft brings one on its own pool; apps can hand in theirs.
/// `run` returns when every task has ended. Tasks that graft hands in do not throw, so an executor need not expect it: `parallel_for` keeps what
/// is thrown in one and throws it to its caller. Results never depend on how tasks are spread.
class executor {
public:
    inline virtual ~executor() {}
    /// How many threads `run` uses at most, the caller's included; >= 1.
    inline virtual int threads() const noexcept { return 1; }
    /// Calls body(context, i) once for every i in [0, tasks).
    inline virtual void run(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) {
        for (std::int64_t i = 0; i < tasks; ++i) body(context, i);
    }
    /// An executor of so many threads for a loop's task that has loops of its own: several such run beside each other, within the loop. Null where there is
    /// none: tasks then run their loops alone.
    inline virtual std::unique_ptr<executor> within(int) const { return nullptr; }
};

namespace detail {
// Runs the tasks by `pool`. What one of them throws is kept until all have ended, and thrown here, once; tasks that had not begun by then are left
// out.
void run_guarded(executor& pool, std::int64_t tasks, void (*body)(void*, std::int64_t), void* context);
}  // namespace detail

/// Calls f(i) once for every i in [0, tasks) on the threads of `pool`. Where f throws, the first exception comes out of here when every task that had
/// begun has ended; others are left out.
template <class F>
inline void parallel_for(executor& pool, std::int64_t tasks, const F& f) {
    if (tasks <= 1 || pool.threads() <= 1) {
        for (std::int64_t i = 0; i < tasks; ++i) f(i);
        return;
    }
    detail::run_guarded(
        pool, tasks, [](void* context, std::int64_t i) { (*static_cast<const F*>(context))(i); }, const_cast<void*>(static_cast<const void*>(&f)));
}
/// Calls f(first, count) for pieces of [0, n), of `piece` each but for the last, as `parallel_for` does.
template <class F>
inline void parallel_for_pieces(executor& pool, std::int64_t n, std::int64_t piece, const F& f) {
    parallel_for(pool, (n + piece - 1) / piece, [&](std::int64_t i) { f(i * piece, n - i * piece < piece ? n - i * piece : piece); });
}

/// The threads a run uses when it is not told: GRAFT_NUM_THREADS, OMP_NUM_THREADS, the cgroup's quota, the affinity, the cores.
int default_threads() noexcept;

namespace detail {
// CPUs that the control groups of this process allow, rounded up; 0 where there is no quota. The file `own` lists its groups, below `root`: in a
// container the own group is often the root of what is seen. Needs no memory.
int cgroup_cpus(const char* own, const char* root) noexcept;
}  // namespace detail

/// Spreads loops over the pool that all runs of the process share. While another run holds the pool, loops run on the
/// calling thread alone: many callers at once keep every core busy without waiting for each other. Where the system gives no more threads, loops
/// run on those that there are, if need be on the calling one alone.
class pool_executor final : public executor {
public:
    /// `threads` >= 1, the caller's included; 0 asks default_threads().
    explicit pool_executor(int threads = 0);
    inline int threads() const noexcept override { return threads_; }
    inline void run(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) override { run_on_pool(tasks, body, context); }
    std::unique_ptr<executor> within(int threads) const override;

private:
    void run_on_pool(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context);
    int threads_;
};

namespace detail {
class thread_pool;
// The threads of one of several who compute beside each other: one at least.
inline int share_of_threads(int threads, int sharers, int which) noexcept {
    const int share = threads / sharers + (which < threads % sharers ? 1 : 0);
    return share > 1 ? share : 1;
}
}  // namespace detail

/// Spreads loops over threads of its own, so that several threads of an app compute beside each other, each with so many. They are started by the first
/// loop, and end with it. For one thread at a time.
class dedicated_executor final : public executor {
public:
    /// `threads` >= 1, the caller's included.
    explicit dedicated_executor(int threads);
    inline int threads() const noexcept override { return threads_; }
    inline void run(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) override { run_on_own(tasks, body, context); }
    std::unique_ptr<executor> within(int threads) const override;

private:
    void run_on_own(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context);
    int threads_;
    std::shared_ptr<detail::thread_pool> pool_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "thread_pool.hpp"
#endif
