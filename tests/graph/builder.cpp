// Networks in code, and graphs as text.
#include <doctest/doctest.h>
#include <graft/graph/builder.hpp>
#include <graft/graph/dump.hpp>

#include <cmath>
#include <string>

namespace {

graft::conv2d_options three(std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t groups = 1) {
    graft::conv2d_options o;
    o.kernel = 3, o.stride = stride, o.padding = padding, o.groups = groups;
    return o;
}

}  // namespace

TEST_CASE("A network is built with its shapes") {
    graft::builder b("net", 1);
    const auto x = b.input("image", graft::dtype::float32, {"N", 3, 32, 32});
    auto y = b.conv2d(x, 16, three(2, 1));
    CHECK(b.shape_of(y) == graft::shape{-1, 16, 16, 16});
    y = b.relu(b.batch_norm(y));
    y = b.add(y, b.conv2d(y, 16, three(1, 1, 16)));
    graft::pool_options pool;
    pool.kernel = 3, pool.stride = 2, pool.padding = 1;
    y = b.concat({b.max_pool(y, pool), b.average_pool(y, pool)});
    CHECK(b.shape_of(y) == graft::shape{-1, 32, 8, 8});
    pool.ceil = true;
    CHECK(b.shape_of(b.max_pool(y, pool)) == graft::shape{-1, 32, 5, 5});
    y = b.clip(y, 0, 6);
    y = b.softmax(b.linear(b.flatten(b.global_average_pool(y)), 10));
    CHECK(b.shape_of(y) == graft::shape{-1, 10});
    b.output(y, "probabilities");
    b.output(x, "image_again");
    auto g = b.finish();
    REQUIRE(g.ok());
    CHECK(g->version_of("") == 17);
    CHECK(g->ir_version == 8);
    CHECK(g->at(g->outputs[0]).name == "probabilities");
    CHECK(g->at(g->outputs[0]).dimensions[0] == "N");
    CHECK(g->nodes.back().op_type == "Identity");
    const std::string text = graft::dump(*g), dot = graft::dump_dot(*g);
    CHECK(text.find("input    image: float32[N,3,32,32]") != std::string::npos);
    CHECK(text.find("conv2d_0: float32[N,16,16,16] = Conv(image, conv2d_0.weight, conv2d_0.bias)") != std::string::npos);
    CHECK(dot.find("digraph \"net\"") == 0);
    CHECK(dot.find("[label=\"Softmax\"]") != std::string::npos);
}

TEST_CASE("Weights are drawn as He et al. have it, from the seed alone") {
    const auto weight = [](std::uint64_t seed) {
        graft::builder b("net", seed);
        const auto x = b.input("x", graft::dtype::float32, {1, 64, 8, 8});
        b.output(b.conv2d(x, 128, three()), "y");
        return b.finish().value().values[1].constant;
    };
    const graft::tensor a = weight(5), same = weight(5), other = weight(6);
    REQUIRE(a.shape() == graft::shape{128, 64, 3, 3});
    double sum = 0, squares = 0;
    bool equal = true, differs = false;
    for (std::int64_t i = 0; i < a.elements(); ++i) {
        const double w = static_cast<double>(a.data<float>()[i]);
        sum += w, squares += w * w;
        equal &= a.data<float>()[i] == same.data<float>()[i];
        differs |= a.data<float>()[i] != other.data<float>()[i];
    }
    const double n = static_cast<double>(a.elements());
    CHECK(std::fabs(sum / n) < 0.001);
    CHECK(squares / n == doctest::Approx(2.0 / (64 * 9)).epsilon(0.03));
    CHECK(equal);
    CHECK(differs);
}

TEST_CASE("The first mistake is kept and comes out at the end") {
    const auto verdict = [](graft::builder& b) {
        auto g = b.finish();
        return std::string(g.ok() ? "" : graft::text(g.error().code()));
    };
    {
        graft::builder b;
        const auto x = b.input("x", graft::dtype::float32, {1, 3, 2, 2});
        b.output(b.softmax(b.conv2d(x, 4, three())), "y");
        CHECK(verdict(b) == "op.shape");
    }
    {
        graft::builder b;
        const auto x = b.input("x", graft::dtype::float32, {1, 3, 8, 8});
        b.output(b.conv2d(x, 4, three(1, 0, 2)), "y");
        CHECK(verdict(b) == "op.attribute");
    }
    {
        graft::builder b;
        b.output(b.linear(b.input("x", graft::dtype::float32, {1, "F"}), 4), "y");
        CHECK(verdict(b) == "op.shape");
    }
    {
        graft::builder b;
        graft::linear_options o;
        o.weight = graft::tensor::make(graft::dtype::float32, {4, 4}).value();
        b.output(b.linear(b.input("x", graft::dtype::float32, {1, 3}), 4, o), "y");
        CHECK(verdict(b) == "op.shape");
    }
    {
        graft::builder b;
        const auto x = b.input("x", graft::dtype::float32, {1, 3});
        b.output(b.add(x, b.input("z", graft::dtype::float32, {1, 4})), "y");
        CHECK(verdict(b) == "op.shape");
    }
    graft::builder nothing;
    CHECK(verdict(nothing) == "graph.no_output");
    graft::builder stray;
    stray.output(77, "y");
    CHECK(verdict(stray) == "op.shape");
}

TEST_CASE("Any operator can be emitted, with attributes of every kind") {
    graft::builder b;
    const auto x = b.input("x", graft::dtype::float32, {2, 4});
    const auto parts = b.apply_all("Split", {x}, {graft::integer_attribute("axis", 1)}, 2);
    REQUIRE(parts.size() == 2);
    b.output(b.apply("Mul", {parts[0], parts[1]}), "y");
    auto g = b.finish();
    REQUIRE(g.ok());
    CHECK(g->nodes.size() == 2);
    g->nodes[0].attributes = {graft::real_attribute("r", 0.5f),
                              graft::string_attribute("s", "t\n"),
                              graft::reals_attribute("rs", {1, 2}),
                              graft::integers_attribute("is", std::vector<std::int64_t>(20, 3)),
                              graft::tensor_attribute("t", graft::tensor::scalar(1.5f).value()),
                              graft::graph_attribute("g", *g)};
    const std::string text = graft::dump(*g);
    CHECK(text.find("r=0.5 s='t\\x0a' rs=[1,2]") != std::string::npos);
    CHECK(text.find(",...]") != std::string::npos);
    CHECK(text.find("t=float32[] {1.5}") != std::string::npos);
}

TEST_CASE("A metadata entry is set where it stands, and dropped with all others of its key") {
    graft::graph g;
    g.metadata = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
    g.set_metadata("a", "4");
    g.set_metadata("c", "5");
    CHECK(*g.find_metadata("a") == "4");
    CHECK(g.metadata.back().first == "c");
    CHECK(g.metadata.size() == 4);
    g.drop_metadata("a");
    g.drop_metadata("none");
    CHECK(!g.find_metadata("a"));
    CHECK(g.metadata.size() == 2);
}
