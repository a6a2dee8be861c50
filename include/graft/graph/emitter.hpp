// Adds nodes to a graph whose shapes are known: what gradients, losses and optimisers are written with.
#pragma once

#include "builder.hpp"
#include "op.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Finds the row of an operator; null where there is none.
using op_finder = const op_row* (*)(const char* domain, const char* name, int version);

/// Appends nodes at the newest opset, each bound to its row and with the types and shapes of its outputs inferred at once, so every
/// input has to have a known shape. The first mistake is kept in `failure`; after it every call gives `no_value`.
class emitter {
public:
    emitter(graph& target, op_finder find, const limits& limit) : g_(target), find_(find), limit_(limit) {}

    /// An operator of ai.onnx with one output.
    value_id apply(const char* op_type, std::vector<value_id> inputs, std::vector<attribute> attributes = {}) {
        return apply_all("", op_type, std::move(inputs), std::move(attributes), 1)[0];
    }
    /// An operator of the domain graft with one output.
    value_id apply_graft(const char* op_type, std::vector<value_id> inputs, std::vector<attribute> attributes = {}) {
        return apply_all("graft", op_type, std::move(inputs), std::move(attributes), 1)[0];
    }
    /// Any operator with `count` outputs.
    std::vector<value_id> apply_all(const char* domain, const char* op_type, std::vector<value_id> inputs, std::vector<attribute> attributes, int count);

    value_id add(value_id a, value_id b) { return apply("Add", {a, b}); }
    value_id sub(value_id a, value_id b) { return apply("Sub", {a, b}); }
    value_id mul(value_id a, value_id b) { return apply("Mul", {a, b}); }
    value_id div(value_id a, value_id b) { return apply("Div", {a, b}); }
    value_id neg(value_id a) { return apply("Neg", {a}); }
    /// x reshaped to `to`, whose extents are known; x itself where it has that shape.
    value_id reshape(value_id x, const shape& to);
    /// A number of the type of `like`.
    value_id number(double v, value_id like);
    /// A constant of one dimension.
    value_id integers(const std::vector<std::int64_t>& v);
    value_id constant(tensor data, const char* stem = "constant");
    /// Zeros of the type of `like`.
    value_id zeros(const shape& extents, value_id like);

    shape extents(value_id id) const { return g_.at(id).extents; }
    dtype type(value_id id) const { return g_.at(id).type; }
    const limits& limit() const { return limit_; }
    graph& target() { return g_; }
    /// Keeps the first mistake.
    void mistake(status s) {
        if (failure.ok()) failure = std::move(s);
    }

    /// What nodes are called: "<prefix>/<operator>".
    std::string prefix;
    status failure;

private:
    graph& g_;
    op_finder find_;
    const limits& limit_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::vector<value_id> emitter::apply_all(const char* domain, const char* op_type, std::vector<value_id> inputs, std::vector<attribute> attributes,
                                                      int count) {
    std::vector<value_id> made(static_cast<std::size_t>(count), no_value);
    if (!failure.ok()) return made;
    node n;
    n.op_type = op_type;
    n.domain = domain;
    n.version = newest_opset;
    n.op = find_(domain, op_type, newest_opset);
    n.inputs = std::move(inputs);
    n.attributes = std::move(attributes);
    n.name = prefix + "/" + op_type + "_" + std::to_string(g_.nodes.size());
    if (!n.op || !n.op->infer) return mistake(fail(errc::op_unsupported, location(n), "this build does not hold the operator, which training needs")), made;
    std::vector<tensor_view> in;
    for (value_id id : n.inputs) {
        if (id == no_value) {
            in.push_back({});
            continue;
        }
        const value& v = g_.at(id);
        if (!v.constant && (!v.has_shape || !v.extents.known()))
            return mistake(fail(errc::train_no_gradient, location(n), "the shape of its input '" + v.name + "' cannot be told before running")), made;
        in.push_back(v.constant ? view(v.constant) : tensor_view{v.type, v.extents, nullptr});
    }
    for (int i = 0; i < count; ++i) {
        made[static_cast<std::size_t>(i)] = g_.add_value(n.name + (i ? "." + std::to_string(i) : std::string()));
        n.outputs.push_back(made[static_cast<std::size_t>(i)]);
    }
    std::vector<tensor_view> out(made.size());
    infer_context c{{n, in.data(), static_cast<int>(in.size()), out.data(), count, limit_}};
    status inferred = n.op->infer(c);
    if (inferred.ok() && c.deferred) inferred = fail(errc::train_no_gradient, location(n), "its shape cannot be told before running");
    if (!inferred.ok()) return mistake(std::move(inferred)), made;
    for (std::size_t i = 0; i < made.size(); ++i) {
        value& v = g_.at(made[i]);
        v.type = out[i].type;
        v.extents = out[i].extents;
        v.has_shape = true;
    }
    g_.nodes.push_back(std::move(n));
    return made;
}

GRAFT_INLINE value_id emitter::reshape(value_id x, const shape& to) {
    if (!failure.ok() || x == no_value || extents(x) == to) return x;
    return apply("Reshape", {x, integers(std::vector<std::int64_t>(to.begin(), to.end()))}, {integer_attribute("allowzero", 1)});
}
GRAFT_INLINE value_id emitter::number(double v, value_id like) {
    if (!failure.ok() || like == no_value) return no_value;
    auto made = tensor::make(type(like), shape{});
    if (!made.ok()) return mistake(made.take_status()), no_value;
    store_from_double(made->type(), made->raw(), 0, 1, &v);
    return g_.add_constant(prefix + "/number_" + std::to_string(g_.values.size()), std::move(made).value());
}
GRAFT_INLINE value_id emitter::integers(const std::vector<std::int64_t>& v) {
    auto made = tensor::make(dtype::int64, shape{static_cast<std::int64_t>(v.size())});
    if (!made.ok()) return mistake(made.take_status()), no_value;
    for (std::size_t i = 0; i < v.size(); ++i) made->data<std::int64_t>()[i] = v[i];
    return g_.add_constant(prefix + "/integers_" + std::to_string(g_.values.size()), std::move(made).value());
}
GRAFT_INLINE value_id emitter::constant(tensor data, const char* stem) {
    return g_.add_constant(prefix + "/" + stem + "_" + std::to_string(g_.values.size()), std::move(data));
}
GRAFT_INLINE value_id emitter::zeros(const shape& extents, value_id like) {
    if (!failure.ok()) return no_value;
    auto made = tensor::zeros(type(like), extents);
    if (!made.ok()) return mistake(made.take_status()), no_value;
    return constant(std::move(made).value(), "zeros");
}

GRAFT_END_NAMESPACE
#endif
