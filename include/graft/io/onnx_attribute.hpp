// AttributeProto: its fields, and the attribute of graft that they make. Bodies are left to the reader of graphs.
#pragma once

#include "onnx_functions.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

/// An AttributeProto as its fields lie in the file.
struct onnx_attribute {
    std::string name;
    wire_bytes reference;            ///< name of the function's attribute that it stands for
    std::vector<wire_bytes> graphs;  ///< parts of its body
    attribute_kind kind = attribute_kind::none;
};

// Kinds in the order of AttributeProto.AttributeType, of which the first nine are known.
inline attribute_kind kind_of(std::int64_t type) noexcept {
    using k = attribute_kind;
    constexpr attribute_kind kinds[] = {k::none, k::real, k::integer, k::string, k::tensor, k::graph, k::reals, k::integers, k::strings};
    return kinds[type];
}

// Reads everything but the body of a graph attribute.
inline GRAFT_COLD status read_attribute(onnx_context& c, const std::string& location, wire_bytes part, onnx_attribute& seen, attribute& out) {
    using field = onnx_schema::attribute;
    std::int64_t type = 0;
    unsigned fields = 0;  // bit i: the field of attribute type i is there
    bool other = false;
    std::vector<wire_bytes> tensors, strings;
    wire_reader r(c.source, part);
    while (r.next()) switch (r.field()) {
        case field::name: r.text(seen.name); break;
        case field::ref_attr_name: r.bytes(seen.reference); break;
        case field::type: r.integer(type); break;
        case field::f: r.real(out.real), fields |= 1u << field::is_float; break;
        case field::i: r.integer(out.integer), fields |= 1u << field::is_int; break;
        case field::s: r.text(out.string), fields |= 1u << field::is_string; break;
        case field::t: r.add(tensors), fields |= 1u << field::is_tensor; break;
        case field::g: r.add(seen.graphs), fields |= 1u << field::is_graph; break;
        case field::floats: r.add(out.reals), fields |= 1u << field::is_floats; break;
        case field::ints: r.add(out.integers), fields |= 1u << field::is_ints; break;
        case field::strings: r.add(strings), fields |= 1u << field::is_strings; break;
        case field::tensors:
        case field::graphs:
        case field::tp:
        case field::type_protos:
        case field::sparse_tensor:
        case field::sparse_tensors: other = true; break;
        default: break;
        }
    GRAFT_TRY(r.finish());
    const std::string where = location + ": attribute '" + seen.name + "'";
    if (seen.name.empty()) return c.fail(errc::op_attribute, location, "an attribute has no name");
    if (other || type > 8) return c.fail(errc::op_unsupported, where, "attributes of this kind are not supported");
    if (!type && !seen.reference.size) {
        // Files of IR version 1 give no type: the one field that is there tells it.
        for (std::int64_t i = 1; i <= 8; ++i)
            if (fields == 1u << i) type = i;
        if (!type) return c.fail(errc::op_attribute, where, "it has no type");
    }
    if (type < 0 || fields & ~(1u << type)) return c.fail(errc::op_attribute, where, "its type and its value do not go together");
    if (seen.reference.size && fields) return c.fail(errc::op_attribute, where, "it has a value and a reference at once");
    out.name = seen.name;
    out.kind = seen.kind = kind_of(type);
    if (out.kind == attribute_kind::graph && !seen.reference.size && seen.graphs.empty()) return c.fail(errc::op_attribute, where, "the graph is missing");
    for (const wire_bytes& s : strings) out.strings.push_back(s.string());
    if (out.kind == attribute_kind::tensor && !seen.reference.size) {
        if (tensors.empty()) return c.fail(errc::op_attribute, where, "the tensor is missing");
        std::string ignored;
        bool text = false;
        status read = onnx_tensor_reader(c, tensors).read(ignored, out.tensor, text);
        if (!read.ok()) return fail(read.error().code(), read.error().where() + " of " + where, read.error().detail());
        if (text) return c.fail(errc::op_unsupported, where, "tensors of strings are not supported");
    }
    return {};
}

// What an attribute holds in memory of its own; a tensor of its own only where it was copied out of the file.
inline std::size_t held_bytes(const attribute& a) noexcept {
    std::size_t bytes = sizeof a + a.name.size() + a.string.size() + a.reals.size() * sizeof(float) + a.integers.size() * sizeof(std::int64_t);
    for (const std::string& s : a.strings) bytes += sizeof(std::string) + s.size();
    return bytes + (a.tensor.storage().allocated() ? a.tensor.bytes() : 0);
}

// An attribute that stands for one of the function's: a copy under its own name. False where the call gives none.
inline bool bind_reference(const onnx_attribute& seen, const std::vector<attribute>& given, attribute& out) {
    for (const attribute& a : given) {
        if (seen.reference.text() != a.name) continue;
        out = a;
        out.name = seen.name;
        return true;
    }
    return false;
}

}  // namespace detail
GRAFT_END_NAMESPACE
