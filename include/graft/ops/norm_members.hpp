// Batch normalisation among the members of a run as nodes, for devices that have no exchange inside of a kernel: sums over a member's own samples,
// which are joined by nodes of their own.
#pragma once

#include "norm_training.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// graft.BatchMoments(X) -> mean, squares: of each channel the mean, and the sum of squared distances from it.
inline status batch_moments_infer(infer_context& c) {
    int count = 0;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(read_shards(c, count));
    if (c.in[0].extents.rank() < 2) return c.fail_shapes("the input needs batch and channels");
    for (int i = 0; i < 2; ++i) GRAFT_TRY(c.set(i, c.in[0].type == dtype::float64 ? dtype::float64 : dtype::float32, {c.in[0].extents[1]}));
    return {};
}
inline status batch_moments_run(run_context& c) {
    int count = 0;
    GRAFT_TRY(read_shards(c, count));
    const channel_sums sums = channel_sums::of(c.in[0].extents, count);
    widened<double> x;
    GRAFT_TRY(widen(c, c.in[0], x));
    parallel_for(c.pool, sums.channels, [&](std::int64_t channel) {
        const channel_moments m = moments_of(sums, x.data, channel);
        if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, channel, 1, &m.mean);
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, channel, 1, &m.squares);
    });
    return {};
}

// graft.JoinMoments(means, squares, counts) -> mean, variance, count: of the samples of all members what AllGather has of each, [members, channels] and
// [members, 1] (Chan, Golub, LeVeque 1979), the variance being the biased one.
inline status join_moments_infer(infer_context& c) {
    for (int i = 0; i < 3; ++i)
        if (c.in[i].type != dtype::float32) return c.fail(errc::op_type, "what members give each other is float32");
    const shape& means = c.in[0].extents;
    if (means.rank() != 2 || means[0] < 1 || c.in[1].extents != means || c.in[2].extents != shape{means[0], 1})
        return c.fail_shapes("means and squares must have a row for each member, of one length, and counts one number for each");
    for (int i = 0; i < 2; ++i) GRAFT_TRY(c.set(i, dtype::float32, shape{means[1]}));
    return c.set(2, dtype::float32, shape{1});
}
inline status join_moments_run(run_context& c) {
    const std::int64_t members = c.in[0].extents[0], channels = c.in[0].extents[1];
    const std::size_t n = static_cast<std::size_t>(channels), each = 1 + 2 * n;
    std::vector<double> all(each * static_cast<std::size_t>(members));
    for (std::int64_t m = 0; m < members; ++m) {
        double* known = all.data() + static_cast<std::size_t>(m) * each;
        known[0] = c.in[2].real(m);
        load_as_double(dtype::float32, c.in[0].data, m * channels, channels, known + 1);
        load_as_double(dtype::float32, c.in[1].data, m * channels, channels, known + 1 + n);
    }
    const double* total = join_known(all.data(), static_cast<int>(members), each, moments_join{n});
    const double count = total[0];
    std::vector<double> variance(n);
    for (std::size_t i = 0; i < n; ++i) variance[i] = count > 0 ? total[1 + n + i] / count : 0;
    if (c.wants(0)) store_from_double(dtype::float32, c.out[0].data, 0, channels, total + 1);
    if (c.wants(1)) store_from_double(dtype::float32, c.out[1].data, 0, channels, variance.data());
    if (c.wants(2)) store_from_double(dtype::float32, c.out[2].data, 0, 1, &count);
    return {};
}

// graft.BatchNormalizationGradSums(dY, X, saved_mean, saved_inv_std, Y?) -> dscale, dB of BatchNormalizationGrad.
inline status batch_norm_grad_sums_infer(infer_context& c) {
    norm_activation a;
    int count = 0;
    GRAFT_TRY(check_real(c, 1));
    GRAFT_TRY(check_same_type(c, 0, 1));
    GRAFT_TRY(check_same_type(c, 4, 1));
    const shape& x = c.in[1].extents;
    if (x.rank() < 2) return c.fail_shapes("the input needs batch and channels");
    if (c.in[0].extents != x || (c.has(4) && c.in[4].extents != x)) return c.fail_shapes("dY, X and Y must have one shape");
    for (int i = 2; i < 4; ++i) {
        GRAFT_TRY(check_real(c, i));
        GRAFT_TRY(check_vector(c, i, x[1]));
    }
    GRAFT_TRY(read_shards(c, count));
    GRAFT_TRY(read_norm_activation(c, a));
    if (a.any && !c.has(4)) return c.fail(errc::op_attribute, "the gradient of an activation needs Y");
    for (int i = 0; i < 2; ++i) GRAFT_TRY(c.set(i, c.in[2].type, c.in[2].extents));
    return {};
}
inline status batch_norm_grad_sums_run(run_context& c) {
    int count = 0;
    GRAFT_TRY(read_shards(c, count));
    const channel_sums sums = channel_sums::of(c.in[1].extents, count);
    masked_gradient masked;
    widened<double> x;
    GRAFT_TRY(masked.read(c, 4));
    GRAFT_TRY(widen(c, c.in[1], x));
    parallel_for(c.pool, sums.channels, [&](std::int64_t channel) {
        const double mean = c.in[2].real(channel), inverse = c.in[3].real(channel);
        const double dscale = sums.sum(channel, [&](std::int64_t i) { return masked(i) * ((x.data[i] - mean) * inverse); }), db = sums.sum(channel, masked);
        if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, channel, 1, &dscale);
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, channel, 1, &db);
    });
    return {};
}

inline op_table norm_members_ops() {
    static constexpr op_row rows[] = {
        own("BatchMoments")
            .inputs(1)
            .outputs(2)
            .functions(batch_moments_infer, batch_moments_run)
            .exact_outputs_from(0)
            .attributes("shards:i")
            .problems("f32[3,5,3,7]; f32[9,17,4,4] shards=4; f32[5,4] shards=1; f64[4,2,6]; f16[2,3,4]; f32[0,3,2]"),
        own("JoinMoments")
            .inputs(3)
            .outputs(3)
            .functions(join_moments_infer, join_moments_run)
            .exact_outputs_from(0)
            .problems("f32[2,7] f32[2,7]~0.1:2 f32[2,1]~1:5; f32[1,1] f32[1,1]~0:1 f32[1,1]~1:1; f32[3,4] f32[3,4]~0:1 f32[3,1]~2:9"),
        own("BatchNormalizationGradSums")
            .inputs(4, 5)
            .outputs(2)
            .functions(batch_norm_grad_sums_infer, batch_norm_grad_sums_run)
            .exact_outputs_from(0)
            .attributes("activation:i alpha:f beta:f shards:i")
            .problems("f32[3,5,3,7] f32[3,5,3,7] f32[5] f32[5]~0.1:2; f32[9,17,4,4] f32[9,17,4,4] f32[17] f32[17]~0.1:2 f32[9,17,4,4] activation=1 shards=4; "
                      "f32[5,4] f32[5,4] f32[4] f32[4]~0.1:2 shards=1; f32[2,3,4,5] f32[2,3,4,5] f32[3] f32[3]~0.1:2 f32[2,3,4,5] activation=2 alpha=-0.5 "
                      "beta=0.75; f64[4,2,6] f64[4,2,6] f64[2] f64[2]~0.1:2; f16[2,3,4] f16[2,3,4] f32[3] f32[3]~0.1:2; f32[0,3,2] f32[0,3,2] f32[3] "
                      "f32[3]~0.1:2"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
