// When to stop, and what to begin with: early stopping, the learning-rate finder and the batch finder.
#pragma once

#include "../config.hpp"

#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Stops when a figure has not become better for a while. The members `best` and `bad_epochs` belong into a checkpoint.
struct early_stopping {
    std::int64_t patience = 0;      ///< epochs without a better figure after which to stop; 0: never
    double min_delta = 0;           ///< better is better by more than this
    bool larger_is_better = false;  ///< false for a loss, true for an accuracy

    bool any = false;  ///< whether there was a figure yet
    double best = 0;
    std::int64_t bad_epochs = 0;

    /// Takes in an epoch's figure; true: stop now. NaN is never better.
    bool update(double figure) noexcept;
};

/// Finds a learning rate by a sweep: one step at each of a row of rates that grow by a constant factor, until the loss explodes.
/// Smith, "Cyclical Learning Rates for Training Neural Networks" (2017); smoothing and end as in fastai.
class rate_finder {
public:
    /// `steps` rates from `low` to `high`, both above 0; at least 2 steps.
    rate_finder(double low, double high, std::int64_t steps) noexcept : low_(low), high_(high), steps_(steps < 2 ? 2 : steps) {}

    /// The rate of step i: low * (high / low)^(i / (steps - 1)).
    double rate(std::int64_t i) const noexcept;
    /// Takes in the loss of the next step; false: enough was seen (the last rate, or a loss over four times the best or not
    /// finite).
    bool add(double loss);

    std::int64_t steps() const noexcept { return steps_; }
    /// Losses as they came, and smoothed by an exponential mean of weight 0.98 that is corrected for its beginning.
    const std::vector<double>& losses() const noexcept { return losses_; }
    const std::vector<double>& smoothed() const noexcept { return smoothed_; }
    /// The rate at which the smoothed loss falls most steeply over the logarithm of the rate (central differences, as
    /// numpy.gradient), the first tenth aside, up to the least loss: what falls behind that has exploded before; 0 where fewer than 4 losses were
    /// seen or none falls.
    double suggestion() const noexcept;

private:
    double low_, high_, mean_ = 0, weight_ = 1, best_ = 0;
    std::int64_t steps_;
    std::vector<double> losses_, smoothed_;
};

/// Finds the size of batch with the best throughput: powers of two from 8 on, until one does not fit, is no longer faster by 3 %, or is
/// larger than there is use for. Where 8 does not fit, it goes down to the first that does.
class batch_finder {
public:
    struct trial {
        std::int64_t batch = 0;
        double samples_per_s = 0;  ///< 0: it did not fit
    };

    /// `most`: the largest batch that there is use for, at least 1.
    explicit batch_finder(std::int64_t most) noexcept : most_(most < 1 ? 1 : most) {}

    /// The batch to try next; 0: enough was seen.
    std::int64_t next() const noexcept;
    /// Takes in how fast the batch of `next` was; 0: there was not the memory for it.
    void add(double samples_per_s);
    /// No further trials: the time is up.
    void stop() noexcept { stopped_ = true; }

    const std::vector<trial>& trials() const noexcept { return trials_; }
    /// The smallest batch to which the next larger one added less than 3 %; 0 where none fitted.
    std::int64_t best() const noexcept { return best_.batch; }

private:
    std::int64_t most_;
    bool stopped_ = false;
    trial best_;
    std::vector<trial> trials_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cmath>
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE bool early_stopping::update(double figure) noexcept {
    const bool better = larger_is_better ? figure > best + min_delta : figure < best - min_delta;
    if (figure == figure && (!any || better)) {
        any = true;
        best = figure;
        bad_epochs = 0;
    } else
        ++bad_epochs;
    return patience > 0 && bad_epochs >= patience;
}

GRAFT_INLINE double rate_finder::rate(std::int64_t i) const noexcept {
    return low_ * std::pow(high_ / low_, static_cast<double>(i) / static_cast<double>(steps_ - 1));
}

GRAFT_INLINE bool rate_finder::add(double loss) {
    if (!std::isfinite(loss)) return false;
    losses_.push_back(loss);
    weight_ *= 0.98;
    mean_ = 0.98 * mean_ + 0.02 * loss;
    smoothed_.push_back(mean_ / (1 - weight_));
    if (losses_.size() == 1 || smoothed_.back() < best_) best_ = smoothed_.back();
    return static_cast<std::int64_t>(losses_.size()) < steps_ && !(smoothed_.back() > 4 * best_);
}

GRAFT_INLINE double rate_finder::suggestion() const noexcept {
    const std::size_t n = smoothed_.size();
    if (n < 4) return 0;
    double steepest = 0;
    std::size_t at = n;
    const std::size_t least = static_cast<std::size_t>(std::min_element(smoothed_.begin(), smoothed_.end()) - smoothed_.begin());
    for (std::size_t i = n / 10; i <= least; ++i) {
        const std::size_t before = i ? i - 1 : 0, after = i + 1 < n ? i + 1 : i;
        const double slope = (smoothed_[after] - smoothed_[before]) / static_cast<double>(after - before);
        if (slope < steepest) {
            steepest = slope;
            at = i;
        }
    }
    return at < n ? rate(static_cast<std::int64_t>(at)) : 0;
}

GRAFT_INLINE std::int64_t batch_finder::next() const noexcept {
    if (stopped_) return 0;
    if (trials_.empty()) {
        std::int64_t first = 8;
        while (first > most_) first /= 2;
        return first;
    }
    const trial& last = trials_.back();
    if (last.samples_per_s <= 0) return best_.batch ? 0 : last.batch / 2;
    const bool came_down = trials_.front().samples_per_s <= 0;
    return came_down || best_.batch != last.batch || last.batch > most_ / 2 ? 0 : last.batch * 2;
}

GRAFT_INLINE void batch_finder::add(double samples_per_s) {
    trials_.push_back({next(), samples_per_s});
    if (samples_per_s > 0 && samples_per_s >= 1.03 * best_.samples_per_s) best_ = trials_.back();
}

GRAFT_END_NAMESPACE
#endif
