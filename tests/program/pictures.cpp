// The verbs classify and explain on files and folders: tables, CSV, sorting, maps.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <graft/data/decode.hpp>
#include <graft/graph/builder.hpp>
#include <graft/io/onnx_write.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <unistd.h>

namespace {

using program_test::done;
using program_test::graft_program;

const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/", model = demo + "model.onnx";

std::string demo_picture(const std::string& name) { return file_contents(demo + "pictures/" + name + ".png"); }

// Files below a folder, with their paths in it.
std::vector<std::string> files_in(const std::string& folder) {
    std::vector<std::string> found;
    std::error_code ignored;
    for (const auto& e : std::filesystem::recursive_directory_iterator(folder, ignored))
        if (e.is_regular_file()) found.push_back(e.path().string().substr(folder.size() + 1));
    std::sort(found.begin(), found.end());
    return found;
}

int lines_of(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// A network of pictures [batch, 3, 8, 8] that is written to a file.
std::string written(const made_folder& folder, bool dense, std::int64_t batch = -1) {
    graft::builder b;
    const graft::value_id x = b.input("x", graft::dtype::float32, {batch < 0 ? graft::dimension("N") : graft::dimension(batch), 3, 8, 8});
    graft::conv2d_options conv;
    conv.kernel = 3;
    b.output(dense ? b.linear(b.relu(b.linear(b.flatten(x), 6)), 4) : b.linear(b.flatten(b.global_average_pool(b.relu(b.conv2d(x, 5, conv)))), 4), "y");
    const std::string path = folder.path + (dense ? "/dense.onnx" : "/convolutional.onnx");
    REQUIRE(graft::write_onnx_file(b.finish(), path).ok());
    return path;
}

}  // namespace

TEST_CASE("classify takes folders, names each picture by its whole path, and goes on past those that fail") {
    const made_folder folder;
    const std::string deep = std::string(60, 'd') + "/" + std::string(60, 'e') + "/";
    folder.put(deep + "boat.png", demo_picture("boat-1"));
    folder.put("a/fish.png", demo_picture("fish-1"));
    folder.put("a/broken.jpg", "no picture");
    folder.put("notes.txt", "hello");
    const done d = graft_program("classify " + model + " " + folder.path + " " + folder.make("a/empty") + " --json --threads 2");
    CHECK(d.code == 1);
    CHECK(d.refused("image.open"));
    CHECK(contains(d.err, "1 file that is no picture was passed over"));
    const std::size_t fish = d.out.find("/a/fish.png\""), boat = d.out.find("/boat.png\""), broken = d.out.find("/a/broken.jpg\"");
    REQUIRE(boat != std::string::npos);
    CHECK(broken < fish);
    CHECK(fish < boat);
    CHECK(contains(d.out, "/a/broken.jpg\",\"error\":{\"code\":\"image.unsupported\""));
    CHECK(contains(d.out, "/a/empty\",\"error\":{\"code\":\"image.open\",\"detail\":\"there is no picture in this folder or below it\""));
    CHECK(!contains(d.out, "unsure"));
    // Nothing is cut where nobody looks.
    CHECK(contains(graft_program("classify " + model + " " + folder.path).out, folder.path + "/" + deep + "boat.png"));
    CHECK(contains(graft_program("classify " + model + " " + folder.path + " --color always --preview 0", "COLUMNS=40 ").out,
                   folder.path + "/" + deep + "boat.png"));
}

TEST_CASE("classify writes CSV, which reads as a dataset does") {
    const made_folder folder;
    folder.put("in/with, comma.png", demo_picture("boat-1"));
    folder.put("in/with \"quotes\".png", demo_picture("fish-1"));
    folder.put("in/two\nlines.png", demo_picture("fish-2"));
    const std::string here = "cd " + folder.path + " && ";
    const done printed = graft_program("classify " + model + " in --top 2 --csv", here);
    REQUIRE(printed.code == 0);
    CHECK(printed.out.rfind("path,label,probability,label_2,probability_2,error\n\"in/two\nlines.png\",fish,0.97", 0) == 0);
    CHECK(contains(printed.out, "\n\"in/with \"\"quotes\"\".png\",fish,0.97"));
    CHECK(contains(printed.out, "\n\"in/with, comma.png\",boat,0.98"));
    CHECK(lines_of(printed.out) == 5);

    const done named = graft_program("classify " + model + " in --top 2 --csv all.csv --json", here);
    CHECK(contains(named.out, "\"results\":["));
    CHECK(file_contents(folder.path + "/all.csv") == printed.out);
    const done checked = graft_program("check all.csv --json", here);
    CHECK(checked.code == 0);
    CHECK(contains(checked.out, "\"images\":3,\"readable\":3,\"classes\":[\"boat\",\"fish\"]"));

    folder.put("in/bad.png", "no, picture");
    const done failed = graft_program("classify " + model + " in --top 1 --unsure 0.975 --csv", here);
    CHECK(failed.code == 1);
    CHECK(failed.out.rfind("path,label,probability,unsure,error\nin/bad.png,,,,\"image.unsupported: ", 0) == 0);
    CHECK(contains(failed.out, ",true,\n"));
    CHECK(contains(failed.out, ",false,\n"));

    // What follows --csv may be meant as a picture.
    const std::string before = file_contents(folder.path + "/in/with, comma.png");
    CHECK(graft_program("classify " + model + " --csv 'in/with, comma.png' 'in/bad.png'", here).refused("usage"));
    CHECK(file_contents(folder.path + "/in/with, comma.png") == before);
    CHECK(graft_program("classify " + model + " in --csv --json", here).refused("usage"));
}

TEST_CASE("classify sorts copies into folders, whatever the labels are, and overwrites nothing") {
    const made_folder folder;
    for (const char* name : {"boat-1", "fish-1", "flower-1", "house-1", "moon-1", "mountain-1", "sun-1", "tree-1"})
        folder.put(std::string("in/") + name + ".png", demo_picture(name));
    folder.put("in/again/boat-1.png", demo_picture("boat-2"));
    folder.put("in/again/bad.png", "no picture");
    const std::string labels = folder.put("labels.txt", "../up\n\n..\na/b\n.hidden\n" + std::string(300, 'x') + "\nunsure\n100 %\n"),
                      out = folder.path + "/in/sorted";
    const std::string run = "classify " + model + " " + folder.path + "/in --labels " + labels + " --unsure 0.96 --json -q --sort-into " + out;
    const done d = graft_program(run);
    CHECK(d.code == 1);  // the one that is no picture
    const std::vector<std::string> files = files_in(out);
    REQUIRE(files.size() == 9);
    const auto has = [&files](const std::string& name) { return std::find(files.begin(), files.end(), name) != files.end(); };
    std::string all;
    for (const std::string& f : files) all += f + "\n";
    CAPTURE(all);
    CHECK(has("%2E.%2Fup/boat-1.png"));
    CHECK(has("%2E.%2Fup/boat-1-2.png"));
    CHECK(has("%/fish-1.png"));
    CHECK(has("%2E%2E/flower-1.png"));
    CHECK(has("a%2Fb/house-1.png"));
    CHECK(has("unsure/moon-1.png"));
    CHECK(has("unsure/mountain-1.png"));
    CHECK(has("%75nsure/sun-1.png"));
    CHECK(has("100 %25/tree-1.png"));
    CHECK(file_contents(out + "/%2E.%2Fup/boat-1-2.png") == demo_picture("boat-1"));
    CHECK(contains(d.out, "\"unsure\":true,\"sorted\":\"" + out + "/unsure/moon-1.png\""));
    CHECK(contains(d.out, "\"unsure\":false,\"sorted\":\"" + out + "/%/fish-1.png\""));
    // The folder lies within the one that is looked at, and is left out; what is there stays.
    CHECK(graft_program(run).code == 1);
    CHECK(files_in(out).size() == 18);
    CHECK(file_contents(out + "/%/fish-1.png") == demo_picture("fish-1"));
    CHECK(file_contents(out + "/%/fish-1-2.png") == demo_picture("fish-1"));
    // A name that is too long for a folder ends in a number of its own.
    CHECK(graft_program("classify " + model + " " + folder.path + "/in/mountain-1.png --labels " + labels + " --sort-into " + folder.path + "/long").code == 0);
    const std::vector<std::string> cut = files_in(folder.path + "/long");
    REQUIRE(cut.size() == 1);
    CHECK(cut[0].size() == 200 + 15);
    CHECK(cut[0].find("xxx%") != std::string::npos);
}

TEST_CASE("a picture that cannot be copied is an error of its own") {
    const made_folder folder;
    folder.put("sorted", "a file where a folder should be");
    const done d = graft_program("classify " + model + " " + demo + "pictures/boat-1.png --json --sort-into " + folder.path + "/sorted");
    CHECK(d.code == 1);
    CHECK(d.refused("file.write"));
    CHECK(contains(d.out, "\"error\":{\"code\":\"file.write\""));
}

TEST_CASE("explain draws where the network looks, for each picture and class") {
    const made_folder folder;
    folder.put("in/a/fish.png", demo_picture("fish-1"));
    folder.put("in/fish.png", demo_picture("fish-2"));
    folder.put("in/bad.png", "no picture");
    const std::string out = folder.path + "/in/maps", run = "explain " + model + " " + folder.path + "/in --json -q --out " + out;
    const done d = graft_program(run);
    CHECK(d.code == 1);
    CHECK(d.refused("image.unsupported"));
    CHECK(contains(d.out,
                   "{\"image\":\"" + folder.path + "/in/a/fish.png\",\"file\":\"" + out + "/fish.png\",\"index\":1,\"label\":\"fish\",\"probability\":0.97"));
    CHECK(contains(d.out, "/in/bad.png\",\"error\":{\"code\":\"image.unsupported\""));
    CHECK(contains(d.out, out + "/fish-2.png\""));
    const graft::image map = graft::decode_file(out + "/fish.png").value();
    CHECK(map.width == 256);        // 64 pixels, four times as large
    CHECK(map.height == 256 + 21);  // and a line of text
    // Warm colours somewhere, gray somewhere else.
    int warm = 0, cold = 0;
    for (std::int64_t i = 0; i < 256 * 256 * 3; i += 3) {
        const int r = map.data()[i], g = map.data()[i + 1], b = map.data()[i + 2];
        warm += r > b + 60;
        cold += r < b + 10 && g < b + 10;
    }
    CHECK(warm > 1000);
    CHECK(cold > 1000);
    // Nothing is overwritten, and maps are not mapped.
    CHECK(graft_program(run).code == 1);
    CHECK(files_in(out).size() == 4);

    const std::string one = "explain " + model + " " + folder.path + "/in/fish.png --json --out " + folder.path + "/more";
    const done top = graft_program(one + " --top 2");
    CHECK(contains(top.out, "/more/fish.fish.png\",\"index\":1"));
    CHECK(contains(top.out, "/more/fish.tree.png\",\"index\":7"));
    CHECK(contains(graft_program(one + " --label moon").out, "\"label\":\"moon\""));
    CHECK(contains(graft_program(one + " --label 4").out, "\"label\":\"moon\""));
    CHECK(graft_program("explain " + model + " " + folder.path + "/in/fish.png --out " + folder.path + "/more").has("fish   97.8"));
    const done wrong = graft_program(one + " --label boot");
    CHECK(wrong.code == 2);
    CHECK(contains(wrong.last(), "\"boot\" is none of the model's classes: boat, fish"));
    CHECK(graft_program(one + " --label 8").code == 2);
    CHECK(graft_program(one + " --label moon --top 2").code == 2);
    CHECK(graft_program(one + " --device cuda").refused("usage"));
    CHECK(graft_program("explain " + model + " x.png").code == 2);
}

TEST_CASE("explain says why a network cannot be explained, before any picture is read") {
    const made_folder folder;
    const std::string picture_and_out = " nothing.png --preprocess unit,resize=8x8,crop=none --out " + folder.path + "/maps";
    CHECK(graft_program("explain " + written(folder, false) + " " + demo + "pictures/boat-1.png --preprocess unit,resize=8x8,crop=none --out " + folder.path +
                        "/maps")
              .code == 0);
    CHECK(graft_program("explain " + written(folder, true) + picture_and_out).refused("explain.features"));
    // Batches that are fixed are opened, so that the first thing to miss is the picture.
    CHECK(graft_program("explain " + written(folder, false, 4) + picture_and_out).refused("image.open"));
    CHECK(graft_program("explain " + written(folder, false, 1) + picture_and_out).refused("image.open"));
}
#endif
