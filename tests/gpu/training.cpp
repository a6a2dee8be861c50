// Training steps through the back end for NVIDIA GPUs, on the CUDA simulator.
#include "learning.hpp"

#include "../cuda_simulator/simulated.hpp"

#include <cstring>

using namespace learning;

TEST_CASE("training steps on the CUDA simulator learn what the CPU learns") {
    for (const char* name : {"lenet", "resnet20"}) {
        CAPTURE(name);
        expect_alike(small_steps::architecture(name, std::string(name) == "lenet" ? 0 : 16));
    }
}

TEST_CASE("a residual network learns on a simulated device of compute capability 7.5, where cuDNN adds nothing to a gradient") {
    simulated::exact_device();  // which other tests share
    simulated::set("COMPUTE", "7.5");
    graft::device_options options;
    options.precision = "float32";
    expect_alike(small_steps::architecture("resnet20", 16), simulated::open(options));
    simulated::set("COMPUTE", nullptr);
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
    expect_nearly_alike_in_halves(small_steps::architecture("lenet"), 4);
}
