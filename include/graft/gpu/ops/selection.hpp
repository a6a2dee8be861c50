// Kernels of TopK: lines are sorted whole, or tile by tile where few of a long line are wanted.
#pragma once

#include "../codegen/sort.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// TopK of ops/selection.hpp.
generated_table selection_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/selection.hpp"
#include "movement.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// A key that orders unsigned as the elements do: -0 equals 0, NaN is the largest and equal to itself.
inline std::string order_function(dtype type) {
    const bool wide = size_of(compute_type(type)) == 8;
    const fillings names = {{"type", compute_name(type)},
                            {"key", wide ? "unsigned long long" : "unsigned int"},
                            {"top", wide ? "0x8000000000000000ull" : "0x80000000u"},
                            {"whole", wide ? "long long" : "int"}};
    if (is_float(type))
        return fill(R"cuda(__device__ __forceinline__ $key ordered($type x) {
    if (x != x) return ~($key)0;
    const $key bits = bits_as<$key>(x == 0 ? ($type)0 : x);
    return bits & $top ? ~bits : bits | $top;
}
)cuda",
                    names);
    if (is_unsigned(type)) return fill("__device__ __forceinline__ $key ordered($type x) { return x; }\n", names);
    return fill("__device__ __forceinline__ $key ordered($type x) { return ($key)($whole)x ^ $top; }\n", names);
}

// The sorted items of each line, of which the first k are wanted: where in the workspace, and how far apart lines are.
struct sorted_lines {
    std::int64_t offset = 0, stride = 0;
};

// Each round keeps the first k of every tile, until one tile is left of each line.
inline sorted_lines add_rounds(const kernel_query& q, program& p, sorting s, std::int64_t k, const std::vector<int>& inputs, const std::string& making) {
    const std::int64_t tile = s.tile();
    std::int64_t count = s.count, from = 0, to = 0, second = 0;
    for (int round = 0; round == 0 || count > k; ++round) {
        const std::int64_t pieces = (count + tile - 1) / tile, kept = pieces * k;
        // Rounds take turns between two halves; each is largest the first time.
        const std::int64_t bytes = round_up(s.lines * kept * s.item_bytes(), 256);
        if (round == 0) second = bytes;
        to = round % 2 ? second : 0;
        if (round < 2) p.workspace_bytes = to + bytes;
        const fillings names = {{"tile", decimal(tile)},
                                {"pieces", decimal(pieces)},
                                {"k", decimal(k)},
                                {"kept", decimal(kept)},
                                {"count", decimal(count)},
                                {"threads", decimal(sort_threads)},
                                {"making", round == 0 ? making : fill("            made = taken[line * $count + i];\n", {{"count", decimal(count)}})}};
        launch l;
        l.entry = "graft_round" + decimal(round);
        l.block[0] = sort_threads;
        l.grid[0] = static_cast<unsigned>(s.lines * pieces);
        std::vector<workspace_parameter> workspace;
        if (round) workspace.push_back({"const item* taken", from});
        workspace.push_back({"item* items", to});
        p.source += entry_point(q, l, round ? std::vector<int>() : inputs, {}, workspace,
                                fill(R"cuda(    __shared__ item s[$tile];
    const index_t line = (index_t)blockIdx.x / $pieces;
    const index_t piece = (index_t)blockIdx.x % $pieces;
    for (int t = (int)threadIdx.x; t < $tile; t += $threads) {
        const index_t i = piece * $tile + t;
        item made = last_item();
        if (i < $count) {
$making        }
        s[t] = made;
    }
    sort_tile<$tile, 1, $tile, true>(s);
    for (int t = (int)threadIdx.x; t < $k; t += $threads) items[line * $kept + piece * $k + t] = s[t];
)cuda",
                                     names));
        p.launches.push_back(std::move(l));
        from = to;
        count = kept;
    }
    return {to, count};
}

inline const char* generate_top_k(const kernel_query& q, program& p) {
    const tensor_view& x = q.in[0];
    kernel_body body;
    int axis = 0;
    if (!q.axis(q.integer("axis", -1), x.extents.rank(), axis).ok()) return "its axis does not fit its input";
    if (const char* why = read_body(q, body)) return why;
    int wanted = -1;
    for (int o = 1; o >= 0; --o)
        if (q.wants(o) && q.out[o].type != dtype::undefined) wanted = o;
    if (wanted < 0) return nullptr;
    const shape y = q.out[wanted].extents;
    const std::int64_t k = y[axis], n = x.extents[axis], inner = x.extents.product(axis + 1, x.extents.rank());
    if (y.elements() == 0) return nullptr;
    sorting s;
    s.count = n;
    s.lines = x.elements() / n;
    s.wide = size_of(compute_type(x.type)) == 8;
    const bool rounds = n > s.tile() && k <= s.tile() / 2;
    if (n > longest_sort || s.lines > INT32_MAX / s.padded() || (!rounds && s.lines * s.padded() > most_sorted)) return "more elements than are sorted at once";
    p.source = std::string("namespace graft {\n") + index_definition(2 * s.lines * s.padded()) + sort_functions(s.wide) + order_function(x.type);

    element_emitter making(body, 1);
    const index line = making.counter("line", s.lines, level::thread), i = making.counter("i", n, level::thread);
    std::vector<index> axes(static_cast<std::size_t>(x.extents.rank()));
    index rest = line;
    for (int d = x.extents.rank() - 1; d >= 0; --d) {
        axes[static_cast<std::size_t>(d)] = d == axis ? i : making.remainder(rest, x.extents[d]);
        if (d != axis) rest = making.divide(rest, x.extents[d]);
    }
    const operand element = making.value(body.inputs[0], at_axes(x.extents, axes));
    if (making.failure) return making.failure;
    const std::string item = making.text(level::thread) + "            made = make_item(" + (q.integer("largest", 1) ? "~" : "") + "ordered(" + element.text +
                             "), (unsigned int)i);\n";
    sorted_lines sorted{0, s.padded()};
    if (rounds)
        sorted = add_rounds(q, p, s, k, making.parameters(), item);
    else {
        p.workspace_bytes = s.bytes();
        add_sort(q, p, s, making.parameters(), item);
    }

    // The outputs: number `j` along the axis is the item j of its line.
    element_emitter e(body, 1);
    index number = e.loop_index("i", y.elements());
    number.level = level::thread;
    const position at = walk(y, q.out_layout[wanted], number);
    std::vector<std::int64_t> of_line(static_cast<std::size_t>(y.rank()));
    std::int64_t step = inner;
    for (int d = 0; d < y.rank(); ++d) of_line[static_cast<std::size_t>(d)] = d > axis ? y.product(d + 1, y.rank()) : 0;
    for (int d = axis - 1; d >= 0; step *= y[d--]) of_line[static_cast<std::size_t>(d)] = step;
    const index from = e.add(e.multiply(e.offset(at, of_line), sorted.stride), e.axis(at, axis));
    const index chosen = e.formula("number_of(items[%])", {from}, n);
    std::string unused[2], stores;
    std::vector<int> outputs;
    for (int o = 0; o < 2; ++o) {
        if (!q.wants(o) || q.out[o].type == dtype::undefined) continue;
        const operand v = o ? e.as_value(chosen) : e.value(body.inputs[0], with_axis(at, axis, chosen, n));
        emit_store(e, q, o, at, v, unused[0], unused[1], stores);
        outputs.push_back(o);
    }
    if (e.failure) return e.failure;
    add_each(q, p, "graft_chosen", y.elements(), e.parameters(), outputs, {{"const item* items", sorted.offset}}, e.text(level::thread) + stores);
    p.source += "}  // namespace graft\n";
    p.note = "sorted, equal ones by their place";
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE generated_table selection_rows() {
    static constexpr generated_row rows[] = {{"TopK", "", detail::generate_top_k}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
