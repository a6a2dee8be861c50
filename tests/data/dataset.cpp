#include "made_dataset.hpp"

#include <graft/data/dataset.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

using namespace graft;

namespace {
// Two classes, a and b, of three pictures each.
struct small_folder : made_folder {
    small_folder() {
        for (int i = 0; i < 3; ++i) put("a/" + std::to_string(i) + ".pgm", picture(i)), put("b/" + std::to_string(i) + ".pgm", picture(10 + i));
    }
};
}  // namespace

TEST_CASE("samples are fetched as they lie and read as RGB") {
    small_folder folder;
    const dataset all = open_dataset(folder.path + "/").value();
    REQUIRE(all.size() == 6);
    const sample_bytes raw = all.fetch(4).value();
    CHECK(std::string(reinterpret_cast<const char*>(raw.data), raw.size) == picture(11));
    CHECK(raw.height == 0);
    const image seen = all.read(4).value();
    CHECK(seen.channels == 3);
    CHECK(seen.height == 1);
    for (int c = 0; c < 3; ++c) CHECK(seen.data()[c] == 11);
    CHECK(all.name(4) == folder.path + "/b/1.pgm");
    CHECK(all.label(4) == 1);
    CHECK(all.class_counts() == std::vector<std::int64_t>{3, 3});
}

TEST_CASE("a subset keeps the classes, the order given, and what it needs alive") {
    dataset some;
    {
        small_folder folder;
        some = open_dataset(folder.path).value().subset({5, 0, 5}).subset({0, 1});
        CHECK(some.read(0).value().data()[0] == 12);
    }
    CHECK(some.size() == 2);
    CHECK(some.label(0) == 1);
    CHECK(some.label(1) == 0);
    CHECK(some.classes() == std::vector<std::string>{"a", "b"});
    // The folder has gone meanwhile.
    CHECK(code_of(some.read(1)) == "data.open");
    CHECK(contains(some.read(1).error().where(), "/a/0.pgm"));
}

TEST_CASE("a dataset that was never opened is empty") {
    const dataset none;
    CHECK(none.size() == 0);
    CHECK(none.classes().empty());
    CHECK(none.problems().empty());
    CHECK(none.class_counts().empty());
}

TEST_CASE("files that vanish, shrink, grow or become a pipe after opening are errors of that sample alone") {
    small_folder folder;
    const dataset all = open_dataset(folder.path).value();
    const auto path = [&folder](const char* name) { return folder.path + name; };
    ::unlink(path("/a/0.pgm").c_str());
    folder.put("a/1.pgm", picture(1).substr(0, 8));
    folder.put("a/2.pgm", "");
    folder.put("b/0.pgm", picture(10) + std::string(100, 'x'));
    ::unlink(path("/b/1.pgm").c_str());
    REQUIRE(::mkfifo(path("/b/1.pgm").c_str(), 0600) == 0);
    CHECK(code_of(all.read(0)) == "data.open");
    CHECK(code_of(all.read(1)) == "image.truncated");
    CHECK(code_of(all.read(2)) == "image.truncated");
    CHECK(code_of(all.read(3)) == "ok");
    CHECK(code_of(all.read(4)) == "data.open");
    CHECK(all.read(5).value().data()[0] == 12);
    CHECK(all.size() == 6);
}

TEST_CASE("a file that may not be read, or that is a folder or a loop by now, is an error of that sample alone") {
    small_folder folder;
    const dataset all = open_dataset(folder.path).value();
    const auto path = [&folder](const char* name) { return folder.path + name; };
    REQUIRE(::chmod(path("/a/0.pgm").c_str(), 0) == 0);
    ::unlink(path("/a/1.pgm").c_str());
    REQUIRE(::mkdir(path("/a/1.pgm").c_str(), 0700) == 0);
    ::unlink(path("/a/2.pgm").c_str());
    REQUIRE(::symlink("2.pgm", path("/a/2.pgm").c_str()) == 0);
    CHECK(code_of(all.read(0)) == (::access(path("/a/0.pgm").c_str(), R_OK) == 0 ? "ok" : "data.open"));  // root may read everything
    CHECK(code_of(all.read(1)) == "data.open");
    CHECK(code_of(all.read(2)) == "data.open");
    CHECK(code_of(all.read(3)) == "ok");
}

TEST_CASE("limits hold for every sample") {
    small_folder folder;
    dataset_options options;
    options.limits.image_bytes = 11;
    CHECK(code_of(open_dataset(folder.path, options).value().fetch(0)) == "image.budget");
    options.limits.image_bytes = 12;
    CHECK(code_of(open_dataset(folder.path, options).value().read(0)) == "ok");
    options.limits.image_side = 0;
    CHECK(code_of(open_dataset(folder.path, options).value().read(0)) == "image.dimensions");
    CHECK(open_dataset(folder.path, options).value().caps().image_bytes == 12);
}

TEST_CASE("many threads read one dataset") {
    small_folder folder;
    const dataset all = open_dataset(folder.path).value();
    int good[4] = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&all, &good, t] {
            const dataset mine = all;
            for (int round = 0; round < 20; ++round)
                for (std::int64_t i = 0; i < mine.size(); ++i) {
                    const auto seen = mine.read(i);
                    good[t] += seen.ok() && seen.value().data()[0] == (i < 3 ? i : i + 7);
                }
        });
    for (std::thread& t : threads) t.join();
    for (int n : good) CHECK(n == 120);
}

TEST_CASE("what is no dataset says so") {
    made_folder folder;
    const auto code = [](const std::string& path) { return code_of(open_dataset(path)); };
    CHECK(code(folder.path + "/nowhere") == "data.open");
    CHECK(code("") == "data.open");
    CHECK(code(std::string("a\0b", 3)) == "data.open");
    CHECK(code("/dev/zero") == "data.open");
    REQUIRE(::mkfifo((folder.path + "/pipe").c_str(), 0600) == 0);
    CHECK(code(folder.path + "/pipe") == "data.open");
    CHECK(code(folder.put("empty", "")) == "data.format");
    CHECK(code(folder.put("text.txt", "hello\n")) == "data.format");
    CHECK(code(folder.put("noise", std::string("\x01\0\x02", 3))) == "data.format");
    CHECK(code(folder.put("packed.gz", "\x1f\x8b")) == "data.format");
    dataset_options options;
    options.validation_fraction = 1;
    small_folder good;
    CHECK(code_of(open_splits(good.path, options)) == "usage");
}

TEST_CASE("raw pixels of every layout become RGB") {
    const std::uint8_t planes[] = {1, 2, 3, 4, 5, 6}, gray[] = {7, 8};
    sample_bytes raw;
    raw.data = planes;
    raw.size = 6;
    raw.height = 1;
    raw.width = 2;
    raw.channels = 3;
    const std::uint8_t as_pixels[] = {1, 2, 3, 4, 5, 6}, as_planes[] = {1, 3, 5, 2, 4, 6}, as_gray[] = {7, 7, 7, 8, 8, 8};
    CHECK(std::memcmp(dataset::decode(raw, "x").value().data(), as_pixels, 6) == 0);
    raw.planar = true;
    CHECK(std::memcmp(dataset::decode(raw, "x").value().data(), as_planes, 6) == 0);
    raw = {gray, 2, nullptr, 1, 2, 1, false};
    const image seen = dataset::decode(raw, "x").value();
    CHECK(std::memcmp(seen.data(), as_gray, 6) == 0);
    CHECK(std::memcmp(to_gray(seen).value().data(), gray, 2) == 0);
}
