// graft finetune and graft train: from a dataset to a model.
#include "batch_search.hpp"
#include "interrupt.hpp"
#include "training.hpp"

#include <graft/data/augment_spec.hpp>
#include <graft/data/splits.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace program {
namespace {

std::string plural(std::int64_t n, const char* one, const char* many) { return std::to_string(n) + " " + (n == 1 ? one : many); }

// Shows a run, and keeps what the report will tell.
class watcher final : public graft::training_observer {
public:
    watcher(const common_options& common, const training_setup& setup, const graft::trainer_options& with)
        : quiet_(common.quiet), screen_(common.quiet, common.color), setup_(setup), with_(with), gpu_(device_name(with.step.on)) {}

    void on_start(const graft::step_memory& memory, std::int64_t learning) override {
        // From here on there is something to keep.
        const bool bar = look_at(stderr, "auto").interactive;
        interrupt_ = std::make_unique<interrupt_guard>(
            quiet_ ? "" : std::string(bar ? "\n" : "graft: ") + "stopping as soon as the checkpoint is written; Ctrl-C again ends at once\n");
        std::int64_t all = 0;
        for (const graft::parameter& p : setup_.network.parameters) all += setup_.network.graph.at(p.id).constant.elements();
        screen_.note("network: " + setup_.source + ", " + count_text(learning) + " of " + count_text(all) + " weights learn" +
                     (with_.unfreeze_epoch <= 0              ? ""
                      : with_.unfreeze_epoch >= with_.epochs ? ", of these the head's alone"
                                                             : "; the head alone until epoch " + std::to_string(with_.unfreeze_epoch + 1)));
        std::string parts = bytes_text(memory.activations) + " of activations, " + bytes_text(memory.state) + " of weights and their optimizer's state";
        if (memory.constants) parts += ", " + bytes_text(memory.constants) + " of frozen weights";
        if (memory.device) parts += "; and " + bytes_text(memory.device) + " of the GPU's memory";
        screen_.note("memory:  a step of " + plural(with_.batch, "picture", "pictures") + " takes " + bytes_text(memory.total()) + ": " + parts);
    }
    graft::training_verdict on_step(const graft::trainer_progress& p) override {
        if (scoring_ && !epoch_) figures.features_seconds += (now_ms() - scoring_since_) / 1e3;
        scoring_ = false;
        if (p.steps > 0)
            figures.learning_rates.emplace_back(static_cast<double>(p.epoch) + static_cast<double>(p.step) / static_cast<double>(p.steps), p.learning_rate);
        training_figures at;
        at.epoch = p.epoch + 1, at.epochs = p.epochs, at.step = p.step, at.steps = p.steps;
        at.loss = p.loss, at.top1 = p.top1, at.images_per_s = p.images_per_s, at.data_wait = p.wait_share, at.seconds_left = p.seconds_left;
        if (p.members > 1) at.members_wait = p.members_wait_share;
        if (p.head_alone && with_.unfreeze_epoch < p.epochs) at.joins = with_.unfreeze_epoch + 1;
        epoch_ = p.epoch + 1;
        gpu_.poll();
        at.gpu = gpu_.latest();
        warn_if_lost();
        screen_.update(at);
        return judged();
    }
    void on_validation(std::int64_t done, std::int64_t of) override {
        if (!scoring_) scoring_ = true, scoring_since_ = now_ms(), scored_before_ = done;
        training_figures at;
        at.phase = epoch_ ? "validation" : "features";
        at.epoch = epoch_, at.epochs = epoch_ ? with_.epochs : 0, at.step = done, at.steps = of;
        const double seconds = (now_ms() - scoring_since_) / 1e3;
        if (seconds > 0 && done > scored_before_) at.images_per_s = static_cast<double>(done - scored_before_) / seconds;
        at.gpu = gpu_.latest();
        screen_.update(at);
    }
    graft::training_verdict on_epoch(const graft::epoch_record& r) override {
        if (scoring_) figures.scored_seconds += (now_ms() - scoring_since_) / 1e3;
        scoring_ = false;
        epoch_summary done;
        done.epoch = r.epoch + 1, done.epochs = with_.epochs, done.train_loss = r.training_loss, done.train_top1 = r.training_top1;
        if (uneven) done.val_balanced = r.balanced_accuracy, done.val_majority = r.majority;
        done.val_loss = r.loss, done.val_top1 = r.top1, done.learning_rate = r.learning_rate, done.images_per_s = r.images_per_s;
        done.data_wait = r.wait_share, done.seconds = r.seconds, done.best = r.best, done.head_alone = r.head_alone;
        if (!r.members.empty()) done.members_wait = graft::waiting_share(r.members);
        if (gpu_.watching()) {
            done.gpu = means_;
            figures.gpu.emplace_back(r.epoch, means_);
        }
        screen_.epoch_done(done);
        if (r.epoch + 1 == with_.unfreeze_epoch && r.epoch + 1 < with_.epochs)
            screen_.note("network: the trunk joins; from epoch " + std::to_string(r.epoch + 2) + " on it learns too");
        warn_if_waiting(r);
        warn_if_throttled(r);
        return judged();
    }
    void add_figures(graft::named_numbers& log) override {
        if (!gpu_.watching()) return;
        means_ = gpu_.take_means();
        log.emplace_back("gpu_utilization", means_.busy);
        log.emplace_back("gpu_memory_access", means_.memory_access);
        log.emplace_back("gpu_memory_bytes", means_.bytes);
        log.emplace_back("gpu_watts", means_.watts);
        log.emplace_back("gpu_celsius", means_.celsius);
        log.emplace_back("gpu_throttled", means_.throttled);
    }
    void on_warning(const std::string& text) override {
        constexpr std::size_t most = 20;
        if (figures.warnings.size() < most) screen_.note("warning: " + text);
        if (figures.warnings.size() == most) screen_.note("warning: more of them are not shown");
        figures.warnings.push_back(text);
    }
    void note(const std::string& text) { screen_.note(text); }
    void clear() { screen_.clear(); }
    /// The run is over: Ctrl-C does what it did before. Returns the signal that came, 0 where none did.
    int release() {
        const int caught = interrupt_ ? interrupt_->caught() : 0;
        interrupt_.reset();
        return caught;
    }

    run_figures figures;
    bool uneven = false;  ///< whether the classes that are scored by are

private:
    graft::training_verdict judged() const { return interrupt_ && interrupt_->caught() ? graft::training_verdict::stop : graft::training_verdict::go_on; }
    void warn_if_waiting(const graft::epoch_record& r) {
        // A quarter of an epoch, and not of one that is over at once.
        if (waiting_told_ || !on_gpu(with_.step.on) || r.wait_share < 0.25 || r.wait_share * r.seconds < 1) return;
        waiting_told_ = true;
        const int workers = with_.workers ? with_.workers : with_.threads;
        on_warning(device_name(with_.step.on) + " waited for pictures for " + formatted("%.0f %%", r.wait_share * 100) + " of epoch " +
                   std::to_string(r.epoch + 1) + ": give it more --workers (now " + std::to_string(workers) + ")" +
                   (with_.cache ? "" : ", a --cache DIR that keeps decoded pictures") + ", pictures that are stored smaller, or a cheaper --augment");
    }
    void warn_if_throttled(const graft::epoch_record& r) {
        if (throttling_told_ || !(means_.throttled >= 0.1)) return;
        throttling_told_ = true;
        const bool heat = means_.why == graft::gpu::throttle::heat;
        on_warning(device_name(with_.step.on) + " ran slower than it can for " + formatted("%.0f %%", means_.throttled * 100) + " of epoch " +
                   std::to_string(r.epoch + 1) +
                   (heat ? ", for heat (" + formatted("%.0f C", means_.celsius) + "): see to its cooling, or set it a lower power limit (nvidia-smi -pl)"
                         : ", since it or its power supply had to act: `nvidia-smi -q -d PERFORMANCE` tells more"));
    }
    void warn_if_lost() {
        if (lost_told_ || !gpu_.lost()) return;
        lost_told_ = true;
        on_warning(device_name(with_.step.on) + " no longer answers NVML: it is lost until the machine or the device is restarted; then go on with "
                                                "--resume, or on another --device");
    }

    const bool quiet_;
    training_progress screen_;
    std::unique_ptr<interrupt_guard> interrupt_;
    const training_setup& setup_;
    const graft::trainer_options& with_;
    gpu_use gpu_;
    gpu_figures means_;
    bool waiting_told_ = false, lost_told_ = false, throttling_told_ = false;
    std::int64_t epoch_ = 0;
    bool scoring_ = false;
    double scoring_since_ = 0;
    std::int64_t scored_before_ = 0;  ///< pictures when the clock was started
};

// The batch of the checkpoint that this run goes on from; 0 where there is none.
graft::result<std::int64_t> batch_of_checkpoint(const graft::trainer_options& with) {
    if (!with.resume) return 0;
    graft::loaded_checkpoint saved;
    GRAFT_TRY_ASSIGN(saved, graft::load_checkpoint(graft::join_path(with.out, "checkpoint.safetensors")));
    if (saved.found)
        for (const auto& s : saved.contents.settings)
            if (s.first == "batch") return std::strtoll(s.second.c_str(), nullptr, 10);
    return 0;
}

// Of --batch-per-device: the batch of all members together into with.batch, and what there is to tell. A run that goes on keeps its batch, so that it
// can with another number of members.
graft::status share_batch(const std::shared_ptr<graft::communicator>& group, graft::trainer_options& with, std::string& told) {
    const std::int64_t each = with.batch_per_device, members = graft::members_of(with.step);
    if (each <= 0) return {};
    std::int64_t saved = 0;
    if (!group || group->rank() == 0) GRAFT_TRY_ASSIGN(saved, batch_of_checkpoint(with));
    if (group) GRAFT_TRY(group->broadcast(&saved, sizeof saved, 0));
    with.batch = saved > 0 ? saved : each * members;
    with.batch_per_device = 0;
    told = plural(with.batch, "picture", "pictures") + " of one update";
    if (with.batch != each * members)
        told += ", as the run has it that goes on (--batch-per-device would make it " + std::to_string(each * members) + ")";
    else if (members > 1)
        told += ", " + std::to_string(each) + " for each of " + std::to_string(members) + (group ? " processes" : " replicas") +
                (members & (members - 1) ? " on average" : "");
    return {};
}

// For --batch auto: into with.batch. What the whole network needs once all of it learns is what has to fit.
graft::status choose_batch(const common_options& common, const training_setup& setup, const graft::dataset_splits& data, graft::trainer_options& with,
                           found_batch& found) {
    std::int64_t saved = 0;
    GRAFT_TRY_ASSIGN(saved, batch_of_checkpoint(with));
    if (saved > 0) {
        with.batch = found.batch = saved;
        return {};
    }
    measured_network net;
    net.graph = setup.network.graph;
    net.logits = setup.network.logits;
    net.parameters = setup.network.parameters;
    GRAFT_TRY_ASSIGN(net.batch, batch_shape_of(setup, data, 1));
    net.classes = static_cast<std::int64_t>(data.training.classes().size());
    GRAFT_TRY_ASSIGN(found, find_training_batch(common, net, with.step, data.training.size(), with.max_ram));
    with.batch = found.batch;
    return {};
}

void tell_data(watcher& watch, const common_options& common, const training_options& o, const graft::dataset_splits& data, const graft::trainer_options& with) {
    watch.uneven = graft::is_imbalanced(data.validation.class_counts());
    watch.note("data:    " + o.data + ", " + plural(static_cast<std::int64_t>(data.training.classes().size()), "class", "classes") + ", " +
               plural(data.training.size(), "picture", "pictures") + " to learn from, " + std::to_string(data.validation.size()) + " to score by" +
               (data.validation_given ? "" : " (drawn from each class by --seed)"));
    if (data.copies)
        watch.note("copies:  " + plural(data.copies, "picture is a copy of another", "pictures are copies of others") +
                   ": they are kept on one side of the draw (`graft check` lists them)");
    for (const graft::dataset_problem& p : data.training.problems()) watch.on_warning(p.path + ": " + p.detail);
    std::string spread_over;
    if (with.step.replicas) spread_over = ", " + plural(with.step.replicas->members(), "replica", "replicas");
    if (with.step.replicas && common.device.find(',') != std::string::npos) spread_over += " on " + common.device;
    if (with.step.central_variables && graft::members_of(with.step) > 1) spread_over += ", central variables";
    if (!with.step.stages.empty()) {
        spread_over = ", a pipeline of";
        for (std::size_t s = 0; s < with.step.stages.size(); ++s) spread_over += (s ? ", " : " ") + device_name(with.step.stages[s]);
        spread_over += " (" + plural(with.step.micro_batches, "part", "parts") + " a batch)";
    }
    watch.note("device:  " + device_and_precision(common, with.step.on) + spread_over + ", " + plural(with.threads, "thread", "threads"));
    const std::string changes = graft::text(*with.augmentation);
    const bool kept = !o.from_scratch && o.with.freeze == "trunk" && !graft::is_random(*with.augmentation);
    watch.note("changes: " + changes + (kept ? "; the trunk is frozen, so that its features are computed once and kept" : ""));
}

// What --scale-lr made of the rate.
void tell_scaled_rate(watcher& watch, const graft::trainer_options& with, double given, std::int64_t reference, double factor) {
    const graft::schedule& s = with.schedule;
    std::string warmed;
    if (s.warmup >= 1)
        warmed = ", reached behind a warm-up of " + plural(static_cast<std::int64_t>(s.warmup), "step", "steps");
    else if (s.warmup > 0)
        warmed = ", reached behind a warm-up of " + formatted("%g %%", s.warmup * 100) + " of the steps";
    watch.note("rate:    " + formatted("%.6g", with.learning_rate) + " for a batch of " + std::to_string(with.batch) + ": " + formatted("%.6g", given) +
               " is for " + std::to_string(reference) + warmed);
    if (factor > 1 && s.warmup <= 0 && s.kind != graft::schedule_kind::one_cycle)
        watch.on_warning("a learning rate that is scaled up wants a warm-up, and there is none: --warmup 0.1");
}

void print_result(const common_options& common, const graft::trainer_options& with, const graft::training_result& found, const training_fixes& fixes) {
    const terminal screen = look_at(stdout, common.color);
    const auto row = [&](const char* key, const std::string& value) {
        std::printf("%s  %s\n", styled(screen, style::dim, padded(key, 10)).c_str(), value.c_str());
    };
    char text[160];
    std::snprintf(text, sizeof text, ", loss %.4f, in epoch %lld of %lld", found.best_loss, static_cast<long long>(found.best_epoch + 1),
                  static_cast<long long>(found.epochs));
    const graft::classification_metrics& m = found.validation.metrics;
    const bool uneven = graft::is_imbalanced(m.supports());
    row("best",
        styled(screen, style::bold, percent_text(found.best_top1) + " top-1") + (uneven ? uneven_text(m.balanced_accuracy(), m.majority()) : "") + text);
    std::snprintf(text, sizeof text, "%s, %.*f images/s, %.0f %% of it waiting for data", clock_text(found.seconds).c_str(), found.images_per_s < 9.95 ? 1 : 0,
                  found.images_per_s, 100 * found.wait_share);
    row("training", text);
    if (!found.members.empty()) {
        const bool replicas = found.members.front().host.empty();
        row("members", std::to_string(found.members.size()) + (replicas ? " replicas" : " processes") + ", " +
                           formatted("%.0f %%", 100 * graft::waiting_share(found.members)) + " of their time waiting for each other, efficiency " +
                           formatted("%.0f %%", 100 * graft::scaling_efficiency(found.members)));
    }
    if (found.bad_pictures) row("left out", plural(found.bad_pictures, "picture that could not be read", "pictures that could not be read"));
    std::snprintf(text, sizeof text, "%.0f MB resident at most", peak_rss_mb());
    row("memory", text);
    const std::string model = graft::join_path(with.out, "model.onnx");
    row("model", printable(model));
    row("report", printable(graft::join_path(with.out, "report.html")));
    const auto proposed = static_cast<std::int64_t>(fixes.fixes.rows.size());
    if (proposed)
        row("fixes",
            plural(proposed, "picture may be", "pictures may be") + " in the wrong place: graft fix " + printable(shell_quoted(fixes.file)) + " --dry-run");
    std::printf("\nNext: graft classify %s PHOTO.jpg\n", printable(model).c_str());
}

void print_stopped(const common_options& common, const graft::trainer_options& with, const graft::training_result& found) {
    const terminal screen = look_at(stdout, common.color);
    std::string best;
    if (found.best_epoch >= 0) best = "; best " + percent_text(found.best_top1) + " top-1, in epoch " + std::to_string(found.best_epoch + 1);
    std::printf("%s  behind %lld of %lld epochs%s\n", styled(screen, style::dim, "stopped   ").c_str(), static_cast<long long>(found.epochs),
                static_cast<long long>(with.epochs), best.c_str());
    std::printf("%s  %s\n", styled(screen, style::dim, "checkpoint").c_str(), printable(graft::join_path(with.out, "checkpoint.safetensors")).c_str());
    std::printf("\nTo go on: %s\n", common.resume_command.c_str());
}

json members_json(const std::vector<graft::member_record>& members) {
    json all = json::array();
    for (const graft::member_record& m : members) {
        json one{{"rank", m.rank},
                 {"samples", m.samples},
                 {"images_per_s", m.images_per_s()},
                 {"busy_seconds", m.busy_seconds()},
                 {"waiting_share", m.waiting_share()}};
        if (!m.host.empty()) one["host"] = m.host;
        one["device"] = m.device, one["bytes"] = m.bytes;
        all.push_back(std::move(one));
    }
    return all;
}

json scaling_json(const std::vector<graft::scaling_row>& rows) {
    json all = json::array();
    for (const graft::scaling_row& r : rows)
        all.push_back({{"members", r.members},
                       {"kind", r.measured ? "measured" : "predicted"},
                       {"images_per_s", {r.least_images_per_s, r.most_images_per_s}},
                       {"efficiency", {r.least_efficiency, r.most_efficiency}}});
    return all;
}
json stages_json(const std::vector<graft::stage_record>& stages) {
    json all = json::array();
    for (const graft::stage_record& s : stages)
        all.push_back({{"device", s.device},
                       {"busy_seconds", s.busy < 0 ? json(nullptr) : json(s.busy)},
                       {"waiting_share", s.waiting_share() < 0 ? json(nullptr) : json(s.waiting_share())},
                       {"bytes", s.bytes}});
    return all;
}

void print_json(const common_options& common, const training_options& o, const training_setup& setup, const graft::dataset_splits& data,
                const graft::trainer_options& with, const graft::training_result& found, const found_batch& batch, const training_fixes* fixes) {
    json history = json::array();
    for (const graft::epoch_record& r : found.history)
        history.push_back({{"epoch", r.epoch + 1},
                           {"training_loss", r.training_loss},
                           {"training_top1", r.training_top1},
                           {"loss", r.loss},
                           {"top1", r.top1},
                           {"top5", r.top5},
                           {"balanced_accuracy", r.balanced_accuracy},
                           {"lr", r.learning_rate},
                           {"head_alone", r.head_alone},
                           {"seconds", r.seconds}});
    json object{{"best_top1", found.best_top1},
                {"best_loss", found.best_loss},
                {"balanced_accuracy", found.validation.metrics.balanced_accuracy()},
                {"majority", found.validation.metrics.majority()},
                {"never_predicted", named(data.training.classes(), found.validation.metrics.never_predicted())},
                {"best_epoch", found.best_epoch + 1},
                {"epochs", found.epochs},
                {"images_per_s", found.images_per_s},
                {"data_wait", found.wait_share},
                {"seconds", found.seconds},
                {"peak_rss_mb", peak_rss_mb()},
                {"batch", with.batch},
                {"step_bytes", found.memory.total()},
                {"device_bytes", found.memory.device},
                {"device", device_name(with.step.on)},
                {"replicas", with.step.replicas ? with.step.replicas->members() : 1},
                {"threads", with.threads},
                {"preprocess", graft::text(with.preprocess)},
                {"preprocess_assumed", setup.assumed},
                {"notes", setup.notes},
                {"classes", data.training.classes()},
                {"training_images", data.training.size()},
                {"validation_images", data.validation.size()},
                {"bad_images", found.bad_pictures},
                {"stopped", found.stopped},
                {"model", graft::join_path(o.out, "model.onnx")},
                {"history", history}};
    if (!found.members.empty()) {
        object["members"] = members_json(found.members);
        object["members_wait"] = graft::waiting_share(found.members);
        object["scaling_efficiency"] = graft::scaling_efficiency(found.members);
        object["scaling"] = scaling_json(graft::scaling_table(found.members));
    }
    if (!found.stages.empty()) object["stages"] = stages_json(found.stages);
    if (fixes && !fixes->file.empty()) object["fixes"] = json{{"file", fixes->file}, {"rows", fixes->fixes.rows.size()}};
    if (found.stopped) object["resume_command"] = common.resume_command;
    if (o.batch == batch_auto) object["batch_trials"] = tried_json(batch.tried);
    print(object);
}

// Before anything takes time. What the run is to learn from must not be what it replaces.
graft::status check_folder(const training_options& o) {
    GRAFT_TRY(graft::check_out(o.out, o.with.resume, o.with.overwrite));
    const std::string model = graft::join_path(o.out, "model.onnx");
    for (const std::string& given : {o.from, o.with.teacher}) {
        std::error_code none;
        if (o.with.overwrite && std::filesystem::equivalent(given, model, none))
            return graft::fail(graft::errc::usage, "--overwrite", printable(given) + " is part of the run that would be replaced: take another --out");
    }
    return {};
}

graft::result<int> train_once(common_options common, const training_options& options) {
    graft::trainer_options with;
    if (options.out.empty() && !options.find_lr)
        return graft::fail(graft::errc::usage, options.from_scratch ? "train" : "finetune", "--out is required: the folder for what is written");
    GRAFT_TRY_ASSIGN(with, trainer_options_of(common, options));
    std::shared_ptr<graft::communicator> group;
    GRAFT_TRY_ASSIGN(group, join_world(common, options.spread.timeout));
    const bool leads = !group || group->rank() == 0;
    if (group && (options.find_lr || options.batch == batch_auto))
        return graft::fail(graft::errc::usage, options.find_lr ? "--find-lr" : "--batch", "what is measured differs between processes: start one");
    if (!options.find_lr && leads) GRAFT_TRY(check_folder(options));
    std::vector<std::shared_ptr<graft::device>> devices;
    common.device = device_of_world(common, group.get());
    GRAFT_TRY_ASSIGN(devices, open_devices(common));
    GRAFT_TRY(spread(common, options.spread, group, std::move(devices), with.step));
    std::string shared;
    GRAFT_TRY(share_batch(group, with, shared));
    with.step.strict_placement = common.strict_placement;
    with.step.loss_scaling = with.step.on && common.precision == "float16";
    graft::dataset_options opening;
    opening.seed = common.seed;
    opening.validation_fraction = options.validation;
    opening.allow_empty = options.allow_empty;
    opening.threads = with.threads;
    graft::dataset_splits data;
    {
        dataset_bar bar("copies", common.quiet);
        opening.progress = bar.told();
        GRAFT_TRY_ASSIGN(data, graft::open_splits(options.data, opening));
    }
    GRAFT_TRY_ASSIGN(with.step.loss.class_weights, graft::class_weights(options.class_weights, data.training.class_counts(), "--class-weights"));
    if (!options.cache.empty()) GRAFT_TRY_ASSIGN(with.cache, graft::image_cache::open(options.cache));
    training_setup setup;
    GRAFT_TRY_ASSIGN(setup, set_up_training(options, data, with));
    setup.data = options.data;
    with.preprocess = setup.preprocess;
    // Rates are scaled by the batch once that is known.
    const std::int64_t reference = with.reference_batch;
    with.reference_batch = 0;
    with = graft::settled(std::move(with), setup.network, data.training.size());
    found_batch batch;
    if (options.batch == batch_auto) GRAFT_TRY(choose_batch(common, setup, data, with, batch));
    const double given_rate = with.learning_rate;
    with.reference_batch = reference;
    const double scaled = graft::scale_rates_by_batch(with);
    if (options.find_lr) return find_learning_rate(common, setup, data, with);

    watcher watch(common, setup, with);
    tell_data(watch, common, options, data, with);
    if (!shared.empty()) watch.note("batch:   " + shared);
    for (const std::string& note : setup.notes) watch.note("network: " + note);
    if (reference > 0) tell_scaled_rate(watch, with, given_rate, reference, scaled);
    const std::string rates = graft::rates_text(setup.network.parameters);
    if (!rates.empty()) watch.note("rates:   " + rates);
    graft::training_network network = setup.network;
    graft::training_result found;
    GRAFT_TRY_ASSIGN(found, graft::train(std::move(network), data, with, watch));
    const int signal = watch.release();
    watch.clear();
    if (!leads) return found.stopped ? exit_stopped + signal : exit_done;
    if (with.cache && !with.cache->trouble().empty()) watch.on_warning(with.cache->trouble());
    if (found.stopped) {
        if (common.json)
            print_json(common, options, setup, data, with, found, batch, nullptr);
        else
            print_stopped(common, with, found);
        return exit_stopped + signal;
    }
    training_options looking = options;
    if (group) looking.fixes = 0;  // the others would wait, longer than they do for each other
    training_fixes fixes;
    auto looked = find_fixes(common, looking, setup, data, with, found);
    if (looked.ok())
        fixes = std::move(looked).value();
    else
        watch.on_warning(std::string("nothing is proposed for the dataset: ") + looked.error().what());
    const std::string device = device_and_precision(common, with.step.on);
    GRAFT_TRY(write_run_record(setup, data, with, found, device));
    GRAFT_TRY(write_training_report(setup, data, with, found, watch.figures, fixes, device));
    if (common.json)
        print_json(common, options, setup, data, with, found, batch, &fixes);
    else
        print_result(common, with, found, fixes);
    return exit_done;
}

// Behind an error no process waits for another any more.
graft::result<int> train(common_options common, const training_options& options) {
    common.quiet |= is_follower();
    return end_or_part(train_once(common, options), options.spread.timeout);
}

// Declares either verb.
template <bool FromScratch>
action declare(option_list& list) {
    auto o = std::make_shared<training_options>();
    o->from_scratch = FromScratch;
    declare_training(list, *o);
    return [o](const common_options& common) { return train(common, *o); };
}

}  // namespace

verb finetune_verb() { return {"Turns a model and labelled pictures into a model of their classes", declare<false>}; }
verb train_verb() { return {"Trains an architecture from random weights", declare<true>}; }

}  // namespace program
