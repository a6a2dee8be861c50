// Several places in one plan: two of the host's memory and devices, with values, states and bodies that cross from each to each.
#include "several_places.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

using graft::builder;
using graft::dtype;
using graft::graph_attribute;
using graft::value_id;
using nets::floats;

namespace {

constexpr dtype f32 = dtype::float32;

// Convolutions with a residual, pooled, and products behind them: [1, 3, 16, 16] to [1, 5].
graft::graph convolutions() {
    builder b("three", 3);
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1;
    const auto x = b.input("x", f32, {1, 3, 16, 16});
    const auto a = b.relu(b.conv2d(x, 16, three));
    const auto c = b.relu(b.conv2d(a, 16, three));
    const auto d = b.conv2d(b.add(a, c), 24, three);
    const auto pooled = b.apply("GlobalAveragePool", {b.apply("HardSwish", {d})});
    const auto flat = b.apply("Flatten", {pooled});
    nets::numbers random{5};
    const auto hidden = b.apply("Tanh", {b.apply("MatMul", {flat, b.constant("w1", nets::random_tensor({24, 12}, random))})});
    b.output(b.apply("Softmax", {b.apply("MatMul", {hidden, b.constant("w2", nets::random_tensor({12, 5}, random))})}), "y");
    return b.finish();
}

}  // namespace

TEST_CASE("a network runs over two places of the host's memory and a device, wherever each node is") {
    const graft::graph g = bound(convolutions());
    const graft::model alone = graft::load(g);
    const std::vector<graft::tensor> inputs = nets::inputs_of(alone, 1);
    graft::session reference(alone);
    const graft::tensor want = reference.run(inputs[0]);
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
        CAPTURE(seed);
        graft::graph placed = g;
        nets::numbers coin{seed + 1};
        spread(placed, [&](std::size_t i) {
            return seed == 0 ? static_cast<int>(i % several_places::count) : seed == 1 ? 1 : static_cast<int>(coin.uniform(0, several_places::count));
        });
        several_places here(placed);
        std::shared_ptr<const graft::plan> p;
        for (int round = 0; round < 2; ++round) p = here.run(inputs);
        CHECK(difference(here.runner->output(0), want) <= 1e-5);
        std::set<int> used;
        for (const graft::step& s : p->steps) used.insert(s.place);
        if (seed == 0) {
            CHECK(used == std::set<int>{0, 1, 2, 3});
            for (const graft::plan_place& at : p->places) CHECK(at.arena_bytes > 0);
            CHECK(here.device->did.uploads > 0);
        }
    }
}

TEST_CASE("a convolution of the second place works on blocks there, and hands on rows") {
    graft::graph g = bound(convolutions());
    spread(g, [](std::size_t) { return 1; });
    several_places here(g);
    const graft::model alone = graft::load(bound(convolutions()));
    const auto inputs = nets::inputs_of(alone, 1);
    const auto p = here.run(inputs);
    bool blocked = false;
    for (const graft::value& v : p->lowered.values) blocked |= v.place == 1 && v.layout == graft::layout::blocked;
    CHECK(blocked);
    CHECK(p->places[1].arena_bytes > 0);
    for (const graft::slot& s : p->outputs) CHECK(s.place == 0);
    graft::session reference(alone);
    CHECK(difference(here.runner->output(0), reference.run(inputs[0])) == 0);  // the same kernels
}

TEST_CASE("states lie where they are changed, and whoever reads them elsewhere gets a copy") {
    builder b("stateful");
    const value_id first = b.input("first", f32, {4}), second = b.input("second", f32, {4}), third = b.input("third", f32, {4}), x = b.input("x", f32, {4});
    const auto one = b.constant("one", floats({1}));
    const value_id changed[] = {b.apply("Add", {first, x}), b.apply("Mul", {second, x}), b.apply("Sub", {third, one})};
    const auto all = b.apply("Sum", {first, second, third});
    const auto seen = b.apply("Add", {b.apply("Exp", {second}), third});
    b.output(all, "all");
    b.output(seen, "seen");
    for (int i = 0; i < 3; ++i) b.output(changed[i], "after" + std::to_string(i));
    graft::graph g = bound(b.finish());
    for (int i = 0; i < 3; ++i) g.states.push_back({i, 2 + i});
    const auto run_rounds = [&](graft::graph placed, std::vector<std::vector<float>>& told) {
        several_places here(std::move(placed));
        std::vector<graft::tensor> inputs = {floats({1, 2, 3, 4}), floats({1, 1, 2, 2}), floats({9, 8, 7, 6}), floats({2, 3, 0.5f, 1})};
        for (int round = 0; round < 4; ++round) {
            here.run(inputs);
            for (std::size_t i = 0; i < 2; ++i) told.push_back(nets::values<float>(here.runner->output(i)));
        }
        REQUIRE(here.state->read_back(nullptr).ok());
        REQUIRE(here.second_state->read_back(nullptr).ok());
        for (std::size_t i = 0; i < 3; ++i) told.push_back(nets::values<float>(inputs[i]));
    };
    std::vector<std::vector<float>> want;
    run_rounds(g, want);
    CHECK(want[6] == std::vector<float>{1 + 3 * 2 + 8 + 6, 2 + 3 * 3 + 27 + 5, 3 + 1.5f + 0.25f + 4, 4 + 3 + 2 + 3});
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
        CAPTURE(seed);
        nets::numbers coin{seed + 1};
        graft::graph placed = g;
        spread(placed, [&](std::size_t i) {
            return seed == 0 ? static_cast<int>(i % several_places::count) : static_cast<int>(coin.uniform(0, several_places::count));
        });
        std::vector<std::vector<float>> told;
        run_rounds(std::move(placed), told);
        REQUIRE(told.size() == want.size());
        for (std::size_t i = 0; i < want.size(); ++i)
            for (std::size_t k = 0; k < 4; ++k) CHECK(told[i][k] == doctest::Approx(want[i][k]));
    }
}

TEST_CASE("bodies read what any place has made, and what they give goes on to any") {
    builder b("bodies");
    const auto x = b.input("x", f32, {3}), choose = b.input("choose", dtype::boolean, {});
    const auto kept = b.apply("Exp", {b.apply("Neg", {x})});
    const auto reading = [&](const char* op) {
        nets::body_builder body(op);
        body.b.output(body.b.apply(op, {body.capture(f32, kept)}), "made");
        return body.finish();
    };
    const auto y = b.apply("If", {choose}, {graph_attribute("then_branch", reading("Sqrt")), graph_attribute("else_branch", reading("Neg"))});
    b.output(b.apply("Add", {kept, x}), "sum");
    b.output(y, "y");
    const graft::graph g = bound(b.finish());
    const float in[] = {0.5f, -1, 2};
    for (int place = 0; place < several_places::count; ++place)
        for (const bool chosen : {true, false}) {
            CAPTURE(place);
            CAPTURE(chosen);
            graft::graph placed = g;
            spread(placed, [&](std::size_t) { return place; });
            several_places here(placed);
            here.run({floats({in[0], in[1], in[2]}), graft::tensor::scalar(chosen)});
            for (std::size_t i = 0; i < 3; ++i) {
                const double e = std::exp(-static_cast<double>(in[i]));
                CHECK(here.runner->output(0).data<float>()[i] == doctest::Approx(e + in[i]));
                CHECK(here.runner->output(1).data<float>()[i] == doctest::Approx(chosen ? std::sqrt(e) : -e));
            }
        }
}

TEST_CASE("a node that asks for a place which there is not is refused by its name") {
    graft::graph g = bound(convolutions());
    g.nodes[1].place = 7;
    g.nodes[1].name = "astray";
    several_places here(g);
    const auto inputs = nets::inputs_of(graft::load(bound(convolutions())), 1);
    std::vector<graft::tensor_view> views{view(inputs[0])};
    const graft::status refused = here.runner->run(views.data());
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::usage);
    CHECK(refused.error().where().find("astray") != std::string::npos);
}
