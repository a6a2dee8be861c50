// The folder of compiled kernels: what lies in it is run, so that only what this user put there is taken.
#include "../data/made_dataset.hpp"
#include "../file_contents.hpp"

#include <graft/gpu/runtime/kernel_files.hpp>

#include <doctest/doctest.h>

#if !defined(_WIN32)
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

namespace {

// The variables that name the folder, as they were again at the end.
struct named_folder {
    std::vector<std::pair<std::string, std::string>> before;
    named_folder() {
        for (const char* name : {"GRAFT_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"})
            if (const char* value = std::getenv(name)) {
                before.emplace_back(name, value);
                unsetenv(name);
            }
    }
    ~named_folder() {
        for (const char* name : {"GRAFT_CACHE_DIR", "XDG_CACHE_HOME"}) unsetenv(name);
        for (const auto& pair : before) setenv(pair.first.c_str(), pair.second.c_str(), 1);
    }
};

}  // namespace

TEST_CASE("kernels are kept in a folder that nobody else can write to, under whole paths alone") {
    using namespace graft::gpu;
    const named_folder as_before;
    const made_folder folder;
    CHECK(kernel_folder().empty());
    setenv("XDG_CACHE_HOME", "cache/of/whoever/runs/this", 1);
    CHECK(kernel_folder().empty());
    setenv("XDG_CACHE_HOME", (folder.path + "/xdg").c_str(), 1);
    setenv("GRAFT_CACHE_DIR", "cache", 1);
    CHECK(kernel_folder() == folder.path + "/xdg/graft/kernels");
    setenv("GRAFT_CACHE_DIR", (folder.path + "/own").c_str(), 1);
    CHECK(kernel_folder() == folder.path + "/own/kernels");

    CHECK(kept_file("key", ".cubin").empty());
    keep_file("key", ".cubin", "contents");
    CHECK(kept_file("key", ".cubin") == "contents");
    struct stat about;
    REQUIRE(::stat(kernel_folder().c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0700);

    // A file in another's place, and one that was changed.
    keep_file("other", ".cubin", "other contents");
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(kernel_folder())) files.push_back(entry.path().string());
    REQUIRE(files.size() == 2);
    std::filesystem::copy_file(files[0], files[0] + ".kept");
    std::filesystem::rename(files[1], files[0]);
    const bool first = !kept_file("key", ".cubin").empty(), second = !kept_file("other", ".cubin").empty();
    CHECK(!first);
    CHECK(!second);
    std::filesystem::rename(files[0] + ".kept", files[0]);

    for (const unsigned mode : {0720u, 0702u}) {
        REQUIRE(::chmod(kernel_folder().c_str(), mode) == 0);
        CHECK(kept_file("key", ".cubin") + kept_file("other", ".cubin") == "");
        keep_file("third", ".cubin", "contents");
        CHECK(kept_file("third", ".cubin").empty());
    }
    REQUIRE(::chmod(kernel_folder().c_str(), 0750) == 0);
    CHECK(!(kept_file("key", ".cubin") + kept_file("other", ".cubin")).empty());
    CHECK(kept_file("third", ".cubin").empty());
}
#endif
