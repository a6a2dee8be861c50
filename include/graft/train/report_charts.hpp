// Charts of a report: lines, reliability and confusion as inline SVG that follows the page's colours and needs no script.
#pragma once

#include "../core/number_text.hpp"
#include "../core/utf8.hpp"
#include "metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Text as HTML: nothing in it is markup, control characters and bytes that are no UTF-8 are shown as \xNN.
inline std::string html_text(const std::string& raw) {
    std::string out;
    for (std::size_t i = 0; i < raw.size();) {
        const std::size_t n = utf8_length(std::string_view(raw).substr(i));
        const auto c = static_cast<unsigned char>(raw[i]);
        if (n == 0 || (n == 1 && (c < 32 || c == 127))) {
            char hex[8];
            std::snprintf(hex, sizeof hex, "\\x%02x", c);
            out += hex;
            ++i;
            continue;
        }
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else if (c == '\'')
            out += "&#39;";
        else
            out.append(raw, i, n);
        i += n;
    }
    return out;
}

// A number with a point whatever the locale; a dash where there is none.
inline std::string report_number(double value, const char* format) {
    if (!std::isfinite(value)) return "\u2013";
    return detail::number_text(format, value);
}
inline std::string report_percent(double share) { return report_number(share * 100, "%.1f") + (std::isfinite(share) ? "\u202f%" : ""); }
inline std::string coordinate(double value) { return report_number(value, "%.1f"); }

struct chart_series {
    std::string name;
    const char* color;  // a class of the page: "c1" ... "c4"
    std::vector<std::pair<double, double>> points;
    bool dots = true;  // with the figures as a tip
    bool faint = false;
};

// An x to be marked, with a tip and, if it has them, words for what lies before it and behind it.
struct chart_mark {
    double x;
    std::string tip, before, behind;
};

struct line_chart {
    std::string title, x_name;
    std::vector<chart_series> series;
    bool percent = false, logarithmic = false;
    std::vector<chart_mark> marks;
};

// Where a value lies in the picture.
struct chart_axis {
    double low, high, at_low, at_high;
    bool logarithmic = false;
    std::vector<double> ticks;

    double place(double v) const noexcept {
        const double part = logarithmic ? (std::log10(v) - std::log10(low)) / (std::log10(high) - std::log10(low)) : (v - low) / (high - low);
        return at_low + part * (at_high - at_low);
    }
    // Round numbers, 1, 2 or 5 times a power of ten apart.
    void choose_ticks(int wanted, bool whole) {
        if (logarithmic) {
            low = std::pow(10, std::floor(std::log10(low) + 1e-9));
            high = std::pow(10, std::ceil(std::log10(high) - 1e-9));
            if (high <= low) high = low * 10;
            const double decades = std::log10(high / low), apart = std::ceil(decades / 6);
            for (int i = 0; i * apart <= decades + 1e-9; ++i) ticks.push_back(low * std::pow(10, i * apart));
            return;
        }
        if (!(high > low)) high = low + (low != 0 ? std::fabs(low) * 0.1 : 1);
        const double rough = (high - low) / wanted, power = std::pow(10, std::floor(std::log10(rough)));
        double apart = rough / power <= 1 ? power : rough / power <= 2 ? 2 * power : rough / power <= 5 ? 5 * power : 10 * power;
        if (whole) apart = std::max(apart, 1.0);
        const double first = std::ceil(low / apart - 1e-9) * apart;
        for (int i = 0; i < 20; ++i) {  // counted, since a step may be too small to change a large number
            const double t = first + i * apart;
            if (t > high + apart * 1e-9) break;
            ticks.push_back(std::fabs(t) < apart * 1e-9 ? 0 : t);
        }
    }
};

// Means of runs of points: a line of a page has no use for more.
inline std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points, std::size_t most) {
    if (points.size() <= most) return points;
    std::vector<std::pair<double, double>> out;
    for (std::size_t i = 0; i < most; ++i) {
        const std::size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
        double x = 0, y = 0;
        for (std::size_t k = begin; k < end; ++k) x += points[k].first, y += points[k].second;
        const auto n = static_cast<double>(end - begin);
        out.emplace_back(x / n, y / n);
    }
    return out;
}

inline void chart_range(const line_chart& c, chart_axis& x, chart_axis& y) {
    x.low = y.low = HUGE_VAL;
    x.high = y.high = -HUGE_VAL;
    for (const chart_series& s : c.series)
        for (const auto& p : s.points) {
            if (!std::isfinite(p.first) || !std::isfinite(p.second) || (c.logarithmic && p.second <= 0)) continue;
            x.low = std::min(x.low, p.first), x.high = std::max(x.high, p.first);
            y.low = std::min(y.low, p.second), y.high = std::max(y.high, p.second);
        }
    if (x.high < x.low) x.low = y.low = c.logarithmic ? 0.1 : 0, x.high = y.high = 1;
    if (!(x.high > x.low)) x.low -= 0.5, x.high += 0.5;
    if (c.logarithmic) return;
    const double margin = (y.high - y.low) * 0.06;
    y.low = y.low >= 0 ? std::max(0.0, y.low - margin) : y.low - margin;
    y.high = c.percent ? std::min(1.0, y.high + margin) : y.high + margin;
}

inline std::string chart_value(const line_chart& c, double v) { return c.percent ? report_percent(v) : report_number(v, c.logarithmic ? "%.3g" : "%.4g"); }

inline void append_line(std::string& out, const line_chart& c, const chart_series& s, const chart_axis& x, const chart_axis& y) {
    const auto points = thinned(s.points, 400);
    std::string path, dots;
    bool pen_up = true;
    for (const auto& p : points) {
        if (!std::isfinite(p.first) || !std::isfinite(p.second) || (c.logarithmic && p.second <= 0)) {
            pen_up = true;  // a gap says that there was no figure
            continue;
        }
        const std::string px = coordinate(x.place(p.first)), py = coordinate(y.place(p.second));
        path += (pen_up ? "M" : "L") + px + " " + py;
        pen_up = false;
        if (s.dots && points.size() <= 60)
            dots += "<circle class=\"dot " + std::string(s.color) + "\" cx=\"" + px + "\" cy=\"" + py + "\" r=\"3\"><title>" + html_text(s.name) + ", " +
                    html_text(c.x_name) + " " + report_number(p.first, "%.6g") + ": " + chart_value(c, p.second) + "</title></circle>";
    }
    out += "<path class=\"line " + std::string(s.color) + (s.faint ? " faint" : "") + "\" d=\"" + path + "\"><title>" + html_text(s.name) + "</title></path>" +
           dots;
}

// A chart with its legend, 440 wide in its own units.
inline std::string line_chart_html(const line_chart& c) {
    chart_axis x{0, 1, 52, 428, false, {}}, y{0, 1, 214, 12, c.logarithmic, {}};
    chart_range(c, x, y);
    x.choose_ticks(6, true);
    y.choose_ticks(5, false);
    std::string out = "<figure class=\"chart\"><figcaption>" + html_text(c.title) + "</figcaption><p class=\"legend\">";
    for (const chart_series& s : c.series)
        out += "<span><i class=\"key " + std::string(s.color) + (s.faint ? " faint" : "") + "\"></i>" + html_text(s.name) + "</span>";
    out += "</p><svg viewBox=\"0 0 440 250\" role=\"img\" aria-label=\"" + html_text(c.title) + "\">";
    for (const double t : y.ticks) {
        const std::string at = coordinate(y.place(t));
        out += "<path class=\"grid\" d=\"M52 " + at + "H428\"/><text class=\"tick\" x=\"46\" y=\"" + at + "\" dy=\"4\" text-anchor=\"end\">" +
               (c.percent ? report_number(t * 100, "%.4g") + "%" : report_number(t, "%.3g")) + "</text>";
    }
    for (const double t : x.ticks)
        out += "<text class=\"tick\" x=\"" + coordinate(x.place(t)) + "\" y=\"231\" text-anchor=\"middle\">" + report_number(t, "%.6g") + "</text>";
    out += "<text class=\"tick\" x=\"237\" y=\"247\" text-anchor=\"middle\">" + html_text(c.x_name) + "</text>";
    for (const chart_mark& m : c.marks) {
        const double at = x.place(m.x);
        out += "<path class=\"mark\" d=\"M" + coordinate(at) + " 12V214\"><title>" + html_text(m.tip) + "</title></path>";
        // A word that would run out of the picture is left out: the other one tells enough.
        if (!m.before.empty() && at > 118)
            out += "<text class=\"tick\" x=\"" + coordinate(at - 4) + "\" y=\"22\" text-anchor=\"end\">" + html_text(m.before) + "</text>";
        if (!m.behind.empty() && at < 340) out += "<text class=\"tick\" x=\"" + coordinate(at + 4) + "\" y=\"22\">" + html_text(m.behind) + "</text>";
    }
    for (const chart_series& s : c.series) append_line(out, c, s, x, y);
    return out + "</svg></figure>";
}

// Bars of accuracy over confidence; more samples, more colour.
inline std::string reliability_html(const classification_metrics& m) {
    std::string out = "<figure class=\"chart\"><figcaption>Reliability</figcaption><p class=\"legend\"><span><i class=\"key "
                      "c1\"></i>accuracy of a bin; "
                      "stronger where it has more samples</span><span><i class=\"key dash\"></i>perfectly calibrated</span></p>"
                      "<svg viewBox=\"0 0 440 250\" role=\"img\" aria-label=\"Reliability diagram\">";
    const auto px = [](double v) { return 46 + v * 382; };
    const auto py = [](double v) { return 214 - v * 202; };
    std::int64_t most = 1;
    for (int i = 0; i < m.bins; ++i) most = std::max(most, m.calibration(i).samples);
    for (const int t : {0, 20, 40, 60, 80, 100}) {
        const std::string number = std::to_string(t) + "%", y = coordinate(py(t / 100.0));
        out += "<path class=\"grid\" d=\"M46 " + y + "H428\"/><text class=\"tick\" x=\"40\" y=\"" + y + "\" dy=\"4\" text-anchor=\"end\">" + number +
               "</text>" + "<text class=\"tick\" x=\"" + coordinate(px(t / 100.0)) + "\" y=\"231\" text-anchor=\"middle\">" + number + "</text>";
    }
    out += "<text class=\"tick\" x=\"237\" y=\"247\" text-anchor=\"middle\">predicted probability</text>";
    for (int i = 0; i < m.bins; ++i) {
        const calibration_bin b = m.calibration(i);
        if (!b.samples) continue;
        const double strength = 0.25 + 0.75 * std::sqrt(static_cast<double>(b.samples) / static_cast<double>(most));
        const double height = std::max(b.accuracy * 202, 1.0);
        out += "<rect class=\"bin\" x=\"" + coordinate(px(b.low) + 1) + "\" y=\"" + coordinate(214 - height) + "\" width=\"" + coordinate(382.0 / m.bins - 2) +
               "\" height=\"" + coordinate(height) + "\" rx=\"2\" fill-opacity=\"" + report_number(strength, "%.2f") + "\"><title>" +
               std::to_string(b.samples) + " samples, mean probability " + report_percent(b.confidence) + ", right " + report_percent(b.accuracy) +
               "</title></rect>";
    }
    return out + "<path class=\"ideal\" d=\"M46 214L428 12\"/></svg></figure>";
}

// The matrix as a heat map: right answers in one colour, confusions in another, as shares of the row.
inline std::string confusion_html(const classification_metrics& m, const std::vector<std::string>& classes) {
    const auto n = static_cast<int>(m.classes());
    const bool counts = n <= 25;
    const double cell = n <= 12 ? 44 : counts ? 32 : 12;
    std::size_t longest = 1;
    const auto shortened = [](const std::string& name) {
        std::string out;
        std::size_t letters = 0, i = 0;
        for (; i < name.size() && letters < 16; ++letters) {
            const std::size_t bytes = std::max<std::size_t>(utf8_length(std::string_view(name).substr(i)), 1);
            out.append(name, i, bytes);
            i += bytes;
        }
        return i < name.size() ? out + "\u2026" : out;
    };
    for (const auto& c : classes) longest = std::max(longest, std::min<std::size_t>(c.size(), 17));
    const double label = 14 + 7.2 * static_cast<double>(longest), side = cell * n, slant = counts ? label * 0.72 : label;
    const double width = label + side + (counts ? slant * 0.75 : 10), height = slant + 22 + side + 6, top = slant + 22;
    std::string out = std::string("<div class=\"scroll") + (n > 12 ? " wide" : "") + "\"><svg class=\"matrix\" style=\"max-width:" + coordinate(width * 1.1) +
                      "px;min-width:" + coordinate(std::min(width, cell * n * 0.8 + label)) + "px\" viewBox=\"0 0 " + coordinate(width) + " " +
                      coordinate(height) + "\" role=\"img\" aria-label=\"Confusion matrix\">" +
                      "<text class=\"tick\" x=\"0\" y=\"12\">rows: true, columns: predicted</text>";
    for (int r = 0; r < n; ++r) {
        const std::string name = html_text(shortened(classes[static_cast<std::size_t>(r)])), middle = coordinate(top + (r + 0.5) * cell);
        const std::string x = coordinate(label + (r + 0.5) * cell + (counts ? 2 : 4)), y = coordinate(top - 7), turn = counts ? "-42 " : "-90 ";
        if (counts || cell >= 12)
            out += "<text class=\"name\" x=\"" + coordinate(label - 8) + "\" y=\"" + middle + "\" dy=\"4\" text-anchor=\"end\">" + name + "</text>" +
                   "<text class=\"name\" transform=\"rotate(" + turn + x + " " + y + ")\" x=\"" + x + "\" y=\"" + y + "\">" + name + "</text>";
        const std::int64_t support = m.score(r).support;
        for (int p = 0; p < n; ++p) {
            const std::int64_t count = m.confusion(r, p);
            const double share = support ? static_cast<double>(count) / static_cast<double>(support) : 0;
            const double strength = count ? 0.12 + 0.88 * std::sqrt(share) : 1;
            out += "<g><rect class=\"" +
                   std::string(!count   ? "never"
                               : r == p ? "right"
                                        : "wrong") +
                   "\" x=\"" + coordinate(label + p * cell + 1) + "\" y=\"" + coordinate(top + r * cell + 1) + "\" width=\"" + coordinate(cell - 2) +
                   "\" height=\"" + coordinate(cell - 2) + "\" rx=\"" + (counts ? "4" : "1") + "\" fill-opacity=\"" + report_number(strength, "%.2f") + "\"/>";
            if (counts && count)
                out += "<text class=\"count" + std::string(strength > 0.6 ? " on" : "") + "\" x=\"" + coordinate(label + (p + 0.5) * cell) + "\" y=\"" +
                       middle + "\" dy=\"4.5\" text-anchor=\"middle\">" + std::to_string(count) + "</text>";
            out += "<title>" + html_text(classes[static_cast<std::size_t>(r)]) + " taken for " + html_text(classes[static_cast<std::size_t>(p)]) + ": " +
                   std::to_string(count) + " of " + std::to_string(support) + "</title></g>";
        }
    }
    return out + "</svg></div>";
}

}  // namespace detail
GRAFT_END_NAMESPACE
