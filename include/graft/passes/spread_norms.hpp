// Rewrites batch normalisation among the members of a run for devices, whose kernels cannot ask other members.
#pragma once

#include "../graph/emitter.hpp"
#include "../ops/gradients.hpp"

#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Takes graft.BatchNormalizationTraining and its gradient apart, so that their statistics are those of all `members`: sums over this member's own
/// samples, nodes that exchange them (`by_device`: by device::exchanges), and the same operators on what all know. All shapes are known. Errors:
/// op.unsupported, op.type (members give each other float32 alone).
status spread_norms(graph& g, int members, bool by_device, const limits& limit);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace detail {

class norm_spreader {
public:
    norm_spreader(graph& g, int members, bool by_device, const limits& limit)
        : g_(g), members_(integer_attribute("members", members)), by_device_(integer_attribute("by_device", by_device)),
          emit_(g, ops::find_training_op, limit) {}

    GRAFT_COLD status run() {
        std::vector<node> all = std::move(g_.nodes);
        g_.nodes.clear();
        for (node& n : all) {
            emit_.prefix = n.name;
            if (n.domain == "graft" && n.op_type == "BatchNormalizationTraining") join_moments(n);
            if (n.domain == "graft" && n.op_type == "BatchNormalizationGrad") join_sums(n);
            g_.nodes.push_back(std::move(n));
        }
        return std::move(emit_.failure);
    }

private:
    std::vector<attribute> copied(const node& n, std::initializer_list<const char*> names) const {
        std::vector<attribute> found;
        for (const char* name : names)
            if (const attribute* a = n.find(name)) found.push_back(*a);
        return found;
    }
    // Elements of a channel of this member.
    value_id count_of(value_id x) {
        const shape& s = g_.at(x).extents;
        const float n = static_cast<float>(s.product(0, 1) * s.product(2, s.rank()));
        auto made = tensor::from(&n, shape{1});
        if (!made.ok()) return emit_.mistake(made.take_status()), no_value;
        return emit_.constant(std::move(made).value(), "count");
    }
    static void give(node& n, const std::vector<value_id>& joined) {
        n.inputs.resize(6, no_value);
        n.inputs.insert(n.inputs.end(), joined.begin(), joined.end());
    }
    void join_moments(node& n) {
        const value_id x = n.inputs[0];
        std::vector<value_id> own = emit_.apply_all("graft", "BatchMoments", {x}, copied(n, {"shards"}), 2);
        own.push_back(count_of(x));
        give(n, emit_.apply_all("graft", "JoinMoments", emit_.apply_all("graft", "AllGather", own, {members_, by_device_}, 3), {}, 3));
    }
    void join_sums(node& n) {
        std::vector<value_id> read{n.inputs[0], n.inputs[1], n.inputs[3], n.inputs[4]};
        if (n.inputs.size() > 5) read.push_back(n.inputs[5]);
        std::vector<value_id> own = emit_.apply_all("graft", "BatchNormalizationGradSums", read, copied(n, {"activation", "alpha", "beta", "shards"}), 2);
        own.push_back(count_of(n.inputs[1]));
        give(n, emit_.apply_all("graft", "AllReduce", own, {by_device_}, 3));
    }

    graph& g_;
    attribute members_, by_device_;
    emitter emit_;
};

}  // namespace detail

GRAFT_INLINE status spread_norms(graph& g, int members, bool by_device, const limits& limit) {
    return detail::norm_spreader(g, members, by_device, limit).run();
}

GRAFT_END_NAMESPACE
#endif
