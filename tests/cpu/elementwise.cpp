// Elementwise kernels: accuracy in ulp over the whole range of floats, broadcasting, tails, in-place use, any number of threads.
#include "../difference.hpp"
#include "sets.hpp"

#include <graft/cpu/elementwise.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
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
    for (float& v : x) seed = seed * 1664525u + 1013904223u, v = static_cast<float>(seed >> 8) / 2097152.0f - 4.0f;
    return x;
}

// Distance in units of the last place of the true value; NaN equals NaN, and what rounds to infinity is infinity.
double ulps(float got, double want) {
    if (want != want) return got != got ? 0 : 1e30;
    const float rounded = static_cast<float>(want);
    if (std::isinf(rounded)) return got == rounded ? 0 : 1e30;
    if (!(got == got) || std::isinf(got)) return 1e30;
    int exponent = 0;
    std::frexp(std::fabs(want), &exponent);
    const double unit = std::fabs(want) < 1.17549435e-38 ? std::ldexp(1.0, -149) : std::ldexp(1.0, exponent - 24);
    return std::fabs(static_cast<double>(got) - want) / unit;
}

// The worst error over floats of every exponent and sign: every `step`-th bit pattern, and the special ones.
// Errors below `absolute` are not counted: where a result underflows, a factor before it has lost its bits already.
template <class F>
double worst(isa set, const F& run, double (*truth)(double), double absolute = 0, std::uint32_t step = 9973) {
    std::vector<float> x;
    for (std::uint64_t bits = 0; bits < (std::uint64_t(1) << 32); bits += step) {
        const auto low = static_cast<std::uint32_t>(bits);
        float v;
        std::memcpy(&v, &low, 4);
        x.push_back(v);
    }
    for (float v : {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, std::nanf(""), 1.17549435e-38f, -1.17549435e-38f, 1.4e-45f, -1.4e-45f, 3.4028234e38f, -3.4028234e38f,
                    88.72283f, 88.72284f, -87.33655f, -103.97f, -103.98f, 1.0f, -1.0f})
        x.push_back(v);
    for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) / 173.0f);
    std::vector<float> y(x.size());
    run(set, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    double most = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double want = truth(static_cast<double>(x[i])), e = ulps(y[i], want);
        if (e > most && !(std::fabs(static_cast<double>(y[i]) - want) <= absolute)) most = e;
    }
    return most;
}

template <unary Op>
double worst(isa set, double (*truth)(double)) {
    return worst(
        set,
        [](isa s, const float* x, float* y, std::int64_t n) {
            executor alone;
            run_unary(s, Op, x, y, n, alone);
        },
        truth);
}
template <activation Kind>
double worst(isa set, double (*truth)(double), float alpha = 0, float beta = 0, double absolute = 0) {
    const float a = alpha, b = beta;
    return worst(
        set,
        [a, b](isa s, const float* x, float* y, std::int64_t n) {
            executor alone;
            run_activation(s, Kind, a, b, x, y, n, alone);
        },
        truth, absolute);
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double log1p_exp(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }

double of(binary op, float a, float b) {
    const double x = static_cast<double>(a), y = static_cast<double>(b);
    switch (op) {
    case binary::add: return static_cast<double>(a + b);
    case binary::sub: return static_cast<double>(a - b);
    case binary::mul: return static_cast<double>(a * b);
    case binary::div: return static_cast<double>(a / b);
    case binary::max: return x != x ? x : y != y ? y : std::fmax(x, y);
    case binary::min: return x != x ? x : y != y ? y : std::fmin(x, y);
    case binary::pow: return static_cast<double>(std::pow(a, b));
    case binary::prelu: return a < 0 ? static_cast<double>(a * b) : x;
    }
    return 0;
}

}  // namespace

TEST_CASE("elementwise: functions are accurate over the whole range of floats, infinities, NaN and subnormals") {
    on_every_isa([](isa set) {
        CHECK(worst<unary::exp>(set, [](double x) { return std::exp(x); }) <= 1.2);
        CHECK(worst<unary::log>(set, [](double x) { return std::log(x); }) <= 1.2);
        CHECK(worst<unary::erf>(set, [](double x) { return std::erf(x); }) <= 1.5);
        CHECK(worst<unary::sqrt>(set, [](double x) { return std::sqrt(x); }) <= 0.5);
        CHECK(worst<unary::reciprocal>(set, [](double x) { return 1 / x; }) <= 0.5);
        CHECK(worst<unary::abs>(set, [](double x) { return std::fabs(x); }) == 0);
        CHECK(worst<unary::neg>(set, [](double x) { return -x; }) == 0);
        CHECK(worst<unary::floor>(set, [](double x) { return std::floor(x); }) == 0);
        CHECK(worst<unary::ceil>(set, [](double x) { return std::ceil(x); }) == 0);
        CHECK(worst<unary::round>(set, [](double x) { return std::nearbyint(x); }) == 0);
        CHECK(worst<unary::sign>(set, [](double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }) == 0);
        CHECK(worst<unary::square>(set, [](double x) { return x * x; }) <= 0.5);
        CHECK(worst<activation::none>(set, [](double x) { return x; }) == 0);
        CHECK(worst<activation::relu>(set, [](double x) { return x > 0 || x != x ? x : 0; }) == 0);
        CHECK(worst<activation::clip>(
                  set, [](double x) { return x < -1  ? -1
                                             : x > 2 ? 2
                                                     : x; }, -1, 2) == 0);
        CHECK(worst<activation::leaky_relu>(
                  set, [](double x) { return x < 0 ? 0.25 * x : x; }, 0.25f) <= 0.5);
        CHECK(worst<activation::sigmoid>(set, logistic) <= 2.5);
        CHECK(worst<activation::tanh>(set, [](double x) { return std::tanh(x); }) <= 2.6);
        CHECK(worst<activation::elu>(
                  set, [](double x) { return x < 0 ? std::expm1(x) : x; }, 1) <= 1.2);
        CHECK(worst<activation::softplus>(set, log1p_exp) <= 2.2);
        CHECK(worst<activation::silu>(
                  set, [](double x) { return x * logistic(x); }, 0, 0, 1e-42) <= 3.5);
        CHECK(worst<activation::mish>(
                  set, [](double x) { return x * std::tanh(log1p_exp(x)); }, 0, 0, 1e-42) <= 4.5);
        // Below zero gelu is a small difference of large terms: that is measured by itself.
        CHECK(worst<activation::gelu>(
                  set, [](double x) { return x == -HUGE_VAL ? 0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 0, 0, 1.3e-6) <= 4);
        // The argument of its exponential is rounded: what is lost grows with |x|, where the result is next to nothing.
        CHECK(worst<activation::gelu_tanh>(
                  set, [](double x) { return x * logistic(std::sqrt(8 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)); }, 0, 0, 2e-8) <= 8);
        CHECK(worst<activation::hard_sigmoid>(
                  set, [](double x) { return x != x ? x : std::fmax(0, std::fmin(1, 0.25 * x + 0.5)); }, 0.25f, 0.5f, 1e-7) <= 1);
        CHECK(worst<activation::hard_swish>(
                  set, [](double x) { return x * (x != x ? x : std::fmax(0, std::fmin(1, x / 6 + 0.5))); }, 0, 0, 1e-6) <= 2);
    });
}

TEST_CASE("elementwise: every length, in place, and any number of threads give the same bits") {
    on_every_isa([](isa set) {
        executor alone;
        const auto x = numbers(70000, 1);
        std::vector<float> all(x.size());
        run_activation(set, activation::silu, 0, 0, x.data(), all.data(), static_cast<std::int64_t>(x.size()), alone);
        for (std::int64_t n = 0; n < 70; ++n) {
            std::vector<float> y(static_cast<std::size_t>(n) + 1, 7.0f);
            run_activation(set, activation::silu, 0, 0, x.data() + 3, y.data(), n, alone);
            CHECK(compare(y.data(), all.data() + 3, static_cast<std::size_t>(n) * 4) == 0);
            CHECK(y[static_cast<std::size_t>(n)] == 7.0f);
        }
        for (int threads = 1; threads <= 4; ++threads) {
            pool_executor pool(threads);
            std::vector<float> y = x;
            run_activation(set, activation::silu, 0, 0, y.data(), y.data(), static_cast<std::int64_t>(y.size()), pool);
            CHECK(compare(y.data(), all.data(), y.size() * 4) == 0);
        }
    });
}

TEST_CASE("binary: broadcasting in up to eight dimensions, with activations") {
    struct shapes {
        std::vector<std::int64_t> a, b;
    };
    const shapes cases[] = {{{}, {}},
                            {{5}, {}},
                            {{}, {7}},
                            {{3, 37}, {37}},
                            {{3, 37}, {3, 1}},
                            {{2, 3, 5, 7}, {3, 1, 1}},
                            {{2, 3, 35}, {2, 1, 35}},
                            {{1, 4, 1}, {5, 1, 33}},
                            {{2, 1, 3, 1, 2, 1, 3, 1}, {1, 2, 1, 3, 1, 2, 1, 3}},
                            {{40, 1000}, {40, 1000}},
                            {{100, 3}, {3}},
                            {{0, 3}, {3}},
                            {{3, 20000}, {1}},
                            {{2, 4, 1}, {2, 4, 17}},
                            {{2, 3, 5, 7, 16}, {2, 3, 1, 1, 16}},
                            {{2, 3, 5, 7, 8}, {3, 1, 1, 8}},
                            {{2, 3, 1, 7, 4}, {2, 3, 5, 1, 4}}};
    on_every_isa([&](isa set) {
        int form = 0;
        for (const shapes& s : cases)
            for (binary op : {binary::add, binary::sub, binary::mul, binary::div, binary::max, binary::min, binary::pow, binary::prelu}) {
                binary_problem p = broadcast(op, s.a.data(), static_cast<int>(s.a.size()), s.b.data(), static_cast<int>(s.b.size()));
                const int kind = form++ % 3;
                p.ep.act = kind == 0 ? activation::none : kind == 1 ? activation::relu : activation::sigmoid;
                std::int64_t a_size = 1, b_size = 1, size = 1;
                for (auto e : s.a) a_size *= e;
                for (auto e : s.b) b_size *= e;
                for (int d = 0; d < p.rank; ++d) size *= p.extents[d];
                auto a = numbers(a_size, 3), b = numbers(b_size, 4);
                if (a_size > 4) a[4] = std::nanf("");
                if (b_size > 2) b[2] = std::nanf("");
                std::vector<float> first(static_cast<std::size_t>(size) + 1, 9.0f);
                for (int threads = 1; threads <= 4; ++threads) {
                    pool_executor pool(threads);
                    std::vector<float> y(static_cast<std::size_t>(size) + 1, 9.0f);
                    run_binary(set, p, a.data(), b.data(), y.data(), pool);
                    CHECK(y.back() == 9.0f);
                    if (threads > 1) CHECK(compare(first.data(), y.data(), y.size() * 4) == 0);
                    first = y;
                }
                double most = 0;
                for (std::int64_t i = 0; i < size; ++i) {
                    std::int64_t rest = i, at_a = 0, at_b = 0;
                    for (int d = p.rank - 1; d >= 0; --d) {
                        at_a += rest % p.extents[d] * p.a_strides[d], at_b += rest % p.extents[d] * p.b_strides[d];
                        rest /= p.extents[d];
                    }
                    double want = of(op, a[static_cast<std::size_t>(at_a)], b[static_cast<std::size_t>(at_b)]);
                    if (kind == 1) want = want > 0 || want != want ? want : 0;
                    if (kind == 2) want = logistic(want);
                    most = larger_error(most, ulps(first[static_cast<std::size_t>(i)], want));
                }
                CAPTURE(static_cast<int>(op));
                CAPTURE(form);
                CHECK(most <= (kind == 2 ? 2.5 : op == binary::pow ? 1.0 : 0.0));
                if (a_size == size) {
                    std::vector<float> inout = a;
                    executor alone;
                    run_binary(set, p, inout.data(), b.data(), inout.data(), alone);
                    CHECK(compare(inout.data(), first.data(), static_cast<std::size_t>(size) * 4) == 0);
                }
            }
    });
}

TEST_CASE("binary: powers with one exponent have powf's special values") {
    on_every_isa([](isa set) {
        executor alone;
        const float x[] = {-HUGE_VALF, HUGE_VALF, -0.0f, 0.0f, -2.0f, 2.0f, std::nanf(""), 1e20f, -1e-30f};
        for (float e : {0.5f, 2.0f, 3.0f, -1.0f, 1.0f, 0.0f, 2.5f, 0.75f, -0.5f}) {
            const std::int64_t n = 9;
            float y[9];
            run_binary(set, broadcast(binary::pow, &n, 1, nullptr, 0), x, &e, y, alone);
            for (int i = 0; i < 9; ++i) {
                const float want = std::pow(x[i], e);
                CAPTURE(x[i]);
                CAPTURE(e);
                CHECK(ulps(y[i], static_cast<double>(want)) <= 1);
                if (want == want) CHECK(std::signbit(y[i]) == std::signbit(want));
            }
        }
    });
}

TEST_CASE("channel: scale and shift in both layouts, shared or by image, and prelu") {
    on_every_isa([](isa set) {
        const std::int64_t images = 3, channels = 37, area = 21;
        for (int form = 0; form < 16; ++form) {
            CAPTURE(form);
            channel_problem p;
            p.n = images, p.c = channels, p.area = area;
            p.blocked = form & 1;
            p.prelu = form & 8;
            const std::int64_t width = p.blocked ? vector_width(set) : 1, blocks = (channels + width - 1) / width;
            p.scale_image = form & 2 ? blocks * width : 0;
            p.shift_image = form & 2 ? blocks * width : 0;
            p.ep.act = p.prelu ? activation::none : form & 4 ? activation::relu : activation::tanh;
            const auto x = numbers(images * blocks * width * area, 1), scale = numbers(images * blocks * width, 2), shift = numbers(images * blocks * width, 3);
            std::vector<float> first;
            for (int threads = 1; threads <= 4; ++threads) {
                pool_executor pool(threads);
                std::vector<float> y = x;
                run_channel(set, p, y.data(), scale.data(), p.prelu || form == 5 ? nullptr : shift.data(), y.data(), pool);
                if (threads > 1) CHECK(compare(first.data(), y.data(), y.size() * 4) == 0);
                first = y;
            }
            double most = 0;
            for (std::int64_t i = 0; i < images; ++i)
                for (std::int64_t c = 0; c < channels; ++c)
                    for (std::int64_t s = 0; s < area; ++s) {
                        const auto at = static_cast<std::size_t>(((i * blocks + c / width) * area + s) * width + c % width);
                        const double v = static_cast<double>(x[at]), a = static_cast<double>(scale[static_cast<std::size_t>(i * p.scale_image + c)]);
                        double want = v * a + (form == 5 ? 0 : static_cast<double>(shift[static_cast<std::size_t>(i * p.shift_image + c)]));
                        want = p.prelu ? (v < 0 ? v * a : v) : form & 4 ? std::fmax(want, 0) : std::tanh(want);
                        most = larger_error(most, std::fabs(static_cast<double>(first[at]) - want));
                    }
            CHECK(most <= 3e-6);
        }
    });
}
