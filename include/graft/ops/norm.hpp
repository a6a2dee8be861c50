// Normalisations by statistics of the batch, the channels or the row: BatchNormalization, InstanceNormalization,
// GroupNormalization, LayerNormalization, RMSNormalization, MeanVarianceNormalization; and their gradients.
#pragma once

#include "channel_affine.hpp"
#include "window_gradient.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

struct mean_variance {
    double mean = 0, variance = 0;
};

/// Mean and population variance of `count` runs of `n` elements, the runs `step` apart; two passes.
GRAFT_NOINLINE inline mean_variance moments(const double* x, std::int64_t count, std::int64_t step, std::int64_t n) {
    mean_variance m;
    const double total = static_cast<double>(count) * static_cast<double>(n);
    if (total == 0) return m;
    for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t i = 0; i < n; ++i) m.mean += x[r * step + i];
    m.mean /= total;
    for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t i = 0; i < n; ++i) {
            const double d = x[r * step + i] - m.mean;
            m.variance += d * d;
        }
    m.variance /= total;
    return m;
}

/// Stores scale * x + shift for one run.
GRAFT_NOINLINE inline void store_affine(const tensor_view& out, std::int64_t first, std::int64_t n, const double* x, double scale, double shift) {
    constexpr std::int64_t block = 512;
    double y[block];
    for (std::int64_t at = 0; at < n; at += block) {
        const std::int64_t count = std::min(block, n - at);
        for (std::int64_t i = 0; i < count; ++i) y[i] = x[at + i] * scale + shift;
        store_from_double(out.type, out.data, first + at, count, y);
    }
}

inline double epsilon_of(const op_context& c) { return static_cast<double>(c.real("epsilon", 1e-5f)); }

// BatchNormalization-1,6,7,9,14,15: Y = (X - mean) / sqrt(var + epsilon) * scale + B, by channel; in training mean and var are
// the batch's own, and running = running * momentum + batch * (1 - momentum)
inline bool batch_norm_trains(const node& n) {
    const attribute* told = n.find(n.version < 7 ? "is_test" : "training_mode");
    const bool set = told && told->integer != 0;
    if (n.version >= 14) return set;
    if (n.version < 7) return !set;
    return std::any_of(n.outputs.begin() + 1, n.outputs.end(), [](value_id id) { return id != no_value; });
}
inline GRAFT_COLD status batch_norm_infer(infer_context& c) {
    const shape& x = c.in[0].extents;
    for (int i = 0; i < 5; ++i) GRAFT_TRY(check_real(c, i));
    for (int i : {1, 3}) GRAFT_TRY(check_same_type(c, i + 1, i));
    if (x.rank() < 1) return c.fail_shapes("the input needs a batch and channels");
    if (c.version() < 9 && !c.integer("spatial", 1)) {
        if (batch_norm_trains(c.n)) return c.fail(errc::op_unsupported, "training with spatial = 0");
        for (int i = 1; i < 5; ++i)
            if (c.in[i].extents != shape::from(x.begin() + 1, x.end())) return c.fail_shapes("scale, B, mean and var must have the shape of one image");
    } else
        for (int i = 1; i < 5; ++i) GRAFT_TRY(check_vector(c, i, x.at(1)));
    GRAFT_TRY(c.set(0, c.in[0].type, x));
    for (int i = 1; i < 5; ++i) GRAFT_TRY(c.set(i, c.in[i % 2 ? 3 : 4].type, c.in[3].extents));
    return {};
}
inline status batch_norm_run(run_context& c) {
    const shape& x = c.in[0].extents;
    const bool trains = batch_norm_trains(c.n), by_element = c.version() < 9 && !c.integer("spatial", 1);
    const double epsilon = epsilon_of(c), momentum = static_cast<double>(c.real("momentum", 0.9f));
    const bool empty = is_empty(c.in[0]);
    const std::int64_t channels = c.in[1].elements(), images = empty ? 0 : x[0];
    const std::int64_t plane = by_element || empty ? 1 : x.product(std::min(2, x.rank()), x.rank());
    widened<double> in;
    GRAFT_TRY(widen(c, c.in[0], in));
    parallel_for(c.pool, channels, [&](std::int64_t channel) {
        mean_variance m{c.in[3].real(channel), c.in[4].real(channel)};
        if (trains) {
            const mean_variance batch = moments(in.data + channel * plane, images, channels * plane, plane);
            const double mean = m.mean * momentum + batch.mean * (1 - momentum), variance = m.variance * momentum + batch.variance * (1 - momentum);
            if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, channel, 1, &mean);
            if (c.wants(2)) store_from_double(c.out[2].type, c.out[2].data, channel, 1, &variance);
            if (c.wants(3)) store_from_double(c.out[3].type, c.out[3].data, channel, 1, &batch.mean);
            if (c.wants(4)) store_from_double(c.out[4].type, c.out[4].data, channel, 1, &batch.variance);
            m = batch;
        } else
            for (int i = 1; i < 5; ++i) {
                const double kept = i % 2 ? m.mean : m.variance;
                if (c.wants(i)) store_from_double(c.out[i].type, c.out[i].data, channel, 1, &kept);
            }
        const channel_affine y = normalized_channel(c.in[1].real(channel), c.in[2].real(channel), m.mean, m.variance, epsilon);
        for (std::int64_t image = 0; c.wants(0) && image < images; ++image) {
            const std::int64_t first = (image * channels + channel) * plane;
            store_affine(c.out[0], first, plane, in.data + first, y.scale, y.shift);
        }
    });
    return {};
}

// InstanceNormalization-1,6,22: as BatchNormalization, with the statistics of each image's channel
// GroupNormalization-18,21: the statistics are of a group of channels; scale and bias by group (18) or by channel (21)
inline status group_norm_infer(infer_context& c) {
    const shape& x = c.in[0].extents;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(check_same_type(c, 2, 0));
    if (x.rank() < 2) return c.fail_shapes("the input needs batch and channels");
    std::int64_t parameters = x[1];
    if (c.n.op_type == "GroupNormalization") {
        const std::int64_t groups = c.integer("num_groups", 0);
        if (groups < 1 || x[1] % groups) return c.fail(errc::op_attribute, "num_groups %lld does not divide the %lld channels", groups, x[1]);
        if (c.version() < 21) parameters = groups;
    }
    GRAFT_TRY(check_vector(c, 1, parameters));
    GRAFT_TRY(check_vector(c, 2, parameters));
    return c.set(0, c.in[0].type, x);
}
inline status group_norm_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    const shape& x = c.in[0].extents;
    const std::int64_t channels = x[1], groups = c.integer("num_groups", channels), plane = x.product(2, x.rank());
    const std::int64_t size = groups ? channels / groups : 0, parameters = c.in[1].elements();
    const double epsilon = epsilon_of(c);
    widened<double> in;
    GRAFT_TRY(widen(c, c.in[0], in));
    parallel_for(c.pool, x[0] * groups, [&](std::int64_t task) {
        const std::int64_t first = task * size * plane, group = task % groups;
        const mean_variance m = moments(in.data + first, 1, 0, size * plane);
        for (std::int64_t i = 0; i < size; ++i) {
            const std::int64_t p = parameters == channels ? group * size + i : group;
            const double scale = c.in[1].real(p) / std::sqrt(m.variance + epsilon);
            store_affine(c.out[0], first + i * plane, plane, in.data + first + i * plane, scale, c.in[2].real(p) - m.mean * scale);
        }
    });
    return {};
}

// LayerNormalization-17: Y = (X - mean) / sqrt(var + epsilon) * Scale + B over the axes from `axis` on; RMSNormalization-23: Y =
// X / sqrt(mean(X^2) + epsilon) * scale
inline status layer_norm_infer(infer_context& c) {
    const shape& x = c.in[0].extents;
    int axis = 0;
    GRAFT_TRY(check_real(c, 0));
    for (int i = 1; i < 3; ++i) {
        if (!c.has(i)) continue;
        GRAFT_TRY(check_real(c, i));
        if (c.n.op_type == "LayerNormalization") GRAFT_TRY(check_same_type(c, i, 0));
        if (!broadcasts_to(c.in[i].extents, x)) return c.fail_shapes("scale and bias must be broadcastable to the input");
    }
    GRAFT_TRY(c.axis(c.integer("axis", -1), x.rank(), axis));
    const std::int64_t stash = c.integer("stash_type", 1);
    if (stash != 1 && stash != 10 && stash != 11 && stash != 16)
        return refuse_type_number(c, errc::op_attribute, "stash_type %s is no arithmetic float", stash);
    shape reduced = x;
    for (int i = axis; i < x.rank(); ++i) reduced[i] = 1;
    GRAFT_TRY(c.set(0, c.n.op_type == "RMSNormalization" ? c.in[1].type : c.in[0].type, x));
    GRAFT_TRY(c.set(1, static_cast<dtype>(stash), reduced));
    return c.set(2, static_cast<dtype>(stash), reduced);
}
inline status layer_norm_run(run_context& c) {
    const shape& x = c.in[0].extents;
    if (is_empty(c.in[0]) && !c.wants(1) && !c.wants(2)) return {};
    const bool centred = c.n.op_type == "LayerNormalization";
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", -1), x.rank(), axis));
    const std::int64_t outer = x.product(0, axis), n = x.product(axis, x.rank());
    const double epsilon = epsilon_of(c);
    widened<double> scale, bias;
    buffer memory;
    double* row = nullptr;
    GRAFT_TRY(widen(c, c.in[1], scale));
    if (c.has(2)) GRAFT_TRY(widen(c, c.in[2], bias));
    GRAFT_TRY(scratch_of(c, n, memory, row));
    strided_walk scales(x, c.in[1].extents), biases(x, c.has(2) ? c.in[2].extents : shape{});
    for (std::int64_t r = 0; r < outer; ++r) {
        load_as_double(c.in[0].type, c.in[0].data, r * n, n, row);
        mean_variance m;
        if (centred)
            m = moments(row, 1, 0, n);
        else
            for (std::int64_t i = 0; i < n; ++i) m.variance += row[i] * row[i] / static_cast<double>(n);
        const double inverse = 1 / std::sqrt(m.variance + epsilon);
        for (std::int64_t i = 0; i < n; ++i, scales.next(), biases.next())
            row[i] = (row[i] - m.mean) * inverse * scale.data[scales.offset] + (bias.data ? bias.data[biases.offset] : 0.0);
        if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, r * n, n, row);
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, r, 1, &m.mean);
        if (c.wants(2)) store_from_double(c.out[2].type, c.out[2].data, r, 1, &inverse);
    }
    return {};
}

// MeanVarianceNormalization-9,13: (X - mean) / (sqrt(mean(X^2) - mean^2) + 1e-9) over `axes`
inline status mean_variance_reduced(const op_context& c, shape& reduced) {
    static constexpr std::int64_t otherwise[] = {0, 2, 3};
    integer_list axes = c.integers("axes");
    reduced = c.in[0].extents;
    if (!c.has_attribute("axes")) axes = {otherwise, 3};
    for (std::int64_t a : axes) {
        int axis = 0;
        GRAFT_TRY(c.axis(a, reduced.rank(), axis));
        reduced[axis] = 1;
    }
    return {};
}
inline status mean_variance_infer(infer_context& c) {
    shape reduced;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(mean_variance_reduced(c, reduced));
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status mean_variance_run(run_context& c) {
    if (is_empty(c.in[0])) return {};
    const shape& x = c.in[0].extents;
    shape reduced;
    GRAFT_TRY(mean_variance_reduced(c, reduced));
    const std::int64_t n = x.elements(), groups = n ? reduced.elements() : 0;
    widened<double> in;
    GRAFT_TRY(widen(c, c.in[0], in));
    buffer memory;
    double* mean = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(groups, 2), memory, mean));
    double* variance = mean + groups;
    std::fill(mean, mean + 2 * groups, 0.0);
    const double count = groups ? static_cast<double>(n / groups) : 1.0;
    strided_walk sums(x, reduced), squares(x, reduced), all(x, reduced);
    for (std::int64_t i = 0; i < n; ++i, sums.next()) mean[sums.offset] += in.data[i] / count;
    for (std::int64_t i = 0; i < n; ++i, squares.next()) {
        const double d = in.data[i] - mean[squares.offset];
        variance[squares.offset] += d * d / count;
    }
    for (std::int64_t i = 0; i < n; ++i, all.next()) {
        const double y = (in.data[i] - mean[all.offset]) / (std::sqrt(variance[all.offset]) + 1e-9);
        store_from_double(c.out[0].type, c.out[0].data, i, 1, &y);
    }
    return {};
}

// dX = dY * scale / sqrt(var + epsilon), dscale = sum(dY * (X - mean)) / sqrt(var + epsilon), dB = sum(dY); mean and var are constants
// of the formula.
inline status batch_norm_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    if (batch_norm_trains(c.n)) return c.refuse("it normalises by the batch's own statistics, which training_mode writes as graft.BatchNormalizationTraining");
    if (c.n.version < 9 && !c.integer("spatial", 1)) return c.refuse("spatial = 0 has no gradient: freeze what lies before it");
    if (c.dy() == no_value) return {};
    const int rank = c.extents(c.in(0)).rank();
    if (rank < 2) return c.refuse("an input without channels has no gradient: freeze what lies before it");
    const std::int64_t channels = c.extents(c.in(1)).elements();
    const value_id deviation = c.build.apply("Sqrt", {shifted(c, cast_to(c, c.in(4), c.build.type(c.in(1))), epsilon_of(forward))}), g = c.dy();
    const dtype type = c.build.type(g);
    if (c.wants(0)) c.give(0, c.build.mul(g, along_channels(c, cast_to(c, c.build.div(c.in(1), deviation), type), rank)));
    if (c.wants(1)) {
        const value_id centred = c.build.sub(c.in(0), along_channels(c, cast_to(c, c.in(3), type), rank));
        c.give(1, c.build.div(cast_to(c, sum_to_channels(c, c.build.mul(g, centred), channels), c.build.type(c.in(1))), deviation));
    }
    if (c.wants(2)) c.give(2, cast_to(c, sum_to_channels(c, g, channels), c.build.type(c.in(2))));
    return {};
}

/// x' = (x - mean) / sqrt(var + epsilon) along the last axis of [outer, n], the mean, and the factor 1 / sqrt(var + epsilon): by
/// LayerNormalization itself, with a scale of ones.
struct normalized {
    value_id x = no_value, mean = no_value, inverse = no_value;
};
inline normalized emit_normalized(gradient_context& c, value_id x, const shape& rows, double epsilon) {
    normalized made;
    const dtype type = c.build.type(x);
    auto ones = tensor::make(type, shape{rows[1]});
    if (!ones.ok()) return c.build.mistake(ones.take_status()), made;
    const double one = 1;
    for (std::int64_t i = 0; i < rows[1]; ++i) store_from_double(type, ones->raw(), i, 1, &one);
    const std::int64_t stash = type == dtype::float64 ? static_cast<std::int64_t>(type) : 1;
    const std::vector<value_id> out =
        c.build.apply_all("", "LayerNormalization", {c.build.reshape(x, rows), c.build.constant(std::move(ones).value(), "ones")},
                          {integer_attribute("axis", 1), real_attribute("epsilon", static_cast<float>(epsilon)), integer_attribute("stash_type", stash)}, 3);
    if (!c.build.failure.ok()) return made;
    made.x = out[0];
    made.mean = out[1];
    made.inverse = out[2];
    return made;
}
/// dX of rows [outer, n] that were normalised, by graft.LayerNormalizationGrad.
inline value_id emit_row_gradient(gradient_context& c, value_id dy, value_id x, value_id mean, value_id inverse, value_id scale, int axis) {
    return c.build.apply_graft("LayerNormalizationGrad", {dy, x, mean, inverse, scale}, {integer_attribute("axis", axis)});
}

inline status group_norm_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    const shape x = c.extents(c.in(0));
    if (x.elements() == 0) {
        for (int i = 0; i < 3; ++i)
            if (c.wants(i)) c.give(i, c.build.zeros(shape(c.extents(c.in(i))), c.in(i)));
        return {};
    }
    const std::int64_t channels = x[1], groups = c.integer("num_groups", channels), plane = x.product(2, x.rank()), size = channels / groups;
    const shape parted{x[0], groups, size, plane}, rows{x[0] * groups, size * plane};
    // Parameters are by channel or, in GroupNormalization before opset 21, by group.
    const shape parameters{1, groups, c.extents(c.in(1)).elements() == channels ? size : 1, 1};
    const value_id g = c.build.reshape(c.dy(), parted);
    if (c.wants(2)) c.give(2, c.build.reshape(c.sum_to(g, parameters), shape(c.extents(c.in(2)))));
    if (!c.wants(0) && !c.wants(1)) return {};
    const normalized y = emit_normalized(c, c.in(0), rows, epsilon_of(forward));
    if (c.wants(1)) c.give(1, c.build.reshape(c.sum_to(c.build.mul(g, c.build.reshape(y.x, parted)), parameters), shape(c.extents(c.in(1)))));
    if (!c.wants(0)) return {};
    const value_id scaled_g = c.build.reshape(c.build.mul(g, c.build.reshape(c.in(1), parameters)), rows);
    c.give(0, c.build.reshape(emit_row_gradient(c, scaled_g, c.build.reshape(c.in(0), rows), y.mean, y.inverse, no_value, 1), x));
    return {};
}

inline status layer_norm_gradient(gradient_context& c) {
    for (std::size_t i = 1; i < c.given.size(); ++i)
        if (c.given[i] != no_value) return c.refuse("gradients through its mean and deviation are not supported: use its first output alone");
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    const shape x = c.extents(c.in(0));
    const bool centred = c.n.op_type == "LayerNormalization";
    const dtype type = c.build.type(c.in(0));
    int axis = 0;
    GRAFT_TRY(forward.axis(forward.integer("axis", -1), x.rank(), axis));
    if (x.elements() == 0) {
        for (int i = 0; i < 3; ++i)
            if (c.wants(i)) c.give(i, c.build.zeros(shape(c.extents(c.in(i))), c.in(i)));
        return {};
    }
    const value_id dy = cast_to(c, c.dy(), type);
    // The statistics are the forward node's, where it has them with the digits of X.
    value_id mean = no_value, inverse = no_value;
    if (centred && (type != dtype::float64 || c.integer("stash_type", 1) == static_cast<std::int64_t>(type)))
        mean = c.also(1), inverse = c.also(2);
    else if (centred) {
        const normalized own = emit_normalized(c, c.in(0), {x.product(0, axis), x.product(axis, x.rank())}, epsilon_of(forward));
        shape each = x;
        for (int i = axis; i < x.rank(); ++i) each[i] = 1;
        mean = c.build.reshape(own.mean, each), inverse = c.build.reshape(own.inverse, each);
    } else {
        std::vector<std::int64_t> axes;
        for (int i = axis; i < x.rank(); ++i) axes.push_back(i);
        const value_id squares = c.build.apply("ReduceMean", {c.build.mul(c.in(0), c.in(0)), c.build.integers(axes)}, {integer_attribute("keepdims", 1)});
        inverse = c.build.apply("Reciprocal", {c.build.apply("Sqrt", {shifted(c, squares, epsilon_of(forward))})});
    }
    shape row;
    for (int i = axis; i < x.rank(); ++i) row.push_back(x[i]);
    const bool by_row = broadcasts_to(c.extents(c.in(1)), row), bias_by_row = c.in(2) != no_value && broadcasts_to(c.extents(c.in(2)), row);
    std::vector<value_id> sums(2, no_value);
    if (by_row && c.wants(1)) {
        const std::vector<attribute> attributes{integer_attribute("axis", axis), integer_attribute("shards", c.shards)};
        sums = c.build.apply_all("graft", "LayerNormalizationGradScale", {dy, c.in(0), mean, inverse}, attributes, bias_by_row && c.wants(2) ? 2 : 1);
        sums.resize(2, no_value);
    } else if (c.wants(1)) {
        value_id off = centred ? c.build.sub(c.in(0), cast_to(c, mean, type)) : c.in(0);
        off = c.build.mul(off, cast_to(c, inverse, type));
        sums[0] = c.build.mul(dy, off);
    }
    if (c.wants(2) && sums[1] == no_value) sums[1] = dy;
    for (int i = 0; i < 2; ++i)
        if (c.wants(i + 1)) c.give(i + 1, cast_to(c, c.sum_to(sums[static_cast<std::size_t>(i)], shape(c.extents(c.in(i + 1)))), c.build.type(c.in(i + 1))));
    if (!c.wants(0)) return {};
    const value_id g = by_row ? dy : c.build.mul(dy, cast_to(c, c.in(1), type));
    c.give(0, emit_row_gradient(c, g, c.in(0), mean, inverse, by_row ? c.in(1) : no_value, axis));
    return {};
}

// With s = sqrt(var), D = s + 1e-9 and d = X - mean: dX = (g - mean(g) - d * mean(g * d) / (s * D)) / D
inline status mean_variance_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    shape reduced;
    GRAFT_TRY(mean_variance_reduced(forward, reduced));
    const shape x = c.extents(c.in(0));
    if (x.elements() == 0) return c.give(0, c.build.zeros(x, c.in(0))), status();
    std::vector<std::int64_t> axes;
    for (int i = 0; i < x.rank(); ++i)
        if (reduced[i] != x[i]) axes.push_back(i);
    if (axes.empty()) return c.give(0, c.build.zeros(x, c.in(0))), status();  // X - X
    const value_id over = c.build.integers(axes), g = c.dy();
    const auto mean = [&](value_id v) { return c.build.apply("ReduceMean", {v, over}, {integer_attribute("keepdims", 1)}); };
    const value_id d = c.build.sub(c.in(0), mean(c.in(0))), s = c.build.apply("Sqrt", {mean(c.build.mul(d, d))});
    // Where all elements are equal d is 0, and so is its term.
    const value_id safe = c.build.apply("Where", {c.build.apply("Equal", {s, c.build.number(0, s)}), c.build.number(1, s), s}), divisor = shifted(c, s, 1e-9);
    const value_id along = c.build.div(c.build.div(mean(c.build.mul(g, d)), safe), divisor);
    c.give(0, c.build.div(c.build.sub(c.build.sub(g, mean(g)), c.build.mul(d, along)), divisor));
    return {};
}

inline gradient_table norm_gradients() {
    static constexpr gradient_row rows[] = {
        {"BatchNormalization", "", batch_norm_gradient}, {"InstanceNormalization", "", group_norm_gradient},
        {"GroupNormalization", "", group_norm_gradient}, {"LayerNormalization", "", layer_norm_gradient},
        {"RMSNormalization", "", layer_norm_gradient},   {"MeanVarianceNormalization", "", mean_variance_gradient},
    };
    return rows;
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_batch_norm(batch_carrier& c) {
    if (c.integer("training_mode", 0)) return c.conflict("it takes the statistics of the batch");
    return carry_first_axis<1>(c);
}
inline bool carry_layer_norm(batch_carrier& c) { return carry_from_axis(c, -1); }
inline bool carry_mean_variance(batch_carrier& c) {
    std::vector<std::int64_t> axes;
    if (!c.integers("axes", -1, axes)) axes = {0, 2, 3};
    return carry_beside(c, axes);
}

inline op_table norm_ops() {
    // Exporters write attributes of other versions too.
    static constexpr char batch_norm_attributes[] = "consumed_inputs:is epsilon:f is_test:i momentum:f spatial:i training_mode:i";
    static constexpr op_row rows[] = {
        onnx("BatchNormalization")
            .opsets(1, 8)
            .inputs(5)
            .outputs(1, 5)
            .functions(batch_norm_infer, batch_norm_run)
            .carries(carry_batch_norm)
            .weights(1, 2)
            .statistics(3, 4)
            .widens()
            .attributes(batch_norm_attributes)
            .problems("f32[2,3,5] f32[3] f32[3] f32[3] f32[3]~0.1:2 @8"),
        onnx("BatchNormalization")
            .opsets(9, 13)
            .inputs(5)
            .outputs(1, 5)
            .functions(batch_norm_infer, batch_norm_run)
            .carries(carry_batch_norm)
            .weights(1, 2)
            .statistics(3, 4)
            .widens()
            .attributes(batch_norm_attributes)
            .problems("f32[2,3,5] f32[3] f32[3] f32[3] f32[3]~0.1:2 @9"),
        onnx("BatchNormalization")
            .opsets(14)
            .inputs(5)
            .outputs(1, 5)
            .functions(batch_norm_infer, batch_norm_run)
            .carries(carry_batch_norm)
            .weights(1, 2)
            .statistics(3, 4)
            .widens()
            .attributes(batch_norm_attributes)
            .problems("f32[2,5,3,7] f32[5] f32[5] f32[5] f32[5]~0.1:2; f32[3,4] f32[4] f32[4] f32[4] f32[4]~0.1:2 epsilon=0.01; "
                      "f32[0,3,2] f32[3] f32[3] f32[3] f32[3]~0.1:2"),
        onnx("InstanceNormalization")
            .inputs(3)
            .functions(group_norm_infer, group_norm_run)
            .carries(carry_first_axis<1>)
            .weights(1, 2)
            .widens()
            .attributes("consumed_inputs:is epsilon:f")
            .problems("f32[2,5,3,7] f32[5] f32[5]; f32[1,3,9] f32[3] f32[3] epsilon=0.01; f32[0,3,4,4] f32[3] f32[3]"),
        onnx("GroupNormalization")
            .opsets(18, 20)
            .inputs(3)
            .functions(group_norm_infer, group_norm_run)
            .carries(carry_first_axis<1>)
            .weights(1, 2)
            .widens()
            .attributes("epsilon:f num_groups:i stash_type:i")
            .problems("f32[2,6,3,5] f32[2] f32[2] num_groups=2 @18"),
        onnx("GroupNormalization")
            .opsets(21)
            .inputs(3)
            .functions(group_norm_infer, group_norm_run)
            .carries(carry_first_axis<1>)
            .weights(1, 2)
            .widens()
            .attributes("epsilon:f num_groups:i stash_type:i")
            .problems("f32[2,6,3,5] f32[6] f32[6] num_groups=3; f32[1,4,7] f32[4] f32[4] num_groups=1 epsilon=0.01"),
        onnx("LayerNormalization")
            .opsets(17)
            .inputs(2, 3)
            .outputs(1, 3)
            .functions(layer_norm_infer, layer_norm_run)
            .carries(carry_layer_norm)
            .weights(1, 2)
            .exact_outputs_from(1)
            .widens()
            .attributes("axis:i epsilon:f stash_type:i")
            .problems("f32[2,3,17] f32[17] f32[17]; f32[2,3,4,5] f32[4,5] axis=2; f32[3,5] f32[3,5] f32[5] axis=0 epsilon=0.01; "
                      "f32[0,7] f32[7] f32[7]; f16[4,9] f16[9]"),
        onnx("RMSNormalization")
            .opsets(23)
            .inputs(2)
            .functions(layer_norm_infer, layer_norm_run)
            .carries(carry_layer_norm)
            .weights(1)
            .attributes("axis:i epsilon:f stash_type:i")
            .problems("f32[2,3,17] f32[17]; f32[2,3,4,5] f32[4,5] axis=2; f32[0,7] f32[7]"),
        onnx("MeanVarianceNormalization")
            .opsets(9)
            .inputs(1)
            .functions(mean_variance_infer, mean_variance_run)
            .carries(carry_mean_variance)
            .attributes("axes:is")
            .problems("f32[3,2,5,4]; f32[3,5,4] axes=1,2; f32[2,3] axes=-1; f32[0,3,2,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
