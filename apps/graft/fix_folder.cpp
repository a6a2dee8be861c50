// graft fix on an image folder: pictures change their class folder, or leave the dataset for a folder beside it.
#include "fix.hpp"
#include "pictures.hpp"

#include <graft/core/file.hpp>

#include <algorithm>
#include <unordered_map>

namespace program {
namespace {

graft::error wrong(const std::string& path, const std::string& what, graft::errc code = graft::errc::data_format) {
    return graft::fail(code, path, what).error();
}

// The folder of a dataset as fix knows it: which picture is of which class, in which part.
class image_folder {
public:
    explicit image_folder(const fix_work& work) : work_(work) {
        for (std::int64_t i = 0; i < work.data.size(); ++i) {
            const std::string path = below(work.root, work.data.name(i)), &name = work.data.classes()[static_cast<std::size_t>(work.data.label(i))];
            // "class/..." or, in a dataset of parts, "train/class/...".
            const std::string part = path.compare(0, name.size() + 1, name + "/") == 0 ? "" : path.substr(0, path.find('/') + 1);
            ++pictures_[part + name];
            samples_.emplace(path, place{part, name});
        }
    }

    fix_result carry_out(const proposed_fix& row, const std::vector<journal_entry>& done_before) {
        fix_result r;
        r.row = row;
        journal_entry entry{row.id, row.action, row.path, "", "", ""};
        const graft::status fits = check(row, done_before, r, entry);
        if (!fits.ok()) {
            r.why = fits.error();
            return r;
        }
        if (r.outcome == "done_before") return r;
        entry.now = free_name(row.action, entry.now);
        const std::string to = place_of(work_.root, row.action, entry.now);
        r.now = row.action == "drop" ? below(graft::folder_of(work_.root), to) : entry.now;
        r.outcome = row.action == "drop" ? "dropped" : "moved";
        if (!work_.dry_run) {
            graft::status done = work_.journal.append(entry, work_.root);
            if (done.ok()) done = rename_new(graft::join_path(work_.root, row.path), to);
            if (!done.ok()) {
                r.outcome = "failed", r.why = done.error(), r.now.clear();
                return r;
            }
        }
        taken_.insert(to);
        const place& from = samples_[row.path];
        --pictures_[from.part + from.name];
        if (row.action == "move") ++pictures_[from.part + row.to];
        handled_.insert(row.path);
        return r;
    }

private:
    struct place {
        std::string part, name;
    };

    // Whether a row can be carried out; if so, `entry.now` is where the picture should go. Else the outcome says why not.
    graft::status check(const proposed_fix& row, const std::vector<journal_entry>& done_before, fix_result& r, journal_entry& entry) {
        r.outcome = "refused";
        GRAFT_TRY(check_below(work_.root, row.path));
        r.outcome = "skipped";
        if (handled_.count(row.path)) return wrong(row.path, "a row before has dealt with this picture");
        const std::string path = graft::join_path(work_.root, row.path);
        if (!is_there(path)) {
            const bool done = std::any_of(done_before.begin(), done_before.end(), [&](const journal_entry& e) { return e.path == row.path; });
            if (!done) return wrong(path, "the picture is gone", graft::errc::data_open);
            r.outcome = "done_before";
            return {};
        }
        const auto at = samples_.find(row.path);
        r.outcome = "refused";
        if (at == samples_.end()) return wrong(path, "it is no picture of the dataset");
        if (row.action == "move" && !std::count(work_.data.classes().begin(), work_.data.classes().end(), row.to))
            return wrong(path, "there is no class \"" + row.to + "\" to move it to", graft::errc::data_class_mismatch);
        r.outcome = "skipped";
        if (row.action == "move" && at->second.name == row.to) return wrong(path, "it is in that class already");
        GRAFT_TRY_ASSIGN(entry.before, contents_of(path));
        if (!row.contents.empty() && row.contents != entry.before) return wrong(path, "the picture was changed since", graft::errc::data_open);
        if (pictures_[at->second.part + at->second.name] < 2) return wrong(path, "it is the last picture of its class", graft::errc::data_empty_class);
        entry.now = row.action == "drop" ? row.path : at->second.part + row.to + "/" + base_name(row.path);
        r.outcome = "refused";
        GRAFT_TRY(check_place(work_.root, row.action, entry.now));
        r.outcome = "skipped";
        if (row.action == "move" && !is_there(graft::join_path(work_.root, at->second.part + row.to)))
            return wrong(path, "its part of the dataset has no folder of the class " + row.to, graft::errc::data_open);
        return {};
    }

    // The name, or with -2, -3, ... before its last dot the first one that is not taken.
    std::string free_name(const std::string& action, const std::string& name) const {
        const std::size_t slash = name.rfind('/'), dot = name.rfind('.');
        const std::size_t stem = dot == std::string::npos || dot <= slash + 1 ? name.size() : dot;
        std::string now = name;
        const auto taken = [&] { return is_there(place_of(work_.root, action, now)) || taken_.count(place_of(work_.root, action, now)); };
        for (int number = 2; taken(); ++number) now = name.substr(0, stem) + "-" + std::to_string(number) + name.substr(stem);
        return now;
    }

    const fix_work& work_;
    std::unordered_map<std::string, place> samples_;
    std::unordered_map<std::string, std::int64_t> pictures_;  // of each class of each part, "train/cat"
    std::set<std::string> handled_, taken_;
};

}  // namespace

std::vector<fix_result> fix_folder(const fix_work& work, const std::vector<proposed_fix>& rows, const std::vector<journal_entry>& done_before) {
    image_folder folder(work);
    std::vector<fix_result> results;
    for (const proposed_fix& row : rows) results.push_back(folder.carry_out(row, done_before));
    return results;
}

}  // namespace program
