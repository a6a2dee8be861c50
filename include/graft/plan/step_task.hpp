// What a trace tells of a step: its operator, its shapes, and what it computes and moves.
#pragma once

#include "../core/trace.hpp"
#include "../tensor/print.hpp"
#include "plan.hpp"

#include <algorithm>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A file chooses the names of its nodes, and each stands in every event. Cut between characters.
inline GRAFT_COLD std::string name_in_trace(const std::string& whole) {
    std::size_t most = 256;
    if (whole.size() <= most) return whole;
    while (most > 0 && (static_cast<unsigned char>(whole[most]) & 0xC0) == 0x80) --most;
    return whole.substr(0, most);
}
// Values that are left out have no type. Nodes may have thousands of inputs.
inline GRAFT_COLD void add_values(const std::vector<tensor_view>& values, std::string& shapes, std::int64_t& bytes) {
    constexpr std::size_t most = 8;
    std::size_t shown = 0;
    for (const tensor_view& v : values) {
        if (v.type == dtype::undefined) continue;
        bytes += std::max<std::int64_t>(0, bytes_of(v.type, v.extents));
        if (++shown <= most) shapes += std::string(shapes.empty() ? "" : " ") + name(v.type) + text(v.extents);
    }
    if (shown > most) shapes += " and " + std::to_string(shown - most) + " more";
}
inline GRAFT_COLD trace_task task_of(const node& n, const std::vector<tensor_view>& in, const std::vector<tensor_view>& out, int threads) {
    trace_task t;
    t.op = name_in_trace(n.op_type);
    t.node = name_in_trace(n.name);
    t.threads = threads;
    t.multiply_adds = n.multiply_adds;
    std::string made;
    add_values(in, t.shapes, t.read_bytes);
    add_values(out, made, t.made_bytes);
    t.shapes += (t.shapes.empty() ? "-> " : " -> ") + made;
    return t;
}
// The same of a step that a place has a kernel for.
inline GRAFT_COLD trace_task task_of(const plan& p, const step& s, int threads) {
    std::vector<tensor_view> in, out;
    for (const slot& v : s.in) in.push_back(v.prototype);
    for (const slot& v : s.out) out.push_back(v.prototype);
    trace_task t = task_of(p.lowered.nodes[static_cast<std::size_t>(s.node)], in, out, threads);
    t.device = p.places[s.place].on ? p.places[s.place].on->name() : "cpu";
    t.kernel = s.kernel->note;
    return t;
}

}  // namespace detail
GRAFT_END_NAMESPACE
