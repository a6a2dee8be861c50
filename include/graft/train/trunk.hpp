// Where a classifier begins in a network: what its last layer reads.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "../exec/class_scores.hpp"
#include "../graph/graph.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// Where a network's classifier begins.
struct trunk_cut {
    value_id features = no_value;  ///< what the classifier reads: a row a picture, or maps and tokens that are pooled to one
    value_id logits = no_value;    ///< what it makes of them, before any Softmax; no_value where there is no layer to take away, or the cut was named
    bool softmax = false;          ///< whether the network ends in a Softmax
    std::int64_t channels = 0;     ///< features of a picture
    int rank = 0;                  ///< of the features, samples first
    int channel_axis = 1;          ///< along which they are counted; the other axes but the first are pooled
};

/// Finds the classifier: the last Gemm, MatMul or Conv with constant weights on the way to the first output, as long as every operator behind
/// it has one input that is computed. Where that way forks before any such layer, what the output is made of is taken for features. `at` names
/// a value or a node to cut behind instead; "" finds it. `input` is the shape of one batch. Errors: train.head (the output is not one number a
/// class; no such name; nothing to pool).
result<trunk_cut> find_trunk(const graph& g, const std::string& at, const shape& input, executor& pool, const limits& limit = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../passes/specialize.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline int maker_of(const graph& g, value_id id) {
    for (std::size_t i = g.nodes.size(); i-- > 0;)
        for (value_id out : g.nodes[i].outputs)
            if (out == id && id != no_value) return static_cast<int>(i);
    return -1;
}
inline bool is_softmax(const node& n) {
    const op_role role = ops::row_of(n).traits.role;
    return role == op_role::softmax || role == op_role::log_softmax;
}
// The axis of the features that a layer which classifies reads, from behind where it is negative; 0: it is no such layer.
inline int feature_axis(const node& n) {
    static constexpr struct {
        const char* op;
        int axis;
    } layers[] = {{"Conv", 1}, {"Gemm", 1}, {"MatMul", -1}};
    for (const auto& layer : layers)
        if (n.op_type == layer.op && n.domain.empty()) return layer.axis;
    return 0;
}

// The input of a node that is computed from the picture; no_value where there are several, or none.
inline value_id only_computed_input(const node& n, const std::vector<char>& computed) {
    value_id only = no_value;
    for (value_id id : n.inputs) {
        if (id == no_value || !computed[id]) continue;
        if (only != no_value && only != id) return no_value;
        only = id;
    }
    return only;
}
// Which values depend on the first input without a default.
inline std::vector<char> computed_values(const graph& g) {
    std::vector<char> computed(g.values.size(), 0);
    for (value_id id : g.inputs)
        if (!g.at(id).constant) computed[id] = 1;
    for (const node& n : g.nodes) {
        bool any = false;
        for (value_id id : n.inputs) any |= id != no_value && computed[id];
        // A shape is not what a picture holds.
        if (ops::row_of(n).is(op_flag::shape_only)) any = false;
        for (value_id id : n.outputs)
            if (id != no_value && any) computed[id] = 1;
    }
    return computed;
}

// The shapes of all values for one batch.
class known_shapes {
public:
    static result<known_shapes> of(const graph& g, const shape& input, executor& pool, const limits& limit) {
        known_shapes made;
        GRAFT_TRY_ASSIGN(made.known_, specialize_first_input(g, input, pool, limit));
        return made;
    }
    status find(value_id id, shape& extents) const {
        const value& v = known_.at(id);
        if (!v.has_shape || !v.extents.known()) return fail(errc::train_head, v.name, "its shape can only be told by running");
        extents = v.extents;
        return {};
    }

private:
    graph known_;
};

inline status check_row(const graph& g, const known_shapes& shapes, std::int64_t samples) {
    const value& out = g.at(g.outputs[0]);
    shape extents;
    GRAFT_TRY(shapes.find(g.outputs[0], extents));
    if (extents.rank() >= 2 && extents[0] == samples && class_axis(extents) > 0) return {};
    return fail(errc::train_head, "output '" + out.name + "'",
                "it is " + text(extents) + " for " + std::to_string(samples) + (samples == 1 ? " picture" : " pictures") +
                    "; a classifier gives a row of numbers for each, one a class. To learn classes on the trunk of this network, name the value or node to put "
                    "them on with --trunk");
}

// Where the channels of features are that no layer tells of: maps of a picture are as high as wide as a rule, and tokens have theirs last.
inline int likely_channel_axis(const shape& e) {
    if (e.rank() == 3) return 2;
    return e.rank() == 4 && e[1] == e[2] && e[2] != e[3] ? 3 : 1;
}

}  // namespace detail

GRAFT_INLINE result<trunk_cut> find_trunk(const graph& g, const std::string& at, const shape& input, executor& pool, const limits& limit) GRAFT_MEMORY_TRY {
    if (g.outputs.empty()) return fail(errc::train_head, g.name, "the network has no output");
    trunk_cut cut;
    detail::known_shapes shapes;
    GRAFT_TRY_ASSIGN(shapes, detail::known_shapes::of(g, input, pool, limit));
    // `axis` < 0 counts from behind, 0 means that it has to be guessed.
    const auto measure = [&](int axis) -> status {
        shape extents;
        GRAFT_TRY(shapes.find(cut.features, extents));
        const std::string& name = g.at(cut.features).name;
        cut.rank = extents.rank();
        if (cut.rank < 2 || cut.rank > 5 || extents[0] != input[0])
            return fail(errc::train_head, name,
                        "the trunk makes values of the shape " + text(extents) + " for a batch of " + std::to_string(input[0]) +
                            "; a classifier takes a row, maps or tokens for each picture. Name another place with --trunk");
        cut.channel_axis = axis < 0 ? cut.rank + axis : axis > 0 ? axis : detail::likely_channel_axis(extents);
        cut.channels = extents[cut.channel_axis];
        if (extents.elements() < 1) return fail(errc::train_head, name, "the trunk makes no features");
        return {};
    };
    if (!at.empty()) {
        for (std::size_t i = 0; i < g.values.size() && cut.features == no_value; ++i)
            if (g.values[i].name == at && !g.values[i].constant) cut.features = static_cast<value_id>(i);
        for (const node& n : g.nodes)
            if (cut.features == no_value && n.name == at && !n.outputs.empty()) cut.features = n.outputs[0];
        if (cut.features == no_value) return fail(errc::train_head, at, "the network has no value and no node of that name; graft info lists them");
        GRAFT_TRY(measure(0));
        return cut;
    }
    GRAFT_TRY(detail::check_row(g, shapes, input[0]));
    const std::vector<char> computed = detail::computed_values(g);
    value_id id = g.outputs[0], before_softmax = id;
    bool normalised = false;
    for (int i = detail::maker_of(g, id), steps = 0; i >= 0 && steps < 64; i = detail::maker_of(g, id), ++steps) {
        const node& n = g.nodes[static_cast<std::size_t>(i)];
        const value_id from = detail::only_computed_input(n, computed);
        if (from == no_value) break;
        const op_traits& traits = ops::row_of(n).traits;
        if (const int axis = detail::feature_axis(n)) {
            cut.features = from;
            cut.logits = id;
            // A Conv whose statistics are normalised behind it is part of the trunk.
            const bool last = n.inputs[0] == from && !(normalised && traits.role == op_role::convolution);
            status fits;
            if (last) fits = measure(axis);
            if (!fits.ok() && fits.error().code() == errc::memory_oom) return fits;
            if (last && fits.ok()) return cut;
            break;
        }
        normalised |= traits.statistics != 0;
        if (detail::is_softmax(n) && before_softmax == g.outputs[0]) {
            cut.softmax = traits.role == op_role::softmax;
            before_softmax = from;
        }
        id = from;
    }
    cut.features = before_softmax;
    cut.logits = no_value;
    shape extents;
    GRAFT_TRY(shapes.find(before_softmax, extents));
    GRAFT_TRY(measure(class_axis(extents)));
    return cut;
}
GRAFT_MEMORY_CATCH("find_trunk")

GRAFT_END_NAMESPACE
#endif
