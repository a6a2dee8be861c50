// Where a request begins and ends: heads are read strictly, so that no two readers of one connection see different requests, and bodies are counted.
#pragma once

#include "http.hpp"

namespace program {

/// ASCII's letters in small ones.
std::string in_small_letters(std::string text);
/// A number of up to 18 digits; -1 for anything else.
std::int64_t whole_number(const std::string& text);

/// A request as it is handed on: the fields that handlers read, and a body of the length that the head tells.
struct framed_request {
    std::string method, target;  ///< for the log
    std::string bytes;           ///< the head and the body behind it
    std::size_t head = 0;        ///< bytes of the head
    bool keep_alive = false;     ///< the client may ask more on this connection
};

/// Reads the requests of one connection, as its bytes come (RFC 9112). What is not clearly one request is refused: bare line ends, folded lines, two lengths, a
/// length beside chunks, codings of the body, characters that no name or target may have. After a refusal nothing more is read.
class request_reader {
public:
    explicit request_reader(const http_limits& limits) : limits_(limits) {}

    enum class state { more, whole, refused };
    /// Takes what it can from the front of `in`. `whole`: `take` gives the request, and what is left in `in` is of the next one.
    state read(std::string& in);
    /// The request, once; then the next one is read.
    framed_request take();
    /// What is answered where `read` said refused.
    const http_answer& refused() const { return refused_; }
    /// The client waits to be told that its body is wanted; tells it once.
    bool wants_continue() { return std::exchange(continue_, false); }
    /// Whether a request has begun and is not whole.
    bool begun() const { return begun_; }
    /// Bytes of the request that are held here.
    std::size_t held() const { return request_.bytes.size() + line_.size(); }

private:
    enum class phase { head, counted, chunk_head, chunk_data, chunk_end, trailer };
    state read_head(std::string& in);
    state read_body(std::string& in);
    bool read_field(const std::string& line);
    bool read_request_line(const std::string& line);
    bool finish_head();
    bool refuse(int status, const char* code, const std::string& detail);
    state stop(int status, const char* code, const std::string& detail);
    /// Moves a line with its end out of `in`; false where it is not whole yet.
    bool next_line(std::string& in, std::string& line);

    http_limits limits_;
    phase phase_ = phase::head;
    framed_request request_;
    std::string line_, passed_on_;  // what of a line has come; the fields that are handed on
    std::size_t head_bytes_ = 0, fields_ = 0, hosts_ = 0, lengths_ = 0;
    std::int64_t left_ = 0;  // bytes of the body, or of a chunk, that have to come
    bool begun_ = false, chunked_ = false, http_1_0_ = false, close_ = false, stay_ = false, continue_ = false, request_line_ = false;
    http_answer refused_;
};

}  // namespace program
