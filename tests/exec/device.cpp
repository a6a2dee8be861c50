// A device beside the CPU: the same answers whichever nodes it takes, few copies, named errors, and a table of who runs what.
#include "host_device.hpp"
#include "nets.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <utility>

using graft::builder;
using graft::dtype;
using graft::errc;
using graft::graph_attribute;
using graft::integer_attribute;
using graft::integers_attribute;
using graft::value_id;
using host_devices::at_random;
using host_devices::errc_of;
using host_devices::host_device;
using host_devices::named;
using nets::floats;
using nets::integers;

namespace {

constexpr dtype f32 = dtype::float32, i64 = dtype::int64;

// Attention of one head between products of matrices, with a normalisation and a residual: [N, 6, 8] to the same.
graft::graph attention_net() {
    builder b("attention", 2);
    nets::numbers random{11};
    const auto weight = [&](const char* name) { return b.constant(name, nets::random_tensor({8, 8}, random, -0.5, 0.5)); };
    const auto x = b.input("x", f32, {"N", 6, 8});
    const auto q = b.apply("MatMul", {x, weight("q")}), k = b.apply("MatMul", {x, weight("k")}), v = b.apply("MatMul", {x, weight("v")});
    const auto scores = b.apply("MatMul", {q, b.apply("Transpose", {k}, {integers_attribute("perm", {0, 2, 1})})});
    const auto mixed = b.apply("MatMul", {b.apply("Softmax", {b.apply("Mul", {scores, b.constant("scale", floats({0.35f}))})}), v});
    const auto sum = b.add(x, mixed);
    const auto y =
        b.apply("LayerNormalization", {sum, b.constant("gain", floats({1, 2, 1, 2, 1, 2, 1, 2})), b.constant("shift", floats({0, 1, 0, 1, 0, 1, 0, 1}))});
    b.output(b.apply("Reshape", {b.apply("Reshape", {y, b.constant("flat", integers({0, 48}))}), b.constant("full", integers({0, 6, 8}))}), "y");
    return b.finish();
}

// Values that run side by side and meet again, with integers, truth values and views among them.
graft::graph mixed_net() {
    builder b("mixed", 3);
    const auto x = b.input("x", f32, {"N", 4, 6, 6}), order = b.input("order", i64, {3});
    const auto c = b.constant("c", floats({2}));
    const auto left = b.apply("Sigmoid", {b.apply("Mul", {x, c})}), right = b.apply("Tanh", {b.apply("Add", {x, c})});
    const auto larger = b.apply("Greater", {left, right});
    const auto chosen = b.apply("Where", {larger, left, right});
    const auto rows = b.apply("Reshape", {chosen, b.constant("rows", integers({-1, 4, 36}))});
    const auto next = b.apply("Mod", {b.apply("Add", {order, b.constant("one", integers({1}))}), b.constant("four", integers({4}))});
    const auto picked = b.apply("Gather", {rows, next}, {integer_attribute("axis", 1)});
    const auto best = b.apply("ArgMax", {picked}, {integer_attribute("axis", 2), integer_attribute("keepdims", 0)});
    b.output(b.apply("ReduceSum", {picked, b.constant("axes", integers({2}))}, {integer_attribute("keepdims", 0)}), "sums");
    b.output(best, "best");
    b.output(b.apply("Cast", {larger}, {integer_attribute("to", static_cast<std::int64_t>(f32))}), "larger");
    return b.finish();
}

// Inputs whose integers are legal places.
std::vector<graft::tensor> inputs_for(const graft::model& m, std::int64_t open) {
    std::vector<graft::tensor> all = nets::inputs_of(m, 5, open);
    for (graft::tensor& t : all)
        if (t.type() == i64) t = integers({2, 0, 3});
    return all;
}

struct made_net {
    const char* name;
    graft::graph g;
    std::int64_t open;
};
std::vector<made_net> all_nets() {
    std::vector<made_net> all;
    all.push_back({"residual", nets::residual_net(1), 9});
    all.push_back({"attention", attention_net(), 2});
    all.push_back({"mixed", mixed_net(), 2});
    all.push_back({"demo", graft::load(nets::demo_model()).value().graph(), 1});
    return all;
}

graft::result<graft::model> loaded(const graft::graph& g, const std::shared_ptr<host_device>& on) { return graft::load(g, graft::on_device(on)); }

// The answer with these nodes on the device; checks that it is the CPU's.
void check_same(const made_net& net, const nets::answer& want, const std::shared_ptr<host_device>& on) {
    auto m = loaded(net.g, on);
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    graft::session s(*m, {2, nullptr});
    for (int round = 0; round < 2; ++round) {
        const nets::answer got = nets::run(s, *m, inputs_for(*m, net.open));
        REQUIRE_MESSAGE(got.error.empty(), got.error);
        CHECK(nets::difference(got, want) < 2e-4);
    }
}

nets::answer on_cpu(const made_net& net, bool reference = false) {
    graft::load_options options;
    options.reference = reference;
    const graft::model m = graft::load(net.g, options);
    return nets::run(m, inputs_for(m, net.open));
}

}  // namespace

TEST_CASE("a network whose nodes all run on the device gives what the reference kernels give, bit by bit") {
    for (const made_net& net : all_nets())
        for (const bool channels_last : {false, true}) {
            CAPTURE(net.name);
            const auto on = host_devices::make();
            on->channels_last = channels_last;
            const graft::model m = loaded(net.g, on);
            CHECK(std::string(m.device()) == "host:0");
            const nets::answer got = nets::run(m, inputs_for(m, net.open)), want = on_cpu(net, true);
            REQUIRE_MESSAGE(got.error.empty(), got.error);
            CHECK(nets::same_bits(got, want));
            CHECK(on->did.segments > 0);
            CHECK((on->did.channels_last > 0) == (channels_last && net.g.name != "attention"));
        }
}

TEST_CASE("a network gives the same whichever nodes a device takes") {
    for (const made_net& net : all_nets()) {
        const nets::answer want = on_cpu(net);
        const int seeds = std::string(net.name) == "demo" ? 6 : 24;
        for (int seed = 0; seed < seeds; ++seed) {
            CAPTURE(net.name);
            CAPTURE(seed);
            const auto on = host_devices::make();
            on->takes = at_random(static_cast<std::uint64_t>(seed));
            on->channels_last = seed % 2 == 1;
            check_same(net, want, on);
            CHECK(on->did.uploads > 0);
            if (net.g.name == "residual") CHECK((on->did.channels_last > 0) == on->channels_last);
        }
    }
}

TEST_CASE("a network gives the same with any single node on the device, and with all but one") {
    for (const made_net& net : all_nets()) {
        if (std::string(net.name) == "demo") continue;
        const nets::answer want = on_cpu(net);
        for (const graft::node& one : net.g.nodes)
            for (const bool only : {true, false}) {
                CAPTURE(net.name);
                CAPTURE(one.name);
                CAPTURE(only);
                const auto on = host_devices::make();
                on->takes = [&one, only](const graft::node& n) { return (n.outputs[0] == one.outputs[0]) == only; };
                on->channels_last = only;
                check_same(net, want, on);
            }
    }
}

TEST_CASE("a device that takes nothing is never asked for memory") {
    const made_net net{"mixed", mixed_net(), 2};
    const auto on = host_devices::make();
    on->takes = [](const graft::node&) { return false; };
    on->failing_load = on->failing_context = 1;
    check_same(net, on_cpu(net), on);
    CHECK(on->did.segments == 0);
}

TEST_CASE("a session on a device takes batches of any size, one after the other") {
    const made_net net{"residual", nets::residual_net(1), 0};
    const auto on = host_devices::make();
    on->takes = at_random(3);
    const graft::model m = loaded(net.g, on), cpu = graft::load(net.g);
    graft::session s(m, {1, nullptr});
    for (const std::int64_t size : {7, 12, 7, 5})
        CHECK(nets::difference(nets::run(s, m, nets::inputs_of(m, 9, size)), nets::run(cpu, nets::inputs_of(m, 9, size))) < 2e-4);
    s.trim();
    CHECK(nets::difference(nets::run(s, m, nets::inputs_of(m, 9, 6)), nets::run(cpu, nets::inputs_of(m, 9, 6))) < 2e-4);
}

TEST_CASE("bodies of If read values of the device, each brought over once") {
    builder b;
    const auto x = b.input("x", f32, {3}), choose = b.input("choose", dtype::boolean, {});
    const auto doubled = b.apply("Add", {x, x}), squared = b.apply("Mul", {doubled, doubled});
    nets::body_builder then_body("then"), else_body("else");
    then_body.b.output(then_body.b.apply("Sub", {then_body.capture(f32, doubled), then_body.capture(f32, squared)}), "a");
    else_body.b.output(else_body.b.apply("Exp", {else_body.capture(f32, doubled)}), "b");
    const auto y = b.apply("If", {choose}, {graph_attribute("then_branch", then_body.finish()), graph_attribute("else_branch", else_body.finish())});
    b.output(b.apply("Neg", {y}), "y");
    b.output(squared, "squared");
    const graft::graph g = b.finish();
    const graft::model cpu = graft::load(g);
    for (const std::vector<std::string>& taken : {std::vector<std::string>{"Add"}, {"Mul"}, {"Add", "Mul"}, {"Add", "Mul", "Sub", "Exp", "Neg"}}) {
        const auto on = host_devices::make();
        on->takes = named(taken);
        const graft::model m = loaded(g, on);
        graft::session s(m, {1, nullptr});
        for (const bool choice : {true, false, true}) {
            const std::vector<graft::tensor> in{floats({0.5f, -1, 2}), graft::tensor::scalar(choice)};
            const nets::answer got = nets::run(s, m, in);
            REQUIRE_MESSAGE(got.error.empty(), got.error);
            CHECK(nets::difference(got, nets::run(cpu, in)) < 1e-6);
        }
        if (taken.size() == 2) {
            CHECK(on->did.uploads == 3);    // x, in each of three runs
            CHECK(on->did.downloads == 6);  // doubled and squared
            CHECK(on->did.segments == 3);
        }
    }
}

TEST_CASE("bodies of Loop read values of the device, and a node behind the loop stays on the host") {
    builder b;
    const auto trips = b.input("trips", i64, {}), x = b.input("x", f32, {2});
    const auto step = b.apply("Mul", {x, x});
    nets::body_builder body("body");
    body.b.input("i", i64, {});
    const auto go_on = body.b.input("go_on", dtype::boolean, {});
    const auto sum = body.b.input("sum", f32, {2});
    body.b.output(body.b.apply("Identity", {go_on}), "go_on_out");
    body.b.output(body.b.apply("Add", {sum, body.capture(f32, step)}), "next");
    const auto last = b.apply_all("Loop", {trips, graft::no_value, b.apply("Neg", {x})}, {graph_attribute("body", body.finish())}, 1)[0];
    // The reduction makes one number, whatever the loop makes.
    b.output(b.apply("ReduceSum", {last}, {integer_attribute("keepdims", 0)}), "total");
    const graft::graph g = b.finish();
    const auto on = host_devices::make();
    const graft::model m = loaded(g, on), cpu = graft::load(g);
    for (const int count : {0, 1, 5}) {
        const std::vector<graft::tensor> in{graft::tensor::scalar(static_cast<std::int64_t>(count)), floats({1, 3})};
        const nets::answer got = nets::run(m, in);
        REQUIRE_MESSAGE(got.error.empty(), got.error);
        CHECK(nets::same_bits(got, nets::run(cpu, in)));
    }
}

TEST_CASE("nodes whose shapes only a run can tell read values of the device") {
    builder b;
    const auto x = b.input("x", f32, {2, 3});
    const auto twice = b.apply("Add", {x, x});
    const auto places = b.apply("NonZero", {b.apply("Relu", {twice})});
    const auto found = b.apply("GatherND", {twice, b.apply("Transpose", {places})});
    b.output(found, "found");
    b.output(b.apply("ReduceSum", {found}, {integer_attribute("keepdims", 0)}), "sum");
    b.output(b.apply("Shape", {places}), "counted");
    b.output(b.apply("Mul", {twice, twice}), "squared");
    const graft::graph g = b.finish();
    const graft::model cpu = graft::load(g);
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const auto on = host_devices::make();
        if (seed) on->takes = at_random(seed);
        const graft::model m = loaded(g, on);
        const std::vector<graft::tensor> in{graft::tensor::from(std::vector<float>{1, -2, 3, 0, 4, -5}.data(), {2, 3})};
        const nets::answer got = nets::run(m, in);
        REQUIRE_MESSAGE(got.error.empty(), got.error);
        CHECK(nets::same_bits(got, nets::run(cpu, in)));
        CHECK(nets::values<float>(got.outputs[0]) == std::vector<float>{2, 6, 8});
    }
}

TEST_CASE("outputs may be inputs, constants, views and the same value twice") {
    builder b;
    const auto x = b.input("x", f32, {2, 2});
    const auto c = b.constant("c", floats({7, 8}));
    const auto y = b.apply("Mul", {x, c});
    const auto flat = b.apply("Flatten", {y}, {integer_attribute("axis", 0)});
    b.output(y, "y");
    b.output(flat, "flat");
    b.output(b.apply("Relu", {flat}), "relu");
    graft::graph g = b.finish();
    g.outputs.push_back(y);
    g.outputs.push_back(x);
    g.outputs.push_back(c);
    g.outputs.push_back(x);
    // Names of outputs have to differ, so that each is a copy of its own.
    for (std::size_t i = 3; i < g.outputs.size(); ++i) {
        graft::node copy;
        copy.op_type = "Identity";
        copy.inputs = {g.outputs[i]};
        copy.outputs = {g.add_value("output" + std::to_string(i))};
        g.outputs[i] = copy.outputs[0];
        g.nodes.push_back(copy);
    }
    const graft::model cpu = graft::load(g);
    const std::vector<graft::tensor> in{graft::tensor::from(std::vector<float>{1, -2, 3, 4}.data(), {2, 2})};
    const nets::answer want = nets::run(cpu, in);
    REQUIRE(want.outputs.size() == 7);
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
        CAPTURE(seed);
        const auto on = host_devices::make();
        if (seed) on->takes = at_random(seed);
        const graft::model m = loaded(g, on);
        const nets::answer got = nets::run(m, in);
        REQUIRE_MESSAGE(got.error.empty(), got.error);
        CHECK(nets::same_bits(got, want));
    }
}

TEST_CASE("the table of placements has a device, a kernel and a refusal for every node") {
    builder b;
    const auto x = b.input("x", f32, {4}), order = b.input("order", i64, {2});
    const auto next = b.apply("Add", {order, b.constant("one", integers({1}))});
    const auto y = b.apply("Gather", {b.apply("Exp", {x}), next});
    b.output(b.apply("Sqrt", {y}), "y");
    b.output(b.apply("NonZero", {y}), "places");
    graft::graph g = b.finish();
    for (graft::node& n : g.nodes) n.name = "the " + n.op_type;
    const auto on = host_devices::make();
    on->takes = named({"Exp", "Gather", "Add"});
    const graft::model m = loaded(g, on);
    const std::vector<graft::placement> all = m.placements({});
    const auto find = [&](const std::string& name) {
        for (const graft::placement& p : all)
            if (p.node == name) return p;
        FAIL("no such node: " << name);
        return graft::placement();
    };
    for (const char* name : {"the Exp", "the Gather"}) {
        CHECK(find(name).device == "host:0");
        CHECK(find(name).kernel == "by the host");
        CHECK(find(name).reason == "");
    }
    CHECK(find("the Add").device == "cpu");
    CHECK(find("the Add").reason == "host:0: a few integers that the host has");
    CHECK(find("the Sqrt").device == "cpu");
    CHECK(find("the Sqrt").reason == "host:0: it was told not to");
    CHECK(find("the NonZero").device == "cpu");
    CHECK(find("the NonZero").reason != "");
    int copies = 0;
    for (const graft::placement& p : all) {
        if (p.op_type != "graft.Transfer") continue;
        CHECK(p.device == "host:0");
        CHECK(p.kernel == "copy");
        ++copies;
    }
    CHECK(copies == 3);  // x and the indices to the device, what was gathered back
}

TEST_CASE("memory counts what the device is asked for, constants included") {
    builder b;
    const auto x = b.input("x", f32, {64, 64});
    const auto c = b.constant("c", graft::tensor::zeros(f32, {64, 64}));
    b.output(b.apply("MatMul", {b.apply("MatMul", {x, c}), c}), "y");
    const graft::graph g = b.finish();
    const graft::model m = loaded(g, host_devices::make()), cpu = graft::load(g);
    auto use = m.memory({}), alone = cpu.memory({});
    REQUIRE(use.ok());
    CHECK(use->device >= 3 * 64 * 64 * 4);  // the constant once, and at least two values at a time
    CHECK(use->device < 6 * 64 * 64 * 4);
    CHECK(use->outputs == 64 * 64 * 4);
    CHECK(use->arena < 64);
    CHECK(alone->device == 0);
}

TEST_CASE("strict placement names the first node that the device does not take, and lets the host have what is the host's") {
    const auto on = host_devices::make();
    on->takes = [](const graft::node& n) { return n.op_type != "Tanh" && n.op_type != "Where"; };
    graft::graph g = mixed_net();
    for (graft::node& n : g.nodes) n.name = "the " + n.op_type;
    graft::load_options options = graft::on_device(on);
    options.strict_placement = true;
    {
        const graft::model m = graft::load(g, options);
        const nets::answer got = nets::run(m, inputs_for(m, 1));
        CHECK(got.error.substr(0, 17) == "placement.refused");
        CHECK(got.error.find("the Tanh") != std::string::npos);
        CHECK(got.error.find("host:0") != std::string::npos);
        CHECK(got.error.find("it was told not to") != std::string::npos);
    }
    on->takes = [](const graft::node&) { return true; };
    const graft::model m = graft::load(g, options);
    CHECK(nets::run(m, inputs_for(m, 1)).error == "");
}

TEST_CASE("errors of a device reach the caller, and the session runs afterwards") {
    const made_net net{"mixed", mixed_net(), 2};
    const nets::answer want = on_cpu(net);
    const auto on = host_devices::make();
    on->takes = at_random(2);
    const graft::model m = loaded(net.g, on);
    graft::session s(m, {1, nullptr});
    const std::vector<graft::tensor> in = inputs_for(m, 2), other = inputs_for(m, 3);
    const auto fails = [&](const std::vector<graft::tensor>& given, const char* code) {
        const nets::answer got = nets::run(s, m, given);
        CHECK(got.error.substr(0, std::strlen(code)) == code);
        CHECK(nets::difference(nets::run(s, m, in), want) < 2e-4);
    };
    on->failing_prepare = 2;
    fails(in, "device.compile");
    s.trim();
    on->failing_context = 1;
    fails(in, "device.compile");
    on->failing_load = 1;
    fails(other, "device.compile");
    on->failing_run = 1;
    fails(in, "device.lost");
    on->failing_run = 2;
    fails(in, "device.lost");
    const nets::answer got = nets::run(s, m, other);
    CHECK(got.error == "");
}

TEST_CASE("a model whose shapes are known tells what its device cannot do when it is loaded") {
    builder b;
    b.output(b.apply("Exp", {b.input("x", f32, {3})}), "y");
    const graft::graph g = b.finish();
    const auto on = host_devices::make();
    on->failing_load = 1;
    CHECK(errc_of(loaded(g, on)) == errc::device_compile);
    CHECK(loaded(g, on).ok());
}

TEST_CASE("many sessions on one device give what one gives") {
    const made_net net{"attention", attention_net(), 3};
    const auto on = host_devices::make();
    on->takes = at_random(7);
    const graft::model m = loaded(net.g, on);
    const nets::answer want = nets::run(m, inputs_for(m, 3));
    std::vector<graft::session> sessions;
    for (int i = 0; i < 4; ++i) sessions.emplace_back(m, graft::session_options{1, nullptr});
    for (int round = 0; round < 2; ++round)
        for (graft::session& s : sessions) CHECK(nets::same_bits(nets::run(s, m, inputs_for(m, 3)), want));
}

TEST_CASE("sessions of several threads run on one device at the same time") {
    const made_net net{"mixed", mixed_net(), 3};
    const auto on = host_devices::make();
    on->takes = at_random(5);
    const graft::model m = loaded(net.g, on);
    const nets::answer want = nets::run(m, inputs_for(m, 3));
    std::vector<nets::answer> got(4);
    std::vector<std::thread> threads;
    for (nets::answer& a : got) threads.emplace_back([&a, &m] { a = nets::run(m, inputs_for(m, 3), 1); });
    for (std::thread& t : threads) t.join();
    for (const nets::answer& a : got) CHECK(nets::same_bits(a, want));
}

TEST_CASE("a default lies on the device as a constant, and what replaces it is brought there") {
    builder b;
    const auto x = b.input("x", f32, {2}), w = b.constant("w", floats({2, 3}));
    b.output(b.apply("Mul", {x, w}), "y");
    graft::graph g = b.finish();
    g.inputs.push_back(w);
    const auto on = host_devices::make();
    const graft::model m = loaded(g, on);
    graft::session s(m, {1, nullptr});
    for (const bool replaced : {false, true, false}) {
        on->did.reset();
        std::vector<graft::named_tensor> given{{"x", floats({5, 7})}};
        if (replaced) given.push_back({"w", floats({-1, 1})});
        CHECK(nets::values<float>(s.run(given).value()[0].value) == (replaced ? std::vector<float>{-5, 7} : std::vector<float>{10, 21}));
        CHECK(on->did.uploads == (replaced ? 2 : 1));
    }
}

TEST_CASE("empty tensors, half precision and random numbers come out as they do on the CPU") {
    builder empty;
    const auto none = empty.input("x", f32, {"N", 4});
    empty.output(empty.apply("ReduceSum", {empty.apply("Exp", {none}), empty.constant("axes", integers({0}))}), "sums");
    empty.output(empty.apply("Neg", {none}), "y");

    builder half("half", 7);
    nets::numbers random{3};
    const auto weight = [&](const char* name, const graft::shape& extents) {
        return half.constant(name, nets::random_tensor(extents, random, -0.5, 0.5, dtype::float16));
    };
    const auto picture = half.input("x", dtype::float16, {"N", 8, 6, 6});
    auto y = half.apply("Conv", {picture, weight("w", {8, 8, 3, 3})}, {integers_attribute("pads", {1, 1, 1, 1})});
    y = half.apply("Relu", {half.apply("Add", {half.apply("Conv", {half.apply("Relu", {y}), weight("v", {8, 8, 1, 1})}), y})});
    half.output(half.apply("Sigmoid", {half.apply("GlobalAveragePool", {y})}), "y");

    builder drawn("drawn");
    const auto x = drawn.input("x", f32, {"N", 3});
    const auto noise = drawn.apply("RandomUniform", {}, {integers_attribute("shape", {2, 3})});
    drawn.output(drawn.apply("Add", {drawn.apply("Exp", {x}), noise}), "y");

    const struct {
        graft::graph g;
        std::int64_t open;
        double within;
    } cases[] = {{empty.finish(), 0, 0}, {half.finish(), 2, 4e-3}, {drawn.finish(), 2, 1e-6}};
    for (const auto& c : cases) {
        const graft::model cpu = graft::load(c.g);
        const nets::answer want = nets::run(cpu, nets::inputs_of(cpu, 4, c.open));
        REQUIRE_MESSAGE(want.error.empty(), want.error);
        for (int seed = -1; seed < 12; ++seed) {
            CAPTURE(c.g.name);
            CAPTURE(seed);
            const auto on = host_devices::make();
            if (seed >= 0) on->takes = at_random(static_cast<std::uint64_t>(seed));
            const graft::model m = loaded(c.g, on);
            CHECK(nets::difference(nets::run(m, nets::inputs_of(m, 4, c.open)), want) <= c.within);
        }
    }
}
