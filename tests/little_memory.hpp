// What tests of wanting memory share: a process that may have little more than it has. Linux; for a child of fork alone.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include <sys/resource.h>
#include <unistd.h>

/// Limits the address space to what is in use and `more` bytes; `before` becomes the limit that was. What tests before have given back to the heap
/// is taken and kept, or it would be room beyond the limit. False where that cannot be done.
inline bool limit_memory(rlim_t more, rlimit& before) {
    long pages = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
        std::fclose(file);
    }
    if (pages == 0 || ::getrlimit(RLIMIT_AS, &before) != 0) return false;
    rlimit little = {static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)), before.rlim_max};
    if (::setrlimit(RLIMIT_AS, &little) != 0) return false;
    constexpr std::size_t taken_at_once = 1 << 20;
    static void* kept = nullptr;
    while (void* const block = std::malloc(taken_at_once)) {
        *static_cast<void**>(block) = kept;
        kept = block;
    }
    little.rlim_cur += more;
    return ::setrlimit(RLIMIT_AS, &little) == 0;
}
