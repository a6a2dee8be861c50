// The calls themselves: each asks whether it is to fail, and else hands on to the C library. Types are spelled out, so that no header's declarations
// (which differ in what they promise the compiler) stand in the way.
#include "shim.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>

#include <dlfcn.h>

namespace {

std::atomic<bool> armed{false}, for_good{false}, maps{true};
std::atomic<long> count{0}, fails_at{0};
std::atomic<int> kind{0}, no_openat2{0};
std::atomic<const char*> last_name{""};

// What a call does, as far as it matters here.
enum : unsigned { opens = 1, writes = 2, interruptible = 4, piecewise = 8 };

// Whether this call is to fail (or to be short); errno is set.
bool chosen(const char* name, unsigned what) noexcept {
    if (!armed.load(std::memory_order_relaxed)) return false;
    const auto wanted = static_cast<shim::fault>(kind.load());
    int error = EIO;
    switch (wanted) {
    case shim::fault::io: break;
    case shim::fault::no_space:
        if (!(what & writes)) return false;
        error = ENOSPC;
        break;
    case shim::fault::no_files:
        if (!(what & opens)) return false;
        error = EMFILE;
        break;
    case shim::fault::interrupted:
        if (!(what & interruptible)) return false;
        error = EINTR;
        break;
    case shim::fault::pieces:
        if (!(what & piecewise)) return false;
        break;
    }
    const long n = ++count, at = fails_at;
    // A signal that interrupts every attempt would be an endless loop: every other one gets through.
    const bool again = for_good && (wanted != shim::fault::interrupted || (n - at) % 2 == 0);
    if (n != at && !(n > at && again)) return false;
    last_name = name;
    errno = error;
    return true;
}
bool short_ones() noexcept { return static_cast<shim::fault>(kind.load()) == shim::fault::pieces; }

template <class F>
F real(const char* name) noexcept {
    return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace shim {

void arm(fault wanted, long n, bool good) noexcept {
    kind = static_cast<int>(wanted);
    count = 0;
    fails_at = n;
    for_good = good;
    last_name = "";
    armed = true;
}
void disarm() noexcept { armed = false; }
void map_files(bool can) noexcept { maps = can; }
void refuse_openat2(int error) noexcept { no_openat2 = error; }
long calls() noexcept { return count; }
const char* last() noexcept { return last_name; }

}  // namespace shim

// A call that fails with -1.
#define SHIM(type, name, what, parameters, arguments) \
    extern "C" type name parameters { \
        static const auto next = real<type(*) parameters>(#name); \
        return chosen(#name, what) ? static_cast<type>(-1) : next arguments; \
    }
// One that moves bytes, and may move half of them.
#define SHIM_BYTES(name, what, parameters, whole, half) \
    extern "C" long name parameters { \
        static const auto next = real<long(*) parameters>(#name); \
        if ((!short_ones() || bytes > 1) && chosen(#name, what)) { \
            if (!short_ones()) return -1; \
            return next half; \
        } \
        return next whole; \
    }

SHIM_BYTES(read, interruptible | piecewise, (int file, void* to, std::size_t bytes), (file, to, bytes), (file, to, bytes / 2))
SHIM_BYTES(write, writes | interruptible | piecewise, (int file, const void* from, std::size_t bytes), (file, from, bytes), (file, from, bytes / 2))
SHIM_BYTES(pread, interruptible | piecewise, (int file, void* to, std::size_t bytes, long at), (file, to, bytes, at), (file, to, bytes / 2, at))
SHIM_BYTES(pwrite, writes | interruptible | piecewise, (int file, const void* from, std::size_t bytes, long at), (file, from, bytes, at),
           (file, from, bytes / 2, at))

SHIM(int, fsync, writes | interruptible, (int file), (file))
SHIM(int, ftruncate, writes | interruptible, (int file, long size), (file, size))
SHIM(int, flock, interruptible, (int file, int how), (file, how))
SHIM(int, rename, writes, (const char* from, const char* to), (from, to))
SHIM(int, link, writes, (const char* from, const char* to), (from, to))
SHIM(int, unlink, 0, (const char* path), (path))
SHIM(int, unlinkat, 0, (int folder, const char* path, int flags), (folder, path, flags))
SHIM(int, mkdir, writes, (const char* path, unsigned mode), (path, mode))
SHIM(int, stat, 0, (const char* path, void* about), (path, about))
SHIM(int, lstat, 0, (const char* path, void* about), (path, about))
SHIM(int, fstat, 0, (int file, void* about), (file, about))
SHIM(int, fstatat, 0, (int folder, const char* path, void* about, int flags), (folder, path, about, flags))
SHIM(long, lseek, 0, (int file, long at, int from), (file, at, from))

// The file is closed, whatever close says.
extern "C" int close(int file) {
    static const auto next = real<int (*)(int)>("close");
    const bool fails = chosen("close", writes | interruptible);
    const int error = errno, done = next(file);
    if (!fails) return done;
    errno = error;
    return -1;
}
extern "C" int open(const char* path, int flags, ...) {
    static const auto next = real<int (*)(const char*, int, ...)>("open");
    va_list rest;
    va_start(rest, flags);
    const unsigned mode = va_arg(rest, unsigned);
    va_end(rest);
    constexpr int creates = 0100;  // O_CREAT
    return chosen("open", opens | interruptible | (flags & creates ? unsigned(writes) : 0u)) ? -1 : next(path, flags, mode);
}
extern "C" int openat(int folder, const char* path, int flags, ...) {
    static const auto next = real<int (*)(int, const char*, int, ...)>("openat");
    va_list rest;
    va_start(rest, flags);
    const unsigned mode = va_arg(rest, unsigned);
    va_end(rest);
    return chosen("openat", opens | interruptible) ? -1 : next(folder, path, flags, mode);
}
extern "C" int fcntl(int file, int command, ...) {
    static const auto next = real<int (*)(int, int, ...)>("fcntl");
    va_list rest;
    va_start(rest, command);
    void* const argument = va_arg(rest, void*);
    va_end(rest);
    return chosen("fcntl", opens) ? -1 : next(file, command, argument);
}
// openat2 has no function of its own.
extern "C" long syscall(long number, ...) {
    static const auto next = real<long (*)(long, ...)>("syscall");
    va_list rest;
    va_start(rest, number);
    long a[6];
    for (long& one : a) one = va_arg(rest, long);
    va_end(rest);
    constexpr long openat2 = 437;
    if (number == openat2 && no_openat2) {
        errno = no_openat2;
        return -1;
    }
    if (number == openat2 && chosen("openat2", opens | interruptible)) return -1;
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
extern "C" void* mmap(void* at, std::size_t size, int protection, int flags, int file, long offset) {
    static const auto next = real<void* (*)(void*, std::size_t, int, int, int, long)>("mmap");
    if (file >= 0 && (!maps || chosen("mmap", 0))) return reinterpret_cast<void*>(-1);
    return next(at, size, protection, flags, file, offset);
}
extern "C" void* opendir(const char* path) {
    static const auto next = real<void* (*)(const char*)>("opendir");
    return chosen("opendir", opens) ? nullptr : next(path);
}
extern "C" void* readdir(void* folder) {
    static const auto next = real<void* (*)(void*)>("readdir");
    return chosen("readdir", 0) ? nullptr : next(folder);
}
