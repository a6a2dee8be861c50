// A run of training: the loop over epochs, and what it does in each.
#pragma once

#include "../passes/quantize_network.hpp"
#include "../core/clock.hpp"
#include "../data/batches_ahead.hpp"
#include "../data/splits.hpp"
#include "batch_source.hpp"
#include "batch_parts.hpp"
#include "defaults.hpp"
#include "members.hpp"
#include "shared_features.hpp"
#include "step_trace.hpp"
#include "trainer.hpp"
#include "training_files.hpp"

#include <algorithm>
#include <cmath>
#include <set>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class state_parts;

class training_run {
public:
    training_run(training_network network, const dataset_splits& data, const trainer_options& options, training_observer& observer)
        : network_(std::move(network)), data_(data), o_(settled(options, network_, data.training.size())), observer_(observer), pool_(options.threads),
          members_(options.step.group), trace_(options.trace, members_of(options.step), members_), files_(members_.leads() ? options.out : std::string()) {}

    result<training_result> run() {
        status done = run_all();
        if (done.ok()) return std::move(result_);
        members_.leave(done.error());
        return done;
    }

private:
    status run_all() {
        if (files_.wanted()) GRAFT_TRY(check_out(o_.out, o_.resume, o_.overwrite));
        GRAFT_TRY(prepare());
        GRAFT_TRY(resume());
        began_ = seconds_now();
        last_checkpoint_ = began_;
        while (position_.epoch < o_.epochs && !stopped_ && !result_.stopped) GRAFT_TRY(run_epoch());
        return finish();
    }

    // Everything that a checkpoint has to hold beside the tensors.
    struct place {
        std::int64_t epoch = 0, batch = 0, step = 0;
        double loss_sum = 0, weight_sum = 0;  // of this epoch so far
        std::int64_t correct = 0, seen = 0;
    };

    std::size_t classes() const { return data_.training.classes().size(); }
    load_options loading_model() const { return on_device(o_.step.on, o_.step.operators); }

    loader_options loading(bool training) const {
        loader_options l;
        l.batch_size = o_.batch;
        l.workers = o_.workers ? o_.workers : pool_.threads();
        l.shuffle = training;
        l.bad_share = o_.bad_share;
        l.sample.preprocess = o_.preprocess;
        l.sample.format = format_;
        l.sample.seed = o_.seed;
        l.sample.cache = o_.cache;
        if (training) l.sample.augment = *o_.augmentation;
        if (training && teacher_) l.teacher = teacher_.view();
        if (training) l.member = members_.rank(), l.members = members_.size(), l.shards = o_.step.shards;
        return l;
    }

    status prepare() {
        const graph& g = network_.graph;
        network_text_ = network_fingerprint(g);
        for (value_id id : g.inputs)
            if (!g.at(id).constant && !format_.known) format_ = {g.at(id).type, g.at(id).extents, true};
        GRAFT_TRY_ASSIGN(spec_, complete(o_.preprocess, format_));
        if (data_.training.size() < 1 || data_.validation.size() < 1)
            return fail(errc::data_no_classes, "dataset", "there has to be at least one picture to learn from and one to score by");
        if (o_.batch < 1) return fail(errc::usage, "batch", "a batch holds at least one picture");
        cached_ = network_.features != no_value && !is_random(*o_.augmentation) && !trunk_learns(network_.graph, network_.parameters, network_.features) &&
                  is_fixed_before(g, network_.features);
        if (!o_.teacher.empty()) {
            GRAFT_TRY_ASSIGN(teacher_, teacher_model::load(o_.teacher, data_.training.classes(), o_.threads, loading_model()));
            const preprocess_choice& seen = teacher_.preprocessing();
            if (seen.source == preprocess_source::assumed)
                observer_.on_warning(o_.teacher + ": the teacher does not say how pictures are prepared; " + seen.text + " is assumed");
        }
        if (files_.wanted() || members_.several()) {
            GRAFT_TRY_ASSIGN(training_contents_, contents_fingerprint(data_.training, pool_));
            GRAFT_TRY_ASSIGN(validation_contents_, contents_fingerprint(data_.validation, pool_));
        }
        // Before anything that members who were told different things would do differently.
        named_texts told = settings();
        told.emplace_back("variables", o_.step.central_variables ? "central" : "mirrored");
        told.emplace_back("overlap", o_.step.overlap ? "1" : "0");
        told.emplace_back("trace", o_.trace.empty() ? "0" : "1");
        GRAFT_TRY(members_.agree(told));
        GRAFT_TRY(trace_.begin());
        warn_of_no_overlap();
        GRAFT_TRY(make_step(o_.unfreeze_epoch > 0));
        if (cached_) {
            cut_network cut = cut_at(g, network_.features);
            const auto progress = [](void* c, std::int64_t done, std::int64_t of) { static_cast<training_observer*>(c)->on_validation(done, of); };
            loader_options l = loading(false);
            cached_features features;
            GRAFT_TRY_ASSIGN(features, share_features(members_, cut.trunk, data_.training, l, pool_.threads(), progress, &observer_, loading_model()));
            count_bad(features.bad, bad_training_);
            if (teacher_) GRAFT_TRY_ASSIGN(teacher_answers_, teacher_.answers(data_.training, l, features.bad, progress, &observer_));
            GRAFT_TRY_ASSIGN(validation_features_,
                             share_features(members_, cut.trunk, data_.validation, l, pool_.threads(), progress, &observer_, loading_model()));
            count_bad(validation_features_.bad, bad_validation_);
            shape rows = features.rows.shape();
            rows[0] = std::min(o_.batch, static_cast<std::int64_t>(features.labels.size()));
            source_.reset(new feature_source(std::move(features), o_.batch, o_.seed));
            GRAFT_TRY_ASSIGN(result_.memory, step_.prepare(rows, pool_));
            observer_.on_start(result_.memory, count_learning(network_.parameters));
        } else {
            loader from;
            GRAFT_TRY_ASSIGN(from, loader::make(data_.training, loading(true)));
            source_.reset(new loader_source(std::move(from)));
        }
        plateau_.rate = o_.learning_rate;
        return {};
    }

    std::int64_t count_learning(const std::vector<parameter>& parameters) const {
        std::int64_t learning = 0;
        for (const parameter& p : parameters)
            if (p.learns) learning += network_.graph.at(p.id).constant.elements();
        return learning;
    }

    // The step for what learns now; state goes over from the one before by its names.
    status make_step(bool head_alone) {
        head_alone_ = head_alone;
        std::vector<parameter> parameters = network_.parameters;
        const int cut = network_.features == no_value ? -1 : maker_of(network_.graph, network_.features);
        for (parameter& p : parameters)
            if (p.node <= cut) p.rate *= o_.trunk_rate;
        std::vector<training_state> before;
        if (step_made_) {
            GRAFT_TRY(step_.read_state());
            before = std::move(step_.state());
        }
        step_ = training_step();
        if (head_alone) {
            // What will be needed once all of it learns has to fit from the first step on.
            GRAFT_TRY_ASSIGN(step_, fitting_step(network_.graph, parameters));
            for (parameter& p : parameters)
                if (p.node <= cut) p.learns = false;
        }
        GRAFT_TRY_ASSIGN(step_, fitting_step(cached_ ? cut_at(network_.graph, network_.features).head : network_.graph, parameters));
        step_made_ = true;
        for (training_state& now : step_.state())
            for (const training_state& was : before)
                if (was.name == now.name && was.value.shape() == now.value.shape()) std::memcpy(now.value.raw(), was.value.raw(), now.value.bytes());
        step_.state_changed();
        share_weights();
        return {};
    }

    // The weights that the network came with give their memory back: from here on they are those of the step.
    void share_weights() {
        for (const parameter& p : network_.parameters)
            for (const training_state& now : step_.state())
                if (now.name == p.name) network_.graph.at(p.id).constant = now.value;
    }

    // Within --max-ram: first computing activations again, then the batch in parts.
    result<training_step> fitting_step(const graph& g, const std::vector<parameter>& parameters) {
        step_options s = o_.step;
        s.seed = o_.seed;
        s.trace = trace_.recorder();
        if (cached_) return training_step::make(g, network_.logits, parameters, s);
        s.fixed_batch = network_.fixed_batch;
        if (batch_shape_.rank() == 0) {
            sample_maker samples;
            GRAFT_TRY_ASSIGN(samples, sample_maker::make(data_.training, loading(true).sample));
            batch_shape_ = samples.batch_shape(std::min(o_.batch, data_.training.size()));
        }
        shape own = batch_shape_;
        own[0] = std::max<std::int64_t>(1, members_.end(own[0], s.shards) - members_.begin(own[0], s.shards));
        const int members = members_of(s);
        const std::int64_t most_parts = std::min<std::int64_t>(member_shards::least(members, s.shards), batch_shape_[0] / members);
        for (;;) {
            training_step made;
            step_memory m;
            GRAFT_TRY_ASSIGN(made, training_step::make(g, network_.logits, parameters, s));
            GRAFT_TRY_ASSIGN(m, made.prepare(own, pool_));
            std::int64_t needed = m.total();
            GRAFT_TRY(members_.largest(needed));
            if (o_.max_ram <= 0 || needed <= o_.max_ram) {
                if (result_.memory.total() == 0) {
                    result_.memory = m;
                    observer_.on_start(m, count_learning(parameters));
                }
                return made;
            }
            if (!s.recompute)
                s.recompute = true;
            else if (s.fixed_batch == 0 && s.micro_batches * 2 <= most_parts)
                s.micro_batches *= 2;
            else
                return fail(errc::memory_budget, "--max-ram",
                            "a step needs " + std::to_string(needed) + " bytes at least, and may take " + std::to_string(o_.max_ram) +
                                ": take a smaller --batch, or freeze more");
        }
    }

    // Each is told once, however many epochs meet it.
    void count_bad(const std::vector<bad_sample>& bad, std::set<std::int64_t>& known) {
        for (const bad_sample& b : bad)
            if (known.insert(b.index).second) observer_.on_warning(b.name + ": left out: " + b.detail);
        result_.bad_pictures = static_cast<std::int64_t>(bad_training_.size() + bad_validation_.size());
    }

    std::int64_t steps_per_epoch() const { return source_->batches(); }
    // The learning rate of a step of this epoch.
    double rate_of(std::int64_t step) const {
        return learning_rate(o_.schedule, o_.learning_rate, {step, o_.epochs * steps_per_epoch(), position_.epoch}, &plateau_);
    }

    status run_epoch() {
        GRAFT_TRY(source_->start(position_.epoch, position_.batch));
        const double epoch_began = seconds_now(), waited_before = source_->waited();
        const std::int64_t seen_before = position_.seen;
        run_members::epoch_work work(members_, step_, o_.step.on ? o_.step.on->name() : "cpu", result_.memory.total() + result_.memory.device);
        const auto count_work = [&] {
            trained_seconds_ += seconds_now() - epoch_began;
            trained_pictures_ += position_.seen - seen_before;
            waited_seconds_ += source_->waited() - waited_before;
        };
        double rate = position_.batch > 0 ? rate_of(position_.step - 1) : 0;  // resumed behind its last batch, the epoch has no other
        batches_ahead<batch_source> batches(*source_, steps_per_epoch() - position_.batch, o_.step.on && !o_.step.on->in_host_memory());
        while (position_.batch < steps_per_epoch()) {
            status made = batches.advance();
            batch& b = batches.current();
            GRAFT_TRY(complete_batch(b, made));
            count_bad(b.bad, bad_training_);  // also those that are one too many
            GRAFT_TRY(std::move(made));
            run_members::news news;
            if (!b.labels.empty()) GRAFT_TRY(run_step(b, batches.next(), rate, news.correct, work));
            ++position_.batch;
            const double now = seconds_now(), elapsed = now - epoch_began;
            news.step = position_.step;
            news.save = now - last_checkpoint_ >= std::min(o_.checkpoint_seconds, 30.0);
            news.stop = stop_asked_;
            news.waiting_share = waiting_share(work.records(elapsed));
            GRAFT_TRY(members_.exchange(news));
            position_.correct += news.correct;
            trainer_progress p;
            p.epoch = position_.epoch, p.epochs = o_.epochs, p.step = position_.batch, p.steps = steps_per_epoch();
            p.loss = position_.weight_sum > 0 ? position_.loss_sum / position_.weight_sum : 0;
            p.top1 = position_.seen ? static_cast<double>(position_.correct) / static_cast<double>(position_.seen) : 0;
            p.learning_rate = rate;
            p.images_per_s = elapsed > 0 ? static_cast<double>(position_.seen - seen_before) / elapsed : 0;
            const double left = static_cast<double>((o_.epochs - p.epoch) * data_.training.size() - position_.seen);
            p.seconds_left = p.images_per_s > 0 ? left / p.images_per_s : 0;
            p.wait_share = elapsed > 0 ? (source_->waited() - waited_before) / elapsed : 0;
            p.members = members_of(o_.step), p.members_wait_share = news.waiting_share;
            p.head_alone = head_alone_;
            stop_asked_ = observer_.on_step(p) == training_verdict::stop;
            // Among several members all stop behind the same step, the next one.
            if (members_.several() ? news.stop != 0 : stop_asked_) {
                count_work();
                result_.stopped = true;
                return save();
            }
            if (news.save) GRAFT_TRY(save());
        }
        epoch_record r;
        r.epoch = position_.epoch;
        r.step = position_.step;
        r.head_alone = head_alone_;
        r.training_loss = position_.weight_sum > 0 ? position_.loss_sum / position_.weight_sum : 0;
        r.training_top1 = position_.seen ? static_cast<double>(position_.correct) / static_cast<double>(position_.seen) : 0;
        r.learning_rate = rate;
        r.seconds = seconds_now() - epoch_began;
        r.images_per_s = r.seconds > 0 ? static_cast<double>(position_.seen - seen_before) / r.seconds : 0;
        r.wait_share = r.seconds > 0 ? (source_->waited() - waited_before) / r.seconds : 0;
        count_work();
        r.members = work.records(r.seconds);
        GRAFT_TRY(members_.gather(r.members));
        r.stages = work.stages(r.seconds);
        add_stages(result_.stages, r.stages);
        warn_of_straggler(r);
        add_members(result_.members, r.members);
        return end_epoch(std::move(r));
    }

    // Each member has made its samples alone. Where one of them is bad, all make all: what is left out moves the others.
    status complete_batch(batch& b, status& made) {
        if (!members_.several() || cached_) return {};
        std::int64_t bad = static_cast<std::int64_t>(b.bad.size());
        GRAFT_TRY(members_.largest(bad));
        if (bad > 0) made = source_->whole(b);
        return {};
    }

    status run_step(const batch& b, const tensor* next, double& rate, std::int64_t& correct, run_members::epoch_work& work) {
        const std::int64_t n = static_cast<std::int64_t>(b.labels.size()), count = static_cast<std::int64_t>(classes());
        if (!targets_ || targets_.shape()[0] != n) GRAFT_TRY_ASSIGN(targets_, tensor::make(dtype::float32, {n, count}));
        double weight = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            float* row = targets_.data<float>() + i * count;
            const std::size_t at = static_cast<std::size_t>(i);
            const double share = b.other_labels.empty() ? 1 : static_cast<double>(b.lambda[at]);
            weight += write_target(o_.step.loss, b.labels[at], share, count, row, false);
            if (!b.other_labels.empty()) weight += write_target(o_.step.loss, b.other_labels[at], 1 - share, count, row, true);
        }
        rate = rate_of(position_.step);
        const std::int64_t first = members_.begin(n, o_.step.shards), last = members_.end(n, o_.step.shards);
        tensor inputs, targets, teacher;  // of this member's samples
        if (teacher_ && last > first) GRAFT_TRY_ASSIGN(teacher, taught(b, first, last));
        if (members_.several()) {
            inputs = samples_of(b.inputs, first, last), targets = samples_of(targets_, first, last);
            if (teacher_ && !teacher) GRAFT_TRY_ASSIGN(teacher, tensor::make(dtype::float32, {0, count}));
            next = nullptr;
        }
        step_input in;
        in.inputs = members_.several() ? &inputs : &b.inputs;
        in.targets = members_.several() ? &targets : &targets_;
        in.teacher = teacher_ ? &teacher : nullptr;
        in.first = first, in.samples = n;
        in.scale = weight > 0 ? 1 / weight : 0;
        in.learning_rate = rate;
        in.step = position_.step;
        in.next = next;
        const bool traced = !head_alone_ || o_.unfreeze_epoch >= o_.epochs;  // what a run mostly does is worth a look
        if (traced) GRAFT_TRY(trace_.before_step(o_.epochs * steps_per_epoch() - position_.step));
        status done = step_.run(in, pool_);
        if (!done.ok()) return diverged(std::move(done));
        if (traced) GRAFT_TRY(trace_.behind_step());
        ++position_.step;
        position_.loss_sum += step_.loss() * weight;
        position_.weight_sum += weight;
        const float* logits = step_.logits().data<float>();
        for (std::int64_t i = 0; i < last - first; ++i)
            correct += std::max_element(logits + i * count, logits + (i + 1) * count) - (logits + i * count) == b.labels[static_cast<std::size_t>(first + i)];
        position_.seen += n;
        work.count(last - first);
        return {};
    }

    // The teacher's logits for samples [first, last) of a batch.
    result<tensor> taught(const batch& b, std::int64_t first, std::int64_t last) {
        if (!cached_) return teacher_.logits(samples_of(b.teacher_inputs, first, last));
        const std::int64_t count = static_cast<std::int64_t>(classes());
        tensor rows;
        GRAFT_TRY_ASSIGN(rows, tensor::make(dtype::float32, {last - first, count}));
        for (std::int64_t i = first; i < last; ++i)
            std::memcpy(rows.data<float>() + (i - first) * count, teacher_answers_.data<float>() + b.indices[static_cast<std::size_t>(i)] * count,
                        static_cast<std::size_t>(count) * sizeof(float));
        return rows;
    }

    // What to go back to, after the loss has gone to infinity.
    status diverged(status s) {
        if (s.error().code() != errc::train_diverged || o_.out.empty()) return s;
        return fail(s.error().code(), s.error().where(),
                    s.error().detail() + (good_checkpoint_.empty() ? "; there is no checkpoint yet" : "; the last good checkpoint is " + good_checkpoint_));
    }

    status end_epoch(epoch_record r) {
        evaluation_result scored;
        graph g;
        GRAFT_TRY_ASSIGN(g, step_.network());
        graph written;
        GRAFT_TRY_ASSIGN(written, as_written(g));
        GRAFT_TRY_ASSIGN(scored, score(written));
        if (!cached_) count_bad(scored.bad, bad_validation_);
        r.loss = scored.metrics.loss();
        r.top1 = scored.metrics.top1();
        r.top5 = scored.metrics.top_k();
        r.balanced_accuracy = scored.metrics.balanced_accuracy();
        r.majority = scored.metrics.majority();
        r.best = result_.best_epoch < 0 || r.top1 > result_.best_top1 || (r.top1 == result_.best_top1 && r.loss < result_.best_loss);
        // A model is never without a checkpoint beside it, so that --resume takes no folder of a run that is over for one that was cut off.
        if (good_checkpoint_.empty()) GRAFT_TRY(save());
        if (r.best) {
            result_.best_top1 = r.top1;
            result_.best_loss = r.loss;
            result_.best_epoch = r.epoch;
            result_.validation = std::move(scored);
            result_.network = std::move(written);
            if (cached_) GRAFT_TRY_ASSIGN(result_.network, as_written(whole_network(g)));
            GRAFT_TRY(write_best());
        }
        result_.history.push_back(r);
        update_plateau(o_.schedule, plateau_, r.loss);
        if (o_.patience > 0 && r.epoch - result_.best_epoch >= o_.patience) stopped_ = true;
        place next;
        next.epoch = position_.epoch + 1, next.step = position_.step;
        position_ = next;
        // Before the checkpoint, so that it holds the state of what learns next.
        GRAFT_TRY(unfreeze());
        GRAFT_TRY(log_epoch(r));
        GRAFT_TRY(save());
        run_members::news news;
        news.step = position_.step;
        news.stop = stop_asked_ || observer_.on_epoch(r) == training_verdict::stop;
        GRAFT_TRY(members_.exchange(news));
        result_.stopped = news.stop && position_.epoch < o_.epochs && !stopped_;
        return {};
    }

    status unfreeze() { return head_alone_ && position_.epoch >= o_.unfreeze_epoch && position_.epoch < o_.epochs ? make_step(false) : status(); }

    result<evaluation_result> score(const graph& g) {
        model network;
        GRAFT_TRY_ASSIGN(network, load(g, loading_model()));
        if (!cached_ && members_.several() && network_.fixed_batch == 0) return score_together(network);
        if (!cached_) return evaluate(network, data_.validation, o_.preprocess, {}, scoring());
        return score_rows(network, validation_features_, scoring());
    }
    evaluation_options scoring() {
        evaluation_options e;
        e.batch = o_.batch;
        e.threads = pool_.threads();
        e.bad_share = o_.bad_share;
        e.cache = o_.cache;
        e.progress = [](void* c, std::int64_t done, std::int64_t of) { static_cast<training_observer*>(c)->on_validation(done, of); };
        e.context = &observer_;
        return e;
    }

    // Each member runs the network on its part of the pictures, and all score what came of it.
    result<evaluation_result> score_together(const model& network) {
        evaluation_result found;
        cached_features rows;
        const auto progress = [](void* c, std::int64_t done, std::int64_t of) { static_cast<training_observer*>(c)->on_validation(done, of); };
        GRAFT_TRY_ASSIGN(rows,
                         share_features(members_, network.graph(), data_.validation, loading(false), pool_.threads(), progress, &observer_, loading_model()));
        if (rows.labels.empty()) return fail(errc::data_too_many_bad, "validation", "no picture of it can be read");
        found.bad = rows.bad;
        const std::vector<std::int64_t> labels(rows.labels.begin(), rows.labels.end());
        const auto n = static_cast<std::int64_t>(labels.size());
        std::vector<float> logits;
        GRAFT_TRY_ASSIGN(logits, logits_in(network.graph(), 0, rows.rows, n, n));
        const std::int64_t count = static_cast<std::int64_t>(logits.size()) / n;
        GRAFT_TRY_ASSIGN(found.metrics, classification_metrics::make(count));
        GRAFT_TRY(add_scores(found, logits.data(), count, labels, rows.indices.data()));
        return found;
    }
    result<evaluation_result> score_rows(const model& network, const cached_features& from, const evaluation_options& e) {
        evaluation_result found;
        found.bad = from.bad;
        GRAFT_TRY_ASSIGN(found.metrics, classification_metrics::make(static_cast<std::int64_t>(classes())));
        session run(network, {e.threads, nullptr});
        const std::int64_t count = static_cast<std::int64_t>(classes()), width = from.rows.elements() / from.rows.shape()[0];
        shape extents = from.rows.shape();
        for (std::int64_t first = 0; first < static_cast<std::int64_t>(from.labels.size()); first += e.batch) {
            extents[0] = std::min(e.batch, static_cast<std::int64_t>(from.labels.size()) - first);
            tensor in, scores;
            GRAFT_TRY_ASSIGN(in, tensor::make(dtype::float32, extents));
            std::memcpy(in.raw(), from.rows.data<float>() + first * width, in.bytes());
            GRAFT_TRY_ASSIGN(scores, run.run(in));
            const std::vector<std::int64_t> labels(from.labels.begin() + first, from.labels.begin() + first + extents[0]);
            std::vector<float> rows;
            GRAFT_TRY_ASSIGN(rows, logits_in(network.graph(), 0, scores, extents[0], extents[0]));
            GRAFT_TRY(add_scores(found, rows.data(), count, labels, from.indices.data() + first));
        }
        return found;
    }

    result<graph> as_written(graph g) const {
        if (!network_.in_eight_bits) return g;
        return store_quantized(std::move(g));
    }
    // The whole network with what the step has learnt, which has the head alone.
    graph whole_network(const graph& g) const {
        graph whole = network_.graph;
        for (const parameter& p : network_.parameters)
            if (p.learns) whole.at(p.id).constant = g.at(p.id).constant;
        return whole;
    }

    status write_best();
    status log_epoch(const epoch_record& r);
    status log_pictures();
    void warn_of_classes();
    void warn_of_straggler(const epoch_record& r);
    void warn_of_no_overlap();
    static std::string network_fingerprint(const graph& g);
    static result<std::string> contents_fingerprint(const dataset& data, executor& pool);
    named_texts settings() const;
    status visit_state(state_parts& c, loss_scale& scaling);
    status save();
    status resume();
    status finish();

    training_network network_;
    const dataset_splits& data_;
    const trainer_options o_;
    training_observer& observer_;
    pool_executor pool_;
    run_members members_;
    step_trace trace_;
    training_files files_;
    input_format format_;
    preprocess_spec spec_;
    std::string good_checkpoint_;                          // the newest of this run: what lies in the folder may be another's
    std::string network_text_;                             // of the network that the run began with
    std::string training_contents_, validation_contents_;  // of the pictures it began with
    training_step step_;
    bool step_made_ = false, cached_ = false, head_alone_ = false, checkpoint_verified_ = false, stopped_ = false;
    bool straggler_told_ = false;
    bool stop_asked_ = false;  // by this member's observer
    std::unique_ptr<batch_source> source_;
    shape batch_shape_;
    cached_features validation_features_;
    teacher_model teacher_;
    tensor teacher_answers_;  // where features are cached: a row for each training picture
    plateau_state plateau_;
    place position_;
    tensor targets_;
    training_result result_;
    std::set<std::int64_t> bad_training_, bad_validation_;  // by their indices in the two parts
    double began_ = 0, last_checkpoint_ = 0, trained_seconds_ = 0, waited_seconds_ = 0;
    std::int64_t trained_pictures_ = 0, first_epoch_ = 0;  // the epoch that this process began with
};

}  // namespace detail
GRAFT_END_NAMESPACE
