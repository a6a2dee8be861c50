// When a pool leaves a member out: loops that took longer than with one fewer on cores of their own, for a time, and no other loops.
#include <graft/core/contention.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

namespace {

using graft::detail::contention_monitor;
using graft::detail::core_use;

constexpr double ms = 0.001;

struct pool {
    contention_monitor monitor;
    double now = 0;

    // Loops of `wall` each for a window, all members together with `seconds` on cores, the busiest with `most`.
    void loops(int members, double wall, double seconds, double most, long waits = 0) {
        monitor.waited(2 * contention_monitor::long_wait);
        REQUIRE(monitor.measures());
        while (monitor.measures()) monitor.add(members, wall, {seconds, waits}, most, now += wall);
    }
    int members(int wanted) { return monitor.members(wanted, now); }
};

}  // namespace

TEST_CASE("Nothing is measured before a loop was long in ending") {
    contention_monitor monitor;
    CHECK_FALSE(monitor.measures());
    monitor.waited(contention_monitor::long_wait);
    CHECK_FALSE(monitor.measures());
    monitor.waited(1.01 * contention_monitor::long_wait);
    CHECK(monitor.measures());
}

TEST_CASE("Members with cores of their own all stay, however unequal their tasks are") {
    pool p;
    p.loops(2, ms, 2 * ms, ms);
    CHECK(p.members(2) == 2);
    p.loops(2, ms, ms + ms / 10, ms);  // one has all but a tenth
    CHECK(p.members(2) == 2);
    p.loops(8, ms, ms, ms);  // one has all
    CHECK(p.members(8) == 8);
}

TEST_CASE("One member is left out while there is a core too few, and comes back") {
    pool p;
    p.loops(2, 4 * ms, 3 * ms, 2 * ms);
    CHECK(p.monitor.limits());
    CHECK(p.members(2) == 1);
    p.now += contention_monitor::first_rest - ms;
    CHECK(p.members(2) == 1);
    p.now += 2 * ms;
    CHECK(p.members(2) == 2);
    CHECK(p.monitor.measures());  // whether there is a core again
    SUBCASE("there is none: left out for twice as long") {
        p.loops(2, 4 * ms, 3 * ms, 2 * ms);
        p.now += contention_monitor::first_rest + ms;
        CHECK(p.members(2) == 1);
        p.now += contention_monitor::first_rest;
        CHECK(p.members(2) == 2);
    }
    SUBCASE("there is one: the next time is short again") {
        p.loops(2, 4 * ms, 7 * ms, 4 * ms);
        CHECK(p.members(2) == 2);
        p.loops(2, 4 * ms, 3 * ms, 2 * ms);
        p.now += contention_monitor::first_rest + ms;
        CHECK(p.members(2) == 2);
    }
}

TEST_CASE("Never out for longer than the longest rest") {
    pool p;
    double out = 0;
    for (int k = 0; k < 20; ++k) {
        p.loops(2, 4 * ms, 3 * ms, 2 * ms);
        for (out = 0; p.members(2) == 1; out += ms) p.now += ms;
    }
    CHECK(out >= contention_monitor::longest_rest);
    CHECK(out < contention_monitor::longest_rest + 3 * ms);
}

TEST_CASE("Of many members one at a time is left out") {
    pool p;
    p.loops(16, 4 * ms, 16 * 3 * ms, 3 * ms);
    CHECK(p.members(16) == 15);
    CHECK(p.members(4) == 4);
    p.loops(15, 4 * ms, 15 * 3 * ms, 3 * ms);
    CHECK(p.members(16) == 14);
}

TEST_CASE("Tasks that wait for a disk or for each other are no sign of a core too few") {
    pool p;
    p.loops(2, 4 * ms, ms, ms, 1);
    CHECK(p.members(2) == 2);
}

#if defined(__linux__)
TEST_CASE("Time on a core is that of the thread, and sleep is a wait") {
    const core_use before = core_use::of_thread();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const core_use slept = core_use::of_thread().since(before);
    CHECK(slept.seconds < 20 * ms);
    CHECK(slept.waits >= 1);
    const core_use start = core_use::of_thread();
    while (core_use::of_thread().since(start).seconds < 5 * ms) {
    }
    CHECK(core_use::of_thread().since(before).seconds >= 5 * ms);
}
#endif
