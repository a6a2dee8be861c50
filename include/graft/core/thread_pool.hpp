// Pools of threads, the one of a process and others beside it. Of every loop thread k has the k-th slice of the tasks, so that it finds what it
// wrote in the loop before in its own cache, and takes from the ends of others' slices when that is done; a short spin within a run, sleep between
// runs.
#pragma once

#include "contention.hpp"
#include "executor.hpp"
#include "keep_loaded.hpp"
#include "start_thread.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
#include <immintrin.h>
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline void relax() noexcept {
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

class thread_pool {
public:
    static constexpr int max_threads = 1024;

    // A pool beside the one of the process, for a thread that computes beside others: of `most` threads, which end with it.
    explicit thread_pool(int most) : owned_(true) { threads_.reserve(static_cast<std::size_t>(most)); }
    ~thread_pool() {
        closing_.store(true);
        epoch_.fetch_add(1);
        { std::lock_guard<std::mutex> wake(sleep_); }
        wake_.notify_all();
        for (std::thread& t : threads_) t.join();
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    // That of the process, or of a shared object that holds graft. Never destroyed: threads of the app may still use it while static objects go away.
    static thread_pool& instance() {
        static std::atomic<thread_pool*> pool{nullptr};
        thread_pool* p = pool.load(std::memory_order_acquire);
        if (p && !forked().load(std::memory_order_relaxed)) return *p;
        static std::mutex making;
        std::lock_guard<std::mutex> lock(making);
        p = pool.load(std::memory_order_acquire);
        // A child of fork() has none of its parent's threads, so it gets a pool of its own.
        if (!p || forked().exchange(false)) pool.store(p = new thread_pool, std::memory_order_release);
        return *p;
    }

    void run(int threads, std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) {
        int wanted = static_cast<int>(std::min<std::int64_t>(std::min(threads, max_threads), tasks)) - 1;
        std::unique_lock<std::mutex> lock(busy_, std::defer_lock);
        const thread_pool* const task = inside();
        if ((!task || (owned_ && task != this)) && lock.try_lock() && contention_.limits()) wanted = contention_.members(wanted + 1, seconds_now()) - 1;
        if (wanted <= 0 || !lock.owns_lock()) {
            if (lock.owns_lock()) lock.unlock();  // for others, who may have more tasks
            for (std::int64_t i = 0; i < tasks; ++i) body(context, i);
            return;
        }
        if (workers_ < wanted) add_workers(wanted);
        body_ = body;
        context_ = context;
        helpers_ = std::min(wanted, workers_);
        for (first_ = 0; first_ < tasks; first_ += most_at_once) run_together(static_cast<std::uint32_t>(std::min(tasks - first_, most_at_once)));
    }

private:
    thread_pool() {
#if defined(__linux__) && !defined(__EMSCRIPTEN__)
        static std::once_flag once;
        std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forked().store(true); }); });
#endif
    }
    static std::atomic<bool>& forked() {
        static std::atomic<bool> flag{false};
        return flag;
    }
    // The pool whose task the thread runs. A task that itself starts a loop runs it alone, unless that is another pool's, whose threads are its own.
    static const thread_pool*& inside() {
        static thread_local const thread_pool* pool = nullptr;
        return pool;
    }
    // A loop takes what workers there are. Where the system gave none, it is asked again a second later: asking takes longer than many a loop.
    GRAFT_COLD void add_workers(int wanted) {
        const auto now = std::chrono::steady_clock::now();
        if (now < ask_again_) return;
        if (!owned_ && workers_ == 0) keep_loaded();  // its threads never end, so their code may not go away
        for (std::thread made; workers_ < wanted; ++workers_) {
            if (!start_thread(made, [this, member = workers_ + 1] { serve(member); })) {
                ask_again_ = now + std::chrono::seconds(1);
                return;
            }
            if (owned_)
                threads_.push_back(std::move(made));
            else
                made.detach();
        }
    }
    void run_together(std::uint32_t tasks) {
        const std::uint64_t members = static_cast<std::uint64_t>(helpers_) + 1;
        measured_ = helpers_ > 0 && contention_.measures();
        for (std::uint64_t k = 0; k < members; ++k) {
            slices_[k].left.store(packed(tasks * k / members, tasks * (k + 1) / members), std::memory_order_relaxed);
            if (measured_) slices_[k].used = {};  // of one that comes too late
        }
        const double begin = measured_ ? seconds_now() : 0;
        open_.store(true);
        epoch_.fetch_add(1);
        if (sleepers_.load() > 0) {
            { std::lock_guard<std::mutex> wake(sleep_); }
            wake_.notify_all();
        }
        const thread_pool* const task = inside();
        inside() = this;
        work(0);
        inside() = task;
        open_.store(false);
        wait_for_others();
        if (measured_) add_measured(begin);
    }
    GRAFT_COLD void add_measured(double begin) {
        core_use all;
        double most = 0;
        for (int k = 0; k <= helpers_; ++k) {
            const core_use& used = slices_[k].used;
            all = {all.seconds + used.seconds, all.waits + used.waits};
            most = std::max(most, used.seconds);
        }
        const double end = seconds_now();
        contention_.add(helpers_ + 1, end - begin, all, most, end);
    }

    void wait_for_others() {
        for (int spins = 0; spins < 4000; ++spins) {
            if (active_.load() == 0) return;
            relax();
        }
        const double begin = seconds_now();
        while (active_.load() > 0) std::this_thread::yield();
        contention_.waited(seconds_now() - begin);
    }

    // What is left of a member's tasks: the next one in the upper half, the end in the lower; what they took where loops are measured.
    struct alignas(64) slice {
        std::atomic<std::uint64_t> left;
        core_use used;

        bool take_first(std::uint32_t& task) noexcept {
            return take([&](std::uint32_t next, std::uint32_t end) { return task = next, packed(next + 1, end); });
        }
        bool take_last(std::uint32_t& task) noexcept {
            return take([&](std::uint32_t next, std::uint32_t end) { return task = end - 1, packed(next, end - 1); });
        }

    private:
        template <class Without>
        bool take(Without without) noexcept {
            std::uint64_t now = left.load(std::memory_order_relaxed);
            while (next_of(now) < end_of(now))
                if (left.compare_exchange_weak(now, without(next_of(now), end_of(now)), std::memory_order_relaxed)) return true;
            return false;
        }
    };
    static constexpr std::int64_t most_at_once = std::int64_t(1) << 31;
    static std::uint64_t packed(std::uint64_t next, std::uint64_t end) noexcept { return next << 32 | end; }
    static std::uint32_t next_of(std::uint64_t left) noexcept { return static_cast<std::uint32_t>(left >> 32); }
    static std::uint32_t end_of(std::uint64_t left) noexcept { return static_cast<std::uint32_t>(left); }

    void work(int member) { measured_ ? take_measured(member) : take_tasks(member); }
    GRAFT_COLD void take_measured(int member) {
        const core_use before = core_use::of_thread();
        take_tasks(member);
        slices_[member].used = core_use::of_thread().since(before);
    }
    GRAFT_NOINLINE void take_tasks(int member) {
        std::uint32_t task;
        while (slices_[member].take_first(task)) body_(context_, first_ + task);
        for (int step = 1; step <= helpers_; ++step)
            for (slice& other = slices_[(member + step) % (helpers_ + 1)]; other.take_last(task);) body_(context_, first_ + task);
    }
    void serve(int member) {
        inside() = this;
        std::uint64_t seen = 0;
        for (;;) {
            wait_for_epoch_after(seen);
            if (closing_.load()) return;
            seen = epoch_.load();
            active_.fetch_add(1);
            if (open_.load() && member <= helpers_) work(member);
            active_.fetch_sub(1);
        }
    }
    void wait_for_epoch_after(std::uint64_t seen) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
        for (int spins = 0; epoch_.load(std::memory_order_acquire) == seen; ++spins) {
            relax();
            if ((spins & 63) == 63 && std::chrono::steady_clock::now() > until) {
                std::unique_lock<std::mutex> lock(sleep_);
                sleepers_.fetch_add(1);
                wake_.wait(lock, [&] { return epoch_.load() != seen; });
                sleepers_.fetch_sub(1);
                return;
            }
        }
    }

    std::mutex busy_, sleep_;
    std::condition_variable wake_;
    const bool owned_ = false;
    int workers_ = 0;
    std::vector<std::thread> threads_;  // where they are owned
    std::chrono::steady_clock::time_point ask_again_;
    void (*body_)(void*, std::int64_t) = nullptr;
    void* context_ = nullptr;
    std::int64_t first_ = 0;  // the task that the slices count from
    int helpers_ = 0;         // workers that share the loop; member 0 is who runs it
    bool measured_ = false;   // whether its members say where their time went
    contention_monitor contention_;
    slice slices_[max_threads];
    alignas(64) std::atomic<std::uint64_t> epoch_{0};
    std::atomic<int> active_{0}, sleepers_{0};
    std::atomic<bool> open_{false}, closing_{false};
};

inline int positive_env(const char* variable) noexcept {
    const char* value = std::getenv(variable);
    const int n = value ? std::atoi(value) : 0;
    return n > 0 ? std::min(n, thread_pool::max_threads) : 0;
}

#if defined(__linux__)
constexpr int cgroup_path_bytes = 4096;

// The two numbers of a quota, of a group or of one that it is in: version 2 has both in cpu.max, version 1 a file for each. CPUs, rounded up;
// 0: no quota.
inline int cgroup_quota(const char* root, bool unified, const char* group) noexcept {
    const char* const files[] = {unified ? "cpu.max" : "cpu.cfs_quota_us", "cpu.cfs_period_us"};
    long long numbers[2] = {0, 0};
    for (int i = 0; i < (unified ? 1 : 2); ++i) {
        char name[2 * cgroup_path_bytes];
        std::snprintf(name, sizeof name, "%s%s%s/%s", root, unified ? "" : "/cpu", group, files[i]);
        std::FILE* f = std::fopen(name, "r");
        if (!f) return 0;
        const int read = unified ? std::fscanf(f, "%lld %lld", &numbers[0], &numbers[1]) - 1 : std::fscanf(f, "%lld", &numbers[i]);
        std::fclose(f);
        if (read != 1) return 0;  // "max"
    }
    if (numbers[0] <= 0 || numbers[1] <= 0) return 0;
    return static_cast<int>(std::min<long long>((numbers[0] - 1) / numbers[1] + 1, thread_pool::max_threads));
}
#endif

GRAFT_INLINE int cgroup_cpus(const char* own, const char* root) noexcept {
    int cpus = 0;
#if defined(__linux__)
    char groups[2][cgroup_path_bytes] = {"", ""};  // of version 1's "cpu", and of version 2
    if (std::FILE* f = std::fopen(own, "r")) {
        char line[cgroup_path_bytes];
        while (std::fgets(line, sizeof line, f)) {  // number:controllers:path
            line[std::strcspn(line, "\n")] = 0;
            char* const controllers = std::strchr(line, ':');
            char* const path = controllers ? std::strchr(controllers + 1, ':') : nullptr;
            if (!path || std::strstr(path, "/..")) continue;  // outside of what is mounted here
            *path = 0;
            const bool unified = path == controllers + 1;
            bool scheduled = false;
            for (const char* c = controllers; c; c = std::strchr(c + 1, ',')) scheduled |= !std::strncmp(c + 1, "cpu", 3) && (c[4] == ',' || !c[4]);
            if (unified || scheduled) std::snprintf(groups[unified], sizeof groups[unified], "%s", path + 1);
        }
        std::fclose(f);
    }
    for (const bool unified : {false, true})
        for (char* group = groups[unified];;) {  // no group has more than those that it is in
            const int quota = cgroup_quota(root, unified, group);
            if (quota && (!cpus || quota < cpus)) cpus = quota;
            if (!*group) break;
            char* const last = std::strrchr(group, '/');
            *(last ? last : group) = 0;
        }
#else
    (void)own, (void)root;
#endif
    return cpus;
}

#ifdef GRAFT_NO_EXCEPTIONS
GRAFT_INLINE void run_guarded(executor& pool, std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) { pool.run(tasks, body, context); }
#else
struct guarded_tasks {
    void (*body)(void*, std::int64_t);
    void* context;
    std::atomic<bool> thrown{false};
    std::exception_ptr first;

    static void run(void* self, std::int64_t i) noexcept {
        guarded_tasks& all = *static_cast<guarded_tasks*>(self);
        if (all.thrown.load(std::memory_order_relaxed)) return;
        try {
            all.body(all.context, i);
        } catch (...) {
            if (!all.thrown.exchange(true)) all.first = std::current_exception();
        }
    }
};
// The executor's end of the loop orders what tasks have written, the exception too, before what is read here.
GRAFT_INLINE void run_guarded(executor& pool, std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) {
    guarded_tasks all{body, context, {}, {}};
    pool.run(tasks, guarded_tasks::run, &all);
    if (all.first) std::rethrow_exception(std::move(all.first));
}
#endif

}  // namespace detail

GRAFT_INLINE int default_threads() noexcept {
    for (const char* variable : {"GRAFT_NUM_THREADS", "OMP_NUM_THREADS"})
        if (const int n = detail::positive_env(variable)) return n;
    int cores = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__) && !defined(__EMSCRIPTEN__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
#endif
    if (const int quota = detail::cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup")) cores = std::min(cores, quota);
    return std::max(1, std::min(cores, detail::thread_pool::max_threads));
}

GRAFT_INLINE pool_executor::pool_executor(int threads) : threads_(threads > 0 ? std::min(threads, detail::thread_pool::max_threads) : default_threads()) {}

GRAFT_INLINE void pool_executor::run_on_pool(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) {
    detail::thread_pool::instance().run(threads_, tasks, body, context);
}

GRAFT_INLINE dedicated_executor::dedicated_executor(int threads)
    : threads_(std::max(1, std::min(threads, detail::thread_pool::max_threads))), pool_(std::make_shared<detail::thread_pool>(threads_)) {}
GRAFT_INLINE void dedicated_executor::run_on_own(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) {
    pool_->run(threads_, tasks, body, context);
}

GRAFT_INLINE std::unique_ptr<executor> pool_executor::within(int threads) const { return std::make_unique<dedicated_executor>(threads); }
GRAFT_INLINE std::unique_ptr<executor> dedicated_executor::within(int threads) const { return std::make_unique<dedicated_executor>(threads); }

GRAFT_END_NAMESPACE
