// Images and matrices that stay in bfloat16 from one convolution or product to the next.
#pragma once

#include "layout.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Where tiles multiply, a convolution rounds what it reads; what is rounded once where it is made is half as many bytes, and lies as tiles read it. All images
// in blocks are made narrow at first, and all row-major values that products alone read; those go back to floats whose nodes have no kernel for them.
class narrow_layouter : public layouter {
public:
    using layouter::layouter;

    GRAFT_COLD status run() {
        GRAFT_TRY(layouter::run());
        for (node& n : g.nodes)
            if (here(n) && is(n, "MatMul", "graft") && !n.find("packed") && multiplies_tiles(n)) set(n, "bfloat16", std::int64_t(1));
        narrow_.assign(g.values.size(), 0);
        for (std::size_t i = 0; i < g.values.size(); ++i)
            if (may_be_narrow(static_cast<value_id>(i))) set_narrow(static_cast<value_id>(i), true);
        // A value that goes back is looked at from both sides again.
        for (std::size_t i = 0; i < g.nodes.size(); ++i) open_.push_back(static_cast<int>(i));
        while (!open_.empty()) {
            const node& n = g.nodes[static_cast<std::size_t>(open_.back())];
            open_.pop_back();
            if (here(n) && any_narrow(n) && !takes(n, cpu::choose_kernel)) widen(n);
        }
        return {};
    }

private:
    // Whether a product of two matrices that are made at every run is worth packing one of them.
    GRAFT_COLD bool multiplies_tiles(const node& n) {
        cpu::gemm_problem p;
        if (!cpu::gemm_problem_of(n, at(n.inputs[0]).extents, at(n.inputs[1]).extents, at(n.outputs[0]).extents, p)) return false;
        return cpu::takes_bfloat16_batch(p);
    }
    GRAFT_COLD bool may_be_narrow(value_id id) {
        const node* made = maker(id);
        const shape& s = at(id).extents;
        if (!made || !here(*made) || !is_float32(id)) return false;
        if (at(id).layout == blocks_) return s.rank() == 4 && s[2] * s[3] > 1;
        if (at(id).layout != layout::row_major || !(is(*made, "MatMul", "graft") || is(*made, "LayerNormalization"))) return false;
        const std::vector<int> reading = readers(id);
        for (int i : reading) {
            const node& n = g.nodes[static_cast<std::size_t>(i)];
            if (!is(n, "MatMul", "graft") || n.inputs[0] != id || std::count(n.inputs.begin(), n.inputs.end(), id) != 1) return false;
        }
        return !reading.empty() && !is_output(id);
    }
    void set_narrow(value_id id, bool narrow) {
        narrow_[id] = static_cast<char>(narrow);
        at(id).type = narrow ? dtype::bfloat16 : dtype::float32;
        if (at(id).layout == layout::blocked) at(id).layout = narrow ? layout(layout::blocked, cpu::bfloat16_block) : blocks_;
    }
    bool is_narrow(value_id id) const { return id != no_value && narrow_[id]; }
    bool any_narrow(const node& n) const {
        for (const std::vector<value_id>* ids : {&n.inputs, &n.outputs})
            for (value_id id : *ids)
                if (is_narrow(id)) return true;
        return false;
    }
    GRAFT_COLD void widen(const node& n) {
        const auto back = [&](value_id id) {
            if (!is_narrow(id)) return;
            set_narrow(id, false);
            open_.push_back(position(id));
            const std::vector<int>& reading = readers(id);
            open_.insert(open_.end(), reading.begin(), reading.end());
        };
        // These may read another type than they write.
        if ((is(n, "Conv", "graft") || is(n, "MatMul", "graft")) && (is_narrow(n.outputs[0]) || (n.inputs.size() > 3 && is_narrow(n.inputs[3])))) {
            if (n.inputs.size() > 3) back(n.inputs[3]);
            back(n.outputs[0]);
            if (!any_narrow(n) || takes(n, cpu::choose_kernel)) return;
        }
        for (value_id id : n.inputs) back(id);
        for (value_id id : n.outputs) back(id);
    }

    std::vector<char> narrow_;  // by value
    std::vector<int> open_;     // nodes to be looked at
};

}  // namespace detail
GRAFT_END_NAMESPACE
