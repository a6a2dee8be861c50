// What training shows on stderr while it runs: a bar on a terminal, lines elsewhere, nothing when quiet.
#pragma once

#include "console.hpp"
#include "gpu_use.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace program {

/// Where a run is. Figures that are not known are NaN and left out.
struct training_figures {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    std::string phase = "epoch";                              ///< "epoch", or "validation" and the like
    std::int64_t epoch = 0, epochs = 0, step = 0, steps = 0;  ///< epoch from 1; steps done of those in this epoch
    double loss = none, top1 = none;                          ///< running means of the epoch; top1 is a share
    double images_per_s = none, data_wait = none;             ///< data_wait: share of the time in which the step waited, 0..1
    double seconds_left = none;                               ///< of the whole run
    double members_wait = none;                               ///< share of their time in which processes or replicas waited for each other
    std::int64_t joins = 0;                                   ///< while the head learns alone: the epoch in which the trunk joins
    gpu_figures gpu;
};

/// The end of an epoch.
struct epoch_summary {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    std::int64_t epoch = 0, epochs = 0;
    double train_loss = none, train_top1 = none, val_loss = none, val_top1 = none;
    double val_balanced = none, val_majority = none;  ///< balanced accuracy, and the share of the largest class: where classes are uneven
    double learning_rate = none, images_per_s = none, data_wait = none, seconds = none;
    double members_wait = none;  ///< share of their time in which processes or replicas waited for each other
    gpu_figures gpu;
    bool best = false;  ///< the best so far, which was kept
    bool head_alone = false;
};

/// The bar for a terminal, never wider than it: what matters least is left out first.
std::string progress_line(const terminal& screen, const training_figures& at);
/// The same as a line of a log.
std::string progress_log(const training_figures& at);
/// The line that stays of an epoch.
std::string summary_line(const terminal& screen, const epoch_summary& done);
/// ", balanced 50.0 % (majority 92.3 %)"; nothing where they are NaN.
std::string uneven_text(double balanced, double majority);

/// Shows a run. On a terminal the bar is drawn anew ten times a second at most; elsewhere there is a line every ten seconds and
/// one for each epoch.
class training_progress {
public:
    /// `color` is auto, always or never, as for standard output; NO_COLOR counts.
    training_progress(bool quiet, const std::string& color);
    ~training_progress() { clear(); }
    training_progress(const training_progress&) = delete;
    training_progress& operator=(const training_progress&) = delete;

    void update(const training_figures& at);
    void epoch_done(const epoch_summary& done);
    /// A sentence above the bar: a warning, what is done next.
    void note(const std::string& text);
    /// Takes the bar off the screen.
    void clear();

private:
    bool quiet_, shown_ = false;
    terminal screen_;
    double last_ = -1e9;
};

}  // namespace program
