// What the communicator over MPI is made of: the state of the process, the arrays of a reduction as one row.
#pragma once

#include "../core/communicator.hpp"
#include "../core/member_call.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// MPI's C++ classes are not wanted: they warn, and some builds of MPI have no library for them.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#define GRAFT_MPI_SKIPS_OPEN
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#define GRAFT_MPI_SKIPS_MPICH
#endif
#include <mpi.h>
#ifdef GRAFT_MPI_SKIPS_OPEN
#undef OMPI_SKIP_MPICXX
#undef GRAFT_MPI_SKIPS_OPEN
#endif
#ifdef GRAFT_MPI_SKIPS_MPICH
#undef MPICH_SKIP_MPICXX
#undef GRAFT_MPI_SKIPS_MPICH
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

class mpi_communicator;

// What a process has of MPI, all communicators together.
struct mpi_process {
    std::mutex joining;               // of those that join and those that go
    std::mutex one_call;              // around each call where MPI wants one at a time
    bool ours = false;                // initialised by us, so finalised by us
    bool one_at_a_time = false;       // no MPI_THREAD_MULTIPLE
    bool any_thread = false;          // calls may come from more than one thread: MPI_THREAD_SERIALIZED at least
    std::atomic<bool> failed{false};  // somewhere: nothing is tidied up any more
    std::atomic<bool> ending{false};  // all processes are done, and this one is in MPI_Finalize
    int owners = 0;
    std::vector<mpi_communicator*> gone;  // said goodbye, and wait for that of the others

    std::unique_lock<std::mutex> turn() { return one_at_a_time ? std::unique_lock<std::mutex>(one_call) : std::unique_lock<std::mutex>(); }
    // Never destroyed: communicators may live until the very end of the process.
    static mpi_process& here() {
        static mpi_process* const only = new mpi_process;
        return *only;
    }
};

inline std::string mpi_text(int code) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

// Waits that begin with the hope for an answer at once, and end by leaving the core to others: processes may share it.
struct mpi_patience {
    using clock = std::chrono::steady_clock;
    clock::time_point began = clock::now();
    double seconds() const { return std::chrono::duration<double>(clock::now() - began).count(); }
    // `beside`: of a thread beside one that computes, whose core it may share: it asks less often, and leaves the core meanwhile.
    static void pass(double waited, bool beside = false) {
        if (beside) return std::this_thread::sleep_for(std::chrono::duration<double>(std::min(std::max(waited / 8, 20e-6), 1e-3)));
        if (waited < 30e-6) return;
        if (waited < 1e-3) return std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::duration<double>(std::min(waited / 16, 1e-3)));
    }
};

// The arrays of a reduction as one row of elements.
class mpi_row {
public:
    void open(const reduction& arrays) {
        arrays_ = arrays;
        starts_.resize(static_cast<std::size_t>(arrays.arrays) + 1);
        for (int i = 0; i < arrays.arrays; ++i) starts_[std::size_t(i) + 1] = starts_[std::size_t(i)] + arrays.counts[i];
    }
    std::int64_t elements() const { return starts_.back(); }
    // Elements [at, at + n) where they lie in one array; null where they do not.
    const float* in(std::int64_t at, std::int64_t n) const {
        const int i = holder(at, n);
        return i < 0 ? nullptr : arrays_.in[i] + (at - starts_[std::size_t(i)]);
    }
    float* out(std::int64_t at, std::int64_t n) const {
        const int i = holder(at, n);
        return i < 0 ? nullptr : arrays_.out[i] + (at - starts_[std::size_t(i)]);
    }
    void copy_in(std::int64_t at, std::int64_t n, float* to) const {
        walk(at, n, [&](int i, std::int64_t first, std::int64_t count) { std::copy_n(arrays_.in[i] + first, count, to), to += count; });
    }
    void copy_out(const float* from, std::int64_t at, std::int64_t n) const {
        walk(at, n, [&](int i, std::int64_t first, std::int64_t count) { std::copy_n(from, count, arrays_.out[i] + first), from += count; });
    }
    void copy_through() const {
        for (int i = 0; i < arrays_.arrays; ++i)
            if (arrays_.out[i] != arrays_.in[i]) std::copy_n(arrays_.in[i], arrays_.counts[i], arrays_.out[i]);
    }

private:
    int find(std::int64_t at) const { return static_cast<int>(std::upper_bound(starts_.begin(), starts_.end(), at) - starts_.begin()) - 1; }
    int holder(std::int64_t at, std::int64_t n) const {
        const int i = find(at);
        return i < arrays_.arrays && at + n <= starts_[std::size_t(i) + 1] ? i : -1;
    }
    template <class F>
    void walk(std::int64_t at, std::int64_t n, const F& each) const {
        for (int i = find(at); n > 0; ++i) {
            const std::int64_t count = std::min(n, starts_[std::size_t(i) + 1] - at);
            if (count > 0) each(i, at - starts_[std::size_t(i)], count);
            at += count, n -= count;
        }
    }
    reduction arrays_;
    std::vector<std::int64_t> starts_ = std::vector<std::int64_t>(1);
};

}  // namespace detail

GRAFT_END_NAMESPACE
