// Sums over a batch in the graph of a step: what batches that are computed in parts have to add up.
#pragma once

#include "../graph/graph.hpp"

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
        for (value_id id : samples) kind_[index(id)] = mixed;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            const node& n = g.nodes[i];
            bool depends = false;
            for (value_id id : n.inputs) depends |= id != no_value && kind_[index(id)] != apart;
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                maker_[index(id)] = static_cast<int>(i);
                kind_[index(id)] = !depends ? apart : sums_batch(n) ? sum : is_linear(n) ? linear : mixed;
            }
        }
    }

    // The sums that the `wanted` values are made of, each once; a value that is made otherwise stands for itself, one that does not
    // depend on the samples is left out. `plain`: each value stands for itself.
    std::vector<value_id> behind(const std::vector<value_id>& wanted, bool plain) const {
        std::vector<value_id> found, open(wanted.rbegin(), wanted.rend());
        std::vector<char> seen(g_.values.size(), 0);
        while (!open.empty()) {
            const value_id id = open.back();
            open.pop_back();
            if (id == no_value || seen[index(id)] || kind_[index(id)] == apart) continue;
            seen[index(id)] = 1;
            if (plain || kind_[index(id)] != linear) {
                found.push_back(id);
                continue;
            }
            const std::vector<value_id>& inputs = g_.nodes[static_cast<std::size_t>(maker_[index(id)])].inputs;
            open.insert(open.end(), inputs.rbegin(), inputs.rend());
        }
        return found;
    }

private:
    enum kind : char { apart, mixed, sum, linear };  // of values: free of the samples, dependent on them, a sum over them, made of such sums

    static std::size_t index(value_id id) { return static_cast<std::size_t>(id); }
    bool any(const node& n, const char* const* names, std::size_t count) const {
        for (std::size_t i = 0; i < count; ++i)
            if (n.domain.empty() && n.op_type == names[i]) return true;
        return false;
    }

    bool sums_batch(const node& n) const {
        if (n.domain != "graft" || !n.find("shards")) return false;
        if (n.op_type != "SumTo") return true;
        const shape &x = g_.values[index(n.inputs[0])].extents, &y = g_.values[index(n.outputs[0])].extents;
        return y.rank() < x.rank() || (y.rank() > 0 && y[0] == 1);
    }
    bool is_linear(const node& n) const {
        static constexpr const char* moves[] = {"Identity", "Neg", "Reshape", "Transpose", "Squeeze", "Unsqueeze"};
        static constexpr const char* adds[] = {"Add", "Sub"};
        const auto summed = [&](std::size_t i) { return i < n.inputs.size() && n.inputs[i] != no_value && kind_[index(n.inputs[i])] >= sum; };
        const auto free = [&](std::size_t i) { return i >= n.inputs.size() || n.inputs[i] == no_value || kind_[index(n.inputs[i])] == apart; };
        if (any(n, moves, 6)) return summed(0) && free(1);
        if (any(n, adds, 2)) return summed(0) && summed(1);
        if (n.domain.empty() && n.op_type == "Mul") return (summed(0) && free(1)) || (free(0) && summed(1));
        return n.domain.empty() && n.op_type == "Div" && summed(0) && free(1);
    }

    const graph& g_;
    std::vector<kind> kind_;
    std::vector<int> maker_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
