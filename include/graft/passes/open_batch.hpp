// Opens the batch of a network that was exported for a fixed one: what holds it is rewritten, and every sample is computed as it was alone.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "../graph/graph.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The network for any number of samples along the first axis of its input; its outputs get a row for each. `input` is the shape that its
/// input has as the network stands, the samples first, every extent known; extents that the network leaves open are fixed to it. A network
/// that takes any batch already comes back as it is. Nodes have to be bound (`verify_graph`).
///
/// Every value is followed from the input: along which axis, and where within it, it holds the samples. As long as each operator computes
/// samples apart, each slice of a value stays what it was for that sample alone, whichever of the possible places a Reshape gives the samples;
/// a place that leads nowhere is taken back. Errors: graph.fixed_batch (names the node that the samples cannot pass), input.name (there is no
/// input, or more than one), those of shape inference.
result<graph> open_batch(graph g, const shape& input, executor& pool, const limits& limit = {});

/// Ok where the network gives as many rows as it is given samples: its outputs for two, by shape inference. `input` as above. Errors:
/// graph.fixed_batch where it does not, memory.oom.
status takes_any_batch(const graph& g, const shape& input, executor& pool, const limits& limit = {});

namespace detail {
// Tries what was opened, whatever the rules said of it: with three times the samples every value has to have three times the extent along its axis
// in `axes` (below 0: it has none), and the others as they were. Errors: graph.fixed_batch, those of specialize.
status check_opened(const graph& fixed, const graph& opened, const shape& input, const std::vector<int>& axes, executor& pool, const limits& limit);
}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../ops/ops.hpp"
#include "batch_rewriter.hpp"
#include "specialize.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The rule of an operator; null where there is none.
inline batch_rule batch_rule_of(const node& n) {
    const op_row& row = ops::row_of(n);
    if (row.is(op_flag::random)) return nullptr;
    if (row.traits.carries) return row.traits.carries;
    return row.is(op_flag::elementwise) ? ops::carry_elementwise : row.is(op_flag::view) ? ops::carry_view : nullptr;
}

// Follows the samples through a graph whose shapes are known.
class batch_follower {
public:
    batch_follower(const graph& g, value_id input, std::int64_t samples)
        : g_(g), samples_(samples), input_(input), states_(g.values.size()), maker_(g.values.size(), -1) {
        for (std::size_t i = 0; i < g.nodes.size(); ++i)
            for (value_id id : g.nodes[i].outputs)
                if (id != no_value) maker_[id] = static_cast<int>(i);
    }

    GRAFT_COLD status run() {
        states_[input_] = {0, 1};
        steps_.resize(g_.nodes.size());
        // A choice that was wrong is made anew a few times; more than that has not been seen to help.
        std::int64_t visits = 64 * static_cast<std::int64_t>(g_.nodes.size());
        for (std::size_t i = 0; i < g_.nodes.size();) {
            if (--visits < 0) return std::move(first_);
            std::string why;
            if (pass(i, why)) {
                ++i;
                continue;
            }
            // What is told in the end is what stood in the way of the likeliest places.
            if (first_.ok()) first_ = blocked(g_.nodes[i], why);
            const int back = latest_choice(i);
            if (back < 0) return std::move(first_);
            ++steps_[static_cast<std::size_t>(back)].chosen;
            for (std::size_t k = static_cast<std::size_t>(back) + 1; k <= i; ++k) steps_[k].chosen = 0;
            i = static_cast<std::size_t>(back);
        }
        return {};
    }

    const std::vector<batch_axis>& states() const { return states_; }
    batch_step& step(std::size_t i) { return steps_[i].step; }

private:
    struct visited {
        batch_step step;
        std::size_t options = 0, chosen = 0;
    };
    static status blocked(const node& n, const std::string& why) {
        return fail(errc::graph_fixed_batch, location(n), why + ", so that the network only takes the batch that it was exported with");
    }

    GRAFT_COLD bool pass(std::size_t i, std::string& why) {
        const node& n = g_.nodes[i];
        visited& at = steps_[i];
        at.step = batch_step();
        at.options = 0;
        bool carries = false, shapes = true;
        for (value_id id : n.inputs)
            if (id != no_value) carries |= !states_[id].none(), shapes &= has_shape(id);
        for (const attribute& a : n.attributes)
            if (a.graph)
                for (const capture& c : a.graph->captures) carries |= !states_[c.outer].none();
        for (value_id id : n.outputs)
            if (id != no_value) states_[id] = {}, shapes &= has_shape(id);
        if (!carries) return true;
        if (!shapes) return why = "its shape can only be told by running", false;
        if (n.outputs.empty() || n.outputs[0] == no_value) return why = "its first output is left out", false;  // which the rules go by
        const batch_rule rule = batch_rule_of(n);
        if (!rule) return why = "the operator may mix samples", false;
        batch_carrier c(g_, n, states_, samples_);
        if (!rule(c)) return why = c.why, false;
        at.options = c.options.size();
        if (at.options) c.out[0] = c.options[at.chosen];
        for (std::size_t k = 0; k < n.outputs.size(); ++k) {
            if (n.outputs[k] == no_value) continue;
            // A Reshape takes no -1 beside an extent of zero, and what belongs to one sample cannot be counted.
            if (!c.out[k].none() && g_.at(n.outputs[k]).extents.elements() == 0) return why = "what it makes has no elements", false;
            states_[n.outputs[k]] = c.out[k];
        }
        at.step.change = c.change;
        at.step.repeats = std::move(c.repeats);
        at.step.natural = c.natural;
        return true;
    }
    bool has_shape(value_id id) const { return g_.at(id).has_shape && g_.at(id).extents.known(); }

    // The last node before node i that had a choice and that node i depends on; -1: none has one left.
    int latest_choice(std::size_t i) const {
        std::vector<char> needed(i + 1, 0);
        needed[i] = 1;
        for (std::size_t k = i + 1; k-- > 0;) {
            if (!needed[k]) continue;
            if (k < i && steps_[k].chosen + 1 < steps_[k].options) return static_cast<int>(k);
            for (value_id id : g_.nodes[k].inputs)
                if (id != no_value && maker_[id] >= 0 && maker_[id] < static_cast<int>(k)) needed[static_cast<std::size_t>(maker_[id])] = 1;
        }
        return -1;
    }

    const graph& g_;
    std::int64_t samples_;
    value_id input_;
    std::vector<batch_axis> states_;
    std::vector<int> maker_;
    std::vector<visited> steps_;
    status first_;
};

GRAFT_INLINE GRAFT_COLD status check_opened(const graph& fixed, const graph& opened, const shape& input, const std::vector<int>& axes, executor& pool,
                                            const limits& limit) {
    shape more = input;
    more[0] *= 3;
    graph g;
    GRAFT_TRY_ASSIGN(g, specialize_first_input(opened, more, pool, limit));
    for (const node& n : g.nodes)
        for (value_id id : n.outputs) {
            const std::size_t i = static_cast<std::size_t>(id);
            if (id == no_value || i >= axes.size() || !g.values[i].has_shape) continue;
            shape expected = fixed.values[i].extents;
            if (axes[i] >= 0) expected[axes[i]] *= 3;
            if (fixed.values[i].has_shape && g.values[i].extents != expected)
                return fail(errc::graph_fixed_batch, location(n),
                            "for three times the samples its shape is " + text(g.values[i].extents) + " and not " + text(expected));
        }
    return {};
}

}  // namespace detail

GRAFT_INLINE status takes_any_batch(const graph& g, const shape& input, executor& pool, const limits& limit) GRAFT_MEMORY_TRY {
    const auto fixed = [&g] { return fail(errc::graph_fixed_batch, g.name, "it does not give a row for each sample of any batch"); };
    shape two = input;
    two[0] = 2;
    for (value_id id : g.inputs) {
        const value& v = g.at(id);
        if (v.constant) continue;
        if (v.has_shape && v.extents.rank() && v.extents[0] >= 0) return fixed();
        break;
    }
    auto known = specialize_first_input(g, two, pool, limit);
    if (!known.ok() && known.error().code() == errc::memory_oom) return known.take_status();
    if (!known.ok()) return fixed();
    for (value_id id : known->outputs) {
        const value& v = known->at(id);
        if (v.has_shape && (v.extents.rank() < 1 || v.extents[0] != 2)) return fixed();
    }
    return {};
}
GRAFT_MEMORY_CATCH("takes_any_batch")

GRAFT_INLINE GRAFT_COLD result<graph> open_batch(graph g, const shape& input, executor& pool, const limits& limit) GRAFT_MEMORY_TRY {
    std::vector<value_id> open;
    for (value_id id : g.inputs)
        if (!g.at(id).constant) open.push_back(id);
    if (open.size() != 1)
        return fail(errc::input_name, g.name, "a network has to have one input for its batch to be opened; this one asks for " + std::to_string(open.size()));
    if (input.rank() < 1 || !input.known() || input[0] < 1) return fail(errc::input_shape, g.name, "the shape of a batch has to be known: " + text(input));
    if (input.elements() == 0) return fail(errc::input_shape, g.name, "a sample has to have elements for its batch to be opened: " + text(input));
    status any = takes_any_batch(g, input, pool, limit);
    if (any.ok()) return g;
    if (any.error().code() == errc::memory_oom) return any;
    GRAFT_TRY_ASSIGN(g, specialize_first_input(std::move(g), input, pool, limit));
    detail::batch_follower follower(g, open[0], input[0]);
    GRAFT_TRY(follower.run());
    std::vector<detail::batch_step> steps;
    for (std::size_t i = 0; i < g.nodes.size(); ++i) steps.push_back(std::move(follower.step(i)));
    graph made;
    GRAFT_TRY_ASSIGN(made, detail::batch_rewriter(g, open[0], input[0], follower.states(), steps).run());
    std::vector<int> axes;
    for (const batch_axis& state : follower.states()) axes.push_back(state.axis);
    GRAFT_TRY(detail::check_opened(g, made, input, axes, pool, limit));
    return made;
}
GRAFT_MEMORY_CATCH("open_batch")

GRAFT_END_NAMESPACE
#endif
