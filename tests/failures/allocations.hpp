// The allocator of a program in which allocations fail in turn, and the campaign that lets them. For one file of a program: it replaces operator new and,
// where that can be done, malloc.
#pragma once

#include "../sanitized.hpp"
#include "campaign.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__GLIBC__)
#include <execinfo.h>
#include <malloc.h>
#endif

// With a C library whose allocator can be called by another name, malloc fails as well: what libjpeg and the C library itself allocate.
#if defined(__GLIBC__) && !defined(GRAFT_TEST_SANITIZED)
#define COUNT_MALLOC 1
extern "C" void* __libc_malloc(std::size_t);
extern "C" void* __libc_calloc(std::size_t, std::size_t);
extern "C" void* __libc_realloc(void*, std::size_t);
extern "C" void* __libc_memalign(std::size_t, std::size_t);
#else
#define COUNT_MALLOC 0
#endif

namespace {

std::atomic<bool> armed{false};
std::atomic<long> asked{0}, fails_at{0}, traced{0}, live{0};  // live: what operator new has given and operator delete not got back
std::atomic<bool> for_good{false}, of_libraries{true};        // of_libraries: whether malloc fails as well

// Whether this allocation is one to fail.
bool fails() noexcept {
    if (!armed.load(std::memory_order_relaxed)) return false;
    const long n = ++asked, at = fails_at.load(std::memory_order_relaxed);
#if defined(__GLIBC__)
    if (n == at && n == traced.load()) {
        armed = false;
        void* places[40];
        ::backtrace_symbols_fd(places, ::backtrace(places, 40), 2);
        armed = true;
    }
#endif
    return n == at || (n > at && for_good.load(std::memory_order_relaxed));
}

void* take(std::size_t bytes, std::size_t alignment) noexcept {
    if (fails()) return nullptr;
#if COUNT_MALLOC
    void* const memory = alignment ? __libc_memalign(alignment, bytes) : __libc_malloc(bytes ? bytes : 1);
#else
    void* memory = nullptr;
    if (!alignment)
        memory = std::malloc(bytes ? bytes : 1);
    else if (::posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes) != 0)
        memory = nullptr;
#endif
    if (memory) ++live;
    return memory;
}
void* take_or_throw(std::size_t bytes, std::size_t alignment) {
    void* const memory = take(bytes, alignment);
    if (!memory) throw std::bad_alloc();
    return memory;
}
void give_back(void* memory) noexcept {
    if (memory) --live;
    std::free(memory);
}

}  // namespace

void* operator new(std::size_t n) { return take_or_throw(n, 0); }
void* operator new[](std::size_t n) { return take_or_throw(n, 0); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return take(n, 0); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return take(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return take_or_throw(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return take(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept { return take(n, static_cast<std::size_t>(a)); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { give_back(p); }

#if COUNT_MALLOC
namespace {
void* failed() noexcept {
    errno = ENOMEM;
    return nullptr;
}
}  // namespace
extern "C" void* malloc(std::size_t n) { return of_libraries && fails() ? failed() : __libc_malloc(n); }
extern "C" void* calloc(std::size_t n, std::size_t size) { return of_libraries && fails() ? failed() : __libc_calloc(n, size); }
extern "C" void* realloc(void* p, std::size_t n) { return of_libraries && fails() ? failed() : __libc_realloc(p, n); }
#endif

namespace {

struct failing_allocation {
    long n = 0;
    bool good = false;

    void begin() {
        asked = 0;
        fails_at = n;
        for_good = good;
        armed = true;
    }
    void end() { armed = false; }
    bool reached() const { return asked >= n; }
};

// Every allocation of an operation fails in turn, or every `step`-th. `make` gives the operation anew each time, and all that it took is given back when
// it goes.
inline void campaign(const char* name, const std::function<operation()>& make, long step = 1) {
#ifdef GRAFT_TEST_SANITIZED
    step *= 7;  // every allocation takes ten times as long there; the other builds try all
#endif
    std::string expected;
    for (int warm = 0; warm < 2; ++warm) {
        operation o = make();
        const graft::status first = o.run();
        REQUIRE_MESSAGE(first.ok(), std::string(name) << ": " << std::string(first.ok() ? "" : first.error().what()));
        expected = o.bytes();
    }
    if (const char* wanted = std::getenv("GRAFT_FAILURES_TRACE")) {
        const std::string text = wanted;
        const std::size_t colon = text.rfind(':');
        if (text.substr(0, colon) != name) return;
        traced = std::atol(text.c_str() + colon + 1);
    }
    const auto named = [](const graft::error& e) { return e.code() == graft::errc::memory_oom && e.where()[0] && e.detail()[0]; };
    for (const bool good : {false, true}) {
        campaign_row row;
        row.name = name;
        row.how = good ? "for good" : "once";
        now_at() = {name, good ? "for good" : "once", 0};
        for (failing_allocation failing{1, good};; failing.n += step) {
            now_at().n = failing.n;
            const long before = live;
            std::string fault;
            {
                operation o = make();
                fault = attempt(o, expected, failing, named, row);
                if (fault.empty() && failing.reached()) fault = fault_afterwards(o, expected);
            }
            if (!fault.empty() || live != before) {
                if (fault.empty()) fault = std::to_string(live - before) + " allocations are not given back";
                if (row.faults++ == 0) row.fault = "point " + std::to_string(failing.n) + ": " + fault;
            }
            if (!failing.reached()) break;
        }
        campaign_table().push_back(row);
        CHECK_MESSAGE(row.faults == 0, std::string(name) << ", " << row.how << ", " << row.faults << " of " << row.points << ": " << row.fault);
    }
}

}  // namespace
