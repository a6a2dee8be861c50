// Runs what every sample of a batch goes through by itself: samples beside each other, each in memory of its own.
#pragma once

#include "../plan/plan.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// How many of `left` samples are best computed at once, `most` at most, each by as many threads as come to it (one, or all of them, without `teams`): a
// thread that shares a sample does a few percent less than one that has its own.
inline int samples_at_once(int threads, std::int64_t left, int most, bool teams) noexcept {
    int best = 1;
    double least = 0;
    for (int at_once = 1; at_once <= most && at_once <= left; ++at_once) {
        const int each = threads / at_once;
        if (at_once > 1 && each > 1 && !teams) continue;
        const double took = static_cast<double>((left + at_once - 1) / at_once) * (1 + 0.03 * (each - 1)) / each;
        if (at_once == 1 || took <= least) least = took, best = at_once;
    }
    return best;
}

// What computes a sample, one after the other: the memory of one at a time, which all plans of a context share.
struct sample_worker {
    buffer arena;
    scratch_store scratch;
    std::unique_ptr<executor> team;
};
using sample_workers = std::vector<std::unique_ptr<sample_worker>>;

// What a context keeps of a plan for them. Not for two threads at once.
class sample_runs {
public:
    // As many samples may run at once as the executor has threads, or as there is memory for: one at least. Errors: memory.*.
    GRAFT_COLD static result<std::unique_ptr<sample_runs>> make(const plan& p, sample_workers& workers, const executor& pool,
                                                                const std::shared_ptr<memory_budget>& budget) {
        auto made = std::make_unique<sample_runs>();
        made->plan_ = &p;
        for (const slot& s : p.each->outputs) {
            made->rows_.push_back({s.prototype.type, s.prototype.extents, nullptr});
            made->rows_.back().extents[0] *= p.samples;
        }
        made->between_.resize(made->rows_.size());
        for (std::size_t i = 0; i < made->rows_.size(); ++i) {
            tensor_view& rows = made->rows_[i];
            if (std::any_of(p.outputs.begin(), p.outputs.end(), [&](const slot& s) { return is_row(s, i); })) continue;
            GRAFT_TRY_ASSIGN(made->between_[i], tensor::make(rows.type, rows.extents, budget));
            rows.data = made->between_[i].raw();
        }
        made->teams_ = pool.threads() >= 4 && pool.within(1);  // fewer are no two teams
        const auto most = static_cast<std::size_t>(std::min<std::int64_t>(pool.threads(), p.samples));
        while (made->own_.size() < most) {
            status ready = made->prepare_one(workers, budget);
            if (!ready.ok() && made->own_.empty()) return ready;
            if (!ready.ok()) break;
        }
        made->free_.reserve(made->own_.size());
        return made;
    }

    // Runs all samples of the inputs in `around`; rows that are outputs of the network are made there. Errors: those of the steps.
    status run(const run_environment& around, const sample_workers& workers) {
        around_ = &around;
        workers_ = &workers;
        failed_ = status();
        for (std::size_t i = 0; i < plan_->outputs.size(); ++i)
            if (plan_->outputs[i].kind == slot_kind::input) rows_[static_cast<std::size_t>(plan_->outputs[i].index)].data = around.outputs[i].raw();
        const int threads = around.pool.threads(), room = around.trace ? 1 : count_room();  // a trace has one step after the other
        for (std::int64_t first = 0; first < plan_->samples && failed_.ok();) {
            const std::int64_t left = plan_->samples - first;
            const bool alone = left >= threads && room >= threads;
            const std::int64_t count = alone ? left / threads * threads : left;
            run_some(first, count, alone ? threads : samples_at_once(threads, left, room, teams_));
            first += count;
        }
        return std::move(failed_);
    }
    // What the samples have made, a tensor an output of their plan.
    const tensor_view* rows() const noexcept { return rows_.data(); }

private:
    // Where steps of one sample at a time run, and what they make.
    struct own_state {
        std::unique_ptr<device_context> at;
        std::vector<tensor_view> inputs;
        std::vector<tensor> outputs;
    };

    static bool is_row(const slot& s, std::size_t i) { return s.kind == slot_kind::input && s.index == static_cast<std::int64_t>(i); }
    std::size_t arena_bytes() const { return static_cast<std::size_t>(plan_->each->places[0].arena_bytes); }
    int count_room() const {
        std::size_t room = 1;
        while (room < own_.size() && (*workers_)[room]->arena.bytes() >= arena_bytes()) ++room;
        return static_cast<int>(room);
    }
    GRAFT_COLD status prepare_one(sample_workers& workers, const std::shared_ptr<memory_budget>& budget) {
        const plan& each = *plan_->each;
        if (workers.size() == own_.size()) workers.push_back(std::make_unique<sample_worker>());
        buffer& arena = workers[own_.size()]->arena;
        if (!arena || arena.bytes() < arena_bytes()) {
            arena = buffer();
            GRAFT_TRY_ASSIGN(arena, buffer::allocate(arena_bytes(), budget));
        }
        own_state made;
        for (const slot& s : each.outputs) {
            tensor output;
            GRAFT_TRY_ASSIGN(output, tensor::make(s.prototype.type, s.prototype.extents, budget));
            made.outputs.push_back(std::move(output));
        }
        made.inputs.resize(each.inputs.size());
        GRAFT_TRY_ASSIGN(made.at, each.places[0].on->make_context(plan_->each, 0, nullptr));
        own_.push_back(std::move(made));
        return {};
    }

    void run_some(std::int64_t first, std::int64_t count, int at_once) {
        executor& all = around_->pool;
        const int each = all.threads() / at_once;
        if (at_once == 1) {
            for (std::int64_t i = 0; i < count; ++i) run_sample(0, first + i, all);
        } else if (each == 1) {
            free_.clear();
            for (int k = 0; k < at_once; ++k) free_.push_back(k);
            parallel_for(all, count, [&](std::int64_t i) {
                const int mine = take_free();
                executor serial;
                run_sample(mine, first + i, serial);
                give_back(mine);
            });
        } else {
            parallel_for(all, at_once, [&](std::int64_t k) {
                std::unique_ptr<executor>& team = (*workers_)[static_cast<std::size_t>(k)]->team;
                if (!team || team->threads() != each) team = all.within(each);
                for (std::int64_t i = k; i < count; i += at_once) run_sample(static_cast<int>(k), first + i, *team);
            });
        }
    }
    int take_free() {
        const std::lock_guard<std::mutex> guard(lock_);
        const int worker = free_.back();
        free_.pop_back();
        return worker;
    }
    void give_back(int worker) {
        const std::lock_guard<std::mutex> guard(lock_);
        free_.push_back(worker);
    }

    void run_sample(int worker, std::int64_t sample, executor& pool) {
        const auto at = static_cast<std::size_t>(worker);
        status done = or_out_of_memory<status>(plan_->lowered.name.c_str(), [&] { return run_steps(*(*workers_)[at], own_[at], sample, pool); });
        if (done.ok()) return;
        const std::lock_guard<std::mutex> guard(lock_);
        if (failed_.ok()) failed_ = std::move(done);
    }
    status run_steps(sample_worker& by, own_state& own, std::int64_t sample, executor& pool) const {
        const plan& each = *plan_->each;
        std::copy_n(around_->inputs, own.inputs.size(), own.inputs.begin());
        tensor_view& in = own.inputs[plan_->batch_input];
        in.extents[0] = 1;
        in.data = static_cast<std::byte*>(in.data) + sample * bytes_of(in.type, in.extents);
        const run_environment around{each,    by.arena.data(), own.inputs.data(), own.outputs, pool,           around_->limit,
                                     nullptr, &by.scratch,     around_->budget,   nullptr,     around_->trace, around_->traced_as};
        for (std::size_t k = 0; k < each.segments.size(); ++k) GRAFT_TRY(own.at->start(static_cast<int>(k), around));
        for (std::size_t i = 0; i < own.outputs.size(); ++i) {
            const std::size_t bytes = own.outputs[i].bytes();
            if (bytes) std::memcpy(static_cast<std::byte*>(rows_[i].data) + static_cast<std::size_t>(sample) * bytes, around.address(each.outputs[i]), bytes);
        }
        return {};
    }

    const plan* plan_ = nullptr;  // of the whole batch, which whoever holds this keeps
    std::vector<tensor> between_;
    std::vector<tensor_view> rows_;
    std::vector<own_state> own_;  // by worker
    bool teams_ = false;
    // Of the run at work.
    const run_environment* around_ = nullptr;
    const sample_workers* workers_ = nullptr;
    std::vector<int> free_;
    std::mutex lock_;  // of free_ and failed_
    status failed_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
