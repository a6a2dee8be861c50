// Windows of signal processing: HannWindow, HammingWindow, BlackmanWindow.
#pragma once

#include "common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// HannWindow-17, HammingWindow-17, BlackmanWindow-17: y[i] = a - b cos(2 pi i / n) + c cos(4 pi i / n) for i < size, where n is
// size, or size - 1 unless periodic; (a, b, c) is (1/2, 1/2, 0), (25/46, 21/46, 0), (0.42, 0.5, 0.08)
inline status window_function_infer(infer_context& c) {
    dtype type = dtype::undefined;
    if (c.in[0].type != dtype::int32 && c.in[0].type != dtype::int64) return refuse_type(c, 0);
    GRAFT_TRY(check_scalar(c, 0));
    GRAFT_TRY(type_attribute(c, "output_datatype", dtype::float32, accept::number, type));
    if (!c.knows(0)) return c.defer();
    const std::int64_t size = c.in[0].integer(0);
    if (size < 0) return c.fail(errc::op_value, "size must not be negative, but is %lld", size);
    return c.set(0, type, {size});
}
GRAFT_NOINLINE inline status window_function(run_context& c, double a, double b, double d) {
    const tensor_view y = c.out[0];
    const std::int64_t size = y.elements(), period = size - (c.integer("periodic", 1) ? 0 : 1);
    const double turn = period > 0 ? 6.283185307179586476925 / static_cast<double>(period) : 0;
    for_blocks(c.pool, size, [&](std::int64_t first, int n) {
        double block[block_size];
        for (int i = 0; i < n; ++i) {
            const double angle = turn * static_cast<double>(first + i);
            block[i] = period > 0 ? a - b * std::cos(angle) + d * std::cos(2 * angle) : 1;
        }
        store_from_double(y.type, y.data, first, n, block);
    });
    return {};
}
inline status hann_window_run(run_context& c) { return window_function(c, 0.5, 0.5, 0); }
inline status hamming_window_run(run_context& c) { return window_function(c, 25.0 / 46.0, 21.0 / 46.0, 0); }
inline status blackman_window_run(run_context& c) { return window_function(c, 0.42, 0.5, 0.08); }

inline op_table window_function_ops() {
    static constexpr op_row rows[] = {
        onnx("HannWindow")
            .opsets(17)
            .inputs(1)
            .functions(window_function_infer, hann_window_run)
            .attributes("output_datatype:i periodic:i")
            .problems("i64(17); i32(10) periodic=0; i64(0); i64(1) periodic=0; i64(5) output_datatype=11"),
        onnx("HammingWindow")
            .opsets(17)
            .inputs(1)
            .functions(window_function_infer, hamming_window_run)
            .attributes("output_datatype:i periodic:i")
            .problems("i64(17); i32(10) periodic=0; i64(0); i64(1) periodic=0; i64(5) output_datatype=11"),
        onnx("BlackmanWindow")
            .opsets(17)
            .inputs(1)
            .functions(window_function_infer, blackman_window_run)
            .attributes("output_datatype:i periodic:i")
            .problems("i64(17); i32(10) periodic=0; i64(0); i64(1) periodic=0; i64(5) output_datatype=11"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
