// report.html of a run: what the trainer found, with pictures.
#include "training.hpp"

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

constexpr std::size_t most_wrong_shown = 12;

// A name as short as it stays clear: the path below the dataset.
std::string short_name(const std::string& path) {
    std::size_t from = path.size();
    for (int parts = 0; parts < 2 && from != std::string::npos && from > 0; ++parts) from = path.find_last_of('/', from - 1);
    return from == std::string::npos || from == 0 ? path : path.substr(from + 1);
}

graft::report_picture picture_of(const graft::dataset& data, const graft::scored_picture& scored) {
    graft::report_picture p;
    p.path = short_name(data.name(scored.index));
    p.truth = scored.label;
    p.predicted = scored.predicted;
    p.probability = static_cast<double>(scored.probability);
    p.loss = static_cast<double>(scored.loss);
    auto read = data.read(scored.index);
    if (read.ok()) p.picture = std::move(read).value();
    return p;
}

void add_wrong(graft::training_report& report, const graft::dataset& data, const graft::evaluation_result& scored) {
    for (const graft::scored_picture& wrong : graft::most_wrong(scored, most_wrong_shown)) {
        graft::report_picture p = picture_of(data, wrong);
        if (p.picture) report.wrong.push_back(std::move(p));
    }
}

// Pictures to show with a map: of each class one that was answered rightly, and the surest mistakes.
std::vector<const graft::scored_picture*> for_maps(const graft::evaluation_result& scored, std::size_t most) {
    std::vector<const graft::scored_picture*> right, wrong, chosen;
    std::vector<std::int32_t> seen;
    for (const graft::scored_picture& p : scored.pictures) {
        if (p.label != p.predicted) {
            wrong.push_back(&p);
            continue;
        }
        if (std::find(seen.begin(), seen.end(), p.label) != seen.end()) continue;
        seen.push_back(p.label);
        right.push_back(&p);
    }
    std::stable_sort(wrong.begin(), wrong.end(), [](const auto* a, const auto* b) { return a->probability > b->probability; });
    const std::size_t mistakes = std::min(wrong.size(), std::max(most / 3, most - std::min(most, right.size())));
    for (std::size_t i = 0; i < right.size() && chosen.size() + mistakes < most; ++i) chosen.push_back(right[i]);
    for (std::size_t i = 0; i < mistakes; ++i) chosen.push_back(wrong[i]);
    return chosen;
}

graft::input_format input_of(const graft::graph& g) {
    for (graft::value_id id : g.inputs) {
        const graft::value& v = g.at(id);
        if (!v.constant) return {v.type, v.extents, true};
    }
    return {};
}

graft::status add_maps(graft::training_report& report, const training_setup& setup, const graft::dataset& data, const graft::trainer_options& with,
                       const graft::training_result& found) {
    const graft::graph& network = found.network;
    const graft::input_format format = input_of(network);
    if (format.extents.rank() > 0 && format.extents[0] > 1)
        return graft::fail(graft::errc::input_shape, network.name,
                           "the network is fixed to batches of " + std::to_string(format.extents[0]) + ", and a map takes one picture");
    const graft::value_id logits = graft::logits_of(network);
    graft::pool_executor pool(with.threads);
    graft::grad_cam cam;
    bool planned = false;
    for (const graft::scored_picture* scored : for_maps(found.validation, 8)) {
        graft::report_picture p = picture_of(data, *scored);
        if (!p.picture) continue;
        graft::tensor input, map;
        graft::image seen;
        GRAFT_TRY_ASSIGN(seen, graft::resize_and_crop(p.picture, setup.preprocess, format));
        GRAFT_TRY_ASSIGN(input, graft::to_tensor(seen, setup.preprocess, format));
        if (!planned) {
            graft::feature_map features;
            GRAFT_TRY_ASSIGN(features, graft::find_feature_map(network, logits, input.shape(), pool));
            GRAFT_TRY_ASSIGN(cam, graft::grad_cam::make(network, features, logits, input.shape(), pool));
        }
        planned = true;
        GRAFT_TRY_ASSIGN(map, cam.map(input, scored->predicted));
        GRAFT_TRY_ASSIGN(p.picture, graft::overlay_heat_map(seen, map.data<float>(), map.shape()[0], map.shape()[1]));
        report.maps.push_back(std::move(p));
    }
    return {};
}

std::string number_text(double v) { return formatted("%g", v); }

graft::report_rows settings_of(const training_setup& setup, const graft::trainer_options& o) {
    const graft::optimizer_options& p = o.step.optimizer;
    graft::report_rows rows;
    std::string optimizer = graft::name(p.kind);
    if (p.kind == graft::optimizer_kind::sgd) optimizer += ", momentum " + number_text(p.momentum) + (p.nesterov ? " (Nesterov)" : "");
    rows.emplace_back("optimizer", optimizer + ", weight decay " + number_text(p.weight_decay));
    std::string rate = number_text(o.learning_rate);
    if (setup.network.features != graft::no_value && o.trunk_rate != 1)
        rate += " for the head, " + number_text(o.learning_rate * o.trunk_rate) + " for the trunk";
    rows.emplace_back("learning rate", rate);
    const std::string rates = graft::rates_text(setup.network.parameters);
    if (!rates.empty()) rows.emplace_back("rates by layer", rates);
    rows.emplace_back("schedule", graft::text(o.schedule));
    std::string loss = graft::name(o.step.loss.kind);
    if (o.step.loss.label_smoothing > 0) loss += ", label smoothing " + number_text(static_cast<double>(o.step.loss.label_smoothing));
    if (!o.step.loss.class_weights.empty()) loss += ", with class weights";
    if (o.step.loss.distillation > 0) loss += ", " + number_text(static_cast<double>(o.step.loss.distillation)) + " of it from " + o.teacher;
    rows.emplace_back("loss", loss);
    rows.emplace_back("batch", std::to_string(o.batch));
    rows.emplace_back("augmentation", graft::text(*o.augmentation));
    rows.emplace_back("preprocessing", graft::text(setup.preprocess) + (setup.assumed ? " (assumed, the model does not say)" : ""));
    std::int64_t learning = 0;
    for (const graft::parameter& q : setup.network.parameters) learning += q.learns;
    rows.emplace_back("weights that learn", std::to_string(learning) + " of " + std::to_string(setup.network.parameters.size()) + " tensors" +
                                                (o.unfreeze_epoch > 0 ? ", the head alone before epoch " + std::to_string(o.unfreeze_epoch + 1) : ""));
    rows.emplace_back("batch normalization", o.step.batch_norm ? "by the batch's statistics where it learns" : "by the running statistics");
    if (p.ema_decay > 0) rows.emplace_back("average of the weights", number_text(p.ema_decay));
    if (p.clip_norm > 0) rows.emplace_back("gradients clipped at", number_text(p.clip_norm));
    rows.emplace_back("seed", std::to_string(o.seed));
    rows.emplace_back("shards", std::to_string(o.step.shards));
    rows.emplace_back("threads", std::to_string(o.threads));
    if (o.step.on) rows.emplace_back("precision", o.precision);
    return rows;
}

}  // namespace

graft::status write_training_report(const training_setup& setup, const graft::dataset_splits& data, const graft::trainer_options& with,
                                    const graft::training_result& found, const run_figures& seen, const std::string& device) {
    graft::training_report report;
    report.title = "Training report";
    report.model = setup.source;
    report.data = setup.data + ", " + std::to_string(data.training.classes().size()) + " classes";
    report.device = device;
    report.command = with.command;
    report.version = graft::version();
    report.classes = data.training.classes();
    for (const graft::epoch_record& r : found.history) {
        graft::epoch_figures e;
        e.epoch = r.epoch + 1;
        e.train_loss = r.training_loss, e.train_top1 = r.training_top1, e.val_loss = r.loss, e.val_top1 = r.top1, e.val_top_k = r.top5;
        e.learning_rate = r.learning_rate, e.seconds = r.seconds;
        for (const auto& g : seen.gpu)
            if (g.first == r.epoch)
                e.device_busy = g.second.busy, e.device_bytes = g.second.bytes, e.device_watts = g.second.watts, e.device_celsius = g.second.celsius;
        report.epochs.push_back(e);
    }
    report.best_epoch = found.best_epoch + 1;
    report.head_alone = with.unfreeze_epoch;
    report.stopped_early = found.epochs < with.epochs;
    report.metrics = found.validation.metrics;
    report.images_per_s = found.images_per_s;
    report.seconds = found.seconds;
    report.data_wait = found.wait_share;
    report.train_images = data.training.size();
    report.val_images = data.validation.size();
    for (const graft::parameter& p : setup.network.parameters) report.parameters += setup.network.graph.at(p.id).constant.elements();
    report.peak_bytes = static_cast<std::int64_t>(peak_rss_mb() * 1048576);
    double trained = 0, waited = 0;
    for (const graft::epoch_record& r : found.history) {
        trained += r.seconds;
        waited += r.seconds * r.wait_share;
    }
    if (seen.features_seconds > 0) report.timing.emplace_back("features of the frozen trunk", seen.features_seconds);
    report.timing.emplace_back("training", trained - waited);
    report.timing.emplace_back("waiting for data", waited);
    if (seen.scored_seconds > 0) report.timing.emplace_back("scoring", seen.scored_seconds);
    report.members = found.members;
    report.stages = found.stages;
    // More points than the chart has pixels say nothing more.
    const std::size_t every = seen.learning_rates.size() / 600 + 1;
    for (std::size_t i = 0; i < seen.learning_rates.size(); i += every) report.learning_rates.push_back(seen.learning_rates[i]);
    report.settings = settings_of(setup, with);
    constexpr std::size_t most_notes = 10;
    for (const std::string& note : setup.notes) report.notes.push_back("Network: " + printable(note));
    for (std::size_t i = 0; i < seen.warnings.size() && i < most_notes; ++i) report.notes.push_back(printable(seen.warnings[i]));
    if (seen.warnings.size() > most_notes) report.notes.push_back(std::to_string(seen.warnings.size() - most_notes) + " warnings more are not shown");
    add_wrong(report, data.validation, found.validation);
    const graft::status maps = add_maps(report, setup, data.validation, with, found);
    if (!maps.ok()) report.notes.push_back(std::string("No Grad-CAM: ") + maps.error().what());
    return graft::write_report(report, graft::join_path(with.out, "report.html"));
}

}  // namespace program
