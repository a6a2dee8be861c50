// The comparison that most tests of numbers share.
#pragma once

#include <graft/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>

/// The larger of two errors, of which NaN is the largest there is: std::max and std::fmax would drop it.
inline double larger_error(double worst, double error) { return std::isnan(error) ? HUGE_VAL : std::max(worst, error); }

/// Largest difference over the range of what is wanted; infinite where types, shapes or NaNs disagree.
inline double difference(const graft::tensor& got, const graft::tensor& want) {
    if (got.type() != want.type() || got.shape() != want.shape()) return HUGE_VAL;
    double worst = 0, largest = 1e-3;
    for (std::int64_t i = 0; i < want.elements(); ++i) {
        const double w = graft::element_as_double(want.type(), want.raw(), i), g = graft::element_as_double(got.type(), got.raw(), i);
        if (w == g || (std::isnan(w) && std::isnan(g))) continue;
        if (!std::isfinite(w) || !std::isfinite(g)) return HUGE_VAL;
        largest = std::max(largest, std::fabs(w));
        worst = std::max(worst, std::fabs(w - g));
    }
    return worst / largest;
}
