// Bodies of dist/replicas.hpp.
#pragma once

#include "../core/clock.hpp"
#include "../core/executor.hpp"
#include "../core/start_thread.hpp"
#include "../core/thread_pool.hpp"
#include "../train/batch_parts.hpp"
#include "replicas.hpp"

#include <atomic>
#include <cstring>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Threads that each do the same piece of work, the caller being the first.
class replica_threads {
public:
    explicit replica_threads(int count) : count_(count) {}
    ~replica_threads() {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            closing_ = true;
        }
        changed_.notify_all();
        for (std::thread& t : threads_) t.join();
    }
    // Calls work(context, i) for all i at once, and returns when they have ended. Errors: memory.oom where the system gives no thread.
    status run(void (*work)(void*, int), void* context) {
        while (static_cast<int>(threads_.size()) < count_ - 1) {
            const int number = static_cast<int>(threads_.size()) + 1;
            std::thread made;
            if (!start_thread(made, [this, number] { serve(number); })) return fail(errc::memory_oom, "replicas", "the system gives no more threads");
            threads_.push_back(std::move(made));
        }
        {
            const std::lock_guard<std::mutex> guard(lock_);
            work_ = work, context_ = context;
            left_ = count_ - 1;
            ++round_;
        }
        changed_.notify_all();
        work(context, 0);
        for (int spins = 0; spins < 4000 && left_.load(std::memory_order_acquire) > 0; ++spins) relax();
        std::unique_lock<std::mutex> guard(lock_);
        ended_.wait(guard, [&] { return left_ == 0; });
        return {};
    }

private:
    // Steps follow each other closely: a short spin spares waking.
    void serve(int number) {
        std::uint64_t seen = 0;
        for (;;) {
            for (int spins = 0; spins < 4000 && round_.load(std::memory_order_acquire) == seen && !closing_.load(); ++spins) relax();
            std::unique_lock<std::mutex> guard(lock_);
            changed_.wait(guard, [&] { return closing_ || round_ != seen; });
            if (closing_) return;
            seen = round_;
            guard.unlock();
            work_(context_, number);
            guard.lock();
            if (--left_ == 0) ended_.notify_all();
        }
    }

    int count_;
    std::vector<std::thread> threads_;
    std::mutex lock_;
    std::condition_variable changed_, ended_;
    void (*work_)(void*, int) = nullptr;
    void* context_ = nullptr;
    std::atomic<std::uint64_t> round_{0};
    std::atomic<int> left_{0};
    std::atomic<bool> closing_{false};
};

class replicated_step final : public step_engine {
public:
    replicated_step(const replica_options& how, int shards) : how_(how), shards_(shards), threads_(how.replicas) {}

    status make(const graph& network, value_id logits, const std::vector<parameter>& parameters, step_options options) {
        groups_ = make_thread_group(how_.replicas, how_.timeout_seconds);
        options.replicas = nullptr;
        steps_.resize(groups_.size());
        runs_.clear();
        runs_.resize(groups_.size());
        // At once: their devices find each other.
        const auto one = [&](int r) -> status {
            step_options own = options;
            own.group = groups_[static_cast<std::size_t>(r)];
            if (!how_.devices.empty()) own.on = how_.devices[static_cast<std::size_t>(r) % how_.devices.size()];
            const bool on_host = !own.on || own.on->in_host_memory();
            own.overlap = options.overlap && (how_.overlap || !on_host);
            GRAFT_TRY_ASSIGN(steps_[static_cast<std::size_t>(r)], training_step::make(network, logits, parameters, own));
            return {};
        };
        struct call {
            replicated_step* self;
            const decltype(one)& make;
        } all{this, one};
        GRAFT_TRY(threads_.run(
            [](void* context, int r) {
                call& c = *static_cast<call*>(context);
                c.self->ended(r, or_out_of_memory<status>("a step", [&] { return c.make(r); }));
            },
            &all));
        GRAFT_TRY(first_error());
        central_ = options.central_variables;
        if (central_) share_variables(parameters, optimizer_states(options.optimizer));
        return {};
    }

    // Memory of all replicas. The first has the smallest part or the largest one; both are asked.
    inline result<step_memory> prepare(const shape& batch, executor& pool) override {
        step_memory all;
        for (int r = 0; r < how_.replicas; ++r) {
            shape part = batch;
            const member_shards own = share(r);
            if (part.rank()) part[0] = own.end(batch[0], shards_) - own.begin(batch[0], shards_);
            step_memory m;
            GRAFT_TRY_ASSIGN(m, steps_[static_cast<std::size_t>(r)].prepare(part, pool));
            work_[static_cast<std::size_t>(r)].bytes = m.total() + m.device;
            if (r == 0 || !central_) all.state += m.state;
            all.activations += m.activations, all.constants += m.constants, all.device += m.device;
        }
        return all;
    }

    inline status run(const step_input& in, executor& pool) override {
        if (!in.inputs || !in.targets) return fail(errc::input_name, "batch", "a step takes inputs and targets");
        if (in.inputs->shape().rank() < 1 || in.inputs->shape()[0] < 1)
            return fail(errc::input_shape, "batch", "a batch holds at least one sample; this has the shape " + text(in.inputs->shape()));
        if (in.targets->shape().rank() < 1 || in.targets->shape()[0] != in.inputs->shape()[0])
            return fail(errc::input_shape, "targets", "they have the shape " + text(in.targets->shape()) + " and have to have a row for each sample");
        runs_.clear();
        runs_.resize(steps_.size());
        pools_.resize(steps_.size());
        now_ = &in;
        scaling_ = steps_[0].scaling();
        threads_each_ = std::max(1, pool.threads() / how_.replicas);
        const double began = seconds_now();
        GRAFT_TRY(threads_.run([](void* self, int r) { static_cast<replicated_step*>(self)->run_timed(r); }, this));
        const double all = seconds_now() - began;
        for (int r = 0; r < how_.replicas; ++r) {
            replica_work& work = work_[static_cast<std::size_t>(r)];
            const std::int64_t n = in.inputs->shape()[0];
            work.samples += share(r).end(n, shards_) - share(r).begin(n, shards_);
            work.waited_seconds += std::max(0.0, all - busy_[static_cast<std::size_t>(r)]);
        }
        return conclude();
    }
    inline double loss() const noexcept override { return steps_[0].loss(); }
    inline loss_scale& scaling() noexcept override { return steps_[0].scaling(); }
    inline const tensor& logits() const noexcept override { return logits_; }
    inline status read_state() override { return steps_[0].read_state(); }
    inline std::vector<training_state>& state() noexcept override { return steps_[0].state(); }
    inline void state_changed() noexcept override {
        const std::vector<training_state>& from = steps_[0].state();
        for (std::size_t r = 1; r < steps_.size(); ++r)
            for (std::size_t s = 0; s < from.size(); ++s)
                if (from[s].value.bytes() && steps_[r].state()[s].value.raw() != from[s].value.raw())
                    std::memcpy(steps_[r].state()[s].value.raw(), from[s].value.raw(), from[s].value.bytes());
        for (training_step& step : steps_) step.state_changed();
    }
    inline result<graph> network(bool averaged) const override { return steps_[0].network(averaged); }
    inline std::vector<replica_work> replicas() const override {
        std::vector<replica_work> all = work_;
        for (std::size_t r = 0; r < all.size(); ++r)
            if (!how_.devices.empty() && how_.devices[r % how_.devices.size()]) all[r].device = how_.devices[r % how_.devices.size()]->name();
        return all;
    }

private:
    member_shards share(int r) const { return member_shards::of(r, how_.replicas, shards_); }

    // Central variables are there once: weights, and what the optimiser keeps for them. Running statistics are each replica's own.
    void share_variables(const std::vector<parameter>& parameters, const std::vector<std::string>& kept) {
        std::set<std::string> names;
        for (const parameter& p : parameters) {
            if (!p.learns) continue;
            names.insert(p.name);
            for (const std::string& ending : kept) names.insert(p.name + "." + ending);
        }
        const std::vector<training_state>& first = steps_[0].state();
        for (std::size_t s = 0; s < first.size(); ++s)
            for (std::size_t r = 1; r < steps_.size() && names.count(first[s].name); ++r) steps_[r].state()[s].value = first[s].value;
    }

    void run_timed(int r) {
        const communicator& group = *groups_[static_cast<std::size_t>(r)];
        const double began = seconds_now(), waited = group.all_waited_seconds();
        run_one(r);
        busy_[static_cast<std::size_t>(r)] = seconds_now() - began - (group.all_waited_seconds() - waited);
    }
    void run_one(int r) {
        ended(r, or_out_of_memory<status>("a step", [&] { return run_part(r); }));
    }
    void ended(int r, status done) {
        if (!done.ok()) groups_[static_cast<std::size_t>(r)]->leave(done.error());
        runs_[static_cast<std::size_t>(r)] = std::move(done);
    }
    status run_part(int r) {
        const std::int64_t n = now_->inputs->shape()[0], first = share(r).begin(n, shards_), last = share(r).end(n, shards_);
        const tensor inputs = samples_of(*now_->inputs, first, last), targets = samples_of(*now_->targets, first, last);
        const tensor teacher = now_->teacher ? samples_of(*now_->teacher, first, last) : tensor();
        step_input part = *now_;
        part.inputs = &inputs, part.targets = &targets;
        if (now_->teacher) part.teacher = &teacher;
        part.next = nullptr;
        part.first = now_->first + first, part.samples = n;
        training_step& step = steps_[static_cast<std::size_t>(r)];
        if (r) step.scaling() = scaling_;
        if (threads_each_ > 1) {
            // Not those of the process, which serve one loop at a time.
            std::unique_ptr<dedicated_executor>& pool = pools_[static_cast<std::size_t>(r)];
            if (!pool || pool->threads() != threads_each_) pool = std::make_unique<dedicated_executor>(threads_each_);
            return step.run(part, *pool);
        }
        executor alone;
        return step.run(part, alone);
    }
    // The first error that is not another's. Behind one all begin anew.
    status first_error() {
        status* told = nullptr;
        for (status& s : runs_)
            if (!s.ok() && (!told || told->error().code() == errc::dist_peer_lost)) told = &s;
        if (!told) return {};
        static_cast<thread_member&>(*groups_[0]).mend();
        for (const std::shared_ptr<communicator>& member : groups_) member->of_device.reset();
        return std::move(*told);
    }
    // The logits of all.
    status conclude() {
        GRAFT_TRY(first_error());
        const std::int64_t n = now_->inputs->shape()[0], classes = now_->targets->shape().elements() / n;
        logits_ = tensor();
        GRAFT_TRY_ASSIGN(logits_, tensor::make(dtype::float32, {n, classes}));
        for (int r = 0; r < how_.replicas; ++r) {
            const tensor& rows = steps_[static_cast<std::size_t>(r)].logits();
            if (rows.bytes()) std::memcpy(logits_.data<float>() + share(r).begin(n, shards_) * classes, rows.raw(), rows.bytes());
        }
        return {};
    }

    replica_options how_;
    int shards_;
    bool central_ = false;
    std::vector<replica_work> work_ = std::vector<replica_work>(static_cast<std::size_t>(how_.replicas));
    std::vector<std::shared_ptr<communicator>> groups_;
    std::vector<training_step> steps_;
    std::vector<std::unique_ptr<dedicated_executor>> pools_;  // of each replica that has several threads
    replica_threads threads_;
    // Of the step at work.
    const step_input* now_ = nullptr;
    int threads_each_ = 1;
    std::vector<double> busy_ = std::vector<double>(static_cast<std::size_t>(how_.replicas));  // seconds of each replica's own work
    std::vector<status> runs_;
    loss_scale scaling_;
    tensor logits_;
};

class replica_factory final : public step_factory {
public:
    explicit replica_factory(const replica_options& how) : how_(how) {}
    inline int members() const noexcept override { return how_.replicas; }
    inline result<std::unique_ptr<step_engine>> make(graph network, value_id logits, std::vector<parameter> parameters, const step_options& options) override {
        if (how_.replicas < 1 || how_.replicas > options.shards)
            return fail(errc::usage, "replicas",
                        std::to_string(how_.replicas) + " replicas cannot share " + std::to_string(options.shards) +
                            " shards: --shards has to be as many at least");
        auto made = std::make_unique<replicated_step>(how_, options.shards);
        GRAFT_TRY(made->make(network, logits, parameters, options));
        return std::unique_ptr<step_engine>(std::move(made));
    }

private:
    replica_options how_;
};

}  // namespace detail

GRAFT_INLINE std::shared_ptr<step_factory> make_replicas(const replica_options& options) { return std::make_shared<detail::replica_factory>(options); }

GRAFT_END_NAMESPACE
