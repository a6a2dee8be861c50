// Many threads on one model: the same bits as one thread alone, and loading and destroying beside each other.
// GRAFT_TEST_ROUNDS sets the runs of each thread; sanitizer builds do fewer.
#include "nets.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "../sanitized.hpp"

namespace {

int rounds(int usual) {
    if (const char* asked = std::getenv("GRAFT_TEST_ROUNDS")) return std::max(1, std::atoi(asked));
#ifdef GRAFT_TEST_SANITIZED
    return std::max(1, usual / 20);
#else
    return usual;
#endif
}

// Eight threads, each with a session of its own, run `inputs` again and again in orders of their own.
void hammer(const graft::model& m, const std::vector<std::vector<graft::tensor>>& inputs, int runs) {
    std::vector<nets::answer> wanted;
    for (const auto& given : inputs) {
        wanted.push_back(nets::run(m, given, 1));
        REQUIRE(wanted.back().error.empty());
    }
    std::atomic<int> wrong{0}, done{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            graft::session session(m, {1 + t % 4, nullptr});
            for (int i = 0; i < runs; ++i) {
                const std::size_t which = static_cast<std::size_t>(t * 7 + i) % inputs.size();
                wrong += !nets::same_bits(nets::run(session, m, inputs[which]), wanted[which]);
                ++done;
                if (i % 97 == 96) session.trim();
            }
        });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(done == 8 * runs);
}

}  // namespace

TEST_CASE("eight threads on the demo's model get the bits of the serial run") {
    graft::model m = graft::load(nets::demo_model());
    std::vector<std::vector<graft::tensor>> inputs;
    for (std::uint64_t seed = 0; seed < 3; ++seed) inputs.push_back(nets::inputs_of(m, seed));
    hammer(m, inputs, rounds(1000));
}

TEST_CASE("eight threads on a network with open shapes get the bits of the serial run") {
    graft::model m = graft::load(nets::residual_net(11));
    nets::numbers random{12};
    std::vector<std::vector<graft::tensor>> inputs;
    // More shapes than a model keeps plans for, so that plans are made and dropped while others run.
    for (std::int64_t size = 6; size < 26; ++size) inputs.push_back({nets::random_tensor({1 + size % 2, 3, size, 31 - size}, random)});
    hammer(m, inputs, rounds(1000));
}

TEST_CASE("models are loaded, copied, run and destroyed by many threads at once") {
    const auto wanted = [] {
        graft::model m = graft::load(nets::demo_model());
        return nets::run(m, nets::inputs_of(m, 21), 1);
    }();
    REQUIRE(wanted.error.empty());
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < rounds(20); ++i) {
                graft::model m = graft::load(nets::demo_model());
                const graft::model copy = m;
                graft::session first(m, {1 + (t + i) % 3, nullptr});
                m = graft::model();
                graft::session second = std::move(first);
                wrong += !nets::same_bits(nets::run(second, copy, nets::inputs_of(copy, 21)), wanted);
            }
        });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
}

TEST_CASE("sessions that threads throw away in storms leave nothing behind") {
    graft::model m = graft::load(nets::residual_net(13));
    nets::numbers random{14};
    const std::vector<graft::tensor> inputs{nets::random_tensor({1, 3, 9, 9}, random)};
    const nets::answer wanted = nets::run(m, inputs, 1);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < rounds(200); ++i) wrong += !nets::same_bits(nets::run(m, inputs, 2), wanted);
        });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
}
