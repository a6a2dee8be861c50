// Functions that a model brings along, written out in place of their calls.
#include "read_wire_model.hpp"

#include <string>
#include <vector>

using namespace wire_model;

namespace {

message function(const std::string& name, std::initializer_list<const char*> inputs, std::initializer_list<const char*> outputs,
                 std::initializer_list<message> nodes) {
    using f = schema::function;
    message m = message().text(f::name, name).text(f::domain, "own");
    for (const char* i : inputs) m.text(f::input, i);
    for (const char* o : outputs) m.text(f::output, o);
    for (const message& n : nodes) m.part(f::node, n);
    return m.part(f::opset_import, message().integer(schema::operator_set::version, 17));
}

message with_functions(const message& call, std::initializer_list<message> functions) {
    message m = model(relu_graph().part(schema::graph::node, call));
    for (const message& f : functions) m.part(schema::model::functions, f);
    return m;
}

}  // namespace

TEST_CASE("Functions are written out: names stay apart, an input can be an output, outputs can be left out") {
    const message twice = function("twice", {"a"}, {"b", "a"}, {node("Add", {"a", "a"}, {"t"}), node("Neg", {"t"}, {"b"})});
    auto g = read(with_functions(node("twice", {"x"}, {"z", "copy"}, "own"), {twice}));
    REQUIRE(g.ok());
    REQUIRE(g->nodes.size() == 4);
    CHECK(g->nodes[3].op_type == "Identity");
    CHECK(verdict(with_functions(node("twice", {"x"}, {"z"}, "own"), {twice})) == "");
    CHECK(verdict(with_functions(node("twice", {"x", "x"}, {"z"}, "own"), {twice})) == "op.shape");
    CHECK(verdict(with_functions(node("twice", {}, {"z"}, "own"), {twice})) != "op.unsupported");
    CHECK(verdict(with_functions(node("twice", {"x"}, {"z"}, "own"), {twice, twice})) == "graph.duplicate");
    CHECK(verdict(with_functions(node("f", {"x"}, {"z"}, "own"), {function("f", {"a"}, {"b"}, {})})) == "graph.no_output");
    CHECK(verdict(with_functions(node("f", {"x"}, {"z"}, "own"), {function("f", {"a"}, {"b"}, {node("Neg", {"x"}, {"b"})})})) == "graph.dangling");
}

TEST_CASE("Attributes of functions: what a call gives, what it leaves to the default, what it leaves out") {
    using a = schema::attribute;
    using f = schema::function;
    // z = LeakyRelu(x, slope), a constant and a list of words by reference, and two references that no call fills.
    message leaky = node("LeakyRelu", {"p"}, {"r"}), constant = node("Constant", {}, {"c"});
    leaky.part(schema::node::attribute, attribute("alpha", a::is_float).text(a::ref_attr_name, "slope"));
    leaky.part(schema::node::attribute, attribute("words", a::is_strings).text(a::ref_attr_name, "words"));
    leaky.part(schema::node::attribute, attribute("body", a::is_graph).text(a::ref_attr_name, "absent"));
    constant.part(schema::node::attribute, attribute("value", a::is_tensor).text(a::ref_attr_name, "number"));
    message scale = function("scale", {"p"}, {"r"}, {leaky, constant});
    scale.text(f::attribute, "number").text(f::attribute, "absent").part(f::attribute_proto, attribute("slope", a::is_float).real(a::f, 0.25f));
    scale.part(f::attribute_proto, attribute("words", a::is_strings).text(a::strings, "first").text(a::strings, "second"));
    message plain = node("scale", {"x"}, {"z"}, "own"), given = node("scale", {"x"}, {"v"}, "own");
    given.part(schema::node::attribute, attribute("slope", a::is_float).real(a::f, 0.5f));
    given.part(schema::node::attribute, attribute("number", a::is_tensor).part(a::t, dims({1}, 7).integer(schema::tensor::int64_data, -9)));
    const auto g = read(model(relu_graph().part(schema::graph::node, plain).part(schema::graph::node, given)).part(schema::model::functions, scale));
    REQUIRE_MESSAGE(g.ok(), std::string(g.ok() ? "" : g.error().what()));
    REQUIRE(g->nodes.size() == 5);
    REQUIRE(g->nodes[1].attributes.size() == 2);
    CHECK(g->nodes[1].attributes[0].name == "alpha");
    CHECK(g->nodes[1].attributes[0].real == 0.25f);
    CHECK(g->nodes[1].attributes[1].strings == std::vector<std::string>{"first", "second"});
    CHECK(g->nodes[2].attributes.empty());
    REQUIRE(g->nodes[3].attributes.size() == 2);
    CHECK(g->nodes[3].attributes[0].real == 0.5f);
    REQUIRE(g->nodes[4].attributes.size() == 1);
    CHECK(g->nodes[4].attributes[0].name == "value");
    CHECK(g->nodes[4].attributes[0].tensor.data<std::int64_t>()[0] == -9);

    message body_given = node("scale", {"x"}, {"z"}, "own");
    const message body = message().part(schema::graph::node, node("Neg", {"x"}, {"o"})).part(schema::graph::output, value_info("o", {2}));
    body_given.part(schema::node::attribute, attribute("absent", a::is_graph).part(a::g, body));
    CHECK(tells(with_functions(body_given, {scale}), "op.unsupported", "graphs as attributes of functions are not supported"));
    const message call = node("f", {"x"}, {"z"}, "own"), neg = node("Neg", {"p"}, {"r"});
    const message with_body = message(function("f", {"p"}, {"r"}, {neg})).part(f::attribute_proto, attribute("k", a::is_graph).part(a::g, relu_graph()));
    const message with_reference = message(function("f", {"p"}, {"r"}, {neg})).part(f::attribute_proto, attribute("k", a::is_int).text(a::ref_attr_name, "q"));
    for (const message& bad : {with_body, with_reference})
        CHECK(tells(with_functions(call, {bad}), "op.unsupported", "this kind of default attribute of a function is not supported"));
    message many = function("f", {"p"}, {"r"}, {neg});
    for (int i = 0; i < 1024; ++i) many.part(f::attribute_proto, attribute("k" + std::to_string(i), a::is_int));
    CHECK(told(with_functions(call, {many})) == "");
    CHECK(tells(with_functions(call, {many.part(f::attribute_proto, attribute("one more", a::is_int))}), "model.too_large",
                "function 'f': more than 1024 attributes"));
}

TEST_CASE("Functions whose inputs or outputs share a name are refused, and inputs that a call leaves out are left out inside of bodies too") {
    const message call = node("f", {"x"}, {"z"}, "own");
    CHECK(tells(with_functions(call, {function("f", {"p", "p"}, {"r"}, {node("Neg", {"p"}, {"r"})})}), "graph.duplicate",
                "two inputs of the function have one name"));
    CHECK(tells(with_functions(call, {function("f", {"p"}, {"r", "r"}, {node("Neg", {"p"}, {"r"})})}), "graph.duplicate",
                "two outputs of the function have one name"));
    // What a function makes inside gets a name that the graph does not have.
    const message steps = function("f", {"p"}, {"r"}, {node("Neg", {"p"}, {"t"}), node("Neg", {"t"}, {"r"})});
    const auto g =
        read(model(relu_graph().part(schema::graph::input, value_info("f_1/t", {2})).part(schema::graph::node, call)).part(schema::model::functions, steps));
    REQUIRE_MESSAGE(g.ok(), std::string(g.ok() ? "" : g.error().what()));
    REQUIRE(g->nodes.size() == 3);
    CHECK(g->at(g->nodes[1].outputs[0]).name == "f_1/t_2");
    CHECK(g->nodes[2].inputs[0] == g->nodes[1].outputs[0]);

    using a = schema::attribute;
    message choice = node("If", {"p"}, {"r"});
    const message clip = message().part(schema::graph::node, node("Clip", {"p", "low"}, {"o"})).part(schema::graph::output, value_info("o", {2}));
    choice.part(schema::node::attribute, attribute("then_branch", a::is_graph).part(a::g, clip));
    const auto left_out = read(with_functions(call, {function("f", {"p", "low"}, {"r"}, {choice})}));
    REQUIRE_MESSAGE(left_out.ok(), std::string(left_out.ok() ? "" : left_out.error().what()));
    const graft::graph& inner = *left_out->nodes[1].attributes[0].graph;
    REQUIRE(inner.nodes[0].inputs.size() == 2);
    CHECK(inner.nodes[0].inputs[1] == graft::no_value);
    REQUIRE(inner.captures.size() == 1);
    CHECK(inner.captures[0].outer == left_out->inputs[0]);

    // Nobody says which version of Identity hands an input through: the newest is one that there is.
    message own =
        message()
            .integer(schema::model::ir_version, 8)
            .part(schema::model::graph,
                  message().part(schema::graph::node, call).part(schema::graph::input, value_info("x", {2})).part(schema::graph::output, value_info("z", {2})));
    own.part(schema::model::opset_import, message().text(schema::operator_set::domain, "own").integer(schema::operator_set::version, 1));
    const message through = message()
                                .text(schema::function::name, "f")
                                .text(schema::function::domain, "own")
                                .text(schema::function::input, "p")
                                .text(schema::function::output, "p");
    const auto handed = read(own.part(schema::model::functions, through));
    REQUIRE_MESSAGE(handed.ok(), std::string(handed.ok() ? "" : handed.error().what()));
    REQUIRE(handed->nodes.size() == 1);
    CHECK(handed->nodes[0].op_type == "Identity");
    CHECK(handed->nodes[0].version == graft::newest_opset);
}

TEST_CASE("Graphs in graphs beside functions, and what functions copy when they are written out, have limits") {
    using a = schema::attribute;
    message graph = message().part(schema::graph::node, node("Neg", {"x"}, {"o"})).part(schema::graph::output, value_info("o", {2}));
    for (int depth = 0; depth < 3; ++depth) {
        message n = node("If", {"x"}, {("o" + std::to_string(depth)).c_str()});
        n.part(schema::node::attribute, attribute("then_branch", a::is_graph).part(a::g, graph));
        graph = message().part(schema::graph::node, n).part(schema::graph::output, value_info("o" + std::to_string(depth), {2}));
    }
    const message neg = function("f", {"p"}, {"r"}, {node("Neg", {"p"}, {"r"})});
    const message nested = model(graph.part(schema::graph::input, value_info("x", {2}))).part(schema::model::functions, neg);
    graft::limits limit;
    limit.nesting = 4;
    CHECK(told(nested, limit) == "");
    limit.nesting = 2;
    CHECK(tells(nested, "model.too_deep", "graphs nest deeper than 2", limit));
    // Ten bytes of calls each copy two thousand: four times the file is allowed.
    message words = node("LeakyRelu", {"p"}, {"r"});
    words.part(schema::node::attribute, attribute("text", a::is_string).text(a::s, std::string(2000, 'w')));
    const message copied = function("f", {"p"}, {"r"}, {words});
    const auto calls = [&](int n) {
        message m = relu_graph();
        for (int i = 0; i < n; ++i) m.part(schema::graph::node, node("f", {"x"}, {("z" + std::to_string(i)).c_str()}, "own"));
        return model(m).part(schema::model::functions, copied);
    };
    limit = {};
    CHECK(told(calls(40), limit) == "");
    limit.load_work = 0;
    CHECK(told(calls(2), limit) == "");
    CHECK(tells(calls(40), "memory.budget", "written out, the functions of this file take too much (limits::load_work is 0)", limit));
}

TEST_CASE("Functions that call themselves, or each other without end, are refused before they are written out") {
    const message self = function("f", {"a"}, {"b"}, {node("f", {"a"}, {"b"}, "own")});
    CHECK(verdict(with_functions(node("f", {"x"}, {"z"}, "own"), {self})) == "model.recursion");
    const message one = function("f", {"a"}, {"b"}, {node("g", {"a"}, {"b"}, "own")}), two = function("g", {"a"}, {"b"}, {node("f", {"a"}, {"b"}, "own")});
    CHECK(verdict(with_functions(node("f", {"x"}, {"z"}, "own"), {one, two})) == "model.recursion");
    message doubling = model(relu_graph().part(schema::graph::node, node("f0", {"x"}, {"z"}, "own"))), chain = doubling;
    for (int i = 0; i < 30; ++i) {
        const std::string next = "f" + std::to_string(i + 1), name = "f" + std::to_string(i);
        const message last = node("Neg", {"a"}, {"b"});
        doubling.part(schema::model::functions, i == 29 ? function(name, {"a"}, {"b"}, {last})
                                                        : function(name, {"a"}, {"b"}, {node(next, {"a"}, {"t"}, "own"), node(next, {"t"}, {"b"}, "own")}));
    }
    for (int i = 0; i < 40; ++i)
        chain.part(schema::model::functions, function("f" + std::to_string(i), {"a"}, {"b"}, {node("f" + std::to_string(i + 1), {"a"}, {"b"}, "own")}));
    CHECK(verdict(doubling) == "model.too_large");
    CHECK(verdict(chain) == "model.too_deep");
}
