// Operators that give the same elements another shape: Reshape, Flatten, Squeeze, Unsqueeze.
#pragma once

#include "gradient_common.hpp"
#include "indexing.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// The kernel of them all; the executor may pass the input's memory on instead.
inline status view_run(run_context& c) {
    const std::int64_t bytes = bytes_of(c.in[0].type, c.in[0].extents);
    if (bytes > 0 && c.out[0].data != c.in[0].data) std::memcpy(c.out[0].data, c.in[0].data, static_cast<std::size_t>(bytes));
    return {};
}

// Reshape-1,5,13,14,19,21,23,24,25: extents as listed; 0 copies the input's (or is 0, by allowzero), one -1 takes the rest.
inline status reshape_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    if (c.has(1)) GRAFT_TRY(check_index_type(c, 1, false));
    if (unknown(c, 1)) return c.defer();
    short_list wanted;
    bool given = false;
    GRAFT_TRY(read_list(c, 1, "shape", false, wanted, given));
    if (!given) return c.fail(errc::op_attribute, "the shape is missing");
    GRAFT_TRY(check_rank(c, wanted.size));
    const shape& s = c.in[0].extents;
    const bool allow_zero = c.integer("allowzero", 0) != 0;
    const std::int64_t total = elements_of(s);
    shape out, free_in = s;  // free_in: the extents that are not copied to the same place, 1 elsewhere
    std::int64_t listed = 1;
    int open = -1;
    bool zero = false;
    for (int d = 0; d < wanted.size; ++d) {
        std::int64_t e = wanted[d];
        if (e == -1) {
            if (open >= 0) return c.fail(errc::op_shape, "more than one extent is -1");
            open = d;
        } else if (e < -1)
            return c.fail(errc::op_shape, "extent %lld is negative", e);
        else if (e == 0 && !allow_zero) {
            if (d >= s.rank()) return c.fail_shapes("extent 0 copies an axis that the input has not");
            e = s[d];
            free_in[d] = 1;
        } else {
            zero |= e == 0;
            if ((listed = checked_mul(listed, e)) < 0) return c.fail(errc::op_shape, "the number of elements overflows");
        }
        out.push_back(e);
    }
    if (open >= 0) {
        const std::int64_t rest = elements_of(free_in);
        if (zero || listed == 0 || rest < 0 || rest % listed) return c.fail_shapes("the extent -1 cannot be found");
        out[open] = rest / listed;
    }
    if (total < 0 || elements_of(out) != total) return c.fail_shapes("the new shape has another number of elements");
    return c.set(0, c.in[0].type, out);
}

// Flatten-1,9,11,13,21,23,24,25: two axes, those before `axis` and those from it on.
inline status flatten_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    const shape& s = c.in[0].extents;
    std::int64_t axis = c.integer("axis", 1), before = 1, behind = 1;
    if (s.rank() == 0 && !c.has_attribute("axis")) axis = 0;
    if (axis < -s.rank() || axis > s.rank()) return c.fail(errc::op_attribute, "axis %lld is out of range for rank %lld", axis, s.rank());
    if (axis < 0) axis += s.rank();
    for (int d = 0; d < s.rank(); ++d) (d < axis ? before : behind) = checked_mul(d < axis ? before : behind, s[d]);
    if (before < 0 || behind < 0) return c.fail_shapes("the number of elements overflows");
    return c.set(0, c.in[0].type, shape{before, behind});
}

// Squeeze-1,11,13,21,23,24,25: leaves out the axes named, or all of extent 1.
inline status squeeze_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    if (c.has(1)) GRAFT_TRY(check_index_type(c, 1, false));
    if (unknown(c, 1)) return c.defer();
    const shape& s = c.in[0].extents;
    short_list axes;
    bool given = false, drop[shape::max_rank] = {};
    GRAFT_TRY(read_list(c, 1, "axes", false, axes, given));
    GRAFT_TRY(resolve_axes(c, s.rank(), axes));
    for (int i = 0; i < axes.size; ++i) {
        if (s[static_cast<int>(axes[i])] != 1) return c.fail(errc::op_shape, "axis %lld has extent %lld, not 1", axes[i], s[static_cast<int>(axes[i])]);
        drop[axes[i]] = true;
    }
    shape out;
    for (int d = 0; d < s.rank(); ++d)
        if (given ? !drop[d] : s[d] != 1) out.push_back(s[d]);
    return c.set(0, c.in[0].type, out);
}

// Unsqueeze-1,11,13,21,23,24,25: axes of extent 1 are put in, numbered as in the output.
inline status unsqueeze_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    if (c.has(1)) GRAFT_TRY(check_index_type(c, 1, false));
    if (unknown(c, 1)) return c.defer();
    const shape& s = c.in[0].extents;
    short_list axes;
    bool given = false, one[shape::max_rank] = {};
    GRAFT_TRY(read_list(c, 1, "axes", false, axes, given));
    if (!given) return c.fail(errc::op_attribute, "the axes are missing");
    GRAFT_TRY(check_rank(c, s.rank() + axes.size));
    GRAFT_TRY(resolve_axes(c, s.rank() + axes.size, axes));
    for (int i = 0; i < axes.size; ++i) one[axes[i]] = true;
    shape out;
    for (int d = 0, next = 0; d < s.rank() + axes.size; ++d) out.push_back(one[d] ? 1 : s[next++]);
    return c.set(0, c.in[0].type, out);
}

// The same elements in the shape that they had.
inline status view_gradient(gradient_context& c) {
    c.give(0, c.build.reshape(c.dy(), c.extents(c.in(0))));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_reshape(batch_carrier& c) {
    return carry_view_by(
        c, [](batch_carrier&, int axis) { return axis; }, batch_change::reshape);
}
inline bool carry_flatten(batch_carrier& c) {
    return carry_view_by(
        c, [](batch_carrier& of, int axis) { return axis < of.integer("axis", 1) ? 0 : 1; }, batch_change::view);
}
inline bool carry_squeeze(batch_carrier& c) {
    return carry_view_by(
        c,
        [](batch_carrier& of, int axis) {
            const shape& from = of.extents(0);
            std::vector<std::int64_t> axes;
            if (!of.integers("axes", 1, axes))
                for (int a = 0; a < from.rank(); ++a)
                    if (from[a] == 1) axes.push_back(a);
            count_from_front(axes, from.rank());
            int gone = 0;
            for (int a = 0; a < axis; ++a) gone += is_among(axes, a);
            return is_among(axes, axis) ? -1 : axis - gone;
        },
        batch_change::view);
}
inline bool carry_unsqueeze(batch_carrier& c) {
    return carry_view_by(
        c,
        [](batch_carrier& of, int axis) {
            std::vector<std::int64_t> axes;
            if (!of.integers("axes", 1, axes)) return axis;
            count_from_front(axes, of.output_extents().rank());
            for (int a = 0; a <= axis; ++a) axis += is_among(axes, a);
            return axis;
        },
        batch_change::view);
}

inline op_table shape_ops() {
    static constexpr op_row rows[] = {
        onnx("Reshape")
            .opsets(1, 4)
            .inputs(1)
            .functions(reshape_infer, view_run)
            .carries(carry_reshape)
            .view()
            .widens()
            .attributes("shape:is consumed_inputs:is")
            .problems("f32[2,3] shape=3,-1 @4"),
        onnx("Reshape")
            .opsets(5)
            .inputs(2)
            .functions(reshape_infer, view_run)
            .carries(carry_reshape)
            .view()
            .widens()
            .attributes("allowzero:i")
            .problems("f32[2,3,4] i64{0,-1}; i8[6] i64{2,3} @13; f32[0,3] i64{3,0} allowzero=1; f32[1] i64[0]; f64[] i64{1,1}; "
                      "f32[0,3,4] i64{0,-1}"),
        onnx("Flatten")
            .inputs(1)
            .functions(flatten_infer, view_run)
            .carries(carry_flatten)
            .view()
            .widens()
            .attributes("axis:i")
            .problems("f32[2,3,4]; f32[2,3,4] axis=0; i64[2,3,4] axis=-1; f32[2,3,4] axis=3; f32[0,3,5]; f32[]"),
        onnx("Squeeze")
            .opsets(1, 12)
            .inputs(1)
            .functions(squeeze_infer, view_run)
            .carries(carry_squeeze)
            .view()
            .widens()
            .attributes("axes:is")
            .problems("f32[1,3,1] axes=0 @11; f32[1,3,1] @11; f32[1,1] axes=-1 @12"),
        onnx("Squeeze")
            .opsets(13)
            .inputs(1, 2)
            .functions(squeeze_infer, view_run)
            .carries(carry_squeeze)
            .view()
            .widens()
            .problems("f32[1,3,1] i64{-1}; u8[1,3,1]; f32[1,0,1] i64{0,2}; f32[]"),
        onnx("Unsqueeze")
            .opsets(1, 12)
            .inputs(1)
            .functions(unsqueeze_infer, view_run)
            .carries(carry_unsqueeze)
            .view()
            .widens()
            .attributes("axes:is")
            .problems("f32[3,4] axes=0,3 @11; f32[] axes=0 @12"),
        onnx("Unsqueeze")
            .opsets(13)
            .inputs(2)
            .functions(unsqueeze_infer, view_run)
            .carries(carry_unsqueeze)
            .view()
            .widens()
            .problems("f32[3,4] i64{0,-1}; f16[] i64{0}; f32[3,4] i64{4,1,2}; f32[0,2] i64{1}"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table shape_gradients() {
    static constexpr gradient_row rows[] = {
        {"Reshape", "", view_gradient}, {"Flatten", "", view_gradient}, {"Squeeze", "", view_gradient}, {"Unsqueeze", "", view_gradient}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
