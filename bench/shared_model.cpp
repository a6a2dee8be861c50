// Runs a second of N threads, each with a session of one thread on one shared model, over N times those of one thread. bench/company compiles it.
#include <graft/graft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using steady = std::chrono::steady_clock;

double runs_a_second(const graft::model& net, int threads) {
    std::atomic<long> runs{0};
    std::atomic<int> ready{0};
    std::atomic<bool> stop{false};
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i)
        all.emplace_back([&] {
            graft::session_options alone;
            alone.threads = 1;
            graft::session session(net, alone);
            graft::must(session.set_input(0, graft::tensor::zeros(net.inputs()[0].type, net.inputs()[0].extents)));
            graft::must(session.run());
            for (++ready; ready < threads;) std::this_thread::yield();
            while (!stop) graft::must(session.run()), ++runs;
        });
    while (ready < threads) std::this_thread::yield();
    const auto began = steady::now();
    const long before = runs;
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const double made = static_cast<double>(runs - before), seconds = std::chrono::duration<double>(steady::now() - began).count();
    stop = true;
    for (std::thread& t : all) t.join();
    return made / seconds;
}

}  // namespace

int main(int count, char** arguments) try {
    if (count < 3) return std::fprintf(stderr, "usage: %s MODEL THREADS\n", arguments[0]), 2;
    const graft::model net = graft::load(arguments[1]);
    const int threads = std::max(1, std::atoi(arguments[2]));
    std::vector<double> ratios;
    for (int round = 0; round < 5; ++round) {
        const double one = runs_a_second(net, 1);
        ratios.push_back(runs_a_second(net, threads) / (threads * one));
    }
    std::sort(ratios.begin(), ratios.end());
    std::printf("%.3f %.3f %.3f\n", ratios[2], ratios[0], ratios[4]);
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
