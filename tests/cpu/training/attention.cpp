// Attention head by head, and its gradients: against sums in double, of operands that were rounded first where products are of bfloat16.
#include "../conv_support.hpp"
#include "../products.hpp"
#include "support.hpp"

#include <graft/cpu/training/attention_grad.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace graft;
using namespace graft::cpu;
using namespace training_test;
using kernel_test::on_all_products;
using kernel_test::room;
using kernel_test::rounded;

namespace {

using array = std::vector<float>;

struct sizes {
    std::int64_t outer, inner, queries, keys, width, value_width;
};

// Three matrices side by side in each row, of all heads after each other, as one product makes them; or arrays of their own, a head's rows apart.
struct case_of {
    sizes z;
    attention_problem forward;
    attention_grad_problem backward;
    array q, k, v, dy;
    std::int64_t y_floats = 0;

    explicit case_of(const sizes& s, bool bfloat16) : z(s) {
        forward.batch[0] = backward.batch[0] = s.outer, forward.batch[1] = backward.batch[1] = s.inner;
        forward.queries = backward.queries = s.queries, forward.keys = backward.keys = s.keys;
        forward.width = backward.width = s.width, forward.value_width = backward.value_width = s.value_width;
        forward.bfloat16 = backward.bfloat16 = bfloat16;
        const auto lie = [&](std::int64_t rows, std::int64_t width, std::int64_t gap) {
            const std::int64_t row = s.inner * width + gap;
            return head_matrices{gap / 2, row, {rows * row, width}};
        };
        forward.q = backward.q = backward.dq = lie(s.queries, s.width, 6);
        forward.k = backward.k = backward.dk = lie(s.keys, s.width, 10);
        forward.v = backward.v = backward.dv = lie(s.keys, s.value_width, 0);
        forward.y = backward.dy = lie(s.queries, s.value_width, 2);
        forward.of_scores = bfloat16 ? 0.25f : 0.37f, forward.of_y = bfloat16 ? 1.0f : 0.5f;  // what a factor makes of K is rounded too
        backward.of_probabilities = forward.of_y, backward.of_v = forward.of_y, backward.of_q = backward.of_k = forward.of_scores;
        const auto filled = [&](const head_matrices& m, std::uint32_t seed) { return numbers(s.outer * m.strides[0] + 16, seed, -2, 2); };
        q = filled(forward.q, 1), k = filled(forward.k, 2), v = filled(forward.v, 3), dy = filled(forward.y, 4);
        y_floats = static_cast<std::int64_t>(dy.size());
    }
    std::int64_t heads() const { return z.outer * z.inner; }
};

struct results {
    array probabilities, y, dq, dk, dv;
};

// `narrow`: all that may be is in bfloat16.
results run(isa set, const case_of& c, bool narrow, executor& pool) {
    attention_problem f = c.forward;
    attention_grad_problem b = c.backward;
    const bool rounds = narrow && f.bfloat16;
    f.narrow_q = f.narrow_k = f.narrow_v = rounds, f.own_probabilities = narrow;
    b.narrow_y = b.narrow_q = b.narrow_k = b.narrow_v = b.narrow_out = narrow;
    const std::size_t square = static_cast<std::size_t>(c.heads() * c.z.queries * c.z.keys);
    results r{array(square), array(static_cast<std::size_t>(c.y_floats)), array(c.q.size()), array(c.k.size()), array(c.v.size())};
    const std::vector<std::uint16_t> q = narrowed(c.q), k = narrowed(c.k), v = narrowed(c.v);
    std::vector<std::uint16_t> share(square), dq(c.q.size()), dk(c.k.size()), dv(c.v.size());
    const auto either = [](bool is_narrow, const array& wide, const std::vector<std::uint16_t>& bits) {
        return is_narrow ? saved_activation(bits.data()) : saved_activation(wide.data());
    };
    const auto place = [&](array& wide, std::vector<std::uint16_t>& bits) {
        return narrow ? static_cast<void*>(bits.data()) : static_cast<void*>(wide.data());
    };
    graft::buffer space = room(attention_workspace(set, f) / 4);
    run_attention(set, f, either(rounds, c.q, q), either(rounds, c.k, k), either(rounds, c.v, v), place(r.probabilities, share), r.y.data(), space.data(),
                  pool);
    space = room(attention_grad_workspace(set, b) / 4);
    run_attention_grad(set, b, c.dy.data(), either(narrow, r.probabilities, share), either(narrow, c.q, q), either(narrow, c.k, k), either(narrow, c.v, v),
                       place(r.dq, dq), place(r.dk, dk), place(r.dv, dv), space.data(), pool);
    if (narrow) r.probabilities = widened(share), r.dq = widened(dq), r.dk = widened(dk), r.dv = widened(dv);
    return r;
}

// The largest distance of a matrix' elements from what they should be, as a part of the largest of them.
struct comparison {
    double most = 0, largest = 0;
    void add(double got, double want) { most = std::max(most, std::fabs(got - want)), largest = std::max(largest, std::fabs(want)); }
    double part() const { return largest > 0 ? most / largest : most; }
};

void check(const case_of& c, const results& got, double tolerance, double of_gradients) {
    const auto at = [](const array& x, const head_matrices& m, std::int64_t i, std::int64_t j, std::int64_t row, std::int64_t column) {
        return static_cast<double>(x[static_cast<std::size_t>(m.of(i, j) + row * m.row + column)]);
    };
    const attention_problem& f = c.forward;
    const std::int64_t n = c.z.queries, m = c.z.keys;
    comparison shares, y, dq, dk, dv;
    for (std::int64_t i = 0; i < c.z.outer; ++i)
        for (std::int64_t j = 0; j < c.z.inner; ++j) {
            std::vector<double> p(static_cast<std::size_t>(n * m)), ds = p;
            const auto of = [&](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * m + b); };
            for (std::int64_t a = 0; a < n; ++a) {
                double sum = 0, along = 0;
                for (std::int64_t b = 0; b < m; ++b) {
                    double score = 0;
                    for (std::int64_t e = 0; e < c.z.width; ++e) score += at(c.q, f.q, i, j, a, e) * at(c.k, f.k, i, j, b, e);
                    sum += p[of(a, b)] = std::exp(static_cast<double>(f.of_scores) * score);
                }
                for (std::int64_t b = 0; b < m; ++b) {
                    p[of(a, b)] /= sum;
                    shares.add(static_cast<double>(got.probabilities[static_cast<std::size_t>((i * c.z.inner + j) * n * m + a * m + b)]), p[of(a, b)]);
                    double back = 0;
                    for (std::int64_t e = 0; e < c.z.value_width; ++e) back += at(c.dy, f.y, i, j, a, e) * at(c.v, f.v, i, j, b, e);
                    ds[of(a, b)] = static_cast<double>(f.of_y) * back;
                    along += ds[of(a, b)] * p[of(a, b)];
                }
                for (std::int64_t b = 0; b < m; ++b) ds[of(a, b)] = p[of(a, b)] * (ds[of(a, b)] - along);
                for (std::int64_t e = 0; e < c.z.value_width; ++e) {
                    double made = 0;
                    for (std::int64_t b = 0; b < m; ++b) made += p[of(a, b)] * at(c.v, f.v, i, j, b, e);
                    y.add(at(got.y, f.y, i, j, a, e), static_cast<double>(f.of_y) * made);
                }
                for (std::int64_t e = 0; e < c.z.width; ++e) {
                    double made = 0;
                    for (std::int64_t b = 0; b < m; ++b) made += ds[of(a, b)] * at(c.k, f.k, i, j, b, e);
                    dq.add(at(got.dq, f.q, i, j, a, e), static_cast<double>(f.of_scores) * made);
                }
            }
            for (std::int64_t b = 0; b < m; ++b) {
                for (std::int64_t e = 0; e < c.z.width; ++e) {
                    double made = 0;
                    for (std::int64_t a = 0; a < n; ++a) made += ds[of(a, b)] * at(c.q, f.q, i, j, a, e);
                    dk.add(at(got.dk, f.k, i, j, b, e), static_cast<double>(f.of_scores) * made);
                }
                for (std::int64_t e = 0; e < c.z.value_width; ++e) {
                    double made = 0;
                    for (std::int64_t a = 0; a < n; ++a) made += p[of(a, b)] * at(c.dy, f.y, i, j, a, e);
                    dv.add(at(got.dv, f.v, i, j, b, e), static_cast<double>(f.of_y) * made);
                }
            }
        }
    CHECK(shares.part() < tolerance);
    CHECK(y.part() < tolerance);
    CHECK(dv.part() < of_gradients);
    CHECK(dq.part() < of_gradients);
    CHECK(dk.part() < of_gradients);
}

bool same(const results& a, const results& b) {
    return training_test::same(a.y, b.y) && training_test::same(a.probabilities, b.probabilities) && training_test::same(a.dq, b.dq) &&
           training_test::same(a.dk, b.dk) && training_test::same(a.dv, b.dv);
}

}  // namespace

TEST_CASE("attention and its gradients head by head are those of their formulas, wherever heads lie, on any number of threads") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (const sizes& z : {sizes{1, 1, 1, 1, 1, 1}, sizes{2, 3, 5, 7, 4, 9}, sizes{1, 4, 37, 20, 16, 33}, sizes{3, 7, 12, 12, 8, 8}}) {
            INFO(std::string(name(set)) << ", " << z.queries << " queries, " << z.keys << " keys");
            const case_of c(z, false);
            const results got = run(set, c, false, alone);
            check(c, got, 3e-6, 1e-5);
            CHECK(same(got, run(set, c, false, three)));
            if (z.keys > 1) check(c, run(set, c, true, alone), 0.004, 0.02);
        }
}

TEST_CASE("bfloat16: attention and its gradients by products of it are near those of their formulas, on any number of threads") {
    on_all_products([](isa set) {
        executor alone;
        pool_executor three(3);
        for (const sizes& z : {sizes{2, 3, 33, 47, 32, 40}, sizes{1, 5, 64, 32, 48, 32}}) {
            INFO(z.queries << " queries, " << z.keys << " keys");
            case_of c(z, true);
            for (array* x : {&c.q, &c.k, &c.v, &c.dy})
                for (float& number : *x) number = rounded(number);
            const results got = run(set, c, true, alone);
            check(c, got, 0.006, 0.02);
            CHECK(same(got, run(set, c, true, three)));
            check(c, run(set, c, false, three), 0.006, 0.02);
        }
    });
}
