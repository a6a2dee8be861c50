// Grad-CAM against PyTorch's autograd, and what it refuses.
#include "golden_grad_cam.hpp"

#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace {

graft::tensor sines(int k, const graft::shape& extents) {
    graft::tensor made = graft::tensor::zeros(graft::dtype::float32, extents).value();
    for (std::int64_t i = 0; i < made.elements(); ++i)
        made.data<float>()[i] = static_cast<float>(std::sin((1 + 0.3 * k) * static_cast<double>(i) + k) / 2);
    return made;
}

// The network of scripts/record_grad_cam.py.
graft::graph small_network() {
    graft::builder b;
    graft::conv2d_options first;
    first.kernel = 3, first.padding = 1, first.weight = sines(2, {3, 2, 3, 3}), first.bias_values = sines(3, {3}),
    first.name = "first";
    graft::conv2d_options second = first;
    second.weight = sines(4, {3, 3, 3, 3}), second.bias_values = sines(5, {3}), second.name = "second";
    graft::linear_options last;
    last.weight = sines(6, {4, 36}), last.bias_values = sines(7, {4}), last.name = "last";
    const graft::value_id x = b.relu(b.conv2d(b.input("x", graft::dtype::float32, {"N", 2, 8, 6}), 3, first));
    b.output(b.linear(b.flatten(b.relu(b.max_pool(b.conv2d(x, 3, second)))), 4, last), "logits");
    const graft::model verified = graft::load(b.finish());
    return verified.graph();
}

graft::value_id made_by(const graft::graph& g, const char* op, int which = 0) {
    for (const graft::node& n : g.nodes)
        if (n.op_type == op && which-- == 0) return n.outputs[0];
    return graft::no_value;
}

} // namespace

TEST_CASE("Grad-CAM gives the maps that PyTorch's autograd gives") {
    const graft::graph g = small_network();
    graft::pool_executor pool(2);
    graft::grad_cam cam = graft::grad_cam::make(g, made_by(g, "Relu"), g.outputs[0], {1, 2, 8, 6}, pool);
    for (int label : {0, 3, 1, 2}) {
        const graft::tensor map = cam.map(sines(1, {1, 2, 8, 6}), label);
        REQUIRE(map.shape() == graft::shape{8, 6});
        for (int i = 0; i < 48; ++i)
            CHECK(std::fabs(static_cast<double>(map.data<float>()[i]) - golden_grad_cam[label][i]) < 1e-7);
    }
}

TEST_CASE("Grad-CAM refuses what it cannot map") {
    const graft::graph g = small_network();
    graft::pool_executor pool(1);
    const graft::value_id features = made_by(g, "Relu"), flat = made_by(g, "Flatten");
    const auto code = [](const auto& r) { return r.ok() ? std::string("ok") : std::string(graft::text(r.error().code())); };
    CHECK(code(graft::grad_cam::make(g, flat, g.outputs[0], {1, 2, 8, 6}, pool)) == "input.shape");
    CHECK(code(graft::grad_cam::make(g, features, g.outputs[0], {2, 2, 8, 6}, pool)) == "input.shape");
    CHECK(code(graft::grad_cam::make(g, features, features, {1, 2, 8, 6}, pool)) == "input.shape");
    graft::grad_cam cam = graft::grad_cam::make(g, features, g.outputs[0], {1, 2, 8, 6}, pool);
    CHECK(code(cam.map(sines(1, {1, 2, 8, 6}), 4)) == "data.label_range");
    CHECK(code(cam.map(sines(1, {1, 2, 8, 5}), 0)) == "input.shape");
}
