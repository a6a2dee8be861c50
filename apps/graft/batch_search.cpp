// --batch auto: tries sizes of batch, a few steps each.
#include "batch_search.hpp"

#include <graft/core/rng.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace program {
namespace {

constexpr double search_seconds = 30;

bool no_memory(const graft::error& e) { return e.code() == graft::errc::memory_oom || e.code() == graft::errc::memory_budget; }

void tell(const common_options& common, const tried_batch& t) {
    if (common.quiet) return;
    std::string line = "batch " + padded(std::to_string(t.batch), 5, true) + "  ";
    if (t.note.empty()) {
        line += padded(milliseconds_text(t.found.seconds * 1e3), 9, true) + "  " +
                padded(formatted("%.0f", static_cast<double>(t.batch) / t.found.seconds), 7, true) + " samples/s  " + bytes_text(t.found.bytes);
        if (t.found.device) line += ", " + bytes_text(t.found.device) + " of the GPU's";
    } else
        line += printable(t.note);
    std::fprintf(stderr, "graft: %s\n", line.c_str());
}

// What the machine can still give without swapping; 0 where that is not known.
std::int64_t free_memory() {
    std::int64_t kilobytes = 0;
    if (std::FILE* file = std::fopen("/proc/meminfo", "r")) {
        char line[256];
        long long found = 0;
        while (!kilobytes && std::fgets(line, sizeof line, file))
            if (std::sscanf(line, "MemAvailable: %lld", &found) == 1) kilobytes = found;
        std::fclose(file);
    }
    return kilobytes * 1024;
}

}  // namespace

graft::result<found_batch> find_batch(const common_options& common, std::int64_t most,
                                      const std::function<graft::result<batch_figures>(std::int64_t)>& measure) {
    graft::batch_finder finder(most);
    found_batch found;
    graft::status failed;
    const double begun = seconds_now();
    while (const std::int64_t batch = finder.next()) {
        const double start = seconds_now();
        auto measured = measure(batch);
        tried_batch t;
        t.batch = batch;
        if (measured.ok())
            t.found = measured.value();
        else if (no_memory(measured.error()))
            t.note = std::string("does not fit: ") + measured.error().what();
        else if (finder.best() && measured.error().code() != graft::errc::device_lost)
            t.note = std::string("fails: ") + measured.error().what();  // the smaller ones do all the same
        else
            return measured.take_status();
        finder.add(measured.ok() ? static_cast<double>(batch) / std::max(t.found.seconds, 1e-9) : 0);
        if (!measured.ok()) failed = measured.take_status();
        tell(common, t);
        found.tried.push_back(std::move(t));
        // The next one takes twice as long.
        const double now = seconds_now();
        if (finder.best() && now - begun + 2 * (now - start) > search_seconds) finder.stop();
    }
    found.batch = finder.best();
    if (!found.batch) return failed;
    if (!common.quiet) std::fprintf(stderr, "graft: batch %lld is taken\n", static_cast<long long>(found.batch));
    return found;
}

graft::status fits(std::int64_t bytes, std::int64_t most_bytes) {
    const std::int64_t limit = most_bytes > 0 ? most_bytes : free_memory();
    if (!limit || bytes <= limit) return {};
    return graft::fail(graft::errc::memory_budget, most_bytes > 0 ? "--max-ram" : "memory", "it would take " + bytes_text(bytes) + " of " + bytes_text(limit));
}

json tried_json(const std::vector<tried_batch>& tried) {
    json list = json::array();
    for (const tried_batch& t : tried) {
        const bool fits = t.note.empty();
        list.push_back({{"batch", t.batch},
                        {"samples_per_s", fits ? json(static_cast<double>(t.batch) / t.found.seconds) : json()},
                        {"step_ms", fits ? json(t.found.seconds * 1e3) : json()},
                        {"step_bytes", fits ? json(t.found.bytes) : json()},
                        {"device_bytes", fits ? json(t.found.device) : json()},
                        {"note", fits ? json() : json(printable(t.note))}});
    }
    return list;
}

graft::result<double> seconds_of(const std::function<graft::status()>& once) {
    // The first makes what later ones find; a GPU takes its graph of the second. What is slow anyway is not waited for twice.
    for (int warm = 0; warm < 2; ++warm) {
        const double start = seconds_now();
        GRAFT_TRY(once());
        if (seconds_now() - start > 1) break;
    }
    std::vector<double> took;
    double all = 0;
    while (took.size() < 7 && (took.empty() || all < 0.5)) {
        const double start = seconds_now();
        GRAFT_TRY(once());
        took.push_back(seconds_now() - start);
        all += took.back();
    }
    std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2), took.end());
    return std::max(took[took.size() / 2], 1e-9);
}

graft::status random_batch::fill(const measured_network& network, const graft::loss_options& loss, std::uint64_t seed) {
    const std::int64_t batch = network.batch[0];
    GRAFT_TRY_ASSIGN(inputs, graft::tensor::make(graft::dtype::float32, network.batch));
    GRAFT_TRY_ASSIGN(targets, graft::tensor::make(graft::dtype::float32, {batch, network.classes}));
    const graft::random_stream values(seed, 1), labels(seed, 2);
    for (std::int64_t i = 0; i < inputs.elements(); ++i) inputs.data<float>()[i] = static_cast<float>(values.normal(static_cast<std::uint64_t>(i)));
    for (std::int64_t i = 0; i < batch; ++i) {
        const auto label = static_cast<std::int64_t>(labels.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(network.classes)));
        graft::write_target(loss, label, 1, network.classes, targets.data<float>() + i * network.classes, false);
    }
    if (loss.distillation > 0) GRAFT_TRY_ASSIGN(teacher, graft::tensor::zeros(graft::dtype::float32, {batch, network.classes}));
    step = graft::step_input();
    step.inputs = &inputs, step.targets = &targets, step.scale = 1.0 / static_cast<double>(batch), step.learning_rate = 1e-3;
    if (teacher) step.teacher = &teacher;
    return {};
}

graft::result<found_batch> find_training_batch(const common_options& common, const measured_network& network, const graft::step_options& how, std::int64_t most,
                                               std::int64_t most_bytes) {
    graft::pool_executor pool(thread_count(common));
    return find_batch(common, most, [&](std::int64_t batch) -> graft::result<batch_figures> {
        measured_network net = network;
        net.batch[0] = batch;
        graft::training_step step;
        GRAFT_TRY_ASSIGN(step, graft::training_step::make(net.graph, net.logits, net.parameters, how));
        graft::step_memory memory;
        GRAFT_TRY_ASSIGN(memory, step.prepare(net.batch, pool));
        GRAFT_TRY(fits(memory.total(), most_bytes));
        random_batch input;
        GRAFT_TRY(input.fill(net, how.loss, common.seed));
        input.step.learning_rate = 0;  // so that nothing runs away
        batch_figures found;
        found.bytes = memory.total(), found.device = memory.device;
        GRAFT_TRY_ASSIGN(found.seconds, seconds_of([&] {
                             graft::status done = step.run(input.step, pool);
                             ++input.step.step;
                             return done;
                         }));
        return found;
    });
}

}  // namespace program
