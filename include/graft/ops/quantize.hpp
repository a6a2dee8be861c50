// Between real numbers and their quantised forms: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear; and graft.FakeQuantize, which
// training takes for the two.
#pragma once

#include "gradient_common.hpp"
#include "window.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The range of a quantised integer type; false for other types.
inline bool quantized_range(dtype type, double& low, double& high) noexcept {
    switch (type) {
    case dtype::uint8: return low = 0, high = 255, true;
    case dtype::int8: return low = -128, high = 127, true;
    case dtype::uint16: return low = 0, high = 65535, true;
    case dtype::int16: return low = -32768, high = 32767, true;
    case dtype::uint4: return low = 0, high = 15, true;
    case dtype::int4: return low = -8, high = 7, true;
    case dtype::uint2: return low = 0, high = 3, true;
    case dtype::int2: return low = -2, high = 1, true;
    default: return false;
    }
}

/// Whether the type is a float of 8 or 4 bits that values are quantised to.
inline bool is_quantized_float(dtype type) noexcept { return is_float(type) && !is_arithmetic_float(type) && type != dtype::float8e8m0; }

/// Rounds half to even without minding the rounding mode's name: the default one is in force.
inline double round_half_even(double x) noexcept { return std::nearbyint(x); }

/// Saturates a rounded value plus its zero point; NaN becomes the smallest.
inline double saturate(double x, double low, double high) noexcept { return x >= high ? high : x > low ? x : low; }

/// Which element of scale and zero point belongs to which element of the tensor: x is seen as [outer][n][inner], with blocks
/// along n.
struct quantization_layout {
    std::int64_t n = 1, inner = 1, block = 1, blocks = 1;
    bool per_tensor = true, blocked = false;
    std::int64_t j = 0, k = 0, outer = 0;  ///< the element the walk stands at

    std::int64_t parameter() const noexcept {
        if (per_tensor) return 0;
        return blocked ? (outer * blocks + j / block) * inner + k : j;
    }
    void next() noexcept {
        if (++k < inner) return;
        k = 0;
        if (++j < n) return;
        j = 0;
        ++outer;
    }
};

/// Fails with op.type unless input i is float16, bfloat16 or float32: nothing is quantised from or to float64.
inline status check_scale_type(const op_context& c, int i) {
    if (c.in[i].type == dtype::float64) return refuse_type(c, i);
    return check_real(c, i);
}

/// Checks scale (input 1) and zero point (input 2) against the tensor (input 0).
GRAFT_NOINLINE inline status plan_quantization(const op_context& c, quantization_layout& q) {
    const shape &x = c.in[0].extents, &scale = c.in[1].extents;
    if (c.has(2) && c.in[2].extents != scale && !(elements_of(c.in[2].extents) == 1 && elements_of(scale) == 1))
        return c.fail_shapes("scale and zero point must have the same shape");
    const std::int64_t block = c.integer("block_size", 0);
    if (block < 0) return c.fail(errc::op_attribute, "block_size is %lld, but must be at least 1, or 0 for none", block);
    if (scale.rank() == 0 || (elements_of(scale) == 1 && block == 0)) return {};
    int axis = 0;
    GRAFT_TRY(c.axis(c.version() < 13 && c.n.domain.empty() ? 1 : c.integer("axis", 1), x.rank(), axis));
    q.per_tensor = false;
    q.n = x[axis];
    if (elements_of(x) > 0) q.inner = x.product(axis + 1, x.rank());
    if (block == 0) {
        if (scale.rank() != 1 || scale[0] != x[axis]) return c.fail_shapes("scale must be a scalar or a vector with one element for each index of the axis");
        return {};
    }
    q.blocked = true;
    q.block = block;
    q.blocks = x[axis] / block + (x[axis] % block != 0);
    if (scale.rank() != x.rank()) return c.fail_shapes("blocked scale must have the rank of the input");
    for (int i = 0; i < x.rank(); ++i)
        if (scale[i] != (i == axis ? q.blocks : x[i])) return c.fail_shapes("blocked scale must have the input's shape, with one element for each block");
    return {};
}

/// Whether the scales can be computed with: NaN never, 0 only where nothing is divided.
GRAFT_NOINLINE inline status check_scales(const op_context& c, int i, bool divisor) {
    const std::int64_t n = c.in[i].elements();
    for (std::int64_t k = 0; k < n; ++k) {
        const double s = c.in[i].real(k);
        if (!(s == s) || (divisor && s == 0)) return c.fail(errc::op_value, "scale %lld of input %lld is zero or not a number", k, i);
    }
    return {};
}

/// What a run reads of scale (input 1) and zero point (input 2, no data where it is absent). `divisor`: x is divided by the scales.
GRAFT_NOINLINE inline status read_quantization(const run_context& c, bool divisor, quantization_layout& q, widened<double>& scale, widened<double>& zero) {
    GRAFT_TRY(plan_quantization(c, q));
    GRAFT_TRY(check_scales(c, 1, divisor));
    GRAFT_TRY(widen(c, c.in[1], scale));
    return c.has(2) ? widen(c, c.in[2], zero) : status();
}

/// Writes f(x, scale, zero point) of every element.
template <class F>
inline status run_by_quantization(run_context& c, bool divisor, const F& f) {
    if (is_empty(c.out[0])) return {};
    quantization_layout q;
    widened<double> scale, zero;
    GRAFT_TRY(read_quantization(c, divisor, q, scale, zero));
    double x[block_size];
    for (std::int64_t first = 0, n = c.out[0].elements(); first < n; first += block_size) {
        const std::int64_t count = std::min<std::int64_t>(block_size, n - first);
        load_as_double(c.in[0].type, c.in[0].data, first, count, x);
        for (std::int64_t i = 0; i < count; ++i, q.next()) {
            const std::int64_t p = q.parameter();
            x[i] = f(x[i], scale.data[p], zero.data ? zero.data[p] : 0.0);
        }
        store_from_double(c.out[0].type, c.out[0].data, first, count, x);
    }
    return {};
}

// QuantizeLinear-10,13,19,21,23,24,25,28: y = saturate(round_half_even(x / y_scale) + y_zero_point); floats are cast, not rounded
inline status quantize_infer(infer_context& c) {
    quantization_layout q;
    if (c.in[0].type != dtype::int32) GRAFT_TRY(check_scale_type(c, 0));
    const dtype scale = c.in[1].type;
    if (scale != dtype::int32 && scale != dtype::float8e8m0) GRAFT_TRY(check_scale_type(c, 1));
    const std::int64_t wanted_type = c.integer("output_dtype", 0), precision = c.integer("precision", 0);
    if (precision != 0 && precision != 1 && precision != 10 && precision != 16 && precision != 11)
        return refuse_type_number(c, errc::op_attribute, "precision %s is no arithmetic float", precision);
    if (wanted_type < 0 || wanted_type > 26) return c.fail(errc::op_unsupported, "quantizing to element type %lld", wanted_type);
    dtype type = c.has(2) ? c.in[2].type : wanted_type ? static_cast<dtype>(wanted_type) : dtype::uint8;
    if (c.has(2) && wanted_type && static_cast<dtype>(wanted_type) != type)
        return refuse_type_number(c, errc::op_attribute, "output_dtype %s differs from the zero point's type", wanted_type);
    double low, high;
    if (!quantized_range(type, low, high) && !is_quantized_float(type))
        return refuse_type_number(c, errc::op_type, "element type %s is no quantized type", static_cast<int>(type));
    GRAFT_TRY(plan_quantization(c, q));
    return c.set(0, type, c.in[0].extents);
}
inline status quantize_run(run_context& c) {
    if (is_empty(c.out[0])) return {};
    quantization_layout q;
    widened<double> scale, zero;
    GRAFT_TRY(read_quantization(c, true, q, scale, zero));
    dtype precision = static_cast<dtype>(c.integer("precision", 0));
    if (precision == dtype::undefined) precision = is_arithmetic_float(c.in[1].type) ? c.in[1].type : is_float(c.in[0].type) ? c.in[0].type : dtype::float32;
    const bool cast_operands = c.integer("precision", 0) != 0;
    const dtype type = c.out[0].type;
    const bool saturating = c.integer("saturate", 1) != 0;
    double low = 0, high = 0;
    const bool integer = quantized_range(type, low, high);
    constexpr std::int64_t block = 512;
    double x[block];
    const std::int64_t n = c.out[0].elements();
    for (std::int64_t first = 0; first < n; first += block) {
        const std::int64_t count = std::min(block, n - first);
        load_as_double(c.in[0].type, c.in[0].data, first, count, x);
        for (std::int64_t i = 0; i < count; ++i, q.next()) {
            const std::int64_t p = q.parameter();
            const double divisor = cast_operands ? round_to(precision, scale.data[p]) : scale.data[p];
            const double y = round_to(precision, (cast_operands ? round_to(precision, x[i]) : x[i]) / divisor), z = zero.data ? zero.data[p] : 0.0;
            x[i] = integer ? saturate(round_half_even(y) + z, low, high) : type == dtype::float4e2m1 ? y + z : y;
            if (!integer && !saturating) static_cast<std::uint8_t*>(c.out[0].data)[first + i] = double_to_small_float(type, x[i], false);
        }
        if (integer || saturating) store_from_double(type, c.out[0].data, first, count, x);
    }
    return {};
}

// DequantizeLinear-10,13,19,21,23,24,25,28: y = (x - x_zero_point) * x_scale
inline status dequantize_infer(infer_context& c) {
    quantization_layout q;
    double low, high;
    const dtype type = c.in[0].type;
    if (type != dtype::int32 && !quantized_range(type, low, high) && !is_quantized_float(type))
        return refuse_type_number(c, errc::op_type, "element type %s is no quantized type", static_cast<int>(type));
    if (c.in[1].type != dtype::float8e8m0) GRAFT_TRY(check_scale_type(c, 1));
    GRAFT_TRY(check_same_type(c, 2, 0));
    const std::int64_t wanted_type = c.integer("output_dtype", 0);
    const dtype out = wanted_type == 1 || wanted_type == 10 || wanted_type == 11 || wanted_type == 16 ? static_cast<dtype>(wanted_type)
                      : c.in[1].type == dtype::float8e8m0                                             ? dtype::float32
                                                                                                      : c.in[1].type;
    if (wanted_type && static_cast<std::int64_t>(out) != wanted_type)
        return refuse_type_number(c, errc::op_attribute, "output_dtype %s is no arithmetic float", wanted_type);
    GRAFT_TRY(plan_quantization(c, q));
    return c.set(0, out, c.in[0].extents);
}
// Codes of 8 bits and scales of float32, which is what files hold most: the difference is exact, so that a float's product is rounded as a double's.
template <class T>
inline void dequantize_bytes(run_context& c, const quantization_layout& q, const widened<double>& scale, const widened<double>& zero) {
    const T* const x = static_cast<const T*>(c.in[0].data);
    float* const y = static_cast<float*>(c.out[0].data);
    const std::int64_t n = c.out[0].elements(), run = q.per_tensor ? n : q.inner;
    for (std::int64_t first = 0, j = 0; first < n; first += run, j = j + 1 < q.n ? j + 1 : 0) {
        const std::int64_t at = q.per_tensor ? 0 : j;
        const float by = static_cast<float>(scale.data[at]);
        const std::int32_t from = zero.data ? static_cast<std::int32_t>(zero.data[at]) : 0;
        for (std::int64_t i = first; i < first + run; ++i) y[i] = static_cast<float>(x[i] - from) * by;
    }
}
inline status dequantize_run(run_context& c) {
    const dtype type = c.in[0].type;
    if ((type == dtype::uint8 || type == dtype::int8) && c.in[1].type == dtype::float32 && c.out[0].type == dtype::float32 && !is_empty(c.out[0])) {
        quantization_layout q;
        widened<double> scale, zero;
        GRAFT_TRY(read_quantization(c, false, q, scale, zero));
        if (!q.blocked) {
            type == dtype::uint8 ? dequantize_bytes<std::uint8_t>(c, q, scale, zero) : dequantize_bytes<std::int8_t>(c, q, scale, zero);
            return {};
        }
    }
    return run_by_quantization(c, false, [](double x, double scale, double zero) { return (x - zero) * scale; });
}

// DynamicQuantizeLinear-11: scale and zero point that map [min(x, 0), max(x, 0)] to uint8; all in float32, as rounding shows
inline status dynamic_quantize_infer(infer_context& c) {
    if (c.in[0].type != dtype::float32) return c.fail(errc::op_type, "the input must be float32");
    GRAFT_TRY(c.set(0, dtype::uint8, c.in[0].extents));
    GRAFT_TRY(c.set(1, dtype::float32, {}));
    return c.set(2, dtype::uint8, {});
}
inline status dynamic_quantize_run(run_context& c) {
    const float* x = c.in[0].as<float>();
    const std::int64_t n = is_empty(c.in[0]) ? 0 : c.in[0].elements();
    float low = 0, high = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    const float scale = high == low ? 1.0f : (high - low) / 255.0f;
    const double zero = round_half_even(saturate(static_cast<double>(0.0f - low / scale), 0, 255));
    if (c.wants(1)) *c.out[1].as<float>() = scale;
    if (c.wants(2)) *c.out[2].as<std::uint8_t>() = static_cast<std::uint8_t>(zero);
    for (std::int64_t i = 0; c.wants(0) && i < n; ++i)
        c.out[0].as<std::uint8_t>()[i] = static_cast<std::uint8_t>(saturate(round_half_even(static_cast<double>(x[i] / scale)) + zero, 0, 255));
    return {};
}

// graft.FakeQuantize(X, scale, zero_point?): Y = (saturate(round_half_even(X / scale) + zero_point) - zero_point) * scale, which is
// DequantizeLinear(QuantizeLinear(X)) with integers of [low, high] between. Scale and zero point: one element, or one for each index
// of `axis`; the quotient is rounded to the scale's type, as QuantizeLinear has it.
inline status fake_quantize_infer(infer_context& c) {
    quantization_layout q;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_real(c, 1));
    GRAFT_TRY(plan_quantization(c, q));
    if (c.integer("low", 0) >= c.integer("high", 255))
        return c.fail(errc::op_attribute, "low %lld must be below high %lld", c.integer("low", 0), c.integer("high", 255));
    return c.set(0, c.in[1].type, c.in[0].extents);
}
inline status fake_quantize_run(run_context& c) {
    const double low = static_cast<double>(c.integer("low", 0)), high = static_cast<double>(c.integer("high", 255));
    return run_by_quantization(c, true, [&](double x, double scale, double zero) {
        return (saturate(round_half_even(round_to(c.in[1].type, x / scale)) + zero, low, high) - zero) * scale;
    });
}

// Straight through (Jacob et al., 2018): dX = dY where the rounded value is inside [low, high], else 0. The scale gets none.
inline status fake_quantize_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    quantization_layout q;
    GRAFT_TRY(plan_quantization(forward, q));
    if (!c.wants(0)) return {};
    const dtype type = c.build.type(c.in(0));
    shape along;  // of the parameters, so that they are broadcast
    if (!q.per_tensor) {
        along = shape::filled(c.extents(c.in(0)).rank(), 1);
        int axis = 0;
        GRAFT_TRY(forward.axis(c.integer("axis", 1), along.rank(), axis));
        along[axis] = q.n;
        if (q.blocked) return c.refuse("scales in blocks have no gradient: freeze what lies before it");
    }
    const auto parameter = [&](int i) { return c.build.reshape(cast_to(c, c.in(i), type), along); };
    value_id code = c.build.apply("Round", {c.build.div(c.in(0), parameter(1))});
    if (c.in(2) != no_value) code = c.build.add(code, parameter(2));
    const value_id kept = c.build.apply(
        "Clip", {code, c.build.number(static_cast<double>(c.integer("low", 0)), code), c.build.number(static_cast<double>(c.integer("high", 255)), code)});
    c.give(0, where(c, c.build.apply("Equal", {code, kept}), cast_to(c, c.dy(), type)));
    return {};
}

inline gradient_table quantize_gradients() {
    static constexpr gradient_row rows[] = {
        {"QuantizeLinear", "", nullptr},
        {"DequantizeLinear", "", nullptr},
        {"DynamicQuantizeLinear", "", nullptr},
        {"FakeQuantize", "graft", fake_quantize_gradient},
    };
    return rows;
}
inline op_table quantize_training_ops() {
    static constexpr op_row rows[] = {
        own("FakeQuantize")
            .inputs(2, 3)
            .functions(fake_quantize_infer, fake_quantize_run)
            .attributes("axis:i high:i low:i")
            .problems("f32[3,17] f32(0.01) u8(120) low=0 high=255; f32[2,3,5] f32[3]~0.01:0.05 i8[3] axis=1 low=-128 high=127; f64[4,9] f64[9]~0.1:0.5 axis=-1 "
                      "low=-8 high=7; "
                      "f16[9] f16(0.1) i8(0) low=-128 high=127; f32[0,3] f32(0.5) low=0 high=255; f32[7,5] f32[7]~0.01:0.1 axis=0 low=0 high=15"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_quantize(batch_carrier& c) {
    if (!c.only(1)) return false;
    if (c.integer("block_size", 0)) return c.conflict("it has scales by blocks");
    return c.extents(1).elements() > 1 ? carry_beside(c, {c.integer("axis", 1)}) : c.answer(0, c.state(0));
}

inline op_table quantize_ops() {
    static constexpr op_row rows[] = {
        onnx("QuantizeLinear")
            .in_eight_bits(eight_bits::is_integer)
            .opsets(10)
            .inputs(2, 3)
            .functions(quantize_infer, quantize_run)
            .carries(carry_quantize)
            .plays(op_role::quantize)
            .rounds()
            .attributes("axis:i block_size:i output_dtype:i precision:i saturate:i")
            .problems("f32[3,17] f32(0.05) u8(7); f32[2,3,5] f32[3]~0.01:0.1 i8[3]; f32[2,6,3] f32[2,2,3]~0.01:0.1 axis=1 "
                      "block_size=3 output_dtype=3; "
                      "f32[0,3] f32(0.5); f16[9] f16(0.1) i8(0); f32[5,7] f32[7]~0.01:0.1 u16[7] axis=-1; f32(1.5) f32(0.25)"),
        onnx("DequantizeLinear")
            .in_eight_bits(eight_bits::is_integer)
            .opsets(10)
            .inputs(2, 3)
            .functions(dequantize_infer, dequantize_run)
            .carries(carry_quantize)
            .plays(op_role::dequantize)
            .attributes("axis:i block_size:i output_dtype:i")
            .problems("u8[3,17] f32(0.05) u8(7); i8[2,3,5] f32[3]~0.01:0.1 i8[3]; i8[2,6,3] f32[2,2,3]~0.01:0.1 axis=1 block_size=3; "
                      "i32[5] f32(0.5); u8[0,3] f32(0.5); i16[5,7] f32[7]~0.01:0.1 axis=-1"),
        onnx("DynamicQuantizeLinear")
            .in_eight_bits(eight_bits::is_integer)
            .opsets(11)
            .inputs(1)
            .outputs(3)
            .functions(dynamic_quantize_infer, dynamic_quantize_run)
            .rounds()
            .problems("f32[3,17]; f32[9]~0.5:2; f32[0]; f32(3)"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
