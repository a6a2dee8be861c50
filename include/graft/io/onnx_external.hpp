// External data of a model: the one function that opens a file that a model names, and the rules it must pass.
#pragma once

#include "../core/file.hpp"
#include "../core/limits.hpp"
#include "../core/name_table.hpp"

#include <string>
#include <string_view>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Opens `location`, a path below `directory` as a model gives it. It must be relative, without "..", backslashes or NUL;
/// no part of it may be a symbolic link, and it must be a regular file with one hard link. Errors: external.path, file.open,
/// model.too_large where it has more than `most` bytes.
result<std::shared_ptr<const mapped_file>> open_external(const std::string& directory, std::string_view location, std::int64_t most);

/// The files that one model has opened: each is mapped once, and shared by the tensors in it.
class external_files {
public:
    /// `location` must outlive this object.
    result<std::shared_ptr<const mapped_file>> open(const std::string& directory, std::string_view location, const limits& limit);

private:
    name_table names_;
    std::vector<std::shared_ptr<const mapped_file>> files_;
    std::int64_t bytes_ = 0;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/descriptor.hpp"

#include <cerrno>
#include <cstring>
#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#include <sys/syscall.h>
#endif
#endif
GRAFT_BEGIN_NAMESPACE
namespace detail {

// What is wrong with the text of a location, or null.
inline const char* location_fault(std::string_view location) noexcept {
    if (location.empty()) return "the path is empty";
    if (location.size() > 4096) return "the path is longer than 4096 bytes";
    if (location.front() == '/') return "the path is absolute";
    if (location.size() > 1 && location[1] == ':') return "the path names a drive";
    for (const char c : location) {
        if (c == '\\') return "the path holds a backslash";
        if (c == '\0') return "the path holds a NUL";
    }
    for (std::size_t at = 0; at <= location.size();) {
        std::size_t end = location.find('/', at);
        if (end == std::string_view::npos) end = location.size();
        if (location.substr(at, end - at) == "..") return "the path goes up by '..'";
        at = end + 1;
    }
    return location.back() == '/' ? "the path is a folder" : nullptr;
}

#if !defined(_WIN32)
struct descriptor_guard {
    int value = -1;
    ~descriptor_guard() {
        if (value >= 0) ::close(value);
    }
};

// Opens every part by itself and follows no link: for systems without openat2.
inline int open_walking(int folder, const std::string& path) {
    descriptor_guard at;
    int from = folder;
    for (std::size_t first = 0;;) {
        const std::size_t slash = path.find('/', first);
        if (slash == std::string::npos)
            return uninterrupted([&] { return ::openat(from, path.c_str() + first, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW); });
        const std::string part = path.substr(first, slash - first);
        first = slash + 1;
        if (part.empty() || part == ".") continue;
        const int next = uninterrupted([&] { return ::openat(from, part.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW); });
        if (next < 0) return -1;
        if (at.value >= 0) ::close(at.value);
        from = at.value = next;
    }
}

inline int open_beneath(int folder, const std::string& path) {
#if defined(SYS_openat2) && defined(RESOLVE_BENEATH)
    struct open_how how;
    std::memset(&how, 0, sizeof how);
    how.flags = static_cast<decltype(how.flags)>(O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const long opened = uninterrupted([&] { return ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how); });
    if (opened >= 0) return static_cast<int>(opened);
    // Old kernels do not know the call, and some sandboxes forbid it.
    if (errno != ENOSYS && errno != EPERM && errno != EINVAL && errno != E2BIG) return -1;
#endif
    return open_walking(folder, path);
}
#endif

}  // namespace detail

GRAFT_INLINE GRAFT_COLD result<std::shared_ptr<const mapped_file>> open_external(const std::string& directory, std::string_view location, std::int64_t most) {
    const std::string path(location), where = "external data '" + path + "'";
    if (const char* what = detail::location_fault(location)) return fail(errc::external_path, where, what);
#if defined(_WIN32)
    (void)directory;
    (void)most;
    return fail(errc::external_path, where, "external data cannot be opened safely on this system: save the model with its data inside");
#else
    detail::descriptor_guard folder, file;
    folder.value = detail::uninterrupted([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (folder.value < 0) return fail(errc::file_open, directory, detail::system_message());
    file.value = detail::open_beneath(folder.value, path);
    if (file.value < 0) {
        const int reason = errno;
        for (const int refused : {ELOOP, EMLINK, EXDEV, ENOTDIR, ENAMETOOLONG, ENXIO, EAGAIN})
            if (reason == refused) return fail(errc::external_path, where, "a part of the path is a link, leaves the folder of the model or is no folder");
        return fail(errc::file_open, where, std::string("in folder '") + directory + "': " + detail::system_message(reason));
    }
    struct stat info;
    if (::fstat(file.value, &info) != 0) return fail(errc::file_open, where, detail::system_message());
    if (!S_ISREG(info.st_mode)) return fail(errc::external_path, where, "this is not a regular file");
    if (info.st_nlink != 1) return fail(errc::external_path, where, "the file has more than one hard link");
    const int descriptor = file.value;
    file.value = -1;
    return mapped_file::from_descriptor(descriptor, where, most, errc::model_too_large);
#endif
}

GRAFT_INLINE result<std::shared_ptr<const mapped_file>> external_files::open(const std::string& directory, std::string_view location, const limits& limit) {
    const int known = names_.find(location);
    if (known >= 0) return files_[static_cast<std::size_t>(known)];
    if (directory.empty()) return fail(errc::external_path, "external data '" + std::string(location) + "'", "a model in memory has no folder to read it from");
    std::shared_ptr<const mapped_file> file;
    GRAFT_TRY_ASSIGN(file, open_external(directory, location, limit.external_bytes - bytes_));
    bytes_ += static_cast<std::int64_t>(file->size());
    names_.insert(location, static_cast<int>(files_.size()));
    files_.push_back(file);
    return file;
}

GRAFT_END_NAMESPACE
#endif
