// The verb quantize from outside: the file it writes, its JSON, and what it refuses.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <graft/graft.hpp>
#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace {

using program_test::done;

done quantize(const std::string& arguments) { return program_test::graft_program("quantize " + arguments); }

void save_network(const std::string& path) {
    graft::builder b("net", 3);
    graft::conv2d_options how;
    how.kernel = 3, how.padding = 1, how.name = "first";
    const graft::value_id x = b.relu(b.conv2d(b.input("x", graft::dtype::float32, {"N", 3, 16, 16}), 4, how));
    b.output(b.linear(b.flatten(b.global_average_pool(x)), 2), "y");
    graft::graph g = b.finish().value();
    g.metadata.push_back({"graft.preprocess", "resize=16x16,scale=1/255"});
    REQUIRE(graft::add_golden(g, graft::tensor::from(std::vector<float>(3 * 16 * 16, 0.3f).data(), {1, 3, 16, 16}).value(), 1).ok());
    REQUIRE(graft::load(std::move(g))->save(path).ok());
}

}  // namespace

TEST_CASE("quantize writes a network of integers that graft reads, with its metadata") {
    made_folder folder;
    for (int i = 0; i < 4; ++i)
        for (const char* name : {"a", "b"}) folder.put(std::string("data/") + name + "/" + std::to_string(i) + ".pgm", picture(2 * i + (name[0] == 'a')));
    const std::string net = folder.path + "/net.onnx", out = folder.path + "/int8.onnx", data = folder.path + "/data";
    save_network(net);
    const done said = quantize(net + " " + data + " --out " + out + " --json -q --samples 1000000000 --max-drop 100 --preprocess resize=16,crop=16");
    INFO(said.err);
    REQUIRE(said.code == 0);
    CHECK(said.number("samples") == 8);
    CHECK(said.number("images") == 8);
    CHECK(said.has("\"labelled\":false"));
    CHECK(said.number("quantized_activations") >= 3);
    auto made = graft::load(out);
    REQUIRE(made.ok());
    CHECK(made->metadata("graft.preprocess") == "resize=16x16,scale=1/255");
    // The picture of the golden sample stays, and its answer is the new network's.
    const auto golden = [](const graft::model& m) { return graft::decode_golden(m.metadata(graft::golden_key), "golden").value(); };
    const graft::golden_sample before = golden(graft::load(net).value()), after = golden(*made);
    CHECK(std::memcmp(before.input.raw(), after.input.raw(), before.input.bytes()) == 0);
    CHECK(!graft::check_golden(*made, before, 1).ok());
    CHECK(graft::check_golden(*made, after, 1).ok());
    graft::golden_sample elsewhere = after;
    elsewhere.output_name = "elsewhere";
    CHECK(graft::check_golden(*made, elsewhere, 1).error().code() == graft::errc::input_name);
    CHECK(before.tolerance == 1e-4);
    CHECK(after.tolerance == 0.2);
    CHECK(quantize(out + " " + data + " --out " + folder.path + "/twice.onnx -q --preprocess resize=16,crop=16").refused("quantize.nothing"));
    const done kept = quantize(net + " " + data + " --out " + out + " --keep frist -q --preprocess resize=16,crop=16");
    CHECK(kept.refused("input.name"));
    CHECK(contains(kept.err, "did you mean first?"));
}

TEST_CASE("quantize takes a network of half precision as the float32 one that it stands for") {
    made_folder folder;
    for (int i = 0; i < 8; ++i) folder.put("data/" + std::to_string(i) + ".pgm", picture(i));
    graft::builder b("half", 3);
    graft::conv2d_options how;
    how.kernel = 3, how.padding = 1;
    const graft::value_id x = b.relu(b.conv2d(b.input("x", graft::dtype::float32, {"N", 3, 16, 16}), 4, how));
    b.output(b.apply("Cast", {b.linear(b.flatten(b.global_average_pool(x)), 2)}, {graft::integer_attribute("to", 10)}), "y");
    const std::string net = folder.path + "/half.onnx", out = folder.path + "/int8.onnx";
    REQUIRE(graft::load(b.finish().value())->save(net).ok());
    const done said = quantize(net + " " + folder.path + "/data --out " + out + " --max-drop 100 --preprocess resize=16,crop=16");
    INFO(said.err);
    REQUIRE(said.code == 0);
    CHECK(contains(said.err, "is of float16"));
    auto made = graft::load(out);
    REQUIRE(made.ok());
    CHECK(made->outputs()[0].type == graft::dtype::float32);
}

TEST_CASE("quantize says what is measured where pictures have no labels, or labels that the model does not know") {
    made_folder folder;
    for (int i = 0; i < 40; ++i) folder.put("loose/" + std::to_string(i) + ".pgm", picture(i));
    folder.put("loose/broken.pgm", "P5 16 16 255\n");
    for (const char* name : {"0", "1", "cat"})
        for (int i = 0; i < 4; ++i) folder.put(std::string("named/") + name + "/" + std::to_string(i) + ".pgm", picture(i));
    const std::string net = folder.path + "/net.onnx", how = " --out " + folder.path + "/o.onnx --json --max-drop 100 --preprocess resize=16,crop=16";
    save_network(net);
    const done loose = quantize(net + " " + folder.path + "/loose" + how);
    INFO(loose.err);
    REQUIRE(loose.code == 0);
    CHECK(loose.number("images") == 40);
    CHECK(loose.has("\"labelled\":false"));
    CHECK(contains(loose.err, "its pictures have no labels"));
    CHECK(contains(loose.err, "broken.pgm: left out: "));
    const done named = quantize(net + " " + folder.path + "/named" + how);
    CHECK(named.has("\"labelled\":false"));
    CHECK(contains(named.err, "its class \"cat\" is none of the model's"));
    CHECK(contains(named.err, "--labels"));
}

TEST_CASE("quantize refuses a folder without pictures, and no pictures to take ranges from") {
    made_folder folder;
    const std::string net = folder.path + "/net.onnx";
    save_network(net);
    folder.put("empty/readme.txt", "nothing");
    const done none = quantize(net + " " + folder.path + "/empty --out " + folder.path + "/o.onnx --preprocess resize=16,crop=16");
    CHECK(none.code == 1);
    CHECK(quantize(net + " " + folder.path + " --out " + folder.path + "/o.onnx --samples 0").code == 2);
}
#endif
