// Recorded runs: what each step computes and moves, spans that nest, sums that agree with the whole, and nothing where nobody records.
#include "host_device.hpp"
#include "nets.hpp"

#include <doctest/doctest.h>
#include <graft/core/json.hpp>
#include <graft/profile.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using graft::dtype;
using graft::trace_recorder;
using graft::trace_span;

graft::load_options recorded(const std::shared_ptr<trace_recorder>& by) {
    graft::load_options o;
    o.device = "cpu";
    o.trace = by;
    return o;
}
bool whole(const trace_span& s) { return s.task && s.task->op == trace_recorder::whole_run; }
std::int64_t multiply_adds_of(const std::vector<trace_span>& spans) {
    std::int64_t sum = 0;
    for (const trace_span& s : spans) sum += s.task ? s.task->multiply_adds : 0;
    return sum;
}
// The spans of one run behind one that planned.
std::vector<trace_span> spans_of(const graft::model& m, trace_recorder& by, const std::vector<graft::tensor>& inputs, int threads = 2) {
    graft::session session(m, {threads, nullptr});
    const std::string first = nets::run(session, m, inputs).error;
    REQUIRE_MESSAGE(first.empty(), first);
    by.start();
    const std::string second = nets::run(session, m, inputs).error;
    by.stop();
    REQUIRE_MESSAGE(second.empty(), second);
    return by.spans();
}
std::int64_t multiply_adds_of(const graft::graph& g, const std::vector<graft::tensor>& inputs, bool exact = false, bool reference = false) {
    const auto by = std::make_shared<trace_recorder>();
    graft::load_options o = recorded(by);
    o.exact = exact, o.reference = reference;
    graft::model m = graft::load(g, o);
    return multiply_adds_of(spans_of(m, *by, inputs));
}

struct event {
    int process = 0, thread = 0;
    double begin = 0, end = 0;
    std::string name, op;
    const graft::json* args = nullptr;
};
// The "X" events of a trace; the text has to be JSON, and every process and thread of one has to have a name.
std::vector<event> events_of(const graft::json& all) {
    std::vector<event> events;
    std::vector<std::pair<int, int>> named;
    const graft::json* list = all.find("traceEvents");
    REQUIRE(list);
    for (const graft::json& e : list->items) {
        const std::pair<int, int> track(static_cast<int>(e.find("pid")->integer), static_cast<int>(e.find("tid")->integer));
        if (e.find("ph")->string == "M") {
            if (e.find("name")->string == "thread_name") named.push_back(track);
            continue;
        }
        REQUIRE(e.find("ph")->string == "X");
        event one;
        one.process = track.first, one.thread = track.second;
        one.begin = e.find("ts")->real, one.end = one.begin + e.find("dur")->real;
        one.name = e.find("name")->string;
        one.args = e.find("args");
        one.op = one.args->find("op")->string;
        CHECK(one.end >= one.begin);
        CHECK(std::find(named.begin(), named.end(), track) != named.end());
        events.push_back(one);
    }
    return events;
}
// On a thread one event lies inside of another or beside it, but for what adding and rounding to doubles takes: nanoseconds here.
bool nest(std::vector<event> events) {
    std::sort(events.begin(), events.end(), [](const event& a, const event& b) {
        return std::make_tuple(a.process, a.thread, a.begin, -a.end) < std::make_tuple(b.process, b.thread, b.begin, -b.end);
    });
    constexpr double slack = 1e-3;
    std::vector<event> open;
    for (const event& e : events) {
        const auto behind = [&](const event& o) { return o.process != e.process || o.thread != e.thread || o.end <= e.begin + slack; };
        while (!open.empty() && behind(open.back())) open.pop_back();
        if (!open.empty() && e.end > open.back().end + slack) return false;
        open.push_back(e);
    }
    return true;
}

// ResNet-18 of torchvision: 1,814,073,344 multiply-adds at 224x224, as the papers' 1.8 GFLOP count them.
graft::graph resnet18() {
    graft::builder b("resnet18", 1);
    const auto conv = [&](graft::value_id x, std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
        graft::conv2d_options o;
        o.kernel = kernel, o.stride = stride, o.padding = kernel / 2, o.bias = false;
        return b.batch_norm(b.conv2d(x, channels, o));
    };
    auto x = b.input("x", dtype::float32, {1, 3, 224, 224});
    x = b.max_pool(b.relu(conv(x, 64, 7, 2)), {3, 2, 1, false, false});
    std::int64_t width = 64;
    for (int block = 0; block < 8; ++block) {
        const bool wider = block == 2 || block == 4 || block == 6;
        if (wider) width *= 2;
        const auto y = conv(b.relu(conv(x, width, 3, wider ? 2 : 1)), width, 3, 1);
        x = b.relu(b.add(y, wider ? conv(x, width, 1, 2) : x));
    }
    b.output(b.linear(b.flatten(b.global_average_pool(x)), 1000), "logits");
    return b.finish();
}

// A number of rounds that a run is told, each with a product of 24 by 24.
graft::graph looped() {
    graft::builder b("looped", 6);
    const auto x = b.input("x", dtype::float32, {1, 24}), trips = b.input("trips", dtype::int64, {});
    nets::numbers random{6};
    const auto w = b.constant("w", nets::random_tensor({24, 24}, random, -0.3, 0.3));
    nets::body_builder body("body");
    body.b.input("i", dtype::int64, {});
    const auto go_on = body.b.input("go_on", dtype::boolean, {}), state = body.b.input("state", dtype::float32, {1, 24});
    body.b.output(body.b.apply("Identity", {go_on}), "go_on_out");
    body.b.output(body.b.apply("MatMul", {state, body.capture(dtype::float32, w)}), "next");
    b.output(b.apply("Loop", {trips, graft::no_value, x}, {graft::graph_attribute("body", body.finish())}), "y");
    return b.finish();
}

}  // namespace

TEST_CASE("steps count the multiply-adds that are worked out by hand, whatever is fused with them") {
    struct problem {
        const char* op;
        graft::shape in, weights;
        std::vector<graft::attribute> attributes;
        std::int64_t multiply_adds;
    };
    const auto ints = [](const char* name, std::vector<std::int64_t> values) { return graft::integers_attribute(name, std::move(values)); };
    const std::vector<problem> problems = {
        {"Conv", {1, 3, 8, 8}, {4, 3, 3, 3}, {ints("pads", {1, 1, 1, 1})}, 1 * 4 * 8 * 8 * 3 * 3 * 3},
        {"Conv", {2, 3, 9, 9}, {5, 3, 3, 3}, {ints("strides", {2, 2})}, 2 * 5 * 4 * 4 * 3 * 3 * 3},
        {"Conv", {1, 8, 8, 8}, {8, 2, 3, 3}, {graft::integer_attribute("group", 4)}, 8 * 6 * 6 * 2 * 3 * 3},
        {"Conv", {1, 16, 8, 8}, {16, 1, 3, 3}, {graft::integer_attribute("group", 16), ints("pads", {1, 1, 1, 1})}, 16 * 8 * 8 * 3 * 3},
        {"Conv", {1, 32, 7, 7}, {48, 32, 1, 1}, {}, 48 * 7 * 7 * 32},
        {"Conv", {1, 32, 16, 16}, {32, 32, 3, 3}, {ints("pads", {1, 1, 1, 1})}, 32 * 16 * 16 * 32 * 3 * 3},
        // Each element of the input goes into 2 x 3 x 3 of the output.
        {"ConvTranspose", {1, 3, 5, 5}, {3, 2, 3, 3}, {ints("strides", {2, 2})}, 3 * 5 * 5 * 2 * 3 * 3},
        {"MatMul", {5, 7}, {7, 11}, {}, 5 * 7 * 11},
        {"Gemm", {5, 7}, {7, 11}, {}, 5 * 7 * 11},
        {"Gemm", {7, 5}, {11, 7}, {graft::integer_attribute("transA", 1), graft::integer_attribute("transB", 1)}, 5 * 7 * 11},
    };
    nets::numbers random{3};
    for (const problem& p : problems)
        for (const bool relu : {false, true}) {
            CAPTURE(p.op);
            CAPTURE(p.multiply_adds);
            graft::graph g;
            const graft::value_id x = g.add_value("x"), w = g.add_value("w");
            g.at(x).type = dtype::float32, g.at(x).has_shape = true, g.at(x).extents = p.in;
            g.inputs = {x};
            g.at(w).constant = nets::random_tensor(p.weights, random);
            g.at(w).type = dtype::float32, g.at(w).has_shape = true, g.at(w).extents = p.weights;
            g.opsets = {{"", 17}};
            const auto put = [&](const char* op, std::vector<graft::value_id> in, std::vector<graft::attribute> attributes) {
                graft::node n;
                n.op_type = op, n.name = op, n.version = 17;
                n.inputs = std::move(in), n.attributes = std::move(attributes);
                n.outputs = {g.add_value(std::string(op) + "_y")};
                g.nodes.push_back(n);
                return n.outputs[0];
            };
            graft::value_id y = put(p.op, {x, w}, p.attributes);
            if (relu) y = put("Relu", {y}, {});
            g.outputs = {y};
            const std::vector<graft::tensor> inputs = {nets::random_tensor(p.in, random)};
            for (const std::string& isa : nets::isas()) {
                const nets::forced_isa forced(isa);
                CHECK(multiply_adds_of(g, inputs) == p.multiply_adds);
            }
            CHECK(multiply_adds_of(g, inputs, true) == p.multiply_adds);
            CHECK(multiply_adds_of(g, inputs, false, true) == p.multiply_adds);
        }
}

TEST_CASE("the steps of ResNet-18 compute 1.814 thousand million multiply-adds, by Winograd's algorithm or not") {
    const auto by = std::make_shared<trace_recorder>();
    graft::model m = graft::load(resnet18(), recorded(by));
    const std::vector<trace_span> spans = spans_of(m, *by, {graft::tensor::zeros(dtype::float32, {1, 3, 224, 224})});
    CHECK(multiply_adds_of(spans) == 1814073344);
    // By hand: 64 x 56 x 56 x 64 x 9 of a convolution of three by three inside of a stage, the same in each stage; half of it where a stage begins.
    const auto steps_of = [&](std::int64_t multiply_adds) {
        return std::count_if(spans.begin(), spans.end(), [&](const trace_span& s) { return s.task->multiply_adds == multiply_adds; });
    };
    CHECK(steps_of(115605504) == 13);
    CHECK(steps_of(57802752) == 3);
    CHECK(steps_of(6422528) == 3);
    CHECK(steps_of(118013952) == 1);
    CHECK(steps_of(512000) == 1);
    for (const trace_span& s : spans)
        if (s.task->kernel.find("Winograd") != std::string::npos) CHECK(s.task->multiply_adds == 115605504);
}

TEST_CASE("steps together count what the network as it was loaded counts") {
    const auto all_of = [](const graft::graph& g, const std::vector<graft::tensor>& inputs) {
        for (const int kind : {0, 1, 2}) {
            const auto by = std::make_shared<trace_recorder>();
            graft::load_options o = recorded(by);
            o.exact = kind == 1, o.reference = kind == 2;
            graft::model m = graft::load(g, o);
            std::vector<graft::value_info> infos = m.inputs();
            for (std::size_t i = 0; i < infos.size(); ++i) infos[i].extents = inputs[i].shape();
            const graft::model::memory_use use = m.memory(infos);
            CHECK(use.multiply_adds > 0);
            CHECK(multiply_adds_of(spans_of(m, *by, inputs)) == use.multiply_adds);
        }
    };
    nets::numbers random{4};
    all_of(nets::residual_net(3), {nets::random_tensor({2, 3, 24, 17}, random)});
    graft::model demo = graft::load(nets::demo_model());
    all_of(demo.graph(), nets::inputs_of(demo, 1, 64));
    const std::string shared = nets::shared();
    if (shared.empty()) return;
    for (const char* name : {"mnist-8", "mlperftiny_resnet8_fp32_op12", "mlperftiny_resnet8_int8_op13", "mobilenetv1_025_128_qdq_op13",
                             "resnet20_cifar10_fp32_bn_unfused_op15", "mobilenetv3small_mnist_op13"}) {
        CAPTURE(name);
        graft::model m = graft::load(shared + "/pack/models/" + name + ".onnx");
        all_of(m.graph(), nets::inputs_of(m, 1, 1));
    }
}

TEST_CASE("bytes are those of what a step reads and makes") {
    graft::builder b("sum", 1);
    const auto x = b.input("x", dtype::float32, {3, 5});
    b.output(b.apply("Add", {x, b.constant("c", nets::floats({1, 2, 3, 4, 5}))}), "y");
    const auto by = std::make_shared<trace_recorder>();
    graft::model m = graft::load(b.finish().value(), recorded(by));
    const std::vector<trace_span> spans = spans_of(m, *by, {graft::tensor::zeros(dtype::float32, {3, 5})});
    REQUIRE(spans.size() == 2);
    const graft::trace_task& t = *spans[0].task;
    CHECK(t.op == "Add");
    CHECK(t.read_bytes == (15 + 5) * 4);
    CHECK(t.made_bytes == 15 * 4);
    CHECK(spans[0].bytes == 15 * 4);
    CHECK(t.shapes == "float32[3,5] float32[5] -> float32[3,5]");
    CHECK(t.device == "cpu");
    CHECK(t.threads == 2);
    CHECK(t.multiply_adds == 0);
    CHECK(whole(spans[1]));
}

TEST_CASE("a trace is JSON whose events nest on each thread, each step inside of its run") {
    nets::numbers random{5};
    const graft::tensor x = nets::random_tensor({4, 3, 16, 16}, random);
    for (const int stages : {0, 2, 3}) {
        CAPTURE(stages);
        const auto by = std::make_shared<trace_recorder>();
        graft::load_options o = recorded(by);
        if (stages) o.stages = std::vector<std::shared_ptr<graft::device>>(static_cast<std::size_t>(stages)), o.parts = 2;
        graft::model m = graft::load(nets::residual_net(3), o);
        graft::session first(m, {2, nullptr}), second(m, {1, nullptr});
        CHECK(nets::run(first, m, {x}).error.empty());
        CHECK(by->spans().empty());
        by->start();
        constexpr int runs = 3;
        for (int i = 0; i < runs; ++i) {
            CHECK(nets::run(first, m, {x}).error.empty());
            CHECK(nets::run(second, m, {x}).error.empty());
        }
        by->stop();
        const std::size_t taken = by->spans().size();
        CHECK(nets::run(first, m, {x}).error.empty());
        CHECK(by->spans().size() == taken);
        auto parsed = graft::parse_json(by->file(), "trace");
        REQUIRE_MESSAGE(parsed.ok(), parsed.error().what());
        const std::vector<event> events = events_of(*parsed);
        CHECK(events.size() == taken);
        CHECK(nest(events));
        for (int session : {0, 1})
            CHECK(std::count_if(events.begin(), events.end(), [&](const event& e) { return e.process == session && e.op == "run"; }) == runs);
        for (const event& e : events) {
            if (e.op == trace_recorder::whole_run) continue;
            CHECK(std::any_of(events.begin(), events.end(), [&](const event& r) {
                return r.op == trace_recorder::whole_run && r.process == e.process && r.begin <= e.begin + 1e-3 && e.end <= r.end + 1e-3;
            }));
            for (const char* key : {"node", "bytes", "shapes", "device", "kernel", "threads", "read_bytes"}) CHECK(e.args->find(key));
            CHECK((e.args->find("flop") != nullptr) == (e.op == "Conv" || e.op == "MatMul"));
        }
    }
}

TEST_CASE("what runs inside of a loop is told by itself, and the loop's own time is without it") {
    const auto by = std::make_shared<trace_recorder>();
    graft::model m = graft::load(looped(), recorded(by));
    nets::numbers random{8};
    const graft::tensor x = nets::random_tensor({1, 24}, random);
    const std::vector<trace_span> spans = spans_of(m, *by, {x, graft::tensor::scalar(std::int64_t(5))});
    CHECK(multiply_adds_of(spans) == 5 * 24 * 24);
    auto parsed = graft::parse_json(by->file(), "trace");
    REQUIRE(parsed.ok());
    CHECK(nest(events_of(*parsed)));
    auto profile = graft::profile_of(*by);
    REQUIRE(profile.ok());
    CHECK(profile->runs == 1);
    double steps = 0, loop = 0;
    for (const trace_span& s : spans) loop += s.task->op == "Loop" ? s.end - s.begin : 0;
    for (const graft::profile_row& row : profile->operators) {
        steps += row.seconds;
        if (row.op == "MatMul") CHECK(row.calls == 5);
        if (row.op == "Loop") CHECK(row.calls == 1);
        if (row.op == "Loop") CHECK(row.seconds < loop);
    }
    // Nothing counts twice: what the rows add up to is what was inside of steps.
    CHECK(steps == doctest::Approx(profile->seconds - profile->outside_seconds));
}

TEST_CASE("rows by operator and by node add up to the same, once a run and step") {
    const auto by = std::make_shared<trace_recorder>();
    graft::model m = graft::load(nets::residual_net(3), recorded(by));
    nets::numbers random{5};
    const graft::tensor x = nets::random_tensor({2, 3, 24, 17}, random);
    graft::session session(m, {2, nullptr});
    constexpr int runs = 4;
    by->start();
    for (int i = 0; i < runs; ++i) CHECK(nets::run(session, m, {x}).error.empty());
    by->stop();
    auto made = graft::profile_of(*by);
    REQUIRE(made.ok());
    const graft::run_profile& p = *made;
    CHECK(p.runs == runs);
    CHECK(p.left_out == 0);
    CHECK(p.not_measured.empty());
    const auto sum = [](const std::vector<graft::profile_row>& rows) {
        graft::profile_row total;
        for (const graft::profile_row& r : rows)
            total.calls += r.calls, total.seconds += r.seconds, total.multiply_adds += r.multiply_adds, total.bytes += r.bytes;
        return total;
    };
    const graft::profile_row operators = sum(p.operators), nodes = sum(p.nodes);
    CHECK(operators.calls == static_cast<std::int64_t>(by->spans().size()) - runs);
    CHECK(operators.calls == nodes.calls);
    CHECK(operators.multiply_adds == nodes.multiply_adds);
    CHECK(operators.multiply_adds == multiply_adds_of(by->spans()));
    CHECK(operators.bytes == nodes.bytes);
    CHECK(operators.seconds == doctest::Approx(nodes.seconds));
    CHECK(operators.seconds + p.outside_seconds == doctest::Approx(p.seconds));
    for (const graft::profile_row& row : p.nodes) CHECK(row.calls == runs);
    for (std::size_t i = 1; i < p.nodes.size(); ++i) CHECK(p.nodes[i - 1].seconds >= p.nodes[i].seconds);
}

TEST_CASE("a profile of spans that are known: own time, time outside of steps, two threads at once") {
    trace_recorder by;
    by.start();
    const auto task = [](const char* op, std::int64_t multiply_adds) {
        graft::trace_task t;
        t.op = op, t.node = std::string(op) + "1", t.multiply_adds = multiply_adds, t.read_bytes = 8, t.made_bytes = 4;
        return std::make_shared<const graft::trace_task>(t);
    };
    const auto add = [&](const std::shared_ptr<const graft::trace_task>& what, int thread, double begin, double end, int member = 0) {
        trace_span s;
        s.task = what, s.thread = thread, s.member = member, s.begin = begin, s.end = end;
        by.add(s);
    };
    const auto run = task(trace_recorder::whole_run, 0), loop = task("Loop", 0), product = task("MatMul", 100), other = task("Conv", 7);
    add(product, 0, 2, 3);
    add(product, 0, 3, 3.5);
    add(loop, 0, 1, 4);
    add(other, 2, 3, 6);
    add(run, 0, 0, 8);
    add(product, 0, 1, 2, 1);
    add(run, 0, 1, 2, 1);
    by.stop();
    auto made = graft::profile_of(by);
    REQUIRE(made.ok());
    CHECK(made->runs == 2);
    CHECK(made->seconds == 9);
    CHECK(made->outside_seconds == 3);  // [0, 1] and [6, 8] of the first session
    REQUIRE(made->operators.size() == 3);
    CHECK(made->operators[0].op == "Conv");
    CHECK(made->operators[0].seconds == 3);
    CHECK(made->operators[1].op == "MatMul");
    CHECK(made->operators[1].seconds == 2.5);
    CHECK(made->operators[1].calls == 3);
    CHECK(made->operators[1].multiply_adds == 300);
    CHECK(made->operators[1].bytes == 36);
    CHECK(made->operators[2].op == "Loop");
    CHECK(made->operators[2].seconds == 1.5);

    // The faster of the two runs is the second session's, with its one step.
    auto faster = graft::profile_of(by, 0.5);
    REQUIRE(faster.ok());
    CHECK(faster->runs == 1);
    CHECK(faster->seconds == 1);
    CHECK(faster->outside_seconds == 0);
    REQUIRE(faster->operators.size() == 1);
    CHECK(faster->operators[0].calls == 1);
    CHECK(faster->operators[0].seconds == 1);

    // 200 FLOP on 12 bytes; a machine of 1000 FLOP and 100 bytes a second, then one that reads slowly.
    graft::cpu::machine_peak machine;
    machine.flop_per_second = 1000, machine.read_per_second = 100;
    graft::roofline r = graft::roofline_of(made->operators[1], machine);
    CHECK(r.flop_per_second == 240);
    CHECK(r.bytes_per_second == doctest::Approx(14.4));
    CHECK(!r.memory_binds);
    CHECK(r.limit_share == doctest::Approx(0.24));
    machine.read_per_second = 20;
    r = graft::roofline_of(made->operators[1], machine);
    CHECK(r.memory_binds);
    CHECK(r.limit_share == doctest::Approx(0.72));
    CHECK(graft::roofline_of(made->operators[2], machine).memory_binds);
    CHECK(graft::roofline_of(made->operators[2], {}).limit_share == 0);
}

TEST_CASE("steps of a device that does not say how long they take are named, and have no spans") {
    const auto by = std::make_shared<trace_recorder>();
    graft::load_options o = recorded(by);
    const auto device = std::make_shared<host_devices::host_device>();
    device->takes = [](const graft::node& n) { return n.op_type == "Sigmoid" || n.op_type == "Tanh"; };
    o.opened = device;
    graft::builder b("mixed", 3);
    const auto x = b.input("x", dtype::float32, {2, 8});
    b.output(b.apply("Exp", {b.apply("Tanh", {b.apply("Sigmoid", {x})})}), "y");
    graft::model m = graft::load(b.finish().value(), o);
    graft::session session(m, {1, nullptr});
    const graft::tensor in = graft::tensor::zeros(dtype::float32, {2, 8});
    by->start();
    for (int i = 0; i < 3; ++i) CHECK(nets::run(session, m, {in}).error.empty());
    by->stop();
    auto p = graft::profile_of(*by);
    REQUIRE(p.ok());
    std::vector<std::string> named;
    for (const graft::profile_row& row : p->not_measured) {
        CHECK(row.device == device->name());
        CHECK(row.calls % 3 == 0);
        named.push_back(row.op);
    }
    for (const char* op : {"Sigmoid", "Tanh"}) {
        CHECK(std::count(named.begin(), named.end(), op) == 1);
        for (const graft::profile_row& row : p->operators) CHECK(row.op != op);
    }
    CHECK(std::any_of(p->operators.begin(), p->operators.end(), [](const graft::profile_row& row) { return row.op == "Exp" && row.calls == 3; }));
}

TEST_CASE("what a trace has no room for is counted, and names that a file chooses are cut") {
    const auto by = std::make_shared<trace_recorder>(5);
    graft::graph g = nets::residual_net(3);
    // Two bytes a letter: a cut in the middle of one would be no text.
    for (graft::node& n : g.nodes) {
        n.name = "x";
        for (int i = 0; i < 400; ++i) n.name += "\xc3\xa9";
    }
    graft::model m = graft::load(g, recorded(by));
    nets::numbers random{5};
    graft::session session(m, {2, nullptr});
    by->start();
    CHECK(nets::run(session, m, {nets::random_tensor({1, 3, 24, 17}, random)}).error.empty());
    by->stop();
    CHECK(by->spans().size() == 5);
    CHECK(by->left_out() > 0);
    auto p = graft::profile_of(*by);
    REQUIRE(p.ok());
    CHECK(p->left_out == by->left_out());
    const std::string file = by->file();
    REQUIRE(graft::parse_json(file, "trace").ok());
    CHECK(file.find("\xef\xbf\xbd") == std::string::npos);
    for (const trace_span& s : by->spans()) CHECK(s.task->node.size() <= 256);
}

TEST_CASE("a model without a recorder, and one whose recorder is off, give the same bits as one that is recorded") {
    nets::numbers random{9};
    const graft::tensor x = nets::random_tensor({2, 3, 24, 17}, random);
    const auto by = std::make_shared<trace_recorder>();
    graft::model plain = graft::load(nets::residual_net(2)), off = graft::load(nets::residual_net(2), recorded(by));
    const nets::answer a = nets::run(plain, {x}), b = nets::run(off, {x});
    CHECK(by->spans().empty());
    CHECK(by->unmeasured().empty());
    by->start();
    const nets::answer c = nets::run(off, {x});
    CHECK(!by->spans().empty());
    CHECK(nets::same_bits(a, b));
    CHECK(nets::same_bits(a, c));
}
