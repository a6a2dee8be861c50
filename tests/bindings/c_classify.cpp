// graft.h: pictures and classifiers answer as the C++ interface does.
#include "c_handles.hpp"

#include "file_contents.hpp"

#include <graft/train.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace {

graft::classifier by_cpp() {
    graft::classifier_options how;
    how.load.device = "cpu";
    return graft::classifier::load(demo_file("model.onnx"), how).value();
}

void check_same(const graft_predictions* found, std::size_t picture, const std::vector<graft::prediction>& expected) {
    REQUIRE(graft_predictions_size(found, picture) == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(graft_predictions_index(found, picture, i) == expected[i].index);
        CHECK(graft_predictions_label(found, picture, i) == expected[i].label);
        CHECK(graft_predictions_probability(found, picture, i) == expected[i].probability);
    }
}

}  // namespace

TEST_CASE("a classifier in C names pictures as one in C++: files, bytes, pixels, and many at once") {
    failure error;
    const classifier_handle c(graft_classifier_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    REQUIRE_MESSAGE(c, error.message());
    graft::classifier same = by_cpp();
    REQUIRE(graft_classifier_label_count(c.get()) == same.labels().size());
    for (std::size_t i = 0; i < same.labels().size(); ++i) CHECK(graft_classifier_label(c.get(), i) == same.labels()[i]);
    CHECK(graft_classifier_preprocess(c.get()) == graft::text(same.preprocessing().spec));

    const std::string moon = demo_file("pictures/moon-1.png"), fish = demo_file("pictures/fish-2.png");
    const predictions_handle of_file(graft_classifier_classify_file(c.get(), moon.c_str(), 3, error.out()));
    REQUIRE_MESSAGE(of_file, error.message());
    CHECK(graft_predictions_count(of_file.get()) == 1);
    check_same(of_file.get(), 0, same.classify(moon, 3).value());
    CHECK(std::string(graft_predictions_label(of_file.get(), 0, 0)) == "moon");

    const std::string bytes = file_contents(moon);
    const picture_handle read(graft_picture_read(moon.c_str(), error.out())), decoded(graft_picture_decode(bytes.data(), bytes.size(), error.out()));
    const picture_handle other(graft_picture_read(fish.c_str(), error.out()));
    REQUIRE((read && decoded && other));
    REQUIRE(graft_picture_channels(read.get()) == 3);
    const picture_handle pixels(
        graft_picture_borrow(graft_picture_pixels(read.get()), graft_picture_height(read.get()), graft_picture_width(read.get()), 3, error.out()));
    REQUIRE_MESSAGE(pixels, error.message());
    CHECK(graft_picture_pixels(pixels.get()) == graft_picture_pixels(read.get()));
    const graft_picture* const all[] = {read.get(), decoded.get(), pixels.get(), other.get()};
    const predictions_handle found(graft_classifier_classify(c.get(), all, 4, 5, error.out()));
    REQUIRE_MESSAGE(found, error.message());
    REQUIRE(graft_predictions_count(found.get()) == 4);
    const graft::image a = graft::decode_file(moon).value(), b = graft::decode_file(fish).value();
    const auto expected = same.classify(std::vector<graft::image>{a, a, a, b}, 5).value();
    for (std::size_t i = 0; i < 4; ++i) check_same(found.get(), i, expected[i]);
    CHECK(graft_predictions_index(found.get(), 4, 0) == -1);
    CHECK(graft_predictions_label(found.get(), 0, 5) == nullptr);
}

TEST_CASE("a classifier in C is told labels, preprocessing and an output, and refuses what does not fit") {
    failure error;
    const model_handle m(graft_model_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    REQUIRE(m);
    const options_handle options(graft_options_new());
    REQUIRE(graft_options_set(options.get(), "preprocess", "unit,crop=64", error.out()) == GRAFT_OK);
    const classifier_handle told(graft_classifier_new(m.get(), options.get(), error.out()));
    REQUIRE_MESSAGE(told, error.message());
    graft::classifier_options how;
    how.preprocess = "unit,crop=64";
    const graft::classifier same = graft::classifier::make(graft::load(demo_file("model.onnx"), graft::on_device(nullptr)), how);
    CHECK(graft_classifier_preprocess(told.get()) == graft::text(same.preprocessing().spec));
    const auto refused = [&](const char* name, const char* value) {
        CHECK(!graft_classifier_new(m.get(), options_of(name, value).get(), error.out()));
        return error.code();
    };
    CHECK(refused("labels", "there/is/none.txt") == "file.open");
    CHECK(refused("preprocess", "nonsense") == "usage.preprocess");
    CHECK(refused("output", "nonsense") == "input.name");
    CHECK(refused("device", "cpu") == "usage");  // the model has its own
    const classifier_handle c(graft_classifier_new(m.get(), nullptr, error.out()));
    CHECK(!graft_classifier_classify_file(c.get(), demo_file("pictures/moon-1.png").c_str(), 0, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_classifier_classify_file(c.get(), demo_file("README.md").c_str(), 1, error.out()));
    CHECK(error.code() == "image.unsupported");
}

TEST_CASE("NULL and pictures that are none are errors, for pictures and classifiers") {
    failure error;
    CHECK(!graft_picture_read(nullptr, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_picture_decode(nullptr, 3, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_picture_decode("GIF89a", 6, error.out()));
    CHECK(error.code() == "image.unsupported");
    const std::uint8_t pixels[12] = {};
    CHECK(!graft_picture_borrow(nullptr, 2, 2, 3, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_picture_borrow(pixels, 2, 2, 4, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_picture_borrow(pixels, 0, 2, 3, error.out()));
    CHECK(error.code() == "image.dimensions");
    CHECK(!graft_picture_borrow(pixels, std::int64_t(1) << 62, 4, 3, error.out()));
    CHECK(error.code() == "image.dimensions");
    CHECK(!graft_classifier_new(nullptr, nullptr, error.out()));
    CHECK(!graft_classifier_load(nullptr, nullptr, error.out()));
    CHECK(!graft_classifier_classify(nullptr, nullptr, 0, 5, error.out()));
    CHECK(!graft_classifier_classify_file(nullptr, "a.png", 5, error.out()));
    CHECK(error.code() == "usage");
    const classifier_handle c(graft_classifier_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    REQUIRE(c);
    CHECK(!graft_classifier_classify(c.get(), nullptr, 1, 5, error.out()));
    const graft_picture* none[] = {nullptr};
    CHECK(!graft_classifier_classify(c.get(), none, 1, 5, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_classifier_classify_file(c.get(), nullptr, 5, error.out()));
    const predictions_handle empty(graft_classifier_classify(c.get(), nullptr, 0, 5, error.out()));
    CHECK(empty);
    CHECK(graft_predictions_count(empty.get()) == 0);
    CHECK(graft_picture_height(nullptr) + graft_picture_width(nullptr) + graft_picture_channels(nullptr) == 0);
    CHECK(graft_predictions_count(nullptr) + graft_predictions_size(nullptr, 0) == 0);
    CHECK(graft_classifier_label(nullptr, 0) == nullptr);
    graft_picture_free(nullptr), graft_classifier_free(nullptr), graft_predictions_free(nullptr);
}

TEST_CASE("an evaluation in C finds what one in C++ finds") {
    failure error;
    const classifier_handle c(graft_classifier_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    REQUIRE(c);
    // Two pictures of each of the demo's classes, as an image folder.
    const graft::classifier same = by_cpp();
    const std::string folder = "graft_test_c_evaluation";
    std::filesystem::remove_all(folder);
    for (const std::string& label : same.labels()) {
        std::filesystem::create_directories(folder + "/" + label);
        for (const char* number : {"-1.png", "-2.png"})
            std::filesystem::copy_file(demo_file("pictures/") + label + number, folder + "/" + label + "/" + label + number);
    }
    graft_evaluation found{};
    found.size = sizeof found;
    REQUIRE_MESSAGE(graft_classifier_evaluate(c.get(), folder.c_str(), options_of("batch", "3").get(), &found, error.out()) == GRAFT_OK, error.message());
    const graft::dataset data = graft::open_dataset(folder, {}).value();
    std::vector<std::int64_t> outputs;
    for (const std::string& name : data.classes()) outputs.push_back(std::find(same.labels().begin(), same.labels().end(), name) - same.labels().begin());
    graft::evaluation_options how;
    how.batch = 3;
    const graft::evaluation_result expected = graft::evaluate(same.model(), data, same.preprocessing().spec, outputs, how).value();
    CHECK(found.top1 == expected.metrics.top1());
    CHECK(found.top5 == expected.metrics.top_k());
    CHECK(found.loss == expected.metrics.loss());
    CHECK(found.macro_f1 == expected.metrics.macro_f1());
    CHECK(found.balanced_accuracy == expected.metrics.balanced_accuracy());
    CHECK(found.pictures == 16);
    CHECK(found.bad_pictures == 0);
    CHECK(found.classes == 8);
    std::filesystem::remove_all(folder);

    CHECK(graft_classifier_evaluate(c.get(), demo_file("new_pictures").c_str(), nullptr, &found, error.out()) == GRAFT_FAILED);
    CHECK(error.code() == "data.class_mismatch");
    CHECK(graft_classifier_evaluate(c.get(), "there/is/none", nullptr, &found, error.out()) == GRAFT_FAILED);
    CHECK(error.code() == "data.open");
    CHECK(graft_classifier_evaluate(c.get(), "there/is/none", options_of("batch", "0").get(), &found, error.out()) == GRAFT_USAGE);
    found.size = 0;
    CHECK(graft_classifier_evaluate(c.get(), "there/is/none", nullptr, &found, error.out()) == GRAFT_USAGE);
    CHECK(graft_classifier_evaluate(c.get(), "there/is/none", nullptr, nullptr, error.out()) == GRAFT_USAGE);
    CHECK(graft_classifier_evaluate(c.get(), nullptr, nullptr, &found, error.out()) == GRAFT_USAGE);
    CHECK(graft_classifier_evaluate(nullptr, "there/is/none", nullptr, &found, error.out()) == GRAFT_USAGE);
}
