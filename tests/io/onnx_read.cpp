// Reading ONNX models: the wire, graphs and their names, tensors, functions and bodies.
#include "wire_model.hpp"
#include "../skipped.hpp"

#include <doctest/doctest.h>
#include <graft/io/onnx_read.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace wire_model;

namespace {

graft::result<graft::graph> read(const message& m, const graft::limits& limit = {}) {
    return graft::read_onnx(m.data.data(), m.data.size(), "m", "", limit, nullptr);
}

// The name of the error, "" where the model is read.
std::string verdict(const message& m, const graft::limits& limit = {}) {
    auto g = read(m, limit);
    return g.ok() ? "" : graft::text(g.error().code());
}

message with_tensor(const message& t) { return model(relu_graph().part(schema::graph::initializer, t)); }

message dims(std::initializer_list<std::int64_t> extents, int type) {
    message m;
    for (const std::int64_t e : extents) m.integer(schema::tensor::dims, e);
    return m.integer(schema::tensor::data_type, type);
}

message attribute(const std::string& name, int type) {
    return message().text(schema::attribute::name, name).integer(schema::attribute::type, type);
}

} // namespace

TEST_CASE("A model is read with its names, types and versions") {
    auto g = read(model(relu_graph())
                      .text(schema::model::producer_name, "p")
                      .part(schema::model::metadata_props, message().text(1, "k").text(2, "v"))
                      .integer(99, 1));
    REQUIRE(g.ok());
    CHECK(g->nodes.size() == 1);
    CHECK(g->nodes[0].op_type == "Relu");
    CHECK(g->nodes[0].version == 17);
    CHECK(g->values[static_cast<std::size_t>(g->inputs[0])].name == "x");
    CHECK(g->values[static_cast<std::size_t>(g->inputs[0])].extents == graft::shape{2});
    CHECK(g->values[static_cast<std::size_t>(g->outputs[0])].name == "y");
    CHECK(g->version_of("") == 17);
    CHECK(g->producer_name == "p");
    CHECK(*g->find_metadata("k") == "v");
}

TEST_CASE("A model that is cut anywhere is refused") {
    const message whole = model(relu_graph());
    for (std::size_t size = 0; size < whole.data.size(); ++size) {
        message part;
        part.data.assign(whole.data.begin(), whole.data.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK(verdict(part) != "");
    }
}

TEST_CASE("A graph given in two parts is merged") {
    const message first =
        message().part(schema::graph::node, node("Relu", {"x"}, {"y"})).part(schema::graph::input, value_info("x", {2}));
    CHECK(verdict(model(first).part(schema::model::graph, message().part(schema::graph::output, value_info("y", {2})))) == "");
}

TEST_CASE("Versions out of range are refused") {
    CHECK(verdict(model(relu_graph(), 0)) == "model.version");
    CHECK(verdict(model(relu_graph(), graft::newest_opset)) == "");
    CHECK(verdict(model(relu_graph(), graft::newest_opset + 1)) == "model.version");
    CHECK(verdict(model(relu_graph(), 17, 2)) == "model.version");
    CHECK(verdict(model(relu_graph(), 17, 15)) == "model.version");
    CHECK(verdict(message().integer(schema::model::ir_version, 8).part(schema::model::graph, relu_graph())) == "model.version");
    CHECK(verdict(message().integer(schema::model::ir_version, 8)) == "model.malformed");
    CHECK(verdict(message()) == "model.truncated");
    graft::limits small;
    small.model_bytes = 10;
    CHECK(verdict(model(relu_graph()), small) == "model.too_large");
    small = {};
    small.nodes = 0;
    CHECK(verdict(model(relu_graph()), small) == "model.too_large");
}

TEST_CASE("Names must be made once, and before somebody needs them") {
    using g = schema::graph;
    CHECK(verdict(model(relu_graph().part(g::node, node("Relu", {"x"}, {"y"})))) == "graph.duplicate");
    CHECK(verdict(model(relu_graph().part(g::node, node("Relu", {"x"}, {"x"})))) == "graph.duplicate");
    CHECK(verdict(model(relu_graph().part(g::input, value_info("x", {2})))) == "graph.duplicate");
    CHECK(verdict(model(relu_graph().part(g::output, value_info("y", {2})))) == "graph.duplicate");
    CHECK(verdict(model(relu_graph().part(g::node, node("Relu", {"q"}, {"z"})))) == "graph.dangling");
    CHECK(verdict(model(relu_graph().part(g::output, value_info("z", {2})))) == "graph.no_output");
    CHECK(verdict(model(relu_graph().part(g::output, value_info("", {2})))) == "model.malformed");
    CHECK(verdict(model(relu_graph().part(g::node, node("Clip", {"y", "", "x"}, {"z", ""})))) == "");
}

TEST_CASE("Inputs must be tensors of a type and shape that can be") {
    using g = schema::graph;
    CHECK(verdict(model(relu_graph().part(g::input, value_info("a", {-1, 0, 3})))) == "");
    CHECK(verdict(model(relu_graph().part(g::input, value_info("a", {-2})))) == "tensor.shape");
    CHECK(verdict(model(relu_graph().part(g::input, value_info("a", {1LL << 31, 1LL << 31, 4})))) == "tensor.overflow");
    CHECK(verdict(model(relu_graph().part(g::input, value_info("a", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})))) ==
          "tensor.shape");
    CHECK(verdict(model(relu_graph().part(g::input, value_info("a", {1}, 0)))) == "tensor.dtype");
    CHECK(verdict(model(relu_graph().part(g::input, value_info("a", {1}, 8)))) == "tensor.dtype");
    CHECK(verdict(model(relu_graph().part(g::input, value_info("a", {1}, 99)))) == "tensor.dtype");
    const message sequence = message()
                                 .text(schema::value_info::name, "a")
                                 .part(schema::value_info::type, message().part(schema::type::sequence, message()));
    CHECK(verdict(model(relu_graph().part(g::input, sequence))) == "op.unsupported");
    CHECK(verdict(model(relu_graph().part(g::sparse_initializer, message()))) == "op.unsupported");
}

TEST_CASE("Tensors have the bytes that their shape and type need, in the field of their type") {
    using t = schema::tensor;
    CHECK(verdict(with_tensor(tensor("w", dims({2}, 1).text(t::raw_data, "12345678")))) == "");
    CHECK(verdict(with_tensor(tensor("w", dims({2}, 1).text(t::raw_data, "1234567")))) == "tensor.bytes");
    CHECK(verdict(with_tensor(tensor("w", dims({2}, 1)))) == "tensor.bytes");
    CHECK(verdict(with_tensor(tensor("w", dims({0}, 1)))) == "");
    CHECK(verdict(with_tensor(tensor("w", dims({2}, 1).real(t::float_data, 1).real(t::float_data, 2)))) == "");
    CHECK(verdict(with_tensor(tensor("w", dims({2}, 1).real(t::float_data, 1)))) == "tensor.bytes");
    CHECK(verdict(with_tensor(tensor("w", dims({1}, 1).integer(t::int32_data, 1)))) == "tensor.bytes");
    CHECK(verdict(with_tensor(tensor("w", dims({1}, 1).real(t::float_data, 1).text(t::raw_data, "1234")))) == "tensor.bytes");
    CHECK(verdict(with_tensor(tensor("w", dims({1}, 2).integer(t::int32_data, 300)))) == "tensor.bytes");
    CHECK(verdict(with_tensor(tensor("w", dims({-1}, 1)))) == "tensor.shape");
    CHECK(verdict(with_tensor(tensor("w", dims({1LL << 40, 1LL << 40}, 1)))) == "tensor.overflow");
    CHECK(verdict(with_tensor(tensor("w", dims({0, 1LL << 40, 1LL << 40}, 1)))) == "tensor.overflow");
    CHECK(verdict(with_tensor(tensor("w", dims({1LL << 40}, 1)))) == "tensor.bytes");
    for (const int type : {0, 14, 15, 27, 99}) CHECK(verdict(with_tensor(tensor("w", dims({1}, type)))) == "tensor.dtype");
    CHECK(verdict(with_tensor(tensor("w", dims({1}, 1).part(t::segment, message())))) == "op.unsupported");
    CHECK(verdict(with_tensor(tensor("w", dims({1}, 8).text(t::string_data, "s")))) == "");
    CHECK(verdict(with_tensor(tensor("x", dims({2}, 8).text(t::string_data, "s").text(t::string_data, "s")))) != "");
    CHECK(verdict(with_tensor(tensor("w", dims({1}, 8).text(t::raw_data, "s")))) == "tensor.dtype");
    CHECK(verdict(with_tensor(tensor("", dims({0}, 1)))) == "model.malformed");
    CHECK(verdict(with_tensor(tensor("y", dims({0}, 1)))) == "graph.duplicate");
    const message twice = tensor("w", dims({0}, 1));
    CHECK(verdict(model(relu_graph().part(schema::graph::initializer, twice).part(schema::graph::initializer, twice))) ==
          "graph.duplicate");
}

TEST_CASE("A tensor's fields may come in any order, its numbers packed or one by one") {
    using t = schema::tensor;
    const message numbers = message().integer(t::int64_data, 5).integer(t::int64_data, -6), name = message().text(t::name, "w");
    for (const bool name_first : {true, false}) {
        message m = dims({2}, 7);
        for (const message* part : {name_first ? &name : &numbers, name_first ? &numbers : &name}) m.data.insert(m.data.end(), part->data.begin(), part->data.end());
        const auto g = read(with_tensor(m));
        REQUIRE_MESSAGE(g.ok(), std::string(g.ok() ? "" : g.error().what()));
        bool found = false;
        for (const graft::value& v : g->values)
            if (v.name == "w") found = v.constant.data<std::int64_t>()[0] == 5 && v.constant.data<std::int64_t>()[1] == -6;
        CHECK(found);
    }
}

TEST_CASE("Types below one byte are unpacked, with their sign, and bools become 0 or 1") {
    using t = schema::tensor;
    auto g = read(with_tensor(tensor("w", dims({3}, 22).text(t::raw_data, std::string("\x8f\x07", 2)))));
    REQUIRE(g.ok());
    const auto* w = g->values[1].constant.data<std::int8_t>();
    CHECK((w[0] == -1 && w[1] == -8 && w[2] == 7));
    g = read(with_tensor(tensor("w", dims({3}, 21).integer(t::int32_data, 0x8f).integer(t::int32_data, 7))));
    REQUIRE(g.ok());
    const auto* u = g->values[1].constant.data<std::uint8_t>();
    CHECK((u[0] == 15 && u[1] == 8 && u[2] == 7));
    g = read(with_tensor(tensor("w", dims({2}, 9).text(t::raw_data, std::string("\0\5", 2)))));
    REQUIRE(g.ok());
    CHECK((static_cast<int>(g->values[1].constant.raw()[0]) == 0 && static_cast<int>(g->values[1].constant.raw()[1]) == 1));
}

TEST_CASE("An initializer that is an input as well is its default") {
    const message w = tensor("x", dims({2}, 1).text(schema::tensor::raw_data, "12345678"));
    auto g = read(model(relu_graph().part(schema::graph::initializer, w), 8, 3));
    REQUIRE(g.ok());
    CHECK(g->inputs.size() == 1);
    CHECK(g->values[static_cast<std::size_t>(g->inputs[0])].constant);
    const message other = tensor("x", dims({3}, 1).text(schema::tensor::raw_data, "123456789012"));
    CHECK(verdict(model(relu_graph().part(schema::graph::initializer, other))) == "tensor.shape");
    CHECK(verdict(model(relu_graph().part(schema::graph::initializer,
                                          tensor("x", dims({1}, 7).integer(schema::tensor::int64_data, 1))))) == "tensor.dtype");
}

TEST_CASE("Attributes say what they are, and hold it") {
    using a = schema::attribute;
    const auto with = [](const message& attribute) {
        message n = node("Relu", {"x"}, {"z"});
        n.part(schema::node::attribute, attribute);
        return model(relu_graph().part(schema::graph::node, n));
    };
    CHECK(verdict(with(attribute("k", a::is_int).integer(a::i, 1))) == "");
    CHECK(verdict(with(attribute("k", a::is_int))) == "");
    CHECK(verdict(with(attribute("k", 0).integer(a::i, 1))) == "");
    CHECK(verdict(with(attribute("k", 0))) == "op.attribute");
    CHECK(verdict(with(attribute("", a::is_int))) == "op.attribute");
    CHECK(verdict(with(attribute("k", a::is_int).real(a::f, 1))) == "op.attribute");
    CHECK(verdict(with(attribute("k", a::is_tensor))) == "op.attribute");
    CHECK(verdict(with(attribute("k", a::is_graph))) == "op.attribute");
    CHECK(verdict(with(attribute("k", 9))) == "op.unsupported");
    CHECK(verdict(with(attribute("k", a::is_int).text(a::ref_attr_name, "q"))) == "op.attribute");
}

TEST_CASE("Bodies capture what they read around them, to the limit of nesting") {
    using a = schema::attribute;
    message graph = message()
                        .part(schema::graph::node, node("Add", {"x", "x"}, {"inner"}))
                        .part(schema::graph::output, value_info("inner", {2}));
    for (int depth = 0; depth < 3; ++depth) {
        message n = node("If", {"x"}, {("made" + std::to_string(depth)).c_str()});
        n.part(schema::node::attribute, attribute("then_branch", a::is_graph).part(a::g, graph));
        graph =
            message().part(schema::graph::node, n).part(schema::graph::output, value_info("made" + std::to_string(depth), {2}));
    }
    message whole = graph;
    whole.part(schema::graph::input, value_info("x", {2}));
    auto g = read(model(whole));
    REQUIRE(g.ok());
    const graft::graph* body = g->nodes[0].attributes[0].graph.get();
    for (int depth = 0; depth < 3; ++depth) {
        REQUIRE(body);
        REQUIRE(body->captures.size() == 1);
        CHECK(body->values[static_cast<std::size_t>(body->captures[0].inner)].name == "x");
        body = depth < 2 ? body->nodes[0].attributes[0].graph.get() : nullptr;
    }
    graft::limits shallow;
    shallow.nesting = 3;
    CHECK(verdict(model(whole), shallow) == "model.too_deep");
    message shadow = node("If", {"x"}, {"z"});
    shadow.part(schema::node::attribute, attribute("then_branch", a::is_graph)
                                             .part(a::g, message()
                                                             .part(schema::graph::node, node("Neg", {"y"}, {"x"}))
                                                             .part(schema::graph::output, value_info("x", {2}))));
    CHECK(verdict(model(relu_graph().part(schema::graph::node, shadow))) == "graph.duplicate");
}

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

} // namespace

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
    CHECK(verdict(with_functions(node("f", {"x"}, {"z"}, "own"), {function("f", {"a"}, {"b"}, {node("Neg", {"x"}, {"b"})})})) ==
          "graph.dangling");
}

TEST_CASE("Functions that call themselves, or each other without end, are refused before they are written out") {
    const message self = function("f", {"a"}, {"b"}, {node("f", {"a"}, {"b"}, "own")});
    CHECK(verdict(with_functions(node("f", {"x"}, {"z"}, "own"), {self})) == "model.recursion");
    const message one = function("f", {"a"}, {"b"}, {node("g", {"a"}, {"b"}, "own")}),
                  two = function("g", {"a"}, {"b"}, {node("f", {"a"}, {"b"}, "own")});
    CHECK(verdict(with_functions(node("f", {"x"}, {"z"}, "own"), {one, two})) == "model.recursion");
    message doubling = model(relu_graph().part(schema::graph::node, node("f0", {"x"}, {"z"}, "own"))), chain = doubling;
    for (int i = 0; i < 30; ++i) {
        const std::string next = "f" + std::to_string(i + 1), name = "f" + std::to_string(i);
        const message last = node("Neg", {"a"}, {"b"});
        doubling.part(schema::model::functions,
                      i == 29 ? function(name, {"a"}, {"b"}, {last})
                              : function(name, {"a"}, {"b"}, {node(next, {"a"}, {"t"}, "own"), node(next, {"t"}, {"b"}, "own")}));
    }
    for (int i = 0; i < 40; ++i)
        chain.part(schema::model::functions,
                   function("f" + std::to_string(i), {"a"}, {"b"}, {node("f" + std::to_string(i + 1), {"a"}, {"b"}, "own")}));
    CHECK(verdict(doubling) == "model.too_large");
    CHECK(verdict(chain) == "model.too_deep");
}

TEST_CASE("The recorded hostile models are read or refused as they should, each in less than two seconds") {
    const char* shared = std::getenv("GRAFT_SHARED");
    const std::string folder = std::string(shared ? shared : "../shared") + "/pack/hostile/models/";
    std::FILE* list = std::fopen((folder + "expected.tsv").c_str(), "rb");
    if (!list) {
        say_skipped("no hostile models (GRAFT_SHARED is not set)");
        return;
    }
    char line[1000];
    while (std::fgets(line, sizeof line, list)) {
        const std::string text = line;
        const std::size_t tab = text.find('\t'), end = text.find('\t', tab + 1);
        const std::string name = text.substr(0, tab), wanted = text.substr(tab + 1, end - tab - 1);
        const auto start = std::chrono::steady_clock::now();
        const bool accepted = graft::read_onnx_file(folder + name).ok();
        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
        // Faults of operators, cycles and sizes are seen by verify and by shape inference.
        const bool later = name.rfind("op_", 0) == 0 || name == "cycle_long.onnx" || name == "exp_doubling.onnx";
        CHECK_MESSAGE((wanted == "bounded" || later || accepted == (wanted == "accept")), name);
    }
    std::fclose(list);
}
