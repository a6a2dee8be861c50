// Reductions with what is fused with them: part of reduce.hpp.
#pragma once

#include "reduce.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE const char* reduction::begin(const fused_node* around) {
    if (elements_of(extents) < 0) return "a shape that is not known";
    if (around) return read_fused(*around);
    if (const char* why = read_body(q, body)) return why;
    inputs = body.inputs;
    outputs = body.outputs;
    stored_finished = finished;
    stored_mapped = mapped;
    return nullptr;
}
GRAFT_INLINE const char* reduction::read_fused(const fused_node& around) {
    whole = &around.whole;
    body = around.body;
    inputs = around.n->inputs;
    outputs = around.n->outputs;
    bytes = 16;
    for (std::size_t i = 0; i < body.inputs.size(); ++i)
        if (body.values[body.inputs[i]].extents == extents && body.order[i] == order) bytes = std::min(bytes, size_of(body.memory[i]));
    const auto made_by = [&](const std::vector<int>& of, value_id v) {
        return std::any_of(of.begin(), of.end(), [&](int o) { return outputs[static_cast<std::size_t>(o)] == v; });
    };
    for (int b = 0; b < whole->outputs; ++b) {
        const value_id v = body.outputs[static_cast<std::size_t>(b)];
        if (made_by(finished, v) || (mapped.empty() && !made_by(mapped, v) && whole->out[b].extents == q.out[0].extents))
            stored_finished.push_back(b);
        else if (!mapped.empty() && whole->out[b].extents == extents)
            stored_mapped.push_back(b);
        else
            return "an output of the body that is not of the reduction's extents";
    }
    if (stored_mapped.empty()) mapped.clear();
    return nullptr;
}

namespace detail {

inline layout walked_layout(const kernel_body& body, value_id v) {
    const auto as_input = std::find(body.inputs.begin(), body.inputs.end(), v);
    if (as_input != body.inputs.end()) return body.order[static_cast<std::size_t>(as_input - body.inputs.begin())];
    for (std::size_t i = 0; i < body.inputs.size(); ++i)
        if (body.values[body.inputs[i]].extents == body.values[v].extents) return body.order[i];
    return layout::row_major;
}

}  // namespace detail

GRAFT_INLINE const char* generate_fused_reduction(const kernel_query& q, program& p) {
    fused_node around{q, {}, nullptr, {}, {}, {}, {}};
    if (const char* why = read_body(q, around.body, &p)) return why;
    const reduction_row* row = nullptr;
    for (const node& n : around.body.nodes) {
        const reduction_row* found = find_reduction(n.op_type.c_str(), n.domain.c_str());
        if (!found) continue;
        if (row) return "two reductions in one body";
        row = found;
        around.n = &n;
    }
    if (!row) return "a body without a reduction";
    const auto view_of = [&](value_id v, std::vector<tensor_view>& views, std::vector<layout>& layouts) {
        views.push_back(v == no_value ? tensor_view{} : around.body.values[v]);
        layouts.push_back(v == no_value ? layout::row_major : detail::walked_layout(around.body, v));
    };
    for (value_id v : around.n->inputs) view_of(v, around.in, around.in_layout);
    for (value_id v : around.n->outputs) view_of(v, around.out, around.out_layout);
    const op_context c{*around.n, around.in.data(), static_cast<int>(around.in.size()), around.out.data(), static_cast<int>(around.out.size()), q.limit};
    const kernel_query own{c, around.in_layout.data(), around.out_layout.data(), q.on, q.options};
    return row->generate(own, &around, p);
}

}  // namespace gpu
GRAFT_END_NAMESPACE
