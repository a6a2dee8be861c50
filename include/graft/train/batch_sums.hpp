// Sums over a batch in the graph of a step: what batches that are computed in parts have to add up.
#pragma once

#include "../ops/ops.hpp"

#include <cstddef>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Finds the values that are sums over the batch, and what is made of them linearly and without the samples. Adding the parts' sums and
// going on from there gives the bits of the whole batch, as adding what is behind them would not.
class batch_sums {
public:
    // `samples`: the inputs that differ from part to part.
    batch_sums(const graph& g, const std::vector<value_id>& samples) : g_(g), kind_(g.values.size(), apart), maker_(g.values.size(), -1) {
        for (value_id id : samples) kind_[id] = mixed;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            const node& n = g.nodes[i];
            bool depends = false;
            for (value_id id : n.inputs) depends |= id != no_value && kind_[id] != apart;
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                maker_[id] = static_cast<int>(i);
                kind_[id] = !depends                                   ? apart
                            : ops::row_of(n).is(op_flag::sums_members) ? of_members(n, id)
                            : sums_batch(n)                            ? sum
                            : is_linear(n)                             ? linear
                                                                       : mixed;
            }
        }
    }

    // Whether a value depends on the samples, and whether it is a sum over them, or made of sums.
    bool depends(value_id id) const { return kind_[id] != apart; }
    bool is_summed(value_id id) const { return kind_[id] >= sum; }

    // The sums that the `wanted` values are made of, each once; a value that is made otherwise stands for itself, one that does not
    // depend on the samples is left out. `plain`: each value stands for itself. `made` (may be null) is set for the values on the way from the sums to those.
    std::vector<value_id> behind(const std::vector<value_id>& wanted, bool plain, std::vector<char>* made = nullptr) const {
        if (made) made->assign(g_.values.size(), 0);
        std::vector<value_id> found, open(wanted.rbegin(), wanted.rend());
        std::vector<char> seen(g_.values.size(), 0);
        while (!open.empty()) {
            const value_id id = open.back();
            open.pop_back();
            if (id == no_value || seen[id] || kind_[id] == apart) continue;
            seen[id] = 1;
            if (plain || kind_[id] != linear) {
                found.push_back(id);
                continue;
            }
            if (made) (*made)[id] = 1;
            const std::vector<value_id>& inputs = g_.nodes[static_cast<std::size_t>(maker_[id])].inputs;
            open.insert(open.end(), inputs.rbegin(), inputs.rend());
        }
        return found;
    }

private:
    enum kind : char { apart, mixed, sum, linear };  // of values: free of the samples, dependent on them, a sum over them, made of such sums

    bool sums_batch(const node& n) const {
        const op_row& row = ops::row_of(n);
        if (!row.is(op_flag::sums_batch) || !n.find("shards")) return false;
        if (!row.is(op_flag::sums_if_shorter)) return true;
        if (kind_[n.inputs[0]] >= sum) return false;  // of weights, whose first axis may be of one element
        const shape &x = g_.at(n.inputs[0]).extents, &y = g_.at(n.outputs[0]).extents;
        return y.rank() < x.rank() || (y.rank() > 0 && y[0] == 1);
    }
    // A layer that asks the members of a run itself: what is shaped unlike its first output is the same for each of them.
    kind of_members(const node& n, value_id id) const { return id != n.outputs[0] && g_.at(id).extents != g_.at(n.outputs[0]).extents ? apart : mixed; }
    bool is_linear(const node& n) const {
        std::size_t summed = 0, free = 0;
        for (value_id id : n.inputs) {
            summed += id != no_value && kind_[id] >= sum;
            free += id == no_value || kind_[id] == apart;
        }
        const std::size_t all = n.inputs.size();
        switch (ops::row_of(n).traits.linear) {
        case linearity::none: return false;
        case linearity::first: return summed == 1 && free == all - 1 && n.inputs[0] != no_value && kind_[n.inputs[0]] >= sum;
        case linearity::joint: return summed == all;
        case linearity::either: return summed == 1 && free == all - 1;
        }
        return false;
    }

    const graph& g_;
    std::vector<kind> kind_;
    std::vector<int> maker_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
