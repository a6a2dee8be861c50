// Every call of the vendors' libraries made to fail in turn, on the CUDA simulator: a clean error, nothing lost, nothing left behind.
#include "simulated_backend.hpp"

#include "../cuda_simulator/simulated.hpp"
#include "../sanitized.hpp"
#include "../train/small_steps.hpp"

#include <set>
#include <thread>

namespace {

graft::tensor numbered(const graft::shape& extents, int seed) {
    graft::tensor t = graft::tensor::make(graft::dtype::float32, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = static_cast<float>((i * 37 + seed * 101) % 64 - 31) / 32;
    return t;
}

// Under a sanitizer each call takes many times as long: some of them are made to fail there.
#ifdef GRAFT_TEST_SANITIZED
constexpr long every = 9;
#else
constexpr long every = 1;
#endif

graft::gpu::device_functions all_functions() {
    graft::gpu::device_functions functions;
    functions.driver = &graft::gpu::load_driver().functions;
    functions.nvrtc = &graft::gpu::load_nvrtc().functions;
    functions.cudnn = &graft::gpu::load_cudnn().functions;
    functions.cublaslt = &graft::gpu::load_cublaslt().functions;
    return functions;
}

// A convolution, a sum over pixels, a product, indices that are computed and a softmax: every kind of kernel.
graft::graph small_network() {
    graft::builder b("small", 3);
    graft::conv2d_options conv;
    conv.kernel = 3, conv.padding = 1, conv.name = "conv";
    graft::value_id x = b.conv2d(b.input("x", graft::dtype::float32, {"N", 2, 6, 6}), 4, conv);
    x = b.apply("GlobalAveragePool", {b.apply("Sigmoid", {x})});
    x = b.apply("Gemm", {b.apply("Flatten", {x}), b.constant("w", numbered({4, 3}, 1)), b.constant("b", numbered({3}, 2))});
    const std::int64_t three = 3;
    const graft::value_id order = b.apply_all("TopK", {x, b.constant("k", graft::tensor::from(&three, {1}))}, {}, 2)[1];
    x = b.apply("GatherElements", {x, order}, {graft::integer_attribute("axis", 1)});
    b.output(b.apply("Softmax", {x}, {graft::integer_attribute("axis", 1)}), "y");
    return b.finish();
}

// Opens a device, trains for three steps, each of which is told of the next.
graft::status whole_training(const graft::graph& g) {
    graft::device_options options;
    options.precision = "float32";
    std::shared_ptr<graft::device> device;
    GRAFT_TRY_ASSIGN(device, graft::gpu::cuda_device::open(all_functions(), 0, options));
    graft::step_options of_step;
    of_step.on = std::move(device);
    graft::training_step step;
    GRAFT_TRY_ASSIGN(step, graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), of_step));
    const graft::tensor x = numbered({2, 1, 28, 28}, 5), other = numbered({2, 1, 28, 28}, 6);
    graft::tensor targets = graft::tensor::zeros(graft::dtype::float32, {2, 10});
    for (std::int64_t i = 0; i < 2; ++i) targets.data<float>()[i * 10 + i] = 1;
    graft::executor serial;
    for (int i = 0; i < 3; ++i) {
        graft::step_input in;
        in.inputs = i % 2 ? &other : &x;
        in.next = i % 2 ? &x : &other;
        in.targets = &targets;
        in.scale = 0.5, in.learning_rate = 0.01, in.step = i;
        GRAFT_TRY(step.run(in, serial));
    }
    return step.read_state();
}

// Opens a device, loads, runs: the answers of three runs, or the first error.
graft::result<graft::tensor> whole_life(const graft::graph& g, const graft::tensor& x, int ordinal = 0) {
    graft::device_options options;
    options.precision = "float32";
    std::shared_ptr<graft::device> device;
    GRAFT_TRY_ASSIGN(device, graft::gpu::cuda_device::open(all_functions(), ordinal, options));
    graft::model m;
    GRAFT_TRY_ASSIGN(m, graft::load(g, graft::on_device(device)));
    graft::session session(m, {1, nullptr});
    graft::tensor y;
    for (int i = 0; i < 3; ++i) GRAFT_TRY_ASSIGN(y, session.run(x));
    return y;
}

using calls_made = std::vector<std::pair<std::string, long>>;

// What was called since the simulator's last reset, and how often.
calls_made functions_called() {
    calls_made all;
#define GRAFT_COUNTED(result, name, parameters) \
    if (const long calls = simulated::count("call:" #name)) all.emplace_back(#name, calls);
    GRAFT_DRIVER_FUNCTIONS(GRAFT_COUNTED)
    GRAFT_CUDNN_FUNCTIONS(GRAFT_COUNTED)
    GRAFT_CUBLASLT_FUNCTIONS(GRAFT_COUNTED)
    GRAFT_NVRTC_FUNCTIONS(GRAFT_COUNTED)
#undef GRAFT_COUNTED
    return all;
}

// Makes each of these calls fail in turn, with two codes; `life` is what is done meanwhile.
template <class Life>
void fail_each(const calls_made& functions, Life life) {
    std::set<std::string> codes;
    long calls = 0, failed = 0, live = simulated::count("live");
    for (const auto& f : functions)
        for (const char* code : {"999", "2"})
            for (long n = 1; n <= f.second; n += every) {
                const std::string rule = f.first + ":" + std::to_string(n) + ":" + code;
                INFO(rule);
                simulated::reset();
                simulated::fail(rule.c_str());
                const graft::status lived = life();
                simulated::fail(nullptr);
                ++calls;
                if (!lived.ok()) {
                    ++failed;
                    codes.insert(graft::text(lived.error().code()));
                    const std::string said = lived.error().what();
                    CHECK_MESSAGE(lived.error().detail().size() > 20, said);
                    using graft::errc;
                    bool known = false;
                    for (errc c : {errc::device_lost, errc::device_unavailable, errc::device_compile, errc::memory_oom, errc::op_unsupported})
                        known |= lived.error().code() == c;
                    CHECK_MESSAGE(known, said);
                }
                const std::string report = simulated::report();
                // What cannot be made current cannot be freed either.
                if (f.first != "cuCtxPushCurrent_v2") CHECK_MESSAGE(simulated::count("live") == live, report);
                CHECK_MESSAGE(simulated::count("problems") == 0, report);
                live = simulated::count("live");
            }
    MESSAGE(calls << " calls of " << functions.size() << " functions were made to fail; " << failed << " ended in an error");
    CHECK(failed > calls / 5);
    CHECK(codes.count("memory.oom") == 1);
    CHECK(codes.count("device.lost") == 1);
    CHECK(life().ok());
}

}  // namespace

TEST_CASE("any call of the vendors' libraries may fail on the CUDA simulator: one error, nothing left, and the next run works") {
    simulated::prepare();
    const graft::graph g = small_network();
    const graft::tensor x = numbered({2, 2, 6, 6}, 3);
    graft::session host(graft::load(g, graft::on_device(nullptr)), {1, nullptr});
    const graft::tensor want = host.run(x);
    REQUIRE(whole_life(g, x).ok());  // whatever is kept on disk is there from here on
    simulated::reset();
    REQUIRE(whole_life(g, x).ok());
    const calls_made functions = functions_called();
    CHECK(functions.size() > 40);
    fail_each(functions, [&]() -> graft::status {
        graft::tensor y;
        GRAFT_TRY_ASSIGN(y, whole_life(g, x));
        CHECK(difference(y, want) <= 1e-5);  // whatever failed gives something back, or there is another way
        return {};
    });
}

TEST_CASE("any call of the driver may fail in training on the CUDA simulator, where batches are brought ahead") {
    simulated::prepare();
    const graft::graph g = small_steps::architecture("lenet");
    const graft::status trained = whole_training(g);
    const std::string said = trained.ok() ? "" : trained.error().what();
    REQUIRE_MESSAGE(trained.ok(), said);
    simulated::reset();
    REQUIRE(whole_training(g).ok());
    calls_made driver;
    for (const auto& f : functions_called())
        for (const char* name : {"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent", "cuStreamCreate", "cuStreamSynchronize",
                                 "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemAlloc_v2", "cuMemHostAlloc", "cuGraphLaunch",
                                 "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuModuleLoadData"})
            if (f.first == name) driver.push_back(f);
    CHECK(driver.size() == 16);
    fail_each(driver, [&] { return whole_training(g); });
}

TEST_CASE("2 and 4 devices of the CUDA simulator run the same network at the same time") {
    simulated::prepare();
    const graft::graph g = small_network();
    const graft::tensor x = numbered({3, 2, 6, 6}, 5);
    graft::session host(graft::load(g, graft::on_device(nullptr)), {1, nullptr});
    const graft::tensor want = host.run(x);
    for (const int devices : {2, 4}) {
        simulated::reset();
        std::vector<double> worst(static_cast<std::size_t>(devices), HUGE_VAL);
        std::vector<std::string> said(worst.size());
        std::vector<std::thread> threads;
        for (int d = 0; d < devices; ++d)
            threads.emplace_back([&, d] {
                auto y = whole_life(g, x, d);
                if (!y.ok()) said[static_cast<std::size_t>(d)] = y.error().what();
                if (y.ok()) worst[static_cast<std::size_t>(d)] = difference(y.value(), want);
            });
        for (std::thread& t : threads) t.join();
        for (std::size_t d = 0; d < worst.size(); ++d) CHECK_MESSAGE(worst[d] <= 1e-5, said[d]);
        const std::string report = simulated::report();
        CHECK_MESSAGE(simulated::count("problems") == 0, report);
    }
    CHECK(!whole_life(g, x, 4).ok());  // it poses as four
}
