// The simulated libnccl.so.2: its version, comms and groups. Collectives are in nccl_collectives.cpp.
#include "nccl_comms.hpp"

#include <cstdlib>
#include <cstring>
#include <thread>

#include <unistd.h>

using namespace graft::gpu::api;
using namespace graft_simulator;

#define GRAFT_SIMULATOR_DECLARE(type, name, parameters) GRAFT_SIMULATED type name parameters;
GRAFT_NCCL_FUNCTIONS(GRAFT_SIMULATOR_DECLARE)

namespace {

namespace result = nccl::result;

constexpr char comm_kind[] = "ncclComm_t";
constexpr char id_text[] = "graft simulator";

// Between ncclGroupStart and the ncclGroupEnd that belongs to it, of one thread.
struct group {
    int depth = 0;
    std::vector<std::shared_ptr<comm>> joining;  ///< comms that block, whose other ranks the end waits for
    std::vector<std::pair<std::shared_ptr<comm>, collective>> calls;
};

struct library {
    std::uint64_t ids = 0;
    std::uintptr_t handles = 0x6e000000;  ///< of which none serves twice, and none can be dereferenced
    std::map<void*, std::shared_ptr<comm>> comms;
    std::map<std::thread::id, group> groups;
};
library& the_library() {
    static library* l = new library;  // never destroyed, as the simulator's state
    return *l;
}

group* current_group() {
    const auto at = the_library().groups.find(std::this_thread::get_id());
    return at == the_library().groups.end() ? nullptr : &at->second;
}

std::shared_ptr<comm> find_comm(void* handle) {
    if (!handle_used(comm_kind, handle)) return nullptr;
    return the_library().comms[handle];
}

int refuse(const std::string& why, int code) {
    problem("invalid_comm", why);
    return code;
}

// The clique of an id, or null. Of another process's id too, as long as that process lives.
std::shared_ptr<clique> find_clique(const nccl::unique_id& id) {
    std::uint64_t number = 0;
    std::memcpy(&number, id.bytes + sizeof id_text, sizeof number);
    if (std::memcmp(id.bytes, id_text, sizeof id_text) != 0) return nullptr;
    if (const auto at = the_cliques().find(number); at != the_cliques().end()) return at->second;
    const char* const address = id.bytes + sizeof id_text + sizeof number;
    const std::string made_at(address, strnlen(address, sizeof id.bytes - sizeof id_text - sizeof number));
    return made_at == own_address() ? nullptr : connect_clique(made_at, number);
}

// A rank of this process; the process that made the id decides.
int join_here(waiting_lock& lock, const std::shared_ptr<clique>& all, int ranks, int rank, int device) {
    if (all->elsewhere) {
        if (all->cut) return result::remote_error;
        all->answers.erase(rank);
        ask_to_join(*all, ranks, rank, device);
        lock.wait_until([&] { return all->cut || all->answers.count(rank); });
        return all->cut && !all->answers.count(rank) ? static_cast<int>(result::remote_error) : all->answers[rank];
    }
    std::string why;
    const int code = join(*all, ranks, rank, device, why);
    if (!why.empty()) refuse(why, code);
    if (!code) tell_joined(*all, rank, device);
    if (all->broken) tell_broken(*all);
    return code;
}

// What was put ends, and the comm is no more.
void leave(void* handle) {
    const auto at = the_library().comms.find(handle);
    if (at == the_library().comms.end()) return;
    comm& c = *at->second;
    c.ended = true;
    c.unput.clear();
    tell_left(*c.all, c.rank);
    c.all->has_left[static_cast<std::size_t>(c.rank)] = 1;
    if (++c.all->left == c.all->ranks) the_cliques().erase(c.id);
    the_library().comms.erase(at);
}

int blocking_of(const nccl::config* how) {
    if (!how) return 1;
    std::size_t size = 0;
    std::memcpy(&size, how, sizeof size);
    if (size < sizeof(nccl::config) || how->magic != nccl::config().magic) return -1;
    if (how->version < 21400 || how->blocking == nccl::config::unset) return 1;
    return how->blocking == 0 || how->blocking == 1 ? how->blocking : -1;
}

// What a comm that does not block was told to do is done when it is asked after.
void catch_up(const std::shared_ptr<comm>& c) {
    const std::vector<collective> calls = std::move(c->unput);
    c->unput.clear();
    for (const collective& call : calls) {
        const int code = put_collective(call, c);
        if (code && !c->error) c->error = code;
    }
}

int issue(const collective& call, const std::shared_ptr<comm>& c) {
    if (c->blocking) return put_collective(call, c);
    if (!c->ended) c->unput.push_back(call);
    return result::in_progress;
}

int run(const collective& call, void* handle) {
    if (const int forced = fault(call.name)) return forced;
    waiting_lock lock;
    const std::shared_ptr<comm> c = find_comm(handle);
    if (!c) return result::invalid_argument;
    if (const int code = check_collective(call, *c)) return code;
    if (call.count == 0) return result::success;
    int code = result::success;
    if (group* g = current_group())
        g->calls.emplace_back(c, call);
    else
        code = issue(call, c);
    lock.changed();
    return code;
}

}  // namespace

int graft_simulator::join(clique& all, int ranks, int rank, int device, std::string& why) {
    if (!all.ranks) {
        all.ranks = ranks;
        all.taken.resize(static_cast<std::size_t>(ranks));
        all.has_left.resize(static_cast<std::size_t>(ranks));
        all.devices.resize(static_cast<std::size_t>(ranks), -1);
    }
    if (all.broken) return all.broken;
    const std::string who = "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
    const auto refuse_for = [&](const std::string& text, int code) {
        why = who + text;
        return code;
    };
    if (ranks != all.ranks) return refuse_for(" joined a comm of " + std::to_string(all.ranks), result::invalid_argument);
    if (all.taken[static_cast<std::size_t>(rank)]) return refuse_for(" joined twice", result::invalid_usage);
    for (const int other : all.devices) {
        if (other != device) continue;
        all.broken = result::invalid_usage;  // every rank would find out
        return refuse_for(" joined on device " + std::to_string(device) + ", where another rank of the comm is", result::invalid_usage);
    }
    all.taken[static_cast<std::size_t>(rank)] = 1;
    all.devices[static_cast<std::size_t>(rank)] = device;
    ++all.joined;
    return result::success;
}

extern "C" {

int ncclGetVersion(int* version) {
    if (const int forced = fault("ncclGetVersion")) return forced;
    if (!version) return result::invalid_argument;
    *version = std::atoi(setting("NCCL", "22707").c_str());
    return result::success;
}

const char* ncclGetErrorString(int error) {
    switch (error) {
    case result::success: return "no error";
    case result::unhandled_cuda_error: return "unhandled cuda error";
    case result::system_error: return "unhandled system error";
    case result::internal_error: return "internal error";
    case result::invalid_argument: return "invalid argument";
    case result::invalid_usage: return "invalid usage";
    case result::remote_error: return "remote process exited or there was a network error";
    case result::in_progress: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}

int ncclGetUniqueId(nccl::unique_id* id) {
    if (const int forced = fault("ncclGetUniqueId")) return forced;
    if (!id) return result::invalid_argument;
    const waiting_lock lock;
    // Ids of several processes may meet in one.
    const std::uint64_t number = static_cast<std::uint64_t>(getpid()) << 32 | ++the_library().ids;
    const std::string& address = own_address();
    const auto made = std::make_shared<clique>();
    made->id = number;
    the_cliques()[number] = made;
    *id = nccl::unique_id();
    address.copy(id->bytes + sizeof id_text + sizeof number, sizeof id->bytes - sizeof id_text - sizeof number - 1);
    std::memcpy(id->bytes, id_text, sizeof id_text);
    std::memcpy(id->bytes + sizeof id_text, &number, sizeof number);
    return result::success;
}

int ncclCommInitRankConfig(void** handle, int ranks, nccl::unique_id id, int rank, nccl::config* how) {
    if (const int forced = fault("ncclCommInitRankConfig")) return forced;
    if (!handle) return result::invalid_argument;
    *handle = nullptr;
    const int blocking = blocking_of(how), device = current_device();
    if (blocking < 0) return result::invalid_argument;
    if (device < 0) return result::unhandled_cuda_error;
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return refuse("there is no rank " + std::to_string(rank) + " of " + std::to_string(ranks), result::invalid_argument);
    waiting_lock lock;
    const std::shared_ptr<clique> all = find_clique(id);
    if (!all) return refuse("an id that ncclGetUniqueId did not give in a process that lives, or whose ranks have all gone", result::invalid_argument);
    const int code = join_here(lock, all, ranks, rank, device);
    lock.changed();
    if (code) return code;
    const auto c = std::make_shared<comm>();
    c->all = all;
    c->id = all->id;
    c->rank = rank;
    c->device = device;
    c->blocking = blocking != 0;
    void* const made = reinterpret_cast<void*>(the_library().handles += 16);
    *handle = made;
    the_library().comms[made] = c;
    handle_made(comm_kind, made);
    if (!c->blocking) return result::in_progress;
    if (group* g = current_group()) {
        g->joining.push_back(c);
        return result::success;
    }
    lock.wait_until([&] { return c->ended || !is_under_way(*c); });
    if (c->ended) return result::internal_error;  // aborted by another thread
    if (!all->broken) return result::success;
    handle_destroyed(comm_kind, made);
    leave(made);
    *handle = nullptr;
    return all->broken;
}

int ncclCommGetAsyncError(void* handle, int* error) {
    if (const int forced = fault("ncclCommGetAsyncError")) return forced;
    waiting_lock lock;
    const std::shared_ptr<comm> c = find_comm(handle);
    if (!c || !error) return result::invalid_argument;
    if (!c->unput.empty()) {
        catch_up(c);
        lock.changed();
    }
    *error = c->all->broken ? c->all->broken : c->error;
    if (*error) return result::success;
    const bool busy = is_under_way(*c) || (c->finalized && c->has_last && !run_to(c->last));
    if (busy) *error = result::in_progress;
    return result::success;
}

int ncclCommFinalize(void* handle) {
    if (const int forced = fault("ncclCommFinalize")) return forced;
    waiting_lock lock;
    const std::shared_ptr<comm> c = find_comm(handle);
    if (!c) return result::invalid_argument;
    if (c->all->broken) return c->all->broken;
    if (c->finalized || is_under_way(*c)) return refuse("a comm was finalized twice, or while something was in progress", result::invalid_argument);
    c->finalized = true;
    if (!c->blocking) return result::in_progress;
    lock.wait_until([&] { return c->ended || !c->has_last || run_to(c->last); });
    return result::success;
}

int ncclCommDestroy(void* handle) {
    const int forced = fault("ncclCommDestroy");
    waiting_lock lock;
    if (!handle_destroyed(comm_kind, handle)) return forced ? forced : static_cast<int>(result::invalid_argument);
    const comm& c = *the_library().comms[handle];
    if (!c.all->broken && (is_under_way(c) || !is_finished(c))) problem("unbalanced", "a comm was destroyed before its work was done: it is to be aborted");
    leave(handle);
    lock.changed();
    return forced;
}

int ncclCommAbort(void* handle) {
    const int forced = fault("ncclCommAbort");
    waiting_lock lock;
    if (!handle_destroyed(comm_kind, handle)) return forced ? forced : static_cast<int>(result::invalid_argument);
    leave(handle);
    lock.changed();
    return forced;
}

int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int reduction, void* handle, void* stream) {
    collective call;
    call.name = "ncclAllReduce";
    call.in = in, call.out = out, call.count = count, call.type = type, call.stream = stream;
    call.reduction = reduction < 0 ? -2 : reduction;
    return run(call, handle);
}

int ncclAllGather(const void* in, void* out, std::size_t send_count, int type, void* handle, void* stream) {
    collective call;
    call.name = "ncclAllGather";
    call.in = in, call.out = out, call.count = send_count, call.type = type, call.stream = stream;
    call.gets_all = true;
    return run(call, handle);
}

int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root, void* handle, void* stream) {
    collective call;
    call.name = "ncclBroadcast";
    call.in = in, call.out = out, call.count = count, call.type = type, call.stream = stream;
    call.root = root < 0 ? -2 : root;
    return run(call, handle);
}

int ncclReduceScatter(const void* in, void* out, std::size_t receive_count, int type, int reduction, void* handle, void* stream) {
    collective call;
    call.name = "ncclReduceScatter";
    call.in = in, call.out = out, call.count = receive_count, call.type = type, call.stream = stream;
    call.reduction = reduction < 0 ? -2 : reduction;
    call.gives_all = true;
    return run(call, handle);
}

int ncclGroupStart() {
    if (const int forced = fault("ncclGroupStart")) return forced;
    const waiting_lock lock;
    ++the_library().groups[std::this_thread::get_id()].depth;
    return result::success;
}

int ncclGroupEnd() {
    const int forced = fault("ncclGroupEnd");  // the group is over all the same
    waiting_lock lock;
    const auto at = the_library().groups.find(std::this_thread::get_id());
    if (at == the_library().groups.end()) {
        problem("unbalanced", "ncclGroupEnd without an ncclGroupStart");
        return result::invalid_usage;
    }
    if (--at->second.depth) return forced;
    const group g = std::move(at->second);
    the_library().groups.erase(at);
    if (forced) return forced;
    int code = result::success;
    for (const auto& c : g.joining) {
        lock.wait_until([&] { return c->ended || !is_under_way(*c); });
        if (c->all->broken) code = c->all->broken;
    }
    for (const auto& one : g.calls) {
        const int here = issue(one.second, one.first);
        if (here && (!code || code == result::in_progress)) code = here;
    }
    lock.changed();
    return code;
}
}
