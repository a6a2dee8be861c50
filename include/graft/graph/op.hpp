// What the functions of an operator are given.
#pragma once

#include "activation.hpp"
#include "graph.hpp"
#include "op_row.hpp"
#include "../core/communicator.hpp"
#include "../core/executor.hpp"
#include "../core/limits.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// A tensor that somebody else owns. `data` is null where the contents are not known (yet), and for empty tensors.
struct tensor_view {
    dtype type = dtype::undefined;  ///< undefined: an optional input that was left out
    graft::shape extents;
    void* data = nullptr;

    std::int64_t elements() const noexcept { return extents.elements(); }
    template <class T>
    T* as() const noexcept {
        return static_cast<T*>(data);
    }
    double real(std::int64_t i) const noexcept { return element_as_double(type, data, i); }
    std::int64_t integer(std::int64_t i) const noexcept { return element_as_int64(type, data, i); }
};

/// View of a tensor's memory.
inline tensor_view view(const tensor& t) { return {t.type(), t.shape(), t.raw()}; }
/// A value of a graph for who asks for types and shapes, and for contents at most of what is small: of a constant, but not of a weight that lies
/// unaligned in a file.
inline tensor_view view_at_hand(const value& v) noexcept { return {v.type, v.extents, v.constant.storage().at_hand()}; }

/// A list of integers that a node or a constant owns.
struct integer_list {
    const std::int64_t* data = nullptr;
    int size = 0;
    std::int64_t operator[](int i) const noexcept { return data[i]; }
    const std::int64_t* begin() const noexcept { return data; }
    const std::int64_t* end() const noexcept { return data + size; }
};

/// What every function of an operator is given: the node, its inputs and its outputs.
struct op_context {
    const node& n;
    const tensor_view* in;  ///< `inputs` of them; use `has` before an optional one
    int inputs;
    tensor_view* out;  ///< `outputs` of them; type undefined: nobody reads this output
    int outputs;
    const graft::limits& limit;

    bool has(int i) const noexcept { return i < inputs && in[i].type != dtype::undefined; }
    bool wants(int i) const noexcept { return i < outputs && n.outputs[static_cast<std::size_t>(i)] != no_value; }
    int version() const noexcept { return n.version; }
    bool has_attribute(const char* name) const noexcept { return n.find(name) != nullptr; }
    std::int64_t integer(const char* name, std::int64_t otherwise) const noexcept;
    float real(const char* name, float otherwise) const noexcept;
    /// The text, or `otherwise`; lives as long as the node.
    const char* string(const char* name, const char* otherwise) const noexcept;
    bool is(const char* name, const char* wanted_text, const char* otherwise) const noexcept;
    /// Empty where the attribute is not there.
    integer_list integers(const char* name) const noexcept;

    /// Fails with this node as the location; `text` may hold up to three %lld, filled by a, b and c.
    status fail(errc code, const char* text, std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0) const;
    /// Fails with op.shape, and tells the shapes of all inputs after the text.
    status fail_shapes(const char* text) const;
    /// Resolves a possibly negative axis into [0, rank), or [0, rank] where `past_end`; else op.attribute.
    status axis(std::int64_t given, int rank, int& resolved, bool past_end = false) const;
};

/// Shape inference. All input shapes are known. Contents are known where `in[i].data` is not null (or the tensor is empty).
struct infer_context : op_context {
    bool deferred = false;  ///< set by `defer`: the outputs cannot be known before the contents are; those that were set may have open extents

    /// Whether the contents of input i are there to be read; if not, `return c.defer()`.
    bool knows(int i) const noexcept { return in[i].data != nullptr || in[i].elements() == 0; }
    status defer() noexcept {
        deferred = true;
        return {};
    }
    status set(int i, dtype type, const shape& extents) {
        if (i < outputs) out[i].type = type, out[i].extents = extents;
        return {};
    }
};

/// Runs the body of If, Loop or Scan: made by the executor.
class subgraph_runner {
public:
    inline virtual ~subgraph_runner() {}
    /// Runs `body` on inputs in its order; `outputs` gets one tensor an output.
    inline virtual status run(const graph& body, const tensor_view* inputs, int count, std::vector<tensor>& outputs) = 0;
};

/// Scratch memory that a caller keeps from run to run, so that a planned run allocates nothing. For one thread.
struct scratch_store {
    std::vector<buffer> kept;
    result<buffer> take(std::size_t bytes, const std::shared_ptr<memory_budget>& budget);
};

/// Execution by the reference kernel. Inputs are row-major, outputs are allocated as inference said, and never overlap the inputs;
/// an operator with `op_flag::allocates` makes its outputs itself by `allocate`.
struct run_context : op_context {
    executor& pool;
    subgraph_runner* bodies;                          ///< for operators with bodies only
    std::vector<tensor>* made;                        ///< outputs of an operator that allocates
    std::uint64_t seed;                               ///< of random operators without a seed of their own; differs from node to node
    scratch_store* store = nullptr;                   ///< where scratch memory comes from; null: allocated anew
    std::shared_ptr<memory_budget> budget = nullptr;  ///< what all that it allocates counts against
    communicator* group = nullptr;                    ///< the members of the run, where there are several

    /// Makes output i; `out[i].data` is its memory then.
    status allocate(int i, dtype type, const shape& extents);
    /// Scratch memory for the length of the call, 64-byte aligned. From the calling thread only.
    result<buffer> scratch(std::int64_t bytes) const;
};

/// "node 'conv1' (Conv)", the location in an error about a node.
inline GRAFT_COLD std::string location(const node& n) {
    std::string where = n.name.empty() ? std::string("node") : "node '" + n.name + "'";
    return where + " (" + (n.domain.empty() ? "" : n.domain + ".") + n.op_type + ")";
}

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstring>
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::int64_t op_context::integer(const char* name, std::int64_t otherwise) const noexcept {
    const attribute* a = n.find(name);
    return a ? a->integer : otherwise;
}
GRAFT_INLINE float op_context::real(const char* name, float otherwise) const noexcept {
    const attribute* a = n.find(name);
    return a ? a->real : otherwise;
}
GRAFT_INLINE const char* op_context::string(const char* name, const char* otherwise) const noexcept {
    const attribute* a = n.find(name);
    return a ? a->string.c_str() : otherwise;
}
GRAFT_INLINE bool op_context::is(const char* name, const char* wanted_text, const char* otherwise) const noexcept {
    return std::strcmp(string(name, otherwise), wanted_text) == 0;
}
GRAFT_INLINE integer_list op_context::integers(const char* name) const noexcept {
    const attribute* a = n.find(name);
    if (!a) return {};
    return {a->integers.data(), static_cast<int>(a->integers.size())};
}

GRAFT_INLINE GRAFT_COLD status op_context::fail(errc code, const char* text, std::int64_t a, std::int64_t b, std::int64_t c) const {
    char detail[400];
    std::snprintf(detail, sizeof detail, text, static_cast<long long>(a), static_cast<long long>(b), static_cast<long long>(c));
    return graft::fail(code, location(n), detail);
}
GRAFT_INLINE GRAFT_COLD status op_context::fail_shapes(const char* what) const {
    std::string detail = std::string(what) + "; inputs:";
    for (int i = 0; i < inputs && i < 8; ++i) detail += has(i) ? std::string(" ") + graft::name(in[i].type) + graft::text(in[i].extents) : " -";
    return graft::fail(errc::op_shape, location(n), detail);
}
GRAFT_INLINE status op_context::axis(std::int64_t given, int rank, int& resolved, bool past_end) const {
    const std::int64_t a = given < 0 ? given + rank + (past_end ? 1 : 0) : given;
    if (a < 0 || a > rank || (a == rank && !past_end)) return fail(errc::op_attribute, "axis %lld is out of range for rank %lld", given, rank);
    resolved = static_cast<int>(a);
    return {};
}
GRAFT_INLINE GRAFT_COLD status run_context::allocate(int i, dtype type, const shape& extents) {
    const std::int64_t bytes = bytes_of(type, extents);
    if (bytes < 0 || bytes > limit.memory_bytes)
        return fail(errc::memory_budget, "output %lld would take %lld bytes, over the limit of %lld", i, bytes, limit.memory_bytes);
    auto t = tensor::make(type, extents, budget);
    if (!t.ok() && t.error().code() == errc::memory_budget)
        return fail(errc::memory_budget, "output %lld would take %lld bytes more, over the limit of %lld in all", i, bytes, limit.memory_bytes);
    if (!t.ok()) return t.take_status();
    out[i] = graft::view(*t);
    (*made)[static_cast<std::size_t>(i)] = std::move(t).value();
    return {};
}
GRAFT_INLINE result<buffer> run_context::scratch(std::int64_t bytes) const {
    if (bytes < 0 || bytes > limit.memory_bytes)
        return fail(errc::memory_budget, "%lld bytes of scratch memory are over the limit of %lld", bytes, limit.memory_bytes);
    return store ? store->take(static_cast<std::size_t>(bytes), budget) : buffer::allocate(static_cast<std::size_t>(bytes), budget);
}
GRAFT_INLINE result<buffer> scratch_store::take(std::size_t bytes, const std::shared_ptr<memory_budget>& budget) {
    buffer* best = nullptr;  // the smallest that is large enough and in nobody's hands, else the largest that is free
    for (buffer& b : kept) {
        if (!b.unique()) continue;
        const bool fits = b.bytes() >= bytes;
        if (!best || (fits ? best->bytes() < bytes || b.bytes() < best->bytes() : best->bytes() < bytes && b.bytes() > best->bytes())) best = &b;
    }
    if (best && best->bytes() >= bytes) return *best;
    buffer made;
    if (best) *best = buffer();  // given back before more is asked for
    GRAFT_TRY_ASSIGN(made, buffer::allocate(bytes, budget));
    if (best)
        *best = made;
    else
        kept.push_back(made);
    return made;
}

GRAFT_END_NAMESPACE
#endif
