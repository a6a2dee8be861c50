// Tensors made from little: Constant, ConstantOfShape, Range, EyeLike, OneHot, Shape, Size.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Constant-1,9,11,12,13,19,21,23,24,25: y = the value that the one attribute holds; not of sparse tensors and strings
inline status constant_infer(infer_context& c) {
    if (c.n.attributes.size() != 1)
        return c.fail(errc::op_attribute, "there must be one attribute, not %lld", static_cast<std::int64_t>(c.n.attributes.size()));
    const attribute& a = c.n.attributes[0];
    switch (a.kind) {
    case attribute_kind::tensor:
        if (!size_of(a.tensor.type()))
            return refuse_type_number(c, errc::op_unsupported, "element type %s is not supported", static_cast<std::int64_t>(a.tensor.type()));
        return c.set(0, a.tensor.type(), a.tensor.shape());
    case attribute_kind::real: return c.set(0, dtype::float32, {});
    case attribute_kind::integer: return c.set(0, dtype::int64, {});
    case attribute_kind::reals: return c.set(0, dtype::float32, {static_cast<std::int64_t>(a.reals.size())});
    case attribute_kind::integers: return c.set(0, dtype::int64, {static_cast<std::int64_t>(a.integers.size())});
    default: return c.fail(errc::op_unsupported, "only dense tensors of numbers are supported");
    }
}
inline status constant_run(run_context& c) {
    const attribute& a = c.n.attributes[0];
    const void* from = a.kind == attribute_kind::tensor    ? static_cast<const void*>(a.tensor.storage().unaligned())
                       : a.kind == attribute_kind::real    ? static_cast<const void*>(&a.real)
                       : a.kind == attribute_kind::integer ? static_cast<const void*>(&a.integer)
                       : a.kind == attribute_kind::reals   ? static_cast<const void*>(a.reals.data())
                                                           : static_cast<const void*>(a.integers.data());
    const std::int64_t bytes = bytes_of(c.out[0].type, c.out[0].extents);
    if (bytes > 0) std::memcpy(c.out[0].data, from, static_cast<std::size_t>(bytes));
    return {};
}

// A shape that an input of one dimension gives: extents must be >= 0 and at most 16.
inline status shape_from(const op_context& c, int i, shape& s) {
    const tensor_view& v = c.in[i];
    if (v.extents.rank() != 1) return c.fail(errc::op_shape, "a shape must have one dimension, not %lld", v.extents.rank());
    if (v.extents[0] > shape::max_rank) return c.fail(errc::op_shape, "a shape may have %lld dimensions at most, not %lld", shape::max_rank, v.extents[0]);
    s = {};
    for (std::int64_t k = 0; k < v.extents[0]; ++k) {
        const std::int64_t extent = v.integer(k);
        if (extent < 0) return c.fail(errc::op_value, "extent %lld of the shape is negative", extent);
        s.push_back(extent);
    }
    return {};
}

// ConstantOfShape-9,20,21,23,24,25: y = the one element of `value` (default: float 0) everywhere, in the shape that the input
// gives
inline status constant_of_shape_infer(infer_context& c) {
    if (c.in[0].type != dtype::int64) return refuse_type(c, 0);
    const attribute* value = c.n.find("value");
    if (value && (value->tensor.elements() != 1 || value->tensor.shape().rank() != 1 || !size_of(value->tensor.type())))
        return c.fail(errc::op_attribute, "value must be a vector of one element");
    if (!c.knows(0)) return c.defer();
    shape out;
    GRAFT_TRY(shape_from(c, 0, out));
    return c.set(0, value ? value->tensor.type() : dtype::float32, out);
}
inline status constant_of_shape_run(run_context& c) {
    const attribute* value = c.n.find("value");
    const float zero = 0;
    fill_elements(c.out[0].data, c.out[0].elements(), size_of(c.out[0].type), value ? static_cast<const void*>(value->tensor.raw()) : &zero);
    return {};
}

// Range-11,27: y[i] = start + i * delta, for i below ceil((limit - start) / delta)
inline status range_count(const op_context& c, std::int64_t& count) {
    count = 0;
    if (is_float(c.in[0].type)) {
        const double start = c.in[0].real(0), limit = c.in[1].real(0), delta = c.in[2].real(0), n = std::ceil((limit - start) / delta);
        if (delta == 0 || !std::isfinite(n) || n > 9007199254740992.0) return c.fail(errc::op_value, "the range does not end");
        count = n > 0 ? static_cast<std::int64_t>(n) : 0;
        return {};
    }
    const std::int64_t start = c.in[0].integer(0), limit = c.in[1].integer(0), delta = c.in[2].integer(0);
    if (delta == 0) return c.fail(errc::op_value, "delta must not be zero");
    if (delta > 0 ? limit <= start : limit >= start) return {};
    const std::uint64_t span = delta > 0 ? static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(start)
                                         : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(limit);
    const std::uint64_t step = delta > 0 ? static_cast<std::uint64_t>(delta) : 0 - static_cast<std::uint64_t>(delta), n = (span - 1) / step + 1;
    if (n > static_cast<std::uint64_t>(INT64_MAX)) return c.fail(errc::op_value, "the range is too long");
    count = static_cast<std::int64_t>(n);
    return {};
}
inline status range_infer(infer_context& c) {
    GRAFT_TRY(check_type(c, 0, accept::number));
    for (int i = 0; i < 3; ++i) {
        GRAFT_TRY(check_same_type(c, 0, i));
        GRAFT_TRY(check_scalar(c, i));
    }
    const std::int64_t stash = c.integer("stash_type", 1);
    if (stash != 1 && stash != 11 && stash != 10 && stash != 16)
        return refuse_type_number(c, errc::op_attribute, "stash_type %s is no arithmetic float", stash);
    if (!c.knows(0) || !c.knows(1) || !c.knows(2)) return c.defer();
    std::int64_t count = 0;
    GRAFT_TRY(range_count(c, count));
    return c.set(0, c.in[0].type, {count});
}
inline status range_run(run_context& c) {
    const tensor_view y = c.out[0];
    const bool real = is_float(y.type);
    const double start = c.in[0].real(0), delta = c.in[2].real(0);
    const std::int64_t whole_start = c.in[0].integer(0), whole_delta = c.in[2].integer(0);
    for_blocks(c.pool, y.elements(), [&](std::int64_t first, int n) {
        double block[block_size];
        std::int64_t whole[block_size];
        for (int i = 0; i < n; ++i) {
            block[i] = start + static_cast<double>(first + i) * delta;
            whole[i] = wrapping_add(whole_start, wrapping_mul(first + i, whole_delta));
        }
        if (real)
            store_from_double(y.type, y.data, first, n, block);
        else
            store_from_int64(y.type, y.data, first, n, whole);
    });
    return {};
}

// EyeLike-9,22: y[i, j] = 1 where j = i + k, else 0, in the shape of the input
inline status eye_like_infer(infer_context& c) {
    dtype type = dtype::undefined;
    GRAFT_TRY(check_type(c, 0, accept::number | accept::boolean));
    if (c.in[0].extents.rank() != 2) return c.fail(errc::op_shape, "the input must have two dimensions, not %lld", c.in[0].extents.rank());
    GRAFT_TRY(type_attribute(c, "dtype", c.in[0].type, accept::number | accept::boolean, type));
    return c.set(0, type, c.in[0].extents);
}
inline status eye_like_run(run_context& c) {
    const tensor_view y = c.out[0];
    const std::int64_t k = c.integer("k", 0), height = y.extents[0], width = y.extents[1], one = 1;
    const std::int64_t bytes = bytes_of(y.type, y.extents);
    if (bytes <= 0) return {};
    std::memset(y.data, 0, static_cast<std::size_t>(bytes));
    if (k >= width || k <= -height) return {};
    for (std::int64_t i = 0; i < height; ++i)
        if (i + k >= 0 && i + k < width) store_from_int64(y.type, y.data, i * width + i + k, 1, &one);
    return {};
}

// OneHot-9,11,28: y is off everywhere but on at the places that the indices name along a new axis; negative ones count from the
// end, others out of range name none. values = [off, on]
inline status one_hot_infer(infer_context& c) {
    GRAFT_TRY(check_type(c, 0, accept::number));
    GRAFT_TRY(check_type(c, 1, accept::number));
    GRAFT_TRY(check_type(c, 2, accept::any));
    GRAFT_TRY(check_scalar(c, 1));
    if (c.in[2].extents != shape{2}) return c.fail(errc::op_shape, "values must hold two elements");
    shape out = c.in[0].extents;
    int axis = 0;
    if (out.rank() == shape::max_rank) return c.fail(errc::op_shape, "the output would have more than %lld dimensions", shape::max_rank);
    GRAFT_TRY(c.axis(c.integer("axis", -1), out.rank(), axis, true));
    if (!c.knows(1)) return c.defer();
    const std::int64_t depth = c.in[1].integer(0);
    if (depth < 1) return c.fail(errc::op_value, "depth must be at least 1, not %lld", depth);
    out.insert(axis, depth);
    return c.set(0, c.in[2].type, out);
}
inline status one_hot_run(run_context& c) {
    const tensor_view x = c.in[0], y = c.out[0];
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", -1), x.extents.rank(), axis, true));
    if (!y.elements()) return {};
    const std::size_t size = size_of(y.type);
    const auto* values = static_cast<const unsigned char*>(c.in[2].data);
    fill_elements(y.data, y.elements(), size, values);
    const axis_split s = split_at(y.extents, axis);
    for (std::int64_t o = 0; o < s.outer; ++o)
        for (std::int64_t j = 0; j < s.inner; ++j) {
            std::int64_t k = x.integer(o * s.inner + j);
            if (k < 0 && x.type != dtype::uint64) k += s.n;
            if (k < 0 || k >= s.n) continue;
            std::memcpy(y.as<unsigned char>() + static_cast<std::size_t>((o * s.n + k) * s.inner + j) * size, values + size, size);
        }
    return {};
}

// Shape-1,13,15,19,21,23,24,25: y = the extents [start, end) of x, where negative ones count from the end and all are clamped
inline void shape_bounds(const op_context& c, int& first, int& last) {
    const std::int64_t rank = c.in[0].extents.rank();
    std::int64_t start = c.integer("start", 0), end = c.integer("end", rank);
    if (start < 0) start += rank;
    if (end < 0) end += rank;
    first = static_cast<int>(std::min(std::max<std::int64_t>(start, 0), rank));
    last = std::max(first, static_cast<int>(std::min(std::max<std::int64_t>(end, 0), rank)));
}
inline status shape_infer(infer_context& c) {
    int first = 0, last = 0;
    shape_bounds(c, first, last);
    return c.set(0, dtype::int64, {last - first});
}
inline status shape_run(run_context& c) {
    int first = 0, last = 0;
    shape_bounds(c, first, last);
    for (int i = first; i < last; ++i) c.out[0].as<std::int64_t>()[i - first] = c.in[0].extents[i];
    return {};
}

// Size-1,13,19,21,23,24,25: y = the number of elements of x
inline status size_infer(infer_context& c) { return c.set(0, dtype::int64, {}); }
inline status size_run(run_context& c) {
    c.out[0].as<std::int64_t>()[0] = c.in[0].elements();
    return {};
}

inline op_table generate_ops() {
    static constexpr op_row rows[] = {
        onnx("Constant")
            .inputs(0)
            .functions(constant_infer, constant_run)
            .plays(op_role::constant)
            .attributes("sparse_value:t value:t value_float:f value_floats:fs value_int:i value_ints:is value_string:s value_strings:ss")
            .problems("value_float=1.5; value_floats=1,2,3; value_int=-7; value_ints=1,2,3; value_ints="),
        onnx("ConstantOfShape")
            .opsets(9)
            .inputs(1)
            .functions(constant_of_shape_infer, constant_of_shape_run)
            .attributes("value:t")
            .problems("i64{2,3}; i64{0,4}; i64[0]; i64{1}"),
        onnx("Range")
            .opsets(11)
            .inputs(3)
            .functions(range_infer, range_run)
            .attributes("stash_type:i")
            .problems("i64(3) i64(9) i64(3); i32(10) i32(4) i32(-2); f32(0) f32(1) f32(0.1); f64(1) f64(1) f64(1); f16(0) f16(5) f16(2)"),
        onnx("EyeLike")
            .opsets(9)
            .inputs(1)
            .functions(eye_like_infer, eye_like_run)
            .shape_only()
            .attributes("dtype:i k:i")
            .problems("f32[3,4]; i32[4,3] k=1; f32[2,3] k=-1 dtype=11; f32[3,3] k=9; b[0,2]"),
        onnx("OneHot")
            .opsets(9)
            .inputs(3)
            .functions(one_hot_infer, one_hot_run)
            .attributes("axis:i")
            .problems("i64{0,7,-3,99} i64(10) f32{0,1}; i32[2,3]~0:4 i64(4) i64{2,5} axis=1; f32{1,2} f32(3) f16{0,1} axis=0; i64(1) "
                      "i64(3) f32{0,1}; i64[0] i64(2) b{0,1}"),
        onnx("Shape")
            .inputs(1)
            .functions(shape_infer, shape_run)
            .shape_only()
            .attributes("end:i start:i")
            .problems("f32[2,3,4]; f32[2,3,4] start=1; f32[2,3,4] end=-1; f32[2,3] start=5; f32[]; u8[0,4]"),
        onnx("Size").inputs(1).functions(size_infer, size_run).shape_only().problems("f32[2,3,4]; f32[]; u8[0,4]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

// What depends on the shape of its input alone.
inline gradient_table generate_gradients() {
    static constexpr gradient_row rows[] = {{"Shape", "", nullptr}, {"Size", "", nullptr}, {"EyeLike", "", nullptr}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
