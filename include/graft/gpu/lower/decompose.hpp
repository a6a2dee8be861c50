// Operators that have no kernel of their own: written as nodes that have one, in a graph of their own.
#pragma once

#include "../../graph/emitter.hpp"
#include "../../ops/ops.hpp"

#include <cmath>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// A node that is written as others: what a row is given, and where it puts its answer.
struct decomposition {
    const op_context& c;  ///< the node
    emitter& build;
    std::vector<value_id> in;   ///< its inputs as values of the emitter's graph; no_value: left out
    std::vector<value_id> out;  ///< what the row has made for each output that is wanted

    /// Whether input i, or any of the inputs, has no elements.
    bool empty(int i) const { return c.has(i) && c.in[i].elements() == 0; }
    bool any_empty() const {
        for (int i = 0; i < c.inputs; ++i)
            if (empty(i)) return true;
        return false;
    }
    /// x in another type; x itself where it has that type.
    value_id cast(value_id x, dtype type) const {
        if (x == no_value || build.type(x) == type) return x;
        return build.apply("Cast", {x}, {integer_attribute("to", static_cast<std::int64_t>(type))});
    }
    value_id transpose(value_id x, std::vector<std::int64_t> perm) const {
        return build.apply("Transpose", {x}, {integers_attribute("perm", std::move(perm))});
    }
    value_id sum(value_id x, const std::vector<std::int64_t>& axes, bool keep) const {
        return build.apply("ReduceSum", {x, build.integers(axes)}, {integer_attribute("keepdims", keep)});
    }
    value_id where(value_id condition, value_id x, double otherwise) const { return build.apply("Where", {condition, x, build.number(otherwise, x)}); }
    /// Both conditions; no_value is one that always holds.
    value_id both(value_id a, value_id b) const { return a == no_value ? b : b == no_value ? a : build.apply("And", {a, b}); }
    /// Zeros that lie on the device; a mistake where they are over the limit.
    value_id constant(dtype type, const shape& extents) const;
    /// int64 numbers from `from` on, one after the other.
    value_id numbers(std::int64_t from, const shape& extents) const;
    /// scale * op(a) * op(b) of matrices in the last two axes, in the type `type`: graft's MatMul. The axes before them are equal. `exact`:
    /// its factors are not rounded, whatever precision was chosen.
    value_id product(value_id a, bool trans_a, value_id b, bool trans_b, dtype type, double scale = 1, bool exact = false) const;
    /// Appends a node with one output of that type and extents: for operators whose own inference does not tell them.
    value_id append(node n, dtype type, const shape& extents) const;
    /// Each element of x along axis 0 as a value of its own, with that axis: then the kernels of steps have one text.
    std::vector<value_id> apart(value_id x) const;
    /// Values side by side along an axis.
    value_id together(const std::vector<value_id>& parts, std::int64_t axis) const;
    /// So many of them a kernel writes, or reads, at once.
    static constexpr std::int64_t at_once = 32;
};

/// An operator that is decomposed. `decompose` returns null where it has made all outputs that are wanted, else why not.
struct decomposition_row {
    const char* op;
    const char* domain;
    const char* (*decompose)(decomposition&);
    bool float32;                                  ///< what it makes keeps its type, whatever type was chosen for values between operators
    bool (*applies)(const op_context&) = nullptr;  ///< which nodes it takes; the others have a kernel. Null: all
};

/// Rows of a family.
using decomposition_table = row_table<decomposition_row>;

/// The row that takes a node, or null: then it has a kernel, or nothing. Defined with the families, in gpu/ops/decompositions.hpp.
const decomposition_row* find_decomposition(const op_context& c);

/// Writes the node down in `body`, whose inputs and outputs are the node's (no_value: left out). Placement and lowering both ask here, so
/// that what is taken is what is made. Null, or why not.
const char* decompose(const decomposition_row& row, const op_context& c, graph& body);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE value_id decomposition::constant(dtype type, const shape& extents) const {
    const std::int64_t bytes = bytes_of(type, extents);
    if (bytes < 0 || bytes > c.limit.memory_bytes) return build.mistake(fail(errc::memory_budget, build.prefix, "a constant over the limit")), no_value;
    auto made = tensor::zeros(type, extents);
    if (!made.ok()) return build.mistake(made.take_status()), no_value;
    return build.constant(std::move(made).value());
}
GRAFT_INLINE value_id decomposition::numbers(std::int64_t from, const shape& extents) const {
    const value_id made = constant(dtype::int64, extents);
    if (made == no_value) return made;
    tensor& data = build.target().at(made).constant;
    for (std::int64_t i = 0, count = data.elements(); i < count; ++i) data.data<std::int64_t>()[i] = from + i;
    return made;
}

GRAFT_INLINE value_id decomposition::append(node n, dtype type, const shape& extents) const {
    graph& g = build.target();
    const value_id made = g.add_value(n.name + "/y");
    value& v = g.values.back();
    v.type = type;
    v.has_shape = true;
    v.extents = extents;
    n.outputs = {made};
    g.nodes.push_back(std::move(n));
    return made;
}
GRAFT_INLINE value_id decomposition::product(value_id a, bool trans_a, value_id b, bool trans_b, dtype type, double scale, bool exact) const {
    if (!build.failure.ok() || a == no_value || b == no_value) return no_value;
    shape extents = build.extents(a);
    const shape other = build.extents(b);
    const int rank = extents.rank();
    extents[rank - 2] = trans_a ? build.extents(a)[rank - 1] : build.extents(a)[rank - 2];
    extents[rank - 1] = trans_b ? other[rank - 2] : other[rank - 1];
    if (elements_of(extents) < 0) return build.mistake(fail(errc::op_shape, build.prefix, "a product of matrices overflows")), no_value;
    node n;
    n.op_type = "MatMul";
    n.domain = "graft";
    n.name = build.prefix + "/product_" + std::to_string(build.target().nodes.size());
    n.version = newest_opset;
    n.op = ops::find_op("graft", "MatMul", newest_opset);
    n.inputs = {a, b};
    if (trans_a) n.attributes.push_back(integer_attribute("transA", 1));
    if (trans_b) n.attributes.push_back(integer_attribute("transB", 1));
    if (scale != 1) n.attributes.push_back(real_attribute("scale", static_cast<float>(scale)));
    if (exact) n.attributes.push_back(integer_attribute("exact", 1));
    return append(std::move(n), type, extents);
}

GRAFT_INLINE std::vector<value_id> decomposition::apart(value_id x) const {
    std::vector<value_id> all;
    if (!build.failure.ok()) return all;
    const std::int64_t length = build.extents(x)[0];
    for (std::int64_t from = 0; from < length; from += at_once) {
        const std::int64_t n = std::min(at_once, length - from);
        const value_id some = n == length ? x : build.apply("Slice", {x, build.integers({from}), build.integers({from + n}), build.integers({0})});
        const std::vector<attribute> attributes{integer_attribute("axis", 0), integer_attribute("num_outputs", n)};
        const std::vector<value_id> each = n > 1 ? build.apply_all("", "Split", {some}, attributes, static_cast<int>(n)) : std::vector<value_id>{some};
        all.insert(all.end(), each.begin(), each.end());
    }
    return all;
}
GRAFT_INLINE value_id decomposition::together(const std::vector<value_id>& parts, std::int64_t axis) const {
    std::vector<value_id> joined;
    for (std::size_t from = 0; from < parts.size() && build.failure.ok(); from += at_once) {
        const std::vector<value_id> some(parts.begin() + static_cast<std::ptrdiff_t>(from),
                                         parts.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(parts.size(), from + at_once)));
        joined.push_back(some.size() > 1 ? build.apply("Concat", some, {integer_attribute("axis", axis)}) : some[0]);
    }
    return !build.failure.ok() || joined.empty() ? no_value : joined.size() > 1 ? together(joined, axis) : joined[0];
}

GRAFT_INLINE const char* decompose(const decomposition_row& row, const op_context& c, graph& body) {
    emitter build(body, ops::find_op, c.limit);
    build.prefix = c.n.name;
    decomposition d{c, build, {}, std::vector<value_id>(static_cast<std::size_t>(c.outputs), no_value)};
    for (int i = 0; i < c.inputs; ++i) {
        d.in.push_back(c.has(i) ? body.add_value(c.n.name + "/in_" + std::to_string(i)) : no_value);
        body.inputs.push_back(d.in.back());
        if (!c.has(i)) continue;
        value& v = body.values.back();
        v.type = c.in[i].type;
        v.has_shape = true;
        v.extents = c.in[i].extents;
    }
    if (const char* why = row.decompose(d)) return why;
    if (!build.failure.ok()) return "what it is made of does not fit, or is not in this build";
    for (int o = 0; o < c.outputs; ++o) {
        value_id& made = d.out[static_cast<std::size_t>(o)];
        if (!c.wants(o)) made = no_value;
        if (made == no_value && c.wants(o)) return "one of its outputs is not made";
        body.outputs.push_back(no_value);
        if (made == no_value) continue;
        // Of a node's outputs each has a memory of its own.
        bool taken = static_cast<bool>(body.at(made).constant);
        for (value_id id : body.inputs) taken |= id == made;
        for (value_id id : body.outputs) taken |= id == made;
        if (taken) made = build.apply("Identity", {made});
        if (!build.failure.ok() || build.type(made) != c.out[o].type || build.extents(made) != c.out[o].extents)
            return "what it is made of gives another type or shape";
        body.outputs.back() = made;
    }
    return nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
