// The verb check from outside: exit codes, JSON, the error line.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "../data/made_dataset.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>

namespace {

struct done {
    int code = -1;
    std::string out, err;
};

std::string contents(const std::string& path) {
    std::string text;
    if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
        char block[4096];
        for (std::size_t n; (n = std::fread(block, 1, sizeof block, file)) > 0;) text.append(block, n);
        std::fclose(file);
    }
    return text;
}

done check(const std::string& arguments) {
    const made_folder folder;
    const std::string out = folder.path + "/out", err = folder.path + "/err";
    const int status = std::system((GRAFT_PROGRAM " check " + arguments + " >" + out + " 2>" + err + " </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
}

} // namespace

TEST_CASE("check accepts a sound dataset with an empty list of problems") {
    made_folder folder;
    for (int i = 0; i < 2; ++i)
        for (const char* name : {"a", "b"}) folder.put(std::string(name) + "/" + std::to_string(i) + ".pgm", picture(i));
    const done json = check(folder.path + " --json");
    CHECK(json.code == 0);
    CHECK(json.err.empty());
    CHECK(contains(json.out, "\"images\":4"));
    CHECK(contains(json.out, "\"classes\":[\"a\",\"b\"]"));
    CHECK(contains(json.out, "\"training\":[2,2]"));
    CHECK(contains(json.out, "\"problems\":[]"));
    const done text = check(folder.path);
    CHECK(text.code == 0);
    CHECK(contains(text.out, "nothing is wrong"));
}

TEST_CASE("check lists what is wrong and exits with 0 while something is left to train on") {
    made_folder folder;
    folder.put("a/1.pgm", picture(1));
    folder.put("b\xff\x1b/1.pgm", picture(2));
    folder.put("b\xff\x1b/cut.png", "x");
    const done json = check(folder.path + " --json");
    CHECK(json.code == 0);
    CHECK(contains(json.out, "b\\\\xff\\\\x1b/cut.png\",\"code\":\"image.unsupported\""));
    const done text = check(folder.path);
    CHECK(text.code == 0);
    CHECK(contains(text.out, "b\\xff\\x1b/cut.png"));
    CHECK(!contains(text.out, "\x1b"));
}

TEST_CASE("check exits with 1 and one line where nothing is left to train on") {
    made_folder folder;
    folder.put("x.bin", "junk");
    for (const char* more : {"", " --json"}) {
        const done bad = check(folder.path + "/x.bin" + more);
        CHECK(bad.code == 1);
        CHECK(contains(bad.err, "graft: error: data.format: " + folder.path + "/x.bin: "));
    }
    CHECK(contains(check(folder.path + "/x.bin --json").out, "\"code\":\"data.format\""));
    CHECK(check(folder.path).code == 1);
    CHECK(check(folder.path + "/nowhere").code == 1);
    CHECK(check("").code == 2);
}
#endif
