// Batch normalisation among the members of a run: their moments joined, and what is made of sums that are given.
#pragma once

#include "../lower/decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// JoinMoments of ops/norm_members.hpp; BatchNormalizationTraining and BatchNormalizationGrad of ops/norm_training.hpp where what all members know is
/// given.
decomposition_table norm_members_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/norm_members.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline bool has_joined(const op_context& c) { return c.has(6); }

// A few numbers for each channel, joined in double as the host joins them.
inline const char* decompose_join_moments(decomposition& d) {
    emitter& e = d.build;
    const value_id means = d.cast(d.in[0], dtype::float64), squares = d.cast(d.in[1], dtype::float64), counts = d.cast(d.in[2], dtype::float64);
    const value_id count = d.sum(counts, {0}, false), mean = e.div(d.sum(e.mul(means, counts), {0}, false), count), off = e.sub(means, mean);
    const value_id variance = e.div(d.sum(e.add(squares, e.mul(e.mul(off, off), counts)), {0}, false), count);
    d.out[0] = d.cast(mean, dtype::float32);
    d.out[1] = d.cast(variance, dtype::float32);
    d.out[2] = d.cast(count, dtype::float32);
    return nullptr;
}

// A vector by channel, or a number, as it is broadcast to x; in the type of the sums.
inline value_id by_channel(decomposition& d, int input, const shape& x, dtype type) {
    if (!d.c.has(input)) return no_value;
    shape extents{1, d.c.in[input].elements()};
    while (extents.rank() < x.rank()) extents.push_back(1);
    return d.build.reshape(d.cast(d.in[static_cast<std::size_t>(input)], type), extents);
}

inline const char* decompose_batch_norm(decomposition& d) {
    const op_context& c = d.c;
    emitter& e = d.build;
    if (d.any_empty()) return "it is empty";
    ops::norm_activation act;
    if (!ops::read_norm_activation(c, act).ok()) return "an activation that is neither relu nor clip";
    const shape& x = c.in[0].extents;
    const dtype type = c.in[0].type == dtype::float64 ? dtype::float64 : dtype::float32;
    const double momentum = decimal_of(c.real("momentum", 0.9f)), epsilon = decimal_of(c.real("epsilon", 1e-5f));
    const auto plain = [&](int i) { return d.cast(d.in[static_cast<std::size_t>(i)], type); };
    const value_id mean = plain(6), variance = plain(7), count = plain(8), one = e.number(1, mean);
    const value_id inverse = e.div(one, e.apply("Sqrt", {e.add(variance, e.number(epsilon, variance))}));
    const auto running = [&](int i, value_id batch) {
        const value_id kept = e.mul(plain(i), e.number(momentum, mean)), added = e.mul(batch, e.number(1 - momentum, mean));
        return d.cast(e.add(kept, added), c.in[i].type);
    };
    if (c.wants(1)) d.out[1] = running(3, mean);
    // Of one element there is no unbiased variance: it is 0 then, and so is the biased one.
    const value_id others = e.apply("Max", {e.sub(count, one), one});
    if (c.wants(2)) d.out[2] = running(4, e.div(e.mul(variance, count), others));
    if (c.wants(3)) d.out[3] = d.cast(mean, c.in[1].type);
    if (c.wants(4)) d.out[4] = d.cast(inverse, c.in[1].type);
    if (!c.wants(0)) return nullptr;
    shape channels{1, x[1]};
    while (channels.rank() < x.rank()) channels.push_back(1);
    const value_id scale = e.mul(e.reshape(inverse, channels), by_channel(d, 1, x, type));
    value_id y = e.add(e.mul(e.sub(d.cast(d.in[0], type), e.reshape(mean, channels)), scale), by_channel(d, 2, x, type));
    if (c.has(5)) y = e.add(y, plain(5));
    if (act.any && act.high == HUGE_VAL)
        y = e.apply("Relu", {y});
    else if (act.any)
        y = e.apply("Clip", {y, e.number(act.low, y), e.number(act.high, y)});
    d.out[0] = d.cast(y, c.in[0].type);
    return nullptr;
}

// dX = scale * inv_std * (g - (dB + x' * dscale) / n)
inline const char* decompose_batch_norm_grad(decomposition& d) {
    const op_context& c = d.c;
    emitter& e = d.build;
    if (d.any_empty()) return "it is empty";
    ops::norm_activation act;
    if (!ops::read_norm_activation(c, act).ok()) return "an activation that is neither relu nor clip";
    const shape& x = c.in[1].extents;
    const dtype type = c.in[1].type == dtype::float64 ? dtype::float64 : dtype::float32;
    value_id g = d.cast(d.in[0], type);
    if (act.any) {
        const value_id y = d.cast(d.in[5], type), above = e.apply("Greater", {y, e.number(act.low, y)});
        g = d.where(act.high == HUGE_VAL ? above : d.both(above, e.apply("Less", {y, e.number(act.high, y)})), g, 0);
    }
    if (c.wants(1)) d.out[1] = d.cast(d.in[6], c.in[2].type);
    if (c.wants(2)) d.out[2] = d.cast(d.in[7], c.in[2].type);
    if (c.wants(3)) d.out[3] = d.cast(g, c.in[1].type);
    if (!c.wants(0)) return nullptr;
    const value_id inverse = by_channel(d, 4, x, type), count = by_channel(d, 8, x, type);
    const value_id dscale = e.div(by_channel(d, 6, x, type), count), db = e.div(by_channel(d, 7, x, type), count);
    const value_id normal = e.mul(e.sub(d.cast(d.in[1], type), by_channel(d, 3, x, type)), inverse);
    const value_id dx = e.mul(e.sub(g, e.add(db, e.mul(normal, dscale))), e.mul(by_channel(d, 2, x, type), inverse));
    d.out[0] = d.cast(dx, c.in[1].type);
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE decomposition_table norm_members_decompositions() {
    static constexpr decomposition_row rows[] = {
        {"JoinMoments", "graft", detail::decompose_join_moments, true},
        {"BatchNormalizationTraining", "graft", detail::decompose_batch_norm, true, detail::has_joined},
        {"BatchNormalizationGrad", "graft", detail::decompose_batch_norm_grad, true, detail::has_joined},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
