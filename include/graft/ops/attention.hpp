// Attention: scaled dot products, grouped heads, masks, caches and windows; and its gradient without caches and windows.
#pragma once

#include "softmax.hpp"
#include "window_gradient.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Sizes of an attention. Heads of queries come in groups of `group` that share a head of keys and values.
struct attention_plan {
    bool packed = false;  ///< inputs are [batch, sequence, heads * size] instead of [batch, heads, sequence, size]
    std::int64_t batch, q_heads, kv_heads, q_length, kv_length, past, total, size, v_size, group;
};

/// [batch, heads, length, size] of an input, packed or not.
GRAFT_NOINLINE inline status split_heads(const op_context& c, int i, std::int64_t heads, shape& out) {
    const shape& x = c.in[i].extents;
    if (x.rank() == 4) {
        out = x;
        if (heads && heads != x[1]) return c.fail_shapes("q_num_heads or kv_num_heads differs from the shape of a 4-D input");
        return {};
    }
    if (x.rank() != 3) return c.fail_shapes("query, key and value must have three or four dimensions");
    if (heads < 1 || x[2] % heads)
        return c.fail(errc::op_attribute, "%lld heads do not divide a hidden size of %lld (q_num_heads and kv_num_heads are needed with 3-D inputs)", heads,
                      x[2]);
    out = {x[0], heads, x[1], x[2] / heads};
    return {};
}

GRAFT_NOINLINE inline status plan_attention(const op_context& c, attention_plan& p) {
    shape q, k, v;
    if (c.in[1].extents.rank() != c.in[0].extents.rank() || c.in[2].extents.rank() != c.in[0].extents.rank())
        return c.fail_shapes("query, key and value must have the same rank");
    GRAFT_TRY(split_heads(c, 0, c.integer("q_num_heads", 0), q));
    GRAFT_TRY(split_heads(c, 1, c.integer("kv_num_heads", 0), k));
    GRAFT_TRY(split_heads(c, 2, c.integer("kv_num_heads", 0), v));
    if (k[0] != q[0] || v[0] != q[0] || v[1] != k[1] || v[2] != k[2] || k[3] != q[3]) return c.fail_shapes("query, key and value do not fit each other");
    if (k[1] < 1 || q[1] % k[1]) return c.fail_shapes("the query's heads are no multiple of the key's");
    p.packed = c.in[0].extents.rank() == 3;
    p.batch = q[0], p.q_heads = q[1], p.q_length = q[2], p.size = q[3];
    p.kv_heads = k[1], p.kv_length = k[2], p.v_size = v[3], p.group = q[1] / k[1], p.past = 0;
    if (c.has(4) != c.has(5)) return c.fail_shapes("past_key and past_value must be given together");
    if (c.has(4)) {
        const shape &pk = c.in[4].extents, &pv = c.in[5].extents;
        if (pk.rank() != 4 || pv.rank() != 4 || pk[0] != p.batch || pk[1] != p.kv_heads || pk[3] != p.size || pv[0] != p.batch || pv[1] != p.kv_heads ||
            pv[2] != pk[2] || pv[3] != p.v_size)
            return c.fail_shapes("past_key and past_value must be [batch, kv heads, past length, head size]");
        if (c.has(6)) return c.fail_shapes("nonpad_kv_seqlen cannot be combined with past_key");
        p.past = pk[2];
    }
    p.total = checked_add(p.past, p.kv_length);
    if (p.total < 0 || checked_mul(p.q_heads, p.v_size) < 0) return c.fail_shapes("the sizes overflow");
    if (c.has(3)) {
        const shape& m = c.in[3].extents;
        const std::int64_t target[] = {p.batch, p.q_heads, p.q_length};
        bool fits = m.rank() >= 1 && m.rank() <= 4 && m.back() <= p.total;
        for (int i = 1; fits && i < m.rank(); ++i) fits = m.at(-i - 1) == 1 || m.at(-i - 1) == target[3 - i];
        if (!fits) return c.fail_shapes("attn_mask cannot be broadcast to [batch, heads, query length, total length]");
    }
    return check_vector(c, 6, p.batch);
}

// Attention-23,24,25: Y = softmax(softcap(scale * Q * K^T) + bias) * V, with bias from attn_mask, is_causal, windows and
// nonpad_kv_seqlen; a query that sees no key gives zeros. The frontier is aligned to the end: query i stands at i + offset,
// offset = what keys precede the queries.
inline status attention_infer(infer_context& c) {
    attention_plan p;
    for (int i : {0, 1, 2}) GRAFT_TRY(check_real(c, i));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(check_same_type(c, 4, 0));
    GRAFT_TRY(check_same_type(c, 5, 2));
    if (c.has(3) && c.in[3].type != dtype::boolean && !is_integer(c.in[3].type)) GRAFT_TRY(check_real(c, 3));
    if (c.has(6) && c.in[6].type != dtype::int64) return c.fail(errc::op_type, "nonpad_kv_seqlen must be int64");
    const std::int64_t mode = c.integer("qk_matmul_output_mode", 0), precision = c.integer("softmax_precision", 1);
    if (mode < 0 || mode > 3) return c.fail(errc::op_attribute, "qk_matmul_output_mode is %lld, but must be 0 to 3", mode);
    if (precision != 1 && precision != 10 && precision != 11 && precision != 16)
        return c.fail(errc::op_attribute, "softmax_precision %lld is no arithmetic float", precision);
    if (c.integer("left_window_size", -1) < -1 || c.integer("right_window_size", -1) < -1) return c.fail(errc::op_attribute, "a window size is less than -1");
    GRAFT_TRY(plan_attention(c, p));
    GRAFT_TRY(c.set(0, c.in[0].type, p.packed ? shape{p.batch, p.q_length, p.q_heads * p.v_size} : shape{p.batch, p.q_heads, p.q_length, p.v_size}));
    GRAFT_TRY(c.set(1, c.in[0].type, {p.batch, p.kv_heads, p.total, p.size}));
    GRAFT_TRY(c.set(2, c.in[2].type, {p.batch, p.kv_heads, p.total, p.v_size}));
    return c.set(3, c.in[0].type, {p.batch, p.q_heads, p.q_length, p.total});
}

/// Element where row (batch, head, position) of an input starts.
inline std::int64_t attention_row(const attention_plan& p, std::int64_t batch, std::int64_t head, std::int64_t position, std::int64_t heads,
                                  std::int64_t length, std::int64_t size) noexcept {
    return (p.packed ? (batch * length + position) * heads + head : (batch * heads + head) * length + position) * size;
}

/// [batch, kv heads, total, size] as doubles: the past, then the new keys (or values).
GRAFT_NOINLINE inline status join_cache(run_context& c, const attention_plan& p, int now, int past, std::int64_t size, widened<double>& out) {
    double* data = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(checked_mul(p.batch, p.kv_heads), checked_mul(p.total, size)), out.memory, data));
    out.data = data;
    for (std::int64_t head = 0; head < p.batch * p.kv_heads; ++head, data += p.total * size) {
        if (p.past) load_as_double(c.in[past].type, c.in[past].data, head * p.past * size, p.past * size, data);
        for (std::int64_t t = 0; t < p.kv_length; ++t)
            load_as_double(c.in[now].type, c.in[now].data, attention_row(p, head / p.kv_heads, head % p.kv_heads, t, p.kv_heads, p.kv_length, size), size,
                           data + (p.past + t) * size);
    }
    const int present = now;  // key: output 1, value: output 2
    if (c.wants(present)) store_from_double(c.out[present].type, c.out[present].data, 0, c.out[present].elements(), out.data);
    return {};
}

/// What is added to the scores of one query: -infinity where it may not look. Returns whether it may look anywhere.
struct attention_bias {
    const tensor_view* mask = nullptr;
    std::int64_t stride[3] = {};  ///< of the mask along batch, head and query
    bool causal = false;
    std::int64_t left = -1, right = -1;

    GRAFT_NOINLINE bool fill(const attention_plan& p, std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t offset, std::int64_t valid,
                             double* bias) const {
        const std::int64_t masked = mask ? mask->extents.back() : p.total, position = query + offset;
        if (mask) load_as_double(mask->type, mask->data, batch * stride[0] + head * stride[1] + query * stride[2], masked, bias);
        bool any = false;
        for (std::int64_t j = 0; j < p.total; ++j) {
            if (!mask)
                bias[j] = 0;
            else if (mask->type == dtype::boolean && j < masked)
                bias[j] = bias[j] != 0 ? 0 : -HUGE_VAL;
            if (j >= masked || j >= valid || (causal && j > position) || (left >= 0 && position - j > left) || (right >= 0 && j - position > right))
                bias[j] = -HUGE_VAL;
            any = any || bias[j] != -HUGE_VAL;
        }
        return any;
    }
};

inline status attention_run(run_context& c) {
    attention_plan p;
    GRAFT_TRY(plan_attention(c, p));
    bool empty = true;
    for (int i = 0; i < 4; ++i) empty = empty && (!c.wants(i) || is_empty(c.out[i]));
    if (empty) return {};
    widened<double> k, v;
    GRAFT_TRY(join_cache(c, p, 1, 4, p.size, k));
    GRAFT_TRY(join_cache(c, p, 2, 5, p.v_size, v));
    const dtype type = c.in[0].type;
    const double cap = static_cast<double>(c.real("softcap", 0)), wanted_scale = static_cast<double>(c.real("scale", 0));
    double scale = c.has_attribute("scale") ? wanted_scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(p.size, 1)));
    // The operator scales queries and keys by the root of the scale, in their own type.
    if (scale >= 0) scale = round_to(type, std::sqrt(scale)) * round_to(type, std::sqrt(scale));
    const std::int64_t mode = c.integer("qk_matmul_output_mode", 0), far = std::int64_t(1) << 40;
    attention_bias bias;
    bias.causal = c.integer("is_causal", 0) != 0;
    bias.left = std::min(far, c.integer("left_window_size", -1));
    bias.right = std::min(far, c.integer("right_window_size", -1));
    if (c.has(3)) {
        const shape& m = c.in[3].extents;
        bias.mask = &c.in[3];
        std::int64_t step = m.back();
        for (int i = 2; i >= 4 - m.rank(); --i) {
            const std::int64_t extent = m.at(i - 4);
            bias.stride[i] = extent == 1 ? 0 : step;
            step *= extent;
        }
    }
    const std::int64_t row_scratch = checked_add(checked_mul(p.total, 2), checked_add(p.size, p.v_size));
    buffer memory;
    double* rows = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(checked_mul(p.batch, p.q_heads), row_scratch), memory, rows));
    parallel_for(c.pool, p.batch * p.q_heads, [&](std::int64_t task) {
        const std::int64_t batch = task / p.q_heads, head = task % p.q_heads;
        double *scores = rows + task * row_scratch, *mask = scores + p.total, *q = mask + p.total, *y = q + p.size;
        const double *keys = k.data + (batch * p.kv_heads + head / p.group) * p.total * p.size,
                     *values = v.data + (batch * p.kv_heads + head / p.group) * p.total * p.v_size;
        const std::int64_t valid = c.has(6) ? std::max(-far, std::min(far, c.in[6].integer(batch))) : p.total;
        const std::int64_t offset = c.has(6) ? valid - p.q_length : p.past;
        for (std::int64_t i = 0; i < p.q_length; ++i) {
            const std::int64_t row = (task * p.q_length + i) * p.total;
            load_as_double(type, c.in[0].data, attention_row(p, batch, head, i, p.q_heads, p.q_length, p.size), p.size, q);
            for (std::int64_t j = 0; j < p.total; ++j) {
                double sum = 0;
                for (std::int64_t d = 0; d < p.size; ++d) sum += q[d] * keys[j * p.size + d];
                scores[j] = sum * scale;
            }
            if (c.wants(3) && mode == 0) store_from_double(c.out[3].type, c.out[3].data, row, p.total, scores);
            if (cap > 0)
                for (std::int64_t j = 0; j < p.total; ++j) scores[j] = cap * std::tanh(scores[j] / cap);
            if (c.wants(3) && mode == 1) store_from_double(c.out[3].type, c.out[3].data, row, p.total, scores);
            const bool any = bias.fill(p, batch, head, i, offset, valid, mask);
            double largest = -HUGE_VAL, total = 0;
            for (std::int64_t j = 0; j < p.total; ++j) {
                scores[j] += mask[j];
                largest = scores[j] > largest ? scores[j] : largest;
            }
            if (c.wants(3) && mode == 2) store_from_double(c.out[3].type, c.out[3].data, row, p.total, scores);
            for (std::int64_t j = 0; j < p.total; ++j) total += scores[j] = any && largest != -HUGE_VAL ? std::exp(scores[j] - largest) : 0.0;
            for (std::int64_t j = 0; j < p.total; ++j) scores[j] = total != 0 ? scores[j] / total : 0.0;
            if (c.wants(3) && mode == 3) store_from_double(c.out[3].type, c.out[3].data, row, p.total, scores);
            if (!c.wants(0)) continue;
            std::fill(y, y + p.v_size, 0.0);
            for (std::int64_t j = 0; j < p.total; ++j)
                for (std::int64_t d = 0; scores[j] != 0 && d < p.v_size; ++d) y[d] += scores[j] * values[j * p.v_size + d];
            store_from_double(c.out[0].type, c.out[0].data, attention_row(p, batch, head, i, p.q_heads, p.q_length, p.v_size), p.v_size, y);
        }
    });
    return {};
}

/// The parts of an attention's gradient. Queries are [batch, kv heads, group * queries, size], keys and values [batch, kv heads, keys, size],
/// so that heads which share keys are one matrix.
struct attention_gradient_plan {
    attention_plan p;
    gradient_context& c;

    /// An input, or a gradient like it, as [batch, kv heads, rows, size]; `heads` of it.
    value_id split(value_id x, std::int64_t heads, std::int64_t length, std::int64_t size) const {
        if (p.packed) x = c.build.apply("Transpose", {c.build.reshape(x, {p.batch, length, heads, size})}, {integers_attribute("perm", {0, 2, 1, 3})});
        return c.build.reshape(x, {p.batch, p.kv_heads, heads / p.kv_heads * length, size});
    }
    /// The other way.
    value_id join(value_id x, std::int64_t heads, std::int64_t length, std::int64_t size) const {
        x = c.build.reshape(x, {p.batch, heads, length, size});
        if (!p.packed) return x;
        return c.build.reshape(c.build.apply("Transpose", {x}, {integers_attribute("perm", {0, 2, 1, 3})}), {p.batch, length, heads * size});
    }
    value_id transposed(value_id x) const { return c.build.apply("Transpose", {x}, {integers_attribute("perm", {0, 1, 3, 2})}); }
    value_id product(value_id a, value_id b) const { return c.build.apply("MatMul", {a, b}); }
    shape scores() const { return {p.batch, p.q_heads, p.q_length, p.total}; }
    shape rows() const { return {p.batch, p.kv_heads, p.group * p.q_length, p.total}; }
};

/// Where queries may look: true and false, broadcastable to [batch, heads, queries, keys]; no_value: everywhere. `bias` gets what is
/// added to the scores there.
inline value_id emit_attention_mask(gradient_context& c, const attention_plan& p, value_id& bias) {
    value_id allowed = no_value;
    bias = no_value;
    if (c.in(3) != no_value && c.build.type(c.in(3)) == dtype::boolean)
        allowed = c.in(3);
    else if (c.in(3) != no_value) {
        // -infinity is a mask; a number as low keeps the differences finite.
        const value_id m = cast_to(c, c.in(3), c.build.type(c.in(0))), lowest = c.build.number(-1e4, m);
        allowed = c.build.apply("Greater", {m, c.build.number(-HUGE_VAL, m)});
        bias = c.build.apply("Where", {allowed, m, lowest});
    }
    if (!c.integer("is_causal", 0)) return allowed;
    auto frontier = tensor::make(dtype::boolean, {p.q_length, p.total});
    if (!frontier.ok()) return c.build.mistake(frontier.take_status()), no_value;
    for (std::int64_t i = 0; i < p.q_length; ++i)
        for (std::int64_t j = 0; j < p.total; ++j) frontier->data<bool>()[i * p.total + j] = j <= i;
    const value_id causal = c.build.constant(std::move(frontier).value(), "frontier");
    return allowed == no_value ? causal : c.build.apply("And", {allowed, causal});
}

// With S = softcap(scale * Q K^T) + bias, P = softmax(S), dP = dY V^T and dS = P * (dP - sum(dP * P)): dV = P^T dY, dbias = dS, and through
// the cap (1 - tanh^2) and the scale dQ = dS K and dK = dS^T Q. P is computed again.
inline status attention_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    attention_gradient_plan a{{}, c};
    attention_plan& p = a.p;
    GRAFT_TRY(plan_attention(forward, p));
    for (std::size_t i = 1; i < c.given.size(); ++i)
        if (c.given[i] != no_value) return c.refuse("gradients flow through its first output only");
    if (c.in(4) != no_value || c.in(6) != no_value) return c.refuse("a cache of keys, or lengths of keys, have no gradient");
    if (c.integer("left_window_size", -1) >= 0 || c.integer("right_window_size", -1) >= 0) return c.refuse("windows have no gradient: write them as attn_mask");
    if (c.in(3) != no_value && c.extents(c.in(3)).back() != p.total) return c.refuse("attn_mask must be as long as the keys");
    if (c.build.type(c.in(2)) != c.build.type(c.in(0))) return c.refuse("queries and values must be of one type");
    if (c.extents(c.out()).elements() == 0 || p.total == 0 || p.size == 0) {
        for (int i = 0; i < 3; ++i)
            if (c.wants(i)) c.give(i, c.build.zeros(shape(c.extents(c.in(i))), c.in(i)));
        return {};
    }
    const double cap = static_cast<double>(c.real("softcap", 0));
    const double scale = c.n.find("scale") ? static_cast<double>(c.real("scale", 0)) : 1 / std::sqrt(static_cast<double>(p.size));
    const value_id q = a.split(c.in(0), p.q_heads, p.q_length, p.size), k = a.split(c.in(1), p.kv_heads, p.total, p.size),
                   v = a.split(c.in(2), p.kv_heads, p.total, p.v_size);
    const value_id dy = a.split(c.dy(), p.q_heads, p.q_length, p.v_size);
    value_id scores = scaled(c, a.product(q, a.transposed(k)), scale), bent = no_value, bias = no_value;
    if (cap > 0) {
        bent = c.build.apply("Tanh", {scaled(c, scores, 1 / cap)});
        scores = scaled(c, bent, cap);
    }
    const value_id allowed = emit_attention_mask(c, p, bias);
    if (allowed != no_value || bias != no_value) {
        scores = c.build.reshape(scores, a.scores());
        if (bias != no_value) scores = c.build.add(scores, bias);
        if (allowed != no_value)
            scores = c.build.apply("Where", {allowed, scores, c.build.number(c.build.type(scores) == dtype::float16 ? -6e4 : -1e30, scores)});
    }
    value_id weights = c.build.apply("Softmax", {scores}, {integer_attribute("axis", -1)});
    if (allowed != no_value) weights = where(c, allowed, weights);  // a query that sees nothing gives zeros
    weights = c.build.reshape(weights, a.rows());
    if (c.wants(2)) c.give(2, a.join(a.product(a.transposed(weights), dy), p.kv_heads, p.total, p.v_size));
    if (!c.wants(0) && !c.wants(1) && !c.wants(3)) return {};
    const value_id dweights = a.product(dy, a.transposed(v));
    value_id dscores = emit_softmax_gradient(c, dweights, weights, 3);
    if (c.wants(3)) c.give(3, cast_to(c, c.sum_to(c.build.reshape(dscores, a.scores()), shape(c.extents(c.in(3)))), c.build.type(c.in(3))));
    if (bent != no_value) dscores = c.build.mul(dscores, c.build.sub(c.build.number(1, bent), c.build.mul(bent, bent)));
    dscores = scaled(c, dscores, scale);
    if (c.wants(0)) c.give(0, a.join(a.product(dscores, k), p.q_heads, p.q_length, p.size));
    if (c.wants(1)) c.give(1, a.join(a.product(a.transposed(dscores), q), p.kv_heads, p.total, p.size));
    return {};
}

inline gradient_table attention_gradients() {
    static constexpr gradient_row rows[] = {{"Attention", "", attention_gradient}};
    return rows;
}

inline op_table attention_ops() {
    static constexpr op_row rows[] = {
        onnx("Attention")
            .opsets(23)
            .inputs(3, 7)
            .outputs(1, 4)
            .functions(attention_infer, attention_run)
            .carries(carry_first_axis<7>)
            .combines()
            .plays(op_role::product)
            .attributes("is_causal:i kv_num_heads:i left_window_size:i q_num_heads:i qk_matmul_output_mode:i right_window_size:i "
                        "scale:f softcap:f softmax_precision:i")
            .problems("f32[2,3,4,8] f32[2,3,6,8] f32[2,3,6,5]; f32[1,4,3,8] f32[1,2,5,8] f32[1,2,5,8] f32[3,5] is_causal=1; "
                      "f32[2,4,24] f32[2,6,12] f32[2,6,12] q_num_heads=4 kv_num_heads=2 softcap=2; f32[1,2,3,4] f32[1,2,2,4] "
                      "f32[1,2,2,4] - f32[1,2,5,4] f32[1,2,5,4] is_causal=1; "
                      "f32[1,1,4,4] f32[1,1,6,4] f32[1,1,6,4] left_window_size=2 right_window_size=1; f32[0,2,3,4] f32[0,2,3,4] "
                      "f32[0,2,3,4]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
