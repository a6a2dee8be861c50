// Placement: which nodes a device takes, how few copies and crossings there are, and where values and their memory lie.
#include "../exec/host_device.hpp"
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

using graft::builder;
using graft::dtype;
using graft::integer_attribute;
using graft::value_id;
using host_devices::named;
using nets::floats;
using nets::integers;

namespace {

constexpr dtype f32 = dtype::float32, i64 = dtype::int64;

using plan_result = graft::result<std::shared_ptr<const graft::plan>>;

graft::execution_options beside_cpu(const std::shared_ptr<graft::device>& on) {
    graft::execution_options how;
    how.places = {graft::backends::cpu::instance().open("cpu", {}, nullptr).value(), on};
    return how;
}

// The plan of a graph whose inputs have known shapes, with a device that takes the operators or nodes of these names.
plan_result planned(const graft::graph& g, std::vector<std::string> taken, bool strict = false) {
    const auto on = host_devices::make();
    on->takes = named(std::move(taken));
    const graft::graph bound = graft::load(g).value().graph();
    std::vector<graft::tensor_view> inputs;
    for (value_id id : bound.inputs) inputs.push_back({bound.at(id).type, bound.at(id).extents, nullptr});
    graft::execution_options how = beside_cpu(on);
    how.strict_placement = strict;
    graft::executor serial;
    return graft::make_plan(bound, inputs.data(), how, serial);
}

struct crossings {
    int uploads, downloads, segments;
    bool operator==(const crossings& o) const { return uploads == o.uploads && downloads == o.downloads && segments == o.segments; }
};
doctest::String toString(const crossings& c) {
    return (std::to_string(c.uploads) + " up, " + std::to_string(c.downloads) + " down, " + std::to_string(c.segments) + " segments").c_str();
}
const graft::node& node_of(const graft::plan& p, const graft::step& s) { return p.lowered.nodes[static_cast<std::size_t>(s.node)]; }
crossings crossings_of(const graft::plan& p) {
    crossings c{0, 0, 0};
    bool before = false;
    for (const graft::step& s : p.steps) {
        if (host_devices::is_copy(node_of(p, s))) ++(host_devices::is_upload(s) ? c.uploads : c.downloads);
        c.segments += s.place && !before;
        before = s.place != 0;
    }
    return c;
}
std::shared_ptr<const graft::plan> plan_of(const graft::graph& g, std::vector<std::string> taken) {
    plan_result p = planned(g, std::move(taken));
    REQUIRE_MESSAGE(p.ok(), std::string(p.ok() ? "" : p.error().what()));
    return *p;
}
crossings crossings_of(const graft::graph& g, std::vector<std::string> taken) { return crossings_of(*plan_of(g, std::move(taken))); }

}  // namespace

TEST_CASE("a value is brought over once, however many read it there") {
    builder b;
    const auto x = b.input("x", f32, {4});
    const auto y = b.apply("Exp", {x}), z = b.apply("Exp", {b.apply("Exp", {x})});
    b.output(b.apply("Mul", {b.apply("Mul", {x, y}), z}), "y");
    // All on the device: the input up, the output down.
    CHECK(crossings_of(b.finish(), {"Exp", "Mul"}) == crossings{1, 1, 1});

    builder c;
    const auto from = c.apply("Exp", {c.input("x", f32, {4})});
    const auto a = c.apply("Sqrt", {from}), d = c.apply("Tanh", {from}), e = c.apply("Sin", {from});
    c.output(c.apply("Sum", {a, d, e, from}), "y");
    c.output(from, "from");
    graft::graph g = c.finish();
    CHECK(crossings_of(g, {"Exp"}) == crossings{1, 1, 1});  // four nodes of the host and the caller read one copy
    CHECK(crossings_of(g, {"Sqrt", "Tanh", "Sin"}) == crossings{1, 3, 1});
    CHECK(crossings_of(g, {"Exp", "Sum"}) == crossings{4, 2, 2});  // x and three sums up; what Exp made, for all, and the sum down
    CHECK(crossings_of(g, {}) == crossings{0, 0, 0});
}

TEST_CASE("branches that run side by side on both sides are run together") {
    builder b;
    const auto x = b.input("x", f32, {4});
    value_id a = b.apply("Exp", {x}), c = b.apply("Tanh", {x});
    // The graph goes back and forth between the branches; neither waits for the other.
    for (int i = 0; i < 4; ++i) a = b.apply("Exp", {a}), c = b.apply("Tanh", {c});
    b.output(a, "a");
    b.output(c, "c");
    const graft::graph g = b.finish();
    CHECK(crossings_of(g, {"Exp"}) == crossings{1, 1, 1});
    CHECK(crossings_of(g, {"Tanh"}) == crossings{1, 1, 1});
    CHECK(crossings_of(g, {"Exp", "Tanh"}) == crossings{1, 2, 1});
}

TEST_CASE("a chain that alternates crosses where it has to and nowhere else") {
    builder b;
    value_id x = b.input("x", f32, {4});
    for (int i = 0; i < 3; ++i) x = b.apply("Tanh", {b.apply("Exp", {b.apply("Exp", {x})})});
    b.output(x, "y");
    CHECK(crossings_of(b.finish(), {"Exp"}) == crossings{3, 3, 3});
    // Two chains of which one alternates: the other does not make it worse.
    builder c;
    const auto start = c.input("x", f32, {4});
    value_id left = start, right = start;
    for (int i = 0; i < 3; ++i) left = c.apply("Tanh", {c.apply("Exp", {left})}), right = c.apply("Exp", {right});
    c.output(c.apply("Add", {left, right}), "y");
    CHECK(crossings_of(c.finish(), {"Exp"}).segments == 3);
}

TEST_CASE("what the CPU's lowering adds does not cut a run of the device's nodes in two") {
    // Convolutions of the host work on blocks of channels, so that their output is put back into rows before it is copied.
    builder b("net", 1);
    const auto x = b.input("x", f32, {1, 16, 8, 8});
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1;
    const auto y = b.conv2d(b.conv2d(x, 16, three), 16, three);
    const auto first = b.apply("Exp", {x});
    b.output(b.apply("Mul", {b.apply("Exp", {first}), b.apply("Exp", {y})}), "y");
    const auto p = plan_of(b.finish(), {"Exp", "Mul"});
    CHECK(crossings_of(*p) == crossings{2, 1, 1});
    bool put_back = false;
    for (const graft::step& s : p->steps) put_back |= node_of(*p, s).op_type == "Reorder";
    CHECK(put_back);
}

TEST_CASE("integers of shapes and indices stay with the host, and so does what only looks at its memory") {
    builder b;
    const auto x = b.input("x", f32, {2, 6}), order = b.input("order", i64, {3});
    const auto next = b.apply("Mul", {b.apply("Add", {order, b.constant("one", integers({1}))}), b.constant("two", integers({2}))});
    const auto tall = b.apply("Reshape", {x, b.constant("tall", integers({6, 2}))});
    const auto y = b.apply("Gather", {tall, next});
    const auto flat = b.apply("Reshape", {y, b.constant("flat", integers({-1}))});
    b.output(b.apply("Exp", {flat}), "y");
    const auto p = plan_of(b.finish(), {"Mul", "Add", "Reshape", "Gather", "Exp"});
    CHECK(crossings_of(*p) == crossings{2, 1, 1});
    std::set<std::string> on_device;
    for (const graft::node& n : p->lowered.nodes)
        if (n.place) on_device.insert(n.op_type);
    CHECK(on_device == std::set<std::string>{"Transfer", "Reshape", "Gather", "Exp"});
    // Views cost no step: neither the host's nor the device's.
    for (const graft::step& s : p->steps) CHECK(node_of(*p, s).op_type != "Reshape");
}

TEST_CASE("a constant that both sides read is copied by no step, and lies where it is read") {
    builder b;
    const auto x = b.input("x", f32, {4}), c = b.constant("c", floats({1, 2, 3, 4}));
    b.output(b.apply("Sub", {b.apply("Mul", {x, c}), c}), "y");
    const auto p = plan_of(b.finish(), {"Mul"});
    CHECK(crossings_of(*p) == crossings{1, 1, 1});
    int there = 0, here = 0;
    for (const graft::step& s : p->steps)
        for (const graft::slot& from : s.in)
            if (from.kind == graft::slot_kind::constant) ++(from.place ? there : here);
    CHECK(there == 1);
    CHECK(here == 1);
    CHECK(p->places[1].loaded->constant_bytes() == 16);
}

TEST_CASE("each side has memory of its own, and values of the device that live at different times share it") {
    builder b;
    value_id x = b.input("x", f32, {1024});
    for (int i = 0; i < 10; ++i)
        x = b.apply(i % 2 ? "MatMul" : "Softmax",
                    i % 2 ? std::vector<value_id>{x, b.constant("w" + std::to_string(i), graft::tensor::zeros(f32, {1024, 1024}))} : std::vector<value_id>{x});
    b.output(x, "y");
    const graft::graph g = b.finish();
    const auto all = plan_of(g, {"MatMul", "Softmax"}), none = plan_of(g, {});
    CHECK(all->places[0].arena_bytes == 0);
    CHECK(all->places[1].arena_bytes >= 2 * 4096);
    CHECK(all->places[1].arena_bytes < 4 * 4096);
    CHECK(none->places[1].arena_bytes == 0);
    CHECK(!static_cast<bool>(none->places[1].loaded));
    for (const graft::step& s : all->steps)
        for (const graft::slot& to : s.out)
            if (to.kind == graft::slot_kind::arena) CHECK(to.index % 256 == 0);
}

TEST_CASE("strict placement is content where the host has only what belongs there") {
    builder b;
    const auto x = b.input("x", f32, {2, 6}), order = b.input("order", i64, {3});
    const auto next = b.apply("Add", {order, b.constant("one", integers({1}))});
    b.output(b.apply("Gather", {b.apply("Reshape", {x, b.constant("tall", integers({6, 2}))}), next}), "y");
    const graft::graph g = b.finish();
    CHECK(planned(g, {"Gather"}, true).ok());
    const plan_result refused = planned(g, {"Add"}, true);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::placement_refused);
    CHECK(refused.error().where().find("Gather") != std::string::npos);
}

namespace {

// A graph with one state: `w` is an input and `changed` what it becomes. Bound by hand, since no file holds such a graph.
struct stateful {
    builder b{"stateful"};
    value_id w = b.input("w", f32, {2, 3}), x = b.input("x", f32, {6});
    graft::graph finish(value_id changed) {
        b.output(changed, "w_after");
        graft::graph g = graft::load(b.finish()).value().graph();
        g.states.push_back({0, static_cast<int>(g.outputs.size()) - 1});
        return g;
    }
};
plan_result plan_of_state(const graft::graph& g, std::vector<std::string> taken) {
    const auto on = host_devices::make();
    on->takes = named(std::move(taken));
    const graft::tensor_view inputs[] = {{f32, {2, 3}, nullptr}, {f32, {6}, nullptr}};
    graft::executor serial;
    return graft::make_plan(g, inputs, beside_cpu(on), serial);
}
crossings crossings_of_state(const graft::graph& g, std::vector<std::string> taken) {
    plan_result p = plan_of_state(g, std::move(taken));
    REQUIRE_MESSAGE(p.ok(), std::string(p.ok() ? "" : p.error().what()));
    return crossings_of(**p);
}

}  // namespace

TEST_CASE("a state is changed behind everybody who reads it as it was, through a view or a copy as well") {
    for (const bool through_view : {false, true}) {
        CAPTURE(through_view);
        stateful s;
        const auto was = through_view ? s.b.apply("Flatten", {s.w}, {integer_attribute("axis", 0)}) : s.w;
        const auto shape = s.b.constant("shape", through_view ? integers({1, 6}) : integers({2, 3}));
        // What reads the state needs the host's answer, so that without its edge the update would come first.
        const auto late = s.b.apply("Reshape", {s.b.apply("Tanh", {s.b.apply("Exp", {s.x})}), shape});
        s.b.output(s.b.apply("Mul", {was, late}), "y");
        const graft::graph g = s.finish(s.b.apply("Sub", {s.w, s.b.constant("one", floats({1}))}));
        CHECK(crossings_of_state(g, {"Exp", "Mul", "Sub", "Flatten"}) == crossings{2, 2, 2});
        CHECK(crossings_of_state(g, {"Exp", "Sub", "Flatten"}) == crossings{1, 2, 1});  // the state itself comes to the host
        CHECK(crossings_of_state(g, {"Exp", "Mul", "Flatten"}) == crossings{3, 2, 2});  // it is the host's, and goes up
        CHECK(crossings_of_state(g, {}) == crossings{0, 0, 0});
    }
}

TEST_CASE("a view of a state lies where the state does") {
    stateful s;
    const auto flat = s.b.apply("Flatten", {s.w}, {integer_attribute("axis", 0)});
    s.b.output(s.b.apply("Exp", {flat}), "on_device");
    const graft::graph on_device = s.finish(s.b.apply("Sub", {s.w, s.b.constant("one", floats({1}))}));
    CHECK(crossings_of_state(on_device, {"Flatten", "Exp", "Sub"}) == crossings{0, 1, 1});
    stateful t;
    const auto rows = t.b.apply("Flatten", {t.w}, {integer_attribute("axis", 0)});
    t.b.output(t.b.apply("Exp", {rows}), "on_host");
    const graft::graph on_host = t.finish(t.b.apply("Sub", {t.w, t.b.constant("one", floats({1}))}));
    CHECK(crossings_of_state(on_host, {"Flatten"}) == crossings{0, 0, 0});
}

TEST_CASE("a state that the caller wants as it was is copied before it is changed, in one run with the rest") {
    stateful s;
    s.b.output(s.b.apply("Tanh", {s.b.apply("Exp", {s.x})}), "y");
    const auto changed = s.b.apply("Sub", {s.w, s.b.constant("one", floats({1}))});
    graft::graph g = s.finish(changed);
    g.outputs.push_back(s.w);
    const plan_result p = plan_of_state(g, {"Exp", "Sub"});
    REQUIRE_MESSAGE(p.ok(), std::string(p.ok() ? "" : p.error().what()));
    const graft::plan& plan = *p.value();
    CHECK(crossings_of(plan) == crossings{1, 2, 1});
    CHECK(plan.state_of == std::vector<int>{-1, 0, -1});
    CHECK(plan.outputs[1].place == 1);
    CHECK(plan.outputs[2].place == 0);
    const char* names[] = {"y", "w_after", "w"};
    for (std::size_t i = 0; i < 3; ++i) CHECK(plan.lowered.at(plan.lowered.outputs[i]).name == names[i]);
}

TEST_CASE("a state that is only read lies on the device where something there reads it") {
    stateful s;
    s.b.output(s.b.apply("Exp", {s.w}), "y");
    s.b.output(s.b.apply("Tanh", {s.x}), "z");
    graft::graph g = graft::load(s.b.finish()).value().graph();
    g.states = {{0, -1}, {1, -1}};
    CHECK(crossings_of_state(g, {"Exp"}) == crossings{0, 1, 1});
    CHECK(crossings_of_state(g, {"Exp", "Tanh"}) == crossings{0, 2, 1});
    const plan_result p = plan_of_state(g, {"Exp"});
    const graft::graph& lowered = p.value()->lowered;
    CHECK(lowered.at(lowered.inputs[0]).place == 1);
    CHECK(lowered.at(lowered.inputs[1]).place == 0);
}
