// Files that spare the next process work: compiled kernels, and what was chosen among a library's kernels.
#pragma once

#include "../../config.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Where they are kept: $GRAFT_CACHE_DIR, else graft's folder in $XDG_CACHE_HOME, ~/.cache or %LOCALAPPDATA%, of those that are whole paths;
/// "" where there is none of these, and each process works anew.
std::string kernel_folder();

/// What was kept for `key`; "" where there is no such file, where anything but `keep_file` wrote it or for another key, and where others than
/// this user can write to the folder: what is in it is run. `ending` tells kinds apart.
std::string kept_file(const std::string& key, const char* ending);

/// Keeps `contents` for `key`, in a file that is there whole or not at all. A folder that cannot be written to costs the next process
/// its time, and nothing else.
void keep_file(const std::string& key, const char* ending, const std::string& contents);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../core/directory.hpp"
#include "../../core/file.hpp"
#include "../../core/read_file.hpp"
#include "../../core/xxhash.hpp"

#include <cstdio>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline std::string hash_text(const std::string& of, std::uint64_t seed) {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(xxh64(of.data(), of.size(), seed)));
    return text;
}
inline bool is_whole_path(const char* path) {
#if defined(_WIN32)
    return (path[0] && path[1] == ':') || (path[0] == '\\' && path[1] == '\\');
#else
    return path[0] == '/';
#endif
}
// The line that a file begins with: a hash of what it was kept for, and of what follows.
inline std::string kept_line(const std::string& key, const std::string& contents) { return hash_text(contents, xxh64(key.data(), key.size(), 2)) + "\n"; }
// Two hashes of 64 bits: that two keys share both does not happen by accident.
inline std::string kept_path(const std::string& key, const char* ending) {
    const std::string folder = kernel_folder();
    return folder.empty() ? "" : join_path(folder, hash_text(key, 0) + hash_text(key, 1) + ending);
}

}  // namespace detail

GRAFT_INLINE std::string kernel_folder() {
    const auto under = [](const char* variable, const char* rest) {
        const char* value = std::getenv(variable);
        // Below the working folder lies what somebody else may have put there.
        return value && detail::is_whole_path(value) ? join_path(value, rest) : std::string();
    };
    std::string found = under("GRAFT_CACHE_DIR", "kernels");
    if (found.empty()) found = under("XDG_CACHE_HOME", "graft/kernels");
    if (found.empty()) found = under("LOCALAPPDATA", "graft/kernels");
    if (found.empty()) found = under("HOME", ".cache/graft/kernels");
    return found;
}

GRAFT_INLINE std::string kept_file(const std::string& key, const char* ending) {
    const std::string path = detail::kept_path(key, ending);
    if (path.empty() || !is_private_folder(kernel_folder())) return "";
    auto read = read_file(path, std::int64_t(1) << 28, errc::file_open, errc::file_open);
    if (!read.ok() || read->size() < 17) return "";
    std::string contents = read->substr(17);
    return read->compare(0, 17, detail::kept_line(key, contents)) == 0 ? contents : "";
}

GRAFT_INLINE void keep_file(const std::string& key, const char* ending, const std::string& contents) {
    const std::string path = detail::kept_path(key, ending);
    if (path.empty() || !make_private_folder(kernel_folder()).ok() || !is_private_folder(kernel_folder())) return;
    const std::string text = detail::kept_line(key, contents) + contents;
    atomic_file file;
    if (file.open(path).ok() && file.write(text.data(), text.size()).ok()) (void)file.commit();
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
