// Convolutions and products of bfloat16 by tiles and by pairs, those of the machine and those that vectors stand in for: against sums in double of operands
// that were rounded first, and bit by bit against the order in which the instructions add.
#include "conv_support.hpp"
#include "products.hpp"

#include <doctest/doctest.h>

#include <graft/core/dtype.hpp>
#include <graft/cpu/bfloat16.hpp>
#include <graft/cpu/dispatch.hpp>
#include <graft/cpu/reorder.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace graft;
using namespace graft::cpu;
using namespace kernel_test;

namespace {

struct conv_case {
    conv_problem p;
    std::vector<float> x, w, bias, residual;

    conv_case(random_source& random, const conv_problem& problem)
        : p(problem), x(random.reals(p.n * p.ic * p.ih * p.iw)), w(random.reals(p.oc * p.ic / p.groups * p.kh * p.kw)), bias(random.reals(p.oc)),
          residual(random.reals(p.n * p.oc * p.oh * p.ow)) {
        const float scale = 1.0f / std::sqrt(static_cast<float>(p.ic / p.groups * p.kh * p.kw));
        for (float& f : w) f *= scale;
    }

    std::vector<float> run(isa set, executor& pool) const {
        conv_problem problem = p;
        problem.bfloat16 = true;
        REQUIRE(takes_bfloat16(problem));
        const conv_choice choice = choose_bfloat16_conv(problem);
        if (bfloat16_products(set)->tiles && (p.ic > 4 || p.oc > 32)) CHECK(choose_conv(set, problem).algorithm == conv_algorithm::bfloat16);
        buffer packed = room(choice.packed_bytes / 4), space = room(choice.workspace_bytes / 4);
        const std::int64_t at_once = conv_channels_at_once(set, problem, choice, 1), row = static_cast<std::int64_t>(w.size()) / p.oc;
        for (std::int64_t first = 0; first < p.oc; first += at_once)
            pack_conv_weights(set, problem, choice, w.data() + first * row, first, std::min(first + at_once, p.oc), packed.data(), pool);
        const std::int64_t pixels = p.oh * p.ow;
        buffer in = blocked(set, x, p.n, p.ic, p.ih * p.iw), y = blocked(set, residual, p.n, p.oc, pixels);
        // In place, as most residuals are.
        run_conv(set, problem, choice, choice.in == layout::row_major ? x.data() : floats(in), packed.data(), bias.data(), p.ep.residual ? floats(y) : nullptr,
                 floats(y), space.data(), pool);
        std::vector<float> out(static_cast<std::size_t>(p.n * p.oc * pixels));
        to_nchw(set, floats(y), p.n, p.oc, pixels, out.data(), pool);
        return out;
    }

    // The largest difference from sums in double, in units of the sum of magnitudes.
    double worst(const std::vector<float>& y) const {
        double most = 0;
        std::size_t at = 0;
        for (std::int64_t n = 0; n < p.n; ++n)
            for (std::int64_t o = 0; o < p.oc; ++o)
                for (std::int64_t oy = 0; oy < p.oh; ++oy)
                    for (std::int64_t ox = 0; ox < p.ow; ++ox, ++at) {
                        double sum = double(bias[static_cast<std::size_t>(o)]), size = std::fabs(sum);
                        const std::int64_t of_group = p.ic / p.groups, first = o / (p.oc / p.groups) * of_group;
                        for (std::int64_t c = 0; c < of_group; ++c)
                            for (int ky = 0; ky < p.kh; ++ky)
                                for (int kx = 0; kx < p.kw; ++kx) {
                                    const std::int64_t iy = oy * p.sh - p.pt + ky * p.dh, ix = ox * p.sw - p.pl + kx * p.dw;
                                    if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
                                    const double product = double(rounded(x[static_cast<std::size_t>(((n * p.ic + first + c) * p.ih + iy) * p.iw + ix)])) *
                                                           double(rounded(w[static_cast<std::size_t>(((o * of_group + c) * p.kh + ky) * p.kw + kx)]));
                                    sum += product, size += std::fabs(product);
                                }
                        const double add = p.ep.residual ? double(residual[at]) : 0;
                        const double want = p.ep.residual_after_activation ? activate(p.ep, sum) + add : activate(p.ep, sum + add);
                        const double difference = std::fabs(double(y[at]) - want) / (size + std::fabs(add) + 1e-30);
                        if (!(difference <= most)) most = difference;  // NaN too
                    }
        return most;
    }
};

void check(isa set, const conv_case& c, const char* how) {
    INFO(describe(set, c.p, how));
    pool_executor one(1), three(3);
    const std::vector<float> y = c.run(set, one);
    CHECK(c.worst(y) < 1e-6);
    const std::vector<float> same = c.run(set, three);
    CHECK(std::memcmp(y.data(), same.data(), y.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("bfloat16: convolutions of every form equal sums in double of rounded operands") {
    on_all_products(
        [](isa set) {
            random_source random;
            bool planes = false;
            int groups = 1;
            const auto with = [&](const char* how, std::int64_t n, std::int64_t ic, std::int64_t h, std::int64_t w, std::int64_t oc, int k, int s, int d,
                                  int pad, int behind, epilogue ep = {}) {
                conv_problem p;
                p.groups = groups;
                p.n = n, p.ic = ic, p.ih = h, p.iw = w, p.oc = oc, p.kh = p.kw = k, p.sh = p.sw = s, p.dh = p.dw = d, p.pt = p.pl = pad, p.ep = ep;
                if (planes) p.in = layout::row_major;
                size_output(p, behind, behind);
                REQUIRE(p.oh > 0);
                REQUIRE(p.ow > 0);
                check(set, conv_case(random, p), how);
            };
            with("3x3", 1, 32, 7, 7, 32, 3, 1, 1, 1, 1);
            with("3x3, images one below the other", 3, 40, 7, 9, 33, 3, 1, 1, 1, 1);
            with("one pixel", 1, 5, 1, 1, 3, 1, 1, 1, 0, 0);
            with("1x1", 2, 70, 5, 6, 50, 1, 1, 1, 0, 0);
            with("1x1 with steps", 2, 33, 9, 8, 20, 1, 2, 1, 0, 0);
            with("3x3 with steps", 2, 20, 11, 10, 17, 3, 2, 1, 1, 1);
            with("3x3 with steps, padded behind alone", 1, 20, 12, 12, 17, 3, 2, 1, 0, 1);
            with("5x5 with holes", 1, 16, 15, 13, 16, 5, 1, 2, 3, 4);
            with("7x7 with steps", 1, 3, 20, 20, 40, 7, 2, 1, 3, 3);
            with("pads larger than the window", 1, 8, 4, 5, 9, 2, 1, 1, 3, 5);
            with("1x1 with pads", 2, 8, 3, 3, 9, 1, 1, 1, 1, 5);
            with("steps larger than the window", 1, 8, 11, 13, 9, 2, 3, 1, 0, 0);
            with("one output", 1, 64, 4, 4, 64, 4, 4, 1, 0, 0);
            for (const bool residual : {false, true}) {
                epilogue ep;
                ep.residual = residual, ep.act = activation::relu;
                groups = 3;
                with("groups", 2, 96, 7, 9, 144, 3, 1, 1, 1, 1, ep);
                with("groups, with steps", 2, 48, 9, 9, 96, 3, 2, 1, 1, 1, ep);
                with("groups of a tap", 2, 96, 5, 6, 48, 1, 1, 1, 0, 0, ep);
                groups = 1;
            }
            planes = true;
            with("planes, 7x7 with steps", 2, 3, 21, 40, 33, 7, 2, 1, 3, 3);
            with("planes, 3x3", 1, 1, 9, 11, 16, 3, 1, 1, 1, 1);
            with("planes, 11x11 with large steps", 1, 3, 40, 30, 17, 11, 4, 1, 2, 2);
            with("planes, holes", 1, 4, 17, 19, 8, 3, 1, 3, 2, 1);
            with("planes, holes and steps", 1, 2, 20, 23, 8, 4, 3, 2, 5, 4);
            with("planes, 1x1", 3, 3, 4, 5, 40, 1, 1, 1, 0, 0);
            with("planes, pads larger than the window", 1, 3, 2, 3, 8, 2, 1, 1, 4, 4);
            planes = false;
            for (const bool late : {false, true})
                for (const activation act : {activation::none, activation::relu, activation::clip, activation::silu}) {
                    epilogue ep;
                    ep.act = act, ep.alpha = -0.25f, ep.beta = 0.5f, ep.residual = true, ep.residual_after_activation = late;
                    with("with a residual", 1, 24, 6, 7, 35, 3, 1, 1, 1, 1, ep);
                    ep.residual = false;
                    with("with an activation", 2, 24, 3, 3, 16, 1, 1, 1, 0, 0, ep);
                }
            for (int i = 0; i < 25; ++i) {
                const std::int64_t n = random.between(1, 3), ic = random.between(1, 80), h = random.between(1, 14), w = random.between(1, 14),
                                   oc = random.between(1, 70);
                const int kh = static_cast<int>(random.between(1, 4)), kw = static_cast<int>(random.between(1, 4)), sh = static_cast<int>(random.between(1, 3));
                const int sw = static_cast<int>(random.between(1, 3)), dh = static_cast<int>(random.between(1, 2)), dw = static_cast<int>(random.between(1, 2));
                conv_problem p;
                p.n = n, p.ic = ic, p.ih = h, p.iw = w, p.oc = oc, p.kh = kh, p.kw = kw, p.sh = sh, p.sw = sw, p.dh = dh, p.dw = dw;
                p.pt = static_cast<int>(random.between(0, 4)), p.pl = static_cast<int>(random.between(0, 4));
                const int below = static_cast<int>(random.between(0, 4)), beside = static_cast<int>(random.between(0, 4));
                if (p.ih + p.pt + below < (p.kh - 1) * p.dh + 1 || p.iw + p.pl + beside < (p.kw - 1) * p.dw + 1) continue;
                size_output(p, below, beside);
                check(set, conv_case(random, p), "drawn");
            }
        },
        true);
}

TEST_CASE("bfloat16: images larger than what is gathered at once are cut into rows, many small ones into groups") {
    on_all_products([](isa set) {
        random_source random;
        conv_problem p;
        p.ic = 32, p.ih = 150, p.iw = 160, p.oc = 4, p.kh = p.kw = 3, p.pt = p.pl = 1;
        size_output(p, 1, 1);
        check(set, conv_case(random, p), "rows");
        p.sh = 2, p.ih = 301;
        size_output(p, 1, 1);
        check(set, conv_case(random, p), "rows with steps");
        p.ic = 3, p.ih = 600, p.iw = 310, p.in = layout::row_major;
        size_output(p, 1, 1);
        check(set, conv_case(random, p), "rows of planes");
        p.ic = 4, p.ih = 3, p.iw = 5000;
        size_output(p, 1, 1);
        p.bfloat16 = true;
        CHECK(!takes_bfloat16_planes(p));  // the row that the kernel has room for is shorter
        CHECK(choose_conv(set, p).algorithm != conv_algorithm::bfloat16);
        // A row of outputs of a window with large holes reads 16,000 rows of inputs, and then a billion of them.
        p = {};
        p.ic = 64, p.ih = p.iw = 20000, p.oc = 8, p.oh = 1, p.ow = 1000, p.kh = p.kw = 3, p.dh = 8000, p.bfloat16 = true;
        CHECK(choose_conv(set, p).algorithm != conv_algorithm::bfloat16);
        p.ic = 1 << 20, p.ih = p.iw = p.oh = p.ow = 1 << 20, p.dh = p.dw = 1 << 18;
        CHECK(choose_conv(set, p).algorithm != conv_algorithm::bfloat16);
        p = {};
        p.n = 5, p.ic = 40, p.ih = 50, p.iw = 51, p.oc = 3, p.kh = p.kw = 3, p.pt = p.pl = 1;
        size_output(p, 1, 1);
        check(set, conv_case(random, p), "groups of images");
        p = {};
        p.ic = 33, p.ih = 130, p.iw = 140, p.oc = 2;
        size_output(p, 0, 0);
        check(set, conv_case(random, p), "1x1");
    });
}

TEST_CASE("bfloat16: products of matrices equal sums in double of rounded operands") {
    on_all_products([](isa set) {
        random_source random;
        const auto with = [&](std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, bool bias, epilogue ep = {}) {
            INFO(batch, " ", m, " ", n, " ", k, transposed ? " transposed" : "");
            gemm_problem p;
            p.m = m, p.n = n, p.k = k, p.trans_b = transposed, p.packed_b = p.bfloat16 = true, p.ep = ep;
            p.bias = bias ? bias_kind::column : bias_kind::none;
            // Matrices of A that do not lie one behind the other stay apart.
            p.batch[1] = batch, p.a_strides[1] = m * k + (batch > 1 ? 3 : 0), p.c_strides[1] = p.residual_strides[1] = m * n;
            REQUIRE(takes_bfloat16_product(p));
            const std::vector<float> a = random.reals(batch * p.a_strides[1]), b = random.reals(k * n), add = random.reals(n),
                                     residual = random.reals(batch * m * n);
            buffer packed = room(packed_bfloat16_bytes(bfloat16_weights_of(p)) / 4), space = room(bfloat16_product_workspace(p) / 4);
            std::vector<std::vector<float>> results;
            for (const int threads : {1, 3}) {
                pool_executor pool(threads);
                pack_bfloat16(set, bfloat16_weights_of(p), b.data(), 0, n, packed.data(), pool);
                std::vector<float> c = residual;
                run_bfloat16_product(set, p, a.data(), packed.data(), bias ? add.data() : nullptr, ep.residual ? c.data() : nullptr, c.data(), space.data(),
                                     pool);
                results.push_back(c);
            }
            CHECK(std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)) == 0);
            double most = 0;
            for (std::int64_t i = 0; i < batch * m; ++i)
                for (std::int64_t j = 0; j < n; ++j) {
                    double sum = bias ? double(add[static_cast<std::size_t>(j)]) : 0, size = std::fabs(sum) + 1e-30;
                    for (std::int64_t l = 0; l < k; ++l) {
                        const double product = double(rounded(a[static_cast<std::size_t>(i / m * p.a_strides[1] + i % m * k + l)])) *
                                               double(rounded(b[static_cast<std::size_t>(transposed ? j * k + l : l * n + j)]));
                        sum += product, size += std::fabs(product);
                    }
                    const double more = ep.residual ? double(residual[static_cast<std::size_t>(i * n + j)]) : 0;
                    most = std::max(most,
                                    std::fabs(double(results[0][static_cast<std::size_t>(i * n + j)]) - activate(ep, sum + more)) / (size + std::fabs(more)));
                }
            CHECK(most < 1e-6);
        };
        with(1, 1, 1, 1, false, false);
        with(1, 1, 1000, 70, true, true);
        with(1, 33, 31, 100, false, true);
        with(1, 197, 50, 65, true, true);
        with(3, 20, 40, 33, false, false);
        epilogue ep;
        ep.act = activation::silu, ep.residual = true;
        with(1, 40, 37, 64, true, true, ep);
        ep.act = activation::relu;
        with(2, 17, 16, 20, true, true, ep);
        with(1, 18000, 5, 33, true, false);  // in parts
    });
}

// As TDPBF16PS and VDPBF16PS were measured to add (and as Intel's manual, volume 2, has their rounding): what rounds, flushes and fuses where.
TEST_CASE("bfloat16: in tiles even and odd channels are chains of their own in every step of 32, in pairs the odd one is added first") {
    on_all_products([](isa set) {
        if (set == isa::baseline || set == isa::wasm) return;  // products and sums are not fused there
        const bool tiles = bfloat16_products(set)->tiles;
        const auto flushed = [](float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x; };
        random_source random;
        conv_problem p;
        p.ic = 96, p.oc = 16, p.ih = 4, p.iw = 4;
        size_output(p, 0, 0);
        conv_case c(random, p);
        for (std::size_t i = 0; i < c.x.size(); i += 7) c.x[i] *= 1e-30f;
        for (std::size_t i = 0; i < c.w.size(); i += 5) c.w[i] *= 1e-9f;
        for (float& b : c.bias) b = 0;
        pool_executor pool(1);
        const std::vector<float> y = c.run(set, pool);
        for (std::int64_t o = 0; o < p.oc; ++o)
            for (std::int64_t pixel = 0; pixel < 16; ++pixel) {
                float sum = 0;
                const auto product_of = [&](std::int64_t k, float to) {
                    const float by = rounded(c.w[static_cast<std::size_t>(o * 96 + k)]);
                    return flushed(std::fma(flushed(rounded(c.x[static_cast<std::size_t>(k * 16 + pixel)])), flushed(by), to));
                };
                for (std::int64_t k = 0; !tiles && k < 96; k += 2) sum = product_of(k, product_of(k + 1, sum));
                for (std::int64_t step = 0; tiles && step < 96; step += 32) {
                    float chain[2] = {0, 0};
                    for (std::int64_t k = step; k < step + 32; ++k) chain[k % 2] = product_of(k, chain[k % 2]);
                    sum = flushed(sum + flushed(chain[0] + chain[1]));
                }
                const float got = y[static_cast<std::size_t>(o * 16 + pixel)];
                CHECK(std::memcmp(&got, &sum, sizeof got) == 0);
            }
    });
}

TEST_CASE("bfloat16: numbers are rounded half to even, and what is not finite stays so") {
    on_all_products([](isa set) {
        // One product with 1: the operand as it was rounded.
        const float infinity = std::numeric_limits<float>::infinity();
        const std::vector<float> from = {1.0f,   1.00390625f, 1.01171875f, -1.00390625f, 1.00390637f,   3.4e38f,
                                         1e-39f, -1e-39f,     infinity,    -infinity,    std::nanf(""), 0.0f};
        conv_problem p;
        p.ic = 1, p.oc = 1, p.ih = 1, p.iw = static_cast<std::int64_t>(from.size());
        size_output(p, 0, 0);
        random_source random;
        conv_case c(random, p);
        c.x = from, c.w = {1.0f}, c.bias = {0.0f};
        pool_executor pool(1);
        const std::vector<float> y = c.run(set, pool);
        const std::vector<float> want = {1.0f, 1.0f, 1.015625f, -1.0f, 1.0078125f, infinity, 0.0f, 0.0f, infinity, -infinity, std::nanf(""), 0.0f};
        for (std::size_t i = 0; i < want.size(); ++i) {
            CAPTURE(i);
            CHECK((want[i] != want[i] ? y[i] != y[i] : y[i] == want[i]));
        }
    });
}
