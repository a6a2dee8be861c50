// Files: mapping, and writing that leaves the old file until the new one is whole; and the table of names.
#include <doctest/doctest.h>
#include <graft/core/file.hpp>
#include <graft/core/name_table.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>

namespace {

struct folder {
    std::string path;
    folder() {
        char name[] = "/tmp/graft_file_XXXXXX";
        path = ::mkdtemp(name);
    }
    ~folder() {
        for (const char* file : {"/a", "/pipe"}) ::unlink((path + file).c_str());
        CHECK_MESSAGE(::rmdir(path.c_str()) == 0, "a temporary file was left behind");
    }
};

std::string contents(const std::string& path) {
    auto file = graft::mapped_file::open(path, 1 << 20, graft::errc::model_too_large);
    if (!file.ok()) return graft::text(file.error().code());
    return std::string(reinterpret_cast<const char*>((*file)->data()), (*file)->size());
}

}  // namespace

TEST_CASE("A file is replaced as a whole or not at all") {
    const folder here;
    const std::string path = here.path + "/a";
    {
        graft::atomic_file file;
        REQUIRE(file.open(path).ok());
        CHECK(file.write("one", 3).ok());
        CHECK(contents(path) == "file.open");
        CHECK(file.commit().ok());
    }
    CHECK(contents(path) == "one");
    {
        graft::atomic_file file;
        REQUIRE(file.open(path).ok());
        CHECK(file.write("two", 3).ok());
    }
    CHECK(contents(path) == "one");
    graft::atomic_file nowhere;
    CHECK(!nowhere.open(here.path + "/absent/a").ok());
    CHECK(!nowhere.open(path + std::string(1, '\0') + "b").ok());
}

TEST_CASE("A pipe is not replaced by a file, and neither is a folder") {
    const folder here;
    const std::string pipe = here.path + "/pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    for (const std::string& path : {pipe, here.path}) {
        graft::atomic_file file;
        graft::status opened = file.open(path);
        REQUIRE(!opened.ok());
        CHECK(opened.error().code() == graft::errc::file_write);
    }
    struct stat about;
    REQUIRE(::stat(pipe.c_str(), &about) == 0);
    CHECK(S_ISFIFO(about.st_mode));
}

TEST_CASE("Temporaries of processes that are gone are removed, those that are being written and all other files are not") {
    const folder here;
    const auto put = [&](const std::string& name) {
        std::FILE* file = std::fopen((here.path + name).c_str(), "wb");
        REQUIRE(file);
        std::fclose(file);
    };
    const auto there = [&](const std::string& name) { return ::access((here.path + name).c_str(), F_OK) == 0; };
    put("/.graft-1-0.tmp");
    put("/.graft-notes");
    put("/a");
    {
        graft::atomic_file alive;
        REQUIRE(alive.open(here.path + "/a").ok());
        const std::string its = "/.graft-" + std::to_string(::getpid()) + "-0.tmp";
        REQUIRE(there(its));
        graft::detail::remove_stale_temporaries(here.path, ".graft-");
        CHECK(!there("/.graft-1-0.tmp"));
        CHECK(there("/.graft-notes"));
        CHECK(there("/a"));
        CHECK(there(its));
        REQUIRE(alive.write("new", 3).ok());
        REQUIRE(alive.commit().ok());
    }
    CHECK(contents(here.path + "/a") == "new");
    graft::detail::remove_stale_temporaries(here.path + "/nowhere", ".graft-");
    ::unlink((here.path + "/.graft-notes").c_str());
}

TEST_CASE("Only regular files of a permitted size are mapped") {
    const folder here;
    const std::string path = here.path + "/a";
    std::FILE* file = std::fopen(path.c_str(), "wb");
    std::fputs("12345", file);
    std::fclose(file);
    CHECK(graft::mapped_file::open(path, 4, graft::errc::model_too_large).error().code() == graft::errc::model_too_large);
    CHECK(contents(path) == "12345");
    REQUIRE(::mkfifo((here.path + "/pipe").c_str(), 0600) == 0);
    CHECK(contents(here.path + "/pipe") == "file.open");
    CHECK(contents(here.path) == "file.open");
    CHECK(contents("/dev/zero") == "file.open");
    CHECK(graft::folder_of("a") == ".");
    CHECK(graft::folder_of("/a") == "/");
    CHECK(graft::folder_of("b/c/a") == "b/c");
}
#endif

TEST_CASE("A table finds every name it was given, and no other") {
    std::vector<std::string> names;
    for (int i = 0; i < 5000; ++i) names.push_back("a name that shares its beginning " + std::to_string(i));
    graft::name_table table;
    CHECK(table.find("x") == -1);
    for (int i = 0; i < 5000; ++i) REQUIRE(table.insert(names[static_cast<std::size_t>(i)], i));
    for (int i = 0; i < 5000; ++i) REQUIRE(table.find(names[static_cast<std::size_t>(i)]) == i);
    CHECK(!table.insert(names[7], 1));
    CHECK(table.find(names[7]) == 7);
    CHECK(table.find("a name that shares its beginning") == -1);
    CHECK(table.insert("", 3));
    CHECK(table.find("") == 3);
}
