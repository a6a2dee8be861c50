// Dynamic batching: what clients send one by one runs together, as far as it fits.
#pragma once

#include "metrics.hpp"

#include <graft/core/executor.hpp>
#include <graft/exec/session.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace program {

/// The threads of a worker on the CPU: all of the process's while there is one request, its own alone while there are more, since requests that are computed
/// beside each other wait for nobody.
class worker_threads final : public graft::executor {
public:
    /// `requests`: how many are being answered; it must outlive this.
    worker_threads(int threads, const std::atomic<std::int64_t>& requests) : pool_(threads), requests_(requests) {}
    int threads() const noexcept override { return pool_.threads(); }
    void run(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) override {
        if (requests_ > 1) return executor::run(tasks, body, context);
        pool_.run(tasks, body, context);
    }

private:
    graft::pool_executor pool_;
    const std::atomic<std::int64_t>& requests_;
};

/// A network that batches can be run on: a session for each of the queue's workers.
struct batch_target {
    std::vector<graft::session> sessions;
    std::atomic<bool> merges{
        false};               ///< batches of several clients may be put behind each other: one input, whose first extent is open, and so is that of all outputs
    std::size_t input = 0;    ///< the one input, where it merges
    std::size_t outputs = 0;  ///< how many there are
    std::int64_t most = 1;    ///< samples that run together at most
};

/// What came of a request: the outputs, by their places.
using batch_answer = std::vector<graft::tensor>;

/// Tensors that differ at most in their first extent, behind each other along it. Errors: those of tensor::make.
graft::result<graft::tensor> joined(const std::vector<const graft::tensor*>& parts);

/// Runs what it is given on some workers, one for each device: each takes what waits longest, and what fits behind it.
class batch_queue {
public:
    /// A batch waits `wait_ms` for requests that are being read; nobody waits where there are none. `requests`, which must outlive this, counts those that
    /// are being answered.
    batch_queue(double wait_ms, std::size_t workers, server_metrics& metrics, std::atomic<std::int64_t>& requests);
    ~batch_queue();
    batch_queue(const batch_queue&) = delete;
    batch_queue& operator=(const batch_queue&) = delete;

    /// Says that a sample will be given soon, until it is or this ends: a batch may wait for it.
    class coming {
    public:
        explicit coming(batch_queue& queue) : queue_(queue) { queue_.expect(1); }
        ~coming() {
            if (open_) queue_.expect(-1);
        }
        coming(const coming&) = delete;
        coming& operator=(const coming&) = delete;

    private:
        friend class batch_queue;
        batch_queue& queue_;
        bool open_ = true;
    };

    /// Has the inputs run, by their places. `samples`: how many there are along the first extent of the one input; 0: they run alone. The answer's errors:
    /// those of a session's run. `announced`: what said that they come, if anything did.
    std::future<graft::result<batch_answer>> give(std::shared_ptr<batch_target> on, std::vector<graft::tensor> inputs, std::int64_t samples,
                                                  coming* announced = nullptr);
    std::size_t waiting() const;

private:
    struct job {
        std::shared_ptr<batch_target> on;
        std::vector<graft::tensor> inputs;
        std::int64_t samples = 0;
        std::promise<graft::result<batch_answer>> answer;
        bool ended = false;
        void end(graft::result<batch_answer> with, std::atomic<std::int64_t>& requests) {
            ended = true;
            --requests;
            answer.set_value(std::move(with));
        }
    };
    void expect(std::int64_t samples);
    void work(std::size_t worker);
    std::vector<job> next_batch(std::unique_lock<std::mutex>& hold);
    void take_fitting(std::vector<job>& batch, std::int64_t& samples);
    void run_batch(std::vector<job>& batch, std::size_t worker);
    static graft::status run_session(graft::session& session, const batch_target& on, std::vector<job>& batch, std::vector<graft::tensor>& outputs);

    double wait_ms_;
    server_metrics& metrics_;
    std::atomic<std::int64_t>& requests_;
    mutable std::mutex lock_;
    std::condition_variable some_;
    std::deque<job> waiting_;
    std::int64_t expected_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace program
