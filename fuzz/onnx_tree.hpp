// An ONNX file as the tree of its Protocol Buffers fields, which knows of each field what it is for.
#pragma once

#include <graft/core/protobuf.hpp>
#include <graft/io/onnx_schema.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace fuzz {

/// The messages of onnx.proto whose fields are looked into.
enum class message : std::uint8_t { none, model, opset, entry, graph, node, attribute, tensor, value_info, type, tensor_type, shape, dimension, function };

/// The message that a field of another one holds; none where it holds a number, a text or bytes.
inline message message_in(message parent, std::uint32_t number) {
    namespace schema = graft::onnx_schema;
    switch (parent) {
    case message::model:
        return number == schema::model::graph            ? message::graph
               : number == schema::model::opset_import   ? message::opset
               : number == schema::model::metadata_props ? message::entry
               : number == schema::model::functions      ? message::function
                                                         : message::none;
    case message::graph:
        return number == schema::graph::node                                                                              ? message::node
               : number == schema::graph::initializer                                                                     ? message::tensor
               : number == schema::graph::input || number == schema::graph::output || number == schema::graph::value_info ? message::value_info
                                                                                                                          : message::none;
    case message::node: return number == schema::node::attribute ? message::attribute : message::none;
    case message::attribute:
        return number == schema::attribute::t || number == schema::attribute::tensors  ? message::tensor
               : number == schema::attribute::g || number == schema::attribute::graphs ? message::graph
                                                                                       : message::none;
    case message::tensor: return number == schema::tensor::external_data ? message::entry : message::none;
    case message::value_info: return number == schema::value_info::type ? message::type : message::none;
    case message::type: return number == schema::type::tensor ? message::tensor_type : message::none;
    case message::tensor_type: return number == schema::tensor_type::shape ? message::shape : message::none;
    case message::shape: return number == schema::tensor_shape::dim ? message::dimension : message::none;
    case message::function:
        return number == schema::function::node              ? message::node
               : number == schema::function::opset_import    ? message::opset
               : number == schema::function::attribute_proto ? message::attribute
                                                             : message::none;
    default: return message::none;
    }
}

/// Whether a field is a list of varints, which files write packed or one by one.
inline bool is_varint_list(message parent, std::uint32_t number) {
    namespace schema = graft::onnx_schema;
    if (parent == message::attribute) return number == schema::attribute::ints;
    return parent == message::tensor && (number == schema::tensor::dims || number == schema::tensor::int32_data || number == schema::tensor::int64_data);
}

/// A field: a number (wire types 0, 1 and 5), bytes, or a message, whose fields are `fields` then.
struct field {
    std::uint32_t number = 0;
    int type = 0;
    message kind = message::none;
    std::uint64_t value = 0;
    std::string bytes;
    std::vector<field> fields;

    bool is(std::uint32_t wanted) const { return number == wanted; }
    field* find(std::uint32_t wanted) {
        for (field& f : fields)
            if (f.number == wanted) return &f;
        return nullptr;
    }
    const std::string& text(std::uint32_t wanted) const {
        static const std::string none;
        for (const field& f : fields)
            if (f.number == wanted) return f.bytes;
        return none;
    }
    void set_text(std::uint32_t wanted, const std::string& to) {
        if (field* f = find(wanted))
            f->bytes = to;
        else
            fields.push_back(text_field(wanted, to));
    }
    static field integer_field(std::uint32_t number, std::int64_t value) {
        field f;
        f.number = number, f.value = static_cast<std::uint64_t>(value);
        return f;
    }
    static field text_field(std::uint32_t number, const std::string& value) {
        field f;
        f.number = number, f.type = 2, f.bytes = value;
        return f;
    }
    static field part(std::uint32_t number, message kind, std::vector<field> fields) {
        field f;
        f.number = number, f.type = 2, f.kind = kind, f.fields = std::move(fields);
        return f;
    }
};

/// Reads the fields of a message; false where the bytes are none. Messages that cannot be read stay bytes; packed varints are taken apart.
inline bool read_fields(const graft::wire_source& source, graft::wire_bytes part, message kind, int depth, std::vector<field>& out) {
    graft::wire_reader r(source, part);
    while (r.next()) {
        field f;
        f.number = r.field(), f.type = r.type(), f.value = r.number();
        if (f.type == 2) {
            graft::wire_bytes view = r.view();
            if (is_varint_list(kind, f.number)) {
                field one = f;
                one.type = 0;
                while (graft::take_varint(view, one.value)) out.push_back(one);
                continue;
            }
            const message inner = depth > 0 ? message_in(kind, f.number) : message::none;
            if (inner != message::none && read_fields(source, view, inner, depth - 1, f.fields))
                f.kind = inner;
            else
                f.bytes = view.string(), f.fields.clear();
        }
        out.push_back(std::move(f));
    }
    return r.finish().ok();
}

/// A file as a tree, whose root is the model.
inline bool read_tree(const std::uint8_t* data, std::size_t size, field& model) {
    graft::wire_source source;
    source.bytes = {data, size};
    model = field();
    model.kind = message::model;
    return read_fields(source, source.bytes, message::model, 32, model.fields) && !model.fields.empty();
}

inline void write_fields(const field& whole, graft::wire_writer& w) {
    for (const field& f : whole.fields) {
        if (f.kind != message::none) {
            const std::size_t mark = w.begin(f.number);
            write_fields(f, w);
            w.end(mark);
        } else if (f.type == 2)
            w.bytes(f.number, f.bytes.data(), f.bytes.size());
        else {
            w.tag(f.number, f.type);
            if (f.type == 0)
                w.varint(f.value);
            else
                w.raw(&f.value, f.type == 1 ? 8 : 4);
        }
    }
}

/// The file of a tree.
inline std::vector<std::uint8_t> write_tree(const field& model) {
    std::vector<std::uint8_t> out;
    graft::wire_writer w(out);
    write_fields(model, w);
    return out;
}

}  // namespace fuzz
