// Training steps spread over several devices of the CUDA simulator, beside one step on the CPU.
#include "learning.hpp"

#include "../cuda_simulator/simulated.hpp"

#include <graft/dist.hpp>

#include <chrono>
#include <thread>

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
        SUBCASE("batch normalisation over all of them") { expect_alike(without_bends(small_steps::architecture("resnet20", 16)), o, replicas, {8, 5, 8}); }
        CHECK(simulated::count("call:ncclAllReduce") > 0);
    }
    SUBCASE("depthwise convolutions") { expect_alike(without_bends(small_steps::architecture("mobilenet_v2", 64)), o, 2, {8}, 5e-3); }
}

TEST_CASE("central variables of devices of the CUDA simulator are updated on the host") {
    simulated::prepare();
    const graft::graph g = without_bends(small_steps::architecture("resnet20", 16));
    const graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
    graft::step_options central = o;
    central.central_variables = true;
    simulated::reset();
    {
        trained host(g, o), device(g, spread(central, 3, devices(3)));
        for (std::int64_t i = 0; i < 4; ++i) {
            const std::int64_t n = i == 1 ? 5 : i == 2 ? 1 : 8;  // of one, two have nothing
            REQUIRE(host.run(i, n));
            const bool ran = device.run(i, n);
            REQUIRE_MESSAGE(ran, device.error());
            CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(2e-3));
        }
        CHECK(distance(numbers_of(device), numbers_of(host)) <= 1e-3);
    }
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == 0, report);
}

TEST_CASE("what a device waits for NCCL is its member's waiting: for one that comes late, and of a step's work nothing") {
    simulated::prepare();
    const graft::graph g = small_steps::architecture("lenet");
    const std::vector<std::shared_ptr<graft::device>> on = devices(2);
    const auto members = graft::make_thread_group(2, 60);
    double waited[2] = {0, 0};
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < 2; ++r)
        threads.emplace_back([&, r] {
            graft::step_options o = with(graft::optimizer_kind::sgd, on[r]);
            o.group = members[r];
            const graft::value_id logits = graft::logits_of(g);
            auto made = graft::training_step::make(g, logits, graft::parameters_of(g), o);
            if (!made.ok()) return;
            const graft::tensor x = small_steps::numbered(7, {4, 1, 28, 28});
            graft::tensor t = graft::tensor::zeros(graft::dtype::float32, {4, 10});
            for (int i = 0; i < 4; ++i) t.data<float>()[i * 10 + i] = 1;
            graft::step_input in;
            in.inputs = &x, in.targets = &t, in.scale = 1.0 / 8, in.learning_rate = 0.01;
            in.first = static_cast<std::int64_t>(4 * r), in.samples = 8;
            graft::executor alone;
            for (in.step = 0; in.step < 3; ++in.step) {
                if (in.step == 2) {
                    if (!members[r]->barrier().ok()) return;
                    waited[r] = -members[r]->all_waited_seconds() + members[r]->waited_seconds();
                    if (r == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
                }
                if (!made->run(in, alone).ok()) return;
            }
            waited[r] += members[r]->all_waited_seconds() - members[r]->waited_seconds();
        });
    for (std::thread& t : threads) t.join();
    CHECK(simulated::count("call:ncclAllReduce") > 0);
    CHECK(waited[0] > 0.3);
    CHECK(waited[1] > 0);
    CHECK(waited[1] < waited[0]);
}

TEST_CASE("replicas that share a device of the CUDA simulator exchange by the host") {
    simulated::prepare();
    const graft::graph g = without_bends(small_steps::architecture("resnet20", 16));
    const graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
    simulated::reset();
    {
        trained host(g, o), device(g, spread(o, 4, devices(2)));
        for (std::int64_t i = 0; i < 2; ++i) {
            REQUIRE(host.run(i, 8));
            const bool ran = device.run(i, 8);
            REQUIRE_MESSAGE(ran, device.error());
        }
        CHECK(distance(numbers_of(device), numbers_of(host)) <= 1e-3);
    }
    CHECK(simulated::count("call:ncclAllReduce") == 0);
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == 0, report);
}

TEST_CASE("a pipeline over devices of the CUDA simulator, and over the CPU and a device, learns what one CPU learns in parts") {
    simulated::prepare();
    const std::vector<std::shared_ptr<graft::device>> two = devices(2);
    for (const bool mixed : {false, true}) {
        CAPTURE(mixed);
        const graft::graph g = small_steps::architecture("lenet");
        graft::step_options o = with(graft::optimizer_kind::sgd, nullptr), staged = o;
        o.micro_batches = staged.micro_batches = 4;
        staged.stages = {mixed ? nullptr : two[0], two[1]};
        simulated::reset();
        {
            trained host(g, o), device(g, staged);
            for (std::int64_t i = 0; i < 3; ++i) {
                REQUIRE(host.run(i, i == 1 ? 5 : 8));
                const bool ran = device.run(i, i == 1 ? 5 : 8);
                REQUIRE_MESSAGE(ran, device.error());
                CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(2e-3));
            }
            CHECK(distance(numbers_of(device), numbers_of(host)) <= 1e-3);
        }
        const std::string report = simulated::report();
        CHECK_MESSAGE(simulated::count("problems") == 0, report);
    }
}

TEST_CASE("replicas in halves learn nearly the same") {
    simulated::prepare();
    const graft::graph g = small_steps::architecture("resnet20", 16);
    trained host(g, with(graft::optimizer_kind::sgd, nullptr));
    for (std::int64_t i = 0; i < 2; ++i) REQUIRE(host.run(i, 8));
    for (const char* precision : {"bfloat16", "float16"}) {
        CAPTURE(precision);
        graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
        o.loss_scaling = std::string(precision) == "float16";
        trained device(g, spread(o, 2, devices(2, precision)));
        for (std::int64_t i = 0; i < 2; ++i) {
            const bool ran = device.run(i, 8);
            REQUIRE_MESSAGE(ran, device.error());
        }
        CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(0.03));
        CHECK(distance(numbers_of(device), numbers_of(host)) <= 0.05);
    }
}

TEST_CASE("what NCCL refuses, and who does not come, ends a step with a named error, and the next begins anew") {
    simulated::prepare();
    const graft::graph g = small_steps::architecture("lenet");
    const auto ends = [&](const char* rule, const char* stalled, graft::errc code) {
        graft::replica_options how;
        how.replicas = 2;
        how.timeout_seconds = stalled ? 1 : 60;
        how.devices = devices(2);
        graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
        o.replicas = graft::make_replicas(how);
        trained t(g, o);
        simulated::set("NCCL_STALL", stalled);
        simulated::fail(rule);
        CHECK(!t.run(0, 8));
        CHECK_MESSAGE(t.last.error().code() == code, t.error());
        simulated::fail(nullptr);
        simulated::set("NCCL_STALL", nullptr);
        // Updates behind the exchange may have run with what was not there: the host's copy is as it was.
        t.step.state_changed();
        const bool ran = t.run(0, 8);
        CHECK_MESSAGE(ran, t.error());
    };
    SUBCASE("the run's id") { ends("ncclGetUniqueId:1:2", nullptr, graft::errc::dist_peer_lost); }
    SUBCASE("joining") { ends("ncclCommInitRankConfig:2:3", nullptr, graft::errc::device_unavailable); }
    SUBCASE("an exchange") { ends("ncclAllReduce:2:1", nullptr, graft::errc::device_lost); }
    SUBCASE("another member that is gone") { ends("ncclCommGetAsyncError:9:6", nullptr, graft::errc::dist_peer_lost); }
    SUBCASE("a member that does not come") { ends(nullptr, "1", graft::errc::dist_timeout); }
}
