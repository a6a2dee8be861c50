// Fusion for training on the CPU: what the backward part can compute while it has the numbers at hand anyway, and what it can do without.
#pragma once

#include "become_training.hpp"
#include "../../lower/rewriter.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class training_fuser : public rewriter {
public:
    training_fuser(graph& target, place_id on) : rewriter(target, on) {}

    void run() {
        static constexpr rewrite<training_fuser> pooled_masks[] = {{"ReluGrad", "graft", &training_fuser::mask_pooled},
                                                                   {"ClipGrad", "graft", &training_fuser::mask_pooled}};
        static constexpr rewrite<training_fuser> places[] = {{"MaxPoolGrad", "graft", &training_fuser::keep_places}};
        static constexpr rewrite<training_fuser> masks[] = {{"BatchNormalizationGrad", "graft", &training_fuser::mask_normalised}};
        static constexpr rewrite<training_fuser> joined_masks[] = {{"Concat", "", &training_fuser::join_masks}};
        static constexpr rewrite<training_fuser> biases[] = {{"SumTo", "graft", &training_fuser::sum_bias}};
        static constexpr rewrite<training_fuser> turned[] = {{"Transpose", "", &training_fuser::sum_turned}, {"Sum", "graft", &training_fuser::join_slices}};
        sweep(*this, pooled_masks);
        sweep(*this, places);
        sweep(*this, masks);
        sweep(*this, joined_masks);
        sweep(*this, biases);
        sweep(*this, turned);
    }

private:
    bool is_mask(const node& n) const { return is(n, "ReluGrad", "graft") || is(n, "ClipGrad", "graft"); }

    // An activation before max pooling lets a window's gradient through where it lets the window's largest through: one number a window
    // to look at instead of all its pixels, and these need not be kept.
    void mask_pooled(node& n) {
        if (!used_once(n.inputs[0])) return;
        node* pool = maker(n.inputs[0]);
        if (!pool || !is(*pool, "MaxPoolGrad", "graft") || pool->inputs[1] != n.inputs[1]) return;
        const value_id pooled = pool->inputs[2], masked = like(pooled, "_masked");
        edit({&n, pool}, [&] {
            node gradient = *pool;
            gradient.outputs = n.outputs;
            *pool = n;
            pool->inputs = {gradient.inputs[0], pooled};
            pool->outputs = {masked};
            gradient.inputs[0] = masked;
            n = std::move(gradient);
        });
    }
    // Max pooling keeps where the largest pixels are, a byte each, so that nobody has to keep the pixels.
    void keep_places(node& n) {
        if (!fits_places(n)) return;
        const value_id x = n.inputs[1], y = n.inputs[2], kept = like(y, "_places");
        at(kept).type = dtype::uint8;
        node forward;
        forward.name = at(kept).name;
        forward.attributes = n.attributes;
        forward.inputs = {x};
        become_training(forward, "MaxPoolPlaces", on_);
        edit(n, [&] {
            n.inputs = {n.inputs[0], kept};
            become_training(n, "MaxPoolGradPlaces", on_);
        });
        node* before = maker(y);
        if (before && is(*before, "MaxPool") && before->inputs[0] == x) {
            forward.outputs = {kept, y};
            edit(*before, [&] { *before = std::move(forward); });
        } else {
            forward.outputs = {kept};  // what is pooled was computed again
            insert_before(n, std::move(forward));
        }
    }
    bool fits_places(const node& n) {
        const attribute* kernel = n.find("kernel_shape");
        const std::vector<std::int64_t> none, &k = kernel ? kernel->integers : none;
        return is_float32(n.inputs[1]) && at(n.inputs[1]).extents.rank() == 4 && at(n.inputs[1]).extents.elements() > 0 &&
               at(n.inputs[2]).extents.elements() > 0 && k.size() == 2 && k[0] <= 256 && k[1] <= 256 && k[0] * k[1] <= 256;
    }

    // The masks of all parts of a gradient are one mask of the whole, where the parts were joined: only what they were joined to is kept.
    void join_masks(node& join) {
        node* split = nullptr;
        std::vector<node*> masks;
        for (std::size_t i = 0; i < join.inputs.size(); ++i) {
            node* mask = mask_of_part(join.inputs[i]);
            if (!mask) return;
            node* from = maker(mask->inputs[0]);
            if ((split && from != split) || from->outputs.size() != join.inputs.size() || from->outputs[i] != mask->inputs[0] || !used_once(from->outputs[i]))
                return;
            split = from;
            masks.push_back(mask);
            if (mask->op_type != masks[0]->op_type || real(*mask, "min", 0) != real(*masks[0], "min", 0) || real(*mask, "max", 0) != real(*masks[0], "max", 0))
                return;
        }
        const int rank = at(join.outputs[0]).extents.rank();
        const auto axis = [&](const node& n) {
            const std::int64_t given = integer(n, "axis", 0);
            return given < 0 ? given + rank : given;
        };
        if (!split || axis(join) != axis(*split) || at(split->inputs[0]).extents != at(join.outputs[0]).extents) return;
        // The mask of the whole takes the split's place, and the split that of the first mask.
        node whole = *masks[0], parts = *split;
        whole.inputs = {split->inputs[0], join.outputs[0]};
        whole.outputs = {like(split->inputs[0], "_masked")};
        parts.inputs[0] = whole.outputs[0];
        for (std::size_t i = 0; i < masks.size(); ++i) parts.outputs[i] = masks[i]->outputs[0];
        node* first = *std::min_element(masks.begin(), masks.end());
        for (node* mask : masks) drop(*mask);
        drop(*split);
        put(*first, std::move(parts));
        put(*split, std::move(whole));
    }
    // What masks a part of a split gradient by the value.
    node* mask_of_part(value_id by) {
        for (int i : readers(by)) {
            node& n = g.nodes[static_cast<std::size_t>(i)];
            if (is_mask(n) && n.inputs[1] == by && maker(n.inputs[0]) && is(*maker(n.inputs[0]), "Split")) return &n;
        }
        return nullptr;
    }

    // The gradient of an activation that follows a normalisation is masked by the normalisation's gradient as it reads it.
    void mask_normalised(node& n) {
        if (n.inputs.size() > 5 || n.find("activation")) return;
        node* m = maker(n.inputs[0]);
        if (!m || !is_mask(*m)) return;
        const bool relu = is(*m, "ReluGrad", "graft");
        // Others who read the masked gradient (a residual's other branch) get it from here, so they have to come later.
        const value_id masked = n.inputs[0];
        if (&g.nodes[static_cast<std::size_t>(readers(masked).front())] != &n) return;
        const bool others = !used_once(masked);
        edit({&n, m}, [&] {
            n.inputs[0] = m->inputs[0];
            n.inputs.resize(6, no_value);
            n.inputs[5] = m->inputs[1];
            m->outputs[0] = no_value;
            if (others) n.outputs.resize(4, no_value), n.outputs[3] = masked;
        });
        set(n, "activation", static_cast<std::int64_t>(relu ? activation::relu : activation::clip));
        set(n, "alpha", relu ? 0.0f : real(*m, "min", 0));
        set(n, "beta", relu ? 0.0f : real(*m, "max", 0));
        drop(*m);
    }
    // The gradient of a convolution's bias is summed where that of its weights reads the same numbers.
    void sum_bias(node& n) {
        if (!is_float32(n.inputs[0])) return;
        const shape &dy = at(n.inputs[0]).extents, &to = at(n.outputs[0]).extents;
        if (dy.rank() != 4 || to.elements() != dy[1] || (to.rank() != 3 && to.rank() != 4) || to[to.rank() - 3] != dy[1]) return;
        // One that comes later would make the sum too late for whoever reads it.
        for (int i : readers(n.inputs[0])) {
            node& w = g.nodes[static_cast<std::size_t>(i)];
            if (&w == &n) break;
            if (!is(w, "ConvGradWeight", "graft") || w.inputs[1] != n.inputs[0] || w.outputs.size() > 1) continue;
            const attribute* of = w.find("shape");
            if (!of || of->integers.size() != 4 || integer(w, "shards", 0) != integer(n, "shards", 0)) continue;
            const value_id sum = n.outputs[0];
            drop(n);
            edit(w, [&] { w.outputs.push_back(sum); });
            break;
        }
    }
    // The gradient of a weight that a product read turned is summed as the weight lies.
    void sum_turned(node& n) {
        node* sum = used_once(n.inputs[0]) ? maker(n.inputs[0]) : nullptr;
        if (!sum || !is(*sum, "MatMulGradWeight", "graft") || !turns_matrix(n)) return;
        set(*sum, "transposed", std::int64_t(integer(*sum, "transposed", 0) == 0));
        replace(n, *sum);
    }
    // Gradients of two slices that are all of a value lie one behind the other: nothing is added but zeros.
    void join_slices(node& n) {
        if (n.inputs.size() != 2 || n.find("activation") || n.inputs[0] == n.inputs[1]) return;
        node* parts[2];
        std::int64_t starts[2], axis = 0;
        for (int i = 0; i < 2; ++i) {
            const value_id part = n.inputs[static_cast<std::size_t>(i)];
            parts[i] = used_once(part) ? maker(part) : nullptr;
            if (!parts[i] || !is(*parts[i], "SliceGrad", "graft")) return;
            const attribute *axes = parts[i]->find("axes"), *steps = parts[i]->find("steps"), *from = parts[i]->find("starts");
            if (axes->integers.size() != 1 || steps->integers[0] != 1 || (i && axes->integers[0] != axis)) return;
            axis = axes->integers[0], starts[i] = from->integers[0];
        }
        const int first = starts[0] == 0 ? 0 : 1, d = static_cast<int>(axis);
        const auto extent = [&](int i) { return at(parts[i]->inputs[0]).extents[d]; };
        if (starts[first] != 0 || starts[1 - first] != extent(first) || extent(0) + extent(1) != at(n.outputs[0]).extents[d]) return;
        edit(n, [&] {
            become(n, "Concat", "");
            n.inputs = {parts[first]->inputs[0], parts[1 - first]->inputs[0]};
            n.attributes = {integer_attribute("axis", axis)};
        });
        drop(*parts[0]);
        drop(*parts[1]);
    }
};

}  // namespace detail
GRAFT_END_NAMESPACE
