// GraphProto to graph: values, names and their scopes, nodes, functions written out, bodies with what they capture.
#pragma once

#include "onnx_attribute.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

/// Where names are looked up: a graph, or the inside of a function that is being written out into a graph.
struct onnx_scope {
    struct entry {
        value_id id;
        int maker;  ///< index of the node that makes it, -1 where none does
    };
    graph* target = nullptr;
    onnx_scope* parent = nullptr;  ///< of a body: what it may capture from
    onnx_scope* owner = nullptr;   ///< the scope of the graph that a function is written into; itself for graphs
    name_table names;
    std::vector<entry> entries;
    int current = 0;  ///< index of the node at work
    int depth = 0;    ///< graphs in graphs
    const onnx_function* function = nullptr;
    std::vector<attribute> bound;  ///< attributes that the call gave
    std::string prefix;            ///< of fresh names

    /// Whether what is read here is inside of a function, and read again at each call.
    bool called() const noexcept { return function || (parent && parent->called()); }

    bool define(std::string_view name, value_id id, int maker) {
        if (!names.insert(name, static_cast<int>(entries.size()))) return false;
        entries.push_back({id, maker});
        return true;
    }
};

class onnx_graph_reader {
public:
    onnx_graph_reader(onnx_context& c, onnx_functions& functions, graph& root) : c_(c), functions_(functions), root_(root) {}
    GRAFT_COLD status read(const std::vector<wire_bytes>& parts) {
        onnx_scope scope;
        scope.target = &root_;
        scope.owner = &scope;
        return read_graph(parts, scope);
    }

private:
    static constexpr value_id unresolved = -2;

    status read_graph(const std::vector<wire_bytes>& parts, onnx_scope& scope);
    status read_input(wire_bytes part, onnx_scope& scope);
    status read_initializer(wire_bytes part, onnx_scope& scope);
    status read_output(wire_bytes part, onnx_scope& scope, name_table& seen);
    status read_value_info(wire_bytes part, value& out, bool must_have_type);
    status read_type(const std::vector<wire_bytes>& parts, value& out);
    status read_dimensions(const std::vector<wire_bytes>& parts, value& out);
    status define_outputs(const std::vector<wire_bytes>& nodes, onnx_scope& scope);
    status read_nodes(const std::vector<wire_bytes>& nodes, onnx_scope& scope);
    status read_attributes(const onnx_node& from, const std::string& location, onnx_scope& scope, std::vector<attribute>& out);
    status read_body(const std::vector<wire_bytes>& parts, onnx_scope& scope, const std::string& location, attribute& out);
    status call(onnx_function& f, node& caller, const std::string& location, onnx_scope& scope);
    status read_defaults(onnx_function& f, const std::string& location);
    status copy_through(onnx_scope& inside, const onnx_function& f, node& caller);
    value_id resolve(onnx_scope& scope, std::string_view name);
    status new_value(onnx_scope& scope, std::string name, value_id& id);
    std::string fresh(onnx_scope& scope, const std::string& wanted);
    int version(const onnx_scope& scope, const std::string& domain) const;

    onnx_context& c_;
    onnx_functions& functions_;
    graph& root_;
    std::int64_t values_ = 0;
};

inline GRAFT_COLD status onnx_graph_reader::read_graph(const std::vector<wire_bytes>& parts, onnx_scope& scope) {
    using field = onnx_schema::graph;
    std::vector<wire_bytes> nodes, initializers, inputs, outputs;
    graph& g = *scope.target;
    for (const wire_bytes& part : parts) {
        wire_reader r(c_.source, part);
        while (r.next()) switch (r.field()) {
            case field::node: r.add(nodes); break;
            case field::name: r.text(g.name); break;
            case field::initializer: r.add(initializers); break;
            case field::input: r.add(inputs); break;
            case field::output: r.add(outputs); break;
            case field::sparse_initializer: return c_.fail(errc::op_unsupported, "graph '" + g.name + "'", "sparse initializers are not supported");
            default: break;
            }
        GRAFT_TRY(r.finish());
    }
    c_.nodes += static_cast<std::int64_t>(nodes.size());
    if (c_.nodes > c_.limit.nodes)
        return c_.fail(errc::model_too_large, "graph '" + g.name + "'", "more nodes than the limit of " + std::to_string(c_.limit.nodes));
    if (!scope.parent) GRAFT_TRY(functions_.check(nodes));
    g.nodes.reserve(nodes.size());
    for (const wire_bytes& part : inputs) GRAFT_TRY(read_input(part, scope));
    for (const wire_bytes& part : initializers) GRAFT_TRY(read_initializer(part, scope));
    GRAFT_TRY(define_outputs(nodes, scope));
    GRAFT_TRY(read_nodes(nodes, scope));
    name_table seen;
    for (const wire_bytes& part : outputs) GRAFT_TRY(read_output(part, scope, seen));
    return {};
}

inline status onnx_graph_reader::new_value(onnx_scope& scope, std::string name, value_id& id) {
    if (++values_ > 4 * c_.limit.nodes) return c_.fail(errc::model_too_large, "graph", "more values than " + std::to_string(4 * c_.limit.nodes));
    id = scope.target->add_value(std::move(name));
    return {};
}

// The name in a ValueInfoProto; a part of the file, so that tables may keep it.
inline status name_in(const wire_source& source, wire_bytes part, std::uint32_t field, std::string_view& name) {
    wire_bytes b;
    wire_reader r(source, part);
    while (r.next())
        if (r.field() == field) r.bytes(b);
    name = b.text();
    return r.finish();
}

inline status onnx_graph_reader::read_input(wire_bytes part, onnx_scope& scope) {
    std::string_view name;
    GRAFT_TRY(name_in(c_.source, part, onnx_schema::value_info::name, name));
    if (name.empty()) return c_.fail(errc::model_malformed, "graph '" + scope.target->name + "'", "an input has no name");
    value_id id = no_value;
    GRAFT_TRY(new_value(scope, std::string(name), id));
    if (!scope.define(name, id, -1)) return c_.fail(errc::graph_duplicate, "input '" + std::string(name) + "'", "two inputs have this name");
    scope.target->inputs.push_back(id);
    return read_value_info(part, scope.target->values.back(), !scope.parent);
}

inline GRAFT_COLD status onnx_graph_reader::read_initializer(wire_bytes part, onnx_scope& scope) {
    std::string_view name;
    GRAFT_TRY(name_in(c_.source, part, onnx_schema::tensor::name, name));
    if (name.empty()) return c_.fail(errc::model_malformed, "graph '" + scope.target->name + "'", "an initializer has no name");
    std::string copy;
    tensor data;
    bool text = false;
    GRAFT_TRY(onnx_tensor_reader(c_, std::vector<wire_bytes>(1, part)).read(copy, data, text));
    value_id id = no_value;
    const int known = scope.names.find(name);
    if (known < 0) {
        GRAFT_TRY(new_value(scope, copy, id));
        scope.define(name, id, -1);
    } else
        id = scope.entries[static_cast<std::size_t>(known)].id;
    value& v = scope.target->at(id);
    const std::string what = "initializer '" + copy + "'";
    if (v.constant || (known >= 0 && v.type == dtype::string)) return c_.fail(errc::graph_duplicate, what, "two initializers have this name");
    const dtype type = text ? dtype::string : data.type();
    if (v.type != dtype::undefined && v.type != type)
        return c_.fail(errc::tensor_dtype, what, std::string("it is ") + graft::name(type) + ", but as an input it is " + graft::name(v.type));
    if (text) {
        v.type = dtype::string;
        return {};
    }
    if (v.has_shape) {
        bool fits = v.extents.rank() == data.shape().rank();
        for (int i = 0; fits && i < v.extents.rank(); ++i) fits = v.extents[i] < 0 || v.extents[i] == data.shape()[i];
        if (!fits) return c_.fail(errc::tensor_shape, what, "its shape is " + graft::text(data.shape()) + ", but as an input " + graft::text(v.extents));
    }
    if (known < 0) v.has_shape = true, v.extents = data.shape();
    v.type = type;
    v.constant = std::move(data);
    return {};
}

inline GRAFT_COLD status onnx_graph_reader::read_output(wire_bytes part, onnx_scope& scope, name_table& seen) {
    std::string_view name;
    GRAFT_TRY(name_in(c_.source, part, onnx_schema::value_info::name, name));
    const std::string what = "output '" + std::string(name) + "'";
    if (name.empty()) return c_.fail(errc::model_malformed, "graph '" + scope.target->name + "'", "an output has no name");
    if (!seen.insert(name, 0)) return c_.fail(errc::graph_duplicate, what, "two outputs have this name");
    const value_id id = resolve(scope, name);
    if (id < 0) return c_.fail(errc::graph_no_output, what, "no node makes it");
    value& v = scope.target->at(id);
    if (v.type == dtype::string) return c_.fail(errc::tensor_dtype, what, "strings are not supported");
    value declared;
    declared.name = v.name;
    GRAFT_TRY(read_value_info(part, declared, false));
    if (v.type == dtype::undefined) v.type = declared.type;
    if (!v.has_shape) v.has_shape = declared.has_shape, v.extents = declared.extents, v.dimensions = std::move(declared.dimensions);
    scope.target->outputs.push_back(id);
    return {};
}

inline status onnx_graph_reader::read_value_info(wire_bytes part, value& out, bool must_have_type) {
    std::vector<wire_bytes> types;
    wire_reader r(c_.source, part);
    while (r.next())
        if (r.field() == onnx_schema::value_info::type) r.add(types);
    GRAFT_TRY(r.finish());
    GRAFT_TRY(read_type(types, out));
    if (must_have_type && !size_of(out.type))
        return c_.fail(errc::tensor_dtype, "input '" + out.name + "'",
                       out.type == dtype::undefined ? std::string("it has no element type")
                                                    : std::string("elements of type ") + graft::name(out.type) + " are not supported");
    return {};
}

inline GRAFT_COLD status onnx_graph_reader::read_type(const std::vector<wire_bytes>& parts, value& out) {
    using field = onnx_schema::type;
    std::vector<wire_bytes> tensors, shapes;
    const char* other = nullptr;
    for (const wire_bytes& part : parts) {
        wire_reader r(c_.source, part);
        while (r.next()) switch (r.field()) {
            case field::tensor: r.add(tensors); break;
            case field::sequence: other = "a sequence"; break;
            case field::map: other = "a map"; break;
            case field::opaque: other = "opaque"; break;
            case field::sparse_tensor: other = "a sparse tensor"; break;
            case field::optional: other = "an optional"; break;
            default: break;
            }
        GRAFT_TRY(r.finish());
    }
    const std::string what = "value '" + out.name + "'";
    if (other) return c_.fail(errc::op_unsupported, what, std::string("it is ") + other + "; only tensors are supported");
    std::int64_t type = 0;
    for (const wire_bytes& part : tensors) {
        wire_reader r(c_.source, part);
        while (r.next()) {
            if (r.field() == onnx_schema::tensor_type::elem_type) r.integer(type);
            if (r.field() == onnx_schema::tensor_type::shape) r.add(shapes);
        }
        GRAFT_TRY(r.finish());
    }
    if (type < 0 || type > static_cast<std::int64_t>(dtype::int2))
        return c_.fail(errc::tensor_dtype, what, "element type " + std::to_string(type) + " does not exist");
    out.type = static_cast<dtype>(type);
    if (!shapes.empty()) GRAFT_TRY(read_dimensions(shapes, out));
    return {};
}

inline GRAFT_COLD status onnx_graph_reader::read_dimensions(const std::vector<wire_bytes>& parts, value& out) {
    using field = onnx_schema::dimension;
    std::vector<std::int64_t> extents;
    for (const wire_bytes& part : parts) {
        wire_reader r(c_.source, part);
        while (r.next()) {
            wire_bytes d;
            if (r.field() != onnx_schema::tensor_shape::dim || !r.bytes(d)) continue;
            std::int64_t extent = -1;
            std::string param;
            wire_reader dimension(c_.source, d);
            while (dimension.next()) {
                if (dimension.field() == field::value && dimension.integer(extent)) param.clear();
                if (dimension.field() == field::param && dimension.text(param)) extent = -1;
            }
            GRAFT_TRY(dimension.finish());
            extents.push_back(extent);
            if (extents.size() <= static_cast<std::size_t>(shape::max_rank)) out.dimensions.push_back(std::move(param));
        }
        GRAFT_TRY(r.finish());
    }
    out.has_shape = true;
    return check_extents(c_, "value '" + out.name + "'", extents, true, out.extents);
}

// Makes the values that nodes make, before any node is read: names may be used before they are made.
inline GRAFT_COLD status onnx_graph_reader::define_outputs(const std::vector<wire_bytes>& nodes, onnx_scope& scope) {
    int index = 0;
    for (const wire_bytes& part : nodes) {
        wire_reader r(c_.source, part);
        while (r.next()) {
            wire_bytes b;
            if (r.field() != onnx_schema::node::output || !r.bytes(b) || !b.size) continue;
            const std::string_view name = b.text();
            const int known = scope.names.find(name);
            if (known >= 0) {
                // A function's outputs are values of the caller, waiting for the node that makes them.
                onnx_scope::entry& e = scope.entries[static_cast<std::size_t>(known)];
                if (e.maker != -2) return c_.fail(errc::graph_duplicate, "value '" + b.string() + "'", "it is made twice");
                e.maker = index;
                continue;
            }
            for (onnx_scope* outer = scope.parent; outer; outer = outer->parent) {
                const int above = outer->names.find(name);
                if (above >= 0 && outer->entries[static_cast<std::size_t>(above)].maker < outer->current)
                    return c_.fail(errc::graph_duplicate, "value '" + b.string() + "'", "a body makes a value that the graph around it has already");
            }
            value_id id = no_value;
            GRAFT_TRY(new_value(scope, scope.function ? fresh(scope, scope.prefix + b.string()) : b.string(), id));
            scope.define(name, id, index);
        }
        GRAFT_TRY(r.finish());
        ++index;
    }
    return {};
}

// A name that the graph at work does not have.
inline GRAFT_COLD std::string onnx_graph_reader::fresh(onnx_scope& scope, const std::string& wanted) {
    std::string name = wanted;
    while (scope.owner->names.find(name) >= 0) name = wanted + "_" + std::to_string(++c_.calls);
    return name;
}

inline int onnx_graph_reader::version(const onnx_scope& scope, const std::string& domain) const {
    for (const onnx_scope* s = &scope; s; s = s->parent)
        if (s->function) {
            for (const opset& o : s->function->opsets)
                if (o.domain == domain) return o.version;
            break;
        }
    return root_.version_of(domain);
}

inline GRAFT_COLD value_id onnx_graph_reader::resolve(onnx_scope& scope, std::string_view name) {
    const int known = scope.names.find(name);
    if (known >= 0) return scope.entries[static_cast<std::size_t>(known)].id;
    if (!scope.parent) return unresolved;
    const value_id outer = resolve(*scope.parent, name);
    if (outer == unresolved) return unresolved;
    value_id inner = no_value;
    if (outer != no_value) {
        const value& from = scope.parent->target->at(outer);
        inner = scope.target->add_value(from.name == name ? from.name : fresh(scope, from.name + "_" + std::to_string(++c_.calls)));
        scope.target->values.back().type = from.type;
        scope.target->captures.push_back({inner, outer});
    }
    scope.define(name, inner, -1);
    return inner;
}

inline GRAFT_COLD status onnx_graph_reader::read_nodes(const std::vector<wire_bytes>& nodes, onnx_scope& scope) {
    onnx_node from;
    graph& g = *scope.target;
    const bool called = scope.called();
    scope.current = 0;
    for (const wire_bytes& part : nodes) {
        GRAFT_TRY(from.read(c_.source, part));
        const std::string location = from.location();
        node n;
        n.name = from.name.size && scope.function ? scope.prefix + from.name.string() : from.name.string();
        n.op_type = from.op_type.string();
        n.domain = from.domain.string();
        n.version = version(scope, n.domain);
        if (n.op_type.empty()) return c_.fail(errc::op_unsupported, location, "the node has no operator");
        if (called) {
            std::size_t names = from.name.size + from.op_type.size + from.domain.size + scope.prefix.size() * (1 + from.outputs.size());
            for (const std::vector<wire_bytes>* list : {&from.inputs, &from.outputs})
                for (const wire_bytes& name : *list) names += name.size + sizeof(value);
            GRAFT_TRY(c_.write_out(location, sizeof n + names));
        }
        for (const wire_bytes& name : from.inputs) {
            const value_id id = name.size ? resolve(scope, name.text()) : no_value;
            if (id == unresolved) return c_.fail(errc::graph_dangling, location, "input '" + escape(name.string()) + "' is made nowhere");
            if (id >= 0 && g.at(id).type == dtype::string)
                return c_.fail(errc::tensor_dtype, location, "input '" + escape(name.string()) + "' holds strings, which are not supported");
            n.inputs.push_back(id);
        }
        for (const wire_bytes& name : from.outputs) n.outputs.push_back(name.size ? resolve(scope, name.text()) : no_value);
        GRAFT_TRY(read_attributes(from, location, scope, n.attributes));
        if (onnx_function* f = functions_.find(from))
            GRAFT_TRY(call(*f, n, location, scope));
        else
            g.nodes.push_back(std::move(n));
        ++scope.current;
    }
    return {};
}

inline GRAFT_COLD status onnx_graph_reader::read_attributes(const onnx_node& from, const std::string& location, onnx_scope& scope,
                                                            std::vector<attribute>& out) {
    out.reserve(from.attributes.size());
    const bool called = scope.called();
    for (const wire_bytes& part : from.attributes) {
        onnx_attribute seen;
        attribute a;
        GRAFT_TRY(read_attribute(c_, location, part, seen, a));
        if (seen.reference.size) {
            const onnx_scope* s = &scope;
            while (s && !s->function) s = s->parent;
            if (!s) return c_.fail(errc::op_attribute, location, "attribute '" + seen.name + "' refers to a function's, but there is no function");
            if (!bind_reference(seen, s->bound, a)) continue;
            if (seen.kind != attribute_kind::none && seen.kind != a.kind)
                return c_.fail(errc::op_attribute, location, "attribute '" + seen.name + "' refers to one of another type");
        } else if (a.kind == attribute_kind::graph)
            GRAFT_TRY(read_body(seen.graphs, scope, location, a));
        if (called) GRAFT_TRY(c_.write_out(location, held_bytes(a)));
        out.push_back(std::move(a));
    }
    return {};
}

inline status onnx_graph_reader::read_body(const std::vector<wire_bytes>& parts, onnx_scope& scope, const std::string& location, attribute& out) {
    if (scope.depth + 1 >= c_.limit.nesting) return c_.fail(errc::model_too_deep, location, "graphs nest deeper than " + std::to_string(c_.limit.nesting));
    out.graph = std::make_shared<graph>();
    onnx_scope inner;
    inner.target = out.graph.get();
    inner.parent = &scope;
    inner.owner = &inner;
    inner.depth = scope.depth + 1;
    return read_graph(parts, inner);
}

inline status onnx_graph_reader::read_defaults(onnx_function& f, const std::string& location) {
    for (const wire_bytes& part : f.defaults) {
        onnx_attribute seen;
        attribute a;
        GRAFT_TRY(read_attribute(c_, location, part, seen, a));
        if (a.kind == attribute_kind::graph || seen.reference.size)
            return c_.fail(errc::op_unsupported, location, "this kind of default attribute of a function is not supported");
        f.default_values.push_back(std::move(a));
    }
    return {};
}

// Writes a function out in place of the node that calls it.
inline GRAFT_COLD status onnx_graph_reader::call(onnx_function& f, node& caller, const std::string& location, onnx_scope& scope) {
    onnx_scope inside;
    inside.target = scope.target;
    inside.owner = scope.owner;
    inside.function = &f;
    inside.depth = scope.depth;
    inside.prefix = (caller.name.empty() ? caller.op_type : caller.name) + "_" + std::to_string(++c_.calls) + "/";
    if (caller.inputs.size() > f.inputs.size() || caller.outputs.size() > f.outputs.size())
        return c_.fail(errc::op_shape, location, "it has more inputs or outputs than the function");
    for (const attribute& a : caller.attributes) {
        if (a.kind == attribute_kind::graph) return c_.fail(errc::op_unsupported, location, "graphs as attributes of functions are not supported");
        bool declared = false;
        for (const wire_bytes& name : f.attributes) declared |= name.text() == a.name;
        inside.bound.push_back(a);
        for (const wire_bytes& part : f.defaults) {
            std::string_view name;
            GRAFT_TRY(name_in(c_.source, part, onnx_schema::attribute::name, name));
            declared |= name == a.name;
        }
        if (!declared) return c_.fail(errc::op_attribute, location, "the function has no attribute '" + a.name + "'");
    }
    if (f.default_values.empty()) GRAFT_TRY(read_defaults(f, location));
    std::size_t copied = (f.inputs.size() + f.outputs.size()) * sizeof(value) + caller.attributes.size() * (f.attributes.size() + f.defaults.size());
    for (const attribute& a : inside.bound) copied += held_bytes(a);
    for (const attribute& a : f.default_values) {
        bool given = false;
        for (const attribute& b : caller.attributes) given |= b.name == a.name;
        if (given) continue;
        copied += held_bytes(a);
        inside.bound.push_back(a);
    }
    GRAFT_TRY(c_.write_out(location, copied));
    for (std::size_t i = 0; i < f.inputs.size(); ++i)
        if (!inside.define(f.inputs[i].text(), i < caller.inputs.size() ? caller.inputs[i] : no_value, -1))
            return c_.fail(errc::graph_duplicate, location, "two inputs of the function have one name");
    std::vector<std::string_view> passed_on;
    caller.outputs.resize(f.outputs.size(), no_value);
    for (std::size_t i = 0; i < f.outputs.size(); ++i) {
        value_id& id = caller.outputs[i];
        if (id == no_value) GRAFT_TRY(new_value(scope, fresh(inside, inside.prefix + f.outputs[i].string()), id));
        const std::string_view name = f.outputs[i].text();
        const int known = inside.names.find(name);
        if (known >= 0 && static_cast<std::size_t>(known) >= f.inputs.size())
            return c_.fail(errc::graph_duplicate, location, "two outputs of the function have one name");
        if (known < 0) inside.define(name, id, -2);
    }
    GRAFT_TRY(define_outputs(f.nodes, inside));
    for (std::size_t i = f.inputs.size(); i < inside.entries.size() && i < f.inputs.size() + f.outputs.size(); ++i)
        if (inside.entries[i].maker == -2) return c_.fail(errc::graph_no_output, location, "no node of the function makes one of its outputs");
    GRAFT_TRY(read_nodes(f.nodes, inside));
    return copy_through(inside, f, caller);
}

// An output of a function that is one of its inputs: a node has to make the caller's value.
inline GRAFT_COLD status onnx_graph_reader::copy_through(onnx_scope& inside, const onnx_function& f, node& caller) {
    for (std::size_t i = 0; i < f.outputs.size(); ++i) {
        const value_id made = resolve(inside, f.outputs[i].text());
        if (made == caller.outputs[i]) continue;
        if (made == no_value) return c_.fail(errc::graph_no_output, "function '" + f.name.string() + "'", "an output is an input that the call leaves out");
        node copy;
        copy.name = inside.prefix + "Identity";
        copy.op_type = "Identity";
        copy.version = version(inside, "");
        if (!copy.version) copy.version = newest_opset;
        copy.inputs.push_back(made);
        copy.outputs.push_back(caller.outputs[i]);
        inside.target->nodes.push_back(std::move(copy));
    }
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
