// LinearAttention as its steps, and RotaryEmbedding as products of elements.
#pragma once

#include "../lower/decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// LinearAttention, over up to 64 steps, and RotaryEmbedding of ops/linear_attention.hpp.
decomposition_table linear_attention_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/linear_attention.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// S = exp(decay) * S; v = beta * (v - S^T k); S = S + k v^T; y = scale * S^T q
inline const char* decompose_linear_attention(decomposition& d) {
    const op_context& c = d.c;
    emitter& e = d.build;
    ops::linear_attention_plan p;
    constexpr std::int64_t most_steps = 64;
    if (!ops::plan_linear_attention(c, p).ok()) return "its shapes or attributes do not fit";
    if (d.any_empty()) return "it is empty";
    if (p.length > most_steps) return "it has more than 64 steps";
    const dtype type = c.in[0].type;
    const std::int64_t group = p.q_heads / p.kv_heads;
    const double given = static_cast<double>(c.real("scale", 0)), scale = given == 0 ? 1 / std::sqrt(static_cast<double>(p.k_size)) : given;
    // Each step of an input as [batch, heads, ...], in float32.
    const auto steps = [&](int i, shape heads) {
        const value_id x =
            d.transpose(e.reshape(d.cast(d.in[static_cast<std::size_t>(i)], dtype::float32), {p.batch, p.length, c.in[i].extents[2]}), {1, 0, 2});
        std::vector<value_id> all = d.apart(x);
        heads.insert(0, p.batch);
        for (value_id& now : all) now = e.reshape(now, heads);
        return all;
    };
    const auto heads_of = [&](int i) { return c.in[i].extents[2] == 1 ? std::int64_t(1) : p.kv_heads; };
    const auto q = steps(0, {p.kv_heads, group, p.k_size}), k = steps(1, {p.kv_heads, 1, p.k_size}), v = steps(2, {p.kv_heads, 1, p.v_size});
    const auto decay = p.gated ? steps(4, {p.kv_heads, c.in[4].extents[2] / p.kv_heads, 1}) : std::vector<value_id>();
    const auto beta = p.delta ? steps(5, {heads_of(5), 1, 1}) : std::vector<value_id>();
    value_id state = c.has(3) ? d.cast(d.in[3], dtype::float32) : d.constant(dtype::float32, {p.batch, p.kv_heads, p.k_size, p.v_size});
    std::vector<value_id> y;
    for (std::size_t t = 0; t < static_cast<std::size_t>(p.length) && e.failure.ok(); ++t) {
        if (p.gated) state = e.mul(state, e.apply("Exp", {decay[t]}));
        value_id value = v[t];
        if (p.delta) value = e.mul(e.sub(value, d.product(d.cast(k[t], type), false, d.cast(state, type), false, dtype::float32)), beta[t]);
        state = e.add(state, e.mul(e.reshape(k[t], {p.batch, p.kv_heads, p.k_size, 1}), value));
        y.push_back(e.reshape(d.product(d.cast(q[t], type), false, d.cast(state, type), false, dtype::float32, scale), {1, p.batch, p.q_heads * p.v_size}));
    }
    if (!e.failure.ok()) return nullptr;
    if (c.wants(0)) d.out[0] = d.cast(d.transpose(d.together(y, 0), {1, 0, 2}), c.out[0].type);
    if (c.wants(1)) d.out[1] = d.cast(state, c.out[1].type);
    return nullptr;
}

// Pairs (a, b) become (cos * a - sin * b, sin * a + cos * b); what is behind them stays.
inline const char* decompose_rotary_embedding(decomposition& d) {
    const op_context& c = d.c;
    emitter& e = d.build;
    ops::rotary_plan p;
    if (!ops::plan_rotary(c, p).ok()) return "its shapes do not fit";
    if (d.any_empty()) return "it is empty";
    if (c.has(3)) return "its positions are looked up: a wrong one could not be reported";
    const bool interleaved = c.integer("interleaved", 0) != 0;
    const shape rows = p.packed ? shape{p.batch, p.length, p.heads} : shape{p.batch, p.heads, p.length};
    shape whole = rows, pairs = rows, turned = rows, by{p.batch, p.packed ? p.length : 1, p.packed ? 1 : p.length};
    whole.push_back(p.size);
    turned.push_back(2 * p.half);
    pairs.push_back(interleaved ? p.half : 2);
    pairs.push_back(interleaved ? 2 : p.half);
    by.push_back(interleaved ? p.half : 1);
    by.push_back(interleaved ? 1 : p.half);
    const dtype type = c.in[0].type, sums = type == dtype::float64 ? type : dtype::float32;
    const std::int64_t axis = interleaved ? 4 : 3;
    const auto cut = [&](value_id x, std::int64_t along, std::int64_t from, std::int64_t to) {
        return e.apply("Slice", {x, e.integers({from}), e.integers({to}), e.integers({along})});
    };
    const value_id x = e.reshape(d.in[0], whole);
    if (p.half == 0) {
        d.out[0] = d.in[0];
        return nullptr;
    }
    const value_id front = e.reshape(d.cast(2 * p.half == p.size ? x : cut(x, 3, 0, 2 * p.half), sums), pairs);
    const value_id a = cut(front, axis, 0, 1), b = cut(front, axis, 1, 2);
    const value_id cosine = e.reshape(d.cast(d.in[1], sums), by), sine = e.reshape(d.cast(d.in[2], sums), by);
    const value_id first = e.sub(e.mul(cosine, a), e.mul(sine, b)), second = e.add(e.mul(sine, a), e.mul(cosine, b));
    value_id y = d.cast(e.reshape(e.apply("Concat", {first, second}, {integer_attribute("axis", axis)}), turned), type);
    if (2 * p.half != p.size) y = e.apply("Concat", {y, cut(x, 3, 2 * p.half, p.size)}, {integer_attribute("axis", 3)});
    d.out[0] = e.reshape(y, c.in[0].extents);
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE decomposition_table linear_attention_decompositions() {
    static constexpr decomposition_row rows[] = {
        {"LinearAttention", "", detail::decompose_linear_attention, true},
        {"RotaryEmbedding", "", detail::decompose_rotary_embedding, false},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
