// Layout for training on the CPU: gradients stay in blocks of channels wherever the activations that they belong to do.
#pragma once

#include "../ops/training/ops.hpp"
#include "become_training.hpp"
#include "kept_layout.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

class training_layouter : public kept_layouter {
public:
    using kept_layouter::kept_layouter;

private:
    // A node of the backward part, and then what it reads of the forward part as that was kept, where its kernel does.
    inline status place_node(node& n) override {
        if (is_kept_view(n)) return place_kept_view(n);
        const bool may = reads_kept(n);
        GRAFT_TRY(place(n));
        if (may) read_kept(g.nodes.back());
        return {};
    }
    status place(node& n) {
        // Images among the inputs and the outputs, by bit; the others are vectors of a number a channel.
        static constexpr struct {
            const char* op;
            unsigned in, out;
        } images[] = {{"ReluGrad", 0b11, 0b1},
                      {"ClipGrad", 0b11, 0b1},
                      {"ActivationGrad", 0b11, 0b1},
                      {"BatchNormalizationTraining", 0b100001, 0b1},
                      {"BatchNormalizationGrad", 0b100011, 0b1001},
                      {"Dropout", 0b1, 0b11}};
        for (const auto& row : images)
            if (is(n, row.op, "graft")) return place_images(n, row.in, row.out);
        static constexpr struct {
            const char *op, *domain;
            status (training_layouter::*place)(node&);
        } others[] = {{"ConvGradWeight", "graft", &training_layouter::place_grad_weight},
                      {"ConvGradInput", "graft", &training_layouter::place_grad_input},
                      {"MaxPoolPlaces", "graft", &training_layouter::place_max_pool},
                      {"MaxPoolGradPlaces", "graft", &training_layouter::place_max_pool_grad},
                      {"AveragePoolGrad", "graft", &training_layouter::place_average_pool_grad},
                      {"SumTo", "graft", &training_layouter::place_sum},
                      {"Narrow", "graft", &training_layouter::place_narrow},
                      {"Widen", "graft", &training_layouter::place_widen},
                      {"ActivationAgain", "graft", &training_layouter::place_as_input}};
        for (const auto& row : others)
            if (is(n, row.op, row.domain)) return (this->*row.place)(n);
        if (bfloat16_) narrow_product(n);
        return layouter::place_node(n);
    }
    // Products by weights that learn, and those weights' gradients, in bfloat16 where that is faster.
    void narrow_product(node& n) {
        if (is(n, "MatMul", "graft")) {
            cpu::gemm_problem p;
            const shape& b = at(n.inputs[1]).extents;
            if (is_constant(n.inputs[1]) || b.rank() != 2 || !is_float32(n.inputs[0]) || !is_float32(n.inputs[1])) return;
            if (!cpu::gemm_problem_of(n, at(n.inputs[0]).extents, b, at(n.outputs[0]).extents, p) || !cpu::takes_bfloat16_product(p)) return;
            p = cpu::detail::joined_batches(p);
            if (p.batch[0] * p.batch[1] == 1 && cpu::learning_product_in_bfloat16(p)) set(n, "bfloat16", std::int64_t(1));
        } else if (is(n, "MatMulGradWeight", "graft")) {
            cpu::product_sum_problem p;
            if (!is_float32(n.inputs[0]) || cpu::product_sum_of(n, at(n.inputs[0]).extents, at(n.inputs[1]).extents, p)) return;
            if (cpu::detail::faster_in_bfloat16(level_, cpu::bfloat16_grad_of(level_, p))) set(n, "bfloat16", std::int64_t(1));
        }
    }
    // What was pooled lay in blocks, however small the gradient that comes back.
    status place_average_pool_grad(node& n) { return place_images(n, 0b1, 0b1, convolves_); }
    status place_sum(node& n) { return per_channel_sum(n) ? place_images(n, 0b1, 0) : layouter::place_node(n); }

    // The problem of the forward convolution that a gradient belongs to; false where it is none of images of float32.
    bool forward_problem(const node& n, const shape& x, const shape& w, const shape& y, cpu::conv_problem& p) {
        if (x.rank() != 4 || !x.elements() || !y.elements() || !w.elements() || !cpu::conv_problem_of(n, x, w, y, p)) return false;
        p.exact = with_.exact;
        p.bfloat16 = bfloat16_;
        p.ep = {};
        return true;
    }
    static shape shape_attribute(const node& n) {
        const attribute* a = n.find("shape");
        return a && a->integers.size() <= static_cast<std::size_t>(shape::max_rank) ? shape::from(a->integers.begin(), a->integers.end()) : shape{};
    }

    // dW[, dB] of X and dY. The first layer reads its picture in planes, as the forward pass does.
    status place_grad_weight(node& n) {
        cpu::conv_problem p{};
        const shape w = shape_attribute(n);
        if (!is_float32(n.inputs[0]) || !forward_problem(n, at(n.inputs[0]).extents, w, at(n.inputs[1]).extents, p)) return layouter::place_node(n);
        p.in = at(n.inputs[0]).layout.as;
        p.out = layout::blocked;
        const cpu::conv_grad_weight_choice choice = cpu::choose_conv_grad_weight(level_, p, static_cast<int>(integer(n, "shards", 8)));
        p.in = choice.in;
        n.inputs[0] = as(n.inputs[0], lies(choice.in));
        n.inputs[1] = as(n.inputs[1], blocks_);
        cpu::set_problem(n, p);
        g.nodes.push_back(std::move(n));
        return {};
    }

    // dX of dY and W[, what is added to it].
    status place_grad_input(node& n) {
        cpu::conv_problem p{};
        const shape x = shape_attribute(n);
        if (!is_float32(n.inputs[0]) || !forward_problem(n, x, at(n.inputs[1]).extents, at(n.inputs[0]).extents, p)) return layouter::place_node(n);
        p.in = p.out = layout::blocked;
        const cpu::conv_grad_input_choice choice = cpu::choose_conv_grad_input(level_, p);
        n.inputs[0] = as(n.inputs[0], blocks_);
        if (n.inputs.size() > 2) n.inputs[2] = as(n.inputs[2], blocks_);
        cpu::set_problem(n, p);
        GRAFT_TRY(pack_grad_input(n, p, choice));
        at(n.outputs[0]).layout = blocks_;
        g.nodes.push_back(std::move(n));
        return {};
    }
    status pack_grad_input(node& n, const cpu::conv_problem& p, const cpu::conv_grad_input_choice& choice) {
        const value_id weight = n.inputs[1];
        const value_id packed = g.add_value(at(weight).name + "_packed_for_gradient");
        at(packed).type = dtype::uint8;
        at(packed).has_shape = true;
        at(packed).extents = {choice.packed_bytes};
        n.inputs[1] = packed;
        if (is_constant(weight)) {
            // Frozen, and yet on the way of a gradient: packed once.
            const tensor source = at(weight).constant;
            const std::string key = cpu::conv_grad_input_pack_key(level_, p, choice);
            const auto fill = [&](tensor& data) -> status {
                buffer scratch;
                if (choice.pack_workspace_bytes)
                    GRAFT_TRY_ASSIGN(scratch, buffer::allocate(static_cast<std::size_t>(choice.pack_workspace_bytes), with_.budget));
                cpu::pack_conv_grad_input_weights(level_, p, choice, source.data<float>(), data.raw(), scratch.data(), with_.pool);
                return {};
            };
            GRAFT_TRY_ASSIGN(at(packed).constant, packed_once(with_, source, key, dtype::uint8, {choice.packed_bytes}, fill));
            return {};
        }
        node pack = training_node(g, "PackConvGradInputWeights", on_, weight, packed);
        cpu::set_problem(pack, p);
        g.nodes.push_back(std::move(pack));
        return {};
    }

    // Both outputs lie as the input does.
    status place_max_pool(node& n) {
        for (value_id id : n.outputs)
            if (id != no_value) at(id).layout = at(n.inputs[0]).layout;
        g.nodes.push_back(std::move(n));
        return {};
    }

    status place_max_pool_grad(node& n) {
        at(n.outputs[0]).layout = at(n.inputs[1]).layout;
        n.inputs[0] = as(n.inputs[0], at(n.inputs[1]).layout);
        g.nodes.push_back(std::move(n));
        return {};
    }

    bool image(value_id id) { return is_float32(id) && at(id).extents.rank() == 4 && at(id).extents.elements() > 0; }

    // In blocks where any image among the inputs lies so.
    status place_images(node& n, unsigned in, unsigned out, bool blocks = false) {
        for (std::size_t i = 0; i < n.inputs.size(); ++i)
            if ((in >> i & 1) && n.inputs[i] != no_value) {
                if (!image(n.inputs[i])) return layouter::place_node(n);
                blocks |= blocked(n.inputs[i]);
            }
        for (std::size_t i = 0; i < n.inputs.size(); ++i)
            if (n.inputs[i] != no_value) n.inputs[i] = as(n.inputs[i], blocks && (in >> i & 1) ? blocks_ : layout());
        for (std::size_t i = 0; i < n.outputs.size(); ++i)
            if (n.outputs[i] != no_value) at(n.outputs[i]).layout = blocks && (out >> i & 1) ? blocks_ : layout();
        g.nodes.push_back(std::move(n));
        return {};
    }

    // [N,C,H,W] down to one number a channel, or to one a channel and image.
    bool per_channel_sum(const node& n) {
        if (!image(n.inputs[0])) return false;
        const shape &x = at(n.inputs[0]).extents, &y = at(n.outputs[0]).extents;
        if (y.elements() == x[1]) return y.rank() == 3 ? y[0] == x[1] : y.rank() == 4 && y[1] == x[1];
        return y.rank() == 4 && y[0] == x[0] && y[1] == x[1] && y[2] == 1 && y[3] == 1;
    }
};

}  // namespace detail
GRAFT_END_NAMESPACE
