// Whole networks and training steps of a device against the CPU back end; memory; threads.
#include "gpu_check.hpp"

#include <thread>

namespace bench {
namespace {

graft::result<graft::tensor> pictures(const graft::model& net, std::int64_t batch, std::int64_t seed) {
    graft::shape s;
    GRAFT_TRY_ASSIGN(s, batch_shape(net, batch));
    graft::tensor t;
    GRAFT_TRY_ASSIGN(t, graft::tensor::make(graft::dtype::float32, s));
    fill(t.data<float>(), t.elements(), seed);
    return t;
}

// Rows whose largest entry is at the same place.
std::int64_t same_places(const graft::tensor& a, const graft::tensor& b) {
    const std::int64_t rows = a.shape()[0], columns = a.elements() / std::max<std::int64_t>(1, rows);
    std::int64_t same = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
        const float *x = a.data<float>() + r * columns, *y = b.data<float>() + r * columns;
        same += std::max_element(x, x + columns) - x == std::max_element(y, y + columns) - y;
    }
    return same;
}

std::string base_name(const std::string& path) {
    const std::size_t slash = path.find_last_of('/'), begin = slash == std::string::npos ? 0 : slash + 1;
    return path.substr(begin, path.rfind(".onnx") - begin);
}

graft::result<int> check_network(const std::string& path, const check_options& options) {
    graft::load_options host;
    host.device = "cpu";
    graft::model known;
    GRAFT_TRY_ASSIGN(known, gpu_runtime::load(path, host));
    graft::tensor x, want;
    GRAFT_TRY_ASSIGN(x, pictures(known, options.batch, 1));
    graft::session on_host(known, {options.threads, nullptr});
    GRAFT_TRY_ASSIGN(want, on_host.run(x));
    int failures = 0;
    for (const std::string& precision : options.precisions) {
        std::shared_ptr<graft::device> on;
        GRAFT_TRY_ASSIGN(on, open(options.device, precision));
        graft::model net;
        GRAFT_TRY_ASSIGN(net, gpu_runtime::load(path, graft::on_device(on)));
        graft::session session(net);
        graft::tensor first, again, third;
        GRAFT_TRY_ASSIGN(first, session.run(x));
        // the second run is recorded, the third replays it
        GRAFT_TRY_ASSIGN(again, session.run(x));
        GRAFT_TRY_ASSIGN(third, session.run(x));
        // In float32 ONNX Runtime's own answers of EfficientNet-B0 with random weights are 3e-4 from those in double.
        const double u = rounding_of(precision), bound = u > 0 ? 40 * u : 4e-4,
                     error = std::max({difference(first, want), difference(again, want), difference(third, want)});
        int device = 0, cpu = 0;
        std::string reasons;
        std::vector<graft::placement> placed;
        graft::value_info v = *first_input(net);
        v.extents = x.shape();
        GRAFT_TRY_ASSIGN(placed, net.placements({v}));
        for (const graft::placement& p : placed) {
            ++(p.device == "cpu" ? cpu : device);
            if (p.device == "cpu" && !p.reason.empty() && reasons.size() < 400) reasons += (reasons.empty() ? "" : "; ") + p.op_type + ": " + p.reason;
        }
        const bool bad = !(error <= bound);
        failures += bad;
        line("network")
            .text("network", base_name(path))
            .text("precision", precision)
            .integer("batch", options.batch)
            .number("error", error)
            .number("bound", bound)
            .yes("ok", !bad)
            .yes("same_bits", same_bits(first, third))
            .integer("same_class", same_places(third, want))
            .integer("steps_on_device", device)
            .integer("steps_on_cpu", cpu)
            .text("refused", reasons)
            .print();
    }
    return failures;
}

struct trajectory {
    std::vector<double> losses;
    std::vector<graft::tensor> state;
    std::vector<std::string> names;  // of its parts
};

graft::result<trajectory> learn(const std::string& architecture, const check_options& options, const std::shared_ptr<graft::device>& on, bool otherwise) {
    graft::architecture_options how;
    how.seed = 1;
    graft::graph g;
    GRAFT_TRY_ASSIGN(g, graft::build_architecture(architecture, how));
    graft::step_options steps;
    steps.optimizer.kind = graft::optimizer_kind::sgd;
    steps.optimizer.momentum = 0.9;
    if (otherwise) steps.exact = true, steps.shards = 2;
    steps.on = on;
    graft::pool_executor pool(options.threads);
    std::unique_ptr<trained> t;
    GRAFT_TRY_ASSIGN(t, trained::make(g, options.batch, steps, pool));
    trajectory out;
    for (int i = 0; i < options.steps; ++i) {
        t->batch_number(i, steps.loss);
        t->in.step = i;
        GRAFT_TRY(t->step.run(t->in, pool));
        out.losses.push_back(t->step.loss());
    }
    GRAFT_TRY(t->step.read_state());
    for (const graft::training_state& s : t->step.state()) {
        graft::tensor kept;
        GRAFT_TRY_ASSIGN(kept, graft::tensor::make(s.value.type(), s.value.shape()));
        std::memcpy(kept.raw(), s.value.raw(), s.value.bytes());
        out.state.push_back(std::move(kept));
        out.names.push_back(s.name);
    }
    return out;
}

double farthest(const trajectory& a, const trajectory& b, std::size_t steps) {
    double worst = 0;
    for (std::size_t i = 0; i < std::min(steps, b.losses.size()); ++i)
        worst = std::max(worst, std::fabs(a.losses[i] - b.losses[i]) / std::max(1e-3, std::fabs(b.losses[i])));
    return worst;
}

// Of the first five losses, or of the last five.
double mean(const std::vector<double>& losses, bool last) {
    const std::size_t n = std::min<std::size_t>(5, losses.size());
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += losses[last ? losses.size() - 1 - i : i];
    return sum / static_cast<double>(n);
}

// Parts of the state that two runs of one step do not agree on.
graft::result<std::string> unlike(const std::string& architecture, check_options options, const std::shared_ptr<graft::device>& on) {
    options.steps = 1;
    trajectory a, b;
    GRAFT_TRY_ASSIGN(a, learn(architecture, options, on, false));
    GRAFT_TRY_ASSIGN(b, learn(architecture, options, on, false));
    std::string names = a.losses == b.losses ? "" : "loss";
    for (std::size_t i = 0; i < a.state.size(); ++i)
        if (!same_bits(a.state[i], b.state[i])) names += (names.empty() ? "" : ", ") + a.names[i];
    return names;
}

bool same(const trajectory& a, const trajectory& b) {
    bool equal = a.losses == b.losses && a.state.size() == b.state.size();
    for (std::size_t i = 0; equal && i < a.state.size(); ++i) equal = same_bits(a.state[i], b.state[i]);
    return equal;
}

// A network whose middle is a mebi-element for each sample, over one number a sample.
graft::result<graft::graph> wide_network() {
    constexpr std::int64_t wide = 1 << 20;
    graft::builder b("wide");
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 1});
    graft::tensor out, in;
    GRAFT_TRY_ASSIGN(out, graft::tensor::make(graft::dtype::float32, {1, wide}));
    GRAFT_TRY_ASSIGN(in, graft::tensor::make(graft::dtype::float32, {wide, 1}));
    fill(out.data<float>(), wide, 1);
    fill(in.data<float>(), wide, 2);
    x = b.apply("Tanh", {b.apply("MatMul", {x, b.constant("out", out)})});
    b.output(b.apply("MatMul", {x, b.constant("in", in)}), "y");
    return b.finish();
}

graft::status run_wide(const graft::model& net, std::int64_t batch) {
    graft::tensor x;
    GRAFT_TRY_ASSIGN(x, graft::tensor::make(graft::dtype::float32, {batch, 1}));
    fill(x.data<float>(), batch, 3);
    graft::session session(net);
    auto y = session.run(x);
    return y.ok() ? graft::status() : y.take_status();
}

// One refusal that has to come, and a run after it that has to work.
graft::result<int> refuse_then_run(const char* what, const std::shared_ptr<graft::device>& on, const graft::limits& limit, std::int64_t batch,
                                   std::initializer_list<graft::errc> wanted) {
    graft::load_options loads = graft::on_device(on);
    loads.limits = limit;
    loads.strict_placement = on != nullptr;  // the CPU's memory is not what is asked for
    graft::graph g;
    GRAFT_TRY_ASSIGN(g, wide_network());
    graft::model net;
    GRAFT_TRY_ASSIGN(net, gpu_runtime::load(std::move(g), loads));
    const graft::status large = run_wide(net, batch), small = run_wide(net, 2);
    bool refused = false;
    for (graft::errc code : wanted) refused |= !large.ok() && large.error().code() == code;
    line("memory")
        .text("case", what)
        .integer("batch", batch)
        .yes("refused", refused)
        .text("why", large.ok() ? "it ran" : large.error().what())
        .yes("works_after", small.ok())
        .text("after", small.ok() ? "" : small.error().what())
        .print();
    return (refused ? 0 : 1) + (small.ok() ? 0 : 1);
}

}  // namespace

graft::result<int> check_networks(const check_options& options) {
    int failures = 0;
    for (const std::string& path : options.models) {
        if (seconds() > options.until) {
            line("not_run").text("network", base_name(path)).print();
            continue;
        }
        auto done = check_network(path, options);
        if (!done.ok()) line("failure").text("network", base_name(path)).text("why", done.error().what()).print();
        failures += done.ok() ? done.value() : 1;
    }
    return failures;
}

graft::result<int> check_steps(const check_options& options) {
    int failures = 0;
    for (const char* architecture : {"lenet", "resnet20"}) {
        if (seconds() > options.until) {
            line("not_run").text("network", architecture).print();
            continue;
        }
        // how far two orders of the CPU's own sums part, over the first steps and over all
        trajectory host, other;
        GRAFT_TRY_ASSIGN(host, learn(architecture, options, nullptr, false));
        GRAFT_TRY_ASSIGN(other, learn(architecture, options, nullptr, true));
        const std::size_t first = 10;
        const double own = farthest(other, host, first), own_all = farthest(other, host, host.losses.size());
        for (const std::string& precision : options.precisions) {
            std::shared_ptr<graft::device> on, exact;
            GRAFT_TRY_ASSIGN(on, open(options.device, precision));
            GRAFT_TRY_ASSIGN(exact, open(options.device, precision, true));
            auto got = learn(architecture, options, on, false), once = learn(architecture, options, exact, false),
                 twice = learn(architecture, options, exact, false);
            for (auto* run : {&got, &once, &twice})
                if (!run->ok()) {
                    ++failures;
                    line("failure").text("network", architecture).text("precision", precision).text("why", run->error().what()).print();
                }
            if (!got.ok() || !once.ok() || !twice.ok()) continue;
            const double u = rounding_of(precision), bound = std::max(u > 0 ? 40 * u : 1e-3, 4 * own);
            const double early = farthest(got.value(), host, first), all = farthest(got.value(), host, host.losses.size());
            const bool repeats = same(once.value(), twice.value()), learns = mean(got->losses, true) < mean(got->losses, false) || options.steps < 20;
            std::string apart;
            if (!repeats) GRAFT_TRY_ASSIGN(apart, unlike(architecture, options, exact));
            const bool bad = !(early <= bound) || !repeats || !learns;
            failures += bad;
            line("steps")
                .text("network", architecture)
                .text("precision", precision)
                .integer("batch", options.batch)
                .integer("steps", options.steps)
                .number("first_loss", mean(got->losses, false))
                .number("last_loss", mean(got->losses, true))
                .number("cpu_last_loss", mean(host.losses, true))
                .number("error_10", early)
                .number("error_all", all)
                .number("bound_10", bound)
                .number("cpu_spread_10", own)
                .number("cpu_spread_all", own_all)
                .yes("repeats", repeats)
                .text("unlike_after_a_step", apart)
                .yes("ok", !bad)
                .print();
        }
    }
    return failures;
}

graft::result<int> check_memory(const check_options& options) {
    int failures = 0, found = 0;
    graft::limits limit;
    const auto add = [&](graft::result<int> done) -> graft::status {
        if (!done.ok()) return done.take_status();
        failures += done.value();
        return {};
    };
    if (options.device == "cpu") {
        GRAFT_TRY(add(refuse_then_run("limits::memory_bytes", nullptr, limit, 8192, {graft::errc::memory_budget})));
        return failures;
    }
    std::vector<graft::gpu::device_info> before;
    GRAFT_TRY_ASSIGN(before, graft::gpu::list_devices());
    limit.memory_bytes = std::int64_t(1) << 50;
    std::shared_ptr<graft::device> on, little;
    GRAFT_TRY_ASSIGN(on, open(options.device, "float32"));
    for (std::size_t i = 0; i < before.size(); ++i)
        if ("cuda:" + std::to_string(before[i].ordinal) == on->name()) found = static_cast<int>(i);
    const std::int64_t too_many = before[static_cast<std::size_t>(found)].memory_bytes / (std::int64_t(4) << 20) * 3 / 2;
    // Of so many rows cuBLASLt may have no product at all.
    GRAFT_TRY(add(refuse_then_run("the device's memory", on, limit, too_many, {graft::errc::memory_oom, graft::errc::op_unsupported})));
    GRAFT_TRY_ASSIGN(little, open(options.device, "float32", false, std::int64_t(256) << 20));
    GRAFT_TRY(add(refuse_then_run("device_options::memory_bytes", little, limit, 128, {graft::errc::memory_budget})));
    const graft::gpu::pool_use used = pool_of(on)->use();
    pool_of(on)->trim();
    pool_of(little)->trim();
    const graft::gpu::pool_use left = pool_of(on)->use();
    on.reset();
    little.reset();
    std::vector<graft::gpu::device_info> after;
    GRAFT_TRY_ASSIGN(after, graft::gpu::list_devices());
    const bool bad = used.total() != 0 || left.reserved != 0;
    line("returned")
        .integer("handed_out", used.total())
        .integer("peak", used.peak)
        .integer("reserved_after_trim", left.reserved)
        .integer("free_before", before[static_cast<std::size_t>(found)].free_bytes)
        .integer("free_after", after[static_cast<std::size_t>(found)].free_bytes)
        .yes("ok", !bad)
        .print();
    return failures + bad;
}

graft::result<int> check_threads(const check_options& options) {
    int failures = 0;
    for (const std::string& path : options.models) {
        std::shared_ptr<graft::device> on;
        GRAFT_TRY_ASSIGN(on, open(options.device, options.precisions[0], true));
        graft::model net;
        GRAFT_TRY_ASSIGN(net, gpu_runtime::load(path, graft::on_device(on)));
        struct worker {
            graft::tensor input, want;
            graft::status done;
            int runs = 0, wrong = 0;
        };
        std::vector<worker> workers(2);
        for (std::size_t i = 0; i < workers.size(); ++i) {
            GRAFT_TRY_ASSIGN(workers[i].input, pictures(net, options.batch + static_cast<std::int64_t>(i), static_cast<std::int64_t>(i)));
            graft::session alone(net);
            GRAFT_TRY_ASSIGN(workers[i].want, alone.run(workers[i].input));
        }
        const auto work = [&net, &options](worker& w) {
            graft::session session(net, {1, nullptr});
            for (; w.runs < 20 && (w.runs < 2 || seconds() < options.until); ++w.runs) {
                auto y = session.run(w.input);
                if (!y.ok()) {
                    w.done = y.take_status();
                    return;
                }
                w.wrong += !same_bits(y.value(), w.want);
            }
        };
        std::vector<std::thread> threads;
        for (worker& w : workers) threads.emplace_back(work, std::ref(w));
        for (std::thread& t : threads) t.join();
        for (const worker& w : workers) {
            failures += w.wrong + (w.done.ok() ? 0 : 1);
            line("threads")
                .text("network", base_name(path))
                .integer("runs", w.runs)
                .integer("wrong", w.wrong)
                .text("why", w.done.ok() ? "" : w.done.error().what())
                .print();
        }
    }
    return failures;
}

}  // namespace bench
