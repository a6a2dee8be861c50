// Processes that find each other by an address, without MPI: a small store of keys at rank 0, and what members tell each other over it.
#pragma once

#include "../core/communicator.hpp"
#include "../core/error.hpp"

#include <cstdint>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// Where the processes of a run meet, and who this one is: what launchers tell as MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE.
struct store_options {
    std::string host;             ///< of rank 0: a name, or an address of IPv4 or IPv6
    int port = 0;                 ///< rank 0 listens there; 0, for a single rank alone: one that is free
    int rank = 0, size = 1;       ///< this process, of so many; 4096 at most
    double timeout_seconds = 60;  ///< how long a call waits for another process
};

/// A process's place in the store. Keys have 1 to 256 bytes, values 65536 at most; there may be 65536 keys and 64 MiB of all. For one thread at a time. Where
/// a process has ended that had not said goodbye, a call whose answer is not there already ends with dist.peer_lost. No data of networks belong here.
class store {
public:
    virtual ~store() = default;
    virtual int rank() const noexcept = 0;
    virtual int size() const noexcept = 0;
    virtual double timeout_seconds() const noexcept = 0;
    /// "host:port", as error messages have it.
    virtual const std::string& address() const noexcept = 0;

    /// Keeps a value under a key, in place of what was there. Errors: usage (too long, or too much), dist.*.
    virtual status set(const std::string& key, const std::string& value) = 0;
    /// The value of a key; waits so many seconds until there is one. Errors: dist.timeout, which names the key; usage, dist.peer_lost.
    virtual result<std::string> get(const std::string& key, double seconds) = 0;
    /// Adds to the number of a key, 0 where there is none, and answers with the sum. Errors: usage (what is there is no number; overflow), dist.*.
    virtual result<std::int64_t> add(const std::string& key, std::int64_t amount) = 0;
    /// Forgets a key, where there is one.
    virtual status erase(const std::string& key) = 0;
    /// Whether all processes are still there. Does not wait.
    virtual status look() = 0;
    /// Tells the others that this process ends, and why.
    virtual void leave(const error& why) noexcept = 0;
    /// Says goodbye, and waits until all others have, so that who goes then is missed by nobody. Errors: dist.timeout, dist.peer_lost.
    virtual status part() = 0;
};

/// Joins the processes of a run; all of them call it. Rank 0's keeps the store in a thread, for as long as it lives. Errors: usage (no such rank, or
/// this system has no sockets), dist.address_in_use (rank 0's port is taken), dist.timeout (which ranks did not come), dist.mismatch (two processes of one
/// rank, another size, another program at the port), dist.peer_lost (a process ended before all had come).
result<std::shared_ptr<store>> join_store(const store_options& options);

/// The same as a control plane: a few bytes at a time (32 KiB), and whether all are there. Whoever parts from the store does so by `store::part`.
std::shared_ptr<control_plane> make_control_plane(std::shared_ptr<store> over);

GRAFT_END_NAMESPACE

#include "store_body.hpp"
