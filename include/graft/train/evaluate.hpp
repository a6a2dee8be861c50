// Scores a network on a dataset, every picture exactly once.
#pragma once

#include "../data/batches_ahead.hpp"
#include "../exec/class_scores.hpp"
#include "../exec/session_pool.hpp"
#include "metrics.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

class communicator;

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
    int threads = 0;          ///< of the network, all replicas together, and of the loader each; 0: default_threads()
    double bad_share = 0.01;  ///< of the pictures that may be unreadable: see allowed_bad
    std::shared_ptr<image_cache> cache;
    std::size_t output = 0;  ///< which of the network's outputs names classes
    void (*progress)(void* context, std::int64_t done, std::int64_t of) = nullptr;
    void* context = nullptr;
    /// Processes that score the dataset together: whole batches are dealt out to them in order, and all get what all have found. Each has to be given the
    /// same network, dataset and options, else it is dist.mismatch. Null: this one does it alone.
    std::shared_ptr<communicator> group;
};

/// Runs a network over a dataset prepared by `spec`, without augmentation. `class_of` gives for each class of the dataset the network's
/// output; empty: they are in the same order. Scores of any type are taken for what they stand for (class_probabilities). Errors:
/// classify.output (it gives no row of classes), data.label_range, those of the loader and of a run.
result<evaluation_result> evaluate(const model& network, const dataset& data, const preprocess_spec& spec, const std::vector<std::int64_t>& class_of,
                                   const evaluation_options& options);
/// The same by several models at once, copies of one network that may each lie on a device of its own: batches go to whoever is free (session_pool). The
/// result is, to the bit, that of one of them where all run on the CPU. Errors: also usage (there are none, or they differ).
result<evaluation_result> evaluate(const std::vector<model>& replicas, const dataset& data, const preprocess_spec& spec,
                                   const std::vector<std::int64_t>& class_of, const evaluation_options& options);

/// For each class of a dataset the network's output of that name, as `evaluate` takes it; `where` names the dataset in what is said. Errors:
/// data.class_mismatch (the network has no such class).
result<std::vector<std::int64_t>> match_classes(const std::vector<std::string>& of_dataset, const std::vector<std::string>& of_network,
                                                const std::string& where);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/fnv1a.hpp"
#include "batch_parts.hpp"
#include "shared_features.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <unordered_map>

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

// One evaluation: this process's batches, spread over its replicas, and what other processes found in theirs.
class evaluation {
public:
    evaluation(const std::vector<model>& replicas, const dataset& data, const std::vector<std::int64_t>& class_of, const evaluation_options& options)
        : replicas_(replicas), graph_(replicas[0].graph()), data_(data), class_of_(class_of), o_(options), members_(options.group) {}

    result<evaluation_result> run(const preprocess_spec& spec) {
        status done = score(spec);
        if (done.ok()) return std::move(found_);
        members_.leave(done.error());
        return done;
    }

private:
    // Whole batches of a turn that one process has, before all tell each other: so that none is far ahead, and an error of one ends the others soon.
    static constexpr std::int64_t turn = 4;

    // A batch that was asked for, in the order of the dataset.
    struct asked {
        batch made;
        status failed;
    };
    // What members tell each other of a picture.
    struct scored {
        std::int64_t index = 0, label = 0, predicted = 0, rank = 0, finite = 0;
        double probability = 0, loss = 0;
    };

    status score(const preprocess_spec& spec) {
        loader_options how;
        GRAFT_TRY(set_up(spec, how));
        const std::int64_t batches = (data_.size() + how.batch_size - 1) / how.batch_size;
        if (members_.several()) {
            GRAFT_TRY(members_.agree(told(spec, how)));
            how.bad_share = 1;  // judged of the whole
            for (std::int64_t b = 0; b < batches; ++b)
                for (std::int64_t i = b * how.batch_size; b / turn % members_.size() == members_.rank() && i < std::min(data_.size(), (b + 1) * how.batch_size);
                     ++i)
                    own_.push_back(i);
        }
        loader source;
        GRAFT_TRY_ASSIGN(source, loader::make(members_.several() ? data_.subset(own_) : data_, how));
        session_pool pool;
        GRAFT_TRY_ASSIGN(pool, session_pool::make(replicas_, {o_.threads, -1}));
        GRAFT_TRY(source.start(0));
        const std::int64_t own = source.batches(), each_turn = members_.several() ? turn * members_.size() : 1;
        const std::int64_t turns = members_.several() ? (batches + each_turn - 1) / each_turn : own, length = members_.several() ? turn : 1;
        for (std::int64_t t = 0; t < turns; ++t) {
            for (std::int64_t i = t * length; i < std::min(own, (t + 1) * length); ++i) GRAFT_TRY(next_batch(source, pool));
            GRAFT_TRY(conclude_turn());
        }
        return members_.several() ? judge_bad(found_.bad, o_.bad_share, data_.size()) : status();
    }

    status set_up(const preprocess_spec& spec, loader_options& how) {
        const model& network = replicas_[0];
        if (graph_.outputs.empty()) return fail(errc::usage, "evaluate", "the model is empty: give it what graft::load returns");
        if (o_.output >= network.outputs().size()) return fail(errc::input_name, graph_.name, "the network has no such output");
        how.batch_size = o_.batch;
        how.workers = o_.threads;
        how.shuffle = false;
        how.bad_share = o_.bad_share;
        how.sample.preprocess = spec;
        how.sample.cache = o_.cache;
        while (input_ < network.inputs().size() && network.inputs()[input_].has_default) ++input_;
        if (input_ == network.inputs().size()) return fail(errc::input_name, graph_.name, "the network has no input");
        for (std::size_t i = input_ + 1; i < network.inputs().size(); ++i)
            if (!network.inputs()[i].has_default)
                return fail(errc::input_name, network.inputs()[i].name, "the network asks for more than one input; pictures are what it can be given");
        const value_info& picture = network.inputs()[input_];
        // A network that is fixed to one batch is fed by it.
        fixed_ = picture.extents.rank() > 0 ? picture.extents[0] : 0;
        if (fixed_ > 0) how.batch_size = fixed_;
        if (how.batch_size < 1) return fail(errc::usage, "evaluate", "a batch holds at least one picture");
        how.sample.format = {picture.type, picture.extents, true};
        return {};
    }
    // What the members have to be given alike.
    named_texts told(const preprocess_spec& spec, const loader_options& how) const {
        std::uint64_t names = fnv1a_basis;
        for (std::int64_t i = 0; i < data_.size(); ++i) {
            const std::string name = data_.name(i).substr(data_.name(i).find_last_of('/') + 1) + " " + std::to_string(data_.label(i));
            names = fnv1a(name.data(), name.size(), names);
        }
        std::string classes;
        for (std::int64_t c : class_of_) classes += std::to_string(c) + " ";
        return {{"pictures", std::to_string(data_.size())},
                {"names of pictures", std::to_string(names)},
                {"classes", classes},
                {"batch", std::to_string(how.batch_size)},
                {"preprocess", text(spec)},
                {"output", std::to_string(o_.output)},
                {"bad_share", std::to_string(o_.bad_share)},
                {"network", std::to_string(graph_.nodes.size()) + " nodes, " + std::to_string(graph_.values.size()) + " values"}};
    }

    // Asks for as many batches as the replicas take, and adds the first of them.
    status next_batch(loader& source, session_pool& pool) {
        const std::size_t most = 2 * replicas_.size() + 2;
        while (given_ < source.batches() && (coming_.empty() || (!pool.full() && coming_.size() < most && coming_.back().failed.ok()))) {
            coming_.push_back({std::move(spare_), {}});
            coming_.back().failed = ask(source, pool, coming_.back().made);
            ++given_;
        }
        asked a = std::move(coming_.front());
        coming_.pop_front();
        for (bad_sample& s : a.made.bad) {
            s.index = index_of(s.index);
            bad_.push_back(std::move(s));
        }
        GRAFT_TRY(std::move(a.failed));
        if (!a.made.labels.empty()) {
            pool_answer answer;
            GRAFT_TRY_ASSIGN(answer, pool.take());
            GRAFT_TRY(add(a.made, answer.outputs[o_.output]));
        }
        spare_ = std::move(a.made);
        return {};
    }
    status ask(loader& source, session_pool& pool, batch& b) {
        GRAFT_TRY(source.next(b));
        if (b.labels.empty()) return {};
        if (fixed_ > b.size()) GRAFT_TRY(filled_up(view(b.inputs), fixed_, true, b.inputs));
        std::vector<tensor> inputs(input_ + 1);
        inputs[input_] = b.inputs;
        return pool.submit(std::move(inputs));
    }
    status add(const batch& b, const tensor& scores) {
        const std::int64_t n = b.size();
        std::vector<float> rows;
        GRAFT_TRY_ASSIGN(rows, logits_in(graph_, o_.output, scores, n, b.inputs.shape()[0]));
        classes_ = static_cast<std::int64_t>(rows.size()) / n;
        for (std::int64_t i = 0; i < n; ++i) {
            const std::size_t at = static_cast<std::size_t>(i), label = static_cast<std::size_t>(b.labels[at]);
            scored s;
            s.index = index_of(b.indices[at]);
            s.label = class_of_.empty() ? static_cast<std::int64_t>(label) : class_of_[label];
            if (s.label < 0 || s.label >= classes_)
                return fail(errc::data_label_range, data_.name(s.index), "its class is none of the network's " + std::to_string(classes_));
            const sample_score one = score_sample(rows.data() + i * classes_, classes_, s.label);
            s.predicted = one.predicted, s.rank = one.rank, s.finite = one.finite, s.probability = one.probability, s.loss = one.loss;
            scored_.push_back(s);
        }
        return {};
    }
    std::int64_t index_of(std::int64_t in_own) const { return own_.empty() ? in_own : own_[static_cast<std::size_t>(in_own)]; }

    // What was found since the turn before goes into the result; of several members, what all found, in the order of the dataset.
    status conclude_turn() {
        if (members_.several()) GRAFT_TRY(gather());
        found_.bad.insert(found_.bad.end(), bad_.begin(), bad_.end());
        bad_.clear();
        if (scored_.empty()) return {};
        if (!found_.metrics.classes()) GRAFT_TRY_ASSIGN(found_.metrics, classification_metrics::make(classes_));
        if (found_.metrics.classes() != classes_) return fail(errc::classify_output, graph_.name, "the network gives different numbers of classes");
        for (const scored& s : scored_) {
            GRAFT_TRY(found_.metrics.add(sample_score{s.predicted, s.rank, s.probability, s.loss, s.finite != 0}, s.label));
            found_.pictures.push_back({s.index, static_cast<std::int32_t>(s.label), static_cast<std::int32_t>(s.predicted), static_cast<float>(s.probability),
                                       static_cast<float>(s.loss)});
        }
        scored_.clear();
        if (o_.progress) o_.progress(o_.context, found_.metrics.samples(), data_.size());
        return {};
    }
    status gather() {
        std::vector<bad_sample> bad;
        GRAFT_TRY(gather_bad(members_, bad_, bad));
        bad_ = std::move(bad);
        GRAFT_TRY(members_.largest(classes_));
        std::vector<std::int64_t> counts;
        std::vector<scored> all;
        GRAFT_TRY(members_.gather_all(scored_.data(), static_cast<std::int64_t>(scored_.size()), all, counts));
        scored_ = std::move(all);
        return {};
    }

    const std::vector<model>& replicas_;
    const graph& graph_;
    const dataset& data_;
    const std::vector<std::int64_t>& class_of_;
    const evaluation_options& o_;
    run_members members_;
    std::vector<std::int64_t> own_;  // indices of this member's pictures, where there are several
    std::size_t input_ = 0;
    std::int64_t fixed_ = 0, classes_ = 0, given_ = 0;
    std::deque<asked> coming_;
    batch spare_;
    std::vector<scored> scored_;
    std::vector<bad_sample> bad_;
    evaluation_result found_;
};

}  // namespace detail

GRAFT_INLINE result<evaluation_result> evaluate(const std::vector<model>& replicas, const dataset& data, const preprocess_spec& spec,
                                                const std::vector<std::int64_t>& class_of, const evaluation_options& options) GRAFT_MEMORY_TRY {
    if (replicas.empty()) return fail(errc::usage, "evaluate", "it needs a model at least");
    return detail::evaluation(replicas, data, class_of, options).run(spec);
}
GRAFT_MEMORY_CATCH("evaluate")
GRAFT_INLINE result<evaluation_result> evaluate(const model& network, const dataset& data, const preprocess_spec& spec,
                                                const std::vector<std::int64_t>& class_of, const evaluation_options& options) GRAFT_MEMORY_TRY {
    return evaluate(std::vector<model>{network}, data, spec, class_of, options);
}
GRAFT_MEMORY_CATCH("evaluate")

GRAFT_INLINE result<std::vector<std::int64_t>> match_classes(const std::vector<std::string>& of_dataset, const std::vector<std::string>& of_network,
                                                             const std::string& where) GRAFT_MEMORY_TRY {
    constexpr std::size_t most_named = 5;
    const auto add = [](std::string& to, const std::string& name) { to += (to.empty() ? "\"" : ", \"") + escape(name) + "\""; };
    std::unordered_map<std::string, std::int64_t> first_of;
    for (std::size_t i = 0; i < of_network.size(); ++i) first_of.emplace(of_network[i], static_cast<std::int64_t>(i));
    std::vector<std::int64_t> outputs;
    std::string missing, known;
    std::size_t count = 0;
    for (const std::string& name : of_dataset) {
        const auto at = first_of.find(name);
        if (at != first_of.end())
            outputs.push_back(at->second);
        else if (++count <= most_named)
            add(missing, name);
    }
    if (!count) return outputs;
    for (std::size_t i = 0; i < std::min(of_network.size(), most_named); ++i) add(known, of_network[i]);
    return fail(errc::data_class_mismatch, where,
                missing +
                    (count > most_named ? " and " + std::to_string(count - most_named) + " more are"
                     : count > 1        ? " are"
                                        : " is") +
                    " none of the model's " + std::to_string(of_network.size()) + " classes, which begin with " + known +
                    "; --labels names the model's classes");
}
GRAFT_MEMORY_CATCH("match_classes")

GRAFT_END_NAMESPACE
#endif
