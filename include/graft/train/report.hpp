// report.html: what a training run did, on one page that needs nothing but a browser.
#pragma once

#include "../core/error.hpp"
#include "../data/image.hpp"
#include "member_record.hpp"
#include "metrics.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Figures of one epoch; those that were not taken are NaN.
struct epoch_figures {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    std::int64_t epoch = 0;  ///< from 1
    double train_loss = none, train_top1 = none;
    double val_loss = none, val_top1 = none, val_top_k = none;  ///< shares are 0..1
    double learning_rate = none, seconds = none;
    double device_busy = none, device_bytes = none, device_watts = none, device_celsius = none;  ///< of a GPU; device_busy is a share
};

/// A picture of the validation set and what the model made of it.
struct report_picture {
    image picture;  ///< any size; shown small
    std::string path;
    std::int64_t truth = 0, predicted = 0;  ///< indices of classes
    double probability = 0;                 ///< of the predicted class
    double loss = epoch_figures::none;
    std::string remedy, command;  ///< what may be wrong with the dataset here, and the line that mends it; both or none
};

/// Two pictures that are copies of each other, where that does harm.
struct report_copy {
    image picture, other;  ///< shown small
    std::string path, of;
    std::string remedy, command;  ///< as of report_picture
};

/// A name and a value, both shown as they are.
using report_rows = std::vector<std::pair<std::string, std::string>>;

/// Everything that a report shows. What is empty is left out.
struct training_report {
    std::string title = "Training report";
    std::string model, data, device, command, version;  ///< what was trained, on what, where, how, by which graft
    std::vector<std::string> classes;                   ///< as many as `metrics` has
    std::vector<epoch_figures> epochs;
    std::int64_t best_epoch = 0;  ///< from 1; the epoch that was kept
    bool stopped_early = false;
    std::int64_t head_alone = 0;                            ///< for so many epochs the head learnt alone, then the trunk joined
    std::vector<std::pair<double, double>> step_losses;     ///< (epochs done, loss) of single steps
    std::vector<std::pair<double, double>> learning_rates;  ///< (epochs done, rate)
    classification_metrics metrics;                         ///< of the kept model on the validation set; without samples: left out
    double images_per_s = epoch_figures::none, seconds = epoch_figures::none;
    double data_wait = epoch_figures::none;                                         ///< share of the time in which the step waited for data, 0..1
    std::int64_t train_images = 0, val_images = 0, parameters = 0, peak_bytes = 0;  ///< 0: not shown
    std::vector<report_picture> wrong;                                              ///< the most wrong first
    std::vector<report_picture> doubted;                                            ///< pictures that were learnt from, whose label is doubted
    std::string doubted_about;                                                      ///< who doubts it, and how far that goes; a sentence or two
    std::vector<report_copy> copies;                                                ///< across parts and across classes
    std::string fixes;                                                              ///< what all that can be mended comes to, a sentence
    std::string fixes_command;                                                      ///< the line that shows it
    std::vector<report_picture> maps;                                               ///< pictures with a Grad-CAM over them (`overlay_heat_map`)
    std::vector<std::pair<std::string, double>> timing;                             ///< part of the run, seconds
    std::vector<member_record> members;  ///< what the processes or replicas that trained it did; one that held up the others is named
    std::vector<stage_record> stages;    ///< what the stages of a pipeline did
    report_rows settings;
    std::vector<std::string> notes;  ///< sentences a reader should see first: skipped pictures, warnings
};

/// The page: one HTML text without anything from elsewhere; charts are SVG, pictures PNG inside. Its one script, which copies commands and
/// enlarges pictures, is the same on every page, and the page's policy lets no other run. Equal reports give equal bytes. Errors: labels.count (classes and
/// metrics disagree), data.label_range (a picture's class), memory.oom.
result<std::string> report_html(const training_report& report);
/// Writes it to a file, which stays what it was until the new one is whole. Errors: those of `report_html`, file.write.
status write_report(const training_report& report, const std::string& path);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file.hpp"
#include "../data/splits.hpp"
#include "report_charts.hpp"
#include "report_page.hpp"

#include <algorithm>
#include <cmath>
GRAFT_BEGIN_NAMESPACE
namespace detail {

inline std::string duration_text(double seconds) {
    if (!std::isfinite(seconds)) return "\u2013";
    if (seconds < 10) return report_number(seconds, "%.1f") + " s";
    const auto s = static_cast<std::int64_t>(seconds + 0.5);
    if (s < 60) return std::to_string(s) + " s";
    char text[64];
    if (s < 3600)
        std::snprintf(text, sizeof text, "%d min %02d s", static_cast<int>(s / 60), static_cast<int>(s % 60));
    else
        std::snprintf(text, sizeof text, "%lld h %02d min", static_cast<long long>(s / 3600), static_cast<int>(s / 60 % 60));
    return text;
}

inline std::string quantity_text(double value, const char* unit) {
    const char* prefixes[] = {"", "k", "M", "G", "T"};
    int at = 0;
    while (value >= 999.5 && at < 4) value /= 1000, ++at;
    return report_number(value, at == 0 || value >= 99.5 ? "%.0f" : value >= 9.95 ? "%.1f" : "%.2f") + "\u202f" + prefixes[at] + unit;
}

inline void append_tile(std::string& out, const std::string& value, const char* name) {
    out += "<div class=\"tile\"><b>" + html_text(value) + "</b><span>" + name + "</span></div>";
}

inline void append_header(std::string& out, const training_report& r) {
    const bool scored = r.metrics.samples() > 0;
    out += "<header><h1>" + html_text(r.title) + "</h1>";
    std::string facts;
    const std::pair<const char*, const std::string*> all[] = {{"model", &r.model}, {"data", &r.data}, {"device", &r.device}, {"graft", &r.version}};
    for (const auto& f : all)
        if (!f.second->empty()) facts += std::string("<span><i>") + f.first + "</i> " + html_text(*f.second) + "</span>";
    if (!facts.empty()) out += "<p class=\"facts\">" + facts + "</p>";
    if (!r.command.empty()) out += "<pre>" + html_text(r.command) + "</pre>";
    for (const std::string& note : r.notes) out += "<p class=\"note\">" + html_text(note) + "</p>";
    out += "<div class=\"tiles\">";
    if (scored) {
        append_tile(out, report_percent(r.metrics.top1()), "top-1 on validation");
        if (is_imbalanced(r.metrics.supports())) {
            append_tile(out, report_percent(r.metrics.balanced_accuracy()), "balanced accuracy");
            append_tile(out, report_percent(r.metrics.majority()), "by always naming the largest class");
        }
        if (r.metrics.classes() > r.metrics.k()) append_tile(out, report_percent(r.metrics.top_k()), ("top-" + std::to_string(r.metrics.k())).c_str());
        append_tile(out, report_number(r.metrics.loss(), "%.4g"), "validation loss");
        append_tile(out, report_number(r.metrics.macro_f1(), "%.3f"), "macro F1");
    }
    if (!r.epochs.empty())
        append_tile(out, std::to_string(r.epochs.size()) + (r.best_epoch > 0 ? ", best " + std::to_string(r.best_epoch) : ""),
                    r.stopped_early ? "epochs, stopped early" : "epochs");
    if (std::isfinite(r.seconds)) append_tile(out, duration_text(r.seconds), "training time");
    if (std::isfinite(r.images_per_s)) append_tile(out, quantity_text(r.images_per_s, ""), "images/s");
    if (std::isfinite(r.data_wait)) append_tile(out, report_percent(r.data_wait), "waiting for data");
    if (r.peak_bytes > 0) append_tile(out, quantity_text(static_cast<double>(r.peak_bytes), "B"), "peak memory");
    if (r.parameters > 0) append_tile(out, quantity_text(static_cast<double>(r.parameters), ""), "parameters");
    if (r.train_images > 0 || r.val_images > 0) append_tile(out, std::to_string(r.train_images) + " + " + std::to_string(r.val_images), "images, train + val");
    out += "</div></header>";
}

// One figure of every epoch, as points.
inline chart_series epoch_series(const training_report& r, const char* name, const char* color, double epoch_figures::*figure) {
    chart_series s{name, color, {}, true, false};
    for (const epoch_figures& e : r.epochs) s.points.emplace_back(static_cast<double>(e.epoch), e.*figure);
    const auto given = [](const std::pair<double, double>& p) { return std::isfinite(p.second); };
    if (std::none_of(s.points.begin(), s.points.end(), given)) s.points.clear();
    return s;
}

inline void append_chart(std::string& out, line_chart c, const training_report& r) {
    c.series.erase(std::remove_if(c.series.begin(), c.series.end(), [](const chart_series& s) { return s.points.empty(); }), c.series.end());
    if (c.series.empty()) return;
    c.x_name = "epoch";
    if (r.best_epoch > 0 && !c.logarithmic) {
        c.marks.push_back({static_cast<double>(r.best_epoch), "the epoch that was kept", "", ""});
    }
    if (r.head_alone > 0 && r.head_alone < static_cast<std::int64_t>(r.epochs.size()))
        c.marks.push_back({static_cast<double>(r.head_alone), "before this the head learnt alone, behind it the trunk too", "head alone", "whole network"});
    out += line_chart_html(c);
}

inline void append_curves(std::string& out, const training_report& r) {
    if (r.epochs.empty() && r.step_losses.empty()) return;
    out += "<section><h2>Progress</h2><div class=\"charts\">";
    line_chart loss, top1, rate;
    loss.title = "Loss";
    loss.series = {{"single steps", "c1", r.step_losses, false, true},
                   epoch_series(r, "training", "c1", &epoch_figures::train_loss),
                   epoch_series(r, "validation", "c2", &epoch_figures::val_loss)};
    top1.title = "Accuracy";
    top1.percent = true;
    top1.series = {epoch_series(r, "training top-1", "c1", &epoch_figures::train_top1), epoch_series(r, "validation top-1", "c2", &epoch_figures::val_top1)};
    if (r.metrics.classes() > r.metrics.k())
        top1.series.push_back(epoch_series(r, ("validation top-" + std::to_string(r.metrics.k())).c_str(), "c3", &epoch_figures::val_top_k));
    rate.title = "Learning rate";
    rate.series = {{"learning rate", "c4", r.learning_rates, false, false}};
    if (r.learning_rates.empty()) rate.series = {epoch_series(r, "learning rate", "c4", &epoch_figures::learning_rate)};
    for (const line_chart* c : {&loss, &top1, &rate}) append_chart(out, *c, r);
    if (!r.epochs.empty()) {
        out += std::string("<details") + (r.epochs.size() <= 12 ? " open" : "") +
               "><summary>Every epoch in numbers</summary><div class=\"scroll\"><table class=\"epochs\"><tr><th>epoch<th>train "
               "loss<th>top-1<th>val "
               "loss<th>top-1<th>rate<th>time</tr>";
        for (const epoch_figures& e : r.epochs)
            out += std::string(e.epoch == r.best_epoch ? "<tr class=\"best\">" : "<tr>") + "<td>" + std::to_string(e.epoch) + "<td>" +
                   report_number(e.train_loss, "%.4f") + "<td>" + report_percent(e.train_top1) + "<td>" + report_number(e.val_loss, "%.4f") + "<td>" +
                   report_percent(e.val_top1) + "<td>" + report_number(e.learning_rate, "%.2g") + "<td>" + duration_text(e.seconds) + "</tr>";
        out += "</table></div></details>";
    }
    out += "</div></section>";
}

inline void append_confused_pairs(std::string& out, const training_report& r) {
    struct pair {
        std::int64_t count, truth, predicted;
    };
    std::vector<pair> pairs;
    const std::int64_t n = r.metrics.classes();
    for (std::int64_t t = 0; t < n; ++t)
        for (std::int64_t p = 0; p < n; ++p)
            if (t != p && r.metrics.confusion(t, p)) pairs.push_back({r.metrics.confusion(t, p), t, p});
    if (pairs.empty()) return;
    std::stable_sort(pairs.begin(), pairs.end(), [](const pair& a, const pair& b) { return a.count > b.count; });
    if (pairs.size() > (n > 60 ? 24u : 8u)) pairs.resize(n > 60 ? 24 : 8);
    out += "<div><h3>Confused most often</h3><table class=\"pairs\"><tr><th class=\"text\">true class<th class=\"text\">taken "
           "for<th>times<th>of</tr>";
    for (const pair& p : pairs)
        out += "<tr><td class=\"text\">" + html_text(r.classes[static_cast<std::size_t>(p.truth)]) + "<td class=\"text\">" +
               html_text(r.classes[static_cast<std::size_t>(p.predicted)]) + "<td>" + std::to_string(p.count) + "<td>" +
               std::to_string(r.metrics.score(p.truth).support) + "</tr>";
    out += "</table></div>";
}

inline std::string bar_cell(double share, const char* color, const std::string& value) {
    return "<td class=\"bar\"><b>" + value + "</b><span class=\"" + color + "\"><i style=\"width:" + report_number(share * 100, "%.1f") + "%\"></i></span>";
}
inline std::string share_cell(double share, const char* color) { return bar_cell(share, color, report_number(share, "%.3f")); }

inline void append_classes(std::string& out, const training_report& r) {
    if (!r.metrics.samples()) return;
    out += "<section><h2>Which classes are confused</h2><div class=\"split\">";
    if (r.metrics.classes() <= 60) out += confusion_html(r.metrics, r.classes);
    append_confused_pairs(out, r);
    out += "</div></section><section><h2>Class by class</h2>";
    std::vector<std::int64_t> order;
    std::vector<double> f1;
    for (std::int64_t c = 0; c < r.metrics.classes(); ++c) {
        order.push_back(c);
        f1.push_back(r.metrics.score(c).f1);
    }
    std::string about = "Precision: how many of those taken for the class are of it. Recall: how many of the class were found.";
    if (order.size() > 200) {
        // The page stays readable: the rest is in the program's JSON.
        std::stable_sort(order.begin(), order.end(),
                         [&f1](std::int64_t a, std::int64_t b) { return f1[static_cast<std::size_t>(a)] < f1[static_cast<std::size_t>(b)]; });
        order.resize(200);
        about += " The 200 classes with the lowest F1 of " + std::to_string(r.metrics.classes()) + ".";
    }
    out += "<p>" + about +
           "</p><div class=\"scroll\"><table class=\"classes\"><tr><th class=\"text\">class<th class=\"text\">precision<th "
           "class=\"text\">recall<th class=\"text\">F1<th>images</tr>";
    for (const std::int64_t c : order) {
        const class_score s = r.metrics.score(c);
        out += "<tr><td class=\"text\">" + html_text(r.classes[static_cast<std::size_t>(c)]) + share_cell(s.precision, "c1") + share_cell(s.recall, "c2") +
               share_cell(s.f1, "c3") + "<td>" + std::to_string(s.support) + "</tr>";
    }
    out += "</table></div></section>";
}

inline void append_calibration(std::string& out, const training_report& r) {
    if (!r.metrics.samples()) return;
    std::int64_t sure = 0, sure_right = 0;
    for (int i = 0; i < r.metrics.bins; ++i) {
        const calibration_bin b = r.metrics.calibration(i);
        if (b.low < 0.8 - 1e-9) continue;
        sure += b.samples;
        sure_right += b.correct;
    }
    out += "<section><h2>Can its probabilities be believed?</h2><div class=\"split\">" + reliability_html(r.metrics) +
           "<div><p>Expected calibration error <b>" + report_number(r.metrics.calibration_error(), "%.4f") +
           "</b>: this is how far, on average, the probability that the model gives its answer is from the "
           "share of answers that are right.</p>";
    if (sure)
        out += "<p>With a probability over 80\u202f% it answered " + std::to_string(sure) + " of " + std::to_string(r.metrics.samples()) + " pictures, and " +
               report_percent(static_cast<double>(sure_right) / static_cast<double>(sure)) + " of those were right.</p>";
    out += "</div></div></section>";
}

inline std::string command_html(const std::string& remedy, const std::string& command) {
    if (command.empty()) return "";
    return "<span class=\"remedy\">" + html_text(remedy) + "</span><code class=\"command\">" + html_text(command) + "</code>";
}

inline status append_pictures(std::string& out, const training_report& r, const std::vector<report_picture>& pictures, const char* title,
                              const std::string& about) {
    if (pictures.empty()) return {};
    out += "<section><h2>" + std::string(title) + "</h2><p>" + about + "</p><div class=\"pictures\">";
    for (const report_picture& p : pictures) {
        const auto n = static_cast<std::int64_t>(r.classes.size());
        if (p.truth < 0 || p.truth >= n || p.predicted < 0 || p.predicted >= n)
            return fail(errc::data_label_range, "'" + p.path + "'", "its class is none of the report's " + std::to_string(n));
        std::string shown;
        GRAFT_TRY_ASSIGN(shown, picture_html(p.picture, p.path));
        const std::string truth = html_text(r.classes[static_cast<std::size_t>(p.truth)]), taken = html_text(r.classes[static_cast<std::size_t>(p.predicted)]);
        out += "<figure>" + shown + "<figcaption>";
        if (p.truth == p.predicted)
            out += "<b class=\"good\">" + taken + "</b> " + report_percent(p.probability);
        else
            out += "<b>" + truth + "</b><br>taken for <b class=\"bad\">" + taken + "</b> " + report_percent(p.probability);
        out += "<small title=\"" + html_text(p.path) + "\">" + html_text(p.path) + (std::isfinite(p.loss) ? ", loss " + report_number(p.loss, "%.2f") : "") +
               "</small>" + command_html(p.remedy, p.command) + "</figcaption></figure>";
    }
    out += "</div></section>";
    return {};
}

inline status append_copies(std::string& out, const training_report& r) {
    if (r.copies.empty()) return {};
    out += "<section><h2>Pictures that are there twice</h2><p>A picture that is learnt from and scored by makes the score too good; of one that lies in two "
           "classes one label is wrong.</p><div class=\"pictures pairs\">";
    for (const report_copy& c : r.copies) {
        std::string one, other;
        GRAFT_TRY_ASSIGN(one, picture_html(c.picture, c.path));
        GRAFT_TRY_ASSIGN(other, picture_html(c.other, c.of));
        out += "<figure><div class=\"two\">" + one + other + "</div><figcaption><small title=\"" + html_text(c.path) + "\">" + html_text(c.path) +
               "</small><small title=\"" + html_text(c.of) + "\">" + html_text(c.of) + "</small>" + command_html(c.remedy, c.command) +
               "</figcaption></figure>";
    }
    out += "</div></section>";
    return {};
}

inline void append_fixes(std::string& out, const training_report& r) {
    if (r.fixes_command.empty()) return;
    out += "<section><h2>What the dataset may need</h2><p>" + html_text(r.fixes) + "</p><p><code class=\"command\">" + html_text(r.fixes_command) +
           "</code></p></section>";
}

inline void append_timing(std::string& out, const training_report& r) {
    double all = 0;
    for (const auto& t : r.timing) all += std::isfinite(t.second) ? t.second : 0;
    if (!(all > 0)) return;
    out += "<section><h2>Where the time went</h2><table class=\"timing\"><tr><th class=\"text\">part<th "
           "class=\"text\">share<th>time</tr>";
    for (const auto& t : r.timing) {
        const double share = t.second / all;
        out += "<tr><td class=\"text\">" + html_text(t.first) + bar_cell(share, "c1", report_percent(share)) + "<td>" + duration_text(t.second) + "</tr>";
    }
    out += "</table></section>";
}

// What the device did in each epoch: a chart of how busy it was, and the rest in numbers.
inline void append_device(std::string& out, const training_report& r) {
    const auto told = [](const epoch_figures& e) {
        return std::isfinite(e.device_busy) || std::isfinite(e.device_bytes) || std::isfinite(e.device_watts) || std::isfinite(e.device_celsius);
    };
    if (std::none_of(r.epochs.begin(), r.epochs.end(), told)) return;
    out += "<section><h2>What the GPU did</h2><p>Means over each epoch's training, of everything that ran on it.</p><div class=\"charts\">";
    line_chart busy;
    busy.title = "Busy";
    busy.percent = true;
    busy.series = {epoch_series(r, "share of the time in which a kernel ran", "c1", &epoch_figures::device_busy)};
    append_chart(out, busy, r);
    out += "<div class=\"scroll\"><table class=\"epochs\"><tr><th>epoch<th>busy<th>memory<th>power<th>temperature</tr>";
    const auto cell = [](double value, const char* format, const char* unit) {
        return "<td>" + report_number(value, format) + (std::isfinite(value) ? std::string("\u202f") + unit : "");
    };
    for (const epoch_figures& e : r.epochs)
        if (told(e))
            out += "<tr><td>" + std::to_string(e.epoch) + "<td>" + report_percent(e.device_busy) + "<td>" +
                   (std::isfinite(e.device_bytes) ? quantity_text(e.device_bytes, "B") : std::string("\u2013")) + cell(e.device_watts, "%.0f", "W") +
                   cell(e.device_celsius, "%.0f", "\u00b0C") + "</tr>";
    out += "</table></div></div></section>";
}

// What more or fewer members would reach.
inline void append_scaling(std::string& out, const training_report& r) {
    const std::vector<scaling_row> rows = scaling_table(r.members);
    if (rows.empty()) return;
    const auto range = [](double least, double most, const auto& text) {
        const std::string low = text(least), high = text(most);
        return low == high ? low : low + " to " + high;
    };
    const auto pace = [](double v) { return report_number(v, v < 9.95 ? "%.1f" : "%.0f"); };
    out += "<h3>More members, or fewer</h3><p>Measured is this run alone. The other lines are <b>predictions</b>, each member having as many samples a step "
           "as here: the work of one, and the waiting of this run as it grows if it is all for bytes to arrive, or all for messages.</p><div "
           "class=\"scroll\"><table class=\"timing\"><tr><th>members<th class=\"text\">figures<th>images/s<th>efficiency</tr>";
    for (const scaling_row& s : rows)
        out += std::string(s.measured ? "<tr class=\"best\">" : "<tr>") + "<td>" + std::to_string(s.members) + "<td class=\"text\">" +
               (s.measured ? "measured" : "predicted") + "<td>" + range(s.least_images_per_s, s.most_images_per_s, pace) + "<td>" +
               range(s.least_efficiency, s.most_efficiency, [](double v) { return report_percent(v); }) + "</tr>";
    out += "</table></div>";
}

// What the members of the run did, and what waiting for each other cost them.
inline void append_members(std::string& out, const training_report& r) {
    if (r.members.size() < 2) return;
    const bool hosts = !r.members.front().host.empty();
    const auto pace = [](double v) { return report_number(v, v < 9.95 ? "%.1f" : "%.0f"); };
    out += "<section><h2>Members</h2><p>Together they reached " + pace(reached_images_per_s(r.members)) + " images/s of the " +
           pace(unhindered_images_per_s(r.members)) + " that they would if nobody waited, an efficiency of <b>" +
           report_percent(scaling_efficiency(r.members)) + "</b>.</p>";
    if (const std::string slow = straggler_text(r.members); !slow.empty()) out += "<p>In all, " + html_text(slow) + "</p>";
    out += std::string("<div class=\"scroll\"><table class=\"timing\"><tr><th>") + (hosts ? "rank<th class=\"text\">host" : "replica") +
           "<th class=\"text\">device<th>samples<th>own work<th>images/s of it<th class=\"text\">waiting<th>memory</tr>";
    for (const member_record& m : r.members)
        out += "<tr><td>" + std::to_string(m.rank) + (hosts ? "<td class=\"text\">" + html_text(m.host) : "") + "<td class=\"text\">" + html_text(m.device) +
               "<td>" + std::to_string(m.samples) + "<td>" + duration_text(m.busy_seconds()) + "<td>" + pace(m.images_per_s()) +
               bar_cell(m.waiting_share(), "c1", report_percent(m.waiting_share())) + "<td>" +
               (m.bytes > 0 ? quantity_text(static_cast<double>(m.bytes), "B") : std::string("\u2013")) + "</tr>";
    out += "</table></div>";
    append_scaling(out, r);
    out += "</section>";
}

// What the stages of a pipeline did.
inline void append_stages(std::string& out, const training_report& r) {
    if (r.stages.empty()) return;
    out += "<section><h2>Stages</h2><p>The network is cut into stages, through which each batch goes in parts; a stage waits where it has no part to "
           "compute.</p><div class=\"scroll\"><table class=\"timing\"><tr><th>stage<th class=\"text\">device<th>computed<th "
           "class=\"text\">waiting<th>memory</tr>";
    for (std::size_t s = 0; s < r.stages.size(); ++s) {
        const stage_record& stage = r.stages[s];
        const double waits = stage.waiting_share();
        out += "<tr><td>" + std::to_string(s + 1) + "<td class=\"text\">" + html_text(stage.device) + "<td>" +
               (stage.busy < 0 ? std::string("\u2013") : duration_text(stage.busy)) +
               (waits < 0 ? std::string("<td class=\"text\">not measured") : bar_cell(waits, "c1", report_percent(waits))) + "<td>" +
               quantity_text(static_cast<double>(stage.bytes), "B") + "</tr>";
    }
    out += "</table></div></section>";
}

inline void append_settings(std::string& out, const training_report& r) {
    if (r.settings.empty()) return;
    out += "<section><h2>Settings</h2><div class=\"scroll\"><table class=\"settings\">";
    for (const auto& s : r.settings) out += "<tr><th class=\"text\">" + html_text(s.first) + "<td class=\"text\">" + html_text(s.second) + "</tr>";
    out += "</table></div></section>";
}

}  // namespace detail

GRAFT_INLINE result<std::string> report_html(const training_report& r) GRAFT_MEMORY_TRY {
    if (r.metrics.samples() && static_cast<std::int64_t>(r.classes.size()) != r.metrics.classes())
        return fail(errc::labels_count, "report", std::to_string(r.classes.size()) + " names for " + std::to_string(r.metrics.classes()) + " classes");
    std::string out = detail::page_begin(r.title);
    detail::append_header(out, r);
    detail::append_curves(out, r);
    detail::append_classes(out, r);
    GRAFT_TRY(detail::append_pictures(out, r, r.wrong, "Where it is most wrong",
                                      "Pictures of the validation set with the highest loss: a wrong label, an odd picture, or something to learn."));
    GRAFT_TRY(detail::append_pictures(out, r, r.doubted, "Labels in doubt", detail::html_text(r.doubted_about)));
    GRAFT_TRY(detail::append_copies(out, r));
    detail::append_fixes(out, r);
    GRAFT_TRY(detail::append_pictures(out, r, r.maps, "Where it looks", "Grad-CAM: the brighter, the more a place spoke for the predicted class."));
    detail::append_calibration(out, r);
    detail::append_timing(out, r);
    detail::append_device(out, r);
    detail::append_members(out, r);
    detail::append_stages(out, r);
    detail::append_settings(out, r);
    out += detail::page_end();
    return out;
}
GRAFT_MEMORY_CATCH("report_html")

GRAFT_INLINE status write_report(const training_report& report, const std::string& path) GRAFT_MEMORY_TRY {
    std::string page;
    GRAFT_TRY_ASSIGN(page, report_html(report));
    atomic_file file;
    GRAFT_TRY(file.open(path));
    GRAFT_TRY(file.write(page.data(), page.size()));
    return file.commit();
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
