// Losses and their gradients against torch's, recorded by scripts/record_steps.py; rows of targets.
#include "../passes/small_net.hpp"
#include "golden_steps.hpp"
#include "small_steps.hpp"

#include <cmath>

namespace {

graft::tensor numbered(std::uint64_t k, double scale) {
    graft::tensor t = graft::tensor::make(graft::dtype::float64, {4, 5});
    for (std::int64_t i = 0; i < 20; ++i) t.data<double>()[i] = small_steps::hashed(k, static_cast<std::uint64_t>(i)) * scale;
    return t;
}
graft::tensor softmax(graft::tensor t) {
    for (std::int64_t row = 0; row < 4; ++row) {
        double sum = 0, *x = t.data<double>() + row * 5;
        for (int c = 0; c < 5; ++c) sum += x[c] = std::exp(x[c]);
        for (int c = 0; c < 5; ++c) x[c] /= sum;
    }
    return t;
}

}  // namespace

TEST_CASE("Losses and their gradients are torch's") {
    for (const golden_loss& golden : golden_losses()) {
        const std::string name = golden.name;
        INFO(name);
        graft::loss_options o;
        o.gamma = 1.5f, o.delta = 0.7f;
        if (name == "distillation")
            o.distillation = 0.3f, o.temperature = 3;
        else
            o.kind = graft::loss_of(name);
        small_net::net net;
        const graft::value_id x = net.input({4, 5}), t = net.input({4, 5}), scale = net.input({}), teacher = net.input({4, 5});
        net.finish(net.apply("Add", {net.sum(net.apply("Add", {x, t})), net.apply("Add", {scale, net.sum(teacher)})}));
        const graft::limits limit;
        graft::emitter build(net.g, graft::ops::find_training_op, limit);
        net.g.outputs[0] = graft::emit_loss(build, o, x, t, scale, name == "distillation" ? teacher : graft::no_value, 8);
        REQUIRE(build.failure.ok());
        auto gradients = net.differentiate({x});
        REQUIRE(gradients.ok());
        const bool soft = o.kind == graft::loss_kind::cross_entropy || o.kind == graft::loss_kind::focal;
        graft::tensor targets = soft ? softmax(numbered(501, 2)) : numbered(502, 1);
        for (std::int64_t i = 0; i < 20 && !soft; ++i) targets.data<double>()[i] = std::fabs(targets.data<double>()[i]);
        const std::vector<graft::tensor> values = net.run({numbered(500, 2), targets, small_net::filled({}, {1 / 3.5}), numbered(503, 3)});
        // Settings are floats in a node's attributes.
        const double near = name == "huber" || name == "distillation" ? 1e-6 : 1e-12;
        CHECK(small_net::net::contents(values, net.g.outputs[0])[0] == doctest::Approx(golden.value).epsilon(near));
        const std::vector<double> got = small_net::net::contents(values, gradients.value()[0]);
        REQUIRE(got.size() == golden.gradient.size());
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - golden.gradient[i]) <= near);
    }
}

TEST_CASE("A student that answers as its teacher does has a loss of nothing, in what the teacher says") {
    graft::loss_options o;
    o.distillation = 1, o.temperature = 3;
    small_net::net net;
    const graft::value_id x = net.input({4, 5}), t = net.input({4, 5}), scale = net.input({}), teacher = net.input({4, 5});
    net.finish(net.apply("Add", {net.sum(net.apply("Add", {x, t})), net.apply("Add", {scale, net.sum(teacher)})}));
    const graft::limits limit;
    graft::emitter build(net.g, graft::ops::find_training_op, limit);
    net.g.outputs[0] = graft::emit_loss(build, o, x, t, scale, teacher, 8);
    REQUIRE(build.failure.ok());
    const std::vector<graft::tensor> values = net.run({numbered(500, 2), softmax(numbered(501, 2)), small_net::filled({}, {1 / 3.5}), numbered(500, 2)});
    CHECK(small_net::net::contents(values, net.g.outputs[0])[0] == 0);
}

TEST_CASE("A row of targets holds smoothing, class weights and shares") {
    graft::loss_options o;
    o.label_smoothing = 0.1f;
    o.class_weights = {1, 2, 4, 8};
    float row[4];
    CHECK(graft::write_target(o, 2, 1, 4, row, false) == doctest::Approx(4));
    const double wanted[] = {0.025, 0.05, 4 * 0.925, 0.2};
    for (int c = 0; c < 4; ++c) CHECK(static_cast<double>(row[c]) == doctest::Approx(wanted[c]).epsilon(1e-6));
    // A mixed sample: a quarter of class 0 comes to three quarters of class 2.
    CHECK(graft::write_target(o, 2, 0.75, 4, row, false) == doctest::Approx(3));
    CHECK(graft::write_target(o, 0, 0.25, 4, row, true) == doctest::Approx(0.25));
    CHECK(static_cast<double>(row[0]) == doctest::Approx(0.75 * 0.025 + 0.25 * 0.925).epsilon(1e-6));
    // Other losses take the label alone.
    o.kind = graft::loss_kind::mse;
    CHECK(graft::write_target(o, 1, 1, 4, row, false) == doctest::Approx(1));
    CHECK(row[0] == 0.0f);
    CHECK(row[1] == 1.0f);
}

TEST_CASE("Losses have names") {
    for (const char* name : {"cross_entropy", "bce_with_logits", "focal", "mse", "l1", "huber"})
        CHECK(graft::name(graft::loss_of(name).value()) == std::string(name));
    CHECK(!graft::loss_of("hinge").ok());
}
