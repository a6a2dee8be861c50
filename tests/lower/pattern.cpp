// Patterns of nodes as text: what is one, and what it matches.
#include "../exec/nets.hpp"

#include <graft/lower/pattern.hpp>

#include <doctest/doctest.h>

namespace {

using graft::builder;
using graft::dtype;
using graft::value_id;
using graft::detail::pattern;

// The graph with every node bound, as passes meet it.
graft::graph bound(builder& b) {
    const graft::model m = graft::load(b.finish());
    return m.graph();
}
value_id number(builder& b, const char* name, float v) { return b.constant(name, graft::tensor::from(&v, {})); }

// Whether the node that makes the graph's first output is the last one of the pattern.
bool matches(const char* text, graft::graph g) {
    const pattern p(text);
    REQUIRE(p.well_formed());
    graft::detail::rewriter r(g);
    pattern::match found;
    return p.matches(r, *r.maker(g.outputs[0]), found);
}

}  // namespace

TEST_CASE("a text that is no pattern says so, and matches nothing") {
    for (const char* text : {"", "x", "1", "Mul", "Mul(", "Mul(x", "Mul(x,", "Mul(x, )", "Mul(x))", "Mul(xy)", "Mul(X)", "(x)", "Mul(x) y", "Mul(x; y)"}) {
        CAPTURE(text);
        CHECK(!pattern(text).well_formed());
    }
    for (const char* text : {"Mul(x)", "Mul(x, y)", "Mul(x, Sigmoid(x))", "Mul(0.5, Mul(x,Add(1, Erf(Div(x, 1.4142135623730951)))))"}) {
        CAPTURE(text);
        CHECK(pattern(text).well_formed());
    }
    builder b("net");
    const value_id x = b.input("x", dtype::float32, {2});
    b.output(b.apply("Relu", {x}), "y");
    graft::graph g = bound(b);
    graft::detail::rewriter r(g);
    pattern::match found;
    CHECK(!pattern("Relu(x").matches(r, g.nodes[0], found));
    CHECK(pattern("Relu(x)").matches(r, g.nodes[0], found));
    CHECK(found['x'] == g.inputs[0]);
    CHECK(found.inner().empty());
}

TEST_CASE("letters are values, numbers constants, and operands swap where the operator allows it") {
    const auto gated = [](bool swapped, bool same) {
        builder b("net");
        const value_id x = b.input("x", dtype::float32, {2}), y = b.input("y", dtype::float32, {2}), s = b.apply("Sigmoid", {same ? x : y});
        b.output(swapped ? b.apply("Mul", {s, x}) : b.apply("Mul", {x, s}), "z");
        return bound(b);
    };
    for (const bool swapped : {false, true}) {
        CHECK(matches("Mul(x, Sigmoid(x))", gated(swapped, true)));
        CHECK(!matches("Mul(x, Sigmoid(x))", gated(swapped, false)));
        CHECK(matches("Mul(x, Sigmoid(y))", gated(swapped, false)));
        CHECK(matches("Mul(x, Sigmoid(y))", gated(swapped, true)));
        CHECK(!matches("Mul(x, Tanh(y))", gated(swapped, true)));
        CHECK(!matches("Mul(x, y, z)", gated(swapped, true)));
    }
    const auto divided = [](bool swapped, float by) {
        builder b("net");
        const value_id x = b.input("x", dtype::float32, {2}), n = number(b, "n", by);
        b.output(swapped ? b.apply("Div", {n, x}) : b.apply("Div", {x, n}), "z");
        return bound(b);
    };
    CHECK(matches("Div(x, 1.5)", divided(false, 1.5f)));
    CHECK(matches("Div(x, 1.5)", divided(false, 1.500001f)));
    CHECK(!matches("Div(x, 1.5)", divided(false, 1.50001f)));
    CHECK(!matches("Div(x, 1.5)", divided(true, 1.5f)));
    CHECK(matches("Div(1.5, x)", divided(true, 1.5f)));
}

TEST_CASE("nodes that somebody else reads are in no pattern, but for the last one") {
    for (const int readers : {1, 2, 3}) {
        builder b("net");
        const value_id x = b.input("x", dtype::float32, {2}), s = b.apply("Sigmoid", {x}), y = b.apply("Mul", {x, s});
        b.output(y, "y");
        if (readers == 2) b.output(b.apply("Neg", {s}), "z");
        if (readers == 3) b.output(b.apply("Neg", {y}), "z");
        CHECK(matches("Mul(x, Sigmoid(x))", bound(b)) == (readers != 2));
    }
}

TEST_CASE("where one order of operands fails further in, the other is tried, and nothing of the first stays") {
    builder b("net");
    const value_id x = b.input("x", dtype::float32, {2}), y = b.input("y", dtype::float32, {2});
    b.output(b.apply("Add", {b.apply("Mul", {x, y}), b.apply("Mul", {y, b.apply("Exp", {x})})}), "z");
    graft::graph g = bound(b);
    graft::detail::rewriter r(g);
    pattern::match found;
    REQUIRE(pattern("Add(Mul(a, Exp(b)), Mul(b, a))").matches(r, *r.maker(g.outputs[0]), found));
    CHECK(found['a'] == g.inputs[1]);
    CHECK(found['b'] == g.inputs[0]);
    CHECK(found.inner().size() == 3);
}
