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
/// Runs replicas of the model on these devices, one each, and prints their speed.
graft::result<int> bench_replicas(const common_options& common, const bench_options& options, const std::vector<std::shared_ptr<graft::device>>& devices);

}  // namespace program
