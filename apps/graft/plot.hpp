// A curve drawn in a terminal.
#pragma once

#include "console.hpp"

#include <string>
#include <vector>

namespace program {

/// A curve over a logarithmic axis, as lines of text no wider than the terminal: braille dots, or stars where those do not get through.
struct log_plot {
    std::vector<double> x, y;  ///< x above 0 and growing; points whose y is not finite are left out
    double low = 0, high = 1;  ///< of the y axis; what lies beyond is drawn at its edge
    double mark = 0;           ///< an x to mark by a vertical line; 0: none
    std::string mark_text;     ///< below the mark
    int rows = 12;
};

std::vector<std::string> drawn(const terminal& screen, const log_plot& plot);

}  // namespace program
