// Metrics: against scikit-learn and torch, over any cutting into batches; ties, ragged batches and logits that are not finite.
#include <doctest/doctest.h>
#include <graft/train/metrics.hpp>

#include "golden_metrics.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

struct samples {
    std::vector<float> logits;
    std::vector<std::int64_t> labels;
};

// As scripts/record_metrics.py makes them.
samples numbers(int n, int classes) {
    std::uint64_t state = 12345;
    const auto next = [&state] {
        state = (state * 1103515245 + 12345) % (std::uint64_t(1) << 31);
        return static_cast<std::int64_t>(state >> 16);
    };
    samples s;
    for (int i = 0; i < n * classes; ++i) s.logits.push_back(static_cast<float>(next() % 64 - 32) / 8);
    for (int i = 0; i < n; ++i) s.labels.push_back(next() % classes);
    for (int i = 0; i < n; i += 2) s.logits[static_cast<std::size_t>(i * classes + s.labels[static_cast<std::size_t>(i)])] += 3;
    return s;
}

graft::classification_metrics in_batches(const samples& s, int classes, int batch) {
    graft::classification_metrics m = graft::classification_metrics::make(classes).value();
    const int n = static_cast<int>(s.labels.size());
    for (int i = 0; i < n; i += batch) {
        const int rows = n - i < batch ? n - i : batch;
        REQUIRE(m.add(s.logits.data() + i * classes, s.labels.data() + i, rows).ok());
    }
    return m;
}

}  // namespace

TEST_CASE("Metrics are those of scikit-learn and torch") {
    for (const golden_metrics& golden : golden_metrics_all()) {
        CAPTURE(golden.samples);
        const int c = golden.classes;
        const auto m = in_batches(numbers(golden.samples, c), c, 16);
        const double* want = golden.reals.data();
        CHECK(m.samples() == golden.samples);
        CHECK(m.loss() == doctest::Approx(want[0]).epsilon(1e-9));
        CHECK(m.top1() == doctest::Approx(want[1]).epsilon(1e-12));
        CHECK(m.top_k() == doctest::Approx(want[2]).epsilon(1e-12));
        CHECK(m.calibration_error() == doctest::Approx(want[3]).epsilon(1e-9));
        CHECK(m.macro_f1() == doctest::Approx(want[4]).epsilon(1e-12));
        CHECK(m.balanced_accuracy() == doctest::Approx(want[5 + 3 * c]).epsilon(1e-12));
        for (int i = 0; i < c; ++i) {
            const graft::class_score s = m.score(i);
            CHECK(s.precision == doctest::Approx(want[5 + i]).epsilon(1e-12));
            CHECK(s.recall == doctest::Approx(want[5 + c + i]).epsilon(1e-12));
            CHECK(s.f1 == doctest::Approx(want[5 + 2 * c + i]).epsilon(1e-12));
            CHECK(s.support == golden.counts[static_cast<std::size_t>(i)]);
            CHECK(m.supports()[static_cast<std::size_t>(i)] == s.support);
            for (int k = 0; k < c; ++k) CHECK(m.confusion(i, k) == golden.counts[static_cast<std::size_t>(c + i * c + k)]);
        }
    }
}

TEST_CASE("Metrics do not depend on how samples are cut into batches, on their order, or on who gathered them") {
    const samples s = numbers(101, 6);
    const auto whole = in_batches(s, 6, 101);
    for (const int batch : {1, 7, 32, 100}) {
        const auto m = in_batches(s, 6, batch);
        CHECK(m.loss() == whole.loss());
        CHECK(m.calibration_error() == whole.calibration_error());
        CHECK(m.correct_in_top_k() == whole.correct_in_top_k());
    }
    auto first = graft::classification_metrics::make(6).value(), second = graft::classification_metrics::make(6).value();
    for (int i = 100; i >= 0; --i) REQUIRE((i % 3 ? first : second).add(s.logits.data() + i * 6, s.labels.data() + i, 1).ok());
    REQUIRE(first.merge(second).ok());
    CHECK(first.loss() == whole.loss());
    CHECK(first.calibration_error() == whole.calibration_error());
    CHECK(first.correct() == whole.correct());
    for (int i = 0; i < 6; ++i)
        for (int k = 0; k < 6; ++k) CHECK(first.confusion(i, k) == whole.confusion(i, k));
    CHECK(!first.merge(graft::classification_metrics::make(5).value()).ok());
}

TEST_CASE("Uneven classes: the majority's share, and the classes that are never predicted") {
    graft::classification_metrics m = graft::classification_metrics::make(4).value();
    const float first[4] = {3, 1, 0, 0}, second[4] = {0, 2, 0, 0};
    const std::int64_t zero = 0, one = 1, two = 2;
    for (int i = 0; i < 12; ++i) REQUIRE(m.add(first, &zero, 1).ok());
    REQUIRE(m.add(first, &two, 1).ok());
    CHECK(m.top1() == doctest::Approx(12.0 / 13));
    CHECK(m.majority() == doctest::Approx(12.0 / 13));
    CHECK(m.balanced_accuracy() == doctest::Approx(0.5));  // of the two classes that have samples
    CHECK(m.never_predicted() == std::vector<std::int64_t>{2});
    REQUIRE(m.add(second, &one, 1).ok());
    CHECK(m.never_predicted() == std::vector<std::int64_t>{2});
    CHECK(m.balanced_accuracy() == doctest::Approx(2.0 / 3));
    CHECK(graft::classification_metrics().balanced_accuracy() == 0);
    CHECK(graft::classification_metrics().majority() == 0);
}

TEST_CASE("Of equal logits the lower index comes first") {
    const float equal[] = {1, 1, 1, 1};
    for (int label = 0; label < 4; ++label) {
        const graft::sample_score s = graft::score_sample(equal, 4, label);
        CHECK(s.predicted == 0);
        CHECK(s.rank == label);
        CHECK(s.probability == 0.25);
        CHECK(s.loss == doctest::Approx(std::log(4.0)));
    }
}

TEST_CASE("A logit that is not finite makes its sample wrong, and the loss infinite") {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    const float logits[] = {nan, 1, 0, inf, 0, 0, 5, 0, 0};
    const std::int64_t labels[] = {0, 0, 0};
    auto m = graft::classification_metrics::make(3, 1).value();
    REQUIRE(m.add(logits, labels, 3).ok());
    CHECK(m.correct() == 1);
    CHECK(m.correct_in_top_k() == 1);
    CHECK(m.not_finite() == 2);
    CHECK(m.confusion(0, 1) == 1);
    CHECK(std::isinf(m.loss()));
}

TEST_CASE("Metrics refuse labels outside of the classes, shapes that do not fit, and adds nothing then") {
    auto m = graft::classification_metrics::make(3).value();
    const float logits[] = {1, 2, 3, 4, 5, 6};
    const std::int64_t labels[] = {0, 3};
    const graft::status wrong = m.add(logits, labels, 2);
    REQUIRE(!wrong.ok());
    CHECK(wrong.error().code() == graft::errc::data_label_range);
    CHECK(m.samples() == 0);
    const graft::tensor x = graft::tensor::borrow(logits, {2, 3}), y = graft::tensor::borrow(labels, {2});
    CHECK(m.add(x.reshaped({3, 2}), y).error().code() == graft::errc::input_shape);
    CHECK(m.add(y, y).error().code() == graft::errc::input_dtype);
    CHECK(m.add(x, y).error().code() == graft::errc::data_label_range);
    CHECK(graft::classification_metrics::make(0).error().code() == graft::errc::usage);
    CHECK(graft::classification_metrics::make(1 << 20).error().code() == graft::errc::memory_budget);
    CHECK(m.loss() == 0);
    CHECK(m.top1() == 0);
    CHECK(m.calibration_error() == 0);
}
