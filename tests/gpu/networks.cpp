// Whole networks through the back end for NVIDIA GPUs, on the CUDA simulator.
#include "simulated_backend.hpp"

#include "../cuda_simulator/simulated.hpp"

#include <thread>

namespace {

graft::tensor numbered(const graft::shape& extents, std::uint64_t seed) {
    graft::tensor t = graft::tensor::make(graft::dtype::float32, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const std::uint64_t h = (static_cast<std::uint64_t>(i) + 977 * seed) * 2654435761u & 0xffffffffu;
        t.data<float>()[i] = static_cast<float>(static_cast<double>(h) / 4294967296.0 * 2 - 1);
    }
    return t;
}

graft::tensor answer(const graft::model& m, const graft::tensor& x, int runs = 1) {
    graft::session session(m, {1, nullptr});
    graft::tensor y;
    for (int i = 0; i < runs; ++i) {
        auto out = session.run(x);
        const std::string error = out.ok() ? "" : out.error().what();
        REQUIRE_MESSAGE(out.ok(), error);
        y = out.value();
    }
    return y;
}

const char* const demo = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx";

}  // namespace

TEST_CASE("the demo's network names pictures on the CUDA simulator as on the CPU, launch by launch and as a graph") {
    const graft::model host = graft::load(demo), device = graft::load(demo, graft::on_device(simulated::exact_device()));
    CHECK(std::string(host.device()) == "cpu");
    CHECK(std::string(device.device()) == "cuda:0");
    for (const std::int64_t n : {1, 3}) {
        const graft::tensor x = numbered({n, 3, 64, 64}, static_cast<std::uint64_t>(n)), want = answer(host, x);
        for (const int runs : {1, 2, 4}) CHECK(difference(answer(device, x, runs), want) <= 1e-5);
    }
}

TEST_CASE("half the bytes between operators change the demo's answers by little") {
    const graft::tensor x = numbered({2, 3, 64, 64}, 5), want = answer(graft::load(demo), x);
    for (const char* precision : {"float16", "bfloat16"}) {
        CAPTURE(precision);
        graft::device_options options;
        options.precision = precision;
        const graft::tensor got = answer(graft::load(demo, graft::on_device(simulated::open(options))), x, 2);
        CHECK(difference(got, want) <= (std::string(precision) == "float16" ? 5e-3 : 4e-2));
        CHECK(difference(got, want) > 0);
    }
}

TEST_CASE("answers are those of the pictures given, whatever was told of the next ones on the CUDA simulator") {
    const graft::model host = graft::load(demo), device = graft::load(demo, graft::on_device(simulated::exact_device()));
    std::vector<graft::tensor> batches, want;
    for (std::uint64_t i = 0; i < 5; ++i) batches.push_back(numbered({i == 4 ? 1 : 2, 3, 64, 64}, i));
    for (const graft::tensor& x : batches) want.push_back(answer(host, x));
    graft::session session(device, {1, nullptr});
    // What comes is the next one, none, another one, and one of another shape.
    const graft::tensor* const told[] = {&batches[1], &batches[2], &batches[0], &batches[4], nullptr};
    for (int round = 0; round < 2; ++round)
        for (std::size_t i = 0; i < batches.size(); ++i) {
            auto got = session.run(batches[i], told[i]);
            REQUIRE(got.ok());
            CHECK(difference(got.value(), want[i]) <= 1e-5);
        }
}

TEST_CASE("what was chosen among a library's kernels is chosen once by a device, also where there is no folder to keep it") {
    const auto device = simulated::open();
    setenv("GRAFT_CACHE_DIR", "/dev/null/none", 1);
    long plans[2] = {};
    const graft::tensor x = numbered({1, 3, 64, 64}, 2);
    for (long& made : plans) {
        const long before = simulated::count("call:cudnnBackendExecute");
        answer(graft::load(demo, graft::on_device(device)), x);
        made = simulated::count("call:cudnnBackendExecute") - before;
    }
    setenv("GRAFT_CACHE_DIR", GRAFT_CUDA_SIMULATOR "/cache", 1);
    CHECK(plans[1] > 0);
    CHECK(plans[0] > 2 * plans[1]);  // the first time engines were measured
}

TEST_CASE("a network of halves has on the CUDA simulator the kernels that it has in float32, and answers in halves") {
    const auto network = [](graft::dtype type) {
        const auto typed = [type](const graft::tensor& from) {
            graft::tensor t = graft::tensor::make(type, from.shape());
            for (std::int64_t i = 0; i < t.elements(); ++i) {
                const double x = graft::element_as_double(from.type(), from.raw(), i);
                graft::store_from_double(type, t.raw(), i, 1, &x);
            }
            return t;
        };
        graft::builder b("halves", 4);
        const graft::value_id x = b.input("x", type, {2, 3, 12, 12});
        const graft::value_id y = b.apply("Conv", {x, b.constant("w", typed(numbered({8, 3, 3, 3}, 1))), b.constant("b", typed(numbered({8}, 2)))},
                                          {graft::integers_attribute("pads", {1, 1, 1, 1})});
        std::vector<graft::value_id> normalised{y};
        for (int i = 0; i < 4; ++i) {
            graft::tensor t = numbered({8}, static_cast<std::uint64_t>(3 + i));
            for (std::int64_t k = 0; k < 8; ++k) t.data<float>()[k] = 1 + t.data<float>()[k] / 2;
            normalised.push_back(b.constant("n" + std::to_string(i), typed(t)));
        }
        const graft::value_id z = b.apply("Relu", {b.apply("BatchNormalization", normalised)});
        const graft::value_id again =
            b.apply("Conv", {z, b.constant("w2", typed(numbered({8, 8, 3, 3}, 8)))}, {graft::integers_attribute("pads", {1, 1, 1, 1})});
        b.output(b.apply("Relu", {b.apply("Add", {again, z})}), "y");
        return b.finish();
    };
    const auto kernels = [](const graft::model& m) {
        int n = 0;
        auto placed = m.placements(m.inputs());
        REQUIRE(placed.ok());
        for (const graft::placement& p : placed.value()) n += p.kernel.compare(0, 5, "cuDNN") == 0 ? 100 : p.kernel != "copy";
        return n;
    };
    for (const graft::dtype type : {graft::dtype::float16, graft::dtype::bfloat16}) {
        CAPTURE(graft::name(type));
        const graft::model host = graft::load(network(type)), device = graft::load(network(type), graft::on_device(simulated::exact_device())),
                           wide = graft::load(network(graft::dtype::float32), graft::on_device(simulated::exact_device()));
        graft::tensor x = graft::tensor::make(type, {2, 3, 12, 12});
        const graft::tensor from = numbered({2, 3, 12, 12}, 7);
        for (std::int64_t i = 0; i < x.elements(); ++i) {
            const double v = static_cast<double>(from.data<float>()[i]);
            graft::store_from_double(type, x.raw(), i, 1, &v);
        }
        const graft::tensor got = answer(device, x, 3), want = answer(host, x);
        CHECK(got.type() == type);
        CHECK(difference(got, want) <= (type == graft::dtype::float16 ? 4e-3 : 3e-2));
        CHECK(kernels(device) == kernels(wide));
    }
}

TEST_CASE("another shape of a value that has its type alone on the simulated device is a copy of it") {
    const std::int64_t extents[] = {-1};
    graft::builder b("views", 3);
    graft::value_id x = b.apply("Flatten", {b.input("x", graft::dtype::float32, {3, 4, 5})});                                 // float32 to float16
    x = b.apply("Reshape", {b.apply("Sigmoid", {x}), b.constant("extents", graft::tensor::from(extents, graft::shape{1}))});  // and back
    b.output(b.apply("Neg", {x}), "y");
    const graft::graph g = b.finish();
    graft::device_options options;
    options.precision = "float16";
    const graft::tensor given = numbered({3, 4, 5}, 4);
    CHECK(difference(answer(graft::load(g, graft::on_device(simulated::open(options))), given, 2), answer(graft::load(g), given)) <= 1e-3);
}

TEST_CASE("threads share a model on a simulated device, each with a context of its own") {
    const graft::model m = graft::load(demo, graft::on_device(simulated::exact_device()));
    const graft::tensor x = numbered({1, 3, 64, 64}, 9), want = answer(m, x);
    std::vector<std::thread> threads;
    std::vector<double> worst(4, HUGE_VAL);
    for (std::size_t t = 0; t < worst.size(); ++t)
        threads.emplace_back([&, t] {
            graft::session session(m, {1, nullptr});
            double most = 0;
            for (int i = 0; i < 5; ++i) {
                auto y = session.run(x);
                most = larger_error(most, y.ok() ? difference(y.value(), want) : HUGE_VAL);
            }
            worst[t] = most;
        });
    for (std::thread& t : threads) t.join();
    for (double w : worst) CHECK(w == 0);
}

TEST_CASE("too large a batch is memory.oom or memory.budget on a simulated device, and a smaller one works after it") {
    graft::device_options options;
    options.precision = "float32";
    options.memory_bytes = 8 << 20;
    const graft::model m = graft::load(demo, graft::on_device(simulated::open(options)));
    graft::session session(m, {1, nullptr});
    auto large = session.run(numbered({512, 3, 64, 64}, 1));
    REQUIRE(!large.ok());
    CHECK((large.error().code() == graft::errc::memory_budget || large.error().code() == graft::errc::memory_oom));
    CHECK(std::string(large.error().what()).find("activations") != std::string::npos);
    const graft::tensor x = numbered({1, 3, 64, 64}, 2);
    auto small = session.run(x);
    REQUIRE(small.ok());
    CHECK(difference(small.value(), answer(graft::load(demo), x)) <= 1e-5);
}

TEST_CASE("a run that fails on its way to a simulated device leaves nothing there that the next run could meet") {
    const graft::model m = graft::load(demo, graft::on_device(simulated::exact_device()));
    const graft::tensor x = numbered({1, 3, 64, 64}, 3), other = numbered({1, 3, 64, 64}, 4), want = answer(m, other);
    for (const char* broken : {"cuLaunchKernel:2:1", "cudnnBackendExecute:3:5000"}) {
        CAPTURE(broken);
        graft::session session(m, {1, nullptr});
        const long problems = simulated::count("problems");
        simulated::fail(broken);
        const bool failed = !session.run(x).ok();
        simulated::fail(nullptr);
        CHECK(failed);
        auto y = session.run(other);
        REQUIRE(y.ok());
        CHECK(difference(y.value(), want) == 0);
        const std::string report = simulated::report();
        CHECK_MESSAGE(simulated::count("problems") == problems, report);
    }
}

TEST_CASE("a device that a kernel has cost is device.lost, where the library that is called next says only that it failed") {
    const graft::tensor x = numbered({1, 3, 64, 64}, 5);
    graft::session session(graft::load(demo, graft::on_device(simulated::exact_device())), {1, nullptr});
    const auto code_of_run = [&](const char* broken) {
        simulated::fail(broken);
        auto y = session.run(x);
        simulated::fail(nullptr);
        return std::string(y.ok() ? "right" : graft::text(y.error().code()));
    };
    CHECK(code_of_run("cudnnBackendExecute:2:5000") == "device.unavailable");
    CHECK(code_of_run("cudnnBackendExecute:2:5000,cuStreamSynchronize:1:700") == "device.lost");
    CHECK(code_of_run(nullptr) == "right");

    // The same while kernels are measured, all of which fail then; what other tests have kept of their choices would save measuring.
    const auto code_of_load = [&](const char* broken) {
        const auto device = simulated::open();
        setenv("GRAFT_CACHE_DIR", "/dev/null/none", 1);
        simulated::fail(broken);
        auto y = graft::session(graft::load(demo, graft::on_device(device)), {1, nullptr}).run(x);
        simulated::fail(nullptr);
        return std::string(y.ok() ? "right" : graft::text(y.error().code()));
    };
    CHECK(code_of_load("cuEventSynchronize:0:700") == "device.unavailable");
    CHECK(code_of_load("cuEventSynchronize:0:700,cuCtxSynchronize:0:700") == "device.lost");
    setenv("GRAFT_CACHE_DIR", GRAFT_CUDA_SIMULATOR "/cache", 1);
}
