#include "pictures.hpp"

#include <graft/data/preprocess.hpp>

#include <doctest/doctest.h>

using namespace graft;

namespace {

std::string round_trip(const std::string& spec) { return text(parse_preprocess(spec).value()); }

preprocess_spec spec_of(const char* spec) { return parse_preprocess(spec).value(); }

input_format model_input(dtype type, const shape& extents) {
    input_format model;
    model.type = type;
    model.extents = extents;
    model.known = true;
    return model;
}

}  // namespace

TEST_CASE("a specification reads back as it was written") {
    CHECK(round_trip("crop=224,fraction=0.875,imagenet") ==
          "fraction=0.875,crop=224x224,filter=bilinear,order=rgb,mean=123.675:116.28:103.53,std=58.395:57.12:57.375");
    CHECK(round_trip("crop=224,fraction=0.875,mean=128,scale=0.0078125") == "fraction=0.875,crop=224x224,filter=bilinear,mean=128,scale=0.0078125");
    CHECK(round_trip("caffe,resize=300x200,filter=lanczos,layout=nhwc,dtype=int8") ==
          "resize=300x200,filter=lanczos,order=bgr,mean=103.939:116.779:123.68,std=1,layout=nhwc,dtype=int8");
    CHECK(round_trip("resize=none,crop=none,order=gray,unit") == "resize=none,crop=none,filter=bilinear,order=gray,mean=0,std=255");
    for (const char* spec : {"raw", "signed,crop=7x9,resize=12", "mean=-1e-3:.5:7.,scale=3e20", "fraction=0.1,crop=1", "dtype=float16,std=0.333333343"})
        CHECK(round_trip(round_trip(spec)) == round_trip(spec));
}

TEST_CASE("later items win") {
    CHECK(round_trip("resize=40,fraction=0.5") == "fraction=0.5,filter=bilinear,mean=0,std=1");
    CHECK(round_trip("fraction=0.5,resize=40") == "resize=40,filter=bilinear,mean=0,std=1");
    CHECK(round_trip("scale=2,std=3") == "fraction=0.875,filter=bilinear,mean=0,std=3");
    CHECK(round_trip("imagenet,raw") == "fraction=0.875,filter=bilinear,order=rgb,mean=0,std=1");
}

TEST_CASE("what is wrong with a specification is named") {
    for (const char* item : {"nonsense",
                             "size=3",
                             "crop=",
                             "crop=0",
                             "crop=-3",
                             "crop=3x",
                             "crop=3x4x5",
                             "crop=999999999999",
                             "crop=224resize=256",
                             "resize=a",
                             "fraction=0",
                             "fraction=1.5",
                             "fraction=nan",
                             "mean=1:2",
                             "mean=1:2:3:4",
                             "mean=",
                             "mean=1;2",
                             "mean=1e",
                             "mean=1e+",
                             "mean=1e-",
                             "mean=1e400",
                             "mean=.",
                             "mean=12345678901234567890123456789012345678901234567890123456789012345",
                             "resize=x5",
                             "resize=5x",
                             "resize=0",
                             "resize=0x5",
                             "crop=5x0",
                             "resize=16385",
                             "crop=5x16385",
                             "crop=123456",
                             "mean=inf",
                             "mean=0x10",
                             "std=0",
                             "std=1:0:1",
                             "std=1e-60",
                             "scale=1e39",
                             "filter=cubic",
                             "order=abc",
                             "layout=chwn",
                             "dtype=float64",
                             "raw=1",
                             "imagenet unit"}) {
        CAPTURE(item);
        const auto parsed = parse_preprocess(std::string("crop=224,") + item);
        REQUIRE(!parsed.ok());
        CHECK(parsed.error().code() == errc::usage_preprocess);
        CHECK(parsed.error().where() == item);
    }
    CHECK(spec_of("mean=+1:1E2:-2.5e-1").mean[0] == 1);
    CHECK(spec_of("mean=+1:1E2:-2.5e-1").mean[1] == 100);
    CHECK(spec_of("mean=+1:1E2:-2.5e-1").mean[2] == -0.25f);
    CHECK(spec_of("mean=1e+2").mean[2] == 100);
    CHECK(spec_of("crop=1x16384").crop_width == 16384);
    CHECK(!parse_preprocess("").ok());
    CHECK(!parse_preprocess("raw,").ok());
}

TEST_CASE("what the specification leaves open, the model decides") {
    const preprocess_spec raw = parse_preprocess("raw").value();
    CHECK(text(complete(raw, model_input(dtype::uint8, {1, 224, 200, 3})).value()) ==
          "fraction=0.875,crop=224x200,filter=bilinear,order=rgb,mean=0,std=1,layout=nhwc,dtype=uint8");
    CHECK(text(complete(raw, model_input(dtype::float32, {-1, 1, 28, 28})).value()) ==
          "fraction=0.875,crop=28x28,filter=bilinear,order=gray,mean=0,std=1,layout=nchw,dtype=float32");
    CHECK(complete(raw).error().code() == errc::usage_preprocess);
    CHECK(complete(raw, model_input(dtype::float32, {1, 3, -1, -1})).error().code() == errc::usage_preprocess);
    CHECK(complete(raw, model_input(dtype::float32, {1, 10})).error().code() == errc::input_shape);
    CHECK(complete(raw, model_input(dtype::boolean, {1, 3, 8, 8})).error().code() == errc::input_dtype);
    CHECK(complete(parse_preprocess("resize=20x30").value()).ok());
}

TEST_CASE("values are normalised in float32, in the order of the output's channels") {
    image picture = image::make(2, 2, 3).value();
    for (int i = 0; i < 12; ++i) picture.data()[i] = static_cast<std::uint8_t>(20 * i);
    const tensor rgb = preprocess(picture, spec_of("resize=2x2,mean=1:2:3,std=2:4:5")).value();
    CHECK(rgb.shape() == shape{1, 3, 2, 2});
    CHECK(rgb.data<float>()[0] == (0.0f - 1.0f) / 2.0f);
    CHECK(rgb.data<float>()[3] == (180.0f - 1.0f) / 2.0f);
    CHECK(rgb.data<float>()[4] == (20.0f - 2.0f) / 4.0f);
    CHECK(rgb.data<float>()[11] == (220.0f - 3.0f) / 5.0f);
    const tensor bgr = preprocess(picture, spec_of("resize=2x2,order=bgr,layout=nhwc,mean=1:2:3,scale=2")).value();
    CHECK(bgr.shape() == shape{1, 2, 2, 3});
    CHECK(bgr.data<float>()[0] == (40.0f - 1.0f) * 2.0f);
    CHECK(bgr.data<float>()[11] == (180.0f - 3.0f) * 2.0f);
}

TEST_CASE("integers are rounded half to even and clamped") {
    image picture = image::make(1, 4, 3).value();
    const std::uint8_t values[4] = {1, 3, 0, 255};
    for (int x = 0; x < 4; ++x)
        for (int c = 0; c < 3; ++c) picture.data()[3 * x + c] = values[x];
    const tensor half = preprocess(picture, spec_of("resize=none,crop=none,std=2,dtype=uint8")).value();
    CHECK(half.data<std::uint8_t>()[0] == 0);
    CHECK(half.data<std::uint8_t>()[1] == 2);
    const tensor shifted = preprocess(picture, spec_of("resize=none,crop=none,mean=129,dtype=int8")).value();
    CHECK(shifted.data<std::int8_t>()[2] == -128);
    CHECK(shifted.data<std::int8_t>()[3] == 126);
    const tensor wide = preprocess(picture, spec_of("resize=none,crop=none,scale=3,dtype=int8")).value();
    CHECK(wide.data<std::int8_t>()[3] == 127);
}

TEST_CASE("the shorter side is resized, and the crop is in the middle") {
    const image picture = noise(40, 61, 3);
    const image ready = resize_and_crop(picture, spec_of("resize=20,crop=18x21")).value();
    CHECK(ready.height == 18);
    CHECK(ready.width == 21);
    const image whole = resize(picture, 20, 30, filter::bilinear).value();  // 20 * 61 / 40 = 30.5, to even
    CHECK(crc_of(ready) == crc_of(crop(whole, 1, 4, 18, 21).value()));
    CHECK(preprocess(picture, spec_of("resize=none,crop=41x10,raw")).error().code() == errc::preprocess_crop);
    CHECK(preprocess(noise(1, 2000, 1), spec_of("resize=16384,crop=none,raw")).error().code() == errc::image_budget);
}

TEST_CASE("gray takes one mean, and is made before the resize") {
    const image picture = noise(16, 16, 3);
    const tensor gray = preprocess(picture, spec_of("resize=5x5,order=gray,raw,dtype=uint8")).value();
    CHECK(gray.shape() == shape{1, 1, 5, 5});
    const image expected = resize(to_gray(picture).value(), 5, 5).value();
    CHECK(std::memcmp(gray.raw(), expected.data(), 25) == 0);
    CHECK(preprocess(picture, spec_of("resize=5x5,imagenet,order=gray")).error().code() == errc::usage_preprocess);
}
