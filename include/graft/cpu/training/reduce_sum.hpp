// Sums of a tensor over some of its axes, the first of them by the tree of shards.
#pragma once

#include "../../core/executor.hpp"
#include "../../core/shards.hpp"
#include "../isa.hpp"
#include "reduce_sum_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// y[kept] = sum of x over the axes whose y_strides are 0. Axes in the order of memory; the last has x_strides 1.
struct sum_problem {
    static constexpr int max_rank = 10;
    int rank = 0;
    std::int64_t extents[max_rank] = {}, x_strides[max_rank] = {}, y_strides[max_rank] = {};
    bool summed[max_rank] = {};
    bool batch = false;  ///< axis 0 is summed by the tree
    shards tree;
    int block_axis = -1;        ///< axis of blocks of channels, the lanes of which are the last axis; -1: none
    std::int64_t channels = 0;  ///< with a block axis: lanes past this many are neither read nor written
};

/// Appends an axis; axes of one element are left out, neighbours that lie evenly are joined (unless the first is the batch).
void add_axis(sum_problem& problem, std::int64_t extent, std::int64_t x_stride, std::int64_t y_stride, bool summed, bool joinable = true);
/// Bytes of workspace (alignment 64).
std::int64_t sum_workspace_bytes(isa set, const sum_problem& problem);
/// Sums in double, rounded once at the end. x is float32 unless the last axis is kept.
void run_sum(isa set, const sum_problem& problem, const saved_activation& x, float* y, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// How a sum is walked: `outer` kept places, at each a row of columns (or, where the last axis is summed, one number).
struct sum_walk {
    const sum_problem& p;
    const reduce_sum_kernels& kernel;
    int kept[sum_problem::max_rank], others[sum_problem::max_rank];  // axes of the kept places; summed ones but the batch and `rows`
    int kept_count = 0, others_count = 0, rows_axis = -1;
    std::int64_t outer = 1, inner = 1, pieces = 1, repeats = 1;
    bool columns = false;
    std::int64_t batch = 1, tasks = 1, slots = 1;

    sum_walk(isa set, const sum_problem& problem) : p(problem), kernel(*training_kernels(set).reduce_sum) {
        const int last = p.rank - 1;
        columns = last >= 0 && !p.summed[last];
        if (columns) inner = p.extents[last];
        pieces = (inner + kernel.columns - 1) / kernel.columns;
        for (int a = 0; a < (columns ? last : p.rank); ++a) {
            if (!p.summed[a]) {
                kept[kept_count++] = a, outer *= p.extents[a];
                continue;
            }
            if (p.batch && a == 0) continue;
            if (rows_axis >= 0) others[others_count++] = rows_axis;
            rows_axis = a;  // in the end the innermost
        }
        for (int i = 0; i < others_count; ++i) repeats *= p.extents[others[i]];
        if (p.batch) batch = p.extents[0];
        tasks = outer * pieces;
        slots = p.batch && tasks < 64 && rows() * outer * inner > grain ? std::min<std::int64_t>(p.tree.count, batch) : 0;  // 0: a task sums all shards
    }
    static constexpr std::int64_t grain = 16384;  // numbers that are worth a thread

    std::int64_t rows() const { return batch * repeats * (rows_axis >= 0 ? p.extents[rows_axis] : 1); }  // that are summed

    std::int64_t slot(int s) const { return batch < p.tree.count ? p.tree.first(batch, s) : s; }
    int lanes(std::int64_t task) const {
        if (!columns) return 1;
        if (p.block_axis >= 0) return static_cast<int>(std::min(inner, p.channels - index_of(task / pieces, p.block_axis) * inner));
        return static_cast<int>(std::min<std::int64_t>(kernel.columns, inner - task % pieces * kernel.columns));
    }
    std::int64_t index_of(std::int64_t place, int axis) const {
        for (int i = kept_count - 1; i >= 0; --i) {
            if (kept[i] == axis) return place % p.extents[axis];
            place /= p.extents[kept[i]];
        }
        return 0;
    }
    std::int64_t offset(std::int64_t task, const std::int64_t* strides) const {
        std::int64_t place = task / pieces, at = columns ? task % pieces * kernel.columns : 0;
        for (int i = kept_count - 1; i >= 0; --i) {
            at += place % p.extents[kept[i]] * strides[kept[i]];
            place /= p.extents[kept[i]];
        }
        return at;
    }

    // The sum over samples [first, last) of the batch.
    void sum(saved_activation x, std::int64_t task, std::int64_t first, std::int64_t last, double* out) const {
        const int n = lanes(task);
        for (int j = 0; j < n; ++j) out[j] = 0;
        x = x.from(offset(task, p.x_strides));
        // Where only the batch is summed, its samples are the rows.
        if (rows_axis < 0 && columns)
            return kernel.add_columns(x.from(p.batch ? first * p.x_strides[0] : 0), last - first, p.batch ? p.x_strides[0] : 0, n, out);
        if (rows_axis < 0 && p.batch && p.x_strides[0] == 1) {
            out[0] = kernel.row(x.floats() + first, last - first);
            return;
        }
        for (std::int64_t sample = first; sample < last; ++sample)
            for (std::int64_t r = 0; r < repeats; ++r) {
                std::int64_t at = p.batch ? sample * p.x_strides[0] : 0, rest = r;
                for (int i = others_count - 1; i >= 0; --i) {
                    at += rest % p.extents[others[i]] * p.x_strides[others[i]];
                    rest /= p.extents[others[i]];
                }
                if (columns)
                    kernel.add_columns(x.from(at), p.extents[rows_axis], p.x_strides[rows_axis], n, out);
                else if (rows_axis >= 0)
                    out[0] += kernel.row(x.floats() + at, p.extents[rows_axis]);
                else
                    out[0] += static_cast<double>(x.floats()[at]);
            }
    }
};

// leaf(shard, out) by the tree, n numbers at a time. Recursion of at most log2(shards::most).
template <class Leaf>
inline void sum_tree(int first, int count, int n, double* out, const Leaf& leaf) {
    if (count == 1) {
        leaf(first, out);
        // Every node of the tree is a float, as those of products are: half of a batch in half of the shards gives the same bits.
        for (int j = 0; j < n; ++j) out[j] = static_cast<double>(static_cast<float>(out[j]));
        return;
    }
    double right[64];
    sum_tree(first, count / 2, n, out, leaf);
    sum_tree(first + count / 2, count / 2, n, right, leaf);
    for (int j = 0; j < n; ++j) out[j] = static_cast<double>(static_cast<float>(out[j] + right[j]));
}

}  // namespace detail

GRAFT_INLINE void add_axis(sum_problem& p, std::int64_t extent, std::int64_t x_stride, std::int64_t y_stride, bool summed, bool joinable) {
    if (extent == 1 && joinable) return;
    const int last = p.rank - 1;
    if (joinable && last >= 0 && !(p.batch && last == 0) && p.block_axis != last && p.summed[last] == summed && p.x_strides[last] == x_stride * extent &&
        (summed || p.y_strides[last] == y_stride * extent)) {
        p.extents[last] *= extent, p.x_strides[last] = x_stride, p.y_strides[last] = summed ? 0 : y_stride;
        return;
    }
    p.extents[p.rank] = extent, p.x_strides[p.rank] = x_stride, p.y_strides[p.rank] = summed ? 0 : y_stride, p.summed[p.rank] = summed;
    ++p.rank;
}

GRAFT_INLINE std::int64_t sum_workspace_bytes(isa set, const sum_problem& problem) {
    const detail::sum_walk w(set, problem);
    return w.slots * w.tasks * w.kernel.columns * 8;
}

GRAFT_INLINE void run_sum(isa set, const sum_problem& p, const saved_activation& x, float* y, void* workspace, executor& pool) {
    const detail::sum_walk w(set, p);
    const auto finish = [&](std::int64_t task, const double* sum) {
        float* to = y + w.offset(task, p.y_strides);
        for (int j = 0; j < w.lanes(task); ++j) to[j] = static_cast<float>(sum[j]);
    };
    const int shards_used = p.batch ? p.tree.count : 1;
    if (w.slots) {
        // Few results: the shards of one are spread over threads too.
        double* partial = static_cast<double*>(workspace);
        const auto at = [&](int s, std::int64_t task) { return partial + (w.slot(s) * w.tasks + task) * w.kernel.columns; };
        parallel_for(pool, w.tasks * shards_used, [&](std::int64_t t) {
            const int s = static_cast<int>(t / w.tasks);
            const std::int64_t first = p.tree.first(w.batch, s), last = p.tree.last(w.batch, s);
            if (first < last) w.sum(x, t % w.tasks, first, last, at(s, t % w.tasks));
        });
        for (std::int64_t task = 0; task < w.tasks; ++task) {
            double sum[64];
            const int n = w.lanes(task);
            detail::sum_tree(0, shards_used, n, sum, [&](int s, double* out) {
                const bool empty = p.tree.first(w.batch, s) == p.tree.last(w.batch, s);
                for (int j = 0; j < n; ++j) out[j] = empty ? 0 : at(s, task)[j];
            });
            finish(task, sum);
        }
        return;
    }
    const std::int64_t each = std::max<std::int64_t>(1, w.rows() * std::min<std::int64_t>(w.inner, w.kernel.columns));
    const std::int64_t grain = std::max<std::int64_t>(1, w.grain / each);
    parallel_for(pool, (w.tasks + grain - 1) / grain, [&](std::int64_t group) {
        for (std::int64_t task = group * grain; task < std::min(w.tasks, (group + 1) * grain); ++task) {
            double sum[64];
            detail::sum_tree(0, shards_used, w.lanes(task), sum,
                             [&](int s, double* out) { w.sum(x, task, p.batch ? p.tree.first(w.batch, s) : 0, p.batch ? p.tree.last(w.batch, s) : 1, out); });
            finish(task, sum);
        }
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
