// Graphs to ONNX files.
#pragma once

#include "../core/error.hpp"
#include "../graph/graph.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What a protobuf message may have at most; larger models keep their weights in a second file.
constexpr std::int64_t most_model_bytes = (std::int64_t(1) << 31) - 1;

/// Writes a model into memory, replacing what `out` held. Names, operator sets, metadata, open extents and defaults of inputs are
/// kept; the IR version is raised where the graph needs a newer one. Errors: op.unsupported (operators that only graft knows),
/// model.version (nodes of operator sets that exclude each other), model.too_large, graph.dangling.
status write_onnx(const graph& g, std::vector<std::uint8_t>& out);
/// Writes a model to a file: a temporary in its folder, synced and renamed. Where the weights take more than `most_inline` bytes,
/// those of 1 KiB and more go to `<path>.data`. Errors: those of `write_onnx`, file.write.
status write_onnx_file(const graph& g, const std::string& path, std::int64_t most_inline = most_model_bytes - (std::int64_t(64) << 20));

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "onnx_schema.hpp"
#include "../core/file.hpp"
#include "../core/name_table.hpp"
#include "../core/protobuf.hpp"
#include "../graph/op.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Names of the values of one graph as the file will have them; `visible` are those that bodies can see so far.
struct write_scope {
    const graph* g = nullptr;
    const write_scope* outer = nullptr;
    std::vector<std::string> names;
    name_table visible, own;

    bool taken(const std::string& name) const noexcept {
        for (const write_scope* s = outer; s; s = s->outer)
            if (s->visible.find(name) >= 0) return true;
        return own.find(name) >= 0;
    }
};

class onnx_writer {
public:
    /// `data` is null where all tensors go into the model itself; else large ones go to that file, called `data_name`.
    onnx_writer(const graph& g, std::vector<std::uint8_t>& out, atomic_file* data, std::string data_name)
        : root_(g), out_(out), w_(out), data_(data), data_name_(std::move(data_name)) {}
    status write();

private:
    status collect(const graph& g, bool main);
    status collect_node(const node& n);
    void need(std::int64_t ir) { ir_ = ir_ < ir ? ir : ir_; }
    void need(dtype type);
    status write_graph(const graph& g, write_scope& scope, bool main);
    status name_values(const graph& g, write_scope& scope);
    status write_node(const node& n, write_scope& scope);
    status write_attribute(const attribute& a, write_scope& scope);
    status write_tensor(std::uint32_t field, const tensor& t, const std::string& name, bool may_go_out);
    void write_value_info(std::uint32_t field, const value& v, const std::string& name);
    status write_external(const tensor& t);

    const graph& root_;
    std::vector<std::uint8_t>& out_;
    wire_writer w_;
    atomic_file* data_;
    std::string data_name_;
    std::int64_t data_at_ = 0, ir_ = 0;
    std::vector<opset> opsets_;
};

inline void onnx_writer::need(dtype type) {
    switch (type) {
    case dtype::bfloat16: need(4); break;
    case dtype::float8e4m3fn:
    case dtype::float8e4m3fnuz:
    case dtype::float8e5m2:
    case dtype::float8e5m2fnuz: need(9); break;
    case dtype::uint4:
    case dtype::int4: need(10); break;
    case dtype::float4e2m1: need(11); break;
    case dtype::float8e8m0: need(12); break;
    case dtype::uint2:
    case dtype::int2: need(13); break;
    default: break;
    }
}

inline status onnx_writer::collect_node(const node& n) {
    if (n.domain == "graft") return fail(errc::op_unsupported, location(n), "this operator is graft's own: a model file cannot hold it");
    opset* found = nullptr;
    for (opset& o : opsets_)
        if (o.domain == n.domain || (n.domain == "ai.onnx" && o.domain.empty())) found = &o;
    if (!found)
        opsets_.push_back({n.domain == "ai.onnx" ? std::string() : n.domain, n.version ? n.version : n.domain.empty() ? newest_opset : 1});
    else if (n.version && n.version != found->version) {
        // A function may have imported another version: fine while the operator is the same in both, which a row of the table says from 7 on.
        const bool told = !n.domain.empty() || (n.version >= 7 && found->version >= 7);
        const bool same = n.op && told && found->version >= n.op->since && (n.op->until == 0 || found->version <= n.op->until);
        if (!same)
            return fail(errc::model_version, location(n),
                        "the node is of operator set " + std::to_string(n.version) + ", the model of " + std::to_string(found->version));
    }
    return {};
}

// Gathers operator sets, and the IR version that the graph needs.
inline status onnx_writer::collect(const graph& g, bool main) {
    std::vector<char> input(g.values.size(), 0);
    for (const value_id id : g.inputs) input[id] = 1;
    for (std::size_t i = 0; i < g.values.size(); ++i) {
        need(g.values[i].type);
        if (main && g.values[i].constant && !input[i]) need(4);
    }
    for (const node& n : g.nodes) {
        GRAFT_TRY(collect_node(n));
        for (const attribute& a : n.attributes) {
            if (a.tensor) need(a.tensor.type());
            if (a.graph) GRAFT_TRY(collect(*a.graph, false));
        }
    }
    return {};
}

inline status onnx_writer::write() {
    using field = onnx_schema::model;
    opsets_ = root_.opsets;
    ir_ = root_.ir_version;
    GRAFT_TRY(collect(root_, true));
    if (opsets_.empty()) opsets_.push_back({"", newest_opset});
    for (const opset& o : opsets_)
        if (o.domain.empty()) {
            if (o.version < 1 || o.version > newest_opset)
                return fail(errc::model_version, "model",
                            "operator set " + std::to_string(o.version) + " is not between 1 and " + std::to_string(newest_opset));
            constexpr std::uint8_t ir_of[] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14};
            static_assert(sizeof ir_of == newest_opset + 1, "an IR version for each operator set");
            need(ir_of[o.version]);
        }
    w_.integer(field::ir_version, ir_);
    w_.text_if(field::producer_name, root_.producer_name);
    w_.text_if(field::producer_version, root_.producer_version);
    w_.text_if(field::domain, root_.model_domain);
    if (root_.model_version) w_.integer(field::model_version, root_.model_version);
    w_.text_if(field::doc_string, root_.description);
    const std::size_t mark = w_.begin(field::graph);
    write_scope scope;
    GRAFT_TRY(write_graph(root_, scope, true));
    w_.end(mark);
    for (const opset& o : opsets_) {
        const std::size_t import = w_.begin(field::opset_import);
        w_.text(onnx_schema::operator_set::domain, o.domain);
        w_.integer(onnx_schema::operator_set::version, o.version);
        w_.end(import);
    }
    for (const auto& e : root_.metadata) {
        const std::size_t entry = w_.begin(field::metadata_props);
        w_.text(onnx_schema::entry::key, e.first);
        w_.text(onnx_schema::entry::value, e.second);
        w_.end(entry);
    }
    if (static_cast<std::int64_t>(out_.size()) > most_model_bytes)
        return fail(errc::model_too_large, "model",
                    "it takes " + std::to_string(out_.size()) + " bytes, and a protobuf message holds " + std::to_string(most_model_bytes) +
                        ": write it to a file, with external data");
    return {};
}

// Captured values go by the name they have outside; others keep theirs unless it is taken or empty.
inline status onnx_writer::name_values(const graph& g, write_scope& scope) {
    scope.names.resize(g.values.size());
    std::vector<char> captured(g.values.size(), 0);
    for (const capture& c : g.captures) {
        if (!scope.outer || static_cast<std::size_t>(c.outer) >= scope.outer->names.size())
            return fail(errc::graph_dangling, "graph '" + g.name + "'", "it captures a value that is not there");
        captured[c.inner] = 1;
        scope.names[c.inner] = scope.outer->names[c.outer];
    }
    // Names given come before names made up, so that those stay as they are.
    for (int pass = 0; pass < 2; ++pass)
        for (std::size_t i = 0; i < g.values.size(); ++i) {
            if (captured[i] || !scope.names[i].empty()) continue;
            std::string name = g.values[i].name;
            if (pass == 0 && (name.empty() || scope.taken(name))) continue;
            if (pass == 1)
                for (int n = 0; name.empty() || scope.taken(name); ++n)
                    name = (g.values[i].name.empty() ? "value_" + std::to_string(i) : g.values[i].name) + (n ? "_" + std::to_string(n) : "");
            scope.names[i] = std::move(name);
            scope.own.insert(scope.names[i], 0);
        }
    return {};
}

inline status onnx_writer::write_graph(const graph& g, write_scope& scope, bool main) {
    using field = onnx_schema::graph;
    scope.g = &g;
    GRAFT_TRY(name_values(g, scope));
    for (const value_id id : g.inputs) scope.visible.insert(scope.names[id], 0);
    for (const capture& c : g.captures) scope.visible.insert(scope.names[c.inner], 0);
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (g.values[i].constant) scope.visible.insert(scope.names[i], 0);
    for (const node& n : g.nodes) {
        const std::size_t mark = w_.begin(field::node);
        GRAFT_TRY(write_node(n, scope));
        w_.end(mark);
        for (const value_id id : n.outputs)
            if (id != no_value) scope.visible.insert(scope.names[id], 0);
    }
    w_.text(field::name, g.name.empty() ? std::string("graph") : g.name);
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (g.values[i].constant) GRAFT_TRY(write_tensor(field::initializer, g.values[i].constant, scope.names[i], main));
    for (const value_id id : g.inputs) write_value_info(field::input, g.at(id), scope.names[id]);
    for (const value_id id : g.outputs) write_value_info(field::output, g.at(id), scope.names[id]);
    return {};
}

inline status onnx_writer::write_node(const node& n, write_scope& scope) {
    using field = onnx_schema::node;
    // What is left out at the end need not be named, beyond those that a node must have; of an operator that takes any number, how many there
    // are says something: into how many parts to split, what a body gives.
    const auto list = [&](std::uint32_t number, const std::vector<value_id>& ids, int least, int most) {
        std::size_t size = ids.size();
        while (most >= 0 && size > static_cast<std::size_t>(least) && ids[size - 1] == no_value) --size;
        for (std::size_t i = 0; i < size; ++i) w_.text(number, ids[i] == no_value ? std::string() : scope.names[static_cast<std::size_t>(ids[i])]);
    };
    list(field::input, n.inputs, n.op ? n.op->min_inputs : 0, n.op ? n.op->max_inputs : -1);
    list(field::output, n.outputs, n.op ? n.op->min_outputs : 1, n.op ? n.op->max_outputs : -1);
    w_.text_if(field::name, n.name);
    w_.text(field::op_type, n.op_type);
    for (const attribute& a : n.attributes) {
        const std::size_t mark = w_.begin(field::attribute);
        GRAFT_TRY(write_attribute(a, scope));
        w_.end(mark);
    }
    w_.text_if(field::domain, n.domain);
    return {};
}

inline status onnx_writer::write_attribute(const attribute& a, write_scope& scope) {
    using field = onnx_schema::attribute;
    w_.text(field::name, a.name);
    switch (a.kind) {
    case attribute_kind::real: w_.real(field::f, a.real); break;
    case attribute_kind::integer: w_.integer(field::i, a.integer); break;
    case attribute_kind::string: w_.text(field::s, a.string); break;
    case attribute_kind::tensor: GRAFT_TRY(write_tensor(field::t, a.tensor, "", false)); break;
    case attribute_kind::graph: {
        if (!a.graph) return fail(errc::internal, "attribute '" + a.name + "'", "it has no graph");
        const std::size_t mark = w_.begin(field::g);
        write_scope inner;
        inner.outer = &scope;
        GRAFT_TRY(write_graph(*a.graph, inner, false));
        w_.end(mark);
        break;
    }
    case attribute_kind::reals:
        for (const float f : a.reals) w_.real(field::floats, f);
        break;
    case attribute_kind::integers:
        for (const std::int64_t i : a.integers) w_.integer(field::ints, i);
        break;
    case attribute_kind::strings:
        for (const std::string& s : a.strings) w_.text(field::strings, s);
        break;
    case attribute_kind::none: return fail(errc::internal, "attribute '" + a.name + "'", "it has no kind");
    }
    w_.integer(field::type, static_cast<std::int64_t>(a.kind));
    return {};
}

inline status onnx_writer::write_external(const tensor& t) {
    using field = onnx_schema::tensor;
    // Page-aligned, so that readers can map each tensor by itself.
    const std::int64_t start = (data_at_ + 4095) / 4096 * 4096;
    const std::vector<std::uint8_t> gap(static_cast<std::size_t>(start - data_at_), 0);
    GRAFT_TRY(data_->write(gap.data(), gap.size()));
    GRAFT_TRY(data_->write(t.storage().unaligned(), t.bytes()));
    data_at_ = start + static_cast<std::int64_t>(t.bytes());
    const char* keys[] = {"location", "offset", "length"};
    const std::string values[] = {data_name_, std::to_string(start), std::to_string(t.bytes())};
    for (int i = 0; i < 3; ++i) {
        const std::size_t entry = w_.begin(field::external_data);
        w_.text(onnx_schema::entry::key, keys[i]);
        w_.text(onnx_schema::entry::value, values[i]);
        w_.end(entry);
    }
    w_.integer(field::data_location, 1);
    return {};
}

inline status onnx_writer::write_tensor(std::uint32_t number, const tensor& t, const std::string& name, bool may_go_out) {
    using field = onnx_schema::tensor;
    const std::size_t mark = w_.begin(number);
    for (const std::int64_t d : t.shape()) w_.integer(field::dims, d);
    w_.integer(field::data_type, static_cast<std::int64_t>(t.type()));
    w_.text_if(field::name, name);
    const int bits = static_cast<int>(file_bits(t.type()));
    if (bits < 8) {
        const std::int64_t per_byte = 8 / bits;
        std::vector<std::uint8_t> packed(static_cast<std::size_t>((t.elements() + per_byte - 1) / per_byte), 0);
        const auto* codes = reinterpret_cast<const std::uint8_t*>(t.raw());
        for (std::int64_t i = 0; i < t.elements(); ++i)
            packed[static_cast<std::size_t>(i / per_byte)] =
                static_cast<std::uint8_t>(packed[static_cast<std::size_t>(i / per_byte)] | (codes[i] & ((1 << bits) - 1)) << (i % per_byte * bits));
        w_.bytes(field::raw_data, packed.data(), packed.size());
    } else if (data_ && may_go_out && t.bytes() >= 1024)
        GRAFT_TRY(write_external(t));
    else
        w_.bytes(field::raw_data, t.storage().unaligned(), t.bytes());
    w_.end(mark);
    return {};
}

inline void onnx_writer::write_value_info(std::uint32_t number, const value& v, const std::string& name) {
    const std::size_t mark = w_.begin(number);
    w_.text(onnx_schema::value_info::name, name);
    const std::size_t type = w_.begin(onnx_schema::value_info::type), tensor = w_.begin(onnx_schema::type::tensor);
    w_.integer(onnx_schema::tensor_type::elem_type, static_cast<std::int64_t>(v.type));
    if (v.has_shape) {
        const std::size_t extents = w_.begin(onnx_schema::tensor_type::shape);
        for (int i = 0; i < v.extents.rank(); ++i) {
            const std::size_t dim = w_.begin(onnx_schema::tensor_shape::dim);
            const auto k = static_cast<std::size_t>(i);
            if (v.extents[i] >= 0)
                w_.integer(onnx_schema::dimension::value, v.extents[i]);
            else if (k < v.dimensions.size())
                w_.text_if(onnx_schema::dimension::param, v.dimensions[k]);
            w_.end(dim);
        }
        w_.end(extents);
    }
    w_.end(tensor);
    w_.end(type);
    w_.end(mark);
}

}  // namespace detail

GRAFT_INLINE status write_onnx(const graph& g, std::vector<std::uint8_t>& out) GRAFT_MEMORY_TRY {
    out.clear();
    return detail::onnx_writer(g, out, nullptr, "").write();
}
GRAFT_MEMORY_CATCH("write_onnx")

GRAFT_INLINE status write_onnx_file(const graph& g, const std::string& path, std::int64_t most_inline) GRAFT_MEMORY_TRY {
    std::int64_t weights = 0;
    for (const value& v : g.values) weights += static_cast<std::int64_t>(v.constant.bytes());
    const bool outside = weights > most_inline;
    atomic_file data, model;
    std::vector<std::uint8_t> out;
    if (outside) GRAFT_TRY(data.open(path + ".data"));
    const std::string name = path.substr(path.find_last_of('/') + 1);  // all of it where there is no slash
    GRAFT_TRY(detail::onnx_writer(g, out, outside ? &data : nullptr, name + ".data").write());
    GRAFT_TRY(model.open(path));
    GRAFT_TRY(model.write(out.data(), out.size()));
    if (outside) GRAFT_TRY(data.commit());
    return model.commit();
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
