// Curves in braille: each cell has two columns of four dots.
#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace program {
namespace {

constexpr int label_columns = 8;

// Dots of a picture, two by four to a cell.
class dots {
public:
    dots(int columns, int rows) : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}
    int width() const { return columns_ * 2; }
    int height() const { return rows_ * 4; }
    void set(int x, int y) {
        // Braille counts its dots down the left column, then the right one; the lowest row came later.
        static constexpr std::uint8_t bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
        cells_[static_cast<std::size_t>(y / 4 * columns_ + x / 2)] |= bits[y % 4][x % 2];
    }
    void line(int x0, int y0, int x1, int y1) {
        const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
        for (int i = 0; i <= steps; ++i) {
            const double share = static_cast<double>(i) / steps;
            set(static_cast<int>(std::lround(x0 + share * (x1 - x0))), static_cast<int>(std::lround(y0 + share * (y1 - y0))));
        }
    }
    std::uint8_t cell(int column, int row) const { return cells_[static_cast<std::size_t>(row * columns_ + column)]; }

private:
    int columns_, rows_;
    std::vector<std::uint8_t> cells_;
};

std::string braille(std::uint8_t bits) {
    const unsigned code = 0x2800u + bits;
    return {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
}

// Text set so that `at` is its middle, where that fits the line.
void put_centred(std::string& line, int at, const std::string& text) {
    const int most = static_cast<int>(line.size()) - static_cast<int>(text.size());
    if (most >= 0) line.replace(static_cast<std::size_t>(std::min(std::max(at - static_cast<int>(text.size()) / 2, 0), most)), text.size(), text);
}

}  // namespace

std::vector<std::string> drawn(const terminal& screen, const log_plot& plot) {
    const int columns = std::min(screen.columns - label_columns - 2, 100);
    if (columns < 20 || plot.x.size() < 2 || !(plot.high > plot.low)) return {};
    dots canvas(columns, plot.rows);
    const double left = std::log10(plot.x.front()), right = std::log10(plot.x.back());
    const auto across = [&](double x, int width) { return static_cast<int>(std::lround((std::log10(x) - left) / (right - left) * (width - 1))); };
    const auto down = [&](double y) {
        const double share = std::min(std::max((y - plot.low) / (plot.high - plot.low), 0.0), 1.0);
        return static_cast<int>(std::lround((1 - share) * (canvas.height() - 1)));
    };
    int before_x = -1, before_y = 0;
    for (std::size_t i = 0; i < plot.y.size() && i < plot.x.size(); ++i) {
        if (!std::isfinite(plot.y[i])) continue;
        const int x = across(plot.x[i], canvas.width()), y = down(plot.y[i]);
        canvas.line(before_x < 0 ? x : before_x, before_x < 0 ? y : before_y, x, y);
        before_x = x, before_y = y;
    }
    const int marked = plot.mark > 0 ? across(plot.mark, columns) : -1;
    std::vector<std::string> lines;
    for (int row = 0; row < plot.rows; ++row) {
        const bool labelled = row == 0 || row == plot.rows - 1 || row == plot.rows / 2;
        const double value = plot.high - (plot.high - plot.low) * row / (plot.rows - 1);
        std::string line = padded(labelled ? formatted("%.3g", value) : "", label_columns, true) + " ";
        line += styled(screen, style::dim, screen.unicode ? labelled ? "\u2524" : "\u2502" : "|");
        for (int column = 0; column < columns; ++column) {
            const std::uint8_t bits = canvas.cell(column, row);
            if (bits)
                line += screen.unicode ? braille(bits) : "*";
            else if (column == marked)
                line += styled(screen, style::green, screen.unicode ? "\u2502" : "|");
            else
                line += " ";
        }
        lines.push_back(line);
    }
    std::string axis, ticks(static_cast<std::size_t>(columns), ' '), below(static_cast<std::size_t>(columns), ' ');
    for (int column = 0; column < columns; ++column) axis += screen.unicode ? "\u2500" : "-";
    const std::string indent(label_columns + 1, ' ');
    lines.push_back(indent + styled(screen, style::dim, (screen.unicode ? "\u2514" : "+") + axis));
    // As many powers of ten as there is room for.
    const double decades = right - left;
    const int every = std::max(1, static_cast<int>(std::ceil(decades * 7 / columns)));
    for (int power = static_cast<int>(std::ceil(left - 1e-9)); power <= right + 1e-9; power += every)
        put_centred(ticks, across(std::pow(10.0, power), columns), "1e" + std::to_string(power));
    lines.push_back(indent + " " + styled(screen, style::dim, ticks));
    if (marked >= 0 && !plot.mark_text.empty()) {
        put_centred(below, marked, plot.mark_text);
        lines.push_back(indent + " " + styled(screen, style::green, below));
    }
    return lines;
}

}  // namespace program
