// What a network learns on a device of the CUDA simulator, beside what it learns on the CPU.
#pragma once

#include "simulated_backend.hpp"

#include "../train/small_steps.hpp"

namespace learning {

using small_steps::trained;

inline std::vector<float> numbers_of(trained& t) {
    REQUIRE(t.step.read_state().ok());
    std::vector<float> all;
    for (const graft::training_state& s : t.step.state()) all.insert(all.end(), s.value.data<float>(), s.value.data<float>() + s.value.elements());
    return all;
}

/// The length of the difference by the length of what is wanted.
inline double distance(const std::vector<float>& got, const std::vector<float>& want) {
    REQUIRE(got.size() == want.size());
    double apart = 0, length = 1e-12;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
        apart += d * d;
        length += static_cast<double>(want[i]) * static_cast<double>(want[i]);
    }
    return std::sqrt(apart / length);
}

/// The network with Tanh in place of Relu and Clip. Where their input is within rounding of a bend, its slope on two devices is 0 and 1, and they learn
/// different things from there on: which of the pictures that befalls depends on the machine.
inline graft::graph without_bends(graft::graph g) {
    for (graft::node& n : g.nodes)
        if (n.op_type == "Relu" || n.op_type == "Clip") n.op_type = "Tanh", n.inputs.resize(1), n.attributes.clear();
    return small_steps::loaded(std::move(g));
}

inline graft::step_options with(graft::optimizer_kind kind, std::shared_ptr<graft::device> on) {
    graft::step_options o;
    o.optimizer.kind = kind;
    o.optimizer.momentum = 0.9;
    o.optimizer.ema_decay = 0.9;
    o.loss.label_smoothing = 0.1f;
    o.on = std::move(on);
    return o;
}

/// Four steps in float32, of which the last has a smaller batch: another plan over the same state.
inline void expect_alike(const graft::graph& g, const std::shared_ptr<graft::device>& on = simulated::exact_device()) {
    for (const graft::optimizer_kind kind : {graft::optimizer_kind::sgd, graft::optimizer_kind::adamw}) {
        trained host(g, with(kind, nullptr)), device(g, with(kind, on));
        for (std::int64_t i = 0; i < 4; ++i) {
            const bool went = host.run(i, i == 3 ? 3 : 4);
            REQUIRE_MESSAGE(went, host.error());
            const bool ran = device.run(i, i == 3 ? 3 : 4);
            REQUIRE_MESSAGE(ran, device.error());
            CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(2e-3));
            CHECK(difference(device.step.logits(), host.step.logits()) <= 5e-3);
        }
        CHECK(distance(numbers_of(device), numbers_of(host)) <= (kind == graft::optimizer_kind::sgd ? 1e-3 : 2e-2));
    }
}

/// Three steps in halves, float16 with its loss scaled.
inline void expect_nearly_alike_in_halves(const graft::graph& g, std::int64_t batch) {
    trained host(g, with(graft::optimizer_kind::sgd, nullptr));
    for (std::int64_t i = 0; i < 3; ++i) REQUIRE(host.run(i, batch));
    for (const char* precision : {"bfloat16", "float16"}) {
        CAPTURE(precision);
        graft::device_options options;
        options.precision = precision;
        graft::step_options o = with(graft::optimizer_kind::sgd, simulated::open(options));
        o.loss_scaling = std::string(precision) == "float16";
        trained device(g, o);
        for (std::int64_t i = 0; i < 3; ++i) {
            const bool ran = device.run(i, batch);
            REQUIRE_MESSAGE(ran, device.error());
        }
        CHECK(device.step.scaling().skipped == 0);
        CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(0.02));
        CHECK(distance(numbers_of(device), numbers_of(host)) <= 0.05);
    }
}

}  // namespace learning
