#include <graft/core/executor.hpp>

#include <atomic>

// The tasks that ran, of a loop over `threads` threads.
extern "C" int run_loop(int threads, int tasks);
extern "C" int run_loop(int threads, int tasks) {
    graft::pool_executor pool(threads);
    std::atomic<int> ran{0};
    graft::parallel_for(pool, tasks, [&](std::int64_t) { ++ran; });
    return ran;
}
