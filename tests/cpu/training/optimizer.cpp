// Updates of weights against torch.optim's own, bit for bit where both round alike; norms of gradients; moving averages; threads.
#include <graft/cpu/ops/training/optimizer.hpp>

#include <doctest/doctest.h>

#include "optimizer_values.hpp"
#include "support.hpp"

using namespace graft;
using namespace graft::cpu;
using namespace training_test;

namespace {

constexpr std::int64_t count = 32;

double rate(int step) { return static_cast<double>(0.05f * (1 - 0.125f * static_cast<float>(step))); }

// PyTorch recorded with FMA; baseline and wasm round products and sums one after the other. Its square roots are one unit of the
// last place off now and then, so Adam's weights can be too.
void check(isa set, const char* what, const std::vector<float>& w, const float (&want)[8], bool roots) {
    INFO("instruction set " << std::string(name(set)) << ", " << std::string(what));
    const bool fused = set != isa::baseline && set != isa::wasm;
    for (std::size_t i = 0; i < 8; ++i) {
        if (fused && !roots)
            CHECK(w[4 * i] == want[i]);
        else
            CHECK(std::fabs(w[4 * i] - want[i]) <= (fused ? 6e-8f : 3e-7f));
    }
}

void check_sgd(isa set, const char* what, const sgd_options& o, const float (&want)[5][8]) {
    executor alone;
    std::vector<float> w = numbers(count, 1), m(w.size(), 0.0f);
    const bool momentum = o.momentum != 0;
    for (int step = 0; step < 5; ++step) {
        const std::vector<float> g = numbers(count, 100u + static_cast<unsigned>(step));
        run_sgd(set, sgd_step_of(o, rate(step)), w.data(), g.data(), momentum ? m.data() : nullptr, w.data(), m.data(), count, alone);
        check(set, what, w, want[step], false);
    }
}
void check_adam(isa set, const char* what, const adam_options& o, const float (&want)[5][8]) {
    executor alone;
    std::vector<float> w = numbers(count, 1), m(w.size(), 0.0f), v(w.size(), 0.0f);
    for (int step = 0; step < 5; ++step) {
        const std::vector<float> g = numbers(count, 100u + static_cast<unsigned>(step));
        // Once in place, once into other memory.
        std::vector<float> w2(w.size()), m2(w.size()), v2(w.size());
        const adam_step s = adam_step_of(o, rate(step), step + 1);
        run_adam(set, s, w.data(), g.data(), m.data(), v.data(), w2.data(), m2.data(), v2.data(), count, alone);
        run_adam(set, s, w.data(), g.data(), m.data(), v.data(), w.data(), m.data(), v.data(), count, alone);
        CHECK(same(w, w2));
        CHECK(same(m, m2));
        CHECK(same(v, v2));
        check(set, what, w, want[step], true);
    }
}

}  // namespace

TEST_CASE("five steps of SGD are those of torch.optim.SGD") {
    for (isa set : sets()) {
        check_sgd(set, "sgd", {0, 0, false}, optimizer_values::sgd);
        check_sgd(set, "decay", {0, 0.01, false}, optimizer_values::sgd_decay);
        check_sgd(set, "momentum", {0.9, 1e-4, false}, optimizer_values::sgd_momentum);
        check_sgd(set, "nesterov", {0.9, 1e-4, true}, optimizer_values::sgd_nesterov);
    }
}

TEST_CASE("five steps of Adam and AdamW are those of torch.optim") {
    for (isa set : sets()) {
        check_adam(set, "adam", {0.9, 0.999, 1e-8, 0, false}, optimizer_values::adam);
        check_adam(set, "decay", {0.8, 0.99, 1e-6, 0.05, false}, optimizer_values::adam_decay);
        check_adam(set, "adamw", {0.9, 0.999, 1e-8, 0.05, true}, optimizer_values::adamw);
    }
}

TEST_CASE("an attribute that was written in decimal is that decimal again") {
    for (double x : {0.9, 0.999, 0.9999, 0.99, 0.1, 1e-8, 1e-5, 1e-3, 0.05, 0.0005, 3e-4, 0.25, 1.0, 0.0, -0.9, 1234.5, 0.123456})
        CHECK(decimal_of(static_cast<float>(x)) == x);
    // Others stay what they are: no decimal of few digits is near.
    CHECK(decimal_of(1e30f) == static_cast<double>(1e30f));
    CHECK(static_cast<float>(decimal_of(0.1f * 0.3f)) == 0.1f * 0.3f);
}

TEST_CASE("the norm of all gradients, and gradients scaled to it, are PyTorch's") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets()) {
        INFO("instruction set " << std::string(name(set)));
        const std::vector<float> g[] = {numbers(5, 200), numbers(32, 201), numbers(100, 202)};
        const float* arrays[] = {g[0].data(), g[1].data(), g[2].data()};
        const std::int64_t sizes[] = {5, 32, 100};
        std::vector<double> space(static_cast<std::size_t>(global_norm_workspace_bytes(3, 137) / 8));
        const float norm = run_global_norm(set, arrays, sizes, 3, space.data(), alone);
        CHECK(norm == doctest::Approx(optimizer_values::norm).epsilon(2e-7));
        std::vector<float> y(32);
        run_scale_by_norm(set, norm, 2.0f, g[1].data(), y.data(), 32, three);
        for (std::size_t i = 0; i < 8; ++i) CHECK(y[4 * i] == doctest::Approx(optimizer_values::clipped[i]).epsilon(3e-7));
        run_scale_by_norm(set, norm, 100.0f, g[1].data(), y.data(), 32, alone);
        CHECK(same(y, g[1]));
        run_scale_by_norm(set, std::nanf(""), 2.0f, g[1].data(), y.data(), 32, alone);
        CHECK(y[7] != y[7]);
    }
}

TEST_CASE("a norm over many arrays of every size is right, and has the same bits on any number of threads") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets()) {
        std::vector<std::vector<float>> g;
        std::vector<const float*> arrays;
        std::vector<std::int64_t> sizes;
        double sum = 0;
        std::int64_t all = 0;
        for (std::int64_t n : {0, 1, 16384, 0, 16385, 50000, 3, 200000, 17, 0}) {
            g.push_back(numbers(n, static_cast<std::uint32_t>(n + 1), -3, 3));
            sizes.push_back(n);
            all += n;
            for (float v : g.back()) sum += static_cast<double>(v) * static_cast<double>(v);
        }
        for (const auto& x : g) arrays.push_back(x.data());
        const auto n = static_cast<std::int64_t>(g.size());
        std::vector<double> space(static_cast<std::size_t>(global_norm_workspace_bytes(n, all) / 8));
        const float a = run_global_norm(set, arrays.data(), sizes.data(), n, space.data(), alone);
        const float b = run_global_norm(set, arrays.data(), sizes.data(), n, space.data(), three);
        CHECK(static_cast<double>(a) == doctest::Approx(std::sqrt(sum)).epsilon(1e-7));
        CHECK(std::memcmp(&a, &b, 4) == 0);
    }
}

TEST_CASE("updates have the same bits at any length and on any number of threads") {
    executor alone;
    pool_executor two(2);
    for (isa set : sets())
        for (std::int64_t n : {0, 1, 15, 33, 16384, 40001}) {
            const std::vector<float> w = numbers(n, 1), g = numbers(n, 2), m = numbers(n, 3), v = numbers(n, 4, 0, 1);
            std::vector<float> a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i].resize(w.size()), b[i].resize(w.size());
            const adam_step s = adam_step_of({}, 0.01, 3);
            run_adam(set, s, w.data(), g.data(), m.data(), v.data(), a[0].data(), a[1].data(), a[2].data(), n, alone);
            run_adam(set, s, w.data(), g.data(), m.data(), v.data(), b[0].data(), b[1].data(), b[2].data(), n, two);
            run_moving_average(set, 0.99, w.data(), g.data(), a[3].data(), n, alone);
            run_moving_average(set, 0.99, w.data(), g.data(), b[3].data(), n, two);
            for (int i = 0; i < 4; ++i) CHECK(same(a[i], b[i]));
            std::vector<double> average;
            for (std::size_t i = 0; i < w.size(); ++i) average.push_back(0.99 * static_cast<double>(w[i]) + 0.01 * static_cast<double>(g[i]));
            CHECK(distance(a[3], average, 1) < 2e-7);
        }
}
