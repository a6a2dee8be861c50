// graft check: what is wrong with a dataset, before training.
#include "program.hpp"

#include <graft/core/utf8.hpp>
#include <graft/data/check.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace program {
namespace {

constexpr std::size_t shown = 20; // rows of a table; --json has all

// JSON escapes control characters by itself; bytes that are no UTF-8 are written out, so that names stay apart.
std::string json_text(const std::string& text) { return graft::is_utf8(text) ? text : printable(text); }

void print_json(const graft::dataset_report& report) {
    json classes = json::array(), problems = json::array();
    for (const std::string& name : report.classes) classes.push_back(json_text(name));
    for (const graft::dataset_problem& p : report.problems)
        problems.push_back({{"path", json_text(p.path)}, {"code", graft::text(p.code)}, {"detail", json_text(p.detail)}});
    print(json{{"images", report.images},
               {"readable", report.readable},
               {"classes", classes},
               {"training", report.training},
               {"validation", report.validation},
               {"test", report.test},
               {"problems", problems}});
}

void print_classes(const terminal& screen, const graft::dataset_report& report) {
    const auto any = [](const std::vector<std::int64_t>& counts) {
        return std::any_of(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; });
    };
    const bool training = any(report.training), validation = any(report.validation), test = any(report.test);
    text_table table({"class", validation || test ? ">training" : ">pictures", ">validation", ">test"});
    for (std::size_t c = 0; c < report.classes.size() && c < shown; ++c)
        table.add({shortened(printable(report.classes[c]), screen.columns / 2), training ? std::to_string(report.training[c]) : "",
                   validation ? std::to_string(report.validation[c]) : "", test ? std::to_string(report.test[c]) : ""});
    if (table.empty()) return;
    table.print(screen);
    if (report.classes.size() > shown) std::printf("... and %zu classes more\n", report.classes.size() - shown);
}

// A path without the dataset's own, at most so many columns; of a long one the end says more than the beginning.
std::string place(const std::string& path, const std::string& data, int room) {
    const std::string stem = !data.empty() && data.back() == '/' ? data : data + "/";
    const std::string where = printable(path.compare(0, stem.size(), stem) == 0 ? path.substr(stem.size()) : path);
    if (display_width(where) <= room) return where;
    std::size_t from = where.size() - std::min(where.size(), static_cast<std::size_t>(room - 3));
    while (from < where.size() && (static_cast<unsigned char>(where[from]) & 0xc0) == 0x80) ++from; // not within a character
    return "..." + where.substr(from);
}

void print_problems(const terminal& screen, const std::string& data, const graft::dataset_report& report) {
    if (report.problems.empty()) return;
    text_table table({"problem", "where", "what"});
    for (std::size_t i = 0; i < report.problems.size() && i < shown; ++i) {
        const graft::dataset_problem& p = report.problems[i];
        table.add({styled(screen, style::yellow, graft::text(p.code)), place(p.path, data, std::max(24, screen.columns / 3)), printable(p.detail)});
    }
    std::printf("\n");
    table.print(screen);
    if (report.problems.size() > shown) std::printf("... and %zu problems more; --json lists all\n", report.problems.size() - shown);
}

void print_summary(const terminal& screen, const std::string& data, const graft::dataset_report& report) {
    const std::size_t n = report.problems.size();
    const std::string verdict = n == 0   ? styled(screen, style::green, "nothing is wrong")
                                : n == 1 ? styled(screen, style::yellow, "1 problem")
                                         : styled(screen, style::yellow, std::to_string(n) + " problems");
    std::string what;
    if (report.images)
        what = std::to_string(report.images) + " pictures of " + std::to_string(report.classes.size()) + " classes, " +
               (report.readable == report.images ? "all" : std::to_string(report.readable)) + " can be read: ";
    std::printf("\n%s: %s%s\n", printable(data).c_str(), what.c_str(), verdict.c_str());
}

} // namespace

graft::result<int> check(const common_options& common, const check_options& options) {
    graft::dataset_options with;
    with.allow_empty = options.allow_empty;
    graft::pool_executor pool(thread_count(common));
    graft::dataset_report report;
    {
        // The bar knows its length once the dataset is open.
        struct watcher {
            bool quiet;
            std::unique_ptr<progress> bar;
        } watch{common.quiet, nullptr};
        graft::check_progress told;
        told.context = &watch;
        told.report = [](void* context, std::int64_t done, std::int64_t total) {
            watcher& w = *static_cast<watcher*>(context);
            if (!w.bar) w.bar = std::make_unique<progress>("check", total, w.quiet);
            w.bar->step(done);
        };
        report = graft::check_dataset(options.data, with, pool, told);
    }
    if (common.json) {
        print_json(report);
    } else {
        const terminal screen = look_at(stdout, common.color);
        print_classes(screen, report);
        print_problems(screen, options.data, report);
        print_summary(screen, options.data, report);
    }
    GRAFT_TRY(std::move(report.verdict));
    return exit_done;
}

} // namespace program
