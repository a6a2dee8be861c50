// Kernels of batch normalisation by the statistics of the batch, with its activation and its residual, and of its gradient; of the
// gradients of layer normalisation.
#pragma once

#include "../codegen/reduce.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The operators of ops/norm_training.hpp, and the sums of ops/norm_members.hpp.
reduction_table norm_training_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "norm.hpp"
#include "../../ops/norm_members.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// What both directions share: X is input `x`, and everything but the channels is summed up.
class batch_norm : public reduction {
public:
    inline batch_norm(const kernel_query& query, int x) : reduction(query), type(compute_type(query.in[x].type)) {
        extents = q.in[x].extents;
        order = q.in_layout[x];
        bytes = size_of(q.in[x].type);
        axes = ~2u & ((1u << extents.rank()) - 1);
        total = extents.product(0, 1) * extents.product(2, extents.rank());
    }
    inline operand value(element_emitter& e, int input, const position& at) const { return e.convert(in(e, input, at), type); }
    inline operand channel(element_emitter& e, int input, const position& at) const { return e.convert(in(e, input, with_axes(at, {1})), type); }
    inline void store(element_emitter& e, int o, const position& at, const operand& y, std::vector<reduction_result>& results) const {
        if (writes(o)) results.push_back({o, e.convert(y, q.out[o].type), with_axes(at, {1})});
    }
    inline const char* read(const fused_node* around) {
        if (!ops::read_norm_activation(q, activation).ok()) return "an activation that is neither relu nor clip";
        return begin(around);
    }
    inline void outputs(std::initializer_list<int> by_channel, std::initializer_list<int> by_element) {
        for (int o : by_channel)
            if (writes(o)) finished.push_back(o);
        for (int o : by_element)
            if (writes(o)) mapped.push_back(o);
    }
    dtype type;
    std::int64_t total;
    ops::norm_activation activation;
};

class batch_norm_training : public batch_norm {
public:
    inline batch_norm_training(const kernel_query& query) : batch_norm(query, 0) {
        by = moments_reducer(type);
        outputs({1, 2, 3, 4}, {0});
        statistics = {type, type};
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override { return {value(e, 0, at)}; }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        const double n = static_cast<double>(total), momentum = decimal_of(q.real("momentum", 0.9f)), epsilon = decimal_of(q.real("epsilon", 1e-5f));
        const operand variance = total ? e.make(type, "% / %", {s[2], e.number(type, n)}) : e.number(type, 0);
        const operand inverse = e.make(type, (std::string("(") + memory_name(type) + ")1 / sqrt(% + %)").c_str(), {variance, e.number(type, epsilon)});
        const auto running = [&](int input, const operand& batch) {
            operand old = channel(e, input, at);
            if (!total) return old;
            const operand updated = e.make(type, "% * % + % * %", {old, e.number(type, momentum), batch, e.number(type, 1 - momentum)});
            return q.integer("without_faults", 0) ? e.make(type, "% ? % : %", {e.fault_seen(), old, updated}) : updated;
        };
        const operand mean = running(3, s[1]),
                      spread_out = running(4, total > 1 ? e.make(type, "% * %", {variance, e.number(type, n / (n - 1))}) : e.number(type, 0));
        store(e, 1, at, mean, results);
        store(e, 2, at, spread_out, results);
        store(e, 3, at, s[1], results);
        store(e, 4, at, inverse, results);
        return {s[1], e.make(type, "% * %", {channel(e, 1, at), inverse})};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const position& at) const override {
        operand y = e.make(type, "(% - %) * % + %", {value(e, 0, at), s[0], s[1], channel(e, 2, at)});
        if (q.has(5)) y = e.make(type, "% + %", {y, value(e, 5, at)});
        if (!activation.any) return {y};
        if (activation.low == 0 && activation.high == HUGE_VAL) return {e.make(type, "relu(%)", {y})};
        return {e.make(type, "clip(%, %, %)", {y, e.number(type, activation.low), e.number(type, activation.high)})};
    }
};

// Sums of the gradient behind the activation, alone and along the normalised input: dY and X, a mean and an inverse deviation from input `mean` on, and
// the result `y`.
class batch_norm_sums : public batch_norm {
public:
    inline batch_norm_sums(const kernel_query& query, int mean, int y) : batch_norm(query, 1), mean_(mean), y_(y) {
        by.fields = {{"shift", type, "0"}, {"scale", type, "0"}};
        by.elements = {type, type};
        by.take = "s.shift += x0;\n    s.scale += x0 * x1;";
        by.merge = "a.shift += b.shift;\n    a.scale += b.scale;";
    }
    inline operand masked(element_emitter& e, const position& at) const {
        operand dy = value(e, 0, at);
        if (!activation.any) return dy;
        const operand y = value(e, y_, at), low = e.number(type, activation.low), none = e.number(type, 0);
        if (activation.high == HUGE_VAL) return e.make(type, "% > % ? % : %", {y, low, dy, none});
        return e.make(type, "% > % && % < % ? % : %", {y, low, y, e.number(type, activation.high), dy, none});
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position& result) const override {
        const operand mean = channel(e, mean_, result), inverse = channel(e, mean_ + 1, result);
        return {masked(e, at), e.make(type, "(% - %) * %", {value(e, 1, at), mean, inverse})};
    }

private:
    int mean_, y_;
};

class batch_norm_gradient final : public batch_norm_sums {
public:
    inline batch_norm_gradient(const kernel_query& query) : batch_norm_sums(query, 3, 5) {
        outputs({1, 2}, {0, 3});
        statistics = {type, type, type};
    }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        store(e, 1, at, s[1], results);
        store(e, 2, at, s[0], results);
        // dX = factor * g + constant + slope * (X - mean)
        const operand inverse = channel(e, 4, at), factor = e.make(type, "% * %", {channel(e, 2, at), inverse}),
                      n = e.number(type, static_cast<double>(std::max<std::int64_t>(total, 1)));
        return {factor, e.make(type, "-% * % / %", {factor, s[0], n}), e.make(type, "-% * % * % / %", {factor, inverse, s[1], n})};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const position& at) const override {
        std::vector<operand> made;
        const operand g = masked(e, at);
        for (int o : mapped) made.push_back(o == 3 ? g : e.make(type, "% * % + (% + % * (% - %))", {s[0], g, s[1], s[2], value(e, 1, at), channel(e, 3, at)}));
        return made;
    }
};

// The same sums alone, of a member's own samples.
class batch_moments final : public batch_norm {
public:
    inline batch_moments(const kernel_query& query) : batch_norm(query, 0) {
        by = moments_reducer(type);
        outputs({0, 1}, {});
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override { return {value(e, 0, at)}; }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        for (int o = 0; o < 2; ++o) store(e, o, at, s[static_cast<std::size_t>(o + 1)], results);
        return {};
    }
};
class batch_norm_gradient_sums final : public batch_norm_sums {
public:
    inline batch_norm_gradient_sums(const kernel_query& query) : batch_norm_sums(query, 2, 4) { outputs({0, 1}, {}); }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        store(e, 0, at, s[1], results);
        store(e, 1, at, s[0], results);
        return {};
    }
};

// What the gradients of LayerNormalization share: dY and X, a mean (or none) and an inverse deviation for each row.
class row_norm_gradient : public reduction {
public:
    inline explicit row_norm_gradient(const kernel_query& query) : reduction(query), type(compute_type(query.in[1].type)) {
        extents = q.in[1].extents;
        order = q.in_layout[1];
        bytes = std::min(size_of(q.in[0].type), size_of(q.in[1].type));
        by.elements = {type, type};
        by.merge = "a.sum += b.sum;\n    a.along += b.along;";
        by.take = "s.sum += x0;\n    s.along += x0 * x1;";
        by.fields = {{"sum", type, "0"}, {"along", type, "0"}};
    }
    inline operand value(element_emitter& e, int i, const position& at) const { return e.convert(in(e, i, at), type); }
    inline operand mean(element_emitter& e, const position& row) const { return q.has(2) ? value(e, 2, row) : e.number(type, 0); }
    inline const char* read(const fused_node* around, bool over_rows) {
        if (!q.axis(q.integer("axis", -1), extents.rank(), axis).ok()) return "its axis does not fit its input";
        for (int d = 0; d < extents.rank(); ++d)
            if ((d >= axis) == over_rows) axes |= 1u << d;
        return begin(around);
    }
    dtype type;
    int axis = 0;
};

class layer_norm_gradient : public row_norm_gradient {
public:
    static constexpr bool over_rows = true;
    inline explicit layer_norm_gradient(const kernel_query& query) : row_norm_gradient(query) {
        mapped = {0};
        statistics = {type, type, type, type};
    }
    inline operand scaled(element_emitter& e, const position& at) const {
        const operand dy = value(e, 0, at);
        return q.has(4) ? e.make(type, "% * %", {dy, value(e, 4, broadcast_to(at, q.in[4].extents))}) : dy;
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position& row) const override {
        return {scaled(e, at), e.make(type, "(% - %) * %", {value(e, 1, at), mean(e, row), value(e, 3, row)})};
    }
    // dX = inverse * g + constant + slope * (X - mean)
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& row, std::vector<reduction_result>&) const override {
        const operand inverse = value(e, 3, row), n = e.number(type, static_cast<double>(std::max<std::int64_t>(extents.product(axis, extents.rank()), 1)));
        const operand constant = q.has(2) ? e.make(type, "-% * % / %", {inverse, s[0], n}) : e.number(type, 0);
        return {inverse, constant, e.make(type, "-% * % * % / %", {inverse, inverse, s[1], n}), mean(e, row)};
    }
    inline std::vector<operand> map(element_emitter& e, const std::vector<operand>& s, const position& at) const override {
        return {e.make(type, "% * % + (% + % * (% - %))", {s[0], scaled(e, at), s[1], s[2], value(e, 1, at), s[3]})};
    }
};

class layer_norm_gradient_scale : public row_norm_gradient {
public:
    static constexpr bool over_rows = false;
    inline explicit layer_norm_gradient_scale(const kernel_query& query) : row_norm_gradient(query) {
        for (int o = 0; o < 2; ++o)
            if (writes(o)) finished.push_back(o);
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override {
        const position row = broadcast_to(at, q.in[3].extents);
        return {value(e, 0, at), e.make(type, "(% - %) * %", {value(e, 1, at), mean(e, row), value(e, 3, row)})};
    }
    inline std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        std::vector<int> kept;
        for (int d = axis; d < extents.rank(); ++d) kept.push_back(d);
        for (int o : finished) results.push_back({o, e.convert(s[o ? 0 : 1], q.out[o].type), with_axes(at, kept)});
        return {};
    }
};
template <class Reduction>
const char* generate_row_norm_gradient(const kernel_query& q, const fused_node* around, program& p) {
    Reduction r(q);
    if (const char* why = r.read(around, Reduction::over_rows)) return why;
    return generate_reduction(r, p);
}
template <class Reduction>
const char* generate_batch_norm(const kernel_query& q, const fused_node* around, program& p) {
    if (q.has(6)) return "what it would sum up is given: gpu/ops/norm_members makes nodes of it";
    Reduction r(q);
    if (const char* why = r.read(around)) return why;
    return generate_reduction(r, p);
}

}  // namespace detail

GRAFT_INLINE reduction_table norm_training_rows() {
    static constexpr reduction_row rows[] = {
        {"BatchNormalizationTraining", "graft", detail::generate_batch_norm<detail::batch_norm_training>},
        {"BatchNormalizationGrad", "graft", detail::generate_batch_norm<detail::batch_norm_gradient>},
        {"BatchMoments", "graft", detail::generate_batch_norm<detail::batch_moments>},
        {"BatchNormalizationGradSums", "graft", detail::generate_batch_norm<detail::batch_norm_gradient_sums>},
        {"LayerNormalizationGrad", "graft", detail::generate_row_norm_gradient<detail::layer_norm_gradient>},
        {"LayerNormalizationGradScale", "graft", detail::generate_row_norm_gradient<detail::layer_norm_gradient_scale>},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
