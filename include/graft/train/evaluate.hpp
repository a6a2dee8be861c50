// Scores a network on a dataset, every picture exactly once.
#pragma once

#include "../data/batches_ahead.hpp"
#include "../exec/class_scores.hpp"
#include "../exec/session.hpp"
#include "metrics.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// How one picture was answered.
struct scored_picture {
    std::int64_t index = 0;  ///< in the dataset
    std::int32_t label = 0;  ///< the true class
    std::int32_t predicted = 0;
    float probability = 0;  ///< of the predicted class
    float loss = 0;         ///< cross-entropy, nats
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
    double bad_share = 0.01;  ///< of the pictures that may be unreadable: see allowed_bad
    std::shared_ptr<image_cache> cache;
    std::size_t output = 0;  ///< which of the network's outputs names classes
    void (*progress)(void* context, std::int64_t done, std::int64_t of) = nullptr;
    void* context = nullptr;
};

/// Runs a network over a dataset prepared by `spec`, without augmentation. `class_of` gives for each class of the dataset the network's
/// output; empty: they are in the same order. Scores of any type are taken for what they stand for (class_probabilities). Errors:
/// classify.output (it gives no row of classes), data.label_range, those of the loader and of a run.
result<evaluation_result> evaluate(const model& network, const dataset& data, const preprocess_spec& spec, const std::vector<std::int64_t>& class_of,
                                   const evaluation_options& options);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "batch_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What the loss is taken of, for the first `pictures` rows of `batch`: scores that are logits as they are, else the logarithms of what they
// stand for.
inline result<std::vector<float>> logits_in(const graph& g, std::size_t output, const tensor& scores, std::int64_t pictures, std::int64_t batch) {
    const std::int64_t classes = classes_in(scores.shape(), batch);
    if (classes < 1)
        return fail(errc::classify_output, g.at(g.outputs[output]).name,
                    "it is " + text(scores.shape()) + " for " + std::to_string(batch) + " pictures: a classifier gives one number a class for each");
    std::vector<float> rows(static_cast<std::size_t>(pictures * classes));
    if (scores.type() == dtype::float32 && !ending_of(g, output).softmax) {
        std::memcpy(rows.data(), scores.raw(), rows.size() * sizeof(float));
        return rows;
    }
    for (std::int64_t i = 0; i < pictures; ++i) {
        const std::vector<double> p = class_probabilities(g, scores, i, batch, output);
        for (std::int64_t c = 0; c < classes; ++c)
            rows[static_cast<std::size_t>(i * classes + c)] = std::log(std::max(static_cast<float>(p[static_cast<std::size_t>(c)]), 1e-37f));
    }
    return rows;
}

// Adds pictures by their rows of logits, one a label.
inline status add_scores(evaluation_result& found, const float* rows, std::int64_t classes, const std::vector<std::int64_t>& labels,
                         const std::int64_t* indices) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const float* row = rows + static_cast<std::int64_t>(i) * classes;
        const sample_score s = score_sample(row, classes, labels[i]);
        found.pictures.push_back({indices[i], static_cast<std::int32_t>(labels[i]), static_cast<std::int32_t>(s.predicted), static_cast<float>(s.probability),
                                  static_cast<float>(s.loss)});
    }
    return found.metrics.add(rows, labels.data(), static_cast<std::int64_t>(labels.size()));
}

}  // namespace detail

GRAFT_INLINE result<evaluation_result> evaluate(const model& network, const dataset& data, const preprocess_spec& spec,
                                                const std::vector<std::int64_t>& class_of, const evaluation_options& options) GRAFT_MEMORY_TRY {
    evaluation_result found;
    const graph& g = network.graph();
    if (g.outputs.empty()) return fail(errc::usage, "evaluate", "the model is empty: give it what graft::load returns");
    if (options.output >= network.outputs().size()) return fail(errc::input_name, g.name, "the network has no such output");
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
        const std::int64_t n = static_cast<std::int64_t>(b.labels.size());
        if (fixed > n) GRAFT_TRY(detail::filled_up(view(b.inputs), fixed, true, b.inputs));
        tensor first_output;
        GRAFT_TRY_ASSIGN(first_output, run.run(b.inputs, batches.next()));
        std::vector<float> rows;
        GRAFT_TRY_ASSIGN(rows, detail::logits_in(g, options.output, options.output ? run.output(options.output) : first_output, n, b.inputs.shape()[0]));
        const std::int64_t classes = static_cast<std::int64_t>(rows.size()) / n;
        if (first) GRAFT_TRY_ASSIGN(found.metrics, classification_metrics::make(classes));
        first = false;
        std::vector<std::int64_t> labels;
        for (std::int64_t i = 0; i < n; ++i) {
            const std::size_t given = static_cast<std::size_t>(b.labels[static_cast<std::size_t>(i)]);
            labels.push_back(class_of.empty() ? static_cast<std::int64_t>(given) : class_of[given]);
            if (labels.back() < 0 || labels.back() >= classes)
                return fail(errc::data_label_range, data.name(b.indices[static_cast<std::size_t>(i)]),
                            "its class is none of the network's " + std::to_string(classes));
        }
        GRAFT_TRY(detail::add_scores(found, rows.data(), classes, labels, b.indices.data()));
        done += n;
        if (options.progress) options.progress(options.context, done, data.size());
    }
    return found;
}
GRAFT_MEMORY_CATCH("evaluate")

GRAFT_END_NAMESPACE
#endif
