// Softmax, normalisation, reductions and argmax against doubles: every instruction set, odd tails, any number of threads.
#include "../difference.hpp"
#include "sets.hpp"

#include <graft/cpu/rows.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

using namespace graft;
using namespace graft::cpu;
using kernel_test::on_every_isa;

namespace {

// Empty vectors have no address to give to memcmp.
int compare(const void* a, const void* b, std::size_t n) { return n ? std::memcmp(a, b, n) : 0; }

std::vector<float> numbers(std::int64_t n, std::uint32_t seed) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) seed = seed * 1664525u + 1013904223u, v = static_cast<float>(seed >> 8) / 2097152.0f - 3.0f;
    return x;
}

struct box {
    std::int64_t outer, n, inner;
};
const box boxes[] = {{1, 1, 1},   {3, 5, 1},    {4, 16, 1},    {7, 17, 1},    {2, 197, 1}, {5, 1000, 1}, {40, 1003, 1}, {21, 40, 1}, {1, 3, 2},   {2, 7, 5},
                     {3, 11, 64}, {2, 300, 67}, {2, 600, 130}, {1, 21, 5000}, {0, 3, 1},   {3, 4, 0},    {300, 3, 7},   {3, 196, 4}, {2, 700, 8}, {2, 1400, 3}};

// Runs with 1 to 4 threads, and in place where y is as large as x; all must have the same bits.
template <class T, class F>
std::vector<T> steady(std::int64_t size, const F& run) {
    std::vector<T> first;
    for (int threads = 1; threads <= 4; ++threads) {
        pool_executor pool(threads);
        std::vector<T> y(static_cast<std::size_t>(size) + 1, T(77));
        run(y.data(), pool);
        CHECK(y.back() == T(77));
        if (threads > 1) CHECK(compare(first.data(), y.data(), y.size() * sizeof(T)) == 0);
        first = y;
    }
    return first;
}

double at(const std::vector<float>& v, std::int64_t i) { return static_cast<double>(v[static_cast<std::size_t>(i)]); }

}  // namespace

TEST_CASE("softmax: rows and columns, and their logarithms") {
    on_every_isa([](isa set) {
        for (const box& b : boxes)
            for (bool logarithm : {false, true}) {
                const std::int64_t size = b.outer * b.n * b.inner;
                auto x = numbers(size, 1);
                for (float& v : x) v *= 10;
                const auto y =
                    steady<float>(size, [&](float* out, executor& pool) { run_softmax(set, x.data(), out, b.outer, b.n, b.inner, logarithm, pool); });
                executor alone;
                std::vector<float> inout = x;
                run_softmax(set, inout.data(), inout.data(), b.outer, b.n, b.inner, logarithm, alone);
                CHECK(compare(inout.data(), y.data(), static_cast<std::size_t>(size) * 4) == 0);
                double most = 0;
                for (std::int64_t o = 0; o < b.outer; ++o)
                    for (std::int64_t j = 0; j < b.inner; ++j) {
                        double top = -HUGE_VAL, sum = 0;
                        for (std::int64_t i = 0; i < b.n; ++i) top = std::fmax(top, at(x, (o * b.n + i) * b.inner + j));
                        for (std::int64_t i = 0; i < b.n; ++i) sum += std::exp(at(x, (o * b.n + i) * b.inner + j) - top);
                        for (std::int64_t i = 0; i < b.n; ++i) {
                            const double want = at(x, (o * b.n + i) * b.inner + j) - top - std::log(sum), got = at(y, (o * b.n + i) * b.inner + j);
                            // x - max is rounded: that alone is an error of |x - max| / 2^24 in the exponent.
                            const double error = logarithm ? std::fabs(got - want) : std::fabs(got / std::exp(want) - 1);
                            most = larger_error(most, error / (8 + std::fabs(want)));
                        }
                    }
                CHECK(most <= 1.2e-7);
            }
    });
}

TEST_CASE("softmax: minus infinity gets nothing, NaN spoils its row alone") {
    on_every_isa([](isa set) {
        executor alone;
        std::vector<float> x(40, 1.0f), y(40);
        x[3] = -HUGE_VALF, x[25] = std::nanf("");
        run_softmax(set, x.data(), y.data(), 2, 20, 1, false, alone);
        CHECK(y[3] == 0.0f);
        CHECK(y[4] == doctest::Approx(1.0 / 19));
        for (std::size_t i = 20; i < 40; ++i) CHECK(std::isnan(y[i]));
    });
}

TEST_CASE("layer_norm, RMS norm and group norm") {
    on_every_isa([](isa set) {
        for (const box& b : boxes) {
            if (b.inner != 1) continue;
            for (int form = 0; form < 4; ++form) {
                const bool centered = form & 1, affine = form & 2;
                auto x = numbers(b.outer * b.n, 2);
                for (float& v : x) v += 100.0f;  // a mean far from zero: one pass over squares would lose the variance
                const auto gamma = numbers(b.n, 3), beta = numbers(b.n, 4);
                std::vector<float> mean(static_cast<std::size_t>(b.outer) + 1), inverse(mean);
                const auto y = steady<float>(b.outer * b.n, [&](float* out, executor& pool) {
                    run_layer_norm(set, x.data(), out, b.outer, b.n, affine ? gamma.data() : nullptr, affine ? beta.data() : nullptr, 1e-5f, centered,
                                   mean.data(), inverse.data(), pool);
                });
                double most = 0;
                for (std::int64_t r = 0; r < b.outer; ++r) {
                    double m = 0, v = 0;
                    for (std::int64_t i = 0; i < b.n; ++i) m += at(x, r * b.n + i) / static_cast<double>(b.n);
                    if (!centered) m = 0;
                    for (std::int64_t i = 0; i < b.n; ++i) v += (at(x, r * b.n + i) - m) * (at(x, r * b.n + i) - m) / static_cast<double>(b.n);
                    most = larger_error(most, std::fabs(at(mean, r) - m) / 100);
                    for (std::int64_t i = 0; i < b.n; ++i) {
                        const double normal = (at(x, r * b.n + i) - m) / std::sqrt(v + 1e-5);
                        most = larger_error(most, std::fabs(at(y, r * b.n + i) - (affine ? normal * at(gamma, i) + at(beta, i) : normal)) / 8);
                    }
                }
                CHECK(most <= (b.n == 1 ? 1e-3 : 5e-6));
            }
        }
        for (std::int64_t groups : {1, 2, 6}) {
            const std::int64_t images = 3, channels = 6, area = 35, n = channels / groups * area;
            const auto x = numbers(images * channels * area, 5), gamma = numbers(channels, 6), beta = numbers(channels, 7);
            const auto y = steady<float>(images * channels * area, [&](float* out, executor& pool) {
                run_group_norm(set, x.data(), out, images, channels, area, groups, gamma.data(), beta.data(), 1e-5f, pool);
            });
            double most = 0;
            for (std::int64_t r = 0; r < images * groups; ++r) {
                double m = 0, v = 0;
                for (std::int64_t i = 0; i < n; ++i) m += at(x, r * n + i) / static_cast<double>(n);
                for (std::int64_t i = 0; i < n; ++i) v += (at(x, r * n + i) - m) * (at(x, r * n + i) - m) / static_cast<double>(n);
                for (std::int64_t i = 0; i < n; ++i) {
                    const std::int64_t c = (r * n + i) / area % channels;
                    most = larger_error(most, std::fabs(at(y, r * n + i) - ((at(x, r * n + i) - m) / std::sqrt(v + 1e-5) * at(gamma, c) + at(beta, c))));
                }
            }
            CHECK(most <= 1e-5);
        }
    });
}

TEST_CASE("reduce: every kind, along rows and columns, and a row long enough to be shared") {
    on_every_isa([](isa set) {
        std::vector<box> all(std::begin(boxes), std::end(boxes));
        all.push_back({2, 300001, 1});
        all.push_back({2, 0, 3});
        all.push_back({2, 0, 1});
        for (const box& b : all)
            for (reduce_kind kind :
                 {reduce_kind::sum, reduce_kind::mean, reduce_kind::max, reduce_kind::min, reduce_kind::sum_square, reduce_kind::l1, reduce_kind::l2}) {
                if (b.n == 0 && kind == reduce_kind::mean) continue;
                const auto x = numbers(b.outer * b.n * b.inner, 8);
                const auto y =
                    steady<float>(b.outer * b.inner, [&](float* out, executor& pool) { run_reduce(set, kind, x.data(), out, b.outer, b.n, b.inner, pool); });
                double most = 0;
                for (std::int64_t o = 0; o < b.outer; ++o)
                    for (std::int64_t j = 0; j < b.inner; ++j) {
                        double want = kind == reduce_kind::max ? -HUGE_VAL : kind == reduce_kind::min ? HUGE_VAL : 0, size = 1;
                        for (std::int64_t i = 0; i < b.n; ++i) {
                            const double v = at(x, (o * b.n + i) * b.inner + j);
                            if (kind == reduce_kind::max) want = std::fmax(want, v);
                            if (kind == reduce_kind::min) want = std::fmin(want, v);
                            if (kind == reduce_kind::sum || kind == reduce_kind::mean) want += v;
                            if (kind == reduce_kind::l1) want += std::fabs(v);
                            if (kind == reduce_kind::sum_square || kind == reduce_kind::l2) want += v * v;
                            size += std::fabs(v);
                        }
                        if (kind == reduce_kind::mean) want /= static_cast<double>(b.n), size /= static_cast<double>(b.n);
                        if (kind == reduce_kind::l2) want = std::sqrt(want);
                        if (kind == reduce_kind::sum_square) size *= 5;
                        const double got = at(y, o * b.inner + j);
                        if (got != want) most = larger_error(most, std::fabs(got - want) / size);
                    }
                CAPTURE(static_cast<int>(kind));
                CAPTURE(b.n);
                CAPTURE(b.inner);
                CHECK(most <= 1e-6);
            }
    });
}

TEST_CASE("reduce: max and min hand NaN on from any lane") {
    on_every_isa([](isa set) {
        executor alone;
        for (std::size_t place = 0; place < 70; place += 3) {
            std::vector<float> x(70, 1.0f), y(70);
            x[place] = std::nanf("");
            for (reduce_kind kind : {reduce_kind::max, reduce_kind::min}) {
                run_reduce(set, kind, x.data(), y.data(), 1, 70, 1, alone);
                CHECK(std::isnan(y[0]));
                run_reduce(set, kind, x.data(), y.data(), 1, 10, 7, alone);
                for (std::size_t j = 0; j < 7; ++j) CHECK(std::isnan(y[j]) == (j == place % 7));
            }
        }
    });
}

TEST_CASE("arg: first and last of the highest and lowest, with ties and NaN") {
    on_every_isa([](isa set) {
        for (const box& b : boxes)
            for (int form = 0; form < 8; ++form) {
                const bool lowest = form & 1, last = form & 2;
                auto x = numbers(b.outer * b.n * b.inner, 9);
                for (float& v : x) v = std::floor(v * 2);  // many ties
                if (form & 4)
                    for (std::size_t i = 0; i < x.size(); i += 13) x[i] = std::nanf("");
                const auto y = steady<std::int64_t>(
                    b.outer * b.inner, [&](std::int64_t* out, executor& pool) { run_arg(set, lowest, last, x.data(), out, b.outer, b.n, b.inner, pool); });
                bool right = true;
                for (std::int64_t o = 0; o < b.outer; ++o)
                    for (std::int64_t j = 0; j < b.inner; ++j) {
                        std::int64_t want = 0;
                        for (std::int64_t i = 1; i < b.n; ++i) {
                            const double v = at(x, (o * b.n + i) * b.inner + j), best = at(x, (o * b.n + want) * b.inner + j);
                            const bool better = best != best ? false : v != v || (lowest ? v < best : v > best);
                            const bool equal = best != best ? v != v : v == best;
                            if (better || (last && equal)) want = i;
                        }
                        right = right && y[static_cast<std::size_t>(o * b.inner + j)] == want;
                    }
                CAPTURE(form);
                CAPTURE(b.n);
                CHECK(right);
            }
        executor alone;
        std::vector<float> x(20, -HUGE_VALF);
        std::int64_t place = 77;
        run_arg(set, false, false, x.data(), &place, 1, 20, 1, alone);
        CHECK(place == 0);
        run_arg(set, false, true, x.data(), &place, 1, 20, 1, alone);
        CHECK(place == 19);
    });
}
