// What the campaigns of failures share: an operation is tried with its n-th point failing, for n = 1, 2, 3 ... until it is through; a table at the end.
#pragma once

#include <doctest/doctest.h>
#include <graft/core/error.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Something to try: `run` is what is made to fail, `bytes` tells what came of it, as bytes that are the same whenever it went well.
struct operation {
    std::function<graft::status()> run;
    std::function<std::string()> bytes;
};

/// What is wrong with an operation that ran once more behind a failure, when nothing fails; "" where nothing is.
inline std::string fault_afterwards(const operation& o, const std::string& expected) {
    const graft::status again = o.run();
    if (!again.ok()) return std::string("afterwards: ") + again.error().what();
    return o.bytes() == expected ? "" : "afterwards its bytes are others";
}

/// What happened to one operation, in a row of the table.
struct campaign_row {
    std::string name, how;
    long points = 0;   ///< that were made to fail
    long refused = 0;  ///< of these ended in an error with a name
    long passed = 0;   ///< went well all the same, to the same bytes
    long faults = 0;
    std::string fault;  ///< the first of them
};

inline std::vector<campaign_row>& campaign_table() {
    static std::vector<campaign_row> rows;
    return rows;
}
inline void print_campaign_table() {
    std::printf("\n%-34s %-16s %8s %8s %8s %8s\n", "operation", "failing", "points", "refused", "passed", "faults");
    long points = 0, faults = 0;
    for (const campaign_row& r : campaign_table()) {
        std::printf("%-34s %-16s %8ld %8ld %8ld %8ld\n", r.name.c_str(), r.how.c_str(), r.points, r.refused, r.passed, r.faults);
        points += r.points, faults += r.faults;
    }
    std::printf("%-34s %-16s %8ld %8s %8s %8ld\n\n", "all", "", points, "", "", faults);
    std::fflush(stdout);
}

/// Where a campaign is, for whoever finds the program ended.
struct campaign_place {
    const char* operation = "";
    const char* how = "";
    long n = 0;
};
inline campaign_place& now_at() {
    static campaign_place place;
    return place;
}
inline void tell_where_it_ended(int signal) {
    std::fprintf(stderr, "signal %d: %s, %s, point %ld\n", signal, now_at().operation, now_at().how, now_at().n);
    std::_Exit(128 + signal);
}
/// Runs the tests of this program, and prints the table.
inline int run_campaigns(int count, char** arguments) {
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(signal, tell_where_it_ended);
    doctest::Context context(count, arguments);
    const int ended = context.run();
    print_campaign_table();
    return ended;
}

/// What one attempt ended with: nothing, or what is wrong with it. `expected`: the bytes of an attempt without failures.
template <class Failing, class Named>
std::string attempt(operation& o, const std::string& expected, Failing& failing, const Named& named, campaign_row& row) {
    graft::status ended;
    failing.begin();
    try {
        ended = o.run();
    } catch (const std::exception& e) {
        failing.end();
        return std::string("escaped: ") + e.what();
    }
    failing.end();
    if (!failing.reached()) return "";
    ++row.points;
    if (!ended.ok()) {
        ++row.refused;
        return named(ended.error()) ? "" : std::string("it is called ") + ended.error().what();
    }
    ++row.passed;
    return o.bytes() == expected ? "" : "it went well, with other bytes";
}
