// Functions that a model brings along: found by domain, name and overload, and counted before they are written out.
#pragma once

#include "../graph/graph.hpp"
#include "onnx_tensor.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

/// A NodeProto as its fields lie in the file.
struct onnx_node {
    wire_bytes name, op_type, domain, overload;
    std::vector<wire_bytes> inputs, outputs, attributes;

    GRAFT_COLD status read(const wire_source& source, wire_bytes part) {
        using field = onnx_schema::node;
        name = op_type = domain = overload = wire_bytes{};
        inputs.clear(), outputs.clear(), attributes.clear();
        wire_reader r(source, part);
        while (r.next()) switch (r.field()) {
            case field::input: r.add(inputs); break;
            case field::output: r.add(outputs); break;
            case field::name: r.bytes(name); break;
            case field::op_type: r.bytes(op_type); break;
            case field::domain: r.bytes(domain); break;
            case field::overload: r.bytes(overload); break;
            case field::attribute:
                if (attributes.size() >= 1024) r.fault("a node has more than 1024 attributes");
                r.add(attributes);
                break;
            default: break;
            }
        if (domain.text() == "ai.onnx") domain.size = 0;
        return r.finish();
    }
    GRAFT_COLD std::string location() const {
        return (name.size ? "node '" + name.string() + "' (" : std::string("node (")) + (domain.size ? domain.string() + "." : std::string()) +
               op_type.string() + ")";
    }
};

/// A FunctionProto as its fields lie in the file.
struct onnx_function {
    wire_bytes name, domain, overload;
    std::vector<wire_bytes> inputs, outputs, attributes, defaults, nodes;
    std::vector<opset> opsets;
    std::vector<attribute> default_values;  ///< of `defaults`, once the first call has read them
    std::int64_t expanded = 0;              ///< nodes once everything it calls is written out; -1 while that is being counted
};

inline GRAFT_COLD status read_opset(const wire_source& source, wire_bytes part, std::vector<opset>& out) {
    std::string domain;
    std::int64_t version = 0;
    wire_reader r(source, part);
    while (r.next()) {
        if (r.field() == onnx_schema::operator_set::domain) r.text(domain);
        if (r.field() == onnx_schema::operator_set::version) r.integer(version);
    }
    GRAFT_TRY(r.finish());
    if (domain == "ai.onnx") domain.clear();
    const std::string shown = source.name + ": operator set '" + (domain.empty() ? std::string("ai.onnx") : domain) + "'";
    if (version < 1 || version > (domain.empty() ? newest_opset : INT32_MAX))
        return fail(errc::model_version, shown, "version " + std::to_string(version) + " is not between 1 and " + std::to_string(newest_opset));
    for (const opset& o : out) {
        if (o.domain != domain) continue;
        if (o.version == version) return {};
        return fail(errc::model_version, shown, "imported in two versions");
    }
    if (out.size() >= 1000) return fail(errc::model_too_large, source.name, "more than 1000 operator sets are imported");
    out.push_back({domain, static_cast<int>(version)});
    return {};
}

/// The functions of a model. None stands in for an operator of ai.onnx.
class onnx_functions {
public:
    explicit onnx_functions(onnx_context& c) : c_(c) {}
    status read(const std::vector<wire_bytes>& parts);
    /// Fails where the graph with all calls written out has too many nodes, where functions call themselves, or call too deep.
    status check(const std::vector<wire_bytes>& nodes);
    onnx_function* find(const onnx_node& n) noexcept {
        const int i = index(n);
        return i < 0 ? nullptr : &list_[static_cast<std::size_t>(i)];
    }

private:
    static GRAFT_COLD std::string key(wire_bytes domain, wire_bytes name, wire_bytes overload) {
        return domain.string() + '\0' + name.string() + '\0' + overload.string();
    }
    int index(const onnx_node& n) const noexcept { return list_.empty() || !n.domain.size ? -1 : names_.find(key(n.domain, n.op_type, n.overload)); }
    status count(const std::vector<wire_bytes>& nodes, int calls, int nesting, std::int64_t& total);
    status count_bodies(const onnx_node& n, int calls, int nesting, std::int64_t& total);

    onnx_context& c_;
    std::vector<onnx_function> list_;
    std::vector<std::unique_ptr<std::string>> keys_;
    name_table names_;
};

inline GRAFT_COLD status onnx_functions::read(const std::vector<wire_bytes>& parts) {
    using field = onnx_schema::function;
    for (const wire_bytes& part : parts) {
        onnx_function f;
        std::vector<wire_bytes> opsets;
        wire_reader r(c_.source, part);
        while (r.next()) switch (r.field()) {
            case field::name: r.bytes(f.name); break;
            case field::domain: r.bytes(f.domain); break;
            case field::overload: r.bytes(f.overload); break;
            case field::input: r.add(f.inputs); break;
            case field::output: r.add(f.outputs); break;
            case field::attribute: r.add(f.attributes); break;
            case field::attribute_proto: r.add(f.defaults); break;
            case field::node: r.add(f.nodes); break;
            case field::opset_import: r.add(opsets); break;
            default: break;
            }
        GRAFT_TRY(r.finish());
        for (const wire_bytes& o : opsets) GRAFT_TRY(read_opset(c_.source, o, f.opsets));
        if (f.defaults.size() > 1024) return c_.fail(errc::model_too_large, "function '" + f.name.string() + "'", "more than 1024 attributes");
        keys_.push_back(std::make_unique<std::string>(key(f.domain, f.name, f.overload)));
        if (!names_.insert(*keys_.back(), static_cast<int>(list_.size())))
            return c_.fail(errc::graph_duplicate, "function '" + f.name.string() + "'", "defined twice");
        list_.push_back(std::move(f));
    }
    return {};
}

inline status onnx_functions::check(const std::vector<wire_bytes>& nodes) {
    if (list_.empty()) return {};
    std::int64_t total = 0;
    for (onnx_function& f : list_) f.expanded = -2;
    GRAFT_TRY(count(nodes, 0, 0, total));
    if (total > c_.limit.nodes)
        return c_.fail(errc::model_too_large, "functions", "written out, the graph has more than " + std::to_string(c_.limit.nodes) + " nodes");
    return {};
}

inline GRAFT_COLD status onnx_functions::count(const std::vector<wire_bytes>& nodes, int calls, int nesting, std::int64_t& total) {
    onnx_node n;
    for (const wire_bytes& part : nodes) {
        GRAFT_TRY(n.read(c_.source, part));
        ++total;
        GRAFT_TRY(count_bodies(n, calls, nesting, total));
        const int callee = index(n);
        if (callee < 0) continue;
        onnx_function& f = list_[static_cast<std::size_t>(callee)];
        const std::string what = "function '" + f.name.string() + "'";
        if (f.expanded == -1) return c_.fail(errc::model_recursion, what, "it calls itself");
        if (f.expanded == -2) {
            if (calls >= c_.limit.function_depth)
                return c_.fail(errc::model_too_deep, what, "functions call functions deeper than " + std::to_string(c_.limit.function_depth));
            f.expanded = -1;
            std::int64_t inside = 0;
            GRAFT_TRY(count(f.nodes, calls + 1, nesting, inside));
            f.expanded = inside;
        }
        total += f.expanded;
        if (total > c_.limit.nodes) total = c_.limit.nodes + 1;  // enough to know; never overflows
    }
    return {};
}

inline GRAFT_COLD status onnx_functions::count_bodies(const onnx_node& n, int calls, int nesting, std::int64_t& total) {
    for (const wire_bytes& a : n.attributes) {
        wire_reader r(c_.source, a);
        std::vector<wire_bytes> graphs, nodes;
        while (r.next())
            if (r.field() == onnx_schema::attribute::g) r.add(graphs);
        GRAFT_TRY(r.finish());
        if (graphs.empty()) continue;
        if (nesting >= c_.limit.nesting) return c_.fail(errc::model_too_deep, n.location(), "graphs nest deeper than " + std::to_string(c_.limit.nesting));
        for (const wire_bytes& g : graphs) {
            wire_reader body(c_.source, g);
            while (body.next())
                if (body.field() == onnx_schema::graph::node) body.add(nodes);
            GRAFT_TRY(body.finish());
        }
        GRAFT_TRY(count(nodes, calls, nesting + 1, total));
    }
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
