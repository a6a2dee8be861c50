// Runs one operator by its row of the op table: inference, then the reference kernel.
#pragma once

#include <graft/ops/ops.hpp>
#include <graft/tensor/convert.hpp>

#include <string>
#include <utility>
#include <vector>

namespace one_node {

struct outcome {
    std::vector<graft::tensor> outputs;
    std::string error;  // the code, such as "op.shape"; empty where it ran
    std::vector<double> values(std::size_t output = 0) const {
        std::vector<double> v;
        if (output >= outputs.size()) return v;
        const graft::tensor& t = outputs[output];
        for (std::int64_t i = 0; i < t.elements(); ++i) v.push_back(graft::element_as_double(t.type(), t.raw(), i));
        return v;
    }
};

inline graft::attribute integer(const char* name, std::int64_t value) {
    graft::attribute a;
    a.name = name;
    a.kind = graft::attribute_kind::integer;
    a.integer = value;
    return a;
}
inline graft::attribute integers(const char* name, std::vector<std::int64_t> values) {
    graft::attribute a;
    a.name = name;
    a.kind = graft::attribute_kind::integers;
    a.integers = std::move(values);
    return a;
}
inline graft::attribute real(const char* name, float value) {
    graft::attribute a;
    a.name = name;
    a.kind = graft::attribute_kind::real;
    a.real = value;
    return a;
}
inline graft::attribute text(const char* name, const char* value) {
    graft::attribute a;
    a.name = name;
    a.kind = graft::attribute_kind::string;
    a.string = value;
    return a;
}
/// A tensor of any type from doubles.
inline graft::tensor tensor(graft::dtype type, const graft::shape& extents, const std::vector<double>& values) {
    graft::tensor t = std::move(graft::tensor::make(type, extents)).value();
    if (!values.empty()) graft::store_from_double(type, t.raw(), 0, static_cast<std::int64_t>(values.size()), values.data());
    return t;
}

/// Runs `op` at an opset version; a default-made tensor among the inputs is one left out.
inline outcome run(const char* op, int version, const std::vector<graft::tensor>& inputs, std::vector<graft::attribute> attributes = {}, int outputs = 1) {
    graft::node n;
    n.op_type = op;
    n.version = version;
    n.attributes = std::move(attributes);
    n.op = graft::ops::find_op("", op, version);
    if (!n.op) return {{}, "no row"};
    const graft::limits limit;
    std::vector<graft::tensor_view> in, out(static_cast<std::size_t>(outputs));
    for (const graft::tensor& t : inputs) {
        in.push_back(t ? graft::view(t) : graft::tensor_view{});
        n.inputs.push_back(t ? static_cast<graft::value_id>(in.size()) : graft::no_value);
    }
    for (int i = 0; i < outputs; ++i) n.outputs.push_back(100 + i);
    graft::infer_context c{{n, in.data(), static_cast<int>(in.size()), out.data(), outputs, limit}};
    const graft::status inferred = n.op->infer(c);
    if (!inferred.ok()) return {{}, graft::text(inferred.error().code())};
    if (c.deferred) return {{}, "deferred"};
    outcome o;
    o.outputs.resize(static_cast<std::size_t>(outputs));
    for (std::size_t i = 0; i < o.outputs.size(); ++i) {
        if (out[i].type == graft::dtype::undefined) continue;
        auto made = graft::tensor::make(out[i].type, out[i].extents);
        if (!made.ok()) return {{}, graft::text(made.error().code())};
        o.outputs[i] = *made;
        out[i].data = made->raw();
    }
    graft::executor serial;
    graft::run_context r{{n, in.data(), static_cast<int>(in.size()), out.data(), outputs, limit}, serial, nullptr, &o.outputs, 1};
    const graft::status ran = n.op->run(r);
    if (!ran.ok()) o.error = graft::text(ran.error().code());
    return o;
}

}  // namespace one_node
