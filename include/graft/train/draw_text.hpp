// Text in pictures, by graft's own font: captions of heat maps, tables for TensorBoard.
#pragma once

#include "../core/utf8.hpp"
#include "../data/image.hpp"
#include "bitmap_font.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct color {
    std::uint8_t red, green, blue;
};

// The rows of the letter at the start of `text`, which then begins behind it; null where the font has no such letter.
inline const std::uint8_t* next_letter(std::string_view& text) {
    const std::size_t bytes = utf8_length(text);
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[i])); };
    const std::uint32_t code = bytes == 1 ? byte(0) : bytes == 2 ? (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f) : 0;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
    if (code >= 0x20 && code < 0x7f) return font_rows[code - 0x20];
    if (code >= 0xa0 && code < 0x100) return font_rows[code - 0xa0 + 0x5f];
    return nullptr;
}

inline bool can_draw(std::string_view text) {
    while (!text.empty())
        if (!next_letter(text)) return false;
    return true;
}

// A class as it can be drawn: its name, or its number where the font lacks letters of the name.
inline std::string drawn_name(const std::string& name, std::int64_t index) { return !name.empty() && can_draw(name) ? name : "class " + std::to_string(index); }

// Letters of a text that can be drawn.
inline int letters_in(std::string_view text) {
    int n = 0;
    for (; !text.empty(); ++n) next_letter(text);
    return n;
}

// A text that can be drawn, cut to so many letters; "..." where something is missing.
inline std::string cut_text(const std::string& text, int letters) {
    if (letters_in(text) <= letters) return text;
    std::string_view rest = text;
    for (int i = 0; i < letters - 3; ++i) next_letter(rest);
    return text.substr(0, text.size() - rest.size()) + std::string("...", static_cast<std::size_t>(std::max(0, std::min(letters, 3))));
}

// A rectangle in one colour; what lies outside of an RGB picture is left out.
inline void fill(image& to, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width, color c) {
    for (std::int64_t y = std::max<std::int64_t>(0, top); y < std::min(to.height, top + height); ++y)
        for (std::int64_t x = std::max<std::int64_t>(0, left); x < std::min(to.width, left + width); ++x) {
            std::uint8_t* pixel = to.row(y) + 3 * x;
            pixel[0] = c.red, pixel[1] = c.green, pixel[2] = c.blue;
        }
}

// Text whose cells begin at (top, left) of an RGB picture. Letters that the font lacks leave their cell empty.
inline void draw_text(image& to, std::int64_t top, std::int64_t left, std::string_view text, color c) {
    for (; !text.empty(); left += font_width)
        if (const std::uint8_t* rows = next_letter(text))
            for (int y = 0; y < font_height; ++y)
                for (int x = 0; x < font_width; ++x)
                    if (rows[y] & 0x80 >> x) fill(to, top + y, left + x, 1, 1, c);
}

inline void paste(image& to, std::int64_t top, std::int64_t left, const image& from) {
    const std::int64_t width = std::min(from.width, to.width - left);
    for (std::int64_t y = 0; y < std::min(from.height, to.height - top) && width > 0; ++y)
        std::memcpy(to.row(top + y) + 3 * left, from.row(y), static_cast<std::size_t>(3 * width));
}

// An RGB picture with lines of text below it, light on dark, as wide as the picture.
inline result<image> with_caption(const image& picture, const std::vector<std::string>& lines) {
    constexpr std::int64_t edge = 4;
    const auto rows = static_cast<std::int64_t>(lines.size());
    image made;
    GRAFT_TRY_ASSIGN(made, image::make(picture.height + rows * font_height + 2 * edge, picture.width, 3));
    paste(made, 0, 0, picture);
    fill(made, picture.height, 0, made.height - picture.height, made.width, {29, 33, 37});
    for (std::int64_t i = 0; i < rows; ++i)
        draw_text(made, picture.height + edge + i * font_height, edge,
                  cut_text(lines[static_cast<std::size_t>(i)], static_cast<int>((made.width - 2 * edge) / font_width)), {231, 233, 235});
    return made;
}

}  // namespace detail
GRAFT_END_NAMESPACE
