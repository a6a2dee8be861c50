// The file of a log: it grows by whole entries, each of which is there as soon as it is written.
#pragma once

#include "../core/error.hpp"

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Owns the stream; one that was moved from, or closed, is not open.
class log_file {
public:
    log_file() noexcept = default;
    log_file(std::FILE* stream, std::string path) noexcept : path_(std::move(path)), stream_(stream) {}
    log_file(log_file&& other) noexcept : path_(std::move(other.path_)), stream_(std::exchange(other.stream_, nullptr)) {}
    log_file& operator=(log_file&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(stream_, other.stream_);
        return *this;
    }
    ~log_file() { (void)close(); }

    // Errors of both: file.write, which the system may tell only when closing.
    status write(const void* bytes, std::size_t size);
    status close();
    const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
    std::FILE* stream_ = nullptr;
};

}  // namespace detail
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cerrno>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

GRAFT_INLINE status log_file::write(const void* bytes, std::size_t size) {
    if (!stream_) return fail(errc::file_write, path_, "the log is not open");
    if (std::fwrite(bytes, 1, size, stream_) != size || std::fflush(stream_) != 0)
        return fail(errc::file_write, path_, std::string("writing failed: ") + std::strerror(errno));
    return {};
}

GRAFT_INLINE status log_file::close() {
    std::FILE* const stream = std::exchange(stream_, nullptr);
    if (stream && std::fclose(stream) != 0)
        return fail(errc::file_write, path_, std::string("closing failed: ") + std::strerror(errno));
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
