// The folder of a run: which files of a folder are a run's, so that none is destroyed by another that is begun there.
#pragma once

#include "../core/error.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The names of the files in a folder that a run of training writes, sorted: model.onnx, checkpoints, metrics.jsonl, report.html,
/// run.json, predictions.csv, fixes.csv and event files of graft. None where the folder is not there. Errors: file.open.
result<std::vector<std::string>> run_files(const std::string& folder);

/// Whether a run may write into a folder: it is not there yet, or holds no file that a run would write, or the run goes on from the checkpoint
/// there (`resume`), or is to replace what is there (`overwrite`). Other files are no hindrance, nor is what a run has left that ended before
/// its first checkpoint: logs without a line. Errors: train.out_in_use, which names a folder
/// beside it that is free; usage (both are asked for); file.open.
status check_out(const std::string& folder, bool resume, bool overwrite);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/descriptor.hpp"
#include "../core/directory.hpp"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether a name is one that event_writer gives: other programs' event files end otherwise.
inline bool is_event_file(const std::string& name) {
    const std::string before = "events.out.tfevents.";
    if (name.compare(0, before.size(), before) != 0) return false;
    std::size_t at = before.size();
    const auto digits = [&] {
        const std::size_t from = at;
        while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at]))) ++at;
        return at > from;
    };
    if (!digits() || name.compare(at, 6, ".graft") != 0) return false;
    at += 6;
    return at == name.size() || (name[at++] == '.' && digits() && at == name.size());
}
inline bool is_run_file(const std::string& name) {
    for (const char* own : {"checkpoint.safetensors", "checkpoint.previous.safetensors", "model.onnx", "metrics.jsonl", "report.html", "run.json",
                            "predictions.csv", "fixes.csv"})
        if (name == own) return true;
    return is_event_file(name);
}

inline bool is_empty_file(const std::string& path) {
    const descriptor file = descriptor::open(path, descriptor::use::read);
    char first;
    return file.is_open() && file.read(&first, 1) == 0;
}

// "run" -> "run-2", "run-2" -> "run-3": the first beside it where nothing is.
inline std::string free_folder_beside(std::string folder) {
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    const std::size_t name = folder.find_last_of('/') + 1;
    if (folder.find_first_not_of('.', name) == std::string::npos) folder = join_path(folder, "run");
    const std::size_t dash = folder.find_last_of('-');
    long number = 1;
    if (dash != std::string::npos && dash > name && dash + 1 < folder.size() && folder.size() - dash < 7 &&
        folder.find_first_not_of("0123456789", dash + 1) == std::string::npos) {
        number = std::strtol(folder.c_str() + dash + 1, nullptr, 10);
        folder.resize(dash);
    }
    std::string next;
    do next = folder + "-" + std::to_string(++number);
    while (look_at(next, errc::file_open).ok());
    return next;
}

// Removes a run's files, those to go on from first: what is left behind by a kill in the middle is not taken for a run that can be resumed.
inline status remove_run(const std::string& folder) {
    std::vector<std::string> names;
    GRAFT_TRY_ASSIGN(names, run_files(folder));
    for (const std::string& name : names) {
        const std::string path = join_path(folder, name);
        if (std::remove(path.c_str()) != 0 && errno != ENOENT) return fail(errc::file_write, path, "it cannot be removed: " + detail::system_message());
    }
    return {};
}

}  // namespace detail

GRAFT_INLINE result<std::vector<std::string>> run_files(const std::string& folder) GRAFT_MEMORY_TRY {
    std::vector<std::string> names;
    if (!look_at(folder, errc::file_open).ok()) return names;
    std::vector<folder_entry> entries;
    GRAFT_TRY_ASSIGN(entries, list_folder(folder, errc::file_open));
    for (const folder_entry& e : entries)
        if (e.kind == entry_kind::file && detail::is_run_file(e.name)) names.push_back(e.name);
    return names;
}
GRAFT_MEMORY_CATCH(folder)

GRAFT_INLINE status check_out(const std::string& folder, bool resume, bool overwrite) GRAFT_MEMORY_TRY {
    if (resume && overwrite) return fail(errc::usage, "--overwrite", "a run is resumed or overwritten, not both");
    std::vector<std::string> names;
    GRAFT_TRY_ASSIGN(names, run_files(folder));
    std::string shown;
    for (std::size_t i = 0; i < names.size() && i < 3; ++i) shown += (i ? ", " : "") + names[i];
    if (names.size() > 3) shown += ", ...";
    bool checkpoint = false, model = false, logged = true;
    for (const std::string& name : names) {
        checkpoint |= name.compare(0, 11, "checkpoint.") == 0;
        model |= name == "model.onnx" || name == "report.html";
        if (name == "metrics.jsonl") logged = !detail::is_empty_file(join_path(folder, name));
    }
    // A run that was cut off before its first checkpoint has written no model and no line of its log.
    if (names.empty() || overwrite || (resume && checkpoint) || (!checkpoint && !model && (resume || !logged))) return {};
    return fail(errc::train_out_in_use, folder,
                "it holds a run (" + shown + "): " + (checkpoint ? "--resume goes on with it" : "there is no checkpoint to --resume from") +
                    ", --overwrite replaces it, --out " + detail::free_folder_beside(folder) + " begins beside it");
}
GRAFT_MEMORY_CATCH(folder)

GRAFT_END_NAMESPACE
#endif
