// BMP to RGB: 1, 4, 8, 16, 24 and 32 bits, bit fields, RLE4 and RLE8, either way up; alpha is dropped.
#pragma once

#include "image.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct bmp_reader {
    const std::uint8_t* bytes;
    std::size_t size;
    const std::string& name;
    std::int64_t width = 0, height = 0;
    bool top_down = false;
    unsigned bits = 0, compression = 0;
    std::uint32_t masks[3] = {};  // red, green, blue
    std::size_t pixels_at = 0;
    std::uint8_t palette[256][3] = {};

    std::uint32_t two(std::size_t at) const noexcept { return bytes[at] | std::uint32_t(bytes[at + 1]) << 8; }
    std::uint32_t four(std::size_t at) const noexcept { return two(at) | two(at + 2) << 16; }
    GRAFT_COLD status failed(errc code, const std::string& what) const { return fail(code, name, "BMP: " + what); }
    status short_file() const { return failed(errc::image_truncated, "the file ends too early"); }

    status read_header() {
        if (size < 18) return short_file();
        const std::size_t header = four(14);
        if (header != 12 && header != 40 && header != 52 && header != 56 && header != 64 && header != 108 && header != 124)
            return failed(errc::image_unsupported, "a header of " + std::to_string(header) + " bytes is not known");
        if (size < 14 + header) return short_file();
        std::size_t at = 14 + header;
        std::uint64_t colours = 0;
        const std::size_t entry = header == 12 ? 3 : 4;
        if (header == 12) {
            width = two(18);
            height = two(20);
            bits = two(24);
        } else {
            width = four(18);
            // Minus a height, as a 32-bit number whose top byte is all ones, means rows from the top.
            top_down = bytes[25] == 0xff;
            height = top_down ? (std::int64_t(1) << 32) - std::int64_t(four(22)) : four(22);
            bits = two(28);
            compression = four(30);
            colours = four(46);
        }
        if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
            return failed(errc::image_unsupported, std::to_string(bits) + " bits a pixel");
        if (compression > 3) return failed(errc::image_unsupported, "compression " + std::to_string(compression));
        if ((compression == 1 && bits != 8) || (compression == 2 && bits != 4) || (compression == 3 && bits < 16))
            return failed(errc::image_malformed, "compression and bits a pixel do not go together");
        GRAFT_TRY(read_masks(header, at));
        if (bits <= 8) {
            if (!colours) colours = std::uint64_t(1) << bits;
            if (colours > 65536) return failed(errc::image_malformed, "a palette of " + std::to_string(colours) + " colours");
            for (std::size_t i = 0; i < colours && i < 256; ++i) {
                if (at + i * entry + 3 > size) return short_file();
                for (std::size_t c = 0; c < 3; ++c) palette[i][c] = bytes[at + i * entry + 2 - c];
            }
        }
        pixels_at = four(10);
        // Some writers give the offset as if there were no palette.
        if (pixels_at == 14 + header && bits <= 8) pixels_at += entry * static_cast<std::size_t>(colours);
        if (pixels_at == 0) pixels_at = at + (bits <= 8 ? entry * static_cast<std::size_t>(colours) : 0);
        return {};
    }

    status read_masks(std::size_t header, std::size_t& at) {
        const std::uint32_t fives[3] = {0x7c00, 0x3e0, 0x1f}, bytes_of_word[3] = {0xff0000, 0xff00, 0xff};
        std::memcpy(masks, bits == 16 ? fives : bytes_of_word, sizeof masks);
        if (compression != 3) return {};
        if (header == 40) {
            if (size < at + 12) return short_file();
            for (std::size_t i = 0; i < 3; ++i) masks[i] = four(at + 4 * i);
            at += 12;
        } else
            for (std::size_t i = 0; i < 3; ++i) masks[i] = four(54 + 4 * i);
        if (bits == 32) {
            if (!masks[0] && !masks[1] && !masks[2]) std::memcpy(masks, bytes_of_word, sizeof masks);
            bool whole = true;
            for (std::uint32_t m : masks) whole = whole && (m == 0xff || m == 0xff00 || m == 0xff0000 || m == 0xff000000u);
            if (whole) return {};
        } else {
            const std::uint32_t sixes[3] = {0xf800, 0x7e0, 0x1f};
            if (bits == 24 && std::memcmp(masks, bytes_of_word, sizeof masks) == 0) return {};
            if (bits == 16 && (std::memcmp(masks, fives, sizeof masks) == 0 || std::memcmp(masks, sixes, sizeof masks) == 0)) return {};
        }
        return failed(errc::image_unsupported, "these bit fields");
    }

    // Bits of the mask's field, scaled to 0..255 and cut, as Pillow does.
    static std::uint8_t field(std::uint32_t word, std::uint32_t mask) noexcept {
        int shift = 0;
        while (!(mask >> shift & 1)) ++shift;
        const std::uint32_t top = mask >> shift;
        return static_cast<std::uint8_t>((word >> shift & top) * 255 / top);
    }

    void read_row(const std::uint8_t* in, std::uint8_t* out) const noexcept {
        switch (bits) {
        case 24:
            for (std::int64_t x = 0; x < width; ++x, in += 3, out += 3) {
                out[0] = in[2];
                out[1] = in[1];
                out[2] = in[0];
            }
            return;
        case 16:
            for (std::int64_t x = 0; x < width; ++x, in += 2, out += 3)
                for (int c = 0; c < 3; ++c) out[c] = field(in[0] | std::uint32_t(in[1]) << 8, masks[c]);
            return;
        case 32: {
            int from[3];
            for (int c = 0; c < 3; ++c) from[c] = masks[c] == 0xff ? 0 : masks[c] == 0xff00 ? 1 : masks[c] == 0xff0000 ? 2 : 3;
            for (std::int64_t x = 0; x < width; ++x, in += 4, out += 3)
                for (int c = 0; c < 3; ++c) out[c] = in[from[c]];
            return;
        }
        default:
            for (std::int64_t x = 0; x < width; ++x, out += 3) {
                const std::int64_t bit = x * bits;
                std::memcpy(out, palette[in[bit / 8] >> (8 - bits - static_cast<unsigned>(bit % 8)) & ((1u << bits) - 1)], 3);
            }
        }
    }

    // Run lengths to palette indices, row after row from the bottom.
    status read_runs(std::uint8_t* index) const {
        const std::int64_t total = width * height;
        std::int64_t n = 0, x = 0;
        const bool four_bits = compression == 2;
        std::size_t at = pixels_at;
        while (n < total) {
            if (at + 2 > size) return short_file();
            const int count = bytes[at], value = bytes[at + 1];
            at += 2;
            if (count) {
                const std::int64_t run = count < width - x ? count : width - x;
                for (std::int64_t i = 0; i < run && n < total; ++i)
                    index[n++] = static_cast<std::uint8_t>(!four_bits ? value : i % 2 ? value & 15 : value >> 4);
                x += run > 0 ? run : 0;
            } else if (value == 0) {
                while (n % width) index[n++] = 0;
                x = 0;
            } else if (value == 1) {
                break;
            } else if (value == 2) {
                if (at + 2 > size) return short_file();
                std::int64_t gap = bytes[at] + bytes[at + 1] * width;
                at += 2;
                for (; gap > 0 && n < total; --gap) index[n++] = 0;
                x = n % width;
            } else {
                const std::int64_t run = value < total - n ? value : total - n;
                const auto used = static_cast<std::size_t>(four_bits ? (run + 1) / 2 : run);
                if (used > size - at) return short_file();
                for (std::int64_t i = 0; i < run; ++i)
                    index[n++] = static_cast<std::uint8_t>(!four_bits ? bytes[at + static_cast<std::size_t>(i)]
                                                           : i % 2    ? bytes[at + static_cast<std::size_t>(i) / 2] & 15
                                                                      : bytes[at + static_cast<std::size_t>(i) / 2] >> 4);
                at += used;
                x += value;
                at += at & 1;
            }
        }
        return n == total ? status() : failed(errc::image_truncated, "the run lengths end before the picture does");
    }
};

inline result<image> decode_bmp(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& caps) {
    bmp_reader bmp{bytes, size, name};
    GRAFT_TRY(bmp.read_header());
    GRAFT_TRY(check_image_size(bmp.width, bmp.height, name, caps));
    const auto stride = static_cast<std::size_t>((bmp.width * bmp.bits + 31) / 32 * 4), last = static_cast<std::size_t>((bmp.width * bmp.bits + 7) / 8);
    const auto rows = static_cast<std::size_t>(bmp.height);
    const bool runs = bmp.compression == 1 || bmp.compression == 2;
    if (bmp.pixels_at > size || (!runs && size - bmp.pixels_at < stride * (rows - 1) + last)) return bmp.short_file();
    image picture;
    GRAFT_TRY_ASSIGN(picture, image::make(bmp.height, bmp.width, 3));
    buffer index;
    if (runs) {
        GRAFT_TRY_ASSIGN(index, buffer::allocate(static_cast<std::size_t>(bmp.width * bmp.height)));
        GRAFT_TRY(bmp.read_runs(reinterpret_cast<std::uint8_t*>(index.data())));
        bmp.bits = 8;
    }
    const std::uint8_t* first = runs ? reinterpret_cast<const std::uint8_t*>(index.data()) : bytes + bmp.pixels_at;
    for (std::size_t y = 0; y < rows; ++y)
        bmp.read_row(first + y * (runs ? static_cast<std::size_t>(bmp.width) : stride),
                     picture.row(static_cast<std::int64_t>(bmp.top_down ? y : rows - 1 - y)));
    return picture;
}

}  // namespace detail
GRAFT_END_NAMESPACE
