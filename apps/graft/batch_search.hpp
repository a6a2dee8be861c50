// --batch auto: tries sizes of batch, a few steps each.
#pragma once

#include "program.hpp"

#include <graft/train.hpp>

#include <functional>
#include <vector>

namespace program {

/// The largest batch that bench looks at.
constexpr std::int64_t most_samples = 1 << 16;

/// What a size of batch needs and how fast it is.
struct batch_figures {
    double seconds = 0;                  ///< of one step or run
    std::int64_t bytes = 0, device = 0;  ///< of the host's and the device's memory, as planned
};

/// A size that was tried; `note` says why one did not fit, or what else was wrong with it.
struct tried_batch {
    std::int64_t batch = 0;
    batch_figures found;
    std::string note;
};

/// What came of a search.
struct found_batch {
    std::int64_t batch = 0;
    std::vector<tried_batch> tried;
};

/// Finds the batch with the best throughput, 30 seconds long at most, with one size more where that has only begun. `measure`
/// runs a few steps; where it fails with memory.oom or memory.budget, that size does not fit. Any other failure ends the search;
/// where a smaller size works and the device is not lost, it is only told. `most`: the largest there is use for. Prints a line
/// for each on stderr unless -q. Errors: those of `measure`; where no size fits, that of the smallest.
graft::result<found_batch> find_batch(const common_options& common, std::int64_t most,
                                      const std::function<graft::result<batch_figures>(std::int64_t batch)>& measure);

/// Whether so much of the host's memory can be had: of `most_bytes`, or where that is 0 of what the machine has free. Errors:
/// memory.budget.
graft::status fits(std::int64_t bytes, std::int64_t most_bytes);

/// The same as JSON: `batch, samples_per_s, step_ms, step_bytes, device_bytes, note`.
json tried_json(const std::vector<tried_batch>& tried);

/// The seconds of one call, after two that are not counted: the median of up to seven, half a second long where that is enough.
graft::result<double> seconds_of(const std::function<graft::status()>& once);

/// A network that is to learn, for steps on random input.
struct measured_network {
    graft::graph graph;
    graft::value_id logits = graft::no_value;
    std::vector<graft::parameter> parameters;
    graft::shape batch;  ///< the first extent is that of the step
    std::int64_t classes = 0;
};

/// Random pictures and labels of one batch, and the step's input that is made of them. Not to be moved.
struct random_batch {
    graft::tensor inputs, targets, teacher;
    graft::step_input step;
    /// Errors: memory.oom.
    graft::status fill(const measured_network& network, const graft::loss_options& loss, std::uint64_t seed);
};

/// The batch for steps of this network; steps that would take more of the host's memory than `most_bytes` do not fit. The network
/// stays as it is.
graft::result<found_batch> find_training_batch(const common_options& common, const measured_network& network, const graft::step_options& how, std::int64_t most,
                                               std::int64_t most_bytes);

}  // namespace program
