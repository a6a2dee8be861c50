// Folds batch normalisation into the convolutions before it.
#pragma once

#include "../ops/channel_affine.hpp"
#include "graph_queries.hpp"
#include "node_writer.hpp"

#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Batch normalisation that only a convolution of constant weights stands before becomes part of it:
// y = scale * conv(x) + shift, with the scale in the convolution's weights. Errors: memory.oom.
inline status fold_batch_norm(graph& g) {
    std::vector<int> readers = readers_of(g);
    std::vector<std::size_t> maker(g.values.size(), g.nodes.size());
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        for (value_id id : g.nodes[i].outputs)
            if (id != no_value) maker[id] = i;
    node_writer write(g, "folded");
    std::vector<char> gone(g.nodes.size(), 0);
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        node& norm = g.nodes[i];
        if (!is_named(norm, "BatchNormalization") || norm.inputs.size() != 5) continue;
        const attribute* training = norm.find("training_mode");
        const value_id between = norm.inputs[0];
        if ((training && training->integer) || readers[between] != 1 || maker[between] == g.nodes.size()) continue;
        node& conv = g.nodes[maker[between]];
        if (!is_named(conv, "Conv") || !is_weight(g, conv.inputs[1])) continue;
        const bool biased = conv.inputs.size() > 2 && conv.inputs[2] != no_value;
        bool constant = !biased || is_weight(g, conv.inputs[2]);
        for (std::size_t k = 1; k < 5; ++k) constant = constant && is_weight(g, norm.inputs[k]);
        if (!constant) continue;
        const tensor weight = g.at(conv.inputs[1]).constant;
        const std::int64_t channels = weight.shape()[0], each = weight.elements() / channels;
        for (std::size_t k = 1; k < 5; ++k) constant = constant && g.at(norm.inputs[k]).constant.elements() == channels;
        if (!constant || (biased && g.at(conv.inputs[2]).constant.elements() != channels)) continue;
        const attribute* given = norm.find("epsilon");
        const double epsilon = given ? static_cast<double>(given->real) : 1e-5;
        tensor folded, bias;
        GRAFT_TRY_ASSIGN(folded, tensor::make(dtype::float32, weight.shape()));
        GRAFT_TRY_ASSIGN(bias, tensor::make(dtype::float32, shape{channels}));
        const auto number = [&](std::size_t k, std::int64_t c) { return static_cast<double>(g.at(norm.inputs[k]).constant.data<float>()[c]); };
        for (std::int64_t c = 0; c < channels; ++c) {
            const ops::channel_affine y = ops::normalized_channel(number(1, c), number(2, c), number(3, c), number(4, c), epsilon);
            const double before = biased ? static_cast<double>(g.at(conv.inputs[2]).constant.data<float>()[c]) : 0;
            bias.data<float>()[c] = static_cast<float>(before * y.scale + y.shift);
            for (std::int64_t k = c * each; k < (c + 1) * each; ++k)
                folded.data<float>()[k] = static_cast<float>(static_cast<double>(weight.data<float>()[k]) * y.scale);
        }
        const std::string stem = g.at(conv.inputs[1]).name;
        conv.inputs.resize(2);
        conv.inputs[1] = write.constant(stem, std::move(folded));
        conv.inputs.push_back(write.constant(stem + ".bias", std::move(bias)));
        conv.outputs[0] = norm.outputs[0];
        gone[i] = 1;
    }
    std::vector<node> kept;
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        if (!gone[i]) kept.push_back(std::move(g.nodes[i]));
    g.nodes = std::move(kept);
    return std::move(write.failure);
}

}  // namespace detail
GRAFT_END_NAMESPACE
