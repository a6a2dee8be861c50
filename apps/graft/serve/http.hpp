// What the server is asked over HTTP, what it answers, and what it allows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace program {

/// What one client may take of the server, and all of them together.
struct http_limits {
    std::int64_t body_bytes = std::int64_t(32) << 20;   ///< of one request
    std::int64_t memory_bytes = std::int64_t(1) << 30;  ///< of all requests that are read or wait, together
    double request_seconds = 10;                        ///< from a request's first byte to its last, and again for its answer
    double idle_seconds = 60;                           ///< that a connection may be silent between requests
    std::size_t connections = 4096;                     ///< at once
    std::size_t waiting = 512;                          ///< requests that were read and have not been begun
    std::size_t head_bytes = 32768, line_bytes = 8192;  ///< of a head, and of a line of it
    std::size_t target_bytes = 2048, fields = 100;      ///< of the path with its query; lines of a head
};

/// One part of a multipart/form-data body.
struct http_part {
    std::string name, file;
    std::string_view content;
};

/// A request that was read whole. Its bytes are the server's, for as long as it is answered.
struct http_request {
    std::string method, path;      ///< the path without its query, percent signs decoded
    std::string type;              ///< of the body, in small letters and without parameters
    std::string_view body;         ///< empty where it is in parts
    std::vector<http_part> parts;  ///< in their order
    std::vector<std::pair<std::string, std::string>> query;
    std::int64_t json_bytes = -1;  ///< Inference-Header-Content-Length; -1: not given

    /// Whether the body is one, as far as its type says.
    bool is_picture() const { return type.rfind("image/", 0) == 0 || type == "application/octet-stream"; }
    /// A parameter of the query; empty where there is none.
    std::string parameter(const std::string& name) const {
        for (const auto& q : query)
            if (q.first == name) return q.second;
        return "";
    }
};

/// An answer.
struct http_answer {
    int status = 200;
    std::string type = "application/json", body;
    std::vector<std::pair<std::string, std::string>> fields;  ///< further ones of its head
};

/// The answer to a request that is refused: {"error": {"code", "detail"}}.
http_answer refusal(int status, const std::string& code, const std::string& detail);

}  // namespace program
