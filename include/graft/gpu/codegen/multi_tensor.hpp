// One kernel for many tensors, each of which is computed element by element in the same way: an optimiser's updates are mostly of tensors
// so small that launching costs what working does.
#pragma once

#include "../lower/query.hpp"
#include "fill.hpp"
#include "loop.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The row of MultiTensor(inputs...) -> outputs: the attribute `body` is a graph of nodes, one for each tensor, with as many inputs and
/// outputs. None reads what another one makes.
inline const op_row* multi_tensor_row() {
    static constexpr op_row row = make_op("MultiTensor").inputs_from(0).outputs_from(1).attributes("body:g");
    return &row;
}

/// A node as the work on one of the tensors of such a kernel. Nodes whose texts are equal and whose `shared` inputs are the same values
/// may go into one.
struct tensor_loop {
    std::string text;                 ///< of the kernel, which knows neither how many tensors there are nor how large they are
    std::vector<int> inputs, shared;  ///< those that are read; of one element and the same for all tensors
    std::vector<int> outputs;
    bool asks_for_faults = false;  ///< it looks whether one has been reported
    std::int64_t elements = 0;
    int lanes = 1;

    /// Entries of the kernel's table: ahead of the tensors, and for each.
    std::size_t header() const noexcept { return 2 + shared.size() + (asks_for_faults ? 1 : 0); }
    std::size_t entries() const noexcept { return 1 + inputs.size() + outputs.size(); }
    /// How many tensors the table has room for, and a block threads to find its own among.
    std::size_t most_tensors() const noexcept { return std::min<std::size_t>(loop_threads, (most_arguments - header()) / entries()); }
};

/// Reads a node that has a rule, or a Fusion of such. Null, or why it is nothing for a kernel of many tensors.
const char* read_tensor_loop(const kernel_query& q, tensor_loop& t);

/// Makes the program of a MultiTensor. A `generated_row::generate`.
const char* generate_multi_tensor(const kernel_query& q, program& p);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// An entry of the table tells of a tensor how many elements it has, and above them its first block.
constexpr int tensor_size_bits = 40;
// Blocks of a multiprocessor that share the work, and that the compiler leaves registers for: its own choice of more of them would spill.
constexpr int tensor_blocks = 3;
constexpr std::int64_t most_tensor_elements = std::int64_t(1) << 30, most_tensor_blocks = std::int64_t(1) << 22;

// Elements of 16 bytes together, of the widest type that is walked through: every pack is one access at most, and few registers.
inline int tensor_lanes(const kernel_query& q, int first) {
    std::size_t bytes = 1;
    for (int i = 0; i < q.inputs; ++i)
        if (q.has(i) && q.in[i].extents == q.out[first].extents) bytes = std::max(bytes, size_of(q.in[i].type));
    for (int o = 0; o < q.outputs; ++o)
        if (q.wants(o)) bytes = std::max(bytes, size_of(q.out[o].type));
    return bytes <= 2 ? 8 : bytes == 4 ? 4 : 2;
}

// The statements for the elements at `i`, which the emitter's loop counts.
inline const char* emit_elements(element_emitter& e, const kernel_query& q, const std::vector<int>& outputs, std::string& text) {
    const int first = outputs[0];
    const index i = e.loop_index("i", q.out[first].elements());
    const position at = walk(q.out[first].extents, q.out_layout[first], i);
    std::string packs, each, behind;
    for (int o : outputs) {
        const operand y = e.value(e.body().outputs[static_cast<std::size_t>(o)], at);
        if (e.failure) return e.failure;
        emit_store(e, q, o, at, y, packs, each, behind);
    }
    if (!updates_safely(q, first, e, i)) return "an update of what it reads elsewhere";
    text = e.text(level::pack) + packs;
    if (e.lanes() > 1)
        text += "#pragma unroll\n        for (int lane = 0; lane < " + decimal(e.lanes()) + "; ++lane) {\n" + e.text(level::lane) + each + "        }\n";
    text += behind;
    return nullptr;
}

inline std::string tensor_kernel(const kernel_query& q, const tensor_loop& t, const std::string& thread, const std::string& packs, const std::string& rest) {
    std::string addresses;
    std::size_t entry = 2;
    for (int i : t.shared)
        addresses += "    const " + std::string(memory_name(q.in[i].type)) + "* in" + decimal(i) + " = (const " + memory_name(q.in[i].type) + "*)from.at[" +
                     std::to_string(entry++) + "];\n";
    if (t.asks_for_faults) addresses += "    const unsigned long long* fault_seen = (const unsigned long long*)from.at[" + std::to_string(entry) + "];\n";
    entry = 1;
    for (int i : t.inputs)
        addresses += "    const " + std::string(memory_name(q.in[i].type)) + "* in" + decimal(i) + " = (const " + memory_name(q.in[i].type) +
                     "*)from.at[row + " + std::to_string(entry++) + "];\n";
    for (int o : t.outputs)
        addresses += "    " + std::string(memory_name(q.out[o].type)) + "* out" + decimal(o) + " = (" + memory_name(q.out[o].type) + "*)from.at[row + " +
                     std::to_string(entry++) + "];\n";
    const std::string body = without_unused(addresses + thread +
                                            fill(R"cuda(#pragma unroll 1
    for (index_t i = begin + (index_t)threadIdx.x * $lanes; i + $lanes <= end; i += $step) {
)cuda",
                                                 {{"lanes", decimal(t.lanes)}, {"step", decimal(std::int64_t(loop_threads) * t.lanes)}}) +
                                            packs + "    }\n" +
                                            (t.lanes == 1 ? ""
                                                          : fill(R"cuda(    if (n / $lanes * $lanes + (index_t)threadIdx.x < n && end == n) {
        const index_t i = n / $lanes * $lanes + (index_t)threadIdx.x;
)cuda",
                                                                 {{"lanes", decimal(t.lanes)}}) +
                                                                rest + "    }\n"));
    return fill(R"cuda(namespace graft {
struct table { void* at[$most]; };
extern "C" __global__ void __launch_bounds__($threads, $resident) graft_tensors(const table from) {
    typedef int index_t;
    const int tensors = (int)(long long)from.at[0];
    const int chunk = (int)(long long)from.at[1];
    // Tensors have blocks in their order: this block's is the last whose first block is not behind it.
    const bool before = (int)threadIdx.x < tensors && (int)((unsigned long long)from.at[$header + threadIdx.x * $entries] >> $bits) <= (int)blockIdx.x;
    const int row = $header + (__syncthreads_count(before) - 1) * $entries;
    const unsigned long long where = (unsigned long long)from.at[row];
    const index_t n = (index_t)(where & ((1ull << $bits) - 1));
    const index_t begin = ((int)blockIdx.x - (int)(where >> $bits)) * chunk;
    const index_t end = n - begin < chunk ? n : begin + chunk;
)cuda",
                {{"most", std::to_string(most_arguments)},
                 {"threads", decimal(loop_threads)},
                 {"resident", decimal(tensor_blocks)},
                 {"header", std::to_string(t.header())},
                 {"entries", std::to_string(t.entries())},
                 {"bits", decimal(tensor_size_bits)}}) +
           body + "}\n}  // namespace graft\n";
}

}  // namespace detail

GRAFT_INLINE const char* read_tensor_loop(const kernel_query& q, tensor_loop& t) {
    kernel_body body;
    if (const char* why = read_body(q, body)) return why;
    for (int o = 0; o < q.outputs; ++o)
        if (q.wants(o)) t.outputs.push_back(o);
    if (t.outputs.empty()) return "it makes nothing";
    const tensor_view& first = q.out[t.outputs[0]];
    for (int o : t.outputs)
        if (q.out[o].extents != first.extents) return "its outputs differ in their extents";
    t.elements = first.elements();
    for (const tensor_view& x : body.values)
        if (x.type != dtype::undefined && x.elements() > detail::most_tensor_elements) return "it is too large to be one of many";
    if (t.elements == 0) return "it makes nothing";
    t.lanes = detail::tensor_lanes(q, t.outputs[0]);
    element_emitter e(body, t.lanes);
    std::string packs, rest;
    if (const char* why = detail::emit_elements(e, q, t.outputs, packs)) return why;
    if (t.lanes > 1) {  // what fills no pack
        e.next_loop(1);
        if (const char* why = detail::emit_elements(e, q, t.outputs, rest)) return why;
    }
    for (int i : e.parameters()) {
        if (i == element_emitter::fault_words) return "it reports faults";
        if (i == element_emitter::fault_word)
            t.asks_for_faults = true;
        else
            (q.in[i].elements() == 1 ? t.shared : t.inputs).push_back(i);
    }
    if (t.header() + t.entries() > most_arguments) return "it has too many inputs and outputs";
    t.text = detail::tensor_kernel(q, t, e.text(level::thread), packs, rest);
    return nullptr;
}

GRAFT_INLINE const char* generate_multi_tensor(const kernel_query& q, program& p) {
    const attribute* a = q.n.find("body");
    if (!a || !a->graph) return "a MultiTensor without a body";
    const graph& g = *a->graph;
    if (static_cast<int>(g.inputs.size()) != q.inputs || static_cast<int>(g.outputs.size()) != q.outputs)
        return "a MultiTensor whose body has other inputs or outputs";
    std::vector<std::int64_t> input(g.values.size(), -1), output(g.values.size(), -1);
    for (std::size_t i = 0; i < g.inputs.size(); ++i) input[g.inputs[i]] = static_cast<std::int64_t>(i);
    for (std::size_t i = 0; i < g.outputs.size(); ++i) output[g.outputs[i]] = static_cast<std::int64_t>(i);
    std::vector<tensor_loop> tensors(g.nodes.size());
    std::int64_t total = 0;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        if (const char* why = read_tensor_loop(detail::asked_in_graph(g, g.nodes[k], q.limit).on(q.on, q.options).query(), tensors[k])) return why;
        if (tensors[k].text != tensors[0].text) return "tensors that have not one kernel";
        for (int i : tensors[0].shared)
            if (g.nodes[k].inputs[static_cast<std::size_t>(i)] != g.nodes[0].inputs[static_cast<std::size_t>(i)])
                return "tensors that do not share their scalars";
        total = checked_add(total, tensors[k].elements);
    }
    if (tensors.empty() || total < 0 || tensors.size() > tensors[0].most_tensors()) return "more tensors than its table has room for";
    // Blocks do whole packs of all their threads.
    const tensor_loop& t = tensors[0];
    const std::int64_t step = std::int64_t(loop_threads) * t.lanes, blocks = std::int64_t(detail::tensor_blocks) * std::max(1, q.on.multiprocessors);
    const std::int64_t chunk = std::max<std::int64_t>(1, (total / blocks + step - 1) / step) * step;
    launch l;
    l.entry = "graft_tensors";
    l.block[0] = loop_threads;
    l.table = true;
    const auto put = [&](argument::from kind, std::int64_t index) { l.arguments.push_back({kind, index}); };
    const auto value_of = [&](const std::vector<value_id>& ids, int i) { return static_cast<std::size_t>(ids[static_cast<std::size_t>(i)]); };
    put(argument::from::number, static_cast<std::int64_t>(tensors.size()));
    put(argument::from::number, chunk);
    for (int i : t.shared) put(argument::from::input, input[value_of(g.nodes[0].inputs, i)]);
    if (t.asks_for_faults) put(argument::from::fault_seen, 0);
    std::int64_t first = 0;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        put(argument::from::number, first << detail::tensor_size_bits | tensors[k].elements);
        for (int i : t.inputs) put(argument::from::input, input[value_of(g.nodes[k].inputs, i)]);
        for (int o : t.outputs) put(argument::from::output, output[value_of(g.nodes[k].outputs, o)]);
        first += (tensors[k].elements + chunk - 1) / chunk;
        if (first > detail::most_tensor_blocks) return "more elements than a launch has blocks for";
    }
    for (const argument& x : l.arguments)
        if ((x.kind == argument::from::input || x.kind == argument::from::output) && x.index < 0) return "a MultiTensor whose tensors are not its own";
    l.grid[0] = static_cast<unsigned>(first);
    p.source = t.text;
    p.launches.push_back(std::move(l));
    p.note = std::to_string(tensors.size()) + " tensors in one launch";
    return nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
