// MixUp and CutMix against torchvision, and the Beta distribution against its moments.
#include "golden_augment.hpp"

#include <graft/data/mix.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace graft;

namespace {

// The values that scripts/golden/augment.py mixes: sine of 0.37 i, (3, 2, 4, 5).
tensor waves() {
    std::vector<float> values;
    for (int i = 0; i < 120; ++i) values.push_back(std::sin(static_cast<float>(i) * 0.37f));
    return tensor::from(values.data(), {3, 2, 4, 5}).value();
}

tensor to_nhwc(const tensor& x) {
    const shape& e = x.shape();
    tensor out = tensor::make(dtype::float32, {e[0], e[2], e[3], e[1]}).value();
    for (std::int64_t i = 0; i < x.elements(); ++i) {
        const std::int64_t pixels = e[2] * e[3], n = i / (e[1] * pixels), c = i / pixels % e[1], p = i % pixels;
        out.data<float>()[(n * pixels + p) * e[1] + c] = x.data<float>()[i];
    }
    return out;
}

}  // namespace

TEST_CASE("mixup and cutmix give torchvision's batches, in both layouts") {
    mix_plan mixup, cutmix;
    mixup.kind = mix_plan::way::mixup;
    mixup.lambda = 0.3;
    cutmix.kind = mix_plan::way::cutmix;
    cutmix.box = {2, 1, 2, 3};
    for (const mix_plan& plan : {mixup, cutmix}) {
        const float* golden = plan.kind == mix_plan::way::mixup ? golden_mixup : golden_cutmix;
        tensor planar = waves(), interleaved = to_nhwc(waves());
        REQUIRE(mix(planar, plan, true).ok());
        REQUIRE(mix(interleaved, plan, false).ok());
        const tensor same = to_nhwc(planar);
        for (int i = 0; i < 120; ++i) {
            CHECK(planar.data<float>()[i] == doctest::Approx(golden[i]).epsilon(1e-6));
            CHECK(same.data<float>()[i] == interleaved.data<float>()[i]);
        }
    }
}

TEST_CASE("a batch of one is mixed with itself, and none leaves everything") {
    mix_plan plan;
    plan.kind = mix_plan::way::cutmix;
    plan.box = {0, 0, 2, 2};
    tensor one = tensor(dtype::float32, {1, 2, 4, 5}, waves().storage());
    REQUIRE(mix(one, plan, true).ok());
    for (int i = 0; i < 40; ++i) CHECK(one.data<float>()[i] == waves().data<float>()[i]);
    plan.kind = mix_plan::way::none;
    tensor bytes = tensor::zeros(dtype::uint8, {2, 1, 2, 2}).value();
    CHECK(mix(bytes, plan, true).ok());
    plan.kind = mix_plan::way::mixup;
    CHECK(mix(bytes, plan, true).error().code() == errc::input_dtype);
    tensor flat = tensor::zeros(dtype::float32, {2, 2}).value();
    CHECK(mix(flat, plan, true).error().code() == errc::input_shape);
}

TEST_CASE("Beta numbers have the mean and the variance of Beta") {
    for (const double alpha : {0.1, 0.2, 0.4, 1.0, 3.0}) {
        double sum = 0, squares = 0;
        const int n = 40000;
        for (int i = 0; i < n; ++i) {
            random_sequence random(data_stream(11, random_purpose::batch, 0, i));
            const double x = random_beta(alpha, alpha, random);
            REQUIRE((x >= 0 && x <= 1));
            sum += x, squares += x * x;
        }
        const double mean = sum / n, variance = squares / n - mean * mean, expected = 1 / (4 * (2 * alpha + 1));
        INFO(alpha);
        CHECK(std::fabs(mean - 0.5) < 5 * std::sqrt(expected / n));
        CHECK(variance == doctest::Approx(expected).epsilon(0.03));
    }
    random_sequence random(data_stream(11, random_purpose::batch, 1, 0));
    const double tiny = random_beta(1e-12, 1e-12, random);
    CHECK((tiny >= 0 && tiny <= 1));
}

TEST_CASE("cutmix draws boxes as torchvision does") {
    for (const golden_draw& golden : golden_draws) {
        if (std::string(golden.kind) != "cutmix") continue;
        augmentation a;
        a.cutmix = golden.parameters[2];
        const auto height = static_cast<std::int64_t>(golden.parameters[0]), width = static_cast<std::int64_t>(golden.parameters[1]);
        double sums[3] = {};
        const int n = 30000;
        for (int i = 0; i < n; ++i) {
            random_sequence random(data_stream(12, random_purpose::batch, 0, i));
            const mix_plan plan = draw_mix(a, height, width, random);
            REQUIRE(plan.kind == mix_plan::way::cutmix);
            REQUIRE((plan.box.top >= 0 && plan.box.left >= 0 && plan.box.height >= 0 && plan.box.width >= 0));
            REQUIRE((plan.box.top + plan.box.height <= height && plan.box.left + plan.box.width <= width));
            sums[0] += plan.lambda, sums[1] += double(plan.box.left), sums[2] += double(plan.box.top);
        }
        for (int k = 0; k < 3; ++k) {
            INFO(k);
            CHECK(std::fabs(sums[k] / n - golden.moments[k][0]) < 5 * std::sqrt(2.0) * golden.moments[k][2]);
        }
    }
}

TEST_CASE("with both asked for, half of the batches are mixed either way") {
    augmentation a;
    CHECK([&] {
        random_sequence r(data_stream(1, random_purpose::batch, 0, 0));
        return draw_mix(a, 8, 8, r).kind;
    }() == mix_plan::way::none);
    a.mixup = 0.2;
    a.cutmix = 1;
    int mixups = 0;
    for (int i = 0; i < 2000; ++i) {
        random_sequence random(data_stream(1, random_purpose::batch, 0, i));
        mixups += draw_mix(a, 8, 8, random).kind == mix_plan::way::mixup;
    }
    CHECK(std::abs(mixups - 1000) < 120);
}
