// Kernels of operators that write elements by index, in which each element of the output gathers what is written to it, in the order of the
// updates: Scatter, ScatterElements, ScatterND. And the rule of TensorScatter.
#pragma once

#include "../codegen/sort.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The kernels of ops/scatter.hpp. Without a reduction the last update of an element is found by the largest number; with
/// one the updates are sorted by where they go, and added up in their order: the same bits every time. Constant indices are checked
/// when the text is made; a computed one that is out of range is a fault, and its update is left out.
generated_table scatter_rows();
/// The rule of TensorScatter.
rule_table scatter_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/scatter.hpp"
#include "gather.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Elements of a pack, for a walk in which all of a pack are in one row: the innermost axis in memory is none of the rows'.
inline int row_lanes(const shape& extents, layout order, std::uint32_t axes, std::size_t bytes) {
    const int inner = extents.rank() ? memory_order(extents.rank(), order).back() : 0;
    int lanes = axes >> inner & 1u ? 1 : static_cast<int>(std::max<std::size_t>(1, std::min<std::size_t>(8, 16 / bytes)));
    while (lanes > 1 && extents[inner] % lanes) lanes /= 2;
    return lanes;
}
inline std::uint32_t first_axes(int k) { return (std::uint32_t(1) << k) - 1; }

// The kernel of an output whose rows, by some of its axes, know their updates. Each thread has a pack of the output.
class row_kernel {
public:
    row_kernel(const kernel_query& query, const kernel_body& body, std::uint32_t axes, std::size_t bytes)
        : q(query), extents(query.out[0].extents), lanes(row_lanes(extents, query.out_layout[0], axes, bytes)), e(body, lanes) {
        index i = e.loop_index("i", extents.elements());
        i.level = level::thread;
        at = walk(extents, q.out_layout[0], i);
        row = e.offset(at, strides_among(extents, axes));
    }
    /// The position in an update tensor whose axes are `lead`, numbered by `u`, and behind them the axes of the output from the k-th on.
    position of_update(const shape& update, const shape& lead, int k) {
        position from = walk(lead, layout::row_major, e.counter("u", lead.elements(), level::pack));
        from.extents = update;
        for (int d = k; d < extents.rank(); ++d) {
            from.from.push_back(position::given);
            from.axes.push_back(e.axis(at, d));
        }
        return from;
    }
    std::string each(const std::string& statement) const {
        return "#pragma unroll\n    for (int lane = 0; lane < " + decimal(lanes) + "; ++lane) {\n" + e.text(level::lane) + "        " + statement + "\n    }\n";
    }
    void finish(program& p, const std::string& statements, const std::vector<workspace_parameter>& workspace) {
        std::string packed, body, behind;
        e.next_loop();
        emit_store(e, q, 0, at, {lanes > 1 ? "s[lane]" : "s[0]", compute_type(q.out[0].type), level::lane}, packed, body, behind);
        const std::string store = lanes == 1 ? behind
                                             : packed + "#pragma unroll\n    for (int lane = 0; lane < " + decimal(lanes) + "; ++lane) {\n" +
                                                   e.text(level::lane) + body + "    }\n" + behind;
        launch l;
        l.entry = "graft_written";
        l.block[0] = loop_threads;
        l.grid[0] = static_cast<unsigned>((extents.elements() / lanes + loop_threads - 1) / loop_threads);
        const std::string head = fill("    const index_t i = ((index_t)blockIdx.x * $threads + (int)threadIdx.x) * $lanes;\n    if (i >= $total) return;\n",
                                      {{"threads", decimal(loop_threads)}, {"lanes", decimal(lanes)}, {"total", decimal(extents.elements())}});
        p.source += entry_point(q, l, e.parameters(), {0}, workspace, head + e.text(level::thread) + statements + store);
        p.launches.push_back(std::move(l));
    }

    const kernel_query& q;
    shape extents;
    int lanes;
    element_emitter e;
    position at;
    index row;
};

// A tensor with updates that overwrite its elements, or are combined with them.
struct scattering {
    ops::scatter_reduction by = ops::scatter_reduction::none;
    int data = 0, update = 2;  // inputs; data -1: zeros
    int k = 0;                 // axes of the output that are indexed
    shape lead;                // axes of the updates in front of the others
    updates to;
};

inline std::string combined(ops::scatter_reduction by, bool real, const std::string& v) {
    switch (by) {
    case ops::scatter_reduction::add: return real ? "s[lane] += " + v + ";" : "s[lane] = wrapping_add(s[lane], " + v + ");";
    case ops::scatter_reduction::mul: return real ? "s[lane] *= " + v + ";" : "s[lane] = wrapping_mul(s[lane], " + v + ");";
    case ops::scatter_reduction::max: return "s[lane] = maximum(s[lane], " + v + ");";
    case ops::scatter_reduction::min: return "s[lane] = minimum(s[lane], " + v + ");";
    default: return "s[lane] = " + v + ";";
    }
}

inline const char* generate_scattering(const kernel_query& q, const kernel_body& body, const scattering& s, program& p) {
    const shape& extents = q.out[0].extents;
    const std::int64_t total = extents.elements();
    const dtype type = q.out[0].type;
    const bool sorted = s.by != ops::scatter_reduction::none;
    if (total == 0) return nullptr;
    if (s.to.rows > most_rows || s.to.count > most_rows || (sorted && !s.to.fit()) || total > std::int64_t(1) << 38)
        return "more updates or rows than are counted";
    if (sorted && type == dtype::boolean) return "it reduces truth values";
    std::int64_t largest = std::max(most_sorted, s.to.count);
    for (int i = 0; i < q.inputs; ++i)
        if (q.has(i)) largest = std::max(largest, q.in[i].elements());
    p.source = std::string("namespace graft {\n") + index_definition(2 * std::max(largest, total));
    std::vector<workspace_parameter> workspace;
    if (s.to.count && sorted) workspace = add_sorted_updates(q, p, s.to);
    if (s.to.count && !sorted) {
        add_last_updates(q, p, s.to);
        workspace = {{"const int* last", 0}};
    }
    row_kernel k(q, body, first_axes(s.k), size_of(type));
    const std::string computed = compute_name(type), lanes = decimal(k.lanes);
    std::string text = "    " + computed + " s[" + lanes + "];\n";
    if (s.data < 0)
        text += k.each("s[lane] = 0;");
    else {
        const operand x = k.e.value(body.inputs[static_cast<std::size_t>(s.data)], k.at);
        text += k.each("s[lane] = " + x.text + ";");
        k.e.next_loop();
    }
    if (s.to.count) {
        const position from = k.of_update(q.in[s.update].extents, s.lead, s.k);
        const operand v = k.e.value(body.inputs[static_cast<std::size_t>(s.update)], from);
        const std::string take = k.e.text(level::pack) + k.each(combined(s.by, is_float(type), v.text));
        const fillings names = {{"row", k.row.text}, {"count", decimal(s.to.items())}, {"take", take}};
        text += sorted ? fill(R"cuda(    for (int p = first[$row]; p >= 0 && p < $count; ++p) {
        const item one = items[p];
        if (key_of(one) != (sort_key)$row) break;
        const index_t u = (index_t)number_of(one);
$take    }
)cuda",
                              names)
                       : fill("    const int found = last[$row];\n    if (found >= 0) {\n        const index_t u = found;\n$take    }\n", names);
    }
    if (k.e.failure) return k.e.failure;
    k.finish(p, text, workspace);
    p.source += "}  // namespace graft\n";
    p.in_place = s.data == 0 && q.in_layout[0] == q.out_layout[0];
    for (int i = 1; i < q.inputs; ++i)
        if (q.has(i) && q.shares_memory(i, 0)) p.in_place = false;
    p.note = sorted ? "updates sorted by where they go" : "the last update of each row";
    return nullptr;
}

// Statements that define `row` of update number u, out of coordinates; each has its range.
class row_text {
public:
    row_text(const kernel_body& body, const shape& lead) : e(body, 1), u(e.counter("u", lead.elements(), level::thread)) {}
    /// A coordinate, counted from the end where it is negative. `known`: it has been checked.
    void add(const node& n, const operand& k, std::int64_t extent, std::int64_t stride, bool known) {
        const operand one = e.convert(k, dtype::int64);
        const operand at = e.make(dtype::int64, ("% < 0 ? % + " + decimal(extent) + " : %").c_str(), {one, one, one});
        const operand fits = e.make(dtype::boolean, ("% >= 0 && % < " + decimal(extent)).c_str(), {at, at});
        if (!known) e.demand(fits, one, {errc::op_index, graft::location(n), ops::index_out_of_range, extent});
        inside = e.both(inside, fits);
        sum += " + " + at.text + " * " + decimal(stride);
    }
    updates finish(std::int64_t count, std::int64_t rows) const {
        return {count, rows, e.parameters(), e.text(level::thread) + "    const long long row = " + inside.text + " ? " + sum + " : -1ll;\n", 1};
    }
    element_emitter e;
    index u;
    operand inside;
    std::string sum = "0ll";
};

inline const char* generate_scatter_elements(const kernel_query& q, program& p) {
    const shape &x = q.in[0].extents, &indices = q.in[1].extents;
    scattering s;
    kernel_body body;
    int axis = 0;
    if (!ops::check_elementwise_indices(q, axis).ok() || !ops::read_reduction(q, s.by).ok()) return "its attributes do not fit";
    if (is_known(q, 1) && !indices_fit(q.in[1], 0, 1, x[axis])) return out_of_range;
    if (const char* why = read_body(q, body, &p)) return why;
    s.k = x.rank();
    s.lead = indices;
    s.to.rows = x.elements();
    if (indices.elements() == 0) return generate_scattering(q, body, s, p);
    row_text to(body, indices);
    std::vector<std::int64_t> strides = strides_of(x, layout::row_major);
    const position at = walk(indices, layout::row_major, to.u);
    to.add(q.n, to.e.value(body.inputs[1], at), x[axis], strides[static_cast<std::size_t>(axis)], is_known(q, 1));
    strides[static_cast<std::size_t>(axis)] = 0;
    to.sum += " + " + to.e.offset(at, strides).text;
    if (to.e.failure) return to.e.failure;
    s.to = to.finish(indices.elements(), s.to.rows);
    s.to.lines = indices.product(0, axis);  // no update leaves what lies in front of the axis
    return generate_scattering(q, body, s, p);
}

inline const char* generate_scatter_nd(const kernel_query& q, program& p) {
    const shape &x = q.in[0].extents, &indices = q.in[1].extents;
    scattering s;
    kernel_body body;
    ops::block_index b;
    if (!ops::read_blocks(q, 0, b).ok() || !ops::read_reduction(q, s.by).ok()) return "its attributes do not fit";
    if (const char* why = read_body(q, body, &p)) return why;
    const int rank = indices.rank();
    for (int d = 0; d + 1 < rank; ++d) s.lead.push_back(indices[d]);
    s.k = b.k;
    s.to.rows = x.product(0, b.k);
    if (indices.elements() == 0) return generate_scattering(q, body, s, p);
    row_text to(body, s.lead);
    for (int j = 0; j < b.k; ++j) {
        if (is_known(q, 1) && !indices_fit(q.in[1], j, b.k, x[j])) return out_of_range;
        position at = walk(s.lead, layout::row_major, to.u);
        at.extents = indices;
        at.from.push_back(position::given);
        at.axes.push_back(index_of(j));
        to.add(q.n, to.e.value(body.inputs[1], at), x[j], x.product(j + 1, b.k), is_known(q, 1));
    }
    if (to.e.failure) return to.e.failure;
    s.to = to.finish(s.lead.elements(), s.to.rows);
    return generate_scattering(q, body, s, p);
}

// The update where it is written, else what was there.
inline operand emit_tensor_scatter(const rule_call& r) {
    const shape &x = r.c.in[0].extents, &update = r.c.in[1].extents;
    element_emitter& e = r.e;
    const int axis = resolved_axis(r.c, -2, x.rank());
    operand past = r.in(0);
    const std::int64_t n = x[axis], taken = update[axis];
    if (update.elements() == 0) return past;
    const bool circular = r.c.is("mode", "circular", "linear");
    if (r.c.has(2) && r.c.in[2].data)
        for (std::int64_t b = 0; b < x[0]; ++b)
            if (ops::index_at(r.c.in[2], b) < 0 || (!circular && ops::index_at(r.c.in[2], b) > n - taken)) return e.refuse("one of its places is out of range");
    const operand first = r.c.has(2) ? r.in(2, with_axes(r.at, {0})) : e.number(dtype::int64, 0), along = e.as_value(e.axis(r.at, axis));
    const std::string extent = decimal(n), length = decimal(taken);
    if (r.c.has(2) && !r.c.in[2].data) {
        const operand fits = e.make(dtype::boolean, circular ? "% >= 0" : ("% >= 0 && % <= " + decimal(n - taken)).c_str(), {first, first});
        e.demand(fits, first, {errc::op_index, graft::location(r.c.n), ops::index_out_of_range, n});
    }
    const operand behind = circular ? e.make(dtype::int64, ("(% - % % " + extent + " + " + extent + ") % " + extent).c_str(), {along, first})
                                    : e.make(dtype::int64, "% - %", {along, first});
    const operand written =
        circular ? e.make(dtype::boolean, ("% >= 0 && % < " + length).c_str(), {first, behind})
                 : e.make(dtype::boolean, ("% >= 0 && % <= " + decimal(n - taken) + " && % >= 0 && % < " + length).c_str(), {first, first, behind, behind});
    const index t = e.as_index(e.make(dtype::int64, "% ? % : 0", {written, behind}), taken);
    position from = r.at;
    from.extents = update;
    from = moved_along(from, axis, t, update);
    return e.where(written, past, [&] { return r.in(1, from); });
}

}  // namespace detail

GRAFT_INLINE generated_table scatter_rows() {
    static constexpr generated_row rows[] = {
        {"Scatter", "", detail::generate_scatter_elements},
        {"ScatterElements", "", detail::generate_scatter_elements},
        {"ScatterND", "", detail::generate_scatter_nd},
    };
    return rows;
}
GRAFT_INLINE rule_table scatter_rules() {
    static constexpr element_rule rows[] = {{"TensorScatter", "", element_rule::moved, detail::emit_tensor_scatter, ""}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
