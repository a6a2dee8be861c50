// What graft bench shares between one device and several: a model of some batch, and random input.
#pragma once

#include "batch_search.hpp"
#include "replicas.hpp"
#include "training.hpp"

#include <memory>
#include <string>
#include <vector>

namespace program {

/// Random inputs of these shapes, by their places; empty where the model has a default. Errors: memory.*.
graft::result<std::vector<graft::tensor>> random_inputs(const graft::model& model, const std::vector<graft::value_info>& inputs, std::uint64_t seed);
/// Gives a session random inputs of these shapes.
graft::status give_inputs(graft::session& session, const graft::model& model, const std::vector<graft::value_info>& inputs, std::uint64_t seed);
/// The model with another batch. Errors: input.shape (it does not allow that), memory.*, graph.fixed_batch.
graft::result<graft::model> in_batches(const graft::model& model, const std::string& name, std::int64_t batch, const graft::load_options& with);
/// What --batch auto takes.
graft::result<found_batch> find_running_batch(const common_options& common, const graft::model& model, const std::string& name,
                                              const graft::load_options& with);
/// What stages did in the timed runs: their work, how long they computed, and the bubble beside its formula.
class stage_figures {
public:
    /// `before`: what they had done when timing began. Latencies in milliseconds.
    stage_figures(std::vector<graft::stage_use> after, const std::vector<graft::stage_use>& before, const std::vector<double>& latency, std::int64_t parts);
    bool none() const { return stages_.empty(); }
    /// `stages[]` (`device, nodes, macs, bytes, busy_ms, waiting_share`), `parts`, `bubble`, `bubble_formula`; nothing where there are no stages.
    void add_to(json& object) const;
    const std::vector<std::string>& lines() const { return lines_; }

private:
    std::vector<graft::stage_use> stages_;  // busy seconds a run
    std::vector<std::string> lines_;
    double run_ = 0, bubble_ = 0;  // seconds of a run; the share of all stages' time in which they wait, NaN where one does not measure
    std::int64_t parts_ = 1;
};
/// Runs replicas of the model on these devices, one each, and prints their speed.
graft::result<int> bench_replicas(const common_options& common, const bench_options& options, const std::vector<std::shared_ptr<graft::device>>& devices);

}  // namespace program
