// Pictures below a folder: what counts as one, in which order, and what cannot lead astray.
#include "made_dataset.hpp"

#include <graft/data/picture_files.hpp>

#include <doctest/doctest.h>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace {

// Paths without the folder.
std::vector<std::string> below(const made_folder& folder, const graft::picture_files& found) {
    std::vector<std::string> names;
    for (const std::string& path : found.paths) {
        REQUIRE(path.compare(0, folder.path.size() + 1, folder.path + "/") == 0);
        names.push_back(path.substr(folder.path.size() + 1));
    }
    return names;
}

}  // namespace

TEST_CASE("pictures below a folder are found by name or by content, and sorted by bytes") {
    const made_folder folder;
    for (const char* name : {"b.pgm", "a/z.PNG", "a/deeper/\xff.jpg", "B.heic", "a.pgm", "a/without_suffix", "ä.webp"}) folder.put(name, picture(1));
    folder.put("notes.txt", "hello");
    folder.put(".hidden.pgm", picture(1));
    folder.put(".folder/x.pgm", picture(1));
    const graft::picture_files found = graft::find_pictures(folder.path).value();
    CHECK(below(folder, found) == std::vector<std::string>{"B.heic", "a.pgm", "a/deeper/\xff.jpg", "a/without_suffix", "a/z.PNG", "b.pgm", "ä.webp"});
    REQUIRE(found.problems.size() == 1);
    CHECK(count_problems(found.problems, graft::errc::image_unsupported, "/notes.txt") == 1);
}

TEST_CASE("loops of links end, pipes and broken links are passed over, and a folder can be left out") {
    const made_folder folder;
    folder.put("in/a.pgm", picture(1));
    folder.put("in/sorted/b.pgm", picture(1));
    REQUIRE(::symlink(".", (folder.path + "/in/loop").c_str()) == 0);
    REQUIRE(::symlink("nowhere", (folder.path + "/in/broken.png").c_str()) == 0);
    REQUIRE(::symlink("sorted", (folder.path + "/in/again").c_str()) == 0);
    REQUIRE(::mkfifo((folder.path + "/in/pipe.png").c_str(), 0600) == 0);
    const graft::picture_files all = graft::find_pictures(folder.path + "/in").value();
    CHECK(below(folder, all) == std::vector<std::string>{"in/a.pgm", "in/again/b.pgm"});
    CHECK(count_problems(all.problems, graft::errc::data_open, "/broken.png") == 1);
    CHECK(count_problems(all.problems, graft::errc::data_open, "/pipe.png") == 1);
    CHECK(count_problems(all.problems, graft::errc::data_format, "/loop") == 1);
    CHECK(count_problems(all.problems, graft::errc::data_format, "/sorted") == 1);

    const graft::picture_files some = graft::find_pictures(folder.path + "/in", folder.path + "/in/sorted").value();
    CHECK(below(folder, some) == std::vector<std::string>{"in/a.pgm"});
    CHECK(count_problems(some.problems, graft::errc::data_format, "/sorted") == 0);
}

TEST_CASE("what is no folder has no pictures") {
    const made_folder folder;
    CHECK(code_of(graft::find_pictures(folder.path + "/nowhere")) == "image.open");
    CHECK(code_of(graft::find_pictures(folder.put("a.pgm", picture(1)))) == "image.open");
    CHECK(graft::find_pictures(folder.path + "/", folder.path + "/nowhere").value().paths.size() == 1);
    CHECK(graft::find_pictures(folder.make("empty")).value().paths.empty());
}
