// evaluate, classify, run, info and bench of a network in stages: the same bytes, what is told of the stages, and wrong usage.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <doctest/doctest.h>
#include <graft/graft.hpp>

namespace {

using program_test::done;
using program_test::graft_program;
using program_test::timeless;

const std::string model = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", pictures = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/";

}  // namespace

TEST_CASE("evaluate and classify in stages of the CPU print what one place prints") {
    const made_folder folder;
    for (const char* label : {"boat", "fish", "sun"})
        for (int i = 0; i < 4; ++i)
            folder.put(std::string(label) + "/" + std::to_string(i) + ".png",
                       file_contents(pictures + label + (i % 2 ? "-2.png" : "-1.png")) + std::string(static_cast<std::size_t>(i), ' '));
    for (const std::string& run : {"evaluate " + model + " " + folder.path + " --json --batch 5", "classify " + model + " " + pictures + " --json"}) {
        const done one = graft_program(run + " --device cpu");
        REQUIRE(one.code == 0);
        for (const char* how : {" --stages 2", " --stages 3 --parts 1", " --stages 2 --parts 4 --threads 3", " --stages 2 --memory-limit 8M"}) {
            CAPTURE(how);
            const done several = graft_program(run + " --device cpu" + how);
            CHECK(several.code == 0);
            CHECK(timeless(several) == timeless(one));
        }
    }
}

TEST_CASE("run in stages writes the bytes of one place") {
    const made_folder folder;
    graft::tensor in = graft::tensor::make(graft::dtype::float32, {3, 3, 64, 64});
    for (std::int64_t i = 0; i < in.elements(); ++i) in.data<float>()[i] = static_cast<float>(i % 97) / 97;
    graft::must(graft::write_npy(folder.path + "/in.npy", in));
    const std::string run = "run " + model + " --device cpu -i input=" + folder.path + "/in.npy -o " + folder.path;
    REQUIRE(graft_program(run + "/one").code == 0);
    REQUIRE(graft_program(run + "/two --stages 3").code == 0);
    REQUIRE(graft_program(run + "/three --stages 2 --parts 3").code == 0);
    const std::string one = file_contents(folder.path + "/one/logits.npy");
    CHECK(!one.empty());
    CHECK(file_contents(folder.path + "/two/logits.npy") == one);
    CHECK(file_contents(folder.path + "/three/logits.npy") == one);
}

TEST_CASE("info and bench tell of each stage, and what cannot be is refused by name") {
    const done info = graft_program("info " + model + " --device cpu --stages 3 --placement --json");
    REQUIRE(info.code == 0);
    CHECK(info.has("\"stages\":[{\"device\":\"cpu:0\",\"nodes\":"));
    for (const char* name : {"\"device\":\"cpu:0\",\"kernel\":", "\"device\":\"cpu:1\",\"kernel\":", "\"device\":\"cpu:2\",\"kernel\":"}) CHECK(info.has(name));
    const done bench = graft_program("bench " + model + " --device cpu --threads 2 --stages 2 --parts 3 --batch 6 --rounds 4 --json");
    REQUIRE(bench.code == 0);
    CHECK(bench.number("parts") == 3);
    CHECK(bench.number("bubble_formula") == doctest::Approx(0.25));
    CHECK(bench.number("bubble") > 0);
    CHECK(bench.number("bubble") < 1);
    CHECK(bench.has("\"device\":\"cpu:1\",\"nodes\":"));
    const double busy = bench.number("busy_ms");
    CHECK(busy > 0);
    CHECK(graft_program("bench " + model + " --device cpu --stages 2 --rounds 2").has("where all turns take as long"));

    for (const char* verb : {"bench ", "info ", "classify "}) {
        const std::string run = std::string(verb) + model + (verb[0] == 'c' ? " " + pictures : "") + " --device cpu ";
        CHECK(graft_program(run + "--parts 2").refused("usage"));
        CHECK(graft_program(run + "--stages 1").refused("usage"));
        CHECK(graft_program(run + "--stages 60").refused("usage"));
    }
    CHECK(graft_program("bench " + model + " --device cpu --stages 2 --replicas 2").refused("usage"));
    CHECK(graft_program("bench " + model + " --device cpu --stages 2 --memory-limit 10k").refused("memory.budget"));
    const std::string two = "GRAFT_CUDA_PATH=" GRAFT_CUDA_SIMULATOR " GRAFT_CACHE_DIR=" GRAFT_CUDA_SIMULATOR "/cache GRAFT_SIMULATOR_DEVICES=2 ";
    CHECK(graft_program("bench " + model + " --device cpu,cuda:0,1 --stages 2", two).refused("usage"));
    CHECK(graft_program("evaluate " + model + " " + pictures + " --stages 2", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 ").code != 0);
}

TEST_CASE("classify in stages on the CPU and a simulated GPU names what the CPU names") {
    const std::string two = "GRAFT_CUDA_PATH=" GRAFT_CUDA_SIMULATOR " GRAFT_CACHE_DIR=" GRAFT_CUDA_SIMULATOR "/cache GRAFT_SIMULATOR_DEVICES=2 ";
    const auto labels = [](const done& d) {
        std::string all;
        for (std::size_t at = 0; (at = d.out.find("\"top\":[{\"index\":", at)) != std::string::npos; ++at) all += d.out.substr(at, 18) + " ";
        return all;
    };
    const std::string run = "classify " + model + " " + pictures + " --top 1 --json --device ";
    const done one = graft_program(run + "cpu"), mixed = graft_program(run + "cpu,cuda:0 --stages 2", two);
    REQUIRE(one.code == 0);
    CAPTURE(mixed.err);
    REQUIRE(mixed.code == 0);
    CHECK(mixed.has("\"device\":\"cpu,cuda:0\""));
    CHECK(labels(mixed) == labels(one));
    CHECK(graft_program("bench " + model + " --device cuda:0,1 --stages 2 --rounds 2 --json", two).has("\"busy_ms\":null"));
}
#endif
