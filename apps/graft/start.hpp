// What the steps of `graft start` hand to each other.
#pragma once

#include "training.hpp"

#include <string>
#include <vector>

namespace program {

/// A network to begin with, and how well its features tell the classes apart before it has learnt anything.
struct network_choice {
    std::string path;
    std::string preprocess;  ///< as --preprocess takes it
    bool assumed = false;    ///< whether that was found by trying, rather than said by the file
    double accuracy = 0;     ///< share of the sample that ridge regression on the other pictures' features names right
    double parameters = 0;
};

/// Looks at the ONNX files of a folder, or at one file: best first, files that cannot learn left out and told on stderr. Errors: those of the file where there
/// is one alone; train.head where none of a folder will do; file.open.
graft::result<std::vector<network_choice>> rank_networks(const common_options& common, const std::string& from, const graft::dataset& training);

/// Options that were tried in a short run.
struct setting_trial {
    std::vector<std::string> words;  ///< as finetune and train take them; none: the defaults
    double top1 = 0, loss = 0, seconds = 0;
};

/// What settings are tried on: some of the pictures to learn from, a fifth of them to score by. Errors: usage.
graft::result<graft::dataset_splits> trial_part(const graft::dataset& training, std::uint64_t seed);
/// Tries some settings in short runs on that part, within the time; none where it is too small. The first is always the defaults. `o` says what is to learn:
/// `from` and `preprocess`, or `arch`. Errors: those of training.
graft::result<std::vector<setting_trial>> try_settings(const common_options& common, const training_options& o, const graft::dataset_splits& part,
                                                       double seconds);
/// Of those: the one to take. The defaults stay where nothing beats them by more than chance may: a standard error of the share that was right.
const setting_trial& chosen_setting(const std::vector<setting_trial>& trials, std::int64_t scored);

}  // namespace program
