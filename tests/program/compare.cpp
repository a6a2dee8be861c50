// The verb compare from outside: whole runs, half ones, and what is none.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <doctest/doctest.h>

namespace {

using program_test::done;
using program_test::graft_program;

std::string log_line(int epoch, const char* split, double loss, double top1) {
    char text[200];
    std::snprintf(text, sizeof text, "{\"step\":%d,\"epoch\":%d,\"split\":\"%s\",\"loss\":%g,\"top1\":%g,\"lr\":0.01}\n", epoch * 4, epoch, split, loss, top1);
    return text;
}

// A run of two epochs that ends at this accuracy.
void put_run(const made_folder& folder, const std::string& name, double top1, const std::string& batch, const std::string& answers) {
    folder.put(name + "/metrics.jsonl",
               log_line(1, "train", 1, 0.4) + log_line(1, "val", 1.1, top1 / 2) + log_line(2, "train", 0.5, 0.8) + log_line(2, "val", 0.6, top1));
    char record[600];
    std::snprintf(
        record, sizeof record,
        "{\"graft\":\"1\",\"command\":\"c\",\"network\":\"n.onnx\",\"data\":\"%s/"
        "data\",\"classes\":[\"a\",\"<b>\"],\"training_images\":8,\"validation_images\":4,"
        "\"best_top1\":%g,\"best_loss\":0.6,\"best_epoch\":2,\"epochs\":2,\"seconds\":75,\"images_per_s\":12.5,\"peak_rss_mb\":90,\"device\":\"cpu, avx2\","
        "\"settings\":{\"batch\":\"%s\",\"seed\":\"0\"}}\n",
        folder.path.c_str(), top1, batch.c_str());
    folder.put(name + "/run.json", record);
    folder.put(name + "/predictions.csv", "path,label,predicted,probability,loss\n" + answers);
}

const char* const first_answers = "1.pgm,a,a,0.9,0.1\n2.pgm,a,<b>,0.8,1.6\n3.pgm,<b>,<b>,0.7,0.3\n4.pgm,<b>,<b>,0.6,0.5\n";
const char* const second_answers = "1.pgm,a,a,0.9,0.1\n2.pgm,a,a,0.8,0.2\n3.pgm,<b>,a,0.7,1.2\n4.pgm,<b>,<b>,0.6,0.5\n5.pgm,a,a,1,0\n";

}  // namespace

TEST_CASE("compare tells what differs between runs: figures, settings, classes, and pictures that changed sides") {
    made_folder folder;
    put_run(folder, "one", 0.75, "16", first_answers);
    put_run(folder, "two", 0.5, "32", second_answers);
    for (int i = 1; i < 5; ++i) folder.put("data/" + std::to_string(i) + ".pgm", picture(40 * i));
    const std::string runs = folder.path + "/one " + folder.path + "/two/", page = folder.path + "/compare.html";
    const done json = graft_program("compare " + runs + " --json --out " + page);
    REQUIRE(json.code == 0);
    CHECK(json.err.empty());
    CHECK(json.has(
        "\"finished\":true,\"best_top1\":0.75,\"best_epoch\":2,\"best_loss\":0.6,\"epochs\":2,\"seconds\":75.0,\"images_per_s\":12.5,\"peak_rss_mb\":90.0,"
        "\"device\":\"cpu, avx2\",\"notes\":[]"));
    CHECK(json.has("\"settings\":[{\"setting\":\"batch\",\"values\":[\"16\",\"32\"]}]"));
    CHECK(json.has("{\"class\":\"<b>\",\"pictures\":2,\"found\":[2,1]},{\"class\":\"a\",\"pictures\":2,\"found\":[1,2]}"));
    CHECK(json.has("\"shared\":4,\"was\":3,\"now\":3,\"won\":[\"2.pgm\"],\"lost\":[\"3.pgm\"]"));
    CHECK(json.has("{\"class\":\"a\",\"taken_for\":\"<b>\",\"was\":1,\"now\":0}"));
    const done text = graft_program("compare " + runs);
    CHECK(text.code == 0);
    for (const char* part :
         {"75.0 %", "50.0 %", "1:15", "12", "90 MB", "batch", "two beside one: of 4 validation pictures that both have 3 are right, and 3 were: 1 won, 1 lost"})
        CHECK_MESSAGE(text.has(part), part);
    const std::string html = file_contents(page);
    for (const char* part :
         {"Settings that differ", "Class by class", "Right now (1)", "Wrong now (1)", "data:image/png;base64,", "&lt;b&gt;", "two beside one", "+50.0"})
        CHECK_MESSAGE(contains(html, part), part);
    CHECK(!contains(html, "<b><b>"));
    CHECK(!contains(html, "https:"));
    CHECK(graft_program("compare " + runs + " --out " + folder.path + "/nowhere/x.html").refused("file.write"));
}

TEST_CASE("compare goes on past what is missing, half-written or made up, and says so") {
    made_folder folder;
    put_run(folder, "whole", 0.75, "16", first_answers);
    folder.put("going/metrics.jsonl", log_line(1, "train", 1, 0.4) + log_line(1, "val", 1.1, 0.5) + "{\"step\":8,\"epo");
    put_run(folder, "lost", 0.5, "16", first_answers);
    folder.put("lost/run.json", "{\"graft\":");
    put_run(folder, "odd", 0.5, "16", "1.pgm,a\n");
    folder.put("odd/run.json", "{\"classes\":7,\"settings\":[1,{}],\"best_top1\":\"x\",\"epochs\":1e300,\"device\":[],\"best_epoch\":-5}");
    folder.put("deep/run.json", std::string(200000, '['));
    folder.make("empty");
    const std::string all = folder.path + "/whole " + folder.path + "/going " + folder.path + "/lost " + folder.path + "/odd " + folder.path + "/deep " +
                            folder.path + "/empty " + folder.path + "/absent";
    const done json = graft_program("compare " + all + " --json --out " + folder.path + "/c.html");
    REQUIRE(json.code == 0);
    for (const char* note : {"going: metrics.jsonl ends within a line", "going: no run.json", "lost: run.json cannot be read", "odd: no predictions.csv",
                             "empty: no metrics.jsonl", "absent: there is no such folder"})
        CHECK_MESSAGE(contains(json.err, note), note);
    CHECK(json.has("\"finished\":false,\"best_top1\":0.5,\"best_epoch\":1,\"best_loss\":1.1,\"epochs\":1,\"seconds\":null"));
    CHECK(contains(file_contents(folder.path + "/c.html"), "there is no such folder"));
    CHECK(graft_program("compare " + all).has("1 so far"));
    const done none = graft_program("compare " + folder.path + "/empty " + folder.path + "/absent");
    CHECK(none.code == 1);
    CHECK(none.refused("file.open"));
    CHECK(graft_program("compare").code == 2);
}

TEST_CASE("compare lays the curves of many runs over each other, and names runs of one name by their folders") {
    made_folder folder;
    std::string all;
    for (int i = 0; i < 11; ++i) {
        const std::string name = std::to_string(i) + "/run";
        put_run(folder, name, 0.5 + 0.01 * i, "16", first_answers);
        all += " " + folder.path + "/" + name;
    }
    const done told = graft_program("compare" + all + " --out " + folder.path + "/c.html --json");
    REQUIRE(told.code == 0);
    const std::string html = file_contents(folder.path + "/c.html");
    CHECK(contains(html, "Curves of the first 8 runs."));
    CHECK(contains(html, "/10/run"));
    CHECK(contains(html, "class=\"line c8\""));
    CHECK(contains(html, "None of those that are recorded."));
}
#endif
