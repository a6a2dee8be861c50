// Joining the processes that mpirun and its like have started. Compiled with GRAFT_MPI where the build has MPI.
#include "world.hpp"

#include "rendezvous.hpp"
#include "verb.hpp"

#include <graft/dist.hpp>
#include <graft/gpu.hpp>
#include <graft/train/members.hpp>

#ifdef GRAFT_MPI
#include <graft/dist/mpi.hpp>
#endif

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace program {
namespace {

// What launchers tell each process: its rank, and of how many. Open MPI, MPICH and Slurm's PMI, srun, torchrun.
struct launcher {
    const char *size, *rank, *name;
    bool mpi;
};
constexpr launcher launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun", true},
                                  {"PMI_SIZE", "PMI_RANK", "mpirun", true},
                                  {"WORLD_SIZE", "RANK", "a launcher that sets WORLD_SIZE", false},
                                  {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun", false}};

int number(const char* variable) {
    const char* text = std::getenv(variable);
    return text && *text ? std::atoi(text) : -1;
}
const launcher* started_by() {
    for (const launcher& l : launchers)
        if (number(l.size) > 1) return &l;
    return nullptr;
}

bool started_by_mpi() {
    const launcher* by = started_by();
    return by && by->mpi;
}

// Whether work is to be on a GPU: asked for, or there where nothing is.
graft::status see_gpu(const common_options& common, bool& wanted) {
    std::vector<std::string> names;
    GRAFT_TRY_ASSIGN(names, wanted_devices(common));
    wanted = names[0] == "auto" ? graft::gpu::available().ok() : names[0] != "cpu";
    return {};
}

#ifdef GRAFT_MPI
// MPI's own beginning and end wait for the other processes without limit: past the deadline this ends the process. Where all processes are done
// and MPI does not end within five seconds, it ends with `code`.
class deadline {
public:
    deadline(double seconds, const char* what, int code = exit_failed) : thread_([this, seconds, what, code] { watch(seconds, what, code); }) {}
    ~deadline() {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            met_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

private:
    void watch(double seconds, const char* what, int code) {
        std::unique_lock<std::mutex> guard(lock_);
        const auto met_within = [&](double limit) { return changed_.wait_for(guard, std::chrono::duration<double>(limit), [this] { return met_; }); };
        for (double waited = 0, ending = 0; waited < seconds; waited += 0.1) {
            if (met_within(0.1)) return;
            if (graft::mpi_is_ending() && (ending += 0.1) > 5) {
                std::fflush(nullptr);
                std::_Exit(code);
            }
        }
        report(graft::fail(graft::errc::dist_timeout, what, "the other processes do not come within " + std::to_string(static_cast<long long>(seconds)) + " s")
                   .error());
        std::_Exit(exit_failed);
    }

    std::mutex lock_;
    std::condition_variable changed_;
    bool met_ = false;
    std::thread thread_;
};

// Held until all is done: MPI is finalised by its last owner.
std::shared_ptr<graft::communicator>& world() {
    static std::shared_ptr<graft::communicator> joined;
    return joined;
}
#endif

}  // namespace

bool is_follower() {
    const launcher* by = started_by();
    return by && number(by->rank) > 0;
}

graft::result<std::shared_ptr<graft::communicator>> join_world(const common_options& common, double timeout) {
    if (!started_by_mpi()) {
        std::optional<told_rank> own;
        GRAFT_TRY_ASSIGN(own, rank_by_variables());
        bool gpu = false;
        if (own) GRAFT_TRY(see_gpu(common, gpu));
        if (gpu) return join_by_variables(common, *own, timeout);
        if (own)
            return graft::fail(
                graft::errc::dist_no_mpi, "WORLD_SIZE",
                "there are " + std::to_string(own->size) +
                    " processes without MPI, which only GPUs can join, by NCCL: give each one (--device cuda), or start them by the mpirun of an MPI that "
                    "the program was built with (-DGRAFT_MPI=ON)");
    }
    const launcher* by = started_by();
    if (!by) return std::shared_ptr<graft::communicator>();
    const std::string here = std::string(by->name) + " started " + std::to_string(number(by->size)) + " processes";
#ifdef GRAFT_MPI
    graft::mpi_options how;
    how.timeout_seconds = timeout;
    std::shared_ptr<graft::communicator> group;
    {
        const deadline limit(timeout, "MPI_Init");
        GRAFT_TRY_ASSIGN(group, graft::join_mpi(how));
    }
    if (group->size() != number(by->size))
        return graft::fail(graft::errc::dist_no_mpi, by->name,
                           here + ", and MPI knows of " + std::to_string(group->size()) +
                               ": start it by the mpirun of the MPI that it was built with; for srun, --mpi=pmi2 with MPICH");
    return world() = group;
#else
    (void)timeout;
    return graft::fail(graft::errc::dist_no_mpi, by->name,
                       here + ", and this build has no MPI, so that each would do the whole work: build it with -DGRAFT_MPI=ON, or start one process");
#endif
}

void end_world(const graft::error& why, int code) noexcept {
    if (joined_by_variables()) return leave_by_variables(why);
#ifdef GRAFT_MPI
    if (!started_by()) return;
    // mpirun kills the others as soon as it hears of it: time for what they have to say.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (started_by_mpi() || world()) graft::abort_mpi(code);
#else
    (void)code;
#endif
}

graft::status part_from_world(double timeout, int code) {
    if (joined_by_variables()) return part_by_variables();
#ifdef GRAFT_MPI
    if (!world()) return {};
    const deadline limit(timeout, "MPI_Finalize", code);
    world().reset();
#else
    (void)timeout, (void)code;
#endif
    return {};
}

graft::result<int> with_world(common_options common, double timeout, const work_of_member& work) {
    common.quiet |= is_follower();
    const auto joined = [&]() -> graft::result<int> {
        std::shared_ptr<graft::communicator> group;
        GRAFT_TRY_ASSIGN(group, join_world(common, timeout));
        return work(common, group);
    };
    return end_or_part(joined(), timeout);
}
graft::result<int> end_or_part(graft::result<int> done, double timeout) {
    if (!done.ok()) {
        const int code = report(done.error());
        end_world(done.error(), code);
        return code;
    }
    GRAFT_TRY(part_from_world(timeout, *done));
    return done;
}

graft::status be_alone(const char* verb) {
    const launcher* by = started_by();
    if (!by) return {};
    return graft::fail(graft::errc::usage, verb,
                       std::string(by->name) + " started " + std::to_string(number(by->size)) +
                           " processes, and each would measure beside the others: start one, and give it several devices or --replicas");
}

graft::result<std::vector<std::string>> gather_texts(const std::shared_ptr<graft::communicator>& group, const std::string& own) {
    if (!group) return std::vector<std::string>{own};
    graft::detail::run_members members(group);
    std::vector<std::int64_t> sizes;
    std::vector<char> all;
    GRAFT_TRY(members.gather_all(own.data(), static_cast<std::int64_t>(own.size()), all, sizes));
    std::vector<std::string> texts;
    auto from = all.begin();
    for (std::int64_t size : sizes) {
        texts.emplace_back(from, from + size);
        from += size;
    }
    return texts;
}

void declare_replicas(option_list& list, spread_options& o) {
    list.add("--replicas", o.replicas, "Spread batches over N replicas in this process, which share its --threads (default: one a device)", "N").within(1, 256);
    declare_stages(list, o, "four a stage");
    list.add("--timeout", o.timeout, "Seconds that processes wait for each other (default: 60)", "S").within(1, 86400);
}
void declare_stages(option_list& list, spread_options& o, const char* default_parts) {
    list.add("--stages", o.stages, "Cut the network into N stages, one on each device, through which a batch goes in parts (pipeline)", "N")
        .within(2, graft::most_stages);
    list.add("--parts", o.parts, std::string("Parts of a batch in a pipeline (default: ") + default_parts + ")", "N").within(1, graft::most_parts);
}
void declare_spread(option_list& list, spread_options& o) {
    list.add("--replicas", o.replicas, "Spread each batch over N replicas in this process, which share its --threads (default: one a device)", "N")
        .within(1, 256);
    list.add("--central-variables", o.central, "The first replica or process updates the weights for all (a parameter server); else all do, alike");
    list.add("--stages", o.stages, "Cut the network into N stages, one on each device, through which a batch goes in parts (pipeline)", "N").within(2, 64);
    list.add("--parts", o.parts, "Parts of a batch in a pipeline, a power of two (default: four a stage, --shards at most)", "N").within(1, 256);
    list.add("--no-overlap", o.no_overlap, "Processes, and replicas on GPUs, exchange gradients between the nodes of the backward pass, not beside it");
    list.add("--timeout", o.timeout, "Seconds that replicas and processes wait for each other (default: 60)", "S").within(1, 86400);
}

std::string device_of_world(const common_options& common, const graft::control_plane* group) {
    auto wanted = wanted_devices(common);
    if (!group || !wanted.ok() || wanted->size() != 1 || ((*wanted)[0] != "auto" && (*wanted)[0] != "cuda")) return common.device;
    if (!graft::gpu::available().ok()) return common.device;
    const auto devices = graft::gpu::list_devices();
    if (!devices.ok() || devices->size() < 2) return common.device;
    // Where no launcher tells, ranks of a machine are thought to follow each other.
    int local = group->rank();
    for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"})
        if (number(variable) >= 0) local = number(variable);
    return "cuda:" + std::to_string(static_cast<std::size_t>(local) % devices->size());
}

namespace {

// A device for each of the stages of a pipeline.
graft::status fill_stages(const spread_options& o, const graft::communicator* group, std::vector<std::shared_ptr<graft::device>>& devices) {
    const std::size_t count = devices.size(), stages = static_cast<std::size_t>(o.stages);
    if (group) return graft::fail(graft::errc::usage, "--stages", "a pipeline has the devices of one process, and there are " + std::to_string(group->size()));
    if (o.replicas > 1)
        return graft::fail(graft::errc::usage, "--replicas", "a pipeline of stages is not spread over replicas yet: one of --replicas and --stages");
    if (o.central) return graft::fail(graft::errc::usage, "--central-variables", "in a pipeline each weight is where its stage is: one of it and --stages");
    if (count > 1 && count != stages)
        return graft::fail(graft::errc::usage, "--stages", "there are " + std::to_string(count) + " devices for " + std::to_string(stages) + " stages");
    devices.resize(stages, devices.back());
    return {};
}

// The stages of a pipeline over the devices; --memory-limit is that of each.
graft::status cut(const common_options& common, const spread_options& o, std::vector<std::shared_ptr<graft::device>> devices, graft::step_options& step) {
    step.micro_batches = std::max(1, o.parts);
    while (o.parts == 0 && step.micro_batches * 2 <= std::min(4 * o.stages, step.shards)) step.micro_batches *= 2;
    if (!graft::shards::legal(step.micro_batches) || step.micro_batches > step.shards)
        return graft::fail(graft::errc::usage, "--parts",
                           std::to_string(step.micro_batches) + " is no power of two up to --shards, " + std::to_string(step.shards));
    if (!common.memory_limit.empty()) GRAFT_TRY_ASSIGN(step.stage_bytes, size_of_text(common.memory_limit, "--memory-limit"));
    step.stages = std::move(devices);
    step.on = nullptr;
    for (const std::shared_ptr<graft::device>& device : step.stages)
        if (!step.on) step.on = device;
    return {};
}

}  // namespace

graft::status load_in_stages(const common_options& common, const spread_options& o, const graft::communicator* group,
                             std::vector<std::shared_ptr<graft::device>> devices, int parts, graft::load_options& load) {
    if (o.parts > 0 && o.stages == 0) return graft::fail(graft::errc::usage, "--parts", "it belongs to a pipeline: --stages");
    if (o.stages == 0) return {};
    GRAFT_TRY(fill_stages(o, group, devices));
    if (!common.memory_limit.empty()) GRAFT_TRY_ASSIGN(load.stage_bytes, size_of_text(common.memory_limit, "--memory-limit"));
    load.stages = std::move(devices);
    load.parts = o.parts > 0 ? o.parts : std::min(parts, graft::most_parts);
    load.opened = nullptr;
    return {};
}

json stages_json(const std::vector<graft::stage_use>& stages) {
    json list = json::array();
    for (const graft::stage_use& s : stages) list.push_back({{"device", s.device}, {"nodes", s.nodes}, {"macs", s.multiply_adds}, {"bytes", s.bytes}});
    return list;
}

graft::result<graft::load_options> load_options_of(const common_options& common, const spread_options& o) {
    if (o.stages == 0) {
        if (o.parts > 0) return graft::fail(graft::errc::usage, "--parts", "it belongs to a pipeline: --stages");
        return load_options_of(common);
    }
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, open_devices(common));
    graft::load_options load = load_options_of(common, nullptr);
    GRAFT_TRY(load_in_stages(common, o, nullptr, std::move(devices), 1, load));
    return load;
}

graft::result<int> replica_count(const spread_options& o, const graft::communicator* group, int count) {
    const int replicas = o.replicas > 0 ? o.replicas : count;
    if (group && replicas > 1)
        return graft::fail(graft::errc::usage, count > 1 ? "--device" : "--replicas",
                           "it spreads work inside of one process, and there are " + std::to_string(group->size()) + ": start more processes instead");
    if (replicas % count != 0)
        return graft::fail(graft::errc::usage, "--replicas",
                           "each of the " + std::to_string(count) + " devices has to get as many of the " + std::to_string(replicas) + " replicas");
    return replicas;
}

graft::status spread(const common_options& common, const spread_options& o, std::shared_ptr<graft::communicator> group,
                     std::vector<std::shared_ptr<graft::device>> devices, graft::step_options& step) {
    if (o.parts > 0 && o.stages == 0) return graft::fail(graft::errc::usage, "--parts", "it belongs to a pipeline: --stages");
    if (o.stages > 0) {
        GRAFT_TRY(fill_stages(o, group.get(), devices));
        return cut(common, o, std::move(devices), step);
    }
    if (devices.size() > 1 && std::count(devices.begin(), devices.end(), nullptr))
        return graft::fail(graft::errc::usage, "--device", "replicas are alike: the CPU beside GPUs can be a stage of a pipeline (--stages)");
    int replicas = 1;
    GRAFT_TRY_ASSIGN(replicas, replica_count(o, group.get(), static_cast<int>(devices.size())));
    step.on = devices[0];
    step.central_variables = o.central;
    if (replicas > 1) {
        graft::replica_options how;
        how.replicas = replicas;
        how.timeout_seconds = o.timeout;
        if (devices[0]) how.devices = std::move(devices);
        step.replicas = graft::make_replicas(how);
    }
    step.group = std::move(group);
    step.overlap = !o.no_overlap;
    return {};
}

}  // namespace program
