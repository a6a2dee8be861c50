// Runs of training beside each other: what their folders hold, and the page that lays them over each other.
#pragma once

#include "program.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace program {

/// A validation picture, as a run's network answered it.
struct compared_answer {
    std::string label, predicted;
    double probability = 0;
};

/// What a folder of a run tells. Numbers that it does not are NaN, texts empty.
struct compared_run {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    std::string folder, name;        ///< as it was given; its last part, or all of it where others are called the same
    std::vector<std::string> notes;  ///< what is missing, in sentences
    bool finished = false;           ///< it wrote run.json
    double top1 = none, loss = none, seconds = none, images_per_s = none, peak_rss_mb = none;
    std::int64_t best_epoch = 0, epochs = 0;
    std::string device, data;
    std::vector<std::string> classes;
    std::vector<std::pair<std::string, std::string>> settings;
    /// (epoch, figure), in the order of the log.
    std::vector<std::pair<double, double>> training_loss, training_top1, validation_loss, validation_top1, learning_rate;
    std::map<std::string, compared_answer> answers;  ///< by path below the dataset
};

/// Reads a folder; what is missing or half-written is noted.
compared_run read_run(const std::string& folder);
/// Gives every run a name that no other has.
void name_runs(std::vector<compared_run>& runs);

/// A setting that is not the same in all runs: its name, and what each run has ("" where it has none).
struct setting_difference {
    std::string name;
    std::vector<std::string> values;
};
std::vector<setting_difference> differing_settings(const std::vector<compared_run>& runs);

/// A run's answers beside those of the first run, on the pictures that both have with the same label.
struct changed_answers {
    std::int64_t shared = 0;             ///< such pictures
    std::int64_t right = 0, was = 0;     ///< right answers of this run and of the first one
    std::vector<std::string> won, lost;  ///< paths of those that are right now and were not, and the other way round
};
changed_answers changes_to(const compared_run& first, const compared_run& other);

/// A class: pictures of it that all runs have, and how many of them each run finds.
struct class_comparison {
    std::string name;
    std::int64_t pictures = 0;
    std::vector<std::int64_t> found;
};
std::vector<class_comparison> compare_classes(const std::vector<compared_run>& runs);

/// Pairs of classes that a run confuses otherwise than the first one, the largest difference first: true class, taken for, times then, times now.
struct changed_confusion {
    std::string label, predicted;
    std::int64_t was = 0, now = 0;
};
std::vector<changed_confusion> changed_confusions(const compared_run& first, const compared_run& other);

/// The page. `command`: the line that made it.
std::string comparison_page(const std::vector<compared_run>& runs, const std::string& command);

}  // namespace program
