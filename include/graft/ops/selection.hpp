// Operators that order and select: TopK, NonZero, Unique.
#pragma once

#include "gradient_common.hpp"
#include "indexing.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Keys of n elements: int64 that order as the elements do. -0 equals 0; NaN is the largest, and equal to itself.
GRAFT_NOINLINE inline void ordering_keys(dtype type, const void* data, std::int64_t first, std::int64_t n, std::int64_t* keys) noexcept {
    if (!is_float(type)) {
        load_as_int64(type, data, first, n, keys);
        if (type == dtype::uint64)
            for (std::int64_t i = 0; i < n; ++i) keys[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(keys[i]) ^ (std::uint64_t(1) << 63));
        return;
    }
    constexpr std::int64_t most = 512;
    double values[most];
    for (std::int64_t i = 0; i < n; i += most) {
        const std::int64_t m = n - i < most ? n - i : most;
        load_as_double(type, data, first + i, m, values);
        for (std::int64_t j = 0; j < m; ++j) {
            const std::int64_t bits = bit_cast<std::int64_t>(values[j] == 0 ? 0.0 : values[j]);
            keys[i + j] = values[j] != values[j] ? INT64_MAX : bits < 0 ? bits ^ INT64_MAX : bits;
        }
    }
}

/// Orders numbers of rows of keys, `width` keys a row, first by their keys and then by number.
struct row_order {
    const std::int64_t* keys;
    std::int64_t width;
    bool descending;
    bool operator()(std::int64_t a, std::int64_t b) const noexcept {
        for (std::int64_t k = 0; k < width; ++k) {
            const std::int64_t x = keys[a * width + k], y = keys[b * width + k];
            if (x != y) return descending ? x > y : x < y;
        }
        return a < b;
    }
};
GRAFT_NOINLINE inline void sort_rows(std::int64_t* numbers, std::int64_t n, const row_order& order) {
    for (std::int64_t i = 0; i < n; ++i) numbers[i] = i;
    std::sort(numbers, numbers + n, order);
}

// TopK-1,10,11,24: the k largest (or smallest) along `axis`, in order, with their places; equal ones by place; NaN is the
// largest.
inline status top_k_infer(infer_context& c) {
    const shape& s = c.in[0].extents;
    int axis = 0;
    if (!is_float(c.in[0].type) && !is_integer(c.in[0].type)) return c.fail(errc::op_type, "the input must hold numbers");
    GRAFT_TRY(c.axis(c.integer("axis", -1), s.rank(), axis));
    std::int64_t k = c.integer("k", -1);
    if (c.has(1)) {
        GRAFT_TRY(check_index_type(c, 1, false));
        if (elements_of(c.in[1].extents) != 1) return c.fail_shapes("K must have one element");
        if (!c.knows(1)) return c.defer();
        k = index_at(c.in[1], 0);
    }
    if (k < 0 || k > s[axis]) return c.fail(errc::op_value, "k = %lld is out of range for extent %lld", k, s[axis]);
    shape out = s;
    out[axis] = k;
    GRAFT_TRY(c.set(0, c.in[0].type, out));
    return c.set(1, dtype::int64, out);
}
inline status top_k_run(run_context& c) {
    const shape& s = c.in[0].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", -1), s.rank(), axis));
    std::int64_t k = c.has(1) ? index_at(c.in[1], 0) : c.integer("k", 0), outer = s.product(0, axis);
    const std::int64_t n = s[axis], inner = s.product(axis + 1, s.rank());
    if (k == 0) outer = 0;
    buffer memory;
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(n, 16)));
    std::int64_t *keys = reinterpret_cast<std::int64_t*>(memory.data()), *numbers = keys + n;
    const std::size_t size = size_of(c.in[0].type);
    const std::int64_t width = static_cast<std::int64_t>(size);
    const row_order order{keys, 1, c.integer("largest", 1) != 0};
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t r = 0; r < inner; ++r) {
            if (inner == 1)
                ordering_keys(c.in[0].type, c.in[0].data, o * n, n, keys);
            else
                for (std::int64_t i = 0; i < n; ++i) ordering_keys(c.in[0].type, c.in[0].data, (o * n + i) * inner + r, 1, keys + i);
            sort_rows(numbers, n, order);
            for (std::int64_t i = 0; i < k; ++i) {
                const std::int64_t to = (o * k + i) * inner + r, from = (o * n + numbers[i]) * inner + r;
                if (c.wants(0)) copy_run(size, c.out[0].as<char>() + to * width, 1, c.in[0].as<char>() + from * width, 1, 1);
                if (c.wants(1)) c.out[1].as<std::int64_t>()[to] = numbers[i];
            }
        }
    return {};
}

// NonZero-9,13: the places of the elements that are not zero, one column each, in row-major order.
inline status non_zero_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(c.set(0, dtype::int64, shape{c.in[0].extents.rank(), shape::unknown}));
    return c.defer();
}
inline status non_zero_run(run_context& c) {
    const shape& s = c.in[0].extents;
    const std::int64_t n = s.elements();
    std::int64_t count = 0;
    for (int pass = 0; pass < 2; ++pass) {
        std::int64_t column = 0, values[512], at[shape::max_rank + 1] = {};
        std::int64_t* const to = pass ? c.out[0].as<std::int64_t>() : nullptr;
        for (std::int64_t i = 0; i < n; i += 512) {
            const std::int64_t m = n - i < 512 ? n - i : 512;
            ordering_keys(c.in[0].type == dtype::uint64 ? dtype::int64 : c.in[0].type, c.in[0].data, i, m, values);
            for (std::int64_t j = 0; j < m; ++j) {
                if (values[j]) {
                    for (int d = 0; pass && d < s.rank(); ++d) to[d * count + column] = at[d];
                    ++column;
                }
                for (int d = s.rank() - 1; pass && d >= 0 && ++at[d] == s[d]; --d) at[d] = 0;
            }
        }
        if (pass) return {};
        count = column;
        GRAFT_TRY(c.allocate(0, dtype::int64, shape{s.rank(), count}));
    }
    return {};
}

// Unique-11,28: the distinct elements (or slices along `axis`), sorted or in the order of appearance; where each appears first,
// which one every input is, and how many there are of each.
inline status unique_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    int axis = 0;
    if (c.has_attribute("axis")) GRAFT_TRY(c.axis(c.integer("axis", 0), c.in[0].extents.rank(), axis));
    shape out{shape::unknown};
    if (c.has_attribute("axis")) out = c.in[0].extents, out[axis] = shape::unknown;
    GRAFT_TRY(c.set(0, c.in[0].type, out));
    for (int i = 1; i < 4; ++i) GRAFT_TRY(c.set(i, dtype::int64, shape{shape::unknown}));
    return c.defer();
}
inline GRAFT_COLD status unique_run(run_context& c) {
    const shape& s = c.in[0].extents;
    const bool flat = !c.has_attribute("axis");
    int axis = 0;
    if (!flat) GRAFT_TRY(c.axis(c.integer("axis", 0), s.rank(), axis));
    const std::int64_t elements = s.elements(), n = flat ? elements : s[axis], width = flat ? 1 : n ? elements / n : 0;
    const std::int64_t outer = flat ? 1 : s.product(0, axis), inner = flat ? 1 : s.product(axis + 1, s.rank());
    buffer memory;
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(checked_add(elements, checked_mul(n, 5)), 8)));
    std::int64_t* keys = reinterpret_cast<std::int64_t*>(memory.data());
    std::int64_t *numbers = keys + elements, *group = numbers + n, *first = group + n, *rank = first + n, *counts = rank + n;
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t o = 0; o < outer; ++o) ordering_keys(c.in[0].type, c.in[0].data, flat ? i : (o * n + i) * inner, inner, keys + i * width + o * inner);
    const row_order order{keys, width, false};
    sort_rows(numbers, n, order);
    std::int64_t groups = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        // Rows of one group stand together, the first of the input in front.
        const std::int64_t* row = keys + numbers[i] * width;
        if (i == 0 || !std::equal(row, row + width, keys + numbers[i - 1] * width)) {
            first[groups] = numbers[i];
            counts[groups++] = 0;
        }
        group[numbers[i]] = groups - 1;
        ++counts[groups - 1];
    }
    // numbers becomes the order of the groups, rank its inverse.
    if (c.integer("sorted", 1))
        for (std::int64_t g = 0; g < groups; ++g) numbers[g] = g;
    else
        sort_rows(numbers, groups, row_order{first, 1, false});
    for (std::int64_t g = 0; g < groups; ++g) rank[numbers[g]] = g;

    shape out = flat ? shape{groups} : s;
    if (!flat) out[axis] = groups;
    GRAFT_TRY(c.allocate(0, c.in[0].type, out));
    const std::int64_t bytes = inner * static_cast<std::int64_t>(size_of(c.in[0].type));
    for (std::int64_t o = 0; bytes && o < outer; ++o)
        for (std::int64_t g = 0; g < groups; ++g)
            std::memcpy(c.out[0].as<char>() + (o * groups + g) * bytes, c.in[0].as<char>() + (o * n + first[numbers[g]]) * bytes,
                        static_cast<std::size_t>(bytes));
    for (int k = 1; k < 4 && k < c.outputs; ++k) {
        if (!c.wants(k)) continue;
        GRAFT_TRY(c.allocate(k, dtype::int64, shape{k == 2 ? n : groups}));
        std::int64_t* to = c.out[k].as<std::int64_t>();
        for (std::int64_t i = 0; i < (k == 2 ? n : groups); ++i) to[i] = k == 1 ? first[numbers[i]] : k == 2 ? rank[group[i]] : counts[numbers[i]];
    }
    return {};
}

// dy goes back to the places that the values came from.
inline status top_k_gradient(gradient_context& c) {
    emitter& e = c.build;
    value_id places = c.out(1);
    if (places == no_value) {
        const value_id k = c.in(1) != no_value ? c.in(1) : e.integers({c.integer("k", 0)});
        places = e.apply_all("", "TopK", {c.in(0), k},
                             {integer_attribute("axis", c.integer("axis", -1)), integer_attribute("largest", c.integer("largest", 1))}, 2)[1];
    }
    const shape x = c.extents(c.in(0));
    c.give(0, e.apply("ScatterElements", {e.zeros(x, c.dy()), places, c.dy()},
                      {integer_attribute("axis", c.integer("axis", -1)), string_attribute("reduction", "add")}));
    return {};
}

inline op_table selection_ops() {
    static constexpr op_row rows[] = {
        onnx("TopK")
            .opsets(1, 9)
            .inputs(1)
            .outputs(2)
            .functions(top_k_infer, top_k_run)
            .carries(carry_axis_last)
            .attributes("axis:i k:i")
            .problems("f32[3,5] k=2 @9"),
        onnx("TopK")
            .opsets(10)
            .inputs(2)
            .outputs(2)
            .functions(top_k_infer, top_k_run)
            .carries(carry_axis_last)
            .attributes("axis:i largest:i sorted:i")
            .problems("f32[3,5] i64{2}; i32[4,3] i64{3} axis=0 largest=0; u64[2,7] i64{7}; f32[3,0] i64{0}; f16[2,3,2] i64{1} axis=1; "
                      "f32[4] i64{0}"),
        onnx("NonZero").opsets(9).inputs(1).functions(non_zero_infer, non_zero_run).allocates().problems("b[3,4]; f32[2,0]; i64(3); i8[5]"),
        onnx("Unique")
            .opsets(11)
            .inputs(1)
            .outputs(1, 4)
            .functions(unique_infer, unique_run)
            .allocates()
            .attributes("axis:i sorted:i")
            .problems("i64{3,1,3,2,1}; i8{3,1,3,2,1} sorted=0; f32[4,2] axis=0; b[2,3] axis=-1; f32[0]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table selection_gradients() {
    static constexpr gradient_row rows[] = {{"TopK", "", top_k_gradient}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
