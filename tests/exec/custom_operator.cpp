// Operators of the app's own: rows that come before graft's.
#include "nets.hpp"

#include <doctest/doctest.h>

using graft::dtype;
using graft::errc;
using nets::floats;

namespace {

// y = x * (1 + by), of the domain "app".
graft::status grow_infer(graft::infer_context& c) {
    if (c.in[0].type != dtype::float32) return c.fail(errc::op_type, "it grows float32 only");
    return c.set(0, c.in[0].type, c.in[0].extents);
}
graft::status grow_run(graft::run_context& c) {
    const float factor = 1 + c.real("by", 0);
    for (std::int64_t i = 0; i < c.out[0].elements(); ++i) c.out[0].as<float>()[i] = c.in[0].as<float>()[i] * factor;
    return {};
}
// Keeps what is over 0: its output's shape is known after it ran.
graft::status positive_infer(graft::infer_context& c) { return c.defer(); }
graft::status positive_run(graft::run_context& c) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < c.in[0].elements(); ++i) n += c.in[0].as<float>()[i] > 0;
    GRAFT_TRY(c.allocate(0, dtype::float32, {n}));
    float* out = c.out[0].as<float>();
    for (std::int64_t i = 0; i < c.in[0].elements(); ++i)
        if (c.in[0].as<float>()[i] > 0) *out++ = c.in[0].as<float>()[i];
    return {};
}
// graft's own names, with another meaning.
graft::status hundred_run(graft::run_context& c) {
    for (std::int64_t i = 0; i < c.out[0].elements(); ++i) c.out[0].as<float>()[i] = 100;
    return {};
}
graft::status failing_run(graft::run_context& c) { return c.fail(errc::op_value, "it never works; it was given %lld inputs", c.inputs); }

const graft::op_row rows[] = {
    graft::make_op("Grow", "app").inputs(1).functions(grow_infer, grow_run).elementwise().attributes("by:f").problems("f32[3] by=2"),
    graft::make_op("Positive", "app").inputs(1).functions(positive_infer, positive_run).allocates().problems("f32[3]"),
    graft::make_op("Broken", "app").inputs(1).functions(grow_infer, failing_run).problems("f32[3]"),
    graft::make_op("Relu").inputs(1).functions(grow_infer, hundred_run).problems("f32[3]"),
    graft::make_op("Identity").inputs(1).functions(grow_infer, hundred_run).problems("f32[3]"),
    graft::make_op("MatMul").inputs(2).functions(grow_infer, hundred_run).problems("f32[3,3] f32[3,3]"),
};

graft::load_options with_rows() {
    graft::load_options options;
    options.operators = rows;
    return options;
}

// x -> op -> Neg -> y
graft::graph around(const char* op, const char* domain, std::vector<graft::attribute> attributes = {}, dtype type = dtype::float32) {
    graft::builder b;
    const auto x = b.input("x", type, {"N"});
    const auto y = b.apply(op, {x}, std::move(attributes));
    b.output(b.apply("Neg", {y}), "y");
    graft::graph g = b.finish();
    g.nodes[0].domain = domain;
    if (domain[0]) g.opsets.push_back({domain, 1});
    return g;
}

}  // namespace

TEST_CASE("an operator of the app's own runs between graft's") {
    auto m = graft::load(around("Grow", "app", {graft::real_attribute("by", 2)}), with_rows());
    REQUIRE(m.ok());
    graft::session s(*m, {2, nullptr});
    CHECK(nets::values<float>(s.run(floats({1, -2}))) == std::vector<float>{-3, 6});
    CHECK(nets::values<float>(s.run(floats({1, 2, 3}))) == std::vector<float>{-3, -6, -9});
}

TEST_CASE("an operator that finds its own shape runs, and so does what reads it") {
    auto m = graft::load(around("Positive", "app"), with_rows());
    REQUIRE(m.ok());
    graft::session s(*m, {2, nullptr});
    CHECK(nets::values<float>(s.run(floats({1, -2, 3}))) == std::vector<float>{-1, -3});
    CHECK(s.run(floats({-1, -2}))->elements() == 0);
}

TEST_CASE("an operator of the app's own takes the place of graft's") {
    for (const char* op : {"Relu", "Identity"}) {
        auto m = graft::load(around(op, ""), with_rows());
        REQUIRE(m.ok());
        graft::session s(*m, {1, nullptr});
        INFO(std::string(op));
        CHECK(nets::values<float>(s.run(floats({1, -2}))) == std::vector<float>{-100, -100});
    }
    graft::builder b;
    const auto x = b.input("x", dtype::float32, {2, 2});
    b.output(b.apply("MatMul", {x, x}), "y");
    auto m = graft::load(b.finish(), with_rows());
    REQUIRE(m.ok());
    graft::session s(*m, {1, nullptr});
    const float data[] = {1, 2, 3, 4};
    CHECK(nets::values<float>(s.run(graft::tensor::from(data, {2, 2}))) == std::vector<float>{100, 100, 100, 100});
}

TEST_CASE("what an operator of the app's own refuses is told with its node") {
    const auto refused = graft::load(around("Broken", "app"), with_rows());
    REQUIRE(refused.ok());
    graft::session s(refused.value(), {1, nullptr});
    const auto out = s.run(floats({1}));
    REQUIRE(!out.ok());
    CHECK(out.error().code() == errc::op_value);
    CHECK(std::string(out.error().what()).find("app.Broken") != std::string::npos);
    CHECK(std::string(out.error().what()).find("1 inputs") != std::string::npos);
}

TEST_CASE("without its row an operator is unsupported, and an attribute that the row does not name is refused") {
    const auto unknown = graft::load(around("Grow", "app"));
    REQUIRE(!unknown.ok());
    CHECK(unknown.error().code() == errc::op_unsupported);
    const auto attribute = graft::load(around("Grow", "app", {graft::real_attribute("faster", 2)}), with_rows());
    REQUIRE(!attribute.ok());
    CHECK(attribute.error().code() == errc::op_attribute);
}
