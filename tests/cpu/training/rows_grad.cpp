// Gradients along rows by what was kept in bfloat16: those by the same numbers in float32, to the bit.
#include <graft/cpu/training/rows_grad.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace graft;
using namespace graft::cpu;
using namespace training_test;

TEST_CASE("gradients of softmax and of layer normalisation by what was kept in bfloat16 are those by the same numbers in float32") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (const std::int64_t n : {1, 5, 16, 67, 300}) {
            INFO("instruction set " << std::string(name(set)) << ", rows of " << n);
            constexpr std::int64_t rows = 21;
            const std::vector<std::uint16_t> kept = narrowed(numbers(rows * n, 3));
            const std::vector<float> wide = widened(kept), dy = numbers(rows * n, 4), mean = numbers(rows, 5), inverse = numbers(rows, 6, 0.5f, 2),
                                     scale = numbers(n, 7);
            const std::size_t all = wide.size(), columns = static_cast<std::size_t>(n);
            const auto gradients = [&](const saved_activation& x, executor& pool) {
                std::vector<float> along(all), across(all), dx(all), dscale(columns), dbias(columns);
                run_softmax_grad(set, dy.data(), x, along.data(), rows, n, 1, pool);
                run_softmax_grad(set, dy.data(), x, across.data(), 3, 7, n, pool);
                const normalized_rows_grad g{dy.data(), x, mean.data(), inverse.data(), scale.data(), dx.data(), rows, n};
                run_layer_norm_grad(set, g, pool);
                const shards tree{4};
                std::vector<unsigned char> space(static_cast<std::size_t>(layer_norm_workspace_bytes(7, n, tree)));
                run_layer_norm_grad_scale(set, g, 7, tree, dscale.data(), dbias.data(), space.data(), pool);
                for (const std::vector<float>* more : {&across, &dx, &dscale, &dbias}) along.insert(along.end(), more->begin(), more->end());
                return along;
            };
            CHECK(same(gradients(kept.data(), three), gradients(wide.data(), alone)));
        }
}
