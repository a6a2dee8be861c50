// Where what was kept in bfloat16 is written and read: by the kernels that have it at hand, or by conversions.
#pragma once

#include "../ops/training/ops.hpp"
#include "become_training.hpp"
#include "layout.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Places the conversions that activation_saver has put in. One whose floats nobody reads is left out with all that is not read.
class kept_layouter : public layouter {
public:
    using layouter::layouter;

protected:
    bool reads_kept(const node& n) const {
        for (const char* op : {"ReluGrad", "ClipGrad", "ActivationGrad", "BatchNormalizationGrad", "SoftmaxGrad", "LayerNormalizationGrad",
                               "LayerNormalizationGradScale", "ConvGradWeight", "MatMulGradWeight"})
            if (is(n, op, "graft")) return true;
        return false;
    }
    void read_kept(node& n) {
        const std::vector<value_id> before = n.inputs;
        bool any = false;
        for (value_id& id : n.inputs)
            if (const value_id narrow = kept(id); narrow != no_value) id = narrow, any = true;
        if (any && !takes(n)) n.inputs = before;
    }
    // What a value was widened from; none where it was not.
    value_id kept(value_id id) const { return id == no_value || static_cast<std::size_t>(id) >= kept_.size() ? no_value : kept_[id]; }
    // Whether there is a kernel for the node as it is.
    bool takes(const node& n) {
        std::vector<tensor_view> in, out;
        std::vector<layout> in_layout, out_layout;
        const auto add = [&](value_id id, std::vector<tensor_view>& views, std::vector<layout>& lie) {
            views.push_back(id == no_value ? tensor_view{} : view_at_hand(at(id)));
            lie.push_back(id == no_value ? layout() : at(id).layout);
        };
        for (value_id id : n.inputs) add(id, in, in_layout);
        for (value_id id : n.outputs) add(id, out, out_layout);
        const cpu::kernel_query query{{n, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), with_.limit},
                                      in_layout.data(),
                                      out_layout.data(),
                                      level_,
                                      with_.exact};
        cpu::kernel_choice choice;
        const char* refusal = nullptr;
        return cpu::choose_training_kernel(query, choice, refusal) != nullptr;
    }

    // Normalisations and activations write what they read and what they make in bfloat16 as well, while they have it at hand.
    status place_narrow(node& n) {
        at(n.outputs[0]).layout = at(n.inputs[0]).layout;
        node by = g.nodes.back();
        if (is(by, "Activation", "graft")) become_training(by, "ActivationTraining", on_);
        const bool normalizes = is(by, "BatchNormalizationTraining", "graft");
        if (normalizes || is(by, "ActivationTraining", "graft")) {
            const bool reads = n.inputs[0] == by.inputs[0], makes = n.inputs[0] == by.outputs[0];
            const std::size_t first = normalizes ? 5 : 1;  // of the two outputs
            by.outputs.resize(first + 2, no_value);
            by.outputs[first + makes] = n.outputs[0];
            if ((reads || makes) && takes(by)) {
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
        node widen;
        widen.name = at(wide).name;
        become_training(widen, "Widen", on_);
        widen.inputs = {narrow};
        widen.outputs = {wide};
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
