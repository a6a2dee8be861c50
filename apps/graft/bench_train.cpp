// graft bench --train: latency of a training step on random input; and what memory a step takes.
#include "batch_search.hpp"
#include "deterministic_cost.hpp"
#include "profile.hpp"
#include "training.hpp"

#include <graft/exec/class_scores.hpp>
#include <graft/passes/open_batch.hpp>
#include <graft/passes/specialize.hpp>
#include <graft/passes/to_float32.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

graft::result<graft::graph> graph_of(const common_options& common, const bench_options& options) {
    if (!options.arch.empty()) {
        graft::architecture_options how;
        how.seed = common.seed;
        if (options.arch == "mobilenet_v2") how.classes = 100;
        auto built = graft::build_architecture(options.arch, how);
        if (!built.ok()) return graft::fail(graft::errc::usage, "--arch", built.error().where() + ": " + built.error().detail());
        return built;
    }
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(options.model));
    return model.graph();
}

// The network as it is, ready for steps of so many samples.
graft::result<measured_network> network_of(graft::graph g, const std::string& source, std::int64_t batch, bool head_alone, graft::executor& pool) {
    measured_network net;
    net.graph = std::move(g);
    graft::constants_to_initializers(net.graph);
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(std::move(net.graph)));
    net.graph = model.graph();
    const std::vector<graft::value_info> inputs = assumed_inputs(model, 1);
    if (inputs.size() != 1 || inputs[0].extents.rank() < 2)
        return graft::fail(graft::errc::input_name, source, "training takes networks with one input of two dimensions or more, samples first");
    graft::float32_changes changes;
    GRAFT_TRY_ASSIGN(net.graph, graft::to_float32(std::move(net.graph), inputs[0].extents, pool, {}, changes));
    GRAFT_TRY_ASSIGN(net.graph, graft::open_batch(std::move(net.graph), inputs[0].extents, pool));
    net.batch = inputs[0].extents;
    net.batch[0] = batch;
    net.logits = graft::logits_of(net.graph);
    net.parameters = graft::parameters_of(net.graph);
    graft::graph known;
    GRAFT_TRY_ASSIGN(known, graft::specialize_first_input(net.graph, net.batch, pool, {}));
    const graft::shape scores = known.at(net.logits).extents;
    net.classes = graft::classes_in(scores, batch);
    if (net.classes < 1) return graft::fail(graft::errc::train_head, source, "what the loss is taken of has to be [N, classes]; it is " + graft::text(scores));
    if (head_alone) {
        graft::trunk_cut cut;
        GRAFT_TRY_ASSIGN(cut, graft::find_trunk(net.graph, "", net.batch, pool));
        const int trunk = maker_of(net.graph, cut.features);
        for (graft::parameter& p : net.parameters) p.learns = p.node > trunk;
    }
    return net;
}

// The same steps on a device of its own, for `any_algorithm`.
graft::result<any_algorithm::work> training(const common_options& common, const measured_network& net, graft::step_options how, graft::executor& pool) {
    struct running {
        graft::training_step step;
        random_batch input;
    };
    auto made = std::make_shared<running>();
    GRAFT_TRY_ASSIGN(how.on, open_device(common));
    GRAFT_TRY_ASSIGN(made->step, graft::training_step::make(net.graph, net.logits, net.parameters, how));
    GRAFT_TRY(made->input.fill(net, how.loss, common.seed));
    return any_algorithm::work([made, &pool] {
        graft::status done = made->step.run(made->input.step, pool);
        ++made->input.step.step;
        return done;
    });
}

}  // namespace

graft::result<graft::step_memory> training_memory(const common_options& common, graft::graph g, const std::string& source, std::int64_t batch) {
    graft::pool_executor pool(thread_count(common));
    measured_network net;
    GRAFT_TRY_ASSIGN(net, network_of(std::move(g), source, batch, false, pool));
    graft::step_options how;
    how.optimizer.ema_decay = graft::training_defaults::ema;
    if (common.precision != "auto") GRAFT_TRY_ASSIGN(how.on, open_device(common));
    graft::training_step step;
    GRAFT_TRY_ASSIGN(step, graft::training_step::make(std::move(net.graph), net.logits, std::move(net.parameters), how));
    return step.prepare(net.batch, pool);
}

graft::result<int> bench_training(const common_options& common, const bench_options& options) {
    graft::cpu::isa isa{};
    GRAFT_TRY_ASSIGN(isa, graft::cpu::active_isa());
    const int threads = thread_count(common);
    std::int64_t batch = options.batch == batch_auto ? 8 : options.batch ? options.batch : 16;
    const double begun = now_ms();
    graft::pool_executor pool(threads);
    graft::graph g;
    GRAFT_TRY_ASSIGN(g, graph_of(common, options));
    measured_network net;
    GRAFT_TRY_ASSIGN(net, network_of(std::move(g), options.arch.empty() ? options.model : options.arch, batch, options.train == "head", pool));
    graft::step_options how;
    how.optimizer.kind = graft::optimizer_kind::sgd;
    how.optimizer.momentum = 0.9;
    how.optimizer.weight_decay = 0;
    // A stage sees a part of the batch alone.
    how.batch_norm = options.train == "full" && options.spread.stages == 0;
    how.exact = common.exact;
    how.seed = common.seed;
    how.shards = options.shards;
    std::unique_ptr<profiling> profile;
    GRAFT_TRY_ASSIGN(profile, profiling::begin(options.profile, how.trace));
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, open_devices(common));
    if (profile && (devices.size() > 1 || options.spread.replicas > 1 || options.spread.stages > 0))
        return graft::fail(graft::errc::usage, "--profile", "of a training step it records one device: give one --device, and neither --replicas nor --stages");
    GRAFT_TRY(spread(common, options.spread, nullptr, std::move(devices), how));
    how.loss_scaling = how.on && common.precision == "float16";
    found_batch found;
    if (options.batch == batch_auto) {
        GRAFT_TRY_ASSIGN(found, find_training_batch(common, net, how, most_samples, 0));
        batch = net.batch[0] = found.batch;
    }
    graft::training_step step;
    GRAFT_TRY_ASSIGN(step, graft::training_step::make(net.graph, net.logits, net.parameters, how));
    graft::step_memory memory;
    GRAFT_TRY_ASSIGN(memory, step.prepare(net.batch, pool));
    const double load_ms = now_ms() - begun;

    random_batch input;
    GRAFT_TRY(input.fill(net, how.loss, common.seed));
    graft::step_input& in = input.step;
    any_algorithm any;
    GRAFT_TRY_ASSIGN(any, any_algorithm::prepare(common, how.on && !how.replicas && how.stages.empty(),
                                                 [&](const common_options& free) { return training(free, net, how, pool); }));
    const auto next_step = [&]() -> graft::status {
        GRAFT_TRY(step.run(in, pool));
        ++in.step;
        return {};
    };
    double first_ms = 0;
    std::vector<double> latency;
    {
        progress bar("bench", options.rounds, common.quiet);
        for (int i = -2; i < options.rounds; ++i) {
            const double start = now_ms();
            GRAFT_TRY(next_step());
            const double took = now_ms() - start;
            if (i == -2) first_ms = took;
            if (i < 0) continue;
            latency.push_back(took);
            GRAFT_TRY(any.run());
            bar.step(i + 1);
        }
    }
    const double rss = peak_rss_mb();
    if (profile) GRAFT_TRY(profile->record_steps(common, next_step, options.rounds));
    std::vector<double> sorted = latency;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t n = sorted.size();
    const double middle = median(latency), cost = any.cost(latency);
    const std::string name = options.arch.empty() ? options.model : options.arch;
    if (common.json) {
        json object{{"model", name},
                    {"train", options.train},
                    {"latency_ms", latency},
                    {"median_ms", middle},
                    {"load_ms", load_ms},
                    {"first_ms", first_ms},
                    {"rss_mb", rss},
                    {"step_bytes", memory.total()},
                    {"device_bytes", memory.device},
                    {"isa", graft::cpu::name(isa)},
                    {"device", device_name(how.on)},
                    {"threads", threads},
                    {"batch", batch},
                    {"replicas", std::max(1, options.spread.replicas)},
                    {"macs", nullptr},
                    {"inputs", {{"input", shape_json(net.batch)}}}};
        if (cost > 0) object["deterministic_cost"] = cost;
        if (options.batch == batch_auto) object["batch_trials"] = tried_json(found.tried);
        if (profile) profile->add_to(object);
        print(object);
        return exit_done;
    }
    const terminal screen = look_at(stdout, common.color);
    const auto row = [&](const char* key, const std::string& value) {
        std::printf("%s  %s\n", styled(screen, style::dim, padded(key, 8)).c_str(), value.c_str());
    };
    char text[160];
    row("model", printable(name) + "  at " + graft::text(net.batch) + ", training " + (options.train == "full" ? "all of it" : "its head"));
    row("device", device_and_precision(common, how.on) + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads"));
    std::snprintf(text, sizeof text, "  (%s least, %s at 90 %%, %d rounds)", milliseconds_text(sorted.front()).c_str(),
                  milliseconds_text(sorted[n * 9 / 10]).c_str(), options.rounds);
    row("step", styled(screen, style::bold, milliseconds_text(middle)) + text);
    if (cost > 0) row("costs", formatted("%.2f", cost) + " times as long as without --deterministic");
    std::snprintf(text, sizeof text, "%.1f samples a second", 1000.0 * static_cast<double>(batch) / middle);
    row("speed", text);
    row("load", milliseconds_text(load_ms) + ", first step " + milliseconds_text(first_ms));
    std::snprintf(text, sizeof text, "%s planned, %.0f MB resident at most", bytes_text(memory.total()).c_str(), rss);
    row("memory", text + (memory.device ? ", " + bytes_text(memory.device) + " of the GPU's" : std::string()));
    if (profile) profile->print(common);
    return exit_done;
}

}  // namespace program
