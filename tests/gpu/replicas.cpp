// Training steps spread over several devices of the CUDA simulator, beside one step on the CPU.
#include "learning.hpp"

#include "../cuda_simulator/simulated.hpp"

#include <graft/dist.hpp>

using namespace learning;

namespace {

std::vector<std::shared_ptr<graft::device>> devices(int count, const char* precision = "float32") {
    std::vector<std::shared_ptr<graft::device>> all;
    graft::device_options options;
    options.precision = precision;
    for (int d = 0; d < count; ++d) all.push_back(simulated::open(options, d));
    return all;
}

graft::step_options spread(graft::step_options o, int replicas, std::vector<std::shared_ptr<graft::device>> on) {
    graft::replica_options how;
    how.replicas = replicas;
    how.devices = std::move(on);
    o.replicas = graft::make_replicas(how);
    return o;
}

// Steps over batches of these sizes learn what one CPU learns of them.
void expect_alike(const graft::graph& g, const graft::step_options& o, int replicas, const std::vector<std::int64_t>& batches, double apart = 1e-3) {
    simulated::reset();
    {
        trained host(g, o), device(g, spread(o, replicas, devices(std::min(replicas, 4))));
        for (std::size_t i = 0; i < batches.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            REQUIRE(host.run(at, batches[i]));
            const bool ran = device.run(at, batches[i]);
            REQUIRE_MESSAGE(ran, device.error());
            CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(2e-3));
            CHECK(difference(device.step.logits(), host.step.logits()) <= 5e-3);
        }
        CHECK(distance(numbers_of(device), numbers_of(host)) <= apart);
    }
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == 0, report);
}

}  // namespace

TEST_CASE("replicas on 2 and 4 devices of the CUDA simulator learn what one CPU learns") {
    simulated::prepare();
    const graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
    for (const int replicas : {2, 4}) {
        CAPTURE(replicas);
        SUBCASE("convolutions; a batch of which some have nothing") { expect_alike(small_steps::architecture("lenet"), o, replicas, {8, 5, 1, 8}); }
        SUBCASE("batch normalisation over all of them") { expect_alike(small_steps::architecture("resnet20", 16), o, replicas, {8, 5, 8}); }
    }
    SUBCASE("depthwise convolutions, clip") { expect_alike(small_steps::architecture("mobilenet_v2", 64), o, 2, {8}, 5e-3); }
}
