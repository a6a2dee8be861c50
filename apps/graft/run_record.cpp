// What a run leaves for programs: run.json and predictions.csv.
#include "csv.hpp"
#include "training.hpp"

#include <nlohmann/json.hpp>

namespace program {
namespace {

std::string number_text(double v) { return formatted("%g", v); }

// How each picture of the validation part was answered by the network that was kept.
std::string predictions_csv(const graft::dataset& data, const std::string& folder, const graft::evaluation_result& scored) {
    std::string out = "path,label,predicted,probability,loss\n";
    const auto name = [&](std::int32_t c) { return csv_field(data.classes()[static_cast<std::size_t>(c)]); };
    for (const graft::scored_picture& p : scored.pictures)
        out += csv_field(below(folder, data.name(p.index))) + "," + name(p.label) + "," + name(p.predicted) + "," +
               formatted("%.6f", static_cast<double>(p.probability)) + "," + formatted("%.6g", static_cast<double>(p.loss)) + "\n";
    return out;
}

}  // namespace

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

graft::status write_run_record(const training_setup& setup, const graft::dataset_splits& data, const graft::trainer_options& with,
                               const graft::training_result& found, const std::string& device) {
    json settings = json::object(), classes = json::array();
    for (const auto& s : settings_of(setup, with)) settings[s.first] = utf8_text(s.second);
    for (const std::string& c : data.training.classes()) classes.push_back(utf8_text(c));
    const json record{{"graft", graft::version()},
                      {"command", utf8_text(with.command)},
                      {"network", utf8_text(setup.source)},
                      {"data", utf8_text(absolute_path(setup.data))},
                      {"classes", classes},
                      {"training_images", data.training.size()},
                      {"validation_images", data.validation.size()},
                      {"best_top1", found.best_top1},
                      {"best_loss", found.best_loss},
                      {"best_epoch", found.best_epoch + 1},
                      {"epochs", found.epochs},
                      {"seconds", found.seconds},
                      {"images_per_s", found.images_per_s},
                      {"peak_rss_mb", peak_rss_mb()},
                      {"device", utf8_text(device)},
                      {"settings", settings}};
    GRAFT_TRY(write_text(predictions_csv(data.validation, folder_of_dataset(setup.data), found.validation), graft::join_path(with.out, "predictions.csv")));
    return write_text(json_text(record) + "\n", graft::join_path(with.out, "run.json"));
}

}  // namespace program
