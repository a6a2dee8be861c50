// Matrices of a training step that stay in bfloat16 between products that round what they read.
#pragma once

#include "training_layout.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What a product makes for an activation function, what that makes for the next product, and the gradients of both on their way back: rounded once, where they
// are made, they are half as many bytes. What is added to the stream of a network, or normalised, stays in float32, as weights and their gradients do.
class narrow_step_layouter final : public training_layouter {
public:
    using training_layouter::training_layouter;

    status run() {
        GRAFT_TRY(layouter::run());
        if (!bfloat16_) return {};
        for (node& n : g.nodes)
            if (is(n, "ActivationTraining", "graft"))
                read_what_is_kept(n);
            else if (is(n, "ActivationGrad", "graft"))
                make_again(n);
            else if (is(n, "Narrow", "graft"))
                read_narrow(n);
        finish();
        make_narrow(cpu::choose_training_kernel, [&](value_id id) { return may_be_narrow(id); });
        return {};
    }

private:
    // An activation function that writes what it reads in bfloat16 as well reads it so, where the product before it can write that.
    void read_what_is_kept(node& n) {
        const value_id x = n.inputs[0], y = n.outputs[0], kept = n.outputs[1];
        node* const made = maker(x);
        if (kept == no_value || (n.outputs.size() > 2 && n.outputs[2] != no_value) || !used_once(x) || !made || !is(*made, "MatMul", "graft")) return;
        node product = *made, again = n;
        product.outputs[0] = kept;
        become_training(again, "ActivationAgain", on_);
        again.inputs = {kept}, again.outputs = {y};
        if (!takes(product, cpu::choose_training_kernel) || !takes(again, cpu::choose_training_kernel)) return;
        edit({made, &n}, [&] { *made = std::move(product), n = std::move(again); });
    }
    // What is rounded to be kept is read so by those that round it, and made so where nobody else reads it.
    void read_narrow(node& n) {
        const value_id wide = n.inputs[0], narrow = n.outputs[0];
        const std::vector<int> all = readers(wide);
        for (int i : all) {
            node& reader = g.nodes[static_cast<std::size_t>(i)];
            const bool rounds = is(reader, "AttentionTraining", "graft") || (is(reader, "MatMul", "graft") && only_first(reader, wide));
            if (i < position(narrow) || !rounds) continue;
            node by = reader;
            std::replace(by.inputs.begin(), by.inputs.end(), wide, narrow);
            if (takes(by, cpu::choose_training_kernel)) edit(reader, [&] { reader = std::move(by); });
        }
        node* const made = maker(wide);
        if (!made || !used_once(wide) || is_output(wide)) return;
        node by = *made;
        std::replace(by.outputs.begin(), by.outputs.end(), wide, narrow);
        if (!(is(by, "MatMul", "graft") || is(by, "AttentionTraining", "graft")) || !takes(by, cpu::choose_training_kernel)) return;
        drop(n);
        edit(*made, [&] { *made = std::move(by); });
    }
    // What a function made of its kept input is made again beside its gradient, which shares most of the work: where that one was wanted first, or here.
    void make_again(node& n) {
        const value_id kept = n.inputs[1];
        const std::vector<int> all = readers(kept);
        for (int i : all) {
            node& again = g.nodes[static_cast<std::size_t>(i)];
            if (!is(again, "ActivationAgain", "graft")) continue;
            const epilogue a = cpu::epilogue_of(n), b = cpu::epilogue_of(again);
            if (a.act != b.act || a.alpha != b.alpha || a.beta != b.beta) continue;
            const std::vector<int>& reading = readers(again.outputs[0]);
            const bool there = position(n.inputs[0]) < i;
            if (!there && (reading.empty() || reading[0] < position(n.outputs[0]))) continue;
            node both = n;
            become_training(both, "ActivationGradAgain", on_);
            both.outputs.push_back(again.outputs[0]);
            if (!takes(both, cpu::choose_training_kernel)) continue;
            drop(n);
            drop(again);
            put(there ? again : n, std::move(both));
            return;
        }
    }
    bool may_be_narrow(value_id id) {
        const node* made = maker(id);
        const value& v = at(id);
        if (!made || !is_float32(id) || v.layout != layout::row_major || !v.has_shape || v.extents.rank() < 2 || is_output(id)) return false;
        const bool of_function = is(*made, "ActivationAgain", "graft") || is_gradient(*made);
        const bool of_attention = is(*made, "AttentionGrad", "graft") && made->outputs.size() == 1;
        if (!is_view(*made) && !is(*made, "MatMul", "graft") && !of_function && !of_attention) return false;
        const std::vector<int>& reading = readers(id);
        for (int i : reading) {
            const node& n = g.nodes[static_cast<std::size_t>(i)];
            const bool rounds = is(n, "MatMul", "graft") || is_gradient(n);
            if (!(rounds && only_first(n, id)) && !is_view(n) && !is(n, "MatMulGradWeight", "graft") && !is(n, "SumTo", "graft")) return false;
        }
        return !reading.empty();
    }
    static bool only_first(const node& n, value_id id) { return n.inputs[0] == id && std::count(n.inputs.begin(), n.inputs.end(), id) == 1; }
    bool is_gradient(const node& n) { return is(n, "ActivationGrad", "graft") || is(n, "ActivationGradAgain", "graft"); }
    bool is_view(const node& n) { return row(n).is(op_flag::view); }
};

}  // namespace detail
GRAFT_END_NAMESPACE
