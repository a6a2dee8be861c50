// Products that read their matrices out of others, and write theirs into others, instead of copies between them.
#pragma once

#include "../ops/matmul.hpp"
#include "../../lower/rewriter.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   MatMul(Mul(Transpose(Reshape(x)), c), Split(Transpose(x)))    graft.StridedMatMul(x, x)
// Attention takes its queries, keys and values out of one matrix, each head's from every row. Whatever only moves, splits or scales by a number what both
// operands are made of becomes distances between rows and between products, and so does a Transpose that is alone in reading what they make. The same in a
// step of training, whose backward part multiplies by those matrices turned.
class strided_products : public rewriter {
public:
    strided_products(graph& target, const lowering& with, const cpu::arithmetic& by)
        : rewriter(target, with.on), exact_(with.exact), tiles_(by.bfloat16 && cpu::bfloat16_products(by.level)->tiles) {}

    GRAFT_COLD void run() {
        for (node& n : g.nodes)
            if (is(n, "MatMul", "graft")) stride(n);
        finish();
        if (any_) drop_unread(g);  // what was copied before
    }

private:
    // Element (i, j, ...) of a value lies at offset + i * strides[0] + j * strides[1] + ... of another, and is multiplied by a number.
    struct view {
        value_id base = no_value;
        shape extents;
        std::int64_t strides[8] = {}, offset = 0;
        float factor = 1;
    };
    static void dense(const shape& s, std::int64_t* strides) {
        std::int64_t each = 1;
        for (int d = s.rank() - 1; d >= 0; each *= s[d--]) strides[d] = each;
    }

    GRAFT_COLD view view_of(value_id id) {
        view v;
        v.base = id, v.extents = at(id).extents;
        dense(v.extents, v.strides);
        int steps = 0;
        while (steps < most_steps && step_back(v)) ++steps;
        return v;
    }
    // To what the node reads that makes the base; false where that is more than a matter of places.
    GRAFT_COLD bool step_back(view& v) {
        const node* made = maker(v.base);
        if (!made || !here(*made) || made->inputs.empty() || made->inputs[0] == no_value) return false;
        if (at(v.base).extents.rank() > 8 || at(made->inputs[0]).extents.rank() > 8 || at(v.base).extents.elements() == 0) return false;
        for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
            if (is(*made, op)) return move_to(v, made->inputs[0]);
        if (is(*made, "Mul") && !exact_ && !made->find("activation")) {
            float by = 1;
            const int number = scalar(made->inputs[1], by) ? 1 : scalar(made->inputs[0], by) ? 0 : -1;
            if (number < 0 || at(made->inputs[static_cast<std::size_t>(1 - number)]).extents != at(v.base).extents) return false;
            v.factor *= by;
            return move_to(v, made->inputs[static_cast<std::size_t>(1 - number)]);
        }
        const bool transposes = is(*made, "Transpose");
        if (!transposes && !is(*made, "Split")) return false;
        const shape &x = at(made->inputs[0]).extents, &y = at(v.base).extents;
        std::int64_t of_x[8], of_y[8], before = 0;
        dense(x, of_x);
        for (int d = 0; d < y.rank(); ++d) of_y[d] = of_x[d];
        if (transposes) {
            for (int d = 0; d < y.rank(); ++d) of_y[d] = of_x[source_of(*made, d, y.rank())];
        } else {
            const std::int64_t axis = integer(*made, "axis", 0), a = axis < 0 ? axis + x.rank() : axis;
            for (std::size_t i = 0; i < made->outputs.size() && made->outputs[i] != v.base; ++i) {
                if (made->outputs[i] == no_value) return false;
                before += at(made->outputs[i]).extents[static_cast<int>(a)];
            }
            before *= of_x[a];
        }
        return move(v, y, of_y, before) && move_to(v, made->inputs[0]);
    }
    // Which dimension of what it reads becomes dimension d of what a Transpose makes.
    static std::int64_t source_of(const node& transpose, int d, int rank) {
        const attribute* const perm = transpose.find("perm");
        if (!perm || perm->integers.empty()) return rank - 1 - d;
        const std::int64_t from = perm->integers[static_cast<std::size_t>(d)];
        return from < 0 ? from + rank : from;
    }
    bool move_to(view& v, value_id base) {
        if (!is_float32(base) || !at(base).has_shape || is_constant(base)) return false;
        v.base = base;
        return true;
    }
    // Distances in a dense value of such extents become those that its dimensions have elsewhere. Those of the view have to be its dimensions, or parts.
    GRAFT_COLD static bool move(view& v, const shape& y, const std::int64_t* to, std::int64_t before) {
        std::int64_t dense_y[8], moved[8] = {};
        dense(y, dense_y);
        for (int d = 0; d < v.extents.rank(); ++d) {
            int k = 0;
            while (k < y.rank() && !(y[k] >= v.extents[d] && dense_y[k] == v.strides[d])) ++k;
            if (v.extents[d] == 1) continue;
            if (k == y.rank()) return false;
            moved[d] = to[k];
        }
        std::int64_t offset = before;
        for (int k = 0; k < y.rank(); ++k) offset += v.offset / dense_y[k] % y[k] * to[k];
        std::copy(moved, moved + 8, v.strides);
        v.offset = offset;
        return true;
    }

    // Rows and columns of a matrix, and of a batch of them.
    struct rows {
        std::int64_t row, column, outer, inner;
    };
    static rows rows_of(const view& v) {
        const int r = v.extents.rank();
        const auto stride = [&](int back) { return r >= back && v.extents[r - back] > 1 ? v.strides[r - back] : 0; };
        return {stride(2), stride(1), stride(4), stride(3)};
    }

    // A matrix of a product as it lies: one of its dimensions is a step of one element.
    GRAFT_COLD static bool lay(const rows& in, bool& trans, std::int64_t& distance, std::int64_t (&strides)[2]) {
        const bool turned = in.column != 1;
        if (turned && in.row != 1) return false;
        distance = turned ? in.column : in.row;
        trans = trans != turned;
        strides[0] = in.outer, strides[1] = in.inner;
        return true;
    }

    GRAFT_COLD void stride(node& n) {
        const shape &a = at(n.inputs[0]).extents, &b = at(n.inputs[1]).extents, y = at(n.outputs[0]).extents;
        const int r = y.rank();
        if (y.elements() == 0 || n.find("packed") || is_constant(n.inputs[1]) || is_constant(n.inputs[0]) || r < 3 || r > 4 || a.rank() != r || b.rank() != r)
            return;
        for (int d = 0; d < r - 2; ++d)
            if (a[d] != y[d] || b[d] != y[d]) return;
        cpu::strided_product s;
        cpu::gemm_problem& p = s.problem;
        if (!cpu::gemm_problem_of(n, a, b, y, p) || p.trans_a || p.m < 2 || p.n < 2 || p.k < 2) return;
        const view of_a = view_of(n.inputs[0]), of_b = view_of(n.inputs[1]);
        if (!lay(rows_of(of_a), p.trans_a, p.lda, p.a_strides) || !lay(rows_of(of_b), p.trans_b, p.ldb, p.b_strides)) return;
        if (tiles_ && p.trans_a) return;  // tiles gather rows
        p.batch[0] = r == 4 ? y[0] : 1, p.batch[1] = y[r - 3];
        p.c_strides[1] = p.m * p.n, p.c_strides[0] = p.batch[1] * p.c_strides[1];
        p.ldc = p.ld_residual = p.n;
        p.residual_strides[0] = p.c_strides[0], p.residual_strides[1] = p.c_strides[1];
        p.alpha *= of_a.factor * of_b.factor;
        s.a_offset = of_a.offset, s.b_offset = of_b.offset;
        node* const times = number_behind(n, p);
        if (times) replace(*times, n);
        value_id left = of_a.base, right = of_b.base;
        node* const behind = transpose_behind(n, s, left, right);
        if (of_a.base == n.inputs[0] && of_b.base == n.inputs[1] && !behind && !times) return;
        p.bfloat16 = tiles_ && cpu::takes_bfloat16_batch(p);
        any_ = true;
        edit(n, [&] {
            n.inputs[0] = left, n.inputs[1] = right;
            become(n, "StridedMatMul", "graft");
            cpu::set_problem(n, s);
        });
        if (behind) replace(*behind, n);
    }
    // One that alone reads the product, and multiplies it by a number.
    GRAFT_COLD node* number_behind(const node& n, cpu::gemm_problem& p) {
        node* const times = only_reader(n.outputs[0]);
        if (exact_ || !times || !is(*times, "Mul") || times->find("activation") || p.ep.act != activation::none || p.ep.residual ||
            p.bias != cpu::bias_kind::none)
            return nullptr;
        float by = 1;
        if (at(times->outputs[0]).extents != at(n.outputs[0]).extents || !scalar(times->inputs[times->inputs[0] == n.outputs[0] ? 1 : 0], by)) return nullptr;
        p.alpha *= by;
        return times;
    }
    // One that alone reads the product, and has its rows or its columns side by side.
    GRAFT_COLD node* transpose_behind(const node& n, cpu::strided_product& s, value_id& left, value_id& right) {
        cpu::gemm_problem& p = s.problem;
        node* const t = p.ep.residual ? nullptr : only_reader(n.outputs[0]);
        if (!t || !is(*t, "Transpose")) return nullptr;
        const shape &y = at(n.outputs[0]).extents, &z = at(t->outputs[0]).extents;
        const int r = y.rank();
        std::int64_t of_z[8], of_y[8] = {};
        dense(z, of_z);
        for (int d = 0; d < r; ++d) of_y[source_of(*t, d, r)] = of_z[d];
        const bool turned = of_y[r - 1] != 1;
        if (turned) {
            // C' = B' A'.
            if (of_y[r - 2] != 1 || p.bias != cpu::bias_kind::none || (tiles_ && !p.trans_b)) return nullptr;
            std::swap(left, right), std::swap(s.a_offset, s.b_offset), std::swap(p.m, p.n), std::swap(p.lda, p.ldb);
            std::swap(p.a_strides, p.b_strides);
            const bool a_was = p.trans_a;
            p.trans_a = !p.trans_b, p.trans_b = !a_was;
            p.ld_residual = p.n;
        }
        p.ldc = of_y[turned ? r - 1 : r - 2], p.c_strides[1] = of_y[r - 3], p.c_strides[0] = r == 4 ? of_y[0] : 0;
        return t;
    }

    static constexpr int most_steps = 64;
    bool exact_, tiles_, any_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
