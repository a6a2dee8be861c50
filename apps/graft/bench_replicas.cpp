// graft bench on several devices or replicas: how many samples all of them, and each, run in a second.
#include "bench.hpp"
#include "deterministic_cost.hpp"

#include <graft/cpu/isa.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

// What was measured of replicas that run batches at once.
struct replica_figures {
    std::string device;
    std::vector<double> latency;  // ms, of each of its runs
};

// `rounds` runs for each replica, handed to whoever is free.
graft::status run_replicas(graft::session_pool& pool, const std::vector<graft::tensor>& inputs, int rounds, progress* bar, std::vector<replica_figures>& seen) {
    const int runs = rounds * pool.replicas();
    for (int given = 0, taken = 0; taken < runs; ++taken) {
        for (; given < runs && !pool.full(); ++given) GRAFT_TRY(pool.submit(inputs));
        graft::pool_answer answer;
        GRAFT_TRY_ASSIGN(answer, pool.take());
        seen[static_cast<std::size_t>(answer.replica)].latency.push_back(answer.seconds * 1e3);
        if (bar) bar->step((taken + 1) / pool.replicas());
    }
    return {};
}

}  // namespace

graft::result<int> bench_replicas(const common_options& common, const bench_options& options, const std::vector<std::shared_ptr<graft::device>>& devices) {
    graft::cpu::isa isa{};
    GRAFT_TRY_ASSIGN(isa, graft::cpu::active_isa());
    const double begun = now_ms();
    std::vector<graft::model> models(devices.size());
    found_batch found;
    for (std::size_t r = 0; r < devices.size(); ++r) {
        const std::size_t same = static_cast<std::size_t>(std::find(devices.begin(), devices.end(), devices[r]) - devices.begin());
        if (same < r) {
            models[r] = models[same];
            continue;
        }
        const graft::load_options with = load_options_of(common, devices[r]);
        GRAFT_TRY_ASSIGN(models[r], graft::load(options.model, with));
        if (r == 0 && options.batch == batch_auto) GRAFT_TRY_ASSIGN(found, find_running_batch(common, models[r], options.model, with));
        const std::int64_t asked = found.batch ? found.batch : options.batch;
        if (asked) GRAFT_TRY_ASSIGN(models[r], in_batches(models[r], options.model, asked, with));
    }
    const std::int64_t batch = found.batch ? found.batch : options.batch ? options.batch : 1;
    const std::vector<graft::value_info> given = assumed_inputs(models[0], batch);
    std::vector<graft::tensor> inputs;
    GRAFT_TRY_ASSIGN(inputs, random_inputs(models[0], given, common.seed));
    graft::session_pool pool;
    const int threads = thread_count(common);
    GRAFT_TRY_ASSIGN(pool, graft::session_pool::make(models, {threads, -1}));
    const double load_ms = now_ms() - begun, first = now_ms();
    // Warm: each model has a plan when it has run, and each session its memory.
    for (const graft::model& m : models) {
        graft::session session(m, {threads, nullptr});
        GRAFT_TRY(give_inputs(session, m, given, common.seed));
        GRAFT_TRY(session.run());
    }
    const double first_ms = now_ms() - first;
    std::vector<replica_figures> seen(devices.size());
    GRAFT_TRY(run_replicas(pool, inputs, 3, nullptr, seen));
    for (std::size_t r = 0; r < devices.size(); ++r) seen[r] = {device_name(devices[r]), {}};
    const double start = now_ms();
    {
        progress bar("bench", options.rounds, common.quiet);
        GRAFT_TRY(run_replicas(pool, inputs, options.rounds, &bar, seen));
    }
    const double took = now_ms() - start;

    std::vector<double> latency;
    for (const replica_figures& f : seen) latency.insert(latency.end(), f.latency.begin(), f.latency.end());
    const auto rate = [&](const std::vector<double>& runs) { return 1e3 * static_cast<double>(batch) * static_cast<double>(runs.size()) / took; };
    if (common.json) {
        json shapes = json::object(), each = json::array();
        for (const graft::value_info& v : given) shapes[v.name] = shape_json(v.extents);
        for (const replica_figures& f : seen)
            each.push_back({{"device", f.device},
                            {"runs", f.latency.size()},
                            {"median_ms", f.latency.empty() ? 0 : median(f.latency)},
                            {"samples_per_s", rate(f.latency)}});
        json object{{"model", options.model},
                    {"latency_ms", latency},
                    {"median_ms", median(latency)},
                    {"samples_per_s", rate(latency)},
                    {"replicas", devices.size()},
                    {"devices", each},
                    {"load_ms", load_ms},
                    {"first_ms", first_ms},
                    {"rss_mb", peak_rss_mb()},
                    {"isa", graft::cpu::name(isa)},
                    {"device", devices_text(devices)},
                    {"threads", threads},
                    {"batch", batch},
                    {"inputs", shapes}};
        if (options.batch == batch_auto) object["batch_trials"] = tried_json(found.tried);
        print(object);
        return exit_done;
    }
    std::string shapes;
    for (const graft::value_info& v : given) shapes += (shapes.empty() ? "" : ", ") + printable(v.name) + " " + graft::text(v.extents);
    const terminal screen = look_at(stdout, common.color);
    const auto row = [&](const std::string& key, const std::string& value) {
        std::printf("%s  %s\n", styled(screen, style::dim, padded(key, 8)).c_str(), value.c_str());
    };
    row("model", printable(options.model) + "  at " + shapes);
    row("device",
        std::to_string(devices.size()) + " replicas on " + devices_text(devices) + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads"));
    row("latency", styled(screen, style::bold, milliseconds_text(median(latency))) + "  (" + std::to_string(latency.size()) + " runs)");
    row("speed", formatted("%.1f", rate(latency)) + " samples a second");
    for (const replica_figures& f : seen)
        row("", f.device + ": " + formatted("%.1f", rate(f.latency)) + " samples a second, " +
                    (f.latency.empty() ? std::string("no run") : milliseconds_text(median(f.latency)) + " each"));
    row("load", milliseconds_text(load_ms) + ", first runs " + milliseconds_text(first_ms));
    row("memory", formatted("%.0f", peak_rss_mb()) + " MB resident at most");
    return exit_done;
}

}  // namespace program
