// Datasets of pictures that an app holds: the same as those of files, and what is refused.
#include "made_dataset.hpp"

#include <graft/data/memory_dataset.hpp>

#include <doctest/doctest.h>

#include <cstring>

using namespace graft;

namespace {

labelled_picture held(const std::string& bytes, int label, const std::string& name) {
    const auto kept = std::make_shared<const std::string>(bytes);
    labelled_picture made;
    made.contents.data = reinterpret_cast<const std::uint8_t*>(kept->data());
    made.contents.size = kept->size();
    made.contents.owner = kept;
    made.label = label;
    made.name = name;
    return made;
}

labelled_picture pixels(const std::string& bytes, std::int64_t height, std::int64_t width, int channels) {
    labelled_picture made = held(bytes, 0, "pixels");
    made.contents.height = height, made.contents.width = width, made.contents.channels = channels;
    return made;
}

errc refusal(std::vector<labelled_picture> pictures, const std::vector<std::string>& classes, const dataset_options& options = {}) {
    const auto made = dataset_of(std::move(pictures), classes, options);
    return made.ok() ? errc::internal : made.error().code();
}

}  // namespace

TEST_CASE("Pictures in memory are the dataset that their files are: names, labels, pixels, and the draw") {
    const made_folder folder;
    std::vector<labelled_picture> pictures;
    for (const char* name : {"a", "b", "c"})
        for (int i = 0; i < 10; ++i) {
            const std::string bytes = picture(10 * (name[0] - 'a') + i), path = std::string(name) + "/" + std::to_string(i) + ".pgm";
            folder.put(path, bytes);
            pictures.push_back(held(bytes, name[0] - 'a', path));
        }
    const dataset files = open_dataset(folder.path).value(), memory = dataset_of(pictures, {"a", "b", "c"}).value();
    pictures.clear();  // the dataset keeps what it needs
    REQUIRE(memory.size() == files.size());
    CHECK(memory.classes() == files.classes());
    for (std::int64_t i = 0; i < files.size(); ++i) {
        CHECK(folder.path + "/" + memory.name(i) == files.name(i));
        CHECK(memory.label(i) == files.label(i));
        CHECK(std::memcmp(memory.read(i)->data(), files.read(i)->data(), 3) == 0);
    }
    CHECK(memory.tag(0).value() != memory.tag(1).value());
    CHECK(memory.tag(0).value() == dataset_of({held(picture(0), 0, "again")}, {"a"})->tag(0).value());
    for (const std::uint64_t seed : {0, 7}) {
        dataset_options how;
        how.seed = seed;
        const dataset_splits from_files = open_splits(folder.path, how).value(), drawn = draw_splits(memory, how).value();
        CHECK(!drawn.validation_given);
        REQUIRE(drawn.validation.size() == 6);
        REQUIRE(drawn.training.size() == from_files.training.size());
        for (std::int64_t i = 0; i < 6; ++i) CHECK(folder.path + "/" + drawn.validation.name(i) == from_files.validation.name(i));
    }
}

TEST_CASE("Copies in memory lie on one side of the draw") {
    std::vector<labelled_picture> pictures;
    for (int label = 0; label < 2; ++label)
        for (int i = 0; i < 10; ++i) pictures.push_back(held(picture(label * 100 + i / 2), label, std::to_string(label) + "/" + std::to_string(i)));
    const dataset_splits drawn = draw_splits(dataset_of(pictures, {"a", "b"}).value()).value();
    CHECK(drawn.copies == 10);
    for (std::int64_t i = 0; i < drawn.validation.size(); ++i)
        for (std::int64_t k = 0; k < drawn.training.size(); ++k) CHECK(drawn.validation.tag(i).value() != drawn.training.tag(k).value());
}

TEST_CASE("Pixels in memory are read as they are, gray ones as RGB") {
    const dataset data = dataset_of({pixels("abcdefghijkl", 2, 2, 3), pixels("pq", 1, 2, 1)}, {"one"}).value();
    const image colored = data.read(0).value(), gray = data.read(1).value();
    CHECK(colored.height == 2);
    CHECK(std::memcmp(colored.data(), "abcdefghijkl", 12) == 0);
    CHECK(std::memcmp(gray.data(), "pppqqq", 6) == 0);
}

TEST_CASE("What is no dataset in memory is refused") {
    const std::vector<std::string> two = {"a", "b"};
    CHECK(refusal({}, two) == errc::data_no_classes);
    CHECK(refusal({held(picture(1), 0, "x")}, two) == errc::data_empty_class);
    CHECK(refusal({held(picture(1), 2, "x")}, two) == errc::data_label_range);
    CHECK(refusal({held(picture(1), -1, "x")}, two) == errc::data_label_range);
    CHECK(refusal({held("", 0, "x")}, two) == errc::usage);
    CHECK(refusal({pixels("abc", 2, 2, 3)}, {"a"}) == errc::usage);
    CHECK(refusal({pixels("abcd", 2, 2, 2)}, {"a"}) == errc::usage);
    CHECK(refusal({pixels("abc", 1, -1, 3)}, {"a"}) == errc::image_dimensions);
    dataset_options few;
    few.limits.image_bytes = 4;
    CHECK(refusal({held(picture(1), 0, "x")}, {"a"}, few) == errc::image_budget);
    dataset_options empty;
    empty.allow_empty = true;
    CHECK(dataset_of({held(picture(1), 0, "x")}, two, empty).ok());
    const auto one_class = draw_splits(dataset_of({held(picture(1), 0, "x")}, {"a"}).value());
    REQUIRE(!one_class.ok());
    CHECK(one_class.error().code() == errc::data_no_classes);
    CHECK(draw_splits(dataset()).error().code() == errc::data_no_classes);
}
