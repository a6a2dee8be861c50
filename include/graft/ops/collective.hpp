// What several members of a run compute together: sums over all of them, as nodes of a training step.
#pragma once

#include "../core/communicator.hpp"
#include "common.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Of all, by_device: the devices of the run exchange themselves, and not the hosts.

// graft.AllReduce(X...) -> Y...: each Y is the sum of the members' X, added in the order of communicator::all_reduce; X itself where the run has one
// member. Several at once are one exchange: a bucket (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3).
inline status all_reduce_infer(infer_context& c) {
    if (c.inputs != c.outputs) return c.fail(errc::op_attribute, "there have to be as many outputs as inputs, and there are %d and %d", c.outputs, c.inputs);
    for (int i = 0; i < c.inputs; ++i) {
        if (c.in[i].type != dtype::float32) return c.fail(errc::op_type, "sums over the members of a run are taken of float32 alone");
        GRAFT_TRY(c.set(i, c.in[i].type, c.in[i].extents));
    }
    return {};
}
inline status all_reduce_run(run_context& c) {
    std::vector<const float*> in;
    std::vector<float*> out;
    std::vector<std::int64_t> counts;
    for (int i = 0; i < c.inputs; ++i) {
        in.push_back(c.in[i].as<const float>());
        out.push_back(c.out[i].as<float>());
        counts.push_back(c.in[i].elements());
    }
    std::vector<float> zeros;
    if (c.group && c.group->idle()) {
        zeros.resize(static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end())));
        std::fill(in.begin(), in.end(), zeros.data());
    }
    if (c.group) return c.group->all_reduce({in.data(), out.data(), counts.data(), c.inputs});
    for (int i = 0; i < c.inputs; ++i)
        if (const auto n = static_cast<std::size_t>(counts[static_cast<std::size_t>(i)])) std::memcpy(c.out[i].data, c.in[i].data, n * sizeof(float));
    return {};
}

// graft.AllReduceStart(X...) -> bucket [n]: what the members' X hold, behind each other, begins to be added up there, while the nodes behind it run.
inline status all_reduce_start_infer(infer_context& c) {
    std::int64_t all = 0;
    for (int i = 0; i < c.inputs; ++i) {
        if (c.in[i].type != dtype::float32) return c.fail(errc::op_type, "sums over the members of a run are taken of float32 alone");
        if ((all = checked_add(all, c.in[i].elements())) < 0) return c.fail(errc::op_shape, "its inputs are too large to be exchanged at once");
    }
    return c.set(0, dtype::float32, {all});
}
inline status all_reduce_start_run(run_context& c) {
    float* to = c.out[0].as<float>();
    const bool nothing = c.group && c.group->idle();
    for (int i = 0; i < c.inputs; ++i) {
        const std::int64_t n = c.in[i].elements();
        if (nothing)
            std::fill_n(to, n, 0.0f);
        else if (n)
            std::memcpy(to, c.in[i].data, static_cast<std::size_t>(n) * sizeof(float));
        to += n;
    }
    return c.group ? c.group->start({c.out[0].as<float>(), c.out[0].elements(), c.n.name.c_str()}) : status();
}

// graft.AllReduceEnd(bucket) -> Y...: waits for the sums, and hands them out. Attributes: `ranks` of the outputs, and their `extents` behind each other.
inline status all_reduce_end_infer(infer_context& c) {
    const integer_list ranks = c.integers("ranks"), extents = c.integers("extents");
    if (c.in[0].type != dtype::float32 || ranks.size != c.outputs)
        return c.fail(errc::op_attribute, "it hands out sums in float32, and has to be told the rank of each of its %d outputs", c.outputs);
    std::int64_t all = 0;
    int at = 0;
    for (int i = 0; i < c.outputs; ++i) {
        if (ranks[i] < 0 || ranks[i] > shape::max_rank || ranks[i] > extents.size - at)
            return c.fail(errc::op_attribute, "output %lld has the rank %lld, which does not fit its extents", i, ranks[i]);
        shape own;
        for (std::int64_t d = 0; d < ranks[i]; ++d) {
            if (extents[at] < 0) return c.fail(errc::op_attribute, "an extent of %lld is no extent", extents[at]);
            own.push_back(extents[at++]);
        }
        if ((all = checked_add(all, own.elements())) < 0) return c.fail(errc::op_shape, "its outputs are too large");
        GRAFT_TRY(c.set(i, dtype::float32, own));
    }
    if (at != extents.size || all != c.in[0].elements())
        return c.fail(errc::op_shape, "its outputs hold %lld elements, and the bucket %lld", all, c.in[0].elements());
    return {};
}
inline status all_reduce_end_run(run_context& c) {
    if (c.group) GRAFT_TRY(c.group->finish(c.in[0].as<const float>()));
    const float* from = c.in[0].as<const float>();
    const integer_list ranks = c.integers("ranks"), extents = c.integers("extents");
    for (int i = 0, at = 0; i < c.outputs; ++i) {
        std::int64_t n = 1;
        for (std::int64_t d = 0; d < ranks[i]; ++d) n *= extents[at++];
        if (n && c.wants(i)) std::memcpy(c.out[i].data, from, static_cast<std::size_t>(n) * sizeof(float));
        from += n;
    }
    return {};
}

// graft.AllGather(X...) -> Y...: each Y [members, ...] holds the members' X, in the order of their ranks. A member without samples gives zeros.
inline status all_gather_infer(infer_context& c) {
    const std::int64_t members = c.integer("members", 1);
    if (members < 1) return c.fail(errc::op_attribute, "%lld members are not a run", members);
    if (c.inputs != c.outputs) return c.fail(errc::op_attribute, "there have to be as many outputs as inputs, and there are %d and %d", c.outputs, c.inputs);
    for (int i = 0; i < c.inputs; ++i) {
        if (c.in[i].type != dtype::float32) return c.fail(errc::op_type, "what members give each other is float32");
        shape all = c.in[i].extents;
        if (all.rank() == shape::max_rank) return c.fail_shapes("there is no room for an axis of members");
        all.insert(0, members);
        GRAFT_TRY(c.set(i, c.in[i].type, all));
    }
    return {};
}
inline status all_gather_run(run_context& c) {
    const std::int64_t members = c.integer("members", 1);
    if (members != (c.group ? c.group->size() : 1)) return c.fail(errc::internal, "it was planned for %lld members", members);
    for (int i = 0; i < c.inputs; ++i) {
        const std::size_t bytes = static_cast<std::size_t>(c.in[i].elements()) * sizeof(float);
        const std::vector<std::byte> zeros(c.group && c.group->idle() ? bytes : 0);
        if (c.group)
            GRAFT_TRY(c.group->all_gather(zeros.empty() ? c.in[i].data : zeros.data(), bytes, c.out[i].data));
        else if (bytes)
            std::memcpy(c.out[i].data, c.in[i].data, bytes);
    }
    return {};
}

/// What members know of their samples, `each` numbers behind each other that begin with a count, joined by their tree; those without elements count for
/// nothing. join(a, b) puts what both know into a. What all know lies where the answer points, in `all`.
template <class Join>
inline const double* join_known(double* all, int members, std::size_t each, const Join& join) {
    const auto leaf = [&](int member) { return all + static_cast<std::size_t>(member) * each; };
    const auto joined = [&](double* a, double* b) {
        if (a[0] == 0 || b[0] == 0) return a[0] == 0 ? b : a;
        join(a, b);
        return a;
    };
    return join_members<double*>(0, members, leaf, joined);
}
/// Means and squared distances from them, of so many channels (Chan, Golub, LeVeque 1979).
struct moments_join {
    std::size_t channels;
    void operator()(double* a, const double* b) const {
        const double share = b[0] / (a[0] + b[0]), both = a[0] * share;
        for (std::size_t i = 1; i <= channels; ++i) {
            const double apart = b[i] - a[i];
            a[i] += apart * share;
            a[channels + i] += b[channels + i] + apart * apart * both;
        }
        a[0] += b[0];
    }
};

/// What each member knows of its samples, `count` elements and two numbers for each of `channels`, joined over all members by their tree; those
/// without elements count for nothing. join(a, b) puts {count, first..., second...} of both into a. All members get the same bits.
template <class Join>
inline status join_channels(communicator& group, double& count, double* first, double* second, std::int64_t channels, const Join& join) {
    const std::size_t n = static_cast<std::size_t>(channels), each = 1 + 2 * n;
    std::vector<double> own(each), all(each * static_cast<std::size_t>(group.size()));
    own[0] = group.idle() ? 0 : count;
    if (own[0] > 0) {
        std::memcpy(own.data() + 1, first, n * sizeof(double));
        std::memcpy(own.data() + 1 + n, second, n * sizeof(double));
    }
    GRAFT_TRY(group.all_gather(own.data(), each * sizeof(double), all.data()));
    const double* total = join_known(all.data(), group.size(), each, join);
    count = total[0];
    std::memcpy(first, total + 1, n * sizeof(double));
    std::memcpy(second, total + 1 + n, n * sizeof(double));
    return {};
}
/// Means and squared distances from them.
inline status join_moments(communicator& group, double& count, double* mean, double* square, std::int64_t channels) {
    return join_channels(group, count, mean, square, channels, moments_join{static_cast<std::size_t>(channels)});
}
/// Two sums.
inline status join_sums(communicator& group, double& count, double* first, double* second, std::int64_t channels) {
    const std::size_t each = 1 + 2 * static_cast<std::size_t>(channels);
    return join_channels(group, count, first, second, channels, [each](double* a, const double* b) {
        for (std::size_t i = 0; i < each; ++i) a[i] += b[i];
    });
}

inline op_table collective_ops() {
    static constexpr op_row rows[] = {
        own("AllReduce")
            .inputs_from(1)
            .outputs_from(1)
            .functions(all_reduce_infer, all_reduce_run)
            .exact_outputs_from(0)
            .made_once_from(0)
            .reads_bits()
            .attributes("by_device:i")
            .problems("f32[7]; f32[3,4]; f32[0,2]"),
        own("AllReduceStart")
            .inputs_from(1)
            .functions(all_reduce_start_infer, all_reduce_start_run)
            .exact_outputs_from(0)
            .made_once_from(0)
            .reads_bits()
            .attributes("by_device:i")
            .problems("f32[7]; f32[3,4] f32[2] f32[]; f32[0,2]"),
        own("AllReduceEnd")
            .inputs(1)
            .outputs_from(1)
            .functions(all_reduce_end_infer, all_reduce_end_run)
            .exact_outputs_from(0)
            .made_once_from(0)
            .reads_bits()
            .attributes("ranks:is extents:is by_device:i")
            .problems("f32[7] ranks=1 extents=7; f32[12] ranks=2 extents=3,4; f32[0] ranks=2 extents=0,2"),
        own("AllGather")
            .inputs_from(1)
            .outputs_from(1)
            .functions(all_gather_infer, all_gather_run)
            .exact_outputs_from(0)
            .made_once_from(0)
            .reads_bits()
            .attributes("members:i by_device:i")
            .problems("f32[7]; f32[3,4]; f32[0,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
