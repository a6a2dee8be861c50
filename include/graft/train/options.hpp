// What training is told: the options of a run, and of fine-tuning. Each has its row in settings.hpp.
#pragma once

#include "../data/augment_spec.hpp"
#include "../data/image_cache.hpp"
#include "../data/preprocess_spec.hpp"
#include "rates.hpp"
#include "schedule.hpp"
#include "step.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What a run of training is told. What is default-made is what the program `graft finetune` takes; what is below 0 is decided by what is
/// trained: see `settled`, and docs/finetuning.md for all of them.
struct trainer_options {
    std::int64_t epochs = 10;
    std::int64_t batch = -1;            ///< samples of one update; below 0: 8 to 32, so that an epoch has 16 updates
    std::int64_t batch_per_device = 0;  ///< samples of one update for each member (process or replica), in place of `batch`; 0: `batch` is given
    double learning_rate = -1;          ///< of the head, or of a new network; below 0: 0.003; 0.01 with sgd; 0.1 of that where --quantize keeps the head
    std::int64_t reference_batch = 0;   ///< above 0: rates are given for this batch, and multiplied by batch / reference_batch: see scale_rates_by_batch
    double trunk_rate = -1;    ///< of everything before the head, as a multiple of `learning_rate`; below 0: 1/30; with batch normalisation 0.1, and 0.3 for
                               ///< fewer than 1000000 weights
    graft::schedule schedule;  ///< default: cosine with a short warm-up
    step_options step;         ///< loss, optimiser, shards, ...
    std::optional<graft::augmentation> augmentation;  ///< none given: default_augmentation(); nothing where the trunk is frozen
    preprocess_spec preprocess;
    std::int64_t unfreeze_epoch = -1;    ///< epochs that the head learns alone; below 0: 1/3 of the epochs; 0 where the trunk is frozen or the head is kept
    std::int64_t patience = 0;           ///< early stopping: epochs without a better score that are let pass; 0: never
    std::int64_t max_ram = 0;            ///< bytes that a step may take: fitted by computing again and in parts; 0: as it comes
    double bad_share = 0.01;             ///< of each part's pictures that may be unreadable: see allowed_bad
    std::shared_ptr<image_cache> cache;  ///< of decoded pictures; null: none
    double checkpoint_seconds = 20;      ///< between checkpoints, at most 30
    std::uint64_t seed = 0;
    int threads = 0;                 ///< of the step; 0: default_threads()
    int workers = 0;                 ///< of the loader; 0: as many as threads
    std::string out;                 ///< folder for what is written; empty: nothing is; one that holds a run is refused, but for
    bool resume = false;             ///< going on from its checkpoint (a folder without a run begins one), and for
    bool overwrite = false;          ///< replacing it: its own files go, others stay
    std::string command;             ///< for the report
    std::string precision = "auto";  ///< as the device of `step` was asked for it: a run goes on with the same
    std::string trace;               ///< file for a trace of 20 steps, as Chrome's trace events; empty: none is taken
    std::string teacher;             ///< a model whose answers are learnt too, by its own preprocessing; see teacher_model and loss_options::distillation
    trainer_options() {
        schedule.kind = schedule_kind::cosine;
        schedule.warmup = 0.05;
        step.loss.label_smoothing = -1;    ///< below 0: 0.1 with cross_entropy and focal, else 0
        step.loss.distillation = -1;       ///< below 0: 0.5 with a teacher
        step.optimizer.weight_decay = -1;  ///< below 0: 0.01 with adamw, else 0
        step.optimizer.ema_decay = -1;     ///< below 0: 0.95
    }
};

/// What `finetune` is told of the network that it begins with.
struct transfer_options {
    std::string preprocessing = "auto";  ///< how pictures are prepared, as a specification; auto: by the model's own, else by `search_preprocess`
    std::string output;                  ///< the output that is the classifier's; empty: the only one there is
    std::string trunk;                   ///< the value or node to put the new head on; empty: what the classifier reads
    std::string freeze = "none";         ///< none, trunk, names, or a number of stages: see graft::freeze
    std::vector<std::string> frozen;     ///< the weights that `names` freezes
    std::vector<named_rate> rates;       ///< factors on the learning rates of weights: see scale_rates
    double layer_decay = 1;              ///< what each stage's rate is of the next one's: see decay_rates
    bool quantize = false;               ///< the network learns with the rounding of eight bits, and is written in them: see set_up_finetuning
};

/// What `finetune` is told. The defaults are those of the program `graft finetune`.
struct finetune_options : trainer_options, transfer_options {};

GRAFT_END_NAMESPACE
