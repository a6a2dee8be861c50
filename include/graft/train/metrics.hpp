// What a classifier got right: loss, top-k, confusion matrix, precision and recall, calibration; the same for any batches.
#pragma once

#include "../core/error.hpp"
#include "../tensor/tensor.hpp"

#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A sum of numbers that does not depend on their order: each is rounded to a multiple of 2^-36 once, the rest is integers.
class exact_sum {
public:
    /// Numbers that are not finite, or 2^52 and more, make the sum infinite.
    void add(double value) noexcept;
    void add(const exact_sum& other) noexcept;
    double value() const noexcept;

private:
    std::int64_t whole_ = 0, part_ = 0;  // part_ in units of 2^-36, below 2^36 after each addition
    bool infinite_ = false;
};

/// How one sample was answered.
struct sample_score {
    std::int64_t predicted = 0;  ///< class with the largest logit, the lower index where several are
    std::int64_t rank = 0;       ///< classes that come before the true one: 0 is right, below k is in the top k
    double probability = 0;      ///< softmax of the predicted class
    double loss = 0;             ///< cross-entropy, -log softmax of the true class, in nats
    bool finite = true;          ///< false: a logit is NaN or infinite; rank is then the number of classes and loss infinite
};

/// Scores `classes` logits against the true class, which must be one of them. Computed in double.
sample_score score_sample(const float* logits, std::int64_t classes, std::int64_t label) noexcept;

/// One class in a confusion matrix. Ratios without a denominator are 0, as in scikit-learn with zero_division=0.
struct class_score {
    std::int64_t support = 0;    ///< samples that are of the class
    std::int64_t predicted = 0;  ///< samples that were taken for it
    std::int64_t correct = 0;    ///< both
    double precision = 0, recall = 0, f1 = 0;
};

/// Samples whose predicted probability lies in (low, high].
struct calibration_bin {
    double low = 0, high = 0;
    std::int64_t samples = 0, correct = 0;
    double confidence = 0;  ///< mean predicted probability; 0 where there are no samples
    double accuracy = 0;
};

/// Gathers the scores of any number of batches. Counts are integers and sums are exact, so that neither the size of the batches
/// nor their order, nor the merging of several such objects, changes a bit.
class classification_metrics {
public:
    static constexpr int bins = 15;  ///< of the calibration: Guo et al., "On Calibration of Modern Neural Networks" (2017)

    /// `top_k` is the k of `top_k()`. Errors: usage (fewer than one class, k below 1), memory.budget (over 16384 classes, whose
    /// matrix would take over 2 GiB).
    static result<classification_metrics> make(std::int64_t classes, int top_k = 5);

    /// Logits [n, classes] float32, labels [n] int64. Errors: input.dtype, input.shape, data.label_range; nothing is added then.
    status add(const tensor& logits, const tensor& labels);
    /// The same for `n` rows in memory.
    status add(const float* logits, const std::int64_t* labels, std::int64_t n);
    /// The same for one sample that was scored already (`score_sample`, of as many classes).
    status add(const sample_score& score, std::int64_t label);
    /// Adds what another object of as many classes and the same k has seen. Errors: usage.
    status merge(const classification_metrics& other);

    std::int64_t classes() const noexcept { return classes_; }
    int k() const noexcept { return top_k_; }
    std::int64_t samples() const noexcept { return samples_; }
    std::int64_t correct() const noexcept { return correct_; }
    std::int64_t correct_in_top_k() const noexcept { return correct_k_; }
    std::int64_t not_finite() const noexcept { return not_finite_; }  ///< samples with a NaN or infinite logit; counted as wrong
    double loss() const noexcept;                                     ///< mean cross-entropy; 0 without samples
    double top1() const noexcept;                                     ///< share, 0..1
    double top_k() const noexcept;
    /// Samples of class `truth` that were taken for `predicted`.
    std::int64_t confusion(std::int64_t truth, std::int64_t predicted) const noexcept;
    class_score score(std::int64_t label) const noexcept;
    double macro_f1() const noexcept;  ///< mean of the F1 of all classes
    /// Mean recall of the classes that have samples: as scikit-learn's balanced_accuracy_score. 1 / classes is chance, whatever their sizes.
    double balanced_accuracy() const noexcept;
    std::vector<std::int64_t> supports() const;  ///< samples of each class
    double majority() const noexcept;            ///< share of the largest class: what always naming it scores
    /// Classes that have samples, and that no sample was taken for.
    std::vector<std::int64_t> never_predicted() const;
    calibration_bin calibration(int bin) const noexcept;
    /// Expected calibration error over the bins: sum of |accuracy - confidence| weighted by samples.
    double calibration_error() const noexcept;

private:
    std::int64_t classes_ = 0, samples_ = 0, correct_ = 0, correct_k_ = 0, not_finite_ = 0;
    int top_k_ = 5;
    exact_sum loss_;
    std::vector<std::int64_t> confusion_;  // [true, predicted]
    std::int64_t bin_samples_[bins] = {}, bin_correct_[bins] = {};
    exact_sum bin_confidence_[bins];
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>
#include <limits>
#include <string>
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE void exact_sum::add(double value) noexcept {
    if (!(std::fabs(value) < 4503599627370496.0)) {
        infinite_ = true;
        return;
    }
    const double whole = std::floor(value);
    whole_ += static_cast<std::int64_t>(whole);
    part_ += static_cast<std::int64_t>(std::nearbyint((value - whole) * 68719476736.0));
    whole_ += part_ >> 36;
    part_ &= (std::int64_t(1) << 36) - 1;
}
GRAFT_INLINE void exact_sum::add(const exact_sum& other) noexcept {
    infinite_ |= other.infinite_;
    whole_ += other.whole_;
    part_ += other.part_;
    whole_ += part_ >> 36;
    part_ &= (std::int64_t(1) << 36) - 1;
}
GRAFT_INLINE double exact_sum::value() const noexcept {
    if (infinite_) return std::numeric_limits<double>::infinity();
    return static_cast<double>(whole_) + static_cast<double>(part_) / 68719476736.0;
}

GRAFT_INLINE sample_score score_sample(const float* logits, std::int64_t classes, std::int64_t label) noexcept {
    sample_score s;
    for (std::int64_t c = 0; c < classes; ++c) {
        s.finite &= std::isfinite(logits[c]);
        if (logits[c] > logits[s.predicted] || std::isnan(logits[s.predicted])) s.predicted = c;
        s.rank += logits[c] > logits[label] || (logits[c] == logits[label] && c < label);
    }
    if (!s.finite) {
        s.rank = classes;
        s.loss = std::numeric_limits<double>::infinity();
        return s;
    }
    double sum = 0;
    const double most = logits[s.predicted];
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c] - most);
    s.probability = 1 / sum;
    s.loss = std::log(sum) - (logits[label] - most);
    return s;
}

namespace detail {
inline status check_label(std::int64_t label, std::int64_t classes) {
    if (label >= 0 && label < classes) return {};
    return fail(errc::data_label_range, "label " + std::to_string(label), "it must be 0 to " + std::to_string(classes - 1) + ", one of the classes");
}
}  // namespace detail

GRAFT_INLINE result<classification_metrics> classification_metrics::make(std::int64_t classes, int top_k) GRAFT_MEMORY_TRY {
    if (classes < 1 || top_k < 1) return fail(errc::usage, "metrics", "there must be a class, and k must be at least 1");
    if (classes > 16384)
        return fail(errc::memory_budget, "metrics", "a confusion matrix of " + std::to_string(classes) + " classes is over the limit of 16384");
    classification_metrics made;
    made.classes_ = classes;
    made.top_k_ = top_k;
    made.confusion_.assign(static_cast<std::size_t>(classes * classes), 0);
    return made;
}
GRAFT_MEMORY_CATCH("classification_metrics::make")

GRAFT_INLINE status classification_metrics::add(const tensor& logits, const tensor& labels) GRAFT_MEMORY_TRY {
    if (logits.type() != dtype::float32 || labels.type() != dtype::int64) return fail(errc::input_dtype, "metrics", "logits must be float32 and labels int64");
    if (logits.shape().rank() != 2 || logits.shape()[1] != classes_ || labels.shape().rank() != 1 || labels.shape()[0] != logits.shape()[0])
        return fail(errc::input_shape, "metrics",
                    "logits " + text(logits.shape()) + " and labels " + text(labels.shape()) + " are not [n, " + std::to_string(classes_) + "] and [n]");
    return add(logits.data<float>(), labels.data<std::int64_t>(), logits.shape()[0]);
}
GRAFT_MEMORY_CATCH("classification_metrics::add")

GRAFT_INLINE status classification_metrics::add(const float* logits, const std::int64_t* labels, std::int64_t n) GRAFT_MEMORY_TRY {
    for (std::int64_t i = 0; i < n; ++i) GRAFT_TRY(detail::check_label(labels[i], classes_));
    for (std::int64_t i = 0; i < n; ++i) GRAFT_TRY(add(score_sample(logits + i * classes_, classes_, labels[i]), labels[i]));
    return {};
}
GRAFT_MEMORY_CATCH("classification_metrics::add")

GRAFT_INLINE status classification_metrics::add(const sample_score& s, std::int64_t label) GRAFT_MEMORY_TRY {
    GRAFT_TRY(detail::check_label(label, classes_));
    GRAFT_TRY(detail::check_label(s.predicted, classes_));
    const bool right = s.rank == 0;
    ++samples_;
    correct_ += right;
    correct_k_ += s.rank < top_k_ && s.finite;
    not_finite_ += !s.finite;
    loss_.add(s.loss);
    ++confusion_[static_cast<std::size_t>(label * classes_ + s.predicted)];
    const int bin = static_cast<int>(std::ceil(s.probability * bins)) - 1;
    const int at = bin < 0 ? 0 : bin >= bins ? bins - 1 : bin;
    ++bin_samples_[at];
    bin_correct_[at] += right;
    bin_confidence_[at].add(s.probability);
    return {};
}
GRAFT_MEMORY_CATCH("classification_metrics::add")

GRAFT_INLINE status classification_metrics::merge(const classification_metrics& other) GRAFT_MEMORY_TRY {
    if (other.classes_ != classes_ || other.top_k_ != top_k_)
        return fail(errc::usage, "metrics", "only metrics of the same classes and the same k can be merged");
    samples_ += other.samples_;
    correct_ += other.correct_;
    correct_k_ += other.correct_k_;
    not_finite_ += other.not_finite_;
    loss_.add(other.loss_);
    for (std::size_t i = 0; i < confusion_.size(); ++i) confusion_[i] += other.confusion_[i];
    for (int b = 0; b < bins; ++b) {
        bin_samples_[b] += other.bin_samples_[b];
        bin_correct_[b] += other.bin_correct_[b];
        bin_confidence_[b].add(other.bin_confidence_[b]);
    }
    return {};
}
GRAFT_MEMORY_CATCH("classification_metrics::merge")

namespace detail {
inline double metrics_ratio(double part, std::int64_t of) noexcept { return of ? part / static_cast<double>(of) : 0; }
}  // namespace detail

GRAFT_INLINE double classification_metrics::loss() const noexcept { return detail::metrics_ratio(loss_.value(), samples_); }
GRAFT_INLINE double classification_metrics::top1() const noexcept { return detail::metrics_ratio(static_cast<double>(correct_), samples_); }
GRAFT_INLINE double classification_metrics::top_k() const noexcept { return detail::metrics_ratio(static_cast<double>(correct_k_), samples_); }
GRAFT_INLINE std::int64_t classification_metrics::confusion(std::int64_t truth, std::int64_t predicted) const noexcept {
    if (truth < 0 || predicted < 0 || truth >= classes_ || predicted >= classes_) return 0;
    return confusion_[static_cast<std::size_t>(truth * classes_ + predicted)];
}

GRAFT_INLINE class_score classification_metrics::score(std::int64_t label) const noexcept {
    class_score s;
    for (std::int64_t c = 0; c < classes_; ++c) {
        s.support += confusion(label, c);
        s.predicted += confusion(c, label);
    }
    s.correct = confusion(label, label);
    s.precision = detail::metrics_ratio(static_cast<double>(s.correct), s.predicted);
    s.recall = detail::metrics_ratio(static_cast<double>(s.correct), s.support);
    s.f1 = detail::metrics_ratio(2 * static_cast<double>(s.correct), s.support + s.predicted);
    return s;
}

GRAFT_INLINE double classification_metrics::macro_f1() const noexcept {
    double sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) sum += score(c).f1;
    return detail::metrics_ratio(sum, classes_);
}

GRAFT_INLINE std::vector<std::int64_t> classification_metrics::supports() const {
    std::vector<std::int64_t> out(static_cast<std::size_t>(classes_));
    for (std::int64_t t = 0; t < classes_; ++t)
        for (std::int64_t p = 0; p < classes_; ++p) out[static_cast<std::size_t>(t)] += confusion(t, p);
    return out;
}

GRAFT_INLINE double classification_metrics::balanced_accuracy() const noexcept {
    double sum = 0;
    std::int64_t present = 0;
    for (std::int64_t t = 0; t < classes_; ++t) {
        std::int64_t support = 0;
        for (std::int64_t p = 0; p < classes_; ++p) support += confusion(t, p);
        present += support > 0;
        sum += detail::metrics_ratio(static_cast<double>(confusion(t, t)), support);
    }
    return detail::metrics_ratio(sum, present);
}

GRAFT_INLINE double classification_metrics::majority() const noexcept {
    std::int64_t most = 0;
    for (std::int64_t t = 0; t < classes_; ++t) {
        std::int64_t support = 0;
        for (std::int64_t p = 0; p < classes_; ++p) support += confusion(t, p);
        most = support > most ? support : most;
    }
    return detail::metrics_ratio(static_cast<double>(most), samples_);
}

GRAFT_INLINE std::vector<std::int64_t> classification_metrics::never_predicted() const {
    const std::vector<std::int64_t> support = supports();
    std::vector<std::int64_t> predicted(support.size()), out;
    for (std::int64_t t = 0; t < classes_; ++t)
        for (std::int64_t p = 0; p < classes_; ++p) predicted[static_cast<std::size_t>(p)] += confusion(t, p);
    for (std::size_t c = 0; c < support.size(); ++c)
        if (support[c] && !predicted[c]) out.push_back(static_cast<std::int64_t>(c));
    return out;
}

GRAFT_INLINE calibration_bin classification_metrics::calibration(int bin) const noexcept {
    calibration_bin b;
    b.low = static_cast<double>(bin) / bins;
    b.high = static_cast<double>(bin + 1) / bins;
    b.samples = bin_samples_[bin];
    b.correct = bin_correct_[bin];
    b.confidence = detail::metrics_ratio(bin_confidence_[bin].value(), b.samples);
    b.accuracy = detail::metrics_ratio(static_cast<double>(b.correct), b.samples);
    return b;
}

GRAFT_INLINE double classification_metrics::calibration_error() const noexcept {
    double sum = 0;
    for (int i = 0; i < bins; ++i) {
        const calibration_bin b = calibration(i);
        sum += std::fabs(b.accuracy - b.confidence) * static_cast<double>(b.samples);
    }
    return detail::metrics_ratio(sum, samples_);
}

GRAFT_END_NAMESPACE
#endif
