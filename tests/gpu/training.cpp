// Training steps through the back end for NVIDIA GPUs, on the CUDA simulator.
#include "simulated_backend.hpp"

#include "../cuda_simulator/simulated.hpp"
#include "../train/small_steps.hpp"

#include <cstring>

namespace {

using small_steps::trained;

std::vector<float> numbers_of(trained& t) {
    REQUIRE(t.step.read_state().ok());
    std::vector<float> all;
    for (const graft::training_state& s : t.step.state()) all.insert(all.end(), s.value.data<float>(), s.value.data<float>() + s.value.elements());
    return all;
}

// The length of the difference by the length of what is wanted.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
    REQUIRE(got.size() == want.size());
    double apart = 0, length = 1e-12;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
        apart += d * d;
        length += static_cast<double>(want[i]) * static_cast<double>(want[i]);
    }
    return std::sqrt(apart / length);
}

graft::step_options with(graft::optimizer_kind kind, std::shared_ptr<graft::device> on) {
    graft::step_options o;
    o.optimizer.kind = kind;
    o.optimizer.momentum = 0.9;
    o.optimizer.ema_decay = 0.9;
    o.loss.label_smoothing = 0.1;
    o.on = std::move(on);
    return o;
}

}  // namespace

TEST_CASE("training steps on the CUDA simulator learn what the CPU learns") {
    for (const char* name : {"lenet", "resnet20"}) {
        const graft::graph g = small_steps::architecture(name, std::string(name) == "lenet" ? 0 : 16);
        for (const graft::optimizer_kind kind : {graft::optimizer_kind::sgd, graft::optimizer_kind::adamw}) {
            CAPTURE(name);
            trained host(g, with(kind, nullptr)), device(g, with(kind, simulated::exact_device()));
            for (std::int64_t i = 0; i < 4; ++i) {
                const std::int64_t n = i == 3 ? 3 : 4;  // the last batch is smaller: another plan over the same state
                REQUIRE(host.run(i, n));
                const bool ran = device.run(i, n);
                REQUIRE_MESSAGE(ran, device.error());
                CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(2e-3));
                CHECK(difference(device.step.logits(), host.step.logits()) <= 5e-3);
            }
            CHECK(distance(numbers_of(device), numbers_of(host)) <= (kind == graft::optimizer_kind::sgd ? 1e-3 : 2e-2));
        }
    }
}

TEST_CASE("batches that are brought to the CUDA simulator ahead of their step change nothing") {
    const graft::graph g = small_steps::architecture("lenet");
    const graft::step_options options = with(graft::optimizer_kind::sgd, simulated::exact_device());
    trained plain(g, options), ahead(g, options);
    const std::int64_t sizes[] = {4, 4, 4, 3, 4, 4};
    std::vector<graft::tensor> batches;
    for (std::int64_t i = 0; i < 6; ++i) batches.push_back(small_steps::numbered(300 + static_cast<std::uint64_t>(i), plain.batch_shape(sizes[i])));
    const long problems = simulated::count("problems");
    for (std::size_t i = 0; i < batches.size(); ++i) {
        const std::int64_t step = static_cast<std::int64_t>(i);
        REQUIRE(plain.run(step, batches[i], 1, 0.01));
        // What was told of the fifth is not what comes; of the fourth, which is smaller, nothing can be brought.
        const graft::tensor* next = i + 1 == batches.size() ? nullptr : i == 3 ? &batches[0] : &batches[i + 1];
        const bool ran = ahead.run(step, batches[i], 1, 0.01, next);
        REQUIRE_MESSAGE(ran, ahead.error());
        CHECK(ahead.step.loss() == plain.step.loss());
    }
    REQUIRE(plain.step.read_state().ok());
    REQUIRE(ahead.step.read_state().ok());
    CHECK(plain.bits() == ahead.bits());
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == problems, report);
}

TEST_CASE("a batch taken in parts on the CUDA simulator learns what it learns whole on the CPU") {
    const graft::graph g = small_steps::architecture("lenet");
    graft::step_options parts = with(graft::optimizer_kind::sgd, simulated::exact_device());
    parts.micro_batches = 2;
    trained host(g, with(graft::optimizer_kind::sgd, nullptr)), device(g, parts);
    for (std::int64_t i = 0; i < 3; ++i) {
        REQUIRE(host.run(i, 4));
        const bool ran = device.run(i, 4);
        REQUIRE_MESSAGE(ran, device.error());
        CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(2e-3));
    }
    CHECK(distance(numbers_of(device), numbers_of(host)) <= 1e-3);
}

TEST_CASE("state that the host writes is what the next step on the CUDA simulator learns from") {
    const graft::graph g = small_steps::architecture("lenet");
    trained a(g, with(graft::optimizer_kind::adamw, simulated::exact_device())), b(g, with(graft::optimizer_kind::adamw, simulated::exact_device()));
    for (std::int64_t i = 0; i < 3; ++i) REQUIRE(a.run(i, 4));
    const std::vector<float> before = numbers_of(a);
    // What a had after three steps goes into b, which has taken one of its own.
    REQUIRE(b.run(7, 4));
    REQUIRE(b.step.read_state().ok());
    for (std::size_t s = 0; s < a.step.state().size(); ++s)
        std::memcpy(b.step.state()[s].value.raw(), a.step.state()[s].value.raw(), a.step.state()[s].value.bytes());
    b.step.state_changed();
    REQUIRE(a.run(3, 4));
    REQUIRE(b.run(3, 4));
    const std::vector<float> of_a = numbers_of(a), of_b = numbers_of(b);
    CHECK(std::memcmp(of_a.data(), of_b.data(), of_a.size() * sizeof(float)) == 0);
    CHECK(distance(of_a, before) > 0);
}

TEST_CASE("steps in halves learn nearly the same on the CUDA simulator, float16 with its loss scaled") {
    const graft::graph g = small_steps::architecture("lenet");
    trained host(g, with(graft::optimizer_kind::sgd, nullptr));
    for (std::int64_t i = 0; i < 3; ++i) REQUIRE(host.run(i, 4));
    for (const char* precision : {"bfloat16", "float16"}) {
        CAPTURE(precision);
        graft::device_options options;
        options.precision = precision;
        graft::step_options o = with(graft::optimizer_kind::sgd, simulated::open(options));
        o.loss_scaling = std::string(precision) == "float16";
        trained device(g, o);
        for (std::int64_t i = 0; i < 3; ++i) {
            const bool ran = device.run(i, 4);
            REQUIRE_MESSAGE(ran, device.error());
        }
        CHECK(device.step.scaling().skipped == 0);
        CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(0.02));
        CHECK(distance(numbers_of(device), numbers_of(host)) <= 0.05);
    }
}
