// The options of finetune and train: their declaration, and what they mean to the trainer.
#include "training.hpp"
#include "training_flags.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>

namespace program {
namespace {

void declare_data(CLI::App& verb, training_options& o) {
    const char* group = "Data";
    const auto option = [&](const char* name, auto& to, const char* type, const std::string& what) {
        return verb.add_option(name, to, what)->group(group)->type_name(type);
    };
    option("--preprocess", o.preprocess, "SPEC",
           o.from_scratch ? "How pictures become tensors (default: the architecture's)"
                          : "How pictures become tensors (default: the model's own)");
    option("--augment", o.augment, "SPEC",
           "Random changes of training pictures, or none (default: crops and flips where that suits)");
    option("--mixup", o.mixup, "ALPHA", "MixUp of whole batches, Beta(ALPHA, ALPHA)")->check(CLI::Range(0.0, 100.0));
    option("--cutmix", o.cutmix, "ALPHA", "CutMix of whole batches, Beta(ALPHA, ALPHA)")->check(CLI::Range(0.0, 100.0));
    option("--validation", o.validation, "SHARE",
           "Share held out of each class where the data bring no validation part (default: 0.2)")
        ->check(CLI::Range(0.001, 0.9));
    option("--workers", o.workers, "N", "Threads that load pictures (default: as --threads)")->check(CLI::Range(0, 1024));
    option("--cache", o.cache, "DIR", "Keep decoded pictures there between epochs and runs");
    option("--bad-share", o.bad_share, "SHARE", "Share of the pictures that may be unreadable (default: 0.01, and one at least)")
        ->check(CLI::Range(0.0, 1.0));
    verb.add_flag("--strict", o.strict, "Stop at the first unreadable picture")->group(group);
    verb.add_flag("--allow-empty", o.allow_empty, "Take classes without pictures")->group(group);
}

void declare_network(CLI::App& verb, training_options& o) {
    const char* group = "Network";
    const auto option = [&](const char* name, auto& to, const char* type, const char* what) {
        return verb.add_option(name, to, what)->group(group)->type_name(type);
    };
    if (!o.from_scratch) {
        option("--output", o.output, "NAME", "The output that is the classifier's, of a network with several");
        option("--trunk", o.trunk, "NAME", "The value or node to put the new head on (default: what the classifier reads)");
        option("--freeze", o.freeze, "RULE",
               "none, trunk, a number of stages counted from the input, or a regular expression on weight names (default: none)");
        option("--unfreeze-epoch", o.unfreeze_epoch, "N", "Before this epoch the head alone learns (default: a third of the epochs; 0 with --freeze trunk)")
            ->check(CLI::Range(0, 1000000));
    }
    option("--batch-norm", o.batch_norm, "MODE", "train: by the batch's statistics; frozen: by the running ones (default: train)")
        ->check(CLI::IsMember({"train", "frozen"}));
    option("--ema", o.ema, "DECAY", "Keep a running average of the weights, such as 0.999, and score and save that (default: finetune 0.95, train 0: none)")
        ->check(CLI::Range(0.0, 0.999999));
}

void declare_learning(CLI::App& verb, training_options& o) {
    const char* group = "Learning";
    const auto option = [&](const char* name, auto& to, const char* type, const char* what) {
        return verb.add_option(name, to, what)->group(group)->type_name(type);
    };
    const CLI::Range positive(1e-12, 1e6), share(0.0, 1.0);
    option("--epochs", o.epochs, "N", "Passes over the training part (default: 10)")->check(CLI::Range(1, 1000000));
    option("--batch", o.batch, "B", "Pictures of one update, or auto: the fastest that fits (default: 32)")->transform(batch_or_auto());
    option("--lr", o.lr, "RATE",
           o.from_scratch ? "Learning rate (default: 0.001, 0.003 for lenet; 0.01 with sgd)"
                          : "Learning rate of the head (default: 0.003; 0.01 with sgd)")
        ->check(positive);
    if (!o.from_scratch) {
        CLI::Option* rate =
            option("--trunk-lr", o.trunk_lr, "RATE", "Learning rate of everything before the head (default: a hundredth of --lr)")
                ->check(CLI::Range(0.0, 1e6));
        option("--trunk-rate", o.trunk_rate, "FACTOR", "The same as a multiple of --lr (default: 1/30)")
            ->check(CLI::Range(0.0, 1e6))
            ->excludes(rate);
    }
    option("--optimizer", o.optimizer, "NAME", "sgd, adam or adamw (default: adamw)");
    option("--momentum", o.momentum, "M", "Of sgd (default: 0.9)")->check(share);
    verb.add_flag("--nesterov", o.nesterov, "Nesterov's momentum, of sgd")->group(group);
    option("--weight-decay", o.weight_decay, "W", "Default: 0.01 with adamw, else 0")->check(CLI::Range(0.0, 1e3));
    option("--schedule", o.schedule, "SPEC",
           "constant, step=EPOCHS:FACTOR, multistep=EPOCH/EPOCH:FACTOR, cosine, onecycle=PEAK:SHARE or plateau=FACTOR:PATIENCE "
           "(default: cosine)");
    option("--warmup", o.warmup, "W", "Linear warm-up: a share of all steps below 1, else steps (default: 0.05)")
        ->check(CLI::Range(0.0, 1e9));
    option("--loss", o.loss, "NAME", "cross_entropy, bce_with_logits, focal, mse, l1 or huber (default: cross_entropy)");
    option("--label-smoothing", o.label_smoothing, "S", "Default: 0.1, where the loss knows it")->check(CLI::Range(0.0, 0.99));
    option("--class-weights", o.class_weights, "W", "balanced, or one weight for each class: W1:W2:...");
    option("--focal-gamma", o.focal_gamma, "G", "Of the focal loss (default: 2)")->check(CLI::Range(0.0, 100.0));
    CLI::Option* teacher = option("--teacher", o.teacher, "MODEL", "A model of the same classes whose answers are learnt too");
    option("--distillation", o.distillation, "SHARE", "Share of the teacher's part in the loss (default with --teacher: 0.5)")
        ->check(share)
        ->needs(teacher);
    option("--temperature", o.temperature, "T", "Of distillation (default: 4)")->check(CLI::Range(0.01, 1000.0))->needs(teacher);
    option("--clip-norm", o.clip_norm, "NORM", "Scale gradients down to this norm (default: not)")->check(CLI::Range(0.0, 1e9));
    option("--patience", o.patience, "N", "Stop after so many epochs without a better score (default: never)")
        ->check(CLI::Range(0, 1000000));
    verb.add_flag("--find-lr", o.find_lr, "Sweep the learning rate, print which to take, and train nothing")->group(group);
}

void declare_run(CLI::App& verb, training_options& o) {
    const char* group = "Run";
    const auto option = [&](const char* name, auto& to, const char* type, const char* what) {
        return verb.add_option(name, to, what)->group(group)->type_name(type);
    };
    verb.add_flag("--resume", o.resume, "Go on from the folder's checkpoint, or begin where there is none")->group(group);
    option("--checkpoint-every", o.checkpoint_every, "S", "Seconds between checkpoints, at most 30 (default: 20)")
        ->check(CLI::Range(0.0, 30.0));
    option("--max-ram", o.max_ram, "SIZE", "What a step may take, such as 512M or 2G (default: as it comes)");
    option("--shards", o.shards, "S", "Parts of the fixed tree that sums over a batch are added in; a power of two (default: 8)")
        ->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64, 128, 256}));
}

graft::status wrong(const char* option, const graft::error& why) {
    if (why.code() != graft::errc::usage) return why;
    return graft::fail(graft::errc::usage, option, why.where() + ": " + why.detail());
}

graft::status set_learning(graft::trainer_options& t, const training_options& o) {
    auto optimizer = graft::optimizer_of(o.optimizer);
    if (!optimizer.ok()) return wrong("--optimizer", optimizer.error());
    graft::optimizer_options& how = t.step.optimizer;
    how.kind = *optimizer;
    how.momentum = o.momentum;
    how.nesterov = o.nesterov;
    const bool sgd = how.kind == graft::optimizer_kind::sgd;
    if (o.nesterov && (!sgd || o.momentum <= 0))
        return graft::fail(graft::errc::usage, "--nesterov", "it goes with --optimizer sgd and a momentum above 0");
    how.weight_decay = o.weight_decay >= 0 ? o.weight_decay : how.kind == graft::optimizer_kind::adamw ? 0.01 : 0;
    how.clip_norm = o.clip_norm;
    how.ema_decay = o.ema >= 0 ? o.ema : o.from_scratch ? 0 : 0.95;
    // A head, and a network as small as LeNet, learn best at three times the rate of large networks: measured.
    t.learning_rate = o.lr >= 0 ? o.lr : sgd ? 1e-2 : !o.from_scratch || o.arch == "lenet" ? 3e-3 : 1e-3;
    t.trunk_rate = o.from_scratch ? 1 : o.trunk_lr >= 0 ? o.trunk_lr / t.learning_rate : o.trunk_rate >= 0 ? o.trunk_rate : 1.0 / 30;
    auto schedule = graft::parse_schedule(o.schedule);
    if (!schedule.ok()) return wrong("--schedule", schedule.error());
    t.schedule = *schedule;
    const bool named = o.schedule.find("warmup=") != std::string::npos;
    if (o.warmup >= 0)
        t.schedule.warmup = o.warmup;
    else if (!named && t.schedule.kind != graft::schedule_kind::one_cycle)
        t.schedule.warmup = 0.05;
    if (t.schedule.warmup >= 1 && t.schedule.warmup != std::floor(t.schedule.warmup))
        return graft::fail(graft::errc::usage, "--warmup", "it is a share of all steps below 1, or a whole number of steps");
    return {};
}

graft::status set_loss(graft::trainer_options& t, const training_options& o) {
    auto loss = graft::loss_of(o.loss);
    if (!loss.ok()) return wrong("--loss", loss.error());
    graft::loss_options& l = t.step.loss;
    l.kind = *loss;
    const bool smooth = l.kind == graft::loss_kind::cross_entropy || l.kind == graft::loss_kind::focal;
    if (!smooth && o.label_smoothing > 0)
        return graft::fail(graft::errc::usage, "--label-smoothing", "it goes with cross_entropy and focal");
    if (!smooth && !o.class_weights.empty())
        return graft::fail(graft::errc::usage, "--class-weights", "they go with cross_entropy and focal");
    l.label_smoothing = static_cast<float>(!smooth ? 0 : o.label_smoothing >= 0 ? o.label_smoothing : 0.1);
    l.gamma = static_cast<float>(o.focal_gamma);
    l.distillation = static_cast<float>(o.teacher.empty() ? 0 : o.distillation >= 0 ? o.distillation : 0.5);
    l.temperature = static_cast<float>(o.temperature);
    t.teacher = o.teacher;
    return {};
}

graft::status set_augmentation(graft::trainer_options& t, const training_options& o) {
    std::string spec = o.augment;
    if (spec.empty()) {
        // Digits have a side on which they are right; small pictures lose too much in small crops.
        const bool cached = !o.from_scratch && o.freeze == "trunk" && o.unfreeze_epoch <= 0;
        spec = cached || o.arch == "lenet" ? "none"
               : o.arch == "resnet20"      ? "random_resized_crop=0.5:1:0.8:1.25,random_horizontal_flip"
                                           : "default";
    }
    if (o.mixup >= 0) spec += ",mixup=" + std::to_string(o.mixup);
    if (o.cutmix >= 0) spec += ",cutmix=" + std::to_string(o.cutmix);
    auto augmentation = graft::parse_augmentation(spec);
    if (!augmentation.ok()) return wrong("--augment", augmentation.error());
    t.augmentation = *augmentation;
    return {};
}

} // namespace

CLI::Validator batch_or_auto() {
    return CLI::Validator(
        [](std::string& text) {
            if (text == "auto") {
                text = std::to_string(batch_auto);
                return std::string();
            }
            const bool number = !text.empty() && text.size() <= 7 && text.find_first_not_of("0123456789") == std::string::npos;
            const int batch = number ? std::atoi(text.c_str()) : 0;
            return batch >= 1 && batch <= 1 << 20 ? std::string() : "it takes a number from 1 to 1048576, or auto, and not " + printable(text);
        },
        "");
}

void declare_training(CLI::App& verb, training_options& o) {
    verb.add_option("DATA", o.data, "Image folder, IDX or CIFAR files, or a CSV file")->required();
    if (o.from_scratch)
        verb.add_option("--arch", o.arch, "lenet, resnet20 or mobilenet_v2")->type_name("NAME")->required();
    else
        verb.add_option("--from", o.from, "The model whose trunk learns on")->type_name("MODEL")->required();
    verb.add_option("-o,--out", o.out,
                    "Folder for model.onnx, checkpoint.safetensors, metrics.jsonl, report.html and TensorBoard events")
        ->type_name("DIR")
        ->required();
    declare_learning(verb, o);
    declare_network(verb, o);
    declare_data(verb, o);
    declare_run(verb, o);
}

graft::result<graft::trainer_options> trainer_options_of(const common_options& common, const training_options& o) {
    graft::trainer_options t;
    GRAFT_TRY(set_learning(t, o));
    GRAFT_TRY(set_loss(t, o));
    GRAFT_TRY(set_augmentation(t, o));
    if (!o.preprocess.empty()) GRAFT_TRY_ASSIGN(t.preprocess, graft::parse_preprocess(o.preprocess));
    if (!o.max_ram.empty()) GRAFT_TRY_ASSIGN(t.max_ram, size_of_text(o.max_ram, "--max-ram"));
    t.epochs = o.epochs;
    t.batch = o.batch == batch_auto ? 8 : o.batch; // until it is found
    // A head that has learnt something first spoils less of the trunk: Kumar et al. (2022), and measured.
    t.unfreeze_epoch = o.unfreeze_epoch >= 0 ? o.unfreeze_epoch : o.from_scratch || o.freeze == "trunk" ? 0 : (o.epochs + 1) / 3;
    t.patience = o.patience;
    t.bad_share = o.strict ? 0 : o.bad_share;
    t.checkpoint_seconds = o.checkpoint_every;
    t.seed = common.seed;
    t.threads = thread_count(common);
    t.workers = o.workers;
    t.out = o.out;
    t.resume = o.resume;
    t.command = o.command;
    t.step.shards = o.shards;
    t.step.batch_norm = o.batch_norm == "train";
    t.step.exact = common.exact;
    t.precision = common.precision;
    return t;
}

} // namespace program
