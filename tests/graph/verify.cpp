// Verification, with a small op table of its own.
#include <doctest/doctest.h>
#include <graft/graph/builder.hpp>
#include <graft/graph/verify.hpp>

#include <chrono>
#include <string>

namespace {

graft::status nothing(graft::infer_context&) { return {}; }
graft::status nothing(graft::run_context&) { return {}; }

std::string verdict(graft::graph& g, const graft::limits& limit = {}) {
    static constexpr graft::op_row rows[] = {
        graft::make_op("Relu").opsets(6).inputs(1).functions(nothing, nothing),
        graft::make_op("Old").opsets(1, 9).inputs(1).functions(nothing, nothing),
        graft::make_op("Sum").opsets(6).inputs_from(1).functions(nothing, nothing).attributes("axis:i axes:is"),
        graft::make_op("Left", "", false).opsets(6).inputs(1).functions(nothing, nothing),
        graft::make_op("If").opsets(11).inputs(1).outputs_from(1).functions(nothing, nothing).bodies().attributes("then_branch:g else_branch:g"),
    };
    const graft::op_table table = rows;
    const graft::status s = graft::verify_graph(g, {&table, 1}, limit);
    return s.ok() ? "" : graft::text(s.error().code());
}

// x -> Relu -> y, and what tests add.
graft::graph relu() {
    graft::graph g;
    g.opsets.push_back({"", 17});
    const graft::value_id x = g.add_value("x"), y = g.add_value("y");
    g.inputs.push_back(x);
    g.outputs.push_back(y);
    graft::node n;
    n.op_type = "Relu", n.inputs = {x}, n.outputs = {y};
    g.nodes.push_back(n);
    return g;
}

graft::graph chain_of(int length, bool backwards) {
    graft::graph g;
    g.opsets.push_back({"", 17});
    g.inputs.push_back(g.add_value("x"));
    for (int i = 0; i < length; ++i) {
        graft::node n;
        n.op_type = "Relu", n.inputs = {i}, n.outputs = {g.add_value("v" + std::to_string(i))};
        g.nodes.push_back(n);
    }
    if (backwards)
        for (int i = 0; i < length / 2; ++i) std::swap(g.nodes[static_cast<std::size_t>(i)], g.nodes[static_cast<std::size_t>(length - 1 - i)]);
    g.outputs.push_back(length);
    return g;
}

}  // namespace

TEST_CASE("Nodes are bound to their rows") {
    graft::graph g = relu();
    CHECK(verdict(g) == "");
    REQUIRE(g.nodes[0].op);
    CHECK(std::string(g.nodes[0].op->name) == "Relu");
    CHECK(g.nodes[0].version == 17);
    g = relu(), g.nodes[0].op_type = "Nobody";
    CHECK(verdict(g) == "op.unsupported");
    g = relu(), g.nodes[0].op_type = "Old";
    CHECK(verdict(g) == "op.unsupported");
    g = relu(), g.nodes[0].op_type = "Old", g.opsets[0].version = 9;
    CHECK(verdict(g) == "");
    g = relu(), g.nodes[0].domain = "other";
    CHECK(verdict(g) == "op.unsupported");
    g = relu(), g.nodes[0].op_type = "Left";
    CHECK(verdict(g) == "op.unsupported");
}

TEST_CASE("Values are made once, and only what is made is read") {
    graft::graph g = relu();
    g.nodes.push_back(g.nodes[0]);
    CHECK(verdict(g) == "graph.duplicate");
    g = relu(), g.values[1].name = "x";
    CHECK(verdict(g) == "graph.duplicate");
    g = relu(), g.inputs.push_back(0);
    CHECK(verdict(g) == "graph.duplicate");
    g = relu(), g.nodes[0].inputs[0] = g.add_value("z");
    CHECK(verdict(g) == "graph.dangling");
    g = relu(), g.outputs.push_back(g.add_value("z"));
    CHECK(verdict(g) == "graph.no_output");
    g = relu(), g.nodes[0].inputs[0] = 77;
    CHECK(verdict(g) == "internal");
}

TEST_CASE("Counts and attributes fit the row") {
    graft::graph g = relu();
    g.nodes[0].inputs.push_back(0);
    CHECK(verdict(g) == "op.shape");
    g = relu(), g.nodes[0].inputs.clear();
    CHECK(verdict(g) == "op.shape");
    g = relu(), g.nodes[0].inputs[0] = graft::no_value;
    CHECK(verdict(g) == "op.shape");
    g = relu(), g.nodes[0].attributes.push_back(graft::integer_attribute("axis", 1));
    CHECK(verdict(g) == "op.attribute");
    g = relu(), g.nodes[0].op_type = "Sum", g.nodes[0].attributes.push_back(graft::integer_attribute("axis", 1));
    CHECK(verdict(g) == "");
    g.nodes[0].attributes.push_back(graft::integers_attribute("axes", {1}));
    CHECK(verdict(g) == "");
    g.nodes[0].attributes.push_back(graft::integer_attribute("axis", 1));
    CHECK(verdict(g) == "op.attribute");
    g = relu(), g.nodes[0].op_type = "Sum", g.nodes[0].attributes.push_back(graft::real_attribute("axis", 1));
    CHECK(verdict(g) == "op.attribute");
    g = relu(), g.nodes[0].op_type = "Sum", g.nodes[0].attributes.push_back(graft::integer_attribute("ax", 1));
    CHECK(verdict(g) == "op.attribute");
}

TEST_CASE("Long chains are sorted in less than a second, and cycles found") {
    graft::graph g = chain_of(30000, true);
    const auto start = std::chrono::steady_clock::now();
    CHECK(verdict(g) == "");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
    for (std::size_t i = 0; i < g.nodes.size(); ++i) REQUIRE(g.nodes[i].inputs[0] == static_cast<int>(i));
    g = chain_of(30000, false);
    g.nodes[0].inputs[0] = 30000;
    CHECK(verdict(g) == "graph.cycle");
    g = relu(), g.nodes[0].inputs[0] = 1;
    CHECK(verdict(g) == "graph.cycle");
}

TEST_CASE("Bodies are verified, sorted with what they capture, and not too deep") {
    graft::graph body;
    const graft::value_id read = body.add_value("late"), made = body.add_value("inner");
    graft::node n;
    n.op_type = "Relu", n.inputs = {read}, n.outputs = {made};
    body.nodes.push_back(n);
    body.outputs.push_back(made);
    graft::graph g = relu();
    const graft::value_id out = g.add_value("out");
    body.captures.push_back({read, 1});
    graft::node branch;
    branch.op_type = "If", branch.inputs = {0}, branch.outputs = {out};
    branch.attributes.push_back(graft::graph_attribute("then_branch", body));
    g.nodes.insert(g.nodes.begin(), branch);
    g.outputs.push_back(out);
    CHECK(verdict(g) == "");
    CHECK(g.nodes[0].op_type == "Relu");
    CHECK(g.nodes[1].attributes[0].graph->nodes[0].op);
    graft::limits shallow;
    shallow.nesting = 1;
    CHECK(verdict(g, shallow) == "model.too_deep");
    g.nodes[1].attributes[0].graph->captures[0].outer = 99;
    CHECK(verdict(g) == "graph.dangling");
    g.nodes[1].attributes[0].graph->captures[0].outer = out;
    CHECK(verdict(g) == "graph.cycle");
}

TEST_CASE("What an operator with bodies cannot do without may not be left out") {
    graft::graph body;
    body.outputs.push_back(body.add_constant("one", graft::tensor::scalar(1.f)));
    graft::graph g = relu();
    graft::node branch;
    branch.op_type = "If", branch.inputs = {0}, branch.outputs = {g.add_value("out")};
    branch.attributes = {graft::graph_attribute("then_branch", body), graft::graph_attribute("else_branch", body)};
    g.nodes.push_back(branch);
    CHECK(verdict(g) == "");
    g.nodes.back().inputs[0] = graft::no_value;
    CHECK(verdict(g) == "op.shape");
}
