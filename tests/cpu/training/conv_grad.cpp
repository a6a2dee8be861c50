// Gradients of convolution against plain sums in double precision, on every instruction set of this machine.
#include "conv_grad_support.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

using namespace graft;
using namespace graft::cpu;
using namespace kernel_test;

namespace {

void check_weight(const conv_problem& p, random_source& random, int shards, bool with_bias = true) {
    executor alone;
    const operands in(random, p);
    const gradients want(p, in);
    for (isa set : sets()) {
        conv_grad_weight_choice choice;
        const weight_result got = weight_gradient(set, p, in, shards, with_bias, alone, &choice);
        const double more = choice.algorithm == conv_grad_weight_algorithm::winograd4 ? 8 : choice.algorithm == conv_grad_weight_algorithm::winograd2 ? 2 : 1;
        INFO(describe(set, p, choice.reason) << ", " << shards << " shards");
        CHECK(distance(got.dw, want.dw, want.dw_mass) < tolerance * more);
        if (with_bias) CHECK(distance(got.db, want.db, want.db_mass) < tolerance);
    }
}

}  // namespace

TEST_CASE("the gradient of a convolution's weights agrees with a plain sum on random shapes") {
    random_source random;
    const int shards[] = {1, 2, 8, 8, 8, 16, 64};
    for (int round = 0; round < 150; ++round) {
        const conv_problem p = random_problem(random, static_cast<int>(random.between(0, 4)));
        const int parts = shards[random.between(0, 6)];
        check_weight(p, random, parts, random.between(0, 3) != 0);
    }
}

TEST_CASE("the gradient of depthwise weights by an input that was kept in bfloat16 is that by the same numbers in float32") {
    random_source random;
    pool_executor three(3);
    for (int round = 0; round < 60; ++round) {
        const conv_problem p = random_problem(random, 1);
        operands in(random, p);
        in.x = widened(narrowed(in.x));
        for (isa set : sets()) {
            conv_grad_weight_choice choice;
            const weight_result want = weight_gradient(set, p, in, 8, true, three, &choice);
            INFO(describe(set, p, choice.reason));
            REQUIRE(choice.takes_narrow());
            const weight_result got = weight_gradient(set, p, in, 8, true, three, nullptr, true);
            CHECK(std::memcmp(got.dw.data(), want.dw.data(), want.dw.size() * sizeof(float)) == 0);
            CHECK(std::memcmp(got.db.data(), want.db.data(), want.db.size() * sizeof(float)) == 0);
        }
    }
}

namespace {

void check_input(const conv_problem& p, random_source& random, bool with_residual) {
    executor alone;
    const operands in(random, p);
    gradients want(p, in);
    if (with_residual)
        for (std::size_t i = 0; i < want.dx.size(); ++i) want.dx[i] += double(in.residual[i]);
    for (isa set : sets()) {
        conv_grad_input_choice choice;
        const std::vector<float> got = input_gradient(set, p, in, with_residual, alone, &choice);
        const double more = choice.conv.algorithm == conv_algorithm::winograd4 ? 8 : choice.conv.algorithm == conv_algorithm::winograd2 ? 2 : 1;
        INFO(describe(set, p, choice.reason));
        CHECK(distance(got, want.dx, want.dx_mass) < tolerance * more);
    }
}

}  // namespace

TEST_CASE("the gradient of a convolution's input agrees with a plain sum on random shapes") {
    random_source random;
    for (int round = 0; round < 150; ++round) {
        conv_problem p = random_problem(random, static_cast<int>(random.between(0, 4)));
        p.in = layout::blocked;
        check_input(p, random, random.between(0, 1) != 0);
    }
}

TEST_CASE("gradients of convolutions agree with plain sums on the shapes of real networks") {
    random_source random;
    // batch, ic, oc, size, kernel, stride, pad, groups
    const int shapes[][8] = {{2, 3, 64, 64, 7, 2, 3, 1},   {5, 1, 6, 28, 5, 1, 2, 1},     {5, 6, 16, 14, 5, 1, 0, 1},   {2, 64, 64, 28, 3, 1, 1, 1},
                             {3, 64, 32, 29, 1, 1, 0, 1},  {2, 64, 128, 28, 1, 2, 0, 1},  {2, 32, 48, 28, 3, 2, 1, 1},  {3, 128, 128, 7, 3, 1, 1, 1},
                             {2, 96, 96, 29, 3, 2, 1, 96}, {3, 40, 40, 14, 5, 1, 2, 40},  {2, 40, 40, 15, 5, 2, 2, 40}, {2, 64, 64, 14, 3, 1, 1, 16},
                             {2, 64, 64, 15, 3, 2, 1, 16}, {2, 48, 48, 14, 3, 2, 1, 2},   {1, 240, 60, 14, 1, 1, 0, 3}, {1, 20, 20, 40, 33, 1, 16, 1},
                             {1, 5, 6, 80, 45, 2, 20, 1},  {1, 3, 3, 70, 600, 2, 300, 1}, {2, 512, 10, 13, 1, 1, 1, 1}, {2, 3, 20, 33, 4, 4, 0, 1},
                             {9, 16, 16, 1, 1, 1, 0, 1},   {3, 16, 24, 11, 2, 5, 0, 1},   {2, 24, 24, 9, 2, 3, 0, 24},  {2, 3, 8, 20, 3, 1, 1, 1},
                             {2, 24, 24, 8, 3, 1, 4, 24},  {1, 16, 16, 6, 3, 1, 3, 16},   {1, 24, 24, 40, 3, 1, 3, 24}, {1, 16, 16, 9, 5, 1, 7, 16}};
    for (const auto& s : shapes) {
        conv_problem p;
        p.n = s[0];
        p.ic = s[1];
        p.oc = s[2];
        p.ih = p.iw = s[3];
        p.kh = p.kw = s[4];
        p.sh = p.sw = s[5];
        p.pt = p.pl = s[6];
        p.groups = s[7];
        if (p.kh == 600) p.kh = 1, p.pt = 0, p.ih = 3, p.sh = 1;  // wide
        p.in = p.ic <= 4 ? layout::row_major : layout::blocked;
        size_output(p, p.pt, p.pl);
        for (const int shards : {1, 8}) check_weight(p, random, shards);
        check_input(p, random, false);
        check_input(p, random, true);
    }
}

TEST_CASE("the gradient of an input of few channels is summed by rows of taps, whatever pads, dilations and batches") {
    random_source random;
    // batch, ic, oc, height, width, taps down, across, dilation, pad
    const int shapes[][9] = {{16, 6, 16, 12, 12, 5, 5, 1, 0}, {1, 6, 16, 12, 12, 5, 5, 1, 2},  {3, 1, 20, 17, 9, 3, 5, 2, 3}, {2, 4, 40, 11, 23, 4, 3, 1, 1},
                             {2, 2, 7, 30, 5, 7, 2, 1, 0},    {40, 3, 24, 40, 37, 5, 3, 1, 1}, {2, 5, 16, 9, 9, 5, 5, 2, 4},  {2, 1, 16, 6, 20, 2, 9, 1, 0}};
    for (const auto& s : shapes) {
        conv_problem p;
        p.n = s[0], p.ic = s[1], p.oc = s[2], p.ih = s[3], p.iw = s[4], p.kh = s[5], p.kw = s[6], p.dh = p.dw = s[7], p.pt = p.pl = s[8];
        size_output(p, p.pt, p.pl);
        for (isa set : sets()) {
            INFO(describe(set, p, ""));
            if (vector_width(set) == 16) CHECK(choose_conv_grad_input(set, p).algorithm == conv_grad_input_algorithm::tap_rows);
        }
        check_input(p, random, false);
        check_input(p, random, true);
    }
}

TEST_CASE("gradients of convolutions over batches that leave shards empty are right, and the tree is the same for any batch") {
    random_source random;
    for (int batch = 1; batch <= 9; ++batch) {
        conv_problem p;
        p.n = batch;
        p.ic = 20;
        p.oc = 36;
        p.ih = p.iw = 9;
        p.kh = p.kw = 3;
        p.pt = p.pl = 1;
        size_output(p, 1, 1);
        check_weight(p, random, 8);
        p.ic = 2;
        p.in = layout::row_major;
        check_weight(p, random, 8);
        p.in = layout::blocked;
        p.ic = p.oc = p.groups = 20;
        check_weight(p, random, 8);
    }
}

TEST_CASE("gradients of convolutions have the same bits for any number of threads") {
    random_source random;
    for (int round = 0; round < 40; ++round) {
        const conv_problem p = random_problem(random, round % 5);
        conv_problem q = p;
        q.in = layout::blocked;
        const operands in(random, p);
        for (isa set : sets()) {
            executor alone;
            const weight_result one = weight_gradient(set, p, in, 8, true, alone);
            const std::vector<float> one_input = input_gradient(set, q, in, true, alone);
            for (int threads = 2; threads <= 3; ++threads) {
                pool_executor pool(threads);
                const weight_result more = weight_gradient(set, p, in, 8, true, pool);
                INFO(describe(set, p, "") << ", " << threads << " threads");
                CHECK(std::memcmp(one.dw.data(), more.dw.data(), one.dw.size() * 4) == 0);
                CHECK(std::memcmp(one.db.data(), more.db.data(), one.db.size() * 4) == 0);
                const std::vector<float> more_input = input_gradient(set, q, in, true, pool);
                CHECK(std::memcmp(one_input.data(), more_input.data(), one_input.size() * 4) == 0);
            }
        }
    }
}

TEST_CASE("the sum over the batch is the tree of the shards") {
    // Each sample alone, its gradient computed apart, then added by hand as the tree has it.
    random_source random;
    conv_problem p;
    p.n = 7;
    p.ic = 18;
    p.oc = 34;
    p.ih = 6, p.iw = 10;
    p.kh = p.kw = 3;
    p.pt = p.pl = 1;
    size_output(p, 1, 1);
    const operands in(random, p);
    executor alone;
    for (isa set : sets()) {
        const weight_result whole = weight_gradient(set, p, in, 16, true, alone);
        std::vector<std::vector<float>> parts;
        for (int s = 0; s < 16; ++s) {
            const std::int64_t first = shards{16}.first(p.n, s), last = shards{16}.last(p.n, s);
            conv_problem one = p;
            one.n = last - first;
            operands part = in;
            const auto cut = [&](std::vector<float>& v, std::int64_t each) { v = std::vector<float>(v.begin() + first * each, v.begin() + last * each); };
            cut(part.x, p.ic * p.ih * p.iw);
            cut(part.dy, p.oc * p.oh * p.ow);
            parts.push_back(weight_gradient(set, one, part, 1, false, alone).dw);
        }
        for (std::size_t apart = 1; apart < 16; apart *= 2)
            for (std::size_t s = 0; s + apart < 16; s += 2 * apart)
                for (std::size_t i = 0; i < in.w.size(); ++i) parts[s][i] += parts[s + apart][i];
        INFO(name(set));
        CHECK(std::memcmp(whole.dw.data(), parts[0].data(), in.w.size() * 4) == 0);
    }
}

TEST_CASE("the gradients by Winograd of the halves of a batch add up to that of the whole, to the bit") {
    struct shape {
        std::int64_t ic, oc, ih, iw;
        conv_grad_weight_algorithm algorithm;
        bool large;
    };
    // The last two: several strips to a shard; more weights than are summed at once.
    const shape shapes[] = {{17, 33, 12, 12, conv_grad_weight_algorithm::winograd4, false},
                            {65, 33, 10, 10, conv_grad_weight_algorithm::winograd2, false},
                            {19, 35, 34, 35, conv_grad_weight_algorithm::winograd4, true},
                            {257, 49, 10, 10, conv_grad_weight_algorithm::winograd4, true}};
    random_source random;
    executor alone;
    for (const shape& d : shapes)
        for (const std::int64_t n : {1, 2, 3, 5, 8, 16, 17}) {
            if (d.large && n != 1 && n != 5) continue;
            conv_problem p;
            p.n = n;
            p.ic = d.ic, p.oc = d.oc;
            p.ih = d.ih, p.iw = d.iw;
            p.kh = p.kw = 3;
            p.pt = p.pl = 1;
            size_output(p, 1, 1);
            const operands in(random, p);
            for (isa set : sets())
                for (const int shards : {2, 8, 32})
                    for (const bool with_bias : {true, false}) {
                        if (d.large && (shards == 32 || !with_bias)) continue;
                        const auto gradient = [&](std::int64_t first, std::int64_t last, int count, executor& pool) {
                            conv_problem part = p;
                            part.n = last - first;
                            operands mine = in;
                            const auto cut = [&](std::vector<float>& v, std::int64_t each) {
                                v = std::vector<float>(v.begin() + first * each, v.begin() + last * each);
                            };
                            cut(mine.x, p.ic * p.ih * p.iw);
                            cut(mine.dy, p.oc * p.oh * p.ow);
                            conv_grad_weight_choice choice;
                            weight_result r = weight_gradient(set, part, mine, count, with_bias, pool, &choice);
                            CHECK(choice.algorithm == d.algorithm);
                            return r;
                        };
                        INFO(describe(set, p, "Winograd") << ", " << shards << " shards");
                        const std::int64_t middle = graft::shards{shards}.first(n, shards / 2);
                        const weight_result whole = gradient(0, n, shards, alone), right = gradient(middle, n, shards / 2, alone);
                        weight_result sum = gradient(0, middle, shards / 2, alone);
                        const auto same = [&](const std::vector<float>& a, const std::vector<float>& b) {
                            return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
                        };
                        // A half without samples is +0.
                        if (middle == 0) {
                            CHECK(same(sum.dw, std::vector<float>(sum.dw.size())));
                            CHECK(same(sum.db, std::vector<float>(sum.db.size())));
                        }
                        for (std::size_t i = 0; i < sum.dw.size(); ++i) sum.dw[i] += right.dw[i];
                        for (std::size_t i = 0; i < sum.db.size(); ++i) sum.db[i] += right.db[i];
                        CHECK(same(whole.dw, sum.dw));
                        CHECK(same(whole.db, sum.db));
                        if (n != 5) continue;
                        pool_executor pool(3);
                        const weight_result more = gradient(0, n, shards, pool);
                        CHECK(same(whole.dw, more.dw));
                        CHECK(same(whole.db, more.db));
                    }
            if (n == 5) check_weight(p, random, 8);
        }
}

TEST_CASE("weights packed anew for every step are those packed once") {
    random_source random;
    for (int round = 0; round < 120; ++round) {
        conv_problem p = random_problem(random, round % 5);
        if (round % 3 == 0) {
            p.kh = p.kw = 3, p.sh = p.sw = p.dh = p.dw = 1, p.ih = p.iw = 29;
            p.ic += 32;
            if (p.groups > 1) p.ic = p.oc = p.groups *= 2;
            size_output(p, 1, 1);
        }
        const std::vector<float> w = random.reals(p.oc * (p.ic / p.groups) * p.kh * p.kw);
        for (isa set : sets()) {
            const conv_choice c = choose_conv(set, p);
            buffer once = room(c.packed_bytes / 4), anew = room(c.packed_bytes / 4);
            pool_executor pool(2);
            pack_conv_weights(set, p, c, w.data(), once.data(), pool);
            repack_conv_weights(set, p, c, w.data(), anew.data(), pool);
            const bool winograd = c.algorithm == conv_algorithm::winograd2 || c.algorithm == conv_algorithm::winograd4;
            float worst = 0;
            for (std::int64_t i = 0; i < c.packed_bytes / 4; ++i) {
                const float off = std::fabs(floats(once)[i] - floats(anew)[i]);
                if (!(off <= worst)) worst = off;
                if (!(off < 1e30f)) worst = 1e30f;
            }
            INFO(describe(set, p, c.reason));
            CHECK(worst <= (winograd ? 6e-7f : 0.0f));
        }
    }
}
