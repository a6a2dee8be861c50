// compare.html: curves of runs laid over each other, what differs in their settings, classes and answers.
#include "compare.hpp"

#include <graft/data/decode.hpp>
#include <graft/train/report_page.hpp>

#include "fixes.hpp"

#include <algorithm>

namespace program {
namespace {

using graft::detail::html_text;
using graft::detail::report_number;
using graft::detail::report_percent;

constexpr const char* colors[] = {"c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"};
constexpr std::size_t most_curves = sizeof colors / sizeof *colors;
constexpr std::size_t most_pictures = 12, most_rows = 200;

const char* more_colors() {
    return "<style>:root{--c5:#b01e6f;--c6:#0a7281;--c7:#7d6a00;--c8:#5b6470}@media(prefers-color-scheme:dark){:root{--c5:#f386c0;--c6:#57cfe0;--c7:#d9c54a;"
           "--c8:#aeb6bf}}.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}.c8{--c:var(--c8)}.up{color:var(--c3)}h3:not(:first-child){margin-top:18px}."
           "down{color:var(--c2)}</style>";
}

std::string cell(const std::string& text) { return "<td>" + html_text(text); }
std::string dash_or(std::int64_t n) { return n > 0 ? std::to_string(n) : "\u2013"; }

void append_table(std::string& out, const std::vector<compared_run>& runs) {
    out += "<div class=\"scroll\"><table><tr><th class=\"text\">run<th>top-1<th>in "
           "epoch<th>loss<th>epochs<th>time<th>images/s<th>memory<th class=\"text\">device</tr>";
    double best = -1;
    for (const compared_run& r : runs) best = std::max(best, std::isfinite(r.top1) ? r.top1 : -1);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const compared_run& r = runs[i];
        const std::string key = i < most_curves ? "<i class=\"key " + std::string(colors[i]) + "\"></i>" : "";
        out += std::string(r.top1 == best ? "<tr class=\"best\">" : "<tr>") + "<td class=\"text\">" + key + html_text(r.name) + "<td>" +
               report_percent(r.top1) + cell(dash_or(r.best_epoch)) + "<td>" + report_number(r.loss, "%.4f") + cell(dash_or(r.epochs)) +
               cell(std::isfinite(r.seconds) ? clock_text(r.seconds) : "\u2013") + "<td>" +
               report_number(r.images_per_s, r.images_per_s < 9.95 ? "%.1f" : "%.0f") +
               cell(std::isfinite(r.peak_rss_mb) ? report_number(r.peak_rss_mb, "%.0f") + " MB" : "\u2013") + "<td class=\"text\">" +
               html_text(r.device.empty() ? "\u2013" : r.device) + "</tr>";
    }
    out += "</table></div>";
    for (const compared_run& r : runs)
        for (const std::string& note : r.notes) out += "<p class=\"note\"><b>" + html_text(r.name) + "</b>: " + html_text(note) + "</p>";
}

void append_curves(std::string& out, const std::vector<compared_run>& runs) {
    using points = std::vector<std::pair<double, double>>;
    const auto chart = [&](const char* title, bool percent, points compared_run::*training, points compared_run::*validation) {
        graft::detail::line_chart c;
        c.title = title, c.x_name = "epoch", c.percent = percent;
        for (std::size_t i = 0; i < runs.size() && i < most_curves; ++i) {
            if (training && !(runs[i].*training).empty())
                c.series.push_back({runs[i].name + (validation ? ", training" : ""), colors[i], runs[i].*training, !validation, validation != nullptr});
            if (validation && !(runs[i].*validation).empty()) c.series.push_back({runs[i].name, colors[i], runs[i].*validation, true, false});
        }
        if (!c.series.empty()) out += graft::detail::line_chart_html(c);
    };
    out += "<section><h2>Progress</h2>";
    if (runs.size() > most_curves) out += "<p>Curves of the first " + std::to_string(most_curves) + " runs.</p>";
    out += "<p>Strong lines are of the validation pictures, faint ones of training.</p><div class=\"charts\">";
    chart("Loss", false, &compared_run::training_loss, &compared_run::validation_loss);
    chart("Accuracy (top-1)", true, &compared_run::training_top1, &compared_run::validation_top1);
    chart("Learning rate", false, &compared_run::learning_rate, nullptr);
    out += "</div></section>";
}

void append_settings(std::string& out, const std::vector<compared_run>& runs) {
    const std::vector<setting_difference> differ = differing_settings(runs);
    out += "<section><h2>Settings that differ</h2>";
    if (differ.empty()) {
        out += "<p>None of those that are recorded.</p></section>";
        return;
    }
    out += "<div class=\"scroll\"><table class=\"wide\"><tr><th class=\"text\">setting";
    for (const compared_run& r : runs) out += "<th class=\"text\">" + html_text(r.name);
    out += "</tr>";
    for (const setting_difference& d : differ) {
        out += "<tr><th class=\"text\">" + html_text(d.name);
        for (const std::string& v : d.values) out += "<td class=\"text\">" + html_text(v.empty() ? "\u2013" : v);
        out += "</tr>";
    }
    out += "</table></div></section>";
}

std::string points_text(double share) {
    if (!std::isfinite(share) || share == 0) return "";
    return " <span class=\"" + std::string(share > 0 ? "up" : "down") + "\">" + report_number(share * 100, "%+.1f") + "</span>";
}

void append_classes(std::string& out, const std::vector<compared_run>& runs) {
    std::vector<class_comparison> classes = compare_classes(runs);
    if (classes.empty()) return;
    out += "<section><h2>Class by class</h2><p>How many of the validation pictures of a class are found, of those that all runs have; behind it the points "
           "that this is more or less than of the first run.</p><div class=\"scroll\"><table><tr><th "
           "class=\"text\">class<th>pictures";
    for (const compared_run& r : runs) out += "<th>" + html_text(r.name);
    out += "</tr>";
    for (std::size_t i = 0; i < classes.size() && i < most_rows; ++i) {
        const class_comparison& c = classes[i];
        out += "<tr><td class=\"text\">" + html_text(c.name) + cell(std::to_string(c.pictures));
        const auto share = [&](std::size_t r) {
            return c.found[r] < 0 ? compared_run::none : static_cast<double>(c.found[r]) / static_cast<double>(c.pictures);
        };
        for (std::size_t r = 0; r < runs.size(); ++r) out += "<td>" + report_percent(share(r)) + (r ? points_text(share(r) - share(0)) : "");
        out += "</tr>";
    }
    out += "</table></div>";
    if (classes.size() > most_rows) out += "<p>The first " + std::to_string(most_rows) + " of " + std::to_string(classes.size()) + " classes.</p>";
    out += "</section>";
}

// A picture of the dataset, small; nothing where it is no longer there.
std::string picture_html(const std::string& data, const std::string& path) {
    auto read = graft::decode_file(graft::join_path(folder_of_dataset(data), path));
    if (!read.ok()) return "";
    auto shown = graft::detail::picture_html(*read, path);
    return shown.ok() ? std::move(shown).value() : "";
}

void append_sides(std::string& out, const compared_run& first, const compared_run& other, const std::vector<std::string>& paths, const char* title) {
    if (paths.empty()) return;
    out += "<h3>" + std::string(title) + " (" + std::to_string(paths.size()) + ")</h3><div class=\"pictures\">";
    std::size_t shown = 0;
    std::string rest;
    for (const std::string& path : paths) {
        const compared_answer &a = first.answers.at(path), &b = other.answers.at(path);
        const std::string picture = shown < most_pictures ? picture_html(first.data, path) : "";
        if (picture.empty()) {
            if (rest.size() < 20000) rest += (rest.empty() ? "" : ", ") + html_text(path);
            continue;
        }
        ++shown;
        const auto answer = [](const compared_answer& c) {
            return "<b class=\"" + std::string(c.predicted == c.label ? "good" : "bad") + "\">" + html_text(c.predicted) + "</b> " +
                   report_percent(c.probability);
        };
        out += "<figure>" + picture + "<figcaption><b>" + html_text(a.label) + "</b><br>" + answer(a) + " \u2192 " + answer(b) + "<small title=\"" +
               html_text(path) + "\">" + html_text(path) + "</small></figcaption></figure>";
    }
    out += "</div>";
    if (!rest.empty()) out += "<details><summary>" + std::string(shown ? "The others" : "Which") + "</summary><p>" + rest + "</p></details>";
}

void append_changes(std::string& out, const std::vector<compared_run>& runs) {
    const compared_run& first = runs[0];
    for (std::size_t i = 1; i < runs.size(); ++i) {
        const changed_answers c = changes_to(first, runs[i]);
        if (!c.shared) continue;
        out += "<section><h2>" + html_text(runs[i].name) + " beside " + html_text(first.name) + "</h2><p>Of " + std::to_string(c.shared) +
               " validation pictures that both have, " + std::to_string(c.right) + " are right, and " + std::to_string(c.was) +
               " were: " + std::to_string(c.won.size()) + " won, " + std::to_string(c.lost.size()) + " lost.</p>";
        std::vector<changed_confusion> pairs = changed_confusions(first, runs[i]);
        if (pairs.size() > 16) pairs.resize(16);
        if (!pairs.empty()) {
            out += "<h3>Confused more often, or less</h3><div class=\"scroll\"><table "
                   "class=\"pairs\"><tr><th class=\"text\">true class<th class=\"text\">taken for<th>" +
                   html_text(first.name) + "<th>" + html_text(runs[i].name) + "</tr>";
            for (const changed_confusion& p : pairs)
                out += "<tr><td class=\"text\">" + html_text(p.label) + "<td class=\"text\">" + html_text(p.predicted) + cell(std::to_string(p.was)) +
                       "<td class=\"" + (p.now < p.was ? "up" : "down") + "\">" + std::to_string(p.now) + "</tr>";
            out += "</table></div>";
        }
        append_sides(out, first, runs[i], c.won, "Right now");
        append_sides(out, first, runs[i], c.lost, "Wrong now");
        out += "</section>";
    }
}

}  // namespace

std::string comparison_page(const std::vector<compared_run>& runs, const std::string& command) {
    std::string title;
    for (const compared_run& r : runs) title += (title.empty() ? "" : ", ") + r.name;
    std::string out = graft::detail::page_begin("Runs compared: " + title);
    out.insert(out.find("</head>"), more_colors());
    out += "<header><h1>Runs compared</h1><pre>" + html_text(command) + "</pre>";
    append_table(out, runs);
    out += "</header>";
    append_curves(out, runs);
    append_settings(out, runs);
    append_classes(out, runs);
    append_changes(out, runs);
    return out + graft::detail::page_end();
}

}  // namespace program
