// Convolution kernels against a plain sum in double precision, on every instruction set of this machine.
#include "conv_support.hpp"

#include <doctest/doctest.h>

#include <graft/cpu/reorder.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace graft;
using namespace graft::cpu;
using namespace kernel_test;

namespace {

std::vector<double> reference(const conv_problem& p, const std::vector<float>& x, const std::vector<float>& w, const float* bias, const float* residual) {
    const std::int64_t icg = p.ic / p.groups, ocg = p.oc / p.groups;
    std::vector<double> y;
    for (std::int64_t n = 0; n < p.n; ++n)
        for (std::int64_t o = 0; o < p.oc; ++o)
            for (std::int64_t oy = 0; oy < p.oh; ++oy)
                for (std::int64_t ox = 0; ox < p.ow; ++ox) {
                    double sum = bias ? double(bias[o]) : 0;
                    for (std::int64_t c = 0; c < icg; ++c)
                        for (int ky = 0; ky < p.kh; ++ky)
                            for (int kx = 0; kx < p.kw; ++kx) {
                                const std::int64_t iy = oy * p.sh - p.pt + ky * p.dh, ix = ox * p.sw - p.pl + kx * p.dw;
                                if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
                                sum += double(x[static_cast<std::size_t>(((n * p.ic + o / ocg * icg + c) * p.ih + iy) * p.iw + ix)]) *
                                       double(w[static_cast<std::size_t>(((o * icg + c) * p.kh + ky) * p.kw + kx)]);
                            }
                    const double add = residual ? double(residual[y.size()]) : 0;
                    y.push_back(p.ep.residual_after_activation ? activate(p.ep, sum) + add : activate(p.ep, sum + add));
                }
    return y;
}

struct inputs {
    std::vector<float> x, w, bias, residual;
    inputs(random_source& random, const conv_problem& p)
        : x(random.reals(p.n * p.ic * p.ih * p.iw)), w(random.reals(p.oc * (p.ic / p.groups) * p.kh * p.kw)), bias(random.reals(p.oc)),
          residual(random.reals(p.n * p.oc * p.oh * p.ow)) {
        // As networks are initialised, so that results stay near 1.
        const float scale = 1.0f / std::sqrt(static_cast<float>(p.ic / p.groups * p.kh * p.kw));
        for (float& f : w) f *= scale;
    }
};

// With `in_place`, the residual lies where the results go.
std::vector<float> run(isa set, const conv_problem& p, const inputs& in, bool with_bias, executor& pool, conv_choice* chosen = nullptr, bool in_place = false) {
    const conv_choice choice = choose_conv(set, p);
    if (chosen) *chosen = choice;
    buffer packed = room(choice.packed_bytes / 4), space = room(choice.workspace_bytes / 4);
    // In parts, as layers of large networks are.
    const std::int64_t at_once = conv_channels_at_once(set, p, choice, 1), row = static_cast<std::int64_t>(in.w.size()) / p.oc;
    for (std::int64_t first = 0; first < p.oc; first += at_once)
        pack_conv_weights(set, p, choice, in.w.data() + first * row, first, std::min(first + at_once, p.oc), packed.data(), pool);
    const std::int64_t pixels = p.oh * p.ow;
    buffer x = blocked(set, in.x, p.n, p.ic, p.ih * p.iw), residual = blocked(set, in.residual, p.n, p.oc, pixels);
    buffer y = in_place ? residual : room(blocked_floats(set, p.n, p.oc, pixels));
    run_conv(set, p, choice, choice.in == layout::row_major ? in.x.data() : floats(x), packed.data(), with_bias ? in.bias.data() : nullptr,
             p.ep.residual ? floats(residual) : nullptr, floats(y), space.data(), pool);
    std::vector<float> out(static_cast<std::size_t>(p.n * p.oc * pixels));
    to_nchw(set, floats(y), p.n, p.oc, pixels, out.data(), pool);
    return out;
}

void check(const conv_problem& p, random_source& random, bool with_bias = true) {
    const double tolerance = 2e-6 + 1.5e-7 * std::sqrt(double(p.ic / p.groups * p.kh * p.kw));
    executor alone;
    const inputs in(random, p);
    const std::vector<double> want = reference(p, in.x, in.w, with_bias ? in.bias.data() : nullptr, p.ep.residual ? in.residual.data() : nullptr);
    for (isa set : sets()) {
        conv_choice choice;
        const std::vector<float> got = run(set, p, in, with_bias, alone, &choice, p.ep.residual);
        double worst = 0;
        for (std::size_t i = 0; i < want.size(); ++i) {
            const double off = std::fabs(double(got[i]) - want[i]);
            worst = off <= worst ? worst : off;  // NaN becomes the worst
            if (!(off < 1e30)) worst = 1e30;
        }
        // F(2) rounds little more than the direct sum; F(4) some ten times as much, still 2e-5 of the range of the results.
        const double more = choice.algorithm == conv_algorithm::winograd4 ? 8 : choice.algorithm == conv_algorithm::winograd2 ? 2 : 1;
        INFO(describe(set, p, choice.reason));
        CHECK(worst < tolerance * more);
    }
}

void random_epilogue(conv_problem& p, random_source& random) {
    const activation some[] = {activation::none, activation::relu, activation::clip, activation::leaky_relu, activation::silu};
    p.ep.act = some[random.between(0, 4)];
    p.ep.alpha = p.ep.act == activation::clip ? -0.25f : 0.1f;
    p.ep.beta = 0.5f;
    p.ep.residual = random.between(0, 1);
    p.ep.residual_after_activation = random.between(0, 1);
}

}  // namespace

TEST_CASE("convolution agrees with a plain sum on random shapes") {
    random_source random;
    for (int round = 0; round < 400; ++round) {
        conv_problem p;
        p.n = random.between(1, 2);
        draw_window(random, p);
        p.pt = static_cast<int>(random.between(0, p.kh - 1));
        p.pl = static_cast<int>(random.between(0, p.kw - 1));
        p.ih = random.between(1, 20) + (p.kh - 1) * p.dh;
        p.iw = random.between(1, 40) + (p.kw - 1) * p.dw;
        draw_channels(random, static_cast<int>(random.between(0, 4)), p);
        draw_output(random, p);
        random_epilogue(p, random);
        check(p, random, random.between(0, 3) != 0);
    }
}

TEST_CASE("convolution agrees with a plain sum on the shapes of real networks") {
    random_source random;
    // ic, oc, size, kernel, stride, pad, groups
    const int shapes[][7] = {{3, 64, 64, 7, 2, 3, 1},  {3, 32, 33, 3, 2, 1, 1},   {3, 24, 64, 11, 4, 2, 1},  {3, 48, 64, 16, 16, 0, 1},
                             {64, 64, 28, 3, 1, 1, 1}, {64, 64, 56, 1, 1, 0, 1},  {64, 128, 28, 1, 2, 0, 1}, {32, 32, 14, 3, 1, 1, 1},
                             {160, 96, 7, 3, 1, 1, 1}, {96, 96, 29, 3, 2, 1, 96}, {40, 40, 14, 5, 1, 2, 40}, {128, 128, 14, 3, 1, 1, 32},
                             {48, 48, 14, 3, 2, 1, 2}, {240, 60, 14, 1, 1, 0, 3}, {64, 64, 19, 7, 1, 3, 64}, {20, 20, 40, 33, 1, 16, 1},
                             {16, 16, 20, 3, 1, 4, 1}};
    for (const auto& s : shapes) {
        conv_problem p;
        p.ic = s[0];
        p.oc = s[1];
        p.ih = p.iw = s[2];
        p.kh = p.kw = s[3];
        p.sh = p.sw = s[4];
        p.pt = p.pl = s[5];
        p.groups = s[6];
        p.in = p.ic <= 4 ? layout::row_major : layout::blocked;
        size_output(p, s[5], s[5]);
        p.ep.act = activation::relu;
        check(p, random);
    }
}

TEST_CASE("Winograd is taken where it pays, stays within its error, and is not taken where exactness is asked for") {
    random_source random;
    const int shapes[][4] = {{64, 64, 56, 1}, {128, 128, 28, 1}, {64, 70, 30, 1}, {256, 256, 14, 1}, {40, 35, 33, 2},
                             {96, 64, 17, 0}, {16, 64, 30, 1},   {12, 12, 28, 1}, {64, 3, 30, 1},    {6, 40, 33, 1}};  // and of few channels
    int taken = 0;
    for (const auto& s : shapes) {
        conv_problem p;
        p.ic = s[0];
        p.oc = s[1];
        p.ih = s[2];
        p.iw = s[2] + 3;
        p.kh = p.kw = 3;
        p.pt = p.pl = s[3];
        p.n = s[2] < 30 ? 2 : 1;
        size_output(p, s[3], s[3]);
        random_epilogue(p, random);
        for (isa set : sets()) {
            const conv_choice c = choose_conv(set, p);
            taken += c.algorithm == conv_algorithm::winograd2 || c.algorithm == conv_algorithm::winograd4;
            conv_problem exact = p;
            exact.exact = true;
            CHECK(choose_conv(set, exact).algorithm == conv_algorithm::direct);
        }
        check(p, random);
    }
    CHECK(taken >= 26);
}

TEST_CASE("images of height 1 and empty batches are convolved") {
    random_source random;
    conv_problem p;
    p.ic = 24;
    p.oc = 40;
    p.iw = 100;
    p.kw = 9;
    p.pl = 4;
    size_output(p, 0, 4);
    check(p, random);
    p.n = 0;
    check(p, random);
}

TEST_CASE("not a number in a sample shows in the outputs that read it and in no other") {
    random_source random;
    executor alone;
    for (int groups : {1, 4, 8}) {
        conv_problem p;
        p.ic = p.oc = groups == 1 ? 20 : 8 * groups;
        p.groups = groups;
        p.ih = p.iw = 9;
        p.kh = p.kw = 1;
        p.ep.act = activation::relu;
        size_output(p, 0, 0);
        inputs in(random, p);
        in.x[40] = std::nanf("");
        for (isa set : sets()) {
            const std::vector<float> got = run(set, p, in, true, alone);
            for (std::int64_t o = 0; o < p.oc; ++o)
                for (std::int64_t i = 0; i < 81; ++i) {
                    INFO(name(set), " ", groups, " ", o, " ", i);
                    CHECK(std::isnan(got[static_cast<std::size_t>(o * 81 + i)]) == (i == 40 && o < p.oc / groups));
                }
        }
    }
}

TEST_CASE("the number of threads changes no bit of a convolution") {
    random_source random;
    const int shapes[][7] = {{3, 64, 60, 7, 2, 3, 1},    {64, 64, 44, 3, 1, 1, 1},  {64, 72, 30, 1, 1, 0, 1}, {48, 48, 30, 3, 2, 1, 48},
                             {64, 64, 20, 3, 1, 1, 16},  {256, 64, 14, 3, 1, 1, 1}, {64, 64, 56, 3, 1, 1, 1}, {128, 96, 28, 3, 1, 1, 1},
                             {256, 256, 15, 3, 1, 1, 1}, {512, 512, 12, 3, 1, 1, 1}};
    for (const auto& s : shapes) {
        conv_problem p;
        p.n = s[2] == 56 || s[1] >= 256 ? 1 : 2;
        p.ic = s[0];
        p.oc = s[1];
        p.ih = p.iw = s[2];
        p.kh = p.kw = s[3];
        p.sh = p.sw = s[4];
        p.pt = p.pl = s[5];
        p.groups = s[6];
        p.in = p.ic <= 4 ? layout::row_major : layout::blocked;
        size_output(p, s[5], s[5]);
        p.ep.act = activation::silu;
        const inputs in(random, p);
        for (isa set : sets()) {
            executor alone;
            const std::vector<float> first = run(set, p, in, true, alone);
            for (int threads : {1, 2, 3, 4, 7, 16, 100}) {
                pool_executor pool(threads);
                const std::vector<float> again = run(set, p, in, true, pool);
                CHECK(std::memcmp(first.data(), again.data(), first.size() * 4) == 0);
            }
        }
    }
}
