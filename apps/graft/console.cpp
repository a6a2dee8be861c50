// Widths, colours, tables and progress.
#include "console.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(_WIN32)
#include <io.h>
#else
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace program {
namespace {

bool is_terminal(std::FILE* stream) {
#if defined(_WIN32)
    return _isatty(_fileno(stream)) != 0;
#else
    return isatty(fileno(stream)) != 0;
#endif
}

int terminal_columns(std::FILE* stream) {
#if !defined(_WIN32)
    winsize size{};
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
    const char* columns = std::getenv("COLUMNS");
    const int n = columns ? std::atoi(columns) : 0;
    (void)stream;
    return n > 0 ? n : 80;
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// The next code point from `i` on, which moves past it; -1 for a byte that is no UTF-8.
int next_code_point(const std::string& text, std::size_t& i) {
    const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    const unsigned first = byte(i);
    const int more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : -1;
    if (more <= 0) {
        ++i;
        return more == 0 ? static_cast<int>(first) : -1;
    }
    unsigned code = first & (0x3fu >> more);
    for (int k = 1; k <= more; ++k) {
        if (byte(i + static_cast<std::size_t>(k)) >> 6 != 2) {
            ++i;
            return -1;
        }
        code = code << 6 | (byte(i + static_cast<std::size_t>(k)) & 0x3f);
    }
    const unsigned least[] = {0, 0x80, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        ++i;
        return -1;
    }
    i += static_cast<std::size_t>(more) + 1;
    return static_cast<int>(code);
}

struct range {
    int first, last;
};
template <std::size_t N>
bool within(int code, const range (&ranges)[N]) {
    for (const range& r : ranges)
        if (code >= r.first && code <= r.last) return true;
    return false;
}

int width_of(int code) {
    // Blocks of Unicode's EastAsianWidth.txt (W and F) and of its combining marks, coarsely.
    static constexpr range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xa960, 0xa97c}, {0xac00, 0xd7a3},
                                     {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6}, {0x1f300, 0x1f64f},
                                     {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
    static constexpr range none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},   {0x93c, 0x93c},
                                     {0x941, 0x948},   {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
                                     {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x2064}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
    return within(code, none) ? 0 : within(code, wide) ? 2 : 1;
}
// Three digits of a number from a thousand on, in thousands, millions and so on.
std::string in_thousands(std::int64_t number, const char* const (&units)[4]) {
    double value = static_cast<double>(number) / 1000;
    int unit = 0;
    for (; unit < 3 && value >= 999.5; ++unit) value /= 1000;
    return formatted(value < 9.95 ? "%.2f " : value < 99.5 ? "%.1f " : "%.0f ", value) + units[unit];
}

}  // namespace

terminal look_at(std::FILE* stream, const std::string& color) {
    terminal screen;
    screen.interactive = is_terminal(stream);
    screen.columns = std::min(terminal_columns(stream), 200);
    const std::string term = environment("TERM"), direct = environment("COLORTERM");
    const std::string locale = !environment("LC_ALL").empty()     ? environment("LC_ALL")
                               : !environment("LC_CTYPE").empty() ? environment("LC_CTYPE")
                                                                  : environment("LANG");
    // A bare container has no locale at all and still a terminal that knows UTF-8.
    screen.unicode = (locale.empty() || locale == "C" || locale == "POSIX" || contains(locale, "UTF") || contains(locale, "utf")) && term != "linux";
    const bool wanted = color == "always" || (color == "auto" && screen.interactive && environment("NO_COLOR").empty() && term != "dumb");
    if (!wanted) return screen;
    const bool full = contains(direct, "truecolor") || contains(direct, "24bit") || contains(term, "direct") || contains(term, "kitty") ||
                      contains(term, "alacritty") || contains(term, "ghostty") || contains(term, "foot") || color == "always";
    screen.colors = full ? 1 << 24 : contains(term, "256color") ? 256 : 8;
    return screen;
}

std::string printable(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t begin = i;
        const int code = next_code_point(text, i);
        const bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);  // of the writing direction
        if (code < 32 || (code >= 0x7f && code < 0xa0) || turns) {
            for (std::size_t k = begin; k < i; ++k) {
                char hex[8];
                std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(text[k]));
                out += hex;
            }
        } else
            out.append(text, begin, i - begin);
    }
    return out;
}

int display_width(const std::string& text) {
    int width = 0;
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] == '\x1b') {
            while (i < text.size() && text[i] != 'm') ++i;
            ++i;
            continue;
        }
        const int code = next_code_point(text, i);
        width += code < 0 ? 1 : width_of(code);
    }
    return width;
}

std::string shortened(const std::string& text, int columns) {
    if (display_width(text) <= columns) return text;
    std::string out;
    int width = 0;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t begin = i;
        const int code = next_code_point(text, i), w = code < 0 ? 1 : width_of(code);
        if (width + w > columns - 1) break;
        width += w;
        out.append(text, begin, i - begin);
    }
    return out + "\u2026";
}

std::string padded(const std::string& text, int columns, bool right) {
    const int missing = columns - display_width(text);
    if (missing <= 0) return text;
    const std::string spaces(static_cast<std::size_t>(missing), ' ');
    return right ? spaces + text : text + spaces;
}

std::string styled(const terminal& screen, style how, const std::string& text) {
    if (!screen.colors || how == style::plain || text.empty()) return text;
    const char* codes[] = {"0", "1", "2", "32", "36", "33", "31"};
    return std::string("\x1b[") + codes[static_cast<int>(how)] + "m" + text + "\x1b[0m";
}

void text_table::print(const terminal& screen) const {
    std::vector<int> widths;
    std::vector<bool> right;
    std::vector<std::string> head;
    for (const std::string& h : head_) {
        right.push_back(!h.empty() && h[0] == '>');
        head.push_back(right.back() ? h.substr(1) : h);
        widths.push_back(display_width(head.back()));
    }
    for (const auto& row : rows_)
        for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
    // A column without contents says nothing.
    std::vector<bool> used(head.size(), rows_.empty());
    for (const auto& row : rows_)
        for (std::size_t c = 0; c < row.size() && c < used.size(); ++c) used[c] = used[c] || !row[c].empty();
    const auto line = [&](const std::vector<std::string>& row, style how) {
        std::string out;
        int owed = 0;  // spaces before the next cell, so that no line ends in spaces
        for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c) {
            if (!used[c]) continue;
            const int missing = widths[c] - display_width(row[c]);
            if (!row[c].empty()) out += std::string(static_cast<std::size_t>(owed + (right[c] ? missing : 0)), ' ') + styled(screen, how, row[c]);
            owed = row[c].empty() ? owed + widths[c] + 2 : (right[c] ? 0 : missing) + 2;
        }
        std::printf("%s\n", out.c_str());
    };
    line(head, style::dim);
    for (const auto& row : rows_) line(row, style::plain);
}

std::string bar(const terminal& screen, double share, int columns) {
    if (!(share > 0)) share = 0;
    if (share > 1) share = 1;
    if (!screen.unicode) return padded(std::string(static_cast<std::size_t>(std::lround(share * columns)), '#'), columns);
    static constexpr const char* parts[] = {"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
    const long eighths = std::lround(share * columns * 8);
    std::string out;
    for (long i = 0; i < eighths / 8; ++i) out += "\u2588";
    out += parts[eighths % 8];
    return padded(out, columns);
}

std::string formatted(const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string bytes_text(std::int64_t bytes) { return bytes < 1000 ? std::to_string(bytes) + " B" : in_thousands(bytes, {"kB", "MB", "GB", "TB"}); }

std::string count_text(std::int64_t count) { return count < 10000 ? std::to_string(count) : in_thousands(count, {"k", "M", "G", "T"}); }

std::string milliseconds_text(double ms) {
    if (ms < 9.995) return formatted("%.2f ms", ms);
    if (ms < 999.5) return formatted("%.1f ms", ms);
    return formatted("%.2f s", ms / 1000);
}

std::string percent_text(double share) { return formatted("%.1f %%", share * 100); }

double seconds_now() {
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

std::string clock_text(double s) {
    if (!std::isfinite(s) || s < 0) s = 0;
    const auto all = static_cast<std::int64_t>(std::min(s, 1e9) + 0.5);
    char text[48];
    if (all < 60)
        std::snprintf(text, sizeof text, "%d s", static_cast<int>(all));
    else if (all < 3600)
        std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(all / 60), static_cast<int>(all % 60));
    else
        std::snprintf(text, sizeof text, "%lld:%02d:%02d", static_cast<long long>(all / 3600), static_cast<int>(all / 60 % 60), static_cast<int>(all % 60));
    return text;
}

progress::progress(std::string what, std::int64_t total, bool quiet)
    : what_(std::move(what)), total_(total), quiet_(quiet), terminal_(is_terminal(stderr)), begun_(seconds_now()), last_(begun_) {}

void progress::step(std::int64_t done) {
    if (quiet_ || total_ < 2) return;
    const double now = seconds_now();
    // Nothing for work that is soon over; then ten times a second on a screen, every five seconds in a log.
    if (now - begun_ < 0.7 || now - last_ < (terminal_ ? 0.1 : 5)) return;
    last_ = now;
    const double share = static_cast<double>(done) / static_cast<double>(total_);
    const double left = share > 0 ? (now - begun_) / share * (1 - share) : 0, rate = static_cast<double>(done) / (now - begun_);
    const std::string counts = std::to_string(done) + "/" + std::to_string(total_), speed = formatted(rate < 9.95 ? "%.1f" : "%.0f", rate) + "/s";
    if (!terminal_) {
        std::fprintf(stderr, "graft: %s %s, %s, ETA %s\n", what_.c_str(), counts.c_str(), speed.c_str(), clock_text(left).c_str());
        return;
    }
    const terminal plain;
    std::fprintf(stderr, "\r\x1b[K%s %s %s  %s  ETA %s", what_.c_str(), bar(plain, share, 24).c_str(), counts.c_str(), speed.c_str(), clock_text(left).c_str());
    std::fflush(stderr);
    shown_ = true;
}

void progress::finish() {
    if (shown_) std::fprintf(stderr, "\r\x1b[K");
    shown_ = false;
}

}  // namespace program
