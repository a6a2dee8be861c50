// Operators that put all elements elsewhere: Transpose, Expand, Tile, DepthToSpace, SpaceToDepth, ReverseSequence.
#pragma once

#include "gradient_common.hpp"
#include "indexing.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

inline status read_permutation(const op_context& c, short_list& perm) {
    const int rank = c.in[0].extents.rank();
    bool given = false;
    GRAFT_TRY(read_list(c, -1, "perm", false, perm, given));
    if (!given)
        for (perm.size = 0; perm.size < rank; ++perm.size) perm.values[perm.size] = rank - 1 - perm.size;
    if (perm.size != rank) return c.fail(errc::op_attribute, "perm has %lld entries for rank %lld", perm.size, rank);
    // Of all lists of axes this one alone may not count from the end.
    for (int d = 0; d < rank; ++d)
        if (perm[d] < 0) return c.fail(errc::op_attribute, "perm holds %lld; its axes count from 0", perm[d]);
    return resolve_axes(c, rank, perm);
}

// Transpose-1,13,21,23,24,25: y[i_perm[0], i_perm[1], …] = x[i_0, i_1, …]; without perm the axes are reversed.
inline status transpose_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    short_list perm;
    GRAFT_TRY(read_permutation(c, perm));
    shape out;
    for (int d = 0; d < perm.size; ++d) out.push_back(c.in[0].extents[static_cast<int>(perm[d])]);
    return c.set(0, c.in[0].type, out);
}
inline status transpose_run(run_context& c) {
    short_list perm;
    GRAFT_TRY(read_permutation(c, perm));
    std::int64_t from[shape::max_rank], to[shape::max_rank], moved[shape::max_rank];
    row_major(c.in[0].extents, from);
    row_major(c.out[0].extents, to);
    for (int d = 0; d < perm.size; ++d) moved[d] = from[perm[d]];
    copy_strided(size_of(c.in[0].type), c.out[0].extents, c.out[0].data, to, c.in[0].data, moved);
    return {};
}

// Expand-8,13: broadcast to the wanted shape, both ways.
inline status expand_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, false));
    if (unknown(c, 1)) return c.defer();
    short_list wanted;
    bool given = false;
    GRAFT_TRY(read_list(c, 1, nullptr, false, wanted, given));
    GRAFT_TRY(check_rank(c, wanted.size));
    const shape& s = c.in[0].extents;
    const int rank = s.rank() > wanted.size ? s.rank() : wanted.size;
    shape out = shape::filled(rank, 1);
    for (int d = 1; d <= rank; ++d) {
        const std::int64_t a = s.at(-d), b = d <= wanted.size ? wanted[wanted.size - d] : 1;
        if (b < 0) return c.fail(errc::op_shape, "extent %lld is negative", b);
        if (a != b && a != 1 && b != 1) return c.fail(errc::op_shape, "extent %lld cannot be broadcast to %lld", a, b);
        out[rank - d] = a == 1 ? b : a;
    }
    return c.set(0, c.in[0].type, out);
}
inline status expand_run(run_context& c) {
    const shape &s = c.in[0].extents, &o = c.out[0].extents;
    std::int64_t from[shape::max_rank], to[shape::max_rank], spread[shape::max_rank] = {};
    row_major(s, from);
    row_major(o, to);
    for (int d = 0; d < s.rank(); ++d) spread[o.rank() - s.rank() + d] = s[d] == 1 ? 0 : from[d];
    copy_strided(size_of(c.in[0].type), o, c.out[0].data, to, c.in[0].data, spread);
    return {};
}

// Tile-6,13: y[i_0, i_1, …] = x[i_0 mod n_0, i_1 mod n_1, …].
inline status tile_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, false));
    if (unknown(c, 1)) return c.defer();
    short_list repeats;
    bool given = false;
    GRAFT_TRY(read_list(c, 1, nullptr, false, repeats, given));
    shape out = c.in[0].extents;
    if (repeats.size != out.rank()) return c.fail(errc::op_shape, "%lld repeats for rank %lld", repeats.size, out.rank());
    for (int d = 0; d < out.rank(); ++d) {
        if (repeats[d] < 0) return c.fail(errc::op_value, "%lld repeats are negative", repeats[d]);
        if ((out[d] = checked_mul(out[d], repeats[d])) < 0) return c.fail(errc::op_shape, "axis %lld overflows with %lld repeats", d, repeats[d]);
    }
    return c.set(0, c.in[0].type, out);
}
inline status tile_run(run_context& c) {
    const shape &s = c.in[0].extents, &o = c.out[0].extents;
    if (o.elements() == 0) return {};
    axis_maps maps;
    GRAFT_TRY(maps.allocate(c, s, o));
    for (int d = 0; d < s.rank(); ++d)
        for (std::int64_t i = 0; maps.map[d] && i < o[d]; ++i) maps.map[d][i] = i % s[d];
    copy_mapped(size_of(c.in[0].type), s, o, maps, c.in[0].data, c.out[0].data, nullptr);
    return {};
}

// DepthToSpace-1,11,13,28: blocks of channels become b x b pixels; DCR: the block is the outer part of the channel, CRD: the
// inner. SpaceToDepth-1,13,28: its inverse, DCR by default.
inline status block_infer(infer_context& c, bool to_space) {
    GRAFT_TRY(check_any_type(c, 0));
    const shape& s = c.in[0].extents;
    const std::int64_t b = c.integer("blocksize", 0), area = checked_mul(b, b);
    if (b < 1 || area < 1) return c.fail(errc::op_attribute, "blocksize %lld is out of range", b);
    if (!c.is("mode", "DCR", "DCR") && !c.is("mode", "CRD", "DCR")) return c.fail(errc::op_attribute, "mode is neither DCR nor CRD");
    if (s.rank() != 4) return c.fail_shapes("the input must have the axes N, C, H, W");
    shape out = s;
    if (to_space) {
        if (s[1] % area) return c.fail(errc::op_shape, "%lld channels cannot be divided into blocks of %lld", s[1], area);
        out[1] = s[1] / area;
        out[2] = checked_mul(s[2], b);
        out[3] = checked_mul(s[3], b);
    } else {
        if (s[2] % b || s[3] % b) return c.fail(errc::op_shape, "%lld x %lld cannot be divided into blocks of %lld", s[2], s[3], b);
        out = shape{s[0], checked_mul(s[1], area), s[2] / b, s[3] / b};
    }
    if (!out.known()) return c.fail_shapes("the size of the output overflows");
    return c.set(0, c.in[0].type, out);
}
inline status depth_to_space_infer(infer_context& c) { return block_infer(c, true); }
inline status space_to_depth_infer(infer_context& c) { return block_infer(c, false); }

// `deep` has the blocks in its channels, `wide` in its pixels: both are walked as [n, c, bh, bw, h, w].
inline status block_run(run_context& c, bool to_space) {
    const shape &deep = to_space ? c.in[0].extents : c.out[0].extents, &wide = to_space ? c.out[0].extents : c.in[0].extents;
    const std::int64_t b = c.integer("blocksize", 1), h = deep[2], w = deep[3], area = h * w, channels = wide[1];
    const bool crd = c.is("mode", "CRD", "DCR");
    const shape walk{deep[0], channels, b, b, h, w};
    const std::int64_t block = crd ? area : area * channels, channel = crd ? area * b * b : area;
    const std::int64_t deep_strides[] = {area * b * b * channels, channel, b * block, block, w, 1};
    const std::int64_t wide_strides[] = {area * b * b * channels, area * b * b, w * b, 1, w * b * b, b};
    copy_strided(size_of(c.in[0].type), walk, c.out[0].data, to_space ? wide_strides : deep_strides, c.in[0].data, to_space ? deep_strides : wide_strides);
    return {};
}
inline status depth_to_space_run(run_context& c) { return block_run(c, true); }
inline status space_to_depth_run(run_context& c) { return block_run(c, false); }

// ReverseSequence-10,28: along time_axis the first sequence_lens[b] elements of batch b are reversed.
inline status reverse_sequence_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    GRAFT_TRY(check_index_type(c, 1, false));
    const shape &s = c.in[0].extents, &lengths = c.in[1].extents;
    const std::int64_t batch = c.integer("batch_axis", 1), time = c.integer("time_axis", 0);
    if (s.rank() < 2 || (batch != 0 && batch != 1) || time != 1 - batch)
        return c.fail(errc::op_attribute, "batch_axis %lld and time_axis %lld must be 0 and 1, or 1 and 0; the rank is %lld", batch, time, s.rank());
    if (lengths.rank() != 1 || lengths[0] != s[static_cast<int>(batch)]) return c.fail_shapes("sequence_lens must have one element a batch");
    return c.set(0, c.in[0].type, s);
}
constexpr const char* length_out_of_range = "sequence length %lld is out of range for %lld steps";
inline status reverse_sequence_run(run_context& c) {
    const shape& s = c.in[0].extents;
    const int batch = static_cast<int>(c.integer("batch_axis", 1)), time = 1 - batch;
    const std::int64_t inner = s.product(2, s.rank()) * static_cast<std::int64_t>(size_of(c.in[0].type));
    for (std::int64_t b = 0; b < s[batch]; ++b) {
        const std::int64_t length = index_at(c.in[1], b);
        if (length < 0 || length > s[time]) return c.fail(errc::op_index, length_out_of_range, length, s[time]);
        for (std::int64_t t = 0; t < s[time] && inner; ++t) {
            const std::int64_t u = t < length ? length - 1 - t : t;
            const std::int64_t to = batch ? t * s[1] + b : b * s[1] + t, from = batch ? u * s[1] + b : b * s[1] + u;
            std::memcpy(c.out[0].as<char>() + to * inner, c.in[0].as<char>() + from * inner, static_cast<std::size_t>(inner));
        }
    }
    return {};
}

inline status transpose_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    short_list perm;
    GRAFT_TRY(read_permutation(forward_context(c, in), perm));
    std::vector<std::int64_t> inverse(static_cast<std::size_t>(perm.size));
    for (int d = 0; d < perm.size; ++d) inverse[static_cast<std::size_t>(perm[d])] = d;
    c.give(0, c.build.apply("Transpose", {c.dy()}, {integers_attribute("perm", std::move(inverse))}));
    return {};
}
inline status expand_gradient(gradient_context& c) {
    c.give_summed(0, c.dy());
    return {};
}
// dy seen as [repeats, extent] for each axis, summed over the repeats.
inline status tile_gradient(gradient_context& c) {
    const shape x = c.extents(c.in(0)), y = c.extents(c.out());
    if (elements_of(x) == 0 || elements_of(y) == 0) return c.give(0, c.build.zeros(x, c.dy())), status();
    shape apart, kept;
    for (int d = 0; d < x.rank(); ++d) {
        if (x[d] != y[d]) {
            apart.push_back(y[d] / x[d]);
            kept.push_back(1);
        }
        if (apart.rank() >= shape::max_rank) return c.refuse("it tiles more axes than its gradient can tell apart");
        apart.push_back(x[d]);
        kept.push_back(x[d]);
    }
    c.give(0, c.build.reshape(c.sum_to(c.build.reshape(c.dy(), apart), kept), x));
    return {};
}
inline status block_gradient(gradient_context& c) {
    std::vector<attribute> attributes;
    c.copy_attribute("blocksize", attributes);
    c.copy_attribute("mode", attributes);
    c.give(0, c.build.apply(c.n.op_type == "DepthToSpace" ? "SpaceToDepth" : "DepthToSpace", {c.dy()}, std::move(attributes)));
    return {};
}
// Reversed again, everything is in its place.
inline status reverse_sequence_gradient(gradient_context& c) {
    std::vector<attribute> attributes;
    c.copy_attribute("batch_axis", attributes);
    c.copy_attribute("time_axis", attributes);
    c.give(0, c.build.apply("ReverseSequence", {c.dy(), c.in(1)}, std::move(attributes)));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_transpose(batch_carrier& c) {
    std::vector<std::int64_t> order;
    const int rank = c.extents(0).rank();
    if (!c.integers("perm", -1, order))
        for (int a = rank; a-- > 0;) order.push_back(a);
    for (int a = 0; a < static_cast<int>(order.size()); ++a)
        if (order[static_cast<std::size_t>(a)] == c.state(0).axis) return c.answer(0, {a, c.state(0).outer});
    return c.conflict("its order of axes is not legal");
}
// The old index becomes the inner one.
inline bool carry_tile(batch_carrier& c) {
    std::vector<std::int64_t> repeats;
    if (!c.only(1)) return false;
    if (!c.integers("", 1, repeats) || static_cast<int>(repeats.size()) != c.extents(0).rank()) return c.conflict("its repeats depend on contents");
    const batch_axis where = c.state(0);
    return c.answer(0, {where.axis, where.outer * repeats[static_cast<std::size_t>(where.axis)]});
}

inline op_table rearrange_ops() {
    static constexpr op_row rows[] = {
        onnx("Transpose")
            .inputs(1)
            .functions(transpose_infer, transpose_run)
            .carries(carry_transpose)
            .moves(motion::permute)
            .widens()
            .attributes("perm:is")
            .problems("f32[2,3,4]; f32[2,3,4] perm=0,2,1; u8[1,5,3,2] perm=0,2,3,1; i64[3,1,4] perm=2,0,1; f16[0,3]; f32[]"),
        onnx("Expand")
            .opsets(8)
            .inputs(2)
            .functions(expand_infer, expand_run)
            .carries(carry_expand)
            .moves(motion::repeat)
            .problems("f32[3,1] i64{2,3,4}; f32[3,4] i64{1}; i8[] i64{2,3}; f64[1,5] i64{0,1}; f32[2] i64[0]"),
        onnx("Tile")
            .opsets(6)
            .inputs(2)
            .functions(tile_infer, tile_run)
            .carries(carry_tile)
            .moves(motion::repeat)
            .problems("f32[2,3] i64{2,2}; f32[3,1,2] i64{1,3,1}; u8[5] i64{0}; f32[] i64[0]; f32[0,2] i64{2,2}; i64[4] i64{3}"),
        onnx("DepthToSpace")
            .inputs(1)
            .functions(depth_to_space_infer, depth_to_space_run)
            .carries(carry_first_axis<1>)
            .moves(motion::regroup)
            .attributes("blocksize:i mode:s")
            .problems("f32[1,8,2,3] blocksize=2; f32[2,9,1,2] blocksize=3 mode=CRD; i8[0,4,2,2] blocksize=2; f32[1,12,3,2] "
                      "blocksize=2 mode=DCR"),
        onnx("SpaceToDepth")
            .inputs(1)
            .functions(space_to_depth_infer, space_to_depth_run)
            .carries(carry_first_axis<1>)
            .moves(motion::regroup)
            .attributes("blocksize:i mode:s")
            .problems("f32[1,2,4,6] blocksize=2; f32[2,1,3,6] blocksize=3 mode=CRD; i8[0,4,2,2] blocksize=2"),
        onnx("ReverseSequence")
            .opsets(10)
            .inputs(2)
            .functions(reverse_sequence_infer, reverse_sequence_run)
            .checks(1)
            .attributes("batch_axis:i time_axis:i")
            .problems("f32[4,3] i64{4,1,2}; f32[2,5,3] i64{0,3} batch_axis=0 time_axis=1; u8[3,0] i64[0]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table rearrange_gradients() {
    static constexpr gradient_row rows[] = {
        {"Transpose", "", transpose_gradient}, {"Expand", "", expand_gradient},      {"Tile", "", tile_gradient},
        {"DepthToSpace", "", block_gradient},  {"SpaceToDepth", "", block_gradient}, {"ReverseSequence", "", reverse_sequence_gradient},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
