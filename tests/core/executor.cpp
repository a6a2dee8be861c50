// Loops over threads: every task once, loops in loops, many callers at once, how the number of threads is found.
#include <graft/core/executor.hpp>

#include "../data/made_dataset.hpp"
#include "../wait_until.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

// How often each task of a loop ran, all in one number: the tasks that did not run exactly once.
int not_once(graft::executor& pool, std::int64_t tasks) {
    std::vector<std::atomic<int>> ran(static_cast<std::size_t>(tasks));
    for (auto& r : ran) r = 0;
    graft::parallel_for(pool, tasks, [&](std::int64_t i) { ++ran[static_cast<std::size_t>(i)]; });
    int wrong = 0;
    for (auto& r : ran) wrong += r != 1;
    return wrong;
}

}  // namespace

TEST_CASE("every task of a loop runs once, whatever the threads") {
    for (const int threads : {1, 2, 3, 4, 8}) {
        graft::pool_executor pool(threads);
        CHECK(pool.threads() == threads);
        for (const std::int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) CHECK(not_once(pool, tasks) == 0);
    }
    graft::executor serial;
    CHECK(serial.threads() == 1);
    CHECK(not_once(serial, 100) == 0);
}

TEST_CASE("many short loops one after the other lose nothing") {
    graft::pool_executor pool(4);
    std::atomic<long> sum{0};
    for (int round = 0; round < 3000; ++round) graft::parallel_for(pool, 5, [&](std::int64_t i) { sum += i + 1; });
    CHECK(sum == 3000 * 15);
}

TEST_CASE("a thread has the same slice of every loop") {
    graft::dedicated_executor pool(3);
    std::vector<std::thread::id> first(3);
    for (int round = 0; round < 100; ++round) {
        std::vector<std::thread::id> by(3);
        std::atomic<int> begun{0};
        graft::parallel_for(pool, 3, [&](std::int64_t i) {
            by[static_cast<std::size_t>(i)] = std::this_thread::get_id();
            ++begun;
            (void)wait_until([&] { return begun == 3; });
        });
        if (round == 0) first = by;
        CHECK(by == first);
    }
    CHECK(first[0] == std::this_thread::get_id());
}

TEST_CASE("who has done its own slice takes what is left of others'") {
    graft::dedicated_executor pool(2);
    for (int round = 0; round < 100; ++round) {
        std::atomic<int> others{0};
        bool all = false;
        graft::parallel_for(pool, 64, [&](std::int64_t i) {
            if (i > 0) {
                ++others;
                return;
            }
            all = wait_until([&] { return others == 63; });
        });
        CHECK(all);
    }
}

TEST_CASE("a loop in a loop runs on its own thread and ends") {
    graft::pool_executor pool(4);
    std::atomic<int> ran{0};
    graft::parallel_for(pool, 8, [&](std::int64_t) { graft::parallel_for(pool, 8, [&](std::int64_t) { ++ran; }); });
    CHECK(ran == 64);
}

TEST_CASE("tasks of a loop have executors for loops of their own, which run beside each other") {
    graft::pool_executor pool(4);
    CHECK(graft::executor().within(2) == nullptr);
    std::unique_ptr<graft::executor> inner[2] = {pool.within(2), graft::dedicated_executor(2).within(2)};
    std::atomic<int> wrong{0}, together{0};
    for (int again = 0; again < 20; ++again)
        graft::parallel_for(pool, 2, [&](std::int64_t k) {
            graft::executor& own = *inner[k];
            wrong += own.threads() != 2;
            for (const std::int64_t tasks : {1, 2, 7, 64}) wrong += not_once(own, tasks);
            // A loop in a task of that loop runs alone.
            graft::parallel_for(own, 3, [&](std::int64_t) { wrong += not_once(own, 5) + not_once(pool, 5); });
            std::thread::id who[2];
            graft::parallel_for(own, 2, [&](std::int64_t i) {
                who[i] = std::this_thread::get_id();
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            });
            together += who[0] != who[1];
        });
    CHECK(wrong == 0);
    CHECK(together > 0);
    CHECK(not_once(pool, 100) == 0);
}

TEST_CASE("callers that come at once each get their whole loop") {
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int t = 0; t < 6; ++t)
        callers.emplace_back([&, t] {
            graft::pool_executor pool(1 + t % 4);
            for (int i = 0; i < 200; ++i) wrong += not_once(pool, 17 + i % 5);
        });
    for (std::thread& t : callers) t.join();
    CHECK(wrong == 0);
}

TEST_CASE("the threads that nobody asked for come from the environment, within reason") {
    const char* before = std::getenv("GRAFT_NUM_THREADS");
    const std::string kept = before ? before : "";
    setenv("GRAFT_NUM_THREADS", "3", 1);
    CHECK(graft::default_threads() == 3);
    CHECK(graft::pool_executor().threads() == 3);
    CHECK(graft::pool_executor(2).threads() == 2);
    setenv("OMP_NUM_THREADS", "2", 1);
    CHECK(graft::default_threads() == 3);
    for (const char* nonsense : {"0", "-4", "many", ""}) {
        setenv("GRAFT_NUM_THREADS", nonsense, 1);
        CHECK(graft::default_threads() == 2);
    }
    setenv("GRAFT_NUM_THREADS", "99999999", 1);
    CHECK(graft::default_threads() <= 1024);
    unsetenv("OMP_NUM_THREADS");
    unsetenv("GRAFT_NUM_THREADS");
    CHECK(graft::default_threads() >= 1);
    if (before) setenv("GRAFT_NUM_THREADS", kept.c_str(), 1);
}

#if defined(__unix__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a child of fork has a pool of its own") {
    graft::pool_executor pool(3);
    CHECK(not_once(pool, 100) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alarm(20);
        _exit(not_once(pool, 100) == 0 ? 0 : 1);
    }
    int how = 0;
    REQUIRE(waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how));
    CHECK(WEXITSTATUS(how) == 0);
    CHECK(not_once(pool, 100) == 0);
}
#endif

#if defined(__linux__)
TEST_CASE("The quota of the own control group counts, and of those around it; either version, and none") {
    const made_folder folder;
    const auto cpus = [&](const char* own) {
        folder.put("own", own);
        return graft::detail::cgroup_cpus((folder.path + "/own").c_str(), folder.path.c_str());
    };
    CHECK(cpus("0::/\n") == 0);
    const auto put_quota = [&](const std::string& group, const char* most) { folder.put(group + "cpu.max", std::string(most) + " 100000\n"); };
    put_quota("user/app/", "150000");
    put_quota("user/", "400000");
    put_quota("user/free/", "max");
    CHECK(cpus("0::/user/app\n") == 2);
    CHECK(cpus("0::/user/free/deeper\n") == 4);
    CHECK(cpus("0::/other\n") == 0);
    CHECK(cpus("0::/../elsewhere\n") == 0);
    CHECK(cpus("no line of these\n::\n:\n") == 0);
    const auto put_old_quota = [&](const std::string& group, const char* most) {
        folder.put(group + "cpu.cfs_quota_us", std::string(most) + "\n");
        folder.put(group + "cpu.cfs_period_us", "100000\n");
    };
    put_old_quota("cpu/batch/", "50000");
    put_old_quota("cpu/", "-1");
    CHECK(cpus("4:cpu,cpuacct:/batch\n0::/user/app\n") == 1);
    CHECK(cpus("4:cpuacct,cpu:/batch\n") == 1);
    CHECK(cpus("4:cpuset:/batch\n") == 0);
    put_quota("", "300000");
    CHECK(cpus("0::/other\n") == 3);
    CHECK(cpus(("0::" + std::string(5000, 'x') + "\n").c_str()) == 3);
}
#endif
