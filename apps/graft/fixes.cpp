// fixes.csv: what is proposed, by which rule, and how it is written and read.
#include "fixes.hpp"

#include "csv.hpp"

#include <graft/core/file.hpp>
#include <graft/core/read_file.hpp>
#include <graft/core/xxhash.hpp>
#include <graft/train/label_issues.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace program {
namespace {

constexpr std::int64_t most_csv_bytes = std::int64_t(256) << 20;
constexpr std::size_t most_rows = std::size_t(1) << 20;
constexpr double least_margin = 0.5;  // three votes of four

// Who lies with whom, by path.
class path_groups {
public:
    const std::string& first_of(const std::string& path) {
        std::string& up = up_.emplace(path, path).first->second;
        if (up != path) up = first_of(up);
        return up;
    }
    void join(const std::string& a, const std::string& b) {
        const std::string first = first_of(a), second = first_of(b);
        up_[second] = first;
    }

private:
    std::map<std::string, std::string> up_;
};

// Whether a picture is of no use by its contents: one that a tool or a permission is missing for is not.
bool is_damaged(graft::errc code) {
    return code == graft::errc::image_malformed || code == graft::errc::image_truncated || code == graft::errc::image_unsupported ||
           code == graft::errc::image_dimensions;
}

}  // namespace

std::string contents_text(const std::string& bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "xxh64:%016llx", static_cast<unsigned long long>(graft::xxh64(bytes.data(), bytes.size(), bytes.size())));
    return text;
}

graft::result<std::string> contents_of(const std::string& path) {
    std::string bytes;
    GRAFT_TRY_ASSIGN(bytes, graft::read_file(path, std::int64_t(1) << 31, graft::errc::data_open, graft::errc::memory_budget));
    return contents_text(bytes);
}

std::string folder_of_dataset(const std::string& data) {
    std::error_code none;
    return std::filesystem::is_directory(data, none) ? data : data.find('/') == std::string::npos ? "" : graft::folder_of(data);
}

std::string below(const std::string& folder, const std::string& name) {
    const std::string stem = folder.empty() || folder.back() == '/' ? folder : folder + "/";
    return name.compare(0, stem.size(), stem) == 0 ? name.substr(stem.size()) : name;
}

std::string absolute_path(const std::string& path) {
    std::error_code failed;
    const std::filesystem::path whole = std::filesystem::canonical(path, failed);
    return failed ? path : whole.generic_string();
}

bool has_files(const graft::dataset& data) {
    if (data.size() == 0) return false;
    auto first = data.fetch(0);
    return !first.ok() || first->height == 0;
}

fix_proposer::fix_proposer(std::string data) : data_(std::move(data)), folder_(folder_of_dataset(data_)) {}

void fix_proposer::propose(proposed_fix row) {
    if (taken_.insert(row.path).second) rows_.push_back(std::move(row));
}

void fix_proposer::doubt(const std::string& path, const std::string& label, const std::string& other, const graft::label_issue& issue,
                         const std::string& evidence) {
    const std::string who = evidence == "neighbours" ? "its nearest neighbours are " : "taken for ";
    proposed_fix row;
    row.path = path;
    row.action = "move";
    row.to = other;
    row.reason = "mislabelled";
    row.probability = issue.probability;
    row.evidence = evidence;
    row.detail = "labelled " + label + " (" + formatted("%.1f %%", issue.self_confidence * 100) + "), " + who + other + " (" +
                 formatted("%.1f %%", issue.probability * 100) + ")";
    doubted_.push_back(std::move(row));
}

void fix_proposer::add_votes(const std::vector<std::string>& paths, const std::vector<std::string>& classes, const std::vector<graft::scored_picture>& votes,
                             const std::set<std::string>& learnt_from) {
    for (std::size_t i = 0; i < votes.size(); ++i) {
        voted_[paths[i]] = "";
        self_confidence_[paths[i]] = std::exp(-static_cast<double>(votes[i].loss));
    }
    for (const graft::label_issue& issue : graft::find_label_issues(votes)) {
        const std::string &path = paths[issue.picture], &other = classes[static_cast<std::size_t>(issue.suggested)];
        if (issue.margin() < least_margin) continue;
        voted_[path] = other;
        if (learnt_from.count(path)) doubt(path, classes[static_cast<std::size_t>(votes[issue.picture].label)], other, issue, "neighbours");
    }
}

void fix_proposer::add_scored(const graft::dataset& data, const std::vector<graft::scored_picture>& pictures, const char* evidence) {
    const auto class_of = [&](std::int32_t c) -> const std::string& { return data.classes()[static_cast<std::size_t>(c)]; };
    const auto path_of = [&](const graft::scored_picture& p) { return below(folder_, data.name(p.index)); };
    for (const graft::label_issue& issue : graft::find_label_issues(pictures)) {
        const graft::scored_picture& p = pictures[issue.picture];
        if (issue.margin() >= least_margin && !voted_.count(path_of(p))) doubt(path_of(p), class_of(p.label), class_of(issue.suggested), issue, evidence);
    }
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        const graft::scored_picture& p = pictures[i];
        const double self_confidence = std::isfinite(p.loss) ? std::exp(-static_cast<double>(p.loss)) : 0;
        self_confidence_[path_of(p)] = self_confidence;
        const auto voted = voted_.find(path_of(p));
        if (voted != voted_.end() && voted->second == class_of(p.predicted))
            doubt(path_of(p), class_of(p.label), voted->second, {i, p.predicted, static_cast<double>(p.probability), self_confidence},
                  std::string(evidence) + "+neighbours");
    }
}

void fix_proposer::add_report(const graft::dataset_report& report, const std::set<std::string>& samples) {
    for (const graft::dataset_problem& p : report.problems) {
        if (!is_damaged(p.code) || !samples.count(p.path)) continue;
        proposed_fix row;
        row.path = below(folder_, p.path);
        row.action = "drop";
        row.reason = "unreadable";
        row.evidence = "contents";
        row.detail = std::string(graft::text(p.code)) + ": " + p.detail;
        propose(std::move(row));
    }
    add_copies(report);
}

void fix_proposer::add_copies(const graft::dataset_report& report) {
    using overlap = graft::dataset_report::overlap;
    const auto drop = [&](const std::string& name, const std::string& of, bool exact, const char* reason, const std::string& why) {
        if (name == of) return;  // one file that is listed twice
        proposed_fix row;
        row.path = below(folder_, name);
        row.action = "drop";
        row.reason = reason;
        row.evidence = "contents";
        row.other = below(folder_, of);
        row.detail = (exact ? "the same picture as " : "nearly the same picture as ") + row.other + why;
        propose(std::move(row));
    };
    // What is told of a copy of a copy names the first one of its part: all of a part that are alike go together.
    path_groups alike;
    std::map<std::string, const graft::dataset_report::copy*> leaks;
    for (const auto& c : report.copies)
        if (c.where != overlap::across_parts) alike.join(c.of, c.path);
    for (const auto& c : report.copies)
        if (c.where == overlap::across_parts) leaks.emplace(alike.first_of(c.of), &c);
    for (const auto& c : report.copies) {
        if (c.where == overlap::across_parts) {
            drop(c.of, c.path, c.exact, "leak", ", which is scored by");
            continue;
        }
        const auto leak = leaks.find(alike.first_of(c.of));
        if (leak == leaks.end()) continue;
        for (const std::string& name : {c.of, c.path}) drop(name, leak->second->path, c.exact && leak->second->exact, "leak", ", which is scored by");
    }
    for (const auto& c : report.copies) {
        if (c.where != overlap::across_classes) continue;
        if (taken_.count(below(folder_, c.of)) || taken_.count(below(folder_, c.path))) continue;
        const auto one = self_confidence_.find(below(folder_, c.of)), other = self_confidence_.find(below(folder_, c.path));
        const bool asked = one != self_confidence_.end() && other != self_confidence_.end();
        const bool first_goes = asked && one->second < other->second;
        drop(first_goes ? c.of : c.path, first_goes ? c.path : c.of, c.exact, "label_conflict",
             asked ? ", which has another label, a likelier one" : ", which has another label; one of the two is wrong");
    }
}

fix_list fix_proposer::take() {
    for (proposed_fix& row : doubted_) propose(std::move(row));
    doubted_.clear();
    fix_list list;
    list.dataset = absolute_path(data_);
    for (proposed_fix& row : rows_) {
        auto contents = contents_of(graft::join_path(folder_, row.path));
        if (!contents.ok()) continue;
        row.contents = *contents;
        row.id = static_cast<std::int64_t>(list.rows.size()) + 1;
        list.rows.push_back(std::move(row));
    }
    return list;
}

graft::status write_fixes(const fix_list& fixes, const std::string& path) {
    std::string out = "id,path,action,to,reason,probability,evidence,detail,other,contents,dataset\n";
    for (const proposed_fix& f : fixes.rows)
        out += std::to_string(f.id) + "," + csv_field(f.path) + "," + f.action + "," + csv_field(f.to) + "," + f.reason + "," +
               (f.probability < 0 ? "" : formatted("%.4f", f.probability)) + "," + f.evidence + "," + csv_field(f.detail) + "," + csv_field(f.other) + "," +
               f.contents + "," + csv_field(fixes.dataset) + "\n";
    return write_text(out, path);
}

graft::result<fix_list> read_fixes(const std::string& path) {
    std::vector<std::vector<std::string>> records;
    GRAFT_TRY_ASSIGN(records, read_csv(path, most_csv_bytes, most_rows));
    const auto bad = [&](const std::string& what) { return graft::fail(graft::errc::data_format, path, what); };
    if (records.empty()) return bad("the file is empty; its first line names the columns: path,action,to and others");
    const auto column = [&](const char* name) { return std::find(records[0].begin(), records[0].end(), name) - records[0].begin(); };
    const auto width = static_cast<std::ptrdiff_t>(records[0].size());
    if (column("path") == width || column("action") == width) return bad("its first line names no columns path and action: this is no list of fixes");
    fix_list list;
    std::set<std::int64_t> ids;
    for (std::size_t r = 1; r < records.size(); ++r) {
        const auto field = [&](const char* name) { return column(name) < width ? records[r][static_cast<std::size_t>(column(name))] : std::string(); };
        proposed_fix f;
        f.path = field("path"), f.action = field("action"), f.to = field("to"), f.reason = field("reason");
        f.evidence = field("evidence"), f.detail = field("detail"), f.contents = field("contents");
        const std::string id = field("id"), dataset = field("dataset"), row = "row " + std::to_string(r) + ": ";
        const bool number = !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
        if (!id.empty() && !number) return bad(row + "its id \"" + printable(id) + "\" is no whole number");
        f.id = id.empty() ? static_cast<std::int64_t>(r) : std::atoll(id.c_str());
        if (!ids.insert(f.id).second) return bad(row + "the id " + std::to_string(f.id) + " stands there twice");
        if (f.action != "move" && f.action != "drop") return bad(row + "the action \"" + printable(f.action) + "\" is neither move nor drop");
        if (!dataset.empty() && !list.dataset.empty() && dataset != list.dataset) return bad(row + "it is of another dataset than the rows before");
        if (!dataset.empty()) list.dataset = dataset;
        list.rows.push_back(std::move(f));
    }
    return list;
}

}  // namespace program
