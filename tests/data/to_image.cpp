// Tensors as pictures, held against torchvision.utils.save_image (scripts/golden/to_image.py), and PNG files of them.
#include "pictures.hpp"

#include "../file_contents.hpp"

#include <graft/data/png_encode.hpp>
#include <graft/data/to_image.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <limits>

using namespace graft;

namespace {

// torch.arange(3 * 11 * 13).mul(0.0073).sub(0.7)
tensor ramp(const shape& extents) {
    tensor t = tensor::make(dtype::float32, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = static_cast<float>(i) * 0.0073f - 0.7f;
    return t;
}
image as_rgb(const image& gray) {
    image rgb = image::make(gray.height, gray.width, 3);
    for (std::int64_t i = 0; i < rgb.bytes(); ++i) rgb.data()[i] = gray.data()[i / 3];
    return rgb;
}

}  // namespace

TEST_CASE("a tensor becomes the picture that torchvision saves of it") {
    CHECK(crc_of(to_image(ramp({3, 11, 13})).value()) == 0x34bdc5fe);
    tensor wide = tensor::make(dtype::float64, {1, 3, 11, 13});
    for (std::int64_t i = 0; i < wide.elements(); ++i) wide.data<double>()[i] = 255 * static_cast<double>(ramp({3, 11, 13}).data<float>()[i]);
    CHECK(crc_of(to_image(wide, 0, 255).value()) == 0x34bdc5fe);
    tensor second = tensor::make(dtype::float32, {1, 11, 13});
    std::memcpy(second.raw(), ramp({3, 11, 13}).data<float>() + 11 * 13, second.bytes());
    const image gray = to_image(second);
    CHECK(gray.channels == 1);
    CHECK(crc_of(as_rgb(gray)) == 0x3e018484);
}

TEST_CASE("the place of the channels makes no difference, nor do leading extents of 1") {
    const image want = to_image(ramp({3, 11, 13}));
    const tensor planes = ramp({3, 11, 13});
    tensor rows = tensor::make(dtype::float32, {11, 13, 3});
    for (std::int64_t i = 0; i < 143; ++i)
        for (std::int64_t c = 0; c < 3; ++c) rows.data<float>()[i * 3 + c] = planes.data<float>()[c * 143 + i];
    for (const tensor& t : {rows, rows.reshaped({1, 11, 13, 3}), planes.reshaped({1, 1, 3, 11, 13})}) CHECK(crc_of(to_image(t).value()) == crc_of(want));
    const image flat = to_image(ramp({11, 13}));
    CHECK(flat.channels == 1);
    for (const shape& s : {shape{1, 11, 13}, shape{11, 13, 1}, shape{1, 1, 11, 13}}) CHECK(crc_of(to_image(ramp(s)).value()) == crc_of(flat));
    const image first = to_image(ramp({3, 5, 3}));
    CHECK(first.height == 5);
}

TEST_CASE("uint8 is taken as it is, and what no pixel can be becomes the nearest one") {
    const image noisy = noise(4, 5, 3);
    const tensor bytes = tensor::borrow(noisy.data(), {4, 5, 3});
    CHECK(crc_of(to_image(bytes).value()) == crc_of(noisy));
    const float odd[] = {-1, 2, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf(""), 0.5f};
    const image made = to_image(tensor::from(odd, {1, 6}).value());
    const int want[] = {0, 255, 255, 0, 0, 128};
    for (int i = 0; i < 6; ++i) CHECK(made.data()[i] == want[i]);
}

TEST_CASE("what is no picture is refused") {
    for (const shape& s : {shape{}, shape{5}, shape{2, 3, 4, 5}, shape{2, 4, 5}, shape{4, 4, 5}, shape{3, 0, 4}, shape{2, 3, 4, 5, 3}})
        CHECK(to_image(tensor::zeros(dtype::float32, s).value()).error().code() == errc::input_shape);
    for (const dtype type : {dtype::int64, dtype::boolean, dtype::int8})
        CHECK(to_image(tensor::zeros(type, {4, 4}).value()).error().code() == errc::input_dtype);
    CHECK(to_image(tensor()).error().code() == errc::input_dtype);
    CHECK(to_image(ramp({4, 4}), 1, 1).error().code() == errc::usage);
    CHECK(to_image(ramp({4, 4}), 0, std::nan("")).error().code() == errc::usage);
}

TEST_CASE("a PNG file is written whole, or the one that was there stays") {
    const std::string path = "graft_write_png_test.png";
    const image picture = noise(9, 7, 3);
    CHECK(write_png(path, picture).ok());
    CHECK(file_contents(path) == encode_png(picture).value());
    CHECK(write_png(path, image()).error().code() == errc::image_dimensions);
    CHECK(file_contents(path) == encode_png(picture).value());
    CHECK(write_png("no such folder/x.png", picture).error().code() == errc::file_write);
    std::remove(path.c_str());
}
