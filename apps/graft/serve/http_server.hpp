// A server of HTTP/1.1: one thread for all connections, some that answer, and limits that hold for both.
#pragma once

#include "http_dispatch.hpp"

#include <graft/core/error.hpp>

#include <functional>
#include <memory>
#include <string>

namespace program {

/// A request that was answered, for a log.
struct http_record {
    std::string peer, method, target;
    int status = 0;
    std::size_t bytes_in = 0, bytes_out = 0;
    double seconds = 0;  ///< from when it was read whole to when its answer was ready
};

struct http_server_options {
    std::string host = "127.0.0.1";
    int port = 8000;    ///< 0: one that is free
    int handlers = 32;  ///< threads that answer; most of their time they wait for a network
    http_limits limits;
    http_handler handler;
    std::function<void(const http_record&)> log;  ///< called from the thread of the connections
};

/// What is going on.
struct http_counts {
    std::size_t connections = 0, waiting = 0, answering = 0;
};

/// Listens and answers. A client that is slow, silent or gone costs a socket and what it has sent, and never a thread.
class http_server {
public:
    /// Listens; nobody is answered before `run`. Errors: dist.address_in_use (the port is taken, or is not this user's), usage (no such host).
    static graft::result<std::unique_ptr<http_server>> listen(http_server_options options);
    virtual ~http_server() = default;

    virtual const std::string& address() const noexcept = 0;  ///< "127.0.0.1:8000"
    /// Serves. Between events, and at least a few times a second, `stops` is asked whether to end: then nobody new is taken, what was begun is answered, and
    /// the call returns.
    virtual graft::status run(const std::function<bool()>& stops) = 0;
    /// From any thread.
    virtual http_counts counts() const = 0;
};

}  // namespace program
