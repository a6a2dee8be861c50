// Grad-CAM against PyTorch's autograd, where the features for it are found, and what it refuses.
#include "golden_grad_cam.hpp"

#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace {

using graft::value_id;

graft::tensor sines(int k, const graft::shape& extents, double plus = 0) {
    graft::tensor made = graft::tensor::zeros(graft::dtype::float32, extents).value();
    for (std::int64_t i = 0; i < made.elements(); ++i)
        made.data<float>()[i] = static_cast<float>(std::sin((1 + 0.3 * k) * static_cast<double>(i) + k) / 2 + plus);
    return made;
}

graft::tensor integers(std::initializer_list<std::int64_t> all) {
    const std::vector<std::int64_t> list(all);
    return graft::tensor::from(list.data(), {static_cast<std::int64_t>(list.size())});
}

template <class T>
graft::tensor scalar(T value) {
    return graft::tensor::from(&value, {});
}

// The networks of scripts/record_grad_cam.py.
struct network {
    graft::builder b;
    int constants = 0;

    value_id constant(graft::tensor t) { return b.constant("constant" + std::to_string(constants++), std::move(t)); }
    value_id weights(int k, const graft::shape& extents, double plus = 0) { return constant(sines(k, extents, plus)); }
    value_id product(value_id x, int k, const graft::shape& extents) { return b.apply("MatMul", {x, weights(k, extents)}); }
    value_id reshaped(value_id x, std::initializer_list<std::int64_t> extents) { return b.apply("Reshape", {x, constant(integers(extents))}); }
    value_id transposed(value_id x, std::vector<std::int64_t> order) {
        return b.apply("Transpose", {x}, {graft::integers_attribute("perm", std::move(order))});
    }
    value_id joined(value_id x, value_id y) { return b.apply("Concat", {x, y}, {graft::integer_attribute("axis", 1)}); }
    value_id sum(value_id x, value_id y) { return b.apply("Add", {x, y}); }
    value_id tanh(value_id x) { return b.apply("Tanh", {x}); }
    value_id picture() { return b.input("x", graft::dtype::float32, {"N", 2, 8, 6}); }
    value_id convolved(value_id x, std::int64_t channels, std::int64_t from, int k, std::int64_t kernel = 3, std::int64_t stride = 1) {
        graft::conv2d_options o;
        o.kernel = kernel, o.stride = stride, o.padding = kernel / 2 * (stride == 1), o.weight = sines(k, {channels, from, kernel, kernel}),
        o.bias_values = sines(k + 1, {channels}), o.name = "conv" + std::to_string(k);
        return b.conv2d(x, channels, o);
    }
    value_id normalized(value_id x, int k) {
        return b.apply("LayerNormalization", {x, weights(k, {4}, 1), weights(k + 1, {4})}, {graft::integer_attribute("axis", -1)});
    }
    value_id block(value_id x, int k) {
        const value_id y = normalized(x, k);
        value_id parts[3];
        for (int i = 0; i < 3; ++i)
            parts[i] = transposed(reshaped(product(y, k + 2 + i, {4, 4}), {1, 13, 2, 2}),
                                  i == 1 ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 2, 1, 3});
        const value_id scale = constant(scalar(1 / std::sqrt(2.0f)));
        const value_id attention =
            b.apply("Softmax", {b.apply("Mul", {b.apply("MatMul", {parts[0], parts[1]}), scale})}, {graft::integer_attribute("axis", -1)});
        const value_id merged = reshaped(transposed(b.apply("MatMul", {attention, parts[2]}), {0, 2, 1, 3}), {1, 13, 4});
        x = sum(x, product(merged, k + 5, {4, 4}));
        return sum(x, product(tanh(product(normalized(x, k + 6), k + 8, {4, 8})), k + 9, {8, 4}));
    }
    graft::graph finish(value_id logits) {
        b.output(logits, "logits");
        return graft::load(b.finish()).value().graph();
    }
};

graft::graph convolutional_network() {
    network n;
    const value_id x = n.b.relu(n.convolved(n.picture(), 3, 2, 2));
    const value_id hidden = n.b.relu(n.b.max_pool(n.convolved(x, 3, 3, 4)));
    graft::linear_options last;
    last.weight = sines(6, {4, 36}), last.bias_values = sines(7, {4}), last.name = "last";
    return n.finish(n.b.linear(n.b.flatten(hidden), 4, last));
}

graft::graph channels_last_network() {
    network n;
    const value_id features = n.tanh(n.product(n.transposed(n.b.relu(n.convolved(n.picture(), 3, 2, 2)), {0, 2, 3, 1}), 8, {3, 5}));
    const value_id mean = n.b.apply("ReduceMean", {n.tanh(features), n.constant(integers({1, 2}))}, {graft::integer_attribute("keepdims", 0)});
    return n.finish(n.product(mean, 9, {5, 4}));
}

graft::graph transformer() {
    network n;
    const value_id patches = n.transposed(n.reshaped(n.convolved(n.picture(), 4, 2, 10, 2, 2), {1, 4, 12}), {0, 2, 1});
    const value_id tokens = n.sum(n.joined(n.weights(12, {1, 1, 4}), patches), n.weights(13, {1, 13, 4}));
    const value_id last = n.normalized(n.block(n.block(tokens, 20), 30), 40);
    const value_id first = n.b.apply("Gather", {last, n.constant(scalar(std::int64_t(0)))}, {graft::integer_attribute("axis", 1)});
    return n.finish(n.product(first, 42, {4, 4}));
}

value_id made_by(const graft::graph& g, const char* op, int which = 0) {
    for (const graft::node& n : g.nodes)
        if (n.op_type == op && which-- == 0) return n.outputs[0];
    return graft::no_value;
}

// Features [1, K, H, W].
graft::feature_map image_of(value_id id, std::int64_t channels, std::int64_t height, std::int64_t width) {
    graft::feature_map m;
    m.features = id, m.channels = channels, m.height = height, m.width = width, m.channel_stride = height * width;
    return m;
}

template <std::size_t N>
void compare(const graft::graph& g, const graft::feature_map& features, const double (&golden)[4][N]) {
    graft::pool_executor pool(2);
    graft::grad_cam cam = graft::grad_cam::make(g, features, g.outputs[0], {1, 2, 8, 6}, pool);
    double largest = 0;
    for (int label : {0, 3, 1, 2}) {
        const graft::tensor map = cam.map(sines(1, {1, 2, 8, 6}), label);
        REQUIRE(map.shape() == graft::shape{features.height, features.width});
        REQUIRE(map.elements() == static_cast<std::int64_t>(N));
        for (std::size_t i = 0; i < N; ++i) {
            CHECK(std::fabs(static_cast<double>(map.data<float>()[i]) - golden[label][i]) < 1e-7 + 1e-5 * golden[label][i]);
            largest = std::max(largest, golden[label][i]);
        }
    }
    CHECK(largest > 1e-4);
}

const graft::shape one_picture = {1, 2, 8, 6};

}  // namespace

TEST_CASE("Grad-CAM gives the maps that PyTorch's autograd gives") {
    const graft::graph g = convolutional_network();
    compare(g, image_of(made_by(g, "Relu"), 3, 8, 6), golden_grad_cam);
}

TEST_CASE("the last images of features are found, whichever axis has their channels") {
    graft::pool_executor pool(2);
    const graft::graph g = convolutional_network();
    const graft::feature_map last = graft::find_feature_map(g, g.outputs[0], one_picture, pool);
    CHECK(last.features == made_by(g, "Relu", 1));
    CHECK(last.height == 4);
    CHECK(last.width == 3);
    CHECK(last.channels == 3);
    CHECK(!last.tokens);

    // Behind the last Tanh of places that are averaged; the recorded features are what it reads.
    const graft::graph other = channels_last_network();
    graft::feature_map places = graft::find_feature_map(other, other.outputs[0], one_picture, pool);
    CHECK(places.features == made_by(other, "Tanh", 1));
    CHECK(places.height == 8);
    CHECK(places.width == 6);
    CHECK(places.channels == 5);
    CHECK(places.place_stride == 5);
    places.features = made_by(other, "Tanh");
    compare(other, places, golden_channels_last);
}

TEST_CASE("a transformer that answers by a class token is mapped by the patches before its last attention") {
    graft::pool_executor pool(2);
    const graft::graph g = transformer();
    const graft::feature_map found = graft::find_feature_map(g, g.outputs[0], one_picture, pool);
    CHECK(found.tokens);
    CHECK(found.first == 4);  // one token of four features
    CHECK(found.height == 4);
    CHECK(found.width == 3);
    CHECK(found.channels == 4);
    CHECK(found.features == made_by(g, "LayerNormalization", 2));  // two are of the first block
    compare(g, found, golden_tokens);
}

TEST_CASE("places that stand in one axis, or before the class token, are found too") {
    graft::pool_executor pool(2);
    network flat;
    const value_id image = flat.reshaped(flat.convolved(flat.picture(), 7, 2, 2), {1, 7, 48});
    const value_id mean = flat.b.apply("ReduceMean", {image, flat.constant(integers({2}))}, {graft::integer_attribute("keepdims", 0)});
    const graft::graph g = flat.finish(flat.product(mean, 9, {7, 4}));
    const graft::feature_map m = graft::find_feature_map(g, g.outputs[0], one_picture, pool);
    CHECK(m.features == made_by(g, "Reshape"));
    CHECK(m.channels == 7);
    CHECK(m.height == 8);
    CHECK(m.place_stride == 1);
    CHECK(m.channel_stride == 48);

    network behind;
    const value_id patches = behind.transposed(behind.reshaped(behind.convolved(behind.picture(), 4, 2, 10, 2, 2), {1, 4, 12}), {0, 2, 1});
    const value_id tokens = behind.block(behind.joined(patches, behind.weights(12, {1, 1, 4})), 20);
    const value_id all = behind.b.apply("ReduceMean", {tokens, behind.constant(integers({1}))}, {graft::integer_attribute("keepdims", 0)});
    const graft::graph h = behind.finish(behind.product(all, 42, {4, 4}));
    const graft::feature_map p = graft::find_feature_map(h, h.outputs[0], one_picture, pool);
    CHECK(p.tokens);
    CHECK(p.first == 0);
    CHECK(p.features == made_by(h, "Add", 1));  // all of them are read: the block's own output
}

TEST_CASE("Grad-CAM refuses what it cannot map") {
    const graft::graph g = convolutional_network();
    graft::pool_executor pool(1);
    const graft::feature_map features = image_of(made_by(g, "Relu"), 3, 8, 6);
    const auto code = [](const auto& r) { return r.ok() ? std::string("ok") : std::string(graft::text(r.error().code())); };
    CHECK(code(graft::grad_cam::make(g, image_of(made_by(g, "Flatten"), 3, 8, 6), g.outputs[0], one_picture, pool)) == "input.shape");
    CHECK(code(graft::grad_cam::make(g, image_of(made_by(g, "Relu"), 4, 8, 6), g.outputs[0], one_picture, pool)) == "input.shape");
    CHECK(code(graft::grad_cam::make(g, image_of(graft::no_value, 3, 8, 6), g.outputs[0], one_picture, pool)) == "input.name");
    CHECK(code(graft::grad_cam::make(g, features, g.outputs[0], {2, 2, 8, 6}, pool)) == "input.shape");
    graft::grad_cam cam = graft::grad_cam::make(g, features, g.outputs[0], one_picture, pool);
    CHECK(code(cam.map(sines(1, one_picture), 4)) == "data.label_range");
    CHECK(code(cam.map(sines(1, {1, 2, 8, 5}), 0)) == "input.shape");

    // Dense layers alone: what lies by places is the picture itself.
    network dense;
    const value_id x = dense.b.apply("Flatten", {dense.tanh(dense.picture())});
    const graft::graph h = dense.finish(dense.product(dense.b.relu(dense.product(x, 2, {96, 12})), 3, {12, 4}));
    const auto none = graft::find_feature_map(h, h.outputs[0], one_picture, pool);
    REQUIRE(code(none) == "explain.features");
    CHECK(none.error().where() == "logits");
    CHECK(code(graft::find_feature_map(g, g.outputs[0], {2, 2, 8, 6}, pool)) == "input.shape");
    CHECK(code(graft::find_feature_map(g, graft::no_value, one_picture, pool)) == "input.name");

    // Where the network rounds, and where it computes in half precision.
    network rounded;
    const value_id scale = rounded.constant(scalar(0.05f)), zero = rounded.constant(scalar(std::int8_t(0)));
    const value_id codes = rounded.b.apply("QuantizeLinear", {rounded.b.relu(rounded.convolved(rounded.picture(), 3, 2, 2)), scale, zero});
    const value_id pooled = rounded.b.apply("GlobalAveragePool", {rounded.b.apply("DequantizeLinear", {codes, scale, zero})});
    const value_id again = rounded.b.apply("DequantizeLinear", {rounded.b.apply("QuantizeLinear", {pooled, scale, zero}), scale, zero});
    const graft::graph q = rounded.finish(rounded.product(rounded.b.apply("Flatten", {again}), 3, {3, 4}));
    const graft::feature_map codes_map = graft::find_feature_map(q, q.outputs[0], one_picture, pool);
    const auto none_back = graft::grad_cam::make(q, codes_map, q.outputs[0], one_picture, pool);
    REQUIRE(code(none_back) == "train.no_gradient");
    CHECK(none_back.error().detail().find("quantised") != std::string::npos);

    network halved;
    const auto cast = [&halved](value_id v, graft::dtype type) {
        return halved.b.apply("Cast", {v}, {graft::integer_attribute("to", static_cast<std::int64_t>(type))});
    };
    const value_id image = halved.convolved(halved.picture(), 3, 2, 2);
    const value_id mean = halved.b.apply("GlobalAveragePool", {cast(image, graft::dtype::float16)});
    const graft::graph f = halved.finish(halved.product(halved.b.apply("Flatten", {cast(mean, graft::dtype::float32)}), 3, {3, 4}));
    CHECK(graft::find_feature_map(f, f.outputs[0], one_picture, pool).value().features == image);
}
