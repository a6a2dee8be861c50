#include "pictures.hpp"

#include <doctest/doctest.h>

using namespace graft;

TEST_CASE("gray is Pillow's L") {
    image picture = image::make(1, 4, 3).value();
    const std::uint8_t pixels[12] = {255, 255, 255, 255, 0, 0, 0, 255, 0, 10, 20, 30};
    std::memcpy(picture.data(), pixels, 12);
    const image gray = to_gray(picture).value();
    CHECK(gray.channels == 1);
    CHECK(gray.data()[0] == 255);
    CHECK(gray.data()[1] == 76);
    CHECK(gray.data()[2] == 150);
    CHECK(gray.data()[3] == 18);
}

TEST_CASE("a crop must lie inside the picture") {
    const image picture = noise(5, 7, 3);
    const image part = crop(picture, 1, 2, 3, 4).value();
    CHECK(part.height == 3);
    CHECK(part.width == 4);
    CHECK(part.row(2)[3] == picture.row(3)[3 * 3]);
    CHECK(crop(picture, 3, 0, 3, 1).error().code() == errc::preprocess_crop);
    CHECK(crop(picture, -1, 0, 1, 1).error().code() == errc::preprocess_crop);
    CHECK(crop(picture, 0, INT64_MAX, 1, 1).error().code() == errc::preprocess_crop);
}

TEST_CASE("turns undo each other") {
    const image picture = noise(5, 7, 3);
    CHECK(crc_of(flip_horizontal(flip_horizontal(picture).value()).value()) == crc_of(picture));
    const int inverse[9] = {0, 1, 2, 3, 4, 5, 8, 7, 6};
    for (int turn = 1; turn <= 8; ++turn) {
        const image there = orient(picture, turn).value();
        CHECK(there.height == (turn >= 5 ? 7 : 5));
        CHECK(crc_of(orient(there, inverse[turn]).value()) == crc_of(picture));
    }
}

TEST_CASE("pictures without pixels are not made") {
    CHECK(image::make(0, 5, 3).error().code() == errc::image_dimensions);
    CHECK(image::make(5, INT64_MAX, 3).error().code() == errc::image_dimensions);
}
