// The kernel of everything that is computed element by element: a loop over packs of an output, in the order of its memory.
#pragma once

#include "element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Makes the program of a node that has a rule, or of a Fusion of such nodes: one kernel for all outputs of the same extents.
/// A `generated_row::generate`. Empty outputs need no launch; a program without launches has nothing to do.
const char* generate_loop(const kernel_query& q, program& p);

/// Inputs and outputs of one loop: with more of them its text would be long to compile.
constexpr std::size_t most_loop_arguments = 64;

/// Threads of a block, and the blocks that cover `packs` with a loop over what is left.
constexpr int loop_threads = 256;
unsigned loop_blocks(const device_traits& on, std::int64_t packs);

/// Elements a pack should have: accesses of 16 bytes for the narrowest type that is walked through, 8 elements at most, and as many
/// packs as keep the device busy. A divisor of `elements`.
int loop_lanes(const device_traits& on, std::int64_t elements, std::size_t narrowest_bytes);

/// "typedef int index_t;" or of 64 bits, for kernels whose offsets and counters stay below `largest`.
const char* index_definition(std::int64_t largest) noexcept;

/// The text of an entry point: `inputs` (as element_emitter::parameters has them) and `outputs` are its parameters "in<k>" and "out<k>", in
/// this order; they are put into the launch's arguments. `aliased`: outputs may lie over inputs, element by element. Constants in the statements that
/// nothing uses are left out.
std::string entry_point(const kernel_query& q, launch& l, const std::vector<int>& inputs, const std::vector<int>& outputs, bool aliased,
                        const std::string& statements);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <numeric>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE unsigned loop_blocks(const device_traits& on, std::int64_t packs) {
    const std::int64_t needed = (packs + loop_threads - 1) / loop_threads, resident = std::max(1, on.threads_per_multiprocessor / loop_threads);
    return static_cast<unsigned>(std::max<std::int64_t>(1, std::min(needed, 4 * resident * std::max(1, on.multiprocessors))));
}
GRAFT_INLINE int loop_lanes(const device_traits& on, std::int64_t elements, std::size_t narrowest_bytes) {
    int lanes = narrowest_bytes <= 2 ? 8 : narrowest_bytes == 4 ? 4 : 2;
    while (lanes > 1 && (elements % lanes || elements / lanes < std::int64_t(512) * on.multiprocessors)) lanes /= 2;
    // Too few elements for every thread to have a pack: accesses of a pair at least, where that is possible.
    return lanes == 1 && elements % 2 == 0 ? 2 : lanes;
}
GRAFT_INLINE const char* index_definition(std::int64_t largest) noexcept {
    return largest < INT32_MAX ? "    typedef int index_t;\n" : "    typedef long long index_t;\n";
}
namespace detail {
// Words of faults among a kernel's parameters, as element_emitter::parameters has them.
inline void add_fault_parameters(std::string& parameters, launch& l, int which) {
    const bool reports = which == element_emitter::fault_words;
    if (!parameters.empty()) parameters += ", ";
    parameters += reports ? "unsigned long long* faults, unsigned long long* fault_seen" : "const unsigned long long* fault_seen";
    if (reports) l.arguments.push_back({argument::from::faults, 0});
    l.arguments.push_back({argument::from::fault_seen, 0});
}
}  // namespace detail

GRAFT_INLINE std::string entry_point(const kernel_query& q, launch& l, const std::vector<int>& inputs, const std::vector<int>& outputs, bool aliased,
                                     const std::string& statements) {
    const char* restricted = aliased ? "" : "__restrict__ ";
    std::string parameters;
    for (int i : inputs) {
        if (i < 0) {
            detail::add_fault_parameters(parameters, l, i);
            continue;
        }
        parameters += std::string(parameters.empty() ? "" : ", ") + "const " + memory_name(q.in[i].type) + "* " + restricted + "in" + std::to_string(i);
        l.arguments.push_back({argument::from::input, i});
    }
    for (int o : outputs) {
        parameters += std::string(parameters.empty() ? "" : ", ") + memory_name(q.out[o].type) + "* " + restricted + "out" + std::to_string(o);
        l.arguments.push_back({argument::from::output, o});
    }
    return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(l.block[0]) + ") " + l.entry + "(" + parameters + ") {\n" +
           without_unused(statements) + "}\n";
}

namespace detail {

// Where the elements of output o go, from a walk in the order of another one.
inline void emit_store(element_emitter& e, const kernel_query& q, int o, const position& at, const operand& y, std::string& packs, std::string& each,
                       std::string& behind) {
    const std::string name = std::to_string(o), type = memory_name(q.out[o].type), lanes = std::to_string(e.lanes());
    const index to = e.offset(at, strides_of(q.out[o].extents, q.out_layout[o]));
    const std::string element = "stored<" + type + ">(" + y.text + ")";
    if (e.lanes() == 1) {
        behind += "        out" + name + "[" + to.text + "] = " + element + ";\n";
    } else if (to.consecutive) {
        packs += "        pack<" + type + ", " + lanes + "> q" + name + ";\n";
        each += "            q" + name + ".at[lane] = " + element + ";\n";
        behind +=
            "        store_pack<" + std::to_string(std::gcd<std::int64_t>(to.multiple, e.lanes())) + ">(out" + name + " + " + to.text + ", q" + name + ");\n";
    } else
        each += "            out" + name + "[" + to.text + "] = " + element + ";\n";
}

// Bytes of the narrowest tensor that is read or written in the order of the walk.
inline std::size_t narrowest(const kernel_query& q, int first) {
    std::size_t bytes = size_of(q.out[first].type);
    for (int i = 0; i < q.inputs; ++i)
        if (q.has(i) && q.in[i].extents == q.out[first].extents && q.in_layout[i] == q.out_layout[first]) bytes = std::min(bytes, size_of(q.in[i].type));
    return bytes;
}

inline bool updates_state(const kernel_body& body) {
    for (const node& n : body.nodes)
        if (const element_rule* rule = find_rule(n.op_type.c_str(), n.domain.c_str()))
            if (rule->reads & element_rule::state) return true;
    return false;
}

// Whether what an update may write over is read there alone, by whichever name: a chain in front of it might look at another position of the
// same state, which another thread has changed by then.
inline bool updates_safely(const kernel_query& q, int first, const element_emitter& e, const index& i) {
    const kernel_body& body = e.body();
    for (const node& n : body.nodes) {
        const element_rule* rule = find_rule(n.op_type.c_str(), n.domain.c_str());
        if (!rule || !(rule->reads & element_rule::state)) continue;
        for (int k = 0; k < q.inputs; ++k) {
            const value_id own = body.inputs[static_cast<std::size_t>(k)];
            if (!q.has(k) || std::find(n.inputs.begin(), n.inputs.end(), own) == n.inputs.end()) continue;
            if (q.in[k].type != q.out[first].type || q.in_layout[k] != q.out_layout[first] || q.in[k].extents != q.out[first].extents) continue;
            for (int other = 0; other < q.inputs; ++other)
                if (q.has(other) && q.shares_memory(other, k) && !e.read_only_at(other, i)) return false;
        }
    }
    return true;
}

// The kernel of outputs of the same extents; it walks as the first of them lies.
inline const char* generate_outputs(const kernel_query& q, const kernel_body& body, const std::vector<int>& outputs, std::int64_t largest, bool only,
                                    program& p) {
    const int first = outputs[0];
    const shape& extents = q.out[first].extents;
    const std::int64_t total = extents.elements();
    const int lanes = loop_lanes(q.on, total, narrowest(q, first));
    element_emitter e(body, lanes);
    const index i = e.loop_index("i", total);
    const position at = walk(extents, q.out_layout[first], i);
    std::string packs, each, behind;
    for (int o : outputs) {
        const operand y = e.value(body.outputs[static_cast<std::size_t>(o)], at);
        if (e.failure) return e.failure;
        emit_store(e, q, o, at, y, packs, each, behind);
    }
    if (!updates_safely(q, first, e, i)) return "an update of what it reads elsewhere";
    launch l;
    l.entry = "graft_loop" + std::to_string(p.launches.size());
    l.block[0] = loop_threads;
    l.grid[0] = loop_blocks(q.on, total / lanes);
    const std::int64_t step = std::int64_t(l.grid[0]) * loop_threads * lanes;
    std::string s = index_definition(std::max(largest, total + step)) + e.text(level::thread);
    const std::string scale = lanes > 1 ? " * " + std::to_string(lanes) : "";
    s += "    for (index_t i = (index_t)(blockIdx.x * " + std::to_string(loop_threads) + " + threadIdx.x)" + scale + "; i < " + std::to_string(total) +
         "; i += " + std::to_string(step) + ") {\n";
    s += e.text(level::pack) + packs;
    if (lanes > 1)
        s += "#pragma unroll\n        for (int lane = 0; lane < " + std::to_string(lanes) + "; ++lane) {\n" + e.text(level::lane) + each + "        }\n";
    s += behind + "    }\n";
    p.in_place = only && first == 0 && q.has(0) && size_of(q.in[0].type) == size_of(q.out[0].type) && q.in[0].elements() == total;
    for (int k = 0; k < q.inputs && p.in_place; ++k)
        if (q.has(k) && q.shares_memory(k, 0)) p.in_place = e.read_only_at(k, i);
    p.source += entry_point(q, l, e.parameters(), outputs, p.in_place || updates_state(body), s);
    if (l.arguments.size() > most_loop_arguments) return "it has more than 64 inputs and outputs";
    p.launches.push_back(std::move(l));
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE const char* generate_loop(const kernel_query& q, program& p) {
    kernel_body body;
    if (const char* why = read_body(q, body, &p)) return why;
    std::int64_t largest = 0;
    for (const tensor_view& x : body.values) largest = std::max(largest, x.type == dtype::undefined ? 0 : x.elements());
    std::vector<bool> done(static_cast<std::size_t>(q.outputs));
    std::vector<std::vector<int>> groups;
    for (int o = 0; o < q.outputs; ++o) {
        if (done[static_cast<std::size_t>(o)] || !q.wants(o) || q.out[o].type == dtype::undefined || q.out[o].elements() == 0) continue;
        std::vector<int> group;
        for (int k = o; k < q.outputs; ++k)
            if (q.wants(k) && q.out[k].type != dtype::undefined && q.out[k].extents == q.out[o].extents && !done[static_cast<std::size_t>(k)]) {
                done[static_cast<std::size_t>(k)] = true;
                group.push_back(k);
            }
        groups.push_back(std::move(group));
    }
    p.source = "namespace graft {\n";
    for (const std::vector<int>& group : groups)
        if (const char* why = detail::generate_outputs(q, body, group, largest, groups.size() == 1, p)) return why;
    p.source += "}  // namespace graft\n";
    p.note = q.n.op == fusion_row() ? std::to_string(body.nodes.size()) + " operators in one loop" : "one loop";
    return nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
