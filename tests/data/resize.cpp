#include "pictures.hpp"

#include <graft/data/resize.hpp>

#include <doctest/doctest.h>

using namespace graft;

TEST_CASE("resizing equals Pillow bit for bit") {
    for (const golden_resize& golden : golden_resizes) {
        CAPTURE(golden.filter);
        CAPTURE(golden.height);
        CAPTURE(golden.to_height);
        const image made =
            resize(noise(golden.height, golden.width, golden.channels), golden.to_height, golden.to_width, static_cast<filter>(golden.filter)).value();
        CHECK(made.height == golden.to_height);
        CHECK(made.width == golden.to_width);
        CHECK(crc_of(made) == golden.crc);
    }
}

TEST_CASE("a window is what a crop of the whole would be") {
    for (const golden_resize& golden : golden_resizes) {
        const image source = noise(golden.height, golden.width, golden.channels);
        const auto kernel = static_cast<filter>(golden.filter);
        const std::int64_t top = golden.to_height / 3, left = golden.to_width / 4, h = golden.to_height - top, w = golden.to_width - left - golden.to_width / 5;
        const image whole = resize(source, golden.to_height, golden.to_width, kernel).value();
        CHECK(crc_of(resize_window(source, golden.to_height, golden.to_width, kernel, top, left, h, w).value()) ==
              crc_of(crop(whole, top, left, h, w).value()));
    }
}

TEST_CASE("resizing to the same size changes nothing, and to none is an error") {
    const image source = noise(9, 4, 3);
    CHECK(crc_of(resize(source, 9, 4, filter::lanczos).value()) == crc_of(source));
    CHECK(resize(source, 0, 4).error().code() == errc::image_dimensions);
    CHECK(resize(image(), 3, 4).error().code() == errc::image_dimensions);
    CHECK(resize_window(source, 20, 20, filter::box, 10, 10, 11, 5).error().code() == errc::preprocess_crop);
}
