// The settings of training, each in one row: its field, what a checkpoint keeps of it, and what `graft finetune --help` and the docs say.
#pragma once

#include "options.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Where the value of a setting lies: one of these is given, or none where it is no plain number, flag or text.
struct setting_place {
    double* as_double = nullptr;
    float* as_float = nullptr;
    std::int64_t* as_int64 = nullptr;
    int* as_int = nullptr;
    bool* as_bool = nullptr;
    std::string* as_string = nullptr;
};

/// One setting of training.
struct training_setting {
    std::string option;        ///< of the program, such as "--trunk-rate"; empty: it has none
    std::string field;         ///< of finetune_options; empty where only the program has it
    std::string by_default;    ///< what holds where nothing is given
    std::string what;          ///< a sentence
    std::string group;         ///< of `--help`; empty: the option is one of every verb
    std::string takes;         ///< what stands behind the option; empty: it is a flag
    double low = 0, high = 0;  ///< what a number may be; nothing is said where they are equal
    setting_place place;
    int position = 0;       ///< among the settings that a checkpoint keeps, from 1 and for ever; 0: it is not kept, as it changes no byte of the result
    std::string key, kept;  ///< its name there, and its value: numbers exact to the bit
};

/// All settings that have a default, of fine-tuning, or of training `from_scratch`. The numbers are read off finetune_options and training_defaults.
std::vector<training_setting> training_settings(bool from_scratch = false);
/// The same and those without an option of the program, of these options. What holds by default is told by those that are default-made.
std::vector<training_setting> training_settings(finetune_options& of, bool from_scratch = false);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/number_text.hpp"
#include "../core/suggest.hpp"
#include "../data/splits.hpp"
#include "defaults.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Exact to the bit.
inline std::string exact_text(double v) { return number_text("%a", v); }

// "0.003", or "1/30" where digits do not end.
inline std::string setting_number(double value) {
    const double parts = value > 0 ? 1 / value : 0;
    const bool short_one = std::fabs(value * 1e6 - std::round(value * 1e6)) < 1e-6;
    if (!short_one && std::fabs(parts - std::round(parts)) < 1e-9) return number_text("1/%.0f", parts);
    return number_text("%.6g", value);
}

// Builds a row. What is kept of a plain value, and its default in words, come of the value itself unless they are given.
class setting_row : public training_setting {
public:
    setting_row(const char* in, const char* option_name, const char* member, const char* type, const std::string& sentence) {
        group = in, option = option_name, field = member, takes = type, what = sentence;
    }
    explicit setting_row(const char* member) { field = member; }

    setting_row& at(double& v) { return place.as_double = &v, plain(exact_text(v), setting_number(v)); }
    setting_row& at(float& v) { return place.as_float = &v, plain(exact_text(static_cast<double>(v)), setting_number(static_cast<double>(v))); }
    setting_row& at(std::int64_t& v) { return place.as_int64 = &v, plain(std::to_string(v), std::to_string(v)); }
    setting_row& at(int& v) { return place.as_int = &v, plain(std::to_string(v), std::to_string(v)); }
    setting_row& at(bool& v) { return place.as_bool = &v, plain(v ? "1" : "0", v ? "on" : "off"); }
    setting_row& at(std::string& v) { return place.as_string = &v, plain(v, v); }
    setting_row& within(double least, double most) { return low = least, high = most, *this; }
    setting_row& usually(std::string words) { return by_default = std::move(words), *this; }
    setting_row& unless(bool not_there) { return not_there ? option.clear() : void(), *this; }
    setting_row& kept_as(int number, const char* name) { return position = number, key = name, *this; }
    setting_row& kept_as(int number, const char* name, std::string text) { return kept = std::move(text), kept_as(number, name); }

private:
    setting_row& plain(std::string exact, std::string words) { return kept = std::move(exact), usually(std::move(words)); }
};

}  // namespace detail

GRAFT_INLINE std::vector<training_setting> training_settings(finetune_options& of, bool from_scratch) {
    using defaults = training_defaults;
    using row = detail::setting_row;
    // Each field by its name, so that a new one does not compile before it has a place here. Without a row are where the run computes and writes
    // (`on`, `stages`, `stage_bytes`, `strict_placement`, `group`, `central_variables`, `overlap`, `trace` of a step, `replicas`, `threads`, `out`, `command`),
    // the weights that `freeze` names (`frozen`), what the trainer sets itself
    // (`step_seed`, `micro_batches`, `recompute`, `fixed_batch`), what `precision` is kept for (`loss_scaling`), and what serves comparisons (`reference`) or
    // belongs to the program that trains (`limits`, `operators`).
    auto& [epochs, batch, batch_per_device, rate, reference_batch, trunk_rate, schedule, step, augmentation, preprocess, unfreeze_epoch, patience, max_ram,
           bad_share, cache, checkpoint_seconds, seed, threads, workers, out, resume, overwrite, command, precision, trace, teacher] =
        static_cast<trainer_options&>(of);
    auto& [loss, optimizer, shards, batch_norm, step_seed, exact, reference, strict_placement, micro_batches, loss_scaling, recompute, fixed_batch, stages,
           stage_bytes, limits, on, operators, group, central_variables, overlap, recorder, replicas] = step;
    auto& [preprocessing, output, trunk, freeze, frozen, rates, layer_decay, quantize] = static_cast<transfer_options&>(of);
    auto& [kind, momentum, nesterov, beta1, beta2, epsilon, weight_decay, clip_norm, ema_decay] = optimizer;
    auto& [loss_name, label_smoothing, gamma, delta, class_weights, distillation, temperature] = loss;

    const auto number = [](double v) { return detail::setting_number(v); };
    const auto rounded = [&](float v) { return number(std::round(static_cast<double>(v) * 1e6) / 1e6); };
    const auto count_or = [](std::int64_t v, const char* word) { return v > 0 ? std::to_string(v) : word; };
    const char *learning = "Learning", *network = "Network", *data = "Data", *run = "Run", *elsewhere = "";
    graft::schedule unwarmed = schedule;
    unwarmed.warmup = 0;
    std::string weights;
    for (float v : class_weights) weights += (weights.empty() ? "" : " ") + detail::exact_text(static_cast<double>(v));
    const std::string by_sgd = "; " + number(defaults::sgd_rate) + " with sgd", most = std::to_string(defaults::batch);

    std::vector<training_setting> all{
        row(learning, "--epochs", "epochs", "N", "Passes over the training part").at(epochs).within(1, 1000000).kept_as(7, "epochs"),
        row(learning, "--batch", "batch", "B", "Pictures of one update, or auto: the fastest that fits")
            .kept_as(8, "batch", std::to_string(batch))
            .usually(from_scratch
                         ? most
                         : std::to_string(defaults::least_batch) + " to " + most + ", so that an epoch has " + std::to_string(defaults::updates) + " updates"),
        row(learning, "--batch-per-device", "batch_per_device", "B", "Pictures of one update for each process or replica: --batch is as many times that")
            .at(batch_per_device)
            .within(1, 65536)
            .usually("--batch is shared out"),
        row(learning, "--lr", "learning_rate", "RATE", from_scratch ? "Learning rate" : "Learning rate of the head")
            .at(rate)
            .within(1e-12, 1e6)
            .kept_as(12, "lr")
            .usually((from_scratch ? number(defaults::new_rate) + ", " + number(defaults::head_rate) + " for fewer than " +
                                         std::to_string(defaults::few_weights) + " weights"
                                   : number(defaults::head_rate)) +
                     by_sgd + (from_scratch ? "" : "; " + number(defaults::trained_share) + " of that where --quantize keeps the head")),
        row(learning, "--scale-lr", "reference_batch", "B", "Rates are given for a batch of B: they are multiplied by --batch / B")
            .at(reference_batch)
            .within(1, 1 << 24)
            .usually("as they are given"),
        row(learning, "--trunk-lr", "", "RATE", "The same as a rate of its own").unless(from_scratch).within(0, 1e6).usually("--trunk-rate times --lr"),
        row(learning, "--trunk-rate", "trunk_rate", "FACTOR", "Learning rate of everything before the head, as a multiple of --lr")
            .unless(from_scratch)
            .at(trunk_rate)
            .within(0, 1e6)
            .kept_as(13, "trunk rate")
            .usually(number(defaults::trunk_share) + "; with batch normalisation " + number(defaults::normalized_share) + ", and " +
                     number(defaults::small_share) + " for fewer than " + std::to_string(defaults::small_trunk) + " weights"),
        row(learning, "--rate", "rates", "REGEX=FACTOR",
            "A factor on the rate of the weights whose names match, as REGEX=FACTOR; may be given again, the last match holds")
            .usually("none"),
        row(learning, "--layer-decay", "layer_decay", "D", "Each stage, counted from the head, learns at so many times the rate of the next")
            .at(layer_decay)
            .within(1e-6, 1),
        row(learning, "--optimizer", "step.optimizer.kind", "NAME", "sgd, adam or adamw").kept_as(16, "optimizer", name(kind)).usually(name(kind)),
        row(learning, "--momentum", "step.optimizer.momentum", "M", "Of sgd").at(momentum).within(0, 1).kept_as(17, "momentum"),
        row(learning, "--nesterov", "step.optimizer.nesterov", "", "Nesterov's momentum, of sgd")
            .at(nesterov)
            .kept_as(18, "nesterov", detail::exact_text(nesterov)),
        row("step.optimizer.beta1").at(beta1).kept_as(19, "beta1"),
        row("step.optimizer.beta2").at(beta2).kept_as(20, "beta2"),
        row("step.optimizer.epsilon").at(epsilon).kept_as(21, "epsilon"),
        row(learning, "--weight-decay", "step.optimizer.weight_decay", "W", "Weight decay, as torch.optim has it")
            .at(weight_decay)
            .within(0, 1e3)
            .kept_as(22, "weight decay")
            .usually(number(defaults::adamw_decay) + " with adamw, else 0"),
        row(learning, "--schedule", "schedule", "SPEC",
            "constant, step=EPOCHS:FACTOR, multistep=EPOCH/EPOCH:FACTOR, cosine, onecycle=PEAK:SHARE or plateau=FACTOR:PATIENCE")
            .kept_as(15, "schedule", text(schedule))
            .usually(text(unwarmed)),
        row(learning, "--warmup", "schedule.warmup", "W", "Linear warm-up: a share of all steps below 1, else steps")
            .within(0, 1e9)
            .usually(number(schedule.warmup) + "; 0 with onecycle"),
        row(learning, "--loss", "step.loss.kind", "NAME", joined_names(loss_names(), "or")).kept_as(26, "loss", name(loss_name)).usually(name(loss_name)),
        row(learning, "--label-smoothing", "step.loss.label_smoothing", "S", "Share of the target that is spread over all classes")
            .at(label_smoothing)
            .within(0, 0.99)
            .kept_as(27, "label smoothing")
            .usually(rounded(defaults::label_smoothing) + " with " + joined_names(loss_names(true), "and") + ", else 0"),
        row(learning, "--class-weights", "step.loss.class_weights", "W", "balanced, or one weight for each class: W1:W2:...")
            .kept_as(32, "class weights", weights)
            .usually("all 1"),
        row(learning, "--focal-gamma", "step.loss.gamma", "G", "Of the focal loss").at(gamma).within(0, 100).kept_as(28, "focal gamma"),
        row("step.loss.delta").at(delta).kept_as(29, "huber delta"),
        row(learning, "--teacher", "teacher", "MODEL", "A model of the same classes whose answers are learnt too").at(teacher).usually("none"),
        row(learning, "--distillation", "step.loss.distillation", "SHARE", "Share of the teacher's part in the loss")
            .at(distillation)
            .within(0, 1)
            .kept_as(30, "distillation")
            .usually(number(static_cast<double>(defaults::distillation)) + " with a teacher"),
        row(learning, "--temperature", "step.loss.temperature", "T", "Of distillation").at(temperature).within(0.01, 1000).kept_as(31, "temperature"),
        row(learning, "--clip-norm", "step.optimizer.clip_norm", "NORM", "Scale gradients down to this norm")
            .at(clip_norm)
            .within(0, 1e9)
            .kept_as(23, "clip norm")
            .usually(clip_norm > 0 ? number(clip_norm) : "not"),
        row(learning, "--patience", "patience", "N", "Stop after so many epochs without a better score")
            .at(patience)
            .within(0, 1000000)
            .kept_as(36, "patience")
            .usually(count_or(patience, "never")),
        row(network, "--output", "output", "NAME", "The output that is the classifier's, of a network with several").unless(from_scratch).at(output),
        row(network, "--trunk", "trunk", "NAME", "The value or node to put the new head on")
            .unless(from_scratch)
            .at(trunk)
            .usually("what the classifier reads"),
        row(network, "--quantize", "quantize", "", "Learn with the rounding of eight bits, and write the model in them").unless(from_scratch).at(quantize),
        row(network, "--freeze", "freeze", "RULE", "none, trunk, a number of stages counted from the input, or a regular expression on weight names")
            .unless(from_scratch)
            .at(freeze),
        row(network, "--unfreeze-epoch", "unfreeze_epoch", "N", "The head learns alone for the first N epochs, then the trunk joins")
            .unless(from_scratch)
            .at(unfreeze_epoch)
            .within(0, 1000000)
            .kept_as(35, "unfreeze epoch")
            .usually("1/" + std::to_string(defaults::head_alone) + " of the epochs; 0 where the trunk is frozen or the head is kept"),
        row(network, "--batch-norm", "step.batch_norm", "MODE", "train: by the batch's statistics; frozen: by the running ones")
            .kept_as(37, "batch norm", batch_norm ? "1" : "0")
            .usually(batch_norm ? "train" : "frozen"),
        row(network, "--ema", "step.optimizer.ema_decay", "DECAY", "Keep a running average of the weights, such as 0.999, and score and save that")
            .at(ema_decay)
            .within(0, 0.999999)
            .kept_as(24, "ema")
            .usually(from_scratch ? "0: none" : number(defaults::ema)),
        row(data, "--preprocess", "preprocessing", "SPEC", "How pictures become tensors")
            .usually(from_scratch ? "the architecture's" : "the model's own; else the one of the named that suits its features best"),
        row(data, "--augment", "augmentation", "SPEC", "Random changes of training pictures, or none")
            .kept_as(33, "augmentation", augmentation ? text(*augmentation) : "")
            .usually(from_scratch ? "crops and flips; for lenet none" : text(default_augmentation()) + "; none where the trunk is frozen"),
        row(data, "--mixup", "augmentation.mixup", "ALPHA", "MixUp of whole batches, Beta(ALPHA, ALPHA)").within(0, 100).usually("0: none"),
        row(data, "--cutmix", "augmentation.cutmix", "ALPHA", "CutMix of whole batches, Beta(ALPHA, ALPHA)").within(0, 100).usually("0: none"),
        row(data, "--validation", "", "SHARE", "Share held out of each class where the data bring no validation part")
            .within(0.001, 0.9)
            .usually(number(dataset_options().validation_fraction)),
        row(data, "--workers", "workers", "N", "Threads that load pictures").at(workers).within(0, 1024).usually(count_or(workers, "as --threads")),
        row(data, "--cache", "cache", "DIR", "Keep decoded pictures there between epochs and runs").usually("none"),
        row(data, "--bad-share", "bad_share", "SHARE", "Share of the pictures that may be unreadable")
            .at(bad_share)
            .within(0, 1)
            .usually(number(bad_share) + ", and one at least"),
        row(run, "--resume", "resume", "", "Go on from the folder's checkpoint, or begin where there is no run").at(resume).usually(""),
        row(run, "--overwrite", "overwrite", "", "Replace the run that the folder holds; other files there stay").at(overwrite).usually(""),
        row(run, "--checkpoint-every", "checkpoint_seconds", "S", "Seconds between checkpoints, at most 30").at(checkpoint_seconds).within(0, 30),
        row(run, "--trace", "trace", "FILE", "Write there when the nodes of 20 steps ran and what was exchanged meanwhile, for Perfetto or chrome://tracing")
            .at(trace)
            .usually("none"),
        // The parts of a batch are equal to the whole to the bit only where sums keep their order.
        row(run, "--max-ram", "max_ram", "SIZE", "What a step may take, such as 512M or 2G")
            .kept_as(exact ? 0 : 40, "max ram", std::to_string(max_ram))
            .usually(count_or(max_ram, "as it comes")),
        row(run, "--shards", "step.shards", "S", "Parts of the fixed tree that sums over a batch are added in; a power of two").at(shards).kept_as(9, "shards"),
        row(elsewhere, "--seed", "seed", "N", "Seed of everything random")
            .kept_as(10, "seed", std::to_string(static_cast<std::int64_t>(seed)))
            .usually(std::to_string(seed)),
        row("step.exact").at(exact).kept_as(38, "exact"),
        row("precision").at(precision).kept_as(39, "precision"),
    };
    return all;
}

GRAFT_INLINE std::vector<training_setting> training_settings(bool from_scratch) {
    finetune_options by_default;
    std::vector<training_setting> all = training_settings(by_default, from_scratch);
    all.erase(std::remove_if(all.begin(), all.end(), [](const training_setting& s) { return s.option.empty() || s.by_default.empty(); }), all.end());
    for (training_setting& s : all) s.place = {};
    return all;
}

GRAFT_END_NAMESPACE
#endif
