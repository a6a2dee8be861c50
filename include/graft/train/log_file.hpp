// The file of a log: it grows by whole entries, each of which is there as soon as it is written.
#pragma once

#include "../core/error.hpp"

#include <cstddef>
#include <string>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class descriptor;

// Owns the file; one that was moved from, or closed, is not open.
class log_file {
public:
    log_file() noexcept = default;
    log_file(log_file&& other) noexcept : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
    log_file& operator=(log_file&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(file_, other.file_);
        return *this;
    }
    ~log_file() { (void)close(); }

    // Takes an open file over; the one before has to be closed.
    void begin(descriptor&& file, const std::string& path);
    // Errors of both: file.write, which the system may tell only when closing.
    status write(const void* bytes, std::size_t size);
    status close();
    const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
    int file_ = -1;
};

}  // namespace detail
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/descriptor.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

GRAFT_INLINE void log_file::begin(descriptor&& file, const std::string& path) {
    path_ = path;
    file_ = file.release();
}

GRAFT_INLINE status log_file::write(const void* bytes, std::size_t size) {
    if (file_ < 0) return fail(errc::file_write, path_, "the log is not open");
    if (!write_all(file_, bytes, size)) return fail(errc::file_write, path_, "writing failed: " + detail::system_message());
    return {};
}

GRAFT_INLINE status log_file::close() {
    const int file = std::exchange(file_, -1);
    if (file >= 0 && !close_file(file)) return fail(errc::file_write, path_, "closing failed: " + detail::system_message());
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
