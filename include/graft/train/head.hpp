// Grafting: cuts the classifier off a network and puts one for other classes in its place.
#pragma once

#include "trunk.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The network with a new classifier on its trunk.
struct grafted {
    graft::graph graph;
    value_id logits = no_value;     ///< [N, classes]
    value_id features = no_value;   ///< [N, C]: what the new layer reads, pooled
    std::vector<std::string> head;  ///< names of the classifier's weights
};

/// Puts what pools the features to a row (GlobalAveragePool and Flatten, or ReduceMean where channels come last) and a Gemm on the trunk. Its
/// weights are drawn as torch's Linear draws them: uniform within 1 / sqrt(C); by `seed`. The output keeps its name, and its Softmax where it
/// has one; other outputs go, and so do inputs that have a default: those are weights, and learn. Errors: train.head, memory.oom.
result<grafted> replace_head(graph g, const trunk_cut& cut, std::int64_t classes, std::uint64_t seed);

/// The value that a loss is to be taken of in a network that is to be trained as it is: its first output, or what its last Softmax reads; of an output in codes
/// the numbers that were rounded and cut to them.
value_id logits_of(const graph& g);

namespace detail {
/// Inputs with a default are weights, which files of IR versions before 4 had to list so: they are inputs no more.
void drop_default_inputs(graph& g);
}  // namespace detail

/// Turns Constant nodes, and initializers shared through Identity, into initializers of their own, so that each can learn; but Constant nodes that hold
/// one real number, however often, are a formula's (the 0.5 of a GELU, the zeros of a normalisation without a bias).
void constants_to_initializers(graph& g);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/rng.hpp"
#include "../passes/graph_queries.hpp"
#include "../passes/node_writer.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline bool changes_shape_only(const node& n) {
    const op_traits& traits = ops::row_of(n).traits;
    return traits.moves == motion::same || traits.role == op_role::drop || traits.role == op_role::quantize || traits.role == op_role::dequantize;
}

}  // namespace detail

GRAFT_INLINE void constants_to_initializers(graph& g) {
    std::vector<node> kept;
    for (node& n : g.nodes) {
        const attribute* a = ops::row_of(n).traits.role == op_role::constant && n.outputs.size() == 1 ? n.find("value") : nullptr;
        bool output = false;
        for (value_id id : g.outputs) output |= !n.outputs.empty() && id == n.outputs[0];
        // Exporters share equal initializers through Identity; each is a weight of its own.
        if (detail::is_copy(n) && ops::row_of(n).traits.moves == motion::same && !output && g.at(n.inputs[0]).constant) {
            const tensor shared = g.at(n.inputs[0]).constant;
            value& own = g.at(n.outputs[0]);
            own.constant = shared;
            own.type = shared.type();
            own.extents = shared.shape();
            own.has_shape = true;
            continue;
        }
        if (!a || !a->tensor || output || (is_float(a->tensor.type()) && detail::is_uniform(a->tensor))) {
            kept.push_back(std::move(n));
            continue;
        }
        value& v = g.at(n.outputs[0]);
        v.constant = a->tensor;
        v.type = v.constant.type();
        v.extents = v.constant.shape();
        v.has_shape = true;
    }
    g.nodes = std::move(kept);
}

GRAFT_INLINE value_id logits_of(const graph& g) {
    if (g.outputs.empty()) return no_value;
    value_id id = g.outputs[0], last = id;
    for (int i = detail::maker_of(g, id); i >= 0; i = detail::maker_of(g, id)) {
        const node& n = g.nodes[static_cast<std::size_t>(i)];
        if (detail::is_softmax(n)) return n.inputs[0];
        const bool rounds = ops::row_of(n).traits.role == op_role::quantize, cuts = id == last && last != g.outputs[0] && detail::is_named(n, "Clip");
        if (!cuts && !detail::changes_shape_only(n)) break;
        if (id == last && (rounds || cuts)) last = n.inputs[0];
        id = n.inputs[0];
    }
    return last;
}

namespace detail {

GRAFT_INLINE void drop_default_inputs(graph& g) {
    std::vector<value_id> asked;
    for (value_id id : g.inputs)
        if (!g.at(id).constant) asked.push_back(id);
    if (asked.size() < g.inputs.size()) g.ir_version = std::max<std::int64_t>(g.ir_version, 4);
    g.inputs = std::move(asked);
}

// Values that nothing makes or reads any more give their names away.
inline void drop_unused_names(graph& g) {
    std::vector<char> lives(g.values.size(), 0);
    const auto mark = [&](const std::vector<value_id>& ids) {
        for (value_id id : ids)
            if (id != no_value) lives[id] = 1;
    };
    mark(g.inputs);
    mark(g.outputs);
    for (const node& n : g.nodes) mark(n.inputs), mark(n.outputs);
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (!lives[i]) g.values[i].name.clear();
}
inline result<tensor> uniform_weights(const shape& extents, double bound, const random_stream& random) {
    tensor made;
    GRAFT_TRY_ASSIGN(made, tensor::make(dtype::float32, extents));
    for (std::int64_t i = 0; i < made.elements(); ++i)
        made.data<float>()[i] = static_cast<float>(bound * (2 * random.uniform(static_cast<std::uint64_t>(i)) - 1));
    return made;
}

// Features to a row for each picture.
inline value_id pooled(node_writer& write, const graph& g, const trunk_cut& cut) {
    value_id x = cut.features;
    if (cut.rank == 2) return x;
    if (cut.channel_axis == 1) {
        x = write.named("GlobalAveragePool", "head_pool", {x}, {}, dtype::float32);
        return write.named("Flatten", "head_flatten", {x}, {integer_attribute("axis", 1)}, dtype::float32);
    }
    std::vector<std::int64_t> axes;
    for (int a = 1; a < cut.rank; ++a)
        if (a != cut.channel_axis) axes.push_back(a);
    if (g.version_of("") < 18)
        return write.named("ReduceMean", "head_pool", {x}, {integers_attribute("axes", axes), integer_attribute("keepdims", 0)}, dtype::float32);
    return write.named("ReduceMean", "head_pool", {x, write.integers("head_pool", axes)}, {integer_attribute("keepdims", 0)}, dtype::float32);
}

}  // namespace detail

GRAFT_INLINE result<grafted> replace_head(graph g, const trunk_cut& cut, std::int64_t classes, std::uint64_t seed) GRAFT_MEMORY_TRY {
    if (classes < 1 || classes > (1 << 24)) return fail(errc::train_head, g.name, std::to_string(classes) + " classes cannot be told apart");
    if (g.outputs.empty() || g.inputs.empty() || cut.features < 0 || cut.features >= static_cast<value_id>(g.values.size()))
        return fail(errc::train_head, g.name, "there is no trunk to put a classifier on: give the network and what find_trunk said of it");
    const auto at = [&g](value_id id) -> value& { return g.at(id); };
    const std::string output_name = at(g.outputs[0]).name;
    detail::drop_default_inputs(g);
    g.outputs = {cut.features};
    drop_unread(g);
    detail::drop_unused_names(g);
    grafted made;
    detail::node_writer write(g, "head");
    if (at(cut.features).name == output_name) at(cut.features).name = write.free_name("features");
    made.features = detail::pooled(write, g, cut);
    tensor weight, bias;
    const double bound = 1 / std::sqrt(static_cast<double>(cut.channels));
    GRAFT_TRY_ASSIGN(weight, detail::uniform_weights({classes, cut.channels}, bound, random_stream(seed, 0x68656164)));
    GRAFT_TRY_ASSIGN(bias, detail::uniform_weights({classes}, bound, random_stream(seed, 0x62696173)));
    made.head = {write.free_name("head.weight"), write.free_name("head.bias")};
    const value_id w = g.add_constant(made.head[0], std::move(weight)), b = g.add_constant(made.head[1], std::move(bias));
    made.logits = write.named("Gemm", cut.softmax ? "logits" : output_name, {made.features, w, b}, {integer_attribute("transB", 1)}, dtype::float32);
    const value_id last = cut.softmax ? write.named("Softmax", output_name, {made.logits}, {integer_attribute("axis", 1)}, dtype::float32) : made.logits;
    for (value_id id : {last, made.logits}) {
        at(id).has_shape = true;
        at(id).extents = {shape::unknown, classes};
        at(id).dimensions = {"N", ""};
        // A network whose batch is fixed keeps it.
        const value& in = at(g.inputs[0]);
        if (!in.has_shape || in.extents.rank() < 1) continue;
        if (in.extents[0] > 0)
            at(id).extents[0] = in.extents[0], at(id).dimensions = {"", ""};
        else if (!in.dimensions.empty() && !in.dimensions[0].empty())
            at(id).dimensions[0] = in.dimensions[0];
    }
    g.outputs = {last};
    drop_unread(g);
    GRAFT_TRY(std::move(write.failure));
    made.graph = std::move(g);
    return made;
}
GRAFT_MEMORY_CATCH("replace_head")

GRAFT_END_NAMESPACE
#endif
