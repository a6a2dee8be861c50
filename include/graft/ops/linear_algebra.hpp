// Matrices as such: triangles (Trilu) and determinants (Det).
#pragma once

#include "common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Trilu-14: the elements with j - i >= k (upper, the default) or j - i <= k of the matrices [..., i, j], 0 elsewhere
inline status trilu_infer(infer_context& c) {
    GRAFT_TRY(check_type(c, 0, accept::any));
    if (c.in[0].extents.rank() < 2) return c.fail(errc::op_shape, "the input must have at least two dimensions");
    if (c.has(1)) {
        if (c.in[1].type != dtype::int64) return refuse_type(c, 1);
        GRAFT_TRY(check_scalar(c, 1));
    }
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status trilu_run(run_context& c) {
    const tensor_view x = c.in[0], y = c.out[0];
    const int rank = x.extents.rank();
    const std::int64_t k = c.has(1) ? c.in[1].integer(0) : 0, width = x.extents[rank - 1], height = x.extents[rank - 2];
    const bool upper = c.integer("upper", 1) != 0;
    if (!y.elements()) return {};
    const std::size_t size = size_of(y.type);
    // Row i keeps [0, cut) or [cut, width), where cut = i + k (+ 1 for lower), clamped.
    for (std::int64_t row = 0, rows = x.extents.product(0, rank - 1); row < rows; ++row) {
        const std::int64_t i = row % height, bound = std::min(std::max(k, -height - 1), width + 1);
        const std::int64_t cut = std::min(std::max<std::int64_t>(i + bound + (upper ? 0 : 1), 0), width);
        const std::int64_t first = upper ? cut : 0, last = upper ? width : cut;
        auto* to = y.as<unsigned char>() + static_cast<std::size_t>(row * width) * size;
        const auto* from = x.as<unsigned char>() + static_cast<std::size_t>(row * width) * size;
        std::memset(to, 0, static_cast<std::size_t>(width) * size);
        std::memcpy(to + static_cast<std::size_t>(first) * size, from + static_cast<std::size_t>(first) * size, static_cast<std::size_t>(last - first) * size);
    }
    return {};
}

// Det-11,22: the determinants of the matrices [..., n, n], by elimination with the largest pivot of each column
inline status det_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    shape out = c.in[0].extents;
    const int rank = out.rank();
    if (rank < 2 || out[rank - 1] != out[rank - 2]) return c.fail_shapes("the input must hold square matrices");
    out.erase(rank - 1);
    out.erase(rank - 2);
    return c.set(0, c.in[0].type, out);
}
inline double determinant(double* a, std::int64_t n) noexcept {
    double product = 1;
    for (std::int64_t k = 0; k < n; ++k) {
        std::int64_t pivot = k;
        for (std::int64_t i = k + 1; i < n; ++i)
            if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
        if (a[pivot * n + k] == 0) return 0;
        if (pivot != k) {
            std::swap_ranges(a + pivot * n, a + pivot * n + n, a + k * n);
            product = -product;
        }
        product *= a[k * n + k];
        for (std::int64_t i = k + 1; i < n; ++i) {
            const double factor = a[i * n + k] / a[k * n + k];
            for (std::int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return product;
}
inline status det_run(run_context& c) {
    const tensor_view x = c.in[0], y = c.out[0];
    const std::int64_t n = x.extents.back();
    buffer memory;
    if (!y.elements()) return {};
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(checked_mul(n, n), sizeof(double))));
    auto* a = reinterpret_cast<double*>(memory.data());
    for (std::int64_t i = 0, count = y.elements(); i < count; ++i) {
        load_as_double(x.type, x.data, i * n * n, n * n, a);
        const double value = determinant(a, n);
        store_from_double(y.type, y.data, i, 1, &value);
    }
    return {};
}

inline op_table linear_algebra_ops() {
    static constexpr op_row rows[] = {
        onnx("Trilu")
            .opsets(14)
            .inputs(1, 2)
            .functions(trilu_infer, trilu_run)
            .carries(carry_matrix)
            .attributes("upper:i")
            .problems("f32[3,5]; f32[2,4,3] i64(1) upper=0; i64[3,3] i64(-2); u8[4,4] i64(99); f16[0,3]"),
        onnx("Det")
            .opsets(11)
            .inputs(1)
            .functions(det_infer, det_run)
            .carries(carry_matrix)
            .combines()
            .problems("f32[3,3]; f32[2,1,5,5]; f64[1,1]; f32[2,0,0]; f16[0,2,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
