// Serves sums over the members of a run beside what a member computes: on a thread of its own, over a channel of its own.
#pragma once

#include "clock.hpp"
#include "communicator.hpp"
#include "start_thread.hpp"
#include "trace.hpp"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// One member's sums that go on beside it, in the order in which they were started, which is the same for all members. The thread is made at the first of them
// and sleeps between steps; `settle` ends a step's. All calls but the thread's own come from one thread.
class exchange_thread {
public:
    // `channel` carries nothing else, and outlives it.
    explicit exchange_thread(communicator& channel) : channel_(channel) {}
    ~exchange_thread() {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            closing_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }
    exchange_thread(const exchange_thread&) = delete;
    exchange_thread& operator=(const exchange_thread&) = delete;

    // `array` belongs to the exchange until it is finished or settled.
    status start(const started_sum& array, trace_recorder* trace) {
        const bool served = thread_.joinable() || start_thread(thread_, [this] { serve(); });
        {
            const std::lock_guard<std::mutex> guard(lock_);
            entries_.push_back({array, trace, 0});
        }
        if (served) {
            changed_.notify_all();
            return {};
        }
        // The system gives no thread: the member does it itself, in the order of the others.
        run_next();
        return failure();
    }

    // Waits for the oldest sum of `data` that is not finished yet.
    status finish(const float* data) {
        std::unique_lock<std::mutex> guard(lock_);
        std::size_t at = 0;
        while (at < entries_.size() && (entries_[at].taken || entries_[at].array.data != data)) ++at;
        if (at == entries_.size()) return fail(errc::internal, "exchange", "it waits for a sum that nobody has started");
        entries_[at].taken = true;
        if (done_ <= at) {
            const double began = seconds_now();
            const std::size_t before = done_;
            changed_.wait(guard, [&] { return done_ > at; });
            // Adding up this member's part is no waiting, also where another thread does it.
            double waited = 0;
            for (std::size_t i = before; i <= at; ++i) waited += entries_[i].waited;
            waited_ += std::min(waited, seconds_now() - began);
        }
        return at >= failed_at_ ? status(failed_.error()) : status();
    }

    // Whether something that was started has not ended.
    bool busy() {
        const std::lock_guard<std::mutex> guard(lock_);
        return done_ < entries_.size();
    }
    // Returns when nothing goes on any more. Who does not want what was started breaks the channel first. A step may begin anew behind it.
    status settle() {
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [&] { return done_ == entries_.size(); });
        entries_.clear();
        done_ = 0;
        failed_at_ = none;
        status ended = std::move(failed_);
        failed_ = status();
        return ended;
    }

    // Seconds that `finish` has waited for others so far.
    double waited_seconds() const noexcept { return waited_; }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    struct entry {
        started_sum array;
        trace_recorder* trace = nullptr;
        double waited = 0;  // seconds, of the channel
        bool taken = false;
    };

    void serve() {
        for (;;) {
            {
                std::unique_lock<std::mutex> guard(lock_);
                changed_.wait(guard, [&] { return closing_ || done_ < entries_.size(); });
                if (closing_) return;
            }
            run_next();
        }
    }
    void run_next() {
        std::unique_lock<std::mutex> guard(lock_);
        const entry now = entries_[done_];
        const bool goes = failed_at_ == none;  // behind an error there is nobody to exchange with
        guard.unlock();
        status ended;
        const double waited = channel_.waited_seconds(), began = seconds_now();
        if (goes) {
            const float* const in = now.array.data;
            ended = or_out_of_memory<status>("an exchange", [&] { return channel_.all_reduce({&in, &now.array.data, &now.array.count, 1}); });
            if (now.trace) record(now, began);
        }
        guard.lock();
        entries_[done_].waited = channel_.waited_seconds() - waited;
        if (!ended.ok()) failed_ = std::move(ended), failed_at_ = done_;
        ++done_;
        guard.unlock();
        changed_.notify_all();
    }
    void record(const entry& e, double began) const {
        add_exchange(*e.trace, channel_.rank(), e.array.name ? e.array.name : "", began, seconds_now(),
                     e.array.count * static_cast<std::int64_t>(sizeof(float)));
    }
    status failure() {
        const std::lock_guard<std::mutex> guard(lock_);
        return failed_at_ == none ? status() : status(failed_.error());
    }

    communicator& channel_;
    std::thread thread_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::vector<entry> entries_;  // of this step, in order
    std::size_t done_ = 0, failed_at_ = none;
    status failed_;
    bool closing_ = false;
    double waited_ = 0;
};

// A communicator that has another beside it, by which what is started goes on.
class overlapping_communicator : public communicator {
public:
    inline status start(const started_sum& array) override { return exchange_ ? exchange_->start(array, trace()) : communicator::start(array); }
    inline status finish(const float* data) override { return exchange_ ? exchange_->finish(data) : status(); }
    inline status settle(const error* why) override {
        if (!exchange_) return {};
        if (why && exchange_->busy()) leave(*why);
        return exchange_->settle();
    }
    inline bool overlaps() const noexcept override { return exchange_ != nullptr; }

protected:
    void exchange_by(std::unique_ptr<communicator> channel) {
        channel_ = std::move(channel);
        exchange_ = std::make_unique<exchange_thread>(*channel_);
    }
    // Nothing that was started goes on any more.
    void end_exchange() { exchange_.reset(); }
    double waited_beside() const noexcept { return exchange_ ? exchange_->waited_seconds() : 0; }

private:
    std::unique_ptr<communicator> channel_;  // before the thread that uses it
    std::unique_ptr<exchange_thread> exchange_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
