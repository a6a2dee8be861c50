// What stands behind shapes that only a run can tell: planned when the run has told them, by fast kernels, within the same limits; and
// plans that are kept for shapes that come in turn, made without standing in the way of others.
#include "../wait_until.hpp"
#include "nets.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using graft::dtype;
using graft::errc;

namespace {

// Adds a node, with one output of that name.
graft::value_id put(graft::graph& g, const char* op, std::vector<graft::value_id> inputs, std::vector<graft::attribute> attributes = {}) {
    graft::node n;
    n.op_type = op;
    n.version = g.version_of("");
    n.inputs = std::move(inputs);
    n.outputs = {g.add_value(op + std::to_string(g.values.size()))};
    n.attributes = std::move(attributes);
    g.nodes.push_back(std::move(n));
    return g.nodes.back().outputs[0];
}
const graft::attribute to_float32 = graft::integer_attribute("to", static_cast<std::int64_t>(dtype::float32));

// Convolutions whose channels do not divide by any vector's length; `late`: behind the number of the picture's elements that are not zero,
// times nothing.
graft::graph small_net(bool late) {
    graft::builder b("small", 5);
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1;
    auto x = b.input("image", dtype::float32, {"N", 3, 9, 11});
    x = b.relu(b.batch_norm(b.conv2d(x, 13, three)));
    x = b.add(x, b.conv2d(x, 13, three));
    b.output(b.softmax(b.linear(b.flatten(b.global_average_pool(x)), 10)), "probabilities");
    graft::graph g = b.finish();
    if (!late) return g;
    const graft::value_id image = g.inputs[0], nothing = g.add_constant("nothing", nets::floats({0}));
    const auto before = static_cast<std::ptrdiff_t>(g.nodes.size());
    const graft::value_id places = put(g, "Cast", {put(g, "NonZero", {image})}, {to_float32});
    const graft::value_id count = put(g, "ReduceSum", {places}, {graft::integer_attribute("keepdims", 0)});
    const graft::value_id behind = put(g, "Add", {image, put(g, "Mul", {count, nothing})});
    for (std::ptrdiff_t i = 0; i < before; ++i)
        for (graft::value_id& id : g.nodes[static_cast<std::size_t>(i)].inputs)
            if (id == image) id = behind;
    std::rotate(g.nodes.begin(), g.nodes.begin() + before, g.nodes.end());
    return g;
}

graft::tensor picture(std::int64_t n, std::uint64_t seed) {
    nets::numbers random{seed};
    graft::tensor t = nets::random_tensor({n, 3, 9, 11}, random);
    for (std::uint64_t i = 0; i < seed % 50; ++i) t.data<float>()[i] = 0;
    return t;
}

}  // namespace

TEST_CASE("behind a count that differs from run to run a network gives the bits that it gives alone") {
    graft::model late = graft::load(small_net(true)), alone = graft::load(small_net(false));
    graft::session session(late, {2, nullptr});
    for (std::uint64_t seed = 0; seed < 12; ++seed)
        for (const std::int64_t n : {1, 3}) {
            const graft::tensor x = picture(n, seed);
            const nets::answer a = nets::run(session, late, {x});
            REQUIRE_MESSAGE(a.error.empty(), a.error);
            CHECK(nets::same_bits(a, nets::run(alone, {x})));
        }
}

TEST_CASE("the body of a loop runs with what is packed of weights around it") {
    const auto looped = [](bool loop) {
        graft::builder b("looped", 6);
        const auto x = b.input("x", dtype::float32, {1, 24});
        nets::numbers random{6};
        const auto w = b.constant("w", nets::random_tensor({24, 24}, random, -0.3, 0.3));
        if (!loop) {
            b.output(b.apply("MatMul", {b.apply("MatMul", {x, w}), w}), "y");
            return b.finish().value();
        }
        nets::body_builder body("body");
        body.b.input("i", dtype::int64, {});
        const auto go_on = body.b.input("go_on", dtype::boolean, {}), state = body.b.input("state", dtype::float32, {1, 24});
        body.b.output(body.b.apply("Identity", {go_on}), "go_on_out");
        body.b.output(body.b.apply("MatMul", {state, body.capture(dtype::float32, w)}), "next");
        const auto trips = b.constant("trips", graft::tensor::scalar(std::int64_t(2)));
        b.output(b.apply("Loop", {trips, graft::no_value, x}, {graft::graph_attribute("body", body.finish())}), "y");
        return b.finish().value();
    };
    nets::numbers random{7};
    const graft::tensor x = nets::random_tensor({1, 24}, random);
    const nets::answer a = nets::run(graft::load(looped(true)), {x}), b = nets::run(graft::load(looped(false)), {x});
    REQUIRE_MESSAGE(a.error.empty(), a.error);
    CHECK(nets::same_bits(a, b));
}

TEST_CASE("outputs come from wherever they are made: at once, in each body, and deeper than bodies go") {
    graft::builder b("stages", 8);
    const auto x = b.input("x", dtype::float32, {"N", 4});
    auto v = x;
    for (int stage = 0; stage < 12; ++stage) {
        // Rows that are not all below a number that grows: fewer at each stage.
        const auto most = b.apply("ReduceMax", {v}, {graft::integers_attribute("axes", {1}), graft::integer_attribute("keepdims", 0)});
        const auto keep = b.apply("Greater", {most, b.constant("", graft::tensor::scalar(0.05f * static_cast<float>(stage)))});
        const auto rows = b.apply("Compress", {v, keep}, {graft::integer_attribute("axis", 0)});
        b.output(b.apply("Mul", {rows, b.constant("", graft::tensor::scalar(2.f))}), "rows" + std::to_string(stage));
        const auto sum = b.apply("ReduceSum", {rows}, {graft::integer_attribute("keepdims", 1)});
        b.output(b.apply("Exp", {b.apply("Mul", {sum, b.constant("", graft::tensor::scalar(0.01f))})}), "fixed" + std::to_string(stage));
        b.output(b.apply("Cast", {b.apply("NonZero", {rows})}, {to_float32}), "places" + std::to_string(stage));
        v = rows;
    }
    auto built = b.finish();
    REQUIRE(built.ok());
    const graft::graph g = std::move(built).value();
    graft::load_options reference;
    reference.reference = true;
    graft::model fast = graft::load(g), slow = graft::load(g, reference);
    graft::session session(fast, {2, nullptr});
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        nets::numbers random{seed};
        const graft::tensor rows = nets::random_tensor({static_cast<std::int64_t>(20 + seed % 3), 4}, random);
        CHECK(nets::difference(nets::run(session, fast, {rows}), nets::run(slow, {rows})) < 1e-6);
    }
    const nets::answer none = nets::run(session, fast, {graft::tensor::zeros(dtype::float32, {3, 4})});
    REQUIRE_MESSAGE(none.error.empty(), none.error);
    CHECK(none.outputs[0].elements() == 0);
}

TEST_CASE("what a run makes behind a count is within the limit of memory, and what was read last is given back") {
    const auto chain = [](int links, bool kept) {
        graft::builder b("chain");
        const auto x = b.input("x", dtype::float32, {4, 4});
        const auto count = b.apply("ReduceSum", {b.apply("NonZero", {x})}, {graft::integer_attribute("keepdims", 1)});
        auto v = b.apply("Expand", {b.apply("Cast", {count}, {to_float32}), b.constant("size", nets::integers({1 << 8, 1 << 8}))});
        std::vector<graft::value_id> all;
        for (int i = 0; i < links; ++i) {
            v = b.apply("NonZero", {b.apply("Cos", {v})});
            v = b.apply("Cast", {v}, {to_float32});
            v = b.apply("Slice", {v, b.constant("", nets::integers({0})), b.constant("", nets::integers({1 << 16})), b.constant("", nets::integers({1}))});
            all.push_back(b.apply("Mul", {v, b.constant("", graft::tensor::scalar(1e-6f))}));
        }
        b.output(kept ? b.apply("Sum", all) : all.back(), "y");
        return b.finish().value();
    };
    nets::numbers random{1};
    const graft::tensor x = nets::random_tensor({4, 4}, random, 1, 2);
    graft::load_options options;
    // A link is half a megabyte, made of three; the first eight lie in each other.
    options.limits.memory_bytes = std::int64_t(24) << 20;
    const nets::answer one_by_one = nets::run(graft::load(chain(60, false), options), {x});
    CHECK_MESSAGE(one_by_one.error.empty(), one_by_one.error);
    const nets::answer together = nets::run(graft::load(chain(60, true), options), {x});
    CHECK(together.error.compare(0, 13, "memory.budget") == 0);
    // The same session serves again.
    graft::model m = graft::load(chain(60, true), options);
    graft::session session(m);
    for (int i = 0; i < 3; ++i) CHECK(nets::run(session, m, {x}).error.compare(0, 13, "memory.budget") == 0);
}

namespace {
std::atomic<bool> entered{false}, released{true};
// As Identity; for seven rows its shapes are known when somebody says so, where it is asked to wait for that.
graft::status slow_infer(graft::infer_context& c) {
    if (c.in[0].extents[0] == 7) {
        entered = true;
        (void)wait_until([] { return released.load(); });
    }
    return c.set(0, c.in[0].type, c.in[0].extents);
}
graft::status slow_run(graft::run_context& c) {
    std::memcpy(c.out[0].data, c.in[0].data, static_cast<std::size_t>(graft::bytes_of(c.in[0].type, c.in[0].extents)));
    return {};
}
const graft::op_row slow_rows[] = {graft::make_op("Slow", "app").inputs(1).functions(slow_infer, slow_run).elementwise().problems("f32[3]")};
}  // namespace

TEST_CASE("while one thread plans a new shape others run, and plan, theirs") {
    graft::builder b;
    b.output(b.apply("Slow", {b.input("x", dtype::float32, {"N", 2})}), "y");
    graft::graph g = b.finish();
    g.nodes[0].domain = "app";
    g.opsets.push_back({"app", 1});
    graft::load_options options;
    options.operators = slow_rows;
    graft::model m = graft::load(std::move(g), options);
    const auto rows = [](std::int64_t n) { return graft::tensor::zeros(dtype::float32, {n, 2}).value(); };
    graft::session mine(m, {1, nullptr});
    REQUIRE(mine.run(rows(1)).ok());
    entered = released = false;
    bool planned = false;
    std::thread other([&] { planned = graft::session(m, {1, nullptr}).run(rows(7)).ok(); });
    while (!entered) std::this_thread::yield();
    CHECK(mine.run(rows(1)).ok());
    CHECK(graft::session(m, {1, nullptr}).run(rows(1)).ok());
    CHECK(mine.run(rows(2)).ok());
    CHECK(!released);
    released = true;
    other.join();
    CHECK(planned);
}
