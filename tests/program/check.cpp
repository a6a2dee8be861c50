// The verb check from outside: exit codes, JSON, the error line.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <doctest/doctest.h>

namespace {

using program_test::done;

done check(const std::string& arguments) { return program_test::graft_program("check " + arguments); }

}  // namespace

TEST_CASE("check accepts a sound dataset with an empty list of problems") {
    made_folder folder;
    for (int i = 0; i < 2; ++i)
        for (const char* name : {"a", "b"}) folder.put(std::string(name) + "/" + std::to_string(i) + ".pgm", picture(2 * i + (name[0] == 'a')));
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

TEST_CASE("check tells of copies and of uneven classes") {
    made_folder folder;
    for (int i = 0; i < 3; ++i) folder.put("train/a/" + std::to_string(i) + ".pgm", picture(i));
    for (int i = 0; i < 30; ++i) folder.put("train/b/" + std::to_string(i) + ".pgm", picture(10 + i));
    folder.put("train/b/again.pgm", picture(11));
    folder.put("train/b/wrong.pgm", picture(2));
    folder.put("val/a/leak.pgm", picture(0));
    const done json = check(folder.path + " --json");
    CHECK(json.code == 0);
    CHECK(json.has(
        "\"copies\":{\"exact\":{\"class\":1,\"classes\":1,\"parts\":1},\"near\":{\"class\":0,\"classes\":0,\"parts\":0},\"near_searched\":true,\"listed\":["));
    CHECK(json.has("train/b/again.pgm\",\"of\":\"" + folder.path + "/train/b/1.pgm\",\"within\":\"class\",\"kind\":\"exact\""));
    CHECK(json.has("\"code\":\"data.label_conflict\""));
    CHECK(json.has("\"code\":\"data.leak\""));
    CHECK(json.has("\"imbalanced\":true"));
    CHECK(json.number("ratio") == doctest::Approx(32.0 / 3));
    const done text = check(folder.path);
    CHECK(text.has("copies: 1 exact within a class; 1 exact across classes; 1 exact across parts"));
    CHECK(text.has("imbalanced: \"b\" has 10.7 times the pictures of \"a\"; always naming it scores 91.4 %: train with --class-weights balanced"));
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
