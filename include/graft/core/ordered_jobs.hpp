// Jobs that several workers do at once, each on a thread of its own, and that come back in the order in which they were given.
#pragma once

#include "error.hpp"
#include "start_thread.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A worker has `status work(Job& job, const Job* coming)` and `bool looks_ahead() const`: whether it wants to see the job that it will do next, which stays
// where it is until then. One worker works on the thread of the caller. Behind a job that fails no other is begun: the earliest one's error is the one that is
// told, as if they were done one after the other. One thread at a time gives and takes.
template <class Job, class Worker>
class ordered_jobs {
public:
    // `waiting`: how many jobs may be held beside those that are worked on.
    ordered_jobs(std::vector<std::unique_ptr<Worker>> workers, int waiting)
        : most_(workers.size() + static_cast<std::size_t>(waiting)), workers_(std::move(workers)) {}
    ordered_jobs(const ordered_jobs&) = delete;
    ordered_jobs& operator=(const ordered_jobs&) = delete;
    // Jobs that have begun are done first.
    ~ordered_jobs() {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            stopping_ = true;
        }
        work_.notify_all();
        for (std::thread& t : threads_) t.join();
    }
    // Errors: memory.oom where the system gives no threads.
    status start() {
        if (workers_.size() < 2) return {};
        threads_.reserve(workers_.size());
        for (const std::unique_ptr<Worker>& worker : workers_) {
            std::thread made;
            Worker* const own = worker.get();
            if (!start_thread(made, [this, own] { serve(*own); })) return fail(errc::memory_oom, "replicas", "the system gives no more threads");
            threads_.push_back(std::move(made));
        }
        return {};
    }

    std::size_t workers() const noexcept { return workers_.size(); }
    bool full() const noexcept { return jobs_.size() >= most_; }
    bool empty() const noexcept { return jobs_.empty(); }
    void give(Job job) {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            jobs_.emplace_back(std::move(job));
        }
        work_.notify_one();
    }
    // The one that was given first, waited for. Behind an error nothing comes any more.
    status take(Job& out) {
        std::unique_lock<std::mutex> guard(lock_);
        if (jobs_.empty()) return fail(errc::usage, "replicas", "nothing has been given that could be taken");
        if (threads_.empty() && failed_at_ == none) {
            const Job* const coming = jobs_.size() > 1 && workers_[0]->looks_ahead() ? &jobs_[1].job : nullptr;
            begun_ = taken_ + 1;
            guard.unlock();
            status done = workers_[0]->work(jobs_[0].job, coming);
            guard.lock();
            end(taken_, std::move(done));
        }
        done_.wait(guard, [this] { return jobs_[0].done || failed_at_ < taken_; });
        if (failed_at_ <= taken_) return failed_.error();
        out = std::move(jobs_[0].job);
        jobs_.pop_front();
        ++taken_;
        return {};
    }

private:
    static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    struct entry {
        explicit entry(Job given) : job(std::move(given)) {}
        Job job;
        bool done = false;
    };

    bool has_work() const { return begun_ < taken_ + static_cast<std::int64_t>(jobs_.size()) && begun_ < failed_at_; }
    Job& job_of(std::int64_t number) { return jobs_[static_cast<std::size_t>(number - taken_)].job; }
    void end(std::int64_t number, status done) {
        jobs_[static_cast<std::size_t>(number - taken_)].done = true;
        if (done.ok() || number > failed_at_) return;
        failed_at_ = number;
        failed_ = std::move(done);
    }
    void serve(Worker& worker) {
        std::int64_t coming = none;  // a job that nobody else does any more
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            if (coming > failed_at_) coming = none;
            ++idle_;
            work_.wait(guard, [&] { return stopping_ || coming != none || has_work(); });
            --idle_;
            if (stopping_) return;
            const std::int64_t number = coming != none ? coming : begun_++;
            coming = worker.looks_ahead() && idle_ == 0 && has_work() ? begun_++ : none;
            Job& job = job_of(number);
            const Job* const next = coming != none ? &job_of(coming) : nullptr;
            guard.unlock();
            status done = worker.work(job, next);
            guard.lock();
            end(number, std::move(done));
            done_.notify_all();
        }
    }

    const std::size_t most_;
    std::deque<entry> jobs_;  // in their order from number `taken_` on; what one holds stays where it is
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::thread> threads_;
    std::mutex lock_;
    std::condition_variable work_, done_;
    std::int64_t taken_ = 0, begun_ = 0, failed_at_ = none;
    status failed_;  // of number failed_at_
    int idle_ = 0;
    bool stopping_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
