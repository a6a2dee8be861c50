// Arithmetic on quantised tensors: QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger. Products of bytes are summed in
// doubles, which is exact.
#pragma once

#include "conv.hpp"
#include "matmul.hpp"
#include "quantize.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Widens a quantised tensor minus its zero point (input `z`, if given): one zero point for all, or one for each of `n` groups of
/// `inner` elements, over and over.
GRAFT_NOINLINE inline status widen_centred(const run_context& c, int i, int z, std::int64_t n, std::int64_t inner, widened<double>& out) {
    const tensor_view& t = c.in[i];
    GRAFT_TRY(widen(c, t, out));
    if (!c.has(z)) return {};
    double* x = reinterpret_cast<double*>(out.memory.data());
    const bool single = c.in[z].elements() == 1;
    const std::int64_t total = elements_of(t.extents);
    std::int64_t group = 0;
    for (std::int64_t first = 0; first < total; first += inner, group = group + 1 == n ? 0 : group + 1) {
        const double zero = c.in[z].real(single ? 0 : group);
        for (std::int64_t k = 0; k < inner; ++k) x[first + k] -= zero;
    }
    return {};
}

/// Fails with op.shape unless input i, where given, has one element, or is a vector of `n`.
inline status check_scalar_or_vector(const op_context& c, int i, std::int64_t n) {
    return !c.has(i) || elements_of(c.in[i].extents) == 1 ? status() : check_vector(c, i, n);
}

// QLinearConv-10: Y = saturate(round_half_even(conv(x - x_zero, w - w_zero) + B) * (x_scale * w_scale / y_scale)) + y_zero)
inline status qlinear_conv_infer(infer_context& c) {
    convolution p;
    for (int i : {0, 3, 7}) GRAFT_TRY(check_byte(c, i));
    GRAFT_TRY(check_same_type(c, 2, 0));
    GRAFT_TRY(check_same_type(c, 5, 3));
    for (int i : {1, 4, 6})
        if (c.in[i].type != dtype::float32) return c.fail(errc::op_type, "input %lld, a scale, must be float32", i);
    if (c.has(8) && c.in[8].type != dtype::int32) return c.fail(errc::op_type, "the bias must be int32");
    GRAFT_TRY(plan_convolution(c, 0, 3, 8, p));
    for (int i : {1, 2, 6, 7}) GRAFT_TRY(check_scalar(c, i));
    for (int i : {4, 5}) GRAFT_TRY(check_scalar_or_vector(c, i, p.groups * p.oc));
    return c.set(0, c.in[7].type, window_shape(p.n, p.groups * p.oc, p.w));
}
inline void store_requantized(const convolution_store& self, std::int64_t m, std::int64_t first, std::int64_t count, double* sums) {
    const op_context& c = self.c;
    double low = 0, high = 0;
    quantized_range(c.out[0].type, low, high);
    // In float32, as other engines do it, since results are rounded.
    const float* w_scale = c.in[4].as<float>();
    const float scale = c.in[1].as<float>()[0] * w_scale[c.in[4].elements() == 1 ? 0 : m] / c.in[6].as<float>()[0];
    const double zero = c.in[7].real(0);
    for (std::int64_t i = 0; i < count; ++i) sums[i] = saturate(round_half_even(static_cast<double>(static_cast<float>(sums[i]) * scale)) + zero, low, high);
    store_from_double(c.out[0].type, c.out[0].data, first, count, sums);
}
inline status integer_conv_inputs(run_context& c, int x_at, int x_zero, int w_at, int w_zero, convolution& p, widened<double>& x, widened<double>& w) {
    const shape& weight = c.in[w_at].extents;
    GRAFT_TRY(widen_centred(c, x_at, x_zero, 1, c.in[x_at].elements(), x));
    GRAFT_TRY(widen_centred(c, w_at, w_zero, weight[0], weight.product(1, weight.rank()), w));
    p.x = x.data;
    p.weight = w.data;
    return {};
}
inline status qlinear_conv_run(run_context& c) {
    convolution p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_convolution(c, 0, 3, 8, p));
    for (int i : {1, 4, 6}) GRAFT_TRY(check_scales(c, i, i == 6));
    widened<double> x, w, b;
    if (is_empty(c.in[0])) return c.fail_shapes("the input has no elements");
    GRAFT_TRY(integer_conv_inputs(c, 0, 2, 3, 5, p, x, w));
    if (c.has(8)) GRAFT_TRY(widen(c, c.in[8], b));
    convolve(c, p, {c, b.data, store_requantized});
    return {};
}

// ConvInteger-10: Y = conv(x - x_zero, w - w_zero), int32
inline status conv_integer_infer(infer_context& c) {
    convolution p;
    for (int i : {0, 1}) GRAFT_TRY(check_byte(c, i));
    GRAFT_TRY(check_same_type(c, 2, 0));
    GRAFT_TRY(check_same_type(c, 3, 1));
    GRAFT_TRY(plan_convolution(c, 0, 1, 4, p));
    GRAFT_TRY(check_scalar(c, 2));
    GRAFT_TRY(check_scalar_or_vector(c, 3, p.groups * p.oc));
    return c.set(0, dtype::int32, window_shape(p.n, p.groups * p.oc, p.w));
}
inline status conv_integer_run(run_context& c) {
    convolution p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_convolution(c, 0, 1, 4, p));
    widened<double> x, w;
    if (is_empty(c.in[0])) return c.fail_shapes("the input has no elements");
    GRAFT_TRY(integer_conv_inputs(c, 0, 2, 1, 3, p, x, w));
    convolve(c, p, {c, nullptr, store_convolution});
    return {};
}

/// Fails unless input `i` (zero point or scale of a matrix) holds one element; a vector of `n`; or, of the matrices' batch, one
/// each row (or column).
inline status check_matrix_parameter(const op_context& c, int i, const shape& matrix, bool by_row) {
    if (!c.has(i) || elements_of(c.in[i].extents) == 1) return {};
    const shape& p = c.in[i].extents;
    const std::int64_t n = by_row ? matrix.at(-2) : matrix.back();
    if (p.rank() == 1 && p[0] == n) return {};
    shape full = matrix;
    if (full.rank() >= 2) full[full.rank() - (by_row ? 1 : 2)] = 1;
    if (full.rank() >= 2 && p == full) return {};
    return c.fail(errc::op_shape, "input %lld must hold one element, or one for each of the %lld rows or columns", i, n);
}
/// Parameter of row (or column) `at` of the matrix with index `batch`.
inline double matrix_parameter(const tensor_view& p, std::int64_t batch, std::int64_t at, std::int64_t n) {
    if (p.elements() == 1) return p.real(0);
    return p.real(p.extents.rank() == 1 ? at : batch * n + at);
}
/// Widens a batch of matrices minus their zero points, by row or by column.
GRAFT_NOINLINE inline status widen_matrix(const run_context& c, int i, int z, bool by_row, widened<double>& out) {
    const tensor_view& t = c.in[i];
    GRAFT_TRY(widen(c, t, out));
    if (!c.has(z) || is_empty(t)) return {};
    double* x = reinterpret_cast<double*>(out.memory.data());
    const std::int64_t columns = t.extents.back(), rows = t.extents.rank() > 1 ? t.extents.at(-2) : 1, total = t.elements();
    const bool column_vector = t.extents.rank() == 1 && !by_row;  // B as a vector is one column
    for (std::int64_t k = 0; k < total; ++k) {
        const std::int64_t row = k / columns % rows, batch = k / columns / rows;
        x[k] -= matrix_parameter(c.in[z], batch, column_vector ? 0 : by_row ? row : k % columns, by_row ? rows : columns);
    }
    return {};
}

// MatMulInteger-10: Y = matmul(A - a_zero, B - b_zero), int32
inline status matmul_integer_infer(infer_context& c) {
    matmul_plan p;
    for (int i : {0, 1}) {
        GRAFT_TRY(check_byte(c, i));
        GRAFT_TRY(check_same_type(c, i + 2, i));
        GRAFT_TRY(check_matrix_parameter(c, i + 2, c.in[i].extents, i == 0));
    }
    GRAFT_TRY(plan_matmul(c, c.in[0].extents, c.in[1].extents, p));
    return c.set(0, dtype::int32, p.result);
}
inline status matmul_integer_run(run_context& c) {
    matmul_plan p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_matmul(c, c.in[0].extents, c.in[1].extents, p));
    widened<double> a, b;
    GRAFT_TRY(widen_matrix(c, 0, 2, true, a));
    GRAFT_TRY(widen_matrix(c, 1, 3, false, b));
    return multiply_matrices<double>(c, p, a.data, b.data, {c, p, store_product<double>, nullptr});
}

// QLinearMatMul-10,21: Y = saturate(round_half_even(matmul(a - a_zero, b - b_zero) * (a_scale * b_scale / y_scale)) + y_zero)
inline status qlinear_matmul_infer(infer_context& c) {
    matmul_plan p;
    for (int i : {0, 3, 7})
        if (!is_quantized_float(c.in[i].type)) GRAFT_TRY(check_byte(c, i));
    for (int i : {1, 4, 6}) {
        GRAFT_TRY(check_scale_type(c, i));
        GRAFT_TRY(check_same_type(c, i, 1));
    }
    GRAFT_TRY(check_same_type(c, 2, 0));
    GRAFT_TRY(check_same_type(c, 5, 3));
    GRAFT_TRY(plan_matmul(c, c.in[0].extents, c.in[3].extents, p));
    for (int i : {1, 2}) GRAFT_TRY(check_matrix_parameter(c, i, c.in[0].extents, true));
    for (int i : {4, 5}) GRAFT_TRY(check_matrix_parameter(c, i, c.in[3].extents, false));
    for (int i : {6, 7}) GRAFT_TRY(check_matrix_parameter(c, i, p.result, true));
    return c.set(0, c.in[7].type, p.result);
}
inline void store_requantized_product(const matmul_store<double>& self, std::int64_t batch, std::int64_t row, std::int64_t first, std::int64_t count,
                                      double* sums) {
    const op_context& c = self.c;
    const std::int64_t* batches = static_cast<const std::int64_t*>(self.extra) + 2 * batch;
    double low = 0, high = 0;
    const bool integer = quantized_range(c.out[0].type, low, high);
    const double a_scale = matrix_parameter(c.in[1], batches[0], row, self.p.m);
    const double y_scale = matrix_parameter(c.in[6], batch, row, self.p.m), zero = matrix_parameter(c.in[7], batch, row, self.p.m);
    for (std::int64_t j = 0; j < count; ++j) {
        const float scale = static_cast<float>(static_cast<float>(a_scale) * static_cast<float>(matrix_parameter(c.in[4], batches[1], first + j, self.p.n))) /
                            static_cast<float>(y_scale);
        const double y = static_cast<double>(static_cast<float>(sums[j]) * scale);
        sums[j] = integer ? saturate(round_half_even(y) + zero, low, high) : y + zero;
    }
    store_from_double(c.out[0].type, c.out[0].data, (batch * self.p.m + row) * self.p.n + first, count, sums);
}
inline status qlinear_matmul_run(run_context& c) {
    matmul_plan p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_matmul(c, c.in[0].extents, c.in[3].extents, p));
    for (int i : {1, 4, 6}) GRAFT_TRY(check_scales(c, i, i == 6));
    widened<double> a, b;
    GRAFT_TRY(widen_matrix(c, 0, 2, true, a));
    GRAFT_TRY(widen_matrix(c, 3, 5, false, b));
    // Which matrix of A and of B each batch of the result comes from.
    buffer memory;
    std::int64_t* batches = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(p.batch.elements(), 2), memory, batches));
    strided_walk walk_a(p.batch, p.batch_a), walk_b(p.batch, p.batch_b);
    for (std::int64_t i = 0; i < p.batch.elements(); ++i, walk_a.next(), walk_b.next()) batches[2 * i] = walk_a.offset, batches[2 * i + 1] = walk_b.offset;
    return multiply_matrices<double>(c, p, a.data, b.data, {c, p, store_requantized_product, batches});
}

inline std::int64_t conv_integer_work(const op_context& c) { return filtered_work(c, 1); }
inline std::int64_t qlinear_conv_work(const op_context& c) { return filtered_work(c, 3); }

// How they carry a batch: see batch_rules.hpp.
inline bool carry_qlinear_matmul(batch_carrier& c) { return c.only(9) && carry_product(c, 0, 3); }

inline op_table quantized_ops() {
    static constexpr op_row rows[] = {
        onnx("QLinearConv")
            .in_eight_bits(eight_bits::is_integer)
            .opsets(10)
            .inputs(8, 9)
            .functions(qlinear_conv_infer, qlinear_conv_run)
            .carries(carry_first_axis<1>)
            .combines()
            .plays(op_role::convolution)
            .rounds()
            .work(qlinear_conv_work)
            .attributes("auto_pad:s dilations:is group:i kernel_shape:is pads:is strides:is")
            .problems("u8[1,3,9,7] f32(0.02) u8(128) i8[5,3,3,3] f32[5]~0.01:0.02 i8[5] f32(0.05) u8(100) i32[5] pads=1,1,1,1; "
                      "i8[2,4,5,5] f32(0.02) i8(3) i8[4,1,3,3] f32(0.01) i8(0) f32(0.05) i8(0) group=4 strides=2,2; "
                      "u8[1,16,4,4] f32(0.02) u8(5) u8[8,16,1,1] f32(0.01) u8(9) f32(0.05) u8(0)"),
        onnx("ConvInteger")
            .in_eight_bits(eight_bits::is_integer)
            .opsets(10)
            .inputs(2, 4)
            .functions(conv_integer_infer, conv_integer_run)
            .carries(carry_first_axis<1>)
            .combines()
            .plays(op_role::convolution)
            .work(conv_integer_work)
            .attributes("auto_pad:s dilations:is group:i kernel_shape:is pads:is strides:is")
            .problems("u8[1,3,9,7] u8[5,3,3,3] u8(128) u8(7) pads=1,1,1,1; i8[2,4,5,5] i8[4,1,3,3] group=4; u8[1,2,6] i8[3,2,2] u8(1) "
                      "i8[3]"),
        onnx("MatMulInteger")
            .in_eight_bits(eight_bits::is_integer)
            .opsets(10)
            .inputs(2, 4)
            .functions(matmul_integer_infer, matmul_integer_run)
            .carries(carry_matmul)
            .combines()
            .plays(op_role::product)
            .work(matmul_work)
            .problems("u8[7,13] u8[13,5] u8(12) u8(0); i8[2,3,4] i8[4,5] i8(1) i8[5]; u8[3,4] i8[4,2] u8[3]; u8[0,4] u8[4,3]"),
        onnx("QLinearMatMul")
            .in_eight_bits(eight_bits::is_integer)
            .opsets(10)
            .inputs(8)
            .functions(qlinear_matmul_infer, qlinear_matmul_run)
            .carries(carry_qlinear_matmul)
            .combines()
            .plays(op_role::product)
            .rounds()
            .work(matmul_work)
            .problems("u8[7,13] f32(0.02) u8(113) u8[13,5] f32(0.01) u8(114) f32(0.05) u8(118); i8[2,3,4] f32(0.02) i8(1) i8[2,4,5] "
                      "f32(0.01) i8(0) f32(0.05) i8(0); "
                      "u8[3,4] f32(0.1) u8(0) i8[4,2] f32[2]~0.1:0.2 i8[2] f32(0.1) u8(9)"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
