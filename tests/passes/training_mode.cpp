// Graphs rewritten for training: statistics of the batch, Dropout that drops, quantisation that gradients pass.
#include "gradients.hpp"

#include <graft/graph/builder.hpp>
#include <graft/passes/training_mode.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace {

using graft::tensor;
using graft::value_id;

tensor filled(const graft::shape& s, double low, double high, std::uint64_t seed, graft::dtype type = graft::dtype::float32) {
    tensor t = tensor::make(type, s);
    problems::numbers random{seed};
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const double v = random.uniform(low, high);
        graft::store_from_double(type, t.raw(), i, 1, &v);
    }
    return t;
}

/// A graph under construction, at opset 17.
struct drawing {
    graft::graph g;
    drawing(int version = 17) {
        g.opsets.push_back({"", version});
        g.ir_version = 8;
        g.name = "network";
    }
    value_id input(const char* name, const graft::shape& s, graft::dtype type = graft::dtype::float32) {
        const value_id id = g.add_value(name);
        g.values.back().type = type, g.values.back().extents = s, g.values.back().has_shape = true;
        g.inputs.push_back(id);
        return id;
    }
    value_id node(const char* op_type, std::vector<value_id> inputs, std::vector<graft::attribute> attributes = {}) {
        graft::node n;
        n.op_type = op_type;
        n.name = op_type + std::to_string(g.nodes.size());
        n.inputs = std::move(inputs);
        n.outputs = {g.add_value(n.name + "/y")};
        n.attributes = std::move(attributes);
        g.nodes.push_back(n);
        return n.outputs[0];
    }
    value_id batch_norm(value_id x, std::int64_t channels, const char* name) {
        const std::string stem = name;
        std::vector<value_id> in{x};
        in.push_back(g.add_constant(stem + ".weight", filled({channels}, 0.5, 1.5, 1)));
        in.push_back(g.add_constant(stem + ".bias", filled({channels}, -1, 1, 2)));
        in.push_back(g.add_constant(stem + ".running_mean", filled({channels}, -1, 1, 3)));
        in.push_back(g.add_constant(stem + ".running_var", filled({channels}, 0.5, 1.5, 4)));
        return node("BatchNormalization", in, {graft::real_attribute("epsilon", 0.001f), graft::real_attribute("momentum", 0.8f)});
    }
    graft::graph finish(value_id y) {
        g.outputs = {y};
        const graft::ops::table_list tables = graft::ops::all_op_tables();
        const graft::limits limit;
        const graft::status s = graft::verify_graph(g, tables, limit);
        const std::string error = s.ok() ? "" : s.error().what();
        REQUIRE_MESSAGE(s.ok(), error);
        return g;
    }
};

value_id named(const graft::graph& g, const std::string& name) {
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (g.values[i].name == name) return static_cast<value_id>(i);
    return graft::no_value;
}
int count(const graft::graph& g, const char* op_type, const char* domain) {
    return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const graft::node& n) { return n.op_type == op_type && n.domain == domain; }));
}

}  // namespace

TEST_CASE("only layers of BatchNormalization whose scale learns use the batch's statistics") {
    drawing d;
    value_id x = d.input("x", {4, 3, 5, 5});
    x = d.batch_norm(x, 3, "frozen");
    x = d.batch_norm(x, 3, "learning");
    graft::graph g = d.finish(x);
    graft::training_mode_options o;
    o.learning = {named(g, "learning.weight"), named(g, "learning.bias")};
    o.shards = 4;
    auto running = graft::training_mode(g, o);
    REQUIRE(running.ok());
    REQUIRE(running->size() == 2);
    CHECK((*running)[0].current == named(g, "learning.running_mean"));
    CHECK((*running)[1].current == named(g, "learning.running_var"));
    CHECK(count(g, "BatchNormalization", "") == 1);
    REQUIRE(count(g, "BatchNormalizationTraining", "graft") == 1);
    const graft::node& n = g.nodes[1];
    CHECK(n.inputs[0] == g.nodes[0].outputs[0]);
    CHECK(n.outputs[0] == g.outputs[0]);
    CHECK(n.outputs[1] == (*running)[0].updated);
    CHECK(n.outputs[2] == (*running)[1].updated);
    CHECK(n.find("epsilon")->real == 0.001f);
    CHECK(n.find("momentum")->real == 0.8f);
    CHECK(n.find("shards")->integer == 4);
    o.batch_norm = false;
    graft::graph again = d.g;
    auto none = graft::training_mode(again, o);
    REQUIRE(none.ok());
    CHECK(none->empty());
    CHECK(count(again, "BatchNormalization", "") == 2);
}

TEST_CASE("a rewritten layer normalises by its batch, and its statistics move towards it") {
    drawing d;
    const value_id x = d.input("x", {4, 3, 5, 5});
    graft::graph g = d.finish(d.batch_norm(x, 3, "layer"));
    graft::training_mode_options o;
    o.learning = {named(g, "layer.weight")};
    auto running = graft::training_mode(g, o);
    REQUIRE(running.ok());
    const value_id before = (*running)[0].current, after = (*running)[0].updated;
    std::vector<tensor> all(g.values.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = g.values[i].constant;
    const tensor in = filled({4, 3, 5, 5}, 1, 3, 9);
    all[gradients::index(x)] = in;
    const std::string error = gradients::run_nodes(g, g.nodes.size(), all);
    REQUIRE_MESSAGE(error.empty(), error);
    double mean = 0;
    for (int n = 0; n < 4; ++n)
        for (int k = 0; k < 25; ++k) mean += static_cast<double>(in.data<float>()[(n * 3 + 1) * 25 + k]) / 100;
    const double want = 0.8 * static_cast<double>(all[gradients::index(before)].data<float>()[1]) + 0.2 * mean;
    CHECK(static_cast<double>(all[gradients::index(after)].data<float>()[1]) == doctest::Approx(want).epsilon(1e-6));
    double sum = 0;
    for (int n = 0; n < 4; ++n)
        for (int k = 0; k < 25; ++k) sum += static_cast<double>(all[gradients::index(g.outputs[0])].data<float>()[(n * 3 + 1) * 25 + k]);
    const double bias = static_cast<double>(all[gradients::index(named(g, "layer.bias"))].data<float>()[1]);
    CHECK(sum / 100 == doctest::Approx(bias).epsilon(1e-5));
}

TEST_CASE("Dropout drops by the counter, each layer by numbers of its own") {
    drawing d(13);
    const value_id x = d.input("x", {8, 40}), counter = d.input("counter", {2}, graft::dtype::int64);
    tensor ratio = filled({1}, 0.25, 0.25, 1), none = tensor::zeros(graft::dtype::float32, {1});
    ratio = tensor(graft::dtype::float32, graft::shape{}, ratio.storage());
    none = tensor(graft::dtype::float32, graft::shape{}, none.storage());
    const value_id r = d.g.add_constant("ratio", ratio), zero = d.g.add_constant("none", none);
    const value_id a = d.node("Dropout", {x, r}), b = d.node("Dropout", {x}), c = d.node("Dropout", {x, zero});
    graft::graph g = d.finish(d.node("Sum", {a, b, c}));
    graft::training_mode_options o;
    auto unchanged = graft::training_mode(g, o);
    REQUIRE(unchanged.ok());
    CHECK(count(g, "Dropout", "graft") == 0);
    o.counter = counter;
    o.seed = 3;
    REQUIRE(graft::training_mode(g, o).ok());
    CHECK(count(g, "Dropout", "graft") == 2);
    CHECK(count(g, "Dropout", "") == 1);
    CHECK(g.nodes[0].find("ratio")->real == 0.25f);
    CHECK(g.nodes[1].find("ratio")->real == 0.5f);
    CHECK(g.nodes[0].find("seed")->integer != g.nodes[1].find("seed")->integer);
    CHECK(g.nodes[0].inputs == std::vector<value_id>{x, counter});
    CHECK(g.nodes[0].outputs[0] == a);
    std::vector<tensor> all(g.values.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = g.values[i].constant;
    all[gradients::index(x)] = filled({8, 40}, 1, 2, 9);
    all[gradients::index(counter)] = tensor::zeros(graft::dtype::int64, {2});
    const std::string error = gradients::run_nodes(g, g.nodes.size(), all);
    REQUIRE_MESSAGE(error.empty(), error);
    int dropped[2] = {};
    for (int i = 0; i < 320; ++i)
        for (int k = 0; k < 2; ++k) dropped[k] += all[gradients::index(k ? b : a)].data<float>()[i] == 0;
    CHECK(std::abs(dropped[0] - 80) < 32);
    CHECK(std::abs(dropped[1] - 160) < 36);
}

TEST_CASE("a Dropout whose mask is read stays as it is") {
    drawing d(13);
    const value_id x = d.input("x", {8, 40}), counter = d.input("counter", {2}, graft::dtype::int64), y = d.node("Dropout", {x});
    d.g.nodes[0].outputs.push_back(d.g.add_value("mask"));
    d.finish(y);
    d.g.outputs.push_back(d.g.nodes[0].outputs[1]);
    graft::training_mode_options o;
    o.counter = counter;
    REQUIRE(graft::training_mode(d.g, o).ok());
    CHECK(count(d.g, "Dropout", "") == 1);
}

TEST_CASE("quantisation behind a value that learns becomes FakeQuantize; before it stays") {
    drawing d;
    const value_id x = d.input("x", {2, 6}), w = d.g.add_constant("w", filled({6, 5}, -1, 1, 5));
    tensor scale = filled({1}, 0.02, 0.02, 1), scales = filled({5}, 0.01, 0.02, 2), zero = tensor::zeros(graft::dtype::uint8, {1}),
           zeros = tensor::zeros(graft::dtype::int8, {5});
    scale = tensor(graft::dtype::float32, graft::shape{}, scale.storage());
    zero = tensor(graft::dtype::uint8, graft::shape{}, zero.storage());
    const value_id s = d.g.add_constant("s", scale), z = d.g.add_constant("z", zero), ss = d.g.add_constant("ss", scales), zz = d.g.add_constant("zz", zeros);
    const value_id left = d.node("DequantizeLinear", {d.node("QuantizeLinear", {x, s, z}), s, z});
    const graft::attribute axis = graft::integer_attribute("axis", 1);
    const value_id right = d.node("DequantizeLinear", {d.node("QuantizeLinear", {w, ss, zz}, {axis}), ss, zz}, {axis});
    const value_id product = d.node("MatMul", {left, right});
    graft::graph g = d.finish(d.node("DequantizeLinear", {d.node("QuantizeLinear", {product, s, z}), s, z}));
    graft::graph as_it_was = g;
    graft::training_mode_options o;
    o.learning = {w};
    REQUIRE(graft::training_mode(g, o).ok());
    CHECK(count(g, "FakeQuantize", "graft") == 2);
    CHECK(count(g, "QuantizeLinear", "") == 1);
    CHECK(count(g, "DequantizeLinear", "") == 1);
    // The same numbers as before, to the bit.
    tensor answers[2];
    for (int k = 0; k < 2; ++k) {
        const graft::graph& each = k ? g : as_it_was;
        std::vector<tensor> all(each.values.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = each.values[i].constant;
        all[gradients::index(x)] = filled({2, 6}, -1, 3, 8);
        const std::string error = gradients::run_nodes(each, each.nodes.size(), all);
        REQUIRE_MESSAGE(error.empty(), error);
        answers[k] = all[gradients::index(each.outputs[0])];
    }
    CHECK(std::memcmp(answers[0].raw(), answers[1].raw(), answers[0].bytes()) == 0);
    for (const graft::node& n : g.nodes)
        if (n.op_type == "FakeQuantize" && n.inputs[0] == w) {
            CHECK(n.find("axis")->integer == 1);
            CHECK(n.find("low")->integer == -128);
            CHECK(n.find("high")->integer == 127);
        }
}

TEST_CASE("quantisation that gradients cannot pass is refused, not passed over") {
    drawing d;
    const value_id w = d.input("w", {6, 5});
    tensor scale = filled({1}, 0.02, 0.02, 1), other = filled({1}, 0.03, 0.03, 1);
    const value_id s = d.g.add_constant("s", tensor(graft::dtype::float32, graft::shape{}, scale.storage())),
                   t = d.g.add_constant("t", tensor(graft::dtype::float32, graft::shape{}, other.storage()));
    graft::graph g = d.finish(d.node("DequantizeLinear", {d.node("QuantizeLinear", {w, s}), t}));
    graft::training_mode_options o;
    auto frozen = graft::training_mode(g, o);
    CHECK(frozen.ok());
    o.learning = {w};
    auto learning = graft::training_mode(g, o);
    REQUIRE(!learning.ok());
    CHECK(learning.error().code() == graft::errc::train_no_gradient);
}

TEST_CASE("activations that exporters spell out become one node behind what learns, and compute the same") {
    const auto scalar = [](drawing& d, const char* name, float v) { return d.g.add_constant(name, tensor::from(&v, {})); };
    const auto one_plus_erf = [&](drawing& d, value_id x, bool divided) {
        const value_id scaled = divided ? d.node("Div", {x, scalar(d, "root", 1.41421356f)}) : d.node("Mul", {scalar(d, "inverse", 0.70710678f), x});
        return d.node("Add", {d.node("Erf", {scaled}), scalar(d, "one", 1)});
    };
    struct form {
        const char* op;
        std::function<value_id(drawing&, value_id)> spelled;
    };
    const std::vector<form> forms{
        {"Swish",
         [](drawing& d, value_id x) {
             return d.node("Mul", {x, d.node("Sigmoid", {x})});
         }},
        {"Swish",
         [](drawing& d, value_id x) {
             return d.node("Mul", {d.node("Sigmoid", {x}), x});
         }},
        {"HardSwish",
         [](drawing& d, value_id x) {
             return d.node("Mul", {x, d.node("HardSigmoid", {x}, {graft::real_attribute("alpha", 1.0f / 6)})});
         }},
        {"Gelu",
         [&](drawing& d, value_id x) {
             return d.node("Mul", {d.node("Mul", {x, one_plus_erf(d, x, true)}), scalar(d, "half", 0.5f)});
         }},
        {"Gelu",
         [&](drawing& d, value_id x) {
             return d.node("Mul", {scalar(d, "half", 0.5f), d.node("Mul", {one_plus_erf(d, x, false), x})});
         }},
        {"Gelu",
         [&](drawing& d, value_id x) {
             return d.node("Mul", {d.node("Mul", {x, scalar(d, "half", 0.5f)}), one_plus_erf(d, x, true)});
         }},
        {"Mul",
         [](drawing& d, value_id x) {
             return d.node("Mul", {x, d.node("HardSigmoid", {x})});
         }},  // another slope
        {"Mul",
         [](drawing& d, value_id x) {
             const value_id s = d.node("Sigmoid", {x});
             return d.node("Add", {d.node("Mul", {x, s}), s});
         }},
        {"Mul",
         [&](drawing& d, value_id x) {
             return d.node("Mul", {d.node("Mul", {x, one_plus_erf(d, x, true)}), scalar(d, "third", 0.3f)});
         }},
    };
    for (const form& f : forms)
        for (const bool learns : {true, false}) {
            drawing d;
            const value_id x = d.input("x", {3, 17}), w = d.g.add_constant("w", filled({17}, -3, 3, 9));
            graft::graph g = d.finish(f.spelled(d, d.node("Add", {x, w})));
            const graft::graph before = g;
            graft::training_mode_options o;
            if (learns) o.learning = {w};
            REQUIRE(graft::training_mode(g, o).ok());
            INFO(f.op << ", " << learns);
            if (!learns || std::string(f.op) == "Mul") {
                CHECK(g.nodes.size() == before.nodes.size());
            } else {
                CHECK(g.nodes.size() == 2);  // and Add
                CHECK(count(g, f.op, "") == 1);
            }
            const tensor in = filled({3, 17}, -4, 4, 5);
            const auto computed = [&](const graft::graph& of) {
                std::vector<tensor> all(of.values.size());
                for (std::size_t i = 0; i < all.size(); ++i) all[i] = of.values[i].constant;
                all[gradients::index(of.inputs[0])] = in;
                const std::string error = gradients::run_nodes(of, of.nodes.size(), all);
                REQUIRE_MESSAGE(error.empty(), error);
                return all[gradients::index(of.outputs[0])];
            };
            const tensor want = computed(before), got = computed(g);
            for (std::int64_t i = 0; i < want.elements(); ++i) CHECK(got.data<float>()[i] == doctest::Approx(want.data<float>()[i]).epsilon(1e-4));
        }
}
