// Kernels that move or convert elements: Transpose, Concat, Split, Cast between floats, linear quantisation.
#pragma once

#include "../move.hpp"
#include "attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct transpose_parameters {
    int size, rank;
    std::int64_t extents[8];
    int permutation[8];
};
inline GRAFT_COLD const char* choose_transpose(const kernel_query& q, kernel_choice& choice) {
    const shape& x = q.in[0].extents;
    if (q.in_layout[0] != layout::row_major || q.out_layout[0] != layout::row_major) return "a layout that it does not take";
    if (x.rank() > 8 || x.rank() == 0 || x.elements() == 0) return "its rank is 0 or over 8, or it is empty";
    transpose_parameters p{};
    p.size = static_cast<int>(size_of(q.in[0].type));
    p.rank = x.rank();
    const integer_list permutation = q.integers("perm");
    for (int i = 0; i < p.rank; ++i) {
        p.extents[i] = x[i];
        p.permutation[i] = permutation.size ? static_cast<int>(permutation[i]) : p.rank - 1 - i;
        if (p.permutation[i] < 0) p.permutation[i] += p.rank;
    }
    choice.set(p);
    choice.note = "tiles";
    return nullptr;
}
inline void run_transpose_kernel(const kernel_call& c) {
    const auto& p = c.parameters<transpose_parameters>();
    run_transpose(c.level, p.size, p.rank, p.extents, p.permutation, c.in[0].data, c.out[0].data, c.pool);
}

// Between blocks of channels and channels last: a pixel's channels are copied a block at a time.
struct channels_last_parameters {
    std::int64_t n, c, pixels;
    int block;
    bool from_blocks;
};
inline GRAFT_COLD const char* choose_channels_last(const kernel_query& q, kernel_choice& choice) {
    const bool from = q.in_layout[0] == layout::blocked;
    if (!q.all_float32()) return "it is not float32";
    if (from == (q.out_layout[0] == layout::blocked)) return "neither side is blocked, or both are";
    const shape& images = from ? q.in[0].extents : q.out[0].extents;
    choice.set(channels_last_parameters{images[0], images[1], images[2] * images[3], (from ? q.in_layout[0] : q.out_layout[0]).channels, from});
    choice.note = "between blocks and channels last";
    return nullptr;
}
inline void run_channels_last(const kernel_call& c) {
    const auto& p = c.parameters<channels_last_parameters>();
    const std::int64_t blocks = (p.c + p.block - 1) / p.block, band = 256, bands = (p.pixels + band - 1) / band;
    const float* x = c.input(0);
    float* y = c.output(0);
    parallel_for(c.pool, p.n * bands, [&](std::int64_t task) {
        const std::int64_t image = task / bands, first = task % bands * band, last = std::min(p.pixels, first + band);
        for (std::int64_t b = 0; b < blocks; ++b) {
            const std::size_t bytes = static_cast<std::size_t>(std::min<std::int64_t>(p.block, p.c - b * p.block)) * sizeof(float);
            for (std::int64_t i = first; i < last; ++i) {
                const std::int64_t in_blocks = ((image * blocks + b) * p.pixels + i) * p.block, channels_last = (image * p.pixels + i) * p.c + b * p.block;
                if (p.from_blocks)
                    std::memcpy(y + channels_last, x + in_blocks, bytes);
                else
                    std::memcpy(y + in_blocks, x + channels_last, bytes);
            }
        }
    });
}

// Concat and Split: each part is `outer` runs of its own length.
struct part_parameters {
    int axis;
};
inline GRAFT_COLD const char* choose_parts(const kernel_query& q, kernel_choice& choice) {
    if (!q.all_row_major()) return "a layout that it does not take";
    const bool concat = q.n.op_type == "Concat";
    const shape& whole = concat ? q.out[0].extents : q.in[0].extents;
    std::int64_t axis = integer_of(q.n, "axis", q.version() < 4 && concat ? 1 : 0);
    if (axis < 0) axis += whole.rank();
    choice.set(part_parameters{static_cast<int>(axis)});
    choice.note = "copies of runs";
    return nullptr;
}
template <bool Concat>
inline void run_parts(const kernel_call& c) {
    const int axis = c.parameters<part_parameters>().axis, parts = Concat ? c.inputs : c.outputs;
    const tensor_view& whole = Concat ? c.out[0] : c.in[0];
    const std::int64_t outer = whole.extents.product(0, axis);
    const std::int64_t inner = whole.extents.product(axis + 1, whole.extents.rank()) * static_cast<std::int64_t>(size_of(whole.type));
    const std::int64_t stride = whole.extents[axis] * inner;
    std::int64_t before = 0;
    for (int i = 0; i < parts; ++i) {
        const tensor_view& part = Concat ? c.in[i] : c.out[i];
        const std::int64_t run = part.extents[axis] * inner;
        if (part.data && run) {
            auto* of_part = static_cast<char*>(part.data);
            auto* of_whole = static_cast<char*>(whole.data) + before;
            // Tasks of some 64 KB: several short runs, or a piece of a long one.
            const std::int64_t group = std::max<std::int64_t>(1, 65536 / run), groups = (outer + group - 1) / group;
            const std::int64_t pieces = (run + 65535) / 65536;
            parallel_for(c.pool, groups * pieces, [&](std::int64_t t) {
                const std::int64_t g = t / pieces, begin = t % pieces * 65536, end = std::min(run, begin + 65536);
                for (std::int64_t o = g * group; o < std::min(outer, (g + 1) * group); ++o) {
                    char* to = (Concat ? of_whole + o * stride : of_part + o * run) + begin;
                    const char* from = (Concat ? of_part + o * run : of_whole + o * stride) + begin;
                    std::memcpy(to, from, static_cast<std::size_t>(end - begin));
                }
            });
        }
        before += run;
    }
}

inline GRAFT_COLD const char* choose_cast(const kernel_query& q, kernel_choice& choice) {
    const dtype from = q.in[0].type, to = q.out[0].type;
    const bool narrow = from == dtype::float32 && (to == dtype::float16 || to == dtype::bfloat16);
    const bool wide = to == dtype::float32 && (from == dtype::float16 || from == dtype::bfloat16);
    if (!q.all_row_major() || (!narrow && !wide)) return "not between float32 and a half";
    choice.set(0);
    choice.note = "conversion";
    return nullptr;
}
inline void run_cast(const kernel_call& c) {
    const std::int64_t n = c.in[0].elements();
    const dtype from = c.in[0].type;
    if (from == dtype::float16)
        run_from_float16(c.level, c.in[0].as<std::uint16_t>(), c.output(0), n, c.pool);
    else if (from == dtype::bfloat16)
        run_from_bfloat16(c.level, c.in[0].as<std::uint16_t>(), c.output(0), n, c.pool);
    else if (c.out[0].type == dtype::float16)
        run_to_float16(c.level, c.input(0), c.out[0].as<std::uint16_t>(), n, c.pool);
    else
        run_to_bfloat16(c.level, c.input(0), c.out[0].as<std::uint16_t>(), n, c.pool);
}

// QuantizeLinear and DequantizeLinear of float32 and 8 bits, per tensor or along one axis.
inline GRAFT_COLD const char* choose_quantize(const kernel_query& q, kernel_choice& choice) {
    const bool quantizes = graft::ops::row_of(q.n).traits.role == op_role::quantize;
    const tensor_view &narrow = quantizes ? q.out[0] : q.in[0], &wide = quantizes ? q.in[0] : q.out[0];
    if (!q.all_row_major() || wide.type != dtype::float32 || q.in[1].type != dtype::float32) return "it is not float32";
    if (narrow.type != dtype::int8 && narrow.type != dtype::uint8) return "it is not 8 bits";
    if (q.has(2) && (q.in[2].type != narrow.type || q.in[2].extents != q.in[1].extents)) return "its zero point differs in type or shape";
    if (integer_of(q.n, "block_size", 0)) return "it is blocked";
    quantize_problem p;
    p.is_signed = narrow.type == dtype::int8;
    const shape& x = q.in[0].extents;
    if (q.in[1].elements() == 1)
        p.inner = x.elements();
    else {
        std::int64_t axis = integer_of(q.n, "axis", 1);
        if (axis < 0) axis += x.rank();
        if (q.in[1].extents.rank() != 1 || axis < 0 || axis >= x.rank() || q.in[1].extents[0] != x[static_cast<int>(axis)])
            return "its scales do not run along the axis";
        p.outer = x.product(0, static_cast<int>(axis));
        p.axis = x[static_cast<int>(axis)];
        p.inner = x.product(static_cast<int>(axis) + 1, x.rank());
    }
    choice.set(p);
    choice.note = p.axis > 1 ? "per axis" : "per tensor";
    return nullptr;
}
inline void run_quantize_kernel(const kernel_call& c) {
    run_quantize(c.level, c.parameters<quantize_problem>(), c.input(0), c.input(1), c.inputs > 2 ? c.in[2].data : nullptr, c.out[0].data, c.pool);
}
inline void run_dequantize_kernel(const kernel_call& c) {
    run_dequantize(c.level, c.parameters<quantize_problem>(), c.in[0].data, c.input(1), c.inputs > 2 ? c.in[2].data : nullptr, c.output(0), c.pool);
}

inline kernel_rows move_kernel_rows() {
#define GRAFT_MOVE(name, choose, run) \
    kernel_row { name, "", wanted(name) ? choose : nullptr, wanted(name) ? run : nullptr, false }
    static constexpr kernel_row rows[] = {
        GRAFT_MOVE("Transpose", choose_transpose, run_transpose_kernel),
        GRAFT_MOVE("Transpose", choose_channels_last, run_channels_last),
        GRAFT_MOVE("Concat", choose_parts, run_parts<true>),
        GRAFT_MOVE("Split", choose_parts, run_parts<false>),
        GRAFT_MOVE("Cast", choose_cast, run_cast),
        GRAFT_MOVE("QuantizeLinear", choose_quantize, run_quantize_kernel),
        GRAFT_MOVE("DequantizeLinear", choose_quantize, run_dequantize_kernel),
    };
#undef GRAFT_MOVE
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
