// Inference on many devices: a session on each, batches spread over them, answers in the order of the batches.
#pragma once

#include "session.hpp"

#include <memory>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// How a session_pool runs.
struct session_pool_options {
    int threads = 0;   ///< of all sessions together, of which each has its share, one at least; 0: default_threads()
    int waiting = -1;  ///< batches that may be held beside those that run; -1: two, and one more for each device, which brings it over while it computes
};

/// What was made of one batch.
struct pool_answer {
    std::vector<tensor> outputs;  ///< by their places, as session::output gives them
    int replica = 0;              ///< which of the models ran it
    double seconds = 0;           ///< that the run took
};

/// Runs batches on several models at once: copies of one on the CPU, or the same network loaded onto each of several devices. Batches go to whoever is
/// free, and answers come in the order of the batches, with the bits of one session where all run on the CPU. Each model has a thread and a session of its
/// own; a single one runs on the caller's thread. One thread at a time may use it.
///
///     for (;;) {
///         while (more() && !pool.full()) must(pool.submit({batch()}));
///         if (pool.empty()) break;
///         use(pool.take());
///     }
class session_pool {
public:
    session_pool() noexcept;
    /// Models are copied, which is cheap. Errors: usage (there are none, or they differ in their inputs or outputs), memory.oom (the system gives no threads).
    static result<session_pool> make(const std::vector<model>& replicas, const session_pool_options& options = {});
    ~session_pool();  ///< waits for the runs at work
    session_pool(session_pool&&) noexcept;
    session_pool& operator=(session_pool&&) noexcept;

    int replicas() const noexcept;
    /// Whether as many batches are held as may be: take an answer first.
    bool full() const noexcept;
    /// Whether there is no batch whose answer has not been taken.
    bool empty() const noexcept;
    /// Gives a batch: the inputs by their places, as session::set_input takes them; empty tensors, and those that are left out at the end, stand for
    /// defaults. Tensors are held, not copied, until the answer is taken. Errors: usage (it is full). What is wrong with the batch is told by `take`.
    status submit(std::vector<tensor> inputs);
    /// The answer to the oldest batch, waited for. Errors: usage (there is none), and those of session::run: then the sessions stop, and every call
    /// behind it ends with the same error.
    result<pool_answer> take();

private:
    struct state;
    std::unique_ptr<state> state_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/clock.hpp"
#include "../core/ordered_jobs.hpp"

#include <algorithm>
#include <cstring>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A batch, and then its answer.
struct pool_job {
    std::vector<tensor> inputs;
    pool_answer answer;
};

// One of the sessions. Threads beside the one that runs it are its own: the process's pool serves one loop at a time.
class pool_worker {
public:
    pool_worker(const model& m, int number, int threads, bool shares_pool)
        : own_(threads), session_(m, {threads, shares_pool ? nullptr : static_cast<executor*>(&own_)}), number_(number), inputs_(m.inputs()),
          outputs_(m.outputs().size()), ahead_(std::strcmp(m.device(), "cpu") != 0) {}

    bool looks_ahead() const noexcept { return ahead_; }
    status work(pool_job& job, const pool_job* coming) {
        return or_out_of_memory<status>("session_pool", [&] { return run(job, coming); });
    }

private:
    status run(pool_job& job, const pool_job* coming) {
        const double begun = seconds_now();
        if (job.inputs.size() > inputs_.size())
            return fail(errc::input_name, "session_pool",
                        "a batch has " + std::to_string(job.inputs.size()) + " tensors, and the model " + std::to_string(inputs_.size()) + " inputs");
        for (std::size_t i = 0; i < inputs_.size(); ++i) GRAFT_TRY(session_.set_input(i, i < job.inputs.size() ? job.inputs[i] : tensor()));
        // A device brings over one input, the first that it has to be given.
        std::size_t first = 0;
        while (first < inputs_.size() && inputs_[first].has_default) ++first;
        const tensor* next = coming && first < std::min(coming->inputs.size(), job.inputs.size()) ? &coming->inputs[first] : nullptr;
        const bool alike = next && next->shape() == job.inputs[first].shape() && next->type() == job.inputs[first].type();
        GRAFT_TRY(session_.run_inputs(first, alike ? next->raw() : nullptr));
        for (std::size_t i = 0; i < outputs_; ++i) job.answer.outputs.push_back(session_.output(i));
        for (std::size_t i = 0; i < inputs_.size(); ++i) GRAFT_TRY(session_.set_input(i, tensor()));  // whose memory may be used again
        job.answer.replica = number_;
        job.answer.seconds = seconds_now() - begun;
        return {};
    }

    dedicated_executor own_;
    session session_;
    int number_;
    std::vector<value_info> inputs_;
    std::size_t outputs_;
    bool ahead_;
};

}  // namespace detail

struct session_pool::state {
    state(std::vector<std::unique_ptr<detail::pool_worker>> workers, int waiting) : jobs(std::move(workers), waiting) {}
    detail::ordered_jobs<detail::pool_job, detail::pool_worker> jobs;
};

GRAFT_INLINE session_pool::session_pool() noexcept = default;
GRAFT_INLINE session_pool::~session_pool() = default;
GRAFT_INLINE session_pool::session_pool(session_pool&&) noexcept = default;
GRAFT_INLINE session_pool& session_pool::operator=(session_pool&&) noexcept = default;

GRAFT_INLINE result<session_pool> session_pool::make(const std::vector<model>& replicas, const session_pool_options& options) GRAFT_MEMORY_TRY {
    if (replicas.empty()) return fail(errc::usage, "session_pool", "it needs a model at least");
    const int count = static_cast<int>(replicas.size()), threads = options.threads > 0 ? options.threads : default_threads();
    std::vector<std::unique_ptr<detail::pool_worker>> workers;
    int devices = 0;
    for (int i = 0; i < count; ++i) {
        const model& m = replicas[static_cast<std::size_t>(i)];
        if (m.inputs().size() != replicas[0].inputs().size() || m.outputs().size() != replicas[0].outputs().size())
            return fail(errc::usage, "session_pool", "replica " + std::to_string(i) + " is another network than the first");
        workers.push_back(std::make_unique<detail::pool_worker>(m, i, detail::share_of_threads(threads, count, i), count == 1));
        devices += workers.back()->looks_ahead();
    }
    session_pool made;
    made.state_ = std::make_unique<state>(std::move(workers), options.waiting >= 0 ? options.waiting : devices + (count > 1 ? 2 : 0));
    GRAFT_TRY(made.state_->jobs.start());
    return made;
}
GRAFT_MEMORY_CATCH("session_pool")

GRAFT_INLINE int session_pool::replicas() const noexcept { return state_ ? static_cast<int>(state_->jobs.workers()) : 0; }
GRAFT_INLINE bool session_pool::full() const noexcept { return !state_ || state_->jobs.full(); }
GRAFT_INLINE bool session_pool::empty() const noexcept { return !state_ || state_->jobs.empty(); }
GRAFT_INLINE status session_pool::submit(std::vector<tensor> inputs) GRAFT_MEMORY_TRY {
    if (full()) return fail(errc::usage, "session_pool", state_ ? "it holds as many batches as it may: take an answer first" : "it has no models");
    state_->jobs.give({std::move(inputs), {}});
    return {};
}
GRAFT_MEMORY_CATCH("session_pool")
GRAFT_INLINE result<pool_answer> session_pool::take() GRAFT_MEMORY_TRY {
    if (!state_) return fail(errc::usage, "session_pool", "it has no models");
    detail::pool_job job;
    GRAFT_TRY(state_->jobs.take(job));
    return std::move(job.answer);
}
GRAFT_MEMORY_CATCH("session_pool")

GRAFT_END_NAMESPACE
#endif
