// graft_finetune: from a dataset and a model to a model, with what it has to tell.
#include "options.hpp"

#include <graft/core/directory.hpp>
#include <graft/train.hpp>

#include <filesystem>
#include <limits>

namespace bindings {
namespace {

// What graft_finetune is told, before it is what the library takes.
struct finetune_choice {
    graft::finetune_options with;
    graft::device_options on;
    std::string device = "auto", optimizer, schedule, loss, class_weights, batch_norm, augment, cache;
    double warmup = -1, validation = graft::dataset_options().validation_fraction;
};

// The settings that are plain numbers, flags and texts, by the options of the program; then those that are read into something else.
std::vector<option_row> finetune_rows(finetune_choice& to) {
    std::vector<option_row> rows;
    for (const graft::training_setting& s : graft::training_settings(to.with)) {
        if (s.option.empty()) continue;
        std::string name = s.option.substr(2);
        std::replace(name.begin(), name.end(), '-', '_');
        const graft::setting_place& at = s.place;
        if (at.as_bool) rows.push_back(option(name, *at.as_bool));
        // A whole number of which the row says nothing is the trainer's to judge.
        const bool said = s.low < s.high;
        const auto least = said ? static_cast<std::int64_t>(s.low) : 0, most = said ? static_cast<std::int64_t>(s.high) : std::numeric_limits<int>::max();
        if (at.as_int) rows.push_back(option(name, *at.as_int, least, most));
        if (at.as_int64) rows.push_back(option(name, *at.as_int64, least, most));
        if (at.as_double) rows.push_back(option(name, *at.as_double, s.low, s.high));
        if (at.as_float) rows.push_back(option(name, *at.as_float, s.low, s.high));
        if (at.as_string) rows.push_back(option(name, *at.as_string));
    }
    graft::finetune_options& with = to.with;
    for (option_row& row : std::vector<option_row>{
             option("batch", with.batch, 1, 65536), option("optimizer", to.optimizer), option("schedule", to.schedule), option("warmup", to.warmup, 0, 1e9),
             option("loss", to.loss), option("class_weights", to.class_weights), option("batch_norm", to.batch_norm), option("augment", to.augment),
             option("preprocess", with.preprocessing), option("validation", to.validation, 0.001, 0.9), option("cache", to.cache), option("seed", with.seed),
             option("threads", with.threads, 0, most_threads), option("exact", with.step.exact), option("device", to.device),
             option("precision", to.on.precision), option("deterministic", to.on.deterministic)})
        rows.push_back(std::move(row));
    return rows;
}

// A library's own parser says what it takes; the option says which it was.
template <class T>
graft::status parsed(const char* name, graft::result<T> result, T& to) {
    if (!result.ok()) {
        const graft::error& e = result.error();
        return e.code() == graft::errc::usage ? graft::fail(e.code(), name, e.where() + ": " + e.detail()) : result.take_status();
    }
    to = std::move(result).value();
    return {};
}

graft::status settle(finetune_choice& c) {
    graft::finetune_options& with = c.with;
    if (!c.optimizer.empty()) GRAFT_TRY(parsed("optimizer", graft::optimizer_of(c.optimizer), with.step.optimizer.kind));
    const double warmup = with.schedule.warmup;
    if (!c.schedule.empty()) {
        GRAFT_TRY(parsed("schedule", graft::parse_schedule(c.schedule), with.schedule));
        const bool named = c.schedule.find("warmup=") != std::string::npos;
        if (!named && with.schedule.kind != graft::schedule_kind::one_cycle) with.schedule.warmup = warmup;
    }
    if (c.warmup >= 0) with.schedule.warmup = c.warmup;
    if (!c.loss.empty()) GRAFT_TRY(parsed("loss", graft::loss_of(c.loss), with.step.loss.kind));
    if (!c.batch_norm.empty() && c.batch_norm != "train" && c.batch_norm != "frozen")
        return graft::fail(graft::errc::usage, "batch_norm", "it takes train or frozen, not \"" + graft::escape(c.batch_norm) + "\"");
    if (!c.batch_norm.empty()) with.step.batch_norm = c.batch_norm == "train";
    if (!c.augment.empty()) {
        graft::augmentation augmentation;
        GRAFT_TRY(parsed("augment", graft::parse_augmentation(c.augment), augmentation));
        with.augmentation = augmentation;
    }
    if (!c.cache.empty()) GRAFT_TRY_ASSIGN(with.cache, graft::image_cache::open(c.cache));
    GRAFT_TRY_ASSIGN(with.step.on, engine::open(c.device, c.on));
    with.precision = c.on.precision;
    with.step.loss_scaling = with.step.on && c.on.precision == "float16";
    return {};
}

// Tells the caller's function what the trainer tells.
class teller final : public graft::training_observer {
public:
    teller(graft_progress_function tell, void* context, std::int64_t epochs) : tell_(tell), context_(context) { at_.epochs = epochs, at_.text = ""; }

    graft::training_verdict on_step(const graft::trainer_progress& p) override {
        at_.epoch = p.epoch + 1, at_.epochs = p.epochs, at_.step = p.step, at_.steps = p.steps;
        at_.loss = p.loss, at_.top1 = p.top1, at_.learning_rate = p.learning_rate, at_.images_per_s = p.images_per_s, at_.seconds_left = p.seconds_left;
        return say(GRAFT_STEP);
    }
    void on_validation(std::int64_t done, std::int64_t of) override {
        at_.step = done, at_.steps = of;
        say(GRAFT_VALIDATION);
    }
    graft::training_verdict on_epoch(const graft::epoch_record& r) override {
        at_.epoch = r.epoch + 1, at_.loss = r.loss, at_.top1 = r.top1, at_.learning_rate = r.learning_rate, at_.images_per_s = r.images_per_s;
        return say(GRAFT_EPOCH);
    }
    void on_note(const std::string& text) override { say(GRAFT_NOTE, text.c_str()); }
    void on_warning(const std::string& text) override { say(GRAFT_WARNING, text.c_str()); }

private:
    // Who said stop once has said it for good: scoring cannot be left in its middle.
    graft::training_verdict say(graft_event event, const char* text = "") {
        at_.event = event, at_.text = text;
        if (tell_ && tell_(&at_, context_) != 0 && event != GRAFT_NOTE && event != GRAFT_WARNING) stop_ = true;
        return stop_ ? graft::training_verdict::stop : graft::training_verdict::go_on;
    }

    graft_progress_function tell_;
    void* context_;
    graft_progress at_{};
    bool stop_ = false;
};

// Before anything takes time. What the run is to learn from must not be what it replaces.
graft::status check_folder(const finetune_choice& c, const std::string& from) {
    GRAFT_TRY(graft::check_out(c.with.out, c.with.resume, c.with.overwrite));
    const std::string model = graft::join_path(c.with.out, "model.onnx");
    for (const std::string& given : {from, c.with.teacher}) {
        std::error_code none;
        if (c.with.overwrite && std::filesystem::equivalent(given, model, none))
            return graft::fail(graft::errc::usage, "overwrite", given + " is part of the run that would be replaced: take another folder");
    }
    return {};
}

void tell_result(const graft::training_result& found, const graft::dataset_splits& data, graft_training_result& to) {
    graft_training_result all{};
    all.best_top1 = found.best_top1, all.best_loss = found.best_loss, all.best_epoch = found.best_epoch + 1, all.epochs = found.epochs;
    all.images_per_s = found.images_per_s, all.seconds = found.seconds, all.bad_pictures = found.bad_pictures, all.stopped = found.stopped;
    all.training_pictures = data.training.size(), all.validation_pictures = data.validation.size();
    all.classes = static_cast<std::int64_t>(data.training.classes().size());
    hand_out(all, to);
}

graft::status finetune(const char* from, finetune_choice& c, const char* data, teller& told, graft_training_result* result) {
    graft::dataset_options opening;
    opening.seed = c.with.seed;
    opening.validation_fraction = c.validation;
    opening.threads = c.with.threads;
    graft::dataset_splits splits;
    GRAFT_TRY_ASSIGN(splits, graft::open_splits(data, opening));
    for (const graft::dataset_problem& p : splits.training.problems()) told.on_warning(p.path + ": " + p.detail);
    GRAFT_TRY_ASSIGN(c.with.step.loss.class_weights, graft::class_weights(c.class_weights, splits.training.class_counts(), "class_weights"));
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(from, graft::on_device(nullptr)));
    graft::training_result found;
    GRAFT_TRY_ASSIGN(found, graft::finetune(splits, model, c.with, told));
    if (result) tell_result(found, splits, *result);
    return {};
}

}  // namespace
}  // namespace bindings

extern "C" graft_return_code graft_finetune(const char* data, const char* from, const char* out, const graft_options* options, graft_progress_function progress,
                                            void* context, graft_training_result* result, graft_error** error) {
    return bindings::done(error, [&]() -> graft::status {
        GRAFT_TRY(bindings::wanted(data, "data"));
        GRAFT_TRY(bindings::wanted(from, "from"));
        GRAFT_TRY(bindings::wanted(out, "out"));
        if (!*out) return graft::fail(graft::errc::usage, "out", "it names the folder for what is written, and is empty");
        if (result) GRAFT_TRY(bindings::check_size(*result, "graft_training_result"));
        bindings::finetune_choice choice;
        GRAFT_TRY(bindings::take(options, bindings::finetune_rows(choice)));
        choice.with.out = out;
        GRAFT_TRY(bindings::check_folder(choice, from));
        GRAFT_TRY(bindings::settle(choice));
        bindings::teller told(progress, context, choice.with.epochs);
        return bindings::finetune(from, choice, data, told, result);
    });
}
