// finetune --find-lr and train --find-lr: a sweep of the learning rate on the way to a suggestion.
#include "plot.hpp"
#include "training.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace program {
namespace {

// The smoothed losses over the rates.
void print_sweep(const terminal& screen, const graft::rate_finder& finder, double suggestion) {
    log_plot plot;
    plot.y = finder.smoothed();
    if (plot.y.empty()) return;
    for (std::size_t i = 0; i < plot.y.size(); ++i) plot.x.push_back(finder.rate(static_cast<std::int64_t>(i)));
    const double first = plot.y.front(), most = *std::max_element(plot.y.begin(), plot.y.end());
    plot.low = *std::min_element(plot.y.begin(), plot.y.end());
    // The end of a sweep is an explosion, beside which a fall could not be seen.
    plot.high = std::min(most, first + std::max(first - plot.low, 0.1 * first));
    plot.mark = suggestion;
    if (suggestion > 0) plot.mark_text = "--lr " + formatted("%.2g", suggestion);
    std::printf("%s\n", styled(screen, style::dim, "    loss   over the learning rate").c_str());
    for (const std::string& line : drawn(screen, plot)) std::printf("%s\n", line.c_str());
}

}  // namespace

graft::result<int> find_learning_rate(const common_options& common, const training_setup& setup, const graft::dataset_splits& data,
                                      const graft::trainer_options& with) {
    const graft::training_network& network = setup.network;
    std::vector<graft::parameter> parameters = network.parameters;
    const int cut = network.features == graft::no_value ? -1 : maker_of(network.graph, network.features);
    for (graft::parameter& p : parameters)
        if (p.node <= cut) p.rate *= with.trunk_rate;
    graft::step_options how = with.step;
    how.seed = with.seed;
    graft::training_step step;
    GRAFT_TRY_ASSIGN(step, graft::training_step::make(network.graph, network.logits, parameters, how));
    graft::loader_options loading;
    loading.batch_size = with.batch;
    loading.workers = with.workers ? with.workers : with.threads;
    loading.bad_share = with.bad_share;
    loading.drop_last = data.training.size() > with.batch;
    loading.sample.preprocess = with.preprocess;
    loading.sample.seed = with.seed;
    loading.sample.augment = *with.augmentation;
    loading.sample.cache = with.cache;
    for (graft::value_id id : network.graph.inputs) {
        const graft::value& v = network.graph.at(id);
        if (!v.constant && !loading.sample.format.known) loading.sample.format = {v.type, v.extents, true};
    }
    graft::teacher_model teacher;
    if (!with.teacher.empty()) {
        GRAFT_TRY_ASSIGN(teacher, graft::teacher_model::load(with.teacher, data.training.classes(), with.threads, graft::on_device(how.on, how.operators)));
        loading.teacher = teacher.view();
    }
    graft::loader source;
    GRAFT_TRY_ASSIGN(source, graft::loader::make(data.training, loading));

    graft::rate_finder finder(1e-7, 10, 100);
    graft::pool_executor pool(with.threads);
    const auto classes = static_cast<std::int64_t>(data.training.classes().size());
    progress shown("sweep", finder.steps(), common.quiet);
    graft::batch b;
    std::int64_t epoch = 0, batch = 0;
    GRAFT_TRY(source.start(0));
    for (std::int64_t i = 0; i < finder.steps(); ++i) {
        if (batch == source.batches()) {
            GRAFT_TRY(source.start(++epoch));
            batch = 0;
        }
        ++batch;
        GRAFT_TRY(source.next(b));
        if (b.labels.empty()) continue;
        graft::tensor targets;
        GRAFT_TRY_ASSIGN(targets, graft::tensor::make(graft::dtype::float32, {b.size(), classes}));
        double weight = 0;
        for (std::size_t s = 0; s < b.labels.size(); ++s) {
            float* row = targets.data<float>() + static_cast<std::int64_t>(s) * classes;
            const double share = b.other_labels.empty() ? 1 : static_cast<double>(b.lambda[s]);
            weight += graft::write_target(how.loss, b.labels[s], share, classes, row, false);
            if (!b.other_labels.empty()) weight += graft::write_target(how.loss, b.other_labels[s], 1 - share, classes, row, true);
        }
        graft::tensor taught;
        if (teacher) GRAFT_TRY_ASSIGN(taught, teacher.logits(b.teacher_inputs));
        graft::step_input in;
        in.teacher = teacher ? &taught : nullptr;
        in.inputs = &b.inputs, in.targets = &targets, in.scale = weight > 0 ? 1 / weight : 0, in.learning_rate = finder.rate(i), in.step = i;
        const graft::status done = step.run(in, pool);
        if (!done.ok() && done.error().code() != graft::errc::train_diverged) return graft::status(done.error());
        shown.step(i + 1);
        if (!done.ok() || !finder.add(step.loss())) break;
    }
    shown.finish();
    const double suggestion = finder.suggestion();
    if (common.json) {
        json rates = json::array();
        for (std::size_t i = 0; i < finder.losses().size(); ++i) rates.push_back(finder.rate(static_cast<std::int64_t>(i)));
        print(
            json{{"suggestion", suggestion}, {"rates", rates}, {"losses", finder.losses()}, {"smoothed", finder.smoothed()}, {"device", device_name(how.on)}});
        return exit_done;
    }
    print_sweep(look_at(stdout, common.color), finder, suggestion);
    if (suggestion > 0)
        std::printf("\nThe loss falls most steeply at a rate of %.2g: --lr %.2g\n", suggestion, suggestion);
    else
        std::printf("\nThe loss fell at no rate; more pictures or another --optimizer may help\n");
    return exit_done;
}

}  // namespace program
