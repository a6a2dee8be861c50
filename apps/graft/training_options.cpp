// The options of finetune and train: their declaration, and what they mean to the trainer.
#include "training.hpp"
#include "training_flags.hpp"

#include <graft/train/settings.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace program {
namespace {

using settings = std::vector<graft::training_setting>;

// The sentence of an option and its default, from the list that the docs print too.
std::string told(const settings& all, const std::string& option) {
    for (const graft::training_setting& s : all)
        if (s.option == option) return s.what + " (default: " + s.by_default + ")";
    return "";
}

void declare_data(CLI::App& verb, training_options& o, const settings& all) {
    const char* group = "Data";
    const auto option = [&](const char* name, auto& to, const char* type) {
        return verb.add_option(name, to, told(all, name))->group(group)->type_name(type);
    };
    option("--preprocess", o.preprocess, "SPEC");
    option("--augment", o.augment, "SPEC");
    option("--mixup", o.mixup, "ALPHA")->check(CLI::Range(0.0, 100.0));
    option("--cutmix", o.cutmix, "ALPHA")->check(CLI::Range(0.0, 100.0));
    option("--validation", o.validation, "SHARE")->check(CLI::Range(0.001, 0.9));
    option("--workers", o.with.workers, "N")->check(CLI::Range(0, 1024));
    option("--cache", o.cache, "DIR");
    option("--bad-share", o.with.bad_share, "SHARE")->check(CLI::Range(0.0, 1.0));
    verb.add_flag("--strict", o.strict, "Stop at the first unreadable picture")->group(group);
    verb.add_flag("--allow-empty", o.allow_empty, "Take classes without pictures")->group(group);
}

void declare_network(CLI::App& verb, training_options& o, const settings& all) {
    const char* group = "Network";
    const auto option = [&](const char* name, auto& to, const char* type) {
        return verb.add_option(name, to, told(all, name))->group(group)->type_name(type);
    };
    if (!o.from_scratch) {
        verb.add_option("--output", o.output, "The output that is the classifier's, of a network with several")->group(group)->type_name("NAME");
        verb.add_option("--trunk", o.trunk, "The value or node to put the new head on (default: what the classifier reads)")
            ->group(group)
            ->type_name("NAME");
        option("--freeze", o.freeze, "RULE");
        option("--unfreeze-epoch", o.with.unfreeze_epoch, "N")->check(CLI::Range(0, 1000000));
    }
    option("--batch-norm", o.batch_norm, "MODE")->check(one_of({"train", "frozen"}));
    option("--ema", o.with.step.optimizer.ema_decay, "DECAY")->check(CLI::Range(0.0, 0.999999));
}

void declare_learning(CLI::App& verb, training_options& o, const settings& all) {
    const char* group = "Learning";
    const auto option = [&](const char* name, auto& to, const char* type) {
        return verb.add_option(name, to, told(all, name))->group(group)->type_name(type);
    };
    const CLI::Range positive(1e-12, 1e6), share(0.0, 1.0);
    graft::optimizer_options& optimizer = o.with.step.optimizer;
    graft::loss_options& loss = o.with.step.loss;
    option("--epochs", o.with.epochs, "N")->check(CLI::Range(1, 1000000));
    option("--batch", o.batch, "B")->transform(batch_or_auto());
    option("--lr", o.with.learning_rate, "RATE")->check(positive);
    if (!o.from_scratch) {
        CLI::Option* rate = option("--trunk-lr", o.trunk_lr, "RATE")->check(CLI::Range(0.0, 1e6));
        option("--trunk-rate", o.with.trunk_rate, "FACTOR")->check(CLI::Range(0.0, 1e6))->excludes(rate);
    }
    option("--rate", o.rates, "REGEX=FACTOR")->expected(1)->take_all()->allow_extra_args(false);
    option("--layer-decay", o.with.layer_decay, "D")->check(CLI::Range(1e-6, 1.0));
    option("--optimizer", o.optimizer, "NAME");
    option("--momentum", optimizer.momentum, "M")->check(share);
    verb.add_flag("--nesterov", optimizer.nesterov, told(all, "--nesterov"))->group(group);
    option("--weight-decay", optimizer.weight_decay, "W")->check(CLI::Range(0.0, 1e3));
    option("--schedule", o.schedule, "SPEC");
    option("--warmup", o.warmup, "W")->check(CLI::Range(0.0, 1e9));
    option("--loss", o.loss, "NAME");
    option("--label-smoothing", loss.label_smoothing, "S")->check(CLI::Range(0.0, 0.99));
    option("--class-weights", o.class_weights, "W");
    option("--focal-gamma", loss.gamma, "G")->check(CLI::Range(0.0, 100.0));
    CLI::Option* teacher = option("--teacher", o.with.teacher, "MODEL");
    option("--distillation", loss.distillation, "SHARE")->check(share)->needs(teacher);
    option("--temperature", loss.temperature, "T")->check(CLI::Range(0.01, 1000.0))->needs(teacher);
    option("--clip-norm", optimizer.clip_norm, "NORM")->check(CLI::Range(0.0, 1e9));
    option("--patience", o.with.patience, "N")->check(CLI::Range(0, 1000000));
    verb.add_flag("--find-lr", o.find_lr, "Sweep the learning rate, draw the losses and which to take, and train nothing; without --out")->group(group);
}

void declare_run(CLI::App& verb, training_options& o, const settings& all) {
    const char* group = "Run";
    const auto option = [&](const char* name, auto& to, const char* type) {
        return verb.add_option(name, to, told(all, name))->group(group)->type_name(type);
    };
    CLI::Option* resume = verb.add_flag("--resume", o.resume, "Go on from the folder's checkpoint, or begin where there is no run")->group(group);
    verb.add_flag("--overwrite", o.overwrite, "Replace the run that the folder holds; other files there stay")->group(group)->excludes(resume);
    option("--checkpoint-every", o.with.checkpoint_seconds, "S")->check(CLI::Range(0.0, 30.0));
    option("--max-ram", o.max_ram, "SIZE");
    option("--shards", o.with.step.shards, "S")->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64, 128, 256}));
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
    if (how.nesterov && (how.kind != graft::optimizer_kind::sgd || how.momentum <= 0))
        return graft::fail(graft::errc::usage, "--nesterov", "it goes with --optimizer sgd and a momentum above 0");
    const double head_rate = t.learning_rate >= 0 ? t.learning_rate : graft::training_defaults::learning_rate(how.kind, true, 0);
    if (o.trunk_lr >= 0) t.trunk_rate = o.trunk_lr / head_rate;
    const double warmup = t.schedule.warmup;
    if (!o.schedule.empty()) {
        auto schedule = graft::parse_schedule(o.schedule);
        if (!schedule.ok()) return wrong("--schedule", schedule.error());
        t.schedule = *schedule;
    }
    const bool named = o.schedule.find("warmup=") != std::string::npos;
    if (o.warmup >= 0)
        t.schedule.warmup = o.warmup;
    else if (!named && t.schedule.kind != graft::schedule_kind::one_cycle)
        t.schedule.warmup = warmup;
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
    if (!smooth && l.label_smoothing > 0)
        return graft::fail(graft::errc::usage, "--label-smoothing", "it goes with cross_entropy and focal");
    if (!smooth && !o.class_weights.empty())
        return graft::fail(graft::errc::usage, "--class-weights", "they go with cross_entropy and focal");
    return {};
}

graft::status set_augmentation(graft::trainer_options& t, const training_options& o) {
    std::string spec = o.augment;
    // Digits have a side on which they are right; small pictures lose too much in small crops.
    if (spec.empty() && o.from_scratch)
        spec = o.arch == "lenet"      ? "none"
               : o.arch == "resnet20" ? "random_resized_crop=0.5:1:0.8:1.25,random_horizontal_flip"
                                      : "default";
    const bool mixed = o.mixup >= 0 || o.cutmix >= 0;
    if (spec.empty() && !mixed) return {};
    if (spec.empty()) spec = o.freeze == "trunk" ? "none" : "default";
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

CLI::Validator one_of(const std::vector<std::string>& words) {
    return CLI::Validator(
        [words](std::string& text) {
            if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
            std::string all;
            for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
            const std::string meant = graft::nearest_name(text, words);
            return "\"" + printable(text) + "\" is none of " + all + (meant.empty() ? "" : "; did you mean " + meant + "?");
        },
        "");
}

CLI::Validator architecture() {
    return CLI::Validator(
        [](std::string& text) {
            const std::vector<std::string> names = graft::architecture_names();
            if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
            graft::architecture_options how;
            return "\"" + printable(text) + "\": " + graft::build_architecture(text, how).error().detail();
        },
        "");
}

void declare_training(CLI::App& verb, training_options& o) {
    verb.add_option("DATA", o.data, "Image folder, IDX or CIFAR files, or a CSV file")->required();
    if (o.from_scratch)
        verb.add_option("--arch", o.arch, "lenet, resnet20 or mobilenet_v2")->type_name("NAME")->required()->check(architecture());
    else
        verb.add_option("--from", o.from, "The model whose trunk learns on")->type_name("MODEL")->required();
    verb.add_option("-o,--out", o.out,
                    "Folder for model.onnx, checkpoint.safetensors, metrics.jsonl, report.html and TensorBoard events; needed but with --find-lr")
        ->type_name("DIR");
    const settings all = graft::training_settings(o.from_scratch);
    declare_learning(verb, o, all);
    declare_network(verb, o, all);
    declare_data(verb, o, all);
    declare_run(verb, o, all);
}

graft::result<graft::trainer_options> trainer_options_of(const common_options& common, const training_options& o) {
    graft::trainer_options t = o.with;
    GRAFT_TRY(set_learning(t, o));
    GRAFT_TRY(set_loss(t, o));
    GRAFT_TRY(set_augmentation(t, o));
    if (!o.preprocess.empty()) GRAFT_TRY_ASSIGN(t.preprocess, graft::parse_preprocess(o.preprocess));
    if (!o.max_ram.empty()) GRAFT_TRY_ASSIGN(t.max_ram, size_of_text(o.max_ram, "--max-ram"));
    t.batch = o.batch == batch_auto ? 8 : o.batch; // until it is found
    if (o.strict) t.bad_share = 0;
    t.seed = common.seed;
    t.threads = thread_count(common);
    t.out = o.out;
    t.resume = o.resume;
    t.overwrite = o.overwrite;
    t.command = o.command;
    t.step.batch_norm = o.batch_norm == "train";
    t.step.exact = common.exact;
    t.precision = common.precision;
    return t;
}

} // namespace program
