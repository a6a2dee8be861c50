// The journal of graft fix, and how what it tells is taken back.
#include "csv.hpp"
#include "fix.hpp"
#include "pictures.hpp"

#include <graft/core/file.hpp>
#include <graft/core/read_file.hpp>
#include <graft/data/csv_manifest.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#if defined(_WIN32)
#include <io.h>
#else
#include <fcntl.h>
#include <unistd.h>
#endif

namespace program {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t(1) << 30;
constexpr const char* head = "id,action,path,now,before,after,dataset\n";

std::string line_of(const journal_entry& e, const std::string& dataset) {
    return std::to_string(e.id) + "," + e.action + "," + csv_field(e.path) + "," + csv_field(e.now) + "," + e.before + "," + e.after + "," +
           csv_field(dataset) + "\n";
}

bool on_disk(std::FILE* file) {
    if (std::fflush(file) != 0) return false;
#if defined(_WIN32)
    return ::_commit(::_fileno(file)) == 0;
#else
    return ::fsync(::fileno(file)) == 0;
#endif
}

graft::error in_doubt(const std::string& path, const std::string& what) { return graft::fail(graft::errc::data_open, path, what).error(); }

// The empty folders that are left of a path, as far as they lie below another one.
void remove_empty_folders(const std::string& folder, const std::string& top) {
    std::error_code stop;
    for (fs::path at = folder; at.generic_string().size() > top.size() && fs::is_directory(at, stop) && fs::is_empty(at, stop); at = at.parent_path())
        if (!fs::remove(at, stop)) return;
}

// Of two names in folders that are there.
graft::status rename_in_place(const std::string& from, const std::string& to) {
#if defined(__linux__) && defined(RENAME_NOREPLACE)
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return graft::fail(graft::errc::file_write, to, graft::detail::system_message());
#endif
    // A file system that cannot refuse by itself is asked first.
    if (is_there(to)) return graft::fail(graft::errc::file_write, to, "there is a file of that name");
    std::error_code failed;
    fs::rename(from, to, failed);
    return failed ? graft::fail(graft::errc::file_write, to, failed.message()) : graft::status();
}

// A picture back to where it was.
void restore_file(const std::string& root, const journal_entry& e, bool dry_run, fix_result& r) {
    const std::string now = place_of(root, e.action, e.now), was = graft::join_path(root, e.path);
    graft::status allowed = check_place(root, e.action, e.now);
    if (allowed.ok()) allowed = check_place(root, "move", e.path);
    if (!allowed.ok()) {
        r.outcome = "refused", r.why = allowed.error();
        return;
    }
    const bool moved = is_there(now), kept = is_there(was);
    r.now = e.path;
    if (kept && !moved) {
        r.outcome = "restored";  // it never went, or came back before a kill
        if (e.action == "drop" && !dry_run) remove_empty_folders(graft::folder_of(now), graft::folder_of(root));
        return;
    }
    r.outcome = "skipped";
    if (!moved) {
        r.why = in_doubt(now, "it is gone from there, and not where it came from");
    } else if (kept) {
        r.why = in_doubt(was, "another file has the place that the picture came from");
    } else {
        r.outcome = "restored";
        if (dry_run) return;
        const graft::status done = rename_new(now, was);
        if (!done.ok()) r.outcome = "failed", r.why = done.error();
        if (done.ok() && e.action == "drop") remove_empty_folders(graft::folder_of(now), graft::folder_of(root));
    }
}

// A manifest as it was, if nobody has changed it since.
void restore_manifest(const std::string& root, const journal_entry& e, bool dry_run, fix_result& r) {
    const std::string copy = graft::join_path(folder_of_dataset(root), e.now);
    r.now = root;
    r.outcome = "refused";
    if (e.now.rfind(base_name(root) + ".before-fix-", 0) != 0 || e.now.find('/') != std::string::npos) {
        r.why = graft::fail(graft::errc::data_format, e.now, "this is no name of a copy of the manifest").error();
        return;
    }
    const auto contents = contents_of(root);
    if (contents.ok() && *contents == e.before) {
        r.outcome = "restored";
        return;
    }
    const auto before = contents_of(copy);
    r.outcome = "skipped";
    if (!contents.ok() || *contents != e.after) {
        r.why = in_doubt(root, "it was changed since it was fixed; what it was before is in " + copy);
    } else if (!before.ok() || *before != e.before) {
        r.why = in_doubt(copy, "the copy of the manifest is gone, or is not what it was");
    } else {
        r.outcome = "restored";
        if (dry_run) return;
        auto text = graft::read_file(copy, most_bytes, graft::errc::data_open, graft::errc::memory_budget);
        const graft::status done = text.ok() ? write_text(*text, root) : text.take_status();
        if (!done.ok()) r.outcome = "failed", r.why = done.error();
        if (done.ok()) std::remove(copy.c_str());
    }
}

}  // namespace

bool is_there(const std::string& path) {
    std::error_code none;
    return fs::symlink_status(path, none).type() != fs::file_type::not_found;
}

std::string dropped_folder(const std::string& root) { return root + ".dropped"; }

std::string place_of(const std::string& root, const std::string& action, const std::string& path) {
    return graft::join_path(action == "drop" ? dropped_folder(root) : root, path);
}

graft::status check_below(const std::string& folder, const std::string& path) {
    if (const char* fault = graft::detail::manifest_path_fault(path)) return graft::fail(graft::errc::data_format, path, fault);
    std::string at = folder;
    for (std::size_t from = 0; from <= path.size();) {
        const std::size_t end = std::min(path.find('/', from), path.size());
        at = graft::join_path(at, path.substr(from, end - from));
        std::error_code none;
        if (fs::symlink_status(at, none).type() == fs::file_type::symlink)
            return graft::fail(graft::errc::data_format, at, "it is a link, and what links lead to is not moved");
        from = end + 1;
    }
    return {};
}

graft::status check_place(const std::string& root, const std::string& action, const std::string& path) {
    if (const char* fault = graft::detail::manifest_path_fault(path)) return graft::fail(graft::errc::data_format, path, fault);
    // The folder of what is dropped may be a link itself.
    return action == "drop" ? check_below(graft::folder_of(root), dropped_folder(base_name(root)) + "/" + path) : check_below(root, path);
}

graft::status rename_new(const std::string& from, const std::string& to) {
    const std::string folder = graft::folder_of(to);
    std::string there = folder;
    while (!is_there(there) && there != graft::folder_of(there)) there = graft::folder_of(there);
    graft::status done = graft::make_folder(folder);
    if (done.ok()) done = rename_in_place(from, to);
    if (!done.ok()) remove_empty_folders(folder, there);
    return done;
}

fix_journal::fix_journal(const std::string& fixes) {
    const bool named = fixes.size() > 4 && fixes.compare(fixes.size() - 4, 4, ".csv") == 0;
    path_ = (named ? fixes.substr(0, fixes.size() - 4) : fixes) + ".journal.csv";
}

graft::result<std::vector<journal_entry>> fix_journal::read(const std::string& dataset) const {
    std::vector<journal_entry> entries;
    if (!is_there(path_)) return entries;
    std::string text;
    GRAFT_TRY_ASSIGN(text, graft::read_file(path_, most_bytes, graft::errc::data_open, graft::errc::memory_budget));
    // The last line may have been cut off; its picture has not been moved then.
    const std::vector<std::size_t> ends = csv_record_ends(text);
    const bool cut = !text.empty() && (text.back() != '\n' || std::count(text.begin(), text.end(), '"') % 2 != 0);
    if (cut) text.resize(ends.size() > 1 ? ends[ends.size() - 2] : 0);
    std::vector<std::vector<std::string>> records;
    GRAFT_TRY_ASSIGN(records, parse_csv(text, path_, std::size_t(1) << 20));
    for (std::size_t i = 1; i < records.size(); ++i) {
        const std::vector<std::string>& r = records[i];
        if (r.size() != 7 || (r[1] != "move" && r[1] != "drop" && r[1] != "edit"))
            return graft::fail(graft::errc::data_format, path_, "line " + std::to_string(i + 1) + " is none of a journal of graft fix");
        if (r[6] != dataset)
            return graft::fail(graft::errc::data_format, path_, "the journal is of another dataset, " + printable(r[6]) + "; name that by --data");
        entries.push_back({std::atoll(r[0].c_str()), r[1], r[2], r[3], r[4], r[5]});
    }
    return entries;
}

graft::status fix_journal::write(const std::vector<journal_entry>& entries, const std::string& dataset) const {
    if (entries.empty()) {
        if (is_there(path_) && std::remove(path_.c_str()) != 0) return graft::fail(graft::errc::file_write, path_, graft::detail::system_message());
        return {};
    }
    std::string text = head;
    for (const journal_entry& e : entries) text += line_of(e, dataset);
    return write_text(text, path_);
}

graft::status fix_journal::append(const journal_entry& entry, const std::string& dataset) const {
    const std::string text = (is_there(path_) ? "" : head) + line_of(entry, dataset);
    std::FILE* const file = std::fopen(path_.c_str(), "ab");
    if (!file) return graft::fail(graft::errc::file_write, path_, graft::detail::system_message());
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && on_disk(file);
    const std::string why = graft::detail::system_message();
    return std::fclose(file) == 0 && written ? graft::status() : graft::fail(graft::errc::file_write, path_, why);
}

graft::result<std::vector<fix_result>> undo_fixes(const std::string& root, const fix_journal& journal, bool dry_run) {
    std::vector<journal_entry> entries;
    GRAFT_TRY_ASSIGN(entries, journal.read(root));
    if (entries.empty()) return graft::fail(graft::errc::data_open, journal.path(), "there is nothing to undo: no journal of these fixes");
    std::vector<fix_result> results;
    std::vector<journal_entry> left;
    for (std::size_t i = entries.size(); i-- > 0;) {
        const journal_entry& e = entries[i];
        fix_result r;
        r.row.id = e.id, r.row.path = e.path, r.row.action = e.action;
        if (e.action == "edit")
            restore_manifest(root, e, dry_run, r);
        else
            restore_file(root, e, dry_run, r);
        if (r.outcome != "restored") left.insert(left.begin(), e);
        results.push_back(std::move(r));
    }
    if (!dry_run) GRAFT_TRY(journal.write(left, root));
    return results;
}

}  // namespace program
