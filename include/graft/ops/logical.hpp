// Logic and comparison of two inputs with broadcasting, and the choice between two tensors (Where).
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

inline status comparison_infer(infer_context& c, unsigned accepted) {
    shape second, out;
    GRAFT_TRY(check_type(c, 0, accepted));
    GRAFT_TRY(check_same_type(c, 0, 1));
    GRAFT_TRY(binary_shapes(c, second, out));
    return c.set(0, dtype::boolean, out);
}
inline status logical_infer(infer_context& c) { return comparison_infer(c, accept::boolean); }
inline status equal_infer(infer_context& c) { return comparison_infer(c, accept::number | accept::boolean); }
inline status order_infer(infer_context& c) { return comparison_infer(c, accept::number); }

// The element functions and the kernel of z = f(x, y), which is true or false; `u` says that integers are unsigned.
#define GRAFT_COMPARISON(id, expression, whole_expression) \
    inline void id##_real(double* block, const double* other, int n, const element_parameters&) { \
        for (int i = 0; i < n; ++i) { \
            const double x = block[i], y = other[i]; \
            block[i] = expression; \
        } \
    } \
    inline void id##_whole(std::int64_t* block, const std::int64_t* other, int n, const element_parameters& p) { \
        const bool u = p.unsigned64; \
        (void)u; \
        for (int i = 0; i < n; ++i) { \
            const std::int64_t x = block[i], y = other[i]; \
            block[i] = whole_expression; \
        } \
    } \
    inline status id##_run(run_context& c) { \
        shape second, out; \
        GRAFT_TRY(binary_shapes(c, second, out)); \
        return binary_elementwise(c, second, id##_real, id##_whole); \
    }

// And-1,7, Or-1,7, Xor-1,7: of bools
GRAFT_COMPARISON(logical_and, x != 0 && y != 0, x != 0 && y != 0)
GRAFT_COMPARISON(logical_or, x != 0 || y != 0, x != 0 || y != 0)
GRAFT_COMPARISON(logical_xor, (x != 0) != (y != 0), (x != 0) != (y != 0))
// Equal-1,7,11,13,19, Less-1,7,9,13, LessOrEqual-12,16, Greater-1,7,9,13, GreaterOrEqual-12,16
GRAFT_COMPARISON(equal, x == y, x == y)
GRAFT_COMPARISON(less, x < y, less(x, y, u))
GRAFT_COMPARISON(less_or_equal, x <= y, !less(y, x, u))
GRAFT_COMPARISON(greater, x > y, less(y, x, u))
GRAFT_COMPARISON(greater_or_equal, x >= y, !less(x, y, u))
#undef GRAFT_COMPARISON

// Where-9,16: z = condition ? x : y, of any type, with broadcasting
inline status where_infer(infer_context& c) {
    shape out;
    GRAFT_TRY(check_type(c, 0, accept::boolean));
    GRAFT_TRY(check_type(c, 1, accept::any));
    GRAFT_TRY(check_same_type(c, 1, 2));
    GRAFT_TRY(broadcast_inputs(c, out));
    return c.set(0, c.in[1].type, out);
}
inline status where_run(run_context& c) {
    const tensor_view z = c.out[0];
    const broadcast_operand condition = broadcast_to(c.in[0], z.extents);
    const broadcast_operand choice[2] = {broadcast_to(c.in[2], z.extents), broadcast_to(c.in[1], z.extents)};
    const std::size_t size = size_of(z.type);
    for_blocks(c.pool, z.elements(), [&](std::int64_t first, int n) {
        std::int64_t chosen[block_size], offsets[2][block_size];
        load_as_int64(condition, first, n, chosen);
        for (int k = 0; k < 2; ++k) load_offsets(choice[k], first, n, offsets[k]);
        auto* to = static_cast<unsigned char*>(z.data) + static_cast<std::size_t>(first) * size;
        for (int i = 0; i < n; ++i, to += size) {
            const int k = chosen[i] != 0;
            std::memcpy(to, static_cast<const unsigned char*>(choice[k].data) + static_cast<std::size_t>(offsets[k][i]) * size, size);
        }
    });
    return {};
}

inline status where_gradient(gradient_context& c) {
    const value_id dy = c.dy(), zero = c.build.number(0, dy);
    if (c.wants(1)) c.give_summed(1, c.build.apply("Where", {c.in(0), dy, zero}));
    if (c.wants(2)) c.give_summed(2, c.build.apply("Where", {c.in(0), zero, dy}));
    return {};
}

inline op_table logical_ops() {
    static constexpr op_row rows[] = {
        onnx("And")
            .inputs(2)
            .functions(logical_infer, logical_and_run)
            .elementwise()
            .commutes()
            .attributes("axis:i broadcast:i")
            .problems("b[3,17] b[17]; b[2,1] b[1,3]; b[] b[]; b[0] b[1]"),
        onnx("Or")
            .inputs(2)
            .functions(logical_infer, logical_or_run)
            .elementwise()
            .commutes()
            .attributes("axis:i broadcast:i")
            .problems("b[3,17] b[17]; b[2,1] b[1,3]; b[] b[]; b[0] b[1]"),
        onnx("Xor")
            .inputs(2)
            .functions(logical_infer, logical_xor_run)
            .elementwise()
            .commutes()
            .attributes("axis:i broadcast:i")
            .problems("b[3,17] b[17]; b[2,1] b[1,3]; b[] b[]; b[0] b[1]"),
        onnx("Equal")
            .inputs(2)
            .functions(equal_infer, equal_run)
            .elementwise()
            .commutes()
            .attributes("axis:i broadcast:i")
            .problems("i32[3,17] i32[17]; f32{0,1,nan} f32{0,2,nan}; b[4] b[]; u64[3] u64[3]; f16[0] f16[1]"),
        onnx("Less")
            .inputs(2)
            .functions(order_infer, less_run)
            .elementwise()
            .attributes("axis:i broadcast:i")
            .problems("f32[3,17] f32[17]; i8[9] i8[]; u64[3] u64[3]; f16[0] f16[1]"),
        onnx("LessOrEqual")
            .opsets(12)
            .inputs(2)
            .functions(order_infer, less_or_equal_run)
            .elementwise()
            .problems("f32[3,17] f32[17]; i8[9] i8[]; u64[3] u64[3]; f32{nan} f32{nan}; f16[0] f16[1]"),
        onnx("Greater")
            .inputs(2)
            .functions(order_infer, greater_run)
            .elementwise()
            .attributes("axis:i broadcast:i")
            .problems("f32[3,17] f32[17]; i8[9] i8[]; u64[3] u64[3]; f16[0] f16[1]"),
        onnx("GreaterOrEqual")
            .opsets(12)
            .inputs(2)
            .functions(order_infer, greater_or_equal_run)
            .elementwise()
            .problems("f32[3,17] f32[17]; i8[9] i8[]; u64[3] u64[3]; f32{nan} f32{nan}; f16[0] f16[1]"),
        onnx("Where")
            .opsets(9)
            .inputs(3)
            .functions(where_infer, where_run)
            .elementwise()
            .problems("b[3,17] f32[3,17] f32[3,17]; b[3,1] f32[4] f32[]; b[] i64[5] i64[5]; b[2,3] u8[1,3] u8[2,1]; b[0] f16[1] f16[0]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table logical_gradients() {
    static constexpr gradient_row rows[] = {
        {"Where", "", where_gradient}, {"Equal", "", nullptr},   {"Less", "", nullptr},
        {"LessOrEqual", "", nullptr},  {"Greater", "", nullptr}, {"GreaterOrEqual", "", nullptr},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
