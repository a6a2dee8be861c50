// A host that closes a plugin with graft in it, whose threads then still sleep in the plugin's code.
#if defined(GRAFT_TEST_PLUGIN)
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <chrono>
#include <thread>

TEST_CASE("a plugin that is closed stays while its threads do") {
    using loop = int (*)(int threads, int tasks);
    CHECK(dlopen(GRAFT_TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD) == nullptr);
    void* code = nullptr;
    for (int round = 0; round < 3; ++round) {
        void* const plugin = dlopen(GRAFT_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        REQUIRE(plugin != nullptr);
        void* const found = dlsym(plugin, "run_loop");
        REQUIRE(found != nullptr);
        if (!code) code = found;
        CHECK(found == code);  // the one of the first round, and so its threads
        CHECK(reinterpret_cast<loop>(found)(3, 100) == 100);
        CHECK(dlclose(plugin) == 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // its threads wake up, and fall asleep
    }
    Dl_info about;
    CHECK(dladdr(code, &about) != 0);
}

#endif
