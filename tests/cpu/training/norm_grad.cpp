// Batch normalisation in training against plain loops in double: layouts, odd channels, few samples, masks, threads.
#include <graft/cpu/training/norm_grad.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace graft;
using namespace graft::cpu;
using namespace training_test;

namespace {

struct problem {
    std::int64_t n, c, area;
    int shards;
    activation act;
    bool residual;
    float centre;  // what the numbers lie around
};

struct forward_result {
    std::vector<float> y, new_mean, new_variance, mean, inverse, applied;
    std::vector<std::uint16_t> x_narrow, y_narrow;  // where they are wanted: as they lie
};

enum class form { planes, blocks };

std::vector<float> laid(const std::vector<float>& x, const problem& p, isa set, form f) {
    return f == form::blocks ? to_blocks(x, p.n, p.c, p.area, vector_width(set)) : x;
}
std::vector<float> back(const std::vector<float>& x, const problem& p, isa set, form f) {
    return f == form::blocks ? to_planes(x, p.n, p.c, p.area, vector_width(set)) : x;
}

norm_problem made(const problem& p, form f) {
    norm_problem q;
    q.n = p.n, q.c = p.c, q.area = p.area, q.blocked = f == form::blocks;
    q.tree.count = p.shards;
    q.momentum = 0.75;
    q.ep.act = p.act, q.ep.alpha = p.act == activation::clip ? -0.5f : 0, q.ep.beta = 0.75f;
    return q;
}

struct inputs {
    std::vector<float> x, scale, bias, running_mean, running_variance, residual;
    explicit inputs(const problem& p)
        : x(numbers(p.n * p.c * p.area, 3, p.centre - 2, p.centre + 2)), scale(numbers(p.c, 4, 0.5f, 1.5f)), bias(numbers(p.c, 5)),
          running_mean(numbers(p.c, 6)), running_variance(numbers(p.c, 7, 0.5f, 2)), residual(numbers(p.n * p.c * p.area, 8)) {}
};

std::vector<unsigned char> workspace(isa set, const norm_problem& q) {
    // Whatever was there before must not matter.
    return std::vector<unsigned char>(static_cast<std::size_t>(norm_workspace_bytes(set, q)), 0xff);
}

forward_result forward(isa set, const problem& p, form f, const inputs& in, executor& pool, bool in_place = false, bool narrow = false) {
    const norm_problem q = made(p, f);
    const std::size_t c = static_cast<std::size_t>(p.c);
    forward_result r;
    std::vector<float> x = laid(in.x, p, set, f), residual = laid(in.residual, p, set, f), y(x.size());
    r.new_mean = in.running_mean, r.new_variance = in.running_variance;  // in place
    r.mean.resize(c), r.inverse.resize(c), r.applied.resize(2 * c);
    if (narrow) r.x_narrow.resize(x.size()), r.y_narrow.resize(x.size());
    std::vector<unsigned char> scratch = workspace(set, q);
    REQUIRE(
        run_batch_norm_training(set, q,
                                {x.data(), in.scale.data(), in.bias.data(), r.new_mean.data(), r.new_variance.data(), p.residual ? residual.data() : nullptr,
                                 in_place ? x.data() : y.data(), r.new_mean.data(), r.new_variance.data(), r.mean.data(), r.inverse.data(),
                                 narrow ? r.x_narrow.data() : nullptr, narrow ? r.y_narrow.data() : nullptr, r.applied.data()},
                                scratch.data(), pool)
            .ok());
    r.y = back(in_place ? x : y, p, set, f);
    return r;
}

double act(const norm_problem& q, double x) {
    if (q.ep.act == activation::relu) return x > 0 ? x : 0;
    if (q.ep.act == activation::clip) return std::fmin(static_cast<double>(q.ep.beta), std::fmax(static_cast<double>(q.ep.alpha), x));
    if (q.ep.act == activation::silu) return x / (1 + std::exp(-x));
    return x;
}

void check_forward(const forward_result& got, const problem& p, const inputs& in) {
    const norm_problem q = made(p, form::planes);
    const double count = static_cast<double>(p.n * p.area);
    std::vector<double> y(in.x.size()), means, inverses, new_means, new_variances;
    for (std::int64_t c = 0; c < p.c; ++c) {
        double sum = 0, square = 0;
        const auto each = [&](auto&& f) {
            for (std::int64_t i = 0; i < p.n; ++i)
                for (std::int64_t a = 0; a < p.area; ++a) f(static_cast<std::size_t>((i * p.c + c) * p.area + a));
        };
        const std::size_t at = static_cast<std::size_t>(c);
        each([&](std::size_t i) { sum += static_cast<double>(in.x[i]); });
        const double mean = sum / count;
        each([&](std::size_t i) { square += (static_cast<double>(in.x[i]) - mean) * (static_cast<double>(in.x[i]) - mean); });
        const double variance = square / count, inverse = 1 / std::sqrt(variance + 1e-5);
        each([&](std::size_t i) {
            double v = (static_cast<double>(in.x[i]) - mean) * inverse * static_cast<double>(in.scale[at]) + static_cast<double>(in.bias[at]);
            if (p.residual) v += static_cast<double>(in.residual[i]);
            y[i] = act(q, v);
        });
        means.push_back(mean), inverses.push_back(inverse);
        new_means.push_back(0.75 * static_cast<double>(in.running_mean[at]) + 0.25 * mean);
        new_variances.push_back(0.75 * static_cast<double>(in.running_variance[at]) + 0.25 * (count > 1 ? square / (count - 1) : 0));
    }
    // The unit is the spread of the numbers, not where they lie.
    const double unit = 1 + std::fabs(static_cast<double>(p.centre)) * 0.1;
    CHECK(distance(got.y, y, unit) < 2e-6);
    CHECK(distance(got.mean, means, 1) < 3e-7);
    CHECK(distance(got.inverse, inverses, 1) < 1e-6);
    CHECK(distance(got.new_mean, new_means, 1) < 3e-7);
    CHECK(distance(got.new_variance, new_variances, 1) < 1e-6);
}

const problem problems[] = {
    {1, 1, 5, 8, activation::none, false, 0},        {1, 3, 1, 8, activation::none, false, 0},     {2, 5, 7, 8, activation::relu, false, 0},
    {3, 17, 49, 8, activation::clip, true, 0},       {4, 16, 300, 2, activation::none, true, 0},   {5, 33, 1, 8, activation::relu, true, 0},
    {6, 19, 1100, 8, activation::none, false, 1000}, {7, 2, 6, 8, activation::relu, true, 0},      {8, 40, 9, 8, activation::clip, false, 0},
    {9, 21, 16, 8, activation::relu, true, 0},       {9, 70, 1, 8, activation::none, false, -50},  {3, 7, 20, 256, activation::silu, true, 0},
    {9, 5, 33, 1, activation::none, false, 0},       {17, 130, 4, 16, activation::relu, false, 0}, {2, 3, 5000, 4, activation::silu, false, 0},
};

}  // namespace

TEST_CASE("batch normalisation in training is the formula's, with running statistics as PyTorch has them") {
    executor alone;
    for (isa set : sets())
        for (const problem& p : problems)
            for (form f : {form::planes, form::blocks}) {
                INFO("instruction set " << std::string(name(set)) << ", n " << p.n << " c " << p.c << " area " << p.area << " blocks " << (f == form::blocks));
                const inputs in(p);
                check_forward(forward(set, p, f, in, alone), p, in);
            }
}

TEST_CASE("batch normalisation in training gives what it reads and makes in bfloat16 as well, and the rest as without that") {
    pool_executor three(3);
    for (isa set : sets())
        for (const problem& p : problems)
            for (form f : {form::planes, form::blocks}) {
                if (p.act > activation::clip) continue;
                const inputs in(p);
                const forward_result plain = forward(set, p, f, in, three), r = forward(set, p, f, in, three, true, true);
                CHECK(same(r.y, plain.y));
                CHECK(same(r.inverse, plain.inverse));
                CHECK(same(back(widened(r.x_narrow), p, set, f), widened(narrowed(in.x))));
                CHECK(same(back(widened(r.y_narrow), p, set, f), widened(narrowed(plain.y))));
            }
}

TEST_CASE("batch normalisation in training has the same bits in place and on any number of threads") {
    executor alone;
    pool_executor two(2), five(5);
    for (isa set : sets())
        for (const problem& p : problems)
            for (form f : {form::planes, form::blocks}) {
                const inputs in(p);
                const forward_result a = forward(set, p, f, in, alone), b = forward(set, p, f, in, two), c = forward(set, p, f, in, five, true);
                for (const forward_result* r : {&b, &c}) {
                    CHECK(same(a.y, r->y));
                    CHECK(same(a.mean, r->mean));
                    CHECK(same(a.inverse, r->inverse));
                    CHECK(same(a.new_variance, r->new_variance));
                }
            }
}

TEST_CASE("a variance survives numbers far from zero and a first number far from the others") {
    executor alone;
    for (isa set : sets())
        for (form f : {form::planes, form::blocks}) {
            problem p{4, 3, 500, 8, activation::none, false, 0};
            inputs in(p);
            for (std::size_t i = 0; i < in.x.size(); ++i) in.x[i] = 10000 + in.x[i] * 0.25f;
            in.x[0] = -3e4f;
            const forward_result r = forward(set, p, f, in, alone);
            for (std::int64_t c = 0; c < p.c; ++c) {
                double sum = 0, square = 0;
                for (int pass = 0; pass < 2; ++pass)
                    for (std::int64_t i = 0; i < p.n; ++i)
                        for (std::int64_t a = 0; a < p.area; ++a) {
                            const double v = static_cast<double>(in.x[static_cast<std::size_t>((i * p.c + c) * p.area + a)]);
                            if (pass)
                                square += (v - sum / 2000) * (v - sum / 2000);
                            else
                                sum += v;
                        }
                const double inverse = 1 / std::sqrt(square / 2000 + 1e-5);
                CHECK(static_cast<double>(r.inverse[static_cast<std::size_t>(c)]) == doctest::Approx(inverse).epsilon(2e-6));
            }
        }
}

namespace {

struct backward_result {
    std::vector<float> dx, dscale, dbias, masked;
};

backward_result backward(isa set, const problem& p, form f, const inputs& in, const forward_result& r, const std::vector<float>& dy_planes, executor& pool,
                         bool in_place, bool masked, bool narrow = false, bool again = false) {
    const norm_problem q = made(p, f);
    backward_result b;
    std::vector<float> x = laid(in.x, p, set, f), y = laid(r.y, p, set, f), dy = laid(dy_planes, p, set, f), dx(x.size()), m(x.size());
    b.dscale.resize(static_cast<std::size_t>(p.c)), b.dbias.resize(static_cast<std::size_t>(p.c));
    std::vector<unsigned char> scratch = workspace(set, q);
    saved_activation x_at = x.data(), y_at = y.data();
    std::vector<std::uint16_t> narrow_x, narrow_y;
    if (narrow) x_at = (narrow_x = narrowed(x)).data(), y_at = (narrow_y = narrowed(y)).data();
    if (again) y_at = {};
    REQUIRE(run_batch_norm_grad(set, q,
                                {dy.data(), in.scale.data(), r.mean.data(), r.inverse.data(), x_at, y_at, in_place ? dy.data() : dx.data(), b.dscale.data(),
                                 b.dbias.data(), masked ? m.data() : nullptr, again ? r.applied.data() : nullptr},
                                scratch.data(), pool)
                .ok());
    b.dx = back(in_place ? dy : dx, p, set, f);
    b.masked = back(m, p, set, f);
    return b;
}

}  // namespace

TEST_CASE("the gradient of batch normalisation by what was kept in bfloat16 is that by the same numbers in float32") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (problem p : problems)
            for (form f : {form::planes, form::blocks})
                for (bool masked : {false, true}) {
                    if (p.act == activation::silu) p.act = activation::none;
                    inputs in(p);
                    in.x = widened(narrowed(in.x));
                    forward_result r = forward(set, p, f, in, alone);
                    r.y = widened(narrowed(r.y));
                    const std::vector<float> dy = numbers(p.n * p.c * p.area, 9);
                    const backward_result want = backward(set, p, f, in, r, dy, alone, false, masked);
                    const backward_result got = backward(set, p, f, in, r, dy, three, !masked, masked, true);
                    CHECK(same(got.dx, want.dx));
                    CHECK(same(got.dscale, want.dscale));
                    CHECK(same(got.dbias, want.dbias));
                    CHECK(same(got.masked, want.masked));
                }
}

TEST_CASE("the gradient of batch normalisation has the same bits whether what was let through is read or made again of the input") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (const problem& p : problems)
            for (form f : {form::planes, form::blocks})
                for (bool masked : {false, true}) {
                    if (p.act == activation::silu || p.residual) continue;
                    const inputs in(p);
                    const forward_result r = forward(set, p, f, in, alone);
                    const std::vector<float> dy = numbers(p.n * p.c * p.area, 9);
                    const backward_result want = backward(set, p, f, in, r, dy, alone, false, masked);
                    const backward_result got = backward(set, p, f, in, r, dy, three, !masked, masked, false, true);
                    CHECK(same(got.dx, want.dx));
                    CHECK(same(got.dscale, want.dscale));
                    CHECK(same(got.dbias, want.dbias));
                    CHECK(same(got.masked, want.masked));
                }
}

TEST_CASE("the gradient of batch normalisation is the formula's, behind relu and clip too") {
    executor alone;
    pool_executor two(2), five(5);
    for (isa set : sets())
        for (problem p : problems)
            for (form f : {form::planes, form::blocks}) {
                if (p.act == activation::silu) p.act = activation::none;
                INFO("instruction set " << std::string(name(set)) << ", n " << p.n << " c " << p.c << " area " << p.area << " blocks " << (f == form::blocks));
                const inputs in(p);
                const forward_result r = forward(set, p, f, in, alone);
                const std::vector<float> dy = numbers(p.n * p.c * p.area, 9);
                const backward_result b = backward(set, p, f, in, r, dy, alone, false, true);
                const norm_problem q = made(p, f);
                std::vector<double> dx(in.x.size()), dscale, dbias, masked(in.x.size());
                const double count = static_cast<double>(p.n * p.area);
                for (std::int64_t c = 0; c < p.c; ++c) {
                    const auto k = static_cast<std::size_t>(c);
                    const double mean = static_cast<double>(r.mean[k]), inverse = static_cast<double>(r.inverse[k]);
                    double sum = 0, product = 0;
                    for (int pass = 0; pass < 2; ++pass)
                        for (std::int64_t i = 0; i < p.n; ++i)
                            for (std::int64_t a = 0; a < p.area; ++a) {
                                const auto at = static_cast<std::size_t>((i * p.c + c) * p.area + a);
                                const double y = static_cast<double>(r.y[at]), normal = (static_cast<double>(in.x[at]) - mean) * inverse;
                                bool pass_on = true;
                                if (p.act == activation::relu) pass_on = y > 0;
                                if (p.act == activation::clip) pass_on = y > static_cast<double>(q.ep.alpha) && y < static_cast<double>(q.ep.beta);
                                const double d = pass_on ? static_cast<double>(dy[at]) : 0;
                                if (pass == 0)
                                    sum += d, product += d * normal, masked[at] = d;
                                else
                                    dx[at] = static_cast<double>(in.scale[static_cast<std::size_t>(c)]) * inverse * (d - (sum + normal * product) / count);
                            }
                    dscale.push_back(product), dbias.push_back(sum);
                }
                const double unit = 1 + std::fabs(static_cast<double>(p.centre)) * 0.1;
                CHECK(distance(b.dx, dx, unit) < 2e-6);
                CHECK(distance(b.dscale, dscale, std::sqrt(count)) < 2e-6);
                CHECK(distance(b.dbias, dbias, std::sqrt(count)) < 1e-6);
                CHECK(distance(b.masked, masked) == 0);
                // In place, without the masked gradient, on other threads.
                const backward_result c = backward(set, p, f, in, r, dy, two, true, false), d = backward(set, p, f, in, r, dy, five, false, true);
                CHECK(same(b.dx, c.dx));
                CHECK(same(b.dscale, c.dscale));
                CHECK(same(b.dx, d.dx));
                CHECK(same(b.dbias, d.dbias));
            }
}
