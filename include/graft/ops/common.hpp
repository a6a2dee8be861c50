// What the operator families share: checks of types, broadcasting, and the block loops of element-wise reference kernels.
#pragma once

#include "../core/wanted.hpp"
#include "../graph/op.hpp"
#include "../tensor/convert.hpp"
#include "batch_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Multiply-adds where each element of output 0 is a sum over what lies behind the first axis of input i: convolutions.
inline std::int64_t filtered_work(const op_context& c, int i) {
    if (!c.has(i) || !c.in[i].extents.rank()) return 0;
    const shape& w = c.in[i].extents;
    return checked_mul(elements_of(c.out[0].extents), w.product(1, w.rank()));
}
/// Multiply-adds of a matrix product, each element of output 0 a sum along the last axis of input 0.
inline std::int64_t matmul_work(const op_context& c) {
    return c.has(1) && c.in[0].extents.rank() ? checked_mul(elements_of(c.out[0].extents), c.in[0].extents.back()) : 0;
}

/// Begins the row of an operator of ONNX, or of a domain that files may hold; builds that do not want it leave its functions out.
constexpr make_op onnx(const char* name, const char* domain = "") { return make_op(name, domain, wanted(name)); }
/// Begins the row of an operator of the domain `graft`, which only lowering and training make.
constexpr make_op own(const char* name) { return make_op(name, "graft"); }

// Elements that a reference kernel converts at a time.
constexpr int block_size = 512;

// Classes of element types, to be added up into what an operator accepts.
struct accept {
    static constexpr unsigned real = 1;              // float32, float64, float16, bfloat16
    static constexpr unsigned signed_integer = 2;    // of 8 bits and more
    static constexpr unsigned unsigned_integer = 4;  // of 8 bits and more
    static constexpr unsigned boolean = 8;
    static constexpr unsigned small = 16;  // floats of 8 bits and less, integers of 4 bits and less
    static constexpr unsigned integer = 6, number = 7, any = 31;
};

inline unsigned type_class(dtype type) noexcept {
    switch (type) {
    case dtype::float32:
    case dtype::float64:
    case dtype::float16:
    case dtype::bfloat16: return accept::real;
    case dtype::int8:
    case dtype::int16:
    case dtype::int32:
    case dtype::int64: return accept::signed_integer;
    case dtype::uint8:
    case dtype::uint16:
    case dtype::uint32:
    case dtype::uint64: return accept::unsigned_integer;
    case dtype::boolean: return accept::boolean;
    default: return size_of(type) ? accept::small : 0;
    }
}

/// Whether the type is one of ONNX's arithmetic floats: float16, bfloat16, float32, float64.
inline bool is_arithmetic_float(dtype type) noexcept { return type_class(type) == accept::real; }
/// Whether the type is an integer of 8 bits.
inline bool is_byte(dtype type) noexcept { return type == dtype::uint8 || type == dtype::int8; }

// What inputs have to be is asked by functions named check_*: each fails with the node as the location, and with types by their names.
GRAFT_COLD inline status refuse_type(const op_context& c, int i, const char* wanted_types = nullptr) {
    const std::string input = "input " + std::to_string(i);
    return fail(errc::op_type, location(c.n),
                wanted_types ? input + " must be " + wanted_types + ", not " + name(c.in[i].type) : input + " may not be of type " + name(c.in[i].type));
}
GRAFT_COLD inline status refuse_pair(const op_context& c, int i, int j) {
    char detail[120];
    std::snprintf(detail, sizeof detail, "inputs %d and %d must be of one type, not %s and %s", i, j, name(c.in[i].type), name(c.in[j].type));
    return fail(errc::op_type, location(c.n), detail);
}
// `text` has a %s for the name of the type that the number stands for, or for the number where it stands for none.
GRAFT_COLD inline status refuse_type_number(const op_context& c, errc code, const char* text, std::int64_t number) {
    char detail[120];
    std::snprintf(detail, sizeof detail, text, number > 0 && number <= 26 ? name(static_cast<dtype>(number)) : std::to_string(number).c_str());
    return fail(code, location(c.n), detail);
}
/// Fails with op.type unless input i is there and of one of the accepted classes.
inline status check_type(const op_context& c, int i, unsigned accepted) {
    if (c.has(i) && (type_class(c.in[i].type) & accepted)) return {};
    return refuse_type(c, i, accepted == accept::real ? "float16, bfloat16, float32 or float64" : nullptr);
}
/// Fails with op.type unless input i is there and an arithmetic float.
GRAFT_NOINLINE inline status check_real(const op_context& c, int i) { return check_type(c, i, accept::real); }
/// Fails with op.type unless input i is int64, or int32 where that is allowed.
GRAFT_NOINLINE inline status check_index_type(const op_context& c, int i, bool int32_too) {
    if (c.in[i].type == dtype::int64 || (int32_too && c.in[i].type == dtype::int32)) return {};
    return refuse_type(c, i, int32_too ? "int64 or int32" : "int64");
}
/// Fails with op.type unless input i is int8 or uint8.
inline status check_byte(const op_context& c, int i) { return is_byte(c.in[i].type) ? status() : refuse_type(c, i, "int8 or uint8"); }
/// Fails with op.unsupported unless a tensor can hold the elements of input i.
GRAFT_NOINLINE inline status check_any_type(const op_context& c, int i) {
    if (!size_of(c.in[i].type)) return c.fail(errc::op_unsupported, "input %lld has strings or complex numbers, which are not supported", i);
    return {};
}
/// Fails with op.type unless input i is an integer of 32 bits or more, or an arithmetic float: ONNX sums and multiplies no smaller integers.
inline status check_wide_number(const op_context& c, int i) {
    if (c.has(i) && ((type_class(c.in[i].type) & accept::real) || ((type_class(c.in[i].type) & accept::integer) && size_of(c.in[i].type) >= 4))) return {};
    return refuse_type(c, i);
}
/// Fails with op.type unless inputs i, where given, and j are of one type.
GRAFT_NOINLINE inline status check_same_type(const op_context& c, int i, int j) {
    return !c.has(i) || c.in[i].type == c.in[j].type ? status() : refuse_pair(c, i, j);
}
/// Fails with op.shape unless input i, where given, has one element.
inline status check_scalar(const op_context& c, int i) {
    return !c.has(i) || elements_of(c.in[i].extents) == 1 ? status() : c.fail(errc::op_shape, "input %lld must have one element", i);
}
/// Fails with op.type or op.shape unless input i is one element of that type.
inline status check_scalar(const op_context& c, int i, dtype type) { return c.in[i].type == type ? check_scalar(c, i) : refuse_type(c, i, name(type)); }
/// Fails with op.shape unless input i, where given, is a vector of `n` elements.
inline status check_vector(const op_context& c, int i, std::int64_t n) {
    if (!c.has(i) || (c.in[i].extents.rank() == 1 && c.in[i].extents[0] == n)) return {};
    return c.fail(errc::op_shape, "input %lld must be a vector of %lld elements, but has %lld", i, n, c.in[i].elements());
}
/// The element type that an integer attribute names; op.type where it is not in `accepted`, op.unsupported where no tensor holds
/// it.
inline status type_attribute(const op_context& c, const char* attribute_name, dtype otherwise, unsigned accepted, dtype& type) {
    const std::int64_t number = c.integer(attribute_name, static_cast<std::int64_t>(otherwise));
    type = number > 0 && number < 64 ? static_cast<dtype>(number) : dtype::undefined;
    if (!size_of(type)) return refuse_type_number(c, errc::op_unsupported, "element type %s is not supported", number);
    if (!(type_class(type) & accepted)) return refuse_type_number(c, errc::op_type, "element type %s is not allowed here", number);
    return {};
}

// Inference of operators with one input whose output has its type and shape.
inline status same_infer(infer_context& c, unsigned accepted) {
    GRAFT_TRY(check_type(c, 0, accepted));
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status real_infer(infer_context& c) { return same_infer(c, accept::real); }
inline status number_infer(infer_context& c) { return same_infer(c, accept::number); }
inline status any_infer(infer_context& c) { return same_infer(c, accept::any); }

/// The shape that `a` and `b` are broadcast to (numpy's rules); false if they do not fit.
inline bool broadcast(const shape& a, const shape& b, shape& out) noexcept {
    const int rank = std::max(a.rank(), b.rank());
    shape s = shape::filled(rank, 1);
    for (int i = 0; i < rank; ++i) {
        const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
        const std::int64_t ea = ia < 0 ? 1 : a[ia], eb = ib < 0 ? 1 : b[ib];
        if (ea != eb && ea != 1 && eb != 1) return false;
        s[i] = ea == 1 ? eb : ea;
    }
    out = s;
    return true;
}
/// The shape that all inputs are broadcast to, or op.shape.
inline status broadcast_inputs(const op_context& c, shape& out) {
    out = c.in[0].extents;
    for (int i = 1; i < c.inputs; ++i)
        if (!broadcast(out, c.in[i].extents, out)) return c.fail_shapes("the inputs cannot be broadcast together");
    return {};
}
/// Whether `x` can be broadcast to `out` without changing `out`.
inline bool broadcasts_to(const shape& x, const shape& out) noexcept {
    shape both;
    return broadcast(x, out, both) && both == out;
}

/// Shapes of a binary operator: `second` is input 1's, with the ones behind it that `axis` of opset 1 to 6 asks for.
inline GRAFT_COLD status binary_shapes(const op_context& c, shape& second, shape& out) {
    const shape& a = c.in[0].extents;
    second = c.in[1].extents;
    if (c.version() >= 7) return broadcast_inputs(c, out);
    out = a;
    if (second == a) return {};
    if (!c.integer("broadcast", 0)) return c.fail_shapes("before opset 7, shapes must be equal unless 'broadcast' is set");
    int axis = a.rank() - second.rank();
    if (c.has_attribute("axis")) GRAFT_TRY(c.axis(c.integer("axis", 0), a.rank(), axis));
    if (axis < 0 || axis + second.rank() > a.rank()) return c.fail_shapes("the second input does not fit into the first at 'axis'");
    for (int behind = a.rank() - axis - second.rank(); behind > 0; --behind) second.push_back(1);
    return broadcasts_to(second, a) ? status() : c.fail_shapes("the second input cannot be broadcast to the first");
}

// A row-major operand seen with the shape of a result: dimensions that step alike are joined, so the last stride is 0 or 1.
struct broadcast_operand {
    dtype type = dtype::undefined;
    const void* data = nullptr;
    int rank = 0;
    std::int64_t extents[shape::max_rank], strides[shape::max_rank];
};
inline broadcast_operand broadcast_to(const tensor_view& x, const shape& aligned, const shape& out) noexcept {
    broadcast_operand o;
    o.type = x.type;
    o.data = x.data;
    std::int64_t strides[shape::max_rank], step = 1;
    for (int i = out.rank() - 1, j = aligned.rank() - 1; i >= 0; --i, --j) {
        const std::int64_t extent = j < 0 ? 1 : aligned[j];
        strides[i] = extent == 1 ? 0 : step;
        step *= extent;
    }
    for (int i = 0; i < out.rank(); ++i) {
        if (out[i] == 1) continue;
        if (o.rank && o.strides[o.rank - 1] == strides[i] * out[i]) {
            o.extents[o.rank - 1] *= out[i];
            o.strides[o.rank - 1] = strides[i];
        } else {
            o.extents[o.rank] = out[i];
            o.strides[o.rank++] = strides[i];
        }
    }
    if (!o.rank) o.extents[0] = 1, o.strides[0] = 0, o.rank = 1;
    return o;
}
inline broadcast_operand broadcast_to(const tensor_view& x, const shape& out) noexcept { return broadcast_to(x, x.extents, out); }

// Calls f(offset, stride, count, at) for the runs that make up elements [first, first + n) of the result; `at` counts from 0.
template <class F>
inline void for_runs(const broadcast_operand& o, std::int64_t first, std::int64_t n, const F& f) {
    std::int64_t index[shape::max_rank], offset = 0;
    for (int i = o.rank - 1; i >= 0; --i) {
        index[i] = first % o.extents[i];
        first /= o.extents[i];
        offset += index[i] * o.strides[i];
    }
    const int last = o.rank - 1;
    for (std::int64_t at = 0; at < n;) {
        const std::int64_t run = std::min(n - at, o.extents[last] - index[last]);
        f(offset, o.strides[last], run, at);
        at += run;
        index[last] += run;
        offset += run * o.strides[last];
        for (int i = last; i > 0 && index[i] == o.extents[i]; --i) {
            offset += o.strides[i - 1] - index[i] * o.strides[i];
            index[i] = 0;
            ++index[i - 1];
        }
    }
}
GRAFT_NOINLINE inline void load_as_double(const broadcast_operand& o, std::int64_t first, std::int64_t n, double* to) noexcept {
    for_runs(o, first, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t run, std::int64_t at) {
        graft::load_as_double(o.type, o.data, offset, stride ? run : 1, to + at);
        if (!stride) std::fill(to + at + 1, to + at + run, to[at]);
    });
}
GRAFT_NOINLINE inline void load_as_int64(const broadcast_operand& o, std::int64_t first, std::int64_t n, std::int64_t* to) noexcept {
    for_runs(o, first, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t run, std::int64_t at) {
        graft::load_as_int64(o.type, o.data, offset, stride ? run : 1, to + at);
        if (!stride) std::fill(to + at + 1, to + at + run, to[at]);
    });
}
// Offsets in elements, for operators that copy without looking at the type.
GRAFT_NOINLINE inline void load_offsets(const broadcast_operand& o, std::int64_t first, std::int64_t n, std::int64_t* to) noexcept {
    for_runs(o, first, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t run, std::int64_t at) {
        for (std::int64_t i = 0; i < run; ++i) to[at + i] = offset + i * stride;
    });
}

/// Calls f(first, n) for blocks of at most `block_size` elements that cover [0, total), on the threads of `pool`.
template <class F>
inline void for_blocks(executor& pool, std::int64_t total, const F& f) {
    parallel_for_pieces(pool, total, 32 * block_size, [&](std::int64_t first, std::int64_t count) {
        for (const std::int64_t end = first + count; first < end; first += block_size)
            f(first, static_cast<int>(std::min<std::int64_t>(block_size, end - first)));
    });
}

// What element functions are told besides the elements: attributes of the operator, and the type of its first input.
struct element_parameters {
    double a = 0, b = 0;
    std::int64_t k = 0, m = 0;
    dtype type = dtype::undefined;
    bool unsigned64 = false;  // the 64-bit integers are to be read as unsigned
    int bits = 0;             // of the type
};
// Element functions: the result takes the place of `x`; y is the second operand.
using real_function = void (*)(double* x, int n, const element_parameters& p);
using integer_function = void (*)(std::int64_t* x, int n, const element_parameters& p);
using real_function2 = void (*)(double* x, const double* y, int n, const element_parameters& p);
using integer_function2 = void (*)(std::int64_t* x, const std::int64_t* y, int n, const element_parameters& p);

inline void describe_type(element_parameters& p, dtype type) noexcept {
    p.type = type;
    p.unsigned64 = type == dtype::uint64;
    p.bits = static_cast<int>(file_bits(type));
}
// a < b of 64-bit integers, as the type reads them.
inline bool less(std::int64_t a, std::int64_t b, bool unsigned64) noexcept {
    return unsigned64 ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
}
// Sums and products that wrap.
inline std::int64_t wrapping_add(std::int64_t a, std::int64_t b) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapping_sub(std::int64_t a, std::int64_t b) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// out[0] = f(in[0]), element by element. Types that are not floats go through `whole` where there is one, else through doubles.
GRAFT_NOINLINE inline status unary_elementwise(run_context& c, real_function real, integer_function whole, element_parameters p = {}) {
    const tensor_view x = c.in[0], y = c.out[0];
    describe_type(p, x.type);
    const bool integers = whole && !is_float(x.type);
    for_blocks(c.pool, y.elements(), [&](std::int64_t first, int n) {
        if (integers) {
            std::int64_t block[block_size];
            graft::load_as_int64(x.type, x.data, first, n, block);
            whole(block, n, p);
            store_from_int64(y.type, y.data, first, n, block);
        } else {
            double block[block_size];
            graft::load_as_double(x.type, x.data, first, n, block);
            real(block, n, p);
            store_from_double(y.type, y.data, first, n, block);
        }
    });
    return {};
}

/// out[0] = f(in[0], in[1]) with broadcasting; `second` is the shape of input 1 as `binary_shapes` aligned it.
GRAFT_NOINLINE inline status binary_elementwise(run_context& c, const shape& second, real_function2 real, integer_function2 whole, element_parameters p = {}) {
    const tensor_view y = c.out[0];
    const broadcast_operand a = broadcast_to(c.in[0], y.extents), b = broadcast_to(c.in[1], second, y.extents);
    describe_type(p, c.in[0].type);
    const bool integers = whole && !is_float(a.type) && !is_float(b.type);
    for_blocks(c.pool, y.elements(), [&](std::int64_t first, int n) {
        if (integers) {
            std::int64_t block[block_size], other[block_size];
            load_as_int64(a, first, n, block);
            load_as_int64(b, first, n, other);
            whole(block, other, n, p);
            store_from_int64(y.type, y.data, first, n, block);
        } else {
            double block[block_size], other[block_size];
            load_as_double(a, first, n, block);
            load_as_double(b, first, n, other);
            real(block, other, n, p);
            store_from_double(y.type, y.data, first, n, block);
        }
    });
    return {};
}

/// Fills `n` elements of `size` bytes with the one at `value`.
inline void fill_elements(void* data, std::int64_t n, std::size_t size, const void* value) noexcept {
    auto* p = static_cast<unsigned char*>(data);
    if (size == 1) {
        if (n > 0) std::memset(p, *static_cast<const unsigned char*>(value), static_cast<std::size_t>(n));
        return;
    }
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(p + static_cast<std::size_t>(i) * size, value, size);
}
/// Copies input i to output o; both have as many bytes.
inline status copy_input(run_context& c, int i = 0, int o = 0) {
    const std::int64_t bytes = bytes_of(c.in[i].type, c.in[i].extents);
    if (bytes > 0) std::memcpy(c.out[o].data, c.in[i].data, static_cast<std::size_t>(bytes));
    return {};
}

// A tensor cut at an axis: element (o, k, j) is at (o * n + k) * inner + j.
struct axis_split {
    std::int64_t outer = 1, n = 1, inner = 1;
};
inline axis_split split_at(const shape& s, int axis) noexcept { return {s.product(0, axis), s[axis], s.product(axis + 1, s.rank())}; }

}  // namespace ops
GRAFT_END_NAMESPACE
