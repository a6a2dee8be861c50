// The program from outside: exit codes, the error line, the keys of its JSON.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <graft/graph/builder.hpp>
#include <graft/io/onnx_write.hpp>

#include <doctest/doctest.h>

#include <unistd.h>

namespace {

using program_test::done;
using program_test::graft_program;

const std::string model = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", fish = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/fish-1.png";

}  // namespace

TEST_CASE("wrong usage exits with 2 and one line") {
    for (const char* arguments : {"", "frobnicate", "info", "classify", "classify a", "run m.onnx", "bench m.onnx --rounds 0", "info --nonsense x",
                                  "decode x.png", "classify a b --top x", "info m.onnx --device toaster"}) {
        CAPTURE(arguments);
        const done d = graft_program(arguments);
        CHECK(d.code == 2);
        CHECK(d.refused("usage"));
        CHECK(d.out.empty());
    }
    CHECK(graft_program("classify " + model + " " + fish + " --preprocess crop=224,nonsense").refused("usage.preprocess"));
    CHECK(graft_program("preprocess " + fish + " --preprocess std=0 -o x.npy").code == 2);
}

TEST_CASE("--packed keeps weights for the next start, and nothing else is written over") {
    const std::string file = "/tmp/graft_cli_" + std::to_string(::getpid()) + ".packed";
    const done without = graft_program("classify " + model + " " + fish + " --json"),
               first = graft_program("classify " + model + " " + fish + " --json --packed " + file),
               second = graft_program("classify " + model + " " + fish + " --json --packed " + file);
    CHECK(first.code == 0);
    CHECK(second.code == 0);
    const auto results = [](const done& d) { return d.out.substr(0, d.out.find("\"model\"")); };
    CHECK(results(first) == results(without));
    CHECK(results(second) == results(without));
    CHECK(file_contents(file).compare(0, 20, "graft packed weights") == 0);
    ::unlink(file.c_str());
    const std::string before = file_contents(fish);
    const done refused = graft_program("classify " + model + " " + fish + " --packed " + fish);
    CHECK(refused.code == 1);
    CHECK(refused.refused("file.open"));
    CHECK(file_contents(fish) == before);
}

TEST_CASE("a misspelt option, verb or word is told with the one that may be meant") {
    const std::pair<const char*, const char*> all[] = {
        {"finetun", "did you mean finetune?"},
        {"finetune data --epoch 3", "did you mean --epochs?"},
        {"finetune --epoch=3 data --from m.onnx --out o", "did you mean --epochs?"},
        {"finetune data --learning-rate 0.1", "did you mean --lr?"},
        {"train data --bs 4", "did you mean --batch?"},
        {"train data --batch-size 4", "did you mean --batch?"},
        {"finetune data --freeze-trunk", "did you mean --freeze?"},
        {"train data --unfreeze-epoch 4", "graft train --help lists them"},
        {"classify m.onnx a.jpg --tpo 3", "did you mean --top?"},
        {"classify m.onnx a.jpg -x", "has no such option"},
        {"info m.onnx --precision floa16", "did you mean float16?"},
        {"info m.onnx --device cdua", "did you mean cuda?"},
        {"info m.onnx --device cuda:0,1", "this takes one"},
        {"info m.onnx --device cuda:0,,1", "is no device"},
        {"finetune data --from m.onnx --out o --device cuda:1,1", "names a device twice"},
        {"finetune data --from m.onnx --out o --optimizer admw", "did you mean adamw?"},
        {"finetune data --from m.onnx --out o --loss cross_entopy", "did you mean cross_entropy?"},
        {"train data --out o --arch resnet50",
         "lenet, resnet20 and mobilenet_v2. A network that was trained elsewhere comes as an ONNX file: graft finetune DATA --from"}};
    for (const auto& given : all) {
        CAPTURE(given.first);
        const done d = graft_program(given.first);
        CHECK(d.code == 2);
        CHECK(d.refused("usage"));
        CHECK_MESSAGE(contains(d.last(), given.second), d.last());
    }
    // A value may look like an option, and a number like a flag.
    CHECK(graft_program("classify " + model + " " + fish + " --labels --nowhere").refused("file.open"));
    CHECK(contains(graft_program("finetune data --from m.onnx --out o --lr -1").last(), "--lr"));
    // What was given in place of what was wanted.
    CHECK(contains(graft_program("classify " + fish + " " + model).last(), "this is a PNG picture, and a model is wanted"));
    CHECK(contains(graft_program("finetune " + model + " --from " + model + " --out /nonexistent/o").last(), "this is an ONNX model, and a dataset is wanted"));
    CHECK(contains(graft_program("check " + fish).last(), "this is a PNG picture, and a dataset is wanted"));
    CHECK(contains(graft_program("decode " GRAFT_SOURCE_DIR " -o /nonexistent/o.npy").last(), "this is a folder"));
}

TEST_CASE("a precision that the CPU does not have is refused and not passed over") {
    for (const std::string& verb : {"classify " + model + " " + fish, "bench " + model + " --rounds 1", "info " + model}) {
        CAPTURE(verb);
        for (const char* precision : {"tf32", "float16", "bfloat16"}) {
            if (std::string(precision) == "bfloat16" && program_test::cpu_has_bfloat16()) continue;
            const done d = graft_program(verb + " --device cpu --precision " + precision);
            CHECK(d.code == 1);
            CHECK(d.refused("device.unavailable"));
            CHECK(d.last().find(precision) != std::string::npos);
        }
    }
    CHECK(graft_program("classify " + model + " " + fish + " --device cpu --precision float32").code == 0);
    CHECK(graft_program("classify " + model + " " + fish + " --device cpu --precision double").refused("usage"));
}

TEST_CASE("help and version are no errors") {
    for (const char* arguments : {"--help", "info --help", "--version"}) {
        const done d = graft_program(arguments);
        CHECK(d.code == 0);
        CHECK(!d.out.empty());
        CHECK(d.err.empty());
    }
}

TEST_CASE("what cannot be read is a failure with its code and its name") {
    const done d = graft_program("info 'no\nsuch.onnx'");
    CHECK(d.code == 1);
    CHECK(d.refused("file.open"));
    CHECK(d.last().find("no\\x0asuch.onnx") != std::string::npos);
    CHECK(graft_program("decode nothing.png -o graft_x.npy").refused("image.open"));
    CHECK(graft_program("info " + fish).code == 1);
}

TEST_CASE("info prints the keys of its contract") {
    const done d = graft_program("info " + model + " --json");
    CHECK(d.code == 0);
    CHECK(d.err.empty());
    for (const char* key : {"\"inputs\":[{\"name\":\"input\",\"dtype\":\"float32\",\"shape\":[\"N\",3,64,64]}]", "\"outputs\":[", "\"operators\":{",
                            "\"Conv\":13", "\"parameters\":46920", "\"macs\":", "\"opset\":17", "\"peak_bytes\":"})
        CHECK_MESSAGE(d.has(key), key);
    CHECK(graft_program("info --ops " + model).out == "Add,BatchNormalization,Conv,Flatten,Gemm,GlobalAveragePool,Relu\n");
    CHECK(graft_program("info --placement " + model).code == 0);
}

TEST_CASE("classify names every picture, and goes on after one that fails") {
    const done d = graft_program("classify " + model + " " + fish + " nothing.png " + fish + " --json --top 2");
    CHECK(d.code == 1);
    CHECK(d.refused("image.open"));
    CHECK(d.has("\"label\":\"fish\""));
    CHECK(d.has("{\"image\":\"nothing.png\",\"error\":{\"code\":\"image.open\""));
    CHECK(graft_program("classify " + model + " " + fish).code == 0);
}

TEST_CASE("the pixels, the tensor and a run agree on their files") {
    CHECK(graft_program("decode " + fish + " -o graft_cli.npy --json").has("\"shape\":[192,192,3],\"dtype\":\"uint8\""));
    CHECK(graft_program("preprocess " + fish + " --model " + model + " -o graft_cli.npy --json").has("\"shape\":[1,3,64,64],\"dtype\":\"float32\""));
    const done d = graft_program("run " + model + " --input input=graft_cli.npy --output-dir graft_cli_out --json");
    CHECK(d.code == 0);
    CHECK(d.has("\"outputs\":{\"logits\":\"graft_cli_out/logits.npy\"}"));
    CHECK(d.has("\"latency_ms\":"));
    CHECK(graft_program("run " + model + " --input nonsense=graft_cli.npy --output-dir graft_cli_out").refused("input.name"));
    CHECK(graft_program("run " + model + " --output-dir graft_cli_out").refused("input.name"));
    std::remove("graft_cli_out/logits.npy");
    std::remove("graft_cli_out");
    std::remove("graft_cli.npy");
}

TEST_CASE("bench gives one number a round") {
    const done d = graft_program("bench " + model + " --rounds 3 --batch 2 --threads 1 --json");
    CHECK(d.code == 0);
    for (const char* key : {"\"latency_ms\":[", "\"load_ms\":", "\"rss_mb\":", "\"isa\":\"", "\"device\":\"cpu\"", "\"macs\":", "\"batch\":2"})
        CHECK_MESSAGE(d.has(key), key);
    const std::string list = d.out.substr(d.out.find("\"latency_ms\":["), d.out.find(']') - d.out.find("\"latency_ms\":["));
    int commas = 0;
    for (char c : list) commas += c == ',';
    CHECK(commas == 2);
}

TEST_CASE("bench --batch opens a network that was exported for another batch") {
    const made_folder folder;
    graft::builder net;
    graft::tensor rows = graft::tensor::make(graft::dtype::int64, graft::shape{2});
    rows.data<std::int64_t>()[0] = 1, rows.data<std::int64_t>()[1] = 192;
    const graft::value_id x = net.input("x", graft::dtype::float32, {1, 3, 8, 8});
    const graft::value_id flat = net.apply("Reshape", {x, net.constant("rows", rows)}),
                          w = net.constant("w", graft::tensor::zeros(graft::dtype::float32, {192, 4}));
    net.output(net.apply("MatMul", {flat, w}), "y");
    const std::string path = folder.path + "/fixed.onnx";
    REQUIRE(graft::write_onnx_file(net.finish(), path).ok());
    const done d = graft_program("bench " + path + " --batch 8 --rounds 1 --json");
    CHECK(d.code == 0);
    CHECK(d.has("\"batch\":8"));
    const done learnt = graft_program("bench " + path + " --train full --batch 8 --rounds 1 --json");
    CHECK(learnt.code == 0);
}

TEST_CASE("a device that is not there is refused, not replaced") {
    CHECK(graft_program("bench " + model + " --device cuda").refused("device.unavailable"));
    setenv("GRAFT_REQUIRE_GPU", "1", 1);
    CHECK(graft_program("bench " + model).refused("device.unavailable"));
    unsetenv("GRAFT_REQUIRE_GPU");
    setenv("GRAFT_ISA", "no-such-isa", 1);
    const done d = graft_program("doctor");
    CHECK(d.code == 1);
    CHECK(d.refused("cpu.isa"));
    unsetenv("GRAFT_ISA");
}
#endif
