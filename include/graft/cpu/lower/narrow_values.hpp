// Values that stay in bfloat16 from the node that makes them to those that read them.
#pragma once

#include "layout.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What a graph's values are made of is decided by its kernels: those that may be narrow are made so at first, and go back to floats where a node has no kernel
// for them.
class narrow_values : public layouter {
public:
    using layouter::layouter;

protected:
    // Every value for which `may` holds, and then those back that a node does not take.
    template <class May>
    GRAFT_COLD void make_narrow(decltype(&cpu::choose_kernel) choose, const May& may) {
        narrow_.assign(g.values.size(), 0);
        for (std::size_t i = 0; i < g.values.size(); ++i)
            if (may(static_cast<value_id>(i))) set_narrow(static_cast<value_id>(i), true);
        for (std::size_t i = 0; i < g.nodes.size(); ++i) open_.push_back(static_cast<int>(i));
        while (!open_.empty()) {
            const node& n = g.nodes[static_cast<std::size_t>(open_.back())];
            open_.pop_back();
            if (here(n) && any_narrow(n) && !fits(n, choose)) widen(n, choose);
        }
    }

private:
    GRAFT_COLD void set_narrow(value_id id, bool narrow) {
        narrow_[id] = static_cast<char>(narrow);
        at(id).type = narrow ? dtype::bfloat16 : dtype::float32;
        if (at(id).layout == layout::blocked) at(id).layout = narrow ? layout(layout::blocked, cpu::bfloat16_block) : blocks_;
    }
    bool is_narrow(value_id id) const { return id != no_value && narrow_[id]; }
    GRAFT_COLD bool any_narrow(const node& n) const {
        for (const std::vector<value_id>* ids : {&n.inputs, &n.outputs})
            for (value_id id : *ids)
                if (is_narrow(id)) return true;
        return false;
    }
    // What only gives a value another shape has no kernel.
    GRAFT_COLD bool fits(const node& n, decltype(&cpu::choose_kernel) choose) {
        return row(n).is(op_flag::view) ? at(n.inputs[0]).type == at(n.outputs[0]).type : takes(n, choose);
    }
    GRAFT_COLD void widen(const node& n, decltype(&cpu::choose_kernel) choose) {
        // Convolutions and products may read another type than they write.
        const bool apart = is(n, "Conv", "graft") || is(n, "MatMul", "graft");
        for (int sides = apart ? written : read | written;; ++sides) {
            const std::vector<value_id> gone = back(n, sides);
            if (sides == (read | written) || takes(n, choose)) return look_at(gone);
            for (value_id id : gone) set_narrow(id, true);
        }
    }
    // Makes what a node has narrow on some sides floats. What it adds goes with what it writes.
    GRAFT_COLD std::vector<value_id> back(const node& n, int sides) {
        std::vector<value_id> gone;
        const auto widen = [&](value_id id) {
            if (is_narrow(id)) set_narrow(id, false), gone.push_back(id);
        };
        for (std::size_t i = 0; i < n.inputs.size(); ++i)
            if (sides & (i == 3 ? written : read)) widen(n.inputs[i]);
        for (std::size_t i = 0; i < n.outputs.size(); ++i)
            if (sides & written) widen(n.outputs[i]);
        return gone;
    }
    // A value that has changed is looked at from both sides again.
    GRAFT_COLD void look_at(const std::vector<value_id>& changed) {
        for (value_id id : changed) {
            open_.push_back(position(id));
            const std::vector<int>& reading = readers(id);
            open_.insert(open_.end(), reading.begin(), reading.end());
        }
    }

    static constexpr int written = 1, read = 2;
    std::vector<char> narrow_;  // by value
    std::vector<int> open_;     // nodes to be looked at
};

}  // namespace detail
GRAFT_END_NAMESPACE
