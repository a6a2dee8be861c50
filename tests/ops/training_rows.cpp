// Operators that training adds to the domain graft: against PyTorch, against plain sums, and their own test problems.
#include "../difference.hpp"
#include "../passes/gradients.hpp"
#include "layer_gradients.hpp"

#include <graft/graph/builder.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace {

using graft::tensor;

// The inputs of scripts/record_layer_gradients.py.
tensor values(std::int64_t seed, const graft::shape& s, std::int64_t steps = 257, double scale = 64, double offset = 2) {
    tensor t = tensor::make(graft::dtype::float64, s);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<double>()[i] = static_cast<double>((i * 7919 + seed * 104729) % steps) / scale - offset;
    return t;
}
tensor scalar(double v) {
    tensor t = tensor::make(graft::dtype::float64, graft::shape{});
    t.data<double>()[0] = v;
    return t;
}
tensor count(std::int64_t v) {
    tensor t = tensor::make(graft::dtype::int64, graft::shape{});
    t.data<std::int64_t>()[0] = v;
    return t;
}

// Runs one operator of the domain graft by its reference kernel; an empty tensor is an input that is left out.
std::vector<tensor> run(const char* op_type, const std::vector<tensor>& inputs, std::vector<graft::attribute> attributes, int outputs) {
    graft::node n;
    n.op_type = op_type;
    n.domain = "graft";
    n.version = 1;
    n.op = graft::ops::find_training_op("graft", op_type, 1);
    n.attributes = std::move(attributes);
    REQUIRE(n.op);
    std::vector<graft::tensor_view> in;
    for (const tensor& t : inputs) {
        n.inputs.push_back(t ? static_cast<graft::value_id>(in.size()) : graft::no_value);
        in.push_back(t ? graft::view(t) : graft::tensor_view{});
    }
    for (int i = 0; i < outputs; ++i) n.outputs.push_back(100 + i);
    const graft::limits limit;
    graft::executor serial;
    std::vector<tensor> made;
    const graft::status s = graft::run_reference(n, in.data(), static_cast<int>(in.size()), made, {limit, serial, nullptr, 0});
    const std::string error = s.ok() ? "" : s.error().what();
    CHECK_MESSAGE(s.ok(), error);
    return made;
}

template <std::size_t N>
void check_equal(const tensor& got, const double (&want)[N], double near = 1e-12) {
    REQUIRE(got.elements() == static_cast<std::int64_t>(N));
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < N; ++i) {
        largest = std::max(largest, std::fabs(want[i]));
        worst = larger_error(worst, std::fabs(got.data<double>()[i] - want[i]));
    }
    CHECK(worst <= near * std::max(1.0, largest));
}

double absolute_difference(const tensor& a, const tensor& b) {
    REQUIRE(a.shape() == b.shape());
    double worst = 0;
    for (std::int64_t i = 0; i < a.elements(); ++i) worst = larger_error(worst, std::fabs(a.data<double>()[i] - b.data<double>()[i]));
    return worst;
}

std::vector<graft::attribute> with(std::vector<graft::attribute> a, const std::vector<graft::attribute>& more) {
    a.insert(a.end(), more.begin(), more.end());
    return a;
}

}  // namespace

TEST_CASE("every operator of training runs its test problems by its reference kernel") {
    const graft::ops::table_list all = graft::ops::all_training_op_tables();
    int ran = 0;
    for (const auto& table : all)
        for (const auto& row : table) {
            if (!row.run) continue;
            for (const std::string& text : problems::split(row.problems, ';')) {
                problems::problem p = problems::read(row, text);
                const std::string name = row.name;
                INFO(name, ": ", text);
                CHECK_MESSAGE(p.error.empty(), p.error);
                p.g.nodes[0].op = &row;
                p.g.nodes[0].version = 1;
                std::vector<tensor> made(p.g.values.size());
                for (std::size_t i = 0; i < p.g.values.size(); ++i) made[i] = p.g.values[i].constant;
                for (std::size_t i = 0; i < p.inputs.size(); ++i) made[p.g.inputs[i]] = p.inputs[i];
                const std::string error = gradients::run_nodes(p.g, 1, made);
                CHECK_MESSAGE(error.empty(), error);
                ++ran;
            }
        }
    CHECK(ran > 80);
}

TEST_CASE("the gradients of convolutions are PyTorch's") {
    const std::vector<graft::attribute> window = {graft::integers_attribute("kernel_shape", {3, 2}), graft::integers_attribute("strides", {2, 1}),
                                                  graft::integers_attribute("dilations", {1, 2}), graft::integers_attribute("pads", {1, 1, 1, 1}),
                                                  graft::integer_attribute("group", 2)};
    const tensor x = values(1, {3, 4, 5, 4}), w = values(2, {4, 2, 3, 2}), dy = values(4, {3, 4, 3, 4});
    check_equal(run("ConvGradInput", {dy, w}, with(window, {graft::integers_attribute("shape", {3, 4, 5, 4})}), 1)[0], layer_gradients::conv_dx);
    check_equal(run("ConvGradWeight", {x, dy}, with(window, {graft::integers_attribute("shape", {4, 2, 3, 2})}), 1)[0], layer_gradients::conv_dw);
    const std::vector<graft::attribute> turned = {graft::integers_attribute("kernel_shape", {3, 2}), graft::integers_attribute("strides", {2, 2}),
                                                  graft::integers_attribute("pads", {1, 1, 0, 0}), graft::integer_attribute("group", 2),
                                                  graft::integers_attribute("shape", {4, 1, 3, 2})};
    check_equal(run("ConvGradWeight", {values(4, {2, 2, 6, 5}), values(1, {2, 4, 3, 3})}, turned, 1)[0], layer_gradients::conv_transpose_dw);
}

TEST_CASE("the gradient of ConvTranspose is PyTorch's") {
    graft::graph g;
    graft::emitter e(g, graft::ops::find_training_op, graft::limits());
    const auto input = [&](const tensor& t) {
        const graft::value_id id = g.add_value("x");
        g.values.back().type = t.type(), g.values.back().extents = t.shape(), g.values.back().has_shape = true;
        g.inputs.push_back(id);
        return id;
    };
    const tensor xs = values(1, {2, 4, 3, 3}), ws = values(2, {4, 1, 3, 2});
    const graft::value_id x = input(xs), w = input(ws);
    const graft::value_id y = e.apply("ConvTranspose", {x, w},
                                      {graft::integers_attribute("strides", {2, 2}), graft::integers_attribute("pads", {1, 1, 1, 1}),
                                       graft::integers_attribute("output_padding", {1, 1}), graft::integer_attribute("group", 2)});
    REQUIRE(e.failure.ok());
    const graft::value_id loss = e.apply("ReduceSum", {e.mul(y, e.constant(values(4, e.extents(y))))}, {graft::integer_attribute("keepdims", 0)});
    auto gradients = graft::differentiate(g, loss, {x, w}, 8, graft::limits());
    REQUIRE(gradients.ok());
    std::vector<tensor> all(g.values.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = g.values[i].constant;
    all[x] = xs;
    all[w] = ws;
    const std::string error = gradients::run_nodes(g, g.nodes.size(), all);
    REQUIRE_MESSAGE(error.empty(), error);
    check_equal(all[static_cast<std::size_t>((*gradients)[0])], layer_gradients::conv_transpose_dx);
    check_equal(all[static_cast<std::size_t>((*gradients)[1])], layer_gradients::conv_transpose_dw);
}

TEST_CASE("the gradient takes every activation that there is") {
    const tensor dy = values(3, {5}), x = values(4, {5});
    for (int kind = 0; kind < graft::activation_count; ++kind) {
        INFO(kind);
        const std::vector<tensor> dx = run("ActivationGrad", {dy, x}, {graft::integer_attribute("activation", kind), graft::real_attribute("alpha", 0.25f)}, 1);
        REQUIRE(dx.size() == 1);
        REQUIRE(dx[0].elements() == 5);
        for (int i = 0; i < 5; ++i) CHECK(std::isfinite(dx[0].data<double>()[i]));
        if (kind == 0) CHECK(std::memcmp(dx[0].raw(), dy.raw(), dy.bytes()) == 0);
    }
}

TEST_CASE("MaxPoolGrad takes the first of equal elements, as PyTorch does") {
    const tensor x = values(5, {2, 2, 7, 6}, 7, 2, 1.5), dy = values(6, {2, 2, 4, 3});
    const std::vector<graft::attribute> window = {graft::integers_attribute("kernel_shape", {3, 2}), graft::integers_attribute("strides", {2, 2}),
                                                  graft::integers_attribute("dilations", {1, 2}), graft::integers_attribute("pads", {1, 0, 1, 0})};
    check_equal(run("MaxPoolGrad", {dy, x, dy}, window, 1)[0], layer_gradients::max_pool_dx);
}

TEST_CASE("batch normalisation with a residual and Relu behind it is PyTorch's, and so are its gradients") {
    const tensor x = values(7, {5, 3, 2, 2}), scale = values(8, {3}), bias = values(9, {3}), mean = values(10, {3}), residual = values(12, {5, 3, 2, 2}),
                 dy = values(13, {5, 3, 2, 2});
    tensor variance = values(11, {3});
    for (int i = 0; i < 3; ++i) variance.data<double>()[i] = std::fabs(variance.data<double>()[i]) + 0.5;
    const std::vector<tensor> y =
        run("BatchNormalizationTraining", {x, scale, bias, mean, variance, residual},
            {graft::real_attribute("epsilon", 1e-3f), graft::real_attribute("momentum", 0.9f), graft::integer_attribute("activation", 1)}, 5);
    check_equal(y[0], layer_gradients::batch_norm_y);
    check_equal(y[1], layer_gradients::batch_norm_mean);
    check_equal(y[2], layer_gradients::batch_norm_var);
    const std::vector<tensor> d = run("BatchNormalizationGrad", {dy, x, scale, y[3], y[4], y[0]}, {graft::integer_attribute("activation", 1)}, 4);
    check_equal(d[0], layer_gradients::batch_norm_dx);
    check_equal(d[1], layer_gradients::batch_norm_dscale);
    check_equal(d[2], layer_gradients::batch_norm_dbias);
    check_equal(d[3], layer_gradients::batch_norm_dresidual);
}

TEST_CASE("sums over 1 to 9 samples in 8 shards are the plain sums") {
    for (std::int64_t n = 1; n <= 9; ++n) {
        const graft::attribute one = graft::integer_attribute("shards", 1), eight = graft::integer_attribute("shards", 8);
        const tensor x = values(n, {n, 3, 4, 3}), dy = values(n + 20, {n, 2, 3, 2}), dz = values(n + 30, {n, 3, 4, 3});
        const graft::attribute shape = graft::integers_attribute("shape", {2, 3, 2, 2});
        const tensor sum = run("ConvGradWeight", {x, dy}, {shape, one}, 1)[0];
        CHECK(absolute_difference(run("ConvGradWeight", {x, dy}, {shape, eight}, 1)[0], sum) <= 1e-12 * static_cast<double>(n));
        // By hand, in the order of the samples.
        double plain = 0;
        for (std::int64_t s = 0; s < n; ++s)
            for (int r = 0; r < 3; ++r)
                for (int k = 0; k < 2; ++k) plain += dy.data<double>()[((s * 2 + 1) * 3 + r) * 2 + k] * x.data<double>()[((s * 3 + 2) * 4 + r + 1) * 3 + k];
        CHECK(sum.data<double>()[((1 * 3 + 2) * 2 + 1) * 2 + 0] == doctest::Approx(plain).epsilon(1e-13));
        const tensor scale = values(1, {3}), mean = values(2, {3}), variance = values(3, {3}, 257, 64, -0.5);
        const std::vector<tensor> a = run("BatchNormalizationTraining", {x, scale, mean, mean, variance}, {one}, 5),
                                  b = run("BatchNormalizationTraining", {x, scale, mean, mean, variance}, {eight}, 5);
        const std::vector<tensor> c = run("BatchNormalizationGrad", {dz, x, scale, a[3], a[4]}, {one}, 3),
                                  d = run("BatchNormalizationGrad", {dz, x, scale, a[3], a[4]}, {eight}, 3);
        for (std::size_t i = 0; i < 5; ++i) CHECK(absolute_difference(a[i], b[i]) <= 1e-12);
        for (std::size_t i = 0; i < 3; ++i) CHECK(absolute_difference(c[i], d[i]) <= 1e-12 * static_cast<double>(n));
    }
}

TEST_CASE("four steps of each optimiser end where torch.optim does") {
    const auto real = [](const char* name, float v) { return graft::real_attribute(name, v); };
    const auto sgd = [&](std::vector<graft::attribute> attributes, bool momentum) {
        tensor w = values(14, {6}), buffer = momentum ? tensor::zeros(graft::dtype::float64, {6}).value() : tensor();
        for (int step = 0; step < 4; ++step) {
            const std::vector<tensor> made = run("SGD", {w, values(15 + step, {6}), buffer, scalar(0.1), scalar(1)}, attributes, momentum ? 2 : 1);
            w = made[0];
            if (momentum) buffer = made[1];
        }
        return w;
    };
    check_equal(sgd({}, false), layer_gradients::sgd_w);
    check_equal(sgd({real("momentum", 0.9f), real("weight_decay", 0.01f)}, true), layer_gradients::sgd_momentum_w);
    check_equal(sgd({real("momentum", 0.9f), real("weight_decay", 0.01f), graft::integer_attribute("nesterov", 1)}, true), layer_gradients::sgd_nesterov_w);
    const auto adam = [&](const std::vector<graft::attribute>& attributes, double rate) {
        tensor w = values(14, {6}), m = tensor::zeros(graft::dtype::float64, {6}), v = m;
        for (int step = 0; step < 4; ++step) {
            const std::vector<tensor> made = run("Adam", {w, values(15 + step, {6}), m, v, scalar(rate), count(step + 1), scalar(1)}, attributes, 3);
            w = made[0], m = made[1], v = made[2];
        }
        return w;
    };
    check_equal(adam({real("weight_decay", 0.1f)}, 0.01), layer_gradients::adam_w);
    check_equal(adam({real("beta1", 0.8f), real("beta2", 0.99f), real("epsilon", 1e-6f), real("weight_decay", 0.1f), graft::integer_attribute("decoupled", 1),
                      real("rate", 0.5f)},
                     0.02),
                layer_gradients::adamw_w);
    const tensor a = values(22, {6}), b = values(23, {4}), norm = run("GlobalNorm", {a, b}, {}, 1)[0];
    check_equal(norm, layer_gradients::norm);
    check_equal(run("ScaleByNorm", {a, norm}, {real("max_norm", 1.5f)}, 1)[0], layer_gradients::clipped);
    check_equal(run("ExponentialMovingAverage", {values(24, {6}), values(25, {6}), scalar(1)}, {real("decay", 0.9f)}, 1)[0], layer_gradients::ema);
    // At its second update the average forgets 3/4 of what was before, however much it is to keep later.
    const tensor before = values(24, {6}), w = values(25, {6}),
                 early = run("ExponentialMovingAverage", {before, w, scalar(1), count(2)}, {real("decay", 0.9f)}, 1)[0];
    for (std::int64_t i = 0; i < 6; ++i)
        CHECK(early.data<double>()[i] == doctest::Approx(0.25 * before.data<double>()[i] + 0.75 * w.data<double>()[i]).epsilon(1e-14));
    check_equal(run("ExponentialMovingAverage", {before, w, scalar(1), count(100)}, {real("decay", 0.9f)}, 1)[0], layer_gradients::ema);
}

TEST_CASE("where the loss is not finite, an update leaves everything as it was") {
    const tensor w = values(1, {600}), g = values(2, {600}), m = values(3, {600}), v = values(4, {600}, 257, 64, 0);
    for (double loss : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        const std::vector<tensor> sgd = run("SGD", {w, g, m, scalar(0.1), scalar(loss)}, {graft::real_attribute("momentum", 0.9f)}, 2);
        CHECK(absolute_difference(sgd[0], w) == 0);
        CHECK(absolute_difference(sgd[1], m) == 0);
        const std::vector<tensor> adam = run("Adam", {w, g, m, v, scalar(0.1), count(1), scalar(loss)}, {}, 3);
        CHECK(absolute_difference(adam[0], w) == 0);
        CHECK(absolute_difference(adam[1], m) == 0);
        CHECK(absolute_difference(adam[2], v) == 0);
        CHECK(absolute_difference(run("ExponentialMovingAverage", {w, g, scalar(loss)}, {}, 1)[0], w) == 0);
    }
}

TEST_CASE("Dropout draws by the sample's place, so a batch in parts is the batch") {
    const tensor x = values(1, {6, 5, 7});
    const auto drop = [&](const tensor& in, std::int64_t step, std::int64_t first) {
        tensor counter = tensor::make(graft::dtype::int64, graft::shape{2});
        counter.data<std::int64_t>()[0] = step;
        counter.data<std::int64_t>()[1] = first;
        return run("Dropout", {in, counter}, {graft::real_attribute("ratio", 0.3f), graft::integer_attribute("seed", 5)}, 2)[0];
    };
    tensor behind = tensor::make(graft::dtype::float64, {2, 5, 7});
    std::memcpy(behind.raw(), x.data<double>() + 4 * 35, behind.bytes());
    const tensor whole = drop(x, 3, 10), part = drop(behind, 3, 14);
    int dropped = 0, other = 0;
    for (int i = 0; i < 210; ++i) dropped += whole.data<double>()[i] == 0;
    CHECK(std::memcmp(part.raw(), whole.data<double>() + 4 * 35, part.bytes()) == 0);
    CHECK(dropped > 40);
    CHECK(dropped < 90);
    const tensor next = drop(x, 4, 10);
    for (int i = 0; i < 210; ++i) other += (next.data<double>()[i] == 0) != (whole.data<double>()[i] == 0);
    CHECK(other > 40);
}

TEST_CASE("FakeQuantize is what quantising and dequantising give") {
    const tensor x = values(3, {3, 70});
    tensor scale = tensor::make(graft::dtype::float32, graft::shape{3}), zero = tensor::make(graft::dtype::int8, graft::shape{3});
    tensor narrow = tensor::make(graft::dtype::float32, {3, 70});
    for (int i = 0; i < 210; ++i) narrow.data<float>()[i] = static_cast<float>(x.data<double>()[i]);
    for (int i = 0; i < 3; ++i) scale.data<float>()[i] = 0.011f * static_cast<float>(i + 1), zero.data<std::int8_t>()[i] = static_cast<std::int8_t>(9 * i - 10);
    const tensor got = run("FakeQuantize", {narrow, scale, zero},
                           {graft::integer_attribute("axis", 0), graft::integer_attribute("low", -128), graft::integer_attribute("high", 127)}, 1)[0];
    graft::graph g;
    graft::emitter e(g, graft::ops::find_training_op, graft::limits());
    const graft::value_id in = e.constant(narrow), s = e.constant(scale), z = e.constant(zero);
    const graft::value_id y = e.apply("DequantizeLinear", {e.apply("QuantizeLinear", {in, s, z}, {graft::integer_attribute("axis", 0)}), s, z},
                                      {graft::integer_attribute("axis", 0)});
    REQUIRE(e.failure.ok());
    std::vector<tensor> all(g.values.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = g.values[i].constant;
    REQUIRE(gradients::run_nodes(g, g.nodes.size(), all).empty());
    CHECK(std::memcmp(all[y].raw(), got.raw(), got.bytes()) == 0);
}

TEST_CASE("operators of training refuse what does not fit") {
    const graft::limits limit;
    graft::graph g;
    const auto fails = [&](const char* op_type, std::vector<graft::shape> shapes, std::vector<graft::attribute> attributes, int outputs) {
        graft::emitter e(g, graft::ops::find_training_op, limit);
        std::vector<graft::value_id> in;
        for (const graft::shape& s : shapes) {
            in.push_back(g.add_value("x"));
            g.values.back().type = graft::dtype::float32, g.values.back().extents = s, g.values.back().has_shape = true;
        }
        e.apply_all("graft", op_type, in, std::move(attributes), outputs);
        return !e.failure.ok();
    };
    CHECK(fails("ConvGradInput", {{1, 2, 3, 3}, {2, 3, 3, 3}}, {}, 1));
    CHECK(fails("ConvGradInput", {{1, 2, 4, 3}, {2, 3, 3, 3}}, {graft::integers_attribute("shape", {1, 3, 5, 5})}, 1));
    CHECK(fails("ConvGradInput", {{1, 2, 3, 3}, {2, 3, 3, 3}}, {graft::integers_attribute("shape", {1, 3, std::int64_t(1) << 62, 5})}, 1));
    CHECK(fails("ConvGradWeight", {{1, 3, 5, 5}, {1, 2, 3, 3}}, {graft::integers_attribute("shape", {2, 3, 3, 3}), graft::integer_attribute("shards", 3)}, 1));
    CHECK(fails("ConvGradWeight", {{1, 3, 5, 5}, {1, 2, 3, 3}}, {graft::integers_attribute("shape", {2, 3, 3, -3})}, 1));
    CHECK(fails("MaxPoolGrad", {{1, 2, 3, 3}, {1, 3, 5, 5}, {1, 2, 3, 3}}, {graft::integers_attribute("kernel_shape", {3, 3})}, 1));
    CHECK(fails("AveragePoolGrad", {{1, 2, 3, 3}}, {graft::integers_attribute("kernel_shape", {3, 3})}, 1));
    CHECK(fails("BatchNormalizationTraining", {{1, 2, 3}, {3}, {2}, {2}, {2}}, {}, 5));
    CHECK(fails("BatchNormalizationTraining", {{1, 2, 3}, {2}, {2}, {2}, {2}}, {graft::integer_attribute("activation", 4)}, 5));
    CHECK(fails("BatchNormalizationTraining", {{1, 2, 3}, {2}, {2}, {2}, {2}, {1, 2, 3}, {2}}, {}, 5));
    CHECK(fails("JoinMoments", {{2, 3}, {2, 2}, {2, 1}}, {}, 3));
    CHECK(fails("JoinMoments", {{2, 3}, {2, 3}, {1}}, {}, 3));
    CHECK(fails("AllGather", {{2}}, {graft::integer_attribute("members", 0)}, 1));
    CHECK(fails("BatchNormalizationGradSums", {{1, 2, 3}, {1, 2, 3}, {2}, {2}}, {graft::integer_attribute("activation", 1)}, 2));
    CHECK(fails("BatchNormalizationGrad", {{1, 2, 3}, {1, 2, 3}, {2}, {2}, {2}}, {graft::integer_attribute("activation", 1)}, 3));
    CHECK(fails("ResizeGrad", {{1, 2, 3}}, {graft::integers_attribute("shape", {1, 2})}, 1));
    CHECK(fails("ActivationGrad", {{2}, {2}}, {graft::integer_attribute("activation", graft::activation_count)}, 1));
    CHECK(fails("ActivationGrad", {{2}, {2}}, {graft::integer_attribute("activation", -1)}, 1));
    CHECK(fails("SGD", {{2}, {3}, {2}, {}, {}}, {}, 2));
    CHECK(fails("ScaleByNorm", {{2}, {}}, {}, 1));
}
