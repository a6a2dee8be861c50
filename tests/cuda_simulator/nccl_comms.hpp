// What the simulated NCCL knows of its comms, all under the simulator's lock: members that are processes, threads, or streams of one
// thread.
#pragma once

#include "simulator.hpp"

#include <graft/gpu/api/nccl.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace graft_simulator {

/// A call of a collective.
struct collective {
    const char* name = "";
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t count = 0;                    ///< elements that a rank has: of what it gives, or of what it gets, whichever is shorter
    int type = 0, reduction = -1, root = -1;  ///< -1: it has none
    void* stream = nullptr;
    bool gives_all = false, gets_all = false;  ///< whether it reads, or writes, `count` elements of each rank
};

/// The k-th collective of all ranks. Each rank puts two pieces of work on its stream: the first copies its input to here, the second,
/// which is ready when all inputs are here, writes its output.
struct round {
    collective first;  ///< as the rank called it that came first
    int first_rank = 0;
    int put = 0, contributed = 0;  ///< how many ranks have
    std::vector<place> at;         ///< of each rank's first piece
    std::vector<char> is_put, is_here;
    std::vector<std::vector<unsigned char>> inputs;
};

struct channel;

/// All ranks that joined by one id. Each process that has one of them knows of all: what the others do comes by channels.
struct clique {
    std::uint64_t id = 0;
    bool elsewhere = false;                                                   ///< another process made the id, and relays
    bool cut = false;                                                         ///< and has ended
    std::vector<std::shared_ptr<channel>> channels;                           ///< to that process, or to all others that joined
    std::map<int, int> answers;                                               ///< what ranks of this process that asked to join were told
    std::map<std::pair<int, std::uint64_t>, std::shared_ptr<round>> awaited;  ///< by rank and call: what another process has put, and not sent yet
    int ranks = 0, joined = 0, left = 0;
    int broken = 0;  ///< the error that ended it for all
    std::vector<char> taken, has_left;
    std::vector<int> devices;
    std::map<std::uint64_t, std::shared_ptr<round>> rounds;  ///< those that some ranks have not put yet
};

struct comm {
    std::shared_ptr<clique> all;
    std::uint64_t id = 0;
    int rank = 0, device = 0;
    int error = 0;  ///< of what was put late
    bool blocking = true, finalized = false, ended = false;
    std::uint64_t calls = 0;
    bool has_last = false;
    place last;                     ///< of the second piece of its last collective
    std::vector<collective> unput;  ///< a comm that does not block puts them when it is asked how it does
};

/// Whether a comm may not be used yet: not all ranks have joined, or what was called last has not been asked after.
inline bool is_under_way(const comm& c) { return (c.all->joined < c.all->ranks && !c.all->broken) || !c.unput.empty(); }
inline bool is_finished(const comm& c) { return c.unput.empty() && (!c.has_last || is_done(c.last)); }

/// The cliques of this process, by id.
std::map<std::uint64_t, std::shared_ptr<clique>>& the_cliques();
/// A rank joins: success, or the error, with why. In the process that made the id.
int join(clique& all, int ranks, int rank, int device, std::string& why);
/// The round of a rank's call of that number; null, and the clique is broken, where the others called something else.
std::shared_ptr<round> next_round(const collective& call, clique& all, std::uint64_t number, int rank);

/// Where other processes reach this one, which listens from then on; "" where it cannot.
const std::string& own_address();
/// The clique of an id that the process at an address made; null where it does not answer.
std::shared_ptr<clique> connect_clique(const std::string& address, std::uint64_t id);
/// Asks the process that made the id; the answer comes into clique::answers.
void ask_to_join(const clique& all, int ranks, int rank, int device);
/// What a rank of this process does, for all others.
void tell_joined(const clique& all, int rank, int device);
void tell_put(const clique& all, int rank, std::uint64_t number, const collective& call);
void tell_data(const clique& all, int rank, std::uint64_t number, const std::vector<unsigned char>& bytes);
void tell_left(const clique& all, int rank);
void tell_broken(const clique& all);

/// Bytes of an element; 0 for a type that is none.
std::size_t element_bytes(int type);
/// What a rank reads and writes.
range input_of(const collective& call, const comm& c);
range output_of(const collective& call, const comm& c);
/// A call that can be put: success, or the error, reported.
int check_collective(const collective& call, const comm& c);
/// Puts it on its stream.
int put_collective(const collective& call, const std::shared_ptr<comm>& c);

}  // namespace graft_simulator
