// graft check: what is wrong with a dataset, before training.
#include "fixes.hpp"
#include "interrupt.hpp"
#include "verb.hpp"

#include <graft/data/check.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace program {
namespace {

struct check_options {
    std::string data, fixes;
    bool allow_empty = false;
};

constexpr std::size_t shown = 20;  // rows of a table; --json has all

using overlap = graft::dataset_report::overlap;
constexpr overlap overlaps[] = {overlap::in_class, overlap::across_classes, overlap::across_parts};

const char* name_of(overlap where) { return where == overlap::in_class ? "class" : where == overlap::across_classes ? "classes" : "parts"; }

json copies_json(const graft::dataset_report& report) {
    json listed = json::array(), exact = json::object(), near = json::object();
    for (const graft::dataset_report::copy& c : report.copies)
        listed.push_back({{"path", utf8_text(c.path)}, {"of", utf8_text(c.of)}, {"within", name_of(c.where)}, {"kind", c.exact ? "exact" : "near"}});
    for (const overlap where : overlaps) {
        exact[name_of(where)] = report.exact_copies[static_cast<int>(where)];
        near[name_of(where)] = report.near_copies[static_cast<int>(where)];
    }
    return json{{"exact", exact}, {"near", near}, {"near_searched", report.near_searched}, {"listed", listed}};
}

void print_json(const graft::dataset_report& report, const check_options& options, std::size_t proposed) {
    json classes = json::array(), problems = json::array();
    for (const std::string& name : report.classes) classes.push_back(utf8_text(name));
    for (const graft::dataset_problem& p : report.problems)
        problems.push_back({{"path", utf8_text(p.path)}, {"code", graft::text(p.code)}, {"detail", utf8_text(p.detail)}});
    json object{{"images", report.images},       {"readable", report.readable},     {"classes", classes},
                {"training", report.training},   {"validation", report.validation}, {"test", report.test},
                {"bad_share", report.bad_share}, {"copies", copies_json(report)},   {"imbalanced", report.imbalanced},
                {"majority", report.majority},   {"ratio", report.ratio},           {"problems", problems}};
    if (!options.fixes.empty()) object["fixes"] = json{{"file", utf8_text(options.fixes)}, {"rows", proposed}};
    print(object);
}

void print_classes(const terminal& screen, const graft::dataset_report& report) {
    const auto any = [](const std::vector<std::int64_t>& counts) { return std::any_of(counts.begin(), counts.end(), [](std::int64_t n) { return n > 0; }); };
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
    std::string where = printable(path.compare(0, stem.size(), stem) == 0 ? path.substr(stem.size()) : path);
    if (display_width(where) <= room) return where;
    std::size_t from = where.size() - std::min(where.size(), static_cast<std::size_t>(room - 3));
    while (from < where.size() && (static_cast<unsigned char>(where[from]) & 0xc0) == 0x80) ++from;  // not within a character
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

// Copies that are no problems of their own: two pictures of one class.
void print_copies(const terminal& screen, const std::string& data, const graft::dataset_report& report) {
    text_table table({"copy", "of", "kind"});
    std::size_t rows = 0;
    for (const graft::dataset_report::copy& c : report.copies) {
        if (c.where != overlap::in_class || rows == shown) continue;
        ++rows;
        const int room = std::max(24, screen.columns / 3);
        table.add({place(c.path, data, room), place(c.of, data, room), c.exact ? "exact" : "near"});
    }
    const int kind = static_cast<int>(overlap::in_class);
    const std::int64_t all = report.exact_copies[kind] + report.near_copies[kind];
    if (!table.empty()) {
        std::printf("\n");
        table.print(screen);
        if (all > static_cast<std::int64_t>(rows))
            std::printf("... and %lld copies more; --json lists up to %zu\n", static_cast<long long>(all) - static_cast<long long>(rows),
                        graft::dataset_report::most_copies);
    }
    if (!report.near_searched)
        std::printf("\nonly exact copies were looked for: %s\n",
                    report.images > (1 << 18) ? "there are more than 262144 pictures" : "too many of the pictures look alike");
}

// "12 copies in one class (7 exact), 3 across classes, ..."; nothing where there are none.
std::string copies_text(const graft::dataset_report& report) {
    static const char* const places[] = {" within a class", " across classes", " across parts"};
    std::string text;
    for (const overlap where : overlaps) {
        const int kind = static_cast<int>(where);
        const std::int64_t exact = report.exact_copies[kind], near = report.near_copies[kind];
        if (!exact && !near) continue;
        text += (text.empty() ? "copies: " : "; ") + (exact ? std::to_string(exact) + " exact" : "") + (exact && near ? ", " : "") +
                (near ? std::to_string(near) + " near" : "") + places[kind];
    }
    return text;
}

// What is no problem of a single picture: too few of some class, or too many that cannot be read.
void print_advice(const graft::dataset_report& report) {
    const std::string copies = copies_text(report);
    if (!copies.empty()) std::printf("%s\n", copies.c_str());
    if (report.imbalanced)
        std::printf("imbalanced: \"%s\" has %.3g times the pictures of \"%s\"; always naming it scores %s: train with --class-weights balanced\n",
                    printable(report.classes[report.largest]).c_str(), report.ratio, printable(report.classes[report.smallest]).c_str(),
                    percent_text(report.majority).c_str());
    if (report.verdict.ok() && report.bad_share > 0.01 && report.images - report.readable > 1)  // a single one stops nothing
        std::printf("%s of a part cannot be read: training leaves them out with --bad-share %.3g\n", percent_text(report.bad_share).c_str(),
                    std::min(1.0, std::ceil(report.bad_share * 100 + 1) / 100));
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
    print_advice(report);
}

// Into the file of --fixes what may be dropped; returns how many rows.
graft::result<std::size_t> propose(const check_options& options, const graft::dataset_options& with, const graft::dataset_report& report) {
    graft::dataset data;
    GRAFT_TRY_ASSIGN(data, graft::open_dataset(options.data, with));
    if (!has_files(data)) return graft::fail(graft::errc::usage, "--fixes", "the pictures of IDX and CIFAR files lie within them, where graft fix moves none");
    std::set<std::string> samples;
    for (std::int64_t i = 0; i < data.size(); ++i) samples.insert(data.name(i));
    fix_proposer proposer(options.data);
    proposer.add_report(report, samples);
    const fix_list fixes = proposer.take();
    GRAFT_TRY(write_fixes(fixes, options.fixes));
    return fixes.rows.size();
}

graft::result<int> check(const common_options& common, const check_options& options) {
    graft::dataset_options with;
    with.allow_empty = options.allow_empty;
    graft::pool_executor pool(thread_count(common));
    graft::dataset_report report;
    {
        dataset_bar bar("check", common.quiet);
        report = graft::check_dataset(options.data, with, pool, bar.told());
    }
    std::size_t proposed = 0;
    if (!options.fixes.empty()) GRAFT_TRY_ASSIGN(proposed, propose(options, with, report));
    if (common.json) {
        print_json(report, options, proposed);
    } else {
        const terminal screen = look_at(stdout, common.color);
        print_classes(screen, report);
        print_problems(screen, options.data, report);
        print_copies(screen, options.data, report);
        print_summary(screen, options.data, report);
        if (!options.fixes.empty())
            std::printf("%zu of the pictures may be dropped: graft fix %s --dry-run\n", proposed, printable(shell_quoted(options.fixes)).c_str());
    }
    GRAFT_TRY(std::move(report.verdict));
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<check_options>();
    list.add("DATA", o->data, "Image folder, IDX or CIFAR files, or a CSV file").required();
    list.add("--allow-empty", o->allow_empty, "Take classes without pictures");
    list.add("--fixes", o->fixes, "Write there, for graft fix, which pictures to drop: what cannot be read, and copies that do harm", "FILE.csv");
    return [o](const common_options& common) { return check(common, *o); };
}

}  // namespace

verb check_verb() { return {"What is wrong with a dataset, before training", declare}; }

}  // namespace program
