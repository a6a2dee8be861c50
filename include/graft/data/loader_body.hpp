// The threads behind a loader and the ring of batches between them and the caller.
#pragma once

#include "../core/executor.hpp"
#include "../core/number_text.hpp"
#include "../core/start_thread.hpp"
#include "loader.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Threads take samples in order, batch after batch, as far as `ahead` batches before the caller; each writes its sample
// to its place. Whoever finishes the last sample of a batch closes it. So a batch never depends on who made what.
class loader_queue {
public:
    loader_queue(const dataset& data, const loader_options& options, sample_maker&& samples, std::optional<sample_maker>&& teacher)
        : data_(data), options_(options), samples_(std::move(samples)), teacher_(std::move(teacher)),
          workers_(options.workers ? options.workers : default_threads()),
          chunk_(std::max<std::int64_t>(1, std::min<std::int64_t>(32, 16384 / (samples_.height() * samples_.width())))),
          slots_(static_cast<std::size_t>(options.ahead)) {
        const std::int64_t n = data_.size(), size = options_.batch_size;
        batches_ = options_.drop_last ? n / size : n / size + (n % size != 0);
        threads_.reserve(static_cast<std::size_t>(workers_));
        spare_.reserve(static_cast<std::size_t>(options_.ahead) + 1);  // giving back asks for no memory
    }
    ~loader_queue() { stop(); }

    std::int64_t batches() const noexcept { return batches_; }
    const sample_maker& samples() const noexcept { return samples_; }
    double waited() const noexcept { return waited_; }
    double elapsed() const noexcept { return elapsed_; }

    void start(std::int64_t epoch, std::int64_t first) {
        stop();
        epoch_ = epoch;
        order_ = options_.shuffle ? epoch_order(options_.sample.seed, epoch, data_.size()) : std::vector<std::int64_t>();
        next_batch_ = delivered_ = first;
        next_sample_ = 0;
        bad_ = 0;
        first_bad_.clear();
        for (slot& s : slots_) s = {};
        waited_ = elapsed_ = 0;
        began_ = std::chrono::steady_clock::now();
        stopping_ = false;
        running_ = true;
        // With fewer threads than were asked for it takes longer; with none, `next` makes the batches itself.
        std::thread made;
        while (static_cast<int>(threads_.size()) < workers_ && first < batches_ && start_thread(made, [this] { work(); })) threads_.push_back(std::move(made));
    }

    void stop() {
        {
            std::lock_guard<std::mutex> lock(lock_);
            stopping_ = true;
        }
        work_.notify_all();
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
        running_ = false;
        for (slot& s : slots_) give_back(s.made.inputs);
    }

    status next(batch& out) {
        const auto asked = std::chrono::steady_clock::now();
        std::unique_lock<std::mutex> lock(lock_);
        if (!running_) return fail(errc::usage, "loader", "no epoch was started");
        if (delivered_ >= batches_) return fail(errc::usage, "loader", "the epoch has no more batches");
        give_back(out.inputs);
        slot& s = slots_[static_cast<std::size_t>(delivered_ % options_.ahead)];
        const auto ready = [&] { return s.finished && s.made.number == delivered_; };
        while (threads_.empty() && !ready()) make_some(lock);
        ready_.wait(lock, ready);
        s.finished = false;
        status failed = std::move(s.failed);
        s.failed = {};
        std::swap(out, s.made);
        s.made = {};
        ++delivered_;
        lock.unlock();
        work_.notify_all();
        const auto now = std::chrono::steady_clock::now();
        waited_ += std::chrono::duration<double>(now - asked).count();
        elapsed_ = std::chrono::duration<double>(now - began_).count();
        GRAFT_TRY(std::move(failed));
        return judge(out);
    }

    status whole(batch& out) {
        const std::int64_t own_bad = static_cast<std::int64_t>(out.bad.size());
        slot s;
        s.first = out.number * options_.batch_size;
        s.count = std::min(options_.batch_size, data_.size() - s.first);
        s.end = s.count;
        {
            std::lock_guard<std::mutex> lock(lock_);  // of the spare memory
            give_back(out.inputs);
            GRAFT_TRY(open_at(s, out.number));
        }
        pool_executor pool(workers_);
        parallel_for(pool, s.count,
                     [&](std::int64_t i) { s.outcome[static_cast<std::size_t>(i)] = or_out_of_memory<status>("loader", [&] { return write(s, i); }); });
        GRAFT_TRY(close(s));
        out = std::move(s.made);
        bad_ -= own_bad;
        return judge(out);
    }

private:
    struct slot {
        batch made;  // `inputs` is as long as a full batch until it is closed
        std::vector<status> outcome;
        std::int64_t first = 0, count = 0, left = 0;
        std::int64_t begin = 0, end = 0;  // of the samples that are made
        status failed;
        bool finished = false;
    };

    // Memory that nobody else holds any more serves the next batch.
    void give_back(tensor& inputs) {
        const buffer memory = inputs.storage();
        inputs = {};
        if (memory.data() && memory.unique() && static_cast<int>(spare_.size()) <= options_.ahead) spare_.push_back(memory);
    }

    result<buffer> batch_memory(std::int64_t count) {
        const auto bytes = static_cast<std::size_t>(samples_.sample_bytes() * count);
        while (!spare_.empty()) {
            buffer memory = std::move(spare_.back());
            spare_.pop_back();
            if (memory.bytes() >= bytes) return memory;
        }
        return buffer::allocate(static_cast<std::size_t>(samples_.sample_bytes() * options_.batch_size));
    }

    // Called under the lock, when the first sample of a batch is taken.
    status open(slot& s) {
        s.first = next_batch_ * options_.batch_size;
        s.count = std::min(options_.batch_size, data_.size() - s.first);
        s.left = s.count;
        own_part(s);
        return open_at(s, next_batch_);
    }
    // The samples of this member; all, where each may be mixed with another's.
    void own_part(slot& s) const {
        s.begin = 0, s.end = s.count;
        if (options_.members <= 1 || options_.sample.augment.mixup > 0 || options_.sample.augment.cutmix > 0) return;
        const member_shards share = member_shards::of(options_.member, options_.members, options_.shards);
        s.begin = share.begin(s.count, options_.shards), s.end = share.end(s.count, options_.shards);
    }
    status open_at(slot& s, std::int64_t number) {
        s.made = {};
        s.made.number = number;
        s.outcome.clear();
        s.outcome.resize(static_cast<std::size_t>(s.count));
        buffer memory;
        GRAFT_TRY_ASSIGN(memory, batch_memory(s.count));
        s.made.inputs = tensor(samples_.type(), samples_.batch_shape(s.count), std::move(memory));
        if (teacher_) GRAFT_TRY_ASSIGN(s.made.teacher_inputs, tensor::make(teacher_->type(), teacher_->batch_shape(s.count)));
        return {};
    }

    // The numbers that a sample is changed by depend on its place alone, so that both makers draw the same ones.
    status write(slot& s, std::int64_t i) const {
        if (i < s.begin || i >= s.end) return {};
        const std::int64_t index = index_at(s.first + i);
        GRAFT_TRY(samples_.write(index, epoch_, s.made.inputs.raw() + i * samples_.sample_bytes()));
        return teacher_ ? teacher_->write(index, epoch_, s.made.teacher_inputs.raw() + i * teacher_->sample_bytes()) : status();
    }

    std::int64_t index_at(std::int64_t place) const noexcept { return order_.empty() ? place : order_[static_cast<std::size_t>(place)]; }

    bool has_work() const noexcept { return next_batch_ < batches_ && next_batch_ - delivered_ < options_.ahead; }

    void work() {
        std::unique_lock<std::mutex> lock(lock_);
        for (;;) {
            work_.wait(lock, [this] { return stopping_ || has_work(); });
            if (stopping_) return;
            make_some(lock);
        }
    }

    // Takes the next samples, and makes them without the lock. A batch that there is no memory for is finished with that error.
    void make_some(std::unique_lock<std::mutex>& lock) {
        slot& s = slots_[static_cast<std::size_t>(next_batch_ % options_.ahead)];
        if (next_sample_ == 0) {
            s.failed = or_out_of_memory<status>("loader", [&] { return open(s); });
            if (!s.failed.ok()) {
                ++next_batch_;
                finish(s);
                return;
            }
        }
        const std::int64_t begin = next_sample_, end = std::min(begin + chunk_, s.count);
        next_sample_ = end;
        if (end == s.count) {
            ++next_batch_;
            next_sample_ = 0;
        }
        lock.unlock();
        for (std::int64_t i = begin; i < end; ++i) s.outcome[static_cast<std::size_t>(i)] = or_out_of_memory<status>("loader", [&] { return write(s, i); });
        lock.lock();
        if (s.left -= end - begin) return;
        lock.unlock();
        status closed = or_out_of_memory<status>("loader", [&] { return close(s); });
        lock.lock();
        s.failed = std::move(closed);
        finish(s);
    }
    void finish(slot& s) {
        s.finished = true;
        ready_.notify_all();
    }

    // Bad samples go, the others move up in their order; then labels, and the mixing.
    status close(slot& s) {
        const auto move_up = [](tensor& rows, std::int64_t bytes, std::int64_t to, std::int64_t from) {
            if (rows) std::memcpy(rows.raw() + to * bytes, rows.raw() + from * bytes, static_cast<std::size_t>(bytes));
        };
        status failed;
        std::int64_t kept = 0;
        for (std::int64_t i = 0; i < s.count; ++i) {
            const std::int64_t index = index_at(s.first + i);
            status& outcome = s.outcome[static_cast<std::size_t>(i)];
            if (outcome.ok()) {
                if (kept != i) {
                    move_up(s.made.inputs, samples_.sample_bytes(), kept, i);
                    if (teacher_) move_up(s.made.teacher_inputs, teacher_->sample_bytes(), kept, i);
                }
                s.made.labels.push_back(data_.label(index));
                s.made.indices.push_back(index);
                ++kept;
                continue;
            }
            // What says nothing about the sample is not counted against it.
            const errc code = outcome.error().code();
            if (failed.ok() && (options_.strict || code == errc::memory_oom || code == errc::image_no_decoder || code == errc::internal)) {
                failed = std::move(outcome);
                continue;
            }
            s.made.bad.push_back({index, data_.name(index), code, outcome.error().detail()});
        }
        s.made.inputs = tensor(samples_.type(), samples_.batch_shape(kept), s.made.inputs.storage());
        if (teacher_) s.made.teacher_inputs = tensor(teacher_->type(), teacher_->batch_shape(kept), s.made.teacher_inputs.storage());
        return failed.ok() ? mix_batch(s.made) : std::move(failed);
    }

    mix_plan plan_for(const sample_maker& samples, const batch& made) const {
        random_sequence random(data_stream(options_.sample.seed, random_purpose::batch, epoch_, made.number));
        return draw_mix(options_.sample.augment, samples.height(), samples.width(), random);
    }

    status mix_batch(batch& made) {
        const mix_plan plan = plan_for(samples_, made);
        if (plan.kind == mix_plan::way::none || !made.size()) return {};
        made.other_labels.assign(1, made.labels.back());
        made.other_labels.insert(made.other_labels.end(), made.labels.begin(), made.labels.end() - 1);
        made.lambda.assign(made.labels.size(), static_cast<float>(plan.lambda));
        if (teacher_) GRAFT_TRY(mix(made.teacher_inputs, plan_for(*teacher_, made), teacher_->nchw()));
        return mix(made.inputs, plan, samples_.nchw());
    }

    status judge(const batch& made) {
        constexpr std::size_t most_named = 4;
        for (const bad_sample& b : made.bad)
            if (first_bad_.size() < most_named) first_bad_.push_back(b);
        bad_ += static_cast<std::int64_t>(made.bad.size());
        if (made.bad.empty() || bad_ <= allowed_bad(options_.bad_share, data_.size())) return {};
        return too_many();
    }

    // What was met so far is more than may be. The rest is looked at too, so that the share that is named is one that does.
    GRAFT_COLD status too_many() {
        constexpr std::int64_t most_looked_at = 4096;
        stop();
        const std::int64_t n = data_.size(), first = std::min(n, delivered_ * options_.batch_size), rest = n - first;
        const std::int64_t step = (rest + most_looked_at - 1) / most_looked_at, looked_at = rest ? (rest + step - 1) / step : 0;
        std::vector<std::uint8_t> bad(static_cast<std::size_t>(looked_at));
        pool_executor pool(workers_);
        parallel_for(pool, looked_at, [&](std::int64_t i) {
            const status done = or_out_of_memory<status>("loader", [&] { return samples_.pixels(index_at(first + i * step), epoch_).take_status(); });
            bad[static_cast<std::size_t>(i)] = !done.ok();
        });
        std::int64_t all = bad_;
        for (const std::uint8_t b : bad) all += b * step;
        // Where only some were looked at, there may be more.
        if (step > 1) all += all / 4;
        all = std::min(all, n);
        const bad_sample& one = first_bad_[0];
        std::string what = (step > 1 ? "about " : "") + std::to_string(all) + " of " + std::to_string(n) + " pictures cannot be read, " +
                           std::to_string(allowed_bad(options_.bad_share, n)) + " may. This one: " + text(one.code) + ": " + one.detail;
        for (std::size_t i = 1; i < first_bad_.size(); ++i) what += (i == 1 ? "; others: " : ", ") + escape(first_bad_[i].name);
        // Rounded up, so that the share of so many is that of all of them.
        if (all < n)
            what += detail::number_text(". --bad-share %.4g leaves them out", std::ceil(1000 * static_cast<double>(all) / static_cast<double>(n)) / 1000);
        return fail(errc::data_too_many_bad, one.name, what + "; `graft check` lists them all");
    }

    const dataset data_;
    const loader_options options_;
    const sample_maker samples_;
    const std::optional<sample_maker> teacher_;
    const int workers_;
    const std::int64_t chunk_;  // samples that are taken at a time: small pictures are made faster than locks are
    std::int64_t batches_ = 0;
    std::vector<std::int64_t> order_;
    std::vector<slot> slots_;
    std::vector<buffer> spare_;
    std::vector<bad_sample> first_bad_;  // of this epoch, a few
    std::vector<std::thread> threads_;
    std::mutex lock_;
    std::condition_variable work_, ready_;
    std::int64_t epoch_ = 0, next_batch_ = 0, next_sample_ = 0, delivered_ = 0, bad_ = 0;
    double waited_ = 0, elapsed_ = 0;
    std::chrono::steady_clock::time_point began_;
    bool stopping_ = false, running_ = false;
};

}  // namespace detail

GRAFT_INLINE std::int64_t allowed_bad(double share, std::int64_t samples) noexcept {
    // A share of 0.29 of 100 is 29, whatever binary makes of it.
    const auto allowed = static_cast<std::int64_t>(share * static_cast<double>(samples) + 1e-6);
    return share > 0 && samples >= 3 && allowed < 1 ? 1 : allowed;
}

GRAFT_INLINE result<loader> loader::make(const dataset& data, const loader_options& options) GRAFT_MEMORY_TRY {
    if (options.batch_size < 1 || options.batch_size > (1 << 24))
        return fail(errc::usage, "loader", "a batch size of " + std::to_string(options.batch_size) + " makes no sense");
    if (options.workers < 0 || options.workers > 1024 || options.ahead < 1 || options.ahead > 1024)
        return fail(errc::usage, "loader", "workers must be 0 to 1024, batches ahead 1 to 1024");
    if (!(options.bad_share >= 0 && options.bad_share <= 1)) return fail(errc::usage, "loader", "the share of bad samples must be in [0, 1]");
    const auto make_samples = [&](const sample_options& how) -> result<sample_maker> {
        sample_maker samples;
        GRAFT_TRY_ASSIGN(samples, sample_maker::make(data, how));
        if (bytes_of(samples.type(), samples.batch_shape(options.batch_size)) < 0)
            return fail(errc::tensor_overflow, text(samples.batch_shape(options.batch_size)), "the size of a batch overflows");
        return samples;
    };
    sample_maker samples;
    GRAFT_TRY_ASSIGN(samples, make_samples(options.sample));
    std::optional<sample_maker> teacher;
    if (options.teacher) {
        sample_options how = options.sample;
        how.preprocess = options.teacher->preprocess;
        how.format = options.teacher->format;
        preprocess_spec seen;
        GRAFT_TRY_ASSIGN(seen, complete(how.preprocess, how.format));
        if (seen.type != dtype::float32) how.augment.random_erasing = 0;
        GRAFT_TRY_ASSIGN(teacher, make_samples(how));
    }
    loader made;
    made.queue_ = std::make_shared<detail::loader_queue>(data, options, std::move(samples), std::move(teacher));
    return made;
}
GRAFT_MEMORY_CATCH("loader::make")

GRAFT_INLINE std::int64_t loader::batches() const noexcept { return queue_ ? queue_->batches() : 0; }
GRAFT_INLINE const sample_maker& loader::samples() const noexcept {
    static const sample_maker none;
    return queue_ ? queue_->samples() : none;
}

GRAFT_INLINE status loader::start(std::int64_t epoch, std::int64_t first) GRAFT_MEMORY_TRY {
    if (!queue_ || epoch < 0 || first < 0 || first > queue_->batches())
        return fail(errc::usage, "loader", "epoch " + std::to_string(epoch) + " has no batch " + std::to_string(first));
    queue_->start(epoch, first);
    return {};
}
GRAFT_MEMORY_CATCH("loader::start")

GRAFT_INLINE status loader::next(batch& out) GRAFT_MEMORY_TRY {
    if (!queue_) return fail(errc::usage, "loader", "no dataset was given");
    return queue_->next(out);
}
GRAFT_MEMORY_CATCH("loader::next")

GRAFT_INLINE status loader::whole(batch& out) GRAFT_MEMORY_TRY {
    if (!queue_ || out.number < 0 || out.number >= queue_->batches()) return fail(errc::usage, "loader", "there is no such batch");
    return queue_->whole(out);
}
GRAFT_MEMORY_CATCH("loader::whole")

GRAFT_INLINE void loader::stop() {
    if (queue_) queue_->stop();
}

GRAFT_INLINE double loader::waited_seconds() const noexcept { return queue_ ? queue_->waited() : 0; }
GRAFT_INLINE double loader::elapsed_seconds() const noexcept { return queue_ ? queue_->elapsed() : 0; }

GRAFT_END_NAMESPACE
