// Batch normalisation in training: statistics of a batch, the normalised batch, and the gradient, on planes and on blocks of channels.
#pragma once

#include "../../core/communicator.hpp"
#include "../../core/executor.hpp"
#include "../../core/shards.hpp"
#include "../isa.hpp"
#include "norm_grad_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Images [n][c][area], or with `blocked` [n][ceil(c / W)][area][W]; n * area >= 1. Sums over the batch are a tree over the shards.
struct norm_problem {
    std::int64_t n = 0, c = 0, area = 0;  ///< area: height times width; 1 for [n][c]
    bool blocked = false;
    shards tree;
    double epsilon = 1e-5;
    double momentum = 0.9;  ///< share of the old running value
    epilogue ep;            ///< forward: y = act(normalised + residual). Backward: the activation whose gradient comes first, relu or clip
};

/// What a training pass reads and writes. Arrays of c numbers; those that are null are not written. running_* and new_* may be
/// the same memory, and so may x and y. x_narrow and y_narrow take x and y in bfloat16, y where the activation is at most a clip.
struct norm_forward_arrays {
    const float *x, *scale, *bias, *running_mean, *running_variance, *residual;
    float *y, *new_mean, *new_variance, *saved_mean, *saved_inverse;
    std::uint16_t *x_narrow, *y_narrow;
    float* applied = nullptr;  ///< null, or [2][c]: y = act((x - saved_mean) * applied[0] + applied[1]) where there is no residual
};

/// y = act((x - mean) / sqrt(variance + epsilon) * scale + bias + residual) with the mean and the (biased) variance of the batch;
/// saved_inverse is 1 / sqrt(variance + epsilon); new = momentum * running + (1 - momentum) * batch, the variance then being the
/// unbiased one (that of a single number counts as 0), as in PyTorch. Ioffe, Szegedy 2015.
/// The batch is that of all members of `group`, where there is one. Errors: those of the group.
status run_batch_norm_training(isa set, const norm_problem& problem, const norm_forward_arrays& arrays, void* workspace, executor& pool,
                               communicator* group = nullptr);

/// What the backward pass reads and writes. x, and y, which relu and clip look at where there is no `applied`, are of one type. masked (null: not wanted)
/// takes dy after the activation. dx may be dy.
struct norm_backward_arrays {
    const float *dy, *scale, *saved_mean, *saved_inverse;
    saved_activation x, y;
    float *dx, *dscale, *dbias, *masked;
    const float* applied = nullptr;  ///< that of the forward pass, of float32 x, instead of y
};

/// dbias = sum(dy), dscale = sum(dy * normalised), dx = scale * saved_inverse * (dy - (dbias + normalised * dscale) / (n * area)).
/// Sums are over the batch of all members of `group`, where there is one. Errors: those of the group.
status run_batch_norm_grad(isa set, const norm_problem& problem, const norm_backward_arrays& arrays, void* workspace, executor& pool,
                           communicator* group = nullptr);

/// Bytes of workspace (alignment 64) for either pass; -1 where they overflow.
std::int64_t norm_workspace_bytes(isa set, const norm_problem& problem);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/collective.hpp"
#include "../dispatch.hpp"
#include "../elementwise_kernels.hpp"
#include "dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// The images as units that are summed by themselves: a block of channels, a channel's plane, or a few columns of a matrix.
struct norm_units {
    std::int64_t width = 1, units = 0, unit_step = 0, image_step = 0, images = 0, c = 0;
    std::int64_t slots = 0;  // sums that are kept for each unit: one for each shard that has samples
    shards tree;
    norm_rows rows{};  // of one image; channels: 1 stands for "those of the unit"

    norm_units(isa set, const norm_problem& p) : images(p.n), c(p.c), tree(p.tree) {
        const std::int64_t w = vector_width(set);
        const bool side_by_side = p.blocked || p.area == 1;
        width = side_by_side ? w : 1;
        units = (p.c + width - 1) / width;
        unit_step = p.blocked ? p.area * w : p.area == 1 ? w : p.area;
        image_step = p.blocked ? units * unit_step : p.c * p.area;
        slots = std::min<std::int64_t>(tree.count, images);
        rows.step = w;
        rows.channels = side_by_side ? 1 : 0;
        rows.whole = side_by_side ? p.area : p.area / w;
        rows.tail = !side_by_side && p.area % w ? 1 : 0;
        rows.tail_lanes = static_cast<int>(side_by_side ? w : p.area % w);
        whole_blocks = p.blocked;
    }
    // The rows of one image of a unit. A block is read and written whole; the last columns of a matrix are not.
    norm_rows of(std::int64_t unit) const {
        norm_rows r = rows;
        if (!r.channels) return r;
        r.channels = static_cast<int>(std::min(width, c - unit * width));
        if (!whole_blocks && r.channels < width) r.whole = 0, r.tail = 1, r.tail_lanes = r.channels;
        return r;
    }
    // The same for a run of images: those of one row each become rows of one image.
    norm_rows of(std::int64_t unit, std::int64_t& count, std::int64_t& step) const {
        norm_rows r = of(unit);
        step = image_step;
        if (!r.channels || r.whole + r.tail != 1) return r;
        (r.tail ? r.tail : r.whole) = count;
        r.step = image_step;
        count = 1;
        return r;
    }
    // Where the sums of shard s are kept; with fewer samples than shards only those that have one are.
    std::int64_t slot(int s) const { return images < tree.count ? tree.first(images, s) : s; }
    std::int64_t samples(int first, int count) const { return tree.last(images, first + count - 1) - tree.first(images, first); }

    bool whole_blocks = false;
};

// Joins the shards [first, first + count) by the tree: into the slot that is returned; -1 where they are empty.
template <class Join>
inline std::int64_t join_shards(const norm_units& u, int first, int count, const Join& join) {
    if (u.samples(first, count) == 0) return -1;
    if (count == 1) return u.slot(first);
    const int half = count / 2;
    const std::int64_t left = join_shards(u, first, half, join), right = join_shards(u, first + half, half, join);
    if (left < 0 || right < 0) return left < 0 ? right : left;
    join(left, u.samples(first, half), right, u.samples(first + half, half));
    return left;
}

// The workspace: two sums for each slot and channel in double, then four numbers for each channel.
struct norm_scratch {
    std::int64_t padded;
    double *first, *second;
    float* numbers[4];

    norm_scratch(const norm_units& u, void* workspace) : padded(u.units * u.width) {
        first = static_cast<double*>(workspace);
        second = first + u.slots * padded;
        float* after = reinterpret_cast<float*>(second + u.slots * padded);
        for (int i = 0; i < 4; ++i) numbers[i] = after + i * padded;
    }
};

// Runs sums(unit, shard), join(first unit, last unit), finish(first unit, last unit) and apply(unit, image, first row, rows) over everything. Where a
// unit fits the second cache, a task does all of them for one; else they follow each other in groups of units that the last cache can hold. Among
// members of a group `exchange` stands behind all that is joined.
template <class Sums, class Join, class Exchange, class Finish, class Apply>
inline status norm_passes(const norm_units& u, std::int64_t arrays, executor& pool, bool among_members, const Sums& sums, const Join& join,
                          const Exchange& exchange, const Finish& finish, const Apply& apply) {
    const std::int64_t rows = u.rows.whole + u.rows.tail, unit_bytes = u.images * rows * u.rows.step * 4 * arrays;
    if (!among_members && unit_bytes <= 786432 && u.units >= 2 * pool.threads()) {
        parallel_for(pool, u.units, [&](std::int64_t unit) {
            for (int s = 0; s < u.tree.count; ++s)
                if (u.samples(s, 1)) sums(unit, s);
            join(unit, unit + 1);
            finish(unit, unit + 1);
            for (std::int64_t image = 0; image < u.images; ++image) apply(unit, image, 0, rows);
        });
        return {};
    }
    const std::int64_t group = among_members ? u.units : std::min(u.units, std::max<std::int64_t>(1, 8388608 / std::max<std::int64_t>(1, unit_bytes)));
    const std::int64_t band = std::min<std::int64_t>(rows, 1024), bands = (rows + band - 1) / band;
    for (std::int64_t begin = 0; begin < u.units; begin += group) {
        const std::int64_t count = std::min(group, u.units - begin);
        parallel_for(pool, count * u.tree.count, [&](std::int64_t t) {
            const int s = static_cast<int>(t % u.tree.count);
            if (u.samples(s, 1)) sums(begin + t / u.tree.count, s);
        });
        const std::int64_t few = std::max<std::int64_t>(1, 64 / u.width);
        const auto each = [&](const auto& f) {
            parallel_for(pool, (count + few - 1) / few, [&](std::int64_t t) { f(begin + t * few, begin + std::min(count, (t + 1) * few)); });
        };
        if (among_members) {
            each(join);
            GRAFT_TRY(exchange());
            each(finish);
        } else
            each([&](std::int64_t from, std::int64_t to) { join(from, to), finish(from, to); });
        // One image after the other, as they lie in memory.
        parallel_for(pool, u.images * count * bands, [&](std::int64_t t) {
            const std::int64_t first = t % bands * band;
            apply(begin + t / bands % count, t / bands / count, first, std::min(band, rows - first));
        });
    }
    return {};
}

// Rows [first, first + count) of an image of a unit.
inline norm_rows some_rows(norm_rows r, std::int64_t first, std::int64_t count) {
    r.whole = std::max<std::int64_t>(0, std::min(r.whole - first, count));
    r.tail = count - r.whole;
    return r;
}

}  // namespace detail

GRAFT_INLINE std::int64_t norm_workspace_bytes(isa set, const norm_problem& problem) {
    const detail::norm_units u(set, problem);
    if (problem.c > (std::int64_t(1) << 40) || u.slots > shards::most) return -1;
    return u.units * u.width * (u.slots * 16 + 16);
}

GRAFT_INLINE status run_batch_norm_training(isa set, const norm_problem& p, const norm_forward_arrays& a, void* workspace, executor& pool,
                                            communicator* group) {
    const norm_grad_kernels& k = *training_kernels(set).norm_grad;
    const elementwise_kernels& functions = *kernels(set).elementwise;
    const detail::norm_units u(set, p);
    const detail::norm_scratch at(u, workspace);
    norm_forward base{};
    base.low = -std::numeric_limits<float>::infinity(), base.high = -base.low;
    if (p.ep.act == activation::relu) base.low = 0;
    if (p.ep.act == activation::clip) base.low = p.ep.alpha, base.high = p.ep.beta;
    double count = static_cast<double>(p.n * p.area);
    const std::int64_t slot = detail::join_shards(u, 0, u.tree.count, [](auto...) {});
    double *const means = at.first + slot * at.padded, *const squares = at.second + slot * at.padded;
    const auto sums = [&](std::int64_t unit, int s) {
        std::int64_t images = u.samples(s, 1), step = 0;
        const norm_rows rows = u.of(unit, images, step);
        const std::int64_t to = u.slot(s) * at.padded + unit * u.width;
        k.moments(rows, a.x + u.tree.first(u.images, s) * u.image_step + unit * u.unit_step, images, step, at.first + to, at.second + to);
    };
    const auto join = [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t from = begin * u.width, n = (end - begin) * u.width;
        detail::join_shards(u, 0, u.tree.count, [&](std::int64_t l, std::int64_t ln, std::int64_t r, std::int64_t rn) {
            const double left = static_cast<double>(ln * p.area), right = static_cast<double>(rn * p.area);
            double *mean = at.first + l * at.padded + from, *square = at.second + l * at.padded + from;
            k.merge(mean, square, left, at.first + r * at.padded + from, at.second + r * at.padded + from, right, n);
        });
    };
    const auto exchange = [&] { return ops::join_moments(*group, count, means, squares, p.c); };
    const auto finish = [&](std::int64_t begin, std::int64_t end) {
        const double unbiased = count > 1 ? count / (count - 1) : 0;
        for (std::int64_t c = begin * u.width, last = std::min(end * u.width, u.c); c < last; ++c) {
            const double mean = means[c], variance = squares[c] / count, inverse = 1.0 / std::sqrt(variance + p.epsilon);
            const double factor = inverse * static_cast<double>(a.scale[c]);
            const float centre = static_cast<float>(mean);
            at.numbers[0][c] = centre;
            at.numbers[1][c] = static_cast<float>(factor);
            // What rounding the mean has moved is put back.
            at.numbers[2][c] = static_cast<float>(static_cast<double>(a.bias[c]) + (static_cast<double>(centre) - mean) * factor);
            const double old = p.momentum, fresh = 1 - p.momentum;
            if (a.new_mean) a.new_mean[c] = static_cast<float>(old * static_cast<double>(a.running_mean[c]) + fresh * mean);
            if (a.new_variance) a.new_variance[c] = static_cast<float>(old * static_cast<double>(a.running_variance[c]) + fresh * variance * unbiased);
            if (a.saved_mean) a.saved_mean[c] = centre;
            if (a.saved_inverse) a.saved_inverse[c] = static_cast<float>(inverse);
            if (a.applied) a.applied[c] = at.numbers[1][c], a.applied[p.c + c] = at.numbers[2][c];
        }
    };
    const auto apply = [&](std::int64_t unit, std::int64_t image, std::int64_t first, std::int64_t rows) {
        const norm_rows whole = u.of(unit), r = detail::some_rows(whole, first, rows);
        const std::int64_t o = image * u.image_step + unit * u.unit_step + first * whole.step, c = unit * u.width;
        norm_forward g = base;
        g.x = a.x + o, g.y = a.y + o, g.residual = a.residual ? a.residual + o : nullptr;
        g.x_narrow = a.x_narrow ? a.x_narrow + o : nullptr, g.y_narrow = a.y_narrow ? a.y_narrow + o : nullptr;
        g.mean = at.numbers[0] + c, g.scale = at.numbers[1] + c, g.shift = at.numbers[2] + c;
        k.normalize(r, g);
        if (p.ep.act <= activation::clip) return;
        const std::int64_t stored = r.whole * vector_width(set) + r.tail * r.tail_lanes;
        functions.activation_run(p.ep.act, p.ep.alpha, p.ep.beta, g.y, g.y, stored);
    };
    return detail::norm_passes(u, a.residual ? 3 : 2, pool, group != nullptr, sums, join, exchange, finish, apply);
}

GRAFT_INLINE status run_batch_norm_grad(isa set, const norm_problem& p, const norm_backward_arrays& a, void* workspace, executor& pool, communicator* group) {
    const norm_grad_kernels& k = *training_kernels(set).norm_grad;
    const detail::norm_units u(set, p);
    const detail::norm_scratch at(u, workspace);
    norm_backward base{};
    base.mask = p.ep.act == activation::relu ? gradient_mask::relu : p.ep.act == activation::clip ? gradient_mask::clip : gradient_mask::none;
    base.low = p.ep.alpha, base.high = p.ep.beta;
    const auto sums = [&](std::int64_t unit, int s) {
        std::int64_t images = u.samples(s, 1), step = 0;
        const norm_rows rows = u.of(unit, images, step);
        const std::int64_t to = u.slot(s) * at.padded + unit * u.width, o = u.tree.first(u.images, s) * u.image_step + unit * u.unit_step;
        norm_backward g = base;
        g.dy = a.dy + o, g.x = a.x.from(o), g.y = a.y.from(o);
        g.mean = a.saved_mean + unit * u.width;
        if (a.applied) g.gain = a.applied + unit * u.width, g.offset = g.gain + p.c;
        g.masked = a.masked ? a.masked + o : nullptr;
        k.sums(rows, g, images, step, at.first + to, at.second + to);
    };
    double count = static_cast<double>(p.n * p.area);
    const std::int64_t slot = detail::join_shards(u, 0, u.tree.count, [](auto...) {});
    double *const sum = at.first + slot * at.padded, *const product = at.second + slot * at.padded;
    const auto join = [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t from = begin * u.width, last = std::min(end * u.width, u.c);
        detail::join_shards(u, 0, u.tree.count, [&](std::int64_t l, std::int64_t, std::int64_t r, std::int64_t) {
            double *left = at.first + l * at.padded, *left_second = at.second + l * at.padded;
            const double *right = at.first + r * at.padded, *right_second = at.second + r * at.padded;
            for (std::int64_t c = from; c < last; ++c) left[c] += right[c], left_second[c] += right_second[c];
        });
    };
    const auto exchange = [&] { return ops::join_sums(*group, count, sum, product, p.c); };
    const auto finish = [&](std::int64_t begin, std::int64_t end) {
        const double one = 1.0 / count;
        for (std::int64_t c = begin * u.width, last = std::min(end * u.width, u.c); c < last; ++c) {
            const double inverse = static_cast<double>(a.saved_inverse[c]), factor = inverse * static_cast<double>(a.scale[c]);
            if (a.dbias) a.dbias[c] = static_cast<float>(sum[c]);
            if (a.dscale) a.dscale[c] = static_cast<float>(product[c] * inverse);
            at.numbers[0][c] = a.saved_mean[c];
            at.numbers[1][c] = static_cast<float>(factor);
            at.numbers[2][c] = static_cast<float>(inverse * inverse * product[c] * one);
            at.numbers[3][c] = static_cast<float>(sum[c] * one);
        }
    };
    // With `masked` the activation's gradient lies there already.
    norm_backward second = base;
    if (a.masked) second.mask = gradient_mask::none;
    const auto apply = [&](std::int64_t unit, std::int64_t image, std::int64_t first, std::int64_t rows) {
        const norm_rows whole = u.of(unit), r = detail::some_rows(whole, first, rows);
        const std::int64_t o = image * u.image_step + unit * u.unit_step + first * whole.step, c = unit * u.width;
        norm_backward g = second;
        g.dy = (a.masked ? a.masked : a.dy) + o, g.x = a.x.from(o), g.y = a.y.from(o), g.dx = a.dx + o;
        g.mean = at.numbers[0] + c, g.scale = at.numbers[1] + c, g.slope = at.numbers[2] + c, g.shift = at.numbers[3] + c;
        if (a.applied) g.gain = a.applied + c, g.offset = g.gain + p.c;
        k.gradient(r, g);
    };
    const std::int64_t arrays = 2 + (base.mask != gradient_mask::none && !a.applied ? 1 : 0) + (a.masked ? 1 : 0);
    return detail::norm_passes(u, arrays, pool, group != nullptr, sums, join, exchange, finish, apply);
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
