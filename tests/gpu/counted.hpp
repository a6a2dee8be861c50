// What profiles count of a network on a device: what the network counts as it was loaded, whatever was rewritten.
#pragma once

#include "simulated_backend.hpp"

#include <graft/core/profile.hpp>

namespace simulated {

inline void expect_counted(const graft::graph& g, std::shared_ptr<graft::device> on, const graft::tensor& x) {
    const auto recorder = std::make_shared<graft::trace_recorder>();
    graft::load_options options = graft::on_device(std::move(on));
    options.trace = recorder;
    const graft::model m = graft::load(g, options);
    graft::session session(m, {1, nullptr});
    recorder->start();
    const auto ran = session.run(x);
    const std::string error = ran.ok() ? "" : ran.error().what();
    REQUIRE_MESSAGE(ran.ok(), error);
    recorder->stop();
    const graft::run_profile seen = graft::profile_of(*recorder);
    std::int64_t multiply_adds = 0;
    for (const std::vector<graft::profile_row>* rows : {&seen.operators, &seen.not_measured})
        for (const graft::profile_row& row : *rows) multiply_adds += row.multiply_adds;
    CHECK(!seen.not_measured.empty());
    const graft::model::memory_use use = m.memory(m.inputs());
    CHECK(use.multiply_adds > 0);
    CHECK(multiply_adds == use.multiply_adds);
}

}  // namespace simulated
