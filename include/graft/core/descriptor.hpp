// A file by its descriptor: what a signal interrupts is gone on with, what comes or goes in pieces is completed.
#pragma once

#include "error.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <fcntl.h>
#if defined(_WIN32)
#include <io.h>
#include <sys/stat.h>
#else
#include <unistd.h>
#endif
GRAFT_BEGIN_NAMESPACE
namespace detail {

// A system call again, for as long as signals interrupt it.
template <class F>
inline auto uninterrupted(const F& call) {
    auto got = call();
    while (got < 0 && errno == EINTR) got = call();
    return got;
}

inline std::size_t piece_of(std::size_t bytes) noexcept { return bytes < (std::size_t(1) << 30) ? bytes : std::size_t(1) << 30; }

// How many bytes were read, fewer than asked for at the end of the file alone; -1 with errno set.
inline std::int64_t read_all(int from, void* to, std::size_t bytes) noexcept {
    std::size_t have = 0;
    while (have < bytes) {
        const auto n = uninterrupted([&] {
#if defined(_WIN32)
            return ::_read(from, static_cast<char*>(to) + have, static_cast<unsigned>(piece_of(bytes - have)));
#else
            return ::read(from, static_cast<char*>(to) + have, piece_of(bytes - have));
#endif
        });
        if (n < 0) return -1;
        if (n == 0) break;
        have += static_cast<std::size_t>(n);
    }
    return static_cast<std::int64_t>(have);
}

// Whether all of it was written; errno where not.
inline bool write_all(int to, const void* from, std::size_t bytes) noexcept {
    for (std::size_t done = 0; done < bytes;) {
        const auto n = uninterrupted([&] {
#if defined(_WIN32)
            return ::_write(to, static_cast<const char*>(from) + done, static_cast<unsigned>(piece_of(bytes - done)));
#else
            return ::write(to, static_cast<const char*>(from) + done, piece_of(bytes - done));
#endif
        });
        if (n == 0) errno = EIO;  // no system says so of a file
        if (n <= 0) return false;
        done += static_cast<std::size_t>(n);
    }
    return true;
}

// False with errno set where the system tells only now that something was not written. The file is closed in any case, also where a signal
// interrupts this.
inline bool close_file(int file) noexcept {
#if defined(_WIN32)
    return ::_close(file) == 0;
#else
    return ::close(file) == 0 || errno == EINTR;
#endif
}

class descriptor {
public:
    enum class use { read, append, create };  // `create`: a file of that name must not be there

    descriptor() noexcept = default;
    explicit descriptor(int value) noexcept : value_(value) {}
    descriptor(descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~descriptor() { (void)close(); }

    // Not open, with errno set, where that fails.
    static descriptor open(const std::string& path, use how) {
#if defined(_WIN32)
        const int flags = _O_BINARY | _O_NOINHERIT | (how == use::read ? _O_RDONLY : _O_WRONLY | _O_CREAT | (how == use::append ? _O_APPEND : _O_EXCL));
        return descriptor(::_open(path.c_str(), flags, _S_IREAD | _S_IWRITE));
#else
        const int flags = O_CLOEXEC | (how == use::read ? O_RDONLY : O_WRONLY | O_CREAT | (how == use::append ? O_APPEND : O_EXCL));
        return descriptor(uninterrupted([&] { return ::open(path.c_str(), flags, 0666); }));
#endif
    }
    bool is_open() const noexcept { return value_ >= 0; }
    int value() const noexcept { return value_; }
    // Whoever takes it closes it.
    int release() noexcept { return std::exchange(value_, -1); }

    std::int64_t read(void* to, std::size_t bytes) const noexcept { return read_all(value_, to, bytes); }
    bool write(const void* from, std::size_t bytes) const noexcept { return write_all(value_, from, bytes); }
    bool seek(std::int64_t at) const noexcept {
#if defined(_WIN32)
        return ::_lseeki64(value_, at, SEEK_SET) == at;
#else
        return ::lseek(value_, static_cast<off_t>(at), SEEK_SET) == static_cast<off_t>(at);
#endif
    }
    // As close_file; one that is not open can be closed.
    bool close() noexcept {
        const int value = std::exchange(value_, -1);
        return value < 0 || close_file(value);
    }

private:
    int value_ = -1;
};

}  // namespace detail
GRAFT_END_NAMESPACE
