// Processes that a launcher has told of each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: they meet in a store, and their data go by NCCL.
#include <graft/dist/store.hpp>

#include "rendezvous.hpp"
#include "world.hpp"

#include <graft/lower/device.hpp>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace program {
namespace {

// Held until all is done: rank 0's store lives as long.
struct meeting {
    std::shared_ptr<graft::store> store;
    std::shared_ptr<graft::communicator> group;
};
meeting& the_meeting() {
    static meeting only;
    return only;
}

graft::status wrong(const char* variable, const std::string& why) { return graft::fail(graft::errc::usage, variable, why); }

const char* variable_text(const char* name) {
    const char* text = std::getenv(name);
    return text && *text ? text : nullptr;
}
graft::result<int> variable_number(const char* name, int least, int most, const std::string& meant) {
    const char* text = variable_text(name);
    if (!text) return wrong(name, "it is not set, and WORLD_SIZE says that there are several processes: it is " + meant);
    const std::string digits = text;
    if (digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos || std::atoi(text) < least || std::atoi(text) > most)
        return wrong(name, "\"" + printable(digits) + "\" cannot be: it is " + meant + ", " + std::to_string(least) + " to " + std::to_string(most));
    return std::atoi(text);
}

}  // namespace

graft::result<std::optional<told_rank>> rank_by_variables() {
    told_rank own;
    if (!variable_text("WORLD_SIZE")) return std::optional<told_rank>();
    GRAFT_TRY_ASSIGN(own.size, variable_number("WORLD_SIZE", 1, 4096, "the number of processes"));
    if (own.size == 1) return std::optional<told_rank>();
    GRAFT_TRY_ASSIGN(own.rank, variable_number("RANK", 0, own.size - 1, "this process's number"));
    return std::optional<told_rank>(own);
}

graft::result<std::shared_ptr<graft::communicator>> join_by_variables(const common_options& given, const told_rank& own, double timeout) {
    graft::store_options meet;
    meet.rank = own.rank, meet.size = own.size, meet.timeout_seconds = timeout;
    const char* host = variable_text("MASTER_ADDR");
    if (!host)
        return wrong("MASTER_ADDR", "it is not set, and WORLD_SIZE says that there are several processes: it is the name or address of rank 0's machine");
    meet.host = host;
    GRAFT_TRY_ASSIGN(meet.port, variable_number("MASTER_PORT", 1, 65535, "a free port of rank 0's machine"));
    if (const char* agent = variable_text("TORCHELASTIC_USE_AGENT_STORE"); agent && (!std::strcmp(agent, "True") || !std::strcmp(agent, "1")))
        return graft::fail(graft::errc::dist_address_in_use, meet.host + ":" + std::to_string(meet.port),
                           "torchrun itself listens at MASTER_PORT: start it with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment, so that the port is "
                           "left to rank 0");
    std::vector<std::string> names;
    GRAFT_TRY_ASSIGN(names, wanted_devices(given));
    if (names.size() > 1)
        return wrong("--device",
                     "it names " + std::to_string(names.size()) + " devices, and each of the " + std::to_string(own.size) + " processes has one: say cuda");

    meeting& here = the_meeting();
    GRAFT_TRY_ASSIGN(here.store, graft::join_store(meet));
    auto notices = graft::make_control_plane(here.store);
    common_options common = given;
    common.device = device_of_world(common, notices.get());
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, open_devices(common));
    if (!devices[0])
        return graft::fail(graft::errc::device_unavailable, "--device", "there is no GPU here for rank " + std::to_string(own.rank) + ", and data go by NCCL");
    GRAFT_TRY_ASSIGN(here.group, devices[0]->make_communicator(notices));
    return here.group;
}

bool joined_by_variables() { return the_meeting().store != nullptr; }

void leave_by_variables(const graft::error& why) noexcept {
    meeting& here = the_meeting();
    if (here.group)
        here.group->leave(why);
    else if (here.store)
        here.store->leave(why);
    here = meeting();
}

graft::status part_by_variables() {
    meeting& here = the_meeting();
    graft::status done = here.store->part();
    here.group.reset();
    here.store.reset();
    return done;
}

}  // namespace program
