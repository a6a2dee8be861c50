// The place of the largest or smallest element along an axis: ArgMax, ArgMin.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// ArgMax-1,11,12,13, ArgMin-1,11,12,13: y = the index along `axis` of the largest (smallest) element, the first of equals or by
// select_last_index the last; NaN counts as the largest (smallest)
inline status arg_infer(infer_context& c) {
    GRAFT_TRY(check_type(c, 0, accept::number));
    shape out = c.in[0].extents;
    int axis = 0;
    if (out.rank() == 0) return c.fail(errc::op_shape, "the input must have at least one dimension");
    GRAFT_TRY(c.axis(c.integer("axis", 0), out.rank(), axis));
    const std::int64_t n = out[axis];
    out[axis] = 1;
    if (n == 0 && elements_of(out) != 0) return c.fail(errc::op_shape, "axis %lld has no elements to choose from", axis);
    if (c.integer("keepdims", 1) != 1) out.erase(axis);
    return c.set(0, dtype::int64, out);
}

// Whether b takes the place of a.
inline bool precedes(double a, double b, bool smallest, bool last) noexcept {
    if (a != a) return last && b != b;
    if (b != b) return true;
    return smallest ? b < a || (last && b == a) : b > a || (last && b == a);
}
GRAFT_NOINLINE inline status arg_kernel(run_context& c, bool smallest) {
    const tensor_view x = c.in[0], y = c.out[0];
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", 0), x.extents.rank(), axis));
    if (!y.elements()) return {};
    const axis_split s = split_at(x.extents, axis);
    const bool last = c.integer("select_last_index", 0) != 0, real = is_float(x.type), unsigned64 = x.type == dtype::uint64;
    const std::int64_t across = (s.inner + block_size - 1) / block_size;
    parallel_for(c.pool, s.outer * across, [&](std::int64_t task) {
        const std::int64_t o = task / across, j = task % across * block_size;
        const int lanes = static_cast<int>(std::min<std::int64_t>(block_size, s.inner - j));
        double best[block_size], block[block_size];
        std::int64_t best_whole[block_size], whole[block_size];
        std::int64_t* index = y.as<std::int64_t>() + o * s.inner + j;
        for (std::int64_t k = 0; k < s.n; ++k) {
            const std::int64_t start = (o * s.n + k) * s.inner + j;
            if (real)
                load_as_double(x.type, x.data, start, lanes, k ? block : best);
            else
                load_as_int64(x.type, x.data, start, lanes, k ? whole : best_whole);
            for (int i = 0; i < lanes; ++i) {
                if (k == 0) {
                    index[i] = 0;
                } else if (real) {
                    if (precedes(best[i], block[i], smallest, last)) best[i] = block[i], index[i] = k;
                } else {
                    const std::int64_t a = best_whole[i], b = whole[i];
                    if ((smallest ? less(b, a, unsigned64) : less(a, b, unsigned64)) || (last && a == b)) best_whole[i] = b, index[i] = k;
                }
            }
        }
    });
    return {};
}
inline status arg_max_run(run_context& c) { return arg_kernel(c, false); }
inline status arg_min_run(run_context& c) { return arg_kernel(c, true); }

// How they carry a batch: see batch_rules.hpp.
inline bool carry_arg(batch_carrier& c) { return carry_dropping(c, {c.integer("axis", 0)}, c.integer("keepdims", 1) == 1); }

inline op_table arg_ops() {
    static constexpr op_row rows[] = {
        onnx("ArgMax")
            .inputs(1)
            .functions(arg_infer, arg_max_run)
            .carries(carry_arg)
            .attributes("axis:i keepdims:i select_last_index:i")
            .problems("f32[3,17] axis=1; f32[2,3,17] axis=1 keepdims=0; f32{1,3,3,nan}; i32{1,3,3,0} select_last_index=1; u64[2,5] "
                      "axis=-1; f16[0,2] axis=1"),
        onnx("ArgMin")
            .inputs(1)
            .functions(arg_infer, arg_min_run)
            .carries(carry_arg)
            .attributes("axis:i keepdims:i select_last_index:i")
            .problems("f32[3,17] axis=1; f32[2,3,17] axis=1 keepdims=0; f32{1,0,0,nan}; i32{1,0,0,3} select_last_index=1; u64[2,5] "
                      "axis=-1; f16[0,2] axis=1"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table arg_gradients() {
    static constexpr gradient_row rows[] = {{"ArgMax", "", nullptr}, {"ArgMin", "", nullptr}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
