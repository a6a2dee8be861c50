// Folders: what lies in one, in an order that no locale changes, with what is no regular file told apart.
#pragma once

#include "error.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What a path leads to once links are followed.
enum class entry_kind { file, folder, other };

/// One name in a folder.
struct folder_entry {
    std::string name;  ///< without the folder; bytes as the file system has them
    entry_kind kind = entry_kind::other;
    /// For `other`, what it is: "a FIFO", "a broken link", ... Static storage.
    const char* what = "";
    /// For folders: device and inode, the same for the same folder however it was reached; (0, 0) where the system has none.
    std::pair<std::uint64_t, std::uint64_t> identity{0, 0};
};

/// What a path leads to; `name` is the path. Nothing is opened. Errors: `cannot_open` (nothing there, no permission to look).
result<folder_entry> look_at(const std::string& path, errc cannot_open);
/// Everything in a folder but "." and "..", sorted by the bytes of the names. Links are followed; on Windows, links to folders
/// are `other`. Errors: `cannot_open`, also where there are more than `most` names.
result<std::vector<folder_entry>> list_folder(const std::string& path, errc cannot_open, std::size_t most = std::size_t(1) << 26);
/// "folder/name", without a second slash; the name alone where the folder is "".
std::string join_path(const std::string& folder, const std::string& name);
/// Makes a folder and those above it that are missing. Errors: file.write.
status make_folder(const std::string& path);
/// The same for what only this user may read and write: folders that are made let nobody else in.
status make_private_folder(const std::string& path);
/// Whether this is a folder, and none but this user can write to it. True of every folder where the system has no such owners.
bool is_private_folder(const std::string& path);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cerrno>
#include <cstring>
#if defined(_WIN32)
#include <direct.h>
#include <io.h>
#else
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::string join_path(const std::string& folder, const std::string& name) {
    if (folder.empty()) return name;
    const char last = folder.back();
#if defined(_WIN32)
    const bool separated = last == '/' || last == '\\';
#else
    const bool separated = last == '/';
#endif
    return separated ? folder + name : folder + "/" + name;
}

namespace detail {
inline status make_folders(const std::string& path, unsigned mode) {
    for (std::size_t i = 1; i <= path.size(); ++i) {
        if (i < path.size() && path[i] != '/') continue;
        const std::string part = path.substr(0, i);
#if defined(_WIN32)
        (void)mode;
        const int made = ::_mkdir(part.c_str());
#else
        const int made = ::mkdir(part.c_str(), mode);
#endif
        if (made != 0 && errno != EEXIST) return fail(errc::file_write, part, "the folder cannot be made: " + detail::system_message());
    }
    return {};
}
}  // namespace detail

GRAFT_INLINE status make_folder(const std::string& path) { return detail::make_folders(path, 0777); }
GRAFT_INLINE status make_private_folder(const std::string& path) { return detail::make_folders(path, 0700); }
GRAFT_INLINE bool is_private_folder(const std::string& path) {
#if defined(_WIN32)
    (void)path;
    return true;
#else
    struct stat about;
    return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() && !(about.st_mode & (S_IWGRP | S_IWOTH));
#endif
}

namespace detail {
inline void sort_entries(std::vector<folder_entry>& entries) {
    // char_traits compares bytes as unsigned, whatever the locale.
    std::sort(entries.begin(), entries.end(), [](const folder_entry& a, const folder_entry& b) { return a.name < b.name; });
}
inline GRAFT_COLD status too_many_entries(const std::string& path, errc cannot_open, std::size_t most) {
    return fail(cannot_open, path, "the folder holds more than " + std::to_string(most) + " names");
}
}  // namespace detail

#if !defined(_WIN32)

namespace detail {
inline void describe(const struct stat& about, folder_entry& entry) {
    if (S_ISREG(about.st_mode)) {
        entry.kind = entry_kind::file;
    } else if (S_ISDIR(about.st_mode)) {
        entry.kind = entry_kind::folder;
        entry.identity = {static_cast<std::uint64_t>(about.st_dev), static_cast<std::uint64_t>(about.st_ino)};
    } else {
        entry.what = S_ISFIFO(about.st_mode)   ? "a FIFO"
                     : S_ISSOCK(about.st_mode) ? "a socket"
                     : S_ISCHR(about.st_mode)  ? "a character device"
                     : S_ISBLK(about.st_mode)  ? "a block device"
                                               : "of an unknown kind";
    }
}
}  // namespace detail

GRAFT_INLINE result<folder_entry> look_at(const std::string& path, errc cannot_open) GRAFT_MEMORY_TRY {
    if (path.find('\0') != std::string::npos) return fail(cannot_open, path, "a path cannot hold a NUL byte");
    struct stat about;
    if (::stat(path.c_str(), &about) != 0) return fail(cannot_open, path, detail::system_message());
    folder_entry entry;
    entry.name = path;
    detail::describe(about, entry);
    return entry;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<std::vector<folder_entry>> list_folder(const std::string& path, errc cannot_open, std::size_t most) GRAFT_MEMORY_TRY {
    if (path.find('\0') != std::string::npos) return fail(cannot_open, path, "a path cannot hold a NUL byte");
    DIR* folder = ::opendir(path.c_str());
    if (!folder) return fail(errno == ENOMEM ? errc::memory_oom : cannot_open, path, detail::system_message());
    struct closer {
        DIR* folder;
        ~closer() { ::closedir(folder); }
    } close_at_end{folder};
    std::vector<folder_entry> entries;
    for (;;) {
        errno = 0;
        const dirent* found = ::readdir(folder);
        if (!found) break;
        if (!std::strcmp(found->d_name, ".") || !std::strcmp(found->d_name, "..")) continue;
        if (entries.size() >= most) return detail::too_many_entries(path, cannot_open, most);
        folder_entry entry;
        entry.name = found->d_name;
#if defined(DT_REG)
        // Most names are plain files, and most systems say so at once: a million calls of stat are seconds.
        if (found->d_type == DT_REG) {
            entry.kind = entry_kind::file;
            entries.push_back(std::move(entry));
            continue;
        }
#endif
        struct stat about;
        if (::fstatat(::dirfd(folder), found->d_name, &about, 0) == 0)
            detail::describe(about, entry);
        else
            entry.what = errno == ENOENT || errno == ELOOP ? "a broken link" : "not to be looked at";
        entries.push_back(std::move(entry));
    }
    if (errno != 0) return fail(cannot_open, path, detail::system_message());
    detail::sort_entries(entries);
    return entries;
}
GRAFT_MEMORY_CATCH(path)

#else

namespace detail {
inline void describe(const _finddata64i32_t& found, folder_entry& entry) {
    constexpr unsigned reparse_point = 0x400;  // links and junctions, which alone could make a loop
    const bool folder = (found.attrib & _A_SUBDIR) != 0;
    if (folder && (found.attrib & reparse_point))
        entry.what = "a link to a folder";
    else
        entry.kind = folder ? entry_kind::folder : entry_kind::file;
}
}  // namespace detail

GRAFT_INLINE result<folder_entry> look_at(const std::string& path, errc cannot_open) GRAFT_MEMORY_TRY {
    if (path.find('\0') != std::string::npos) return fail(cannot_open, path, "a path cannot hold a NUL byte");
    if (path.empty()) return fail(cannot_open, path, "the path is empty");
    std::string plain = path;
    while (plain.size() > 1 && (plain.back() == '/' || plain.back() == '\\')) plain.pop_back();
    folder_entry entry;
    entry.name = path;
    if (plain.find_first_of("*?") != std::string::npos) return fail(cannot_open, path, "a path cannot hold * or ?");
    // Roots and "." have no name that could be found.
    if (plain == "." || plain == ".." || plain.back() == '/' || plain.back() == '\\' || plain.back() == ':') {
        entry.kind = entry_kind::folder;
        return entry;
    }
    _finddata64i32_t found;
    const std::intptr_t search = _findfirst64i32(plain.c_str(), &found);
    if (search == -1) return fail(cannot_open, path, detail::system_message());
    _findclose(search);
    detail::describe(found, entry);
    // The path itself was chosen by the caller: a link there is followed.
    if (entry.kind == entry_kind::other) entry.kind = entry_kind::folder;
    return entry;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<std::vector<folder_entry>> list_folder(const std::string& path, errc cannot_open, std::size_t most) GRAFT_MEMORY_TRY {
    if (path.find('\0') != std::string::npos) return fail(cannot_open, path, "a path cannot hold a NUL byte");
    std::vector<folder_entry> entries;
    _finddata64i32_t found;
    const std::intptr_t search = _findfirst64i32(join_path(path, "*").c_str(), &found);
    if (search == -1) return fail(cannot_open, path, detail::system_message());
    do {
        if (!std::strcmp(found.name, ".") || !std::strcmp(found.name, "..")) continue;
        if (entries.size() >= most) {
            _findclose(search);
            return detail::too_many_entries(path, cannot_open, most);
        }
        folder_entry entry;
        entry.name = found.name;
        detail::describe(found, entry);
        entries.push_back(std::move(entry));
    } while (_findnext64i32(search, &found) == 0);
    _findclose(search);
    detail::sort_entries(entries);
    return entries;
}
GRAFT_MEMORY_CATCH(path)

#endif

GRAFT_END_NAMESPACE
#endif
