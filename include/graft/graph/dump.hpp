// Graphs as text for people, and as Graphviz's dot.
#pragma once

#include "../core/number_text.hpp"
#include "graph.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// One line a value or node: inputs, constants, nodes with their attributes, outputs. Bodies follow their node, indented.
std::string dump(const graph& g);
/// The nodes and the values between them, in the language of Graphviz's `dot`; constants are left out.
std::string dump_dot(const graph& g);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstdio>
GRAFT_BEGIN_NAMESPACE
namespace detail {

inline std::string dump_name(const graph& g, value_id id) {
    if (id < 0 || static_cast<std::size_t>(id) >= g.values.size()) return "-";
    const std::string& name = g.at(id).name;
    return name.empty() ? "%" + std::to_string(id) : escape(name);
}

inline std::string dump_type(const value& v) {
    std::string out = v.type == dtype::undefined ? "?" : graft::name(v.type);
    if (!v.has_shape) return out;
    out += '[';
    for (int i = 0; i < v.extents.rank(); ++i) {
        const auto k = static_cast<std::size_t>(i);
        if (i) out += ',';
        if (v.extents[i] >= 0)
            out += std::to_string(v.extents[i]);
        else
            out += k < v.dimensions.size() && !v.dimensions[k].empty() ? escape(v.dimensions[k]) : "?";
    }
    out += ']';
    if (v.layout.channels) out += "/c" + std::to_string(v.layout.channels);
    return out;
}

inline std::string dump_real(double value) { return number_text("%.9g", value); }

template <class List, class Print>
inline std::string dump_list(const List& list, Print print) {
    std::string out = "[";
    for (std::size_t i = 0; i < list.size() && i < 16; ++i) out += (i ? "," : "") + print(list[i]);
    return out + (list.size() > 16 ? ",...]" : "]");
}

// The contents of a tensor where they are few, else its type and shape.
inline std::string dump_tensor(const tensor& t) {
    std::string out = std::string(graft::name(t.type())) + graft::text(t.shape());
    if (!t || t.elements() > 8) return out;
    out += " {";
    for (std::int64_t i = 0; i < t.elements(); ++i)
        out +=
            (i ? "," : "") + (is_float(t.type()) ? dump_real(element_as_double(t.type(), t.raw(), i)) : std::to_string(element_as_int64(t.type(), t.raw(), i)));
    return out + "}";
}

inline std::string dump_value(const attribute& a) {
    switch (a.kind) {
    case attribute_kind::real: return dump_real(static_cast<double>(a.real));
    case attribute_kind::integer: return std::to_string(a.integer);
    case attribute_kind::string: return "'" + escape(a.string) + "'";
    case attribute_kind::tensor: return dump_tensor(a.tensor);
    case attribute_kind::graph: return "graph";
    case attribute_kind::reals: return dump_list(a.reals, [](float f) { return dump_real(static_cast<double>(f)); });
    case attribute_kind::integers: return dump_list(a.integers, [](std::int64_t i) { return std::to_string(i); });
    case attribute_kind::strings: return dump_list(a.strings, [](const std::string& s) { return "'" + escape(s) + "'"; });
    case attribute_kind::none: break;
    }
    return "?";
}

inline std::string dump_operator(const node& n) { return (n.domain.empty() ? std::string() : escape(n.domain) + ".") + escape(n.op_type); }

inline void dump_graph(const graph& g, const std::string& margin, std::string& out) {
    for (const value_id id : g.inputs) out += margin + "input    " + dump_name(g, id) + ": " + dump_type(g.at(id)) + "\n";
    for (const capture& c : g.captures) out += margin + "capture  " + dump_name(g, c.inner) + "\n";
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (g.values[i].constant) out += margin + "constant " + dump_name(g, static_cast<value_id>(i)) + ": " + dump_tensor(g.values[i].constant) + "\n";
    for (const node& n : g.nodes) {
        out += margin + "node     ";
        for (std::size_t i = 0; i < n.outputs.size(); ++i) {
            out += (i ? ", " : "") + dump_name(g, n.outputs[i]);
            if (n.outputs[i] >= 0) out += ": " + dump_type(g.at(n.outputs[i]));
        }
        out += " = " + dump_operator(n) + "(";
        for (std::size_t i = 0; i < n.inputs.size(); ++i) out += (i ? ", " : "") + dump_name(g, n.inputs[i]);
        out += ")";
        for (const attribute& a : n.attributes) out += " " + escape(a.name) + "=" + dump_value(a);
        if (!n.name.empty()) out += "  # " + escape(n.name);
        out += "\n";
        for (const attribute& a : n.attributes)
            if (a.graph) {
                out += margin + "  " + escape(a.name) + ":\n";
                dump_graph(*a.graph, margin + "    ", out);
            }
    }
    for (const value_id id : g.outputs) out += margin + "output   " + dump_name(g, id) + ": " + dump_type(g.at(id)) + "\n";
}

// Text between double quotes in the language of dot.
inline std::string dot_quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

}  // namespace detail

GRAFT_INLINE std::string dump(const graph& g) {
    std::string out = "graph '" + escape(g.name) + "', IR " + std::to_string(g.ir_version);
    for (const opset& o : g.opsets) out += ", " + (o.domain.empty() ? std::string("ai.onnx") : escape(o.domain)) + " " + std::to_string(o.version);
    out += "\n";
    detail::dump_graph(g, "  ", out);
    return out;
}

GRAFT_INLINE std::string dump_dot(const graph& g) {
    std::string out = "digraph " + detail::dot_quoted(escape(g.name)) + " {\n  node [shape=box];\n";
    std::vector<int> maker(g.values.size(), -1);
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        for (const value_id id : g.nodes[i].outputs)
            if (id >= 0) maker[id] = static_cast<int>(i);
        out += "  n" + std::to_string(i) + " [label=" + detail::dot_quoted(detail::dump_operator(g.nodes[i])) + "];\n";
    }
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (maker[i] < 0 && !g.values[i].constant)
            out += "  v" + std::to_string(i) + " [shape=ellipse, label=" + detail::dot_quoted(detail::dump_name(g, static_cast<value_id>(i))) + "];\n";
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        for (const value_id id : g.nodes[i].inputs) {
            if (id < 0 || g.at(id).constant) continue;
            const int from = maker[id];
            out += "  " + (from < 0 ? "v" + std::to_string(id) : "n" + std::to_string(from)) + " -> n" + std::to_string(i) +
                   " [label=" + detail::dot_quoted(detail::dump_type(g.at(id))) + "];\n";
        }
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
        const value_id id = g.outputs[i];
        const int from = maker[id];
        out += "  o" + std::to_string(i) + " [shape=ellipse, label=" + detail::dot_quoted(detail::dump_name(g, id)) + "];\n  ";
        out += (from < 0 ? "v" + std::to_string(id) : "n" + std::to_string(from)) + " -> o" + std::to_string(i) + ";\n";
    }
    return out + "}\n";
}

GRAFT_END_NAMESPACE
#endif
