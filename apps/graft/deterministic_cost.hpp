// What --deterministic costs: the same work by any algorithm, in turns with the deterministic one.
#pragma once

#include "program.hpp"

#include <functional>
#include <vector>

namespace program {

double median(std::vector<double> values);

/// The work of a verb on a device that may choose any algorithm; nothing where --deterministic was not asked of a GPU.
class any_algorithm {
public:
    using work = std::function<graft::status()>;
    /// `make` opens a device by these options, which are without --deterministic, and gives what is to be run on it. Where the device has
    /// no room for the work twice, nothing is compared. Errors: those of `make` but memory.oom and memory.budget.
    static graft::result<any_algorithm> prepare(const common_options& common, bool on_gpu,
                                                const std::function<graft::result<work>(const common_options&)>& make);
    /// Runs it once, timed.
    graft::status run();
    /// The median of the times given over the median of its own; 0 where nothing was compared.
    double cost(const std::vector<double>& deterministic_ms) const;

private:
    work work_;
    std::vector<double> ms_;
};

}  // namespace program
