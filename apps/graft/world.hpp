// The processes that were started together, by mpirun and its like, and what they mean to a run of training.
#pragma once

#include "program.hpp"

#include <memory>

namespace program {

/// How a run is spread: over the processes that were started together, and over replicas in this one.
struct spread_options {
    int replicas = 0;     ///< 0: one a device
    int stages = 0;       ///< of a pipeline; 0: none
    int parts = 0;        ///< of a batch in a pipeline; 0: four a stage
    double timeout = 60;  ///< seconds that one waits for another
};

/// Joins the processes that were started with this one; null where it is alone. Errors: dist.no_mpi (this build has no MPI, or nothing that it knows started
/// them), dist.*.
graft::result<std::shared_ptr<graft::communicator>> join_world(double timeout);
/// Whether this process is one of several, and not the first: who says nothing but its own errors.
bool is_follower();
/// Ends this process and those that wait for it, behind an error; returns where it is alone.
void end_world(int code) noexcept;
/// Parts from the others, all of which have come to their end. Ends the process with dist.timeout where they do not within the time.
void part_from_world(double timeout);

/// The device of this process among those of its machine: of several GPUs the one of its local rank, where the user did not number one.
std::string device_of_world(const common_options& common, const graft::communicator* group);
/// Spreads steps by the options and the world, over the devices: into `step`. Errors: usage.
graft::status spread(const common_options& common, const spread_options& options, std::shared_ptr<graft::communicator> group,
                     std::vector<std::shared_ptr<graft::device>> devices, graft::step_options& step);
/// Adds --replicas and --timeout.
void declare_spread(class option_list& list, spread_options& options);

}  // namespace program
