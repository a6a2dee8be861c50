// What values a tensor takes over many runs, and the range of them that eight bits should stand for.
#pragma once

#include "../core/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// How a range is chosen from what was seen: all of it; what lies between two percentiles; where the quantised distribution is nearest to the true one
/// by Kullback-Leibler divergence (Migacz, "8-bit inference with TensorRT", 2017).
enum class calibration_method { minmax, percentile, entropy };

/// The numbers that the integers 0 to 255 stand for at their ends. `low > high`: nothing was seen.
struct value_range {
    float low = 1, high = 0;
    bool known() const noexcept { return low <= high; }
};

/// Scale and zero point of uint8 for a range: x = scale * (q - zero_point). Zero is always one of the numbers; a range of zero alone has scale 1.
struct quantization_scale {
    float scale = 1;
    std::uint8_t zero_point = 0;
    static quantization_scale of(value_range range) noexcept;
};

/// Sees values and keeps their extremes and, where the method asks for it, a histogram of 2048 bins, symmetric around zero, that grows by doubling.
class range_observer {
public:
    /// `percentile`: in percent, the share of the values that a range by percentile keeps; half of the rest is cut at each end.
    explicit range_observer(calibration_method method = calibration_method::minmax, double percentile = 99.99) : method_(method), percentile_(percentile) {}
    /// Looks at `count` values; `name` stands in the error. Errors: quantize.range (one is not finite).
    status observe(const float* values, std::int64_t count, const std::string& name);
    /// The range of all that was seen; not `known` where that is nothing.
    value_range range() const;

    static constexpr int bins = 2048;             ///< of the histogram
    static constexpr int quantized_levels = 256;  ///< that entropy compares a clipped distribution in

private:
    value_range by_percentile() const;
    value_range by_entropy() const;
    float edge(int bin) const noexcept { return static_cast<float>(limit_ * (2.0 * bin / bins - 1)); }
    value_range within_seen(int first, int end) const noexcept;
    double squared_error(const std::vector<std::int64_t>& counts, value_range range) const noexcept;

    calibration_method method_;
    double percentile_;
    value_range seen_;
    double limit_ = 0;  // the histogram is of [-limit_, limit_]
    std::vector<std::int64_t> histogram_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cmath>
#include <limits>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Empty bins get a little of what the others have, so that the divergence is finite. False where all are empty.
inline bool smooth(std::vector<double>& p) {
    constexpr double little = 0.0001;
    const auto zeros = static_cast<double>(std::count(p.begin(), p.end(), 0.0)), others = static_cast<double>(p.size()) - zeros;
    if (others == 0) return false;
    for (double& x : p) x += x == 0 ? little : -little * zeros / others;
    return true;
}
inline double divergence_of(std::vector<double> p, std::vector<double> q) {
    if (!smooth(p) || !smooth(q)) return std::numeric_limits<double>::infinity();
    double sum_p = 0, sum_q = 0, d = 0;
    for (std::size_t i = 0; i < p.size(); ++i) sum_p += p[i], sum_q += q[i];
    for (std::size_t i = 0; i < p.size(); ++i) {
        if (p[i] <= 0) continue;
        if (q[i] <= 0) return std::numeric_limits<double>::infinity();
        d += p[i] / sum_p * std::log(p[i] / sum_p / (q[i] / sum_q));
    }
    return d;
}

}  // namespace detail

GRAFT_INLINE quantization_scale quantization_scale::of(value_range range) noexcept {
    quantization_scale made;
    const double low = std::min(0.0f, range.low), high = std::max(0.0f, range.high), scale = (high - low) / 255;
    if (!range.known() || scale < static_cast<double>(std::numeric_limits<float>::min())) return made;
    made.scale = static_cast<float>(scale);
    made.zero_point = static_cast<std::uint8_t>(std::min(255.0, std::max(0.0, std::nearbyint(-low / scale))));
    return made;
}

GRAFT_INLINE status range_observer::observe(const float* values, std::int64_t count, const std::string& name) GRAFT_MEMORY_TRY {
    for (std::int64_t i = 0; i < count; ++i) {
        const float x = values[i];
        if (!std::isfinite(x)) return fail(errc::quantize_range, name, "it takes a value that is infinite or not a number, which no range can hold");
        if (!seen_.known()) seen_ = {x, x};
        seen_.low = std::min(seen_.low, x);
        seen_.high = std::max(seen_.high, x);
    }
    if (method_ == calibration_method::minmax || !seen_.known()) return {};
    const double needed = std::max(std::fabs(static_cast<double>(seen_.low)), std::fabs(static_cast<double>(seen_.high)));
    if (histogram_.empty()) histogram_.assign(bins, 0);
    if (needed > 0 && limit_ == 0) {
        // All that was there before is zero, which lies in the middle whatever the limit.
        limit_ = needed;
    }
    while (limit_ < needed) {
        std::vector<std::int64_t> wider(bins, 0);
        for (int i = 0; i < bins; ++i) wider[static_cast<std::size_t>(bins / 4 + i / 2)] += histogram_[static_cast<std::size_t>(i)];
        histogram_ = std::move(wider);
        limit_ *= 2;
    }
    const double each = limit_ > 0 ? bins / (2 * limit_) : 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const int bin = static_cast<int>((static_cast<double>(values[i]) + limit_) * each);
        ++histogram_[static_cast<std::size_t>(limit_ > 0 ? std::min(bin, bins - 1) : bins / 2)];
    }
    return {};
}
GRAFT_MEMORY_CATCH("range_observer")

GRAFT_INLINE value_range range_observer::within_seen(int first, int end) const noexcept {
    return {std::max(edge(first), seen_.low), std::min(edge(end), seen_.high)};
}
GRAFT_INLINE value_range range_observer::range() const {
    if (!seen_.known() || limit_ == 0 || method_ == calibration_method::minmax) return seen_;
    return method_ == calibration_method::percentile ? by_percentile() : by_entropy();
}

// What rounding to 255 steps, a twelfth of a step's square each, and cutting make of the counted values.
GRAFT_INLINE double range_observer::squared_error(const std::vector<std::int64_t>& counts, value_range range) const noexcept {
    const double low = static_cast<double>(std::min(0.0f, range.low)), high = static_cast<double>(std::max(0.0f, range.high));
    const double rounding = (high - low) * (high - low) / (255.0 * 255.0 * 12.0);
    double sum = 0;
    for (int i = 0; i < bins; ++i) {
        const double x = limit_ * ((2.0 * i + 1) / bins - 1), cut = std::max(0.0, std::max(low - x, x - high));
        sum += static_cast<double>(counts[static_cast<std::size_t>(i)]) * (cut > 0 ? cut * cut : rounding);
    }
    return sum;
}

GRAFT_INLINE value_range range_observer::by_percentile() const {
    double all = 0, so_far = 0;
    for (std::int64_t n : histogram_) all += static_cast<double>(n);
    const double cut = (1 - percentile_ / 100) / 2 * all;
    int first = -1, last = -1;
    for (int i = 0; i < bins; ++i) {
        so_far += static_cast<double>(histogram_[static_cast<std::size_t>(i)]);
        if (first < 0 && so_far >= cut && so_far > 0) first = i;
        if (last < 0 && so_far >= all - cut) last = i;
    }
    return within_seen(std::max(first, 0), (last < 0 ? bins - 1 : last) + 1);
}

// As ONNX Runtime's calibrator has it (get_entropy_threshold): the clipped distribution, its outliers at its ends, against what a few levels leave of it.
// Zeros are counted like their neighbours: they are exact in every range, and as they are most of what Relu makes, the levels would be as fine as they can
// around them, whatever is cut. Only such ranges count as make the squared error no larger than that of all that was seen: the divergence has minima where
// a level is one bin, however much is cut there.
GRAFT_INLINE value_range range_observer::by_entropy() const {
    constexpr int middle = bins / 2;
    double best = std::numeric_limits<double>::infinity();
    value_range found = seen_;
    std::vector<std::int64_t> counts = histogram_;
    counts[middle] = std::min(counts[middle], std::max(counts[middle - 1], counts[middle + 1]));
    std::vector<double> outliers(bins + 1, 0);
    for (int i = 0; i < bins; ++i)
        outliers[static_cast<std::size_t>(i) + 1] = outliers[static_cast<std::size_t>(i)] + static_cast<double>(counts[static_cast<std::size_t>(i)]);
    const double all = outliers[bins], most = squared_error(counts, seen_);
    std::vector<double> p, q;
    for (int half = quantized_levels / 2; half <= middle; ++half) {
        const int first = middle - half, end = std::min(middle + half + 1, bins), size = end - first, merged = size / quantized_levels;
        if (squared_error(counts, within_seen(first, end)) > most) continue;
        p.assign(static_cast<std::size_t>(size), 0);
        q.assign(static_cast<std::size_t>(size), 0);
        for (int i = 0; i < size; ++i) p[static_cast<std::size_t>(i)] = static_cast<double>(counts[static_cast<std::size_t>(first + i)]);
        p.front() += outliers[static_cast<std::size_t>(first)];
        p.back() += all - outliers[static_cast<std::size_t>(end)];
        for (int level = 0; level < quantized_levels; ++level) {
            const int from = level * merged, to = from + merged, last = level + 1 == quantized_levels ? size : to;
            const double inside = outliers[static_cast<std::size_t>(first + last)] - outliers[static_cast<std::size_t>(first + from)];
            int filled = 0;
            for (int i = from; i < to; ++i) filled += p[static_cast<std::size_t>(i)] != 0;
            for (int i = from; filled && i < to; ++i) q[static_cast<std::size_t>(i)] = std::floor(inside / filled);
        }
        const double d = detail::divergence_of(p, q);
        if (d < best) {
            best = d;
            found = within_seen(first, end);
        }
    }
    return found;
}

GRAFT_END_NAMESPACE
#endif
