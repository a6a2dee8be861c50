// --profile of run and bench: the trace, the tables, the JSON, and what is refused.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <doctest/doctest.h>
#include <graft/core/json.hpp>
#include <graft/graft.hpp>

#include <algorithm>
#include <string>

namespace {

using program_test::done;
using program_test::graft_program;

const std::string model = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx";

// An input of the demo's model, [3,3,64,64].
std::string put_input(const made_folder& folder) {
    graft::tensor in = graft::tensor::make(graft::dtype::float32, {3, 3, 64, 64});
    for (std::int64_t i = 0; i < in.elements(); ++i) in.data<float>()[i] = static_cast<float>(i % 97) / 97;
    graft::must(graft::write_npy(folder.path + "/in.npy", in));
    return folder.path + "/in.npy";
}
// "X" events of a trace by their operator.
std::int64_t events_of(const std::string& file, const std::string& op) {
    auto read = graft::parse_json(file_contents(file), file);
    REQUIRE_MESSAGE(read.ok(), read.error().what());
    const graft::json* list = read->find("traceEvents");
    REQUIRE(list);
    return std::count_if(list->items.begin(), list->items.end(),
                         [&](const graft::json& e) { return e.find("ph")->string == "X" && e.find("args")->find("op")->string == op; });
}
const graft::json* row_of(const graft::json& rows, const std::string& op) {
    for (const graft::json& row : rows.items)
        if (row.find("operator")->string == op) return &row;
    return nullptr;
}

}  // namespace

TEST_CASE("bench --profile writes a trace of as many runs as it timed, and rows that add up") {
    const made_folder folder;
    const std::string trace = folder.path + "/trace.json";
    const done d = graft_program("bench " + model + " --device cpu --threads 2 --rounds 6 --batch 2 --json --profile " + trace + " --profile-nodes 3");
    REQUIRE_MESSAGE(d.code == 0, d.err);
    CHECK(events_of(trace, "run") == 6);
    CHECK(events_of(trace, "Conv") == 6 * 13);
    auto read = graft::parse_json(d.out, "bench");
    REQUIRE(read.ok());
    const graft::json* profile = read->find("profile");
    REQUIRE(profile);
    CHECK(profile->find("file")->string == trace);
    CHECK(profile->find("runs")->integer == 3);  // the faster half
    CHECK(profile->find("threads")->integer == 2);
    CHECK(profile->find("isa")->string == read->find("isa")->string);
    CHECK(profile->find("left_out")->integer == 0);
    CHECK(profile->find("not_measured")->items.empty());
    for (const char* key : {"ms", "peak_gflops", "peak_gbs"}) CHECK(profile->find(key)->real > 0);
    for (const char* key : {"outside_ms", "outside_share"}) CHECK(profile->find(key)->real >= 0);
    const graft::json& operators = *profile->find("operators");
    std::int64_t macs = 0, calls = 0;
    double ms = 0;
    for (const graft::json& row : operators.items) {
        macs += row.find("macs")->integer, calls += row.find("calls")->integer, ms += row.find("ms")->real;
        CHECK((row.find("gflops")->type == graft::json::kind::null) == (row.find("macs")->integer == 0));
        CHECK(row.find("bytes")->integer > 0);
        const std::string limit = row.find("limit")->string;
        CHECK((limit == "memory" || limit == "compute"));
    }
    CHECK(macs == read->find("macs")->integer);
    CHECK(ms + profile->find("outside_ms")->real == doctest::Approx(profile->find("ms")->real));
    const graft::json* conv = row_of(operators, "Conv");
    REQUIRE(conv);
    CHECK(conv->find("calls")->integer == 3 * 13);
    const graft::json* pool = row_of(operators, "GlobalAveragePool");
    REQUIRE(pool);
    CHECK(pool->find("limit")->string == "memory");
    const graft::json& nodes = *profile->find("nodes");
    REQUIRE(nodes.items.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(nodes.items[i].find("calls")->integer == 3);
        CHECK(nodes.items[i].find("device")->string == "cpu");
        CHECK(nodes.items[i].find("threads")->integer == 2);
        CHECK(contains(nodes.items[i].find("shapes")->string, " -> float32[2,"));
        if (i) CHECK(nodes.items[i - 1].find("ms")->real >= nodes.items[i].find("ms")->real);
    }
}

TEST_CASE("run --profile writes the outputs that it writes without, and prints its tables behind them") {
    const made_folder folder;
    const std::string run = "run " + model + " --device cpu -i input=" + put_input(folder) + " -o " + folder.path, trace = folder.path + "/trace.json";
    REQUIRE(graft_program(run + "/plain").code == 0);
    const done d = graft_program(run + "/profiled --profile " + trace + " --profile-nodes 2");
    REQUIRE_MESSAGE(d.code == 0, d.err);
    CHECK(file_contents(folder.path + "/profiled/logits.npy") == file_contents(folder.path + "/plain/logits.npy"));
    CHECK(events_of(trace, "run") > 0);
    for (const char* text : {"operator", "all steps", "outside of steps", "whole run", "GFLOP/s", "of bandwidth", " more, ", "this machine: ", "trace: "}) {
        CAPTURE(text);
        CHECK(d.has(text));
    }
    // Numbers stand under each other: every row of the table by operator is as long as its head, but for the text at the end.
    const std::size_t head = d.out.find("operator "), limit = d.out.find("  limit", head);
    REQUIRE(limit != std::string::npos);
    const std::size_t column = limit + 2 - head, row = d.out.find("\nConv ", head) + 1;
    CHECK((d.out.compare(row + column, 7, "compute") == 0 || d.out.compare(row + column, 6, "memory") == 0));
    const done plain = graft_program(run + "/json --json --profile " + trace);
    REQUIRE(plain.code == 0);
    auto read = graft::parse_json(plain.out, "run");
    REQUIRE(read.ok());
    REQUIRE(read->find("profile"));
    CHECK(read->find("outputs"));
    CHECK(!read->find("profile")->find("nodes"));
    CHECK(!graft_program(run + "/json --json").has("profile"));
}

TEST_CASE("a profile of stages has a thread for each") {
    const made_folder folder;
    const std::string trace = folder.path + "/trace.json";
    const done d = graft_program("bench " + model + " --device cpu --threads 2 --rounds 3 --stages 2 --parts 2 --batch 4 --json --profile " + trace);
    REQUIRE_MESSAGE(d.code == 0, d.err);
    const std::string text = file_contents(trace);
    CHECK(contains(text, "\"args\":{\"name\":\"cpu:0\"}"));
    CHECK(contains(text, "\"args\":{\"name\":\"cpu:1\"}"));
    CHECK(events_of(trace, "run") == 3);
}

TEST_CASE("bench --train --profile tells of the operators of a step") {
    const made_folder folder;
    const std::string trace = folder.path + "/trace.json";
    const done d =
        graft_program("bench --arch lenet --train full --device cpu --threads 2 --rounds 4 --batch 4 --json --profile " + trace + " --profile-nodes 2");
    REQUIRE_MESSAGE(d.code == 0, d.err);
    CHECK(events_of(trace, "run") == 4);
    auto read = graft::parse_json(d.out, "bench");
    REQUIRE(read.ok());
    CHECK(read->find("latency_ms")->items.size() == 4);
    const graft::json* profile = read->find("profile");
    REQUIRE(profile);
    CHECK(profile->find("runs")->integer == 2);
    CHECK(profile->find("nodes")->items.size() == 2);
    for (const char* op : {"Conv", "ConvGradWeight", "MatMulGradWeight", "SGD"}) CHECK_MESSAGE(row_of(*profile->find("operators"), op), op);
    const done table = graft_program("bench --arch lenet --train full --device cpu --rounds 1 -q --profile " + trace);
    CHECK(table.code == 0);
    CHECK(contains(table.out, "whole run"));
    const done nowhere = graft_program("bench --arch lenet --train full --device cpu --profile '" + folder.path + "/no such folder/trace.json'");
    CHECK(nowhere.refused("file.write"));
    CHECK(graft_program("bench --arch lenet --train full --device cpu --replicas 2 --profile " + trace).refused("usage"));
}

TEST_CASE("a trace that cannot be written is told before anything is loaded, and wrong usage by name") {
    const made_folder folder;
    const std::string nowhere = folder.path + "/no such folder/trace.json";
    const std::string run = "run " + model + " --device cpu -i input=" + put_input(folder) + " -o " + folder.path + "/out";
    for (const std::string& verb : {"bench " + model + " --device cpu", run, std::string("bench no_such_model.onnx --device cpu")}) {
        const done d = graft_program(verb + " --profile '" + nowhere + "'");
        CHECK(d.code == 1);
        CHECK(d.refused("file.write"));
        CHECK(d.out.empty());
    }
    CHECK(file_contents(folder.path + "/out/logits.npy").empty());
    const std::string trace = folder.path + "/trace.json";
    for (const std::string& wrong :
         {"bench " + model + " --profile-nodes 3", "bench " + model + " --profile " + trace + " --profile-nodes 0", run + " --profile-nodes 3"})
        CHECK(graft_program(wrong).code == 2);
    const done several = graft_program("bench " + model + " --device cpu --replicas 2 --profile " + trace);
    CHECK(several.code == 2);
    CHECK(several.refused("usage"));
}
#endif
