// Fusion for training on the CPU: what the backward part can compute while it has the numbers at hand anyway.
#pragma once

#include "rewrite.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

class training_fuser : public rewriter {
public:
    explicit training_fuser(graph& target) : rewriter(target) {}

    void run() {
        masks();
        biases();
    }

private:
    // The gradient of an activation that follows a normalisation is masked by the normalisation's gradient as it reads it.
    void masks() {
        for (node& n : g.nodes) {
            if (!is(n, "BatchNormalizationGrad", "graft") || n.inputs.size() > 5 || n.find("activation")) continue;
            node* m = maker(n.inputs[0]);
            if (!m) continue;
            const bool relu = is(*m, "ReluGrad", "graft"), clip = is(*m, "ClipGrad", "graft");
            if (!relu && !clip) continue;
            // Others who read the masked gradient (a residual's other branch) get it from here, so they have to come later.
            if (first_reader(n.inputs[0]) != &n) continue;
            const value_id masked = n.inputs[0];
            n.inputs[0] = m->inputs[0];
            n.inputs.resize(6, no_value);
            n.inputs[5] = m->inputs[1];
            set(n, "activation", static_cast<std::int64_t>(relu ? cpu::activation::relu : cpu::activation::clip));
            set(n, "alpha", relu ? 0.0f : real(*m, "min", 0));
            set(n, "beta", relu ? 0.0f : real(*m, "max", 0));
            if (!used_once(masked)) {
                n.outputs.resize(4, no_value);
                n.outputs[3] = masked;
            }
            drop(*m);
            index();
        }
        finish();
    }
    // The gradient of a convolution's bias is summed where that of its weights reads the same numbers.
    void biases() {
        for (node& n : g.nodes) {
            if (!is(n, "SumTo", "graft") || !is_float32(n.inputs[0])) continue;
            const shape &dy = at(n.inputs[0]).extents, &to = at(n.outputs[0]).extents;
            if (dy.rank() != 4 || to.elements() != dy[1] || (to.rank() != 3 && to.rank() != 4) || to[to.rank() - 3] != dy[1]) continue;
            for (node& w : g.nodes) {
                if (!is(w, "ConvGradWeight", "graft") || w.inputs[1] != n.inputs[0] || w.outputs.size() > 1) continue;
                const attribute* of = w.find("shape");
                if (!of || of->integers.size() != 4 || integer(w, "shards", 0) != integer(n, "shards", 0)) continue;
                w.outputs.push_back(n.outputs[0]);
                drop(n);
                break;
            }
        }
        finish();
        // What reads the sum may stand before what makes it now.
        std::vector<node> waiting = std::move(g.nodes);
        g.nodes.clear();
        order(waiting);
        index();
    }

    // Nodes in the order in which they were, each behind those that make its inputs.
    void order(std::vector<node>& nodes) {
        std::vector<int> made_by(g.values.size(), -1);
        for (std::size_t i = 0; i < nodes.size(); ++i)
            for (value_id id : nodes[i].outputs)
                if (id != no_value) made_by[static_cast<std::size_t>(id)] = static_cast<int>(i);
        std::vector<char> placed(nodes.size(), 0);
        std::vector<std::pair<std::size_t, std::size_t>> stack;  // a node, and which of its inputs is next
        std::vector<value_id> ids;
        for (std::size_t first = 0; first < nodes.size(); ++first) {
            if (!placed[first]) stack.emplace_back(first, 0);
            while (!stack.empty()) {
                const std::size_t i = stack.back().first;
                ids = nodes[i].inputs;
                append_captures(nodes[i], ids);
                bool waits = false;
                while (!waits && stack.back().second < ids.size()) {
                    const value_id id = ids[stack.back().second++];
                    const int maker = id == no_value ? -1 : made_by[static_cast<std::size_t>(id)];
                    if (maker >= 0 && !placed[static_cast<std::size_t>(maker)]) stack.emplace_back(static_cast<std::size_t>(maker), 0), waits = true;
                }
                if (waits) continue;
                stack.pop_back();
                if (placed[i]) continue;
                placed[i] = 1;
                g.nodes.push_back(std::move(nodes[i]));
            }
        }
    }

    // The first node in the order that reads the value.
    const node* first_reader(value_id id) const {
        for (const node& n : g.nodes) {
            if (n.op_type.empty()) continue;
            for (value_id i : n.inputs)
                if (i == id) return &n;
        }
        return nullptr;
    }
};

}  // namespace detail
GRAFT_END_NAMESPACE
