// PNG files and zlib streams that graft writes, read back by graft's own readers, which are held against Pillow. With GRAFT_PNG_DIR set
// they are left there as well, for `python scripts/golden/augment.py DIR` to hold against Pillow and zlib themselves.
#include "pictures.hpp"

#include <graft/data/deflate.hpp>
#include <graft/data/inflate.hpp>
#include <graft/data/png_encode.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

using namespace graft;

namespace {

bool collect(void* context, const std::uint8_t* bytes, std::size_t n) {
    static_cast<std::string*>(context)->append(reinterpret_cast<const char*>(bytes), n);
    return true;
}

std::string unpacked(const std::string& stream) {
    std::string out;
    detail::inflater reader(reinterpret_cast<const std::uint8_t*>(stream.data()) + 2, stream.size() - 6, collect, &out);
    return reader.run() == detail::inflate_end::done && reader.consumed() == stream.size() - 6 ? out : "not a stream";
}

void leave_behind(const std::string& name, const std::string& bytes) {
    const char* folder = std::getenv("GRAFT_PNG_DIR");
    if (!folder) return;
    std::FILE* file = std::fopen((std::string(folder) + "/" + name).c_str(), "wb");
    REQUIRE(file);
    CHECK(std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
    std::fclose(file);
}

// A picture with flat, smooth and noisy parts, so that every filter and every kind of code has work.
image mixed(std::int64_t height, std::int64_t width, int channels) {
    image made = noise(height, width, channels);
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t i = 0; i < made.stride(); ++i) {
            if (y % 7 < 3) made.row(y)[i] = static_cast<std::uint8_t>(i + 3 * y);
            if (y % 7 == 4) made.row(y)[i] = 200;
        }
    return made;
}

}  // namespace

TEST_CASE("a zlib stream inflates to what was compressed") {
    std::string text;
    for (int i = 0; i < 9000; ++i) text += "graft " + std::to_string(i * i % 977);
    std::string far = text.substr(0, 300) + std::string(32768 - 300, 'x') + text.substr(0, 300);
    const image random = noise(300, 300, 3);
    const std::string incompressible(reinterpret_cast<const char*>(random.data()), static_cast<std::size_t>(random.bytes()));
    std::string skewed;  // counts like Fibonacci numbers ask for codes longer than 15 bits
    for (int symbol = 0, a = 1, b = 1; symbol < 24; ++symbol, b += a, a = b - a)
        for (int i = 0; i < a && skewed.size() < 120000; ++i) skewed.insert(skewed.size() * 7919 % (skewed.size() + 1), 1, static_cast<char>(symbol * 3));
    int n = 0;
    for (const std::string& bytes : {std::string(), std::string("a"), std::string(100000, '\0'), text, far, incompressible, skewed}) {
        const std::string stream = zlib_compress(bytes.data(), bytes.size());
        CHECK(unpacked(stream) == bytes);
        CHECK(stream.size() < bytes.size() + bytes.size() / 50 + 100);
        leave_behind("stream" + std::to_string(n) + ".zlib", stream);
        leave_behind("stream" + std::to_string(n++) + ".bin", bytes);
    }
    CHECK(zlib_compress(text.data(), text.size()).size() < text.size() / 3);
    const std::string wiki = "Wikipedia";
    CHECK(detail::adler32(reinterpret_cast<const std::uint8_t*>(wiki.data()), wiki.size()) == 0x11e60398u);
}

TEST_CASE("a PNG file decodes to the picture that was encoded") {
    for (const int channels : {1, 3})
        for (const auto& side : {1, 2, 7, 64, 301}) {
            const image picture = mixed(side, side * 2 - 1, channels);
            const std::string file = encode_png(picture).value();
            const image back = decode(file.data(), file.size(), "test").value();
            REQUIRE(back.height == picture.height);
            REQUIRE(back.width == picture.width);
            if (channels == 3) CHECK(crc_of(back) == crc_of(picture));
            if (channels == 1) CHECK(crc_of(to_gray(back).value()) == crc_of(picture));
            const std::string name = std::to_string(channels) + "_" + std::to_string(side);
            leave_behind("picture" + name + ".png", file);
            leave_behind("picture" + name + ".raw", {reinterpret_cast<const char*>(picture.data()), static_cast<std::size_t>(picture.bytes())});
        }
}

TEST_CASE("a smooth picture becomes a small file") {
    image picture = image::make(256, 256, 3).value();
    for (std::int64_t y = 0; y < 256; ++y)
        for (std::int64_t x = 0; x < 256; ++x)
            for (int c = 0; c < 3; ++c) picture.row(y)[x * 3 + c] = static_cast<std::uint8_t>((x * (c + 1) + y) / 2);
    CHECK(encode_png(picture).value().size() < 8000);
}

TEST_CASE("no picture, no PNG") {
    CHECK(encode_png(image()).error().code() == errc::image_dimensions);
    CHECK(encode_png(noise(2, 2, 4)).error().code() == errc::image_dimensions);
}
