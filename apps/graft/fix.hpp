// What the verb fix does to a dataset: rows of fixes.csv carried out, recorded, and undone.
#pragma once

#include "fixes.hpp"

#include <optional>
#include <string>
#include <vector>

namespace program {

/// What became of a row.
struct fix_result {
    proposed_fix row;
    std::string outcome;              ///< "moved", "dropped", "done_before", "restored", "skipped", "refused", "failed"
    std::string now;                  ///< where the picture is now, or the class that the manifest says now
    std::optional<graft::error> why;  ///< of what was skipped, refused or failed
};

/// What was done, or was about to be: a line of the journal. It is on disk before the file is moved, so that a kill leaves nothing unknown.
struct journal_entry {
    std::int64_t id = 0;
    std::string action;         ///< "move", "drop"; "edit" of a manifest
    std::string path;           ///< where the picture was, below the dataset's folder; the manifest
    std::string now;            ///< where it was to go: below the folder, or below the one of dropped pictures; the copy of the manifest before
    std::string before, after;  ///< contents of the picture; of the manifest before and after it
};

/// The journal of a fixes.csv: a CSV file beside it, fixes.journal.csv.
class fix_journal {
public:
    explicit fix_journal(const std::string& fixes);
    /// The entries that are there; a line that a kill left unfinished is none. Errors: data.open, data.format, memory.budget.
    graft::result<std::vector<journal_entry>> read(const std::string& dataset) const;
    /// Replaces what is there; no entries: there is no journal. Errors: file.write.
    graft::status write(const std::vector<journal_entry>& entries, const std::string& dataset) const;
    /// Puts an entry behind the others, on disk when this returns. Errors: file.write.
    graft::status append(const journal_entry& entry, const std::string& dataset) const;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// Carries rows out, or tells only what it would do. `root`: an absolute path.
struct fix_work {
    std::string root;  ///< the dataset's folder, or the manifest
    const graft::dataset& data;
    const fix_journal& journal;
    bool dry_run = false;
};

/// Of an image folder: moves pictures between its class folders, and what is dropped into a folder beside it. A row at a time.
std::vector<fix_result> fix_folder(const fix_work& work, const std::vector<proposed_fix>& rows, const std::vector<journal_entry>& done_before);
/// Of a CSV manifest: changes labels and leaves out lines, all rows at once, with a copy of the manifest before beside it.
graft::result<std::vector<fix_result>> fix_manifest(const fix_work& work, const std::vector<proposed_fix>& rows);

/// Takes back what a journal tells, the last first. What could not be taken back stays in it. `root` as in fix_work.
graft::result<std::vector<fix_result>> undo_fixes(const std::string& root, const fix_journal& journal, bool dry_run);

/// Whether anything has that name, a link that leads nowhere too.
bool is_there(const std::string& path);
/// "photos" -> "photos.dropped": where pictures go that are dropped, with their folders.
std::string dropped_folder(const std::string& root);
/// Where a picture goes that is moved or dropped: below the dataset's folder, or below that of dropped pictures.
std::string place_of(const std::string& root, const std::string& action, const std::string& path);
/// Whether it may be there: see check_below. Errors: data.format.
graft::status check_place(const std::string& root, const std::string& action, const std::string& path);
/// Whether a path may be followed: it stays below the folder by its text, and no part of it that is there is a link. Errors: data.format.
graft::status check_below(const std::string& folder, const std::string& path);
/// Gives a file another name, never one that is taken; makes the folders on the way, and none where that fails. Errors: file.write.
graft::status rename_new(const std::string& from, const std::string& to);

}  // namespace program
