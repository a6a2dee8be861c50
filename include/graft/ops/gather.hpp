// Operators that pick elements by index: Gather, GatherElements, GatherND, Compress.
#pragma once

#include "gradient_common.hpp"
#include "indexing.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

constexpr const char* index_out_of_range = "index %lld is out of range for extent %lld";
GRAFT_COLD inline status bad_index(const op_context& c, std::int64_t index, std::int64_t extent) {
    return c.fail(errc::op_index, index_out_of_range, index, extent);
}

/// Element i of `indices` resolved into [0, extent); false where it is out of range.
inline bool resolve_index(const tensor_view& indices, std::int64_t i, std::int64_t extent, std::int64_t& at) noexcept {
    at = index_at(indices, i);
    if (at < 0) at += extent;
    return at >= 0 && at < extent;
}

// Gather-1,11,13: y[a.., i.., b..] = x[a.., indices[i..], b..].
inline status gather_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, true));
    const shape &s = c.in[0].extents, &indices = c.in[1].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", 0), s.rank(), axis));
    GRAFT_TRY(check_rank(c, s.rank() - 1 + indices.rank()));
    shape out;
    for (int d = 0; d < axis; ++d) out.push_back(s[d]);
    for (int d = 0; d < indices.rank(); ++d) out.push_back(indices[d]);
    for (int d = axis + 1; d < s.rank(); ++d) out.push_back(s[d]);
    return c.set(0, c.in[0].type, out);
}
inline status gather_run(run_context& c) {
    const shape& s = c.in[0].extents;
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", 0), s.rank(), axis));
    const std::int64_t block = s.product(axis + 1, s.rank()) * static_cast<std::int64_t>(size_of(c.in[0].type)), count = c.in[1].elements();
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < count; ++i)
        if (!resolve_index(c.in[1], i, s[axis], at)) return bad_index(c, index_at(c.in[1], i), s[axis]);
    char* to = c.out[0].as<char>();
    const std::int64_t outer = c.out[0].elements() ? s.product(0, axis) : 0;
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t i = 0; i < count; ++i, to += block) {
            resolve_index(c.in[1], i, s[axis], at);
            std::memcpy(to, c.in[0].as<char>() + (o * s[axis] + at) * block, static_cast<std::size_t>(block));
        }
    return {};
}

// GatherElements-11,13: y[i_0, .., i_axis, ..] = x[i_0, .., indices[i..], ..].
inline status check_elementwise_indices(const op_context& c, int& axis) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, true));
    const shape &s = c.in[0].extents, &indices = c.in[1].extents;
    GRAFT_TRY(c.axis(c.integer("axis", 0), s.rank(), axis));
    if (indices.rank() != s.rank()) return c.fail_shapes("data and indices must have the same rank");
    for (int d = 0; d < s.rank(); ++d)
        if (d != axis && indices[d] > s[d]) return c.fail_shapes("indices are larger than data outside the axis");
    return {};
}
inline status gather_elements_infer(infer_context& c) {
    int axis = 0;
    GRAFT_TRY(check_elementwise_indices(c, axis));
    return c.set(0, c.in[0].type, c.in[1].extents);
}

/// Walks over all indices of GatherElements or ScatterElements: `place` is where in data index number i points.
struct element_walk {
    const shape &data, &indices;
    int axis;
    std::int64_t strides[shape::max_rank], at[shape::max_rank] = {}, base = 0;
    element_walk(const shape& d, const shape& i, int a) noexcept : data(d), indices(i), axis(a) { row_major(data, strides); }
    std::int64_t place(std::int64_t index) const noexcept { return base + index * strides[axis]; }
    void next() noexcept {
        for (int d = indices.rank() - 1; d >= 0; --d) {
            if (d != axis) base += strides[d];
            if (++at[d] < indices[d]) return;
            if (d != axis) base -= strides[d] * indices[d];
            at[d] = 0;
        }
    }
};
inline status gather_elements_run(run_context& c) {
    int axis = 0;
    GRAFT_TRY(check_elementwise_indices(c, axis));
    const std::size_t size = size_of(c.in[0].type);
    const std::int64_t count = c.in[1].elements(), extent = c.in[0].extents[axis], width = static_cast<std::int64_t>(size);
    element_walk walk(c.in[0].extents, c.in[1].extents, axis);
    for (std::int64_t i = 0, at = 0; i < count; ++i, walk.next()) {
        if (!resolve_index(c.in[1], i, extent, at)) return bad_index(c, index_at(c.in[1], i), extent);
        copy_run(size, c.out[0].as<char>() + i * width, 1, c.in[0].as<char>() + walk.place(at) * width, 1, 1);
    }
    return {};
}

/// How indices of k entries each address blocks of data, behind `batch` leading axes: GatherND and ScatterND.
struct block_index {
    int batch = 0, k = 0;
    std::int64_t count = 0, block = 0, batch_count = 1, batch_elements = 0, per_batch = 0;
    std::int64_t strides[shape::max_rank] = {};
};
inline status read_blocks(const op_context& c, std::int64_t batch, block_index& b) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, false));
    const shape &s = c.in[0].extents, &indices = c.in[1].extents;
    if (s.rank() < 1 || indices.rank() < 1) return c.fail_shapes("data and indices must have at least one axis");
    if (batch < 0 || batch >= indices.rank() || batch >= s.rank()) return c.fail(errc::op_attribute, "batch_dims %lld is out of range", batch);
    const std::int64_t k = indices.back();
    if (k < 1 || k > s.rank() - batch) return c.fail(errc::op_shape, "indices of %lld entries do not fit rank %lld", k, s.rank() - batch);
    b.batch = static_cast<int>(batch);
    b.k = static_cast<int>(k);
    for (int d = 0; d < b.batch; ++d)
        if (s[d] != indices[d]) return c.fail_shapes("the batch axes differ");
    return {};
}
// Counts and strides; only for inputs that exist, whose sizes do not overflow.
inline void measure_blocks(const op_context& c, block_index& b) noexcept {
    const shape &s = c.in[0].extents, &indices = c.in[1].extents;
    row_major(s, b.strides);
    b.count = indices.product(0, indices.rank() - 1);
    b.block = s.product(b.batch + b.k, s.rank());
    b.batch_count = s.product(0, b.batch);
    b.batch_elements = s.product(b.batch, s.rank());
    b.per_batch = b.batch_count ? b.count / b.batch_count : 0;
}
// Where in data the block of index number i starts, in elements; fails with op.index.
inline status find_block(const op_context& c, const block_index& b, std::int64_t i, std::int64_t& place) {
    place = b.per_batch ? i / b.per_batch * b.batch_elements : 0;
    for (int j = 0; j < b.k; ++j) {
        std::int64_t at = 0;
        const std::int64_t extent = c.in[0].extents[b.batch + j];
        if (!resolve_index(c.in[1], i * b.k + j, extent, at)) return bad_index(c, index_at(c.in[1], i * b.k + j), extent);
        place += at * b.strides[b.batch + j];
    }
    return {};
}

// GatherND-11,12,13: y[i.., b..] = x[indices[i.., 0], indices[i.., 1], .., b..], behind batch_dims shared axes.
inline status gather_nd_infer(infer_context& c) {
    block_index b;
    GRAFT_TRY(read_blocks(c, c.integer("batch_dims", 0), b));
    const shape &s = c.in[0].extents, &indices = c.in[1].extents;
    GRAFT_TRY(check_rank(c, indices.rank() - 1 + s.rank() - b.batch - b.k));
    shape out;
    for (int d = 0; d + 1 < indices.rank(); ++d) out.push_back(indices[d]);
    for (int d = b.batch + b.k; d < s.rank(); ++d) out.push_back(s[d]);
    return c.set(0, c.in[0].type, out);
}
inline status gather_nd_run(run_context& c) {
    block_index b;
    GRAFT_TRY(read_blocks(c, c.integer("batch_dims", 0), b));
    measure_blocks(c, b);
    const std::int64_t size = static_cast<std::int64_t>(size_of(c.in[0].type)), bytes = b.block * size;
    for (std::int64_t i = 0, place = 0; i < b.count; ++i) {
        GRAFT_TRY(find_block(c, b, i, place));
        if (bytes) std::memcpy(c.out[0].as<char>() + i * bytes, c.in[0].as<char>() + place * size, static_cast<std::size_t>(bytes));
    }
    return {};
}

// Compress-9,11,28: the slices along `axis` (without it: the elements) whose condition holds.
inline status compress_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    if (c.in[1].type != dtype::boolean) return c.fail(errc::op_type, "the condition must be bool");
    if (c.in[1].extents.rank() != 1) return c.fail_shapes("the condition must have one dimension");
    if (c.in[0].extents.rank() < 1) return c.fail_shapes("the input must have a dimension");
    int axis = 0;
    if (c.has_attribute("axis")) GRAFT_TRY(c.axis(c.integer("axis", 0), c.in[0].extents.rank(), axis));
    shape out{shape::unknown};
    if (c.has_attribute("axis")) out = c.in[0].extents, out[axis] = shape::unknown;
    GRAFT_TRY(c.set(0, c.in[0].type, out));
    return c.defer();
}
inline status compress_run(run_context& c) {
    const shape& s = c.in[0].extents;
    const bool flat = !c.has_attribute("axis");
    int axis = 0;
    if (!flat) GRAFT_TRY(c.axis(c.integer("axis", 0), s.rank(), axis));
    const std::int64_t extent = flat ? s.elements() : s[axis], outer = flat ? 1 : s.product(0, axis);
    const std::int64_t block = (flat ? 1 : s.product(axis + 1, s.rank())) * static_cast<std::int64_t>(size_of(c.in[0].type));
    const std::int64_t n = c.in[1].elements() < extent ? c.in[1].elements() : extent;
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n; ++i) kept += c.in[1].as<std::uint8_t>()[i] != 0;
    shape out = flat ? shape{kept} : s;
    if (!flat) out[axis] = kept;
    GRAFT_TRY(c.allocate(0, c.in[0].type, out));
    char* to = c.out[0].as<char>();
    for (std::int64_t o = 0; block && o < outer; ++o)
        for (std::int64_t i = 0; i < n; ++i) {
            if (!c.in[1].as<std::uint8_t>()[i]) continue;
            std::memcpy(to, c.in[0].as<char>() + (o * extent + i) * block, static_cast<std::size_t>(block));
            to += block;
        }
    return {};
}

// dy added up at the places that the indices name. One constant index is a slice; along other axes than the first, the axis is brought
// to the front and back.
inline status gather_gradient(gradient_context& c) {
    emitter& e = c.build;
    const shape x = c.extents(c.in(0)), indices = c.extents(c.in(1));
    const std::int64_t given = c.integer("axis", 0);
    const int axis = static_cast<int>(given < 0 ? given + x.rank() : given);
    double one = 0;
    if (constant_number(c, 1, one)) {
        shape part = x;
        part[axis] = 1;
        const std::int64_t at = static_cast<std::int64_t>(one);
        c.give(0, e.apply_graft("SliceGrad", {e.reshape(c.dy(), part)},
                                {integers_attribute("starts", {at < 0 ? at + x[axis] : at}), integers_attribute("axes", {axis}),
                                 integers_attribute("steps", {1}), integers_attribute("shape", std::vector<std::int64_t>(x.begin(), x.end()))}));
        return {};
    }
    const value_id places = e.reshape(cast_to(c, c.in(1), dtype::int64), shape{indices.elements(), 1});
    shape joined = x;  // dy with the axes of the indices as one
    joined[axis] = indices.elements();
    value_id dy = e.reshape(c.dy(), joined);
    shape front{x[axis]};
    std::vector<std::int64_t> forth{axis}, back;
    for (int d = 0; d < x.rank(); ++d) {
        back.push_back(d == axis ? 0 : d < axis ? d + 1 : d);
        if (d == axis) continue;
        forth.push_back(d);
        front.push_back(x[d]);
    }
    if (axis) dy = e.apply("Transpose", {dy}, {integers_attribute("perm", forth)});
    const value_id sums = e.apply("ScatterND", {e.zeros(front, dy), places, dy}, {string_attribute("reduction", "add")});
    c.give(0, axis ? e.apply("Transpose", {sums}, {integers_attribute("perm", back)}) : sums);
    return {};
}
inline status gather_elements_gradient(gradient_context& c) {
    const shape x = c.extents(c.in(0));
    c.give(0, c.build.apply("ScatterElements", {c.build.zeros(x, c.dy()), c.in(1), c.dy()},
                            {integer_attribute("axis", c.integer("axis", 0)), string_attribute("reduction", "add")}));
    return {};
}
// Shared batch axes become indices of their own: ScatterND has none.
inline status gather_nd_gradient(gradient_context& c) {
    emitter& e = c.build;
    const shape x = c.extents(c.in(0)), indices = c.extents(c.in(1));
    const int batch = static_cast<int>(c.integer("batch_dims", 0));
    value_id places = c.in(1);
    if (batch) {
        shape lead = indices;
        lead[lead.rank() - 1] = batch;
        auto made = tensor::make(dtype::int64, lead);
        if (!made.ok()) return made.take_status();
        const std::int64_t count = indices.product(0, indices.rank() - 1);
        for (std::int64_t i = 0; i < count; ++i) {
            std::int64_t rest = i;
            for (int d = indices.rank() - 2; d >= 0; --d) {
                if (d < batch) made->data<std::int64_t>()[i * batch + d] = rest % indices[d];
                rest /= indices[d];
            }
        }
        places = e.apply("Concat", {e.constant(std::move(made).value(), "batch"), places}, {integer_attribute("axis", -1)});
    }
    c.give(0, e.apply("ScatterND", {e.zeros(x, c.dy()), places, c.dy()}, {string_attribute("reduction", "add")}));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_gather(batch_carrier& c) {
    if (!c.only(3)) return false;
    if (c.carries(0) && c.carries(1)) return c.conflict("its indices depend on the sample");
    std::vector<std::int64_t> axis{c.integer("axis", 0)}, indices;
    if (!count_from_front(axis, c.extents(0).rank())) return c.conflict("its axis is out of range");
    const int along = static_cast<int>(axis[0]);
    if (c.carries(1)) return c.answer(0, {along + c.state(1).axis, c.state(1).outer});
    if (along != c.state(0).axis) return c.answer(0, {c.state(0).axis + (along < c.state(0).axis ? c.extents(1).rank() - 1 : 0), c.state(0).outer});
    // Along the samples' own axis, whose index is (sample, inner): within each of them.
    if (c.state(0).outer != 1 || c.samples != 1) return c.conflict("it takes some of the samples");
    if (!c.integers("", 1, indices)) return c.conflict("its indices depend on contents");
    std::int64_t next = 0;
    bool all = static_cast<std::int64_t>(indices.size()) == c.extent(0);
    for (const std::int64_t i : indices) all &= i == next++;
    list_places(c, c.extents(1).rank() ? along : -1);
    c.change = all ? batch_change::identity : batch_change::gather;
    return !c.options.empty() || c.conflict("the samples have no place in its shape " + text(c.output_extents()));
}
// Indices of whole slices: into axes behind which the samples lie, or apart for each sample.
inline bool carry_gather_nd(batch_carrier& c) {
    if (!c.only(3)) return false;
    const std::int64_t batch_axes = c.integer("batch_dims", 0), into = batch_axes + c.extents(1)[c.extents(1).rank() - 1];
    if (!c.carries(1) && c.state(0).axis >= into) return c.answer(0, {c.state(0).axis - static_cast<int>(into) + c.extents(1).rank() - 1, c.state(0).outer});
    const batch_axis where = c.carries(0) ? c.state(0) : c.state(1);
    if (where.axis >= batch_axes || (c.carries(0) && c.carries(1) && c.state(0) != c.state(1))) return c.conflict("it takes some of the samples");
    for (int i : {0, 1})
        if (!c.carries(i) && !c.one_for_each(i, where.axis, c.extent(1 - i), where.outer)) return false;
    return c.answer(0, where);
}

inline op_table gather_ops() {
    static constexpr op_row rows[] = {
        onnx("Gather")
            .inputs(2)
            .functions(gather_infer, gather_run)
            .carries(carry_gather)
            .moves(motion::choose)
            .weights(0)
            .checks(1)
            .attributes("axis:i")
            .problems("f32[5,3] i64{0,-1,2}; u8[2,4,3] i32{1,1} axis=1; f32[4] i64(2); f32[3,2] i64[0] axis=-1; f32[0,3] i64{1} axis=1"),
        onnx("GatherElements")
            .opsets(11)
            .inputs(2)
            .functions(gather_elements_infer, gather_elements_run)
            .carries(carry_indexed)
            .moves(motion::choose)
            .checks(1)
            .attributes("axis:i")
            .problems("f32[4] i64{3,0,-4,1,1}; i16[5] i32{2} axis=-1; f32[3] i64[0]"),
        onnx("GatherND")
            .opsets(11)
            .inputs(2)
            .functions(gather_nd_infer, gather_nd_run)
            .carries(carry_gather_nd)
            .moves(motion::choose)
            .checks(1)
            .attributes("batch_dims:i")
            .problems("f32[3,4] i64{2,-1}; f32[3,4,2] i64{1}; i8[5] i64{0} @11; f32[2,0] i64{1}"),
        onnx("Compress")
            .opsets(9)
            .inputs(2)
            .functions(compress_infer, compress_run)
            .allocates()
            .attributes("axis:i")
            .problems("f32[3,2] b[3] axis=0; f32[3,2] b[4]; u8[2,3] b[2] axis=-1; f32[0,2] b[0]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table gather_gradients() {
    static constexpr gradient_row rows[] = {
        {"Gather", "", gather_gradient}, {"GatherElements", "", gather_elements_gradient}, {"GatherND", "", gather_nd_gradient}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
