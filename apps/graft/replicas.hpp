// Inference on many devices: replicas of a model that evaluate, classify and bench spread batches over.
#pragma once

#include "world.hpp"

#include <graft/core/executor.hpp>

#include <memory>
#include <string>
#include <vector>

namespace program {

/// The device of each replica, opened once each: those of --device in turn, as often as --replicas says; null is the CPU. Of a pipeline (--stages) those of
/// --device as they stand. Errors: usage, device.*.
graft::result<std::vector<std::shared_ptr<graft::device>>> replica_devices(common_options common, const spread_options& options,
                                                                           const graft::communicator* group);
/// Those devices, each once, as --device names them: "cpu", "cuda:0,1".
std::string devices_text(const std::vector<std::shared_ptr<graft::device>>& devices);
/// The same of all processes: each text once, in the order of the ranks. Errors: dist.*.
graft::result<std::string> devices_of_world(const std::vector<std::shared_ptr<graft::device>>& own, const std::shared_ptr<graft::communicator>& group);

/// A classifier on one of the devices.
struct classifier_replica {
    std::unique_ptr<graft::executor> threads;  ///< its share of --threads; null where there is one replica, which has the process's
    graft::classifier classifier;
};
/// The same model on each of the devices: read once for each, and shared on the CPU; or one in stages over them. Warns where neither the model nor the command
/// line says how pictures are prepared. Errors: those of `load_classifier`.
graft::result<std::vector<classifier_replica>> load_classifiers(const common_options& common, const spread_options& spread, const graft::communicator* group,
                                                                const std::vector<std::shared_ptr<graft::device>>& devices, const std::string& model,
                                                                const std::string& labels, const std::string& preprocess, const std::string& output);

}  // namespace program
