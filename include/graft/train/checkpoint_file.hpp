// The file under a checkpoint: a temporary of its own that becomes the newest, while the newest becomes the one before.
#pragma once

#include "../core/error.hpp"
#include "../core/file.hpp"

#include <cerrno>
#include <cstdio>
#include <string>
#if defined(_WIN32)
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <sys/stat.h>
#else
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#endif
GRAFT_BEGIN_NAMESPACE
namespace detail {

// A checkpoint under construction. The writer holds a lock on its temporary, so that those of killed runs can be told from those
// of living ones: the system takes the lock away with the process.
class checkpoint_file {
public:
    checkpoint_file() noexcept = default;
    checkpoint_file(const checkpoint_file&) = delete;
    checkpoint_file& operator=(const checkpoint_file&) = delete;
    ~checkpoint_file();
    status open(const std::string& path);
    status write(const void* data, std::size_t bytes);
    // Syncs, then puts the file in place of `path`; with `keep`, what was there goes to `previous` first.
    status commit(const std::string& previous, bool keep);

private:
    status failed(const char* what) const { return fail(errc::checkpoint_write, path_, std::string(what) + ": " + detail::system_message()); }
    status sync_and_close();
    status keep_previous(const std::string& previous);

    std::string path_, folder_, temporary_;
    int descriptor_ = -1;
};

inline checkpoint_file::~checkpoint_file() {
#if defined(_WIN32)
    if (descriptor_ >= 0) ::_close(descriptor_);
    if (!temporary_.empty()) std::remove(temporary_.c_str());
#else
    // Removed while it is still locked: nobody else takes it for stale.
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    if (descriptor_ >= 0) ::close(descriptor_);
#endif
}

inline status checkpoint_file::open(const std::string& path) {
    path_ = path;
    if (path.empty() || path.find('\0') != std::string::npos) return fail(errc::checkpoint_write, path, "a path cannot be empty or hold a NUL byte");
    if (no_regular_file(path)) return fail(errc::checkpoint_write, path, "there is something of that name that is no regular file");
    folder_ = folder_of(path);
    const std::size_t slash = path.find_last_of(
#if defined(_WIN32)
        "/\\"
#else
        '/'
#endif
    );
    const std::string folder = path.substr(0, slash + 1);  // "" where there is no slash
    const std::string prefix = "." + path.substr(folder.size()) + ".";
    remove_stale_temporaries(folder_, prefix);
    for (int attempt = 0; attempt < 100; ++attempt) {
#if defined(_WIN32)
        std::string candidate = folder + prefix + std::to_string(::_getpid()) + "-" + std::to_string(attempt) + ".tmp";
        descriptor_ = ::_open(candidate.c_str(), _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
        if (descriptor_ >= 0) temporary_ = std::move(candidate);
#else
        std::string candidate = folder + prefix + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".tmp";
        descriptor_ = uninterrupted([&] { return ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600); });
        if (descriptor_ >= 0) {
            temporary_ = std::move(candidate);
            (void)uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); });  // where a file system knows no locks, files of killed runs stay
        }
#endif
        if (descriptor_ >= 0) return {};
        if (errno != EEXIST) break;
    }
    return failed("a temporary file cannot be made in its folder");
}

inline status checkpoint_file::write(const void* data, std::size_t bytes) { return write_all(descriptor_, data, bytes) ? status() : failed("writing failed"); }

inline status checkpoint_file::commit(const std::string& previous, bool keep) {
    GRAFT_TRY(sync_and_close());
    if (keep) GRAFT_TRY(keep_previous(previous));
    if (!replace_file(temporary_, path_)) return failed("renaming failed");
    temporary_.clear();
#if !defined(_WIN32)
    sync_folder(folder_);
#endif
    return {};
}

inline status checkpoint_file::sync_and_close() {
#if defined(_WIN32)
    if (::_commit(descriptor_) != 0) return failed("syncing failed");
    const int closed = ::_close(descriptor_);
    descriptor_ = -1;
    return closed == 0 ? status() : failed("closing failed");
#else
    // The lock lives as long as any descriptor of the open file: close tells about late errors, the copy keeps the lock.
    const int copy = uninterrupted([&] { return ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0); });
    if (copy < 0) return failed("duplicating its descriptor failed");
    status bad;
    if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) bad = failed("syncing failed");
    if (!close_file(descriptor_) && bad.ok()) bad = failed("closing failed");
    descriptor_ = copy;
    return bad;
#endif
}

// At every moment one of the two names holds a whole file. With links `path_` never goes away; where there are none it is
// renamed, and then the previous name holds it.
inline status checkpoint_file::keep_previous(const std::string& previous) {
#if !defined(_WIN32)
    const std::string step = temporary_ + ".previous";
    ::unlink(step.c_str());
    if (::link(path_.c_str(), step.c_str()) == 0) {
        status bad;
        if (::rename(step.c_str(), previous.c_str()) != 0) bad = failed("keeping the one before failed");
        ::unlink(step.c_str());  // rename leaves it where both names are one file already
        return bad;
    }
#endif
    return replace_file(path_, previous) ? status() : failed("keeping the one before failed");
}

}  // namespace detail
GRAFT_END_NAMESPACE
