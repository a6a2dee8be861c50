// What goes to a terminal: widths, colours, tables, bars, progress, small pictures.
#pragma once

#include <graft/data/image.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace program {

/// What standard output or error is, and what may be sent there.
struct terminal {
    bool interactive = false;  ///< it is a terminal
    int colors = 0;            ///< 0, 8, 256 or 1 << 24
    int columns = 80;
    bool unicode = true;  ///< the locale, or the lack of one, lets block characters through
};
/// Looks at the stream, TERM, COLORTERM, NO_COLOR and the locale; `color` is auto, always or never.
terminal look_at(std::FILE* stream, const std::string& color);

/// Text as it may be shown: control characters escaped as \xNN, invalid UTF-8 too.
std::string printable(const std::string& text);
/// Columns that text takes on a terminal: wide characters two, combining ones none, colour sequences none.
int display_width(const std::string& text);
/// Text cut to `columns`, with an ellipsis where something is missing.
std::string shortened(const std::string& text, int columns);
/// Text filled with spaces to `columns`.
std::string padded(const std::string& text, int columns, bool right = false);

enum class style { plain, bold, dim, green, cyan, yellow, red };
/// Text in a style, where the terminal has colours.
std::string styled(const terminal& screen, style how, const std::string& text);

/// A table with a head, columns as wide as their contents. Columns whose head begins with '>' are set to the right.
class text_table {
public:
    explicit text_table(std::vector<std::string> head) : head_(std::move(head)) {}
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    bool empty() const { return rows_.empty(); }
    void print(const terminal& screen) const;

private:
    std::vector<std::string> head_;
    std::vector<std::vector<std::string>> rows_;
};

/// A bar `columns` wide of which `share` (0..1) is filled, in eighths of a column.
std::string bar(const terminal& screen, double share, int columns);
/// The picture in half blocks, one line of text a row; empty where the terminal cannot show it. At most `columns` wide and
/// half as many rows high.
std::vector<std::string> small_picture(const terminal& screen, const graft::image& picture, int columns);

std::string formatted(const char* format, double value);  ///< one number, by a format of printf
std::string bytes_text(std::int64_t bytes);               ///< "13.6 MB"
std::string count_text(std::int64_t count);               ///< "3.5 M"
std::string milliseconds_text(double ms);                 ///< "0.42 ms"
std::string percent_text(double share);                   ///< "99.8 %"
std::string clock_text(double seconds);                   ///< "9 s", "1:23", "2:03:04"

/// Seconds of a steady clock.
double seconds_now();

/// Progress of long work on stderr: a bar on a terminal, a line now and then elsewhere, nothing when quiet.
class progress {
public:
    progress(std::string what, std::int64_t total, bool quiet);
    ~progress() { finish(); }
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;
    void step(std::int64_t done);
    /// Takes the bar off the screen, so that something else can be printed.
    void finish();

private:
    std::string what_;
    std::int64_t total_;
    bool quiet_, terminal_, shown_ = false;
    double begun_, last_;
};

}  // namespace program
