// Scores a network on a dataset, every picture exactly once.
#pragma once

#include "../data/batches_ahead.hpp"
#include "../exec/session.hpp"
#include "metrics.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// How one picture was answered.
struct scored_picture {
    std::int64_t index = 0;      ///< in the dataset
    std::int32_t label = 0;      ///< the true class
    std::int32_t predicted = 0;
    float probability = 0;       ///< of the predicted class
    float loss = 0;              ///< cross-entropy, nats
};

/// What an evaluation found.
struct evaluation_result {
    classification_metrics metrics;
    std::vector<scored_picture> pictures;  ///< in the order of the dataset
    std::vector<bad_sample> bad;           ///< pictures that could not be read
};

/// How a network is scored.
struct evaluation_options {
    std::int64_t batch = 32;
    int threads = 0;          ///< of the network and of the loader each; 0: default_threads()
    double bad_share = 0.01;  ///< of the pictures that may be unreadable
    std::shared_ptr<image_cache> cache;
    void (*progress)(void* context, std::int64_t done, std::int64_t of) = nullptr;
    void* context = nullptr;
};

/// Runs a network over a dataset prepared by `spec`, without augmentation. `class_of` gives for each class of the dataset the network's
/// output; empty: they are in the same order. Probabilities are the network's own where it ends in a Softmax. Errors: those of the
/// loader and of a run.
result<evaluation_result> evaluate(const model& network, const dataset& data, const preprocess_spec& spec, const std::vector<std::int64_t>& class_of,
                                   const evaluation_options& options);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "head.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What the loss is taken of: the scores, or their logarithms where a Softmax made them.
inline void to_logits(float* row, std::int64_t classes, bool probabilities) {
    if (!probabilities) return;
    for (std::int64_t c = 0; c < classes; ++c) row[c] = std::log(std::max(row[c], 1e-37f));
}

// Repeats the last sample until there are `n`.
inline status pad_batch(tensor& rows, std::int64_t n) {
    shape extents = rows.shape();
    const std::size_t size = rows.bytes() / static_cast<std::size_t>(extents[0]);
    extents[0] = n;
    tensor made;
    GRAFT_TRY_ASSIGN(made, tensor::make(rows.type(), extents));
    for (std::int64_t i = 0; i < n; ++i)
        std::memcpy(made.raw() + static_cast<std::size_t>(i) * size, rows.raw() + static_cast<std::size_t>(std::min(i, rows.shape()[0] - 1)) * size, size);
    rows = std::move(made);
    return {};
}

// Adds pictures by their rows of scores, one a label, which become logits.
inline status add_scores(evaluation_result& found, float* rows, std::int64_t classes, bool probabilities, const std::vector<std::int64_t>& labels, const std::int64_t* indices) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
        float* row = rows + static_cast<std::int64_t>(i) * classes;
        to_logits(row, classes, probabilities);
        const sample_score s = score_sample(row, classes, labels[i]);
        found.pictures.push_back({indices[i], static_cast<std::int32_t>(labels[i]), static_cast<std::int32_t>(s.predicted), static_cast<float>(s.probability), static_cast<float>(s.loss)});
    }
    return found.metrics.add(rows, labels.data(), static_cast<std::int64_t>(labels.size()));
}

}  // namespace detail

GRAFT_INLINE result<evaluation_result> evaluate(const model& network, const dataset& data, const preprocess_spec& spec, const std::vector<std::int64_t>& class_of,
                                                const evaluation_options& options) {
    evaluation_result found;
    const graph& g = network.graph();
    if (g.outputs.empty()) return fail(errc::usage, "evaluate", "the model is empty: give it what graft::load returns");
    const bool probabilities = logits_of(g) != g.outputs[0];
    loader_options how;
    how.batch_size = options.batch;
    how.workers = options.threads;
    how.shuffle = false;
    how.bad_share = options.bad_share;
    how.sample.preprocess = spec;
    how.sample.cache = options.cache;
    std::size_t input = 0;
    while (input < network.inputs().size() && network.inputs()[input].has_default) ++input;
    if (input == network.inputs().size()) return fail(errc::input_name, g.name, "the network has no input");
    const value_info& picture = network.inputs()[input];
    // A network that is fixed to one batch is fed by it.
    const std::int64_t fixed = picture.extents.rank() > 0 ? picture.extents[0] : 0;
    if (fixed > 0) how.batch_size = fixed;
    how.sample.format = {picture.type, picture.extents, true};
    loader source;
    GRAFT_TRY_ASSIGN(source, loader::make(data, how));
    session run(network, {options.threads, nullptr});
    GRAFT_TRY(source.start(0));
    std::int64_t done = 0;
    bool first = true;
    batches_ahead<loader> batches(source, source.batches(), std::strcmp(network.device(), "cpu") != 0);
    for (std::int64_t number = 0; number < source.batches(); ++number) {
        GRAFT_TRY(batches.advance());
        batch& b = batches.current();
        for (const bad_sample& s : b.bad) found.bad.push_back(s);
        if (b.labels.empty()) continue;
        tensor scores;
        if (fixed > b.inputs.shape()[0]) GRAFT_TRY(detail::pad_batch(b.inputs, fixed));
        GRAFT_TRY_ASSIGN(scores, run.run(b.inputs, batches.next()));
        const std::int64_t n = static_cast<std::int64_t>(b.labels.size()), classes = scores.elements() / scores.shape()[0];
        if (scores.type() != dtype::float32 || scores.shape()[0] < n) return fail(errc::train_head, network.outputs()[0].name, "a classifier gives float32 [N, classes]; this one gives " + text(scores.shape()));
        if (first) GRAFT_TRY_ASSIGN(found.metrics, classification_metrics::make(classes));
        first = false;
        std::vector<std::int64_t> labels;
        std::vector<float> rows(scores.data<float>(), scores.data<float>() + n * classes);
        for (std::int64_t i = 0; i < n; ++i) {
            const std::size_t given = static_cast<std::size_t>(b.labels[static_cast<std::size_t>(i)]);
            labels.push_back(class_of.empty() ? static_cast<std::int64_t>(given) : class_of[given]);
            if (labels.back() < 0 || labels.back() >= classes) return fail(errc::data_label_range, data.name(b.indices[static_cast<std::size_t>(i)]), "its class is none of the network's " + std::to_string(classes));
        }
        GRAFT_TRY(detail::add_scores(found, rows.data(), classes, probabilities, labels, b.indices.data()));
        done += n;
        if (options.progress) options.progress(options.context, done, data.size());
    }
    return found;
}

GRAFT_END_NAMESPACE
#endif
