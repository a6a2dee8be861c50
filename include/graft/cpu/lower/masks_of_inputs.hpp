// Masks of activations behind normalisations, made of what was normalised: one array less to read.
#pragma once

#include "../../lower/rewriter.hpp"
#include "../ops/training/norm.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The gradient of a normalisation reads its input anyway. Where nothing was added to it, what the forward pass has multiplied it by and added to it, two
// numbers a channel, makes what the activation saw of it again, to the same bits.
class masks_of_inputs : public rewriter {
public:
    masks_of_inputs(graph& target, place_id on) : rewriter(target, on) {}

    void run() {
        static constexpr rewrite<masks_of_inputs> rows[] = {{"BatchNormalizationGrad", "graft", &masks_of_inputs::remake}};
        sweep(*this, rows);
    }

private:
    GRAFT_COLD void remake(node& n) {
        if (!integer(n, "activation", 0) || n.inputs.size() != 6 || !is_float32(n.inputs[0])) return;
        node* const m = maker(n.inputs[5]);
        const auto bound = [](const node& of, const char* name) { return real(of, name, 0); };
        // Its kernel has to be the one that writes them.
        if (!m || !is(*m, "BatchNormalizationTraining", "graft") || m->inputs.size() != 5 || m->outputs.size() < 5 || m->outputs[3] != n.inputs[3]) return;
        if (m->outputs[0] != n.inputs[5] || m->inputs[0] != n.inputs[1] || integer(*m, "activation", 0) != integer(n, "activation", 0)) return;
        if (bound(*m, "alpha") != bound(n, "alpha") || bound(*m, "beta") != bound(n, "beta") || !at(n.inputs[0]).extents.elements()) return;
        const value_id applied = like(n.inputs[3], "_applied");
        at(applied).extents = shape{2, at(n.inputs[3]).extents[0]};
        edit({&n, m}, [&] {
            m->outputs.resize(cpu::applied_output + 1, no_value);
            m->outputs[cpu::applied_output] = applied;
            n.inputs.resize(cpu::applied_input + 1, no_value);
            n.inputs[5] = no_value;
            n.inputs[cpu::applied_input] = applied;
        });
    }
};

}  // namespace detail
GRAFT_END_NAMESPACE
