// One model, many threads: the model is shared, each thread brings a session.
//   build   g++ -std=c++17 -O2 -Iinclude examples/03_share_between_threads.cpp -o share -pthread
//   run     ./share apps/graft/demo/model.onnx
//   prints  8 threads, 400 runs: every result has the same bits
#include <graft/graft.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

int main(int count, char** arguments) try {
    if (count < 2) return std::fprintf(stderr, "usage: %s MODEL\n", arguments[0]), 2;
    const graft::model net = graft::load(arguments[1]);
    const graft::tensor picture = graft::tensor::zeros(graft::dtype::float32, {1, 3, 64, 64});
    for (int i = 0; i < 3 * 64 * 64; ++i) picture.data<float>()[i] = static_cast<float>(i % 97) / 97;

    graft::session first(net);
    const graft::tensor expected = first.run(picture);

    std::atomic<int> equal{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&] {
            graft::session_options options;
            options.threads = 1;  // the app's threads are the parallelism here
            graft::session mine(net, options);
            for (int r = 0; r < 50; ++r) {
                auto scores = mine.run(picture);
                equal += scores.ok() && std::memcmp(scores->raw(), expected.raw(), expected.bytes()) == 0;
            }
        });
    for (std::thread& t : threads) t.join();
    std::printf("8 threads, 400 runs: %s\n", equal == 400 ? "every result has the same bits" : "results differ");
    return equal == 400 ? 0 : 1;
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
