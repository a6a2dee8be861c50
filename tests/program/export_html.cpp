// graft export --html from outside: where it finds the page, what it puts into it, and what it refuses.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <graft/data/inflate.hpp>
#include <graft/graft.hpp>
#include <graft/train/base64.hpp>

#include <doctest/doctest.h>

namespace {

using program_test::done;

constexpr const char* empty_page = "<p>before</p><script type=\"application/octet-stream\" id=\"model\" data-name=\"\"></script><p>behind</p>";
const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/";

done export_page(const std::string& arguments) { return program_test::graft_program("export " + arguments); }

// The bytes of the model in a page.
std::string model_in(const std::string& page) {
    const std::size_t element = page.find("id=\"model\""), from = page.find('>', element) + 1, to = page.find("</script>", from);
    std::string packed, bytes;
    REQUIRE(graft::base64_decode(page.substr(from, to - from), packed));
    const auto add = [](void* to_bytes, const std::uint8_t* some, std::size_t n) {
        static_cast<std::string*>(to_bytes)->append(reinterpret_cast<const char*>(some), n);
        return true;
    };
    graft::detail::inflater stream(reinterpret_cast<const std::uint8_t*>(packed.data()) + 2, packed.size() - 2, add, &bytes);
    REQUIRE(stream.run() == graft::detail::inflate_end::done);
    return bytes;
}

graft::model model_of(const std::string& page) {
    const std::string bytes = model_in(page);
    return graft::load(bytes.data(), bytes.size()).value();
}

}  // namespace

TEST_CASE("export --html puts the model into the page, and it answers there as it does here") {
    const made_folder folder;
    const std::string page = folder.put("page.html", empty_page), out = folder.path + "/out.html";
    const done said = export_page(demo + "model.onnx --html " + out + " --page " + page + " --json");
    INFO(said.err);
    REQUIRE(said.code == 0);
    const std::string made = file_contents(out);
    CHECK(said.number("bytes") == static_cast<double>(made.size()));
    CHECK(said.has("\"operators\":["));
    CHECK(said.has("\"Conv\""));
    CHECK(made.rfind("<p>before</p>", 0) == 0);
    CHECK(contains(made, "</script><p>behind</p>"));
    CHECK(contains(made, "data-name=\"model.onnx\""));
    graft::classifier here = graft::classifier::load(demo + "model.onnx").value(), there = graft::classifier::make(model_of(made)).value();
    CHECK(there.labels() == here.labels());
    CHECK(there.preprocessing().text == here.preprocessing().text);
    const graft::image picture = graft::decode_file(demo + "pictures/boat-1.png").value();
    CHECK(there.probabilities(picture).value() == here.probabilities(picture).value());
}

TEST_CASE("export --html writes labels and preprocessing of the command line into the model") {
    const made_folder folder;
    const std::string page = folder.put("page.html", empty_page), out = folder.path + "/out.html";
    const std::string labels = folder.put("names.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    const std::string how = " --html " + out + " --page " + page + " --labels " + labels;
    REQUIRE(export_page(demo + "model.onnx --preprocess unit,resize=64x64" + how).code == 0);
    const graft::model model = model_of(file_contents(out));
    CHECK(model.metadata("graft.labels") == "[\"one\",\"two\",\"three\",\"four\",\"five\",\"six\",\"seven\",\"eight\"]");
    CHECK(contains(model.metadata("graft.preprocess"), "resize=64x64"));
    folder.put("names.txt", "one\ntwo\n");
    CHECK(export_page(demo + "model.onnx" + how).refused("labels.count"));
}

TEST_CASE("export --html leaves classes without names nameless when it is told how pictures are prepared") {
    const made_folder folder;
    const std::string page = folder.put("page.html", empty_page), out = folder.path + "/out.html", net = folder.path + "/net.onnx";
    graft::builder b("net", 3);
    b.output(b.linear(b.flatten(b.global_average_pool(b.input("x", graft::dtype::float32, {"N", 3, 8, 8}))), 4), "y");
    REQUIRE(graft::load(b.finish().value())->save(net).ok());
    REQUIRE(export_page(net + " --html " + out + " --page " + page + " --preprocess unit,resize=8x8").code == 0);
    const graft::model model = model_of(file_contents(out));
    CHECK(model.metadata("graft.labels") == "");
    CHECK(contains(model.metadata("graft.preprocess"), "resize=8x8"));
    CHECK(graft::classifier::make(model)->labels().empty());
}

TEST_CASE("export --html finds the page beside the program and where it is installed, and says how it is built where it is not") {
    const made_folder folder;
    const std::string bin = folder.make("bin"), out = folder.path + "/out.html";
    std::filesystem::copy_file(GRAFT_PROGRAM, bin + "/graft");
    const auto run = [&] {
        const std::string command = bin + "/graft export " + demo + "model.onnx --html " + out + " >" + folder.path + "/said 2>&1";
        return std::system(command.c_str()) == 0;
    };
    CHECK(!run());
    CHECK(contains(file_contents(folder.path + "/said"), "graft: error: file.open: graft_page.html: "));
    CHECK(contains(file_contents(folder.path + "/said"), "scripts/page"));
    folder.put("share/graft/graft_page.html", std::string("installed ") + empty_page);
    REQUIRE(run());
    CHECK(file_contents(out).rfind("installed ", 0) == 0);
    folder.put("bin/graft_page.html", std::string("beside ") + empty_page);
    REQUIRE(run());
    CHECK(file_contents(out).rfind("beside ", 0) == 0);
}

TEST_CASE("export --html refuses pages and models that are none, and writes nothing then") {
    const made_folder folder;
    const std::string page = folder.put("page.html", empty_page), out = folder.path + "/out.html";
    CHECK(export_page(demo + "model.onnx --html " + out + " --page " + folder.put("other.html", "<p>another page</p>")).refused("usage"));
    CHECK(export_page(demo + "model.onnx --html " + out + " --page " + folder.path + "/none.html").refused("file.open"));
    CHECK(export_page(folder.path + "/none.onnx --html " + out + " --page " + page).refused("file.open"));
    CHECK(export_page(page + " --html " + out + " --page " + page).code == 1);
    CHECK(!std::filesystem::exists(out));
    CHECK(export_page(demo + "model.onnx --page " + page).code == 2);
}
#endif
