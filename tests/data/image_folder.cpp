#include "dataset_golden.hpp"
#include "made_dataset.hpp"
#include "../skipped.hpp"

#include <graft/data/dataset.hpp>

#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace graft;

namespace {
std::vector<std::string> classes_of(const std::string& path, dataset_options options = {}) {
    auto opened = open_dataset(path, options);
    return opened.ok() ? opened->classes() : std::vector<std::string>{std::string("error ") + opened.error().what()};
}
using names = std::vector<std::string>;
}  // namespace

TEST_CASE("classes and samples of an image folder come in torchvision's order") {
    made_folder folder;
    int level = 0;
    for (const char* name : golden_tree) folder.put(name, picture(level++));
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    const dataset& all = opened.value();
    CHECK(all.classes() == names(std::begin(golden_classes), std::end(golden_classes)));
    REQUIRE(all.size() == static_cast<std::int64_t>(std::size(golden_samples)));
    for (std::int64_t i = 0; i < all.size(); ++i) {
        CHECK(all.name(i) == folder.path + "/" + golden_samples[i].path);
        CHECK(all.label(i) == golden_samples[i].label);
    }
    CHECK(all.problems().size() == 1);  // "B" and "b"
}

TEST_CASE("train and val are parts, their class folders share the labels, and val may lack some") {
    made_folder folder;
    for (const char* name : {"cat", "dog", "eel"})
        for (int i = 0; i < 3; ++i) folder.put(std::string("train/") + name + "/" + std::to_string(i) + ".pgm", picture(i));
    folder.put("val/eel/9.pgm", picture(9));
    folder.put("val/cat/8.pgm", picture(8));
    folder.put("test/dog/7.pgm", picture(7));
    const auto splits = open_splits(folder.path);
    REQUIRE(splits.ok());
    CHECK(splits.value().validation_given);
    CHECK(splits.value().training.size() == 9);
    REQUIRE(splits.value().validation.size() == 2);
    CHECK(splits.value().validation.classes() == names{"cat", "dog", "eel"});
    CHECK(splits.value().validation.label(0) == 0);
    CHECK(splits.value().validation.label(1) == 2);
    CHECK(splits.value().validation.name(1) == folder.path + "/val/eel/9.pgm");
    CHECK(open_dataset(folder.path).value().size() == 12);
    dataset_options options;
    for (const auto& wanted : {std::make_pair("train", 9), std::make_pair("validation", 2), std::make_pair("val", 2), std::make_pair("test", 1)}) {
        options.split = wanted.first;
        CHECK(open_dataset(folder.path, options).value().size() == wanted.second);
    }
    options.split = "dev";
    CHECK(code_of(open_dataset(folder.path, options)) == "usage");
    // Exactly the folder named: its own classes, in its own order.
    CHECK(classes_of(folder.path + "/val") == names{"cat", "eel"});
    options.split = "test";
    CHECK(code_of(open_dataset(folder.path + "/val", options)) == "data.format");
}

TEST_CASE("a class may be called train") {
    made_folder folder;
    folder.put("train/1.pgm", picture(1));
    folder.put("car/1.pgm", picture(2));
    CHECK(classes_of(folder.path) == names{"car", "train"});
}

TEST_CASE("an empty class folder is refused by name, unless it is allowed") {
    made_folder folder;
    folder.put("a/1.pgm", picture(1));
    folder.put("c/1.pgm", picture(2));
    folder.make("b");
    for (int i = 0; i < 2; ++i) {
        const auto opened = open_splits(folder.path);
        REQUIRE(!opened.ok());
        CHECK(opened.error().code() == errc::data_empty_class);
        CHECK(opened.error().where() == folder.path + "/b");
        folder.put("b/.hidden.png", picture(3));  // a dot file is no picture
    }
    dataset_options options;
    options.allow_empty = true;
    CHECK(classes_of(folder.path, options) == names{"a", "b", "c"});
    CHECK(open_dataset(folder.path, options).value().class_counts() == std::vector<std::int64_t>{1, 0, 1});
}

TEST_CASE("folders without classes, or with one, are not learnt from") {
    made_folder none, one, loose, parts;
    CHECK(code_of(open_splits(none.path)) == "data.no_classes");
    one.put("only/1.pgm", picture(1));
    one.put("only/2.pgm", picture(2));
    CHECK(code_of(open_splits(one.path)) == "data.no_classes");
    CHECK(code_of(open_dataset(one.path)) == "ok");  // to be scored on
    loose.put("1.png", "x");
    const auto opened = open_dataset(loose.path);
    REQUIRE(!opened.ok());
    CHECK(opened.error().code() == errc::data_no_classes);
    CHECK(contains(opened.error().detail(), "1 pictures but no class folders"));
    parts.make("train");
    parts.put("val/a/1.pgm", picture(1));
    parts.put("val/b/1.pgm", picture(1));
    CHECK(code_of(open_splits(parts.path)) == "data.no_classes");
}

TEST_CASE("a validation class that training lacks is refused by name") {
    made_folder folder;
    for (const char* name : {"train/a/1.pgm", "train/b/1.pgm", "val/a/2.pgm", "val/B/2.pgm"}) folder.put(name, picture(1));
    const auto opened = open_splits(folder.path);
    REQUIRE(!opened.ok());
    CHECK(opened.error().code() == errc::data_class_mismatch);
    CHECK(opened.error().where() == folder.path + "/val/B");
    CHECK(contains(opened.error().detail(), "a, b"));
}

TEST_CASE("a validation part without pictures is told, and another one is drawn") {
    made_folder folder;
    for (int i = 0; i < 5; ++i)
        for (const char* name : {"a", "b"}) folder.put(std::string("train/") + name + "/" + std::to_string(i) + ".pgm", picture(i));
    folder.make("val/a");
    const auto splits = open_splits(folder.path);
    REQUIRE(splits.ok());
    CHECK(!splits.value().validation_given);
    CHECK(splits.value().validation.size() == 2);
    CHECK(count_problems(splits.value().training.problems(), errc::data_empty_class, "val/a") == 1);
}

TEST_CASE("what is no regular file is passed over and told: FIFO, device, broken link") {
    made_folder folder;
    folder.put("a/1.pgm", picture(1));
    folder.put("b/1.pgm", picture(2));
    REQUIRE(::mkfifo((folder.path + "/a/pipe.png").c_str(), 0600) == 0);
    REQUIRE(::symlink("/dev/zero", (folder.path + "/a/zero.png").c_str()) == 0);
    REQUIRE(::symlink("gone.png", (folder.path + "/b/link.png").c_str()) == 0);
    REQUIRE(::mkfifo((folder.path + "/pipe").c_str(), 0600) == 0);
    REQUIRE(::symlink((folder.path + "/a/1.pgm").c_str(), (folder.path + "/b/good.pgm").c_str()) == 0);
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    CHECK(opened.value().size() == 3);
    CHECK(opened.value().problems().size() == 4);
    for (const char* end : {"/a/pipe.png", "/a/zero.png", "/b/link.png", "/pipe"}) CHECK(count_problems(opened.value().problems(), errc::data_open, end) == 1);
}

TEST_CASE("a socket in a class folder is passed over and told") {
    made_folder folder;
    folder.put("a/1.pgm", picture(1));
    folder.put("b/1.pgm", picture(2));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::snprintf(name.sun_path, sizeof name.sun_path, "%s/a/0.png", folder.path.c_str());
    const int made = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const bool there = made >= 0 && ::bind(made, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
    if (made >= 0) ::close(made);
    if (!there) {
        say_skipped("no socket can be made here");
        return;
    }
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    CHECK(opened.value().size() == 2);
    REQUIRE(opened.value().problems().size() == 1);
    CHECK(count_problems(opened.value().problems(), errc::data_open, "/a/0.png") == 1);
    CHECK(contains(opened.value().problems()[0].detail, "a socket"));
}

TEST_CASE("loops of links end, and a folder is read once however often it is linked") {
    made_folder folder;
    folder.put("a/1.pgm", picture(1));
    folder.put("b/1.pgm", picture(2));
    REQUIRE(::symlink("..", (folder.path + "/a/up").c_str()) == 0);
    REQUIRE(::symlink(".", (folder.path + "/b/self").c_str()) == 0);
    // Ten folders with ten links each to the next: 10^10 ways down.
    for (int i = 0; i < 10; ++i) {
        folder.make(".deep/" + std::to_string(i));
        folder.put(".deep/" + std::to_string(i) + "/x.pgm", picture(i));
        const std::string next = "../" + std::to_string((i + 1) % 10), link = folder.path + "/.deep/" + std::to_string(i) + "/l";
        for (int k = 0; k < 10; ++k) REQUIRE(::symlink(next.c_str(), (link + std::to_string(k)).c_str()) == 0);
    }
    REQUIRE(::symlink("../.deep", (folder.path + "/a/deep").c_str()) == 0);
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    CHECK(opened.value().class_counts() == std::vector<std::int64_t>{11, 1});
    CHECK(count_problems(opened.value().problems(), errc::data_format, "/a/up") == 1);
    CHECK(count_problems(opened.value().problems(), errc::data_format, "/b/self") == 1);
    CHECK(opened.value().problems().size() == 102);  // a hundred links to folders that were reached by then
}

TEST_CASE("a link to another class or part does not count its pictures again") {
    made_folder folder;
    folder.put("train/a/1.pgm", picture(1));
    folder.put("train/b/1.pgm", picture(2));
    REQUIRE(::symlink("train", (folder.path + "/val").c_str()) == 0);
    const auto splits = open_splits(folder.path);
    REQUIRE(splits.ok());
    CHECK(!splits.value().validation_given);
    CHECK(splits.value().training.size() == 2);
    CHECK(count_problems(splits.value().training.problems(), errc::data_format, "/val/a") == 1);
    REQUIRE(::symlink("a", (folder.path + "/train/c").c_str()) == 0);
    CHECK(code_of(open_splits(folder.path)) == "data.empty_class");
}

TEST_CASE("folders nested past the limit are left out and told") {
    made_folder folder;
    folder.put("a/1.pgm", picture(1));
    folder.put("b/1.pgm", picture(2));
    std::string deep = "a";
    for (int i = 0; i < 40; ++i) deep += "/d";
    folder.put(deep + "/2.pgm", picture(3));
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    CHECK(opened.value().size() == 2);
    CHECK(count_problems(opened.value().problems(), errc::data_format) == 1);
}

TEST_CASE("names that are not UTF-8, or 255 bytes long, keep their bytes; dot files are not seen") {
    made_folder folder;
    const std::string odd = "\xff\xfe caf\xe9\n", long_class(255, 'x'), long_file = std::string(251, 'y') + ".pgm";
    folder.put(odd + "/\x80.pgm", picture(1));
    folder.put(long_class + "/" + long_file, picture(2));
    folder.put(".git/config", "x");
    folder.put(long_class + "/.DS_Store", "x");
    folder.put(long_class + "/._" + "1.pgm", "x");
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    const dataset& all = opened.value();
    CHECK(all.classes() == names{long_class, odd});
    REQUIRE(all.size() == 2);
    CHECK(all.name(0) == folder.path + "/" + long_class + "/" + long_file);
    CHECK(all.name(1) == folder.path + "/" + odd + "/\x80.pgm");
    CHECK(all.read(0).ok());
    CHECK(all.read(1).ok());
    CHECK(all.problems().empty());
}

TEST_CASE("classes that differ in case only are told apart, and told") {
    made_folder folder;
    folder.put("Cat/1.pgm", picture(1));
    folder.put("cat/1.pgm", picture(2));
    folder.put("dog/1.pgm", picture(2));
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    CHECK(opened.value().classes() == names{"Cat", "cat", "dog"});
    REQUIRE(opened.value().problems().size() == 1);
    CHECK(opened.value().problems()[0].path == folder.path + "/cat");
    CHECK(contains(opened.value().problems()[0].detail, "\"Cat\""));
}

TEST_CASE("contents decide what a picture is where the name does not") {
    made_folder folder;
    folder.put("a/no_suffix", picture(1));
    folder.put("a/wrong.txt", picture(2));
    folder.put("a/notes.txt", "to whom it may concern");
    folder.put("a/list.csv", "path,label\n");
    folder.put("b/mislabelled.jpg", picture(3));
    folder.put("loose.png", picture(4));
    const auto opened = open_dataset(folder.path);
    REQUIRE(opened.ok());
    CHECK(opened.value().class_counts() == std::vector<std::int64_t>{2, 1});
    CHECK(opened.value().read(2).ok());
    CHECK(count_problems(opened.value().problems(), errc::image_unsupported, "/a/notes.txt") == 1);
    CHECK(count_problems(opened.value().problems(), errc::image_unsupported, "/a/list.csv") == 1);
    CHECK(count_problems(opened.value().problems(), errc::data_format) == 1);
    CHECK(opened.value().problems().size() == 3);
}
