// Where what was kept in bfloat16 is written and read: by the kernels that have it at hand, or by conversions.
#pragma once

#include "../ops/training/ops.hpp"
#include "become_training.hpp"
#include "narrow_values.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Places the conversions that activation_saver has put in. One whose floats nobody reads is left out with all that is not read.
class kept_layouter : public narrow_values {
public:
    using narrow_values::narrow_values;

protected:
    bool reads_kept(const node& n) const {
        for (const char* op : {"ReluGrad", "ClipGrad", "ActivationGrad", "BatchNormalizationGrad", "SoftmaxGrad", "LayerNormalizationGrad",
                               "LayerNormalizationGradScale", "ConvGradWeight", "MatMulGradWeight", "AttentionGrad"})
            if (is(n, op, "graft")) return true;
        return false;
    }
    void read_kept(node& n) {
        const std::vector<value_id> before = n.inputs;
        bool any = false;
        for (value_id& id : n.inputs)
            if (const value_id narrow = kept(id); narrow != no_value) id = narrow, any = true;
        if (any && !takes(n, cpu::choose_training_kernel)) n.inputs = before;
    }
    // What a value was widened from; none where it was not.
    value_id kept(value_id id) const { return id == no_value || static_cast<std::size_t>(id) >= kept_.size() ? no_value : kept_[id]; }

    // Normalisations and activations write what they read and what they make in bfloat16 as well, while they have it at hand.
    status place_narrow(node& n) {
        at(n.outputs[0]).layout = at(n.inputs[0]).layout;
        const node& before = g.nodes.back();
        const bool normalizes = is(before, "BatchNormalizationTraining", "graft");
        const bool writes = normalizes || is(before, "Activation", "graft") || is(before, "ActivationTraining", "graft");
        if (writes && (n.inputs[0] == before.inputs[0] || n.inputs[0] == before.outputs[0])) {
            node by = before;
            if (!normalizes) become_training(by, "ActivationTraining", on_);
            const std::size_t first = normalizes ? 5 : 1;  // of the two outputs, of what it reads and of what it makes
            by.outputs.resize(first + 2, no_value);
            by.outputs[first + (n.inputs[0] == by.outputs[0])] = n.outputs[0];
            if (takes(by, cpu::choose_training_kernel)) {
                g.nodes.back() = std::move(by);
                return {};
            }
        }
        g.nodes.push_back(std::move(n));
        return {};
    }
    status place_widen(node& n) {
        kept_.resize(g.values.size(), no_value);
        kept_[n.outputs[0]] = n.inputs[0];
        return place_as_input(n);
    }
    status place_as_input(node& n) {
        at(n.outputs[0]).layout = at(n.inputs[0]).layout;
        g.nodes.push_back(std::move(n));
        return {};
    }
    // What is another shape of a widened value was kept in that shape.
    bool is_kept_view(const node& n) { return row(n).is(op_flag::view) && kept(n.inputs[0]) != no_value && !blocked(n.inputs[0]); }
    status place_kept_view(node& n) {
        const value_id wide = n.outputs[0], narrow = like(wide, "_bfloat16");
        at(narrow).type = dtype::bfloat16;
        node widen = training_node(g, "Widen", on_, narrow, wide);
        n.inputs[0] = kept(n.inputs[0]);
        n.outputs[0] = narrow;
        GRAFT_TRY(layouter::place_node(n));
        return place_widen(widen);
    }

private:
    std::vector<value_id> kept_;  // of each value what it was widened from
};

}  // namespace detail
GRAFT_END_NAMESPACE
