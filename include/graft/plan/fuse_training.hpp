// Fusion for training on the CPU: what the backward part can compute while it has the numbers at hand anyway, and what it can do without.
#pragma once

#include "become_training.hpp"
#include "rewrite.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class training_fuser : public rewriter {
public:
    explicit training_fuser(graph& target) : rewriter(target) {}

    void run() {
        pooled_masks();
        places();
        masks();
        joined_masks();
        biases();
    }

private:
    static bool is_mask(const node& n) { return is(n, "ReluGrad", "graft") || is(n, "ClipGrad", "graft"); }

    // An activation before max pooling lets a window's gradient through where it lets the window's largest through: one number a window
    // to look at instead of all its pixels, and these need not be kept.
    void pooled_masks() {
        for (node& n : g.nodes) {
            if (!is_mask(n) || !used_once(n.inputs[0])) continue;
            node* pool = maker(n.inputs[0]);
            if (!pool || !is(*pool, "MaxPoolGrad", "graft") || pool->inputs[1] != n.inputs[1]) continue;
            const value_id pooled = pool->inputs[2], masked = like(pooled, "_masked");
            node gradient = *pool;
            gradient.outputs = n.outputs;
            *pool = n;
            pool->inputs = {gradient.inputs[0], pooled};
            pool->outputs = {masked};
            gradient.inputs[0] = masked;
            n = std::move(gradient);
            index();
        }
    }
    // Max pooling keeps where the largest pixels are, a byte each, so that nobody has to keep the pixels.
    void places() {
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            if (!is(g.nodes[i], "MaxPoolGrad", "graft") || !fits_places(g.nodes[i])) continue;
            const value_id x = g.nodes[i].inputs[1], y = g.nodes[i].inputs[2], kept = like(y, "_places");
            at(kept).type = dtype::uint8;
            node forward;
            forward.name = at(kept).name;
            forward.attributes = g.nodes[i].attributes;
            forward.inputs = {x};
            become_training(forward, "MaxPoolPlaces");
            node& gradient = g.nodes[i];
            gradient.inputs = {gradient.inputs[0], kept};
            become_training(gradient, "MaxPoolGradPlaces");
            const int before = position(y);
            if (before >= 0 && is(g.nodes[static_cast<std::size_t>(before)], "MaxPool") && g.nodes[static_cast<std::size_t>(before)].inputs[0] == x) {
                forward.outputs = {kept, y};
                g.nodes[static_cast<std::size_t>(before)] = std::move(forward);
            } else {
                forward.outputs = {kept};  // what is pooled was computed again
                g.nodes.insert(g.nodes.begin() + static_cast<std::ptrdiff_t>(i++), std::move(forward));
            }
            index();
        }
    }
    bool fits_places(const node& n) {
        const attribute* kernel = n.find("kernel_shape");
        const std::vector<std::int64_t> none, &k = kernel ? kernel->integers : none;
        return is_float32(n.inputs[1]) && at(n.inputs[1]).extents.rank() == 4 && at(n.inputs[1]).extents.elements() > 0 && at(n.inputs[2]).extents.elements() > 0 &&
               k.size() == 2 && k[0] <= 256 && k[1] <= 256 && k[0] * k[1] <= 256;
    }

    // The masks of all parts of a gradient are one mask of the whole, where the parts were joined: only what they were joined to is kept.
    void joined_masks() {
        for (std::size_t i = 0; i < g.nodes.size(); ++i)
            if (is(g.nodes[i], "Concat")) join_masks(g.nodes[i]);
        finish();
    }
    void join_masks(node& join) {
        node* split = nullptr;
        std::vector<node*> masks;
        for (std::size_t i = 0; i < join.inputs.size(); ++i) {
            node* mask = mask_of_part(join.inputs[i]);
            if (!mask) return;
            node* from = maker(mask->inputs[0]);
            if ((split && from != split) || from->outputs.size() != join.inputs.size() || from->outputs[i] != mask->inputs[0] || !used_once(from->outputs[i])) return;
            split = from;
            masks.push_back(mask);
            if (mask->op_type != masks[0]->op_type || real(*mask, "min", 0) != real(*masks[0], "min", 0) || real(*mask, "max", 0) != real(*masks[0], "max", 0)) return;
        }
        const int rank = at(join.outputs[0]).extents.rank();
        const auto axis = [&](const node& n) {
            const std::int64_t given = integer(n, "axis", 0);
            return given < 0 ? given + rank : given;
        };
        if (!split || axis(join) != axis(*split) || at(split->inputs[0]).extents != at(join.outputs[0]).extents) return;
        // The mask of the whole takes the split's place, and the split that of the first mask.
        node whole = *masks[0];
        whole.inputs = {split->inputs[0], join.outputs[0]};
        whole.outputs = {like(split->inputs[0], "_masked")};
        split->inputs[0] = whole.outputs[0];
        for (std::size_t i = 0; i < masks.size(); ++i) split->outputs[i] = masks[i]->outputs[0];
        node* first = *std::min_element(masks.begin(), masks.end());
        for (node* mask : masks) drop(*mask);
        *first = std::move(*split);
        *split = std::move(whole);
        index();
    }
    // What masks a part of a split gradient by the value.
    node* mask_of_part(value_id by) {
        for (node& n : g.nodes)
            if (is_mask(n) && n.inputs[1] == by && maker(n.inputs[0]) && is(*maker(n.inputs[0]), "Split")) return &n;
        return nullptr;
    }

    // The gradient of an activation that follows a normalisation is masked by the normalisation's gradient as it reads it.
    void masks() {
        for (node& n : g.nodes) {
            if (!is(n, "BatchNormalizationGrad", "graft") || n.inputs.size() > 5 || n.find("activation")) continue;
            node* m = maker(n.inputs[0]);
            if (!m || !is_mask(*m)) continue;
            const bool relu = is(*m, "ReluGrad", "graft");
            // Others who read the masked gradient (a residual's other branch) get it from here, so they have to come later.
            if (first_reader(n.inputs[0]) != &n) continue;
            const value_id masked = n.inputs[0];
            n.inputs[0] = m->inputs[0];
            n.inputs.resize(6, no_value);
            n.inputs[5] = m->inputs[1];
            set(n, "activation", static_cast<std::int64_t>(relu ? activation::relu : activation::clip));
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
            // One that comes later would make the sum too late for whoever reads it.
            for (node& w : g.nodes) {
                if (&w == &n) break;
                if (!is(w, "ConvGradWeight", "graft") || w.inputs[1] != n.inputs[0] || w.outputs.size() > 1) continue;
                const attribute* of = w.find("shape");
                if (!of || of->integers.size() != 4 || integer(w, "shards", 0) != integer(n, "shards", 0)) continue;
                w.outputs.push_back(n.outputs[0]);
                drop(n);
                break;
            }
        }
        finish();
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
