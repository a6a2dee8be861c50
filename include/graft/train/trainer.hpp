// Fine-tuning from a dataset to a model: the loop over epochs, with scoring, checkpoints, logs and the best model.
#pragma once

#include "../data/augment_spec.hpp"
#include "../data/image_cache.hpp"
#include "../data/dataset.hpp"
#include "../data/preprocess_spec.hpp"
#include "evaluate.hpp"
#include "freeze.hpp"
#include "head.hpp"
#include "metrics.hpp"
#include "metrics_log.hpp"
#include "parameters.hpp"
#include "rates.hpp"
#include "schedule.hpp"
#include "step.hpp"
#include "teacher.hpp"

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
    std::int64_t batch = -1;           ///< samples of one update; below 0: 8 to 32, so that an epoch has 16 updates
    double learning_rate = -1;         ///< of the head, or of a new network; below 0: 0.003; 0.01 with sgd
    double trunk_rate = -1;            ///< of everything before the head, as a multiple of `learning_rate`; below 0: 1/30; with batch normalisation 0.1, and 0.3 for fewer than 1000000 weights
    graft::schedule schedule;          ///< default: cosine with a short warm-up
    step_options step;                 ///< loss, optimizer, shards, ...
    std::optional<graft::augmentation> augmentation;  ///< none given: default_augmentation(); nothing where the trunk is frozen
    preprocess_spec preprocess;
    std::int64_t unfreeze_epoch = -1;  ///< for so many epochs the head learns alone; below 0: 1/3 of the epochs; 0 where the trunk is frozen
    std::int64_t patience = 0;         ///< early stopping: epochs without a better score that are let pass; 0: never
    std::int64_t max_ram = 0;          ///< bytes that a step may take: fitted by computing again and in parts; 0: as it comes
    double bad_share = 0.01;           ///< of each part's pictures that may be unreadable: see allowed_bad
    std::shared_ptr<image_cache> cache;  ///< of decoded pictures; null: none
    double checkpoint_seconds = 20;    ///< between checkpoints, at most 30
    std::uint64_t seed = 0;
    int threads = 0;                   ///< of the step; 0: default_threads()
    int workers = 0;                   ///< of the loader; 0: as many as threads
    std::string out;                   ///< folder for what is written; empty: nothing is; one that holds a run is refused, but for
    bool resume = false;               ///< going on from its checkpoint (a folder without a run begins one), and for
    bool overwrite = false;            ///< replacing it: its own files go, others stay
    std::string command;               ///< for the report
    std::string precision = "auto";    ///< as the device of `step` was asked for it: a run goes on with the same
    std::string teacher;               ///< a model whose answers are learnt too, by its own preprocessing; see teacher_model and loss_options::distillation
    trainer_options() {
        schedule.kind = schedule_kind::cosine;
        schedule.warmup = 0.05;
        step.loss.label_smoothing = -1;    ///< below 0: 0.1 with cross_entropy and focal, else 0
        step.loss.distillation = -1;       ///< below 0: 0.5 with a teacher
        step.optimizer.weight_decay = -1;  ///< below 0: 0.01 with adamw, else 0
        step.optimizer.ema_decay = -1;     ///< below 0: 0.95
    }
};

/// Where a run is, for whoever shows it.
struct trainer_progress {
    std::int64_t epoch = 0, epochs = 0;   ///< epoch counts from 0
    std::int64_t step = 0, steps = 0;     ///< of this epoch
    double loss = 0, top1 = 0;            ///< of the training batches of this epoch so far; of the validation part in `on_epoch`
    double learning_rate = 0;
    double images_per_s = 0, seconds_left = 0;
    double wait_share = 0;                ///< share of the time that steps waited for data
    bool head_alone = false;              ///< whether the trunk does not learn yet
};

/// One epoch in numbers.
struct epoch_record {
    std::int64_t epoch = 0, step = 0;     ///< updates so far
    double training_loss = 0, training_top1 = 0;
    double loss = 0, top1 = 0, top5 = 0;  ///< of the validation part
    double balanced_accuracy = 0;         ///< mean recall of its classes
    double majority = 0;                  ///< share of its largest class: what always naming it would score
    double learning_rate = 0, seconds = 0, images_per_s = 0, wait_share = 0;
    bool best = false, head_alone = false;  ///< head_alone: the trunk did not learn yet
};

/// Whether a run goes on.
enum class training_verdict : std::uint8_t { go_on, stop };

/// Is told what happens, and may end the run. Called from the thread that trains. A run that is stopped writes its checkpoint and ends without
/// an error, see training_result::stopped; `resume` goes on from there to the bytes of one that was not.
class training_observer {
public:
    inline virtual ~training_observer() {}
    inline virtual void on_start(const step_memory&, std::int64_t) {}  ///< what a step needs, and how many weights learn
    inline virtual training_verdict on_step(const trainer_progress&) { return training_verdict::go_on; }
    inline virtual void on_validation(std::int64_t, std::int64_t) {}   ///< pictures done, of how many
    inline virtual training_verdict on_epoch(const epoch_record&) { return training_verdict::go_on; }
    /// May add figures of the epoch's training, such as what a device did, to what metrics.jsonl and TensorBoard get.
    inline virtual void add_figures(named_numbers&) {}
    inline virtual void on_note(const std::string&) {}                 ///< what was done to the network before it learns
    inline virtual void on_warning(const std::string&) {}
};

/// What came of a run.
struct training_result {
    double best_top1 = 0, best_loss = 0;
    std::int64_t best_epoch = -1, epochs = 0;  ///< epochs done, over all resumed parts
    double images_per_s = 0, wait_share = 0, seconds = 0;
    std::int64_t bad_pictures = 0;             ///< that could not be read, each counted once
    step_memory memory;
    std::vector<epoch_record> history;
    bool stopped = false;                      ///< by the observer, before it was over
    graft::graph network;                      ///< the best epoch's, with labels and preprocessing in its metadata; of a run that was
                                               ///< stopped, the best of the epochs that ended in this call, empty where none did
    evaluation_result validation;              ///< of that network
};

/// A network that is to learn, and how much of it.
struct training_network {
    graft::graph graph;
    value_id logits = no_value;
    std::vector<parameter> parameters;
    value_id features = no_value;              ///< what the head reads; no_value where there is no head apart
    std::int64_t fixed_batch = 0;              ///< above 0: it takes so many samples and no others; see step_options
};

/// The options with everything decided that they leave open, for a network of which it is said what learns, and so many training pictures.
/// `train` does this itself.
trainer_options settled(trainer_options options, const training_network& network, std::int64_t pictures);

/// Trains. Everything is a function of the options, the data and the instruction set: neither threads nor workers nor interruptions change
/// a byte of the result. With `out`, the folder gets model.onnx (renewed at every better epoch), checkpoint.safetensors, metrics.jsonl
/// and TensorBoard events. Errors: data.*, train.*, memory.*, checkpoint.*, resume.mismatch, file.write, usage.
result<training_result> train(training_network network, const dataset_splits& data, const trainer_options& options, training_observer& observer);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "trainer_body.hpp"
#endif
