// What scripts/demo does: the demo's network learns the demo's new pictures, and names those that it has not seen.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <graft/graft.hpp>

#include <doctest/doctest.h>

namespace {

const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/";

// The options that scripts/demo gives to finetune behind --out.
std::string options_of_the_script() {
    const std::string text = file_contents(GRAFT_SOURCE_DIR "/scripts/demo"), before = "learning=\"";
    const std::size_t at = text.find(before);
    if (at == std::string::npos) return "";
    return text.substr(at + before.size(), text.find('"', at + before.size()) - at - before.size());
}

}  // namespace

TEST_CASE("the demo's network learns new pictures and names those that it has not seen") {
    const std::string options = options_of_the_script();
    REQUIRE(options.find("--epochs") != std::string::npos);
    const made_folder folder;
    const std::string out = folder.path + "/learnt";
    const std::string command = "finetune " + demo + "new_pictures --from " + demo + "model.onnx --out " + out + " " + options;
    const program_test::done learnt = program_test::graft_program(command + " -q --threads 2");
    CAPTURE(learnt.err);
    REQUIRE(learnt.code == 0);
    CHECK(file_contents(out + "/report.html").find("umbrella") != std::string::npos);

    auto loaded = graft::classifier::load(out + "/model.onnx");
    REQUIRE(loaded.ok());
    graft::classifier named = std::move(loaded).value();
    CHECK(named.labels() == std::vector<std::string>{"balloon", "butterfly", "mushroom", "umbrella"});
    int right = 0;
    for (const std::string& name : named.labels())
        for (const char* number : {"-1.png", "-2.png", "-3.png"}) {
            const auto top = named.classify(demo + "unseen_pictures/" + name + number, 1);
            REQUIRE(top.ok());
            right += top.value()[0].label == name;
        }
    CHECK(right >= 10);  // of twelve; which ones are hard differs between instruction sets
}
#endif
