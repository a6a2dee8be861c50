// The order of an epoch: permutations, every one as likely as the other, that depend on seed and epoch alone.
#include <graft/data/sampler.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace graft;

TEST_CASE("an epoch visits every sample once, in an order of its own") {
    for (std::int64_t n : {0, 1, 2, 3, 10, 350, 5000}) {
        std::vector<std::int64_t> order = epoch_order(1, 0, n);
        CHECK(order == epoch_order(1, 0, n));
        if (n > 9) {
            CHECK(order != epoch_order(1, 1, n));
            CHECK(order != epoch_order(2, 0, n));
        }
        std::sort(order.begin(), order.end());
        REQUIRE(static_cast<std::int64_t>(order.size()) == n);
        for (std::int64_t i = 0; i < n; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
    }
}

TEST_CASE("all 24 orders of four samples come equally often") {
    std::map<std::vector<std::int64_t>, int> seen;
    const int n = 24000;
    for (int epoch = 0; epoch < n; ++epoch) ++seen[epoch_order(9, epoch, 4)];
    REQUIRE(seen.size() == 24);
    double chi = 0;
    for (const auto& entry : seen) chi += (entry.second - n / 24.0) * (entry.second - n / 24.0) / (n / 24.0);
    CHECK(chi < 55);  // 23 degrees of freedom: beyond it once in 5000
}

TEST_CASE("streams of different purposes, epochs and indices differ") {
    std::set<std::uint64_t> first;
    int n = 0;
    for (const random_purpose purpose : {random_purpose::order, random_purpose::sample, random_purpose::batch})
        for (std::int64_t epoch : {0, 1, 2, 1000})
            for (std::int64_t index : {0, 1, 2, 1 << 20}) {
                first.insert(data_stream(5, purpose, epoch, index).bits(0));
                ++n;
            }
    CHECK(first.size() == static_cast<std::size_t>(n));
    random_sequence whole(data_stream(5, random_purpose::sample, 0, 0)), later(data_stream(5, random_purpose::sample, 0, 0), 1);
    whole.uniform();
    CHECK(whole.below(1000) == later.below(1000));
}
