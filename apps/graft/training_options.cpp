// The options of finetune and train: their declaration, and what they mean to the trainer.
#include "training.hpp"
#include "training_flags.hpp"

#include <graft/train/settings.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
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
void declare_group(CLI::App& verb, training_options& o, const char* group) {
    const given_apart apart[] = {
        {"--trunk-lr", &o.trunk_lr, nullptr},          {"--warmup", &o.warmup, nullptr},       {"--mixup", &o.mixup, nullptr},           {"--cutmix", &o.cutmix, nullptr},
        {"--validation", &o.validation, nullptr},      {"--optimizer", nullptr, &o.optimizer}, {"--schedule", nullptr, &o.schedule},     {"--loss", nullptr, &o.loss},
        {"--class-weights", nullptr, &o.class_weights}, {"--batch-norm", nullptr, &o.batch_norm}, {"--preprocess", nullptr, &o.preprocess},
        {"--augment", nullptr, &o.augment},            {"--cache", nullptr, &o.cache},         {"--max-ram", nullptr, &o.max_ram}};
    for (const graft::training_setting& s : graft::training_settings(o.with, o.from_scratch)) {
        if (s.group != group || s.option.empty()) continue;
        const std::string told = s.what + (s.by_default.empty() ? "" : " (default: " + s.by_default + ")");
        const auto declare = [&](auto& to) {
            CLI::Option* made = verb.add_option(s.option, to, told)->group(group)->type_name(s.takes);
            if (s.low == s.high) return;
            if (std::is_integral<std::remove_reference_t<decltype(to)>>::value)
                made->check(CLI::Range(static_cast<int>(s.low), static_cast<int>(s.high)));
            else
                made->check(CLI::Range(s.low, s.high));
        };
        const graft::setting_place& at = s.place;
        const auto found = std::find_if(std::begin(apart), std::end(apart), [&](const given_apart& a) { return s.option == a.option; });
        if (at.as_bool) verb.add_flag(s.option, *at.as_bool, told)->group(group);
        else if (at.as_double) declare(*at.as_double);
        else if (at.as_float) declare(*at.as_float);
        else if (at.as_int64) declare(*at.as_int64);
        else if (at.as_int) declare(*at.as_int);
        else if (at.as_string) declare(*at.as_string);
        else if (s.option == "--batch") declare(o.batch);
        else if (s.option == "--rate") declare(o.rates);
        else if (found == std::end(apart)) throw std::logic_error(s.option + " goes nowhere");
        else if (found->number) declare(*found->number);
        else declare(*found->text);
    }
}

void declare_options(CLI::App& verb, training_options& o) {
    const char *learning = "Learning", *network = "Network", *data = "Data", *run = "Run";
    declare_group(verb, o, learning);
    verb.add_flag("--find-lr", o.find_lr, "Sweep the learning rate, draw the losses and which to take, and train nothing; without --out")->group(learning);
    declare_group(verb, o, network);
    declare_group(verb, o, data);
    verb.add_flag("--strict", o.strict, "Stop at the first unreadable picture")->group(data);
    verb.add_flag("--allow-empty", o.allow_empty, "Take classes without pictures")->group(data);
    declare_group(verb, o, run);

    const auto option = [&](const char* name) { return verb.get_option(name); };
    option("--batch")->transform(batch_or_auto());
    option("--rate")->expected(1)->take_all()->allow_extra_args(false);
    option("--batch-norm")->check(one_of({"train", "frozen"}));
    option("--shards")->check(CLI::IsMember({1, 2, 4, 8, 16, 32, 64, 128, 256}));
    option("--overwrite")->excludes(option("--resume"));
    if (!o.from_scratch) option("--trunk-rate")->excludes(option("--trunk-lr"));
    for (const char* taught : {"--distillation", "--temperature"}) option(taught)->needs(option("--teacher"));
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
    if (spec.empty()) spec = o.with.freeze == "trunk" ? "none" : "default";
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
    declare_options(verb, o);
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
    t.command = o.command;
    t.step.batch_norm = o.batch_norm == "train";
    t.step.exact = common.exact;
    t.precision = common.precision;
    return t;
}

} // namespace program
