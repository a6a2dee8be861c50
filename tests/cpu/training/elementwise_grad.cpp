// Gradients of activations: against derivatives written out in double, tails, in place, any number of threads.
#include <graft/cpu/training/elementwise_grad.hpp>
#include <graft/cpu/training/saved.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace graft;
using namespace graft::cpu;
using namespace training_test;

namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// The activations themselves, in double; their slopes by formulas that the kernels do not use.
double slope(activation kind, double x, double alpha, double beta) {
    const double pi = 3.14159265358979323846;
    switch (kind) {
    case activation::none: return 1;
    case activation::relu: return x > 0 ? 1 : 0;
    case activation::clip: return x > alpha && x < beta ? 1 : 0;
    case activation::leaky_relu: return x > 0 ? 1 : alpha;
    case activation::sigmoid: return logistic(x) * logistic(-x);
    case activation::silu: return logistic(x) + x * logistic(x) * logistic(-x);
    case activation::hard_sigmoid: return alpha * x + beta > 0 && alpha * x + beta < 1 ? alpha : 0;
    case activation::hard_swish: return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case activation::tanh: return 1 / (std::cosh(x) * std::cosh(x));
    case activation::gelu: return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
    case activation::gelu_tanh: {
        const double k = std::sqrt(2 / pi), u = k * (x + 0.044715 * x * x * x), t = std::tanh(u);
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
    }
    case activation::elu: return x > 0 ? 1 : alpha * std::exp(x);
    case activation::softplus: return logistic(x);
    case activation::mish: {
        const double t = std::tanh(std::log1p(std::exp(x)));
        return t + x * (1 - t * t) * logistic(x);
    }
    }
    return 0;
}

}  // namespace

TEST_CASE("the slope of every activation is that of its formula, on every instruction set") {
    struct problem {
        activation kind;
        float alpha, beta;
    };
    const problem all[] = {{activation::none, 0, 0},
                           {activation::relu, 0, 0},
                           {activation::clip, 0, 6},
                           {activation::leaky_relu, 0.1f, 0},
                           {activation::sigmoid, 0, 0},
                           {activation::silu, 0, 0},
                           {activation::hard_sigmoid, 1.0f / 6, 0.5f},
                           {activation::hard_swish, 0, 0},
                           {activation::tanh, 0, 0},
                           {activation::gelu, 0, 0},
                           {activation::gelu_tanh, 0, 0},
                           {activation::elu, 1.5f, 0},
                           {activation::softplus, 0, 0},
                           {activation::mish, 0, 0}};
    std::vector<float> x;
    for (int i = -3000; i <= 3000; ++i) x.push_back(static_cast<float>(i) / 157.0f);
    for (float v : {0.0f, -0.0f, 1e-30f, -1e-30f, 50.0f, -50.0f, 120.0f, -120.0f, 1e6f, -1e6f, 3e38f, -3e38f}) x.push_back(v);
    const auto n = static_cast<std::int64_t>(x.size());
    const std::vector<float> dy = numbers(n, 5);
    executor alone;
    for (isa set : sets())
        for (const problem& p : all) {
            INFO("instruction set " << std::string(name(set)) << ", activation " << static_cast<int>(p.kind));
            std::vector<float> dx(x.size(), 9.0f);
            run_activation_grad(set, p.kind, p.alpha, p.beta, dy.data(), x.data(), dx.data(), nullptr, n, alone);
            double most = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                const double want = dy[i] * slope(p.kind, static_cast<double>(x[i]), static_cast<double>(p.alpha), static_cast<double>(p.beta));
                const double d = std::fabs(static_cast<double>(dx[i]) - want);
                if (!(d <= most)) most = d;
            }
            CHECK(most < 5e-7);
        }
}

TEST_CASE("relu and clip pass a gradient by their result: nothing at the bounds, nothing where it is NaN") {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> y = {0, -0.0f, 1, -1, 6, 5.5f, inf, -inf, nan, 1e-40f};
    for (int i = 0; i < 27; ++i) y.push_back(static_cast<float>(i % 9) - 1.0f);
    const auto n = static_cast<std::int64_t>(y.size());
    std::vector<float> dy = numbers(n, 7);
    dy[0] = inf, dy[3] = nan;  // what is dropped is 0, whatever it was
    executor alone;
    for (isa set : sets()) {
        INFO("instruction set " << std::string(name(set)));
        for (gradient_mask mask : {gradient_mask::relu, gradient_mask::clip}) {
            std::vector<float> dx(y.size()), in_place = dy;
            run_masked_grad(set, mask, 0, 6, dy.data(), y.data(), dx.data(), n, alone);
            run_masked_grad(set, mask, 0, 6, in_place.data(), y.data(), in_place.data(), n, alone);
            CHECK(same(dx, in_place));
            for (std::size_t i = 0; i < y.size(); ++i) {
                const bool pass = y[i] > 0 && (mask == gradient_mask::relu || y[i] < 6);
                if (!(y[i] > 0 && y[i] < 1e-38f)) CHECK(dx[i] == (pass ? dy[i] : 0.0f));
            }
        }
    }
}

TEST_CASE("elementwise gradients have the same bits on any number of threads, at any length") {
    pool_executor two(2), three(3);
    executor alone;
    for (isa set : sets())
        for (std::int64_t n : {0, 1, 3, 15, 16, 17, 16384, 16385, 50001}) {
            const std::vector<float> dy = numbers(n, 1), x = numbers(n, 2, -4, 4);
            std::vector<float> a(dy.size()), b(dy.size()), c = dy;
            run_activation_grad(set, activation::silu, 0, 0, dy.data(), x.data(), a.data(), nullptr, n, alone);
            run_activation_grad(set, activation::silu, 0, 0, dy.data(), x.data(), b.data(), nullptr, n, two);
            run_activation_grad(set, activation::silu, 0, 0, c.data(), x.data(), c.data(), nullptr, n, three);
            CHECK(same(a, b));
            CHECK(same(a, c));
        }
}

TEST_CASE("gradients of activations by what was kept in bfloat16 are those by the same numbers in float32, at any length") {
    pool_executor three(3);
    for (isa set : sets())
        for (const std::int64_t n : {1, 7, 16, 33, 50001}) {
            const std::vector<std::uint16_t> kept = narrowed(numbers(n, 3, -7, 7));
            const std::vector<float> wide = widened(kept), dy = numbers(n, 5);
            std::vector<float> want(wide.size()), got(wide.size());
            for (activation kind : {activation::leaky_relu, activation::silu, activation::gelu, activation::hard_swish}) {
                const bool near = kind == activation::gelu;  // which has a form of its own for results in bfloat16
                run_activation_grad(set, kind, 0.1f, 0, dy.data(), wide.data(), want.data(), nullptr, n, three);
                run_activation_grad(set, kind, 0.1f, 0, dy.data(), kept.data(), got.data(), nullptr, n, three);
                CHECK(same(got, want));
                // Gradients in bfloat16, and the function again beside them, which may come by another way than alone.
                const std::vector<std::uint16_t> narrow_dy = narrowed(dy);
                std::vector<std::uint16_t> narrow(wide.size()), again(wide.size()), beside(wide.size());
                run_activation_grad(set, kind, 0.1f, 0, widened(narrow_dy).data(), wide.data(), want.data(), nullptr, n, three);
                run_activation_grad(set, kind, 0.1f, 0, narrow_dy.data(), kept.data(), narrow.data(), again.data(), n, three);
                // Of one step in 128, and of the slope's parts where these nearly cancel.
                const auto close = [&](const std::vector<std::uint16_t>& a, const std::vector<float>& b, double beside_zero) {
                    const std::vector<float> x = widened(a);
                    for (std::size_t i = 0; i < x.size(); ++i)
                        if (!(std::fabs(double(x[i]) - double(b[i])) <= std::fabs(double(b[i])) / 128 + beside_zero)) return false;
                    return true;
                };
                if (near) CHECK(close(narrow, want, 2e-4));
                if (!near) CHECK(narrow == narrowed(want));
                run_activation_grad(set, kind, 0.1f, 0, dy.data(), kept.data(), got.data(), beside.data(), n, three);
                if (near) CHECK(close(again, widened(beside), 0));
                if (!near) CHECK(beside == again);
                run_activation_again(set, kind, 0.1f, 0, kept.data(), want.data(), nullptr, n, three);
                const std::vector<float> made = widened(again);
                double most = 0;
                for (std::size_t i = 0; i < made.size(); ++i)
                    most = std::max(most, std::fabs(double(made[i]) - double(want[i])) - std::fabs(double(want[i])) / 256);
                CHECK(most < 2e-6);
            }
            for (gradient_mask mask : {gradient_mask::none, gradient_mask::relu, gradient_mask::clip}) {
                run_masked_grad(set, mask, 0, 6, dy.data(), wide.data(), want.data(), n, three);
                run_masked_grad(set, mask, 0, 6, dy.data(), kept.data(), got.data(), n, three);
                CHECK(same(got, want));
            }
        }
}

TEST_CASE("GELU's slope, and GELU beside it, are rounded to bfloat16 within 9/16 of a step of their formulas, at every number that has them") {
    std::vector<std::uint16_t> x;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
        if ((bits & 0x7f80) != 0x7f80) x.push_back(static_cast<std::uint16_t>(bits));
    const std::vector<float> wide = widened(x);
    const std::vector<std::uint16_t> ones(x.size(), 0x3f80);
    executor alone;
    for (isa set : sets()) {
        INFO("instruction set " << std::string(name(set)));
        std::vector<std::uint16_t> dx(x.size()), y(x.size());
        run_activation_grad(set, activation::gelu, 0, 0, ones.data(), x.data(), dx.data(), y.data(), static_cast<std::int64_t>(x.size()), alone);
        const std::vector<float> slopes = widened(dx), made = widened(y);
        double most = 0, most_made = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double at = static_cast<double>(wide[i]), below = 0.5 * std::erfc(-at / std::sqrt(2.0)), want = slope(activation::gelu, at, 0, 0);
            // Where the slope is a difference of two numbers, of these.
            const double of = std::max(std::fabs(want), std::min(below, 1 - below) / 16), off = std::fabs(static_cast<double>(slopes[i]) - want);
            if (at > -12) most = larger_error(most, off / of);
            if (at > -12 && at != 0)
                most_made = larger_error(most_made, (std::fabs(static_cast<double>(made[i]) - at * below) - 1e-39) / std::fabs(at * below));
            if (at <= -12) CHECK(std::fabs(slopes[i]) + std::fabs(made[i]) < 1e-29f);
        }
        CHECK(most < 9.0 / 16 / 128);
        CHECK(most_made < 9.0 / 16 / 128);
    }
    // Infinite and no numbers.
    const std::vector<std::uint16_t> rest = {0x7f80, 0xff80, 0x7fc0}, one(3, 0x3f80);
    for (isa set : sets()) {
        std::vector<std::uint16_t> dx(3), y(3);
        run_activation_grad(set, activation::gelu, 0, 0, one.data(), rest.data(), dx.data(), y.data(), 3, alone);
        const std::vector<float> slopes = widened(dx), made = widened(y);
        CHECK(slopes[0] == 1);
        CHECK(std::isinf(made[0]));
        CHECK(std::fabs(slopes[1]) < 1e-35f);
        CHECK(std::fabs(made[1]) < 1e-35f);
        CHECK(std::isnan(slopes[2]));
        CHECK(std::isnan(made[2]));
    }
}

TEST_CASE("activations give what they read and make in bfloat16 as well, and of what was kept the same again, at any length") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (const std::int64_t n : {1, 16, 4099, 50001}) {
            const std::vector<float> x = numbers(n, 3, -7, 7);
            for (activation kind : {activation::silu, activation::gelu}) {
                std::vector<float> in_place = x, y(x.size()), of_kept(x.size());
                std::vector<std::uint16_t> x_narrow(x.size()), y_narrow(x.size()), again(x.size());
                run_activation_training(set, kind, 0, 0, in_place.data(), in_place.data(), x_narrow.data(), y_narrow.data(), n, three);
                run_activation_training(set, kind, 0, 0, x.data(), y.data(), nullptr, nullptr, n, alone);
                CHECK(same(in_place, y));
                CHECK(x_narrow == narrowed(x));
                CHECK(y_narrow == narrowed(y));
                run_activation_again(set, kind, 0, 0, x_narrow.data(), nullptr, again.data(), n, three);
                run_activation_training(set, kind, 0, 0, widened(x_narrow).data(), of_kept.data(), nullptr, nullptr, n, alone);
                CHECK(again == narrowed(of_kept));
                run_activation_again(set, kind, 0, 0, x_narrow.data(), y.data(), nullptr, n, three);
                CHECK(same(y, of_kept));
            }
        }
}
