// report.html of a run: what the trainer found, with pictures.
#include "interrupt.hpp"
#include "training.hpp"

#include <graft/data/decode.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

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

// What a row of fixes.csv does, and the line that does it.
std::pair<std::string, std::string> remedy_of(const training_fixes& fixes, const proposed_fix& row) {
    return {row.action == "move" ? "Move it to " + row.to + ":" : "Drop " + row.path + ":",
            "graft fix " + shell_quoted(fixes.file) + " --only " + std::to_string(row.id)};
}

const proposed_fix* fix_of(const training_fixes& fixes, const std::string& path) {
    for (const proposed_fix& row : fixes.fixes.rows)
        if (row.path == path) return &row;
    return nullptr;
}

void add_remedy(graft::report_picture& p, const training_fixes& fixes, const std::string& path) {
    const proposed_fix* row = fix_of(fixes, path);
    if (row) std::tie(p.remedy, p.command) = remedy_of(fixes, *row);
}

void add_wrong(graft::training_report& report, const std::string& folder, const graft::dataset& data, const graft::evaluation_result& scored,
               const training_fixes& fixes) {
    for (const graft::scored_picture& wrong : graft::most_wrong(scored, most_wrong_shown)) {
        graft::report_picture p = picture_of(data, wrong);
        add_remedy(p, fixes, below(folder, data.name(wrong.index)));
        if (p.picture) report.wrong.push_back(std::move(p));
    }
}

// The rows of fixes.csv that are about pictures which were learnt from, or which are there twice, and what there is in all.
void add_fixes(graft::training_report& report, const std::string& folder, const graft::dataset& data, const training_fixes& fixes) {
    if (fixes.file.empty()) return;
    std::map<std::string, const graft::scored_picture*> learnt;
    for (const graft::scored_picture& p : fixes.learnt) learnt[below(folder, data.name(p.index))] = &p;
    std::int64_t doubted = 0, copies = 0, unreadable = 0;
    for (const proposed_fix& row : fixes.fixes.rows) {
        doubted += row.reason == "mislabelled", unreadable += row.reason == "unreadable", copies += !row.other.empty();
        if (row.reason == "mislabelled" && learnt.count(row.path) && report.doubted.size() < most_wrong_shown) {
            graft::report_picture p = picture_of(data, *learnt.at(row.path));
            std::tie(p.remedy, p.command) = remedy_of(fixes, row);
            if (p.picture) report.doubted.push_back(std::move(p));
        }
        if (row.other.empty() || report.copies.size() >= most_wrong_shown) continue;
        graft::report_copy copy;
        auto one = graft::decode_file(graft::join_path(folder, row.path)), other = graft::decode_file(graft::join_path(folder, row.other));
        if (!one.ok() || !other.ok()) continue;
        copy.picture = std::move(one).value(), copy.other = std::move(other).value();
        copy.path = row.path, copy.of = row.other;
        std::tie(copy.remedy, copy.command) = remedy_of(fixes, row);
        report.copies.push_back(std::move(copy));
    }
    report.doubted_about =
        fixes.by_neighbours
            ? "Pictures that it learnt from, most of whose nearest neighbours have another label: nearest by what the network saw in them before "
              "it was told any of these labels."
            : "Pictures that it learnt from, and takes for another class all the same. That it learnt from them makes this weaker evidence than "
              "mistakes on the validation set: it was told the label that it doubts.";
    if (fixes.fixes.rows.empty()) return;
    const std::pair<std::int64_t, const char*> all[] = {
        {doubted, "with a label that is doubted"}, {copies, "that are there twice"}, {unreadable, "that cannot be read"}};
    for (const auto& some : all)
        if (some.first) report.fixes += (report.fixes.empty() ? "Pictures " : ", ") + std::string(some.second) + ": " + std::to_string(some.first);
    report.fixes += ". fixes.csv beside this page lists them, with reasons; nothing is moved before you say so. This shows what would be done:";
    report.fixes_command = "graft fix " + shell_quoted(fixes.file) + " --dry-run";
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

}  // namespace

graft::input_format input_of(const graft::graph& g) {
    for (graft::value_id id : g.inputs) {
        const graft::value& v = g.at(id);
        if (!v.constant) return {v.type, v.extents, true};
    }
    return {};
}

graft::status write_training_report(const training_setup& setup, const graft::dataset_splits& data, const graft::trainer_options& with,
                                    const graft::training_result& found, const run_figures& seen, const training_fixes& fixes, const std::string& device) {
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
    if (fixes.seconds > 0) report.timing.emplace_back("looking for what to fix", fixes.seconds);
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
    const std::string folder = folder_of_dataset(setup.data);
    add_wrong(report, folder, data.validation, found.validation, fixes);
    add_fixes(report, folder, data.training, fixes);
    const graft::status maps = add_maps(report, setup, data.validation, with, found);
    if (!maps.ok()) report.notes.push_back(std::string("No Grad-CAM: ") + maps.error().what());
    return graft::write_report(report, graft::join_path(with.out, "report.html"));
}

}  // namespace program
