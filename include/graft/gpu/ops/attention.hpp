// Attention as products, a softmax, and what stands between them; and all of that as one kernel of cuDNN.
#pragma once

#include "../lower/decompose.hpp"
#include "../runtime/handles.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Attention of ops/attention.hpp. Heads that share keys are one matrix, so that each product is one call; scores of 16-bit queries are
/// float32. The scores are a value in the device's memory: batch * heads * queries * keys of them.
decomposition_table attention_decompositions();

/// The row of graft.Attention(Q, K, V, mask?) -> Y, which fuse_attention.hpp makes of a product, a softmax and a product:
/// softmax(scale * Q K^T + mask) V of float16 or bfloat16, whose scores are float32 and stay in the kernel. Each of Q, K, V and Y is a part
/// of its value that lies there in any order of batch, heads and rows. Attributes: `extents`, the batch, heads, heads of K and V, queries,
/// keys, size of Q and K, size of V; `q`, `k`, `v` and `y`, the first element, and the steps from one batch, head and row to the next;
/// `scale`. The mask is [1 or batch, 1 or heads, queries, keys or more], row-major: what is behind the keys is not read.
///
/// cuDNN compiles the kernel when it is asked for it. Where it has none, the answer is op.unsupported.
library_table attention_rows();
/// So many elements make 16 bytes, at which heads and rows have to begin.
constexpr std::int64_t attention_pack = 8;
/// The operator of that row, which no model can name.
const op_row* fused_attention_row();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/attention.hpp"
#include "../libraries/cudnn_plan.hpp"
#include "../lower/layouts.hpp"

#include <algorithm>
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

class attention_writer {
public:
    inline explicit attention_writer(decomposition& to) : d(to), e(to.build), c(to.c) {}

    inline const char* write() {
        if (!ops::plan_attention(c, p).ok()) return "its shapes do not fit";
        for (int i : {0, 1, 2, 3, 6})
            if (d.empty(i)) return "one of its inputs is empty";
        if (p.total < 1 || p.size < 1 || p.v_size < 1) return "there are no keys";
        const dtype type = c.in[0].type, v_type = c.in[2].type;
        const value_id k = joined(1, 4), v = joined(2, 5);
        if (c.wants(1)) d.out[1] = k;
        if (c.wants(2)) d.out[2] = v;
        if (!c.wants(0) && !c.wants(3)) return nullptr;
        const value_id weights = weigh(scores(k), type);
        if (!c.wants(0)) return nullptr;
        const shape rows{p.batch, p.kv_heads, p.group * p.q_length, p.total};
        value_id y = d.product(e.reshape(d.cast(weights, v_type), rows), false, v, false, v_type);
        y = d.cast(e.reshape(y, {p.batch, p.q_heads, p.q_length, p.v_size}), type);
        d.out[0] = p.packed ? e.reshape(d.transpose(y, {0, 2, 1, 3}), {p.batch, p.q_length, p.q_heads * p.v_size}) : y;
        return nullptr;
    }

private:
    // An input as [batch, heads, length, size].
    inline value_id heads(int i, std::int64_t count, std::int64_t length, std::int64_t size) {
        const value_id x = d.in[static_cast<std::size_t>(i)];
        return p.packed ? d.transpose(e.reshape(x, {p.batch, length, count, size}), {0, 2, 1, 3}) : x;
    }
    // Keys or values, behind those of the past.
    inline value_id joined(int i, int past) {
        const value_id x = heads(i, p.kv_heads, p.kv_length, i == 1 ? p.size : p.v_size);
        if (p.past == 0) return x;
        if (p.kv_length == 0) return d.in[static_cast<std::size_t>(past)];
        return e.apply("Concat", {d.in[static_cast<std::size_t>(past)], x}, {integer_attribute("axis", 2)});
    }
    // scale * Q K^T as [batch, heads, queries, keys].
    inline value_id scores(value_id k) {
        const dtype type = c.in[0].type, sums = type == dtype::float64 ? type : dtype::float32;
        const double scale = c.has_attribute("scale") ? static_cast<double>(c.real("scale", 0)) : 1 / std::sqrt(static_cast<double>(p.size));
        value_id q = e.reshape(heads(0, p.q_heads, p.q_length, p.size), {p.batch, p.kv_heads, p.group * p.q_length, p.size});
        const bool wide = type == dtype::float64;  // the product's own factor is a float
        if (wide) q = e.mul(q, e.number(scale, q));
        return e.reshape(d.product(q, false, k, true, sums, wide ? 1 : scale), {p.batch, p.q_heads, p.q_length, p.total});
    }
    // What the scores become. -infinity is where a query may not look; one that may look nowhere gives zeros.
    inline value_id weigh(value_id s, dtype type) {
        const std::int64_t mode = c.integer("qk_matmul_output_mode", 0);
        const auto tell = [&](std::int64_t at) {
            if (c.wants(3) && mode == at) d.out[3] = d.cast(s, type);
        };
        tell(0);
        const double cap = static_cast<double>(c.real("softcap", 0));
        if (cap > 0) s = e.mul(e.apply("Tanh", {e.mul(s, e.number(1 / cap, s))}), e.number(cap, s));
        tell(1);
        value_id allowed = in_reach(), visible = allowed;
        if (c.has(3)) {
            const value_id m = mask(e.type(s));
            if (c.in[3].type == dtype::boolean)
                visible = allowed = d.both(m, allowed);
            else {
                s = e.add(s, m);
                visible = d.both(e.apply("Greater", {m, e.number(-HUGE_VAL, m)}), allowed);
            }
        }
        if (allowed != no_value) s = d.where(allowed, s, -HUGE_VAL);
        tell(2);
        s = e.apply("Softmax", {s}, {integer_attribute("axis", -1)});
        // With a frontier alone every query sees the first key or the one at its place.
        const bool blind = c.has(3) || c.has(6) || (c.integer("left_window_size", -1) >= 0 && p.q_length > p.kv_length);
        if (blind && visible != no_value) s = d.where(visible, s, 0);
        tell(3);
        return s;
    }
    // The mask as long as the keys, which is no broadcast: keys behind its end are not to be seen.
    inline value_id mask(dtype type) {
        const bool boolean = c.in[3].type == dtype::boolean;
        const value_id m = boolean ? d.in[3] : d.cast(d.in[3], type);
        const shape& x = c.in[3].extents;
        if (x.back() == p.total) return m;
        std::vector<std::int64_t> pads(2 * static_cast<std::size_t>(x.rank()), 0);
        pads.back() = p.total - x.back();
        return e.apply("Pad", {m, e.integers(pads), boolean ? no_value : e.number(-HUGE_VAL, m)});
    }
    // Where the frontier, the windows and the lengths of the keys let a query look; no_value: everywhere.
    inline value_id in_reach() {
        constexpr std::int64_t far = std::int64_t(1) << 40;
        const bool causal = c.integer("is_causal", 0) != 0;
        const std::int64_t left = std::min(far, c.integer("left_window_size", -1)), right = std::min(far, c.integer("right_window_size", -1));
        const bool placed = causal || left >= 0 || right >= 0;
        if (!placed && !c.has(6)) return no_value;
        const value_id key = d.numbers(0, {p.total});
        value_id allowed = no_value, query = placed ? d.numbers(c.has(6) ? 0 : p.past, {p.q_length, 1}) : no_value;
        if (c.has(6)) {
            value_id valid = e.reshape(d.in[6], {p.batch, 1, 1, 1});
            valid = e.apply("Max", {e.apply("Min", {valid, e.number(static_cast<double>(far), valid)}), e.number(-static_cast<double>(far), valid)});
            allowed = e.apply("Less", {key, valid});
            if (placed) query = e.add(query, e.sub(valid, e.number(static_cast<double>(p.q_length), valid)));
        }
        if (causal) allowed = d.both(allowed, e.apply("LessOrEqual", {key, query}));
        if (left >= 0) allowed = d.both(allowed, e.apply("LessOrEqual", {e.sub(query, key), e.number(static_cast<double>(left), key)}));
        if (right >= 0) allowed = d.both(allowed, e.apply("LessOrEqual", {e.sub(key, query), e.number(static_cast<double>(right), key)}));
        return allowed;
    }

    decomposition& d;
    emitter& e;
    const op_context& c;
    ops::attention_plan p;
};
inline const char* decompose_attention(decomposition& d) { return attention_writer(d).write(); }

/// A node graft.Attention as kernels see it.
struct fused_attention {
    /// A matrix of each head, and where its value has it.
    struct part {
        std::int64_t heads = 0, rows = 0, columns = 0, first = 0;
        std::int64_t step[3] = {};  // of batch, head and row
    };
    std::int64_t batch = 0;
    part q, k, v, y;
    bool masked = false;
};

inline const char* read_attention_part(const kernel_query& q, const char* name, const tensor_view& in, fused_attention& a, fused_attention::part& p) {
    const integer_list at = q.integers(name);
    if (at.size != 4) return "its attributes do not fit";
    p.first = at[0];
    const std::int64_t counts[] = {a.batch, p.heads, p.rows};
    std::int64_t last = checked_add(p.first, p.columns - 1);
    if (p.first < 0 || p.first % attention_pack) return "a head does not begin at 16 bytes";
    for (int i = 0; i < 3; ++i) {
        p.step[i] = at[i + 1];
        if (counts[i] > 1 && (p.step[i] < 1 || p.step[i] % attention_pack)) return "rows of a head do not begin at 16 bytes";
        // Of an axis of extent 1 no step is taken; cuDNN wants one nevertheless.
        if (counts[i] == 1) p.step[i] = std::max(p.step[i], attention_pack);
        last = checked_add(last, checked_mul(counts[i] - 1, p.step[i]));
    }
    return last >= 0 && last < in.elements() ? nullptr : "a head lies outside of its value";
}

inline const char* read_fused_attention(const kernel_query& q, fused_attention& a) {
    const dtype type = q.in[0].type;
    if (type != dtype::float16 && type != dtype::bfloat16) return "cuDNN's attention is float16 or bfloat16";
    if (q.on.major < 8) return "cuDNN's attention needs compute capability 8.0";
    for (int i = 0; i < 3; ++i)
        if (q.in[i].type != type || !is_row_major(q.in[i].extents, q.in_layout[i])) return "its values differ in type, or are not row-major";
    if (q.out[0].type != type || !is_row_major(q.out[0].extents, q.out_layout[0])) return "its values differ in type, or are not row-major";
    const integer_list e = q.integers("extents");
    if (e.size != 7) return "its attributes do not fit";
    for (int i = 0; i < 7; ++i)
        if (e[i] < 1) return "it is empty";
    a.batch = e[0];
    a.q.heads = a.y.heads = e[1], a.k.heads = a.v.heads = e[2];
    a.q.rows = a.y.rows = e[3], a.k.rows = a.v.rows = e[4];
    a.q.columns = a.k.columns = e[5], a.v.columns = a.y.columns = e[6];
    if (e[1] % e[2]) return "its heads make no groups";
    constexpr std::int64_t most = 128;
    if (e[5] % attention_pack || e[6] % attention_pack || e[5] > most || e[6] > most) return "the size of a head is no multiple of 8 up to 128";
    if (const char* why = read_attention_part(q, "q", q.in[0], a, a.q)) return why;
    if (const char* why = read_attention_part(q, "k", q.in[1], a, a.k)) return why;
    if (const char* why = read_attention_part(q, "v", q.in[2], a, a.v)) return why;
    if (const char* why = read_attention_part(q, "y", q.out[0], a, a.y)) return why;
    if (elements_of({a.batch, a.q.heads, a.q.rows, a.k.rows}) < 0) return "it has too many scores";
    a.masked = q.has(3);
    if (!a.masked) return nullptr;
    const shape& m = q.in[3].extents;
    const bool fits = m.rank() == 4 && (m[0] == 1 || m[0] == a.batch) && (m[1] == 1 || m[1] == a.q.heads) && m[2] == a.q.rows && m[3] >= a.k.rows &&
                      m[3] % attention_pack == 0;
    return fits && q.in[3].type == type && is_row_major(m, q.in_layout[3]) ? nullptr : "its mask has another shape or type";
}

/// The graph of attention: cuDNN knows it by its operations, the logarithm of the sums among them, which nobody reads here.
class attention_graph {
public:
    inline attention_graph(const libraries& with, const fused_attention& of, dtype type) : graph(with), a_(of), type_(type) {}

    inline status build(const kernel_query& q) {
        namespace mode = api::cudnn::pointwise;
        namespace reduce = api::cudnn::reduce;
        const shape full{a_.batch, a_.q.heads, a_.q.rows, a_.k.rows}, row{a_.batch, a_.q.heads, a_.q.rows, 1};
        GRAFT_TRY(add(q_id, a_.q, false, {argument::from::input, 0}));
        GRAFT_TRY(add(k_id, a_.k, true, {argument::from::input, 1}));
        GRAFT_TRY(add(v_id, a_.v, false, {argument::from::input, 2}));
        GRAFT_TRY(add(y_id, a_.y, false, {argument::from::output, 0}));
        std::int64_t s = 0, scaled = 0, maximum = 0, distance = 0, power = 0, sum = 0, logarithm = 0, statistic = 0, weight = 0;
        GRAFT_TRY(between(full, dtype::float32, s));
        GRAFT_TRY(graph.add_matmul(q_id, k_id, s));
        GRAFT_TRY(graph.add_scalar(scale_id, q.real("scale", 1)));
        GRAFT_TRY(between(full, dtype::float32, scaled));
        GRAFT_TRY(pointwise(mode::multiply, s, scale_id, scaled));
        s = scaled;
        if (a_.masked) {
            const shape& lies = q.in[3].extents;
            const std::int64_t steps[] = {lies[1] * lies[2] * lies[3], lies[2] * lies[3], lies[3], 1};
            std::int64_t hidden = 0;
            GRAFT_TRY(graph.add_strided(mask_id, type_, {lies[0], lies[1], lies[2], a_.k.rows}, steps, false));
            bindings.push_back({mask_id, {argument::from::input, 3}});
            GRAFT_TRY(between(full, dtype::float32, hidden));
            GRAFT_TRY(pointwise(mode::add, s, mask_id, hidden));
            s = hidden;
        }
        GRAFT_TRY(between(row, dtype::float32, maximum));
        GRAFT_TRY(graph.add_reduction(reduce::maximum, s, maximum));
        GRAFT_TRY(between(full, dtype::float32, distance));
        GRAFT_TRY(pointwise(mode::subtract, s, maximum, distance));
        GRAFT_TRY(between(full, dtype::float32, power));
        GRAFT_TRY(pointwise(mode::exp, distance, 0, power));
        GRAFT_TRY(between(row, dtype::float32, sum));
        GRAFT_TRY(graph.add_reduction(reduce::add, power, sum));
        GRAFT_TRY(between(row, dtype::float32, logarithm));
        GRAFT_TRY(pointwise(mode::log, sum, 0, logarithm));
        GRAFT_TRY(between(row, dtype::float32, statistic));
        GRAFT_TRY(pointwise(mode::add, maximum, logarithm, statistic));
        GRAFT_TRY(between(full, type_, weight));
        GRAFT_TRY(pointwise(mode::divide, power, sum, weight));
        GRAFT_TRY(graph.add_matmul(weight, v_id, y_id));
        return graph.finalize();
    }

    cudnn_graph graph;
    std::vector<graph_binding> bindings;

private:
    static constexpr std::int64_t q_id = 1, k_id = 2, v_id = 3, y_id = 4, scale_id = 5, mask_id = 6;

    inline status add(std::int64_t id, const fused_attention::part& p, bool transposed, argument memory) {
        shape extents{a_.batch, p.heads, p.rows, p.columns};
        std::int64_t steps[] = {p.step[0], p.step[1], p.step[2], 1};
        if (transposed) std::swap(extents[2], extents[3]), std::swap(steps[2], steps[3]);
        bindings.push_back({id, memory, p.first * static_cast<std::int64_t>(size_of(type_))});
        return graph.add_strided(id, type_, extents, steps, false);
    }
    // A value that stays in the kernel.
    inline status between(const shape& s, dtype type, std::int64_t& id) {
        const std::int64_t steps[] = {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
        id = next_++;
        return graph.add_strided(id, type, s, steps, true);
    }
    inline status pointwise(int mode, std::int64_t x, std::int64_t b, std::int64_t y) {
        pointwise_operation how;
        how.mode = mode;
        return graph.add_pointwise(how, x, b, y);
    }

    const fused_attention& a_;
    dtype type_;
    std::int64_t next_ = 10;
};

// All that an engine's choice depends on. The scale is given with each call.
inline std::string attention_problem_text(const kernel_query& q, const fused_attention& a) {
    std::string s = std::string("attention ") + name(q.in[0].type) + " batch " + std::to_string(a.batch);
    for (const fused_attention::part* p : {&a.q, &a.k, &a.v, &a.y}) {
        for (std::int64_t n : {p->heads, p->rows, p->columns}) s += " " + std::to_string(n);
        for (std::int64_t step : p->step) s += "/" + std::to_string(step);
    }
    if (a.masked) s += " mask " + text(q.in[3].extents);
    if (q.options.deterministic) s += " deterministic";
    return s;
}

inline const char* refuse_fused_attention(const kernel_query& q) {
    fused_attention a;
    return read_fused_attention(q, a);
}
inline result<std::unique_ptr<library_kernel>> make_fused_attention(const kernel_query& q, const libraries& with) {
    fused_attention a;
    if (const char* refused = read_fused_attention(q, a)) return fail(errc::op_unsupported, graft::location(q.n), refused);
    if (!with.cudnn) return fail(errc::op_unsupported, graft::location(q.n), "cuDNN is not loaded");
    // NVIDIA's own front end leaves out the attention of these two for known bugs.
    const std::size_t version = with.cudnn->cudnnGetVersion();
    if (version == 91000 || version == 91001) return fail(errc::op_unsupported, graft::location(q.n), "the attention of cuDNN 9.10.0 and 9.10.1 has bugs");
    attention_graph g(with, a, q.in[0].type);
    GRAFT_TRY(g.build(q));
    engine_limits limits;
    limits.deterministic = q.options.deterministic;
    limits.workspace_bytes = with.choices.workspace_bytes;
    return choose_cudnn_kernel(q, with, limits, g.graph, g.bindings, attention_problem_text(q, a));
}

}  // namespace detail

GRAFT_INLINE library_table attention_rows() {
    static constexpr library_row rows[] = {{"Attention", "graft", detail::refuse_fused_attention, detail::make_fused_attention}};
    return rows;
}
GRAFT_INLINE const op_row* fused_attention_row() {
    static constexpr op_row row = make_op("Attention", "graft").inputs(3, 4).attributes("extents:is q:is k:is v:is y:is scale:f");
    return &row;
}

GRAFT_INLINE decomposition_table attention_decompositions() {
    static constexpr decomposition_row rows[] = {{"Attention", "", detail::decompose_attention, false}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
