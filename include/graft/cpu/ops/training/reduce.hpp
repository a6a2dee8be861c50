// The kernel of graft.SumTo: sums over the axes along which something was broadcast.
#pragma once

#include "../../training/reduce_sum.hpp"
#include "../attributes.hpp"
#include "saved.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The sum of a value of shape `x` down to shape `to` (numpy's rules of broadcasting). Null where it can be run, else why not.
inline const char* sum_problem_of(const shape& x, int x_block, const shape& to, int to_block, std::int64_t shard_count, sum_problem& p) {
    const int rank = x.rank(), before = rank - to.rank();
    if (x.elements() == 0 || before < 0 || rank > 8) return "it is empty, or its rank is over 8";
    if (x_block && rank != 4) return "blocks of channels have four axes";
    bool summed[8] = {};
    for (int a = 0; a < rank; ++a) {
        summed[a] = a < before || (to[a - before] == 1 && x[a] != 1);
        if (!summed[a] && to[a - before] != x[a]) return "its shape does not fit";
    }
    p = {};
    p.batch = rank > 0 && summed[0] && shard_count > 0;
    if (p.batch) p.tree.count = static_cast<int>(shard_count);
    const auto kept = [&](int a) { return summed[a] ? std::int64_t(1) : x[a]; };
    if (!x_block) {
        if (to_block) return "its result lies in blocks";
        std::int64_t x_strides[8], y_strides[8], x_step = 1, y_step = 1;
        for (int a = rank - 1; a >= 0; --a) x_strides[a] = x_step, y_strides[a] = y_step, x_step *= x[a], y_step *= kept(a);
        for (int a = 0; a < rank; ++a) add_axis(p, x[a], x_strides[a], y_strides[a], summed[a], !(p.batch && a == 0));
        // The walk wants a last axis that lies densely.
        if (p.rank == 0 || p.x_strides[p.rank - 1] != 1) add_axis(p, 1, 1, 1, false, false);
        return nullptr;
    }
    if (summed[1] || x[1] < 1) return "it sums across channels that lie in blocks";
    const std::int64_t w = x_block, blocks = (x[1] + w - 1) / w, area = kept(2) * kept(3);
    if (to_block ? to_block != x_block : area != 1) return "its result is an image in rows";
    add_axis(p, x[0], blocks * x[2] * x[3] * w, to_block ? blocks * area * w : x[1], summed[0], !p.batch);
    add_axis(p, blocks, x[2] * x[3] * w, area * w, false, false);
    p.block_axis = p.rank - 1;
    p.channels = x[1];
    add_axis(p, x[2], x[3] * w, kept(3) * w, summed[2]);
    add_axis(p, x[3], w, w, summed[3]);
    add_axis(p, w, 1, 1, false, false);
    return nullptr;
}

inline const char* choose_sum_to(const kernel_query& q, kernel_choice& choice) {
    if (!float32_but_saved(q, 0)) return "it is not float32";
    const std::int64_t count = integer_of(q.n, "shards", 0);
    if (count != 0 && !shards::legal(count)) return "its shards are no power of two up to 256";
    sum_problem p;
    if (const char* reason = sum_problem_of(q.in[0].extents, q.in_layout[0].channels, q.out[0].extents, q.out_layout[0].channels, count, p)) return reason;
    if (q.in[0].type != dtype::float32 && p.summed[p.rank - 1]) return "its rows are not float32";
    choice.workspace_bytes = sum_workspace_bytes(q.level, p);
    choice.set(p);
    choice.note = p.batch ? "sum over the batch" : "sum";
    return nullptr;
}
inline void run_sum_to(const kernel_call& c) { run_sum(c.level, c.parameters<sum_problem>(), saved_input(c, 0), c.output(0), c.workspace, c.pool); }

inline kernel_rows reduce_grad_kernel_rows() {
    static constexpr kernel_row rows[] = {{"SumTo", "graft", choose_sum_to, run_sum_to, false}};
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
