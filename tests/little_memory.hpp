// What tests of wanting memory share: a process that may have little more than it has. Linux; for a child of fork alone.
#pragma once

#include <cstdio>

#include <sys/resource.h>
#include <unistd.h>

/// Limits the address space to what is in use and `more` bytes; `before` becomes the limit that was. False where that cannot be done.
inline bool limit_memory(rlim_t more, rlimit& before) {
    long pages = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
        std::fclose(file);
    }
    if (pages == 0 || ::getrlimit(RLIMIT_AS, &before) != 0) return false;
    const rlimit little = {static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more, before.rlim_max};
    return ::setrlimit(RLIMIT_AS, &little) == 0;
}
