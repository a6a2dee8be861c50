// Transposes, strided copies, narrow floats and linear quantisation: every instruction set, every element size, any number of
// threads.
#include "sets.hpp"

#include <graft/core/dtype.hpp>
#include <graft/cpu/move.hpp>

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

std::vector<unsigned char> bytes(std::int64_t n) {
    std::vector<unsigned char> x(static_cast<std::size_t>(n));
    std::uint32_t seed = 7;
    for (unsigned char& v : x) seed = seed * 1664525u + 1013904223u, v = static_cast<unsigned char>(seed >> 24);
    return x;
}

}  // namespace

TEST_CASE("transpose: permutations of up to eight dimensions for every element size") {
    struct problem {
        std::vector<std::int64_t> shape;
        std::vector<int> permutation;
    };
    const problem problems[] = {{{}, {}},
                                {{5}, {0}},
                                {{3, 4}, {1, 0}},
                                {{17, 33}, {1, 0}},
                                {{2, 3, 50, 41}, {0, 2, 3, 1}},
                                {{2, 50, 41, 3}, {0, 3, 1, 2}},
                                {{2, 96, 7, 7}, {0, 2, 3, 1}},
                                {{4, 197, 3, 16}, {0, 2, 1, 3}},
                                {{4, 197, 3, 16}, {2, 0, 3, 1}},
                                {{3, 5, 2}, {1, 0, 2}},
                                {{3, 5, 1, 8}, {2, 1, 0, 3}},
                                {{7, 6, 5}, {2, 1, 0}},
                                {{2, 2, 3, 2, 2, 3, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0}},
                                {{2, 2, 3, 2, 2, 3, 2, 2}, {1, 0, 3, 2, 5, 4, 7, 6}},
                                {{0, 3}, {1, 0}},
                                {{300, 70}, {1, 0}},
                                {{3, 20000}, {1, 0}},
                                {{20000, 3}, {1, 0}},
                                {{2, 9, 16, 20}, {0, 2, 1, 3}}};
    on_every_isa([&](isa set) {
        for (const problem& p : problems)
            for (int size : {1, 2, 4, 8}) {
                const int rank = static_cast<int>(p.shape.size());
                std::int64_t elements = 1;
                for (auto e : p.shape) elements *= e;
                const auto x = bytes(elements * size);
                std::vector<unsigned char> want(x.size());
                for (std::int64_t i = 0; i < elements; ++i) {
                    std::int64_t rest = i, from = 0;
                    for (int d = rank - 1; d >= 0; --d) {
                        const int axis = p.permutation[static_cast<std::size_t>(d)];
                        std::int64_t stride = 1;
                        for (int a = axis + 1; a < rank; ++a) stride *= p.shape[static_cast<std::size_t>(a)];
                        from += rest % p.shape[static_cast<std::size_t>(axis)] * stride;
                        rest /= p.shape[static_cast<std::size_t>(axis)];
                    }
                    std::memcpy(want.data() + i * size, x.data() + from * size, static_cast<std::size_t>(size));
                }
                for (int threads = 1; threads <= 4; threads += 3) {
                    pool_executor pool(threads);
                    std::vector<unsigned char> y(x.size() + 8, 99);
                    run_transpose(set, size, rank, p.shape.data(), p.permutation.data(), x.data(), y.data(), pool);
                    CAPTURE(size);
                    CAPTURE(rank);
                    CHECK(compare(y.data(), want.data(), want.size()) == 0);
                    CHECK(y[x.size()] == 99);
                }
            }
    });
}

TEST_CASE("copy: strided boxes, forwards and backwards") {
    for (int size : {1, 2, 4, 8})
        for (int threads : {1, 3}) {
            pool_executor pool(threads);
            // x[20][30][8] at [18:2:-3, 5:25:2, :] into rows of y[6][10][16] from column 4 on.
            const auto x = bytes(20 * 30 * 8 * size);
            std::vector<unsigned char> y(static_cast<std::size_t>(6 * 10 * 16 * size), 99), want = y;
            const std::int64_t extents[] = {6, 10, 8}, x_strides[] = {-3 * 240, 16, 1}, y_strides[] = {160, 16, 1};
            for (int i = 0; i < 6; ++i)
                for (int j = 0; j < 10; ++j)
                    for (int l = 0; l < 8; ++l)
                        std::memcpy(want.data() + (i * 160 + j * 16 + 4 + l) * size, x.data() + ((18 - 3 * i) * 240 + (5 + 2 * j) * 8 + l) * size,
                                    static_cast<std::size_t>(size));
            run_copy(size, 3, extents, x.data() + (18 * 240 + 5 * 8) * size, x_strides, y.data() + 4 * size, y_strides, pool);
            CHECK(y == want);
            const std::int64_t n = 100001, back = -1, ahead = 1;
            const auto line = bytes(n * size);
            std::vector<unsigned char> mirrored(line.size());
            run_copy(size, 1, &n, line.data() + (n - 1) * size, &back, mirrored.data(), &ahead, pool);
            bool right = true;
            for (std::int64_t i = 0; i < n; ++i)
                right = right && compare(mirrored.data() + i * size, line.data() + (n - 1 - i) * size, static_cast<std::size_t>(size)) == 0;
            CHECK(right);
        }
    executor alone;
    const std::int64_t none[] = {3, 0}, strides[] = {1, 1};
    run_copy(4, 2, none, nullptr, strides, nullptr, strides, alone);
}

TEST_CASE("float16 and bfloat16: all bit patterns out, hard cases and all exponents back") {
    on_every_isa([](isa set) {
        executor alone;
        std::vector<std::uint16_t> codes(65536), back(65536);
        for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
        std::vector<float> x(65536);
        for (bool brain : {false, true}) {
            (brain ? run_from_bfloat16 : run_from_float16)(set, codes.data(), x.data(), 65536, alone);
            bool exact = true, same = true;
            for (std::size_t i = 0; i < codes.size(); ++i) {
                const float want = brain ? to_float(bfloat16{codes[i]}) : to_float(float16{codes[i]});
                exact = exact && (want != want ? x[i] != x[i] : compare(&want, &x[i], 4) == 0);
            }
            (brain ? run_to_bfloat16 : run_to_float16)(set, x.data(), back.data(), 65536, alone);
            for (std::size_t i = 0; i < codes.size(); ++i) same = same && (x[i] != x[i] || back[i] == codes[i]);
            CHECK(exact);
            CHECK(same);
            std::vector<float> hard;
            for (std::uint64_t bits = 0; bits < (std::uint64_t(1) << 32); bits += 49999) hard.push_back(bit_cast<float>(static_cast<std::uint32_t>(bits)));
            for (std::uint32_t i = 0; i < 65536; ++i)  // halfway between neighbours, and one off
                for (std::uint32_t low : {0x7fffu, 0x8000u, 0x8001u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u}) hard.push_back(bit_cast<float>(i << 16 | low));
            std::vector<std::uint16_t> y(hard.size());
            pool_executor pool(3);
            (brain ? run_to_bfloat16 : run_to_float16)(set, hard.data(), y.data(), static_cast<std::int64_t>(hard.size()), pool);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < hard.size(); ++i) {
                const double d = static_cast<double>(hard[i]);
                const std::uint16_t want = brain ? to_bfloat16(d).bits : to_float16(d).bits;
                const float got = brain ? to_float(bfloat16{y[i]}) : to_float(float16{y[i]});
                if (hard[i] != hard[i] ? got == got : y[i] != want) ++wrong;
            }
            CHECK(wrong == 0);
        }
        for (std::int64_t n = 0; n < 40; ++n) {
            std::vector<float> some(static_cast<std::size_t>(n), 1.5f), again(static_cast<std::size_t>(n) + 1, 7.0f);
            std::vector<std::uint16_t> half(static_cast<std::size_t>(n) + 1, 7);
            run_to_float16(set, some.data(), half.data(), n, alone);
            run_from_float16(set, half.data(), again.data(), n, alone);
            CHECK(half.back() == 7);
            CHECK(again.back() == 7.0f);
            CHECK(compare(some.data(), again.data(), static_cast<std::size_t>(n) * 4) == 0);
        }
    });
}

TEST_CASE("quantize: half to even, saturation, NaN, per tensor and per axis, and back") {
    on_every_isa([](isa set) {
        for (bool is_signed : {false, true})
            for (std::int64_t axis : {1, 5})
                for (std::int64_t inner : {1, 3, 37, 40000}) {
                    quantize_problem p;
                    p.outer = 2, p.axis = axis, p.inner = inner, p.is_signed = is_signed;
                    const std::int64_t n = 2 * axis * inner;
                    std::vector<float> x(static_cast<std::size_t>(n)), scale(static_cast<std::size_t>(axis));
                    std::vector<unsigned char> zero(static_cast<std::size_t>(axis));
                    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 1201) - 600) * 0.25f;
                    x[0] = HUGE_VALF;
                    if (n > 1) x[1] = std::nanf("");
                    if (n > 2) x[2] = -3e38f;
                    for (std::size_t i = 0; i < scale.size(); ++i)
                        scale[i] = 0.5f + 0.25f * static_cast<float>(i), zero[i] = static_cast<unsigned char>(i * 60 + 3);
                    std::vector<unsigned char> first;
                    std::vector<float> first_back;
                    for (int threads = 1; threads <= 4; ++threads) {
                        pool_executor pool(threads);
                        std::vector<unsigned char> y(static_cast<std::size_t>(n) + 1, 99);
                        std::vector<float> back(static_cast<std::size_t>(n) + 1, 99.0f);
                        run_quantize(set, p, x.data(), scale.data(), zero.data(), y.data(), pool);
                        run_dequantize(set, p, y.data(), scale.data(), zero.data(), back.data(), pool);
                        CHECK(y.back() == 99);
                        CHECK(back.back() == 99.0f);
                        if (threads > 1) CHECK(y == first);
                        if (threads > 1) CHECK(back == first_back);
                        first = y, first_back = back;
                    }
                    std::size_t wrong = 0;
                    for (std::size_t i = 0; i < x.size(); ++i) {
                        const std::size_t a = i / static_cast<std::size_t>(inner) % static_cast<std::size_t>(axis);
                        const int z = is_signed ? static_cast<signed char>(zero[a]) : zero[a];
                        double code = x[i] != x[i] ? z : std::nearbyint(static_cast<double>(x[i] / scale[a])) + z;
                        code = std::fmax(is_signed ? -128 : 0, std::fmin(is_signed ? 127 : 255, code));
                        const int got = is_signed ? static_cast<signed char>(first[i]) : first[i];
                        if (got != static_cast<int>(code) || first_back[i] != static_cast<float>(got - z) * scale[a]) ++wrong;
                    }
                    CHECK(wrong == 0);
                }
    });
}
