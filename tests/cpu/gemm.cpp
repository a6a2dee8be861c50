// Matrix products against a double reference: every instruction set, odd sizes, every operand form, any number of threads.
#include "../difference.hpp"
#include "sets.hpp"

#include <graft/cpu/conv_transpose.hpp>
#include <graft/cpu/gemm.hpp>

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
    for (float& v : x) seed = seed * 1664525u + 1013904223u, v = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
    return x;
}

// Memory on a cache line, between guards that nobody may write.
struct aligned {
    explicit aligned(std::int64_t bytes) : memory(static_cast<std::size_t>(bytes) / 4 + 64, 12345.0f), floats(bytes / 4) {
        data = memory.data() + 16;
        while (reinterpret_cast<std::uintptr_t>(data) % 64) ++data;
    }
    bool intact() const { return data[-1] == 12345.0f && data[floats] == 12345.0f; }
    std::vector<float> memory;
    std::int64_t floats;
    float* data;
};

double activated(const epilogue& ep, double x) {
    switch (ep.act) {
    case activation::relu: return x > 0 ? x : 0;
    case activation::clip: return std::fmin(ep.beta, std::fmax(ep.alpha, x));
    case activation::gelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case activation::tanh: return std::tanh(x);
    default: return x;
    }
}

// Runs the problem with 1 to 4 threads, packed or not, and holds it against the reference.
void check(isa set, gemm_problem p, bool constant_b) {
    const std::int64_t batches = p.batch[0] * p.batch[1];
    const std::int64_t lda = p.lda ? p.lda : p.trans_a ? p.m : p.k, ldb = p.ldb ? p.ldb : p.trans_b ? p.k : p.n, ldc = p.ldc ? p.ldc : p.n;
    const std::int64_t ldr = p.ld_residual ? p.ld_residual : p.n;
    const auto extent = [&](const std::int64_t(&strides)[2], std::int64_t rows, std::int64_t ld) {
        return (p.batch[0] - 1) * strides[0] + (p.batch[1] - 1) * strides[1] + rows * ld;
    };
    const auto a = numbers(extent(p.a_strides, p.trans_a ? p.k : p.m, lda), 1), b = numbers(extent(p.b_strides, p.trans_b ? p.n : p.k, ldb), 2);
    const auto bias = numbers(p.bias == bias_kind::row ? p.m : p.n, 3), residual = numbers(extent(p.residual_strides, p.m, ldr), 4);
    const std::int64_t c_floats = extent(p.c_strides, p.m, ldc);
    std::vector<double> want(static_cast<std::size_t>(c_floats), 12345.0);
    const auto at = [](const std::vector<float>& v, std::int64_t i) { return static_cast<double>(v[static_cast<std::size_t>(i)]); };
    for (std::int64_t t = 0; t < batches; ++t) {
        const std::int64_t o = t / p.batch[1], n = t % p.batch[1];
        const std::int64_t a0 = o * p.a_strides[0] + n * p.a_strides[1], b0 = o * p.b_strides[0] + n * p.b_strides[1];
        const std::int64_t c0 = o * p.c_strides[0] + n * p.c_strides[1], r0 = o * p.residual_strides[0] + n * p.residual_strides[1];
        for (std::int64_t i = 0; i < p.m; ++i)
            for (std::int64_t j = 0; j < p.n; ++j) {
                double sum = 0;
                for (std::int64_t l = 0; l < p.k; ++l)
                    sum += at(a, a0 + (p.trans_a ? l * lda + i : i * lda + l)) * at(b, b0 + (p.trans_b ? j * ldb + l : l * ldb + j));
                sum *= p.alpha;
                if (p.bias == bias_kind::column) sum += at(bias, j);
                if (p.bias == bias_kind::row) sum += at(bias, i);
                const double add = p.ep.residual ? at(residual, r0 + i * ldr + j) : 0;
                want[static_cast<std::size_t>(c0 + i * ldc + j)] = p.ep.residual_after_activation ? activated(p.ep, sum) + add : activated(p.ep, sum + add);
            }
    }
    std::vector<float> first;
    for (int threads = 1; threads <= 4; ++threads) {
        pool_executor pool(threads);
        aligned packed(constant_b ? packed_b_bytes(set, p.n, p.k) : 0);
        gemm_problem q = p;
        if (constant_b) pack_b(set, p, b.data(), packed.data, pool), q.packed_b = true;
        aligned workspace(gemm_workspace_bytes(set, q));
        std::vector<float> c(static_cast<std::size_t>(c_floats), 12345.0f);
        run_gemm(set, q, a.data(), constant_b ? packed.data : b.data(), bias.data(), residual.data(), c.data(), workspace.data, pool);
        CHECK(packed.intact());
        CHECK(workspace.intact());
        if (threads == 1) {
            first = c;
            double worst = 0;
            for (std::size_t i = 0; i < c.size(); ++i) worst = larger_error(worst, std::fabs(static_cast<double>(c[i]) - want[i]));
            CHECK(worst <= 1e-6 * std::sqrt(static_cast<double>(p.k) + 4) * 4);
        } else
            CHECK(compare(first.data(), c.data(), c.size() * 4) == 0);
        const bool same_rows = p.ep.residual && ldr == ldc && compare(p.residual_strides, p.c_strides, sizeof p.c_strides) == 0;
        if (same_rows && (!p.ep.residual_after_activation || p.ep.act <= activation::clip)) {
            std::vector<float> inout = residual;
            run_gemm(set, q, a.data(), constant_b ? packed.data : b.data(), bias.data(), inout.data(), inout.data(), workspace.data, pool);
            bool same = true;
            for (std::size_t i = 0; i < c.size(); ++i) same = same && (want[i] == 12345.0 || inout[i] == c[i]);
            CHECK(same);
        }
    }
}

gemm_problem mnk(std::int64_t m, std::int64_t n, std::int64_t k) {
    gemm_problem p;
    p.m = m, p.n = n, p.k = k;
    return p;
}

}  // namespace

TEST_CASE("gemm: odd sizes in all operand forms agree with doubles, for any number of threads") {
    on_every_isa([](isa set) {
        for (std::int64_t m : {1, 2, 3, 7, 13, 14, 15, 29, 100})
            for (std::int64_t n : {1, 5, 16, 31, 32, 33, 70})
                for (std::int64_t k : {0, 1, 3, 17, 64, 130}) {
                    CAPTURE(m);
                    CAPTURE(n);
                    CAPTURE(k);
                    check(set, mnk(m, n, k), false);
                    gemm_problem p = mnk(m, n, k);
                    p.trans_a = true, p.trans_b = (m + n) % 2, p.bias = bias_kind::column, p.ep.act = activation::relu;
                    check(set, p, n % 2);
                }
    });
}

TEST_CASE("gemm: a long k is cut into parts without changing the epilogue") {
    on_every_isa([](isa set) {
        for (std::int64_t m : {3, 40})
            for (int form = 0; form < 32; ++form) {
                CAPTURE(form);
                gemm_problem p = mnk(m, 45, 1301);
                p.bias = static_cast<bias_kind>(form % 3);
                p.alpha = form % 5 ? 1.0f : 0.25f;
                p.ep.residual = form % 2;
                p.ep.residual_after_activation = form / 2 % 2;
                p.ep.act = form % 4 == 0 ? activation::none : form % 4 == 1 ? activation::clip : form % 4 == 2 ? activation::gelu : activation::tanh;
                p.ep.alpha = -0.5f, p.ep.beta = 0.5f;
                p.trans_b = form / 8 % 2;
                check(set, p, form / 16);
            }
    });
}

TEST_CASE("gemm: rows of A that lie whole pages apart") {
    on_every_isa([](isa set) {
        for (std::int64_t m : {7, 8, 9, 14, 23, 30})
            for (std::int64_t k : {37, 1024, 2048}) {
                CAPTURE(m);
                CAPTURE(k);
                gemm_problem p = mnk(m, 45, k);
                p.lda = 2048;
                if (m % 2)
                    p.bias = bias_kind::column, p.ep.act = activation::gelu;
                else
                    p.alpha = 0.3f;
                check(set, p, m > 14);
            }
    });
}

TEST_CASE("gemm: batches with strides, shared matrices and leading dimensions") {
    on_every_isa([](isa set) {
        gemm_problem heads = mnk(19, 21, 8);  // [2,19,3,8] x [2,21,3,8]^T -> [2,3,19,21]
        heads.trans_b = true, heads.alpha = 0.125f;
        heads.batch[0] = 2, heads.batch[1] = 3;
        heads.lda = heads.ldb = 24;
        heads.a_strides[0] = 19 * 24, heads.a_strides[1] = 8, heads.b_strides[0] = 21 * 24, heads.b_strides[1] = 8;
        heads.c_strides[0] = 3 * 19 * 21, heads.c_strides[1] = 19 * 21;
        check(set, heads, false);
        gemm_problem shared_b = mnk(5, 37, 11);  // [4,5,11] x [11,37]
        shared_b.batch[1] = 4, shared_b.a_strides[1] = 55, shared_b.c_strides[1] = shared_b.residual_strides[1] = 5 * 37;
        shared_b.ep.residual = true, shared_b.bias = bias_kind::column;
        check(set, shared_b, false);
        check(set, shared_b, true);
        gemm_problem shared_a = mnk(9, 50, 12);  // [12,9]^T x [2,3,12,50], rows of C 60 apart
        shared_a.trans_a = true, shared_a.batch[0] = 2, shared_a.batch[1] = 3, shared_a.ldc = 60, shared_a.ld_residual = 52;
        shared_a.b_strides[0] = 3 * 600, shared_a.b_strides[1] = 600, shared_a.c_strides[0] = 3 * 540, shared_a.c_strides[1] = 540;
        shared_a.ep.residual = true, shared_a.bias = bias_kind::row;
        check(set, shared_a, false);
        gemm_problem big = mnk(90, 200, 40);  // [3,90,40] x [1,40,200] of two dimensions, of which one is shared
        big.batch[0] = 2, big.batch[1] = 2, big.a_strides[0] = 3600, big.b_strides[1] = 8000;
        big.c_strides[0] = 36000, big.c_strides[1] = 18000;
        check(set, big, false);
        // More products than threads have tasks, each with a matrix of its own that is packed: whole, its last panel, and beside columns of A.
        gemm_problem many = mnk(17, 37, 21);
        many.batch[0] = 5, many.batch[1] = 4, many.a_strides[0] = 4 * 357, many.a_strides[1] = 357, many.b_strides[0] = 4 * 777, many.b_strides[1] = 777;
        many.c_strides[0] = many.residual_strides[0] = 4 * 629, many.c_strides[1] = many.residual_strides[1] = 629;
        many.ep.residual = true;
        check(set, many, false);
        many.trans_b = true;
        check(set, many, false);
        many.trans_a = true;
        check(set, many, false);
    });
}

TEST_CASE("gemm: NaN and infinity come through, and relu keeps NaN") {
    on_every_isa([](isa set) {
        executor alone;
        const float nan = std::nanf(""), infinity = HUGE_VALF;
        const std::vector<float> a = {nan, 1, infinity, 1, 0, 0}, b = {1, 2, 3, 1, 1, 1};
        gemm_problem p = mnk(3, 3, 2);
        p.ep.act = activation::relu;
        aligned workspace(gemm_workspace_bytes(set, p));
        float c[9];
        run_gemm(set, p, a.data(), b.data(), nullptr, nullptr, c, workspace.data, alone);
        CHECK(std::isnan(c[0]));
        CHECK(c[3] == infinity);
        CHECK(c[6] == 0.0f);
    });
}

TEST_CASE("conv_transpose: strides, dilations, groups, pads and output padding agree with doubles") {
    on_every_isa([](isa set) {
        for (int form = 0; form < 48; ++form) {
            CAPTURE(form);
            conv_transpose_problem p;
            p.n = 1 + form % 2, p.groups = form % 3 == 2 ? 3 : 1;
            p.ic = p.groups * (form % 5 + 1), p.oc = p.groups * (form % 4 + 1);
            p.ih = form % 7 + 1, p.iw = form % 6 + 2;
            p.kh = form % 3 + 1, p.kw = form % 4 + 1, p.sh = form % 2 + 1, p.sw = form % 3 + 1, p.dh = form % 5 == 0 ? 2 : 1, p.dw = form % 7 == 0 ? 2 : 1;
            p.pt = form % 4 == 1 && p.kh > 1, p.pl = form % 4 == 2 && p.kw > 1;
            p.oh = (p.ih - 1) * p.sh + p.dh * (p.kh - 1) + 1 - p.pt + (form % 8 == 3), p.ow = (p.iw - 1) * p.sw + p.dw * (p.kw - 1) + 1 - p.pl;
            if (p.oh <= 0 || p.ow <= 0) continue;
            p.ep.act = form % 4 == 3 ? activation::tanh : form % 4 == 0 ? activation::relu : activation::none;
            const std::int64_t og = p.oc / p.groups, ig = p.ic / p.groups;
            const auto x = numbers(p.n * p.ic * p.ih * p.iw, 5), w = numbers(p.ic * og * p.kh * p.kw, 6), bias = numbers(p.oc, 7);
            const bool with_bias = form % 2;
            std::vector<double> want(static_cast<std::size_t>(p.n * p.oc * p.oh * p.ow));
            for (std::int64_t i = 0; i < p.n; ++i)
                for (std::int64_t c = 0; c < p.ic; ++c)
                    for (std::int64_t o = 0; o < og; ++o)
                        for (std::int64_t h = 0; h < p.ih; ++h)
                            for (std::int64_t v = 0; v < p.iw; ++v)
                                for (int r = 0; r < p.kh; ++r)
                                    for (int s = 0; s < p.kw; ++s) {
                                        const std::int64_t y = h * p.sh + r * p.dh - p.pt, u = v * p.sw + s * p.dw - p.pl;
                                        if (y < 0 || u < 0 || y >= p.oh || u >= p.ow) continue;
                                        want[static_cast<std::size_t>(((i * p.oc + c / ig * og + o) * p.oh + y) * p.ow + u)] +=
                                            static_cast<double>(x[static_cast<std::size_t>(((i * p.ic + c) * p.ih + h) * p.iw + v)]) *
                                            static_cast<double>(w[static_cast<std::size_t>(((c * og + o) * p.kh + r) * p.kw + s)]);
                                    }
            std::vector<float> first;
            for (int threads = 1; threads <= 4; ++threads) {
                pool_executor pool(threads);
                aligned workspace(conv_transpose_workspace_bytes(set, p));
                std::vector<float> y(want.size(), 12345.0f);
                run_conv_transpose(set, p, x.data(), w.data(), with_bias ? bias.data() : nullptr, y.data(), workspace.data, pool);
                CHECK(workspace.intact());
                if (threads > 1) {
                    CHECK(compare(first.data(), y.data(), y.size() * 4) == 0);
                    continue;
                }
                first = y;
                double worst = 0;
                for (std::size_t i = 0; i < y.size(); ++i) {
                    const std::size_t o = i / static_cast<std::size_t>(p.oh * p.ow) % static_cast<std::size_t>(p.oc);
                    worst =
                        larger_error(worst, std::fabs(static_cast<double>(y[i]) - activated(p.ep, want[i] + (with_bias ? static_cast<double>(bias[o]) : 0))));
                }
                CHECK(worst <= 1e-5);
            }
        }
    });
}
