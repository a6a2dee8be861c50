// Attention as products, a softmax, and what stands between them.
#pragma once

#include "../decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Attention of ops/attention.hpp. Heads that share keys are one matrix, so that each product is one call; scores of 16-bit queries are
/// float32. The scores are a value in the device's memory: batch * heads * queries * keys of them.
decomposition_table attention_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/attention.hpp"

#include <algorithm>
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

class attention_writer {
public:
    inline explicit attention_writer(decomposition& to) : d(to), e(to.emit), c(to.c) {}

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
        return e.emit("Concat", {d.in[static_cast<std::size_t>(past)], x}, {integer_attribute("axis", 2)});
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
        if (cap > 0) s = e.mul(e.emit("Tanh", {e.mul(s, e.number(1 / cap, s))}), e.number(cap, s));
        tell(1);
        value_id allowed = in_reach(), visible = allowed;
        if (c.has(3)) {
            const value_id m = mask(e.type(s));
            if (c.in[3].type == dtype::boolean)
                visible = allowed = d.both(m, allowed);
            else {
                s = e.add(s, m);
                visible = d.both(e.emit("Greater", {m, e.number(-HUGE_VAL, m)}), allowed);
            }
        }
        if (allowed != no_value) s = d.where(allowed, s, -HUGE_VAL);
        tell(2);
        s = e.emit("Softmax", {s}, {integer_attribute("axis", -1)});
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
        return e.emit("Pad", {m, e.integers(pads), boolean ? no_value : e.number(-HUGE_VAL, m)});
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
            valid = e.emit("Max", {e.emit("Min", {valid, e.number(static_cast<double>(far), valid)}), e.number(-static_cast<double>(far), valid)});
            allowed = e.emit("Less", {key, valid});
            if (placed) query = e.add(query, e.sub(valid, e.number(static_cast<double>(p.q_length), valid)));
        }
        if (causal) allowed = d.both(allowed, e.emit("LessOrEqual", {key, query}));
        if (left >= 0) allowed = d.both(allowed, e.emit("LessOrEqual", {e.sub(query, key), e.number(static_cast<double>(left), key)}));
        if (right >= 0) allowed = d.both(allowed, e.emit("LessOrEqual", {e.sub(key, query), e.number(static_cast<double>(right), key)}));
        return allowed;
    }

    decomposition& d;
    emitter& e;
    const op_context& c;
    ops::attention_plan p;
};
inline const char* decompose_attention(decomposition& d) { return attention_writer(d).write(); }

}  // namespace detail

GRAFT_INLINE decomposition_table attention_decompositions() {
    static constexpr decomposition_row rows[] = {{"Attention", "", detail::decompose_attention, false}};
    return {rows, sizeof rows / sizeof rows[0]};
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
