// How long a device takes: a server that bench/gpu_rounds.py lets measure in turn with its rival, and single first predictions.
//   gpu_time serve --device NAME       reads commands on stdin, answers each with a line of JSON:
//     load KEY infer|resident|train FILE BATCH PRECISION     loads, runs once; "resident": the pictures stay on the device
//     run KEY SECONDS                                        runs for so long, at least 5 times; the median
//     drop KEY
//   gpu_time once FILE --device NAME [--batch B] [--precision P]    one load and one run in a process of its own
#include "gpu_common.hpp"

#include <graft/graph/builder.hpp>

#include <iostream>
#include <map>
#include <sstream>

namespace {

using bench::seconds;

// Something that can be run again and again.
struct subject {
    std::shared_ptr<graft::device> on;
    graft::model net;
    std::unique_ptr<graft::session> session;
    std::unique_ptr<bench::trained> training;
    std::unique_ptr<graft::pool_executor> pool;
    double load_ms = 0, first_ms = 0;
    std::int64_t multiply_adds = 0, device_bytes = 0;

    graft::status run() {
        if (!training) return session->run();
        GRAFT_TRY(training->step.run(training->in, *pool));
        ++training->in.step;
        return {};
    }
};

// The network over pictures that are a constant of it, made brighter by an input of one number a sample: what it costs without bringing
// pictures to the device. The addition writes each picture once.
graft::result<graft::graph> resident(const graft::model& net, std::int64_t batch) {
    graft::shape s;
    GRAFT_TRY_ASSIGN(s, bench::batch_shape(net, batch));
    graft::graph g = net.graph();
    graft::tensor pictures;
    GRAFT_TRY_ASSIGN(pictures, graft::tensor::make(graft::dtype::float32, s));
    bench::fill(pictures.data<float>(), pictures.elements(), 1);
    for (graft::value_id& id : g.inputs) {
        if (g.at(id).constant) continue;
        const graft::value_id pictured = id, brighter = g.add_value("brighter"), constant = g.add_constant("pictures", std::move(pictures));
        graft::value& v = g.at(brighter);
        v.type = graft::dtype::float32, v.has_shape = true, v.extents = {batch, 1, 1, 1};
        graft::node n;
        n.op_type = "Add";
        n.inputs = {constant, brighter};
        n.outputs = {pictured};
        g.nodes.insert(g.nodes.begin(), std::move(n));
        id = brighter;
        break;
    }
    // what the file says about an open batch no longer holds
    for (graft::value& v : g.values)
        if (!v.constant && v.name != "brighter") v.has_shape = false;
    return g;
}

graft::status load(subject& s, const std::string& kind, const std::string& path, std::int64_t batch) {
    const double begun = seconds();
    double loaded = 0;
    if (kind == "train") {
        graft::step_options how;
        how.optimizer.kind = graft::optimizer_kind::sgd;
        how.optimizer.momentum = 0.9;
        how.on = s.on;
        s.pool = std::make_unique<graft::pool_executor>(0);
        graft::model net;
        GRAFT_TRY_ASSIGN(net, graft::load(path));
        GRAFT_TRY_ASSIGN(s.training, bench::trained::make(net.graph(), batch, how, *s.pool));
        graft::step_memory memory;
        GRAFT_TRY_ASSIGN(memory, s.training->step.prepare(s.training->shape, *s.pool));
        s.device_bytes = memory.device;
        s.training->in.next = s.training->in.inputs;  // every step is that of the same batch
        loaded = seconds();
    } else {
        graft::load_options with = graft::on_device(s.on);
        GRAFT_TRY_ASSIGN(s.net, bench::gpu_runtime::load(path, with));
        if (kind == "resident") {
            graft::graph g;
            GRAFT_TRY_ASSIGN(g, resident(s.net, batch));
            GRAFT_TRY_ASSIGN(s.net, bench::gpu_runtime::load(std::move(g), with));
        }
        s.session = std::make_unique<graft::session>(s.net);
        loaded = seconds();
        graft::tensor x;
        graft::shape extents;
        GRAFT_TRY_ASSIGN(extents, bench::batch_shape(s.net, batch));
        GRAFT_TRY_ASSIGN(x, graft::tensor::zeros(graft::dtype::float32, extents));
        if (kind == "infer") bench::fill(x.data<float>(), x.elements(), 1);
        for (std::size_t i = 0; i < s.net.inputs().size(); ++i)
            if (!s.net.inputs()[i].has_default) GRAFT_TRY(s.session->set_input(i, x));
    }
    const double filled = seconds();
    GRAFT_TRY(s.run());
    s.load_ms = 1e3 * (loaded - begun);
    s.first_ms = 1e3 * (seconds() - filled);
    if (s.session) {
        graft::value_info v = *bench::first_input(s.net);
        GRAFT_TRY_ASSIGN(v.extents, bench::batch_shape(s.net, batch));
        graft::model::memory_use use;
        GRAFT_TRY_ASSIGN(use, s.net.memory({v}));
        s.multiply_adds = use.multiply_adds, s.device_bytes = use.device;
    }
    return {};
}

bench::line loaded_line(const subject& s, const std::string& key) {
    std::vector<double> answer;
    if (s.session)
        for (std::int64_t i = 0; i < std::min<std::int64_t>(16, s.session->output(0).elements()); ++i) answer.push_back(s.session->output(0).data<float>()[i]);
    else
        answer.push_back(s.training->step.loss());
    bench::line out("loaded");
    out.text("key", key)
        .number("load_ms", s.load_ms)
        .number("first_ms", s.first_ms)
        .integer("multiply_adds", s.multiply_adds)
        .integer("device_bytes", s.device_bytes)
        .numbers("answer", answer);
    return out;
}

graft::status measure(subject& s, double wanted, const std::string& key) {
    // two runs that do not count: the one that is recorded, and the first that replays it
    for (int i = 0; i < 2; ++i) GRAFT_TRY(s.run());
    std::vector<double> ms;
    for (const double begun = seconds(); ms.size() < 5 || (ms.size() < 2000 && seconds() - begun < wanted);) {
        const double start = seconds();
        GRAFT_TRY(s.run());
        ms.push_back(1e3 * (seconds() - start));
    }
    bench::line("ran")
        .text("key", key)
        .number("median_ms", bench::median(ms))
        .number("least_ms", *std::min_element(ms.begin(), ms.end()))
        .integer("runs", static_cast<std::int64_t>(ms.size()))
        .print();
    return {};
}

void serve(const std::string& device) {
    std::map<std::string, subject> subjects;
    std::map<std::string, std::shared_ptr<graft::device>> devices;
    for (std::string text; std::getline(std::cin, text);) {
        std::istringstream words(text);
        std::string command, key, kind, path, precision;
        words >> command >> key;
        graft::status done;
        if (command == "load") {
            std::int64_t batch = 1;
            words >> kind >> path >> batch >> precision;
            auto on = devices.count(precision) ? graft::result<std::shared_ptr<graft::device>>(devices[precision]) : bench::open(device, precision);
            if (on.ok()) {
                devices[precision] = subjects[key].on = on.value();
                done = load(subjects[key], kind, path, batch);
            } else
                done = on.take_status();
            if (done.ok())
                loaded_line(subjects[key], key).print();
            else
                subjects.erase(key);
        } else if (command == "run" && subjects.count(key)) {
            double wanted = 0.1;
            words >> wanted;
            done = measure(subjects[key], wanted, key);
        } else if (command == "drop") {
            subjects.erase(key);
            for (auto& [name, on] : devices)
                if (graft::gpu::memory_pool* pool = bench::pool_of(on)) pool->trim();
            bench::line("dropped").text("key", key).print();
        } else
            done = graft::fail(graft::errc::usage, command, "no such command or key");
        if (!done.ok()) bench::line("failure").text("key", key).text("why", done.error().what()).print();
    }
}

int once(const bench::arguments& words) {
    const double begun = seconds();
    subject s;
    const std::int64_t batch = std::max(1, std::atoi(words.value("--batch", "1").c_str()));
    const std::string precision = words.value("--precision", "auto");
    auto on = bench::open(words.value("--device", "cpu"), precision);
    graft::status done = on.ok() ? graft::status() : on.take_status();
    const double opened = seconds();
    if (done.ok()) {
        s.on = on.value();
        done = load(s, "infer", words.words[1], batch);
    }
    if (!done.ok()) return std::fprintf(stderr, "gpu_time: %s\n", done.error().what()), 1;
    loaded_line(s, "once").number("open_ms", 1e3 * (opened - begun)).number("total_ms", 1e3 * (seconds() - begun)).print();
    return 0;
}

}  // namespace

int main(int count, char** given) {
    const bench::arguments words(count, given);
    const std::string verb = words.words.empty() ? "" : words.words[0];
    if (verb == "once" && words.words.size() > 1) return once(words);
    if (verb != "serve") return std::fprintf(stderr, "gpu_time serve --device NAME, or gpu_time once FILE --device NAME\n"), 2;
    serve(words.value("--device", "cpu"));
}
