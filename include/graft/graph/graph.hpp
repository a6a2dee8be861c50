// The graph of ONNX operators: values in SSA form, nodes, attributes. A plain value that passes copy and change.
#pragma once

#include "../core/error.hpp"
#include "../tensor/tensor.hpp"
#include "layout.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

struct graph;
struct op_row;

/// Index of a value in `graph::values`; `no_value` is an input or output that was left out.
using value_id = std::int32_t;
constexpr value_id no_value = -1;

/// Index of a device in `plan::places`: where a node runs and in whose memory a value lies. 0 is the host: what no other place takes runs
/// there, and the caller's inputs and outputs lie there.
using place_id = std::uint8_t;

/// What an attribute holds.
enum class attribute_kind { none, real, integer, string, tensor, graph, reals, integers, strings };

/// A named attribute of a node, as ONNX has them.
struct attribute {
    std::string name;
    attribute_kind kind = attribute_kind::none;
    float real = 0;
    std::int64_t integer = 0;
    std::string string;
    std::vector<float> reals;
    std::vector<std::int64_t> integers;
    std::vector<std::string> strings;
    graft::tensor tensor;
    std::shared_ptr<graft::graph> graph;  ///< body of If, Loop, Scan; shared, never changed once a model is loaded

    GRAFT_SELDOM attribute();
    GRAFT_SELDOM attribute(const attribute&);
    GRAFT_SELDOM attribute(attribute&&) noexcept;
    GRAFT_SELDOM attribute& operator=(const attribute&);
    GRAFT_SELDOM attribute& operator=(attribute&&) noexcept;
    GRAFT_SELDOM ~attribute();
};

/// An operator applied to values.
struct node {
    std::string name, op_type, domain;  ///< the domain "" is ai.onnx
    std::vector<value_id> inputs, outputs;
    std::vector<attribute> attributes;
    int version = 0;                 ///< of the operator set that `domain` is imported at
    const op_row* op = nullptr;      ///< its row of the op table, set by `verify_graph`
    place_id place = 0;              ///< lowered: where it runs; before, where it is to run, if that place takes it. 0: wherever is best
    bool backward = false;           ///< of a training step: it was made by `differentiate`
    std::int64_t multiply_adds = 0;  ///< planned graphs only: of the convolutions and matrix products that it was made of

    const attribute* find(const char* attribute_name) const noexcept;

    GRAFT_SELDOM node();
    GRAFT_SELDOM node(const node&);
    GRAFT_SELDOM node(node&&) noexcept;
    GRAFT_SELDOM node& operator=(const node&);
    GRAFT_SELDOM node& operator=(node&&) noexcept;
    GRAFT_SELDOM ~node();
};

/// The integers that a constant of floats was dequantised from: (integers - zero_point) * scale, by DequantizeLinear.
struct dequantized {
    graft::tensor integers, scale, zero_point;  ///< no zero point: 0
    int axis = 0;                               ///< along which scales run where there are several
    buffer::watch floats{buffer()};             ///< the memory of the constant that this tells of, and of no other
};

/// A value: an input, a constant, or what a node makes.
struct value {
    std::string name;
    dtype type = dtype::undefined;
    bool has_shape = false;                       ///< whether `extents` says anything; the rank is known then
    graft::shape extents;                         ///< open extents are shape::unknown
    std::vector<std::string> dimensions;          ///< names of open extents, as the file gives them ("" where it has a number or nothing)
    graft::tensor constant;                       ///< set for initializers and for what folding made
    std::shared_ptr<const dequantized> integers;  ///< of a folded constant, where DequantizeLinear made it
    graft::layout layout;                         ///< lowered graphs only
    place_id place = 0;                           ///< lowered graphs only: in whose memory it lies

    GRAFT_SELDOM value();
    GRAFT_SELDOM value(const value&);
    GRAFT_SELDOM value(value&&) noexcept;
    GRAFT_SELDOM value& operator=(const value&);
    GRAFT_SELDOM value& operator=(value&&) noexcept;
    GRAFT_SELDOM ~value();
};

/// A version of an operator set.
struct opset {
    std::string domain;
    int version = 0;
};

/// A value of an outer graph that a body reads.
struct capture {
    value_id inner = no_value, outer = no_value;
};

/// State that a step changes in place: output `output` lies in the memory of input `input` (their places in the graph's lists). Output -1:
/// the graph only reads it.
struct state_pair {
    int input = 0, output = 0;
};

/// A graph and what a model file says about it. Nodes are in an order in which they can run once `verify_graph` has seen it.
/// An initializer that is also an input is a default: it is in `inputs` and its value has a constant.
struct graph {
    std::string name;
    std::vector<value> values;
    std::vector<node> nodes;
    std::vector<value_id> inputs, outputs;
    std::vector<capture> captures;   ///< bodies only: what they read of the graph around them
    std::vector<state_pair> states;  ///< training steps only: inputs that outputs take the place of

    std::vector<opset> opsets;
    std::int64_t ir_version = 8;
    std::string producer_name, producer_version, model_domain, description;
    std::int64_t model_version = 0;
    std::vector<std::pair<std::string, std::string>> metadata;

    /// The value of an id, which is one of this graph's and not `no_value`.
    value& at(value_id id) noexcept { return values[id]; }
    const value& at(value_id id) const noexcept { return values[id]; }
    /// A new value without a type.
    value_id add_value(std::string value_name);
    /// A new value that is a constant.
    value_id add_constant(std::string value_name, graft::tensor data);
    /// Version of a domain's operator set, 0 if it is not imported.
    int version_of(const std::string& domain) const noexcept;
    /// The metadata entry of that key, or null.
    const std::string* find_metadata(const std::string& key) const noexcept;
    /// Sets the metadata entry of that key, which becomes the last where there was none.
    void set_metadata(const std::string& key, std::string text);
    /// Takes the metadata entry of that key away, if there is one.
    void drop_metadata(const std::string& key);

    GRAFT_SELDOM graph();
    GRAFT_SELDOM graph(const graph&);
    GRAFT_SELDOM graph(graph&&) noexcept;
    GRAFT_SELDOM graph& operator=(const graph&);
    GRAFT_SELDOM graph& operator=(graph&&) noexcept;
    GRAFT_SELDOM ~graph();
};

/// The opsets 7 to this one can be loaded; older forms where the operator still means the same.
constexpr int newest_opset = 28;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>

GRAFT_BEGIN_NAMESPACE
// Graphs and their parts are copied and moved in many places, and nowhere often: what does it is compiled once.
GRAFT_INLINE attribute::attribute() = default;
GRAFT_INLINE attribute::attribute(const attribute&) = default;
GRAFT_INLINE attribute::attribute(attribute&&) noexcept = default;
GRAFT_INLINE attribute& attribute::operator=(const attribute&) = default;
GRAFT_INLINE attribute& attribute::operator=(attribute&&) noexcept = default;
GRAFT_INLINE attribute::~attribute() = default;
GRAFT_INLINE node::node() = default;
GRAFT_INLINE node::node(const node&) = default;
GRAFT_INLINE node::node(node&&) noexcept = default;
GRAFT_INLINE node& node::operator=(const node&) = default;
GRAFT_INLINE node& node::operator=(node&&) noexcept = default;
GRAFT_INLINE node::~node() = default;
GRAFT_INLINE value::value() = default;
GRAFT_INLINE value::value(const value&) = default;
GRAFT_INLINE value::value(value&&) noexcept = default;
GRAFT_INLINE value& value::operator=(const value&) = default;
GRAFT_INLINE value& value::operator=(value&&) noexcept = default;
GRAFT_INLINE value::~value() = default;
GRAFT_INLINE graph::graph() = default;
GRAFT_INLINE graph::graph(const graph&) = default;
GRAFT_INLINE graph::graph(graph&&) noexcept = default;
GRAFT_INLINE graph& graph::operator=(const graph&) = default;
GRAFT_INLINE graph& graph::operator=(graph&&) noexcept = default;
GRAFT_INLINE graph::~graph() = default;

GRAFT_INLINE const attribute* node::find(const char* attribute_name) const noexcept {
    for (const attribute& a : attributes)
        if (a.name == attribute_name) return &a;
    return nullptr;
}
GRAFT_INLINE value_id graph::add_value(std::string value_name) {
    values.emplace_back();
    values.back().name = std::move(value_name);
    return static_cast<value_id>(values.size() - 1);
}
GRAFT_INLINE value_id graph::add_constant(std::string value_name, graft::tensor data) {
    const value_id id = add_value(std::move(value_name));
    value& v = at(id);
    v.type = data.type();
    v.has_shape = true;
    v.extents = data.shape();
    v.constant = std::move(data);
    return id;
}
GRAFT_INLINE int graph::version_of(const std::string& domain) const noexcept {
    for (const opset& o : opsets)
        if (o.domain == domain || (domain.empty() && o.domain == "ai.onnx")) return o.version;
    return 0;
}
GRAFT_INLINE const std::string* graph::find_metadata(const std::string& key) const noexcept {
    for (const auto& entry : metadata)
        if (entry.first == key) return &entry.second;
    return nullptr;
}
GRAFT_INLINE void graph::set_metadata(const std::string& key, std::string text) {
    for (auto& entry : metadata)
        if (entry.first == key) {
            entry.second = std::move(text);
            return;
        }
    metadata.emplace_back(key, std::move(text));
}
GRAFT_INLINE void graph::drop_metadata(const std::string& key) {
    metadata.erase(std::remove_if(metadata.begin(), metadata.end(), [&](const auto& entry) { return entry.first == key; }), metadata.end());
}
GRAFT_END_NAMESPACE
#endif
