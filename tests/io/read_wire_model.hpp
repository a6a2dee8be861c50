// Models written field by field, read, and what reading them says.
#pragma once

#include "wire_model.hpp"

#include <doctest/doctest.h>
#include <graft/io/onnx_read.hpp>

#include <initializer_list>
#include <string>

namespace wire_model {

inline graft::result<graft::graph> read(const message& m, const graft::limits& limit = {}) {
    return graft::read_onnx(m.data.data(), m.data.size(), "m", "", limit, nullptr);
}

// The name of the error, "" where the model is read.
inline std::string verdict(const message& m, const graft::limits& limit = {}) {
    auto g = read(m, limit);
    return g.ok() ? "" : graft::text(g.error().code());
}

// The error's code, place and sentence, "" where the model is read.
inline std::string told(const message& m, const graft::limits& limit = {}) {
    auto g = read(m, limit);
    return g.ok() ? "" : g.error().what();
}
inline bool tells(const message& m, const std::string& code, const std::string& sentence, const graft::limits& limit = {}) {
    const std::string text = told(m, limit);
    const bool right = text.compare(0, code.size() + 2, code + ": ") == 0 && text.find(sentence) != std::string::npos;
    if (!right) MESSAGE("told: ", text);
    return right;
}

inline message with_tensor(const message& t) { return model(relu_graph().part(schema::graph::initializer, t)); }

inline message dims(std::initializer_list<std::int64_t> extents, int type) {
    message m;
    for (const std::int64_t e : extents) m.integer(schema::tensor::dims, e);
    return m.integer(schema::tensor::data_type, type);
}

inline message attribute(const std::string& name, int type) { return message().text(schema::attribute::name, name).integer(schema::attribute::type, type); }

}  // namespace wire_model
