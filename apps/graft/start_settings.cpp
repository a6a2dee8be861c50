// Which settings to train with, by short runs on a part of the training pictures.
#include "start.hpp"

#include <graft/data/splits.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace program {
namespace {

constexpr std::int64_t most_pictures = 600;  // of a trial, those that it is scored by among them
constexpr int trial_epochs = 4;

// What one trial changes.
struct candidate {
    double rate = 0;  // times the default one; 0: as it is
    bool frozen = false;
};

// Shows how far all trials are.
class trial_watcher final : public graft::training_observer {
public:
    explicit trial_watcher(progress& bar, std::int64_t done) : bar_(bar), done_(done) {}
    graft::training_verdict on_epoch(const graft::epoch_record& r) override {
        bar_.step(done_ + r.epoch + 1);
        return graft::training_verdict::go_on;
    }

private:
    progress& bar_;
    std::int64_t done_;
};

graft::result<setting_trial> run_trial(const common_options& common, training_options o, const candidate& wanted, const graft::dataset_splits& part,
                                       const std::vector<std::shared_ptr<graft::device>>& devices, trial_watcher& watch) {
    setting_trial trial;
    o.with.epochs = trial_epochs;
    o.out.clear();
    graft::trainer_options with;
    if (wanted.frozen) {
        o.with.freeze = "trunk";
        trial.words = {"--freeze", "trunk"};
    }
    GRAFT_TRY_ASSIGN(with, trainer_options_of(common, o));
    GRAFT_TRY(spread(common, o.spread, nullptr, devices, with.step));
    training_setup setup;
    GRAFT_TRY_ASSIGN(setup, set_up_training(o, part, with));
    with.preprocess = setup.preprocess;
    if (wanted.rate > 0) {
        const double rate = graft::settled(with, setup.network, part.training.size()).learning_rate * wanted.rate;
        const std::string text = formatted("%.1g", rate);
        with.learning_rate = std::strtod(text.c_str(), nullptr);
        trial.words = {"--lr", text};
    }
    const double began = now_ms();
    graft::training_result found;
    GRAFT_TRY_ASSIGN(found, graft::train(std::move(setup.network), part, with, watch));
    trial.top1 = found.best_top1, trial.loss = found.best_loss, trial.seconds = (now_ms() - began) / 1e3;
    return trial;
}

}  // namespace

graft::result<graft::dataset_splits> trial_part(const graft::dataset& all, std::uint64_t seed) {
    const auto labels_of = [](const graft::dataset& of) {
        std::vector<int> labels;
        for (std::int64_t i = 0; i < of.size(); ++i) labels.push_back(of.label(i));
        return labels;
    };
    graft::dataset some = all;
    if (all.size() > most_pictures) {
        graft::split_indices drawn;
        GRAFT_TRY_ASSIGN(drawn,
                         graft::stratified_split(labels_of(all), all.classes(), static_cast<double>(most_pictures) / static_cast<double>(all.size()), seed));
        some = all.subset(drawn.validation);
    }
    graft::split_indices drawn;
    GRAFT_TRY_ASSIGN(drawn, graft::stratified_split(labels_of(some), some.classes(), 0.2, seed + 1));
    graft::dataset_splits part;
    part.training = some.subset(drawn.training), part.validation = some.subset(drawn.validation);
    return part;
}

graft::result<std::vector<setting_trial>> try_settings(const common_options& common, const training_options& o, const graft::dataset_splits& part,
                                                       double seconds) {
    std::vector<candidate> candidates{{}, {3, false}, {1.0 / 3, false}};
    if (!o.from_scratch) candidates.push_back({0, true});
    std::vector<setting_trial> trials;
    if (part.training.size() < 2 || part.validation.size() < 2) return trials;
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, open_devices(common));
    progress bar("settings", static_cast<std::int64_t>(candidates.size()) * trial_epochs, common.quiet);
    const double began = now_ms();
    for (const candidate& c : candidates) {
        // No trial is begun that would not end in time, as far as the first tells.
        if (!trials.empty() && (now_ms() - began) / 1e3 + trials.front().seconds > seconds) break;
        trial_watcher watch(bar, static_cast<std::int64_t>(trials.size()) * trial_epochs);
        setting_trial trial;
        GRAFT_TRY_ASSIGN(trial, run_trial(common, o, c, part, devices, watch));
        trials.push_back(std::move(trial));
    }
    return trials;
}

const setting_trial& chosen_setting(const std::vector<setting_trial>& trials, std::int64_t scored) {
    const auto best = std::max_element(trials.begin(), trials.end(),
                                       [](const setting_trial& a, const setting_trial& b) { return a.top1 < b.top1 || (a.top1 <= b.top1 && a.loss > b.loss); });
    const double p = trials.front().top1, error = std::sqrt(p * (1 - p) / static_cast<double>(std::max<std::int64_t>(scored, 1)));
    return best->top1 > p + error ? *best : trials.front();
}

}  // namespace program
