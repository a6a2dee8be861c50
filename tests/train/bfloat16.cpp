// Training steps whose operands are rounded to bfloat16 on the CPU, with weights in float32: beside steps in float32, by threads, in parts, and in whole runs.
#include "../cpu_in_bfloat16.hpp"
#include "../skipped.hpp"
#include "small_runs.hpp"

#include <cmath>

using small_steps::architecture;

namespace {

// Tokens of a picture, mixed by linear layers: products by weights that learn.
graft::graph linear_layers() {
    graft::builder b("tokens", 6);
    graft::conv2d_options patches;
    patches.kernel = patches.stride = 4, patches.name = "patches";
    graft::value_id x = b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 32, 32}), 48, patches);
    const std::int64_t tokens[] = {0, 48, 64};
    x = b.apply("Reshape", {x, b.constant("tokens", graft::tensor::from(tokens, {3}))});
    x = b.apply("Transpose", {x}, {graft::integers_attribute("perm", {0, 2, 1})});
    x = b.relu(b.apply("MatMul", {x, b.constant("mix.weight", small_steps::numbered(81, {48, 96}, 0.2))}));
    x = b.apply("MatMul", {x, b.constant("back.weight", small_steps::numbered(82, {96, 40}, 0.2))});
    x = b.apply("ReduceMean", {x}, {graft::integers_attribute("axes", {1}), graft::integer_attribute("keepdims", 0)});
    x = b.apply("Gemm", {x, b.constant("fc.weight", small_steps::numbered(83, {40, 10}, 0.2)), b.constant("fc.bias", small_steps::numbered(84, {10}))});
    return small_steps::finished(b, x, 10);
}

// Of the weights; what the optimizer keeps comes behind them.
double distance(const graft::training_step& a, const graft::training_step& b, std::size_t weights, double& size) {
    double most = 0;
    for (std::size_t i = 0; i < weights; ++i) {
        const graft::tensor &x = a.state()[i].value, &y = b.state()[i].value;
        for (std::int64_t k = 0; x.type() == graft::dtype::float32 && k < x.elements(); ++k) {
            const double off = std::fabs(double(x.data<float>()[k]) - double(y.data<float>()[k]));
            if (!(off <= most)) most = off;  // NaN too
            size = std::fmax(size, std::fabs(double(x.data<float>()[k])));
        }
    }
    return most;
}

class stopper final : public graft::training_observer {
public:
    explicit stopper(int steps) : left_(steps) {}
    graft::training_verdict on_step(const graft::trainer_progress&) override {
        return --left_ > 0 ? graft::training_verdict::go_on : graft::training_verdict::stop;
    }

private:
    int left_;
};

}  // namespace

TEST_CASE("bfloat16: steps go nearly as those in float32 do, and their weights stay float32") {
    for (const char* by : {"amx", "avx512_bf16"}) {
        INFO(by);
        const emulated_products with(by);
        if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
        struct {
            const char* name;
            graft::graph g;
        } const nets[] = {{"lenet", architecture("lenet", 28)}, {"resnet20", architecture("resnet20", 16)}, {"linear layers", linear_layers()}};
        for (const auto& net : nets) {
            INFO(net.name);
            graft::step_options o;
            o.optimizer.kind = graft::optimizer_kind::sgd;
            small_steps::trained wide(net.g, o);
            o.on = cpu_in_bfloat16();
            small_steps::trained in_bfloat16(net.g, o), by_threads(net.g, o);
            for (std::int64_t i = 0; i < 3; ++i) {
                CHECK(wide.run(i, 5));
                CHECK(in_bfloat16.run(i, 5));
                CHECK(by_threads.run(i, 5, 3));
                CHECK(in_bfloat16.step.loss() != wide.step.loss());
                CHECK(in_bfloat16.step.loss() == doctest::Approx(wide.step.loss()).epsilon(0.02));
            }
            double size = 0;
            const double off = distance(wide.step, in_bfloat16.step, graft::parameters_of(net.g).size(), size);
            CHECK(off > 0);
            CHECK(off < 0.01 * size);
            CHECK(by_threads.bits() == in_bfloat16.bits());
        }
    }
}

TEST_CASE("bfloat16: a batch in parts, and one of two members, give the bits of the whole batch") {
    for (const char* by : {"amx", "avx512_bf16"}) {
        INFO(by);
        const emulated_products with(by);
        if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
        for (const graft::graph& g : {architecture("lenet", 28), linear_layers()}) {
            graft::step_options o;
            o.on = cpu_in_bfloat16();
            small_steps::trained whole(g, o);
            o.micro_batches = 4;
            small_steps::trained parts(g, o);
            for (std::int64_t i = 0; i < 2; ++i) {
                CHECK(whole.run(i, 16));
                CHECK(parts.run(i, 16));
            }
            CHECK(whole.bits() == parts.bits());
        }
    }
}

TEST_CASE("bfloat16: a whole run learns, goes on where it stopped to the same bits, and writes float32") {
    const emulated_products with("amx");
    if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/whole");
    o.precision = "bfloat16";
    o.step.on = cpu_in_bfloat16();
    o.epochs = 6;
    const outcome whole = trained(folder, o, small_network("none"));
    CHECK(whole.result.history.back().loss < whole.result.history.front().loss);
    for (const graft::value& v : whole.result.network.values)
        if (v.constant) CHECK(v.constant.type() != graft::dtype::bfloat16);
    o.out = folder.path + "/cut";
    o.checkpoint_seconds = 0;
    stopper after(7);
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    REQUIRE(graft::train(small_network("none"), data, o, after).ok());
    o.resume = true;
    o.threads = 2;
    CHECK(trained(folder, o, small_network("none")).model == whole.model);
    // Another precision is another run.
    o.precision = "auto";
    o.step.on = nullptr;
    graft::training_observer watcher;
    const auto other = graft::train(small_network("none"), data, o, watcher);
    REQUIRE(!other.ok());
    CHECK(std::string(other.error().what()).find("precision") != std::string::npos);
}
