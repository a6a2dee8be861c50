// How far a build or the tests are, as scripts/setup.sh tells it: every second on a terminal, now and then elsewhere.
#include "../data/made_dataset.hpp"
#include "../file_contents.hpp"
#include "../skipped.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#if !defined(_WIN32)
#include <sys/wait.h>

namespace {

struct told {
    int code = -1;
    std::string out;
};

// Runs lines of shell behind setup.sh; on a terminal of 80 columns, where the system can pose one.
told told_by(const std::string& lines, bool terminal = false) {
    const made_folder folder;
    const std::string script = folder.put("script", "set -eu\ncd " GRAFT_SOURCE_DIR "\n. scripts/setup.sh\n" + lines), out = folder.path + "/out";
    const std::string run = terminal ? "script -qec 'stty cols 80; TERM=xterm LC_ALL=C sh " + script + "' " + folder.path + "/typescript" : "sh " + script;
    const int status = std::system((run + " >" + out + " 2>&1 </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_contents(out)};
}
bool has(const told& t, const std::string& text) { return t.out.find(text) != std::string::npos; }

// A build of ninja's words that takes two seconds.
const std::string build = "builds() {\n"
                          "  echo '[0/2] Re-checking globbed directories...'\n"
                          "  echo '[1/4] Building CXX object tests/CMakeFiles/graft_tests.dir/gpu/first.cpp.o'\n"
                          "  sleep 2.2\n"
                          "  echo '[4/4] Linking CXX executable graft'\n"
                          "  echo 'file.cpp:1: error: no such thing'\n"
                          "  return $1\n"
                          "}\n";
const std::string tests = "tests() {\n"
                          "  echo 'Test project /somewhere'\n"
                          "  echo '      Start  1: core'\n"
                          "  echo '      Start  2: gpu_conv'\n"
                          "  echo ' 1/2 Test  #1: core .............   Passed    0.05 sec'\n"
                          "  sleep 2.2\n"
                          "  echo ' 2/2 Test  #2: gpu_conv .........***Failed    2.00 sec'\n"
                          "  echo 'conv.cpp:7: ERROR'\n"
                          "  echo '50% tests passed, 1 tests failed out of 2'\n"
                          "  return 8\n"
                          "}\n";

}  // namespace

TEST_CASE("a build that succeeds says how long it took, and nothing of what the compiler said") {
    const told plain = told_by(build + "follow Building builds 0\n");
    CAPTURE(plain.out);
    CHECK(plain.code == 0);
    CHECK(plain.out.rfind("Building: done in 0:0", 0) == 0);
    CHECK(!has(plain, "error"));
    CHECK(!has(plain, "\033"));
}

TEST_CASE("a build that fails ends as its command does, and shows what that said") {
    const told plain = told_by(build + "follow Building builds 3 || exit $?\n");
    CAPTURE(plain.out);
    CHECK(plain.code == 3);
    CHECK(has(plain, "file.cpp:1: error: no such thing\n"));
    CHECK(!has(plain, "[1/4]"));
    CHECK(told_by(build + "follow Building builds 3\n").code == 3);
}

TEST_CASE("on a terminal one line tells how many of how many, how long, and what was last") {
    if (std::system("script -qec true /dev/null >/dev/null 2>&1 </dev/null") != 0) {
        say_skipped("no pseudo-terminal can be made here");
        return;
    }
    const told building = told_by(build + "follow Building builds 0\n", true);
    CAPTURE(building.out);
    CHECK(building.code == 0);
    CHECK(has(building, "\r\033[KBuilding \033[32m######\033[0m\033[2m------------------\033[0m 1 of 4, 0:0"));
    CHECK(has(building, "tests/gpu/first"));
    CHECK(has(building, "\r\033[KBuilding: done in 0:0"));

    const told testing = told_by(tests + "follow Testing tests || exit $?\n", true);
    CAPTURE(testing.out);
    CHECK(testing.code == 8);
    CHECK(has(testing, " 1 of 2, 0:0"));
    CHECK(has(testing, "  gpu_conv"));
    CHECK(!has(testing, "core ...."));  // those that pass are counted, those that fail are shown
    CHECK(has(testing, "2/2 Test  #2: gpu_conv .........***Failed"));
    CHECK(has(testing, "conv.cpp:7: ERROR"));
    CHECK(has(testing, "50% tests passed"));
}
#endif
