// ONNX models written field by field, so that tests can write what no library would.
#pragma once

#include <graft/core/protobuf.hpp>
#include <graft/io/onnx_schema.hpp>

#include <string>
#include <vector>

namespace wire_model {

using bytes = std::vector<std::uint8_t>;
namespace schema = graft::onnx_schema;

/// A message under construction: `message().text(1, "a").integer(2, 3).part(4, other)`.
struct message {
    bytes data;
    message& text(std::uint32_t field, const std::string& value) { return graft::wire_writer(data).text(field, value), *this; }
    message& integer(std::uint32_t field, std::int64_t value) { return graft::wire_writer(data).integer(field, value), *this; }
    message& real(std::uint32_t field, float value) { return graft::wire_writer(data).real(field, value), *this; }
    message& part(std::uint32_t field, const message& m) { return graft::wire_writer(data).bytes(field, m.data.data(), m.data.size()), *this; }
    message& raw(std::initializer_list<int> values) {
        for (const int v : values) data.push_back(static_cast<std::uint8_t>(v));
        return *this;
    }
};

inline message value_info(const std::string& name, std::initializer_list<std::int64_t> extents, int type = 1) {
    message shape;
    for (const std::int64_t e : extents) shape.part(schema::tensor_shape::dim, message().integer(schema::dimension::value, e));
    const message tensor = message().integer(schema::tensor_type::elem_type, type).part(schema::tensor_type::shape, shape);
    return message().text(schema::value_info::name, name).part(schema::value_info::type, message().part(schema::type::tensor, tensor));
}

inline message node(const std::string& op, std::initializer_list<const char*> inputs, std::initializer_list<const char*> outputs,
                    const std::string& domain = "") {
    message m;
    for (const char* name : inputs) m.text(schema::node::input, name);
    for (const char* name : outputs) m.text(schema::node::output, name);
    m.text(schema::node::op_type, op);
    if (!domain.empty()) m.text(schema::node::domain, domain);
    return m;
}

/// float32 [2], or what `more` makes of it.
inline message tensor(const std::string& name, const message& more) {
    message m;
    m.data = more.data;
    return m.text(schema::tensor::name, name);
}

/// x -> Relu -> y, to which tests add.
inline message relu_graph() {
    return message()
        .part(schema::graph::node, node("Relu", {"x"}, {"y"}))
        .part(schema::graph::input, value_info("x", {2}))
        .part(schema::graph::output, value_info("y", {2}));
}

inline message model(const message& graph, int opset = 17, int ir = 8) {
    return message()
        .integer(schema::model::ir_version, ir)
        .part(schema::model::graph, graph)
        .part(schema::model::opset_import, message().integer(schema::operator_set::version, opset));
}

}  // namespace wire_model
