// Joining the processes that mpirun and its like have started. Compiled with GRAFT_MPI where the build has MPI.
#include "world.hpp"

#include "verb.hpp"

#include <graft/dist.hpp>

#ifdef GRAFT_MPI
#include <graft/dist/mpi.hpp>
#endif

#include <cstdlib>
#include <string>

namespace program {
namespace {

// What launchers tell each process: its rank, and of how many. Open MPI, MPICH and Slurm's PMI, srun, torchrun.
struct launcher {
    const char *size, *rank, *name;
    bool mpi;
};
constexpr launcher launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun", true},
                                  {"PMI_SIZE", "PMI_RANK", "mpirun", true},
                                  {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun", false},
                                  {"WORLD_SIZE", "RANK", "a launcher that sets WORLD_SIZE", false}};

int number(const char* variable) {
    const char* text = std::getenv(variable);
    return text && *text ? std::atoi(text) : -1;
}
const launcher* started_by() {
    for (const launcher& l : launchers)
        if (number(l.size) > 1) return &l;
    return nullptr;
}

}  // namespace

bool is_follower() {
    const launcher* by = started_by();
    return by && number(by->rank) > 0;
}

graft::result<std::shared_ptr<graft::communicator>> join_world(double timeout) {
    const launcher* by = started_by();
    if (!by) return std::shared_ptr<graft::communicator>();
    const std::string here = std::string(by->name) + " started " + std::to_string(number(by->size)) + " processes";
#ifdef GRAFT_MPI
    graft::mpi_options how;
    how.timeout_seconds = timeout;
    std::shared_ptr<graft::communicator> group;
    GRAFT_TRY_ASSIGN(group, graft::join_mpi(how));
    if (group->size() != number(by->size))
        return graft::fail(graft::errc::dist_no_mpi, by->name,
                           here + ", and MPI knows of " + std::to_string(group->size()) +
                               ": start it by the mpirun of the MPI that it was built with; for srun, --mpi=pmi2 with MPICH");
    return group;
#else
    (void)timeout;
    return graft::fail(graft::errc::dist_no_mpi, by->name,
                       here + ", and this build has no MPI, so that each would do the whole work: build it with -DGRAFT_MPI=ON, or start one process");
#endif
}

void end_world(int code) noexcept {
#ifdef GRAFT_MPI
    if (started_by()) graft::abort_mpi(code);
#else
    (void)code;
#endif
}

void declare_spread(option_list& list, spread_options& o) {
    list.add("--replicas", o.replicas, "Spread each batch over N replicas in this process, which share its --threads (default: 1)", "N").within(1, 256);
    list.add("--timeout", o.timeout, "Seconds that replicas and processes wait for each other (default: 60)", "S").within(1, 86400);
}

graft::status spread(const spread_options& o, std::shared_ptr<graft::communicator> group, graft::step_options& step) {
    if (group && o.replicas > 1)
        return graft::fail(graft::errc::usage, "--replicas",
                           "it spreads a batch inside of one process, and there are " + std::to_string(group->size()) + ": start more processes instead");
    if (step.on && (group || o.replicas > 1))
        return graft::fail(graft::errc::device_unavailable, device_name(step.on), "batches are spread over CPUs alone so far: --device cpu");
    if (o.replicas > 1) {
        graft::replica_options how;
        how.replicas = o.replicas;
        how.timeout_seconds = o.timeout;
        step.replicas = graft::make_replicas(how);
    }
    step.group = std::move(group);
    return {};
}

}  // namespace program
