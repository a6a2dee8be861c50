// What a test says that cannot be made on this machine.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

/// Tells why a test is left out. Where GRAFT_ALLOWED_SKIPS names files (with colons between them), as in CI, the test fails unless a line of them
/// begins the reason.
inline void say_skipped(const std::string& why) {
    MESSAGE("skipped: " << why);
    const char* lists = std::getenv("GRAFT_ALLOWED_SKIPS");
    if (!lists || !*lists) return;
    bool allowed = false;
    std::istringstream names(lists);
    for (std::string name; std::getline(names, name, ':');) {
        std::ifstream lines(name);
        for (std::string line; std::getline(lines, line);) allowed |= !line.empty() && line[0] != '#' && why.compare(0, line.size(), line) == 0;
    }
    CHECK_MESSAGE(allowed, "this skip is not on the lists " << lists);
}
