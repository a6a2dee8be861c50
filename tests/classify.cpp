// Classification: labels, probabilities, and the demo's model from a file to names.
#include <graft/classify.hpp>
#include <graft/graph/builder.hpp>
#include <graft/core/file.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace graft;

namespace {

// A graph that is a chain of operators from "x" to its output.
struct chain {
    graph g;
    value_id last;
    explicit chain(dtype type) {
        g.opsets.push_back({"", 17});
        last = g.add_value("x");
        g.values[0].type = type;
        g.inputs.push_back(last);
    }
    chain& then(const char* op, std::vector<tensor> constants = {}) {
        node n;
        n.op_type = op;
        n.inputs.push_back(last);
        for (tensor& t : constants) n.inputs.push_back(g.add_constant("c", t));
        last = g.add_value("y");
        n.outputs.push_back(last);
        g.nodes.push_back(n);
        g.outputs.assign(1, last);
        return *this;
    }
};

template <class T>
tensor of(std::vector<T> values) {
    return tensor::from(values.data(), {static_cast<std::int64_t>(values.size())}).value();
}

struct text_file {
    std::string path;
    text_file(const char* name, const std::string& text) : path(std::string("graft_test_") + name) {
        std::FILE* f = std::fopen(path.c_str(), "wb");
        std::fwrite(text.data(), 1, text.size(), f);
        std::fclose(f);
    }
    ~text_file() { std::remove(path.c_str()); }
};

std::string demo(const char* file) { return std::string(GRAFT_SOURCE_DIR "/apps/graft/demo/") + file; }

}  // namespace

TEST_CASE("scores of a graph without a Softmax become probabilities by one") {
    const auto p = class_probabilities(chain(dtype::float32).then("Gemm").g, of<float>({0, 0, 0, 0}));
    for (double v : p) CHECK(v == doctest::Approx(0.25));
}

TEST_CASE("a Softmax is found behind what only reshapes or converts") {
    chain c(dtype::float32);
    c.then("Softmax").then("Reshape").then("Flatten").then("Squeeze").then("Cast").then("Identity");
    const auto p = class_probabilities(c.g, of<float>({0.75f, 0.25f}));
    CHECK(p[0] == 0.75);
    CHECK(p[1] == 0.25);
}

TEST_CASE("a Softmax before another operator is not the end of the graph") {
    const auto p = class_probabilities(chain(dtype::float32).then("Softmax").then("MatMul").g, of<float>({1, 1}));
    CHECK(p[0] == doctest::Approx(0.5));
}

TEST_CASE("quantised probabilities are scaled to a sum of one") {
    chain c(dtype::float32);
    c.then("Softmax").then("QuantizeLinear", {of<float>({1.0f / 256}), of<std::uint8_t>({0})});
    const auto p = class_probabilities(c.g, of<std::uint8_t>({60, 180}));
    CHECK(p[0] == doctest::Approx(0.25));
    CHECK(p[1] == doctest::Approx(0.75));
}

TEST_CASE("the zero point of signed probabilities is taken off") {
    chain c(dtype::float32);
    c.then("Softmax").then("QuantizeLinear", {of<float>({1.0f / 256}), of<std::int8_t>({-128})});
    const auto p = class_probabilities(c.g, of<std::int8_t>({-128, 127}));
    CHECK(p[0] == 0);
    CHECK(p[1] == 1);
}

TEST_CASE("quantised scores with a scale go through a softmax") {
    chain c(dtype::float32);
    c.then("Gemm").then("QuantizeLinear", {of<float>({0.5f}), of<std::uint8_t>({10})});
    const auto p = class_probabilities(c.g, of<std::uint8_t>({10, 12}));
    CHECK(p[1] / p[0] == doctest::Approx(2.718281828));
}

TEST_CASE("infinite and undefined scores do not spoil the rest") {
    const float inf = HUGE_VALF;
    const auto p = class_probabilities(chain(dtype::float32).then("Gemm").g, of<float>({inf, 1, std::nanf("")}));
    CHECK(p[0] == 1);
    CHECK(p[1] == 0);
    CHECK(p[2] == 0);
}

TEST_CASE("labels are lines, whatever ends them") {
    const text_file f("labels.txt", "\xef\xbb\xbf"
                                    "cat\r\ndog\n\nowl");
    const auto names = read_labels(f.path, 4);
    REQUIRE(names.ok());
    CHECK(names.value() == std::vector<std::string>{"cat", "dog", "", "owl"});
}

TEST_CASE("one label too few makes output 0 the background") {
    const text_file f("labels.txt", "cat\ndog\n");
    const auto names = read_labels(f.path, 3);
    REQUIRE(names.ok());
    CHECK(names.value() == std::vector<std::string>{"background", "cat", "dog"});
}

TEST_CASE("any other number of labels is refused") {
    const text_file f("labels.txt", "cat\ndog\n");
    for (std::int64_t classes : {1, 4, 1000}) {
        const auto names = read_labels(f.path, classes);
        REQUIRE(!names.ok());
        CHECK(names.error().code() == errc::labels_count);
        CHECK(names.error().where() == f.path);
    }
    CHECK(read_labels("no/such/file", 2).error().code() == errc::file_open);
}

TEST_CASE("classes are called by their labels, else by their numbers") {
    builder b("net", 1);
    b.output(b.flatten(b.global_average_pool(b.input("picture", dtype::float32, {"N", 3, 4, 4}))), "scores");
    const graph g = b.finish().value();
    const text_file f("labels.txt", "cat\ndog\n");
    classifier_options how;
    how.preprocess = "unit";
    CHECK(classifier::make(load(g).value(), how).value().class_names().value() == std::vector<std::string>{"0", "1", "2"});
    how.labels = f.path;
    CHECK(classifier::make(load(g).value(), how).value().class_names().value() == std::vector<std::string>{"background", "cat", "dog"});
}

TEST_CASE("preprocessing is the caller's, else the model's, else a guess that fits the input") {
    const graft::input_format colours{dtype::float32, {1, 3, 8, 8}, true};
    CHECK(choose_preprocess("unit", "raw", colours).value().source == preprocess_source::given);
    CHECK(choose_preprocess("", "raw", colours).value().source == preprocess_source::metadata);
    CHECK(choose_preprocess("nonsense", "", colours).error().code() == errc::usage_preprocess);
    const struct {
        graft::input_format input;
        preprocess_source source;
        const char* text;
    } guesses[] = {
        {{dtype::uint8, {1, 8, 8, 3}, true}, preprocess_source::raw_bytes, "raw"},
        {{dtype::int8, {1, 3, -1, -1}, true}, preprocess_source::raw_bytes, "raw,crop=224"},
        {colours, preprocess_source::assumed, "imagenet"},
        {{dtype::float16, {-1, 3, -1, -1}, true}, preprocess_source::assumed, "imagenet,crop=224"},
        {{dtype::float32, {1, 1, 28, 28}, true}, preprocess_source::assumed, "unit,order=gray"},
        {{dtype::float32, {1, 64, 64, 1}, true}, preprocess_source::assumed, "unit,order=gray"},
        {{dtype::float64, {-1, -1, -1, 1}, true}, preprocess_source::assumed, "unit,order=gray,crop=224"},
    };
    for (const auto& g : guesses) {
        const auto choice = choose_preprocess("", "", g.input).value();
        CHECK(choice.source == g.source);
        CHECK(choice.text == g.text);
        CHECK(complete(choice.spec, g.input).ok());
    }
}

TEST_CASE("a row of classes is found in whatever a classifier gives, and nowhere else") {
    CHECK(graft::classes_in({2, 10}, 2) == 10);
    CHECK(graft::classes_in({2, 10, 1, 1}, 2) == 10);
    CHECK(graft::classes_in({2, 1, 1, 10}, 2) == 10);
    CHECK(graft::classes_in({10}, 1) == 10);
    CHECK(graft::classes_in({10, 1}, 1) == 10);
    CHECK(graft::classes_in({10}, 10) == -1);
    CHECK(graft::classes_in({1, 10}, 2) == -1);  // one row for two pictures
    CHECK(graft::classes_in({2, 1}, 2) == -1);
    CHECK(graft::classes_in({1, 3, 4, 4}, 1) == -1);
    CHECK(graft::classes_in({}, 1) == -1);
}

TEST_CASE("the demo's model names the demo's pictures") {
    auto made = classifier::load(demo("model.onnx"));
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().what()));
    classifier net = std::move(made).value();
    CHECK(net.labels().size() == 8);
    CHECK(net.preprocessing().source == preprocess_source::metadata);
    for (const std::string& name : net.labels()) {
        const auto named = net.classify(demo(("pictures/" + name + "-1.png").c_str()), 3);
        REQUIRE(named.ok());
        REQUIRE(named.value().size() == 3);
        CHECK(named.value()[0].label == name);
        CHECK(named.value()[0].probability > 0.5);
        CHECK(named.value()[0].probability >= named.value()[1].probability);
    }
    CHECK(net.classify("no/such/picture.png").error().code() == errc::image_open);
}

TEST_CASE("many pictures are named as they are one by one") {
    classifier net = classifier::load(demo("model.onnx")).value();
    std::vector<graft::image> pictures;
    for (const std::string& name : net.labels())
        for (const char* number : {"-1.png", "-2.png"})
            if (auto picture = graft::decode_file(demo(("pictures/" + name + number).c_str())); picture.ok()) pictures.push_back(*picture);
    const std::size_t given = pictures.size();
    REQUIRE(given >= 8);
    while (pictures.size() < 70) pictures.push_back(pictures[pictures.size() % given]);
    const auto all = net.classify(pictures, 2).value();
    REQUIRE(all.size() == pictures.size());
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        const auto one = net.classify(pictures[i], 2).value();
        REQUIRE(all[i].size() == 2);
        CHECK(all[i][0].index == one[0].index);
        CHECK(all[i][0].probability == doctest::Approx(one[0].probability));
    }
    CHECK(net.classify(std::vector<graft::image>()).value().empty());
}

TEST_CASE("a network for one picture at a time names many, and the output that is asked for") {
    graft::builder b("two heads", 3);
    const graft::value_id x = b.input("picture", dtype::float32, {1, 3, 8, 8});
    const graft::value_id flat = b.apply("Reshape", {x, b.constant("to", graft::tensor::from(std::vector<std::int64_t>{1, 192}.data(), {2}))});
    b.output(b.apply("Identity", {flat}), "pixels");
    const graft::tensor weight = graft::tensor::zeros(dtype::float32, {192, 4});
    for (int i = 0; i < 192; ++i) weight.data<float>()[i * 4 + i % 4] = 1;
    b.output(b.apply("MatMul", {flat, b.constant("weight", weight)}), "classes");
    b.output(b.apply("Identity", {x}), "map");
    const graft::graph g = b.finish();
    graft::load_options opened;
    opened.open_batch = true;
    graft::classifier_options how;
    how.preprocess = "unit,resize=8x8";
    how.output = "classes";
    classifier net = classifier::make(graft::load(g, opened).value(), how).value();
    CHECK(net.model().inputs()[0].extents[0] == graft::shape::unknown);
    CHECK(net.classes().value() == 4);
    std::vector<graft::image> pictures;
    for (int k = 0; k < 3; ++k) {
        graft::image p = graft::image::make(8, 8, 3);
        for (int i = 0; i < 192; ++i) p.data()[i] = static_cast<std::uint8_t>(i % 7 == k ? 255 : 0);
        pictures.push_back(p);
    }
    const auto rows = net.probabilities(pictures).value();
    REQUIRE(rows.size() == 3);
    for (std::size_t k = 0; k < 3; ++k) CHECK(rows[k] == net.probabilities(pictures[k]).value());
    CHECK(rows[0] != rows[1]);

    how.output = "map";
    CHECK(classifier::make(graft::load(g, opened).value(), how).error().code() == errc::classify_output);
    how.output = "nowhere";
    CHECK(classifier::make(graft::load(g, opened).value(), how).error().code() == errc::input_name);
}

TEST_CASE("of equal probabilities the lower index comes first") {
    auto made = classifier::load(demo("model.onnx"));
    REQUIRE(made.ok());
    const auto all = made->classify(demo("pictures/sun-1.png"), 100);
    REQUIRE(all.ok());
    CHECK(all.value().size() == 8);
    for (std::size_t i = 1; i < all.value().size(); ++i) {
        const prediction &a = all.value()[i - 1], &b = all.value()[i];
        CHECK((a.probability > b.probability || (a.probability == b.probability && a.index < b.index)));
    }
}
