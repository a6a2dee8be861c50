// Runs of which no CUDA graph can be made, on the CUDA simulator: their kernels are launched one by one, and that is said once.
#include "simulated_backend.hpp"

#include "../cuda_simulator/simulated.hpp"
#include "../train/small_steps.hpp"

namespace {

std::vector<std::string>& warnings() {
    static std::vector<std::string> texts;
    return texts;
}

// The demo's network on a device of its own, opened as a program opens it.
graft::model demo_on_device() {
    graft::load_options options;
    options.device = "cuda";
    options.on_device.precision = "float32";
    options.warn = [](const char* text) { warnings().push_back(text); };
    auto m = graft::runtime<graft::backends::cuda, graft::backends::cpu>::load(GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", options);
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    return m.value();
}

graft::tensor pictures(std::uint64_t seed, std::int64_t n = 1) { return small_steps::numbered(seed, {n, 3, 64, 64}); }

// Whether the answer is the host's.
bool right(graft::session& device, graft::session& host, const graft::tensor& x) {
    auto got = device.run(x), want = host.run(x);
    REQUIRE_MESSAGE(got.ok(), std::string(got.ok() ? "" : got.error().what()));
    REQUIRE(want.ok());
    return difference(got.value(), want.value()) <= 1e-5;
}

}  // namespace

TEST_CASE("a run of which no CUDA graph can be made goes on launch by launch, and one warning says so") {
    simulated::prepare();
    graft::session host(graft::load(GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx"), {1, nullptr});
    for (const char* rule : {"cuStreamBeginCapture_v2:1:900", "cuStreamEndCapture:1:901", "cuGraphInstantiateWithFlags:1:2", "cuGraphLaunch:1:2",
                             "cudnnBackendExecute:2:5000", "cuLaunchKernel:3:900"}) {
        CAPTURE(std::string(rule));
        warnings().clear();
        const graft::model m = demo_on_device();
        graft::session device(m, {1, nullptr});
        CHECK(right(device, host, pictures(1)));
        const long problems = simulated::count("problems");
        simulated::fail(rule);
        CHECK(right(device, host, pictures(2)));
        simulated::fail(nullptr);
        REQUIRE(warnings().size() == 1);
        CHECK(warnings()[0].find("cuda:0: kernels are launched one by one") == 0);
        CHECK(warnings()[0].find("no CUDA graph of them: ") != std::string::npos);

        // Nor is it tried again, by no session.
        const long begun = simulated::count("call:cuStreamBeginCapture_v2"), launched = simulated::count("call:cuGraphLaunch");
        graft::session other(m, {1, nullptr});
        for (std::uint64_t i = 0; i < 3; ++i) {
            CHECK(right(device, host, pictures(3 + i)));
            CHECK(right(other, host, pictures(13 + i)));
        }
        CHECK(simulated::count("call:cuStreamBeginCapture_v2") == begun);
        CHECK(simulated::count("call:cuGraphLaunch") == launched);
        // Another shape is another plan.
        for (std::uint64_t i = 0; i < 3; ++i) CHECK(right(device, host, pictures(i, 2)));
        CHECK(simulated::count("call:cuGraphLaunch") > launched);
        CHECK(warnings().size() == 1);
        const std::string report = simulated::report();
        CHECK_MESSAGE(simulated::count("problems") == problems, report);
    }
}

TEST_CASE("a device that is lost while a CUDA graph is made is an error, and so is a launch that fails in either way") {
    simulated::prepare();
    for (const char* rule : {"cuStreamEndCapture:1:719", "cuGraphLaunch:1:719", "cuLaunchKernel:0:1"}) {
        CAPTURE(std::string(rule));
        warnings().clear();
        const graft::model m = demo_on_device();
        graft::session device(m, {1, nullptr});
        REQUIRE(device.run(pictures(1)).ok());
        simulated::fail(rule);
        auto got = device.run(pictures(2));
        simulated::fail(nullptr);
        REQUIRE(!got.ok());
        CHECK((got.error().code() == graft::errc::device_lost) == (std::string(rule).find("719") != std::string::npos));
        CHECK(warnings().empty());
    }
}
