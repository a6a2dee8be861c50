// Fine-tuning in one call: a classifier that somebody trained, and pictures of other classes.
#pragma once

#include "../core/number_text.hpp"
#include "prepare_classifier.hpp"
#include "preprocess_search.hpp"
#include "trainer.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A model with a new head for the classes of a dataset, and how pictures come to it.
struct finetune_setup {
    training_network network;
    std::vector<std::string> head;        ///< names of the new layer's weights
    input_format picture;                 ///< the network's input
    shape batch;                          ///< the shape of two pictures, or of as many as the network is fixed to
    preprocess_spec preprocess;           ///< complete
    preprocess_choice choice;             ///< where that comes from
    std::vector<preprocess_trial> tried;  ///< where it was searched for, best first
    value_id maps = no_value;             ///< what was cut behind: features of places of the picture, where it has any
    std::vector<std::string> notes;       ///< what was done to the network, in sentences
};

/// A model as it can learn, before anything is put on it.
struct prepared_trunk {
    prepared_classifier prepared;
    trunk_cut cut;
    preprocess_choice choice;             ///< where its preprocessing comes from; `text` and `spec` are not those that were found by trying
    std::vector<preprocess_trial> tried;  ///< where nothing says how pictures are prepared: what was tried, best first
};

/// Brings a model into float32, opens its batch, and finds what a head can be put on, and how pictures are prepared: as `options.preprocessing` or the model
/// says, else by trying. Errors: train.head, usage.preprocess, input.*, op.unsupported, and those of running the network where the preprocessing is tried.
result<prepared_trunk> prepare_trunk(const model& from, const dataset& training, const finetune_options& options, executor& pool);

/// Puts a new head on a model: it is brought into float32, its batch is opened, and its classifier replaced. Nothing is frozen yet. With
/// `options.quantize` it gets the rounding of eight bits, by ranges that up to 256 of the pictures show, and keeps the classifier of a model whose labels
/// are the dataset's classes (quantisation-aware training, Jacob et al., 2018); a new one stays in float32. Errors: those of prepare_to_quantize then, and
/// train.head, usage.preprocess, input.*, op.unsupported, and those of running the network where the preprocessing is searched for.
result<finetune_setup> set_up_finetuning(const model& from, const dataset& training, const finetune_options& options);

/// Fine-tunes: what `graft finetune` does. With `options.out` the folder gets model.onnx, checkpoints and logs; the result holds the best
/// network in any case. Errors: those of set_up_finetuning, of freeze and of train.
result<training_result> finetune(const dataset_splits& data, const model& from, const finetune_options& options, training_observer& observer);
/// The same from a dataset and an ONNX file by their paths, without being watched. Errors: those of open_splits and load as well.
result<training_result> finetune(const std::string& data, const std::string& model_path, const finetune_options& options = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "freeze.hpp"
#include "quantize_setup.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether what was tried tells more than that features are of no use for these classes.
inline bool is_telling(const std::vector<preprocess_trial>& tried) { return !tried.empty() && tried[0].error < 0.95 * tried[0].chance; }

inline std::string search_note(const finetune_setup& made, std::size_t pictures) {
    if (!is_telling(made.tried))
        return "the model does not say how pictures are to be prepared, and its features tell too little of these classes to try it out: " + made.choice.text +
               " is assumed; --preprocess SPEC says otherwise";
    const preprocess_trial &best = made.tried[0], *next = made.tried.size() > 1 ? &made.tried[1] : nullptr;
    std::string note = "the model does not say how pictures are to be prepared; " + best.text + " does best on its features (held-out error " +
                       number_text("%.3f", best.error) + " on " + std::to_string(pictures) + " pictures" + (next ? "; " : ")");
    if (next) note += next->text + number_text(" %.3f, next)", next->error);
    return note + " and is taken; --preprocess SPEC says otherwise";
}

}  // namespace detail

GRAFT_INLINE result<prepared_trunk> prepare_trunk(const model& from, const dataset& training, const finetune_options& options,
                                                  executor& pool) GRAFT_MEMORY_TRY {
    prepared_trunk trunk;
    graph g = from.graph();
    input_format declared;
    GRAFT_TRY_ASSIGN(declared, picture_input(g));
    const bool automatic = options.preprocessing == "auto" || options.preprocessing.empty();
    GRAFT_TRY_ASSIGN(trunk.choice, choose_preprocess(automatic ? "" : options.preprocessing, from.metadata("graft.preprocess"), declared));
    preprocess_spec declared_spec;
    GRAFT_TRY_ASSIGN(declared_spec, complete(trunk.choice.spec, declared));
    GRAFT_TRY_ASSIGN(trunk.prepared, prepare_classifier(std::move(g), options.output, declared_spec, pool, options.step.limits));
    const prepared_classifier& prepared = trunk.prepared;
    GRAFT_TRY_ASSIGN(trunk.cut, find_trunk(prepared.graph, options.trunk, prepared.batch, pool, options.step.limits));
    if (trunk.choice.source == preprocess_source::assumed)
        GRAFT_TRY_ASSIGN(trunk.tried, search_preprocess(prepared.graph, trunk.cut, training, prepared.picture, pool.threads(),
                                                        on_device(options.step.on, options.step.operators)));
    return trunk;
}
GRAFT_MEMORY_CATCH("prepare_trunk")

GRAFT_INLINE result<finetune_setup> set_up_finetuning(const model& from, const dataset& training, const finetune_options& options) GRAFT_MEMORY_TRY {
    finetune_setup made;
    pool_executor pool(options.threads);
    prepared_trunk trunk;
    GRAFT_TRY_ASSIGN(trunk, prepare_trunk(from, training, options, pool));
    prepared_classifier& prepared = trunk.prepared;
    const trunk_cut& cut = trunk.cut;
    made.choice = trunk.choice;
    made.tried = std::move(trunk.tried);
    made.notes = text(prepared);
    made.picture = prepared.picture;
    made.batch = prepared.batch;
    if (made.choice.source == preprocess_source::assumed) {
        if (detail::is_telling(made.tried)) made.choice.text = made.tried[0].text;
        GRAFT_TRY_ASSIGN(made.choice.spec, parse_preprocess(made.choice.text));
        made.notes.push_back(detail::search_note(made, search_sample(training).size()));
    }
    // A float16 model is written in float32, and takes that.
    GRAFT_TRY_ASSIGN(made.preprocess, complete(made.choice.spec, prepared.picture));
    made.network.fixed_batch = prepared.fixed_batch;
    made.maps = cut.features;
    if (options.quantize && detail::names_the_classes(from, cut, training)) {
        GRAFT_TRY(detail::keep_head(made, std::move(prepared.graph), cut));
    } else {
        grafted head;
        GRAFT_TRY_ASSIGN(head, replace_head(std::move(prepared.graph), cut, static_cast<std::int64_t>(training.classes().size()), options.seed));
        made.network.graph = std::move(head.graph);
        made.network.logits = head.logits;
        made.network.features = head.features;
        made.head = std::move(head.head);
    }
    if (options.quantize) GRAFT_TRY(detail::quantize_setup(made, training, options));
    made.network.parameters = parameters_of(made.network.graph);
    return made;
}
GRAFT_MEMORY_CATCH("set_up_finetuning")

GRAFT_INLINE result<training_result> finetune(const dataset_splits& data, const model& from, const finetune_options& options,
                                              training_observer& observer) GRAFT_MEMORY_TRY {
    finetune_setup setup;
    GRAFT_TRY_ASSIGN(setup, set_up_finetuning(from, data.training, options));
    for (const std::string& note : setup.notes) observer.on_note(note);
    pool_executor pool(options.threads);
    GRAFT_TRY(freeze(setup.network.graph, setup.network.parameters, options.freeze, setup.head, options.frozen, setup.batch, pool, options.step.limits));
    GRAFT_TRY(scale_rates(setup.network.parameters, options.rates));
    GRAFT_TRY(decay_rates(setup.network.graph, setup.network.parameters, options.layer_decay, setup.head, setup.batch, pool, options.step.limits));
    trainer_options how = options;
    how.preprocess = setup.preprocess;
    return train(std::move(setup.network), data, how, observer);
}
GRAFT_MEMORY_CATCH("finetune")

GRAFT_INLINE result<training_result> finetune(const std::string& data, const std::string& model_path, const finetune_options& options) GRAFT_MEMORY_TRY {
    dataset_options opening;
    opening.seed = options.seed;
    opening.limits = options.step.limits;
    dataset_splits splits;
    GRAFT_TRY_ASSIGN(splits, open_splits(data, opening));
    model from;
    GRAFT_TRY_ASSIGN(from, load(model_path, on_device(nullptr, options.step.operators)));
    training_observer nobody;
    return finetune(splits, from, options, nobody);
}
GRAFT_MEMORY_CATCH("finetune")

GRAFT_END_NAMESPACE
#endif
