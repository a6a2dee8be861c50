// Writing ONNX models: what is read, written and read again is the same. (onnx_round_trip.py asks ONNX Runtime as well.)
#include "wire_model.hpp"

#include <doctest/doctest.h>
#include <graft/exec/session.hpp>
#include <graft/graph/builder.hpp>
#include <graft/graph/verify.hpp>
#include <graft/io/onnx_read.hpp>
#include <graft/io/onnx_write.hpp>
#include <graft/ops/ops.hpp>

#include <cstdlib>
#include <cstring>
#include <string>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace {

graft::graph small_network() {
    graft::builder b("net", 3);
    const graft::value_id x = b.input("image", graft::dtype::float32, {"N", 3, 8, 8});
    graft::conv2d_options conv;
    conv.kernel = 3;
    graft::value_id y = b.relu(b.conv2d(x, 16, conv));
    b.output(b.linear(b.flatten(y), 10), "logits");
    auto g = b.finish();
    REQUIRE(g.ok());
    g->metadata.emplace_back("labels", "[\"a\"]");
    return std::move(g).value();
}

// What the file says that is written of a graph.
graft::graph written(const graft::graph& g) {
    std::vector<std::uint8_t> out;
    const graft::status wrote = graft::write_onnx(g, out);
    REQUIRE_MESSAGE(wrote.ok(), std::string(wrote.ok() ? "" : wrote.error().what()));
    auto again = graft::read_onnx(out.data(), out.size(), "m", "", {}, nullptr);
    REQUIRE_MESSAGE(again.ok(), std::string(again.ok() ? "" : again.error().what()));
    return std::move(again).value();
}

std::string told(const graft::graph& g) {
    std::vector<std::uint8_t> out;
    const graft::status s = graft::write_onnx(g, out);
    return s.ok() ? "" : s.error().what();
}

std::string verdict(const graft::graph& g) {
    std::vector<std::uint8_t> out;
    const graft::status s = graft::write_onnx(g, out);
    return s.ok() ? "" : graft::text(s.error().code());
}

}  // namespace

TEST_CASE("A graph that is written and read is written again as the same bytes") {
    const graft::graph g = small_network();
    std::vector<std::uint8_t> first, second;
    REQUIRE(graft::write_onnx(g, first).ok());
    auto again = graft::read_onnx(first.data(), first.size(), "m", "", {}, nullptr);
    REQUIRE(again.ok());
    REQUIRE(graft::write_onnx(*again, second).ok());
    CHECK(first == second);
    CHECK(again->nodes.size() == g.nodes.size());
    CHECK(again->at(again->inputs[0]).dimensions[0] == "N");
    CHECK(again->metadata == g.metadata);
    CHECK(again->ir_version == 8);
}

TEST_CASE("Outputs that are left out at the end are written where their number says something") {
    graft::builder b("split");
    b.output(b.apply_all("Split", {b.input("x", graft::dtype::float32, {6})}, {}, 3)[0], "y");
    graft::graph g = b.finish();
    g.nodes[0].outputs[1] = g.nodes[0].outputs[2] = graft::no_value;
    // As it was made, as it was loaded, and as it was only read.
    const graft::graph made = written(g), loaded = written(graft::load(g).value().graph()), reread = written(made);
    for (const graft::graph* again : {&made, &loaded, &reread}) CHECK(again->nodes[0].outputs.size() == 3);
}

TEST_CASE("What a model file cannot hold is not written") {
    graft::graph g = small_network();
    g.nodes[0].domain = "graft";
    CHECK(verdict(g) == "op.unsupported");
    g = small_network();
    g.nodes[0].version = 12;
    CHECK(verdict(g) == "model.version");
    for (const int version : {0, -1, graft::newest_opset + 1}) {
        g = small_network();
        g.opsets[0].version = version;
        for (graft::node& n : g.nodes) n.version = 0;
        CHECK(told(g) == "model.version: model: operator set " + std::to_string(version) + " is not between 1 and 28");
    }
    // A graph that captures something, with nothing around it or not that many values.
    g = small_network();
    g.captures.push_back({0, 0});
    CHECK(told(g) == "graph.dangling: graph 'net': it captures a value that is not there");
    g = small_network();
    graft::graph body;
    body.name = "body";
    body.captures.push_back({body.add_value("v"), static_cast<graft::value_id>(g.values.size())});
    body.outputs.push_back(0);
    g.nodes[0].attributes.push_back(graft::graph_attribute("then_branch", body));
    CHECK(told(g) == "graph.dangling: graph 'body': it captures a value that is not there");
}

TEST_CASE("Operator sets that a graph does not import are those of its nodes, or the newest") {
    graft::graph none;
    none.inputs = none.outputs = {none.add_value("x")};
    none.values[0].type = graft::dtype::float32;
    CHECK(written(none).version_of("") == graft::newest_opset);
    const auto of_node = [&](const char* domain, int version) {
        graft::graph g = none;
        graft::node n;
        n.op_type = "Relu", n.domain = domain, n.version = version, n.inputs = {0}, n.outputs = {g.add_value("y")};
        g.nodes.push_back(n);
        return written(g);
    };
    CHECK(of_node("", 13).version_of("") == 13);
    CHECK(of_node("ai.onnx", 13).version_of("") == 13);
    CHECK(of_node("ai.onnx", 13).opsets.size() == 1);
    CHECK(of_node("", 0).version_of("") == graft::newest_opset);
    CHECK(of_node("own", 0).version_of("own") == 1);
    CHECK(of_node("own", 3).version_of("own") == 3);
}

TEST_CASE("A node of another version of its operator set is written where the operator means the same in both") {
    const auto of_versions = [&](const char* op, std::size_t inputs, int node, int model) {
        graft::graph g;
        g.opsets.push_back({"", node});
        graft::node n;
        n.op_type = op, n.version = node;
        for (std::size_t i = 0; i < inputs; ++i) {
            n.inputs.push_back(g.add_value("x" + std::to_string(i)));
            g.values.back().type = graft::dtype::float32;
            g.inputs.push_back(n.inputs.back());
        }
        n.outputs = g.outputs = {g.add_value("y")};
        g.nodes.push_back(n);
        const graft::ops::table_list all = graft::ops::all_op_tables();
        REQUIRE(graft::verify_graph(g, all, {}).ok());
        g.opsets[0].version = model;
        const std::string text = told(g), refused = "the node is of operator set " + std::to_string(node) + ", the model of " + std::to_string(model);
        if (!text.empty()) CHECK((text.find("model.version: ") == 0 && text.find(refused) != std::string::npos));
        return text.empty();
    };
    // Operators that became others, by ONNX's changelog: of the flattened picture or of one axis; with other statistics; with a weight for each group or
    // each channel; from the pixels' corners or their middles.
    const struct {
        const char* op;
        std::size_t inputs;
        int last, first;
    } changes[] = {{"Squeeze", 1, 12, 13},
                   {"Softmax", 1, 12, 13},
                   {"LogSoftmax", 1, 12, 13},
                   {"Hardmax", 1, 12, 13},
                   {"BatchNormalization", 5, 8, 9},
                   {"BatchNormalization", 5, 13, 14},
                   {"GroupNormalization", 3, 20, 21},
                   {"RoiAlign", 3, 15, 16}};
    for (const auto& c : changes) {
        CAPTURE(c.op);
        CAPTURE(c.first);
        CHECK(!of_versions(c.op, c.inputs, c.last, c.first));
        CHECK(!of_versions(c.op, c.inputs, c.first, c.last));
        CHECK(of_versions(c.op, c.inputs, c.last, c.last));
        CHECK(of_versions(c.op, c.inputs, c.last, c.last - 1));
        CHECK(of_versions(c.op, c.inputs, c.first, c.first + 1));
    }
    CHECK(of_versions("Relu", 1, 7, 17));
    CHECK(of_versions("Relu", 1, 17, 28));
    // Before 7 shapes were broadcast by attributes, and what a batch norm does was told by others.
    CHECK(!of_versions("Add", 2, 6, 7));
    CHECK(!of_versions("Add", 2, 7, 6));
    CHECK(of_versions("Add", 2, 6, 6));
}

TEST_CASE("The IR version rises to what the graph needs") {
    graft::graph g = small_network();
    g.ir_version = 3;
    g.opsets[0].version = 8;
    for (graft::node& n : g.nodes) n.version = 8;
    std::vector<std::uint8_t> out;
    REQUIRE(graft::write_onnx(g, out).ok());
    CHECK(graft::read_onnx(out.data(), out.size(), "m", "", {}, nullptr)->ir_version == 4);
    g.opsets[0].version = 21;
    for (graft::node& n : g.nodes) n.version = 21;
    REQUIRE(graft::write_onnx(g, out).ok());
    CHECK(graft::read_onnx(out.data(), out.size(), "m", "", {}, nullptr)->ir_version == 10);
    // Types that came later, each with the version of the format that brought it.
    using t = graft::dtype;
    const std::pair<t, int> types[] = {{t::float32, 3},     {t::bfloat16, 4},       {t::float8e4m3fn, 9}, {t::float8e4m3fnuz, 9},
                                       {t::float8e5m2, 9},  {t::float8e5m2fnuz, 9}, {t::uint4, 10},       {t::int4, 10},
                                       {t::float4e2m1, 11}, {t::float8e8m0, 12},    {t::uint2, 13},       {t::int2, 13}};
    for (const auto& type : types) {
        CAPTURE(graft::name(type.first));
        graft::graph one;
        one.ir_version = 3;
        one.opsets.push_back({"", 8});
        one.outputs.push_back(one.add_value("x"));
        one.values[0].type = type.first;
        std::vector<std::uint8_t> file;
        REQUIRE(graft::write_onnx(one, file).ok());
        // The first field of a model: its IR version.
        REQUIRE(file[0] == 0x08);
        CHECK(static_cast<int>(file[1]) == type.second);
    }
    // Weights that are inputs as well are what version 3 asks for.
    graft::graph with_default;
    with_default.ir_version = 3;
    with_default.opsets.push_back({"", 8});
    with_default.inputs = with_default.outputs = {with_default.add_value("x")};
    with_default.values[0].type = t::float32;
    with_default.values[0].constant = graft::tensor::zeros(t::float32, {2}).value();
    CHECK(written(with_default).ir_version == 3);
    with_default.inputs.clear();
    CHECK(written(with_default).ir_version == 4);
}

TEST_CASE("An extent that is open needs no name") {
    graft::graph g;
    g.opsets.push_back({"", 17});
    g.inputs = g.outputs = {g.add_value("x")};
    g.values[0].type = graft::dtype::float32;
    g.values[0].has_shape = true;
    g.values[0].extents = {-1, 3, -1};
    g.values[0].dimensions = {"N"};
    const graft::graph again = written(g);
    CHECK(again.values[0].extents == graft::shape{-1, 3, -1});
    CHECK(again.values[0].dimensions == std::vector<std::string>{"N", "", ""});
}

TEST_CASE("Values without names, and names that a body has in common with its surroundings, get names of their own") {
    graft::graph g;
    g.opsets.push_back({"", 17});
    const graft::value_id x = g.add_value("x"), y = g.add_value("");
    g.values[0].type = g.values[1].type = graft::dtype::float32;
    g.values[0].has_shape = g.values[1].has_shape = true;
    g.inputs.push_back(x);
    g.outputs.push_back(y);
    graft::graph body;
    const graft::value_id captured = body.add_value("somebody"), local = body.add_value("x");
    body.captures.push_back({captured, x});
    body.outputs.push_back(local);
    graft::node neg, branch;
    neg.op_type = "Neg", neg.inputs = {captured}, neg.outputs = {local};
    body.nodes.push_back(neg);
    branch.op_type = "If", branch.inputs = {x}, branch.outputs = {y};
    branch.attributes.push_back(graft::graph_attribute("then_branch", body));
    g.nodes.push_back(branch);
    std::vector<std::uint8_t> out;
    REQUIRE(graft::write_onnx(g, out).ok());
    auto again = graft::read_onnx(out.data(), out.size(), "m", "", {}, nullptr);
    REQUIRE(again.ok());
    const graft::graph& inner = *again->nodes[0].attributes[0].graph;
    CHECK(inner.captures.size() == 1);
    CHECK(inner.at(inner.captures[0].inner).name == "x");
    CHECK(inner.at(inner.outputs[0]).name == "x_1");
    CHECK(!again->at(again->outputs[0]).name.empty());
}

TEST_CASE("A node whose only output nobody reads is written so that it loads again") {
    graft::builder b("net");
    const graft::value_id x = b.input("x", graft::dtype::float32, {2});
    b.output(b.relu(x), "y");
    graft::graph g = b.finish();
    graft::node unread;
    unread.op_type = "Relu", unread.inputs = {x}, unread.outputs = {graft::no_value};
    g.nodes.push_back(unread);
    for (const bool verified : {false, true}) {
        if (verified) {
            const graft::ops::table_list all = graft::ops::all_op_tables();
            REQUIRE(graft::verify_graph(g, all, {}).ok());
        }
        std::vector<std::uint8_t> out;
        REQUIRE(graft::write_onnx(g, out).ok());
        const auto again = graft::read_onnx(out.data(), out.size(), "again", "", {}, nullptr);
        REQUIRE(again.ok());
        REQUIRE(again->nodes.size() == 2);
        CHECK(again->nodes[1].outputs.size() == 1);
    }
}

#if !defined(_WIN32)
TEST_CASE("Large weights go to a second file, from which they are read again") {
    char name[] = "/tmp/graft_write_XXXXXX";
    const std::string folder = ::mkdtemp(name), path = folder + "/m.onnx";
    graft::graph g = small_network();
    // Tensors of attributes stay inside, however large.
    graft::node constant;
    constant.op_type = "Constant", constant.outputs = {g.add_value("c")};
    constant.attributes.push_back(graft::tensor_attribute("value", graft::tensor::zeros(graft::dtype::float32, {1000}).value()));
    g.nodes.push_back(constant);
    REQUIRE(graft::write_onnx_file(g, path, 100).ok());
    struct stat info;
    CHECK(::stat((path + ".data").c_str(), &info) == 0);
    {
        auto again = graft::read_onnx_file(path);
        REQUIRE(again.ok());
        std::vector<std::uint8_t> first, second;
        REQUIRE(graft::write_onnx(g, first).ok());
        REQUIRE(graft::write_onnx(*again, second).ok());
        CHECK(first == second);
        CHECK(again->nodes.back().attributes[0].tensor.bytes() == 4000);
    }
    REQUIRE(::stat((path + ".data").c_str(), &info) == 0);
    const off_t outside = info.st_size;
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK(info.st_size > 4000);
    g.nodes.pop_back();
    REQUIRE(graft::write_onnx_file(g, path, 100).ok());
    REQUIRE(::stat((path + ".data").c_str(), &info) == 0);
    CHECK(info.st_size == outside);
    REQUIRE(graft::write_onnx_file(g, path).ok());
    CHECK(graft::read_onnx_file(path).ok());
    CHECK(!graft::write_onnx_file(g, folder + "/absent/m.onnx").ok());
    ::unlink(path.c_str());
    ::unlink((path + ".data").c_str());
    CHECK_MESSAGE(::rmdir(folder.c_str()) == 0, "a temporary file was left behind");
}
#endif
