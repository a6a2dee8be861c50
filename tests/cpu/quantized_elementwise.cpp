// Sums, products, functions and means of 8-bit tensors against plain loops, on every instruction set of this machine, code for code.
#include "../emulated_products.hpp"
#include "random_source.hpp"
#include "sets.hpp"

#include <doctest/doctest.h>

#include <graft/core/executor.hpp>
#include <graft/cpu/dispatch.hpp>
#include <graft/cpu/quantized_elementwise.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace graft;
using namespace graft::cpu;

namespace {

using kernel_test::random_source;
using codes = std::vector<std::uint8_t>;

int code_of(std::uint8_t byte, bool is_signed) { return is_signed ? static_cast<std::int8_t>(byte) : byte; }
codes drawn(random_source& random, std::int64_t n) {
    codes made(static_cast<std::size_t>(n));
    for (std::uint8_t& code : made) code = static_cast<std::uint8_t>(random.next() >> 13);
    return made;
}
// Zero points and bounds of a result, of which every other is not the type's own.
template <class Problem>
void draw_ends(random_source& random, bool bounded, Problem& p) {
    p.low = p.y_signed ? -128 : 0, p.high = p.low + 255;
    if (bounded) p.low += static_cast<int>(random.between(0, 100)), p.high -= static_cast<int>(random.between(0, 100));
    p.y_zero = static_cast<int>(random.between(0, 127));
}
template <class Problem>
std::uint8_t code(double steps, const Problem& p) {
    return static_cast<std::uint8_t>(static_cast<int>(std::min<double>(p.high, std::max<double>(p.low, std::nearbyint(steps) + p.y_zero))));
}
// Groups as they lie in planes, in lanes of four channels and in pixels of 64, of few pixels and of many.
std::vector<code_groups> all_groups() {
    std::vector<code_groups> all;
    for (const int together : {1, 4, 64})
        for (const std::int64_t pixels : {1, 3, 15, 16, 49, 700, 20000})
            if (pixels < 20000 || together == 4) all.push_back({2, 3, pixels, together});
    return all;
}

}  // namespace

TEST_CASE("cpu quantized elementwise: sums give the codes of a loop, on every set") {
    random_source random;
    pool_executor three(3);
    for (int round = 0; round < 80; ++round) {
        quantized_sum_problem p;
        p.lanes = round % 5 >= 3;
        if (!p.lanes) p.a_signed = round & 1, p.b_signed = round & 2, p.y_signed = round & 4;
        p.low = p.y_signed ? -128 : 0, p.high = p.low + 255;
        if (round & 8) p.low += static_cast<int>(random.between(0, 100)), p.high -= static_cast<int>(random.between(0, 100));
        p.a_zero = static_cast<int>(random.between(0, 127)), p.b_zero = static_cast<int>(random.between(0, 127)),
        p.y_zero = static_cast<int>(random.between(0, 127));
        p.a_scale = 0.25f, p.b_scale = round % 3 ? 0.01f + std::fabs(random.real()) : 0.5f, p.y_scale = round % 3 ? 0.01f + std::fabs(random.real()) : 1.0f;
        if (round % 8 == 7) p.a_scale = 1e30f, p.b_scale = 3e-25f, p.y_scale = 1e-20f;  // quotients beyond the largest number
        const std::size_t n = static_cast<std::size_t>(random.between(1, 40000)) * (p.lanes ? 4 : 1);
        std::vector<std::uint8_t> a(n), b(n), wanted(n);
        for (std::size_t i = 0; i < n; ++i) {
            a[i] = static_cast<std::uint8_t>(random.next() >> 13), b[i] = static_cast<std::uint8_t>(random.next() >> 17);
            const float left = static_cast<float>(code_of(a[i], p.a_signed) - p.a_zero) * p.a_scale,
                        right = static_cast<float>(code_of(b[i], p.b_signed) - p.b_zero) * p.b_scale;
            volatile float first = left, second = right;  // rounded, each by itself
            const float total = first + second;
            const double steps = std::nearbyint(static_cast<double>(total / p.y_scale)) + p.y_zero;
            wanted[i] = static_cast<std::uint8_t>(static_cast<int>(std::min<double>(p.high, std::max<double>(p.low, steps))));
        }
        for (const char* emulated : {"avx512_vnni", ""}) {
            const emulated_products with(emulated);
            kernel_test::on_every_isa([&](isa set) {
                std::vector<std::uint8_t> y(n);
                run_quantized_sum(set, p, a.data(), b.data(), y.data(), static_cast<std::int64_t>(n), three);
                CHECK(y == wanted);
            });
        }
    }
}

TEST_CASE("cpu quantized elementwise: products give the codes of a loop, on every set") {
    random_source random;
    pool_executor three(3);
    int round = 0;
    for (const bool of_channels : {false, true})
        for (const code_groups& by : all_groups()) {
            ++round;
            quantized_product_problem p;
            p.a_signed = round & 1, p.b_signed = round & 2, p.y_signed = round & 4;
            draw_ends(random, round & 8, p);
            p.a_zero = static_cast<int>(random.between(0, 127)), p.b_zero = static_cast<int>(random.between(0, 127));
            p.scale = 0.001f + 0.02f * std::fabs(random.real());
            p.of_channels = of_channels;
            const std::int64_t n = by.images * by.groups * by.codes() - (of_channels ? 0 : 3 % by.codes());
            const codes a = drawn(random, n), b = drawn(random, of_channels ? by.images * by.groups * by.together : n);
            codes wanted(a.size());
            for (std::int64_t i = 0; i < n; ++i) {
                const std::int64_t other = of_channels ? i / by.codes() * by.together + i % by.together : i;
                const int product =
                    (code_of(a[static_cast<std::size_t>(i)], p.a_signed) - p.a_zero) * (code_of(b[static_cast<std::size_t>(other)], p.b_signed) - p.b_zero);
                wanted[static_cast<std::size_t>(i)] = code(static_cast<double>(static_cast<float>(product) * p.scale), p);
            }
            kernel_test::on_every_isa([&](isa set) {
                INFO(by.pixels, " pixels of ", by.together, " channels");
                codes y(a.size());
                run_quantized_product(set, p, a.data(), b.data(), y.data(), n, by, three);
                CHECK(y == wanted);
            });
        }
}

TEST_CASE("cpu quantized elementwise: means give the codes of a loop, on every set") {
    random_source random;
    pool_executor three(3);
    int round = 0;
    for (int again = 0; again < 4; ++again)
        for (const code_groups& of : all_groups()) {
            ++round;
            quantized_mean_problem p;
            p.x_signed = round & 1, p.y_signed = round & 2;
            draw_ends(random, round & 4, p);
            p.x_zero = static_cast<int>(random.between(0, 127));
            p.x_scale = 0.01f + std::fabs(random.real()), p.y_scale = 0.01f + 0.1f * std::fabs(random.real());
            const codes x = drawn(random, of.images * of.groups * of.codes());
            codes wanted(static_cast<std::size_t>(of.images * of.groups * of.together));
            for (std::size_t channel = 0; channel < wanted.size(); ++channel) {
                const std::int64_t at = static_cast<std::int64_t>(channel), first = at / of.together * of.codes() + at % of.together;
                std::int64_t sum = 0;
                for (std::int64_t i = 0; i < of.pixels; ++i) sum += code_of(x[static_cast<std::size_t>(first + i * of.together)], p.x_signed) - p.x_zero;
                const auto mean = static_cast<float>(static_cast<double>(sum) * static_cast<double>(p.x_scale) / static_cast<double>(of.pixels));
                wanted[channel] = code(static_cast<double>(mean / p.y_scale), p);
            }
            kernel_test::on_every_isa([&](isa set) {
                INFO(of.pixels, " pixels of ", of.together, " channels");
                codes y(wanted.size());
                run_quantized_mean(set, p, of, x.data(), y.data(), three);
                CHECK(y == wanted);
            });
        }
}

TEST_CASE("cpu quantized elementwise: functions are looked up, on every set") {
    random_source random;
    pool_executor three(3);
    const codes table = drawn(random, 256);
    for (const std::int64_t n : {0, 1, 7, 8, 63, 64, 65, 127, 1000, 100000})
        for (const int x_flip : {0, 128})
            for (const int y_flip : {0, 128}) {
                const codes x = drawn(random, n);
                codes wanted(x.size());
                for (std::size_t i = 0; i < x.size(); ++i) wanted[i] = static_cast<std::uint8_t>(table[static_cast<std::size_t>(x[i] ^ x_flip)] ^ y_flip);
                kernel_test::on_every_isa([&](isa set) {
                    codes y(x.size() + 1, 77);
                    run_lookup(set, table.data(), x_flip, y_flip, x.data(), y.data(), n, three);
                    CHECK(y.back() == 77);
                    y.pop_back();
                    CHECK(y == wanted);
                    // The kernel of the set itself, where the machine has a faster one too.
                    codes plain(x.size());
                    kernels(set).quantized->look_up(table.data(), x.data(), plain.data(), n);
                    for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(plain[i] == table[x[i]]);
                });
            }
}
