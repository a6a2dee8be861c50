// The program from outside: exit codes, the error line, the keys of its JSON.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/wait.h>

namespace {

struct done {
    int code = -1;
    std::string out, err;
    bool has(const char* text) const { return out.find(text) != std::string::npos; }
    // The last line of stderr.
    std::string last() const {
        const std::string text = err.substr(0, err.find_last_not_of('\n') + 1);
        return text.substr(text.find_last_of('\n') + 1);
    }
    bool refused(const char* error_code) const { return last().rfind(std::string("graft: error: ") + error_code + ": ", 0) == 0; }
};

std::string contents(const char* path) {
    std::string text;
    if (std::FILE* f = std::fopen(path, "rb")) {
        char block[4096];
        for (std::size_t n; (n = std::fread(block, 1, sizeof block, f)) > 0;) text.append(block, n);
        std::fclose(f);
    }
    return text;
}

done graft(const std::string& arguments) {
    done d;
    const std::string command = std::string(GRAFT_PROGRAM " ") + arguments + " >graft_cli.out 2>graft_cli.err </dev/null";
    const int status = std::system(command.c_str());
    d.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    d.out = contents("graft_cli.out");
    d.err = contents("graft_cli.err");
    std::remove("graft_cli.out");
    std::remove("graft_cli.err");
    return d;
}

const std::string model = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx",
                  picture = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/fish-1.png";

} // namespace

TEST_CASE("wrong usage exits with 2 and one line") {
    for (const char* arguments : {"", "frobnicate", "info", "classify", "classify a", "run m.onnx", "bench m.onnx --rounds 0",
                                  "info --nonsense x", "decode x.png", "classify a b --top x", "info m.onnx --device toaster"}) {
        CAPTURE(arguments);
        const done d = graft(arguments);
        CHECK(d.code == 2);
        CHECK(d.refused("usage"));
        CHECK(d.out.empty());
    }
    CHECK(graft("classify " + model + " " + picture + " --preprocess crop=224,nonsense").refused("usage.preprocess"));
    CHECK(graft("preprocess " + picture + " --preprocess std=0 -o x.npy").code == 2);
}

TEST_CASE("help and version are no errors") {
    for (const char* arguments : {"--help", "info --help", "--version"}) {
        const done d = graft(arguments);
        CHECK(d.code == 0);
        CHECK(!d.out.empty());
        CHECK(d.err.empty());
    }
}

TEST_CASE("what cannot be read is a failure with its code and its name") {
    const done d = graft("info 'no\nsuch.onnx'");
    CHECK(d.code == 1);
    CHECK(d.refused("file.open"));
    CHECK(d.last().find("no\\x0asuch.onnx") != std::string::npos);
    CHECK(graft("decode nothing.png -o graft_x.npy").refused("image.open"));
    CHECK(graft("info " + picture).code == 1);
}

TEST_CASE("info prints the keys of its contract") {
    const done d = graft("info " + model + " --json");
    CHECK(d.code == 0);
    CHECK(d.err.empty());
    for (const char* key :
         {"\"inputs\":[{\"name\":\"input\",\"dtype\":\"float32\",\"shape\":[\"N\",3,64,64]}]", "\"outputs\":[", "\"operators\":{",
          "\"Conv\":13", "\"parameters\":46920", "\"macs\":", "\"opset\":17", "\"peak_bytes\":"})
        CHECK_MESSAGE(d.has(key), key);
    CHECK(graft("info --ops " + model).out == "Add,BatchNormalization,Conv,Flatten,Gemm,GlobalAveragePool,Relu\n");
    CHECK(graft("info --placement " + model).code == 0);
}

TEST_CASE("classify names every picture, and goes on after one that fails") {
    const done d = graft("classify " + model + " " + picture + " nothing.png " + picture + " --json --top 2");
    CHECK(d.code == 1);
    CHECK(d.refused("image.open"));
    CHECK(d.has("\"label\":\"fish\""));
    CHECK(d.has("{\"image\":\"nothing.png\",\"error\":{\"code\":\"image.open\""));
    CHECK(graft("classify " + model + " " + picture).code == 0);
}

TEST_CASE("the pixels, the tensor and a run agree on their files") {
    CHECK(graft("decode " + picture + " -o graft_cli.npy --json").has("\"shape\":[192,192,3],\"dtype\":\"uint8\""));
    CHECK(graft("preprocess " + picture + " --model " + model + " -o graft_cli.npy --json")
              .has("\"shape\":[1,3,64,64],\"dtype\":\"float32\""));
    const done d = graft("run " + model + " --input input=graft_cli.npy --output-dir graft_cli_out --json");
    CHECK(d.code == 0);
    CHECK(d.has("\"outputs\":{\"logits\":\"graft_cli_out/logits.npy\"}"));
    CHECK(d.has("\"latency_ms\":"));
    CHECK(graft("run " + model + " --input nonsense=graft_cli.npy --output-dir graft_cli_out").refused("input.name"));
    CHECK(graft("run " + model + " --output-dir graft_cli_out").refused("input.name"));
    std::remove("graft_cli_out/logits.npy");
    std::remove("graft_cli_out");
    std::remove("graft_cli.npy");
}

TEST_CASE("bench gives one number a round") {
    const done d = graft("bench " + model + " --rounds 3 --batch 2 --threads 1 --json");
    CHECK(d.code == 0);
    for (const char* key :
         {"\"latency_ms\":[", "\"load_ms\":", "\"rss_mb\":", "\"isa\":\"", "\"device\":\"cpu\"", "\"macs\":", "\"batch\":2"})
        CHECK_MESSAGE(d.has(key), key);
    const std::string list = d.out.substr(d.out.find("\"latency_ms\":["), d.out.find(']') - d.out.find("\"latency_ms\":["));
    int commas = 0;
    for (char c : list) commas += c == ',';
    CHECK(commas == 2);
}

TEST_CASE("a device that is not there is refused, not replaced") {
    CHECK(graft("bench " + model + " --device cuda").refused("device.unavailable"));
    setenv("GRAFT_REQUIRE_GPU", "1", 1);
    CHECK(graft("bench " + model).refused("device.unavailable"));
    unsetenv("GRAFT_REQUIRE_GPU");
    setenv("GRAFT_ISA", "no-such-isa", 1);
    const done d = graft("doctor");
    CHECK(d.code == 1);
    CHECK(d.refused("cpu.isa"));
    unsetenv("GRAFT_ISA");
}
#endif
