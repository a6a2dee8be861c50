// Folding, shapes from inputs, branches written out, and what is dropped because nobody reads it.
#include "../exec/nets.hpp"

#include <graft/graph/verify.hpp>
#include <graft/ops/ops.hpp>
#include <graft/passes/count.hpp>
#include <graft/passes/specialize.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

using graft::builder;
using graft::dtype;
using graft::graph;
using graft::integer_attribute;
using graft::shape;
using nets::floats;
using nets::integers;

namespace {

graph verified(builder& b) {
    graph g = b.finish();
    const graft::ops::table_list tables = graft::ops::all_op_tables();
    graft::must(graft::verify_graph(g, tables, {}));
    return g;
}

// The graph for inputs of these shapes (none: nothing is known of them).
graft::result<graph> specialized(graph g, const std::vector<shape>& shapes = {}, graft::limits limit = {}) {
    std::vector<graft::tensor_view> views;
    for (std::size_t i = 0; i < shapes.size(); ++i) views.push_back({g.at(g.inputs[i]).type, shapes[i], nullptr});
    graft::executor serial;
    return graft::specialize(std::move(g), shapes.empty() ? nullptr : views.data(), {limit, serial, nullptr, 0});
}

std::string operators(const graph& g) {
    std::string all;
    for (const graft::node& n : g.nodes) all += (all.empty() ? "" : " ") + n.op_type;
    return all;
}
const graft::value& output(const graph& g, std::size_t i = 0) { return g.at(g.outputs[i]); }

}  // namespace

TEST_CASE("what is constant is folded, also before any shape is known") {
    builder b;
    const auto x = b.input("x", dtype::float32, {"N"});
    const auto k = b.apply("Mul", {b.constant("two", floats({2})), b.apply("Exp", {b.constant("zero", floats({0}))})});
    b.output(b.apply("Add", {x, k}), "y");
    b.output(b.apply("Neg", {k}), "k");
    const graph g = specialized(verified(b));
    CHECK(operators(g) == "Add");
    CHECK(nets::values<float>(output(g, 1).constant) == std::vector<float>{-2});
    CHECK(g.at(g.nodes[0].inputs[1]).constant);
}

TEST_CASE("shapes follow from the inputs, and what is made of them is folded") {
    builder b;
    const auto x = b.input("x", dtype::float32, {"N", 3, "H", "W"});
    const auto n = b.apply("Gather", {b.apply("Shape", {x}), b.constant("first", integers({0}))});
    const auto flat = b.apply("Reshape", {x, b.apply("Concat", {n, b.constant("rest", integers({-1}))}, {integer_attribute("axis", 0)})});
    b.output(flat, "y");
    const graph g = verified(b);
    const graph two = specialized(g, {{2, 3, 4, 5}}), one = specialized(g, {{1, 3, 7, 7}});
    CHECK(operators(two) == "Reshape");
    CHECK(output(two).extents == shape{2, 60});
    CHECK(output(one).extents == shape{1, 147});
    CHECK(operators(specialized(g)) == "Shape Gather Concat Reshape");
}

TEST_CASE("If with a known condition is written out, with its captures, and the other branch is gone") {
    for (const bool choose : {true, false}) {
        builder b, yes("yes"), no("no");
        const auto x = b.input("x", dtype::float32, {3});
        const auto deeper = b.apply("Neg", {x});
        graph then_body, else_body;
        {
            const auto seen = yes.input("seen", dtype::float32, {});
            yes.output(yes.apply("Abs", {yes.apply("Exp", {seen})}), "a");
            then_body = yes.finish();
            then_body.inputs.clear();
            then_body.captures = {{seen, deeper}};
            const auto other = no.input("other", dtype::float32, {});
            no.output(other, "b");
            else_body = no.finish();
            else_body.inputs.clear();
            else_body.captures = {{other, deeper}};
        }
        const auto y = b.apply("If", {b.constant("choose", graft::tensor::scalar(choose))},
                               {graph_attribute("then_branch", then_body), graph_attribute("else_branch", else_body)});
        b.output(b.apply("Relu", {y}), "y");
        const graph g = specialized(verified(b), {{3}});
        CHECK(operators(g) == (choose ? "Neg Exp Abs Relu" : "Neg Relu"));
        CHECK(output(g).extents == shape{3});
    }
}

TEST_CASE("what a file claims of inner values gives way to what inference says") {
    builder b;
    const auto x = b.input("x", dtype::float32, {"N", 4});
    b.output(b.apply("Transpose", {x}), "y");
    graph g = verified(b);
    graft::value& y = g.at(g.outputs[0]);
    y.has_shape = true;
    y.extents = {1000};
    y.type = dtype::int8;
    CHECK(output(specialized(g, {{2, 4}})).extents == shape{4, 2});
    CHECK(output(specialized(g, {{2, 4}})).type == dtype::float32);
    CHECK(!output(specialized(g)).has_shape);
}

TEST_CASE("what a file declares an initializer as, where it is an input too, gives way to what it is") {
    for (const bool declared : {false, true}) {
        builder b("net");
        const auto x = b.input("x", dtype::float32, {1, 3, 4, 7});
        const auto w = b.input("w", dtype::float32, {1, 1, 1, 1});
        b.output(b.apply("Conv", {x, w}), "y");
        graph g = b.finish().value();
        graft::value& v = g.at(w);
        v.constant = graft::tensor::zeros(graft::dtype::float32, {5, 3, 3, 3}).value();
        if (!declared) v.has_shape = false, v.extents = shape();
        const graft::model m = graft::load(std::move(g));
        REQUIRE(m.memory(m.inputs()).ok());
        graft::session s(m);
        const auto y = s.run(graft::tensor::zeros(dtype::float32, {1, 3, 4, 7}).value());
        REQUIRE(y.ok());
        CHECK(y->shape() == shape{1, 5, 2, 5});
    }
}

TEST_CASE("copies, dropout and what nobody reads are pruned; random and large constants are not folded") {
    builder b;
    const auto x = b.input("x", dtype::float32, {2, 2});
    const auto kept = b.apply("Identity", {b.apply("Dropout", {b.apply("Identity", {x})})});
    b.apply("Exp", {kept});
    b.output(b.apply("Neg", {kept}), "y");
    b.output(b.apply("Expand", {b.constant("one", floats({1})), b.constant("size", integers({4096, 4096}))}), "large");
    b.output(b.apply("RandomNormal", {}, {graft::integers_attribute("shape", {2})}), "random");
    const graph g = specialized(verified(b), {{2, 2}});
    CHECK(operators(g) == "Neg Expand RandomNormal");
    CHECK(output(g, 1).extents == shape{4096, 4096});
    graft::limits small;
    small.memory_bytes = 1 << 20;
    builder bomb;
    bomb.output(bomb.apply("Expand", {bomb.constant("one", floats({1})), bomb.constant("size", integers({1 << 20, 1 << 20}))}), "large");
    const auto refused = specialized(verified(bomb), {}, small);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::memory_budget);
}

TEST_CASE("an assignment to all of a tensor is what is assigned") {
    // x[a:, b:] = y as PyTorch's exporter writes it: ranges along each axis, expanded to the tensor's shape and joined. `from` is a; `rows` of ranges that
    // are too large for folding.
    const auto assigned = [](std::int64_t rows, std::int64_t from, const char* reduction) {
        builder b;
        const auto x = b.input("x", dtype::float32, {"N", 3}), extents = b.apply("Shape", {x});
        const auto along = [&](std::int64_t axis, std::int64_t first, const char* name) {
            const auto at = b.constant(std::string(name) + "_axis", integers({axis}));
            const std::string stem = name;
            const auto count = b.apply("Squeeze", {b.apply("Gather", {extents, at})});
            const auto range = b.apply("Range", {b.apply("Squeeze", {b.constant(stem + "_first", integers({first}))}), count,
                                                 b.apply("Squeeze", {b.constant(stem + "_one", integers({1}))})});
            const auto line = axis == 0 ? b.apply("Unsqueeze", {range, b.constant(stem + "_behind", integers({1}))}) : range;
            const auto grid = from ? b.apply("Expand", {line, b.constant(stem + "_part", integers({rows - from, 3}))}) : b.apply("Expand", {line, extents});
            return b.apply("Unsqueeze", {grid, b.constant(stem + "_last", integers({-1}))});
        };
        const auto places = b.apply("Concat", {along(0, from, "row"), along(1, 0, "column")}, {integer_attribute("axis", -1)});
        const auto y = b.input("y", dtype::float32, {"M", 3});
        b.output(b.apply("Neg", {b.apply("ScatterND", {x, places, y}, {graft::string_attribute("reduction", reduction)})}), "z");
        return specialized(verified(b), {{rows, 3}, {rows - from, 3}});
    };
    for (const std::int64_t rows : {4, 400000}) {
        CAPTURE(rows);
        const graph all = assigned(rows, 0, "none");
        CHECK(operators(all) == "Neg");
        CHECK(all.nodes[0].inputs[0] == all.inputs[1]);
        CHECK(operators(assigned(rows, 1, "none")).find("ScatterND") != std::string::npos);
        CHECK(operators(assigned(rows, 0, "add")).find("ScatterND") != std::string::npos);
    }
}

TEST_CASE("multiply-adds are counted as papers count them") {
    builder b;
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1;
    auto x = b.input("x", dtype::float32, {1, 8, 10, 10});
    x = b.conv2d(x, 16, three);
    three.groups = 16;
    x = b.conv2d(x, 16, three);
    b.output(b.linear(b.flatten(b.global_average_pool(x)), 10), "y");
    const graph g = specialized(verified(b), {{1, 8, 10, 10}});
    CHECK(graft::count_multiply_adds(g) == 100 * 16 * 8 * 9 + 100 * 16 * 9 + 160);
}

TEST_CASE("Nodes that were written by hand and lack inputs count no multiply-adds") {
    for (const char* op : {"Conv", "ConvTranspose", "MatMul", "Gemm", "QLinearConv", "QLinearMatMul"}) {
        CAPTURE(op);
        graft::graph g;
        for (const char* name : {"x", "y"}) {
            graft::value& v = g.at(g.add_value(name));
            v.type = graft::dtype::float32;
            v.has_shape = true;
            v.extents = {2, 3};
        }
        graft::node n;
        n.op_type = op;
        n.inputs = {0};
        n.outputs = {1};
        g.nodes.push_back(n);
        CHECK(graft::count_multiply_adds(g) == 0);
    }
}

namespace {
// y = x + DequantizeLinear of 8 bits, [300, 300] in steps of `scale`.
graph of_eight_bits(float scale) {
    builder b;
    const auto x = b.input("x", dtype::float32, {300, 300});
    std::vector<std::int8_t> codes(300 * 300);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::int8_t>(i % 251 - 125);
    const graft::tensor w = graft::tensor::from(codes.data(), {300, 300});
    const auto reals = b.apply("DequantizeLinear", {b.constant("w", w), b.constant("scale", graft::tensor::from(&scale, {}))});
    b.output(b.apply("Add", {x, reals}), "y");
    return verified(b);
}
}  // namespace

TEST_CASE("the reals of 8-bit weights are made when they are asked for") {
    const graph g = specialized(of_eight_bits(0.5f)).value();
    REQUIRE(operators(g) == "Add");
    const graft::tensor& reals = g.at(g.nodes[0].inputs[1]).constant;
    REQUIRE(reals);
    CHECK(reals.storage().at_hand() == nullptr);
    CHECK(reals.shape() == shape{300, 300});
    for (const std::int64_t i : {0, 1, 250, 251, 89999}) CHECK(reals.data<float>()[i] == 0.5f * static_cast<float>(i % 251 - 125));
    CHECK(reals.storage().at_hand() != nullptr);
}

TEST_CASE("a scale that is no number is told where the network is loaded") {
    const auto made = specialized(of_eight_bits(std::nanf("")));
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::op_value);
}
