// Kernels of running sums and products: CumSum, CumProd.
#pragma once

#include "../codegen/reduce.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// CumSum and CumProd of ops/cumulative.hpp.
generated_table cumulative_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/cumulative.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// One thread goes along each line. Integers are summed in their own bits, which wrap.
template <bool Product>
const char* generate_cumulative(const kernel_query& q, program& p) {
    const tensor_view& x = q.in[0];
    int axis = 0;
    kernel_body body;
    if (!q.in[1].data) return "its axis is computed in the graph";
    if (!ops::cumulative_axis(q, axis).ok()) return "its axis does not fit its input";
    if (const char* why = read_body(q, body)) return why;
    if (x.extents.elements() == 0) return nullptr;
    const reduction_axes lines = join_axes(x.extents, q.out_layout[0], 1u << axis);
    if (lines.outputs >= std::int64_t(1) << 38) return "more lines than a launch has blocks for";
    const bool exclusive = q.integer("exclusive", 0) != 0, reverse = q.integer("reverse", 0) != 0;
    element_emitter e(body, 1);
    const index base = spread(e, e.counter("k", lines.outputs, level::thread), lines.kept),
                along = spread(e, e.counter("n", lines.count, level::pack), lines.reduced);
    const std::string name = e.define("i", "index_t", e.add(base, along).text, level::pack),
                      sum = memory_name(is_float(x.type) ? compute_type(x.type) : dtype::uint64);
    const operand v = e.value(body.inputs[0], walk(x.extents, q.out_layout[0], e.loop_index(name.c_str(), x.extents.elements())));
    if (e.failure) return e.failure;
    const fillings names = {{"sum", sum},
                            {"sign", Product ? "*" : "+"},
                            {"value", v.text},
                            {"i", name},
                            {"type", memory_name(x.type)},
                            {"computed", compute_name(x.type)},
                            {"lines", decimal(lines.outputs)},
                            {"count", decimal(lines.count)},
                            {"start", Product ? "1" : "0"},
                            {"n", reverse ? decimal(lines.count - 1) + " - step" : "step"}};
    const std::string add = fill("        sum = sum $sign ($sum)$value;\n", names), store = fill("        out0[$i] = stored<$type>(($computed)sum);\n", names);
    const std::string head = fill("    const index_t k = (index_t)blockIdx.x * 64 + (int)threadIdx.x;\n    if (k >= $lines) return;\n", names);
    const std::string loop = fill("    $sum sum = $start;\n    for (index_t step = 0; step < $count; ++step) {\n        const index_t n = $n;\n", names);
    launch l;
    l.entry = "graft_lines";
    l.block[0] = 64;
    l.grid[0] = static_cast<unsigned>((lines.outputs + 63) / 64);
    p.source = std::string("namespace graft {\ntypedef ") + (x.extents.elements() + 64 < INT32_MAX ? "int" : "long long") + " index_t;\n";
    p.source += entry_point(q, l, e.parameters(), {0}, std::vector<workspace_parameter>(),
                            head + e.text(level::thread) + loop + e.text(level::pack) + (exclusive ? store + add : add + store) + "    }\n");
    p.source += "}  // namespace graft\n";
    p.launches.push_back(std::move(l));
    p.note = "a thread for each line";
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE generated_table cumulative_rows() {
    static constexpr generated_row rows[] = {
        {"CumSum", "", detail::generate_cumulative<false>},
        {"CumProd", "", detail::generate_cumulative<true>},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
