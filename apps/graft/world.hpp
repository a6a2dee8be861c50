// The processes that were started together, by mpirun and its like, and what they mean to a verb.
#pragma once

#include "program.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace program {

/// How a run is spread: over the processes that were started together, and over replicas in this one.
struct spread_options {
    int replicas = 0;      ///< 0: one a device
    int stages = 0;        ///< of a pipeline; 0: none
    int parts = 0;         ///< of a batch in a pipeline; 0: four a stage, of `run` and `info` one
    bool central = false;  ///< variables: the first keeps and updates the weights
    double timeout = 60;   ///< seconds that one waits for another
    bool no_overlap = false;
};

/// Joins the processes that were started with this one, by MPI, or by NCCL where their launcher is another and they have GPUs; null where it is alone.
/// Errors: dist.no_mpi (this build has no MPI, or nothing that it knows started them), dist.*, device.*, usage (a launcher's variable).
graft::result<std::shared_ptr<graft::communicator>> join_world(const common_options& common, double timeout);
/// Whether this process is one of several, and not the first: who says nothing but its own errors.
bool is_follower();
/// Behind an error no process waits for this one any more: tells them, and under MPI ends this process; returns elsewhere.
void end_world(const graft::error& why, int code) noexcept;
/// Parts from the others, all of which have come to their end. Errors: dist.*; under MPI it ends the process with dist.timeout, or with `code` where
/// all are done and only MPI itself does not end.
graft::status part_from_world(double timeout, int code);
/// The end of a verb's work: parts from the others, or reports the error and ends the world.
graft::result<int> end_or_part(graft::result<int> done, double timeout);

/// What a verb does as one of the processes; `group` is null where there is one.
using work_of_member = std::function<graft::result<int>(const common_options& common, const std::shared_ptr<graft::communicator>& group)>;
/// Joins the processes, lets each do its work, and parts from them. Who is not the first is quiet; behind an error no process waits for another any more.
graft::result<int> with_world(common_options common, double timeout, const work_of_member& work);
/// Refuses to be one of several processes. Errors: usage, naming the verb.
graft::status be_alone(const char* verb);
/// A text of each process, in their order. Errors: dist.*.
graft::result<std::vector<std::string>> gather_texts(const std::shared_ptr<graft::communicator>& group, const std::string& own);

/// The device of this process among those of its machine: of several GPUs the one of its local rank, where the user did not number one.
std::string device_of_world(const common_options& common, const graft::control_plane* group);
/// How many replicas there are of each of the processes: --replicas, else one a device. Errors: usage.
graft::result<int> replica_count(const spread_options& options, const graft::communicator* group, int devices);
/// Spreads steps by the options and the world, over the devices: into `step`. Errors: usage.
graft::status spread(const common_options& common, const spread_options& options, std::shared_ptr<graft::communicator> group,
                     std::vector<std::shared_ptr<graft::device>> devices, graft::step_options& step);
/// Loads a model in the stages of --stages, over the devices; `parts` where --parts says nothing. Errors: usage.
graft::status load_in_stages(const common_options& common, const spread_options& options, const graft::communicator* group,
                             std::vector<std::shared_ptr<graft::device>> devices, int parts, graft::load_options& load);
/// How a model is loaded onto the device of the command line, or in stages over its devices, a batch of them in one part unless told. Errors: usage, device.*.
graft::result<graft::load_options> load_options_of(const common_options& common, const spread_options& options);
/// The stages as JSON: `device, nodes, macs, bytes`.
json stages_json(const std::vector<graft::stage_use>& stages);
/// Adds --stages and --parts for who infers.
void declare_stages(class option_list& list, spread_options& options, const char* default_parts);
/// Adds --replicas and --timeout.
void declare_spread(class option_list& list, spread_options& options);
/// The same for who infers.
void declare_replicas(class option_list& list, spread_options& options);

}  // namespace program
