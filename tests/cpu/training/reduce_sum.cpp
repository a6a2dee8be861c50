// Sums over broadcast axes against plain loops: every pattern of axes, blocks of channels, shards, threads.
#include <graft/cpu/ops/training/reduce.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace graft;
using namespace graft::cpu;
using namespace training_test;

namespace {

std::vector<double> plain_sum(const std::vector<float>& x, const shape& from, const shape& to) {
    std::vector<double> y(static_cast<std::size_t>(to.elements()), 0.0);
    const int before = from.rank() - to.rank();
    for (std::int64_t i = 0; i < from.elements(); ++i) {
        std::int64_t rest = i, index[8] = {}, at = 0;
        for (int a = from.rank() - 1; a >= 0; --a) index[a] = rest % from[a], rest /= from[a];
        for (int a = before; a < from.rank(); ++a) at = at * to[a - before] + (to[a - before] == 1 ? 0 : index[a]);
        y[static_cast<std::size_t>(at)] += static_cast<double>(x[static_cast<std::size_t>(i)]);
    }
    return y;
}

std::vector<float> run(isa set, const sum_problem& p, const saved_activation& x, std::size_t results, executor& pool) {
    std::vector<float> y(results, 77.0f);
    std::vector<double> space(static_cast<std::size_t>(sum_workspace_bytes(set, p) / 8 + 1), std::nan(""));
    run_sum(set, p, x, y.data(), space.data(), pool);
    return y;
}

struct problem {
    shape from, to;
};

}  // namespace

TEST_CASE("SumTo sums over the axes that were broadcast") {
    const problem problems[] = {
        {{5, 7}, {7}},
        {{5, 7}, {1, 7}},
        {{5, 7}, {5, 1}},
        {{5, 7}, {}},
        {{9}, {}},
        {{9}, {9}},
        {{3, 4, 5, 6}, {1, 4, 1, 1}},
        {{3, 4, 5, 6}, {4, 1, 1}},
        {{3, 4, 5, 6}, {3, 4, 1, 1}},
        {{3, 4, 5, 6}, {1, 1, 5, 6}},
        {{3, 4, 5, 6}, {3, 1, 5, 6}},
        {{3, 4, 5, 6}, {1, 4, 1, 6}},
        {{3, 4, 5, 6}, {3, 1, 5, 1}},
        {{3, 4, 5, 6}, {}},
        {{3, 4, 5, 6}, {1, 1, 1, 1}},
        {{2, 3, 2, 3, 2, 3}, {3, 1, 3, 1, 3}},
        {{1, 6, 1, 5}, {1, 1, 1, 5}},
        {{17, 300}, {300}},
        {{4, 3, 70, 70}, {3, 1, 1}},
        {{1, 1, 1}, {}},
        {{8, 1, 1}, {}},
        {{6, 1, 1}, {1}},
        {{2, 700, 3}, {3}},
        {{300, 2}, {2}},
        {{1, 50}, {50}},
    };
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (const problem& p : problems)
            for (std::int64_t shard_count : {0, 1, 8, 256}) {
                INFO("instruction set " << std::string(name(set)) << ", from " << text(p.from) << " to " << text(p.to) << ", shards " << shard_count);
                const std::vector<float> x = numbers(p.from.elements(), 3);
                sum_problem q;
                REQUIRE(sum_problem_of(p.from, 0, p.to, 0, shard_count, q) == nullptr);
                const std::vector<float> y = run(set, q, x.data(), static_cast<std::size_t>(p.to.elements()), alone);
                CHECK(distance(y, plain_sum(x, p.from, p.to), std::sqrt(static_cast<double>(p.from.elements()) / static_cast<double>(p.to.elements()))) < 5e-7);
                CHECK(same(y, run(set, q, x.data(), y.size(), three)));
                if (q.summed[q.rank - 1]) continue;
                const std::vector<std::uint16_t> narrow = narrowed(x);
                CHECK(same(run(set, q, narrow.data(), y.size(), three), run(set, q, widened(narrow).data(), y.size(), alone)));
            }
    sum_problem q;
    CHECK(sum_problem_of({2, 3}, 0, {2}, 0, 8, q) != nullptr);
    CHECK(sum_problem_of({3}, 0, {1, 3}, 0, 8, q) != nullptr);
}

TEST_CASE("SumTo sums blocks of channels, whatever stands in their gaps") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (std::int64_t n : {1, 2, 5, 8, 9})
            for (std::int64_t c : {1, 3, 16, 19, 70}) {
                const int w = vector_width(set);
                const std::int64_t h = 5, width = 30;
                INFO("instruction set " << std::string(name(set)) << ", n " << n << " c " << c);
                const std::vector<float> x = numbers(n * c * h * width, 3), blocks = to_blocks(x, n, c, h * width, w);
                const shape from{n, c, h, width};
                for (const shape& to : {shape{1, c, 1, 1}, shape{c, 1, 1}, shape{n, c, 1, 1}, shape{1, c, h, width}, shape{n, c, 1, width}})
                    for (int block : {0, w}) {
                        sum_problem q;
                        const char* reason = sum_problem_of(from, w, to, block, 8, q);
                        const bool image = to[to.rank() - 1] != 1;
                        if (image && !block) {
                            CHECK(reason != nullptr);
                            continue;
                        }
                        REQUIRE(reason == nullptr);
                        const std::int64_t images = to.rank() == 4 ? to[0] : 1, area = to.rank() == 4 ? to[2] * to[3] : 1;
                        const std::int64_t stored = images * (block ? (c + w - 1) / w * w : c) * area;
                        std::vector<float> y = run(set, q, blocks.data(), static_cast<std::size_t>(stored), alone);
                        const std::vector<float> again = run(set, q, blocks.data(), y.size(), three);
                        CHECK(same(y, again));
                        if (block) y = to_planes(y, images, c, area, w);
                        CHECK(distance(y, plain_sum(x, from, to), 1) < 1e-6);
                    }
                sum_problem q;
                CHECK(sum_problem_of(from, w, {1, 1, h, width}, 0, 8, q) != nullptr);
            }
}
