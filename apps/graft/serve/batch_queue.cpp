// Batches of what waits: put together, run, and taken apart.
#include "batch_queue.hpp"

#include <graft/core/clock.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace program {
namespace {

using graft::detail::seconds_now;

bool alike(const graft::tensor& a, const graft::tensor& b) {
    if (a.type() != b.type() || a.shape().rank() != b.shape().rank()) return false;
    for (int i = 1; i < a.shape().rank(); ++i)
        if (a.shape()[i] != b.shape()[i]) return false;
    return true;
}

// A copy of some of its samples.
graft::result<graft::tensor> samples_of(const graft::tensor& all, std::int64_t first, std::int64_t count) {
    graft::shape extents = all.shape();
    const std::size_t bytes = extents[0] ? all.bytes() / static_cast<std::size_t>(extents[0]) : 0;
    extents[0] = count;
    graft::tensor some;
    GRAFT_TRY_ASSIGN(some, graft::tensor::make(all.type(), extents));
    if (some.bytes()) std::memcpy(some.raw(), all.raw() + static_cast<std::size_t>(first) * bytes, some.bytes());
    return some;
}

// What one request gets of what its batch gave.
graft::result<batch_answer> own_part(const std::vector<graft::tensor>& outputs, std::int64_t first, std::int64_t count) {
    batch_answer answer;
    for (const graft::tensor& o : outputs) {
        graft::tensor part;
        GRAFT_TRY_ASSIGN(part, samples_of(o, first, count));
        answer.push_back(std::move(part));
    }
    return answer;
}

}  // namespace

graft::result<graft::tensor> joined(const std::vector<const graft::tensor*>& parts) {
    graft::shape extents = parts[0]->shape();
    extents[0] = 0;
    for (const graft::tensor* p : parts) extents[0] += p->shape()[0];
    graft::tensor all;
    GRAFT_TRY_ASSIGN(all, graft::tensor::make(parts[0]->type(), extents));
    std::size_t at = 0;
    for (const graft::tensor* p : parts) {
        if (p->bytes()) std::memcpy(all.raw() + at, p->raw(), p->bytes());
        at += p->bytes();
    }
    return all;
}

batch_queue::batch_queue(double wait_ms, std::size_t workers, server_metrics& metrics, std::atomic<std::int64_t>& requests)
    : wait_ms_(wait_ms), metrics_(metrics), requests_(requests) {
    for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this, i] { work(i); });
}

batch_queue::~batch_queue() {
    {
        const std::lock_guard<std::mutex> hold(lock_);
        ending_ = true;
    }
    some_.notify_all();
    for (std::thread& t : threads_) t.join();
}

std::size_t batch_queue::waiting() const {
    const std::lock_guard<std::mutex> hold(lock_);
    return waiting_.size();
}

void batch_queue::expect(std::int64_t samples) {
    {
        const std::lock_guard<std::mutex> hold(lock_);
        expected_ += samples;
    }
    requests_ += samples;
    if (samples < 0) some_.notify_all();  // a batch that waited for them goes on without
}

std::future<graft::result<batch_answer>> batch_queue::give(std::shared_ptr<batch_target> on, std::vector<graft::tensor> inputs, std::int64_t samples,
                                                           coming* announced) {
    job one;
    one.on = std::move(on), one.inputs = std::move(inputs), one.samples = samples;
    std::future<graft::result<batch_answer>> answer = one.answer.get_future();
    {
        const std::lock_guard<std::mutex> hold(lock_);
        const bool was_announced = announced && std::exchange(announced->open_, false);
        if (was_announced) --expected_;
        if (!was_announced) ++requests_;
        waiting_.push_back(std::move(one));
    }
    some_.notify_all();
    return answer;
}

// Jobs of the same network and shape that wait, wherever they stand: those that do not fit keep their places.
void batch_queue::take_fitting(std::vector<job>& batch, std::int64_t& samples) {
    const std::shared_ptr<batch_target> on = batch[0].on;
    if (!on->merges || batch[0].samples < 1) return;
    const graft::tensor like = batch[0].inputs[on->input];
    for (auto it = waiting_.begin(); it != waiting_.end() && samples < on->most;) {
        const bool fits = it->on == on && it->samples > 0 && samples + it->samples <= on->most && alike(it->inputs[on->input], like);
        if (!fits) {
            ++it;
            continue;
        }
        samples += it->samples;
        batch.push_back(std::move(*it));
        it = waiting_.erase(it);
    }
}

std::vector<batch_queue::job> batch_queue::next_batch(std::unique_lock<std::mutex>& hold) {
    std::vector<job> batch;
    some_.wait(hold, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return batch;
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    std::int64_t samples = std::max<std::int64_t>(batch[0].samples, 1);
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double, std::milli>(wait_ms_));
    take_fitting(batch, samples);
    while (batch[0].on->merges && batch[0].samples > 0 && samples < batch[0].on->most && expected_ > 0 && !ending_ && wait_ms_ > 0) {
        if (some_.wait_until(hold, until) == std::cv_status::timeout) break;
        take_fitting(batch, samples);
    }
    return batch;
}

void batch_queue::work(std::size_t worker) {
    for (;;) {
        std::vector<job> batch;
        {
            std::unique_lock<std::mutex> hold(lock_);
            batch = next_batch(hold);
            if (batch.empty()) return;
        }
        try {
            run_batch(batch, worker);
        } catch (const std::bad_alloc&) {
            for (job& j : batch)
                if (!j.ended) j.end(graft::status::no_memory(), requests_);
        }
    }
}

graft::status batch_queue::run_session(graft::session& session, const batch_target& on, std::vector<job>& batch, std::vector<graft::tensor>& outputs) {
    if (batch.size() == 1) {
        for (std::size_t i = 0; i < batch[0].inputs.size(); ++i) GRAFT_TRY(session.set_input(i, batch[0].inputs[i]));
    } else {
        std::vector<const graft::tensor*> parts;
        for (const job& j : batch) parts.push_back(&j.inputs[on.input]);
        graft::tensor all;
        GRAFT_TRY_ASSIGN(all, joined(parts));
        GRAFT_TRY(session.set_input(on.input, all));
    }
    GRAFT_TRY(session.run());
    for (std::size_t o = 0; o < on.outputs; ++o) outputs.push_back(session.output(o));
    return {};
}

void batch_queue::run_batch(std::vector<job>& batch, std::size_t worker) {
    batch_target& on = *batch[0].on;
    std::int64_t samples = 0;
    for (const job& j : batch) samples += j.samples;
    std::vector<graft::tensor> outputs;
    const double began = seconds_now();
    graft::status done = graft::detail::or_out_of_memory<graft::status>("batch", [&] { return run_session(on.sessions[worker], on, batch, outputs); });
    const double seconds = seconds_now() - began;
    metrics_.count_batch(std::max<std::int64_t>(samples, 1), seconds);
    // That outputs have a row for each sample was a promise of the file; where it is not kept, each request is answered alone.
    const auto apart = [&](const graft::tensor& o) { return o.shape().rank() < 1 || o.shape()[0] != samples; };
    if (batch.size() > 1 && std::any_of(outputs.begin(), outputs.end(), apart)) {
        on.merges = false;
        for (job& j : batch) {
            std::vector<job> alone(1);
            std::swap(alone[0], j);
            j.ended = true;  // what is left of it has nobody who waits
            run_batch(alone, worker);
        }
        return;
    }
    if (batch.size() == 1)
        return batch[0].end(done.ok() ? graft::result<batch_answer>(std::move(outputs)) : graft::result<batch_answer>(done.error()), requests_);
    std::int64_t first = 0;
    for (job& j : batch) {
        j.end(done.ok() ? own_part(outputs, first, j.samples) : graft::result<batch_answer>(done.error()), requests_);
        first += j.samples;
    }
}

}  // namespace program
