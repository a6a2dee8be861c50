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
        return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
    };
    return number(static_cast<std::uint32_t>(body.size())) + type + body + number(crc_of((type + body).data(), type.size() + body.size()));
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

}  // namespace

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
        for (std::size_t i = 0; i < expected.size(); ++i) sum += std::abs(int(picture.data()[i]) - int(static_cast<std::uint8_t>(expected[i])));
        CHECK(sum / static_cast<double>(expected.size()) <= 0.6);
#if GRAFT_HAS_LIBJPEG
        CHECK(sum <= 0.05 * static_cast<double>(expected.size()));
#endif
    }
}

TEST_CASE("a file cut anywhere is an error, never a half-gray picture") {
    for (const char* name : {"png colour 2 depth 8", "png palette depth 4", "png split into many chunks", "jpeg 4:2:0", "png interlaced, rgb, 11x9",
                             "png animated", "jpeg 4:4:4, progressive, exif 6", "jpeg cmyk without a marker", "bmp 32 bits", "ppm", "pgm of 16 bits",
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
    file[file.size() - 16] = static_cast<char>(file[file.size() - 16] ^ 1);  // the last byte of IDAT's checksum or body
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
    // Scans of a large picture cost more: all together they may pass over 32 times as many pixels as a picture may have.
    const std::string known = golden_file("jpeg 4:4:4, progressive, exif 6");
    const auto picture = decode(known.data(), known.size(), "p");
    REQUIRE(picture.ok());
    caps.image_scans = 500;
    caps.image_pixels = picture->width * picture->height;
    CHECK(verdict(known, caps) == "ok");
    const auto decoded = decode(file.data(), file.size(), "p", caps);
    REQUIRE(!decoded.ok());
    CHECK(std::string(decoded.error().what()) == "image.budget: p: JPEG: more than 32 scans");
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
    const char* names[] = {"webp lossless", "webp lossless, few colours",        "webp lossy, large", "webp lossy, with alpha", "webp exif 6",
                           "webp animated", "webp animated, a small first frame"};
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
    CHECK(decoded > 100);  // or the changes never reached the picture
    CHECK(decoded < 9000);
}

TEST_CASE("what cannot be decoded is told by its content, and what converts it") {
    const auto detail = [](const std::string& file) {
        const auto decoded = decode(file.data(), file.size(), "picture.jpg");
        return decoded.ok() ? std::string() : std::string(decoded.error().what());
    };
    CHECK(detail("GIF89a......") == "image.unsupported: picture.jpg: this is a GIF picture; `magick 'a.gif[0]' a.png` makes a PNG of it");
    if (!GRAFT_HAS_LIBWEBP) CHECK(detail(golden_file("webp lossy")).find("; `dwebp a.webp -o a.png` makes a PNG of it") != std::string::npos);
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
    const char* kinds[] = {"lossless", "arithmetic", "hierarchical", "hierarchical", "hierarchical", "hierarchical"};
    const char markers[] = {'\xc3', '\xc9', '\xc5', '\xc6', '\xc7', '\xde'};
    for (std::size_t i = 0; i < sizeof markers; ++i) {
        jpeg[frame + 1] = markers[i];
        CHECK(detail(jpeg).find(kinds[i]) != std::string::npos);
    }
    jpeg[frame + 1] = '\xc0';
    jpeg[frame + 4] = 12;
    CHECK(detail(jpeg).find("image.unsupported: picture.jpg: JPEG: 12 bits") == 0);
    // Sampling factors behind 3 components' ids: 3 and 2 across do not go together.
    jpeg[frame + 4] = 8;
    jpeg[frame + 11] = '\x31', jpeg[frame + 14] = '\x21';
    CHECK(detail(jpeg) == "image.unsupported: picture.jpg: JPEG: fractional sampling");
    jpeg[frame + 11] = '\x13', jpeg[frame + 14] = '\x12';
    CHECK(detail(jpeg) == "image.unsupported: picture.jpg: JPEG: fractional sampling");
    const std::string whole = golden_file("jpeg 4:2:0"), header = whole.substr(frame, 19);
    CHECK(detail(whole.substr(0, frame) + header + whole.substr(frame)) == "image.malformed: picture.jpg: JPEG: two frames");
}

TEST_CASE("orientation and comments are read where they stand, and where nobody looks for them they change nothing") {
    const auto pixels = [](const std::string& file) {
        const auto decoded = decode(file.data(), file.size(), "test");
        REQUIRE_MESSAGE(decoded.ok(), std::string(decoded.ok() ? "" : decoded.error().what()));
        return decoded.value();
    };
    const auto crc = [&](const std::string& file) { return crc_of(pixels(file)); };
    // 6: the first row is the right side.
    const auto turned = [](const image& from) {
        image to = image::make(from.width, from.height, 3).value();
        for (std::int64_t y = 0; y < from.height; ++y)
            for (std::int64_t x = 0; x < from.width; ++x) std::memcpy(to.row(x) + 3 * (from.height - 1 - y), from.row(y) + 3 * x, 3);
        return crc_of(to);
    };
    const std::string png = golden_file("png colour 2 depth 8"), packet = "<x:xmpmeta><rdf:Description tiff:Orientation=\"6\"/></x:xmpmeta>";
    const auto with_text = [&](const std::string& text) { return png.substr(0, 33) + png_chunk("iTXt", text) + png.substr(33); };
    const std::string key("XML:com.adobe.xmp\0\0\0\0\0", 22);
    CHECK(crc(with_text(key + packet)) == turned(pixels(png)));
    CHECK(crc(with_text("XML:com.adobe")) == crc(png));
    CHECK(crc(with_text(std::string("Comment of the same length\0\0\0\0\0", 31) + packet)) == crc(png));
    CHECK(crc(with_text(key + "tiff:Orientation=\"")) == crc(png));
    CHECK(crc(with_text(key + "tiff:Orientation=\"x tiff:Orientation>6")) == turned(pixels(png)));
    // EXIF, one entry: two values, which stand where the entry says; within the file's text, at its last byte, behind it.
    const auto exif = [&](int at, const std::string& behind) {
        const std::string entry = std::string("\x12\x01\x03\0\x04\0\0\0", 8) + std::string{static_cast<char>(at), 0, 0, 0};
        return png.substr(0, 33) + png_chunk("eXIf", std::string("II*\0\x08\0\0\0\x01\0", 10) + entry + behind) + png.substr(33);
    };
    CHECK(crc(exif(22, std::string("\6\0", 2))) == turned(pixels(png)));
    CHECK(crc(exif(23, std::string("\6\0", 2))) == crc(png));
    CHECK(crc(exif(24, std::string("\6\0", 2))) == crc(png));
    CHECK(crc(exif(25, std::string("\6\0", 2))) == crc(png));
    if (!has_jpeg()) return;
    const std::string jpeg = golden_file("jpeg 4:2:0");
    const auto with = [&](std::initializer_list<std::pair<char, std::string>> segments) {
        std::string file = jpeg.substr(0, 2);
        for (const auto& s : segments)
            file += std::string("\xff") + s.first + static_cast<char>((s.second.size() + 2) >> 8) + static_cast<char>((s.second.size() + 2) & 255) + s.second;
        return file + jpeg.substr(2);
    };
    CHECK(crc(with({{'\xfe', "a comment with tiff:Orientation=\"6\""}})) == crc(jpeg));
    CHECK(crc(with({{'\xe1', std::string("http://ns.adobe.com/xap/1.0/\0", 29) + packet}})) == turned(pixels(jpeg)));
    CHECK(crc(with({{'\xe1', "http://ns.adobe.com/xap/2.0/ " + packet}})) == crc(jpeg));
    // EXIF that does not fit into one segment goes on in the next, as Pillow reads it.
    const std::string mark("Exif\0\0", 6), tiff("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0", 22);
    CHECK(crc(with({{'\xe1', mark + tiff}})) == turned(pixels(jpeg)));
    CHECK(crc(with({{'\xe1', mark + tiff.substr(0, 15)}, {'\xe1', mark + tiff.substr(15)}})) == turned(pixels(jpeg)));
    CHECK(crc(with({{'\xe1', mark + tiff.substr(0, 15)}})) == crc(jpeg));
}

TEST_CASE("PNG chunks that stand where they may not, and variants of others, are refused by name") {
    const auto told = [](const std::string& file) {
        const auto decoded = decode(file.data(), file.size(), "p");
        return decoded.ok() ? std::string("ok") : decoded.error().what();
    };
    // One row of one pixel: filter, red, green, blue.
    const std::string row("\0\x07\x08\x09", 4), packed = zlib_compress(row.data(), row.size()), data = png_chunk("IDAT", packed);
    const std::string file = png_of(1, 1, data);
    REQUIRE(told(file) == "ok");
    CHECK(told(file.substr(0, 8) + png_chunk("CgBI", std::string(4, '\0')) + file.substr(8)) == "image.unsupported: p: PNG: Apple's CgBI variant");
    CHECK(told(file.substr(0, 8) + data) == "image.malformed: p: PNG: the first chunk is not IHDR");
    const std::string palette = "image.malformed: p: PNG: PLTE is not as it should be";
    CHECK(told(png_of(1, 1, png_chunk("PLTE", std::string(768, 'c')) + data)) == "ok");
    CHECK(told(png_of(1, 1, png_chunk("PLTE", std::string(771, 'c')) + data)) == palette);
    CHECK(told(png_of(1, 1, png_chunk("PLTE", std::string(767, 'c')) + data)) == palette);
    CHECK(told(png_of(1, 1, png_chunk("PLTE", "") + data)) == palette);
    CHECK(told(png_of(1, 1, data + png_chunk("PLTE", "rgb"))) == palette);
    // Picture data that something else interrupts end there.
    const std::string first = png_chunk("IDAT", packed.substr(0, 6)), second = png_chunk("IDAT", packed.substr(6)), between = png_chunk("tEXt", "a");
    CHECK(told(png_of(1, 1, first + second)) == "ok");
    CHECK(told(png_of(1, 1, first + between + second)) == "image.truncated: p: PNG: rows are missing");
    CHECK(told(png_of(1, 1, data + between + png_chunk("IDAT", "no stream"))) == "ok");
    // zlib's own header: a window of more than 32 KiB, a dictionary that nobody has.
    const std::string no_stream = "image.malformed: p: PNG: the picture data is not a zlib stream";
    CHECK(told(png_of(1, 1, png_chunk("IDAT", std::string("\x88\x1c", 2) + packed.substr(2)))) == no_stream);
    CHECK(told(png_of(1, 1, png_chunk("IDAT", std::string("\x78\x20", 2) + packed.substr(2)))) == no_stream);
    CHECK(told(png_of(1, 1, png_chunk("IDAT", std::string("\x78\x02", 2) + packed.substr(2)))) == no_stream);
}

TEST_CASE("DEFLATE streams that zlib refuses are refused") {
    // Each with what zlib 1.2.13 says of it; no more than the fault is wrong with any.
    const std::pair<const char*, const char*> streams[] = {{"invalid code -- missing end-of-block", "05e001090000008020e8ffd500"},
                                                           {"invalid literal/lengths set, over-subscribed", "05e001090000008020e8ffd302"},
                                                           {"invalid literal/lengths set, incomplete", "05e001090000008020f47f7500"},
                                                           {"invalid distances set, incomplete", "05e101090000008020f87fb505"},
                                                           {"invalid distances set, over-subscribed", "05e201090000008020f87fb52a"},
                                                           {"too many length symbols", "f50000"},
                                                           {"too many distance symbols", "051e00"},
                                                           {"invalid bit length repeat, of nothing", "05e08300000000000000"},
                                                           {"invalid bit length repeat, too long", "05e081040000000000fcff03"},
                                                           {"invalid code lengths set, over-subscribed", "05e08104000000001000"},
                                                           {"invalid code lengths set, incomplete", "05e00109000000000000"},
                                                           {"invalid block type", "07"},
                                                           {"invalid stored block lengths", "0105000500"},
                                                           {"invalid distance too far back", "0302"},
                                                           {"invalid distance code", "63003e"},
                                                           {"invalid literal/length code", "1b03"}};
    for (const auto& stream : streams) {
        CAPTURE(stream.first);
        std::string bytes("\x78\x01", 2);
        for (const char* hex = stream.second; *hex; hex += 2) bytes += static_cast<char>(std::stoi(std::string(hex, 2), nullptr, 16));
        bytes += std::string(8, '\0');
        const std::string file = png_of(4, 4, png_chunk("IDAT", bytes));
        const auto decoded = decode(file.data(), file.size(), "p");
        REQUIRE(!decoded.ok());
        CHECK(std::string(decoded.error().what()) == "image.malformed: p: PNG: the compressed data is damaged");
    }
}

TEST_CASE("comments and digits of PNM are read as Pillow reads them") {
    const auto pixels = [](const std::string& file) {
        const auto decoded = decode(file.data(), file.size(), "p");
        return decoded.ok() ? std::string(reinterpret_cast<const char*>(decoded->data()), static_cast<std::size_t>(decoded->bytes()))
                            : std::string(decoded.error().what());
    };
    CHECK(pixels("P5 #c\r1 1 255\n\x07") == "\x07\x07\x07");
    CHECK(pixels("P5 #c\n1 1 255\n\x07") == "\x07\x07\x07");
    const std::string bits("\0\0\0\xff\xff\xff\0\0\0", 9);
    CHECK(pixels("P1 3 1\n1#c\n0 1") == bits);
    CHECK(pixels("P1 3 1\n1 #c\r0 1") == bits);
    CHECK(pixels("P1 3 1\n1 #c 0 1") == "image.truncated: p: PNM: the file ends too early");
    CHECK(pixels("P5 12345678901 1 255\n\x07") == "image.malformed: p: PNM: a number is too long");
    CHECK(pixels("P5 0000000001 1 255\n\x07") == "\x07\x07\x07");
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
