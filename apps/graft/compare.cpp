// graft compare: runs of training beside each other.
#include "compare.hpp"

#include "csv.hpp"
#include "verb.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

struct compare_options {
    std::vector<std::string> runs;
    std::string out;
};

json finite(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }

json texts(const std::vector<std::string>& all) {
    json list = json::array();
    for (const std::string& t : all) list.push_back(utf8_text(t));
    return list;
}

json run_json(const compared_run& r) {
    return json{{"run", utf8_text(r.folder)},
                {"finished", r.finished},
                {"best_top1", finite(r.top1)},
                {"best_epoch", r.best_epoch ? json(r.best_epoch) : json(nullptr)},
                {"best_loss", finite(r.loss)},
                {"epochs", r.epochs},
                {"seconds", finite(r.seconds)},
                {"images_per_s", finite(r.images_per_s)},
                {"peak_rss_mb", finite(r.peak_rss_mb)},
                {"device", r.device.empty() ? json(nullptr) : json(r.device)},
                {"notes", texts(r.notes)}};
}

void print_json(const std::vector<compared_run>& runs) {
    json all = json::array(), settings = json::array(), classes = json::array(), changes = json::array();
    for (const compared_run& r : runs) all.push_back(run_json(r));
    for (const setting_difference& d : differing_settings(runs)) settings.push_back({{"setting", utf8_text(d.name)}, {"values", texts(d.values)}});
    for (const class_comparison& c : compare_classes(runs)) {
        json found = json::array();
        for (const std::int64_t n : c.found) found.push_back(n < 0 ? json(nullptr) : json(n));
        classes.push_back({{"class", utf8_text(c.name)}, {"pictures", c.pictures}, {"found", found}});
    }
    for (std::size_t i = 1; i < runs.size(); ++i) {
        const changed_answers c = changes_to(runs[0], runs[i]);
        json confusions = json::array();
        for (const changed_confusion& p : changed_confusions(runs[0], runs[i]))
            confusions.push_back({{"class", utf8_text(p.label)}, {"taken_for", utf8_text(p.predicted)}, {"was", p.was}, {"now", p.now}});
        changes.push_back({{"run", utf8_text(runs[i].folder)},
                           {"shared", c.shared},
                           {"was", c.was},
                           {"now", c.right},
                           {"won", texts(c.won)},
                           {"lost", texts(c.lost)},
                           {"confusions", confusions}});
    }
    print(json{{"runs", all}, {"settings", settings}, {"classes", classes}, {"changes", changes}});
}

void print_runs(const terminal& screen, const std::vector<compared_run>& runs) {
    double best = -1;
    for (const compared_run& r : runs) best = std::max(best, std::isfinite(r.top1) ? r.top1 : -1);
    const auto number = [](double v, const char* format) { return std::isfinite(v) ? formatted(format, v) : std::string("-"); };
    text_table table({"run", ">top-1", ">in epoch", ">loss", ">epochs", ">time", ">images/s", ">memory", "device"});
    for (const compared_run& r : runs) {
        const std::string top1 = std::isfinite(r.top1) ? percent_text(r.top1) : "-";
        table.add({shortened(printable(r.name), screen.columns / 3), r.top1 == best ? styled(screen, style::green, top1) : top1,
                   r.best_epoch ? std::to_string(r.best_epoch) : "-", number(r.loss, "%.4f"), std::to_string(r.epochs) + (r.finished ? "" : " so far"),
                   std::isfinite(r.seconds) ? clock_text(r.seconds) : "-", number(r.images_per_s, r.images_per_s < 9.95 ? "%.1f" : "%.0f"),
                   std::isfinite(r.peak_rss_mb) ? formatted("%.0f MB", r.peak_rss_mb) : "-", r.device.empty() ? "-" : printable(r.device)});
    }
    table.print(screen);
}

void print_settings(const terminal& screen, const std::vector<compared_run>& runs) {
    const std::vector<setting_difference> differ = differing_settings(runs);
    if (differ.empty()) return;
    std::vector<std::string> head{"setting"};
    const int room = std::max(10, (screen.columns - 24) / static_cast<int>(runs.size()) - 2);
    for (const compared_run& r : runs) head.push_back(shortened(printable(r.name), room));
    text_table table(head);
    for (const setting_difference& d : differ) {
        std::vector<std::string> row{printable(d.name)};
        for (const std::string& v : d.values) row.push_back(v.empty() ? "-" : shortened(printable(v), room));
        table.add(row);
    }
    std::printf("\n");
    table.print(screen);
}

void print_changes(const std::vector<compared_run>& runs) {
    for (std::size_t i = 1; i < runs.size(); ++i) {
        const changed_answers c = changes_to(runs[0], runs[i]);
        if (!c.shared) continue;
        std::printf("\n%s beside %s: of %lld validation pictures that both have %lld are right, and %lld were: %zu won, %zu lost\n",
                    printable(runs[i].name).c_str(), printable(runs[0].name).c_str(), static_cast<long long>(c.shared), static_cast<long long>(c.right),
                    static_cast<long long>(c.was), c.won.size(), c.lost.size());
        const std::vector<changed_confusion> pairs = changed_confusions(runs[0], runs[i]);
        for (std::size_t k = 0; k < pairs.size() && k < 5; ++k)
            std::printf("  %s taken for %s: %lld, and %lld before\n", printable(pairs[k].label).c_str(), printable(pairs[k].predicted).c_str(),
                        static_cast<long long>(pairs[k].now), static_cast<long long>(pairs[k].was));
    }
}

graft::result<int> compare(const common_options& common, const compare_options& o) {
    std::vector<compared_run> runs;
    for (const std::string& folder : o.runs) runs.push_back(read_run(folder));
    name_runs(runs);
    if (std::none_of(runs.begin(), runs.end(), [](const compared_run& r) { return r.epochs > 0; }))
        return graft::fail(graft::errc::file_open, o.runs[0], "none of the folders holds a run: there is no epoch in a metrics.jsonl, and no run.json");
    for (const compared_run& r : runs)
        for (const std::string& note : r.notes) warn(common, r.folder + ": " + note);
    if (!o.out.empty()) GRAFT_TRY(write_text(comparison_page(runs, common.command), o.out));
    if (common.json) {
        print_json(runs);
        return exit_done;
    }
    const terminal screen = look_at(stdout, common.color);
    print_runs(screen, runs);
    print_settings(screen, runs);
    print_changes(runs);
    if (!o.out.empty()) std::printf("\n%s has the curves, classes and pictures\n", printable(o.out).c_str());
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<compare_options>();
    list.add("RUN", o->runs, "Folders that finetune or train wrote; the others are held against the first").required();
    list.add("-o,--out", o->out, "Write a page with curves, classes and pictures there", "FILE.html");
    return [o](const common_options& common) { return compare(common, *o); };
}

}  // namespace

verb compare_verb() { return {"Runs of training beside each other", declare}; }

}  // namespace program
