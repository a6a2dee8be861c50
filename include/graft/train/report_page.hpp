// What all pages share: the head with its policy and its look, pictures, and the script at the end.
#pragma once

#include "../data/png_encode.hpp"
#include "../data/resize.hpp"
#include "base64.hpp"
#include "report_charts.hpp"
#include "report_script.hpp"
#include "report_style.hpp"

#include <algorithm>
#include <cmath>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Nothing is fetched, and no other script runs: whatever names from files hold.
inline std::string page_begin(const std::string& title) {
    return "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta "
           "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';img-src data:;style-src 'unsafe-inline';script-src '" +
           std::string(report_script_hash()) + "'\"><title>" + html_text(title) + "</title><style>" + report_style() + "</style></head><body><main>";
}
inline std::string page_end() { return "</main><script>" + std::string(report_script()) + "</script></body></html>\n"; }

// The img element of a picture, shrunk to what is shown where it is large.
inline result<std::string> picture_html(const image& picture, const std::string& name) {
    image small = picture;
    constexpr std::int64_t most = 320;
    if (small.height > most || small.width > most) {
        const double shrink = static_cast<double>(most) / static_cast<double>(std::max(small.height, small.width));
        const auto side = [shrink](std::int64_t v) { return std::max<std::int64_t>(1, std::llround(static_cast<double>(v) * shrink)); };
        GRAFT_TRY_ASSIGN(small, resize(picture, side(picture.height), side(picture.width)));
    }
    std::string png;
    GRAFT_TRY_ASSIGN(png, encode_png(small));
    const bool tiny = std::max(small.height, small.width) <= 64;
    return "<img" + std::string(tiny ? " class=\"tiny\"" : "") + " alt=\"" + html_text(name) + "\" width=\"" + std::to_string(small.width) + "\" height=\"" +
           std::to_string(small.height) + "\" src=\"data:image/png;base64," + base64_encode(png) + "\">";
}

}  // namespace detail
GRAFT_END_NAMESPACE
