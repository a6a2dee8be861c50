// The kernels of reductions: part of reduce.hpp.
#pragma once

#include "reduce.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE std::string store_statement(element_emitter& e, const kernel_query& q, int o, const position& at, const operand& y) {
    const index to = e.offset(at, strides_of(q.out[o].extents, q.out_layout[o]));
    return "out" + std::to_string(o) + "[" + to.text + "] = stored<" + memory_name(q.out[o].type) + ">(" + y.text + ");\n";
}

GRAFT_INLINE std::string entry_point(const kernel_query& q, launch& l, const std::vector<int>& inputs, const std::vector<int>& outputs,
                                     const std::vector<workspace_parameter>& workspace, const std::string& statements) {
    std::string parameters;
    const auto add = [&](const std::string& text, argument::from kind, std::int64_t i) {
        parameters += (parameters.empty() ? "" : ", ") + text;
        l.arguments.push_back({kind, i});
    };
    for (int i : inputs)
        if (i < 0)
            detail::add_fault_parameters(parameters, l, i);
        else
            add(std::string("const ") + memory_name(q.in[i].type) + "* in" + std::to_string(i), argument::from::input, i);
    for (int o : outputs) add(std::string(memory_name(q.out[o].type)) + "* out" + std::to_string(o), argument::from::output, o);
    for (const workspace_parameter& w : workspace) add(w.declaration, argument::from::workspace, w.offset);
    return "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(l.block[0]) + ") " + l.entry + "(" + parameters + ") {\n" +
           without_unused(statements) + "}\n";
}

namespace detail {

// What a kernel is written with.
struct reduction_writer {
    const reduction& r;
    const reduction_plan& p;
    program& out;

    // Where result number k is, seen as an element of what is summed up with extent 1 along the reduced axes.
    position result(const index& k) const {
        position at;
        at.offset = k;
        at.from.assign(static_cast<std::size_t>(r.extents.rank()), position::zero);
        at.axes.resize(at.from.size());
        at.extents = r.extents;
        for (int d : memory_order(r.extents.rank(), r.order)) {
            if (r.axes >> d & 1u) {
                at.extents[d] = 1;
                continue;
            }
            if (d == 1 && r.groups) at.extents[d] = r.groups;
            at.from[static_cast<std::size_t>(d)] = at.walk.rank();
            at.walk.push_back(at.extents[d]);
        }
        return at;
    }
    std::vector<operand> fields(const char* state) const {
        std::vector<operand> of;
        for (const reducer::field& f : r.by.fields) of.push_back({std::string(state) + "." + f.name, f.type, level::pack});
        return of;
    }
    // The loop's statements from element number `number` of the reduced axes of result k on; `base` is where its elements begin.
    std::string taking(element_emitter& e, const index& k, const index& base, const index& number) const {
        const std::string position = p.joined.across ? number.text : number.text + (p.lanes > 1 ? " + lane" : "");
        const std::string name = e.define("i", "index_t", e.add(base, spread(e, number, p.joined.reduced)).text, level::pack);
        const std::vector<operand> x = r.elements(e, walk(r.extents, r.order, e.loop_index(name.c_str(), r.extents.elements())), result(k));
        std::string call = "take(s[" + std::string(p.lanes > 1 ? "lane" : "0") + "], taken, " + position;
        for (std::size_t i = 0; i < x.size(); ++i) call += ", " + e.convert(x[i], r.by.elements[i]).text;
        const std::string text = e.text(level::pack) + "        ++taken;\n";
        if (p.lanes == 1) return text + "        " + call + ");\n";
        return text + "#pragma unroll\n        for (int lane = 0; lane < " + decimal(p.lanes) + "; ++lane) {\n" + e.text(level::lane) + "            " + call +
               ");\n        }\n";
    }
    // Statements that store what follows from a result.
    std::string storing(element_emitter& e, const std::vector<reduction_result>& results) const {
        std::string stores;
        const bool alone = r.whole == &r.q;
        for (const reduction_result& x : results) {
            if (alone)
                stores += store_statement(e, *r.whole, x.output, x.at, e.convert(x.y, r.whole->out[x.output].type));
            else
                e.bind(r.outputs[static_cast<std::size_t>(x.output)], x.at, x.y);
        }
        for (int b : alone ? std::vector<int>() : r.stored_finished) {
            const position* at = &results[0].at;
            for (const reduction_result& x : results)
                if (r.outputs[static_cast<std::size_t>(x.output)] == r.body.outputs[static_cast<std::size_t>(b)]) at = &x.at;
            stores += store_statement(e, *r.whole, b, *at, e.value(r.body.outputs[static_cast<std::size_t>(b)], *at));
        }
        return stores;
    }
    // The outputs that are made of each element and of the statistics.
    void mapping(element_emitter& e, const std::vector<operand>& stats, const position& at, std::string& packs, std::string& each, std::string& behind) const {
        const std::vector<operand> y = r.map(e, stats, at);
        const bool alone = r.whole == &r.q;
        for (std::size_t j = 0; j < y.size() && !e.failure && !alone; ++j) e.bind(r.outputs[static_cast<std::size_t>(r.mapped[j])], at, y[j]);
        for (std::size_t j = 0; j < r.stored_mapped.size() && !e.failure; ++j) {
            const int o = r.stored_mapped[j];
            emit_store(e, *r.whole, o, at, alone ? y[j] : e.value(r.body.outputs[static_cast<std::size_t>(o)], at), packs, each, behind);
        }
    }
    // What is done with the state `name` of result k, by the threads for which `once` holds. `stats` gets the statistics.
    std::string finishing(element_emitter& e, const index& k, const char* name, const char* once, std::vector<operand>* stats = nullptr) const {
        std::vector<reduction_result> results;
        const std::vector<operand> found = r.finish(e, fields(name), result(k), results);
        std::string stores = e.failure ? std::string() : storing(e, results);
        if (stats)
            *stats = found;
        else if (!r.mapped.empty())
            for (std::size_t j = 0; j < found.size(); ++j) stores += "statistics" + std::to_string(j) + "[" + k.text + "] = " + found[j].text + ";\n";
        if (stats) return e.text(level::pack) + (stores.empty() ? "" : std::string("    if (") + once + ") {\n" + stores + "    }\n");
        return std::string("    if (") + once + ") {\n" + e.text(level::pack) + stores + "    }\n";
    }
    std::vector<workspace_parameter> workspace(bool partial, bool write, bool statistics) const {
        std::vector<workspace_parameter> w;
        if (partial) w.push_back({write ? "state* partial" : "const state* partial", 0});
        if (statistics)
            for (std::size_t j = 0; j < r.statistics.size(); ++j) w.push_back({statistics_declaration(j), statistics_offset(j)});
        return w;
    }
    std::string statistics_declaration(std::size_t j) const { return std::string(memory_name(r.statistics[j])) + "* statistics" + std::to_string(j); }
    std::int64_t statistics_offset(std::size_t j) const {
        std::int64_t at = p.statistics_at;
        for (std::size_t i = 0; i < j; ++i) at += round_up(p.joined.outputs * static_cast<std::int64_t>(size_of(r.statistics[i])), 256);
        return at;
    }
    bool stores_statistics() const { return !r.mapped.empty() && !p.fused; }
    void add(launch l, const element_emitter& e, const std::vector<int>& outputs, const std::vector<workspace_parameter>& w, const std::string& text) const {
        out.source += entry_point(*r.whole, l, e.parameters(), outputs, w, text);
        out.launches.push_back(std::move(l));
    }
};

// Where the elements of number `number` along the reduced axes are, of the result whose elements begin at `base`.
inline position reduced_place(element_emitter& e, const reduction_writer& w, const index& base, const index& number) {
    const std::string name = e.define("i", "index_t", e.add(base, spread(e, number, w.p.joined.reduced)).text, level::pack);
    return walk(w.r.extents, w.r.order, e.loop_index(name.c_str(), w.r.extents.elements()));
}
// A loop over the lanes of a pack, with what the emitter has for them.
inline std::string lane_loop(const element_emitter& e, const std::string& statements) {
    if (e.lanes() == 1) return {};
    return "#pragma unroll\n        for (int lane = 0; lane < " + decimal(e.lanes()) + "; ++lane) {\n" + e.text(level::lane) + statements + "        }\n";
}
inline launch reduction_launch(const char* entry, std::int64_t blocks, std::int64_t pieces) {
    launch l;
    l.entry = entry;
    l.block[0] = reduction_threads;
    l.grid[0] = static_cast<unsigned>(blocks);
    l.grid[1] = static_cast<unsigned>(pieces);
    return l;
}

// What follows from the sums along memory: parts for another launch, results, or results and every element's outputs.
struct rows_ending {
    std::string text;
    std::vector<int> written;
};
inline rows_ending end_rows(element_emitter& e, const reduction_writer& w, const index& k, const index& base, const index& number, const std::string& loop) {
    rows_ending end;
    const char* once = "member == 0 && inside";
    if (w.p.pieces > 1) {
        end.text = "    if (member == 0 && inside) partial[(index_t)blockIdx.y * " + decimal(w.p.joined.outputs) + " + k] = all;\n";
        return end;
    }
    end.written = w.r.stored_finished;
    if (!w.p.fused) {
        end.text = w.finishing(e, k, "all", once);
        return end;
    }
    std::vector<operand> statistics;
    end.text = w.finishing(e, k, "all", once, &statistics);
    end.written.insert(end.written.end(), w.r.stored_mapped.begin(), w.r.stored_mapped.end());
    e.next_loop();
    std::string packs, each, behind;
    w.mapping(e, statistics, reduced_place(e, w, base, number), packs, each, behind);
    if (w.p.joined.count) end.text += "    if (inside)\n" + loop + e.text(level::pack) + packs + lane_loop(e, each) + behind + "    }\n";
    return end;
}
inline const char* emit_rows(const reduction_writer& w) {
    const reduction_plan& p = w.p;
    element_emitter e(w.r.body, p.lanes);
    const index k = e.counter("k", p.joined.outputs, level::thread), base = spread(e, k, p.joined.kept), number = e.loop_index("r", p.joined.count);
    const fillings names = {{"group", decimal(p.group)},
                            {"groups", decimal(reduction_threads / p.group)},
                            {"outputs", decimal(p.joined.outputs)},
                            {"last_output", decimal(p.joined.outputs - 1)},
                            {"piece", decimal(p.piece)},
                            {"count", decimal(p.joined.count)},
                            {"lanes", decimal(p.lanes)},
                            {"warps", decimal(reduction_threads / 32)},
                            {"step", decimal(std::int64_t(p.group) * p.lanes)}};
    const std::string loop = fill("    for (index_t r = begin + member * $lanes; r < last; r += $step) {\n", names);
    std::string taking;
    if (p.joined.count) taking = "    int taken = 0;\n" + loop + w.taking(e, k, base, number) + "    }\n";
    e.next_loop();
    const rows_ending end = end_rows(e, w, k, base, number, loop);
    if (e.failure) return e.failure;
    const std::string head = fill(R"cuda(    const int member = (int)threadIdx.x % $group;
    const index_t wanted = (index_t)blockIdx.x * $groups + (int)threadIdx.x / $group;
    const bool inside = wanted < $outputs;
    const index_t k = inside ? wanted : $last_output;
    const index_t begin = (index_t)blockIdx.y * $piece;
    const index_t end = begin + $piece;
    const index_t last = !inside ? begin : end < $count ? end : $count;
)cuda",
                                  names);
    const std::string states = fill(R"cuda(    __shared__ state shared[$warps];
    state s[$lanes];
#pragma unroll
    for (int lane = 0; lane < $lanes; ++lane) s[lane] = start();
)cuda",
                                    names);
    const std::string joining = fill(R"cuda(#pragma unroll
    for (int lane = 1; lane < $lanes; ++lane) merge(s[0], s[lane]);
    const state all = merged<$group>(s[0], shared);
)cuda",
                                     names);
    w.add(reduction_launch("graft_rows", p.blocks, p.pieces), e, end.written, w.workspace(p.pieces > 1, true, p.pieces == 1 && w.stores_statistics()),
          head + e.text(level::thread) + states + taking + joining + end.text);
    return nullptr;
}

inline const char* emit_columns(const reduction_writer& w) {
    const reduction_plan& p = w.p;
    element_emitter e(w.r.body, p.lanes);
    index first = e.loop_index("first_result", p.joined.outputs);
    first.level = level::thread;
    const index base = spread(e, first, p.joined.kept), number = e.counter("r", p.joined.count, level::pack);
    const std::int64_t rows = reduction_threads / p.columns;
    const fillings names = {{"columns", decimal(p.columns)},
                            {"width", decimal(std::int64_t(p.columns) * p.lanes)},
                            {"lanes", decimal(p.lanes)},
                            {"outputs", decimal(p.joined.outputs)},
                            {"piece", decimal(p.piece)},
                            {"count", decimal(p.joined.count)},
                            {"rows", decimal(rows)},
                            {"half", decimal(rows / 2)},
                            {"threads", decimal(reduction_threads)},
                            {"states", decimal(std::int64_t(reduction_threads) * p.lanes)}};
    std::string taking;
    if (p.joined.count)
        taking = fill("    int taken = 0;\n    for (index_t r = begin + row; r < last; r += $rows) {\n", names) + w.taking(e, first, base, number) + "    }\n";
    e.next_loop();
    const std::string inside = fill("k < $outputs", names);
    const std::string finishing = p.pieces > 1 ? fill("    if (k < $outputs) partial[(index_t)blockIdx.y * $outputs + k] = all;\n", names)
                                               : w.finishing(e, e.counter("k", p.joined.outputs, level::pack), "all", inside.c_str());
    if (e.failure) return e.failure;
    const std::string head = fill(R"cuda(    const int column = (int)threadIdx.x % $columns;
    const int row = (int)threadIdx.x / $columns;
    const index_t first_of_block = (index_t)blockIdx.x * $width;
    const index_t wanted = first_of_block + column * $lanes;
    const index_t first_result = wanted < $outputs ? wanted : 0;
    const index_t begin = (index_t)blockIdx.y * $piece;
    const index_t end = begin + $piece;
    const index_t last = end < $count ? end : $count;
)cuda",
                                  names);
    const std::string states = fill(R"cuda(    __shared__ state shared[$states];
    state s[$lanes];
#pragma unroll
    for (int lane = 0; lane < $lanes; ++lane) s[lane] = start();
)cuda",
                                    names);
    const std::string joining = fill(R"cuda(#pragma unroll
    for (int lane = 0; lane < $lanes; ++lane) shared[lane * $threads + threadIdx.x] = s[lane];
    __syncthreads();
    for (int d = $half; d; d /= 2) {
        if (row < d)
            for (int lane = 0; lane < $lanes; ++lane) merge(shared[lane * $threads + threadIdx.x], shared[lane * $threads + threadIdx.x + d * $columns]);
        __syncthreads();
    }
    for (int j = (int)threadIdx.x; j < $width; j += $threads) {
    const index_t k = first_of_block + j;
    const state all = shared[j % $lanes * $threads + j / $lanes];
)cuda",
                                     names);
    const std::vector<int> written = p.pieces > 1 ? std::vector<int>() : w.r.stored_finished;
    w.add(reduction_launch("graft_columns", p.blocks, p.pieces), e, written, w.workspace(p.pieces > 1, true, p.pieces == 1 && w.stores_statistics()),
          head + e.text(level::thread) + states + taking + joining + finishing + "    }\n");
    return nullptr;
}

// Adds up what the parts gave: 32 results side by side, 8 parts at a time.
inline const char* emit_merge(const reduction_writer& w) {
    element_emitter e(w.r.body, 1);
    const fillings names = {{"outputs", decimal(w.p.joined.outputs)},
                            {"pieces", decimal(w.p.pieces)},
                            {"threads", decimal(reduction_threads)},
                            {"rows", decimal(reduction_threads / 32)},
                            {"half", decimal(reduction_threads / 64)}};
    const std::string finishing = w.finishing(e, e.counter("k", w.p.joined.outputs, level::pack), "all", "row == 0 && inside");
    if (e.failure) return e.failure;
    const std::string head = fill(R"cuda(    const int row = (int)threadIdx.x / 32;
    const index_t k = (index_t)blockIdx.x * 32 + (int)threadIdx.x % 32;
    const bool inside = k < $outputs;
)cuda",
                                  names);
    const std::string joining = fill(R"cuda(    __shared__ state shared[$threads];
    state s = start();
    if (inside)
        for (index_t n = row; n < $pieces; n += $rows) merge(s, partial[n * $outputs + k]);
    shared[threadIdx.x] = s;
    __syncthreads();
    for (int d = $half; d; d /= 2) {
        if (row < d) merge(shared[threadIdx.x], shared[threadIdx.x + d * 32]);
        __syncthreads();
    }
    const state all = shared[threadIdx.x];
)cuda",
                                     names);
    w.add(reduction_launch("graft_merge", (w.p.joined.outputs + 31) / 32, 1), e, w.r.stored_finished, w.workspace(true, false, w.stores_statistics()),
          head + e.text(level::thread) + joining + finishing);
    return nullptr;
}

// Statistic j of the results that the elements at `offset` belong to.
inline operand load_statistic(element_emitter& e, const reduction_writer& w, std::size_t j, const index& k) {
    const std::string from = "statistics" + std::to_string(j) + " + ", type = memory_name(w.r.statistics[j]), lanes = std::to_string(e.lanes());
    if (!k.consecutive) return {e.define("v", type, "load(" + from + k.text + ")", k.level), w.r.statistics[j], k.level};
    const std::string pack = "pack<" + type + ", " + lanes + ">", aligned = std::to_string(std::gcd<std::int64_t>(k.multiple, e.lanes()));
    if (k.level == level::lane) return e.make(w.r.statistics[j], ("load(" + from + "%)").c_str(), {e.as_value(k)});
    const std::string name = e.define("p", pack, "load_pack<" + type + ", " + lanes + ", " + aligned + ">(" + from + k.text + ")", k.level);
    return {e.define("v", type, name + ".at[lane]", level::lane), w.r.statistics[j], level::lane};
}

// Makes every element's outputs from the statistics in the workspace.
inline const char* emit_map(const reduction_writer& w) {
    const reduction& r = w.r;
    const std::int64_t total = r.extents.elements();
    if (!total) return nullptr;
    element_emitter e(r.body, loop_lanes(r.q.on, total, r.bytes));
    const index i = e.loop_index("i", total), k = gather(e, i, w.p.joined.kept);
    std::vector<operand> statistics;
    for (std::size_t j = 0; j < r.statistics.size(); ++j) statistics.push_back(load_statistic(e, w, j, k));
    std::string packs, each, behind;
    w.mapping(e, statistics, walk(r.extents, r.order, i), packs, each, behind);
    if (e.failure) return e.failure;
    launch l = reduction_launch("graft_map", loop_blocks(r.q.on, total / e.lanes()), 1);
    const fillings names = {{"threads", decimal(reduction_threads)},
                            {"lanes", decimal(e.lanes())},
                            {"total", decimal(total)},
                            {"step", decimal(std::int64_t(l.grid[0]) * reduction_threads * e.lanes())}};
    const std::string loop = fill("    for (index_t i = (index_t)(blockIdx.x * $threads + threadIdx.x) * $lanes; i < $total; i += $step) {\n", names);
    w.add(std::move(l), e, r.stored_mapped, w.workspace(false, false, true),
          e.text(level::thread) + loop + e.text(level::pack) + packs + lane_loop(e, each) + behind + "    }\n");
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE const char* generate_reduction(const reduction& r, program& p) {
    const std::int64_t total = r.extents.elements();
    detail::reduction_plan plan = detail::plan_reduction_kernels(r);
    if (plan.joined.outputs == 0) return nullptr;
    if (plan.blocks >= INT32_MAX) return "more results than a launch has blocks for";
    const detail::reduction_writer w{r, plan, p};
    const std::int64_t largest = std::max(total, plan.joined.outputs * std::max<std::int64_t>(plan.pieces, 1)) + (std::int64_t(1) << 24);
    p.source = std::string("namespace graft {\ntypedef ") + (largest < INT32_MAX ? "int" : "long long") + " index_t;\n" + detail::state_text(r.by);
    if (const char* why = plan.joined.across ? detail::emit_columns(w) : detail::emit_rows(w)) return why;
    if (plan.pieces > 1)
        if (const char* why = detail::emit_merge(w)) return why;
    if (w.stores_statistics())
        if (const char* why = detail::emit_map(w)) return why;
    p.source += "}  // namespace graft\n";
    p.workspace_bytes = w.stores_statistics() ? w.statistics_offset(r.statistics.size()) : plan.partial_bytes;
    const kernel_query& q = *r.whole;
    const bool maps_alone = &q == &r.q && !r.stored_mapped.empty() && r.stored_mapped[0] == 0;
    // A lone element is read in front of the loop, by threads that have no result too.
    p.in_place = maps_alone && total > 1 && q.in[0].type == q.out[0].type && q.in[0].extents == q.out[0].extents && q.in_layout[0] == q.out_layout[0];
    for (int k = 1; k < q.inputs; ++k)
        if (q.has(k) && q.shares_memory(k, 0)) p.in_place = false;
    p.note = std::string(plan.joined.across ? "sums across" : "sums along") + " memory, " + std::to_string(p.launches.size()) +
             (p.launches.size() == 1 ? " launch" : " launches");
    return nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
