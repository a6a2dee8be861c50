// Operators that write elements by index: Scatter, ScatterElements, ScatterND, TensorScatter.
#pragma once

#include "gather.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// What happens where an element is written that is there already.
enum class scatter_reduction { none, add, mul, max, min };

inline status read_reduction(const op_context& c, scatter_reduction& r) {
    static constexpr const char* names[] = {"none", "add", "mul", "max", "min"};
    for (int i = 0; i < 5; ++i)
        if (c.is("reduction", names[i], "none")) return r = static_cast<scatter_reduction>(i), status{};
    return c.fail(errc::op_attribute, "the reduction is not one of none, add, mul, max, min");
}

// Two's complement without overflow.
inline std::int64_t combine_integers(scatter_reduction r, std::int64_t a, std::int64_t b, bool is_unsigned) noexcept {
    const std::uint64_t x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (r) {
    case scatter_reduction::none: return b;
    case scatter_reduction::add: return static_cast<std::int64_t>(x + y);
    case scatter_reduction::mul: return static_cast<std::int64_t>(x * y);
    case scatter_reduction::max: return (is_unsigned ? x < y : a < b) ? b : a;
    default: return (is_unsigned ? y < x : b < a) ? b : a;
    }
}

/// to[i] = r(to[i], from[j]) for n elements; NaN wins every comparison.
GRAFT_NOINLINE inline void combine(scatter_reduction r, dtype type, void* to, std::int64_t i, const void* from, std::int64_t j, std::int64_t n) noexcept {
    if (r == scatter_reduction::none) {
        const std::size_t size = size_of(type);
        return copy_run(size, static_cast<char*>(to) + i * static_cast<std::int64_t>(size), 1,
                        static_cast<const char*>(from) + j * static_cast<std::int64_t>(size), 1, n);
    }
    constexpr std::int64_t most = 512;
    for (; n > 0; n -= most, i += most, j += most) {
        const std::int64_t m = n < most ? n : most;
        if (is_float(type)) {
            double a[most], b[most];
            load_as_double(type, to, i, m, a);
            load_as_double(type, from, j, m, b);
            for (std::int64_t k = 0; k < m; ++k) {
                if (r == scatter_reduction::add)
                    a[k] += b[k];
                else if (r == scatter_reduction::mul)
                    a[k] *= b[k];
                else if (b[k] != b[k] || (a[k] == a[k] && (r == scatter_reduction::max ? b[k] > a[k] : b[k] < a[k])))
                    a[k] = b[k];
            }
            store_from_double(type, to, i, m, a);
        } else {
            std::int64_t a[most], b[most];
            load_as_int64(type, to, i, m, a);
            load_as_int64(type, from, j, m, b);
            for (std::int64_t k = 0; k < m; ++k) a[k] = combine_integers(r, a[k], b[k], is_unsigned(type));
            store_from_int64(type, to, i, m, a);
        }
    }
}

inline void copy_first_input(run_context& c) noexcept {
    const std::int64_t bytes = bytes_of(c.in[0].type, c.in[0].extents);
    if (bytes > 0) std::memcpy(c.out[0].data, c.in[0].data, static_cast<std::size_t>(bytes));
}

// Scatter-9, ScatterElements-11,13,16,18: y = x, then y[i_0, .., indices[i..], ..] = r(y[..], updates[i..]), in the order of i.
inline status scatter_elements_infer(infer_context& c) {
    int axis = 0;
    scatter_reduction r = scatter_reduction::none;
    GRAFT_TRY(check_elementwise_indices(c, axis));
    GRAFT_TRY(check_same_type(c, 0, 2));
    GRAFT_TRY(read_reduction(c, r));
    if (c.in[1].extents != c.in[2].extents) return c.fail_shapes("indices and updates must have the same shape");
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status scatter_elements_run(run_context& c) {
    int axis = 0;
    scatter_reduction r = scatter_reduction::none;
    GRAFT_TRY(check_elementwise_indices(c, axis));
    GRAFT_TRY(read_reduction(c, r));
    copy_first_input(c);
    const std::int64_t count = c.in[1].elements(), extent = c.in[0].extents[axis];
    element_walk walk(c.in[0].extents, c.in[1].extents, axis);
    for (std::int64_t i = 0, at = 0; i < count; ++i, walk.next()) {
        if (!resolve_index(c.in[1], i, extent, at)) return bad_index(c, index_at(c.in[1], i), extent);
        combine(r, c.in[0].type, c.out[0].data, walk.place(at), c.in[2].data, i, 1);
    }
    return {};
}

// ScatterND-11,13,16,18: y = x, then y[indices[i.., 0], indices[i.., 1], .., b..] = r(y[..], updates[i.., b..]).
inline status scatter_nd_infer(infer_context& c) {
    block_index b;
    scatter_reduction r = scatter_reduction::none;
    GRAFT_TRY(read_blocks(c, 0, b));
    GRAFT_TRY(check_same_type(c, 0, 2));
    GRAFT_TRY(read_reduction(c, r));
    const shape &s = c.in[0].extents, &indices = c.in[1].extents, &updates = c.in[2].extents;
    bool fits = updates.rank() == indices.rank() - 1 + s.rank() - b.k;
    for (int d = 0; fits && d < updates.rank(); ++d) fits = updates[d] == (d + 1 < indices.rank() ? indices[d] : s[d - (indices.rank() - 1) + b.k]);
    if (!fits) return c.fail_shapes("updates have not the shape that data and indices ask for");
    return c.set(0, c.in[0].type, s);
}
inline status scatter_nd_run(run_context& c) {
    block_index b;
    scatter_reduction r = scatter_reduction::none;
    GRAFT_TRY(read_blocks(c, 0, b));
    GRAFT_TRY(read_reduction(c, r));
    measure_blocks(c, b);
    copy_first_input(c);
    for (std::int64_t i = 0, place = 0; i < b.count; ++i) {
        GRAFT_TRY(find_block(c, b, i, place));
        combine(r, c.in[0].type, c.out[0].data, place, c.in[2].data, i * b.block, b.block);
    }
    return {};
}

// TensorScatter-24: y = past_cache, then along `axis` update is written from write_indices[batch] on; circular wraps around.
inline status tensor_scatter_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_same_type(c, 0, 1));
    const shape &s = c.in[0].extents, &u = c.in[1].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", -2), s.rank(), axis));
    if (axis == 0) return c.fail(errc::op_attribute, "axis 0 is the batch");
    if (!c.is("mode", "linear", "linear") && !c.is("mode", "circular", "linear")) return c.fail(errc::op_attribute, "the mode is neither linear nor circular");
    bool fits = s.rank() == u.rank();
    for (int d = 0; fits && d < s.rank(); ++d) fits = d == axis ? u[d] <= s[d] : u[d] == s[d];
    if (!fits) return c.fail_shapes("the update does not fit the cache");
    if (c.has(2)) {
        GRAFT_TRY(check_index_type(c, 2, false));
        if (c.in[2].extents.rank() != 1 || c.in[2].extents[0] != s[0]) return c.fail_shapes("write_indices must have one element a batch");
    }
    return c.set(0, c.in[0].type, s);
}
inline status tensor_scatter_run(run_context& c) {
    const shape &s = c.in[0].extents, &u = c.in[1].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", -2), s.rank(), axis));
    const bool circular = c.is("mode", "circular", "linear");
    copy_first_input(c);
    if (c.in[1].elements() == 0) return {};
    const std::int64_t block = s.product(axis + 1, s.rank()) * static_cast<std::int64_t>(size_of(c.in[0].type)), rows = s.product(1, axis);
    for (std::int64_t b = 0; b < s[0]; ++b) {
        std::int64_t first = c.has(2) ? index_at(c.in[2], b) : 0;
        if (first < 0 || (!circular && first > s[axis] - u[axis])) return bad_index(c, first, s[axis]);
        if (circular) first %= s[axis];
        for (std::int64_t r = b * rows; r < (b + 1) * rows; ++r)
            for (std::int64_t t = 0; t < u[axis]; ++t)
                std::memcpy(c.out[0].as<char>() + (r * s[axis] + (first + t) % s[axis]) * block, c.in[1].as<char>() + (r * u[axis] + t) * block,
                            static_cast<std::size_t>(block));
    }
    return {};
}

// Where updates overwrite: data gets dy but where something was written, an update gets dy where it was written last, which a scatter
// of the updates' numbers tells. Where they are added: both get all.
inline status scatter_gradient(gradient_context& c, const char* scatter, const char* gather) {
    emitter& e = c.build;
    const attribute* reduction = c.n.find("reduction");
    const bool adds = reduction && reduction->string == "add";
    if (reduction && !adds && reduction->string != "none")
        return c.refuse("its gradient is known for the reductions none and add alone: freeze what lies before it");
    std::vector<attribute> attributes;
    if (c.n.op_type != "ScatterND") attributes.push_back(integer_attribute("axis", c.integer("axis", 0)));
    const shape updates = c.extents(c.in(2)), data = c.extents(c.in(0));
    if (c.wants(0)) c.give(0, adds ? c.dy() : e.apply(scatter, {c.dy(), c.in(1), e.zeros(updates, c.dy())}, attributes));
    if (!c.wants(2)) return {};
    const value_id taken = e.apply(gather, {c.dy(), c.in(1)}, attributes);
    if (adds) return c.give(2, taken), status();
    tensor none, numbers;
    GRAFT_TRY_ASSIGN(none, tensor::zeros(dtype::int64, data));
    GRAFT_TRY_ASSIGN(numbers, tensor::make(dtype::int64, updates));
    for (std::int64_t i = 0; i < numbers.elements(); ++i) numbers.data<std::int64_t>()[i] = i;
    const value_id own = e.constant(std::move(numbers), "numbers");
    const value_id last = e.apply(gather, {e.apply(scatter, {e.constant(std::move(none), "zeros"), c.in(1), own}, attributes), c.in(1)}, attributes);
    c.give(2, where(c, e.apply("Equal", {last, own}), taken));
    return {};
}
inline status scatter_elements_gradient(gradient_context& c) { return scatter_gradient(c, "ScatterElements", "GatherElements"); }
inline status scatter_nd_gradient(gradient_context& c) { return scatter_gradient(c, "ScatterND", "GatherND"); }

inline op_table scatter_ops() {
    static constexpr op_row rows[] = {
        onnx("Scatter")
            .opsets(9, 10)
            .inputs(3)
            .functions(scatter_elements_infer, scatter_elements_run)
            .checks(1)
            .attributes("axis:i")
            .problems("f32[5] i64{1,-1} f32[2] @10"),
        onnx("ScatterElements")
            .opsets(11)
            .inputs(3)
            .functions(scatter_elements_infer, scatter_elements_run)
            .carries(carry_indexed)
            .checks(1)
            .attributes("axis:i reduction:s")
            .problems("f32[5] i64{1,-1} f32[2]; f32[4] i64{0,0,3} f32[3] reduction=add; i8[4] i32{2,2} i8[2] reduction=max; f32[3] "
                      "i64[0] f32[0]; "
                      "f16[4] i64{1,1} f16[2] reduction=mul; u64[4] i64{3,3} u64[2] reduction=min"),
        onnx("ScatterND")
            .opsets(11)
            .inputs(3)
            .functions(scatter_nd_infer, scatter_nd_run)
            .checks(1)
            .attributes("reduction:s")
            .problems("f32[3,4] i64{2,-1} f32[]; f32[3,4] i64{1} f32[4] reduction=add; i32[5] i64{0} i32[] reduction=min; f32[2,0] "
                      "i64{1} f32[0]"),
        onnx("TensorScatter")
            .opsets(24)
            .inputs(2, 3)
            .functions(tensor_scatter_infer, tensor_scatter_run)
            .checks(2)
            .attributes("axis:i mode:s")
            .problems("f32[2,5,3] f32[2,2,3] i64{1,3}; f32[2,4,3] f32[2,2,3] i64{3,0} mode=circular; u8[1,2,4] u8[1,2,4] axis=1; "
                      "f32[0,3,2] f32[0,1,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table scatter_gradients() {
    static constexpr gradient_row rows[] = {
        {"Scatter", "", scatter_elements_gradient}, {"ScatterElements", "", scatter_elements_gradient}, {"ScatterND", "", scatter_nd_gradient}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
