// An operator of an app's own is moved, widened, fused, trained and looked through by what its row says, and by nothing else.
#include "../exec/nets.hpp"

#include <graft/exec/class_scores.hpp>
#include <graft/graph/batch_carrier.hpp>
#include <graft/passes/open_batch.hpp>
#include <graft/passes/to_float32.hpp>
#include <graft/train/head.hpp>
#include <graft/train/parameters.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

using graft::builder;
using graft::dtype;
using graft::make_op;
using graft::value_id;

// Rows(X): X as a matrix of a row a sample.
graft::status rows_infer(graft::infer_context& c) {
    const graft::shape& x = c.in[0].extents;
    return c.set(0, c.in[0].type, {x[0], x.product(1, x.rank())});
}
graft::status rows_run(graft::run_context& c) {
    std::memcpy(c.out[0].data, c.in[0].data, static_cast<std::size_t>(graft::bytes_of(c.in[0].type, c.in[0].extents)));
    return {};
}
// Gate(X) = x * max(0, min(1, x / 6 + 1 / 2)), which graft has by another name.
graft::status gate_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
graft::status gate_run(graft::run_context& c) {
    for (std::int64_t i = 0; i < c.in[0].elements(); ++i) {
        const double x = c.in[0].real(i), y = x * std::fmax(0, std::fmin(1, x / 6 + 0.5));
        graft::store_from_double(c.out[0].type, c.out[0].data, i, 1, &y);
    }
    return {};
}
bool gate_reads(const graft::op_context&, graft::epilogue& e) {
    e.act = graft::activation::hard_swish;
    return true;
}

// The operators with nothing but their functions, and with what their rows may tell.
const graft::op_row bare[] = {
    make_op("Rows", "app").inputs(1).functions(rows_infer, rows_run),
    make_op("Gate", "app").inputs(1).functions(gate_infer, gate_run),
};
const graft::op_row told[] = {
    make_op("Rows", "app").inputs(1).functions(rows_infer, rows_run).view().widens(),
    make_op("Gate", "app").inputs(1).functions(gate_infer, gate_run).elementwise().widens().activates(gate_reads),
};

// Each sample apart, along the first axis.
bool samples_apart(graft::batch_carrier& c) { return c.state(0).axis == 0 ? c.answer(0, c.state(0)) : c.conflict("it takes rows of samples"); }
const graft::op_row carrying[] = {
    make_op("Rows", "app").inputs(1).functions(rows_infer, rows_run).carries(samples_apart),
    make_op("Gate", "app").inputs(1).functions(gate_infer, gate_run).carries(samples_apart),
};

graft::load_options with(const graft::op_row (&rows)[2]) {
    graft::load_options options;
    options.operators = rows;
    return options;
}

value_id own(builder& b, const char* op, value_id x) { return b.apply(op, {x}); }
graft::graph finish(builder& b) {
    graft::graph g = b.finish();
    g.opsets.push_back({"app", 1});
    for (graft::node& n : g.nodes)
        if (n.op_type == "Rows" || n.op_type == "Gate") n.domain = "app";
    return g;
}
graft::tensor drawn(const graft::shape& s, std::uint64_t seed, dtype type = dtype::float32) {
    nets::numbers random{seed};
    return nets::random_tensor(s, random, -1, 1, type);
}
// Conv, Gate, Rows, MatMul
graft::graph network(dtype type) {
    builder b("net");
    value_id x = b.input("x", type, {2, 3, 4, 4});
    x = b.apply("Conv", {x, b.constant("w", drawn({4, 3, 1, 1}, 1, type))});
    x = own(b, "Rows", own(b, "Gate", x));
    b.output(b.apply("MatMul", {x, b.constant("v", drawn({64, 5}, 2, type))}), "y");
    return finish(b);
}
// How often an operator stands in the plan.
int planned(const graft::model& m, const std::string& op) {
    const std::vector<graft::placement> all = m.placements(m.inputs());
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const graft::placement& p) { return p.op_type == op; }));
}
// The network as it was loaded, its nodes bound to rows.
template <int N>
graft::graph loaded(const graft::graph& g, const graft::op_row (&rows)[N]) {
    const graft::model m = graft::load(g, with(rows));
    return m.graph();
}

}  // namespace

TEST_CASE("an operator of the app's own is fused where its row says which activation it is") {
    const graft::graph g = network(dtype::float32);
    const graft::tensor x = drawn({2, 3, 4, 4}, 3);
    const graft::model plain = graft::load(g, with(bare)), fused = graft::load(g, with(told));
    CHECK(planned(plain, "app.Gate") == 1);
    CHECK(planned(fused, "app.Gate") == 0);
    CHECK(planned(fused, "graft.Activation") == 0);
    const nets::answer want = nets::run(plain, {x}, 1), got = nets::run(fused, {x}, 1);
    CHECK_MESSAGE(got.error.empty(), got.error);
    CHECK(nets::difference(got, want) <= 1e-5);
}

TEST_CASE("it is computed wide between operators of halves where its row says that it may") {
    const graft::graph g = network(dtype::float16);
    const graft::tensor x = drawn({2, 3, 4, 4}, 3, dtype::float16);
    const graft::model plain = graft::load(g, with(bare)), wide = graft::load(g, with(told));
    CHECK(planned(plain, "Cast") == 4);
    CHECK(planned(wide, "Cast") == 2);
    CHECK(nets::difference(nets::run(wide, {x}, 1), nets::run(plain, {x}, 1)) <= 1e-2);
}

TEST_CASE("quantised integers go through it where its row says that it only moves them") {
    builder b("net");
    const float scale = 0.05f;
    const std::int8_t zero = 3;
    const value_id x = b.input("x", dtype::float32, {2, 3, 2, 2}), s = b.constant("s", graft::tensor::from(&scale, {})),
                   z = b.constant("z", graft::tensor::from(&zero, {}));
    const value_id rows = own(b, "Rows", b.apply("QuantizeLinear", {x, s, z}));
    b.output(b.apply("DequantizeLinear", {rows, s, z}), "y");
    const graft::graph g = finish(b);
    graft::executor serial;
    graft::float32_changes changes;
    auto refused = graft::to_float32(loaded(g, bare), {2, 3, 2, 2}, serial, {}, changes);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::op_unsupported);
    const graft::graph real = graft::to_float32(loaded(g, told), {2, 3, 2, 2}, serial, {}, changes);
    for (const graft::node& n : real.nodes) CHECK(n.op_type != "DequantizeLinear");
}

TEST_CASE("a batch that was fixed goes through it where its row says how") {
    const graft::graph g = network(dtype::float32);
    graft::executor serial;
    auto refused = graft::open_batch(loaded(g, bare), {2, 3, 4, 4}, serial, {});
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::graph_fixed_batch);
    const graft::model fixed = graft::load(g, with(carrying)),
                       open = graft::load(graft::open_batch(loaded(g, carrying), {2, 3, 4, 4}, serial, {}).value(), with(carrying));
    const graft::tensor x = drawn({2, 3, 4, 4}, 3);
    CHECK(nets::difference(nets::run(open, {x}, 1), nets::run(fixed, {x}, 1)) == 0);
    CHECK(nets::run(open, {drawn({5, 3, 4, 4}, 3)}, 1).error.empty());
}

TEST_CASE("weights are found behind it where its row says that it only moves them") {
    builder b("net");
    const value_id x = b.input("x", dtype::float32, {"N", 3}), w = own(b, "Rows", b.constant("w", drawn({3, 2, 2}, 1)));
    b.output(b.apply("MatMul", {x, w}), "y");
    const graft::graph g = finish(b);
    CHECK(graft::parameters_of(loaded(g, bare)).empty());
    const std::vector<graft::parameter> found = graft::parameters_of(loaded(g, told));
    REQUIRE(found.size() == 1);
    CHECK(found[0].name == "w");
}

TEST_CASE("a classifier's Softmax is found behind it where its row says that it keeps the scores") {
    builder b("net");
    const value_id x = b.input("x", dtype::float32, {1, 3}), scores = b.apply("MatMul", {x, b.constant("w", drawn({3, 4}, 1))});
    b.output(own(b, "Rows", b.apply("Softmax", {scores}, {graft::integer_attribute("axis", 1)})), "y");
    const graft::graph g = finish(b), plain = loaded(g, bare), known = loaded(g, told);
    CHECK(graft::logits_of(plain) == plain.outputs[0]);
    CHECK(graft::logits_of(known) == scores);
    const float given[] = {0.1f, 0.2f, 0.3f, 0.4f};
    const graft::tensor probabilities = graft::tensor::from(given, {1, 4});
    CHECK(graft::class_probabilities(known, probabilities)[3] == static_cast<double>(given[3]));
    CHECK(graft::class_probabilities(plain, probabilities)[3] < 0.3);
}
