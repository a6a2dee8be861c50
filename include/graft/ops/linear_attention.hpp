// Operators beside Attention: LinearAttention (recurrent, with a state in place of a cache) and RotaryEmbedding.
#pragma once

#include "window.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Sizes of a LinearAttention: [batch, length, heads * size] inputs, a state [batch, kv heads, key size, value size].
struct linear_attention_plan {
    std::int64_t batch, length, q_heads, kv_heads, k_size, v_size;
    bool gated, delta;
};
GRAFT_NOINLINE inline status plan_linear_attention(const op_context& c, linear_attention_plan& p) {
    const shape &q = c.in[0].extents, &k = c.in[1].extents, &v = c.in[2].extents;
    const char* rule = c.string("update_rule", "gated_delta");
    p.gated = !std::strcmp(rule, "gated") || !std::strcmp(rule, "gated_delta");
    p.delta = !std::strcmp(rule, "delta") || !std::strcmp(rule, "gated_delta");
    if (!p.gated && !p.delta && std::strcmp(rule, "linear") != 0) return c.fail(errc::op_attribute, "update_rule is none of linear, gated, delta, gated_delta");
    if (c.has(4) != p.gated) return c.fail(errc::op_attribute, "decay must be given with the gated rules, and only with them");
    if (c.has(5) != p.delta) return c.fail(errc::op_attribute, "beta must be given with the delta rules, and only with them");
    p.q_heads = c.integer("q_num_heads", 0);
    p.kv_heads = c.integer("kv_num_heads", 0);
    if (p.q_heads < 1 || p.kv_heads < 1 || p.q_heads % p.kv_heads)
        return c.fail(errc::op_attribute, "q_num_heads %lld is no multiple of kv_num_heads %lld", p.q_heads, p.kv_heads);
    if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3 || k[0] != q[0] || v[0] != q[0] || k[1] != q[1] || v[1] != q[1])
        return c.fail_shapes("query, key and value must be [batch, length, heads * size]");
    if (q[2] % p.q_heads || k[2] % p.kv_heads || v[2] % p.kv_heads || q[2] / p.q_heads != k[2] / p.kv_heads)
        return c.fail_shapes("the heads do not divide the hidden sizes alike");
    p.batch = q[0], p.length = q[1], p.k_size = q[2] / p.q_heads, p.v_size = v[2] / p.kv_heads;
    if (checked_mul(p.q_heads, p.v_size) < 0) return c.fail_shapes("the sizes overflow");
    if (c.has(3) && c.in[3].extents != shape{p.batch, p.kv_heads, p.k_size, p.v_size})
        return c.fail_shapes("past_state must be [batch, kv heads, key size, value size]");
    for (int i = 4; i < 6; ++i) {
        if (!c.has(i)) continue;
        const shape& s = c.in[i].extents;
        if (s.rank() != 3 || s[0] != p.batch || s[1] != p.length || (s[2] != p.kv_heads && s[2] != (i == 4 ? k[2] : 1)))
            return c.fail_shapes("decay must be [batch, length, kv heads (* key size)] and beta [batch, length, kv heads or 1]");
    }
    return {};
}

// LinearAttention-27: at each step S = exp(decay) * S; v = beta * (v - S^T k) (delta rules); S = S + k v^T; output = scale * S^T
// q
inline status linear_attention_infer(infer_context& c) {
    linear_attention_plan p;
    for (int i = 0; i < 6; ++i)
        if (c.has(i)) {
            GRAFT_TRY(check_real(c, i));
            if (c.in[i].type == dtype::float64) return c.fail(errc::op_type, "float64 is not allowed");
            if (i != 3) GRAFT_TRY(check_same_type(c, i, 0));
        }
    GRAFT_TRY(plan_linear_attention(c, p));
    GRAFT_TRY(c.set(0, c.in[0].type, {p.batch, p.length, p.q_heads * p.v_size}));
    return c.set(1, c.has(3) ? c.in[3].type : c.in[0].type, {p.batch, p.kv_heads, p.k_size, p.v_size});
}
inline status linear_attention_run(run_context& c) {
    linear_attention_plan p;
    GRAFT_TRY(plan_linear_attention(c, p));
    if (is_empty(c.out[0]) && is_empty(c.out[1])) return {};
    widened<double> q, k, v, decay, beta;
    GRAFT_TRY(widen(c, c.in[0], q));
    GRAFT_TRY(widen(c, c.in[1], k));
    GRAFT_TRY(widen(c, c.in[2], v));
    if (p.gated) GRAFT_TRY(widen(c, c.in[4], decay));
    if (p.delta) GRAFT_TRY(widen(c, c.in[5], beta));
    const std::int64_t state_size = p.k_size * p.v_size, group = p.q_heads / p.kv_heads, each = state_size + 2 * p.v_size;
    const std::int64_t decays = p.gated ? c.in[4].extents[2] : 0, betas = p.delta ? c.in[5].extents[2] : 0;
    const double given = static_cast<double>(c.real("scale", 0)),
                 scale = given == 0 ? 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(p.k_size, 1))) : given;
    buffer memory;
    double* scratch = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(checked_mul(p.batch, p.kv_heads), each), memory, scratch));
    parallel_for(c.pool, p.batch * p.kv_heads, [&](std::int64_t task) {
        const std::int64_t batch = task / p.kv_heads, head = task % p.kv_heads;
        double *state = scratch + task * each, *value = state + state_size, *y = value + p.v_size;
        if (c.has(3))
            load_as_double(c.in[3].type, c.in[3].data, task * state_size, state_size, state);
        else
            std::fill(state, state + state_size, 0.0);
        for (std::int64_t t = 0; t < p.length; ++t) {
            const std::int64_t at = batch * p.length + t;
            const double *key = k.data + (at * p.kv_heads + head) * p.k_size, *new_value = v.data + (at * p.kv_heads + head) * p.v_size;
            for (std::int64_t d = 0; p.gated && d < p.k_size; ++d) {
                const double factor = std::exp(decay.data[at * decays + (decays == p.kv_heads ? head : head * p.k_size + d)]);
                for (std::int64_t m = 0; m < p.v_size; ++m) state[d * p.v_size + m] *= factor;
            }
            for (std::int64_t m = 0; m < p.v_size; ++m) {
                value[m] = new_value[m];
                for (std::int64_t d = 0; p.delta && d < p.k_size; ++d) value[m] -= state[d * p.v_size + m] * key[d];
                if (p.delta) value[m] *= beta.data[at * betas + (betas == 1 ? 0 : head)];
            }
            for (std::int64_t d = 0; d < p.k_size; ++d)
                for (std::int64_t m = 0; m < p.v_size; ++m) state[d * p.v_size + m] += key[d] * value[m];
            for (std::int64_t g = 0; c.wants(0) && g < group; ++g) {
                const std::int64_t q_row = at * p.q_heads + head * group + g;
                for (std::int64_t m = 0; m < p.v_size; ++m) {
                    double sum = 0;
                    for (std::int64_t d = 0; d < p.k_size; ++d) sum += q.data[q_row * p.k_size + d] * state[d * p.v_size + m];
                    y[m] = scale * sum;
                }
                store_from_double(c.out[0].type, c.out[0].data, q_row * p.v_size, p.v_size, y);
            }
        }
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, task * state_size, state_size, state);
    });
    return {};
}

/// Sizes of a RotaryEmbedding.
struct rotary_plan {
    std::int64_t batch, heads, length, size, half;
    bool packed;
};
GRAFT_NOINLINE inline status plan_rotary(const op_context& c, rotary_plan& p) {
    const shape& x = c.in[0].extents;
    p.packed = x.rank() == 3;
    p.heads = p.packed ? c.integer("num_heads", 0) : x.at(1);
    if (x.rank() != 3 && x.rank() != 4) return c.fail_shapes("the input must have three or four dimensions");
    if (p.packed && (p.heads < 1 || x[2] % p.heads)) return c.fail(errc::op_attribute, "num_heads %lld does not divide the hidden size %lld", p.heads, x[2]);
    p.batch = x[0];
    p.length = p.packed ? x[1] : x[2];
    p.size = p.packed ? x[2] / p.heads : x[3];
    const std::int64_t given = c.integer("rotary_embedding_dim", 0), rotated = given == 0 ? p.size : given;
    if (rotated < 0 || rotated > p.size || rotated % 2)
        return c.fail(errc::op_attribute, "rotary_embedding_dim %lld must be even and no more than the head size %lld", rotated, p.size);
    p.half = rotated / 2;
    if (c.has(3) && c.in[3].extents != shape{p.batch, p.length}) return c.fail_shapes("position_ids must be [batch, length]");
    for (int i = 1; i < 3; ++i) {
        const shape& cache = c.in[i].extents;
        const bool fits = c.has(3) ? cache.rank() == 2 && cache[0] == c.in[1].extents[0] : cache.rank() == 3 && cache[0] == p.batch && cache[1] == p.length;
        if (!fits || cache.back() != p.half)
            return c.fail_shapes("cos_cache and sin_cache must be [positions, half], or [batch, length, half] without position_ids");
    }
    return {};
}

// RotaryEmbedding-23: pairs (a, b) of each head become (cos * a - sin * b, sin * a + cos * b)
inline status rotary_infer(infer_context& c) {
    rotary_plan p;
    for (int i = 0; i < 3; ++i) {
        GRAFT_TRY(check_real(c, i));
        GRAFT_TRY(check_same_type(c, i, 0));
    }
    if (c.has(3) && c.in[3].type != dtype::int64) return c.fail(errc::op_type, "position_ids must be int64");
    GRAFT_TRY(plan_rotary(c, p));
    return c.set(0, c.in[0].type, c.in[0].extents);
}
inline status rotary_run(run_context& c) {
    rotary_plan p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_rotary(c, p));
    widened<double> cosine, sine;
    GRAFT_TRY(widen(c, c.in[1], cosine));
    GRAFT_TRY(widen(c, c.in[2], sine));
    const bool interleaved = c.integer("interleaved", 0) != 0;
    buffer memory;
    double* x = nullptr;
    GRAFT_TRY(scratch_of(c, p.size, memory, x));
    for (std::int64_t row = 0; row < p.batch * p.length * p.heads; ++row) {
        const std::int64_t batch = row / (p.length * p.heads), t = p.packed ? row / p.heads % p.length : row % p.length;
        std::int64_t position = batch * p.length + t;
        if (c.has(3)) {
            position = c.in[3].integer(position);
            if (position < 0) position += c.in[1].extents[0];
            if (position < 0 || position >= c.in[1].extents[0])
                return c.fail(errc::op_index, "position %lld is outside the cache of %lld", position, c.in[1].extents[0]);
        }
        load_as_double(c.in[0].type, c.in[0].data, row * p.size, p.size, x);
        for (std::int64_t i = 0; i < p.half; ++i) {
            double &a = x[interleaved ? 2 * i : i], &b = x[interleaved ? 2 * i + 1 : i + p.half];
            const double cos_value = cosine.data[position * p.half + i], sin_value = sine.data[position * p.half + i], real = cos_value * a - sin_value * b;
            b = sin_value * a + cos_value * b;
            a = real;
        }
        store_from_double(c.out[0].type, c.out[0].data, row * p.size, p.size, x);
    }
    return {};
}

inline op_table linear_attention_ops() {
    static constexpr op_row rows[] = {
        onnx("LinearAttention")
            .opsets(27)
            .inputs(3, 6)
            .outputs(2)
            .functions(linear_attention_infer, linear_attention_run)
            .combines()
            .attributes("chunk_size:i kv_num_heads:i q_num_heads:i scale:f update_rule:s")
            .problems("f32[2,5,8] f32[2,5,8] f32[2,5,6] q_num_heads=2 kv_num_heads=2 update_rule=linear; "
                      "f32[1,4,8] f32[1,4,4] f32[1,4,6] f32[1,1,4,6] f32[1,4,1] f32[1,4,1] q_num_heads=2 kv_num_heads=1; "
                      "f32[1,3,4] f32[1,3,4] f32[1,3,4] - f32[1,3,4]~-1:0 q_num_heads=2 kv_num_heads=2 update_rule=gated; "
                      "f32[1,0,4] f32[1,0,4] f32[1,0,4] q_num_heads=2 kv_num_heads=2 update_rule=linear"),
        onnx("RotaryEmbedding")
            .opsets(23)
            .inputs(3, 4)
            .functions(rotary_infer, rotary_run)
            .carries(carry_first_axis<9>)
            .attributes("interleaved:i num_heads:i rotary_embedding_dim:i")
            .problems("f32[2,3,4,8] f32[2,4,4] f32[2,4,4]; f32[1,4,24] f32[1,4,3] f32[1,4,3] num_heads=3 rotary_embedding_dim=6 "
                      "interleaved=1; f32[0,3,4,8] f32[0,4,4] f32[0,4,4]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
