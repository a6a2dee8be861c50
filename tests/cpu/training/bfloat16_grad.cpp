// Gradients whose operands are rounded to bfloat16, by tiles and by pairs, those of the machine and those that vectors stand in for: against sums in double of
// operands that were rounded first.
#include "../products.hpp"
#include "conv_grad_support.hpp"

#include <doctest/doctest.h>

#include <graft/cpu/training/bfloat16_grad.hpp>

#include <cstring>
#include <string>

using namespace graft;
using namespace graft::cpu;
using namespace kernel_test;

namespace {

struct both {
    std::vector<float> dw, dx;
};

// By the kernels of bfloat16, whatever is faster.
both run(isa set, const conv_problem& p, const operands& in, int shards, executor& pool, bool narrow = false) {
    both out{std::vector<float>(in.w.size(), std::nanf("")), {}};
    buffer x = blocked(set, in.x, p.n, p.ic, p.ih * p.iw), dy = blocked(set, in.dy, p.n, p.oc, p.oh * p.ow);
    bfloat16_grad_args of = bfloat16_grad_of(set, p, shards);
    buffer space = room(bfloat16_grad_workspace(of) / 4);
    const std::vector<std::uint16_t> narrow_x = narrowed(x);
    run_bfloat16_grad(set, of, narrow ? saved_activation(narrow_x.data()) : floats(x), floats(dy), out.dw.data(), space.data(), pool);
    out.dx = input_gradient(set, p, in, true, pool);
    return out;
}

int strided = 0;  // inputs of strided convolutions whose gradients were computed in bfloat16

void check(isa set, conv_problem p, random_source& random, int shards) {
    p.bfloat16 = true;
    const operands in(random, p);
    operands narrow = in;
    for (std::vector<float>* x : {&narrow.x, &narrow.w, &narrow.dy}) *x = widened(narrowed(*x));
    gradients want(p, narrow);
    for (std::size_t i = 0; i < want.dx.size(); ++i) want.dx[i] += double(in.residual[i]);
    INFO(describe(set, p, "gradients") << ", " << shards << " shards");
    const bool tiles = bfloat16_products(set)->tiles;
    if (tiles) CHECK(choose_conv_grad_weight(set, p, shards).algorithm == conv_grad_weight_algorithm::bfloat16);
    const conv_grad_input_choice input = choose_conv_grad_input(set, p);
    const bool narrow_input = input.conv.algorithm == conv_algorithm::bfloat16;
    // A window that is padded by more than itself is turned round into one that begins inside the image.
    if (tiles && p.sh == 1 && p.sw == 1 && p.pt <= (p.kh - 1) * p.dh && p.pl <= (p.kw - 1) * p.dw) CHECK(narrow_input);
    strided += narrow_input && p.sh * p.sw > 1;
    executor alone;
    pool_executor three(3);
    const both got = run(set, p, in, shards, alone), same = run(set, p, in, shards, three, true);  // of an input that was rounded before
    CHECK(distance(got.dw, want.dw, want.dw_mass) < tolerance);
    if (narrow_input) CHECK(distance(got.dx, want.dx, want.dx_mass) < tolerance);
    CHECK(std::memcmp(got.dw.data(), same.dw.data(), got.dw.size() * sizeof(float)) == 0);
    CHECK(std::memcmp(got.dx.data(), same.dx.data(), got.dx.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("bfloat16: gradients of convolutions equal sums in double of rounded operands") {
    on_all_products(
        [](isa set) {
            random_source random;
            for (int round = 0; round < 40; ++round) {
                conv_problem p = random_problem(random, 3);
                p.in = layout::blocked;
                const int shards[] = {1, 2, 8, 16};
                check(set, p, random, shards[round % 4]);
            }
            // batch, ic, oc, size, kernel, stride, pad; the last two: a window as large as its image, and rows that several blocks of pixels begin in
            const int shapes[][7] = {{2, 64, 64, 14, 3, 1, 1}, {3, 160, 40, 9, 1, 1, 0}, {9, 40, 70, 7, 3, 2, 1}, {1, 3, 33, 20, 7, 2, 3},
                                     {2, 33, 16, 6, 5, 1, 2},  {3, 20, 33, 7, 7, 1, 0},  {2, 17, 32, 45, 3, 1, 1}};
            for (const auto& s : shapes) {
                conv_problem p;
                p.n = s[0], p.ic = s[1], p.oc = s[2], p.ih = p.iw = s[3];
                p.kh = p.kw = s[4], p.sh = p.sw = s[5], p.pt = p.pl = s[6];
                size_output(p, s[6], s[6]);
                check(set, p, random, 8);
            }
        },
        true);
    CHECK(strided > 20);
}

TEST_CASE("bfloat16: gradients of weights need little memory of their own") {
    on_all_products([](isa set) {
        conv_problem p;
        p.n = 16, p.ic = 512, p.oc = 4096, p.ih = p.iw = p.kh = p.kw = 7, p.bfloat16 = true;
        size_output(p, 0, 0);
        CHECK(choose_conv_grad_weight(set, p, 8).workspace_bytes <= 64 << 20);
        p.oc = 512, p.kh = p.kw = 3, p.pt = p.pl = 1;
        size_output(p, 1, 1);
        CHECK(choose_conv_grad_weight(set, p, 256).workspace_bytes <= 64 << 20);
        product_sum_problem product;
        product.n = 4096, product.rows = 25088, product.columns = 4096;
        CHECK(bfloat16_grad_workspace(bfloat16_grad_of(set, product)) <= 96 << 20);
    });
}

TEST_CASE("bfloat16: the gradient of a bias is that of float32 where the weights' is not") {
    on_all_products([](isa set) {
        random_source random;
        conv_problem p;
        p.n = 11, p.ic = p.oc = 270, p.ih = p.iw = 8, p.bfloat16 = true;
        size_output(p, 0, 0);
        const operands in(random, p);
        const gradients want(p, in);
        executor alone;
        conv_grad_weight_choice choice;
        const weight_result got = weight_gradient(set, p, in, 8, true, alone, &choice);
        CHECK(std::string(choice.reason) == "operands in bfloat16");
        CHECK(distance(got.db, want.db, want.db_mass) < tolerance);
    });
}

TEST_CASE("bfloat16: gradients of matrix products equal sums in double of rounded operands") {
    on_all_products(
        [](isa set) {
            random_source random;
            // samples, rows of each, rows and columns of the product, shards
            const std::int64_t sizes[][5] = {{1, 1, 1, 1, 8},    {5, 1, 33, 40, 2},   {3, 50, 70, 31, 8}, {9, 17, 16, 130, 16},
                                             {2, 49, 129, 5, 1}, {2, 3, 140, 1100, 2}};  // columns in groups, of which the last is smaller
            for (const auto& z : sizes) {
                product_sum_problem p;
                p.each = z[1], p.n = z[0] * z[1], p.rows = z[2], p.columns = z[3], p.tree.count = static_cast<int>(z[4]);
                const std::vector<float> a = random.reals(p.n * p.rows), b = random.reals(p.n * p.columns);
                std::vector<double> want, mass;
                for (std::int64_t i = 0; i < p.rows; ++i)
                    for (std::int64_t j = 0; j < p.columns; ++j) {
                        double sum = 0, size = 0;
                        for (std::int64_t l = 0; l < p.n; ++l) {
                            const double product =
                                double(rounded(a[static_cast<std::size_t>(l * p.rows + i)])) * double(rounded(b[static_cast<std::size_t>(l * p.columns + j)]));
                            sum += product, size += std::fabs(product);
                        }
                        want.push_back(sum), mass.push_back(size);
                    }
                const std::vector<std::uint16_t> narrow = narrowed(a), narrow_dy = narrowed(b);
                const auto product = [&](executor& pool, const saved_activation& x, const saved_activation& dy) {
                    std::vector<float> c(want.size(), std::nanf(""));
                    bfloat16_grad_args of = bfloat16_grad_of(set, p);
                    buffer space = room(bfloat16_grad_workspace(of) / 4);
                    run_bfloat16_grad(set, of, x, dy, c.data(), space.data(), pool);
                    return c;
                };
                INFO(name(set), " ", p.n, " x ", p.rows, " x ", p.columns);
                executor alone;
                pool_executor three(3);
                const std::vector<float> got = product(alone, a.data(), b.data()), same = product(three, narrow.data(), narrow_dy.data());
                CHECK(distance(got, want, mass) < tolerance);
                CHECK(std::memcmp(got.data(), same.data(), got.size() * sizeof(float)) == 0);
            }
        },
        true);
}
