// The gradient of a linear layer's weights: against the tree of shards written out in plain loops, and against doubles.
#include <graft/cpu/training/matmul_grad.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace graft;
using namespace graft::cpu;
using namespace training_test;

namespace {

std::vector<float> run(isa set, const product_sum_problem& p, const std::vector<float>& a, const std::vector<float>& b, executor& pool) {
    std::vector<float> c(static_cast<std::size_t>(p.rows * p.columns), 77.0f);
    std::vector<float> space(static_cast<std::size_t>(product_sum_workspace_bytes(set, p) / 4 + 1), std::nanf(""));
    run_product_sum(set, p, a.data(), b.data(), c.data(), space.data(), pool);
    return c;
}

// One element as the rule says: each shard in the order of its samples, with or without a rounding between product and sum.
float element(const product_sum_problem& p, const std::vector<float>& a, const std::vector<float>& b, std::int64_t i, std::int64_t j, bool fused) {
    return sum_shards<float>(0, p.tree.count, [&](int s) {
        float sum = 0;
        for (std::int64_t l = p.tree.first(p.n, s); l < p.tree.last(p.n, s); ++l) {
            const float x = a[static_cast<std::size_t>(l * p.rows + i)], y = b[static_cast<std::size_t>(l * p.columns + j)];
            volatile float product = x * y;
            sum = fused ? std::fma(x, y, sum) : sum + product;
        }
        return sum;
    });
}

}  // namespace

TEST_CASE("the gradient of a product's weights is the tree of shards, bit for bit, on any number of threads") {
    struct size {
        std::int64_t n, rows, columns;
    };
    const size sizes[] = {
        {1, 1, 1},   {2, 3, 5},     {3, 14, 32},   {4, 15, 33},    {5, 29, 16},     {6, 7, 100},   {7, 40, 31}, {8, 28, 64},
        {9, 61, 70}, {16, 10, 200}, {65, 57, 129}, {100, 130, 10}, {300, 113, 140}, {1100, 17, 40}};  // the last in parts that stay in the second cache
    executor alone;
    pool_executor two(2), three(3);
    for (isa set : sets())
        for (const size& z : sizes)
            for (int shard_count : {1, 2, 8, 256}) {
                INFO("instruction set " << std::string(name(set)) << ", n " << z.n << ", " << z.rows << " x " << z.columns << ", shards " << shard_count);
                product_sum_problem p;
                p.n = z.n, p.rows = z.rows, p.columns = z.columns, p.tree.count = shard_count;
                const std::vector<float> a = numbers(z.n * z.rows, 1), b = numbers(z.n * z.columns, 2);
                const std::vector<float> c = run(set, p, a, b, alone);
                std::vector<double> want;
                bool exact = true;
                for (std::int64_t i = 0; i < z.rows; ++i)
                    for (std::int64_t j = 0; j < z.columns; ++j) {
                        double sum = 0;
                        for (std::int64_t l = 0; l < z.n; ++l) {
                            const float x = a[static_cast<std::size_t>(l * z.rows + i)], y = b[static_cast<std::size_t>(l * z.columns + j)];
                            sum += static_cast<double>(x) * static_cast<double>(y);
                        }
                        want.push_back(sum);
                        const bool fused = set != isa::baseline && set != isa::wasm;
                        if (z.rows < 100) exact = exact && c[static_cast<std::size_t>(i * z.columns + j)] == element(p, a, b, i, j, fused);
                    }
                CHECK(exact);
                CHECK(distance(c, want, 1) < 1e-5);
                CHECK(same(c, run(set, p, a, b, two)));
                CHECK(same(c, run(set, p, a, b, three)));
            }
}

TEST_CASE("the gradient of a product's weights needs little memory of its own") {
    for (isa set : sets()) {
        product_sum_problem p;
        p.n = 16, p.rows = 25088, p.columns = 4096, p.tree.count = 256;
        CHECK(product_sum_workspace_bytes(set, p) <= 4 << 20);
        p.n = 4096;
        CHECK(product_sum_workspace_bytes(set, p) <= 32 << 20);
    }
}
