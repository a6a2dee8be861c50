// Bodies of graph/builder.hpp.
#pragma once

#include "../core/rng.hpp"
#include "builder.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE attribute integer_attribute(std::string name, std::int64_t value) {
    attribute a;
    a.name = std::move(name), a.kind = attribute_kind::integer, a.integer = value;
    return a;
}
GRAFT_INLINE attribute real_attribute(std::string name, float value) {
    attribute a;
    a.name = std::move(name), a.kind = attribute_kind::real, a.real = value;
    return a;
}
GRAFT_INLINE attribute string_attribute(std::string name, std::string value) {
    attribute a;
    a.name = std::move(name), a.kind = attribute_kind::string, a.string = std::move(value);
    return a;
}
GRAFT_INLINE attribute integers_attribute(std::string name, std::vector<std::int64_t> value) {
    attribute a;
    a.name = std::move(name), a.kind = attribute_kind::integers, a.integers = std::move(value);
    return a;
}
GRAFT_INLINE attribute reals_attribute(std::string name, std::vector<float> value) {
    attribute a;
    a.name = std::move(name), a.kind = attribute_kind::reals, a.reals = std::move(value);
    return a;
}
GRAFT_INLINE attribute tensor_attribute(std::string name, tensor value) {
    attribute a;
    a.name = std::move(name), a.kind = attribute_kind::tensor, a.tensor = std::move(value);
    return a;
}
GRAFT_INLINE attribute graph_attribute(std::string name, graph value) {
    attribute a;
    a.name = std::move(name), a.kind = attribute_kind::graph, a.graph = std::make_shared<graph>(std::move(value));
    return a;
}

GRAFT_INLINE builder::builder(std::string graph_name, std::uint64_t seed) : seed_(seed) {
    graph_.name = std::move(graph_name);
    graph_.opsets.push_back({"", 17});
    graph_.ir_version = 8;
    graph_.producer_name = "graft";
    graph_.producer_version = std::to_string(GRAFT_VERSION_MAJOR) + "." + std::to_string(GRAFT_VERSION_MINOR) + "." + std::to_string(GRAFT_VERSION_PATCH);
}

GRAFT_INLINE GRAFT_COLD void builder::mistake(errc code, const std::string& where, const std::string& what) {
    if (failure_.ok()) failure_ = fail(code, where, what);
}

GRAFT_INLINE std::string builder::fresh(const char* stem) {
    for (auto& c : counters_)
        if (c.first == stem) return c.first + "_" + std::to_string(++c.second);
    counters_.push_back({stem, 0});
    return std::string(stem) + "_0";
}

GRAFT_INLINE shape builder::shape_of(value_id x) const { return x < 0 || static_cast<std::size_t>(x) >= graph_.values.size() ? shape{} : graph_.at(x).extents; }

// Whether x is a value of a known rank; a mistake where it is not.
GRAFT_INLINE bool builder::known(value_id x, int rank, const char* layer) {
    if (!failure_.ok()) return false;
    if (x < 0 || static_cast<std::size_t>(x) >= graph_.values.size()) return mistake(errc::op_shape, layer, "its input is no value of this graph"), false;
    const value& v = graph_.at(x);
    if (rank == 0 || (v.has_shape && v.extents.rank() == rank)) return true;
    return mistake(errc::op_shape, layer,
                   "its input '" + v.name + "' needs rank " + std::to_string(rank) + " and has shape " + (v.has_shape ? text(v.extents) : "unknown")),
           false;
}

GRAFT_INLINE value_id builder::input(std::string name, dtype type, std::initializer_list<dimension> extents) {
    const value_id id = graph_.add_value(std::move(name));
    value& v = graph_.values.back();
    v.type = type;
    v.has_shape = true;
    if (extents.size() > static_cast<std::size_t>(shape::max_rank)) mistake(errc::op_shape, "input", "its rank is over 16");
    for (const dimension& d : extents) {
        v.extents.push_back(d.extent);
        v.dimensions.push_back(d.name);
    }
    graph_.inputs.push_back(id);
    return id;
}

GRAFT_INLINE value_id builder::constant(std::string name, tensor data) { return graph_.add_constant(std::move(name), std::move(data)); }

GRAFT_INLINE std::vector<value_id> builder::apply_all(const std::string& op_type, std::vector<value_id> inputs, std::vector<attribute> attributes, int count) {
    node n;
    n.name = fresh(op_type.c_str());
    n.op_type = op_type;
    n.inputs = std::move(inputs);
    n.attributes = std::move(attributes);
    n.version = 17;
    dtype type = dtype::undefined;
    for (const value_id id : n.inputs)
        if (id >= 0 && static_cast<std::size_t>(id) < graph_.values.size() && type == dtype::undefined) type = graph_.at(id).type;
    for (int i = 0; i < count; ++i) {
        n.outputs.push_back(graph_.add_value(n.name + (i ? "." + std::to_string(i) : "")));
        graph_.values.back().type = type;
    }
    std::vector<value_id> made = n.outputs;
    graph_.nodes.push_back(std::move(n));
    return made;
}

GRAFT_INLINE value_id builder::apply(const std::string& op_type, std::vector<value_id> inputs, std::vector<attribute> attributes) {
    return apply_all(op_type, std::move(inputs), std::move(attributes), 1)[0];
}

GRAFT_INLINE value_id builder::layer(const char* op_type, std::string name, std::vector<value_id> inputs, std::vector<attribute> attributes,
                                     const shape* extents) {
    if (!failure_.ok()) return no_value;
    node n;
    n.op_type = op_type;
    n.version = 17;
    n.inputs = std::move(inputs);
    n.attributes = std::move(attributes);
    const value& first = graph_.at(n.inputs[0]);
    const dtype type = first.type;
    std::vector<std::string> open;
    if (extents && !first.dimensions.empty() && extents->rank() && (*extents)[0] < 0) {
        open.resize(static_cast<std::size_t>(extents->rank()));
        open[0] = first.dimensions[0];
    }
    const value_id made = graph_.add_value(name);
    value& v = graph_.values.back();
    v.type = type;
    v.has_shape = extents != nullptr;
    if (extents) v.extents = *extents;
    v.dimensions = std::move(open);
    n.outputs.push_back(made);
    n.name = std::move(name);
    graph_.nodes.push_back(std::move(n));
    return made;
}

// A constant: what was given, else normal numbers of that deviation (0: all `fill`).
GRAFT_INLINE value_id builder::parameter(const std::string& name, const tensor& given, const shape& extents, double deviation, float fill) {
    if (!failure_.ok()) return no_value;
    if (given) {
        if (given.shape() != extents) return mistake(errc::op_shape, name, "it has shape " + text(given.shape()) + " and needs " + text(extents)), no_value;
        return graph_.add_constant(name, given);
    }
    auto made = tensor::make(dtype::float32, extents);
    if (!made.ok()) {
        if (failure_.ok()) failure_ = made.take_status();
        return no_value;
    }
    const random_stream random(seed_, drawn_++);
    const std::int64_t count = made->elements();
    float* out = made->data<float>();
    for (std::int64_t i = 0; i < count; ++i) out[i] = deviation > 0 ? static_cast<float>(random.normal(static_cast<std::uint64_t>(i)) * deviation) : fill;
    return graph_.add_constant(name, std::move(made).value());
}

// Extent of a window's output, -1 where the input's is open; 0 and below: the window does not fit.
inline std::int64_t window_extent(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation, bool ceil) noexcept {
    if (in < 0) return shape::unknown;
    const std::int64_t room = in + 2 * padding - (dilation * (kernel - 1) + 1);
    if (room < 0) return 0;
    std::int64_t n = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (n - 1) * stride >= in + padding) --n;  // a window that begins in the padding behind the end does not count
    return n;
}

GRAFT_INLINE value_id builder::conv2d(value_id x, std::int64_t channels, const conv2d_options& o) {
    if (!known(x, 4, "conv2d")) return no_value;
    const shape in = shape_of(x);
    const std::string name = o.name.empty() ? fresh("conv2d") : o.name;
    if (in[1] < 1 || channels < 1 || o.groups < 1 || o.kernel < 1 || o.stride < 1 || o.padding < 0 || o.dilation < 1 || in[1] % o.groups || channels % o.groups)
        return mistake(errc::op_attribute, name, "channels, groups, kernel, stride, padding or dilation do not fit an input of shape " + text(in)), no_value;
    if (o.kernel > 4096 || o.stride > 4096 || o.padding > 4096 || o.dilation > 4096)
        return mistake(errc::op_attribute, name, "kernel, stride, padding and dilation go up to 4096"), no_value;
    const shape out{in[0], channels, window_extent(in[2], o.kernel, o.stride, o.padding, o.dilation, false),
                    window_extent(in[3], o.kernel, o.stride, o.padding, o.dilation, false)};
    if (out[2] == 0 || out[3] == 0) return mistake(errc::op_shape, name, "the kernel is larger than its input of shape " + text(in)), no_value;
    const std::int64_t per_group = in[1] / o.groups;
    std::vector<value_id> inputs{x, parameter(name + ".weight", o.weight, {channels, per_group, o.kernel, o.kernel},
                                              std::sqrt(2.0 / static_cast<double>(per_group * o.kernel * o.kernel)), 0)};
    if (o.bias) inputs.push_back(parameter(name + ".bias", o.bias_values, {channels}, 0, 0));
    return layer("Conv", name, std::move(inputs),
                 {integers_attribute("dilations", {o.dilation, o.dilation}), integer_attribute("group", o.groups),
                  integers_attribute("kernel_shape", {o.kernel, o.kernel}), integers_attribute("pads", {o.padding, o.padding, o.padding, o.padding}),
                  integers_attribute("strides", {o.stride, o.stride})},
                 &out);
}

GRAFT_INLINE value_id builder::batch_norm(value_id x, const batch_norm_options& o) {
    if (!known(x, 0, "batch_norm")) return no_value;
    const shape in = shape_of(x);
    const std::string name = o.name.empty() ? fresh("batch_norm") : o.name;
    if (in.rank() < 2 || in[1] < 1) return mistake(errc::op_shape, name, "the number of channels is not known: " + text(in)), no_value;
    const shape c{in[1]};
    const tensor none;
    std::vector<value_id> inputs{x, parameter(name + ".weight", none, c, 0, 1), parameter(name + ".bias", none, c, 0, 0),
                                 parameter(name + ".running_mean", none, c, 0, 0), parameter(name + ".running_var", none, c, 0, 1)};
    return layer("BatchNormalization", name, std::move(inputs), {real_attribute("epsilon", o.epsilon), real_attribute("momentum", o.momentum)}, &in);
}

GRAFT_INLINE value_id builder::relu(value_id x) {
    if (!known(x, 0, "relu")) return no_value;
    const shape in = shape_of(x);
    return layer("Relu", fresh("relu"), {x}, {}, &in);
}

GRAFT_INLINE value_id builder::clip(value_id x, float low, float high) {
    if (!known(x, 0, "clip")) return no_value;
    const shape in = shape_of(x);
    const std::string name = fresh("clip");
    const tensor none;
    return layer("Clip", name, {x, parameter(name + ".low", none, {}, 0, low), parameter(name + ".high", none, {}, 0, high)}, {}, &in);
}

GRAFT_INLINE value_id builder::pool(value_id x, const char* op_type, const char* stem, const pool_options& o) {
    if (!known(x, 4, stem)) return no_value;
    const shape in = shape_of(x);
    const std::string name = fresh(stem);
    const std::int64_t stride = o.stride ? o.stride : o.kernel;
    if (o.kernel < 1 || stride < 1 || o.padding < 0 || o.padding >= o.kernel || o.kernel > 4096 || stride > 4096)
        return mistake(errc::op_attribute, name, "kernel, stride or padding are out of range"), no_value;
    const shape out{in[0], in[1], window_extent(in[2], o.kernel, stride, o.padding, 1, o.ceil), window_extent(in[3], o.kernel, stride, o.padding, 1, o.ceil)};
    if (out[2] == 0 || out[3] == 0) return mistake(errc::op_shape, name, "the window is larger than its input of shape " + text(in)), no_value;
    std::vector<attribute> attributes{integers_attribute("kernel_shape", {o.kernel, o.kernel}), integers_attribute("strides", {stride, stride}),
                                      integers_attribute("pads", {o.padding, o.padding, o.padding, o.padding})};
    if (o.ceil) attributes.push_back(integer_attribute("ceil_mode", 1));
    if (o.count_padding && op_type[0] == 'A') attributes.push_back(integer_attribute("count_include_pad", 1));
    return layer(op_type, name, {x}, std::move(attributes), &out);
}

GRAFT_INLINE value_id builder::max_pool(value_id x, const pool_options& o) { return pool(x, "MaxPool", "max_pool", o); }
GRAFT_INLINE value_id builder::average_pool(value_id x, const pool_options& o) { return pool(x, "AveragePool", "average_pool", o); }

GRAFT_INLINE value_id builder::global_average_pool(value_id x) {
    if (!known(x, 4, "global_average_pool")) return no_value;
    const shape in = shape_of(x), out{in[0], in[1], 1, 1};
    return layer("GlobalAveragePool", fresh("global_average_pool"), {x}, {}, &out);
}

GRAFT_INLINE value_id builder::flatten(value_id x, std::int64_t axis) {
    if (!known(x, 0, "flatten")) return no_value;
    const shape in = shape_of(x);
    const std::string name = fresh("flatten");
    if (axis < 0 || axis > in.rank()) return mistake(errc::op_attribute, name, "axis " + std::to_string(axis) + " is out of range for " + text(in)), no_value;
    shape out{1, 1};
    for (int i = 0; i < in.rank(); ++i) {
        std::int64_t& joined = out[i < axis ? 0 : 1];
        joined = joined < 0 || in[i] < 0 ? shape::unknown : checked_mul(joined, in[i]);
    }
    return layer("Flatten", name, {x}, {integer_attribute("axis", axis)}, &out);
}

GRAFT_INLINE value_id builder::linear(value_id x, std::int64_t features, const linear_options& o) {
    if (!known(x, 2, "linear")) return no_value;
    const shape in = shape_of(x), out{in[0], features};
    const std::string name = o.name.empty() ? fresh("linear") : o.name;
    if (in[1] < 1 || features < 1) return mistake(errc::op_shape, name, "the number of features is not known: " + text(in)), no_value;
    std::vector<value_id> inputs{x, parameter(name + ".weight", o.weight, {features, in[1]}, std::sqrt(2.0 / static_cast<double>(in[1])), 0)};
    if (o.bias) inputs.push_back(parameter(name + ".bias", o.bias_values, {features}, 0, 0));
    return layer("Gemm", name, std::move(inputs), {integer_attribute("transB", 1)}, &out);
}

GRAFT_INLINE value_id builder::add(value_id a, value_id b) {
    if (!known(a, 0, "add") || !known(b, 0, "add")) return no_value;
    const shape left = shape_of(a), right = shape_of(b);
    const std::string name = fresh("add");
    shape out = shape::filled(left.rank() > right.rank() ? left.rank() : right.rank(), 1);
    for (int i = 1; i <= out.rank(); ++i) {
        const std::int64_t l = i > left.rank() ? 1 : left.at(-i), r = i > right.rank() ? 1 : right.at(-i);
        if (l != r && l > 1 && r > 1) return mistake(errc::op_shape, name, text(left) + " and " + text(right) + " cannot be added"), no_value;
        out[out.rank() - i] = l == 1 ? r : l < 0 && r > 1 ? r : l;
    }
    return layer("Add", name, {a, b}, {}, &out);
}

GRAFT_INLINE value_id builder::concat(const std::vector<value_id>& parts, std::int64_t axis) {
    if (parts.empty()) return mistake(errc::op_shape, "concat", "there is nothing to join"), no_value;
    shape out;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!known(parts[i], 0, "concat")) return no_value;
        const shape s = shape_of(parts[i]);
        if (i == 0) out = s;
        const std::int64_t at = axis < 0 ? axis + s.rank() : axis;
        bool fits = s.rank() == out.rank() && at >= 0 && at < s.rank();
        for (int k = 0; fits && k < s.rank(); ++k) fits = k == at || s[k] == out[k] || s[k] < 0 || out[k] < 0;
        if (!fits) return mistake(errc::op_shape, "concat", text(out) + " and " + text(s) + " cannot be joined along axis " + std::to_string(axis)), no_value;
        if (i) out[static_cast<int>(at)] = out[static_cast<int>(at)] < 0 ? shape::unknown : checked_add(out[static_cast<int>(at)], s[static_cast<int>(at)]);
    }
    return layer("Concat", fresh("concat"), parts, {integer_attribute("axis", axis)}, &out);
}

GRAFT_INLINE value_id builder::softmax(value_id x, std::int64_t axis) {
    if (!known(x, 0, "softmax")) return no_value;
    const shape in = shape_of(x);
    return layer("Softmax", fresh("softmax"), {x}, {integer_attribute("axis", axis)}, &in);
}

GRAFT_INLINE void builder::output(value_id x, const std::string& name) {
    if (!known(x, 0, "output")) return;
    bool made = false;
    for (const node& n : graph_.nodes)
        for (const value_id id : n.outputs) made |= id == x;
    for (const value_id id : graph_.outputs) made &= id != x;
    if (!made) {
        // Inputs, constants and what is an output already keep their names.
        const shape in = shape_of(x);
        x = layer("Identity", fresh("identity"), {x}, {}, &in);
        if (x == no_value) return;
    }
    graph_.at(x).name = name;
    graph_.outputs.push_back(x);
}

GRAFT_INLINE result<graph> builder::finish() {
    if (!failure_.ok()) return std::move(failure_);
    if (graph_.outputs.empty()) return fail(errc::graph_no_output, "graph '" + graph_.name + "'", "it has no outputs");
    return std::move(graph_);
}

GRAFT_END_NAMESPACE
