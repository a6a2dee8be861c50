// ONNX files to graphs.
#pragma once

#include "../core/error.hpp"
#include "../core/limits.hpp"
#include "../graph/graph.hpp"

#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// Reads a model from memory. `name` stands for it in messages; `directory` is the folder that external data lies in (empty:
/// refused). `owner` keeps the bytes alive, so that large tensors may share them instead of being copied (null: always copied).
/// Functions are written out, names are resolved; `verify_graph` has to follow. Errors: model.*, graph.*, tensor.*, external.*,
/// op.unsupported, op.attribute, memory.*.
result<graph> read_onnx(const void* bytes, std::size_t size, const std::string& name, const std::string& directory, const limits& limit,
                        std::shared_ptr<const void> owner);
/// Reads a model from a file, which stays mapped while the graph lives; external data are looked for in its folder.
result<graph> read_onnx_file(const std::string& path, const limits& limit = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file_kind.hpp"
#include "onnx_graph.hpp"
GRAFT_BEGIN_NAMESPACE

namespace detail {
inline status read_entry(const wire_source& source, wire_bytes part, std::pair<std::string, std::string>& out) {
    wire_reader r(source, part);
    while (r.next()) {
        if (r.field() == onnx_schema::entry::key) r.text(out.first);
        if (r.field() == onnx_schema::entry::value) r.text(out.second);
    }
    return r.finish();
}

inline GRAFT_COLD status read_model(onnx_context& c, graph& out) {
    using field = onnx_schema::model;
    std::vector<wire_bytes> graphs, functions;
    out.ir_version = 0;
    wire_reader r(c.source, c.source.bytes);
    while (r.next()) {
        wire_bytes part;
        switch (r.field()) {
        case field::ir_version: r.integer(out.ir_version); break;
        case field::producer_name: r.text(out.producer_name); break;
        case field::producer_version: r.text(out.producer_version); break;
        case field::domain: r.text(out.model_domain); break;
        case field::model_version: r.integer(out.model_version); break;
        case field::doc_string: r.text(out.description); break;
        case field::graph: r.add(graphs); break;
        case field::functions: r.add(functions); break;
        case field::opset_import:
            if (r.bytes(part)) GRAFT_TRY(read_opset(c.source, part, out.opsets));
            break;
        case field::metadata_props:
            if (r.bytes(part)) {
                out.metadata.emplace_back();
                GRAFT_TRY(read_entry(c.source, part, out.metadata.back()));
            }
            break;
        default: break;
        }
    }
    GRAFT_TRY(r.finish());
    if (!c.source.bytes.size) return fail(errc::model_truncated, c.source.name, "the file is empty");
    if (graphs.empty()) return fail(errc::model_malformed, c.source.name, "this is no ONNX model: it has no graph");
    if (out.ir_version < onnx_schema::oldest_ir || out.ir_version > onnx_schema::newest_ir)
        return fail(errc::model_version, c.source.name,
                    "IR version " + std::to_string(out.ir_version) + " is not between " + std::to_string(onnx_schema::oldest_ir) + " and " +
                        std::to_string(onnx_schema::newest_ir));
    if (out.opsets.empty()) return fail(errc::model_version, c.source.name, "the model imports no operator set");
    onnx_functions known(c);
    if (out.ir_version >= 8) GRAFT_TRY(known.read(functions));
    return onnx_graph_reader(c, known, out).read(graphs);
}

// What a file is that is known not to be ONNX, and what makes ONNX of it; "" for any other.
GRAFT_COLD inline std::string not_onnx(const std::uint8_t* bytes, std::size_t size) {
    const file_kind kind = kind_of_file(bytes, size);
    if (kind.family == file_family::model) return "";
    if (kind.family == file_family::picture) return wrong_kind(kind, "a model", "an ONNX file, named before the pictures");
    const std::string hint = kind.family == file_family::other_model ? std::string("an ONNX file; ") + kind.convert : "an ONNX file";
    return wrong_kind(kind, "a model", hint.c_str());
}

// TensorFlow keeps a model as a folder.
GRAFT_COLD inline status cannot_open_model(const std::string& path, status why) {
    if (!mapped_file::open(path + "/saved_model.pb", INT64_MAX, errc::file_open).ok()) return why;
    return fail(
        errc::file_open, path,
        "this is a TensorFlow SavedModel, and an ONNX file is wanted; `python -m tf2onnx.convert --saved-model folder --output model.onnx` makes one of it");
}

inline GRAFT_COLD result<graph> read_onnx(wire_bytes bytes, const std::string& name, const std::string& directory, const limits& limit,
                                          std::shared_ptr<const void> owner, void (*let_go)(const void*, std::size_t)) {
    if (bytes.size > static_cast<std::size_t>(limit.model_bytes))
        return fail(errc::model_too_large, name, "the model has " + std::to_string(bytes.size) + " bytes; the limit is " + std::to_string(limit.model_bytes));
    const std::string other = not_onnx(bytes.data, bytes.size);
    if (!other.empty()) return fail(errc::model_malformed, name, other);
    onnx_context c(limit);
    c.source.bytes = bytes;
    c.source.name = name;
    c.source.nesting = limit.nesting;
    c.directory = directory;
    c.owner = std::move(owner);
    c.let_go = let_go;
    graph out;
    GRAFT_TRY(read_model(c, out));
    return out;
}
}  // namespace detail

GRAFT_INLINE GRAFT_COLD result<graph> read_onnx(const void* bytes, std::size_t size, const std::string& name, const std::string& directory, const limits& limit,
                                                std::shared_ptr<const void> owner) GRAFT_MEMORY_TRY {
    return detail::read_onnx({static_cast<const std::uint8_t*>(bytes), size}, name, directory, limit, std::move(owner), nullptr);
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE result<graph> read_onnx_file(const std::string& path, const limits& limit) GRAFT_MEMORY_TRY {
    std::shared_ptr<const mapped_file> file;
    auto opened = mapped_file::open(path, limit.model_bytes, errc::model_too_large);
    if (!opened.ok()) return detail::cannot_open_model(path, opened.take_status());
    file = std::move(opened).value();
    auto read = detail::read_onnx({file->data(), file->size()}, path, folder_of(path), limit, file, file->letting_go());
    file->let_go();
    return read;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
