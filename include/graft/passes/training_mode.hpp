// Rewrites a graph for training: statistics of the batch, Dropout that drops, quantisation that lets gradients through.
#pragma once

#include "../graph/graph.hpp"

#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What `training_mode` is told.
struct training_mode_options {
    std::vector<value_id> learning;  ///< the values that are trained: weights, scales, biases
    value_id samples = no_value;     ///< the input that holds the batch; no_value: every layer of BatchNormalization may see it
    bool batch_norm = true;          ///< layers of BatchNormalization whose scale learns use the batch's statistics
    value_id counter = no_value;     ///< int64 [2], {step, place of the first sample}: what Dropout draws by; no_value: nothing is dropped
    std::uint64_t seed = 0;          ///< of Dropout; every layer has numbers of its own
    int shards = 8;                  ///< of sums over the batch
};

/// A running mean or variance of BatchNormalization, and the value that a step gives it.
struct running_statistic {
    value_id current = no_value, updated = no_value;
};

/// Rewrites nodes in place; all values keep their ids, and shapes need not be known.
///   BatchNormalization whose scale learns  -> graft.BatchNormalizationTraining; its statistics are in the answer
///   Dropout with a ratio above 0           -> graft.Dropout, unless its mask is read or its ratio is no constant
///   QuantizeLinear and DequantizeLinear behind a value that learns -> graft.FakeQuantize (Jacob et al., 2018)
///   x * Sigmoid(x), x * HardSigmoid(x) and 0.5 * x * (1 + Erf(x / sqrt 2)), as exporters write them -> Swish, HardSwish, Gelu, behind such a value
///       and where the build holds them: their gradients ask for x alone, those of the parts for all that is between
/// Nodes have to be bound (`verify_graph`) and in order; bodies of If, Loop and Scan are left as they are. Errors: train.no_gradient where
/// quantisation on the way to a value that learns has a form that gradients cannot pass; op.unsupported where a build lacks the operators.
result<std::vector<running_statistic>> training_mode(graph& g, const training_mode_options& options);

/// Turns BatchNormalization by a batch's own statistics of what holds no samples, [1, C, ...], into InstanceNormalization, which is the same there: weights
/// that are standardised before each use (Qiao et al., "Weight Standardization", 2019) are exported so. What depends on the input `samples` is left as
/// it is. Types and shapes are known; nodes have to be bound.
void norms_of_weights(graph& g, value_id samples);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/rng.hpp"
#include "../graph/captures.hpp"
#include "../ops/gradients.hpp"
#include "graph_queries.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class training_rewriter {
public:
    training_rewriter(graph& g, const training_mode_options& o)
        : g_(g), o_(o), learns_(g.values.size(), 0), maker_(g.values.size(), nullptr), readers_(g.values.size(), 0) {
        for (value_id id : o.learning)
            if (id != no_value) learns_[id] = 1;
        for (value_id id : g.outputs) ++readers_[id];
        for (const node& n : g.nodes) {
            std::vector<value_id> read = n.inputs;
            append_captures(n, read);
            for (value_id id : read)
                if (id != no_value) ++readers_[id];
        }
        readers_before_ = readers_;
        of_samples_.assign(g.values.size(), o.samples == no_value ? 1 : 0);
        if (o.samples == no_value) return;
        of_samples_[o.samples] = 1;
        mark_dependents(g, g.nodes.size(), of_samples_);
    }

    result<std::vector<running_statistic>> run() {
        std::vector<char> behind = learns_;
        for (node& n : g_.nodes) {
            bool any = false;
            for (value_id id : n.inputs) any |= id != no_value && index(id) < behind.size() && behind[id];
            for (value_id id : n.outputs) {
                if (id == no_value || index(id) >= behind.size()) continue;
                if (any) behind[id] = 1;
                maker_[id] = &n;
            }
            const rule* found = rule_of(n);
            if (found && (any || !found->learns)) GRAFT_TRY((this->*found->rewrite)(n));
        }
        drop_unread();
        return std::move(running_);
    }

private:
    struct rule {
        const char* op;
        status (training_rewriter::*rewrite)(node&);
        bool learns;  // only where something that it depends on does
    };
    static const rule* rule_of(const node& n) {
        static constexpr rule rules[] = {{"BatchNormalization", &training_rewriter::by_batch, false},
                                         {"Dropout", &training_rewriter::dropping, false},
                                         {"DequantizeLinear", &training_rewriter::through_quantization, true},
                                         {"Mul", &training_rewriter::one_activation, true}};
        for (const rule& r : rules)
            if (n.op_type == r.op && n.domain.empty()) return &r;
        return nullptr;
    }
    static bool quantizes(const node& n) { return ops::row_of(n).traits.role == op_role::quantize; }

    static std::size_t index(value_id id) { return static_cast<std::size_t>(id); }
    bool is_read(const node& n, std::size_t output) const {
        return output < n.outputs.size() && n.outputs[output] != no_value && readers_[n.outputs[output]] > 0;
    }
    static value_id input(const node& n, std::size_t i) { return i < n.inputs.size() ? n.inputs[i] : no_value; }
    const tensor* constant(value_id id) const { return id != no_value && g_.at(id).constant ? &g_.at(id).constant : nullptr; }

    // The node becomes another, its name stays.
    static void become(node& n, const op_row* row, const char* domain, const char* op_type, std::vector<attribute> attributes) {
        n.op_type = op_type;
        n.domain = domain;
        n.version = newest_opset;
        n.op = row;
        n.attributes = std::move(attributes);
    }
    status become(node& n, const char* op_type, std::vector<attribute> attributes) {
        const op_row* row = ops::find_training_op("graft", op_type, newest_opset);
        if (!row || !row->run) return fail(errc::op_unsupported, location(n), "this build does not hold the operator that training needs for it");
        become(n, row, "graft", op_type, std::move(attributes));
        return {};
    }
    void read_instead(node& n, std::vector<value_id> inputs) {
        for (value_id id : n.inputs)
            if (id != no_value) --readers_[id];
        n.inputs = std::move(inputs);
        for (value_id id : n.inputs)
            if (id != no_value) ++readers_[id];
    }
    value_id beside(value_id id, const char* ending) { return g_.add_value(g_.at(id).name + ending); }

    status by_batch(node& n) {
        const value_id scale = input(n, 1);
        if (!o_.batch_norm || n.inputs.size() < 5 || scale == no_value || index(scale) >= learns_.size() || !learns_[scale]) return {};
        if (n.inputs[0] == no_value || !of_samples_[n.inputs[0]]) return {};
        const attribute* spatial = n.find("spatial");
        // Statistics of single elements, and outputs that keep the batch's variance, are forms that exporters no longer write.
        if ((n.version < 9 && spatial && !spatial->integer) || is_read(n, 3) || is_read(n, 4) || !is_read(n, 0)) return {};
        std::vector<attribute> kept;
        for (const char* name : {"epsilon", "momentum"})
            if (const attribute* a = n.find(name)) kept.push_back(*a);
        kept.push_back(integer_attribute("shards", o_.shards));
        GRAFT_TRY(become(n, "BatchNormalizationTraining", std::move(kept)));
        const value_id y = n.outputs[0];
        n.outputs.resize(5, no_value);
        const char* endings[] = {"", "/running_mean", "/running_var", "/saved_mean", "/saved_inv_std"};
        for (std::size_t i = 1; i < 5; ++i)
            if (i > 2 || n.outputs[i] == no_value) n.outputs[i] = beside(y, endings[i]);
        running_.push_back({n.inputs[3], n.outputs[1]});
        running_.push_back({n.inputs[4], n.outputs[2]});
        return {};
    }

    status dropping(node& n) {
        if (o_.counter == no_value || is_read(n, 1) || !is_read(n, 0)) return {};
        const std::uint64_t ordinal = dropouts_++;
        double ratio = 0.5;
        if (n.version < 12) {
            if (const attribute* a = n.find("ratio")) ratio = static_cast<double>(a->real);
        } else if (input(n, 1) != no_value) {
            const tensor* t = constant(n.inputs[1]);
            if (!t || t->elements() != 1) return {};
            ratio = element_as_double(t->type(), t->raw(), 0);
        }
        if (!(ratio > 0 && ratio < 1)) return {};
        const auto seed = static_cast<std::int64_t>(random_stream(o_.seed, UINT64_MAX).bits(ordinal));
        GRAFT_TRY(become(n, "Dropout", {real_attribute("ratio", static_cast<float>(ratio)), integer_attribute("seed", seed)}));
        const value_id y = n.outputs[0];
        read_instead(n, {n.inputs[0], o_.counter});
        n.outputs = {y, beside(y, "/mask")};
        return {};
    }

    static bool same(const tensor& a, const tensor& b) {
        if (a.type() != b.type() || a.elements() != b.elements()) return false;
        for (std::int64_t i = 0; i < a.elements(); ++i)
            if (element_as_double(a.type(), a.raw(), i) != element_as_double(b.type(), b.raw(), i)) return false;
        return true;
    }
    bool same(value_id a, value_id b) const {
        if (a == b) return true;
        const tensor *x = constant(a), *y = constant(b);
        return x && y && same(*x, *y);
    }
    static std::int64_t integer(const node& n, const char* name, std::int64_t otherwise) {
        const attribute* a = n.find(name);
        return a ? a->integer : otherwise;
    }
    // A left-out zero point is one of zeros.
    bool all_zero(value_id id) const {
        if (id == no_value) return true;
        const tensor* t = constant(id);
        for (std::int64_t i = 0; t && i < t->elements(); ++i)
            if (element_as_double(t->type(), t->raw(), i) != 0) return false;
        return t != nullptr;
    }

    status through_quantization(node& n) {
        const auto refuse = [&](const char* why) { return fail(errc::train_no_gradient, location(n), std::string(why) + ": freeze what lies before it"); };
        const node* q = input(n, 0) != no_value ? maker_[n.inputs[0]] : nullptr;
        if (!q || !quantizes(*q)) return refuse("a value that learns comes here through integers that are no QuantizeLinear's");
        const value_id zero = input(*q, 2);
        if (!same(q->inputs[1], n.inputs[1]) || !(same(zero, input(n, 2)) || (all_zero(zero) && all_zero(input(n, 2)))))
            return refuse("it dequantizes by other scales or zero points than QuantizeLinear quantized by");
        if (integer(*q, "block_size", 0) || integer(n, "block_size", 0)) return refuse("quantisation in blocks lets no gradient through");
        const std::int64_t named = integer(*q, "output_dtype", 0);
        const dtype type = zero != no_value ? g_.at(zero).type : named ? static_cast<dtype>(named) : dtype::uint8;
        double low = 0, high = 0;
        if (!ops::quantized_range(type, low, high)) return refuse("quantisation to floats lets no gradient through");
        const std::int64_t axis = q->version < 13 ? 1 : integer(*q, "axis", 1);
        std::vector<value_id> inputs{q->inputs[0], q->inputs[1]};
        if (zero != no_value) inputs.push_back(zero);
        GRAFT_TRY(become(n, "FakeQuantize",
                         {integer_attribute("axis", axis), integer_attribute("low", static_cast<std::int64_t>(low)),
                          integer_attribute("high", static_cast<std::int64_t>(high))}));
        read_instead(n, std::move(inputs));
        return {};
    }

    // The node of an operator that makes what is read once; null: another does, or others read it too.
    const node* part(value_id id, const char* op) const {
        const node* n = id != no_value && index(id) < readers_.size() && readers_[id] == 1 ? maker_[id] : nullptr;
        return n && n->op_type == op && n->domain.empty() ? n : nullptr;
    }
    bool is_number(value_id id, double number) const {
        const tensor* t = constant(id);
        const node* made = id != no_value && !t ? maker_[id] : nullptr;
        if (const attribute* value = made && made->op_type == "Constant" ? made->find("value") : nullptr) t = &value->tensor;
        return t && *t && t->shape().rank() == 0 && std::fabs(element_as_double(t->type(), t->raw(), 0) - number) < 1e-6;
    }
    // What is multiplied or added to a number, in either order; no_value: neither operand is that number.
    value_id beside_number(const node* n, double number) const {
        if (!n || n->inputs.size() != 2) return no_value;
        return is_number(n->inputs[0], number) ? n->inputs[1] : is_number(n->inputs[1], number) ? n->inputs[0] : no_value;
    }
    // x of 1 + Erf(x / sqrt 2).
    value_id of_normal_distribution(value_id id) const {
        constexpr double root = 1.4142135623730951;
        const node* erf = part(beside_number(part(id, "Add"), 1), "Erf");
        if (!erf) return no_value;
        if (const node* quotient = part(erf->inputs[0], "Div")) return is_number(quotient->inputs[1], root) ? quotient->inputs[0] : no_value;
        return beside_number(part(erf->inputs[0], "Mul"), 1 / root);
    }
    // x of 0.5 * x * (1 + Erf(x / sqrt 2)), in the orders that exporters write.
    value_id gelu_of(const node& n) const {
        if (const node* product = part(beside_number(&n, 0.5), "Mul"))
            for (int i : {0, 1})
                if (of_normal_distribution(product->inputs[1 - i]) == product->inputs[i]) return product->inputs[i];
        for (int i : {0, 1}) {
            const value_id x = beside_number(part(n.inputs[i], "Mul"), 0.5);
            if (x != no_value && of_normal_distribution(n.inputs[1 - i]) == x) return x;
        }
        return no_value;
    }
    static double number(const node& n, const char* name, double otherwise) {
        const attribute* a = n.find(name);
        return a ? static_cast<double>(a->real) : otherwise;
    }
    status one_activation(node& n) {
        if (n.inputs.size() != 2) return {};
        const char* op = nullptr;
        value_id x = gelu_of(n);
        if (x != no_value) op = "Gelu";
        for (int i = 0; i < 2 && !op; ++i) {
            x = n.inputs[i];
            const node* sigmoid = part(n.inputs[1 - i], "Sigmoid");
            const node* hard = part(n.inputs[1 - i], "HardSigmoid");
            if (sigmoid && sigmoid->inputs[0] == x) op = "Swish";
            if (hard && hard->inputs[0] == x && std::fabs(number(*hard, "alpha", 0.2) - 1.0 / 6) < 1e-5 && number(*hard, "beta", 0.5) == 0.5) op = "HardSwish";
        }
        const op_row* row = op ? ops::find_op("", op, newest_opset) : nullptr;
        if (!row || !row->run) return {};
        become(n, row, "", op, {});
        read_instead(n, {x});
        return {};
    }

    // Nodes that nobody reads any more: quantisers, and all but the last of a sequence.
    void drop_unread() {
        for (std::size_t i = g_.nodes.size(); i-- > 0;) {
            node& n = g_.nodes[i];
            const value_id y = n.outputs.size() == 1 ? n.outputs[0] : no_value;
            if (y == no_value || index(y) >= readers_.size() || readers_[y] > 0 || readers_before_[y] == 0) continue;
            read_instead(n, {});
            n.op_type.clear();
        }
        g_.nodes.erase(std::remove_if(g_.nodes.begin(), g_.nodes.end(), [](const node& n) { return n.op_type.empty(); }), g_.nodes.end());
    }

    graph& g_;
    const training_mode_options& o_;
    std::vector<char> learns_, of_samples_;
    std::vector<const node*> maker_;
    std::vector<int> readers_, readers_before_;
    std::vector<running_statistic> running_;
    std::uint64_t dropouts_ = 0;
};

}  // namespace detail

GRAFT_INLINE result<std::vector<running_statistic>> training_mode(graph& g, const training_mode_options& options) {
    return detail::training_rewriter(g, options).run();
}

GRAFT_INLINE void norms_of_weights(graph& g, value_id samples) {
    const op_row* row = ops::find_op("", "InstanceNormalization", newest_opset);
    if (!row || !row->run) return;
    std::vector<char> of_samples(g.values.size(), 0);
    of_samples[samples] = 1;
    detail::mark_dependents(g, g.nodes.size(), of_samples);
    const std::vector<int> readers = detail::readers_of(g);
    for (node& n : g.nodes) {
        if (!detail::is_named(n, "BatchNormalization") || n.inputs.size() != 5 || n.outputs[0] == no_value || !ops::batch_norm_trains(n)) continue;
        if (n.inputs[0] == no_value || n.inputs[1] == no_value || n.inputs[2] == no_value) continue;
        const value &x = g.at(n.inputs[0]), &scale = g.at(n.inputs[1]);
        if (!x.has_shape || x.extents.rank() < 2 || x.extents[0] != 1 || of_samples[n.inputs[0]] || scale.type != x.type) continue;
        if (std::any_of(n.outputs.begin() + 1, n.outputs.end(), [&](value_id id) { return id != no_value && readers[id] > 0; })) continue;
        const attribute* epsilon = n.find("epsilon");
        n.attributes = epsilon ? std::vector<attribute>{*epsilon} : std::vector<attribute>();
        n.op_type = "InstanceNormalization";
        n.version = newest_opset;
        n.op = row;
        n.inputs.resize(3);
        n.outputs.resize(1);
    }
}

GRAFT_END_NAMESPACE
#endif
