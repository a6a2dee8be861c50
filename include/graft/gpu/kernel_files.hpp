// Files that spare the next process work: compiled kernels, and what was chosen among a library's kernels.
#pragma once

#include "../config.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Where they are kept: $GRAFT_CACHE_DIR, else graft's folder in $XDG_CACHE_HOME, ~/.cache or %LOCALAPPDATA%; "" where there is none of
/// these, and each process works anew.
std::string kernel_folder();

/// What was kept for `key`; "" where there is no such file, or where anything but `keep_file` wrote it. `ending` tells kinds apart.
std::string kept_file(const std::string& key, const char* ending);

/// Keeps `contents` for `key`, in a file that is there whole or not at all. A folder that cannot be written to costs the next process
/// its time, and nothing else.
void keep_file(const std::string& key, const char* ending, const std::string& contents);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/directory.hpp"
#include "../core/file.hpp"
#include "../core/read_file.hpp"
#include "../core/xxhash.hpp"

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
// Two hashes of 64 bits: that two keys share both does not happen by accident.
inline std::string kept_path(const std::string& key, const char* ending) {
    const std::string folder = kernel_folder();
    return folder.empty() ? "" : join_path(folder, hash_text(key, 0) + hash_text(key, 1) + ending);
}

}  // namespace detail

GRAFT_INLINE std::string kernel_folder() {
    const auto under = [](const char* variable, const char* rest) {
        const char* value = std::getenv(variable);
        return value && *value ? join_path(value, rest) : std::string();
    };
    std::string found = under("GRAFT_CACHE_DIR", "kernels");
    if (found.empty()) found = under("XDG_CACHE_HOME", "graft/kernels");
    if (found.empty()) found = under("LOCALAPPDATA", "graft/kernels");
    if (found.empty()) found = under("HOME", ".cache/graft/kernels");
    return found;
}

// A line with the hash of what follows it.
GRAFT_INLINE std::string kept_file(const std::string& key, const char* ending) {
    const std::string path = detail::kept_path(key, ending);
    if (path.empty()) return "";
    auto read = read_file(path, std::int64_t(1) << 28, errc::file_open, errc::file_open);
    if (!read.ok() || read->size() < 17) return "";
    std::string contents = read->substr(17);
    return read->compare(0, 17, detail::hash_text(contents, 0) + "\n") == 0 ? contents : "";
}

GRAFT_INLINE void keep_file(const std::string& key, const char* ending, const std::string& contents) {
    const std::string path = detail::kept_path(key, ending);
    if (path.empty() || !make_folder(kernel_folder()).ok()) return;
    const std::string text = detail::hash_text(contents, 0) + "\n" + contents;
    atomic_file file;
    if (file.open(path).ok() && file.write(text.data(), text.size()).ok()) (void)file.commit();
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
