// graft bench: latency of a model on random input.
#include "bench.hpp"
#include "deterministic_cost.hpp"

#include <graft/core/rng.hpp>
#include <graft/cpu/isa.hpp>
#include <graft/passes/open_batch.hpp>
#include <graft/tensor/convert.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

// Floats in [0, 1), bytes over their whole range, other integers 0 or 1, so that they may serve as indices.
graft::result<graft::tensor> random_tensor(const graft::value_info& input, std::uint64_t seed, std::uint64_t stream) {
    graft::tensor t;
    GRAFT_TRY_ASSIGN(t, graft::tensor::make(input.type, input.extents));
    const graft::random_stream numbers(seed, stream);
    const bool byte = input.type == graft::dtype::uint8 || input.type == graft::dtype::int8;
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const std::uint64_t at = static_cast<std::uint64_t>(i);
        const double u = numbers.uniform(at);
        const double value = graft::is_float(input.type) ? u
                             : byte                      ? static_cast<double>(numbers.below(at, 256)) - (input.type == graft::dtype::int8 ? 128 : 0)
                             : u < 0.5                   ? 0
                                                         : 1;
        graft::store_from_double(input.type, t.raw(), i, 1, &value);
    }
    return t;
}

// The model with another first extent of its inputs, opened where it is fixed to one. What the file says about the shapes in between no longer
// holds.
graft::result<graft::model> with_batch(const graft::model& model, std::int64_t batch, const graft::load_options& with) {
    const std::vector<graft::value_info> inputs = assumed_inputs(model, 1);
    bool differs = false;
    for (const graft::value_info& input : model.inputs())
        differs |= !input.has_default && input.has_shape && input.extents.rank() > 0 && input.extents[0] >= 0 && input.extents[0] != batch;
    if (!differs) return model;
    graft::graph g = model.graph();
    if (inputs.size() == 1 && inputs[0].extents.rank() > 0) {
        graft::executor serial;
        GRAFT_TRY_ASSIGN(g, graft::open_batch(std::move(g), inputs[0].extents, serial, with.limits));
    }
    std::vector<bool> is_input(g.values.size());
    for (graft::value_id id : g.inputs) {
        graft::value& v = g.at(id);
        is_input[static_cast<std::size_t>(id)] = true;
        if (v.constant || !v.has_shape || v.extents.rank() == 0) continue;
        v.extents[0] = batch;
    }
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (!is_input[i] && !g.values[i].constant) g.values[i].has_shape = false;
    return graft::load(std::move(g), with);
}

}  // namespace

graft::result<std::vector<graft::tensor>> random_inputs(const graft::model& model, const std::vector<graft::value_info>& inputs, std::uint64_t seed) {
    std::vector<graft::tensor> made(model.inputs().size());
    for (std::size_t i = 0, given = 0; i < made.size(); ++i) {
        if (model.inputs()[i].has_default) continue;
        GRAFT_TRY_ASSIGN(made[i], random_tensor(inputs[given], seed, given));
        ++given;
    }
    return made;
}
graft::status give_inputs(graft::session& session, const graft::model& model, const std::vector<graft::value_info>& inputs, std::uint64_t seed) {
    std::vector<graft::tensor> made;
    GRAFT_TRY_ASSIGN(made, random_inputs(model, inputs, seed));
    for (std::size_t i = 0; i < made.size(); ++i)
        if (made[i]) GRAFT_TRY(session.set_input(i, made[i]));
    return {};
}

graft::result<graft::model> in_batches(const graft::model& model, const std::string& name, std::int64_t batch, const graft::load_options& with) {
    auto changed = with_batch(model, batch, with);
    const graft::errc code = changed.ok() ? graft::errc() : changed.error().code();
    if (!changed.ok() && code != graft::errc::memory_oom && code != graft::errc::memory_budget && code != graft::errc::graph_fixed_batch)
        return graft::fail(graft::errc::input_shape, name, "the model does not allow batch " + std::to_string(batch) + ": " + changed.error().what());
    return changed;
}

graft::result<found_batch> find_running_batch(const common_options& common, const graft::model& model, const std::string& name,
                                              const graft::load_options& with) {
    return find_batch(common, most_samples, [&](std::int64_t batch) -> graft::result<batch_figures> {
        graft::model sized;
        GRAFT_TRY_ASSIGN(sized, in_batches(model, name, batch, with));
        const std::vector<graft::value_info> inputs = assumed_inputs(sized, batch);
        graft::model::memory_use use;
        GRAFT_TRY_ASSIGN(use, sized.memory(inputs));
        batch_figures found;
        found.bytes = use.arena + use.scratch + use.constants + use.outputs, found.device = use.device;
        GRAFT_TRY(fits(found.bytes, 0));
        graft::session session(sized, {common.threads, nullptr});
        GRAFT_TRY(give_inputs(session, sized, inputs, common.seed));
        GRAFT_TRY_ASSIGN(found.seconds, seconds_of([&] { return session.run(); }));
        return found;
    });
}

namespace {

// The same model and input on a device of its own, for `any_algorithm`.
graft::result<any_algorithm::work> running(const common_options& common, const std::string& name, std::int64_t asked) {
    graft::load_options with;
    GRAFT_TRY_ASSIGN(with, load_options_of(common));
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(name, with));
    if (asked) GRAFT_TRY_ASSIGN(model, in_batches(model, name, asked, with));
    auto session = std::make_shared<graft::session>(model, graft::session_options{common.threads, nullptr});
    GRAFT_TRY(give_inputs(*session, model, assumed_inputs(model, asked ? asked : 1), common.seed));
    return any_algorithm::work([session] { return session->run(); });
}

graft::result<int> bench(const common_options& common, const bench_options& options) {
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, replica_devices(common, options.spread, nullptr));
    if (devices.size() > 1 && !options.spread.stages) {
        if (!options.profile.file.empty())
            return graft::fail(graft::errc::usage, "--profile", "it records one device or one network in stages: give one --device");
        return bench_replicas(common, options, devices);
    }
    graft::cpu::isa isa{};
    GRAFT_TRY_ASSIGN(isa, graft::cpu::active_isa());
    graft::load_options with = load_options_of(common, devices[0]);
    GRAFT_TRY(load_in_stages(common, options.spread, nullptr, devices, 4 * options.spread.stages, with));
    std::unique_ptr<profiling> profile;
    GRAFT_TRY_ASSIGN(profile, profiling::begin(options.profile, with.trace));
    const double begun = now_ms();
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(options.model, with));
    double load_ms = now_ms() - begun;
    found_batch found;
    if (options.batch == batch_auto) GRAFT_TRY_ASSIGN(found, find_running_batch(common, model, options.model, with));
    const std::int64_t asked = found.batch ? found.batch : options.batch, batch = asked ? asked : 1;
    const double sizing = now_ms();
    if (asked) GRAFT_TRY_ASSIGN(model, in_batches(model, options.model, asked, with));
    graft::session session(model, {common.threads, nullptr});
    load_ms += now_ms() - sizing;
    const std::vector<graft::value_info> inputs = assumed_inputs(model, batch);
    GRAFT_TRY(give_inputs(session, model, inputs, common.seed));
    // Warm: the plan is made by the first run; then until a run is no faster than the one before it, and no longer than half a
    // second.
    const double first = now_ms();
    GRAFT_TRY(session.run());
    const double first_ms = now_ms() - first;
    double before = first_ms;
    for (double warm = now_ms(); now_ms() - warm < 500;) {
        const double start = now_ms();
        GRAFT_TRY(session.run());
        const double took = now_ms() - start;
        if (took > 0.9 * before) break;
        before = took;
    }

    any_algorithm any;
    GRAFT_TRY_ASSIGN(any, any_algorithm::prepare(common, on_gpu(with.opened), [&](const common_options& how) { return running(how, options.model, asked); }));
    const std::vector<graft::stage_use> warm = session.stages();
    std::vector<double> latency;
    latency.reserve(static_cast<std::size_t>(options.rounds));
    {
        progress bar("bench", options.rounds, common.quiet);
        for (int i = 0; i < options.rounds; ++i) {
            const double start = now_ms();
            GRAFT_TRY(session.run());
            latency.push_back(now_ms() - start);
            GRAFT_TRY(any.run());
            bar.step(i + 1);
        }
    }
    const std::vector<graft::stage_use> timed = session.stages();
    const auto use = model.memory(inputs);
    const double rss = peak_rss_mb();
    if (profile) GRAFT_TRY(profile->record(common, session, options.rounds, 1e9));
    const int threads = thread_count(common);
    const double cost = any.cost(latency);
    const stage_figures stages(timed, warm, latency, std::min<std::int64_t>(with.parts, batch));
    if (common.json) {
        json shapes = json::object(), macs = nullptr, device_bytes = nullptr;
        if (use.ok()) macs = use.value().multiply_adds, device_bytes = use.value().device;
        for (const graft::value_info& v : inputs) shapes[v.name] = shape_json(v.extents);
        json object{{"model", options.model},
                    {"latency_ms", latency},
                    {"median_ms", median(latency)},
                    {"load_ms", load_ms},
                    {"first_ms", first_ms},
                    {"rss_mb", rss},
                    {"device_bytes", device_bytes},
                    {"isa", graft::cpu::name(isa)},
                    {"device", model.device()},
                    {"threads", threads},
                    {"batch", batch},
                    {"macs", macs},
                    {"inputs", shapes}};
        if (cost > 0) object["deterministic_cost"] = cost;
        if (options.batch == batch_auto) object["batch_trials"] = tried_json(found.tried);
        stages.add_to(object);
        if (profile) profile->add_to(object);
        print(object);
        return exit_done;
    }
    std::vector<double> sorted = latency;
    std::sort(sorted.begin(), sorted.end());
    const double middle = median(latency), rate = 1000.0 * static_cast<double>(batch) / middle;
    std::string shapes;
    for (const graft::value_info& v : inputs) shapes += (shapes.empty() ? "" : ", ") + printable(v.name) + " " + graft::text(v.extents);
    const terminal screen = look_at(stdout, common.color);
    const auto row = [&](const char* key, const std::string& value) {
        std::printf("%s  %s\n", styled(screen, style::dim, padded(key, 8)).c_str(), value.c_str());
    };
    char text[128];
    row("model", printable(options.model) + "  at " + shapes);
    row("device", (stages.none() ? device_and_precision(common, with.opened) : std::string(model.device())) + ", " + std::to_string(threads) +
                      (threads == 1 ? " thread" : " threads"));
    std::snprintf(text, sizeof text, "  (%s least, %s at 90 %%, %d rounds)", milliseconds_text(sorted.front()).c_str(),
                  milliseconds_text(sorted[sorted.size() * 9 / 10]).c_str(), options.rounds);
    row("latency", styled(screen, style::bold, milliseconds_text(middle)) + text);
    if (cost > 0) row("costs", formatted("%.2f", cost) + " times as long as without --deterministic");
    std::snprintf(text, sizeof text, "%.1f samples a second", rate);
    std::string speed = text;
    if (use.ok() && use.value().multiply_adds > 0) {
        std::snprintf(text, sizeof text, ", %.1f GMAC/s of %s MACs", static_cast<double>(use.value().multiply_adds) / middle / 1e6,
                      count_text(use.value().multiply_adds).c_str());
        speed += text;
    }
    row("speed", speed);
    for (const std::string& line : stages.lines()) row(&line == &stages.lines().front() ? "stages" : "", line);
    row("load", milliseconds_text(load_ms) + ", first run " + milliseconds_text(first_ms));
    std::snprintf(text, sizeof text, "%.0f MB resident at most", rss);
    std::string memory = text;
    if (use.ok() && (on_gpu(with.opened) || use.value().device > 0)) memory += ", " + bytes_text(use.value().device) + " of the GPU's";
    row("memory", memory);
    if (profile) profile->print(common);
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<bench_options>();
    list.add("MODEL", o->model, "The model");
    list.add("--train", o->train, "A training step instead of a run: full, or head for the last layer alone", "SCOPE").one_of({"full", "head"});
    list.add("--arch", o->arch, "lenet, resnet20 or mobilenet_v2 in place of MODEL", "NAME").architecture().needs("--train").excludes("MODEL");
    list.add("--shards", o->shards, "Of --train: parts of the fixed tree of sums", "S").one_of_numbers({1, 2, 4, 8, 16, 32, 64, 128, 256});
    declare_spread(list, o->spread);
    list.add("--batch", o->batch, "Batch size, or auto: the fastest that fits (default: the model's, else 1)", "B").batch();
    list.add("--rounds", o->rounds, "Timed runs, after a warm-up", "R").within(1, 10000000).shows_default();
    declare_profile(list, o->profile);
    return [o](const common_options& common) -> graft::result<int> {
        if (o->model.empty() && o->arch.empty()) return graft::fail(graft::errc::usage, "bench", "MODEL is required");
        GRAFT_TRY(be_alone("bench"));
        return o->train.empty() ? bench(common, *o) : bench_training(common, *o);
    };
}

}  // namespace

verb bench_verb() { return {"Measures a model on random input", declare}; }

}  // namespace program
