// The confusion matrix and the most wrong pictures as pixels, and the font that names them. scripts/draw_font.py --sheet FILE shows its letters.
#include "../data/made_dataset.hpp"

#include <graft/data/decode.hpp>
#include <graft/train/draw_text.hpp>
#include <graft/train/training_pictures.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

graft::image paper(std::int64_t height, std::int64_t width) {
    graft::image made = graft::image::make(height, width, 3).value();
    graft::detail::fill(made, 0, 0, height, width, {255, 255, 255});
    return made;
}

// Pixels that are not paper, a letter each.
std::string drawn(const graft::image& picture) {
    std::string out;
    for (std::int64_t y = 0; y < picture.height; ++y) {
        for (std::int64_t x = 0; x < picture.width; ++x) out += picture.row(y)[3 * x] == 255 ? '.' : '#';
        out += '\n';
    }
    return out;
}

std::string letter(const char* text) {
    graft::image cell = paper(graft::detail::font_height, graft::detail::font_width);
    graft::detail::draw_text(cell, 0, 0, text, {0, 0, 0});
    return drawn(cell);
}

graft::classification_metrics metrics_of(std::int64_t classes, const std::vector<std::pair<int, int>>& answers) {
    graft::classification_metrics m = graft::classification_metrics::make(classes).value();
    for (const auto& a : answers) {
        std::vector<float> row(static_cast<std::size_t>(classes), 0.0f);
        row[static_cast<std::size_t>(a.second)] = 4;
        const std::int64_t label = a.first;
        REQUIRE(m.add(row.data(), &label, 1).ok());
    }
    return m;
}

bool has_color(const graft::image& picture, int red, int green, int blue) {
    for (std::int64_t i = 0; i < picture.bytes(); i += 3)
        if (picture.data()[i] == red && picture.data()[i + 1] == green && picture.data()[i + 2] == blue) return true;
    return false;
}

}  // namespace

TEST_CASE("the font has every letter of ASCII and Latin-1, no two alike") {
    std::vector<std::string> seen;
    for (std::uint32_t code = 0x20; code < 0x100; ++code) {
        if (code >= 0x7f && code < 0xa0) continue;
        std::string text;
        graft::append_utf8(text, code);
        CAPTURE(code);
        CHECK(graft::detail::can_draw(text));
        const std::string cell = letter(text.c_str());
        const bool blank = cell.find('#') == std::string::npos;
        CHECK(blank == (code == 0x20 || code == 0xa0));
        if (blank || code == 0xad) continue;  // the soft hyphen is a hyphen
        for (const std::string& other : seen) CHECK(other != cell);
        seen.push_back(cell);
    }
    CHECK(letter("T") == "........\n........\n#######.\n...#....\n...#....\n...#....\n...#....\n...#....\n...#....\n...#....\n...#....\n........\n........\n");
}

TEST_CASE("what the font lacks falls back to the number of the class") {
    CHECK(graft::detail::drawn_name("Straße", 3) == "Straße");
    CHECK(graft::detail::drawn_name("кошка", 3) == "class 3");
    CHECK(graft::detail::drawn_name("犬", 0) == "class 0");
    CHECK(graft::detail::drawn_name("a\xff", 7) == "class 7");
    CHECK(graft::detail::drawn_name("two\nlines", 1) == "class 1");
    CHECK(graft::detail::drawn_name("", 2) == "class 2");
    CHECK(graft::detail::cut_text("Grünfink", 8) == "Grünfink");
    CHECK(graft::detail::cut_text("Grünfinken", 8) == "Grünf...");
    CHECK(graft::detail::cut_text("Grünfinken", 2) == "..");
    CHECK(graft::detail::cut_text("Grünfinken", 0) == "");
}

TEST_CASE("text that leaves the picture is cut at its edges") {
    for (const std::int64_t at : {-100, -5, 0, 7, 15, 100}) {
        graft::image small = paper(16, 16);
        graft::detail::draw_text(small, at, at, "MW#@", {0, 0, 0});
        graft::detail::fill(small, at, at, 1000, 1000, {1, 2, 3});
    }
    const graft::image captioned = graft::detail::with_caption(paper(10, 40), {"a caption that is too long"}).value();
    CHECK(captioned.width == 40);
    CHECK(captioned.height == 10 + 13 + 8);
}

TEST_CASE("a confusion matrix is green where answers are right and orange where not") {
    const auto m = metrics_of(2, {{0, 0}, {0, 0}, {1, 0}});
    const graft::image all = graft::confusion_image(m, {"cat", "кошка"}).value();
    CHECK(all.channels == 3);
    CHECK(has_color(all, 42, 138, 99));  // all cats were found
    CHECK(has_color(all, 212, 89, 31));  // the only one of the other class was taken for a cat
    const auto right = metrics_of(2, {{0, 0}, {1, 1}});
    CHECK(!has_color(graft::confusion_image(right, {"a", "b"}).value(), 212, 89, 31));
    CHECK(code_of(graft::confusion_image(m, {"cat"})) == "labels.count");
    // Any number of classes, from names and counts down to a pixel each.
    for (const std::int64_t classes : {1, 12, 13, 25, 26, 60, 61, 300, 1100}) {
        std::vector<std::string> names;
        for (std::int64_t c = 0; c < classes; ++c) names.push_back("a class with a long name " + std::to_string(c));
        const graft::image picture = graft::confusion_image(metrics_of(classes, {{0, 0}}), names).value();
        CAPTURE(classes);
        CHECK(picture.width >= classes);
        CHECK(picture.width < 1400);
        CHECK(has_color(picture, 42, 138, 99));
    }
    CHECK(code_of(graft::confusion_image(graft::classification_metrics::make(5000).value(), std::vector<std::string>(5000, "x"))) == "usage");
}

TEST_CASE("the most wrong come first, and a sheet shows those that can be read") {
    const made_folder folder;
    for (const char* name : {"train/cat/1.pgm", "train/cat/2.pgm", "train/dog/3.pgm"}) folder.put(name, picture(200));
    const graft::dataset data = graft::open_dataset(folder.path).value();
    graft::evaluation_result scored;
    scored.pictures = {{0, 0, 1, 0.6f, 0.9f}, {1, 0, 0, 0.9f, 0.1f}, {2, 1, 0, 0.95f, 3.0f}};
    const auto wrong = graft::most_wrong(scored, 12);
    REQUIRE(wrong.size() == 2);
    CHECK(wrong[0].index == 2);
    CHECK(graft::most_wrong(scored, 1).size() == 1);
    const graft::image two = graft::wrong_pictures_image(data, wrong).value();
    CHECK(has_color(two, 200, 200, 200));
    std::remove((folder.path + "/train/dog/3.pgm").c_str());
    const graft::image one = graft::wrong_pictures_image(data, wrong).value();
    CHECK(one.width < two.width);
    CHECK(!graft::wrong_pictures_image(data, {}).value());
    CHECK(code_of(graft::wrong_pictures_image(data, {{5, 0, 1, 0, 0}})) == "data.label_range");
}
