// Pictures on a terminal: two pixels a character, the upper one as its colour, the lower one as its background.
#include "console.hpp"

#include <graft/data/resize.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace program {
namespace {

// The nearest of the 6x6x6 cube and the 24 grays that terminals with 256 colours have.
int nearest_of_256(int r, int g, int b) {
    const auto level = [](int v) { return v < 48 ? 0 : v < 115 ? 1 : (v - 35) / 40; };
    const auto value = [](int l) { return l ? 55 + 40 * l : 0; };
    const int lr = level(r), lg = level(g), lb = level(b);
    const int gray = std::min(23, std::max(0, ((r + g + b) / 3 - 3) / 10)), gray_value = 8 + 10 * gray;
    const auto distance = [&](int x, int y, int z) { return (x - r) * (x - r) + (y - g) * (y - g) + (z - b) * (z - b); };
    if (distance(gray_value, gray_value, gray_value) < distance(value(lr), value(lg), value(lb))) return 232 + gray;
    return 16 + 36 * lr + 6 * lg + lb;
}

void add_color(std::string& line, const terminal& screen, const std::uint8_t* pixel, bool background) {
    char code[40];
    if (screen.colors >= 1 << 24)
        std::snprintf(code, sizeof code, "\x1b[%d;2;%d;%d;%dm", background ? 48 : 38, pixel[0], pixel[1], pixel[2]);
    else
        std::snprintf(code, sizeof code, "\x1b[%d;5;%dm", background ? 48 : 38, nearest_of_256(pixel[0], pixel[1], pixel[2]));
    line += code;
}

}  // namespace

std::vector<std::string> small_picture(const terminal& screen, const graft::image& picture, int columns) {
    if (screen.colors < 256 || !screen.unicode || columns < 2 || !picture || picture.channels != 3) return {};
    // As wide as asked for, or less for pictures higher than wide, so that a row of results stays compact.
    std::int64_t width = columns, height = std::max<std::int64_t>(1, (columns * picture.height + picture.width / 2) / picture.width);
    if (height > columns) {
        width = std::max<std::int64_t>(1, (columns * picture.width + picture.height / 2) / picture.height);
        height = columns;
    }
    auto small = graft::resize(picture, height, width, graft::filter::box);
    if (!small.ok()) return {};
    std::vector<std::string> lines;
    for (std::int64_t y = 0; y < height; y += 2) {
        std::string line;
        for (std::int64_t x = 0; x < width; ++x) {
            add_color(line, screen, small->row(y) + 3 * x, false);
            if (y + 1 < height) add_color(line, screen, small->row(y + 1) + 3 * x, true);
            line += "\u2580";
        }
        line += "\x1b[0m" + std::string(static_cast<std::size_t>(columns - width), ' ');
        lines.push_back(line);
    }
    return lines;
}

}  // namespace program
