// Data-parallel training in one process: replicas of a network, each with its part of every batch.
#pragma once

#include "../train/step.hpp"
#include "thread_group.hpp"

#include <memory>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// How a step is spread.
struct replica_options {
    int replicas = 2;                              ///< at most as many as step_options::shards; powers of two share evenly
    std::vector<std::shared_ptr<device>> devices;  ///< of each replica (runtime::open); none given: all on the CPU
    double timeout_seconds = 60;                   ///< a replica that the others wait for so long is lost
    bool overlap = false;                          ///< replicas on the CPU exchange gradients beside the backward pass (step_options::overlap), by a thread
                                                   ///< more for each: for machines with cores to spare. Those on devices that exchange themselves
                                                   ///< (device::exchanges) need none: step_options::overlap alone decides for them
};

/// Spreads training steps over replicas in this process: give it to step_options::replicas. Each replica is a thread with state of its own, the same for
/// all; threads of the executor are shared out evenly. State, loss and logits are, to the bit, those of a step that is not spread, for as many
/// shards: sums over the batch are branches of one tree. Batch normalisation is by the statistics of the whole batch. Errors of steps: those of
/// training_step::run, and dist.*.
std::shared_ptr<step_factory> make_replicas(const replica_options& options);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "replicas_body.hpp"
#endif
