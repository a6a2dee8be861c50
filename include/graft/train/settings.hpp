// The settings of training with their defaults in words: what `graft finetune --help` and the docs print.
#pragma once

#include "../core/number_text.hpp"
#include "defaults.hpp"
#include "finetune.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// One setting of training.
struct training_setting {
    std::string option;      ///< of the program, such as "--trunk-rate"
    std::string field;       ///< of finetune_options; empty where only the program has it
    std::string by_default;  ///< what holds where nothing is given
    std::string what;        ///< a sentence
};

/// All settings that have a default, of fine-tuning, or of training `from_scratch`. The numbers are read off finetune_options and training_defaults.
std::vector<training_setting> training_settings(bool from_scratch = false);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>
#include <cstdio>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// "0.003", or "1/30" where digits do not end.
inline std::string setting_number(double value) {
    const double parts = value > 0 ? 1 / value : 0;
    const bool short_one = std::fabs(value * 1e6 - std::round(value * 1e6)) < 1e-6;
    if (!short_one && std::fabs(parts - std::round(parts)) < 1e-9)
        return number_text("1/%.0f", parts);
    return number_text("%.6g", value);
}

}  // namespace detail

GRAFT_INLINE std::vector<training_setting> training_settings(bool from_scratch) {
    using defaults = training_defaults;
    const finetune_options o;
    const auto number = [](double v) { return detail::setting_number(v); };
    const std::string augmentation = text(default_augmentation());
    schedule unwarmed = o.schedule;
    unwarmed.warmup = 0;
    const optimizer_options& p = o.step.optimizer;
    const loss_options& l = o.step.loss;
    std::vector<training_setting> all{
        {"--epochs", "epochs", std::to_string(o.epochs), "Passes over the training part"},
        {"--batch", "batch", from_scratch ? std::to_string(defaults::batch) : std::to_string(defaults::least_batch) + " to " + std::to_string(defaults::batch) + ", so that an epoch has " + std::to_string(defaults::updates) + " updates", "Pictures of one update, or auto: the fastest that fits"},
    };
    const std::string by_sgd = "; " + number(defaults::sgd_rate) + " with sgd";
    if (from_scratch)
        all.push_back({"--lr", "learning_rate", number(defaults::new_rate) + ", " + number(defaults::head_rate) + " for fewer than " + std::to_string(defaults::few_weights) + " weights" + by_sgd, "Learning rate"});
    else {
        all.push_back({"--lr", "learning_rate", number(defaults::head_rate) + by_sgd, "Learning rate of the head"});
        all.push_back({"--trunk-rate", "trunk_rate", number(defaults::trunk_share) + "; with batch normalisation " + number(defaults::normalized_share) + ", and " + number(defaults::small_share) + " for fewer than " + std::to_string(defaults::small_trunk) + " weights", "Learning rate of everything before the head, as a multiple of --lr"});
        all.push_back({"--trunk-lr", "", "--trunk-rate times --lr", "The same as a rate of its own"});
    }
    const std::vector<training_setting> learning{
        {"--rate", "rates", "none", "A factor on the rate of the weights whose names match, as REGEX=FACTOR; may be given again, the last match holds"},
        {"--layer-decay", "layer_decay", number(o.layer_decay), "Each stage, counted from the head, learns at so many times the rate of the next"},
        {"--optimizer", "step.optimizer.kind", name(p.kind), "sgd, adam or adamw"},
        {"--momentum", "step.optimizer.momentum", number(p.momentum), "Of sgd"},
        {"--nesterov", "step.optimizer.nesterov", p.nesterov ? "on" : "off", "Nesterov's momentum, of sgd"},
        {"--weight-decay", "step.optimizer.weight_decay", number(defaults::adamw_decay) + " with adamw, else 0", "Weight decay, as torch.optim has it"},
        {"--schedule", "schedule", text(unwarmed), "constant, step=EPOCHS:FACTOR, multistep=EPOCH/EPOCH:FACTOR, cosine, onecycle=PEAK:SHARE or plateau=FACTOR:PATIENCE"},
        {"--warmup", "schedule.warmup", number(o.schedule.warmup) + "; 0 with onecycle", "Linear warm-up: a share of all steps below 1, else steps"},
        {"--loss", "step.loss.kind", name(l.kind), "cross_entropy, bce_with_logits, focal, mse, l1 or huber"},
        {"--label-smoothing", "step.loss.label_smoothing", number(std::round(static_cast<double>(defaults::label_smoothing) * 1e6) / 1e6) + " with cross_entropy and focal, else 0", "Share of the target that is spread over all classes"},
        {"--class-weights", "step.loss.class_weights", "all 1", "balanced, or one weight for each class: W1:W2:..."},
        {"--focal-gamma", "step.loss.gamma", number(static_cast<double>(l.gamma)), "Of the focal loss"},
        {"--teacher", "teacher", "none", "A model of the same classes whose answers are learnt too"},
        {"--distillation", "step.loss.distillation", number(static_cast<double>(defaults::distillation)) + " with a teacher", "Share of the teacher's part in the loss"},
        {"--temperature", "step.loss.temperature", number(static_cast<double>(l.temperature)), "Of distillation"},
        {"--clip-norm", "step.optimizer.clip_norm", p.clip_norm > 0 ? number(p.clip_norm) : "not", "Scale gradients down to this norm"},
        {"--patience", "patience", o.patience > 0 ? std::to_string(o.patience) : "never", "Stop after so many epochs without a better score"},
    };
    all.insert(all.end(), learning.begin(), learning.end());
    if (!from_scratch) {
        all.push_back({"--freeze", "freeze", o.freeze, "none, trunk, a number of stages counted from the input, or a regular expression on weight names"});
        all.push_back({"--unfreeze-epoch", "unfreeze_epoch", "1/" + std::to_string(defaults::head_alone) + " of the epochs; 0 where the trunk is frozen", "The head learns alone for the first N epochs, then the trunk joins"});
    }
    const std::vector<training_setting> rest{
        {"--batch-norm", "step.batch_norm", o.step.batch_norm ? "train" : "frozen", "train: by the batch's statistics; frozen: by the running ones"},
        {"--ema", "step.optimizer.ema_decay", from_scratch ? "0: none" : number(defaults::ema), "Keep a running average of the weights, such as 0.999, and score and save that"},
        {"--preprocess", "preprocessing", from_scratch ? "the architecture's" : "the model's own; else the one of the named that suits its features best", "How pictures become tensors"},
        {"--augment", "augmentation", from_scratch ? "crops and flips; for lenet none" : augmentation + "; none where the trunk is frozen", "Random changes of training pictures, or none"},
        {"--mixup", "augmentation.mixup", "0: none", "MixUp of whole batches, Beta(ALPHA, ALPHA)"},
        {"--cutmix", "augmentation.cutmix", "0: none", "CutMix of whole batches, Beta(ALPHA, ALPHA)"},
        {"--validation", "", number(dataset_options().validation_fraction), "Share held out of each class where the data bring no validation part"},
        {"--workers", "workers", o.workers > 0 ? std::to_string(o.workers) : "as --threads", "Threads that load pictures"},
        {"--cache", "cache", "none", "Keep decoded pictures there between epochs and runs"},
        {"--bad-share", "bad_share", number(o.bad_share) + ", and one at least", "Share of the pictures that may be unreadable"},
        {"--checkpoint-every", "checkpoint_seconds", number(o.checkpoint_seconds), "Seconds between checkpoints, at most 30"},
        {"--max-ram", "max_ram", o.max_ram > 0 ? std::to_string(o.max_ram) : "as it comes", "What a step may take, such as 512M or 2G"},
        {"--shards", "step.shards", std::to_string(o.step.shards), "Parts of the fixed tree that sums over a batch are added in; a power of two"},
        {"--seed", "seed", std::to_string(o.seed), "Seed of everything random"},
    };
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
}

GRAFT_END_NAMESPACE
#endif
