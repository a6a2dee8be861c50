// A whole file as bytes of one's own: unlike a mapping, it stays readable whoever cuts the file short meanwhile.
#pragma once

#include "error.hpp"

#include <cstdint>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// The bytes of a regular file. `cannot_open` is the code where it is absent, not regular or unreadable, `too_large` where it
/// has more than `most` bytes.
result<std::string> read_file(const std::string& path, std::int64_t most, errc cannot_open, errc too_large);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cerrno>
#include <cstdio>
#include <cstring>
#if !defined(_WIN32)
#include <sys/stat.h>
#endif

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<std::string> read_file(const std::string& path, std::int64_t most, errc cannot_open, errc too_large) {
    if (path.find('\0') != std::string::npos) return fail(cannot_open, path, "a path cannot hold a NUL byte");
    std::size_t guess = 65535;
#if !defined(_WIN32)
    // Asked before opening: to open a FIFO would wait for ever.
    struct stat about;
    if (::stat(path.c_str(), &about) != 0) return fail(cannot_open, path, std::strerror(errno));
    if (S_ISDIR(about.st_mode)) return fail(cannot_open, path, "this is a folder, and a file is wanted");
    if (!S_ISREG(about.st_mode)) return fail(cannot_open, path, "not a regular file");
    if (about.st_size > most)
        return fail(too_large, path, std::to_string(about.st_size) + " bytes; the limit is " + std::to_string(most));
    guess = static_cast<std::size_t>(about.st_size);
#endif
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) return fail(cannot_open, path, std::strerror(errno));
    std::string bytes;
    std::size_t have = 0;
    // One byte more than the file has, so that the first read meets its end.
    for (std::size_t step = guess + 1; static_cast<std::int64_t>(have) <= most; step = 65536) {
        bytes.resize(have + step);
        const std::size_t got = std::fread(&bytes[have], 1, step, file);
        have += got;
        if (got < step) break;
    }
    const bool good = !std::ferror(file);
    std::fclose(file);
    if (!good) return fail(cannot_open, path, "reading failed");
    if (static_cast<std::int64_t>(have) > most) return fail(too_large, path, "more than " + std::to_string(most) + " bytes");
    bytes.resize(have);
    return bytes;
}

GRAFT_END_NAMESPACE
#endif
