// Whether the members of a pool have a core each. Beside a busy process one of them is taken off its core for milliseconds with a task half done, and
// all others wait for it at the end of the loop: one member fewer is then faster.
#pragma once

#include "clock.hpp"

#include <algorithm>

#if defined(__linux__)
#include <sys/resource.h>
#include <time.h>
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What the calling thread has had so far: time on a core, and how often it gave that up to wait for something, such as a disk. Where the system does
// not say, it counts as having a core all the time.
struct core_use {
    double seconds = 0;
    long waits = 0;

    static core_use of_thread() noexcept {
#if defined(__linux__)
        timespec t;
        rusage u;
        if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 && getrusage(RUSAGE_THREAD, &u) == 0)
            return {static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec), u.ru_nvcsw};
#endif
        return {seconds_now(), 0};
    }
    core_use since(const core_use& before) const noexcept { return {seconds - before.seconds, waits - before.waits}; }
};

// Costs nothing until the end of a loop was long in coming. Then loops are measured for a while: where they took longer than one member fewer would
// have taken with cores of their own, that one is left out for a time, longer each time that nothing has changed. Loops whose tasks wait for something
// else than a core say nothing.
class contention_monitor {
public:
    // Seconds.
    static constexpr double long_wait = 0.0002, window = 0.06, first_rest = 0.3, longest_rest = 2.4;

    bool measures() const noexcept { return left_ > 0; }
    bool limits() const noexcept { return limit_ > 0; }

    void waited(double seconds) noexcept {
        if (seconds > long_wait && !measures()) start_measuring();
    }
    // How many of `wanted` members a loop that begins now shall have.
    GRAFT_COLD int members(int wanted, double now) noexcept {
        if (limits() && now > until_) {
            limit_ = 0;
            start_measuring();
        }
        return limits() ? std::min(limit_, wanted) : wanted;
    }
    // A loop of two members or more that ended now after `wall`: what tasks took of cores, of all members together, and the time of the one with most.
    void add(int members, double wall, core_use all, double most, double now) noexcept {
        members_ = std::max(members_, members);
        left_ -= wall;
        wall_ += wall;
        with_one_fewer_ += all.waits > 0 ? wall : std::max(most, all.seconds / (members - 1));
        if (measures()) return;
        if (wall_ > 1.03 * with_one_fewer_) {
            limit_ = members_ - 1;
            until_ = now + rest_;
            rest_ = std::min(2 * rest_, longest_rest);
        } else if (!limits()) {
            rest_ = first_rest;
        }
    }

private:
    void start_measuring() noexcept {
        left_ = window;
        wall_ = with_one_fewer_ = 0;
        members_ = 0;
    }

    int limit_ = 0, members_ = 0;  // of a loop, 0: no limit; of the loops measured
    double until_ = 0, rest_ = first_rest, left_ = 0, wall_ = 0, with_one_fewer_ = 0;
};

}  // namespace detail
GRAFT_END_NAMESPACE
