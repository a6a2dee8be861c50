// The verb start from outside: the steps it shows, the command they end with, and what it leaves out.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <graft/graft.hpp>

#include <doctest/doctest.h>

namespace {

using program_test::done;
using program_test::graft_program;

const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/";

// A folder of networks: the demo's, one whose weights are of no use, one that is no classifier of pictures, and a file that is no network.
void put_networks(const made_folder& folder) {
    graft::model trained = graft::load(demo + "model.onnx");
    folder.put("networks/trained.onnx", file_contents(demo + "model.onnx"));
    graft::graph spoilt = trained.graph();
    for (graft::value& v : spoilt.values)
        if (v.constant && v.type == graft::dtype::float32 && v.extents.rank() == 4) v.constant = graft::tensor(graft::tensor::zeros(v.type, v.extents));
    std::vector<std::uint8_t> bytes;
    REQUIRE(graft::write_onnx(spoilt, bytes).ok());
    folder.put("networks/spoilt.onnx", std::string(bytes.begin(), bytes.end()));
    folder.put("networks/broken.onnx", "no network");
    folder.put("networks/notes.txt", "not looked at");
}

// The last command that was shown, behind the program's name.
std::string last_command(const std::string& text) {
    const std::string before = "$ graft ";
    const std::size_t at = text.rfind(before), from = at + before.size();
    return at == std::string::npos ? "" : text.substr(from, text.find('\n', from) - from);
}

}  // namespace

TEST_CASE("start chooses of a folder the network that tells the classes apart, and shows the command that makes the same model") {
    const made_folder folder;
    put_networks(folder);
    const std::string out = folder.path + "/run";
    const done d = graft_program("start " + demo + "new_pictures --from " + folder.path + "/networks --epochs 2 --minutes 0.02 --threads 2 --out " + out);
    CAPTURE(d.out);
    CAPTURE(d.err);
    REQUIRE(d.code == 0);
    CHECK(contains(d.out, "$ graft check " + demo + "new_pictures\n120 pictures of 4 classes, 120 can be read; nothing is wrong\n"));
    CHECK(d.out.find("trained.onnx") < d.out.find("spoilt.onnx"));
    CHECK(contains(d.err, "broken.onnx is left out: "));
    CHECK_FALSE(contains(d.out + d.err, "notes.txt"));
    CHECK(contains(d.out, "the defaults"));
    const std::string command = last_command(d.out);
    CHECK(contains(command, "finetune " + demo + "new_pictures --from " + folder.path + "/networks/trained.onnx --out " + out));
    REQUIRE(file_contents(out + "/model.onnx").size() > 0);
    CHECK(file_contents(out + "/report.html").size() > 0);
    std::string again = command;
    again.replace(again.find(out), out.size(), out + "2");
    REQUIRE(graft_program(again + " -q").code == 0);
    CHECK(file_contents(out + "2/model.onnx") == file_contents(out + "/model.onnx"));
    // Its own run is not written over, and that is said before anything takes time.
    CHECK(graft_program("start " + demo + "new_pictures --from " + demo + "model.onnx --out " + out).refused("train.out_in_use"));
}

TEST_CASE("start without a network trains one from random weights, with the keys of finetune in its JSON") {
    const made_folder folder;
    const done d = graft_program("start " + demo + "new_pictures --epochs 1 --minutes 0 --json -q --threads 2 --out " + folder.path + "/run");
    CAPTURE(d.err);
    REQUIRE(d.code == 0);
    CHECK(d.err.empty());
    CHECK(d.out[0] == '{');
    for (const char* key : {"best_top1", "epochs", "images_per_s", "peak_rss_mb", "device"}) CHECK(contains(d.out, "\"" + std::string(key) + "\":"));
    CHECK(d.number("epochs") == 1);
    CHECK(contains(file_contents(folder.path + "/run/report.html"), "--arch mobilenet_v2"));
}

TEST_CASE("start says what is missing: pictures, networks, a network that can learn") {
    const made_folder folder;
    const std::string out = " --out " + folder.path + "/run", pictures = demo + "new_pictures";
    CHECK(graft_program("start " + folder.path + "/none" + out).refused("data.open"));
    CHECK(graft_program("start " + pictures + " --from " + folder.path + "/none" + out).refused("file.open"));
    CHECK(graft_program("start " + pictures + " --from " + demo + "new_pictures" + out).refused("file.open"));
    folder.put("networks/broken.onnx", "no network");
    CHECK(graft_program("start " + pictures + " --from " + folder.path + "/networks" + out).refused("model.malformed"));
    folder.put("networks/empty.onnx", "");
    CHECK(graft_program("start " + pictures + " --from " + folder.path + "/networks" + out).refused("train.head"));
    CHECK(graft_program("start " + pictures).code == 2);
    CHECK(!std::filesystem::exists(folder.path + "/run"));
}
#endif
