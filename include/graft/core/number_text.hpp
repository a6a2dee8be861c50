// Numbers as text and back, the same in whatever locale the program around graft has set: many have a comma where C has a point.
#pragma once

#include "../config.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// One number as printf has it; the format holds one conversion of a double, and no other commas than may be its point. At most 127 bytes.
std::string number_text(const char* format, double value);
// The same with a precision of its own: "%.*g".
std::string number_text(const char* format, int precision, double value);
// The fewest digits that read back as the same number, or the same float of it.
std::string shortest_text(double value, bool single);
// The number at the front of a text, decimal or hexadecimal as C has it; `end`, where given, gets what stands behind it: the text where there
// is none.
double read_number(const char* text, const char** end = nullptr);

}  // namespace detail
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstdio>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What stands between the digits of 0.5 here; "" for a point.
inline std::string foreign_point() {
    char half[32];
    std::snprintf(half, sizeof half, "%.1f", 0.5);
    const std::string text = half;
    return text.size() < 3 || text == "0.5" ? std::string() : text.substr(1, text.size() - 2);
}
inline std::string with_point(std::string text) {
    const std::string foreign = foreign_point();
    const std::size_t at = foreign.empty() ? std::string::npos : text.find(foreign);
    if (at != std::string::npos) text.replace(at, foreign.size(), ".");
    return text;
}

GRAFT_INLINE std::string number_text(const char* format, double value) {
    char text[128];
    std::snprintf(text, sizeof text, format, value);
    return with_point(text);
}
GRAFT_INLINE std::string number_text(const char* format, int precision, double value) {
    char text[128];
    std::snprintf(text, sizeof text, format, precision, value);
    return with_point(text);
}
GRAFT_INLINE GRAFT_COLD std::string shortest_text(double value, bool single) {
    std::string text;
    for (int digits = 1; digits <= 17; ++digits) {
        text = number_text("%.*g", digits, value);
        const double back = read_number(text.c_str());
        if (back == value || (single && static_cast<float>(back) == static_cast<float>(value))) break;
    }
    return text;
}
GRAFT_INLINE double read_number(const char* text, const char** end) {
    const std::string foreign = foreign_point(), given = text;
    const std::size_t at = foreign.empty() ? std::string::npos : given.find('.');
    std::string here = given;
    if (at != std::string::npos)
        here.replace(at, 1, foreign);
    else if (!foreign.empty())  // this locale's own point is none
        here.resize(given.find(foreign) == std::string::npos ? given.size() : given.find(foreign));
    char* stop = nullptr;
    const double value = std::strtod(here.c_str(), &stop);
    std::size_t read = static_cast<std::size_t>(stop - here.c_str());
    if (at != std::string::npos && read > at) read -= foreign.size() - 1;
    if (end) *end = text + read;
    return value;
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
