// Attention in a step of training, and its backward part, as operators that go through them head by head.
#pragma once

#include "../ops/matmul.hpp"
#include "../ops/training/attention.hpp"
#include "become_training.hpp"
#include "../../lower/rewriter.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   S = StridedMatMul(Q, K)    P = Softmax(S)    Y = StridedMatMul(P, V)
//   dP = StridedMatMul(dY, V)    dV = StridedMatMul(P, dY)    dS = SoftmaxGrad(dP, P)    dQ = StridedMatMul(dS, K)    dK = StridedMatMul(dS, Q)
// Passes over what has a number for each query and key, three and five of them, become one over each head's, and what lays the three gradients side by side
// becomes the distances at which they are written. Behind strided_products, whose products these are.
class attention_heads : public rewriter {
public:
    attention_heads(graph& target, place_id on, const cpu::arithmetic& by) : rewriter(target, on), bfloat16_(by.bfloat16 && cpu::bfloat16_products(by.level)) {}

    void run() {
        static constexpr rewrite<attention_heads> rows[] = {{"SoftmaxGrad", "graft", &attention_heads::join_gradients},
                                                            {"Softmax", "", &attention_heads::join}};
        sweep(*this, rows);
        if (any_) drop_unread(g);  // what laid gradients side by side
    }

private:
    using matrices = cpu::head_matrices;

    struct product {
        node* made = nullptr;
        cpu::strided_product s;

        matrices a() const { return {s.a_offset, s.problem.lda, {s.problem.a_strides[0], s.problem.a_strides[1]}}; }
        matrices b() const { return {s.b_offset, s.problem.ldb, {s.problem.b_strides[0], s.problem.b_strides[1]}}; }
        matrices c() const { return {0, s.problem.ldc, {s.problem.c_strides[0], s.problem.c_strides[1]}}; }
    };
    // What a node does, if it is a product of two matrices, turned so, to which nothing is added.
    bool read(node* n, bool trans_a, bool trans_b, product& to) {
        product found;
        if (!n || !is(*n, "StridedMatMul", "graft") || n->inputs.size() != 2 || !cpu::problem_in(*n, found.s)) return false;
        const cpu::gemm_problem& p = found.s.problem;
        if (p.trans_a != trans_a || p.trans_b != trans_b || p.bfloat16 || p.ep.act != activation::none || p.ep.residual || p.bias != cpu::bias_kind::none)
            return false;
        found.made = n;
        to = found;
        return true;
    }
    static bool same(const matrices& a, const matrices& b) {
        return a.offset == b.offset && a.row == b.row && a.strides[0] == b.strides[0] && a.strides[1] == b.strides[1];
    }
    // Whether they follow each other without gaps, `rows` by `columns` each.
    static bool dense(const matrices& m, const std::int64_t* batch, std::int64_t rows, std::int64_t columns) {
        const bool outer = batch[0] == 1 || m.strides[0] == batch[1] * rows * columns, inner = batch[1] == 1 || m.strides[1] == rows * columns;
        return m.offset == 0 && m.row == columns && outer && inner;
    }

    GRAFT_COLD void join_gradients(node& n) {
        const value_id y = n.inputs[1], ds = n.outputs[0];
        const shape& of = at(y).extents;
        product scores, dv, dq, dk;
        const std::int64_t axis = integer(n, "axis", -1);
        if ((axis != -1 && axis != of.rank() - 1) || !used_once(n.inputs[0]) || !read(maker(n.inputs[0]), false, true, scores) || is_output(ds)) return;
        const std::vector<int> reading = readers(ds), probable = readers(y);
        if (reading.size() != 2) return;
        for (int i : reading) {
            node* const m = &g.nodes[static_cast<std::size_t>(i)];
            if (m->inputs[0] != ds || (!read(m, false, false, dq) && !read(m, true, false, dk))) return;
        }
        for (int i : probable) {
            node* const m = &g.nodes[static_cast<std::size_t>(i)];
            product found;
            if (m->inputs[0] == y && read(m, true, false, found) && found.made->inputs[1] == scores.made->inputs[0] && same(found.b(), scores.a())) dv = found;
        }
        if (!dq.made || !dk.made || !dv.made) return;
        cpu::attention_grad_problem p;
        const cpu::gemm_problem& s = scores.s.problem;
        p.batch[0] = s.batch[0], p.batch[1] = s.batch[1];
        p.queries = s.m, p.keys = s.n, p.value_width = s.k, p.width = dq.s.problem.n;
        const auto is_of = [&](const product& t, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
            const cpu::gemm_problem& q = t.s.problem;
            return q.m == rows && q.n == columns && q.k == depth && q.batch[0] == p.batch[0] && q.batch[1] == p.batch[1] &&
                   dense(t.a(), p.batch, p.queries, p.keys);
        };
        if (!is_of(dq, p.queries, p.width, p.keys) || !is_of(dk, p.keys, p.width, p.queries) || !is_of(dv, p.keys, p.value_width, p.queries)) return;
        if (!dense(scores.c(), p.batch, p.queries, p.keys) || of.elements() != p.batch[0] * p.batch[1] * p.queries * p.keys) return;
        p.dy = scores.a(), p.v = scores.b(), p.k = dq.b(), p.q = dk.b();
        p.dq = dq.c(), p.dk = dk.c(), p.dv = dv.c();
        p.of_probabilities = s.alpha, p.of_q = dq.s.problem.alpha, p.of_k = dk.s.problem.alpha, p.of_v = dv.s.problem.alpha;
        p.bfloat16 = bfloat16_ && p.of_q == p.of_k && p.of_v == 1 && cpu::takes_bfloat16_batch(s) && cpu::takes_bfloat16_batch(dq.s.problem);
        std::vector<value_id> made = {dq.made->outputs[0], dk.made->outputs[0], dv.made->outputs[0]};
        // All is known where the gradient of the softmax was, and nothing of it is read before.
        for (value_id id : made)
            if (is_output(id) || readers(id).empty() || readers(id)[0] < position(ds)) return;
        const value_id whole = side_by_side(made, p);
        node all = n;
        become_training(all, "AttentionGrad", on_);
        all.attributes.clear();
        all.inputs = {scores.made->inputs[0], y, dk.made->inputs[1], dq.made->inputs[1], scores.made->inputs[1]};
        all.outputs = whole == no_value ? std::move(made) : std::vector<value_id>{whole};
        cpu::set_problem(all, p);
        for (node* gone : {&n, scores.made, dq.made, dk.made, dv.made}) drop(*gone);
        if (whole != no_value) drop(*maker(whole));
        put(n, std::move(all));
        any_ = true;
    }

    GRAFT_COLD void join(node& n) {
        const value_id share = n.outputs[0];
        const shape& of = at(share).extents;
        product scores, y;
        const std::int64_t axis = integer(n, "axis", n.version < 13 ? 1 : -1);
        if ((axis != -1 && axis != of.rank() - 1) || is_output(share) || !used_once(n.inputs[0]) || !read(maker(n.inputs[0]), false, true, scores)) return;
        const std::vector<int> reading = readers(share);
        for (int i : reading) {
            node& m = g.nodes[static_cast<std::size_t>(i)];
            if (m.backward == n.backward && (y.made || m.inputs[0] != share || !read(&m, false, false, y))) return;
        }
        if (!y.made || y.made->inputs[1] == share) return;
        cpu::attention_problem p;
        const cpu::gemm_problem &s = scores.s.problem, &t = y.s.problem;
        p.batch[0] = s.batch[0], p.batch[1] = s.batch[1];
        p.queries = s.m, p.keys = s.n, p.width = s.k, p.value_width = t.n;
        if (t.m != s.m || t.k != s.n || t.batch[0] != s.batch[0] || t.batch[1] != s.batch[1] || !dense(y.a(), p.batch, p.queries, p.keys)) return;
        if (!dense(scores.c(), p.batch, p.queries, p.keys) || of.elements() != p.batch[0] * p.batch[1] * p.queries * p.keys) return;
        p.q = scores.a(), p.k = scores.b(), p.v = y.b(), p.y = y.c();
        p.of_scores = s.alpha, p.of_y = t.alpha;
        p.bfloat16 = bfloat16_ && cpu::takes_bfloat16_batch(s) && cpu::takes_bfloat16_batch(t);
        // Where the second product was, as V may be made after the scores; the gradients come behind it.
        node all = *y.made;
        become_training(all, "AttentionTraining", on_);
        all.attributes.clear();
        all.inputs = {scores.made->inputs[0], scores.made->inputs[1], y.made->inputs[1]};
        all.outputs = {y.made->outputs[0]};
        if (reading.size() > 1) all.outputs.push_back(share);
        cpu::set_problem(all, p);
        node& place = *y.made;
        for (node* gone : {&n, scores.made, y.made}) drop(*gone);
        put(place, std::move(all));
    }

    // The value in which a Transpose lays the three, joined along a first axis of their own; none where they are not.
    GRAFT_COLD value_id side_by_side(const std::vector<value_id>& parts, cpu::attention_grad_problem& p) {
        const node* join = nullptr;
        matrices* const lie[] = {&p.dq, &p.dk, &p.dv};
        const std::int64_t widths[] = {p.width, p.width, p.value_width}, rows[] = {p.queries, p.keys, p.keys};
        std::int64_t place[3];
        for (int i = 0; i < 3; ++i) {
            const shape& s = at(parts[static_cast<std::size_t>(i)]).extents;
            if (s.rank() != 4 || s[0] != p.batch[0] || s[1] != p.batch[1] || s[2] != rows[i] || s[3] != widths[i]) return no_value;
            if (!dense(*lie[i], p.batch, rows[i], widths[i])) return no_value;
            const node* const view = only_reader(parts[static_cast<std::size_t>(i)]);
            if (!view || !row(*view).is(op_flag::view)) return no_value;
            const value_id seen = view->outputs[0];
            const node* const read = only_reader(seen);
            const shape& t = at(seen).extents;
            if (!read || !is(*read, "Concat") || (join && join != read) || t.rank() != 5 || t[0] != 1) return no_value;
            for (int d = 0; d < 4; ++d)
                if (t[d + 1] != s[d]) return no_value;
            join = read;
            place[i] = std::find(join->inputs.begin(), join->inputs.end(), seen) - join->inputs.begin();
        }
        const std::int64_t axis = integer(*join, "axis", 0);
        if (join->inputs.size() != 3 || (axis != 0 && axis != -5)) return no_value;
        const node* const turn = only_reader(join->outputs[0]);
        const attribute* const perm = turn && is(*turn, "Transpose") ? turn->find("perm") : nullptr;
        if (!perm || perm->integers.size() != 5) return no_value;
        const shape& z = at(turn->outputs[0]).extents;
        std::int64_t of[5], each = 1;
        for (int d = 4; d >= 0; each *= z[d--]) of[(perm->integers[static_cast<std::size_t>(d)] + 5) % 5] = each;
        if (of[4] != 1) return no_value;
        for (int i = 0; i < 3; ++i) *lie[i] = {place[i] * of[0], of[3], {of[1], of[2]}};
        return turn->outputs[0];
    }

    const bool bfloat16_;
    bool any_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
