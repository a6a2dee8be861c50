#include "../data/made_dataset.hpp"

#include <graft/core/directory.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace graft;

namespace {
const folder_entry* entry_of(const std::vector<folder_entry>& all, const std::string& name) {
    for (const folder_entry& e : all)
        if (e.name == name) return &e;
    return nullptr;
}
}  // namespace

TEST_CASE("a folder is listed in the order of the bytes of its names") {
    made_folder folder;
    const std::vector<std::string> names = {"Z", "a", "B", "10", "2", "\xc3\xa9", "_", "a b", "a.b", "\xff\xfe"};
    for (const std::string& name : names) folder.put(name, "");
    const auto listed = list_folder(folder.path, errc::data_open);
    REQUIRE(listed.ok());
    std::vector<std::string> sorted = names, got;
    std::sort(sorted.begin(), sorted.end());  // std::string compares bytes, unsigned
    for (const folder_entry& e : listed.value()) {
        got.push_back(e.name);
        CHECK(e.kind == entry_kind::file);
    }
    CHECK(got == sorted);
    CHECK(got.front() == "10");
    CHECK(got.back() == "\xff\xfe");
}

TEST_CASE("links are followed, and what is no file and no folder is named") {
    made_folder folder;
    folder.put("file", "x");
    folder.make("sub");
    REQUIRE(::symlink("file", (folder.path + "/to_file").c_str()) == 0);
    REQUIRE(::symlink("sub", (folder.path + "/to_sub").c_str()) == 0);
    REQUIRE(::symlink("nowhere", (folder.path + "/broken").c_str()) == 0);
    REQUIRE(::symlink("self", (folder.path + "/self").c_str()) == 0);
    REQUIRE(::symlink("/dev/zero", (folder.path + "/device").c_str()) == 0);
    REQUIRE(::mkfifo((folder.path + "/fifo").c_str(), 0600) == 0);
    const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder.path.c_str());
    REQUIRE(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    ::close(server);

    const auto listed = list_folder(folder.path, errc::data_open);
    REQUIRE(listed.ok());
    const std::vector<folder_entry>& all = listed.value();
    REQUIRE(all.size() == 9);
    CHECK(entry_of(all, "file")->kind == entry_kind::file);
    CHECK(entry_of(all, "to_file")->kind == entry_kind::file);
    CHECK(entry_of(all, "sub")->kind == entry_kind::folder);
    CHECK(entry_of(all, "to_sub")->kind == entry_kind::folder);
    CHECK(entry_of(all, "sub")->identity == entry_of(all, "to_sub")->identity);
    CHECK(entry_of(all, "sub")->identity != std::pair<std::uint64_t, std::uint64_t>(0, 0));
    const auto what = [&all](const char* name) {
        CHECK(entry_of(all, name)->kind == entry_kind::other);
        return std::string(entry_of(all, name)->what);
    };
    CHECK(what("broken") == "a broken link");
    CHECK(what("self") == "a broken link");
    CHECK(what("device") == "a character device");
    CHECK(what("fifo") == "a FIFO");
    CHECK(what("socket") == "a socket");
}

TEST_CASE("a folder that is none, is not there or holds too much is an error with the code that was asked for") {
    made_folder folder;
    folder.put("file", "x");
    folder.put("more", "x");
    CHECK(code_of(list_folder(folder.path + "/nowhere", errc::data_open)) == "data.open");
    CHECK(code_of(list_folder(folder.path + "/file", errc::file_open)) == "file.open");
    CHECK(code_of(list_folder(std::string("a\0b", 3), errc::data_open)) == "data.open");
    CHECK(code_of(list_folder(folder.path, errc::data_open, 1)) == "data.open");
    CHECK(code_of(list_folder(folder.path, errc::data_open, 2)) == "ok");
    CHECK(code_of(look_at("", errc::data_open)) == "data.open");
    CHECK(code_of(look_at(std::string("a\0b", 3), errc::data_open)) == "data.open");
    CHECK(look_at(folder.path + "/", errc::data_open).value().kind == entry_kind::folder);
    CHECK(look_at(folder.path + "/file", errc::data_open).value().kind == entry_kind::file);
}

TEST_CASE("paths are joined by one slash") {
    CHECK(join_path("a", "b") == "a/b");
    CHECK(join_path("a/", "b") == "a/b");
    CHECK(join_path("/", "b") == "/b");
    CHECK(join_path("", "b") == "b");
}
