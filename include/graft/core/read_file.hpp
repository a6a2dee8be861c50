// A whole file as bytes of one's own: unlike a mapping, it stays readable whoever cuts the file short meanwhile.
#pragma once

#include "error.hpp"

#include <cstdint>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// The bytes of a regular file. `cannot_open` is the code where it is absent, not regular or unreadable, `too_large` where it
/// has more than `most` bytes.
result<std::string> read_file(const std::string& path, std::int64_t most, errc cannot_open, errc too_large);

/// A number that regular files of other contents hardly share, without reading all of them: XXH64 of the first, the middle and the last
/// 4 KiB, seeded by the size. `cannot_open` is the code where the file is absent, not regular or unreadable.
result<std::uint64_t> file_tag(const std::string& path, errc cannot_open);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "descriptor.hpp"
#include "xxhash.hpp"

#include <sys/stat.h>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<std::string> read_file(const std::string& path, std::int64_t most, errc cannot_open, errc too_large) GRAFT_MEMORY_TRY {
    if (path.find('\0') != std::string::npos) return fail(cannot_open, path, "a path cannot hold a NUL byte");
    std::size_t guess = 65535;
#if !defined(_WIN32)
    // Asked before opening: to open a FIFO would wait for ever.
    struct stat about;
    if (::stat(path.c_str(), &about) != 0) return fail(cannot_open, path, detail::system_message());
    if (S_ISDIR(about.st_mode)) return fail(cannot_open, path, "this is a folder, and a file is wanted");
    if (!S_ISREG(about.st_mode)) return fail(cannot_open, path, "not a regular file");
    if (about.st_size > most) return fail(too_large, path, std::to_string(about.st_size) + " bytes; the limit is " + std::to_string(most));
    guess = static_cast<std::size_t>(about.st_size);
#endif
    detail::descriptor file = detail::descriptor::open(path, detail::descriptor::use::read);
    if (!file.is_open()) return fail(cannot_open, path, detail::system_message());
    std::string bytes;
    std::size_t have = 0;
    // One byte more than the file has, so that the first read meets its end.
    for (std::size_t step = guess + 1; static_cast<std::int64_t>(have) <= most; step = 65536) {
        bytes.resize(have + step);
        const std::int64_t got = file.read(&bytes[have], step);
        if (got < 0) return fail(cannot_open, path, "reading failed: " + detail::system_message());
        have += static_cast<std::size_t>(got);
        if (static_cast<std::size_t>(got) < step) break;
    }
    if (static_cast<std::int64_t>(have) > most) return fail(too_large, path, "more than " + std::to_string(most) + " bytes");
    bytes.resize(have);
    return bytes;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<std::uint64_t> file_tag(const std::string& path, errc cannot_open) GRAFT_MEMORY_TRY {
    constexpr std::int64_t part = 4096;
    if (path.find('\0') != std::string::npos) return fail(cannot_open, path, "a path cannot hold a NUL byte");
#if defined(_WIN32)
    struct _stat64 about;
    if (::_stat64(path.c_str(), &about) != 0) return fail(cannot_open, path, detail::system_message());
    const bool regular = (about.st_mode & _S_IFMT) == _S_IFREG;
#else
    struct stat about;
    if (::stat(path.c_str(), &about) != 0) return fail(cannot_open, path, detail::system_message());
    const bool regular = S_ISREG(about.st_mode);
#endif
    if (!regular) return fail(cannot_open, path, "not a regular file");
    detail::descriptor file = detail::descriptor::open(path, detail::descriptor::use::read);
    if (!file.is_open()) return fail(cannot_open, path, detail::system_message());
    const std::int64_t size = about.st_size;
    std::uint64_t hash = static_cast<std::uint64_t>(size);
    char bytes[part];
    std::int64_t done = 0;  // parts of small files overlap, and are read once
    for (const std::int64_t wanted : {std::int64_t(0), (size - part) / 2, size - part}) {
        const std::int64_t at = wanted < done ? done : wanted, left = size - at < part ? size - at : part;
        if (left <= 0) break;
        const std::int64_t got = file.seek(at) ? file.read(bytes, static_cast<std::size_t>(left)) : -1;
        if (got < 0) return fail(cannot_open, path, "reading failed: " + detail::system_message());
        hash = xxh64(bytes, static_cast<std::size_t>(got), hash);
        done = at + left;
    }
    return hash;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
