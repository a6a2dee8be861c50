// Operators that join and cut: Concat, Split, Slice.
#pragma once

#include "gradient_common.hpp"
#include "indexing.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Concat-1,4,11,13: inputs joined along `axis`.
inline status concat_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    shape out = c.in[0].extents;
    int axis = 0;
    if (c.version() >= 4 && !c.has_attribute("axis")) return c.fail(errc::op_attribute, "axis is missing");
    GRAFT_TRY(c.axis(c.integer("axis", 1), out.rank(), axis));
    for (int i = 1; i < c.inputs; ++i) {
        if (!c.has(i)) return c.fail(errc::op_shape, "input %lld is missing", i);
        GRAFT_TRY(check_same_type(c, 0, i));
        const shape& s = c.in[i].extents;
        if (s.rank() != out.rank()) return c.fail_shapes("the ranks differ");
        for (int d = 0; d < out.rank(); ++d)
            if (d == axis) {
                if ((out[d] = checked_add(out[d], s[d])) < 0) return c.fail_shapes("the output overflows");
            } else if (s[d] != out[d])
                return c.fail_shapes("extents differ outside the axis");
    }
    return c.set(0, c.in[0].type, out);
}
inline status concat_run(run_context& c) {
    const shape& o = c.out[0].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", 1), o.rank(), axis));
    const std::int64_t size = static_cast<std::int64_t>(size_of(c.out[0].type)), row = o.product(axis, o.rank()) * size, outer = o.product(0, axis);
    if (outer == 0) return {};
    char* to = c.out[0].as<char>();
    for (int i = 0; i < c.inputs; ++i) {
        const shape& s = c.in[i].extents;
        const std::int64_t part = s.product(axis, s.rank()) * size;
        for (std::int64_t r = 0; r < outer && part; ++r) std::memcpy(to + r * row, c.in[i].as<char>() + r * part, static_cast<std::size_t>(part));
        to += part;
    }
    return {};
}

// Split-1,2,11,13,18: cut along `axis` into the sizes listed, else into equal parts (18: the last may be smaller).
inline GRAFT_COLD status split_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    const shape& s = c.in[0].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", 0), s.rank(), axis));
    const std::int64_t total = s[axis];
    const integer_list listed = c.integers("split");
    const bool by_input = c.has(1), by_attribute = !by_input && c.has_attribute("split");
    if (by_input) {
        GRAFT_TRY(check_index_type(c, 1, false));
        if (c.has_attribute("num_outputs")) return c.fail(errc::op_attribute, "both the input split and num_outputs are given");
        if (c.in[1].extents.rank() != 1) return c.fail_shapes("split must have one dimension");
        if (!c.knows(1)) return c.defer();
    }
    const std::int64_t parts = by_input ? c.in[1].extents[0] : by_attribute ? listed.size : c.integer("num_outputs", c.outputs);
    if (c.version() >= 18 && !by_input && !c.has_attribute("num_outputs")) return c.fail(errc::op_attribute, "neither split nor num_outputs is given");
    if (parts != c.outputs) return c.fail(errc::op_attribute, "%lld parts for %lld outputs", parts, c.outputs);
    const std::int64_t equal = total / parts + (total % parts ? 1 : 0);
    if (!by_input && !by_attribute && total % parts && (c.version() < 18 || equal > total / (parts - 1)))
        return c.fail(errc::op_shape, "extent %lld cannot be split into %lld parts", total, parts);
    std::int64_t left = total;
    for (int i = 0; i < c.outputs; ++i) {
        const std::int64_t n = by_input ? index_at(c.in[1], i) : by_attribute ? listed[i] : equal < left ? equal : left;
        if (n < 0) return c.fail(errc::op_value, "part %lld would have %lld elements", i, n);
        if (n > left) return c.fail(errc::op_shape, "the parts are larger than extent %lld", total);
        left -= n;
        shape part = s;
        part[axis] = n;
        GRAFT_TRY(c.set(i, c.in[0].type, part));
    }
    if (left) return c.fail(errc::op_shape, "the parts leave %lld of %lld", left, total);
    return {};
}
inline status split_run(run_context& c) {
    const shape& s = c.in[0].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", 0), s.rank(), axis));
    const std::int64_t size = static_cast<std::int64_t>(size_of(c.in[0].type)), row = s.product(axis, s.rank()) * size, outer = s.product(0, axis);
    if (outer == 0) return {};
    const char* from = c.in[0].as<char>();
    for (int i = 0; i < c.outputs; ++i) {
        const std::int64_t part = c.out[i].extents.product(axis, s.rank()) * size;
        for (std::int64_t r = 0; c.wants(i) && part && r < outer; ++r)
            std::memcpy(c.out[i].as<char>() + r * part, from + r * row, static_cast<std::size_t>(part));
        from += part;
    }
    return {};
}

/// What Slice takes of each axis: `n` elements from `first` on, `step` apart.
struct slice_range {
    std::int64_t first[shape::max_rank], step[shape::max_rank];
    shape n;
};

// Slice-1,10,11,13: starts, ends, steps as numpy has them, clamped to the axis; starts of negative steps clamped into it.
inline status read_slice(const op_context& c, slice_range& range) {
    const shape& s = c.in[0].extents;
    short_list starts, ends, axes, steps;
    bool given = false, given_axes = false, given_steps = false;
    GRAFT_TRY(read_list(c, 1, "starts", true, starts, given));
    if (!given) return c.fail(errc::op_attribute, "starts are missing");
    GRAFT_TRY(read_list(c, 2, "ends", true, ends, given));
    if (!given) return c.fail(errc::op_attribute, "ends are missing");
    GRAFT_TRY(read_list(c, 3, "axes", true, axes, given_axes));
    GRAFT_TRY(read_list(c, 4, nullptr, true, steps, given_steps));
    if (starts.size != ends.size || (given_axes && axes.size != starts.size) || (given_steps && steps.size != starts.size))
        return c.fail(errc::op_shape, "starts, ends, axes and steps differ in length");
    if (!given_axes)
        for (axes.size = 0; axes.size < starts.size; ++axes.size) axes.values[axes.size] = axes.size;
    GRAFT_TRY(resolve_axes(c, s.rank(), axes));
    range.n = s;
    for (int d = 0; d < s.rank(); ++d) range.first[d] = 0, range.step[d] = 1;
    for (int i = 0; i < axes.size; ++i) {
        const int d = static_cast<int>(axes[i]);
        std::int64_t start = starts[i], end = ends[i], step = given_steps ? steps[i] : 1;
        const std::int64_t extent = s[d];
        if (step == 0) return c.fail(errc::op_value, "the step of axis %lld is 0", d);
        if (step == INT64_MIN) step = -INT64_MAX;
        // The largest number means "to the end" backwards as well: specified for forwards only, but common.
        if (step < 0 && (end == INT64_MAX || end == INT32_MAX)) end = INT64_MIN;
        const std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? extent - 1 : extent;
        if (start < 0) start += extent;
        if (end < 0) end += extent;
        start = start < 0 ? 0 : start > high ? high : start;
        end = end < low ? low : end > high ? high : end;
        const std::int64_t distance = step > 0 ? end - start : start - end, pace = step > 0 ? step : -step;
        range.n[d] = extent == 0 || distance <= 0 ? 0 : (distance - 1) / pace + 1;
        range.first[d] = start;
        range.step[d] = step;
    }
    return {};
}
inline status slice_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    for (int i = 1; i < c.inputs; ++i)
        if (c.has(i)) {
            GRAFT_TRY(check_index_type(c, i, true));
            GRAFT_TRY(check_same_type(c, i, 1));
            if (!c.knows(i)) return c.defer();
        }
    slice_range range;
    GRAFT_TRY(read_slice(c, range));
    return c.set(0, c.in[0].type, range.n);
}
inline status slice_run(run_context& c) {
    slice_range range;
    GRAFT_TRY(read_slice(c, range));
    if (range.n.elements() == 0) return {};
    std::int64_t from[shape::max_rank], to[shape::max_rank], base = 0;
    row_major(c.in[0].extents, from);
    row_major(range.n, to);
    for (int d = 0; d < range.n.rank(); ++d) {
        base += range.first[d] * from[d];
        from[d] = range.n[d] > 1 ? from[d] * range.step[d] : 0;  // a single element's step may be of any size
    }
    const std::size_t size = size_of(c.in[0].type);
    copy_strided(size, range.n, c.out[0].data, to, c.in[0].as<char>() + base * static_cast<std::int64_t>(size), from);
    return {};
}

// `extent` elements of x from `first` on along `axis`.
inline value_id part_of(gradient_context& c, value_id x, int axis, std::int64_t first, std::int64_t extent) {
    return c.build.apply("Slice", {x, c.build.integers({first}), c.build.integers({first + extent}), c.build.integers({axis})});
}

// Every input gets its part of dy.
inline status concat_gradient(gradient_context& c) {
    const int rank = c.extents(c.out()).rank(), count = static_cast<int>(c.n.inputs.size());
    const std::int64_t given = c.integer("axis", 1);
    const int axis = static_cast<int>(given < 0 ? given + rank : given);
    std::vector<std::int64_t> parts;
    int asked = 0;
    for (int i = 0; i < count; ++i) {
        parts.push_back(c.extents(c.in(i))[axis]);
        asked += c.wants(i);
    }
    if (count == 1) return c.give(0, c.dy()), status();
    if (2 * asked <= count) {  // only those that are asked for
        std::int64_t first = 0;
        for (int i = 0; i < count; first += parts[static_cast<std::size_t>(i++)])
            if (c.wants(i)) c.give(i, part_of(c, c.dy(), axis, first, parts[static_cast<std::size_t>(i)]));
        return {};
    }
    const std::vector<value_id> pieces = c.build.apply_all("", "Split", {c.dy(), c.build.integers(parts)}, {integer_attribute("axis", axis)}, count);
    for (int i = 0; i < count; ++i) c.give(i, pieces[static_cast<std::size_t>(i)]);
    return {};
}
inline status split_gradient(gradient_context& c) {
    std::vector<value_id> parts;
    for (std::size_t i = 0; i < c.n.outputs.size(); ++i) {
        if (c.given[i] == no_value && c.n.outputs[i] == no_value) return c.refuse("one of its outputs has no name, so its size is not known: give it one");
        parts.push_back(c.given[i] != no_value ? c.given[i] : c.build.zeros(c.extents(c.n.outputs[i]), c.in(0)));
    }
    const value_id joined = parts.size() == 1 ? parts[0] : c.build.apply("Concat", std::move(parts), {integer_attribute("axis", c.integer("axis", 0))});
    c.give(0, joined);
    return {};
}
inline status slice_gradient(gradient_context& c) {
    for (int i = 1; i < 5; ++i)
        if (!is_constant(c, i)) return c.refuse("its bounds are computed in the graph: freeze what lies before it");
    std::vector<tensor_view> in;
    slice_range range;
    GRAFT_TRY(read_slice(forward_context(c, in), range));
    const shape x = c.extents(c.in(0));
    std::vector<std::int64_t> starts, axes, steps;
    for (int d = 0; d < x.rank(); ++d)
        if (range.n[d] != x[d] || range.step[d] != 1) {
            starts.push_back(range.first[d]);
            axes.push_back(d);
            steps.push_back(range.step[d]);
        }
    if (axes.empty()) return c.give(0, c.dy()), status();
    c.give(0, c.build.apply_graft("SliceGrad", {c.dy()},
                                  {integers_attribute("starts", std::move(starts)), integers_attribute("axes", std::move(axes)),
                                   integers_attribute("steps", std::move(steps)), integers_attribute("shape", std::vector<std::int64_t>(x.begin(), x.end()))}));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_concat(batch_carrier& c) {
    batch_axis where;
    std::int64_t extent = 0;
    for (int i = 0; i < c.inputs(); ++i) {
        if (!c.carries(i)) continue;
        if (where.none()) where = c.state(i), extent = c.extent(i);
        if (c.state(i) != where || c.extent(i) != extent) return c.conflict("its inputs hold the samples along different axes");
    }
    std::vector<std::int64_t> axis{c.integer("axis", 1)};
    if (!count_from_front(axis, c.output_extents().rank()) || axis[0] == where.axis) return c.conflict("it joins along the axis of the samples");
    for (int i = 0; i < c.inputs(); ++i) {
        if (c.has(i) && !c.carries(i) && !c.one_for_each(i, where.axis, extent, where.outer)) return false;
    }
    return c.answer(0, where);
}
inline bool carry_slice(batch_carrier& c) {
    if (!c.only(1)) return false;
    std::vector<std::int64_t> starts, ends, axes, steps;
    if (!c.integers("starts", 1, starts) || !c.integers("ends", 2, ends)) return c.conflict("what it takes depends on contents");
    if (!c.integers("axes", 3, axes))
        for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
    c.integers("steps", 4, steps);
    if (!count_from_front(axes, c.extents(0).rank())) return c.conflict("its axis is out of range");
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (axes[i] != c.state(0).axis) continue;
        if ((i < steps.size() && steps[i] != 1) || c.output_extents()[c.state(0).axis] != c.extent(0)) return c.conflict("it takes some of the samples");
        c.change = batch_change::slice;
    }
    return c.answer(0, c.state(0));
}

inline op_table slice_ops() {
    static constexpr op_row rows[] = {
        onnx("Concat")
            .in_eight_bits(eight_bits::computes)
            .inputs_from(1)
            .functions(concat_infer, concat_run)
            .carries(carry_concat)
            .moves(motion::join)
            .weights_from(0)
            .widens()
            .attributes("axis:i")
            .problems("f32[2,3] f32[2,1] axis=1; f32[1,2] f32[3,2] f32[0,2] axis=0; i64[2,3,4] i64[2,3,1] axis=-1; u8[5] axis=0; "
                      "f32[0,2] f32[0,3] axis=1"),
        onnx("Split")
            .opsets(1, 12)
            .inputs(1)
            .outputs_from(1)
            .functions(split_infer, split_run)
            .carries(carry_axis_first)
            .moves(motion::part)
            .attributes("axis:i split:is")
            .problems("f32[4,2] @11; f32[3,6] axis=-1 split=6 @11"),
        onnx("Split")
            .opsets(13, 17)
            .inputs(1, 2)
            .outputs_from(1)
            .functions(split_infer, split_run)
            .carries(carry_axis_first)
            .moves(motion::part)
            .attributes("axis:i")
            .problems("f32[4,2] i64{4} @13; f32[3,6] axis=-1 @13"),
        onnx("Split")
            .opsets(18)
            .inputs(1, 2)
            .outputs_from(1)
            .functions(split_infer, split_run)
            .carries(carry_axis_first)
            .moves(motion::part)
            .attributes("axis:i num_outputs:i")
            .problems("f32[5,2] i64{5}; f32[3,6] axis=1 num_outputs=1; f32[0,2] i64{0}"),
        onnx("Slice")
            .opsets(1, 9)
            .inputs(1)
            .functions(slice_infer, slice_run)
            .carries(carry_slice)
            .moves(motion::part)
            .attributes("starts:is ends:is axes:is")
            .problems("f32[5,6] starts=1,-3 ends=3,100 @9; f32[5,6] starts=2 ends=4 axes=1 @7"),
        onnx("Slice")
            .opsets(10)
            .inputs(3, 5)
            .functions(slice_infer, slice_run)
            .carries(carry_slice)
            .moves(motion::part)
            .problems("f32[5,6] i64{1,0} i64{4,6} - i64{2,3}; f32[5,6] i32{-1} i32{-100} i32{1} i32{-2}; i8[4] i64{4} i64{9}; "
                      "f32[0,3] i64{0} i64{1} i64{0} i64{-1}; f32[2,3,4] i64{1} i64{3} i64{-2}"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table slice_gradients() {
    static constexpr gradient_row rows[] = {{"Concat", "", concat_gradient}, {"Split", "", split_gradient}, {"Slice", "", slice_gradient}};
    return rows;
}

// graft.SliceGrad-1: zeros of the shape `shape`, with dy at the places that Slice took: along each of `axes` from `starts` on, `steps` apart.
inline status read_slice_grad(const op_context& c, slice_range& range, shape& x) {
    const integer_list extents = c.integers("shape"), starts = c.integers("starts"), axes = c.integers("axes"), steps = c.integers("steps");
    if (extents.size > shape::max_rank || extents.size != c.in[0].extents.rank()) return c.fail_shapes("the shape has not the rank of the gradient");
    x = shape::from(extents.begin(), extents.end());
    if (elements_of(x) < 0) return c.fail_shapes("the shape is not known or overflows");
    if (starts.size != axes.size || steps.size != axes.size) return c.fail(errc::op_attribute, "starts, axes and steps differ in length");
    range.n = c.in[0].extents;
    for (int d = 0; d < x.rank(); ++d) range.first[d] = 0, range.step[d] = 1;
    for (int i = 0; i < axes.size; ++i) {
        int d = 0;
        GRAFT_TRY(c.axis(axes[i], x.rank(), d));
        if (steps[i] == INT64_MIN) return c.fail(errc::op_attribute, "the step of axis %lld is out of range", d);
        range.first[d] = starts[i];
        range.step[d] = steps[i];
    }
    for (int d = 0; d < x.rank(); ++d) {
        const std::int64_t n = range.n[d], first = range.first[d], pace = range.step[d] < 0 ? -range.step[d] : range.step[d];
        if (n == 0) continue;
        const bool fits = first >= 0 && first < x[d] && (n == 1 || (pace > 0 && n - 1 <= (range.step[d] > 0 ? x[d] - 1 - first : first) / pace));
        if (!fits) return c.fail_shapes("the gradient does not fit into the shape");
    }
    return {};
}
inline status slice_grad_infer(infer_context& c) {
    slice_range range;
    shape x;
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(read_slice_grad(c, range, x));
    return c.set(0, c.in[0].type, x);
}
inline status slice_grad_run(run_context& c) {
    slice_range range;
    shape x;
    GRAFT_TRY(read_slice_grad(c, range, x));
    const std::int64_t bytes = bytes_of(c.out[0].type, x);
    if (bytes > 0) std::memset(c.out[0].data, 0, static_cast<std::size_t>(bytes));
    if (range.n.elements() == 0) return {};
    std::int64_t from[shape::max_rank], to[shape::max_rank], base = 0;
    row_major(range.n, from);
    row_major(x, to);
    for (int d = 0; d < x.rank(); ++d) {
        base += range.first[d] * to[d];
        to[d] = range.n[d] > 1 ? to[d] * range.step[d] : 0;
    }
    const std::size_t size = size_of(c.in[0].type);
    copy_strided(size, range.n, c.out[0].as<char>() + base * static_cast<std::int64_t>(size), to, c.in[0].data, from);
    return {};
}

inline op_table slice_training_ops() {
    static constexpr op_row rows[] = {
        own("SliceGrad")
            .inputs(1)
            .functions(slice_grad_infer, slice_grad_run)
            .attributes("starts:is axes:is steps:is shape:is")
            .problems("f32[2,3] starts=1,5 axes=0,1 steps=2,-2 shape=5,6; f32[2,3,2] starts=1 axes=2 steps=1 shape=2,3,4; f32[1,17] starts=3 axes=0 steps=1 "
                      "shape=5,17; "
                      "f64[3] starts=2 axes=0 steps=-1 shape=3; "
                      "f16[0,3] starts=0 axes=0 steps=1 shape=4,3; bf16[2] starts=0 axes=0 steps=3 shape=5"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
