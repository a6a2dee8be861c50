// Problems of the op table run as networks of one node, and where their nodes were placed.
#pragma once

#include "simulated_backend.hpp"

#include "../ops/problems.hpp"

#include <string>
#include <vector>

namespace placed {

/// What came of a problem, and where.
struct answer : problems::answer {
    bool on_device = false;  // a node that is no copy
    std::string refusal;     // of the first node that is not
};

/// The answers of a problem on the device; without one by the reference.
inline answer run(const problems::problem& p, const std::shared_ptr<graft::device>& on) {
    graft::load_options options = graft::on_device(on);
    options.reference = !on;
    answer a{problems::run(p, options), false, {}};
    if (!on || !a.error.empty()) return a;
    std::vector<graft::value_info> given;
    for (std::size_t i = 0; i < p.inputs.size(); ++i)
        if (p.inputs[i]) given.push_back({a.network.inputs()[i].name, p.inputs[i].type(), true, p.inputs[i].shape(), {}, false});
    auto placed = a.network.placements(given);
    if (!placed.ok()) return a;
    for (const graft::placement& where : placed.value()) {
        if (where.device != "cpu") a.on_device |= where.kernel != "copy";
        if (where.device == "cpu" && a.refusal.empty()) a.refusal = where.reason;
    }
    return a;
}

// Every node on the device, and the reference's answers.
inline void expect(const problems::problem& p, double tolerance, const std::shared_ptr<graft::device>& device) {
    INFO(p.g.nodes[0].op_type, ": ", p.g.name);
    const answer want = run(p, nullptr), got = run(p, device);
    REQUIRE_MESSAGE(want.error.empty(), want.error);
    REQUIRE_MESSAGE(got.error.empty(), got.error);
    CHECK(got.on_device);
    CHECK(got.refusal == "");
    REQUIRE(got.outputs.size() == want.outputs.size());
    for (std::size_t i = 0; i < want.outputs.size(); ++i) {
        CAPTURE(i);
        CHECK(difference(got.outputs[i], want.outputs[i]) <= tolerance);
    }
}

}  // namespace placed
