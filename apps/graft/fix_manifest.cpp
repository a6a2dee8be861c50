// graft fix on a CSV manifest: labels change and lines go; pictures stay where they are.
#include "csv.hpp"
#include "fix.hpp"
#include "pictures.hpp"

#include <graft/core/read_file.hpp>

#include <algorithm>
#include <filesystem>

namespace program {
namespace {

constexpr std::int64_t most_bytes = std::int64_t(1) << 30;

graft::error wrong(const std::string& path, const std::string& what, graft::errc code = graft::errc::data_format) {
    return graft::fail(code, path, what).error();
}

// A manifest as lines that stay, byte for byte, unless a row changes them.
class manifest {
public:
    explicit manifest(const fix_work& work) : work_(work), folder_(folder_of_dataset(work.root)) {}

    graft::status read() {
        GRAFT_TRY_ASSIGN(text_, graft::read_file(work_.root, most_bytes, graft::errc::data_open, graft::errc::memory_budget));
        std::size_t from = 0, width = 0;
        for (const std::size_t end : csv_record_ends(text_)) {
            line l;
            l.text = text_.substr(from, end - from);
            from = end;
            std::vector<std::vector<std::string>> record;
            GRAFT_TRY_ASSIGN(record, parse_csv(l.text, work_.root, 1));
            if (!record.empty()) l.fields = std::move(record[0]);
            if (!width && !l.fields.empty()) {
                width = l.fields.size();
                path_ = column(l.fields, "path"), label_ = column(l.fields, "label"), split_ = column(l.fields, "split");
            } else if (!l.fields.empty()) {
                lines_of_[l.fields[path_]].push_back(lines_.size());
                ++pictures_[part_of(l) + l.fields[label_]];
            }
            lines_.push_back(std::move(l));
        }
        return {};
    }

    fix_result plan(const proposed_fix& row) {
        fix_result r;
        r.row = row;
        std::size_t at = 0;
        const graft::status fits = check(row, r, at);
        if (!fits.ok()) {
            r.why = fits.error();
            return r;
        }
        line& l = lines_[at];
        --pictures_[part_of(l) + l.fields[label_]];
        changed_ = true;
        handled_.insert(row.path);
        if (row.action == "drop") {
            l.text.clear();
            r.outcome = "dropped";
            return r;
        }
        l.fields[label_] = row.to;
        ++pictures_[part_of(l) + row.to];
        const std::size_t ending = l.text.find_last_not_of("\r\n") + 1;
        std::string text;
        for (const std::string& field : l.fields) text += (text.empty() ? "" : ",") + csv_field(field);
        l.text = text + l.text.substr(ending);
        r.outcome = "moved", r.now = row.to;
        return r;
    }

    // The copy of what was, the line of the journal, and then the new manifest in the place of the old.
    graft::status write() {
        if (!changed_ || work_.dry_run) return {};
        std::string text;
        for (const line& l : lines_) text += l.text;
        journal_entry entry;
        entry.action = "edit";
        entry.path = base_name(work_.root);
        for (int number = 1; entry.now.empty() || std::filesystem::exists(graft::join_path(folder_, entry.now)); ++number)
            entry.now = entry.path + ".before-fix-" + std::to_string(number);
        GRAFT_TRY(write_text(text_, graft::join_path(folder_, entry.now)));
        entry.before = contents_text(text_), entry.after = contents_text(text);
        GRAFT_TRY(work_.journal.append(entry, work_.root));
        return write_text(text, work_.root);
    }

private:
    struct line {
        std::string text;  // with its line end
        std::vector<std::string> fields;
    };

    static std::size_t column(const std::vector<std::string>& head, const char* name) {
        return static_cast<std::size_t>(std::find(head.begin(), head.end(), name) - head.begin());
    }
    std::string part_of(const line& l) const { return split_ < l.fields.size() ? l.fields[split_] + "/" : "/"; }

    graft::status check(const proposed_fix& row, fix_result& r, std::size_t& at) {
        r.outcome = "refused";
        GRAFT_TRY(check_below(folder_, row.path));
        const auto found = lines_of_.find(row.path);
        r.outcome = "skipped";
        if (handled_.count(row.path)) return wrong(row.path, "a row before has dealt with this picture");
        if (found == lines_of_.end()) return wrong(row.path, "no line of the manifest is of this picture", graft::errc::data_open);
        if (found->second.size() > 1) return wrong(row.path, "more than one line of the manifest is of this picture");
        at = found->second[0];
        const line& l = lines_[at];
        if (row.action == "move" && l.fields[label_] == row.to) return wrong(row.path, "it has that label already");
        r.outcome = "refused";
        if (row.action == "move" && !std::count(work_.data.classes().begin(), work_.data.classes().end(), row.to))
            return wrong(row.path, "there is no class \"" + row.to + "\" to move it to", graft::errc::data_class_mismatch);
        r.outcome = "skipped";
        if (!row.contents.empty()) {
            std::string contents;
            GRAFT_TRY_ASSIGN(contents, contents_of(graft::join_path(folder_, row.path)));
            if (contents != row.contents) return wrong(row.path, "the picture was changed since", graft::errc::data_open);
        }
        if (pictures_[part_of(l) + l.fields[label_]] < 2) return wrong(row.path, "it is the last picture of its class", graft::errc::data_empty_class);
        return {};
    }

    const fix_work& work_;
    std::string folder_, text_;
    std::vector<line> lines_;
    std::size_t path_ = 0, label_ = 0, split_ = 0;
    std::map<std::string, std::vector<std::size_t>> lines_of_;
    std::map<std::string, std::int64_t> pictures_;  // of each label of each part, "train/cat"
    std::set<std::string> handled_;
    bool changed_ = false;
};

}  // namespace

graft::result<std::vector<fix_result>> fix_manifest(const fix_work& work, const std::vector<proposed_fix>& rows) {
    manifest m(work);
    GRAFT_TRY(m.read());
    std::vector<fix_result> results;
    for (const proposed_fix& row : rows) results.push_back(m.plan(row));
    GRAFT_TRY(m.write());
    return results;
}

}  // namespace program
