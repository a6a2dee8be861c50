// Folders of runs: what is a run's, what is refused, what is replaced, and which name is free.
#include "../data/made_dataset.hpp"
#include "../file_contents.hpp"

#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <filesystem>

TEST_CASE("A folder holds a run where it has a file that a run writes, and others are no hindrance") {
    const made_folder folder;
    const std::string out = folder.path + "/run";
    CHECK(graft::run_files(out)->empty());
    CHECK(graft::check_out(out, false, false).ok());
    for (const char* foreign : {"notes.txt", "model.onnx.bak", "events.out.tfevents.1700000000.machine.12.0", "events.out.tfevents.1700000000.graft.v2",
                                "events.out.tfevents.graft", "checkpoint.pt", "my-report.html"})
        folder.put("run/" + std::string(foreign), "kept");
    std::filesystem::create_directory(out + "/metrics.jsonl");  // a folder is nobody's log
    CHECK(graft::run_files(out)->empty());
    CHECK(graft::check_out(out, false, false).ok());
    for (const char* own : {"model.onnx", "metrics.jsonl", "checkpoint.safetensors", "checkpoint.previous.safetensors", "report.html", "run.json",
                            "predictions.csv", "fixes.csv", "events.out.tfevents.1700000000.graft", "events.out.tfevents.1700000000.graft.001"}) {
        CAPTURE(own);
        const made_folder one;
        one.put(own, "made");
        CHECK(graft::run_files(one.path).value() == std::vector<std::string>{own});
        CHECK(code_of(graft::check_out(one.path, false, false)) == "train.out_in_use");
        CHECK(graft::check_out(one.path, false, true).ok());
        // A model is written behind the first checkpoint: alone it is of a run that is over.
        CHECK(graft::check_out(one.path, true, false).ok() == (std::string(own) != "model.onnx" && std::string(own) != "report.html"));
        CHECK(code_of(graft::check_out(one.path, true, true)) == "usage");
    }
}

TEST_CASE("What a run left that ended before its first checkpoint is no hindrance to the next") {
    const made_folder folder;
    folder.put("metrics.jsonl", "");
    folder.put("events.out.tfevents.1700000000.graft", "a head alone");
    CHECK(graft::check_out(folder.path, false, false).ok());
    CHECK(graft::check_out(folder.path, true, false).ok());
    folder.put("metrics.jsonl", "{}\n");
    CHECK(code_of(graft::check_out(folder.path, false, false)) == "train.out_in_use");
    folder.put("metrics.jsonl", "");
    folder.put("checkpoint.safetensors", "");
    CHECK(code_of(graft::check_out(folder.path, false, false)) == "train.out_in_use");
}

TEST_CASE("What is refused names what is there, what to type, and a folder that is free") {
    const made_folder folder;
    folder.put("run/model.onnx", "made");
    folder.put("run/checkpoint.safetensors", "made");
    folder.put("run-2/anything", "");
    const std::string run = folder.path + "/run";
    const auto says = [&](const std::string& out, bool resume, const std::string& text) {
        const graft::status refused = graft::check_out(out, resume, false);
        REQUIRE(!refused.ok());
        CAPTURE(refused.error().what());
        CHECK(refused.error().where() == out);
        CHECK(contains(refused.error().detail(), text));
    };
    says(run, false,
         "it holds a run (checkpoint.safetensors, model.onnx): --resume goes on with it, --overwrite replaces it, --out " + run + "-3 begins beside it");
    says(run + "/", false, "--out " + run + "-3 begins");
    folder.put("run-3/model.onnx", "made");
    says(run + "-3", true, "there is no checkpoint to --resume from, --overwrite replaces it, --out " + run + "-4 begins");
    folder.put("2026-11/model.onnx", "made");
    says(folder.path + "/2026-11", false, "--out " + folder.path + "/2026-12 begins");
    says(run + "/.", false, "--out " + run + "/./run-2 begins");
}
