// Fine-tuning from a dataset to a model: the loop over epochs, with scoring, checkpoints, logs and the best model.
#pragma once

#include "../data/dataset.hpp"
#include "evaluate.hpp"
#include "freeze.hpp"
#include "head.hpp"
#include "member_record.hpp"
#include "metrics.hpp"
#include "metrics_log.hpp"
#include "options.hpp"
#include "parameters.hpp"
#include "step.hpp"
#include "teacher.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Where a run is, for whoever shows it.
struct trainer_progress {
    std::int64_t epoch = 0, epochs = 0;  ///< epoch counts from 0
    std::int64_t step = 0, steps = 0;    ///< of this epoch
    double loss = 0, top1 = 0;           ///< of the training batches of this epoch so far; of the validation part in `on_epoch`
    double learning_rate = 0;
    double images_per_s = 0, seconds_left = 0;
    double wait_share = 0;          ///< share of the time that steps waited for data
    int members = 1;                ///< processes or replicas that compute each batch together
    double members_wait_share = 0;  ///< share of their time in this epoch so far that they waited for each other
    bool head_alone = false;        ///< whether the trunk does not learn yet
};

/// One epoch in numbers.
struct epoch_record {
    std::int64_t epoch = 0, step = 0;  ///< updates so far
    double training_loss = 0, training_top1 = 0;
    double loss = 0, top1 = 0, top5 = 0;  ///< of the validation part
    double balanced_accuracy = 0;         ///< mean recall of its classes
    double majority = 0;                  ///< share of its largest class: what always naming it would score
    double learning_rate = 0, seconds = 0, images_per_s = 0, wait_share = 0;
    bool best = false, head_alone = false;  ///< head_alone: the trunk did not learn yet
    std::vector<stage_record> stages;       ///< where the network is trained in stages; not of epochs before a `resume`
    std::vector<member_record> members;     ///< by rank, where several processes or replicas trained; not of epochs before a `resume`
};

/// Whether a run goes on.
enum class training_verdict { go_on, stop };

/// Is told what happens, and may end the run. Called from the thread that trains. A run that is stopped writes its checkpoint and ends without
/// an error, see training_result::stopped; `resume` goes on from there to the bytes of one that was not.
class training_observer {
public:
    inline virtual ~training_observer() {}
    inline virtual void on_start(const step_memory&, std::int64_t) {}  ///< what a step needs, and how many weights learn
    inline virtual training_verdict on_step(const trainer_progress&) { return training_verdict::go_on; }
    inline virtual void on_validation(std::int64_t, std::int64_t) {}  ///< pictures done, of how many
    inline virtual training_verdict on_epoch(const epoch_record&) { return training_verdict::go_on; }
    /// Is given the network of an epoch that scored better than those before it, with labels and preprocessing in its metadata; an error ends the run.
    inline virtual status on_better(const graph&) { return {}; }
    /// May add figures of the epoch's training, such as what a device did, to what metrics.jsonl and TensorBoard get.
    inline virtual void add_figures(named_numbers&) {}
    inline virtual void on_note(const std::string&) {}  ///< what was done to the network before it learns
    inline virtual void on_warning(const std::string&) {}
};

/// What came of a run.
struct training_result {
    double best_top1 = 0, best_loss = 0;
    std::int64_t best_epoch = -1, epochs = 0;  ///< epochs done, over all resumed parts
    double images_per_s = 0, wait_share = 0, seconds = 0;
    std::int64_t bad_pictures = 0;  ///< that could not be read, each counted once
    step_memory memory;
    std::vector<epoch_record> history;
    std::vector<stage_record> stages;    ///< all epochs of this call together: what each stage of a pipeline did; empty where there are none
    std::vector<member_record> members;  ///< all epochs of this call together: what each process or replica did; empty where there was one
    bool stopped = false;                ///< by the observer, before it was over
    graft::graph network;                ///< the best epoch's, with labels and preprocessing in its metadata; of a run that was
                                         ///< stopped, the best of the epochs that ended in this call, empty where none did
    evaluation_result validation;        ///< of that network
};

/// A network that is to learn, and how much of it.
struct training_network {
    graft::graph graph;
    value_id logits = no_value;
    std::vector<parameter> parameters;
    value_id features = no_value;  ///< what the head reads; no_value where there is no head apart
    std::int64_t fixed_batch = 0;  ///< above 0: it takes so many samples and no others; see step_options
    bool head_is_trained = false;  ///< the head is no new one: all learns from the first epoch on
    bool in_eight_bits = false;    ///< its weights are scored and written as integers: see store_quantized
};

/// The options with everything decided that they leave open, for a network of which it is said what learns, and so many training pictures.
/// `train` does this itself.
trainer_options settled(trainer_options options, const training_network& network, std::int64_t pictures);

/// Trains. Everything is a function of the options, the data and the instruction set: neither threads nor workers nor interruptions change
/// a byte of the result. With `out`, the folder gets model.onnx (renewed at every better epoch), checkpoint.safetensors, metrics.jsonl
/// and TensorBoard events. Errors: data.*, train.*, memory.*, checkpoint.*, resume.mismatch, file.write, usage.
result<training_result> train(training_network network, const dataset_splits& data, const trainer_options& options, training_observer& observer);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/number_text.hpp"
#include "trainer_state.hpp"
#include "training_pictures.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The first validation picture that can be read, as the network sees it.
inline status training_run::write_best() {
    graph& g = result_.network;
    describe_classifier(g, data_.training.classes(), spec_);
    GRAFT_TRY(observer_.on_better(g));
    if (!files_.wanted()) return {};
    for (std::int64_t i = 0; i < data_.validation.size(); ++i) {
        auto picture = data_.validation.read(i);
        if (!picture.ok() && bad_validation_.count(i)) continue;
        if (!picture.ok()) return picture.take_status();  // it could be read a moment ago
        tensor input;
        GRAFT_TRY_ASSIGN(input, preprocess(*picture, o_.preprocess, format_));
        // A network that is fixed to one batch gets copies.
        const std::int64_t fixed = format_.extents.rank() > 0 ? format_.extents[0] : 0;
        if (fixed > 1) GRAFT_TRY(filled_up(view(input), fixed, true, input));
        return write_verified_model(g, input, files_.path("model.onnx"), pool_.threads(), o_.step.operators);
    }
    return fail(errc::data_too_many_bad, "validation", "no picture of it can be read");
}

inline status training_run::log_epoch(const epoch_record& r) {
    const double now = wall_time();
    named_numbers figures{
        {"loss", r.training_loss}, {"top1", r.training_top1}, {"lr", r.learning_rate}, {"images_per_s", r.images_per_s}, {"wait_share", r.wait_share}};
    if (o_.unfreeze_epoch > 0) figures.emplace_back("head_alone", r.head_alone);
    if (!r.members.empty()) {
        figures.emplace_back("members_wait_share", waiting_share(r.members));
        figures.emplace_back("scaling_efficiency", scaling_efficiency(r.members));
    }
    observer_.add_figures(figures);
    GRAFT_TRY(files_.log("train", r.step, r.epoch + 1, figures, now, r.members, r.stages));
    return files_.log("val", r.step, r.epoch + 1, {{"loss", r.loss}, {"top1", r.top1}, {"top5", r.top5}, {"balanced_accuracy", r.balanced_accuracy}}, now);
}

// Of the network that is kept, at the step of its epoch.
inline status training_run::log_pictures() {
    if (!files_.wanted() || result_.stopped || result_.epochs <= first_epoch_ || result_.best_epoch < 0) return {};
    const std::int64_t step = result_.history[static_cast<std::size_t>(result_.best_epoch)].step;
    image matrix, wrong;
    if (classes() <= 4096) GRAFT_TRY_ASSIGN(matrix, confusion_image(result_.validation.metrics, data_.training.classes()));
    GRAFT_TRY_ASSIGN(wrong, wrong_pictures_image(data_.validation, most_wrong(result_.validation, 12)));
    GRAFT_TRY(files_.log_picture("confusion_matrix/val", step, matrix, wall_time()));
    return files_.log_picture("most_wrong/val", step, wrong, wall_time());
}

// Where the network that is kept says nothing of some classes, or no more than always naming one would.
inline void training_run::warn_of_classes() {
    const classification_metrics& m = result_.validation.metrics;
    if (m.samples() == 0) return;
    const std::vector<std::string>& names = data_.training.classes();
    const std::vector<std::int64_t> never = m.never_predicted(), supports = m.supports();
    const auto percent = [](double share) { return detail::number_text("%.1f %%", 100 * share); };
    std::string what;
    constexpr std::size_t most_named = 5;
    if (!never.empty()) {
        what = "the best network never answers ";
        for (std::size_t i = 0; i < never.size() && i < most_named; ++i) what += (i ? ", \"" : "\"") + escape(names[static_cast<std::size_t>(never[i])]) + "\"";
        if (never.size() > most_named) what += " and " + std::to_string(never.size() - most_named) + " other classes";
        what += " (top-1 " + percent(m.top1()) + ", balanced " + percent(m.balanced_accuracy()) + ")";
    } else if (m.top1() <= m.majority()) {
        const auto largest = static_cast<std::size_t>(std::max_element(supports.begin(), supports.end()) - supports.begin());
        what = "the best network's top-1 of " + percent(m.top1()) + " is not above what always answering \"" + escape(names[largest]) + "\" scores, " +
               percent(m.majority());
    } else
        return;
    const bool uneven = is_imbalanced(data_.training.class_counts());
    if (uneven && o_.step.loss.class_weights.empty())
        what += "; the classes are uneven: --class-weights balanced makes rare ones count as much as common ones";
    else
        what += "; more --epochs, or more pictures of it, may help";
    observer_.on_warning(what);
}

// Once, of an epoch in which one member held up the others.
inline void training_run::warn_of_straggler(const epoch_record& r) {
    if (straggler_told_ || !members_.leads()) return;
    const std::string text = straggler_text(r.members);
    if (text.empty()) return;
    straggler_told_ = true;
    observer_.on_warning("in epoch " + std::to_string(r.epoch + 1) + " " + text);
}

// MPI decides how many threads may use it.
inline void training_run::warn_of_no_overlap() {
    const step_options& s = o_.step;
    if (!members_.leads() || members_.size() < 2 || !s.overlap || s.group->overlaps() || (s.on && !s.on->in_host_memory())) return;
    observer_.on_warning(std::string("gradients are exchanged between the nodes of the backward pass and not beside it: ") + s.group->name() +
                         " serves one thread of a process alone here");
}

inline status training_run::finish() {
    GRAFT_TRY(trace_.finish());
    if (trace_.left_out() > 0) observer_.on_warning(o_.trace + ": there was no room for " + std::to_string(trace_.left_out()) + " events");
    result_.epochs = static_cast<std::int64_t>(result_.history.size());
    result_.seconds = seconds_now() - began_;
    result_.images_per_s = trained_seconds_ > 0 ? static_cast<double>(trained_pictures_) / trained_seconds_ : 0;
    result_.wait_share = trained_seconds_ > 0 ? waited_seconds_ / trained_seconds_ : 0;
    // A run that was resumed after its best epoch has the best network on disk alone.
    if (result_.network.values.empty() && files_.wanted() && !result_.stopped) {
        model best;
        GRAFT_TRY_ASSIGN(best, load(files_.path("model.onnx"), loading_model()));
        result_.network = best.graph();
        GRAFT_TRY_ASSIGN(result_.validation, evaluate(best, data_.validation, o_.preprocess, {}, scoring()));
    }
    warn_of_classes();
    GRAFT_TRY(log_pictures());
    return files_.close();
}

}  // namespace detail

GRAFT_INLINE result<training_result> train(training_network network, const dataset_splits& data, const trainer_options& options, training_observer& observer) {
    if (!options.step.on) GRAFT_TRY(detail::host_precision(options.precision));
    return detail::or_out_of_memory<result<training_result>>("training",
                                                             [&] { return detail::training_run(std::move(network), data, options, observer).run(); });
}

GRAFT_END_NAMESPACE
#endif
