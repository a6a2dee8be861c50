// Bodies of train/trainer.hpp: `train`, and what a run writes beside its checkpoints.
#pragma once

#include "../core/number_text.hpp"
#include "trainer_state.hpp"
#include "training_pictures.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The first validation picture that can be read, as the network sees it.
inline status training_run::write_best() {
    graph& g = result_.network;
    describe_classifier(g, data_.training.classes(), spec_);
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
    named_numbers figures{{"loss", r.training_loss}, {"top1", r.training_top1}, {"lr", r.learning_rate}, {"images_per_s", r.images_per_s}, {"wait_share", r.wait_share}};
    if (o_.unfreeze_epoch > 0) figures.emplace_back("head_alone", r.head_alone);
    observer_.add_figures(figures);
    GRAFT_TRY(files_.log("train", r.step, r.epoch + 1, figures, now));
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
        what = "the best network's top-1 of " + percent(m.top1()) + " is not above what always answering \"" + escape(names[largest]) + "\" scores, " + percent(m.majority());
    } else
        return;
    const bool uneven = is_imbalanced(data_.training.class_counts());
    if (uneven && o_.step.loss.class_weights.empty())
        what += "; the classes are uneven: --class-weights balanced makes rare ones count as much as common ones";
    else
        what += "; more --epochs, or more pictures of it, may help";
    observer_.on_warning(what);
}

inline status training_run::finish() {
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
    return detail::or_out_of_memory<result<training_result>>("training", [&] { return detail::training_run(std::move(network), data, options, observer).run(); });
}

GRAFT_END_NAMESPACE
