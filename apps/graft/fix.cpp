// graft fix: carries out what fixes.csv proposes, and takes it back.
#include "fix.hpp"

#include "verb.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

struct fix_options {
    std::string fixes, data;
    std::vector<std::string> only;
    bool dry_run = false, undo = false;
};

constexpr std::size_t shown = 50;  // rows of a table; --json has all

// Whether a text is what a pattern says: * stands for any bytes, ? for one.
bool matches(const std::string& pattern, const std::string& text) {
    std::size_t p = 0, t = 0, star = std::string::npos, mark = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++, mark = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p, ++t;
        } else if (star != std::string::npos) {
            p = star + 1, t = ++mark;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string::npos;
}

bool is_meant(const proposed_fix& row, const std::string& word) {
    return word == std::to_string(row.id) || word == row.action || word == row.reason || word == row.evidence || matches(word, row.path);
}

graft::result<std::vector<proposed_fix>> chosen_rows(const fix_list& list, const std::vector<std::string>& only) {
    if (only.empty()) return list.rows;
    std::vector<proposed_fix> rows;
    for (const proposed_fix& row : list.rows)
        if (std::any_of(only.begin(), only.end(), [&](const std::string& word) { return is_meant(row, word); })) rows.push_back(row);
    for (const std::string& word : only)
        if (std::none_of(rows.begin(), rows.end(), [&](const proposed_fix& row) { return is_meant(row, word); }))
            return graft::fail(graft::errc::usage, "--only",
                               "no row has \"" + printable(word) + "\" for its id, action, reason or evidence, or a path that it matches");
    return rows;
}

// The dataset that is to be fixed, as an absolute path.
graft::result<std::string> dataset_of(const fix_options& o, const fix_list& list) {
    if (!o.data.empty()) return absolute_path(o.data);
    if (list.dataset.empty()) return graft::fail(graft::errc::usage, "--data", "the rows do not say of which dataset they are: name it");
    if (list.dataset != absolute_path(list.dataset))
        return graft::fail(graft::errc::data_open, list.dataset, "the dataset of these fixes is not there, or not under that path: name it by --data");
    // Whoever wrote the file names the folder: what proves that it is the one that was looked at are its pictures.
    for (const proposed_fix& row : list.rows)
        if (row.contents.empty())
            return graft::fail(graft::errc::data_format, "row " + std::to_string(row.id),
                               "it does not say what the picture's contents were; such rows are carried out where --data names the dataset");
    return list.dataset;
}

graft::result<graft::dataset> open_files(const std::string& root) {
    graft::dataset_options opening;
    opening.allow_empty = true;
    graft::dataset data;
    GRAFT_TRY_ASSIGN(data, graft::open_dataset(root, opening));
    if (!has_files(data))
        return graft::fail(graft::errc::data_format, root,
                           "the pictures of IDX and CIFAR files lie within them, and graft does not rewrite those: convert them to an image folder");
    return data;
}

graft::result<std::vector<fix_result>> carry_out(const fix_options& o, const fix_list& list, const std::string& root, const fix_journal& journal) {
    std::vector<proposed_fix> rows;
    GRAFT_TRY_ASSIGN(rows, chosen_rows(list, o.only));
    graft::dataset data;
    GRAFT_TRY_ASSIGN(data, open_files(root));
    std::vector<journal_entry> before;
    GRAFT_TRY_ASSIGN(before, journal.read(root));
    if (!o.dry_run) GRAFT_TRY(journal.write(before, root));  // without a line that a kill has cut off
    const fix_work work{root, data, journal, o.dry_run};
    if (folder_of_dataset(root) != root) return fix_manifest(work, rows);
    return fix_folder(work, rows, before);
}

bool is_done(const fix_result& r) { return !r.why; }

json counts_of(const std::vector<fix_result>& results) {
    json counts = json::object();
    for (const char* outcome : {"moved", "dropped", "restored", "done_before", "skipped", "refused", "failed"})
        counts[outcome] = std::count_if(results.begin(), results.end(), [&](const fix_result& r) { return r.outcome == outcome; });
    return counts;
}

void print_json(const fix_options& o, const std::string& root, const fix_journal& journal, const std::vector<fix_result>& results) {
    json all = json::array();
    for (const fix_result& r : results) {
        json one{{"id", r.row.id}, {"path", utf8_text(r.row.path)}, {"action", r.row.action}};
        if (!r.row.to.empty()) one["to"] = utf8_text(r.row.to);
        if (!r.row.reason.empty()) one["reason"] = r.row.reason;
        one["outcome"] = r.outcome;
        if (!r.now.empty()) one["now"] = utf8_text(r.now);
        if (r.why) one["error"] = json{{"code", graft::text(r.why->code())}, {"detail", utf8_text(r.why->detail())}};
        all.push_back(std::move(one));
    }
    print(json{{"dataset", utf8_text(root)}, {"journal", utf8_text(journal.path())}, {"dry_run", o.dry_run}, {"counts", counts_of(results)}, {"results", all}});
}

const char* told(const std::string& outcome, bool dry_run) {
    if (outcome == "moved") return dry_run ? "would move" : "moved";
    if (outcome == "dropped") return dry_run ? "would be dropped" : "dropped";
    if (outcome == "restored") return dry_run ? "would be restored" : "restored";
    return outcome == "done_before" ? "done before" : outcome == "skipped" ? "skipped" : outcome == "refused" ? "refused" : "failed";
}

void print_table(const terminal& screen, const fix_options& o, const std::vector<fix_result>& results) {
    text_table table({">id", "picture", "what", "why"});
    for (std::size_t i = 0; i < results.size() && i < shown; ++i) {
        const fix_result& r = results[i];
        const std::string to = r.row.to.empty() ? "" : " to " + r.row.to;
        table.add({r.row.id ? std::to_string(r.row.id) : "", shortened(printable(r.row.path), std::max(24, screen.columns / 3)),
                   styled(screen, is_done(r) ? style::green : style::yellow, told(r.outcome, o.dry_run)) + printable(to),
                   printable(r.why                  ? r.why->detail()
                             : r.row.detail.empty() ? r.row.reason
                                                    : r.row.detail)});
    }
    table.print(screen);
    if (results.size() > shown) std::printf("... and %zu rows more; --json lists all\n", results.size() - shown);
    std::string sums;
    const json counts = counts_of(results);
    for (const auto& c : counts.items())
        if (c.value() != 0) sums += (sums.empty() ? "" : ", ") + std::to_string(c.value().get<std::int64_t>()) + " " + told(c.key(), o.dry_run);
    std::printf("%s%s%s\n", results.empty() ? "" : "\n", sums.empty() ? "nothing to fix" : sums.c_str(), o.dry_run ? "; nothing was changed" : "");
    const bool changed = counts["moved"] != 0 || counts["dropped"] != 0;
    if (changed && !o.dry_run) std::printf("To take it back: graft fix %s --undo\n", printable(o.fixes).c_str());
}

graft::result<int> fix(const common_options& common, const fix_options& o) {
    fix_list list;
    GRAFT_TRY_ASSIGN(list, read_fixes(o.fixes));
    const fix_journal journal(o.fixes);
    std::string root = o.data;
    std::vector<fix_result> results;
    // Where nothing is proposed there is nothing to do, and no row that names the dataset.
    const bool idle = list.rows.empty() && o.only.empty() && !o.undo;
    if (!idle) GRAFT_TRY_ASSIGN(root, dataset_of(o, list));
    if (o.undo)
        GRAFT_TRY_ASSIGN(results, undo_fixes(root, journal, o.dry_run));
    else if (!idle)
        GRAFT_TRY_ASSIGN(results, carry_out(o, list, root, journal));
    if (common.json)
        print_json(o, root, journal, results);
    else
        print_table(look_at(stdout, common.color), o, results);
    std::size_t undone = 0;
    for (const fix_result& r : results)
        if (r.why && ++undone <= shown) report(*r.why);
    return undone ? exit_failed : exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<fix_options>();
    list.add("FIXES", o->fixes, "The file fixes.csv of a run, or of graft check --fixes").required();
    list.add("--data", o->data, "The dataset: a folder or a CSV file (default: the one that the rows name)", "DATA");
    list.add("--only", o->only, "Rows of this id, action, reason or evidence, or whose path matches (* and ?); may be given again", "WHAT").repeatable();
    list.add("--dry-run", o->dry_run, "Print what would be done, and change nothing");
    list.add("--undo", o->undo, "Take back what was done by this file").excludes("--only");
    return [o](const common_options& common) { return fix(common, *o); };
}

}  // namespace

verb fix_verb() { return {"Carries out what fixes.csv proposes: moves and drops pictures, and takes it back", declare}; }

}  // namespace program
