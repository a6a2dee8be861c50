// Files: mapped into memory for reading, written so that the old one stays until the new one is whole.
#pragma once

#include "error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// The contents of a regular file, mapped where the system can, else read. Whoever cuts the file short while it is mapped
/// takes the ground from under its readers: replace files by renaming, as `atomic_file` does.
class mapped_file {
public:
    /// Errors: file.open (absent, not readable, not a regular file), `too_large` where it has more than `most` bytes, memory.oom.
    static result<std::shared_ptr<const mapped_file>> open(const std::string& path, std::int64_t most, errc too_large);
    /// Takes a descriptor over and closes it. POSIX systems only.
    static result<std::shared_ptr<const mapped_file>> from_descriptor(int descriptor, const std::string& name, std::int64_t most, errc too_large);

    mapped_file() noexcept = default;
    mapped_file(const mapped_file&) = delete;
    mapped_file& operator=(const mapped_file&) = delete;
    ~mapped_file();
    const std::uint8_t* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    /// Tells the system that what was read will not be read again soon: it need not stay in memory. It is there as before.
    void let_go() const noexcept {
        if (const auto tell = letting_go()) tell(data_, size_);
    }
    /// What tells it of some of the bytes; null where they would not be there as before.
    auto letting_go() const noexcept -> void (*)(const void* bytes, std::size_t size);

private:
    const std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
    bool mapped_ = false;
};

/// A file under construction: a temporary in the same folder that `commit` syncs and renames. Without a commit, nothing happened.
class atomic_file {
public:
    atomic_file() noexcept = default;
    atomic_file(const atomic_file&) = delete;
    atomic_file& operator=(const atomic_file&) = delete;
    ~atomic_file();
    /// Errors: file.write, from all three.
    status open(const std::string& path);
    status write(const void* data, std::size_t bytes);
    status commit();

private:
    status failed(const char* what);
    std::string path_, temporary_;
#if defined(_WIN32)
    void* stream_ = nullptr;
#else
    int descriptor_ = -1;
#endif
};

/// The folder part of a path, "." where there is none.
std::string folder_of(const std::string& path);

namespace detail {
// Gives a file the name `to`, in the place of what has that name, if anything: at every moment the name is that of the old file or of the new
// one. False with errno set where that fails.
bool replace_file(const std::string& file, const std::string& to);
// Removes the temporaries of a folder whose names begin so and that nobody writes any more, those of killed processes: writers hold a lock on
// theirs, which the system takes away with the process.
void remove_stale_temporaries(const std::string& folder, const std::string& prefix);
// Whether a device, a pipe or a folder has that name. A new file would take its place, which for all other programs would be gone: root may do
// that to /dev/null. Windows is not asked: always false there.
bool no_regular_file(const std::string& path);
// Whether anything has that name, or its folder does not say.
bool file_exists(const std::string& path);
}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "descriptor.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#if defined(_WIN32)
#include <io.h>
#else
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
GRAFT_BEGIN_NAMESPACE

namespace detail {
#if defined(_WIN32)
// What is used of windows.h, declared as it does: see gpu/shared_library.hpp.
namespace windows {
constexpr unsigned long move_in_place = 1 | 8;  // MOVEFILE_REPLACE_EXISTING, _WRITE_THROUGH
extern "C" {
__declspec(dllimport) int __stdcall MoveFileExA(const char* from, const char* to, unsigned long flags);
}
}  // namespace windows
GRAFT_INLINE bool replace_file(const std::string& file, const std::string& to) {
    // The C library's rename fails where `to` is there.
    if (windows::MoveFileExA(file.c_str(), to.c_str(), windows::move_in_place)) return true;
    errno = EACCES;
    return false;
}
GRAFT_INLINE void remove_stale_temporaries(const std::string&, const std::string&) {}  // a temporary's name is fixed there, and taken again
#else
GRAFT_INLINE bool replace_file(const std::string& file, const std::string& to) { return ::rename(file.c_str(), to.c_str()) == 0; }

// Some file systems cannot sync a folder and say so: what was renamed in it is renamed all the same.
inline void sync_folder(const std::string& folder) {
    const descriptor opened(uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (opened.is_open()) (void)uninterrupted([&] { return ::fsync(opened.value()); });
}
GRAFT_INLINE void remove_stale_temporaries(const std::string& path, const std::string& prefix) {
    DIR* const folder = ::opendir(path.c_str());
    if (!folder) return;
    const auto ends = [](const char* name, std::size_t length, const char* end) {
        const std::size_t n = std::strlen(end);
        return length >= n && std::memcmp(name + length - n, end, n) == 0;
    };
    while (const dirent* entry = ::readdir(folder)) {
        const char* name = entry->d_name;
        const std::size_t length = std::strlen(name);
        const bool link = ends(name, length, ".tmp.previous");
        if (std::strncmp(name, prefix.c_str(), prefix.size()) != 0 || (!link && !ends(name, length, ".tmp"))) continue;
        // The second name of a checkpoint is not locked; its writer's file is.
        const std::string lock_name(name, link ? length - std::strlen(".previous") : length);
        const int file = uninterrupted([&] { return ::openat(::dirfd(folder), lock_name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
        if (file < 0 && !(link && errno == ENOENT)) continue;
        if (file < 0 || uninterrupted([&] { return ::flock(file, LOCK_EX | LOCK_NB); }) == 0) (void)::unlinkat(::dirfd(folder), name, 0);
        if (file >= 0) ::close(file);
    }
    ::closedir(folder);
}
#endif
}  // namespace detail

GRAFT_INLINE std::string folder_of(const std::string& path) {
#if defined(_WIN32)
    const std::size_t slash = path.find_last_of("/\\");
#else
    const std::size_t slash = path.find_last_of('/');
#endif
    if (slash == std::string::npos) return ".";
    return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

#if !defined(_WIN32)

GRAFT_INLINE mapped_file::~mapped_file() {
    if (mapped_)
        ::munmap(const_cast<std::uint8_t*>(data_), size_);
    else
        ::operator delete(const_cast<std::uint8_t*>(data_));
}

GRAFT_INLINE auto mapped_file::letting_go() const noexcept -> void (*)(const void*, std::size_t) {
#if defined(MADV_DONTNEED)
    if (mapped_)
        return [](const void* bytes, std::size_t size) {
            // Whole pages: what else lies on the first and on the last is read from the file again.
            const std::uintptr_t page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)), at = reinterpret_cast<std::uintptr_t>(bytes),
                                 from = at / page * page;
            ::madvise(reinterpret_cast<void*>(from), at + size - from, MADV_DONTNEED);
        };
#endif
    return nullptr;
}

GRAFT_INLINE GRAFT_COLD result<std::shared_ptr<const mapped_file>> mapped_file::from_descriptor(int descriptor, const std::string& name, std::int64_t most,
                                                                                                errc too_large) GRAFT_MEMORY_TRY {
    detail::descriptor from(descriptor);
    struct stat info;
    if (::fstat(descriptor, &info) != 0) return fail(errc::file_open, name, detail::system_message());
    if (S_ISDIR(info.st_mode)) return fail(errc::file_open, name, "this is a folder, and a file is wanted");
    if (!S_ISREG(info.st_mode)) return fail(errc::file_open, name, "this is not a regular file");
    if (info.st_size > most)
        return fail(too_large, name,
                    "the file has " + std::to_string(static_cast<long long>(info.st_size)) + " bytes; the limit is " +
                        std::to_string(static_cast<long long>(most)));
    auto file = std::make_shared<mapped_file>();
    file->size_ = static_cast<std::size_t>(info.st_size);
    if (!file->size_) return std::shared_ptr<const mapped_file>(std::move(file));
    // Private and writable: who writes into a weight by mistake writes into a copy of the page.
    void* memory = ::mmap(nullptr, file->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
    if (memory != MAP_FAILED) {
        file->data_ = static_cast<const std::uint8_t*>(memory);
        file->mapped_ = true;
        return std::shared_ptr<const mapped_file>(std::move(file));
    }
    auto* copy = static_cast<std::uint8_t*>(::operator new(file->size_, std::nothrow));
    if (!copy) return fail(errc::memory_oom, name, std::to_string(file->size_) + " bytes could not be had from the system");
    file->data_ = copy;
    const std::int64_t got = from.read(copy, file->size_);
    if (got < 0) return fail(errc::file_open, name, detail::system_message());
    if (static_cast<std::size_t>(got) < file->size_) return fail(errc::file_open, name, "the file became shorter while it was read");
    return std::shared_ptr<const mapped_file>(std::move(file));
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE result<std::shared_ptr<const mapped_file>> mapped_file::open(const std::string& path, std::int64_t most, errc too_large) GRAFT_MEMORY_TRY {
    if (path.find('\0') != std::string::npos) return fail(errc::file_open, path, "a path cannot hold a NUL byte");
    // A pipe would block in open: it is refused by fstat instead.
    const int descriptor = detail::uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
    if (descriptor < 0) return fail(errc::file_open, path, detail::system_message());
    return from_descriptor(descriptor, path, most, too_large);
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE GRAFT_COLD status atomic_file::failed(const char* what) {
    return fail(errc::file_write, path_, std::string(what) + ": " + detail::system_message());
}

GRAFT_INLINE atomic_file::~atomic_file() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    if (descriptor_ >= 0) ::close(descriptor_);
}

GRAFT_INLINE bool detail::file_exists(const std::string& path) {
    struct stat info;
    return ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
}

GRAFT_INLINE bool detail::no_regular_file(const std::string& path) {
    struct stat about;
    return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

GRAFT_INLINE status atomic_file::open(const std::string& path) {
    path_ = path;
    if (path.find('\0') != std::string::npos) return fail(errc::file_write, path, "a path cannot hold a NUL byte");
    if (detail::no_regular_file(path)) return fail(errc::file_write, path, "there is something of that name that is no regular file");
    const std::size_t slash = path.find_last_of('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    for (int attempt = 0; attempt < 100; ++attempt) {
        std::string candidate = folder + ".graft-" + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".tmp";
        descriptor_ = detail::uninterrupted([&] { return ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666); });
        if (descriptor_ >= 0) {
            temporary_ = std::move(candidate);
            (void)detail::uninterrupted(
                [&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); });  // where a file system knows no locks, files of killed processes stay
            return {};
        }
        if (errno != EEXIST) break;
    }
    return failed("a temporary file cannot be made in its folder");
}

GRAFT_INLINE status atomic_file::write(const void* data, std::size_t bytes) {
    return detail::write_all(descriptor_, data, bytes) ? status() : failed("writing failed");
}

GRAFT_INLINE status atomic_file::commit() {
    const std::string folder = folder_of(path_);
    // The lock lives as long as any descriptor of the open file: close tells about late errors, the copy keeps the lock.
    const detail::descriptor locked(detail::uninterrupted([&] { return ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0); }));
    if (!locked.is_open()) return failed("duplicating its descriptor failed");
    if (detail::uninterrupted([&] { return ::fsync(descriptor_); }) != 0) return failed("syncing failed");
    if (!detail::close_file(std::exchange(descriptor_, -1))) return failed("closing failed");
    if (!detail::replace_file(temporary_, path_)) return failed("renaming failed");
    temporary_.clear();
    detail::sync_folder(folder);
    return {};
}

#else

GRAFT_INLINE bool detail::file_exists(const std::string& path) { return ::_access(path.c_str(), 0) == 0; }
GRAFT_INLINE bool detail::no_regular_file(const std::string&) { return false; }

GRAFT_INLINE mapped_file::~mapped_file() { ::operator delete(const_cast<std::uint8_t*>(data_)); }
GRAFT_INLINE auto mapped_file::letting_go() const noexcept -> void (*)(const void*, std::size_t) { return nullptr; }

GRAFT_INLINE GRAFT_COLD result<std::shared_ptr<const mapped_file>> mapped_file::from_descriptor(int, const std::string& name, std::int64_t,
                                                                                                errc) GRAFT_MEMORY_TRY {
    return fail(errc::file_open, name, "descriptors are not used on this system");
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE result<std::shared_ptr<const mapped_file>> mapped_file::open(const std::string& path, std::int64_t most, errc too_large) GRAFT_MEMORY_TRY {
    std::FILE* stream = std::fopen(path.c_str(), "rb");
    if (!stream) return fail(errc::file_open, path, detail::system_message());
    struct closer {
        std::FILE* stream;
        ~closer() { std::fclose(stream); }
    } close_at_end{stream};
    _fseeki64(stream, 0, SEEK_END);
    const long long size = _ftelli64(stream);
    _fseeki64(stream, 0, SEEK_SET);
    if (size < 0) return fail(errc::file_open, path, "this is not a regular file");
    if (size > most) return fail(too_large, path, "the file has " + std::to_string(size) + " bytes; the limit is " + std::to_string(most));
    auto file = std::make_shared<mapped_file>();
    file->size_ = static_cast<std::size_t>(size);
    auto* copy = static_cast<std::uint8_t*>(::operator new(file->size_ + 1, std::nothrow));
    if (!copy) return fail(errc::memory_oom, path, std::to_string(size) + " bytes could not be had from the system");
    file->data_ = copy;
    if (std::fread(copy, 1, file->size_, stream) != file->size_) return fail(errc::file_open, path, "the file became shorter while it was read");
    return std::shared_ptr<const mapped_file>(std::move(file));
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE GRAFT_COLD status atomic_file::failed(const char* what) {
    return fail(errc::file_write, path_, std::string(what) + ": " + detail::system_message());
}

GRAFT_INLINE atomic_file::~atomic_file() {
    if (stream_) std::fclose(static_cast<std::FILE*>(stream_));
    if (!temporary_.empty()) std::remove(temporary_.c_str());
}

GRAFT_INLINE status atomic_file::open(const std::string& path) {
    path_ = path;
    temporary_ = path + ".graft.tmp";
    stream_ = std::fopen(temporary_.c_str(), "wb");
    if (stream_) return {};
    temporary_.clear();
    return failed("a temporary file cannot be made in its folder");
}

GRAFT_INLINE status atomic_file::write(const void* data, std::size_t bytes) {
    if (bytes && (!stream_ || std::fwrite(data, 1, bytes, static_cast<std::FILE*>(stream_)) != bytes)) return failed("writing failed");
    return {};
}

GRAFT_INLINE status atomic_file::commit() {
    std::FILE* const stream = static_cast<std::FILE*>(stream_);
    if (!stream || std::fflush(stream) != 0 || ::_commit(::_fileno(stream)) != 0) return failed("syncing failed");
    stream_ = nullptr;
    if (std::fclose(stream) != 0) return failed("closing failed");
    if (!detail::replace_file(temporary_, path_)) return failed("renaming failed");
    temporary_.clear();
    return {};
}

#endif

GRAFT_END_NAMESPACE
#endif
