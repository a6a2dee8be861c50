// PNG, all colour types and depths, interlaced or not, to RGB. Rows are made as the data is inflated, so that memory is the
// picture and little else; a stream that goes on behind the last row is left unread. Own work, since stb_image neither checks
// checksums nor caps what it inflates, and reads palette entries that the file never gave.
#pragma once

#include "exif.hpp"
#include "image.hpp"
#include "inflate.hpp"

#include <array>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct crc32_table {
    std::uint32_t at[4][256] = {};  // [k]: the byte is followed by k more
    constexpr crc32_table() {
        for (std::uint32_t i = 0; i < 256; ++i) {
            std::uint32_t c = i;
            for (int k = 0; k < 8; ++k) c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0u);
            at[0][i] = c;
        }
        for (int k = 1; k < 4; ++k)
            for (std::uint32_t i = 0; i < 256; ++i) at[k][i] = at[0][at[k - 1][i] & 255] ^ (at[k - 1][i] >> 8);
    }
};

// The CRC-32 of zlib, PNG and gzip; `crc` is that of what came before, 0 at the start.
inline std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* p, std::size_t n) noexcept {
    static constexpr crc32_table table;
    crc = ~crc;
    for (; n >= 4; n -= 4, p += 4)
        crc = table.at[3][(crc ^ p[0]) & 255] ^ table.at[2][(crc >> 8 ^ p[1]) & 255] ^ table.at[1][(crc >> 16 ^ p[2]) & 255] ^ table.at[0][crc >> 24 ^ p[3]];
    for (; n; --n, ++p) crc = table.at[0][(crc ^ *p) & 255] ^ (crc >> 8);
    return ~crc;
}

inline std::uint32_t big_endian(const std::uint8_t* p) noexcept {
    return std::uint32_t(p[0]) << 24 | std::uint32_t(p[1]) << 16 | std::uint32_t(p[2]) << 8 | p[3];
}

// Takes inflated bytes, undoes the filters and writes the pixels.
class png_rows {
public:
    std::int64_t width = 0, height = 0;
    int depth = 8, colour = 2, channels = 3;
    bool interlaced = false, bad_filter = false, complete = false;
    std::array<std::uint8_t, 768> palette{};  // entries that the file does not give are black, as in Pillow
    image picture;

    status start(const std::string& name) {
        (void)name;
        GRAFT_TRY_ASSIGN(picture, image::make(height, width, 3));
        const std::size_t longest = row_bytes(width) + 1;
        GRAFT_TRY_ASSIGN(memory_, buffer::allocate(2 * longest));
        row_ = reinterpret_cast<std::uint8_t*>(memory_.data());
        above_ = row_ + longest;
        pass_ = -1;
        next_pass();
        return {};
    }

    static bool sink(void* self, const std::uint8_t* bytes, std::size_t n) { return static_cast<png_rows*>(self)->feed(bytes, n); }

private:
    std::size_t row_bytes(std::int64_t pixels) const noexcept { return static_cast<std::size_t>((pixels * depth * channels + 7) / 8); }

    bool feed(const std::uint8_t* bytes, std::size_t n) {
        while (n && !complete) {
            const std::size_t step = n < need_ - have_ ? n : need_ - have_;
            std::memcpy(row_ + have_, bytes, step);
            bytes += step;
            n -= step;
            if ((have_ += step) < need_) return true;
            if (row_[0] > 4) {
                bad_filter = true;
                return false;
            }
            unfilter();
            unpack();
            std::swap(row_, above_);
            have_ = 0;
            y_ += step_y_;
            if (y_ >= height) next_pass();
        }
        return !complete;
    }

    void next_pass() noexcept {
        static constexpr std::uint8_t x0[7] = {0, 4, 0, 2, 0, 1, 0}, y0[7] = {0, 0, 4, 0, 2, 0, 1}, dx[7] = {8, 8, 4, 4, 2, 2, 1},
                                      dy[7] = {8, 8, 8, 4, 4, 2, 2};
        for (;;) {
            if (++pass_ >= (interlaced ? 7 : 1)) {
                complete = true;
                return;
            }
            x_ = interlaced ? x0[pass_] : 0;
            y_ = interlaced ? y0[pass_] : 0;
            step_x_ = interlaced ? dx[pass_] : 1;
            step_y_ = interlaced ? dy[pass_] : 1;
            if (x_ < width && y_ < height) break;
        }
        across_ = (width - x_ + step_x_ - 1) / step_x_;
        need_ = row_bytes(across_) + 1;
        have_ = 0;
        std::memset(above_, 0, need_);
    }

    static int nearest(int west, int north, int corner) noexcept {
        const int to_west = std::abs(north - corner), to_north = std::abs(west - corner), to_corner = std::abs(west + north - 2 * corner);
        const int nearer = to_north <= to_corner ? north : corner;
        return to_west <= to_north && to_west <= to_corner ? west : nearer;
    }
    static void paeth_channel(std::uint8_t* r, const std::uint8_t* a, std::size_t n, std::size_t left) noexcept {
        int west = 0, corner = 0;
        for (std::size_t i = 0; i < n; i += left) {
            const int north = a[i];
            r[i] = static_cast<std::uint8_t>(r[i] + nearest(west, north, corner));
            west = r[i];
            corner = north;
        }
    }
    // The channels side by side: each waits for its own last pixel only.
    template <int Channels>
    static void paeth(std::uint8_t* r, const std::uint8_t* a, std::size_t n) noexcept {
        int west[Channels] = {}, corner[Channels] = {};
        for (std::size_t i = 0; i < n; i += Channels)
            for (std::size_t c = 0; c < Channels; ++c) {
                const int north = a[i + c];
                r[i + c] = static_cast<std::uint8_t>(r[i + c] + nearest(west[c], north, corner[c]));
                west[c] = r[i + c];
                corner[c] = north;
            }
    }

    void unfilter() noexcept {
        const std::size_t n = need_ - 1, left = static_cast<std::size_t>(depth * channels < 8 ? 1 : depth * channels / 8);
        std::uint8_t* r = row_ + 1;
        const std::uint8_t* a = above_ + 1;
        const auto byte = [](int v) { return static_cast<std::uint8_t>(v); };
        switch (row_[0]) {
        case 1:
            for (std::size_t i = left; i < n; ++i) r[i] = byte(r[i] + r[i - left]);
            break;
        case 2:
            for (std::size_t i = 0; i < n; ++i) r[i] = byte(r[i] + a[i]);
            break;
        case 3:
            for (std::size_t i = 0; i < left; ++i) r[i] = byte(r[i] + a[i] / 2);
            for (std::size_t i = left; i < n; ++i) r[i] = byte(r[i] + (r[i - left] + a[i]) / 2);
            break;
        case 4:
            if (left == 3)
                paeth<3>(r, a, n);
            else if (left == 4)
                paeth<4>(r, a, n);
            else
                for (std::size_t c = 0; c < left; ++c) paeth_channel(r + c, a + c, n - c, left);
            break;
        default: break;
        }
    }

    void unpack() noexcept {
        const std::uint8_t* r = row_ + 1;
        std::uint8_t* out = picture.row(y_) + 3 * x_;
        const std::int64_t hop = 3 * step_x_;
        if (depth >= 8 && colour != 3) {
            // 16 bits are big-endian, so the first byte is the high one, which is kept.
            const int bytes = depth / 8, pixel = channels * bytes, second = colour & 2 ? bytes : 0;
            for (std::int64_t x = 0; x < across_; ++x, r += pixel, out += hop) {
                out[0] = r[0];
                out[1] = r[second];
                out[2] = r[2 * second];
            }
            return;
        }
        const int mask = (1 << depth) - 1, scale = colour == 3 ? 0 : 255 / mask;
        for (std::int64_t x = 0; x < across_; ++x, out += hop) {
            const int value = r[x * depth / 8] >> (8 - depth - static_cast<int>(x * depth % 8)) & mask;
            if (scale)
                out[0] = out[1] = out[2] = static_cast<std::uint8_t>(value * scale);
            else
                std::memcpy(out, &palette[static_cast<std::size_t>(3 * value)], 3);
        }
    }

    buffer memory_;
    std::uint8_t *row_ = nullptr, *above_ = nullptr;
    std::size_t need_ = 0, have_ = 0;
    std::int64_t x_ = 0, y_ = 0, step_x_ = 1, step_y_ = 1, across_ = 0;
    int pass_ = -1;
};

GRAFT_COLD inline status png_error(errc code, const std::string& name, const char* what) { return fail(code, name, std::string("PNG: ") + what); }

// IHDR's thirteen bytes.
inline status read_png_header(const std::uint8_t* p, const std::string& name, const limits& caps, png_rows& rows) {
    rows.width = big_endian(p);
    rows.height = big_endian(p + 4);
    rows.depth = p[8];
    rows.colour = p[9];
    GRAFT_TRY(check_image_size(rows.width, rows.height, name, caps));
    static constexpr std::uint8_t channels[7] = {1, 0, 3, 1, 2, 0, 4};
    // Bit d of a colour type's row: depth d is allowed (bit 0 stands for 16).
    static constexpr std::uint16_t depths[7] = {
        1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1, 0, 1 << 8 | 1, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8, 1 << 8 | 1, 0, 1 << 8 | 1};
    const int d = rows.depth == 16 ? 0 : rows.depth ? rows.depth : 15;
    if (rows.colour > 6 || d > 8 || !(depths[rows.colour] >> d & 1)) return png_error(errc::image_malformed, name, "colour type and depth do not go together");
    if (p[10] || p[11] || p[12] > 1) return png_error(errc::image_malformed, name, "unknown compression, filter or interlace method");
    rows.channels = channels[rows.colour];
    rows.interlaced = p[12] == 1;
    return {};
}

inline result<image> decode_png(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& caps) {
    png_rows rows;
    std::string exif, xmp;
    const std::uint8_t* data = nullptr;  // the zlib stream: inside the file where it is one chunk, else joined
    std::size_t data_size = 0;
    buffer joined;
    std::size_t joined_room = 0;
    bool header = false, palette = false, data_over = false, ended = false;
    for (std::size_t at = 8; !ended;) {
        if (size - at < 12) return png_error(errc::image_truncated, name, "the file ends before its IEND chunk");
        const std::size_t length = big_endian(bytes + at);
        const std::uint8_t *type = bytes + at + 4, *body = bytes + at + 8;
        for (int i = 0; i < 4; ++i)
            if (!((type[i] >= 'a' && type[i] <= 'z') || (type[i] >= 'A' && type[i] <= 'Z')))
                return png_error(errc::image_malformed, name, "a chunk has no proper type");
        if (length > 0x7fffffff) return png_error(errc::image_malformed, name, "a chunk is longer than is allowed");
        if (length > size - at - 12) return png_error(errc::image_truncated, name, "a chunk reaches past the end of the file");
        at += 12 + length;
        const auto is = [type](const char* four) { return std::memcmp(type, four, 4) == 0; };
        const auto sound = [&] { return crc32(0, type, length + 4) == big_endian(body + length); };
        if (!header && !is("IHDR"))
            return png_error(is("CgBI") ? errc::image_unsupported : errc::image_malformed, name,
                             is("CgBI") ? "Apple's CgBI variant" : "the first chunk is not IHDR");
        if (!(type[0] & 32) && !sound()) return png_error(errc::image_malformed, name, "the checksum of a chunk is wrong");
        if (data && !is("IDAT")) data_over = true;
        if (is("IHDR")) {
            if (header || length != 13) return png_error(errc::image_malformed, name, "IHDR is not as it should be");
            GRAFT_TRY(read_png_header(body, name, caps, rows));
            header = true;
        } else if (is("PLTE")) {
            if (length % 3 || length > 768 || length == 0 || data) return png_error(errc::image_malformed, name, "PLTE is not as it should be");
            std::memcpy(rows.palette.data(), body, length);
            palette = true;
        } else if (is("IDAT")) {
            if (rows.colour == 3 && !palette) return png_error(errc::image_malformed, name, "a palette picture without a palette");
            if (data_over) continue;
            if (!data) {
                data = body;
                data_size = length;
                continue;
            }
            if (!joined_room) {  // a second chunk: the rest of the file bounds what there can be
                joined_room = data_size + (size - at) + length;
                GRAFT_TRY_ASSIGN(joined, buffer::allocate(joined_room));
                std::memcpy(joined.data(), data, data_size);
                data = reinterpret_cast<const std::uint8_t*>(joined.data());
            }
            std::memcpy(joined.data() + data_size, body, length);
            data_size += length;
        } else if (is("IEND")) {
            ended = true;
        } else if (is("eXIf")) {
            if (sound()) exif.assign(reinterpret_cast<const char*>(body), length);
        } else if (is("iTXt")) {
            static constexpr char key[] = "XML:com.adobe.xmp\0";  // keyword, NUL, then 0: not compressed
            if (length > sizeof key && std::memcmp(body, key, sizeof key) == 0) xmp.assign(reinterpret_cast<const char*>(body), length);
        } else if (!(type[0] & 32))
            return png_error(errc::image_unsupported, name, "a critical chunk that is not known");
    }
    if (!data) return png_error(errc::image_malformed, name, "there is no picture data");
    const std::size_t skip = zlib_header(data, data_size);
    if (!skip) return png_error(data_size < 2 ? errc::image_truncated : errc::image_malformed, name, "the picture data is not a zlib stream");
    GRAFT_TRY(rows.start(name));
    inflater stream(data + skip, data_size - skip, &png_rows::sink, &rows);
    const inflate_end end = stream.run();
    if (rows.bad_filter) return png_error(errc::image_malformed, name, "a row has an unknown filter");
    if (end == inflate_end::no_memory) return png_error(errc::memory_oom, name, "the system has not enough memory");
    if (!rows.complete && end == inflate_end::malformed) return png_error(errc::image_malformed, name, "the compressed data is damaged");
    if (!rows.complete) return png_error(errc::image_truncated, name, "rows are missing");
    return orient(rows.picture, orientation_of(exif, xmp));
}

}  // namespace detail
GRAFT_END_NAMESPACE
