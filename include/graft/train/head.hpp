// Grafting: cuts the classifier off a network and puts one for other classes in its place.
#pragma once

#include "../graph/graph.hpp"
#include "../core/limits.hpp"
#include "../core/executor.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Where a network's classifier begins.
struct trunk_cut {
    value_id features = no_value;  ///< what the classifier reads: [N, C], or [N, C, H, W] where it pools them itself
    value_id logits = no_value;    ///< what it makes of them, before any Softmax; no_value where the cut was named
    bool softmax = false;          ///< whether the network ends in a Softmax
    std::int64_t channels = 0;     ///< C
    int rank = 0;                  ///< of the features: 2 or 4
};

/// Finds the classifier: the last Gemm, MatMul or pointwise Conv with constant weights before the first output, behind which there are
/// only a bias, pooling, Softmax and changes of shape. `at` names a value or a node to cut behind instead; "" finds it. `input` is the
/// shape of one batch. Errors: train.head.
result<trunk_cut> find_trunk(const graph& g, const std::string& at, const shape& input, executor& pool, const limits& limit = {});

/// The network with a new classifier on its trunk.
struct grafted {
    graft::graph graph;
    value_id logits = no_value;          ///< [N, classes]
    std::vector<std::string> head;       ///< names of the classifier's weights
};

/// Puts GlobalAveragePool and Flatten (where the features are images) and a Gemm on the trunk. Its weights are drawn as torch's Linear
/// draws them: uniform within 1 / sqrt(C); by `seed`. The output keeps its name, and its Softmax where it has one; other outputs go.
/// Errors: train.head, memory.oom.
result<grafted> replace_head(graph g, const trunk_cut& cut, std::int64_t classes, std::uint64_t seed);

/// The value that a loss is to be taken of in a network that is to be trained as it is: its first output, or what its last Softmax reads.
value_id logits_of(const graph& g);

/// Turns Constant nodes, and initializers shared through Identity, into initializers of their own, so that each can learn.
void constants_to_initializers(graph& g);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/rng.hpp"
#include "../graph/builder.hpp"
#include "../ops/ops.hpp"
#include "../passes/specialize.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline int maker_of(const graph& g, value_id id) {
    for (std::size_t i = g.nodes.size(); i-- > 0;)
        for (value_id out : g.nodes[i].outputs)
            if (out == id && id != no_value) return static_cast<int>(i);
    return -1;
}
inline bool is_any(const node& n, std::initializer_list<const char*> names) {
    if (!n.domain.empty()) return false;
    for (const char* name : names)
        if (n.op_type == name) return true;
    return false;
}
inline bool changes_shape_only(const node& n) {
    return is_any(n, {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "Dropout", "QuantizeLinear", "DequantizeLinear"});
}
inline bool pools_everything(const node& n) { return is_any(n, {"GlobalAveragePool", "AveragePool", "ReduceMean"}); }

// Whether an input is a constant, or made of constants alone by a few nodes (a transposed or dequantised weight).
inline bool made_of_constants(const graph& g, value_id id, int depth = 0) {
    if (id == no_value) return false;
    if (g.values[static_cast<std::size_t>(id)].constant) return true;
    const int i = maker_of(g, id);
    if (i < 0 || depth > 6) return false;
    const node& n = g.nodes[static_cast<std::size_t>(i)];
    if (is_any(n, {"Constant"})) return true;
    if (n.inputs.empty()) return false;
    for (value_id in : n.inputs)
        if (in != no_value && !made_of_constants(g, in, depth + 1)) return false;
    return true;
}

// Extents of a value when the first input has that shape; false where only a run can tell.
inline status shape_of_value(const graph& g, value_id id, const shape& input, executor& pool, const limits& limit, shape& extents) {
    graph copy = g;
    copy.outputs = {id};
    GRAFT_TRY_ASSIGN(copy, specialize_first_input(std::move(copy), input, pool, limit));
    const value& v = copy.values[static_cast<std::size_t>(id)];
    if (!v.has_shape || !v.extents.known()) return fail(errc::train_head, v.name, "its shape cannot be told before running");
    extents = v.extents;
    return {};
}

}  // namespace detail

GRAFT_INLINE void constants_to_initializers(graph& g) {
    std::vector<node> kept;
    for (node& n : g.nodes) {
        const attribute* a = n.op_type == "Constant" && n.domain.empty() && n.outputs.size() == 1 ? n.find("value") : nullptr;
        bool output = false;
        for (value_id id : g.outputs) output |= !n.outputs.empty() && id == n.outputs[0];
        // Exporters share equal initializers through Identity; each is a weight of its own.
        if (n.op_type == "Identity" && n.domain.empty() && n.inputs.size() == 1 && n.outputs.size() == 1 && !output && g.values[static_cast<std::size_t>(n.inputs[0])].constant) {
            const tensor shared = g.values[static_cast<std::size_t>(n.inputs[0])].constant;
            value& own = g.values[static_cast<std::size_t>(n.outputs[0])];
            own.constant = shared;
            own.type = shared.type();
            own.extents = shared.shape();
            own.has_shape = true;
            continue;
        }
        if (!a || !a->tensor || output) {
            kept.push_back(std::move(n));
            continue;
        }
        value& v = g.values[static_cast<std::size_t>(n.outputs[0])];
        v.constant = a->tensor;
        v.type = v.constant.type();
        v.extents = v.constant.shape();
        v.has_shape = true;
    }
    g.nodes = std::move(kept);
}

GRAFT_INLINE value_id logits_of(const graph& g) {
    if (g.outputs.empty()) return no_value;
    value_id id = g.outputs[0];
    for (int i = detail::maker_of(g, id); i >= 0; i = detail::maker_of(g, id)) {
        const node& n = g.nodes[static_cast<std::size_t>(i)];
        if (detail::is_any(n, {"Softmax", "LogSoftmax"})) return n.inputs[0];
        if (!detail::changes_shape_only(n)) break;
        id = n.inputs[0];
    }
    return g.outputs[0];
}

GRAFT_INLINE result<trunk_cut> find_trunk(const graph& g, const std::string& at, const shape& input, executor& pool, const limits& limit) {
    trunk_cut cut;
    const auto measure = [&]() -> status {
        shape extents;
        GRAFT_TRY(detail::shape_of_value(g, cut.features, input, pool, limit, extents));
        const std::string& name = g.values[static_cast<std::size_t>(cut.features)].name;
        cut.rank = extents.rank();
        if (cut.rank != 2 && cut.rank != 4) return fail(errc::train_head, name, "the trunk makes values of the shape " + text(extents) + "; a classifier takes [N, C] or [N, C, H, W]. Name another place with --trunk");
        cut.channels = extents[1];
        if (cut.channels < 1) return fail(errc::train_head, name, "the trunk makes no features");
        return {};
    };
    if (!at.empty()) {
        for (std::size_t i = 0; i < g.values.size() && cut.features == no_value; ++i)
            if (g.values[i].name == at && !g.values[i].constant) cut.features = static_cast<value_id>(i);
        for (const node& n : g.nodes)
            if (cut.features == no_value && n.name == at && !n.outputs.empty()) cut.features = n.outputs[0];
        if (cut.features == no_value) return fail(errc::train_head, at, "the network has no value and no node of that name; graft info lists them");
        GRAFT_TRY(measure());
        return cut;
    }
    value_id id = g.outputs.empty() ? no_value : g.outputs[0];
    for (int i = detail::maker_of(g, id); i >= 0; i = detail::maker_of(g, id)) {
        const node& n = g.nodes[static_cast<std::size_t>(i)];
        const bool weighs = detail::is_any(n, {"Gemm", "MatMul", "Conv"}) && n.inputs.size() > 1 && detail::made_of_constants(g, n.inputs[1]);
        if (weighs) {
            cut.features = n.inputs[0];
            cut.logits = id;
            GRAFT_TRY(measure());
            if (n.op_type == "Conv" && cut.rank != 4) break;
            return cut;
        }
        // What a Conv in front of it is followed by: a bias, an activation, pooling.
        std::size_t through = 0;
        if (detail::is_any(n, {"Softmax", "LogSoftmax"}))
            cut.softmax = n.op_type == "Softmax";
        else if (detail::is_any(n, {"Add", "Sub", "Mul", "Affine"}) && n.inputs.size() > 1)
            through = detail::made_of_constants(g, n.inputs[0]) ? 1 : 0;
        else if (!detail::changes_shape_only(n) && !detail::pools_everything(n) && !detail::is_any(n, {"Relu", "Clip"}))
            break;
        id = n.inputs[through];
    }
    return fail(errc::train_head, g.outputs.empty() ? g.name : g.values[static_cast<std::size_t>(g.outputs[0])].name,
                "no Gemm, MatMul or Conv with constant weights was found right before this output; name the place to cut at with --trunk");
}

GRAFT_INLINE result<grafted> replace_head(graph g, const trunk_cut& cut, std::int64_t classes, std::uint64_t seed) {
    if (classes < 1 || classes > (1 << 24)) return fail(errc::train_head, g.name, std::to_string(classes) + " classes cannot be told apart");
    if (g.outputs.empty() || cut.features < 0 || cut.features >= static_cast<value_id>(g.values.size()))
        return fail(errc::train_head, g.name, "there is no trunk to put a classifier on: give the network and what find_trunk said of it");
    grafted made;
    const int version = g.version_of("");
    const std::string output_name = g.values[static_cast<std::size_t>(g.outputs[0])].name;
    const auto fresh = [&](std::string wanted) {
        for (int tries = 0;; ++tries) {
            const std::string candidate = tries ? wanted + "_" + std::to_string(tries) : wanted;
            bool taken = false;
            for (const value& v : g.values) taken |= v.name == candidate;
            if (!taken) return candidate;
        }
    };
    const auto add = [&](const char* op, const std::string& value_name, std::vector<value_id> inputs, std::vector<attribute> attributes) {
        node n;
        n.op_type = op;
        n.name = value_name;
        n.version = version;
        n.op = ops::find_op("", op, version);
        n.inputs = std::move(inputs);
        n.attributes = std::move(attributes);
        const value_id id = g.add_value(value_name);
        g.values.back().type = dtype::float32;
        n.outputs = {id};
        g.nodes.push_back(std::move(n));
        return id;
    };
    // What the trunk does not need gives its names away.
    g.outputs = {cut.features};
    drop_unread(g);
    std::vector<char> lives(g.values.size(), 0);
    const auto mark = [&](const std::vector<value_id>& ids) {
        for (value_id id : ids)
            if (id != no_value) lives[static_cast<std::size_t>(id)] = 1;
    };
    mark(g.inputs);
    mark(g.outputs);
    for (const node& n : g.nodes) mark(n.inputs), mark(n.outputs);
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (!lives[i]) g.values[i].name.clear();
    if (g.values[static_cast<std::size_t>(cut.features)].name == output_name) g.values[static_cast<std::size_t>(cut.features)].name = fresh("features");
    value_id x = cut.features;
    if (cut.rank == 4) {
        x = add("GlobalAveragePool", fresh("head_pool"), {x}, {});
        x = add("Flatten", fresh("head_flatten"), {x}, {integer_attribute("axis", 1)});
    }
    tensor weight, bias;
    GRAFT_TRY_ASSIGN(weight, tensor::make(dtype::float32, {classes, cut.channels}));
    GRAFT_TRY_ASSIGN(bias, tensor::make(dtype::float32, {classes}));
    const double bound = 1 / std::sqrt(static_cast<double>(cut.channels));
    const random_stream weights(seed, 0x68656164), biases(seed, 0x62696173);
    for (std::int64_t i = 0; i < weight.elements(); ++i) weight.data<float>()[i] = static_cast<float>(bound * (2 * weights.uniform(static_cast<std::uint64_t>(i)) - 1));
    for (std::int64_t i = 0; i < classes; ++i) bias.data<float>()[i] = static_cast<float>(bound * (2 * biases.uniform(static_cast<std::uint64_t>(i)) - 1));
    made.head = {fresh("head.weight"), fresh("head.bias")};
    const value_id w = g.add_constant(made.head[0], std::move(weight)), b = g.add_constant(made.head[1], std::move(bias));
    made.logits = add("Gemm", cut.softmax ? fresh("logits") : output_name, {x, w, b}, {integer_attribute("transB", 1)});
    value_id last = made.logits;
    if (cut.softmax) last = add("Softmax", output_name, {last}, {integer_attribute("axis", 1)});
    for (value_id id : {last, made.logits}) {
        value& v = g.values[static_cast<std::size_t>(id)];
        v.has_shape = true;
        v.extents = {shape::unknown, classes};
        v.dimensions = {"N", ""};
        // A network whose batch is fixed keeps it.
        for (value_id i : g.inputs) {
            const value& in = g.values[static_cast<std::size_t>(i)];
            if (in.constant || !in.has_shape || in.extents.rank() < 1) continue;
            if (in.extents[0] > 0) v.extents[0] = in.extents[0], v.dimensions = {"", ""};
            else if (!in.dimensions.empty() && !in.dimensions[0].empty()) v.dimensions[0] = in.dimensions[0];
            break;
        }
    }
    g.outputs = {last};
    drop_unread(g);
    made.graph = std::move(g);
    return made;
}

GRAFT_END_NAMESPACE
#endif
