#include "pictures.hpp"
#include "../skipped.hpp"

#include <graft/core/read_file.hpp>
#include <graft/data/deflate.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

using namespace graft;

namespace {

bool has_jpeg() { return verdict(golden_file("jpeg gray")) != "image.no_decoder"; }
bool is_webp(const std::string& name) { return name.compare(0, 4, "webp") == 0; }

std::string png_chunk(const std::string& type, const std::string& body) {
    const auto number = [](std::uint32_t n) {
        return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
                           static_cast<char>(n)};
    };
    return number(static_cast<std::uint32_t>(body.size())) + type + body +
           number(crc_of((type + body).data(), type.size() + body.size()));
}

std::string png_of(std::uint32_t width, std::uint32_t height, const std::string& rest) {
    std::string header(13, '\0');
    for (std::size_t i = 0; i < 4; ++i) {
        header[i] = static_cast<char>(width >> (24 - 8 * i));
        header[4 + i] = static_cast<char>(height >> (24 - 8 * i));
    }
    header[8] = 8;
    header[9] = 2;
    return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + rest + png_chunk("IEND", "");
}

} // namespace

TEST_CASE("small pictures of every kind have Pillow's pixels") {
    for (const golden_picture& golden : golden_pictures) {
        CAPTURE(golden.name);
        if (golden.pixels && !has_jpeg()) continue;
        const std::string file = from_base64(golden.file);
        if (is_webp(golden.name) && !GRAFT_HAS_LIBWEBP) {
            CHECK(verdict(file) == "image.unsupported");
            continue;
        }
        const auto decoded = decode(file.data(), file.size(), golden.name);
        REQUIRE(decoded.ok());
        const image& picture = decoded.value();
        REQUIRE(picture.height == golden.height);
        REQUIRE(picture.width == golden.width);
        REQUIRE(picture.channels == 3);
        if (!golden.pixels) {
            CHECK(crc_of(picture) == golden.crc);
            continue;
        }
        const std::string expected = from_base64(golden.pixels);
        double sum = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
            sum += std::abs(int(picture.data()[i]) - int(static_cast<std::uint8_t>(expected[i])));
        CHECK(sum / static_cast<double>(expected.size()) <= 0.6);
#if GRAFT_HAS_LIBJPEG
        CHECK(sum <= 0.05 * static_cast<double>(expected.size()));
#endif
    }
}

TEST_CASE("a file cut anywhere is an error, never a half-gray picture") {
    for (const char* name :
         {"png colour 2 depth 8", "png palette depth 4", "png split into many chunks", "jpeg 4:2:0",
          "png interlaced, rgb, 11x9", "png animated", "jpeg 4:4:4, progressive, exif 6", "jpeg cmyk without a marker", "bmp 32 bits", "ppm", "pgm of 16 bits",
          "webp lossless", "webp lossy", "webp lossy, with alpha", "webp exif 6", "webp animated"}) {
        const std::string file = golden_file(name);
        CAPTURE(name);
        REQUIRE(file.size() > 10);
        for (std::size_t n = 0; n < file.size(); ++n) {
            CAPTURE(n);
            CHECK(verdict(file.substr(0, n)) != "ok");
        }
    }
    CHECK(verdict("") == "image.truncated");
    CHECK(verdict(golden_file("png colour 2 depth 8").substr(0, 60)) == "image.truncated");
    CHECK(verdict(golden_file("jpeg 4:2:0").substr(0, 400)) == "image.truncated");
}

TEST_CASE("any byte may be wrong and nothing breaks") {
    for (const golden_picture& golden : golden_pictures) {
        std::string file = from_base64(golden.file);
        for (std::size_t i = 0; i < file.size(); ++i)
            for (int flip : {1, 128, 255}) {
                file[i] = static_cast<char>(file[i] ^ flip);
                limits caps;
                caps.image_pixels = 1 << 16;
                (void)verdict(file, caps);
                file[i] = static_cast<char>(file[i] ^ flip);
            }
    }
}

TEST_CASE("checksums of what is used are checked") {
    std::string file = golden_file("png colour 2 depth 8");
    file[file.size() - 16] = static_cast<char>(file[file.size() - 16] ^ 1); // the last byte of IDAT's checksum or body
    CHECK(verdict(file) == "image.malformed");
}

TEST_CASE("sizes are refused before anything is allocated for them") {
    CHECK(verdict(png_of(0, 5, "")) == "image.dimensions");
    CHECK(verdict(png_of(5, 0, "")) == "image.dimensions");
    CHECK(verdict(png_of(40000, 40000, "")) == "image.dimensions");
    CHECK(verdict(png_of(16384, 16384, "")) == "image.budget");
    CHECK(verdict(png_of(0xffffffff, 0xffffffff, "")) == "image.dimensions");
    CHECK(verdict("P6 99999 1 255\n") == "image.dimensions");
    CHECK(verdict("P6 8000 8000 255\n") == "image.truncated");
    limits caps;
    caps.image_pixels = 41;
    CHECK(verdict(golden_file("png colour 2 depth 8"), caps) == "image.budget");
    caps = {};
    caps.image_bytes = 10;
    CHECK(verdict(golden_file("png colour 2 depth 8"), caps) == "image.budget");
}

TEST_CASE("what a PNG file holds beside the picture is not unpacked, nor what lies behind its last row") {
    const std::string file = golden_file("png colour 2 depth 8");
    const std::uint32_t crc = crc_of(decode(file.data(), file.size(), "test").value());
    const auto crc_with = [](const std::string& bytes) {
        const auto decoded = decode(bytes.data(), bytes.size(), "test");
        return decoded.ok() ? crc_of(decoded.value()) : 0;
    };
    // No zlib streams: whoever unpacked them would find them damaged.
    for (const char* type : {"zTXt", "iTXt", "iCCP"}) {
        CAPTURE(type);
        const std::string body = std::string("Comment\0", 8) + (type[1] == 'T' && type[0] == 'i' ? std::string("\1\0\0\0", 4) : std::string("\0", 1));
        CHECK(crc_with(file.substr(0, 33) + png_chunk(type, body + "\x78\x9c no stream") + file.substr(33)) == crc);
    }
    // Sixteen million zeros behind a picture of one pixel.
    std::string rows("\0\x07\x08\x09", 4);
    rows.resize(std::size_t(1) << 24);
    const std::string packed = zlib_compress(rows.data(), rows.size());
    REQUIRE(packed.size() < rows.size() / 100);
    CHECK(verdict(png_of(1, 1, png_chunk("IDAT", packed))) == "ok");
}

TEST_CASE("a progressive file of too many scans is refused unread") {
    if (!has_jpeg()) return;
    std::string file = golden_file("jpeg 4:4:4, progressive, exif 6");
    const std::size_t scan = file.rfind("\xff\xda");
    REQUIRE(scan != std::string::npos);
    const std::string last = file.substr(scan, file.size() - 2 - scan);
    file.resize(file.size() - 2);
    for (int i = 0; i < 600; ++i) file += last;
    CHECK(verdict(file + "\xff\xd9") == "image.budget");
    limits caps;
    caps.image_scans = 3;
    CHECK(verdict(golden_file("jpeg 4:4:4, progressive, exif 6"), caps) == "image.budget");
}

TEST_CASE("what a WebP file says of itself is not believed") {
    if (!GRAFT_HAS_LIBWEBP) {
        say_skipped("this build has no libwebp");
        return;
    }
    const auto with = [](const char* name, std::size_t at, const std::string& bytes) { return golden_file(name).replace(at, bytes.size(), bytes); };
    // The canvas of an extended file, from the 24th byte on: its sides less one, three bytes each.
    CHECK(verdict(with("webp animated", 24, std::string("\xff\xff\x00", 3))) == "image.dimensions");
    CHECK(verdict(with("webp animated", 24, std::string("\xff\x3f\0\xff\x3f\0", 6))) == "image.budget");
    CHECK(verdict(with("webp exif 6", 24, std::string("\x05", 1))) == "image.malformed");
    CHECK(verdict(with("webp animated, a small first frame", 24, std::string("\x11", 1))) == "image.malformed");
    CHECK(verdict(with("webp animated, a small first frame", 24, std::string("\x14\0\0\x11", 4))) == "ok");
    // Sides of a lossy picture stand in 14 bits each behind its start code, those of a lossless one in its first bytes.
    const std::size_t lossy = golden_file("webp lossy").find(std::string("\x9d\x01\x2a", 3));
    REQUIRE(lossy != std::string::npos);
    limits caps;
    caps.image_pixels = 1 << 20;
    CHECK(verdict(with("webp lossy", lossy + 3, "\xff\x3f\xff\x3f"), caps) == "image.budget");
    CHECK(verdict(with("webp lossy", lossy + 3, std::string("\0\0", 2))) != "ok");
    CHECK(verdict(with("webp lossless", 21, "\xff\xff\xff\x0f"), caps) == "image.budget");
    // Whole for the file's own lengths, cut within the picture: what is missing is not made up.
    for (const char* name : {"webp lossless", "webp lossy", "webp lossy, large"}) {
        const std::string file = golden_file(name);
        const auto length = [](std::size_t n) { return std::string{static_cast<char>(n & 255), static_cast<char>(n >> 8 & 255), 0, 0}; };
        for (std::size_t gone = 4; gone < 60; gone += 2) {
            const std::size_t n = file.size() - gone;
            std::string cut = file.substr(0, n);
            cut.replace(4, 4, length(n - 8)).replace(16, 4, length(n - 20));
            CAPTURE(name);
            CAPTURE(gone);
            CHECK(verdict(cut) != "ok");
        }
    }
}

TEST_CASE("ten thousand changes of WebP files break nothing") {
    if (!GRAFT_HAS_LIBWEBP) {
        say_skipped("this build has no libwebp");
        return;
    }
    const char* names[] = {"webp lossless", "webp lossless, few colours", "webp lossy, large", "webp lossy, with alpha", "webp exif 6", "webp animated",
                           "webp animated, a small first frame"};
    constexpr std::size_t count = sizeof names / sizeof names[0];
    std::string files[count];
    for (std::size_t i = 0; i < count; ++i) REQUIRE(!(files[i] = golden_file(names[i])).empty());
    std::uint32_t state = 1;
    const auto random = [&state](std::size_t below) { return (state = state * 1664525u + 1013904223u) / 65536u % static_cast<std::uint32_t>(below); };
    limits caps;
    caps.image_pixels = 1 << 20;
    int decoded = 0;
    for (int i = 0; i < 10000; ++i) {
        std::string file = files[i % static_cast<int>(count)];
        for (std::uint32_t changes = 1 + random(4); changes; --changes) {
            const std::size_t at = random(3) ? random(file.size()) : random(std::min<std::size_t>(60, file.size()));
            if (random(8) == 0)
                file.erase(at, 1 + random(8));
            else if (random(8) == 0)
                file.insert(at, files[random(count)], random(40), 1 + random(16));
            else
                file[at] = static_cast<char>(random(256));
            if (file.empty()) file = "R";
        }
        decoded += verdict(file, caps) == "ok";
    }
    CHECK(decoded > 100); // or the changes never reached the picture
    CHECK(decoded < 9000);
}

TEST_CASE("what cannot be decoded is told by its content, and what converts it") {
    const auto detail = [](const std::string& file) {
        const auto decoded = decode(file.data(), file.size(), "picture.jpg");
        return decoded.ok() ? std::string() : std::string(decoded.error().what());
    };
    CHECK(detail("GIF89a......") == "image.unsupported: picture.jpg: this is a GIF picture; `magick 'a.gif[0]' a.png` makes a PNG of it");
    if (!GRAFT_HAS_LIBWEBP)
        CHECK(detail(golden_file("webp lossy")).find("; `dwebp a.webp -o a.png` makes a PNG of it") != std::string::npos);
    CHECK(detail(std::string("II*\0\0\0\0\0", 8)).find("TIFF") != std::string::npos);
    CHECK(detail(std::string("\0\0\0\x1c"
                             "ftypavif",
                             12))
              .find("this is an AVIF picture; `avifdec a.avif a.png` makes a PNG of it") != std::string::npos);
    CHECK(detail(std::string("\xff\x0a\0\0", 4)).find("djxl") != std::string::npos);
    CHECK(detail(std::string("8BPS\0\1", 6)).find("PSD") != std::string::npos);
    CHECK(detail("<!DOCTYPE html><html><body>404</body></html>").find("a download may have got a page about it") != std::string::npos);
    CHECK(detail(std::string("\0\0\0\x18"
                             "ftypheic",
                             12))
              .find("this is a HEIC picture; `heif-convert a.heic a.jpg` makes a JPEG of it") != std::string::npos);
    CHECK(detail("<?xml version=\"1.0\"?><svg xmlns=\"\"/>").find("rsvg-convert") != std::string::npos);
    CHECK(detail(std::string("\0\0\0\x0cjP  \r\n\x87\n", 12)).find("JPEG 2000") != std::string::npos);
    CHECK(detail("hello, I am no picture").find("image.unsupported") == 0);
    std::string jpeg = golden_file("jpeg 4:2:0");
    const std::size_t frame = jpeg.find("\xff\xc0");
    REQUIRE(frame != std::string::npos);
    const char* kinds[3] = {"lossless", "arithmetic", "hierarchical"};
    const char markers[3] = {'\xc3', '\xc9', '\xc5'};
    for (int i = 0; i < 3; ++i) {
        jpeg[frame + 1] = markers[i];
        CHECK(detail(jpeg).find(kinds[i]) != std::string::npos);
    }
    jpeg[frame + 1] = '\xc0';
    jpeg[frame + 4] = 12;
    CHECK(detail(jpeg).find("image.unsupported: picture.jpg: JPEG: 12 bits") == 0);
}

TEST_CASE("files that are not there, or no files, have their code") {
    CHECK(decode_file("/nowhere/at all.png").error().code() == errc::image_open);
    CHECK(decode_file("/").error().code() == errc::image_open);
    CHECK(decode_file(std::string("a\0b", 3)).error().code() == errc::image_open);
}

TEST_CASE("every hostile picture at hand is answered") {
    const char* shared = std::getenv("GRAFT_SHARED");
    const std::string folder = std::string(shared ? shared : "../shared") + "/pack/hostile/images/made/";
    const auto list = read_file(folder + "expected.tsv", 1 << 20, errc::file_open, errc::memory_budget);
    if (!list.ok()) {
        say_skipped("no hostile pictures at " + folder);
        return;
    }
    for (std::size_t at = 0; at < list.value().size();) {
        const std::size_t end = list.value().find('\n', at);
        const std::string line = list.value().substr(at, end - at);
        at = end == std::string::npos ? list.value().size() : end + 1;
        const std::size_t tab = line.find('\t');
        if (tab == std::string::npos) continue;
        const std::string name = line.substr(0, tab);
        CAPTURE(name);
        const bool ok = decode_file(folder + name).ok();
        if (line.compare(tab + 1, 6, "accept") == 0) CHECK(ok);
        if (line.compare(tab + 1, 6, "reject") == 0) CHECK(!ok);
    }
}
