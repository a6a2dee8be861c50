// Networks of depthwise layers through the back end for NVIDIA GPUs, on the CUDA simulator: what lowering leaves whole, and training.
#include "learning.hpp"

#include "../ops/problems.hpp"

#include <algorithm>

namespace {

// Inverted residuals for pictures [3, side, side]: a stem, a block that halves the picture, and one whose input is added to its output.
graft::graph inverted_residuals(std::int64_t side, bool norms) {
    graft::builder b("net", 11);
    const auto unit = [&](graft::value_id x, std::int64_t channels, std::int64_t kernel, std::int64_t stride, std::int64_t groups) {
        graft::conv2d_options o;
        o.kernel = kernel, o.stride = stride, o.padding = kernel / 2, o.groups = groups, o.bias = !norms;
        x = b.conv2d(x, channels, o);
        return norms ? b.batch_norm(x) : x;
    };
    graft::value_id x = b.clip(unit(b.input("input", graft::dtype::float32, {"N", 3, side, side}), 8, 3, 2, 1), 0, 6);
    x = b.clip(unit(x, 24, 1, 1, 1), 0, 6);
    x = b.clip(unit(x, 24, 3, 2, 24), 0, 6);
    x = unit(x, 16, 1, 1, 1);
    graft::value_id y = b.clip(unit(x, 40, 1, 1, 1), 0, 6);
    y = unit(y, 40, 5, 1, 40);
    y = b.clip(y, 0, 6);
    x = b.add(x, unit(y, 16, 1, 1, 1));
    if (norms)
        b.output(b.linear(b.flatten(b.global_average_pool(x)), 5), "logits");
    else  // an activation that cuDNN has not
        b.output(b.apply("GlobalAveragePool", {b.apply("HardSwish", {unit(x, 16, 5, 1, 16)})}), "means");
    return b.finish();
}

std::vector<graft::placement> placed(const graft::model& m, const graft::shape& x) {
    auto places = m.placements({{"input", graft::dtype::float32, true, x, {}, false}});
    const std::string error = places.ok() ? "" : places.error().what();
    REQUIRE_MESSAGE(places.ok(), error);
    return places.value();
}

}  // namespace

TEST_CASE("depthwise layers keep their activations in one kernel of our own on the CUDA simulator") {
    const graft::graph g = small_steps::loaded(inverted_residuals(18, false));
    const graft::tensor x = small_steps::numbered(5, {2, 3, 18, 18});
    const graft::tensor want = simulated::recorded_answer(graft::load(g), x);
    for (const char* precision : {"float32", "float16"}) {
        CAPTURE(precision);
        graft::device_options options;
        options.precision = precision;
        const graft::model m = graft::load(g, graft::on_device(simulated::open(options)));
        CHECK(difference(simulated::recorded_answer(m, x), want) <= (std::string(precision) == "float16" ? 5e-3 : 1e-5));
        int own = 0, apart = 0;
        for (const graft::placement& p : placed(m, x.shape())) {
            own += p.op_type == "graft.Conv" && p.kernel.find("depthwise") == 0;
            apart += p.op_type == "graft.Activation" || p.op_type == "HardSwish" || p.op_type == "Fusion";
        }
        CHECK(own == 3);
        CHECK(apart == 1);  // the stem's: cuDNN does better without it
    }
}

TEST_CASE("sums of depthwise weights are stored in float32 where they are made, those of cuDNN behind it") {
    graft::device_options options;
    options.precision = "float16";
    const auto device = simulated::open(options);
    const graft::op_row& row = *graft::ops::find_training_op("graft", "ConvGradWeight", 1);
    for (const bool depthwise : {true, false}) {
        problems::problem p = problems::read(row, depthwise ? "f32[2,16,7,9] f32[2,16,7,9] shape=16,1,3,3 group=16 pads=1,1,1,1"
                                                            : "f32[2,16,7,9] f32[2,16,7,9] shape=16,2,3,3 group=8 pads=1,1,1,1");
        REQUIRE(p.error.empty());
        const graft::value_id made = p.g.outputs[0];
        graft::value& y = p.g.at(made);
        y.type = graft::dtype::float32, y.has_shape = true, y.extents = {16, depthwise ? 1 : 2, 3, 3};
        p.g.nodes[0].op = &row;
        const graft::limits limit;
        graft::executor serial;
        REQUIRE(device->lower(p.g, {limit, serial, nullptr, false}).ok());
        bool direct = false;
        for (const graft::node& n : p.g.nodes) direct |= n.op_type == "ConvGradWeight" && n.outputs[0] == made;
        CHECK(direct == depthwise);
    }
}

TEST_CASE("training steps of inverted residuals on the CUDA simulator learn what the CPU learns") {
    learning::expect_alike(small_steps::loaded(inverted_residuals(18, true)));
}

TEST_CASE("training steps of inverted residuals in halves learn nearly the same on the CUDA simulator") {
    learning::expect_nearly_alike_in_halves(small_steps::loaded(inverted_residuals(18, true)), 8);
}
