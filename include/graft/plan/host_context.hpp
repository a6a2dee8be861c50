// Runs host kernels, one after the other, on the memory of a place.
#pragma once

#include "../core/clock.hpp"
#include "../core/start_thread.hpp"
#include "plan.hpp"
#include "step_task.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

GRAFT_BEGIN_NAMESPACE

/// A place whose kernels read and write the host's memory. The host itself, place 0, runs on the caller's thread, in the caller's arena. Any other
/// has a thread and an arena of its own, from its first run on; where the system gives no thread, it runs on the caller's too.
class host_context final : public device_context {
public:
    host_context(std::shared_ptr<const plan> p, place_id place) : plan_(std::move(p)), place_(place) {
        std::size_t most = 0;
        for (const step& s : plan_->steps)
            if (s.place == place_) most = std::max(most, std::max(s.in.size(), s.out.size()));
        in_.resize(most);
        out_.resize(most);
        waiting_.reserve(plan_->segments.size());  // a run allocates nothing
    }
    GRAFT_COLD ~host_context() {
        if (!thread_.joinable()) return;
        {
            const std::lock_guard<std::mutex> guard(lock_);
            closing_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    inline status start(int segment, const run_environment& around) override {
        if (!place_) {
            const double begun = detail::seconds_now();
            status done = run(segment, around);
            busy_ += detail::seconds_now() - begun;
            return done;
        }
        if (!own_) GRAFT_TRY(take_own(around));
        {
            const std::lock_guard<std::mutex> guard(lock_);
            around_ = &around;
            waiting_.push_back(segment);
        }
        if (thread_.joinable())
            changed_.notify_all();
        else
            run_next();
        return {};
    }
    inline status finish(int segment) override {
        if (!place_) return {};
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [&] { return ended_ == waiting_.size() || waiting_[ended_] > segment; });
        if (ended_ == waiting_.size()) {
            waiting_.clear();
            ended_ = 0;
            failing_ = false;
        }
        return std::move(failed_);
    }
    inline double busy_seconds() const noexcept override { return busy_; }

private:
    // What a place beside the host keeps from run to run.
    struct own_means {
        buffer arena;
        scratch_store scratch;
        pool_executor pool;
        explicit own_means(int threads) : pool(threads) {}
    };

    GRAFT_COLD status take_own(const run_environment& around) {
        // Such places work beside each other.
        int beside = 0;
        for (std::size_t p = 1; p < plan_->places.size(); ++p)
            beside += plan_->places[p].on->in_host_memory() &&
                      std::any_of(plan_->segments.begin(), plan_->segments.end(), [&](const plan_segment& s) { return s.place == p; });
        auto made = std::make_unique<own_means>(std::max(1, around.pool.threads() / std::max(1, beside)));
        GRAFT_TRY_ASSIGN(made->arena, buffer::allocate(static_cast<std::size_t>(plan_->places[place_].arena_bytes), around.budget));
        own_ = std::move(made);
        detail::start_thread(thread_, [this] { serve(); });
        return {};
    }
    void serve() {
        for (;;) {
            {
                std::unique_lock<std::mutex> guard(lock_);
                changed_.wait(guard, [&] { return closing_ || ended_ < waiting_.size(); });
                if (closing_) return;
            }
            run_next();
        }
    }
    // Segments behind one that has failed end without a run.
    void run_next() {
        std::unique_lock<std::mutex> guard(lock_);
        const int segment = waiting_[ended_];
        const run_environment& given = *around_;
        status done;
        double took = 0;
        if (!failing_) {
            guard.unlock();
            // Bodies run late, and what runs late runs at place 0.
            const run_environment around{given.planned, given.arena,    given.inputs, given.outputs, own_->pool,  given.limit,
                                         nullptr,       &own_->scratch, given.budget, given.group,   given.trace, given.traced_as};
            const double begun = detail::seconds_now();
            done = detail::or_out_of_memory<status>(plan_->lowered.name.c_str(), [&] { return run(segment, around); });
            took = detail::seconds_now() - begun;
            guard.lock();
        }
        if (!done.ok()) {
            failed_ = std::move(done);
            failing_ = true;
        }
        busy_ += took;
        ++ended_;
        guard.unlock();
        changed_.notify_all();
    }

    status run(int segment, const run_environment& around) {
        const plan_segment& steps = plan_->segments[static_cast<std::size_t>(segment)];
        std::byte* const arena = place_ ? own_->arena.data() : around.arena;
        const auto resolve = [&](const slot& s) -> tensor_view {
            return {s.prototype.type, s.prototype.extents, s.kind == slot_kind::arena && s.place == place_ ? arena + s.index : around.address(s)};
        };
        if (around.trace && tasks_.empty()) describe(around);
        for (int i = steps.first; i < steps.last; ++i) {
            const step& s = plan_->steps[static_cast<std::size_t>(i)];
            for (std::size_t k = 0; k < s.in.size(); ++k) in_[k] = resolve(s.in[k]);
            for (std::size_t k = 0; k < s.out.size(); ++k) out_[k] = resolve(s.out[k]);
            const double began = around.trace ? detail::seconds_now() : 0;
            GRAFT_TRY(static_cast<const host_kernel&>(*s.kernel).run({plan_->lowered.nodes[static_cast<std::size_t>(s.node)], in_.data(),
                                                                      static_cast<int>(s.in.size()), out_.data(), static_cast<int>(s.out.size()),
                                                                      arena + s.workspace_offset, s.seed, around}));
            if (around.trace) record(i, began, around);
        }
        return {};
    }
    // Once a context, before a step is timed, so that it takes no time of theirs. Without memory for it, its steps are left out.
    GRAFT_COLD void describe(const run_environment& around) {
        const status made = detail::or_out_of_memory<status>("a trace", [&]() -> status {
            std::vector<std::shared_ptr<const trace_task>> all(plan_->steps.size());
            for (std::size_t i = 0; i < all.size(); ++i)
                if (plan_->steps[i].place == place_)
                    all[i] = std::make_shared<const trace_task>(detail::task_of(*plan_, plan_->steps[i], around.pool.threads()));
            tasks_ = std::move(all);
            return {};
        });
        if (!made.ok()) tasks_.clear();
    }
    GRAFT_COLD void record(int i, double began, const run_environment& around) const {
        const double ended = detail::seconds_now();
        trace_span span;
        span.member = around.group ? around.group->rank() : around.traced_as;
        // Behind the threads of every member: places beside the host have one each.
        span.thread = place_ ? trace_recorder::exchange + static_cast<int>(place_) : trace_recorder::compute;
        span.begin = began, span.end = ended;
        if (!tasks_.empty()) span.task = tasks_[static_cast<std::size_t>(i)];
        span.bytes = span.task ? span.task->made_bytes : 0;
        around.trace->add(span);
    }

    std::shared_ptr<const plan> plan_;
    place_id place_;
    std::vector<tensor_view> in_, out_;
    std::vector<std::shared_ptr<const trace_task>> tasks_;  // by step; empty until something records
    std::unique_ptr<own_means> own_;
    std::thread thread_;
    // Between the caller and the thread: segments of this run, how many of them have ended, and what a failed one said.
    std::mutex lock_;
    std::condition_variable changed_;
    const run_environment* around_ = nullptr;
    std::vector<int> waiting_;
    std::size_t ended_ = 0;
    double busy_ = 0;  // seconds in segments
    bool closing_ = false, failing_ = false;
    status failed_;
};

GRAFT_END_NAMESPACE
