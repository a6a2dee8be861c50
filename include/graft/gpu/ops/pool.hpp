// Kernels of pools over windows, and of their gradients: each thread gathers what belongs to its elements, in a fixed order.
#pragma once

#include "../codegen/reduce.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The kernels of ops/pool.hpp, but for the global pools of averages and extremes.
generated_table pool_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "reduce.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

/// A kernel whose threads have some neighbouring elements each of a tensor [N, C, spatial...] and loop over the places of another one,
/// of other spatial extents, that belong to them. Text of the loops uses x0, x1, ... for coordinates there.
struct window_kernel {
    window_kernel(const kernel_query& query, const kernel_body& body, const ops::window& window, const shape& own_extents, layout own_order, bool vectorised,
                  std::size_t bytes)
        : q(query), w(window), extents(own_extents), lanes(lanes_of(own_extents, own_order, vectorised, bytes)), e(body, lanes) {
        index i = e.loop_index("i", extents.elements());
        i.level = level::thread;
        at = walk(extents, own_order, i);
        for (int d = 0; d < extents.rank(); ++d) own.push_back(e.axis(at, d));
    }
    static int lanes_of(const shape& extents, layout order, bool vectorised, std::size_t bytes) {
        int lanes = vectorised && order == layout::channels_last ? static_cast<int>(std::min<std::size_t>(8, 16 / bytes)) : 1;
        while (lanes > 1 && extents[1] % lanes) lanes /= 2;
        return lanes;
    }
    /// The position of the loops in a tensor with these extents.
    position there(const shape& other) const {
        std::vector<index> axes{own[0], own[1]};
        for (int d = 2; d < other.rank(); ++d) axes.push_back(e.counter(("x" + decimal(d - 2)).c_str(), other[d], level::pack));
        return at_axes(other, axes);
    }
    /// Loops over the taps of the window of output `own`: t<d> is the tap, x<d> the input's coordinate. `any` says whether there are
    /// some, `count` how many; with `padded_counts` those in the padding too.
    void loop_over_taps(bool padded_counts) {
        std::string any, product;
        for (int d = 0; d < w.rank; ++d) {
            const ops::window_axis& a = w.axis[d];
            const std::string n = decimal(d), counted = padded_counts ? "_counted" + n : n;
            const fillings names = {
                {"n", n}, {"own", coordinate(d)}, {"stride", decimal(a.stride)}, {"pad", decimal(a.pad_begin)}, {"dilation", decimal(a.dilation)}};
            bounds += fill("    const index_t start$n = $own * $stride - $pad;\n", names) + taps(a, n, n, 0, 0);
            if (padded_counts) bounds += taps(a, n, counted, a.pad_begin, a.pad_end);
            product += (d ? " * " : "") + fill("(last$n - first$n)", {{"n", counted}});
            any += (d ? " && " : "") + fill("first$n < last$n", names);
            open += fill("    for (index_t t$n = first$n; t$n < last$n; ++t$n) {\n    const index_t x$n = start$n + t$n * $dilation;\n", names);
            close += "    }\n";
        }
        bounds += "    const bool any = " + any + ";\n    const index_t count = " + product + ";\n";
    }
    /// Loops over the windows that hold input `own`: x<d> is the output's coordinate, t<d> the tap that `own` is.
    void loop_over_windows() {
        for (int d = 0; d < w.rank; ++d) {
            const ops::window_axis& a = w.axis[d];
            const fillings names = {{"n", decimal(d)},
                                    {"own", coordinate(d)},
                                    {"pad", decimal(a.pad_begin)},
                                    {"reach", decimal(a.span() - 1)},
                                    {"stride", decimal(a.stride)},
                                    {"up", decimal(a.stride - 1)},
                                    {"output", decimal(a.output)},
                                    {"dilation", decimal(a.dilation)}};
            bounds += fill(R"cuda(    const index_t shifted$n = $own + $pad;
    const index_t before$n = shifted$n - $reach;
    const index_t first$n = before$n > 0 ? (before$n + $up) / $stride : 0;
    const index_t behind$n = shifted$n / $stride + 1;
    const index_t last$n = behind$n < $output ? behind$n : $output;
)cuda",
                           names);
            open += fill(R"cuda(    for (index_t x$n = first$n; x$n < last$n; ++x$n) {
    const index_t inside$n = shifted$n - x$n * $stride;
    const index_t t$n = inside$n / $dilation;
)cuda",
                         names);
            if (a.dilation > 1) open += fill("    if (inside$n % $dilation) continue;\n", names);
            close += "    }\n";
        }
    }
    /// What AveragePool divides the window of output x0, x1, ... by: statements that define `count`.
    std::string count_there(bool include_pad) const {
        std::string text, product;
        for (int d = 0; d < w.rank; ++d) {
            const ops::window_axis& a = w.axis[d];
            const std::string n = decimal(d);
            text += fill("    const index_t start$n = x$n * $stride - $pad;\n", {{"n", n}, {"stride", decimal(a.stride)}, {"pad", decimal(a.pad_begin)}});
            text += taps(a, n, "_tap" + n, include_pad ? a.pad_begin : 0, include_pad ? a.pad_end : 0);
            product += (d ? " * " : "") + fill("(last_tap$n - first_tap$n)", {{"n", n}});
        }
        return text + "    const index_t count = " + product + ";\n";
    }
    /// The number of the tap t0, t1, ...; and of the input at x0, x1, ... within its picture.
    std::string tap() const {
        std::string s = "0";
        for (int d = 0; d < w.rank; ++d) s = "(" + s + " * " + decimal(w.axis[d].kernel) + " + t" + decimal(d) + ")";
        return s;
    }
    std::string pixel(bool column_major) const {
        std::string s = "0";
        for (int k = 0; k < w.rank; ++k) {
            const int d = column_major ? w.rank - 1 - k : k;
            s = "(" + s + " * " + decimal(w.axis[d].input) + " + x" + decimal(d) + ")";
        }
        return s;
    }
    std::string each(const std::string& statement) const {
        return "#pragma unroll\n    for (int lane = 0; lane < " + decimal(lanes) + "; ++lane) {\n" + e.text(level::lane) + "        " + statement + "\n    }\n";
    }
    /// Adds the kernel: `start` goes before the loops, `inside` into them, `end` behind them; the emitter's text of the loops is there.
    void finish(program& p, const char* entry, const std::string& start, const std::string& inside, const std::string& end, const std::vector<int>& outputs,
                const std::vector<workspace_parameter>& workspace) {
        launch l;
        l.entry = entry;
        l.block[0] = loop_threads;
        l.grid[0] = static_cast<unsigned>((extents.elements() / lanes + loop_threads - 1) / loop_threads);
        const std::string head = fill("    const index_t i = ((index_t)blockIdx.x * $threads + (int)threadIdx.x) * $lanes;\n    if (i >= $total) return;\n",
                                      {{"threads", decimal(loop_threads)}, {"lanes", decimal(lanes)}, {"total", decimal(extents.elements())}});
        p.source += entry_point(q, l, e.parameters(), outputs, workspace, head + e.text(level::thread) + bounds + start + open + inside + close + end);
        p.launches.push_back(std::move(l));
    }
    /// Statements that store `text` (an expression of `lane`) to output o.
    std::string store(int o, const std::string& text) {
        std::string packed, body, behind;
        e.next_loop();
        emit_store(e, q, o, at, {lanes > 1 ? text : "(" + text + ")", compute_type(q.out[o].type), level::lane}, packed, body, behind);
        if (lanes == 1) return "    {\n    const int lane = 0;\n" + e.text(level::pack) + behind + "    }\n";
        return packed + "#pragma unroll\n    for (int lane = 0; lane < " + decimal(lanes) + "; ++lane) {\n" + e.text(level::lane) + body + "    }\n" + behind;
    }

    const kernel_query& q;
    const ops::window& w;
    shape extents;
    int lanes;
    element_emitter e;
    position at;
    std::vector<index> own;
    std::string bounds, open, close;

private:
    const std::string& coordinate(int d) const { return own[static_cast<std::size_t>(d) + 2].text; }
    // window_axis::taps as text: the taps [first<name>, last<name>) of the window at start<n> inside of [-before, input + after).
    static std::string taps(const ops::window_axis& a, const std::string& n, const std::string& name, std::int64_t before, std::int64_t after) {
        return fill(R"cuda(    const index_t behind_last$name = start$n >= $end ? 0 : ($end - start$n + $up) / $dilation;
    const index_t last$name = behind_last$name < $kernel ? behind_last$name : $kernel;
    const index_t from_first$name = start$n >= $least ? 0 : ($least - start$n + $up) / $dilation;
    const index_t first$name = from_first$name < last$name ? from_first$name : last$name;
)cuda",
                    {{"n", n},
                     {"name", name},
                     {"end", decimal(a.input + after)},
                     {"least", decimal(-before)},
                     {"up", decimal(a.dilation - 1)},
                     {"dilation", decimal(a.dilation)},
                     {"kernel", decimal(a.kernel)}});
    }
};

// The largest number that coordinates and offsets of a window reach.
inline std::int64_t largest_index(const ops::window& w, const shape& in, const shape& out) {
    std::int64_t n = std::max(in.elements(), out.elements());
    for (int d = 0; d < w.rank; ++d) n = std::max(n, 2 * (w.axis[d].input + w.axis[d].pad_begin + w.axis[d].pad_end + w.axis[d].span() + w.axis[d].stride));
    return n + (std::int64_t(1) << 16);
}
inline const char* begin_program(program& p, std::int64_t largest) {
    p.source = std::string("namespace graft {\ntypedef ") + (largest < INT32_MAX ? "int" : "long long") + " index_t;\n";
    return nullptr;
}
inline const char* end_program(program& p, const char* note) {
    p.source += "}  // namespace graft\n";
    p.note = note;
    for (const launch& l : p.launches)
        if (l.grid[0] > INT32_MAX) return "more elements than a launch has blocks for";
    return nullptr;
}
constexpr std::int64_t most_pool_elements = std::int64_t(1) << 38;  // so that the blocks can be counted

enum class pool_kind { maximum, average, norm };

inline const char* generate_pool(const kernel_query& q, program& p, pool_kind kind) {
    ops::window w;
    kernel_body body;
    if (!ops::plan_pool(q, w).ok()) return "its window does not fit its input";
    if (const char* why = read_body(q, body)) return why;
    const tensor_view& x = q.in[0];
    const int first_output = q.wants(0) ? 0 : 1;
    const shape extents = q.out[first_output].extents;
    if (extents.elements() == 0) return nullptr;
    if (extents.elements() > most_pool_elements) return "more elements than a launch has blocks for";
    begin_program(p, largest_index(w, x.extents, extents));
    window_kernel k(q, body, w, extents, q.out_layout[first_output], q.in_layout[0] == q.out_layout[first_output], size_of(x.type));
    const std::string type = memory_name(compute_type(x.type)), lanes = decimal(k.lanes);
    k.loop_over_taps(kind == pool_kind::average && q.integer("count_include_pad", 0) != 0);
    const operand v = k.e.value(body.inputs[0], k.there(x.extents));
    if (k.e.failure) return k.e.failure;
    const bool places = q.wants(1) && q.out[1].type != dtype::undefined;
    const std::int64_t power = q.integer("p", 2);
    const std::string typed = "(" + type + ")";
    std::string start = "    " + type + " s[" + lanes + "];\n", take, y;
    if (kind == pool_kind::maximum) {
        if (places) start += "    index_t pixels[" + lanes + "] = {};\n";
        start += "    bool begun = false;\n";
        take = "if (!begun || " + v.text + " > s[lane]) s[lane] = " + v.text;
        take += places ? ", pixels[lane] = " + k.pixel(q.integer("storage_order", 0) != 0) + ";" : ";";
        y = "s[lane]";
    } else if (kind == pool_kind::average) {
        take = "s[lane] += " + v.text + ";";
        y = "any ? s[lane] / " + typed + "count : " + typed + "0";
    } else {
        const std::string by = literal(x.type, static_cast<double>(power)), root = literal(x.type, 1 / static_cast<double>(power));
        take = power == 1   ? "s[lane] += abs(" + v.text + ");"
               : power == 2 ? "s[lane] += " + v.text + " * " + v.text + ";"
                            : "s[lane] += pow(abs(" + v.text + "), " + by + ");";
        y = power == 1 ? "s[lane]" : power == 2 ? "sqrt(s[lane])" : "pow(s[lane], " + root + ")";
    }
    start += "#pragma unroll\n    for (int lane = 0; lane < " + lanes + "; ++lane) s[lane] = 0;\n";
    const std::string inside = k.e.text(level::pack) + k.each(take) + (kind == pool_kind::maximum ? "    begun = true;\n" : "");
    std::string end;
    std::vector<int> outputs;
    if (q.wants(0) && q.out[0].type != dtype::undefined) {
        end += k.store(0, y);
        outputs.push_back(0);
    }
    if (places) {
        const std::string own_channel = k.own[1].text + (k.own[1].consecutive ? " + lane" : "");
        end +=
            k.store(1, "((long long)" + k.own[0].text + " * " + decimal(x.extents[1]) + " + " + own_channel + ") * " + decimal(w.inputs()) + " + pixels[lane]");
        outputs.push_back(1);
    }
    k.finish(p, "graft_pool", start, inside, end, outputs, {});
    return end_program(p, "windows gathered by their outputs");
}
template <pool_kind Kind>
const char* generate_pool_of(const kernel_query& q, program& p) {
    return generate_pool(q, p, Kind);
}

// AveragePool over the whole picture is a mean.
inline const char* generate_average_pool(const kernel_query& q, program& p) {
    ops::window w;
    if (!ops::plan_pool(q, w).ok()) return "its window does not fit its input";
    bool whole = q.in[0].extents.elements() > 0;
    for (int d = 0; d < w.rank; ++d) {
        const ops::window_axis& a = w.axis[d];
        whole = whole && a.output == 1 && a.kernel == a.input && a.dilation == 1 && a.pad_begin == 0 && a.pad_end == 0;
    }
    return whole ? generate_global_pool<ops::reduction::mean>(q, nullptr, p) : generate_pool(q, p, pool_kind::average);
}

// The sum of |x|^p over the picture, and its p-th root.
class global_norm_pool : public reduction {
public:
    inline global_norm_pool(const kernel_query& query) : reduction(query), power(static_cast<double>(query.integer("p", 2))) {
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        for (int d = 2; d < extents.rank(); ++d) axes |= 1u << d;
        by = sum_reducer(compute_type(q.in[0].type));
        finished = {0};
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override {
        const operand x = in(e, 0, at);
        return {power == 2   ? e.make(x.type, "% * %", {x, x})
                : power == 1 ? e.make(x.type, "abs(%)", {x})
                             : e.make(x.type, "pow(abs(%), %)", {x, e.number(x.type, power)})};
    }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        operand y = s[0];
        if (power == 2)
            y = e.make(y.type, "sqrt(%)", {y});
        else if (power != 1)
            y = e.make(y.type, "pow(%, %)", {y, e.number(y.type, 1 / power)});
        results.push_back({0, y, at});
        return {};
    }
    double power;
};
inline const char* generate_global_norm_pool(const kernel_query& q, program& p) {
    global_norm_pool r(q);
    if (const char* why = r.begin(nullptr)) return why;
    return generate_reduction(r, p);
}

// graft.MaxPoolGrad(dY, X, Y): first which tap of each window is the first of its largest, then each input adds up the windows whose
// tap it is.
inline const char* generate_max_pool_grad(const kernel_query& q, program& p) {
    ops::window w;
    kernel_body body;
    const shape &x = q.in[1].extents, &y = q.in[0].extents;
    if (!ops::plan_pool_grad(q, x, w).ok()) return "its window does not fit its input";
    if (const char* why = read_body(q, body)) return why;
    if (x.elements() == 0) return nullptr;
    if (x.elements() > most_pool_elements || y.elements() > most_pool_elements) return "more elements than a launch has blocks for";
    begin_program(p, largest_index(w, x, y));
    std::int64_t taps = 1;
    for (int d = 0; d < w.rank; ++d) taps = checked_mul(taps, w.axis[d].kernel);
    if (taps < 0 || taps >= INT32_MAX) return "a window of too many elements";
    const std::string type = memory_name(compute_type(q.in[1].type)), tap_type = taps < 255 ? "unsigned char" : "int";
    if (y.elements()) {
        window_kernel k(q, body, w, y, q.in_layout[0], q.in_layout[0] == q.in_layout[1], size_of(q.in[1].type));
        const std::string lanes = decimal(k.lanes);
        k.loop_over_taps(false);
        const operand v = k.e.value(body.inputs[1], k.there(x));
        if (k.e.failure) return k.e.failure;
        const fillings names = {{"type", type}, {"lanes", lanes}, {"taps", decimal(taps)}, {"value", v.text}, {"tap_type", tap_type}, {"tap", k.tap()}};
        const std::string start = fill(R"cuda(    $type s[$lanes] = {};
    pack<$tap_type, $lanes> taps;
    bool begun = false;
    for (int lane = 0; lane < $lanes; ++lane) taps.at[lane] = $taps;
)cuda",
                                       names);
        const std::string inside = k.e.text(level::pack) +
                                   k.each(fill("if (!begun || $value > s[lane]) s[lane] = $value, taps.at[lane] = ($tap_type)$tap;", names)) +
                                   "    begun = true;\n";
        k.finish(p, "graft_largest", start, inside, fill("    store_pack<$lanes>(chosen + i, taps);\n", names), {}, {{tap_type + "* chosen", 0}});
        p.workspace_bytes = y.elements() * (taps < 255 ? 1 : 4);
    }
    window_kernel k(q, body, w, x, q.out_layout[0], q.in_layout[0] == q.out_layout[0], size_of(q.in[0].type));
    const std::string lanes = decimal(k.lanes);
    k.loop_over_windows();
    const position there = k.there(y);
    const operand dy = k.e.value(body.inputs[0], there);
    const index from = k.e.offset(there, strides_of(y, q.in_layout[0]));
    if (k.e.failure) return k.e.failure;
    std::string chosen = "chosen[" + from.text + "]", loaded;
    if (from.consecutive) {
        const fillings names = {{"type", tap_type}, {"lanes", lanes}, {"from", from.text}};
        loaded = fill("    const pack<$type, $lanes> taps = load_pack<$type, $lanes, $lanes>(chosen + $from);\n", names);
        chosen = "taps.at[lane]";
    }
    const std::string inside = k.e.text(level::pack) + loaded + "    const index_t own_tap = " + k.tap() + ";\n" +
                               k.each("if (" + chosen + " == own_tap) s[lane] += " + dy.text + ";");
    const std::string start = "    " + type + " s[" + lanes + "] = {};\n", end = k.store(0, "s[lane]");
    k.finish(p, "graft_gather", start, inside, end, {0}, {{"const " + tap_type + "* chosen", 0}});
    return end_program(p, "gathered by the input's elements");
}

// graft.AveragePoolGrad(dY)
inline const char* generate_average_pool_grad(const kernel_query& q, program& p) {
    ops::window w;
    kernel_body body;
    const shape &x = q.out[0].extents, &y = q.in[0].extents;
    if (!ops::plan_pool_grad(q, x, w).ok()) return "its window does not fit its input";
    if (const char* why = read_body(q, body)) return why;
    if (x.elements() == 0) return nullptr;
    if (x.elements() > most_pool_elements) return "more elements than a launch has blocks for";
    begin_program(p, largest_index(w, x, y));
    window_kernel k(q, body, w, x, q.out_layout[0], q.in_layout[0] == q.out_layout[0], size_of(q.in[0].type));
    const std::string type = memory_name(compute_type(q.in[0].type)), lanes = decimal(k.lanes);
    k.loop_over_windows();
    const operand dy = k.e.value(body.inputs[0], k.there(y));
    if (k.e.failure) return k.e.failure;
    const std::string inside =
        k.count_there(q.integer("count_include_pad", 0) != 0) + k.e.text(level::pack) + k.each("s[lane] += " + dy.text + " / (" + type + ")count;");
    const std::string start = "    " + type + " s[" + lanes + "] = {};\n", end = k.store(0, "s[lane]");
    k.finish(p, "graft_gather", start, inside, end, {0}, {});
    return end_program(p, "gathered by the input's elements");
}

}  // namespace detail

GRAFT_INLINE generated_table pool_rows() {
    static constexpr generated_row rows[] = {
        {"MaxPool", "", detail::generate_pool_of<detail::pool_kind::maximum>},
        {"AveragePool", "", detail::generate_average_pool},
        {"LpPool", "", detail::generate_pool_of<detail::pool_kind::norm>},
        {"GlobalLpPool", "", detail::generate_global_norm_pool},
        {"MaxPoolGrad", "graft", detail::generate_max_pool_grad},
        {"AveragePoolGrad", "graft", detail::generate_average_pool_grad},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
