// The options of finetune and train: their declaration, and what they mean to the trainer.
#include "training.hpp"

#include <graft/train/settings.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>

namespace program {
namespace {

// The options that the trainer takes in another form than they are given in, or not at all.
struct given_apart {
    const char* option;
    double* number;
    std::string* text;
};

// The options of a group, from the list that the docs print too.
void declare_group(option_list& list, training_options& o, const char* group) {
    const given_apart apart[] = {{"--trunk-lr", &o.trunk_lr, nullptr},
                                 {"--warmup", &o.warmup, nullptr},
                                 {"--mixup", &o.mixup, nullptr},
                                 {"--cutmix", &o.cutmix, nullptr},
                                 {"--validation", &o.validation, nullptr},
                                 {"--optimizer", nullptr, &o.optimizer},
                                 {"--schedule", nullptr, &o.schedule},
                                 {"--loss", nullptr, &o.loss},
                                 {"--class-weights", nullptr, &o.class_weights},
                                 {"--batch-norm", nullptr, &o.batch_norm},
                                 {"--preprocess", nullptr, &o.preprocess},
                                 {"--augment", nullptr, &o.augment},
                                 {"--cache", nullptr, &o.cache},
                                 {"--max-ram", nullptr, &o.max_ram}};
    list.group(group);
    for (const graft::training_setting& s : graft::training_settings(o.with, o.from_scratch)) {
        if (s.group != group || s.option.empty()) continue;
        const auto add = [&](auto& to) {
            list.add(s.option, to, s.what + (s.by_default.empty() ? "" : " (default: " + s.by_default + ")"), s.takes);
            if (s.low == s.high) return;
            if (std::is_integral<std::remove_reference_t<decltype(to)>>::value)
                list.within(static_cast<int>(s.low), static_cast<int>(s.high));
            else
                list.within(s.low, s.high);
        };
        const graft::setting_place& at = s.place;
        const auto found = std::find_if(std::begin(apart), std::end(apart), [&](const given_apart& a) { return s.option == a.option; });
        if (at.as_bool)
            add(*at.as_bool);
        else if (at.as_double)
            add(*at.as_double);
        else if (at.as_float)
            add(*at.as_float);
        else if (at.as_int64)
            add(*at.as_int64);
        else if (at.as_int)
            add(*at.as_int);
        else if (at.as_string)
            add(*at.as_string);
        else if (s.option == "--batch")
            add(o.batch);
        else if (s.option == "--rate")
            add(o.rates);
        else if (found == std::end(apart))
            throw std::logic_error(s.option + " goes nowhere");
        else if (found->number)
            add(*found->number);
        else
            add(*found->text);
    }
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
    if (graft::is_of_probabilities(l.kind)) return {};
    const std::string others = graft::joined_names(graft::loss_names(true), "and");
    if (l.label_smoothing > 0) return graft::fail(graft::errc::usage, "--label-smoothing", "it goes with " + others);
    if (!o.class_weights.empty()) return graft::fail(graft::errc::usage, "--class-weights", "they go with " + others);
    return {};
}

graft::status set_augmentation(graft::trainer_options& t, const training_options& o) {
    std::string spec = o.augment;
    // Digits have a side on which they are right; small pictures lose too much in small crops.
    if (spec.empty() && o.from_scratch)
        spec = o.arch == "lenet" ? "none" : o.arch == "resnet20" ? "random_resized_crop=0.5:1:0.8:1.25,random_horizontal_flip" : "default";
    const bool mixed = o.mixup >= 0 || o.cutmix >= 0;
    if (spec.empty() && !mixed) return {};
    if (spec.empty()) spec = o.with.freeze == "trunk" ? "none" : "default";
    if (o.mixup >= 0) spec += ",mixup=" + std::to_string(o.mixup);
    if (o.cutmix >= 0) spec += ",cutmix=" + std::to_string(o.cutmix);
    auto augmentation = graft::parse_augmentation(spec);
    if (!augmentation.ok()) return wrong("--augment", augmentation.error());
    t.augmentation = *augmentation;
    return {};
}

}  // namespace

void declare_training(option_list& list, training_options& o) {
    list.add("DATA", o.data, "Image folder, IDX or CIFAR files, or a CSV file").required();
    if (o.from_scratch)
        list.add("--arch", o.arch, "lenet, resnet20 or mobilenet_v2", "NAME").required().architecture();
    else
        list.add("--from", o.from, "The model whose trunk learns on", "MODEL").required();
    list.add("-o,--out", o.out,
             "Folder for model.onnx, checkpoint.safetensors, metrics.jsonl, report.html, fixes.csv and TensorBoard events; needed but with --find-lr", "DIR");
    declare_group(list, o, "Learning");
    list.add("--find-lr", o.find_lr, "Sweep the learning rate, draw the losses and which to take, and train nothing; without --out");
    declare_group(list, o, "Network");
    declare_group(list, o, "Data");
    list.add("--strict", o.strict, "Stop at the first unreadable picture");
    list.add("--allow-empty", o.allow_empty, "Take classes without pictures");
    declare_group(list, o, "Run");
    list.add("--fixes", o.fixes, "Pictures to look at again when all is learnt, for what fixes.csv proposes; 0 for none (default: 10000)", "N")
        .within(0, 1 << 30);
    declare_spread(list, o.spread);

    list.of("--batch").batch();
    list.of("--rate").repeatable();
    list.of("--batch-norm").one_of({"train", "frozen"});
    list.of("--optimizer").completes_to({"sgd", "adam", "adamw"});
    list.of("--loss").completes_to(graft::loss_names());
    list.of("--class-weights").completes_to({"balanced"});
    if (!o.from_scratch) list.of("--freeze").completes_to({"none", "trunk"});
    list.of("--shards").one_of_numbers({1, 2, 4, 8, 16, 32, 64, 128, 256});
    list.of("--batch-per-device").excludes("--batch");
    list.of("--find-lr").excludes("--scale-lr");
    list.of("--overwrite").excludes("--resume");
    if (!o.from_scratch) list.of("--trunk-rate").excludes("--trunk-lr");
    for (const char* taught : {"--distillation", "--temperature"}) list.of(taught).needs("--teacher");
}

graft::result<graft::trainer_options> trainer_options_of(const common_options& common, const training_options& o) {
    graft::trainer_options t = o.with;
    GRAFT_TRY(set_learning(t, o));
    GRAFT_TRY(set_loss(t, o));
    GRAFT_TRY(set_augmentation(t, o));
    if (!o.preprocess.empty()) GRAFT_TRY_ASSIGN(t.preprocess, graft::parse_preprocess(o.preprocess));
    if (!o.max_ram.empty()) GRAFT_TRY_ASSIGN(t.max_ram, size_of_text(o.max_ram, "--max-ram"));
    t.batch = o.batch == batch_auto ? 8 : o.batch;  // until it is found
    if (o.strict) t.bad_share = 0;
    t.seed = common.seed;
    t.threads = thread_count(common);
    t.out = o.out;
    t.command = common.command;
    t.step.batch_norm = o.batch_norm == "train";
    t.step.exact = common.exact;
    t.precision = common.precision;
    return t;
}

}  // namespace program
