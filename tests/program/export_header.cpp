// The verb export from outside: apps that include the headers it writes, by each compiler that is there, and what it refuses.
#if defined(GRAFT_PROGRAM) && defined(GRAFT_SPLIT_LIBRARY) && !defined(_WIN32)
#include "program.hpp"

#include <graft/core/json.hpp>
#include <graft/graft.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace {

using program_test::done;
using program_test::graft_program;

const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", pictures = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/";
const std::string strict = " -std=c++17 -O0 -Wall -Wextra -Wshadow -Wpedantic -Werror -I" GRAFT_SOURCE_DIR "/include";

done exported(const std::string& arguments) { return graft_program("export " + arguments); }

// Runs a command of the shell.
done ran(const std::string& command) {
    const made_folder folder;
    const std::string out = folder.path + "/out", err = folder.path + "/err";
    const int status = std::system(("{ " + command + "\n} >" + out + " 2>" + err + " </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_contents(out), file_contents(err)};
}

// Those of g++ and clang++ that are there; what built these tests is one of them.
std::vector<std::string> compilers() {
    std::vector<std::string> found;
    for (const char* one : {"g++", "clang++"})
        if (ran(std::string("command -v ") + one).code == 0) found.push_back(one);
    REQUIRE(!found.empty());
    return found;
}

// Of an app that declares alone, and is linked with the definitions that these tests have.
std::string split_flags() {
    return strict + " -DGRAFT_SPLIT -DGRAFT_HAS_LIBJPEG=" + std::to_string(GRAFT_HAS_LIBJPEG) + " -DGRAFT_HAS_LIBWEBP=" + std::to_string(GRAFT_HAS_LIBWEBP);
}
std::string split_library() {
    return std::string(" " GRAFT_SPLIT_LIBRARY) + (GRAFT_HAS_LIBJPEG ? " -ljpeg" : "") + (GRAFT_HAS_LIBWEBP ? " -lwebp" : "") + " -ldl -pthread";
}

// Prints the likeliest class of each picture, and its probability to the last bit.
const char* const classifying_app = R"(
#include "drawings.hpp"
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>
namespace {
void tell(const graft::result<std::vector<graft::prediction>>& top) {
    if (top.ok())
        std::printf("%s %.17g\n", top.value()[0].label.c_str(), top.value()[0].probability);
    else
        std::printf("%s\n", graft::text(top.error().code()));
}
}
int main(int count, char** paths) {
    static_assert(drawings::classes == 8 && drawings::labels[0] == "boat");
    for (int i = 1; i < count; ++i) {
        tell(drawings::classify(paths[i], 1));
        tell(drawings::classify(graft::decode_file(paths[i]).value(), 1));
        std::ifstream file(paths[i], std::ios::binary);
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        tell(drawings::classify_bytes(bytes.data(), bytes.size(), 1));
        graft::result<std::vector<graft::prediction>> beside[2] = {graft::status(), graft::status()};
        std::thread threads[2];
        for (int t = 0; t < 2; ++t) threads[t] = std::thread([&beside, t, path = paths[i]] { beside[t] = drawings::classify(path, 1); });
        for (std::thread& t : threads) t.join();
        for (const auto& one : beside) tell(one);
    }
    tell(drawings::classify("absent.png"));
    std::printf("%d\n", static_cast<int>(drawings::classifier().value().probabilities(graft::image::make(64, 64, 3).value()).value().size()));
}
)";

// What that app has to print.
std::string said_by_program(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        const done said = graft_program("classify " + demo + " " + pictures + name + ".png --top 1 --json -q");
        char line[100];
        std::snprintf(line, sizeof line, "%s %.17g\n", name.substr(0, name.find('-')).c_str(), said.number("probability"));
        for (int i = 0; i < 5; ++i) text += line;
    }
    return text + "image.open\n8\n";
}

// A network of one matrix whose bytes are all of one kind, without a 0 where literals would want one.
graft::graph matrix_network(std::uint32_t bits, const std::string& activation) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    graft::builder b("net", 3);
    graft::linear_options how;
    how.bias = false;
    how.weight = graft::tensor::from(std::vector<float>(200 * 128, value).data(), {200, 128});
    b.output(b.apply(activation, {b.linear(b.input("x", graft::dtype::float32, {"N", 128}), 200, how)}), "y");
    return b.finish();
}
std::string saved(const made_folder& folder, graft::graph g) {
    static int number = 0;
    const std::string path = folder.path + "/model_" + std::to_string(number++) + ".onnx";
    REQUIRE(graft::load(std::move(g))->save(path).ok());
    return path;
}

// A classifier of pictures with these classes.
std::string saved_classifier(const made_folder& folder, const std::vector<std::string>& labels) {
    graft::builder b("net", 3);
    graft::conv2d_options how;
    how.kernel = 3;
    const graft::value_id x = b.conv2d(b.input("x", graft::dtype::float32, {"N", 3, 8, 8}), 4, how);
    b.output(b.linear(b.flatten(b.global_average_pool(x)), static_cast<std::int64_t>(labels.size())), "y");
    graft::graph g = b.finish();
    graft::json_writer list;
    list.begin_array();
    for (const std::string& label : labels) list.string(label);
    g.metadata.push_back({"graft.labels", list.end_array().text()});
    g.metadata.push_back({"graft.preprocess", "unit"});
    return saved(folder, std::move(g));
}

}  // namespace

TEST_CASE("an app with an exported header answers as the program does, by every compiler, from files, bytes, pixels and threads") {
    made_folder folder;
    const done said = exported(demo + " --header " + folder.path + "/drawings.hpp --json");
    INFO(said.err);
    REQUIRE(said.code == 0);
    CHECK(said.has("\"operators\":[\"Add\",\"BatchNormalization\",\"Conv\",\"Flatten\",\"Gemm\",\"GlobalAveragePool\",\"Relu\"]"));
    CHECK(said.has("\"namespace\":\"drawings\""));
    CHECK(said.number("classes") == 8);
    CHECK(said.number("bytes") == static_cast<double>(file_contents(folder.path + "/drawings.hpp").size()));
    CHECK(said.number("model_bytes") < 200000);  // of 226,630 with the golden sample and all names
    folder.put("app.cpp", classifying_app);
    // A second file with the same header: there has to be one network in the program.
    folder.put("other.cpp", "#include \"drawings.hpp\"\nconst void* other();\nconst void* other() { return &drawings::embedded::model_bytes; }\n");
    const std::string expected = said_by_program({"moon-1", "tree-2"});
    for (const std::string& compiler : compilers()) {
        INFO(compiler);
        const std::string app = folder.path + "/app";
        const done built = ran("cd " + folder.path + "; " + compiler + split_flags() + " app.cpp other.cpp -o app" + split_library());
        INFO(built.err);
        REQUIRE(built.code == 0);
        CHECK(ran(app + " " + pictures + "moon-1.png " + pictures + "tree-2.png").out == expected);
        const std::string bytes = file_contents(app), part = "graft.preprocess";
        CHECK(std::search(std::search(bytes.begin(), bytes.end(), part.begin(), part.end()) + 1, bytes.end(), part.begin(), part.end()) != bytes.end());
    }
}

TEST_CASE("files whose headers name other operators have a copy of graft each, also without exceptions") {
    made_folder folder;
    // 0x27, 0x5c: of quotes and backslashes, which a list of characters has to escape.
    const std::string net = saved(folder, matrix_network(0x275c275c, "Sigmoid"));
    REQUIRE(exported(demo + " -q --header " + folder.path + "/drawings.hpp").code == 0);
    const done said = exported(net + " --header " + folder.path + "/squash.hpp --json");
    REQUIRE(said.code == 0);
    CHECK(contains(said.err, "is no classifier, so that the header runs it on arrays"));
    CHECK(said.has("\"classes\":null"));
    folder.put("squash.cpp", "#include \"squash.hpp\"\n#include <cstdio>\nint second();\n"
                             "int second() {\n"
                             "    const graft::tensor x = graft::tensor::zeros(graft::dtype::float32, {2, 128});\n"
                             "    auto y = squash::run(x);\n"
                             "    auto named = squash::run({{\"x\", x}});\n"
                             "    if (!y.ok() || !named.ok()) return 1;\n"
                             "    std::printf(\"%s %.3f\\n\", graft::text(named.value()[0].value.shape()).c_str(), y.value().data<float>()[0]);\n"
                             "    return 0;\n}\n");
    folder.put("app.cpp", "#include \"drawings.hpp\"\n#include <cstdio>\nint second();\n"
                          "int main(int, char** paths) {\n"
                          "    auto top = drawings::classify(paths[1], 1);\n"
                          "    if (!top.ok()) return 1;\n"
                          "    std::printf(\"%s\\n\", top.value()[0].label.c_str());\n"
                          "    return second();\n}\n");
    // The definitions are compiled here, which clang++ does in a third of g++'s time.
    const std::string compiler = compilers().back() + strict + " -fno-exceptions -fno-rtti ";
    const done built = ran("cd " + folder.path + "; " + compiler + "-c squash.cpp -o squash.o && " + compiler + "app.cpp squash.o -o app -pthread");
    INFO(built.err);
    REQUIRE(built.code == 0);
    const done answered = ran(folder.path + "/app " + pictures + "sun-1.png");
    CHECK(answered.code == 0);
    CHECK(answered.out == "sun\n[2,200] 0.500\n");
}

TEST_CASE("the bytes of a network come back whatever they are") {
    made_folder folder;
    folder.put("app.cpp", "#include \"net.hpp\"\n#include <cstdio>\n"
                          "int main() { std::fwrite(&net::embedded::model_bytes, 1, net::embedded::model_size, stdout); }\n");
    // A literal's quotes, backslashes, what were trigraphs, digits behind an escape; then real weights.
    std::vector<std::string> nets{demo};
    for (const std::uint32_t bits : {0x22222222u, 0x5c275c27u, 0x2f3f3f3fu, 0x31393130u, 0x3f81ff01u})
        nets.push_back(saved(folder, matrix_network(bits, "Relu")));
    for (const std::string& net : nets) {
        const done said = exported(net + " -q --keep-names --json --header " + folder.path + "/net.hpp");
        REQUIRE(said.code == 0);
        const done built = ran("cd " + folder.path + "; " + compilers().front() + " -trigraphs" + split_flags() + " app.cpp -o app" + split_library());
        INFO(built.err);
        REQUIRE(built.code == 0);
        const std::string bytes = ran(folder.path + "/app").out;
        CHECK(static_cast<double>(bytes.size()) == said.number("model_bytes"));
        auto there = graft::load(net), again = graft::load(bytes.data(), bytes.size());
        REQUIRE(again.ok());
        REQUIRE(again->graph().values.size() == there->graph().values.size());
        for (std::size_t i = 0; i < there->graph().values.size(); ++i) {
            const graft::tensor &a = there->graph().values[i].constant, &b = again->graph().values[i].constant;
            CHECK(a.bytes() == b.bytes());
            if (a.bytes() && a.bytes() == b.bytes()) CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
        }
    }
}

TEST_CASE("a classifier of a fixed batch goes into a header as its file is, and takes many pictures there") {
    made_folder folder;
    graft::builder b("fixed", 3);
    const graft::value_id x = b.relu(b.conv2d(b.input("x", graft::dtype::float32, {1, 3, 8, 8}), 4));
    const graft::value_id flat = b.apply("Reshape", {x, b.constant("flat", graft::tensor::from(std::vector<std::int64_t>{1, 256}.data(), {2}))});
    b.output(b.apply("MatMul", {flat, b.constant("w", graft::tensor::zeros(graft::dtype::float32, {256, 3}))}), "y");
    graft::graph g = b.finish();
    g.metadata.push_back({"graft.preprocess", "unit"});
    const std::string net = saved(folder, std::move(g));
    const done said = exported(net + " -q --json --header " + folder.path + "/net.hpp");
    REQUIRE(said.code == 0);
    CHECK(said.number("classes") == 3);
    CHECK(contains(file_contents(folder.path + "/net.hpp"), "// Input: x float32 [1,3,8,8].\n"));
    folder.put("app.cpp",
               "#include \"net.hpp\"\n#include <cstdio>\n"
               "int main() {\n"
               "    std::vector<graft::image> two;\n"
               "    for (int i = 0; i < 2; ++i) two.push_back(graft::image::make(8, 8, 3).value());\n"
               "    auto rows = net::classifier().value().probabilities(two);\n"
               "    std::printf(\"%d of batch %d\\n\", static_cast<int>(rows.value().size()), static_cast<int>(net::model()->inputs()[0].extents[0]));\n}\n");
    const done built = ran("cd " + folder.path + "; " + compilers().front() + split_flags() + " app.cpp -o app" + split_library());
    INFO(built.err);
    REQUIRE(built.code == 0);
    CHECK(ran(folder.path + "/app").out == "2 of batch -1\n");
}

TEST_CASE("weights in half precision take half the bytes, and change answers little") {
    made_folder folder;
    const done said = exported(demo + " --float16 --json --header " + folder.path + "/drawings.hpp");
    REQUIRE(said.code == 0);
    CHECK(said.number("model_bytes") < 110000);
    CHECK(said.has("\"Add\",\"BatchNormalization\",\"Cast\",\"Conv\""));
    folder.put("app.cpp", classifying_app);
    const done built = ran("cd " + folder.path + "; " + compilers().front() + split_flags() + " app.cpp -o app" + split_library());
    INFO(built.err);
    REQUIRE(built.code == 0);
    std::istringstream answer(ran(folder.path + "/app " + pictures + "moon-1.png").out);
    std::string label;
    double probability = 0;
    answer >> label >> probability;
    const double whole = graft_program("classify " + demo + " " + pictures + "moon-1.png --top 1 --json -q").number("probability");
    CHECK(label == "moon");
    CHECK(probability != whole);
    CHECK(probability == doctest::Approx(whole).epsilon(1e-3));
    // What half precision has no number for stays: 1e30.
    const std::string net = saved(folder, matrix_network(0x7149f2ca, "Relu"));
    const done kept = exported(net + " -q --float16 --json --header " + folder.path + "/net.hpp");
    CHECK(kept.number("model_bytes") > 200 * 128 * 4);
    CHECK(!kept.has("Cast"));
}

TEST_CASE("names of classes are what they were, whatever is in them") {
    made_folder folder;
    const std::vector<std::string> labels{"plain",  "\"quoted\"",      "back\\slash\\",         "what?\?/", "two\nlines", std::string("a\0b", 3),
                                          "\t\x1b", "\xe8\x8a\xb1 花", std::string(70000, 'x'), "",         "*/ // %s",   "1" + std::string(1, '\1') + "7"};
    const std::string net = saved_classifier(folder, labels);
    REQUIRE(exported(net + " -q --header " + folder.path + "/net.hpp").code == 0);
    folder.put("app.cpp", "#include \"net.hpp\"\n#include <cstdio>\n"
                          "int main() {\n"
                          "    for (const std::string_view label : net::labels) {\n"
                          "        for (const char c : label) std::printf(\"%02x\", static_cast<unsigned char>(c));\n"
                          "        std::printf(\"\\n\");\n    }\n"
                          "    auto named = net::classifier();\n"
                          "    for (std::size_t i = 0; i < named.value().labels().size(); ++i)\n"
                          "        if (named.value().labels()[i] != net::labels[i]) return 1;\n"
                          "}\n");
    std::string expected;
    for (const std::string& label : labels) {
        char hex[3];
        for (const char c : label) std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(c)), expected += hex;
        expected += "\n";
    }
    for (const std::string& compiler : compilers()) {
        // A literal of 70,000 bytes is longer than C++ promises.
        const done built = ran("cd " + folder.path + "; " + compiler + split_flags() + " -Wno-overlength-strings app.cpp -o app" + split_library());
        INFO(built.err);
        REQUIRE(built.code == 0);
        const done said = ran(folder.path + "/app");
        CHECK(said.code == 0);
        CHECK((said.out == expected));
    }
}

TEST_CASE("a namespace is made of the header's name, or given, and always one that C++ takes") {
    made_folder folder;
    const std::string net = saved_classifier(folder, {"a", "b"});
    const auto name_of = [&](const std::string& file, const std::string& more = "") {
        const done said = exported(net + " -q --json --header '" + folder.path + "/" + file + "' " + more);
        const std::size_t at = said.out.find("\"namespace\":\"") + 13;
        return said.code == 0 ? said.out.substr(at, said.out.find('"', at) - at) : said.last();
    };
    CHECK(name_of("3d.hpp") == "model_3d");
    CHECK(name_of("class.hpp") == "class_");
    CHECK(name_of("graft.h") == "graft_");
    CHECK(name_of("my  flowers-v2.1.hpp") == "my_flowers_v2");
    CHECK(name_of("__a__b__.hpp") == "a_b");
    CHECK(name_of("\xe8\x8a\xb1.hpp") == "model");
    CHECK(name_of("odd\n\\.hpp") == "odd");
    CHECK(name_of("net.hpp", "--namespace shop::flowers") == "shop::flowers");
    for (const char* wrong : {"int", "9a", "a__b", "_a", "a::", "::a", "std", "a b", "a-b", "shop::class"})
        CHECK_MESSAGE(exported(net + " --header " + folder.path + "/no.hpp --namespace '" + wrong + "'").refused("usage"), wrong);
    // A name with a line in it and a backslash at its end may do no harm in the header's comments.
    folder.put("app.cpp", "#include \"copy.hpp\"\n#include \"net.hpp\"\nstatic_assert(odd::classes == shop::flowers::classes);\n");
    const done said = ran("cd " + folder.path + "; cp odd*.hpp copy.hpp; " + compilers().front() + split_flags() + " -fsyntax-only app.cpp");
    INFO(said.err);
    CHECK(said.code == 0);
    CHECK(said.err.empty());
}

TEST_CASE("a compiler says which operators a list of the app's own leaves out, and info tells those of several models") {
    made_folder folder;
    const std::string net = saved(folder, matrix_network(0x3f800000, "Sigmoid"));
    REQUIRE(exported(demo + " -q --header " + folder.path + "/drawings.hpp").code == 0);
    REQUIRE(exported(net + " -q --header " + folder.path + "/squash.hpp").code == 0);
    folder.put("app.cpp", "#include \"drawings.hpp\"\n#include \"squash.hpp\"\nint main() {}\n");
    const std::string look = "cd " + folder.path + "; " + compilers().back() + strict + " -fsyntax-only ";
    const done alone = ran(look + "app.cpp");
    CHECK(alone.code != 0);
    CHECK(contains(alone.err, "squash needs Sigmoid: add it to GRAFT_OPS"));
    CHECK(!contains(alone.err, "needs Gemm"));
    const done both = graft_program("info --ops " + demo + " " + net);
    CHECK(both.out == "Add,BatchNormalization,Conv,Flatten,Gemm,GlobalAveragePool,Relu,Sigmoid\n");
    CHECK(graft_program("info --ops --json " + demo + " " + net).has("\"ops\":\"Add,"));
    CHECK(graft_program("info " + demo + " " + net).refused("usage"));
    // What graft puts in itself: of half precision, and of a branch that is known beforehand.
    graft::builder b("half", 3);
    b.output(b.conv2d(b.input("x", graft::dtype::float16, {"N", 3, 8, 8}), 4), "y");
    CHECK(graft_program("info --ops " + saved(folder, b.finish())).out == "Cast,Conv\n");
    const auto branch = [](const char* op) {
        graft::builder inner("branch", 3);
        const float one = 1;
        inner.output(inner.apply(op, {inner.constant("c", graft::tensor::from(&one, {1}))}), "z");
        return inner.finish().value();
    };
    graft::builder choice("choice", 3);
    const graft::value_id picked = choice.apply("If", {choice.input("choose", graft::dtype::boolean, {})},
                                                {graft::graph_attribute("then_branch", branch("Relu")), graft::graph_attribute("else_branch", branch("Neg"))});
    choice.output(choice.relu(picked), "y");
    const done chosen = graft_program("info --ops " + saved(folder, choice.finish()));
    INFO(chosen.err);
    CHECK(chosen.out == "Identity,If,Neg,Relu\n");
    const std::string list = both.out.substr(0, both.out.size() - 1);
    const done told = ran(look + "-DGRAFT_SPLIT -DGRAFT_OPS=" + list + " app.cpp");
    CHECK(told.err == "");
    CHECK(told.code == 0);
    CHECK(contains(ran(look + "-DGRAFT_SPLIT -DGRAFT_OPS=Conv app.cpp").err, "drawings needs Add: add it to GRAFT_OPS"));
    CHECK(ran(look + "-DGRAFT_SPLIT -include graft/graft.hpp app.cpp").code == 0);  // which holds all
    CHECK(ran("cd " + folder.path + "; " + compilers().back() + " -std=c++17 -DGRAFT_SPLIT -fsyntax-only -I" GRAFT_SOURCE_DIR "/single_include app.cpp").code ==
          0);
}

TEST_CASE("export refuses what it cannot make") {
    made_folder folder;
    const std::string net = saved(folder, matrix_network(0x3f800000, "Relu")), header = " --header " + folder.path + "/net.hpp";
    CHECK(exported(demo + " --header " + folder.path + "/absent/net.hpp").refused("file.write"));
    CHECK(exported(demo + " --header " + folder.path).refused("file.write"));
    CHECK(exported(folder.path + "/absent.onnx" + header).refused("file.open"));
    CHECK(exported(demo).refused("usage"));
    CHECK(exported(demo + header + " --labels " + folder.put("labels", "a\nb\n")).refused("labels.count"));
    CHECK(exported(demo + header + " --preprocess nonsense").refused("usage.preprocess"));
    CHECK(exported(demo + header + " --output nonsense").refused("input.name"));
    CHECK(exported(net + header + " --preprocess unit").refused("input.shape"));
    CHECK(file_contents(folder.path + "/net.hpp").empty());
    // One that no picture of the usual size goes through is no classifier.
    graft::builder b("seven", 3);
    const graft::value_id x = b.input("x", graft::dtype::float32, {"N", 3, "H", "W"});
    b.output(b.apply("Reshape", {x, b.constant("shape", graft::tensor::from(std::vector<std::int64_t>{1, 7}.data(), {2}))}), "y");
    CHECK(exported(saved(folder, b.finish()) + header + " --json -q").has("\"classes\":null"));
    const done labelled = exported(demo + header + " -q --labels " + folder.put("labels", "a\nb\nc\nd\ne\nf\ng\n") + " --preprocess imagenet");
    CHECK(labelled.code == 0);
    CHECK(contains(file_contents(folder.path + "/net.hpp"), "{\n\"background\",\n\"a\",\n"));
    CHECK(contains(file_contents(folder.path + "/net.hpp"), "Pictures are prepared by \"imagenet\"."));
}
#endif
