// New classifiers on the trunks of networks that end in the usual ways.
#include "small_steps.hpp"

#include <cmath>

namespace {

using graft::value_id;

value_id pictures(graft::builder& b) {
    graft::conv2d_options conv;
    conv.kernel = 3, conv.stride = 2, conv.name = "stem";
    return b.relu(b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 9, 9}), 6, conv));
}
graft::graph ends_in_gemm() {
    graft::builder b("gemm", 1);
    graft::linear_options fc;
    fc.name = "old";
    b.output(b.linear(b.flatten(b.global_average_pool(pictures(b))), 10, fc), "scores");
    return small_steps::loaded(b.finish());
}
graft::graph ends_in_matmul_add() {
    graft::builder b("matmul", 1);
    const value_id x = b.flatten(b.global_average_pool(pictures(b)));
    const value_id product = b.apply("MatMul", {x, b.constant("old.weight", small_steps::numbered(1, {6, 10}))});
    b.output(b.apply("Add", {product, b.constant("old.bias", small_steps::numbered(2, {10}))}), "scores");
    return small_steps::loaded(b.finish());
}
graft::graph ends_in_conv_pool_softmax() {
    graft::builder b("conv", 1);
    graft::conv2d_options classifier;
    classifier.name = "old";
    const value_id y = b.flatten(b.global_average_pool(b.relu(b.conv2d(pictures(b), 10, classifier))));
    b.output(b.softmax(y), "probabilities");
    return small_steps::loaded(b.finish());
}
bool has_value(const graft::graph& g, const std::string& name) {
    for (const graft::value& v : g.values)
        if (v.name == name && v.constant) return true;
    return false;
}

}  // namespace

TEST_CASE("A new classifier takes the place of a Gemm, of MatMul and Add, and of a Conv that is pooled") {
    const struct {
        graft::graph g;
        int rank;
        bool softmax;
    } nets[] = {{ends_in_gemm(), 2, false}, {ends_in_matmul_add(), 2, false}, {ends_in_conv_pool_softmax(), 4, true}};
    graft::executor serial;
    for (const auto& net : nets) {
        INFO(net.g.name);
        const graft::trunk_cut cut = graft::find_trunk(net.g, "", {2, 3, 9, 9}, serial);
        CHECK(cut.rank == net.rank);
        CHECK(cut.channels == 6);
        CHECK(cut.softmax == net.softmax);
        const graft::grafted made = graft::replace_head(net.g, cut, 4, 7);
        CHECK(made.head == std::vector<std::string>{"head.weight", "head.bias"});
        CHECK(!has_value(made.graph, "old.weight"));
        CHECK(has_value(made.graph, "stem.weight"));
        const std::string output = net.g.at(net.g.outputs[0]).name;
        CHECK(made.graph.at(made.graph.outputs[0]).name == output);
        CHECK(graft::logits_of(made.graph) == made.logits);

        const graft::model model = graft::load(made.graph);
        graft::session session(model);
        const graft::tensor y = session.run(small_steps::numbered(9, {2, 3, 9, 9}));
        CHECK(y.shape() == graft::shape{2, 4});
        double sum = 0;
        for (int c = 0; c < 4; ++c) sum += static_cast<double>(y.data<float>()[c]);
        if (net.softmax) CHECK(sum == doctest::Approx(1));
        // Drawn as torch's Linear draws, by the seed.
        for (const graft::value& v : made.graph.values)
            if (v.name == "head.weight") {
                CHECK(v.constant.shape() == graft::shape{4, 6});
                for (std::int64_t i = 0; i < v.constant.elements(); ++i)
                    CHECK(std::fabs(static_cast<double>(v.constant.data<float>()[i])) <= 1 / std::sqrt(6.0));
            }

        // It learns, and the trunk with it or without.
        small_steps::trained all(small_steps::loaded(made.graph), {});
        REQUIRE_MESSAGE(all.run(0, 4), all.error());
        const double first = all.step.loss();
        for (std::int64_t i = 0; i < 20; ++i) REQUIRE(all.run(0, 4, 1, 0.02));
        CHECK(all.step.loss() < first);
    }
}

TEST_CASE("A trunk can be named, and what cannot be cut is refused") {
    const graft::graph g = ends_in_gemm();
    graft::executor serial;
    const graft::trunk_cut cut = graft::find_trunk(g, "stem", {2, 3, 9, 9}, serial);
    CHECK(cut.rank == 4);
    CHECK(cut.logits == graft::no_value);
    const graft::grafted made = graft::replace_head(g, cut, 2, 0);
    const graft::model model = graft::load(made.graph);
    graft::session session(model);
    const graft::tensor y = session.run(small_steps::numbered(9, {1, 3, 9, 9}));
    CHECK(y.shape() == graft::shape{1, 2});

    auto unknown = graft::find_trunk(g, "nowhere", {2, 3, 9, 9}, serial);
    CHECK(unknown.error().code() == graft::errc::train_head);
    graft::builder b("no classifier");
    b.output(pictures(b), "y");
    const graft::graph none = small_steps::loaded(b.finish());
    auto refused = graft::find_trunk(none, "", {2, 3, 9, 9}, serial);
    CHECK((!refused.ok() || refused->rank == 4));
    CHECK(graft::replace_head(g, cut, 0, 0).error().code() == graft::errc::train_head);
}

TEST_CASE("Constant nodes become weights") {
    graft::builder b("net");
    const value_id x = b.input("input", graft::dtype::float32, {"N", 6});
    graft::attribute value;
    value.name = "value";
    value.kind = graft::attribute_kind::tensor;
    value.tensor = small_steps::numbered(1, {6, 3});
    b.output(b.apply("MatMul", {x, b.apply("Constant", {}, {value})}), "y");
    graft::graph g = small_steps::loaded(b.finish());
    graft::constants_to_initializers(g);
    CHECK(graft::parameters_of(g).size() == 1);
}
