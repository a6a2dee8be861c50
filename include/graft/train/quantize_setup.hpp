// A network that is set up for fine-tuning gets the rounding of eight bits, so that it learns to live with it.
#pragma once

#include "../data/preprocess.hpp"
#include "../exec/class_labels.hpp"
#include "../exec/quantizer.hpp"
#include "finetune.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether the model has a classifier that tells apart what the dataset does, in its order.
inline bool names_the_classes(const model& m, const trunk_cut& cut, const dataset& data) {
    if (cut.logits == no_value) return false;
    auto names = labels_of(m, static_cast<std::int64_t>(data.classes().size()), limits());
    return names.ok() && *names == data.classes();
}

inline status keep_head(finetune_setup& made, graph g, const trunk_cut& cut) {
    const int head = maker_of(g, cut.logits);
    if (head < 0) return fail(errc::internal, "keep_head", "nothing makes the logits");
    for (value_id id : g.nodes[static_cast<std::size_t>(head)].inputs)
        if (id != no_value && g.at(id).constant) made.head.push_back(g.at(id).name);
    made.network.logits = cut.logits;
    made.network.features = cut.features;
    made.network.head_is_trained = true;
    made.network.graph = std::move(g);
    return {};
}

// Ranges are those of pictures all through the dataset. What a new head makes of them tells nothing of what it will, so that it stays float.
inline status quantize_setup(finetune_setup& made, const dataset& training, const finetune_options& options) {
    constexpr std::int64_t most = 256;
    training_network& network = made.network;
    quantize_options how;
    how.load = on_device(nullptr, options.step.operators);
    how.load.limits = options.step.limits;
    how.session.threads = options.threads;
    auto opened = quantizer::make(std::move(network.graph), how);
    if (!opened.ok()) return opened.take_status();
    quantizer q = std::move(opened).value();
    std::int64_t seen = 0;
    const std::int64_t wanted = std::min(most, training.size());
    for (std::int64_t i = 0; i < wanted; ++i) {
        auto picture = training.read(i * training.size() / wanted);
        if (!picture.ok() && picture.error().code() == errc::memory_oom) return picture.take_status();
        if (!picture.ok()) continue;  // training tells of it
        tensor input;
        GRAFT_TRY_ASSIGN(input, preprocess(*picture, made.preprocess, made.picture));
        if (network.fixed_batch > 1) GRAFT_TRY(filled_up(view(input), network.fixed_batch, true, input));
        GRAFT_TRY(q.observe(input));
        ++seen;
    }
    if (seen == 0) return fail(errc::data_too_many_bad, "training", "no picture of it can be read, so that no range of values is known");
    std::vector<std::string> keep;
    const graph& prepared = q.prepared();
    const std::vector<std::string> all = q.nodes();
    const int head = maker_of(prepared, network.logits);
    if (!network.head_is_trained && head >= 0) {
        const std::string& name = prepared.nodes[static_cast<std::size_t>(head)].name;
        if (std::find(all.begin(), all.end(), name) != all.end()) keep.push_back(name);
    }
    GRAFT_TRY_ASSIGN(network.graph, q.finish_to_learn(keep));
    network.in_eight_bits = true;
    made.notes.push_back(std::to_string(all.size() - keep.size()) + " of " + std::to_string(all.size()) +
                         " layers learn with the rounding of eight bits, by ranges of " + std::to_string(seen) + " pictures" +
                         (network.head_is_trained ? "; the model's own head goes on learning" : "; the head is new, and stays in float32"));
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
