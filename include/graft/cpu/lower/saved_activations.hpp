// What the backward part of a step reads of the forward part, kept in bfloat16 in between.
#pragma once

#include "../../lower/rewriter.hpp"
#include "../../passes/graph_queries.hpp"
#include "become_training.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// An activation is rounded where it is made and widened again for each node of the backward part that reads it; the forward part computes by what it was, whose
// memory is free when it has gone by. Where the input of an activation function is kept, its result is computed of that again. Which are kept so depends on the
// network alone, not on the batch: members of a run decide alike. What `recompute` repeats reads what the first time has read: that is not rounded.
class activation_saver : public rewriter {
public:
    activation_saver(graph& target, place_id on) : rewriter(target, on) {}

    void run() {
        turn_ = static_cast<int>(std::find_if(g.nodes.begin(), g.nodes.end(), [](const node& n) { return n.backward; }) - g.nodes.begin());
        find_samples();
        const std::size_t count = g.values.size();
        narrow_.assign(count, no_value);
        for (std::size_t id = 0; id < count; ++id)
            if (is_kept(static_cast<value_id>(id))) keep(static_cast<value_id>(id));
        finish();
    }

private:
    // What depends on a batch, and not only on weights.
    void find_samples() {
        of_samples_.assign(g.values.size(), 0);
        for (value_id id : g.inputs) of_samples_[id] = 1;
        for (const state_pair& s : g.states) of_samples_[g.inputs[static_cast<std::size_t>(s.input)]] = 0;
        mark_dependents(g, g.nodes.size(), of_samples_);
    }

    // Images and sequences. A number for each row of them is a statistic, and what dropout multiplies by is the same number all over.
    bool is_kept(value_id id) {
        if (id == no_value || static_cast<std::size_t>(id) >= narrow_.size()) return false;
        const node* made = position(id) < turn_ ? maker(id) : nullptr;
        const value& v = at(id);
        if (!made || !here(*made) || !is_float32(id) || !v.has_shape || v.extents.rank() < 3 || v.extents.elements() <= 0 || !of_samples_[id]) return false;
        if (v.extents[v.extents.rank() - 1] == 1 || (is(*made, "Dropout", "graft") && made->outputs[0] != id)) return false;
        if (is_output(id)) return false;
        bool backward = false;
        for (int i : readers(id)) {
            const node& n = g.nodes[static_cast<std::size_t>(i)];
            if (i < turn_) continue;
            if (!n.backward || !here(n) || std::find(n.inputs.begin(), n.inputs.end(), id) == n.inputs.end()) return false;
            backward = true;
        }
        return backward;
    }

    void keep(value_id id) {
        const node& made = *maker(id);
        const value_id input = is(made, "Activation", "graft") ? made.inputs[0] : no_value;
        if (is_kept(input)) keep(input);
        const value_id from = input == no_value ? no_value : narrow_[input];
        const std::vector<int> reading = readers(id);
        if (from == no_value) {
            narrow_[id] = in_bfloat16(id);
            insert_behind(*writer(id, reading), training_node(g, "Narrow", on_, id, narrow_[id]));
        }
        value_id shared = no_value;  // by products out of one matrix, an attention's, which stand close to each other
        for (int i : reading) {
            if (i < turn_) continue;
            node& n = g.nodes[static_cast<std::size_t>(i)];
            const bool strided = is(n, "StridedMatMul", "graft");
            if (strided && shared != no_value) {
                edit(n, [&] { std::replace(n.inputs.begin(), n.inputs.end(), id, shared); });
                continue;
            }
            value_id narrow = narrow_[id];
            if (from != no_value) {
                narrow = in_bfloat16(id);
                node again = training_node(g, "ActivationAgain", on_, from, narrow);
                again.attributes = made.attributes;
                insert_before(n, std::move(again));
            }
            const value_id wide = like(id, "_widened");
            insert_before(n, training_node(g, "Widen", on_, narrow, wide));
            if (strided) shared = wide;
            edit(n, [&] { std::replace(n.inputs.begin(), n.inputs.end(), id, wide); });
        }
    }
    value_id in_bfloat16(value_id id) {
        const value_id made = like(id, "_bfloat16");
        at(made).type = dtype::bfloat16;
        return made;
    }
    // Whoever makes it; or a normalisation or an activation behind that, which can write both what it reads and what it makes.
    const node* writer(value_id id, const std::vector<int>& reading) {
        for (int i : reading) {
            const node& n = g.nodes[static_cast<std::size_t>(i)];
            const bool writes = is(n, "BatchNormalizationTraining", "graft") || is(n, "Activation", "graft");
            if (i < turn_ && writes && n.inputs[0] == id) return &n;
        }
        return maker(id);
    }
    int turn_ = 0;  // where the backward part begins
    std::vector<char> of_samples_;
    std::vector<value_id> narrow_;  // of each value what is kept of it
};

}  // namespace detail
GRAFT_END_NAMESPACE
