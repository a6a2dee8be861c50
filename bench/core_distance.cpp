// How far two cores lie apart: a cache line to and fro, and data that one has just written read and written by the other. What two threads win depends on it,
// and a virtual machine's cores are moved. Linux.
//
//     g++ -std=c++17 -O2 bench/core_distance.cpp -o core_distance -pthread && ./core_distance [FIRST SECOND]
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace {

using steady = std::chrono::steady_clock;

constexpr int trips = 20000, passes = 200;

alignas(64) std::atomic<int> turn{0};

void stay_on(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0) std::fprintf(stderr, "core %d cannot be had\n", core), std::exit(1);
}

void wait_for(int wanted) {
    while (turn.load(std::memory_order_acquire) != wanted) {
    }
}

// All of it read, then written.
void use(std::vector<std::int64_t>& data) {
    const std::int64_t sum = std::accumulate(data.begin(), data.end(), std::int64_t(0));
    for (std::int64_t& x : data) x = sum & 1;
}

}  // namespace

int main(int count, char** arguments) {
    const int first = count > 2 ? std::atoi(arguments[1]) : 0, second = count > 2 ? std::atoi(arguments[2]) : 1;
    std::vector<std::int64_t> data(std::size_t(32) << 10, 1);  // 256 KB
    std::thread other([&] {
        stay_on(second);
        for (int i = 0; i < trips; ++i) wait_for(2 * i + 1), turn = 2 * i + 2;
        for (int i = trips; i < trips + passes; ++i) wait_for(2 * i + 1), use(data), turn = 2 * i + 2;
    });
    stay_on(first);
    const auto began = steady::now();
    for (int i = 0; i < trips; ++i) turn = 2 * i + 1, wait_for(2 * i + 2);
    const double trip = std::chrono::duration<double, std::nano>(steady::now() - began).count() / trips;
    double passing = 0;
    for (int i = trips; i < trips + passes; ++i) {
        use(data);
        const auto given = steady::now();
        turn = 2 * i + 1, wait_for(2 * i + 2);
        passing += std::chrono::duration<double>(steady::now() - given).count() / passes;
    }
    other.join();
    std::printf("cores %d and %d: a line to and fro %.0f ns, 256 KB read and written after the other in %.0f us (%.0f GB/s)\n", first, second, trip,
                passing * 1e6, 2e-9 * static_cast<double>(data.size() * sizeof data[0]) / passing);
}
