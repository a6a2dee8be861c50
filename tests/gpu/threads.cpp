// Many threads on one device of the CUDA simulator: each gets the answers that it would get alone. CI runs these under the thread sanitizer
// too.
#include "learning.hpp"

#include "../cuda_simulator/simulated.hpp"
#include "../data/made_dataset.hpp"

#include <thread>

namespace {

using graft::tensor;

// A device, and while it lives a folder of its own for what is kept of kernels and choices: nothing is there yet.
struct fresh_device {
    made_folder folder;
    std::shared_ptr<graft::device> on;
    fresh_device() {
        graft::device_options options;
        options.precision = "float32";
        on = simulated::open(options);
        setenv("GRAFT_CACHE_DIR", (folder.path + "/kernels").c_str(), 1);
    }
    ~fresh_device() { simulated::prepare(); }
};

// Convolutions for cuDNN, a product for cuBLASLt, and kernels of our own.
graft::graph network(std::uint64_t seed, std::int64_t filters) {
    graft::builder b("net", seed);
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 4, 6, 6});
    for (const std::int64_t channels : {std::int64_t(4), filters}) {
        const graft::value_id w = b.constant("w" + std::to_string(channels), small_steps::numbered(seed + 2, {filters, channels, 3, 3}, 0.3));
        x = b.apply("Relu", {b.apply("Conv", {x, w}, {graft::integers_attribute("pads", {1, 1, 1, 1})})});
    }
    x = b.apply("Flatten", {b.apply("GlobalAveragePool", {b.apply("Sigmoid", {x})})});
    x = b.apply("Gemm", {x, b.constant("w", small_steps::numbered(seed, {filters, 3})), b.constant("b", small_steps::numbered(seed + 1, {3}))});
    b.output(b.apply("Softmax", {x}, {graft::integer_attribute("axis", 1)}), "y");
    return b.finish();
}
tensor pictures(std::uint64_t seed, std::int64_t n = 2) { return small_steps::numbered(seed, {n, 4, 6, 6}); }

graft::result<tensor> answer(const graft::graph& g, const std::shared_ptr<graft::device>& on, const tensor& x) {
    graft::model m;
    GRAFT_TRY_ASSIGN(m, graft::load(g, graft::on_device(on)));
    return graft::session(m, {1, nullptr}).run(x);
}
// How far off it is; infinite where there is none.
double error_of(const graft::result<tensor>& got, const tensor& want) { return got.ok() ? difference(got.value(), want) : HUGE_VAL; }

// Calls f(0), f(1), ... each on a thread of its own.
template <class F>
void side_by_side(std::size_t count, F f) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([f, i] { f(i); });
    for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE("cuDNN's plans are made side by side, each with a handle of its own") {
    const graft::graph g = network(3, 8);
    const tensor x = pictures(5), want = answer(g, nullptr, x).value();
    // As many handles as threads, or as many as cuDNN makes.
    for (const char* rule : {"", "cudnnCreate:2:4003", "cudnnCreate:3:4004"}) {
        CAPTURE(std::string(rule));
        const long live = simulated::count("cudnnHandle_t"), problems = simulated::count("problems");
        simulated::set("PLAN_MS", "20");
        {
            const fresh_device device;
            simulated::fail(rule);
            const auto got = answer(g, device.on, x);
            simulated::fail(nullptr);
            CHECK_MESSAGE(error_of(got, want) <= 1e-5, std::string(got.ok() ? "" : got.error().what()));
            if (!*rule) CHECK(simulated::count("cudnnHandle_t") > live + 1);
        }
        simulated::set("PLAN_MS", nullptr);
        CHECK(simulated::count("cudnnHandle_t") == live);
        const std::string report = simulated::report();
        CHECK_MESSAGE(simulated::count("problems") == problems, report);
    }
}

TEST_CASE("threads load networks onto one device of the CUDA simulator and run them, all at once") {
    const fresh_device device;
    const graft::graph graphs[] = {network(3, 8), network(7, 12)};
    std::vector<tensor> batches, want[2];
    for (std::uint64_t i = 0; i < 4; ++i) batches.push_back(pictures(20 + i, i == 2 ? 1 : 2));
    for (int k = 0; k < 2; ++k)
        for (const tensor& x : batches) want[k].push_back(answer(graphs[k], nullptr, x).value());
    const long problems = simulated::count("problems");
    std::vector<double> worst(4, HUGE_VAL);
    std::vector<std::string> said(worst.size());
    side_by_side(worst.size(), [&](std::size_t t) {
        auto m = graft::load(graphs[t % 2], graft::on_device(device.on));
        if (!m.ok()) {
            said[t] = m.error().what();
            return;
        }
        graft::session session(m.value(), {2, nullptr});
        double most = 0;
        for (std::size_t i = 0; i < 8; ++i) most = larger_error(most, error_of(session.run(batches[i % 4], &batches[(i + 1) % 4]), want[t % 2][i % 4]));
        worst[t] = most;
    });
    for (std::size_t t = 0; t < worst.size(); ++t) CHECK_MESSAGE(worst[t] <= 1e-5, said[t]);
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == problems, report);
}

TEST_CASE("pictures that a loader's threads read are scored on the CUDA simulator, brought there ahead, as on the CPU") {
    const made_folder folder;
    std::string pixels, labels;
    for (int i = 0; i < 44; ++i) {
        labels += static_cast<char>(i % 10);
        for (int p = 0; p < 28 * 28; ++p) pixels += static_cast<char>((i * 37 + p * (i % 7 + 1)) % 256);
    }
    folder.put("train-images-idx3-ubyte", idx_images(44, 28, 28, pixels));
    folder.put("train-labels-idx1-ubyte", idx_labels(labels));
    const graft::dataset data = graft::open_dataset(folder.path).value();
    const graft::graph g = small_steps::architecture("lenet");
    graft::evaluation_options options;
    options.batch = 8;
    options.threads = 3;
    const auto spec = graft::parse_preprocess("unit,resize=28x28,order=gray").value();
    const auto host = graft::evaluate(graft::load(g), data, spec, {}, options);
    const auto device = graft::evaluate(graft::load(g, graft::on_device(simulated::exact_device())), data, spec, {}, options);
    REQUIRE_MESSAGE(host.ok(), std::string(host.ok() ? "" : host.error().what()));
    REQUIRE_MESSAGE(device.ok(), std::string(device.ok() ? "" : device.error().what()));
    REQUIRE(host.value().pictures.size() == 44);
    REQUIRE(device.value().pictures.size() == 44);
    for (std::size_t i = 0; i < 44; ++i) CHECK(device.value().pictures[i].loss == doctest::Approx(host.value().pictures[i].loss).epsilon(1e-4));
}

TEST_CASE("two trainings on one device of the CUDA simulator learn the bits that each learns alone") {
    const graft::graph g = small_steps::architecture("lenet");
    const graft::step_options options = learning::with(graft::optimizer_kind::sgd, simulated::exact_device());
    std::vector<std::unique_ptr<learning::trained>> all;
    for (int i = 0; i < 3; ++i) all.emplace_back(new learning::trained(g, options));
    std::vector<tensor> batches;
    for (std::uint64_t i = 0; i < 5; ++i) batches.push_back(small_steps::numbered(400 + i, all[0]->batch_shape(4)));
    const auto train = [&](std::size_t k) {
        bool ran = true;
        for (std::size_t i = 0; i < batches.size(); ++i)
            ran = ran && all[k]->run(static_cast<std::int64_t>(i), batches[i], 1, 0.01, i + 1 < batches.size() ? &batches[i + 1] : nullptr);
        return ran && all[k]->step.read_state().ok();
    };
    REQUIRE(train(0));
    bool ran[2] = {};
    side_by_side(2, [&](std::size_t t) { ran[t] = train(1 + t); });
    for (std::size_t t = 0; t < 2; ++t) {
        REQUIRE_MESSAGE(ran[t], all[1 + t]->error());
        CHECK(all[1 + t]->bits() == all[0]->bits());
    }
}
