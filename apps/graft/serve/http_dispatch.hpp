// From the bytes of a request to the bytes of its answer.
#pragma once

#include "http_framing.hpp"

#include <functional>
#include <memory>
#include <string>

namespace program {

/// Answers a request that was read. Called from many threads at once; what it throws becomes an answer of 500.
using http_handler = std::function<http_answer(const http_request&)>;

/// An answer as it goes over the wire.
struct framed_answer {
    std::string bytes;
    int status = 0;
    bool keep_alive = false;  ///< the connection stays
};

/// Reads requests by cpp-httplib and has them answered. For any number of threads.
class http_dispatcher {
public:
    explicit http_dispatcher(http_handler handler);
    ~http_dispatcher();
    http_dispatcher(const http_dispatcher&) = delete;
    http_dispatcher& operator=(const http_dispatcher&) = delete;
    framed_answer answer(const framed_request& request, bool may_stay) const;

private:
    class server;
    std::unique_ptr<server> server_;
};

/// An answer to a request that no handler saw.
framed_answer framed(const http_answer& answer);

}  // namespace program
