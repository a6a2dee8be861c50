// ONNX's own backend tests, from the file that scripts/export_node_tests.py writes: run one by one, shown as a table by operator.
//   GRAFT_NODE_TESTS   another file than build/conformance/node_tests.bin
//   GRAFT_NODE_ONLY    run the tests only whose names hold this text; no lower bound of passes then
#include "../io/wire_model.hpp"
#include "../skipped.hpp"
#include "recorded_tests.hpp"

#include <graft/graft.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using recorded_tests::read_file;
using recorded_tests::reader;

namespace {

struct tally {
    int pass = 0, fail = 0, unsupported = 0, skipped = 0;
    std::map<std::string, int> reasons;
};

// TensorProtos as tensors: graft reads them as the initializers of a model that holds nothing else.
graft::status read_tensors(const std::vector<graft::wire_bytes>& protos, std::vector<graft::tensor>& out) {
    namespace schema = graft::onnx_schema;
    wire_model::message graph;
    for (std::size_t i = 0; i < protos.size(); ++i) {
        const std::string name = "t" + std::to_string(i);
        wire_model::message tensor, plain;
        tensor.data.assign(protos[i].data, protos[i].data + protos[i].size);
        graph.part(schema::graph::initializer, tensor.text(schema::tensor::name, name));
        graph.part(schema::graph::output, plain.text(schema::value_info::name, name));
    }
    const wire_model::message model = wire_model::model(graph, 21, 10);
    auto read = graft::read_onnx(model.data.data(), model.data.size(), "test data", "", {}, nullptr);
    if (!read.ok()) return read.take_status();
    for (const graft::value_id id : read->outputs) out.push_back(read->at(id).constant);
    return {};
}

// What is drawn at random can only be checked by type and shape.
bool draws(const graft::graph& g, const std::string& name) {
    for (const graft::node& n : g.nodes)
        for (const char* random : {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})
            if (n.op_type == random) return true;
    return name.find("training_dropout") != std::string::npos && name.find("zero_ratio") == std::string::npos;
}

// onnx.backend.test asks for 1e-3 relative and 1e-7 absolute; narrow floats for as much as one of their steps.
std::string difference(const graft::tensor& got, const graft::tensor& want, bool values) {
    if (got.type() != want.type() || got.shape() != want.shape())
        return std::string(graft::name(got.type())) + graft::text(got.shape()) + " instead of " + graft::name(want.type()) + graft::text(want.shape());
    const graft::dtype type = want.type();
    double relative = 1e-3, absolute = 1e-5;
    if (type == graft::dtype::float16) relative = 4e-3, absolute = 2e-3;
    if (type == graft::dtype::bfloat16) relative = 2e-2, absolute = 1e-2;
    for (std::int64_t i = 0; values && i < want.elements(); ++i) {
        const double g = graft::element_as_double(type, got.raw(), i), w = graft::element_as_double(type, want.raw(), i);
        bool same = g == w || (std::isnan(g) && std::isnan(w));
        if (!graft::is_float(type)) same = graft::element_as_int64(type, got.raw(), i) == graft::element_as_int64(type, want.raw(), i);
        if (same || (graft::is_float(type) && graft::size_of(type) > 1 && std::fabs(g - w) <= absolute + relative * std::fabs(w))) continue;
        char text[120];
        std::snprintf(text, sizeof text, "element %lld is %.9g instead of %.9g", static_cast<long long>(i), g, w);
        return text;
    }
    return {};
}

// "" where the outputs are right; `unsupported` is set where graft has not the operator or not this form of it.
std::string run_set(const graft::model& model, const std::vector<graft::wire_bytes>& input_protos, const std::vector<graft::wire_bytes>& output_protos,
                    bool values) {
    std::vector<graft::tensor> inputs, wanted;
    graft::status read = read_tensors(input_protos, inputs);
    if (read.ok()) read = read_tensors(output_protos, wanted);
    if (!read.ok()) return std::string("its data: ") + read.error().what();
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < model.inputs().size(); ++i)
        if (inputs.size() == model.inputs().size() || !model.inputs()[i].has_default) places.push_back(i);
    if (places.size() < inputs.size()) return "the test has more inputs than the model";
    graft::session session(model, {2, nullptr});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        graft::status given = session.set_input(places[i], inputs[i]);
        if (!given.ok()) return given.error().what();
    }
    graft::status ran = session.run();
    if (!ran.ok()) return ran.error().what();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (i >= model.outputs().size()) return "the test has more outputs than the model";
        const std::string wrong = difference(session.output(i), wanted[i], values);
        if (!wrong.empty()) return "output " + model.outputs()[i].name + ": " + wrong;
    }
    return {};
}

std::string first_line(const std::string& text) { return text.substr(0, 300); }

// One table, and the same as tab-separated text for docs/support-matrix.md.
void print(const std::map<std::string, tally>& table, const tally& total, const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    std::printf("%-28s %6s %6s %12s %8s\n", "operator", "pass", "fail", "unsupported", "skipped");
    for (const auto& row : table) {
        const tally& t = row.second;
        std::string reasons;
        for (const auto& r : t.reasons) reasons += (reasons.empty() ? "" : ", ") + r.first;
        std::printf("%-28s %6d %6d %12d %8d  %s\n", row.first.c_str(), t.pass, t.fail, t.unsupported, t.skipped, reasons.c_str());
        if (file) std::fprintf(file, "%s\t%d\t%d\t%d\t%d\t%s\n", row.first.c_str(), t.pass, t.fail, t.unsupported, t.skipped, reasons.c_str());
    }
    std::printf("%-28s %6d %6d %12d %8d\n", "all", total.pass, total.fail, total.unsupported, total.skipped);
    std::fflush(stdout);
    if (file) std::fclose(file);
}

struct outcome {
    std::map<std::string, tally> table;
    tally total;
    int node_tests = 0;
};
// `only`: the tests whose names hold it; all where it is null.
outcome run_tests(reader& r, const std::string& path, const char* only) {
    const std::string magic = "graft node tests 1\n";
    REQUIRE_MESSAGE((r.bytes.size() > magic.size() && std::memcmp(r.bytes.data(), magic.data(), magic.size()) == 0), path);
    r.at = magic.size();

    outcome out;
    while (r.ok && r.at < r.bytes.size()) {
        const std::string set = r.text(), name = r.text(), label = r.text(), skip = r.text();
        const graft::wire_bytes bytes = r.part();
        const bool wanted = !only || name.find(only) != std::string::npos;
        std::string wrong, unsupported = skip;
        graft::model model;
        bool values = true;
        if (wanted && skip.empty()) {
            graft::load_options options;
            options.limits.memory_bytes = std::int64_t(2) << 30;
            auto loaded = graft::load(bytes.data, bytes.size, options);
            if (loaded.ok()) {
                model = *loaded;
                values = !draws(model.graph(), name);
            } else if (loaded.error().code() == graft::errc::op_unsupported)
                unsupported = loaded.error().what();
            else
                wrong = loaded.error().what();
        }
        for (std::uint32_t sets = r.number(); sets && r.ok; --sets) {
            std::vector<graft::wire_bytes> sides[2];
            for (auto& side : sides)
                for (std::uint32_t n = r.number(); n && r.ok; --n) side.push_back(r.part());
            if (model && wrong.empty()) wrong = run_set(model, sides[0], sides[1], values);
        }
        if (!wanted) continue;
        if (wrong.compare(0, 14, "op.unsupported") == 0) unsupported = wrong, wrong.clear();
        out.node_tests += set == "node-tests";
        for (tally* t : {&out.table[label], &out.total}) {
            t->pass += wrong.empty() && unsupported.empty();
            t->fail += !wrong.empty();
            t->unsupported += skip.empty() && !unsupported.empty();
            t->skipped += !skip.empty();
            if (!skip.empty()) ++t->reasons[skip];
        }
        if (skip.empty() && !unsupported.empty()) std::printf("unsupported %s: %s\n", name.c_str(), first_line(unsupported).c_str());
        CHECK_MESSAGE(wrong.empty(), set, " ", name, ": ", first_line(wrong));
    }
    REQUIRE(r.ok);
    return out;
}

}  // namespace

TEST_CASE("ONNX's own tests pass, and what is not supported is named") {
    const std::string home = std::string(GRAFT_SOURCE_DIR) + "/build/conformance/";
    const char* named = std::getenv("GRAFT_NODE_TESTS");
    const char* only = std::getenv("GRAFT_NODE_ONLY");
    const std::string path = named ? named : home + "node_tests.bin";
    reader r;
    if (!read_file(path, r.bytes) && !named) {
        // The archives need nothing but Python; the package onnx is only used where it is there already.
        const std::string export_them = "python3 \"" + std::string(GRAFT_SOURCE_DIR) + "/scripts/export_node_tests.py\" --offline";
        if (std::system(export_them.c_str()) != 0 || !read_file(path, r.bytes)) {
            say_skipped("ONNX's node tests are not here; scripts/export_node_tests.py fetches them");
            return;
        }
    }
    const outcome ran = run_tests(r, path, only);
    print(ran.table, ran.total, only ? "/dev/null" : home + "node_tests.tsv");
    CHECK(ran.total.fail == 0);
    if (!only && ran.node_tests > 1000) CHECK(ran.total.pass >= 1600);
}

// Recorded by scripts/record_microsoft_operators.py.
TEST_CASE("operators of com.microsoft answer as ONNX Runtime's do") {
    const std::string path = std::string(GRAFT_SOURCE_DIR) + "/tests/conformance/microsoft_operators.bin";
    reader r;
    REQUIRE(read_file(path, r.bytes));
    const outcome ran = run_tests(r, path, nullptr);
    for (const auto& row : ran.table) {
        CAPTURE(row.first);
        CHECK(row.second.pass > 0);
        CHECK(row.second.unsupported == 0);
    }
    CHECK(ran.table.size() >= 30);
}
