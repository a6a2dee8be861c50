// Batches spread over sessions: order, bits, the last short batch, errors, and how many are held.
#include "nets.hpp"

#include <doctest/doctest.h>

#include <atomic>

using graft::errc;

namespace {

// Batches of eight pictures, the last of three.
std::vector<graft::tensor> batches(int count) {
    nets::numbers random;
    std::vector<graft::tensor> all;
    for (int i = 0; i < count; ++i) all.push_back(nets::random_tensor({i + 1 < count ? 8 : 3, 3, 64, 64}, random));
    return all;
}

bool equal(const graft::tensor& a, const graft::tensor& b) {
    return a.type() == b.type() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// Every answer in turn, and the most batches that were held at once.
std::vector<graft::pool_answer> run_all(graft::session_pool& pool, const std::vector<graft::tensor>& in, std::size_t& most) {
    std::vector<graft::pool_answer> answers;
    std::size_t given = 0;
    while (answers.size() < in.size()) {
        while (given < in.size() && !pool.full()) REQUIRE(pool.submit({in[given++]}).ok());
        most = std::max(most, given - answers.size());
        answers.push_back(pool.take().value());
    }
    return answers;
}

}  // namespace

TEST_CASE("A pool of sessions gives the bits of one session, in the order of the batches") {
    const graft::model m = graft::load(nets::demo_model());
    const std::vector<graft::tensor> in = batches(11);
    graft::session one(m, {2, nullptr});
    std::vector<graft::tensor> expected;
    for (const graft::tensor& t : in) expected.push_back(one.run(t).value());
    for (const int replicas : {1, 2, 3, 5})
        for (const int threads : {1, 7}) {
            CAPTURE(replicas);
            graft::session_pool pool = graft::session_pool::make(std::vector<graft::model>(static_cast<std::size_t>(replicas), m), {threads, -1}).value();
            CHECK(pool.replicas() == replicas);
            std::size_t most = 0;
            const auto answers = run_all(pool, in, most);
            CHECK(most == static_cast<std::size_t>(replicas > 1 ? replicas + 2 : 1));
            CHECK(pool.empty());
            for (std::size_t i = 0; i < in.size(); ++i) {
                CHECK(equal(answers[i].outputs[0], expected[i]));
                CHECK(answers[i].replica < replicas);
                CHECK(answers[i].seconds > 0);
            }
        }
}

TEST_CASE("A batch that cannot be run ends a pool with its error, behind the answers before it") {
    const graft::model m = graft::load(nets::demo_model());
    const std::vector<graft::tensor> in = batches(6);
    for (const int replicas : {1, 2, 4}) {
        CAPTURE(replicas);
        graft::session_pool pool = graft::session_pool::make(std::vector<graft::model>(static_cast<std::size_t>(replicas), m), {2, 6}).value();
        for (int i = 0; i < 3; ++i) REQUIRE(pool.submit({in[static_cast<std::size_t>(i)]}).ok());
        REQUIRE(pool.submit({graft::tensor::zeros(graft::dtype::float64, {1, 3, 64, 64})}).ok());  // the earliest error is the one that is told
        REQUIRE(pool.submit({graft::tensor::zeros(graft::dtype::float32, {1, 3, 32})}).ok());
        REQUIRE(pool.submit({in[5]}).ok());
        for (int i = 0; i < 3; ++i) CHECK(pool.take().ok());
        CHECK(pool.take().error().code() == errc::input_dtype);
        CHECK(pool.take().error().code() == errc::input_dtype);
    }
}

TEST_CASE("A pool says what it was not given, and holds no more than it may") {
    CHECK(graft::session_pool::make({}).error().code() == errc::usage);
    graft::session_pool none;
    CHECK(none.full());
    CHECK(none.submit({}).error().code() == errc::usage);
    CHECK(none.take().error().code() == errc::usage);
    const graft::model m = graft::load(nets::demo_model());
    CHECK(graft::session_pool::make({m, graft::model()}).error().code() == errc::usage);
    graft::session_pool pool = graft::session_pool::make({m, m}, {2, 0}).value();
    CHECK(pool.take().error().code() == errc::usage);
    const std::vector<graft::tensor> in = batches(3);
    CHECK(pool.submit({in[0]}).ok());
    CHECK(pool.submit({in[1]}).ok());
    CHECK(pool.full());
    CHECK(pool.submit({in[2]}).error().code() == errc::usage);
    CHECK(pool.take().ok());
    CHECK(pool.submit({in[2], in[2]}).ok());
    CHECK(pool.take().ok());
    CHECK(pool.take().error().code() == errc::input_name);
    // One that goes with batches at work waits for them.
    graft::session_pool left = graft::session_pool::make({m, m, m}).value();
    for (const graft::tensor& t : in) REQUIRE(left.submit({t}).ok());
}

TEST_CASE("An executor with threads of its own runs every task once, and ends its threads") {
    for (const int threads : {1, 2, 5}) {
        graft::dedicated_executor pool(threads);
        CHECK(pool.threads() == threads);
        for (const std::int64_t tasks : {0, 1, 3, 100}) {
            std::vector<std::atomic<int>> ran(static_cast<std::size_t>(tasks));
            graft::parallel_for(pool, tasks, [&](std::int64_t i) { ++ran[static_cast<std::size_t>(i)]; });
            for (const auto& r : ran) CHECK(r == 1);
        }
    }
}
