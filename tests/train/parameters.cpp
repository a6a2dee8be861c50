// Which constants of a network are its weights, in which order, and which running statistics belong to them.
#include "small_steps.hpp"

#include <algorithm>

namespace {

std::vector<std::string> names_of(const std::vector<graft::parameter>& parameters) {
    std::vector<std::string> names;
    for (const graft::parameter& p : parameters) names.push_back(p.name);
    return names;
}

}  // namespace

TEST_CASE("Weights are in the order in which the network reads them") {
    std::vector<std::string> wanted;
    for (const char* layer : {"conv1", "conv2", "fc1", "fc2", "fc3"})
        for (const char* kind : {".weight", ".bias"}) wanted.push_back(std::string(layer) + kind);
    CHECK(names_of(graft::parameters_of(small_steps::architecture("lenet"))) == wanted);
}

TEST_CASE("Statistics, limits and single numbers are no weights; weights are found behind Transpose and Reshape") {
    graft::builder b("net");
    graft::value_id x = b.input("input", graft::dtype::float32, {"N", 6});
    const float half = 0.5f;
    x = b.apply("Mul", {x, b.constant("half", graft::tensor::from(&half, {}))});
    x = b.apply("MatMul", {x, b.apply("Transpose", {b.constant("turned", small_steps::numbered(1, {4, 6}))}, {graft::integers_attribute("perm", {1, 0})})});
    const std::int64_t flat[] = {4};
    x = b.apply("Add", {x, b.apply("Reshape", {b.constant("bias", small_steps::numbered(2, {1, 4})), b.constant("shape", graft::tensor::from(flat, {1}))})});
    std::vector<graft::value_id> norm{x};
    for (const char* name : {"scale", "shift", "mean", "var"}) norm.push_back(b.constant(name, small_steps::numbered(3 + norm.size(), {4}, 0.1, 1)));
    x = b.apply("BatchNormalization", norm);
    const float low = 0, high = 6;
    x = b.apply("Clip", {x, b.constant("low", graft::tensor::from(&low, {})), b.constant("high", graft::tensor::from(&high, {}))});
    b.output(x, "logits");
    const graft::graph g = small_steps::loaded(b.finish());
    const std::vector<graft::parameter> found = graft::parameters_of(g);
    std::string joined;
    for (const std::string& name : names_of(found)) joined += name + " ";
    CHECK(joined == "turned bias scale shift ");
    const auto statistics_of = [&](const char* learning) {
        std::vector<graft::value_id> ids;
        for (const graft::parameter& p : found)
            if (p.name == learning) ids.push_back(p.id);
        std::vector<std::string> names;
        for (graft::value_id id : graft::running_statistics(g, ids)) names.push_back(g.at(id).name);
        return names;
    };
    CHECK(statistics_of("scale") == std::vector<std::string>{"mean", "var"});
    CHECK(statistics_of("shift").empty());
}

TEST_CASE("A normalisation that was written by hand and lacks inputs has no statistics") {
    graft::graph g;
    graft::node n;
    n.op_type = "BatchNormalization";
    n.inputs = {g.add_value("x")};
    n.outputs = {g.add_value("y")};
    g.nodes.push_back(n);
    CHECK(graft::running_statistics(g, {0}).empty());
}

TEST_CASE("A step refuses a network in which nothing learns") {
    const graft::graph g = small_steps::architecture("lenet");
    std::vector<graft::parameter> parameters = graft::parameters_of(g);
    for (graft::parameter& p : parameters) p.learns = false;
    auto made = graft::training_step::make(g, graft::logits_of(g), parameters, {});
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::train_freeze);
}

TEST_CASE("Frozen weights and the statistics that belong to them stay as they were") {
    const graft::graph g = small_steps::architecture("resnet20", 16);
    std::vector<graft::parameter> parameters = graft::parameters_of(g);
    for (graft::parameter& p : parameters) p.learns = p.name.rfind("layer3", 0) == 0 || p.name.rfind("fc", 0) == 0;
    small_steps::trained t(g, {}, parameters);
    for (std::int64_t i = 0; i < 2; ++i) REQUIRE_MESSAGE(t.run(i, 4), t.error());
    const graft::graph after = t.step.network();
    std::size_t changed = 0;
    for (std::size_t v = 0; v < g.values.size(); ++v) {
        const graft::tensor &was = g.values[v].constant, &now = after.values[v].constant;
        if (!was || !now) continue;
        const std::string& name = g.values[v].name;
        const bool same = std::memcmp(was.raw(), now.raw(), was.bytes()) == 0;
        const bool may = name.rfind("layer3", 0) == 0 || name.rfind("fc", 0) == 0;
        INFO(name);
        CHECK((may || same));
        changed += !same;
    }
    CHECK(changed > 20);
}
