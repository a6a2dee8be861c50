// The training step on a device: what the CPU learns, state that stays there from step to step, and what brings it back.
#include "../difference.hpp"
#include "../data/made_dataset.hpp"
#include "../exec/host_device.hpp"
#include "small_steps.hpp"

#include <graft/data/png_encode.hpp>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

using host_devices::at_random;
using host_devices::host_device;
using small_steps::architecture;
using small_steps::group_norm_dropout;
using small_steps::trained;

namespace {

graft::step_options with(graft::optimizer_kind kind, std::shared_ptr<graft::device> on = nullptr) {
    graft::step_options o;
    o.optimizer.kind = kind;
    o.seed = 11;
    o.on = std::move(on);
    return o;
}

// Convolutions with BatchNormalization, whose running statistics are state as well: [3, 8, 8] to 4 classes.
graft::graph batch_norm_net() {
    graft::builder b("net", 6);
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1, three.name = "conv1";
    auto x = b.relu(b.batch_norm(b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 8, 8}), 6, three)));
    three.name = "conv2";
    x = b.add(x, b.relu(b.batch_norm(b.conv2d(x, 6, three))));
    x = b.flatten(b.global_average_pool(b.max_pool(x)));
    graft::linear_options fc;
    fc.name = "fc";
    b.output(b.linear(x, 4, fc), "logits");
    return small_steps::loaded(b.finish());
}

// Steps of these sizes, and everything that they have made.
std::string bits_after(trained& t, const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) REQUIRE_MESSAGE(t.run(static_cast<std::int64_t>(i), sizes[i]), t.error());
    const graft::status read = t.step.read_state();
    REQUIRE(read.ok());
    return t.bits();
}

// The largest difference of the states of two steps, over the largest of their numbers.
double difference(const graft::training_step& a, const graft::training_step& b) {
    REQUIRE(a.state().size() == b.state().size());
    double worst = 0;
    for (std::size_t s = 0; s < a.state().size(); ++s) {
        const graft::tensor &x = a.state()[s].value, &y = b.state()[s].value;
        REQUIRE(a.state()[s].name == b.state()[s].name);
        double largest = 1e-3, far = 0;
        for (std::int64_t i = 0; i < x.elements(); ++i) {
            const double p = x.data<float>()[i], q = y.data<float>()[i];
            largest = std::max(largest, std::fabs(q));
            far = p == p && q == q ? std::max(far, std::fabs(p - q)) : HUGE_VAL;
        }
        worst = larger_error(worst, far / largest);
    }
    return worst;
}

std::vector<graft::graph> small_nets() { return {group_norm_dropout(), batch_norm_net()}; }

}  // namespace

TEST_CASE("Strict placement reaches a step: what the device does not take is refused by its name") {
    for (const bool strict : {false, true}) {
        const auto on = host_devices::make();
        on->takes = [](const graft::node& n) { return n.op_type != "ReluGrad"; };
        graft::step_options o = with(graft::optimizer_kind::sgd, on);
        o.strict_placement = strict;
        trained t(batch_norm_net(), o);
        CHECK(t.run(0, 4) == !strict);
        if (!strict) continue;
        CHECK(t.last.error().code() == graft::errc::placement_refused);
        CHECK(t.last.error().where().find("ReluGrad") != std::string::npos);
        CHECK(t.last.error().detail().find("it was told not to") != std::string::npos);
    }
}

TEST_CASE("A step on a device learns what the reference kernels of the CPU learn, bit by bit") {
    for (const graft::graph& g : small_nets())
        for (const graft::optimizer_kind kind : {graft::optimizer_kind::sgd, graft::optimizer_kind::adamw})
            for (const bool channels_last : {false, true}) {
                const auto on = host_devices::make();
                on->channels_last = channels_last;
                graft::step_options o = with(kind, on), reference = with(kind);
                o.optimizer.clip_norm = reference.optimizer.clip_norm = 0.5;
                o.optimizer.ema_decay = reference.optimizer.ema_decay = 0.9;
                reference.reference = true;
                trained device(g, o), cpu(g, reference);
                CHECK(bits_after(device, {4, 4, 3, 4}) == bits_after(cpu, {4, 4, 3, 4}));
            }
}

TEST_CASE("A step gives the same state and losses whichever nodes a device takes") {
    for (const graft::graph& g : small_nets()) {
        trained cpu(g, with(graft::optimizer_kind::sgd));
        std::vector<double> losses;
        for (int i = 0; i < 4; ++i) {
            REQUIRE_MESSAGE(cpu.run(i, i == 2 ? 3 : 4), cpu.error());
            losses.push_back(cpu.step.loss());
        }
        for (std::uint64_t seed = 0; seed < 12; ++seed) {
            CAPTURE(g.name);
            CAPTURE(seed);
            const auto on = host_devices::make();
            on->takes = at_random(seed);
            on->channels_last = seed % 2 == 1;
            trained device(g, with(graft::optimizer_kind::sgd, on));
            for (int i = 0; i < 4; ++i) {
                REQUIRE_MESSAGE(device.run(i, i == 2 ? 3 : 4), device.error());
                CHECK(device.step.loss() == doctest::Approx(losses[static_cast<std::size_t>(i)]).epsilon(1e-4));
            }
            REQUIRE(device.step.read_state().ok());
            CHECK(difference(device.step, cpu.step) < 2e-3);
            CHECK(on->did.segments > 0);
        }
    }
}

TEST_CASE("State stays on the device from step to step, for batches of any size, until it is asked for") {
    const auto on = host_devices::make();
    trained t(batch_norm_net(), with(graft::optimizer_kind::sgd, on));
    const int states = static_cast<int>(t.step.state().size());
    REQUIRE_MESSAGE(t.run(0, 4), t.error());
    CHECK(on->did.state_uploads == states);
    const std::vector<graft::training_state> before = t.step.state();
    const float first = before[0].value.data<float>()[0];
    for (int i = 1; i < 5; ++i) {
        on->did.reset();
        REQUIRE_MESSAGE(t.run(i, i == 3 ? 2 : 4), t.error());
        CHECK(on->did.state_uploads == 0);
        CHECK(on->did.state_downloads == 0);
        CHECK(on->did.segments == 1);
        CHECK(on->did.downloads == 2);  // the loss and the logits
    }
    CHECK(t.step.state()[0].value.data<float>()[0] == first);
    REQUIRE(t.step.read_state().ok());
    CHECK(on->did.state_downloads == states);
    CHECK(t.step.state()[0].value.data<float>()[0] != first);
    REQUIRE(t.step.read_state().ok());
    CHECK(on->did.state_downloads == states);  // nothing new, nothing brought
}

TEST_CASE("A step takes what the host has written into the state once it is told") {
    const auto on = host_devices::make();
    const graft::graph g = batch_norm_net();
    trained device(g, with(graft::optimizer_kind::sgd, on)), cpu(g, with(graft::optimizer_kind::sgd));
    const auto rewrite = [](graft::training_step& step) {
        REQUIRE(step.read_state().ok());
        for (graft::training_state& s : step.state())
            for (std::int64_t i = 0; i < s.value.elements(); ++i) s.value.data<float>()[i] = s.value.data<float>()[i] * 0.75f + 0.01f;
        step.state_changed();
    };
    for (int i = 0; i < 4; ++i) {
        if (i == 2) rewrite(device.step), rewrite(cpu.step);
        REQUIRE_MESSAGE(device.run(i, 4), device.error());
        REQUIRE_MESSAGE(cpu.run(i, 4), cpu.error());
    }
    REQUIRE(device.step.read_state().ok());
    CHECK(difference(device.step, cpu.step) < 1e-3);
    // The network with the weights of now has them from the device.
    REQUIRE_MESSAGE(device.run(4, 4), device.error());
    REQUIRE_MESSAGE(cpu.run(4, 4), cpu.error());
    const graft::graph a = device.step.network().value(), b = cpu.step.network().value();
    int weights = 0;
    for (std::size_t v = 0; v < a.values.size(); ++v) {
        if (!a.values[v].constant || a.values[v].type != graft::dtype::float32) continue;
        ++weights;
        for (std::int64_t i = 0; i < a.values[v].constant.elements(); ++i)
            CHECK(a.values[v].constant.data<float>()[i] == doctest::Approx(b.values[v].constant.data<float>()[i]).epsilon(1e-3));
    }
    CHECK(weights >= 10);
}

TEST_CASE("A batch in parts on a device reads the weights that are there, whoever changed them") {
    const graft::graph g = group_norm_dropout();
    for (int seed = -2; seed < 6; ++seed) {
        CAPTURE(seed);
        for (const int parts : {1, 2, 4}) {
            CAPTURE(parts);
            const auto on = host_devices::make();
            if (seed == -2) on->takes = [](const graft::node& n) { return n.name.compare(0, 6, "update") != 0; };
            if (seed >= 0) {
                // By the operator, and so alike in the graphs of the parts and in the one of the update.
                on->takes = [seed](const graft::node& n) {
                    std::uint64_t hash = 77 + static_cast<std::uint64_t>(seed);
                    for (char c : n.op_type) hash = hash * 0x9e3779b97f4a7c15ull + static_cast<unsigned char>(c);
                    return (hash >> 40 & 1) != 0;
                };
            }
            graft::step_options o = with(graft::optimizer_kind::sgd, on);
            o.micro_batches = parts;
            trained t(g, o);
            const std::string bits = bits_after(t, {8, 8, 5});
            if (seed == -1) {
                on->did.reset();
                REQUIRE_MESSAGE(t.run(3, 8), t.error());
                CHECK(on->did.state_uploads == 0);
                CHECK(on->did.state_downloads == 0);
                CHECK(on->did.segments == (parts == 1 ? 1 : parts + 1));
                REQUIRE(t.step.read_state().ok());
            }
            o.on.reset();
            o.reference = seed == -1;
            trained cpu(g, o);
            const std::string wanted = bits_after(cpu, {8, 8, 5});
            if (seed == -1) CHECK(bits == wanted);
            if (seed != -1) CHECK(difference(t.step, cpu.step) < 1e-3);
        }
    }
}

TEST_CASE("A loss that is not finite leaves the state on the device as it was, and names what is not") {
    const auto on = host_devices::make();
    const graft::graph g = batch_norm_net();
    trained t(g, with(graft::optimizer_kind::sgd, on));
    REQUIRE_MESSAGE(t.run(0, 4), t.error());
    REQUIRE(t.step.read_state().ok());
    const std::vector<float> before(t.step.state()[0].value.data<float>(), t.step.state()[0].value.data<float>() + t.step.state()[0].value.elements());
    graft::tensor x = small_steps::numbered(5, t.batch_shape(4));
    x.data<float>()[7] = std::numeric_limits<float>::infinity();
    CHECK(!t.run(1, x, 1, 0.01));
    CHECK(t.last.error().code() == graft::errc::train_diverged);
    CHECK(t.error().find("pictures") != std::string::npos);
    REQUIRE(t.step.read_state().ok());
    CHECK(std::equal(before.begin(), before.end(), t.step.state()[0].value.data<float>()));
    REQUIRE_MESSAGE(t.run(2, 4), t.error());
}

TEST_CASE("A step that fails on the device can be run again") {
    const auto on = host_devices::make();
    const graft::graph g = group_norm_dropout();
    trained t(g, with(graft::optimizer_kind::sgd, on)), other(g, with(graft::optimizer_kind::sgd, host_devices::make()));
    for (std::atomic<int>* failing : {&on->failing_prepare, &on->failing_load, &on->failing_context, &on->failing_run}) {
        *failing = 1;
        CHECK(!t.run(0, 4));
        CHECK(t.error().substr(0, 7) == "device.");
    }
    CHECK(bits_after(t, {4, 4}) == bits_after(other, {4, 4}));
}

TEST_CASE("A step tells what it needs of the device's memory, state included") {
    const graft::graph g = group_norm_dropout();
    graft::executor serial;
    for (const int parts : {1, 2}) {
        graft::step_options o = with(graft::optimizer_kind::adamw, host_devices::make());
        o.micro_batches = parts;
        trained device(g, o);
        o.on.reset();
        trained cpu(g, o);
        const graft::step_memory needs = device.step.prepare(device.batch_shape(8), serial), alone = cpu.step.prepare(cpu.batch_shape(8), serial);
        CHECK(needs.device > needs.state + 8 * 8 * 8 * 8 * 4);
        CHECK((needs.activations == 0) == (parts == 1));  // the sums of the parts are added by the host
        CHECK(needs.activations < alone.activations);
        CHECK(alone.device == 0);
    }
}
