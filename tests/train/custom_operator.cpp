// Operators of an app's own learn by the gradient in their row, as graft's do by theirs.
#include "../data/made_dataset.hpp"
#include "small_steps.hpp"

#include <graft/data/png_encode.hpp>

#include <cmath>

namespace {

using graft::dtype;
using graft::value_id;

// Limit: y = tanh(x * w), w one number for each of the last axis.
graft::status limit_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
graft::status limit_run(graft::run_context& c) {
    const float *x = c.in[0].as<float>(), *w = c.in[1].as<float>();
    const std::int64_t width = c.in[1].elements();
    for (std::int64_t i = 0; i < c.in[0].elements(); ++i) c.out[0].as<float>()[i] = std::tanh(x[i] * w[i % width]);
    return {};
}
graft::status limit_gradient(graft::gradient_context& c) {
    const value_id one = c.build.number(1, c.dy()), slope = c.build.mul(c.dy(), c.build.sub(one, c.build.mul(c.out(), c.out())));
    c.give(0, c.build.mul(slope, c.in(1)));
    c.give_summed(1, c.build.mul(slope, c.in(0)));
    return {};
}
const graft::op_row rows[] = {
    graft::make_op("Limit", "my.app").inputs(2).functions(limit_infer, limit_run).gradient(limit_gradient).problems("f32[2,3] f32[3]"),
    graft::make_op("Stuck", "my.app").inputs(2).functions(limit_infer, limit_run).problems("f32[2,3] f32[3]"),
};
const graft::op_table own = rows;

graft::graph network(const char* op) {
    graft::builder b("net", 2);
    graft::conv2d_options conv;
    conv.kernel = 3, conv.stride = 2, conv.name = "conv";
    value_id x = b.conv2d(b.input("picture", dtype::float32, {"N", 3, 8, 8}), 5, conv);
    x = b.flatten(b.global_average_pool(x));
    const value_id w = b.constant("limits", small_steps::numbered(3, {5}, 0.5, 1));
    if (op)
        x = b.apply(op, {x, w});
    else
        x = b.apply("Tanh", {b.apply("Mul", {x, w})});
    b.output(b.apply("MatMul", {x, b.constant("fc", small_steps::numbered(4, {5, 4}))}), "scores");
    graft::graph g = b.finish();
    for (graft::node& n : g.nodes)
        if (op && n.op_type == op) n.domain = "my.app";
    g.opsets.push_back({"my.app", 1});
    return graft::load(std::move(g), graft::on_device(nullptr, own)).value().graph();
}

}  // namespace

TEST_CASE("An operator of the app's own learns as the same in graft's operators does") {
    std::vector<double> found[2];
    for (int which = 0; which < 2; ++which) {
        const graft::graph g = network(which ? "Limit" : nullptr);
        graft::step_options how;
        how.operators = own;
        const std::vector<graft::parameter> parameters = graft::parameters_of(g);
        REQUIRE(parameters.size() == 4);
        graft::training_step step = graft::training_step::make(g, graft::logits_of(g), parameters, how).value();
        const graft::tensor x = small_steps::numbered(4, {6, 3, 8, 8});
        graft::tensor t = graft::tensor::zeros(dtype::float32, {6, 4});
        for (int i = 0; i < 6; ++i) t.data<float>()[i * 4 + i % 4] = 1;
        graft::executor serial;
        for (int k = 0; k < 5; ++k) {
            graft::step_input in;
            in.inputs = &x, in.targets = &t, in.scale = 1.0 / 6, in.learning_rate = 0.01, in.step = k;
            const graft::status done = step.run(in, serial);
            REQUIRE_MESSAGE(done.ok(), std::string(done.ok() ? "" : done.error().what()));
            found[which].push_back(step.loss());
        }
    }
    for (std::size_t i = 0; i < 5; ++i) CHECK(found[0][i] == doctest::Approx(found[1][i]).epsilon(1e-5));
    CHECK(found[1][4] < found[1][0]);
}

TEST_CASE("Without a gradient what lies before an operator of the app's own cannot learn") {
    const graft::graph g = network("Stuck");
    graft::step_options how;
    how.operators = own;
    graft::training_step step = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), how).value();
    graft::executor serial;
    CHECK(step.prepare({2, 3, 8, 8}, serial).error().code() == graft::errc::train_no_gradient);
}

TEST_CASE("Fine-tuning a network with operators of the app's own writes one that the app can load") {
    const made_folder folder;
    for (const char* part : {"train", "val"})
        for (int label = 0; label < 2; ++label)
            for (int i = 0; i < 4; ++i) {
                const graft::image picture = graft::image::make(8, 8, 3);
                for (int p = 0; p < 192; ++p) picture.data()[p] = static_cast<std::uint8_t>(label ? 255 - p : p + i);
                folder.put(std::string("data/") + part + "/" + "ab"[label] + "/" + std::to_string(i) + ".png", graft::encode_png(picture));
            }
    graft::finetune_options how;
    how.epochs = 3;
    how.batch = 4;
    how.preprocessing = "unit,resize=8x8,crop=none";
    how.out = folder.path + "/run";
    how.step.operators = own;
    graft::training_observer nobody;
    const graft::model from = graft::load(network("Limit"), graft::on_device(nullptr, own)).value();
    auto done = graft::finetune(graft::open_splits(folder.path + "/data").value(), from, how, nobody);
    REQUIRE_MESSAGE(done.ok(), std::string(done.ok() ? "" : done.error().what()));
    graft::classifier_options loading;
    loading.load = graft::on_device(nullptr, own);
    CHECK(graft::classifier::load(folder.path + "/run/model.onnx", loading).ok());
    CHECK(graft::classifier::load(folder.path + "/run/model.onnx").error().code() == graft::errc::op_unsupported);
}
