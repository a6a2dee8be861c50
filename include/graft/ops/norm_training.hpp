// What training adds to normalisation: by the statistics of the batch, graft.BatchNormalizationTraining and its gradient; the gradients of
// LayerNormalization.
#pragma once

#include "../core/decimal.hpp"
#include "collective.hpp"
#include "norm.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The function that follows the normalisation: none, relu, or clip into [low, high].
struct norm_activation {
    bool any = false;
    double low = 0, high = HUGE_VAL;
};
inline status read_norm_activation(const op_context& c, norm_activation& a) {
    const auto kind = static_cast<activation>(c.integer("activation", 0));
    a.any = kind != activation::none;
    if (kind == activation::clip) {
        a.low = static_cast<double>(c.real("alpha", 0));
        a.high = static_cast<double>(c.real("beta", 0));
    } else if (a.any && kind != activation::relu)
        return c.fail(errc::op_attribute, "activation %lld is neither none, relu nor clip", c.integer("activation", 0));
    return {};
}
/// What both directions check: X at `x`, vectors of one element a channel from `first` to `last`, and what all members know from input 6 on: two
/// vectors and a number.
inline status check_norm_training(const op_context& c, int x, int first, int last) {
    norm_activation a;
    int count = 0;
    GRAFT_TRY(check_real(c, x));
    const shape& s = c.in[x].extents;
    if (s.rank() < 2) return c.fail_shapes("the input needs batch and channels");
    for (int i = first; i <= last; ++i) {
        GRAFT_TRY(check_real(c, i));
        GRAFT_TRY(check_vector(c, i, s[1]));
    }
    for (int i = 6; i < 9 && (c.has(6) || c.has(7) || c.has(8)); ++i) {
        if (!c.has(i)) return c.fail(errc::op_attribute, "of what all members know, inputs 6 to 8, one is left out");
        GRAFT_TRY(check_real(c, i));
        GRAFT_TRY(check_vector(c, i, i < 8 ? s[1] : 1));
    }
    GRAFT_TRY(read_shards(c, count));
    return read_norm_activation(c, a);
}

/// Images of one channel, and their sums by the tree of shards.
struct channel_sums {
    shards cut;
    std::int64_t images = 0, channels = 0, plane = 1;

    static channel_sums of(const shape& x, int count) noexcept {
        channel_sums s;
        s.cut.count = count;
        const bool empty = x.elements() == 0;
        s.images = empty ? 0 : x[0], s.channels = x[1], s.plane = empty ? 0 : x.product(2, x.rank());
        return s;
    }
    double total() const noexcept { return static_cast<double>(images) * static_cast<double>(plane); }
    /// The sum of f(element) over a channel's elements.
    template <class F>
    double sum(std::int64_t channel, const F& f) const {
        return sum_shards<double>(0, cut.count, [&](int s) {
            double own = 0;
            for (std::int64_t n = cut.first(images, s); n < cut.last(images, s); ++n)
                for (std::int64_t i = 0; i < plane; ++i) own += f((n * channels + channel) * plane + i);
            return own;
        });
    }
};

/// A channel's mean, and the sum of squared distances from it.
struct channel_moments {
    double mean = 0, squares = 0;
};
inline channel_moments moments_of(const channel_sums& sums, const double* x, std::int64_t channel) {
    channel_moments m;
    if (sums.total() == 0) return m;
    m.mean = sums.sum(channel, [&](std::int64_t i) { return x[i]; }) / sums.total();
    m.squares = sums.sum(channel, [&](std::int64_t i) { return (x[i] - m.mean) * (x[i] - m.mean); });
    return m;
}

// graft.BatchNormalizationTraining(X, scale, B, running_mean, running_var, residual?, mean?, var?, count?) -> Y, new_mean, new_var, saved_mean,
// saved_inv_std: Y = act((X - mean) / sqrt(var + epsilon) * scale + B + residual) with the batch's own mean and (biased) variance, or those that are
// given, of `count` elements; new = running * momentum + batch * (1 - momentum), the variance then being the unbiased one, as PyTorch has it (0 of one
// element).
inline status batch_norm_training_infer(infer_context& c) {
    GRAFT_TRY(check_norm_training(c, 0, 1, 4));
    if (c.has(5) && (c.in[5].type != c.in[0].type || c.in[5].extents != c.in[0].extents)) return c.fail_shapes("X and residual must have one type and shape");
    GRAFT_TRY(c.set(0, c.in[0].type, c.in[0].extents));
    for (int i = 1; i < 3; ++i) GRAFT_TRY(c.set(i, c.in[i + 2].type, c.in[i + 2].extents));
    for (int i = 3; i < 5; ++i) GRAFT_TRY(c.set(i, c.in[1].type, c.in[1].extents));
    return {};
}
inline status batch_norm_training_run(run_context& c) {
    int count = 0;
    norm_activation act;
    GRAFT_TRY(read_shards(c, count));
    GRAFT_TRY(read_norm_activation(c, act));
    const channel_sums sums = channel_sums::of(c.in[0].extents, count);
    const double epsilon = decimal_of(c.real("epsilon", 1e-5f)), momentum = decimal_of(c.real("momentum", 0.9f));
    double total = sums.total();
    widened<double> x, residual;
    GRAFT_TRY(widen(c, c.in[0], x));
    if (c.has(5)) GRAFT_TRY(widen(c, c.in[5], residual));
    const auto put = [&](int i, std::int64_t channel, double v) {
        if (c.wants(i)) store_from_double(c.out[i].type, c.out[i].data, channel, 1, &v);
    };
    std::vector<double> mean(static_cast<std::size_t>(sums.channels)), square(mean.size());
    if (c.has(6)) {
        total = c.in[8].real(0);
        for (std::int64_t i = 0; i < sums.channels; ++i)
            mean[static_cast<std::size_t>(i)] = c.in[6].real(i), square[static_cast<std::size_t>(i)] = c.in[7].real(i) * total;
    } else {
        parallel_for(c.pool, sums.channels, [&](std::int64_t channel) {
            const channel_moments m = moments_of(sums, x.data, channel);
            mean[static_cast<std::size_t>(channel)] = m.mean, square[static_cast<std::size_t>(channel)] = m.squares;
        });
    }
    if (c.group && !c.has(6)) GRAFT_TRY(join_moments(*c.group, total, mean.data(), square.data(), sums.channels));
    parallel_for(c.pool, sums.channels, [&](std::int64_t channel) {
        mean_variance m;
        if (total > 0) m = {mean[static_cast<std::size_t>(channel)], square[static_cast<std::size_t>(channel)] / total};
        const double inverse = 1 / std::sqrt(m.variance + epsilon), scale = c.in[1].real(channel) * inverse, shift = c.in[2].real(channel);
        const double unbiased = total > 1 ? m.variance * (total / (total - 1)) : 0;
        put(1, channel, total > 0 ? c.in[3].real(channel) * momentum + m.mean * (1 - momentum) : c.in[3].real(channel));
        put(2, channel, total > 0 ? c.in[4].real(channel) * momentum + unbiased * (1 - momentum) : c.in[4].real(channel));
        put(3, channel, m.mean);
        put(4, channel, inverse);
        if (!c.wants(0)) return;
        for (std::int64_t n = 0; n < sums.images; ++n)
            for (std::int64_t k = 0; k < sums.plane; ++k) {
                const std::int64_t i = (n * sums.channels + channel) * sums.plane + k;
                double y = (x.data[i] - m.mean) * scale + shift + (residual.data ? residual.data[i] : 0.0);
                if (act.any) y = y < act.low ? act.low : y > act.high ? act.high : y;
                store_from_double(c.out[0].type, c.out[0].data, i, 1, &y);
            }
    });
    return {};
}

/// dY where the activation behind a normalisation let its result Y (input `y`) through, else 0; dY is input 0.
class masked_gradient {
public:
    status read(const run_context& c, int y) {
        GRAFT_TRY(read_norm_activation(c, act_));
        GRAFT_TRY(widen(c, c.in[0], dy_));
        return act_.any ? widen(c, c.in[y], y_) : status();
    }
    double operator()(std::int64_t i) const { return !act_.any || (y_.data[i] > act_.low && y_.data[i] < act_.high) ? dy_.data[i] : 0.0; }

private:
    norm_activation act_;
    widened<double> dy_, y_;
};

// graft.BatchNormalizationGrad(dY, X, scale, saved_mean, saved_inv_std, Y?, dscale?, dB?, n?) -> dX, dscale, dB, masked dY: g = dY where the
// activation let Y through (low < Y < high), else 0; x' = (X - mean) * inv_std; dB = sum(g), dscale = sum(g * x'),
// dX = scale * inv_std * (g - (dB + x' * dscale) / n) with n elements a channel; the sums and n may be given.
inline status batch_norm_grad_infer(infer_context& c) {
    GRAFT_TRY(check_norm_training(c, 1, 2, 4));
    GRAFT_TRY(check_same_type(c, 0, 1));
    GRAFT_TRY(check_same_type(c, 5, 1));
    if (c.in[0].extents != c.in[1].extents || (c.has(5) && c.in[5].extents != c.in[1].extents)) return c.fail_shapes("dY, X and Y must have one shape");
    if (c.integer("activation", 0) && !c.has(5)) return c.fail(errc::op_attribute, "the gradient of an activation needs Y");
    GRAFT_TRY(c.set(0, c.in[1].type, c.in[1].extents));
    for (int i = 1; i < 3; ++i) GRAFT_TRY(c.set(i, c.in[2].type, c.in[2].extents));
    return c.set(3, c.in[1].type, c.in[1].extents);
}
inline status batch_norm_grad_run(run_context& c) {
    int count = 0;
    GRAFT_TRY(read_shards(c, count));
    const channel_sums sums = channel_sums::of(c.in[1].extents, count);
    double total = sums.total();
    masked_gradient masked;
    widened<double> x;
    GRAFT_TRY(masked.read(c, 5));
    GRAFT_TRY(widen(c, c.in[1], x));
    std::vector<double> bias(static_cast<std::size_t>(sums.channels)), factor(bias.size());
    if (c.has(6)) total = c.in[8].real(0);
    parallel_for(c.pool, c.has(6) ? 0 : sums.channels, [&](std::int64_t channel) {
        const double mean = c.in[3].real(channel);
        bias[static_cast<std::size_t>(channel)] = sums.sum(channel, masked);
        factor[static_cast<std::size_t>(channel)] = sums.sum(channel, [&](std::int64_t i) { return masked(i) * (x.data[i] - mean); });
    });
    if (c.group && !c.has(6)) GRAFT_TRY(join_sums(*c.group, total, bias.data(), factor.data(), sums.channels));
    parallel_for(c.pool, sums.channels, [&](std::int64_t channel) {
        const double scale = c.in[2].real(channel), mean = c.in[3].real(channel), inverse = c.in[4].real(channel);
        const double db = c.has(6) ? c.in[7].real(channel) : bias[static_cast<std::size_t>(channel)];
        const double dscale = c.has(6) ? c.in[6].real(channel) : factor[static_cast<std::size_t>(channel)] * inverse;
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, channel, 1, &dscale);
        if (c.wants(2)) store_from_double(c.out[2].type, c.out[2].data, channel, 1, &db);
        for (std::int64_t n = 0; n < sums.images; ++n)
            for (std::int64_t k = 0; k < sums.plane; ++k) {
                const std::int64_t i = (n * sums.channels + channel) * sums.plane + k;
                const double g = masked(i), dx = scale * inverse * (g - (db + (x.data[i] - mean) * inverse * dscale) / total);
                if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, i, 1, &dx);
                if (c.wants(3)) store_from_double(c.out[3].type, c.out[3].data, i, 1, &g);
            }
    });
    return {};
}

// The running statistics get no gradient, and what flows from them is no part of a loss.
inline status batch_norm_training_gradient(gradient_context& c) {
    if (c.dy() == no_value) return c.refuse("a loss may not read the running statistics");
    if (c.in(6) != no_value) return c.refuse("statistics that are given are made by what comes behind its gradient");
    const bool residual = c.in(5) != no_value;
    std::vector<attribute> attributes{integer_attribute("shards", c.shards)};
    for (const char* name : {"activation", "alpha", "beta"}) c.copy_attribute(name, attributes);
    std::vector<value_id> inputs{c.dy(), c.in(0), c.in(1), c.out(3), c.out(4)};
    if (c.integer("activation", 0)) inputs.push_back(c.out());
    const std::vector<value_id> made = c.build.apply_all("graft", "BatchNormalizationGrad", std::move(inputs), std::move(attributes), residual ? 4 : 3);
    for (int i = 0; i < 3; ++i)
        if (c.wants(i)) c.give(i, made[static_cast<std::size_t>(i)]);
    if (residual && c.wants(5)) c.give(5, made[3]);
    return {};
}

/// Rows that were normalised: X with its axes from `axis` on is `rows` of n, in so many samples.
struct normalized_rows {
    int axis = 0;
    std::int64_t rows = 0, n = 0, samples = 1;
    shape row;  ///< extents of one
};
/// What the gradients of LayerNormalization share: dY and X of one shape, Mean (left out: RMSNormalization) and InvStdDev for each row.
inline status read_normalized_rows(const op_context& c, normalized_rows& r) {
    GRAFT_TRY(check_real(c, 1));
    GRAFT_TRY(check_same_type(c, 0, 1));
    const shape& x = c.in[1].extents;
    if (c.in[0].extents != x) return c.fail_shapes("dY and X must have one shape");
    GRAFT_TRY(c.axis(c.integer("axis", -1), x.rank(), r.axis));
    shape each = x;
    for (int i = r.axis; i < x.rank(); ++i) r.row.push_back(x[i]), each[i] = 1;
    for (int i = 2; i < 4; ++i) {
        if (!c.has(i)) continue;
        GRAFT_TRY(check_real(c, i));
        if (c.in[i].extents != each) return c.fail_shapes("Mean and InvStdDev must have one element a row");
    }
    r.rows = x.product(0, r.axis), r.n = x.product(r.axis, x.rank()), r.samples = r.axis > 0 ? x[0] : 1;
    return {};
}

// graft.LayerNormalizationGrad(dY, X, Mean?, InvStdDev, Scale?) -> dX = InvStdDev * (g - mean(g) - X' * mean(g * X')) with g = dY * Scale
// and X' = (X - Mean) * InvStdDev, means over the axes from `axis` on; without Mean (RMSNormalization) mean(g) is left out.
inline status layer_norm_grad_infer(infer_context& c) {
    normalized_rows r;
    GRAFT_TRY(read_normalized_rows(c, r));
    if (c.has(4)) {
        GRAFT_TRY(check_real(c, 4));
        if (!broadcasts_to(c.in[4].extents, r.row)) return c.fail_shapes("Scale must be broadcastable to the axes that were normalised");
    }
    return c.set(0, c.in[1].type, c.in[1].extents);
}
inline status layer_norm_grad_run(run_context& c) {
    normalized_rows r;
    GRAFT_TRY(read_normalized_rows(c, r));
    if (r.rows == 0 || r.n == 0) return {};
    widened<double> dy, x, scale;
    buffer memory;
    double* factor = nullptr;
    GRAFT_TRY(widen(c, c.in[0], dy));
    GRAFT_TRY(widen(c, c.in[1], x));
    if (c.has(4)) GRAFT_TRY(widen(c, c.in[4], scale));
    GRAFT_TRY(scratch_of(c, r.n, memory, factor));
    strided_walk scales(r.row, c.has(4) ? c.in[4].extents : shape{});
    for (std::int64_t i = 0; i < r.n; ++i, scales.next()) factor[i] = c.has(4) ? scale.data[scales.offset] : 1;
    parallel_for(c.pool, r.rows, [&](std::int64_t at) {
        const double mean = c.has(2) ? c.in[2].real(at) : 0, inverse = c.in[3].real(at), n = static_cast<double>(r.n);
        const double *dy_row = dy.data + at * r.n, *x_row = x.data + at * r.n;
        double sum = 0, along = 0;
        for (std::int64_t i = 0; i < r.n; ++i) {
            const double g = dy_row[i] * factor[i];
            sum += g, along += g * ((x_row[i] - mean) * inverse);
        }
        for (std::int64_t i = 0; i < r.n; ++i) {
            const double dx = inverse * (dy_row[i] * factor[i] - (c.has(2) ? sum / n : 0) - (x_row[i] - mean) * inverse * along / n);
            store_from_double(c.out[0].type, c.out[0].data, at * r.n + i, 1, &dx);
        }
    });
    return {};
}

// graft.LayerNormalizationGradScale(dY, X, Mean?, InvStdDev) -> sum(dY * X'), sum(dY), X' as above, over the axes before `axis`, of which
// the first is the batch: its sums are the tree of shards.
inline status layer_norm_grad_scale_infer(infer_context& c) {
    normalized_rows r;
    int count = 0;
    GRAFT_TRY(read_normalized_rows(c, r));
    GRAFT_TRY(read_shards(c, count));
    GRAFT_TRY(c.set(0, c.in[1].type, r.row));
    return c.set(1, c.in[1].type, r.row);
}
inline status layer_norm_grad_scale_run(run_context& c) {
    normalized_rows r;
    shards cut;
    GRAFT_TRY(read_normalized_rows(c, r));
    GRAFT_TRY(read_shards(c, cut.count));
    widened<double> dy, x;
    GRAFT_TRY(widen(c, c.in[0], dy));
    GRAFT_TRY(widen(c, c.in[1], x));
    const std::int64_t each = r.samples > 0 ? r.rows / r.samples : 0;
    const auto total = [&](std::int64_t i, bool normalized) {
        return sum_shards_as(c.in[1].type == dtype::float32, cut.count, [&](int s) {
            double own = 0;
            for (std::int64_t at = cut.first(r.samples, s) * each; at < cut.last(r.samples, s) * each; ++at) {
                const double off = x.data[at * r.n + i] - (c.has(2) ? c.in[2].real(at) : 0);
                own += dy.data[at * r.n + i] * (normalized ? off * c.in[3].real(at) : 1);
            }
            return own;
        });
    };
    parallel_for(c.pool, r.n, [&](std::int64_t i) {
        for (int o = 0; o < 2; ++o) {
            const double sum = c.wants(o) ? total(i, o == 0) : 0;
            if (c.wants(o)) store_from_double(c.out[o].type, c.out[o].data, i, 1, &sum);
        }
    });
    return {};
}

inline op_table layer_norm_training_ops() {
    static constexpr op_row rows[] = {
        own("LayerNormalizationGrad")
            .inputs(4, 5)
            .functions(layer_norm_grad_infer, layer_norm_grad_run)
            .linear(linearity::first)
            .attributes("axis:i")
            .problems(
                "f32[3,17] f32[3,17] f32[3,1] f32[3,1]~0.1:2 f32[17]; f32[2,5,70] f32[2,5,70] f32[2,5,1] f32[2,5,1]~0.1:2 f32[70]; f32[4,33] f32[4,33] - "
                "f32[4,1]~0.1:2 f32[33]; "
                "f32[2,3,4,5] f32[2,3,4,5] f32[2,3,1,1] f32[2,3,1,1]~0.1:2 f32[4,5] axis=2; f32[2,3,6] f32[2,3,6] f32[2,1,1] f32[2,1,1]~0.1:2 f32[3,1] axis=1; "
                "f32[2,5000] f32[2,5000] f32[2,1] f32[2,1]~0.1:2; f64[4,6] f64[4,6] f64[4,1] f64[4,1]~0.1:2 f64[6]; f16[3,8] f16[3,8] f32[3,1] f32[3,1]~0.1:2 "
                "f16[8]; "
                "f32[0,4] f32[0,4] f32[0,1] f32[0,1]~0.1:2 f32[4]"),
        own("LayerNormalizationGradScale")
            .inputs(4)
            .outputs(1, 2)
            .functions(layer_norm_grad_scale_infer, layer_norm_grad_scale_run)
            .exact_outputs_from(0)
            .sums_batch()
            .attributes("axis:i shards:i")
            .problems("f32[3,17] f32[3,17] f32[3,1] f32[3,1]~0.1:2; f32[2,5,70] f32[2,5,70] f32[2,5,1] f32[2,5,1]~0.1:2 shards=4; f32[9,33] f32[9,33] - "
                      "f32[9,1]~0.1:2; "
                      "f32[11,40,5] f32[11,40,5] f32[11,40,1] f32[11,40,1]~0.1:2; f32[2,3,4,5] f32[2,3,4,5] f32[2,3,1,1] f32[2,3,1,1]~0.1:2 axis=2 shards=1; "
                      "f32[6] f32[6] f32[1] f32[1]~0.1:2 axis=0; f64[4,6] f64[4,6] f64[4,1] f64[4,1]~0.1:2; f16[3,8] f16[3,8] f32[3,1] f32[3,1]~0.1:2; "
                      "f32[0,4] f32[0,4] f32[0,1] f32[0,1]~0.1:2"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table norm_training_gradients() {
    static constexpr gradient_row rows[] = {{"BatchNormalizationTraining", "graft", batch_norm_training_gradient}};
    return rows;
}
inline op_table norm_training_ops() {
    static constexpr op_row rows[] = {
        own("BatchNormalizationTraining")
            .inputs(5, 9)
            .outputs(5)
            .functions(batch_norm_training_infer, batch_norm_training_run)
            .statistics(3, 4)
            .made_once_from(1)
            .takes_activation()
            .residual(5)
            .sums_batch()
            .sums_members()
            .attributes("activation:i alpha:f beta:f epsilon:f momentum:f shards:i")
            .problems(
                "f32[3,5,3,7] f32[5] f32[5] f32[5] f32[5]~0.1:2; f32[9,17,4,4] f32[17] f32[17] f32[17] f32[17]~0.1:2 f32[9,17,4,4] activation=1 shards=4; "
                "f32[5,4] f32[4] f32[4] f32[4] f32[4]~0.1:2 epsilon=0.01 momentum=0.5 shards=1; f32[2,3,4,5] f32[3] f32[3] f32[3] f32[3]~0.1:2 activation=2 "
                "alpha=-0.5 beta=0.75; "
                "f64[4,2,6] f64[2] f64[2] f64[2] f64[2]~0.1:2; f16[2,3,4] f32[3] f32[3] f32[3] f32[3]~0.1:2; f32[0,3,2] f32[3] f32[3] f32[3] f32[3]~0.1:2; "
                "f32[3,5,3,7] f32[5] f32[5] f32[5] f32[5]~0.1:2 - f32[5] f32[5]~0.1:2 f32{126}; f32[5,4] f32[4] f32[4] f32[4] f32[4]~0.1:2 f32[5,4] f32[4] "
                "f32[4]~0.1:2 f32{15} activation=2 alpha=-0.5 beta=0.75"),
        own("BatchNormalizationGrad")
            .inputs(5, 9)
            .outputs(3, 4)
            .functions(batch_norm_grad_infer, batch_norm_grad_run)
            .sums_batch()
            .sums_members()
            .attributes("activation:i alpha:f beta:f shards:i")
            .problems("f32[3,5,3,7] f32[3,5,3,7] f32[5] f32[5] f32[5]~0.1:2; f32[9,17,4,4] f32[9,17,4,4] f32[17] f32[17] f32[17]~0.1:2 f32[9,17,4,4] "
                      "activation=1 shards=4; "
                      "f32[5,4] f32[5,4] f32[4] f32[4] f32[4]~0.1:2 shards=1; f32[2,3,4,5] f32[2,3,4,5] f32[3] f32[3] f32[3]~0.1:2 f32[2,3,4,5] activation=2 "
                      "alpha=-0.5 beta=0.75; "
                      "f64[4,2,6] f64[4,2,6] f64[2] f64[2] f64[2]~0.1:2; f16[2,3,4] f16[2,3,4] f32[3] f32[3] f32[3]~0.1:2; f32[0,3,2] f32[0,3,2] f32[3] f32[3] "
                      "f32[3]~0.1:2; f32[3,5,3,7] f32[3,5,3,7] f32[5] f32[5] f32[5]~0.1:2 - f32[5] f32[5] f32{126}; f32[5,4] f32[5,4] f32[4] f32[4] "
                      "f32[4]~0.1:2 f32[5,4] f32[4] f32[4] f32{15} activation=2 alpha=-0.5 beta=0.75"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
