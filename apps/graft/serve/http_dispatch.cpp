// cpp-httplib over bytes in memory: it takes requests apart and puts answers together; the sockets, and when they have to be done, are http_server's.
#include "http_dispatch.hpp"

#include <httplib.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace program {
namespace {

// A request to read from, and room for what is written. The names are those of all versions from 0.11 on.
class memory_stream final : public httplib::Stream {
public:
    explicit memory_stream(const std::string& in) : in_(in) {}
    bool is_readable() const { return true; }
    bool is_writable() const { return true; }
    bool wait_readable() const { return true; }
    bool wait_writable() const { return true; }
    ssize_t read(char* to, size_t size) {
        const std::size_t some = std::min(size, in_.size() - at_);
        std::memcpy(to, in_.data() + at_, some);
        at_ += some;
        return static_cast<ssize_t>(some);
    }
    ssize_t write(const char* from, size_t size) {
        written.append(from, size);
        return static_cast<ssize_t>(size);
    }
    using httplib::Stream::write;
    void get_remote_ip_and_port(std::string& ip, int& port) const { ip = "", port = 0; }
    void get_local_ip_and_port(std::string& ip, int& port) const { ip = "", port = 0; }
    socket_t socket() const { return 0; }
    time_t duration() const { return 0; }

    std::string written;

private:
    const std::string& in_;
    std::size_t at_ = 0;
};

// Parts of a form: `files` in Debian's version, `form` in later ones, which keep those without a file's name apart.
template <class Request>
auto add_parts(const Request& r, std::vector<http_part>& parts, int) -> decltype(static_cast<void>(r.form.files)) {
    for (const auto& f : r.form.files) parts.push_back({f.second.name, f.second.filename, f.second.content});
    for (const auto& f : r.form.fields) parts.push_back({f.second.name, "", f.second.content});
}
template <class Request>
auto add_parts(const Request& r, std::vector<http_part>& parts, long) -> decltype(static_cast<void>(r.files)) {
    for (const auto& f : r.files) parts.push_back({f.second.name, f.second.filename, f.second.content});
}

http_request request_of(const httplib::Request& r) {
    http_request q;
    q.method = r.method, q.path = r.path, q.body = r.body;
    q.type = in_small_letters(r.get_header_value("Content-Type"));
    q.type.resize(std::min(q.type.find(';'), q.type.size()));
    while (!q.type.empty() && q.type.back() == ' ') q.type.pop_back();
    q.query.assign(r.params.begin(), r.params.end());
    add_parts(r, q.parts, 0);
    q.json_bytes = whole_number(r.get_header_value("Inference-Header-Content-Length"));
    return q;
}

void fill(httplib::Response& to, const http_answer& from) {
    to.status = from.status;
    for (const auto& f : from.fields) to.set_header(f.first, f.second);
    to.set_content(from.body, from.type.c_str());
}

}  // namespace

class http_dispatcher::server : public httplib::Server {
public:
    explicit server(http_handler handler) : handler_(std::move(handler)) {
        const auto all = [this](const httplib::Request& request, httplib::Response& response) { fill(response, answered(request)); };
        Get(".*", all);
        Post(".*", all);
        Put(".*", all);
        Patch(".*", all);
        Delete(".*", all);
        Options(".*", all);
        // What the library itself refuses: a body that is no form, or a method that nobody knows.
        set_error_handler([](const httplib::Request&, httplib::Response& response) {
            if (response.body.empty()) fill(response, refusal(response.status, "http.malformed", "the request, or its body, is not well formed"));
        });
        set_payload_max_length(static_cast<std::size_t>(-1));  // counted before
        set_keep_alive_max_count(1);
    }
    // What the library makes at its first request, it makes before there are threads.
    void begin() {
        framed_request first;
        first.bytes = "POST / HTTP/1.1\r\nhost: graft\r\ncontent-type: multipart/form-data; boundary=a\r\ncontent-length: 52\r\n\r\n"
                      "--a\r\ncontent-disposition: form-data; name=a\r\n\r\n--a--";
        http_handler real = std::exchange(handler_, [](const http_request&) { return http_answer(); });
        answer(first, false);
        first.bytes = "GET / HTTP/1.1\r\nhost: graft\r\n\r\n";
        answer(first, true);
        handler_ = std::move(real);
    }

    framed_answer answer(const framed_request& request, bool may_stay) {
        memory_stream stream(request.bytes);
        bool closed = !may_stay || !request.keep_alive;
        process(stream, closed);
        framed_answer made;
        made.bytes = std::move(stream.written);
        made.keep_alive = !closed;
        if (made.bytes.size() > 12) made.status = std::atoi(made.bytes.c_str() + 9);
        return made;
    }

private:
    http_answer answered(const httplib::Request& request) const {
        try {
            return handler_(request_of(request));
        } catch (const std::bad_alloc&) {
            return refusal(503, "memory.oom", "the system has not enough memory for this request now");
        } catch (const std::exception& e) {
            return refusal(500, "internal", e.what());
        }
    }
    // The one call that versions disagree about.
    void process(memory_stream& stream, bool& closed) { call(&server::process_request, stream, closed); }
    template <class Base>
    void call(bool (Base::*f)(httplib::Stream&, bool, bool&, const std::function<void(httplib::Request&)>&), memory_stream& stream, bool& closed) {
        bool over = closed;
        (this->*f)(stream, closed, over, nullptr);
        closed |= over;
    }
    template <class Base, class... More>
    void call(bool (Base::*f)(httplib::Stream&, const std::string&, int, const std::string&, int, bool, bool&, const std::function<void(httplib::Request&)>&,
                              More...),
              memory_stream& stream, bool& closed) {
        bool over = closed;
        (this->*f)(stream, "", 0, "", 0, closed, over, nullptr, More()...);
        closed |= over;
    }

    http_handler handler_;
};

http_dispatcher::http_dispatcher(http_handler handler) : server_(std::make_unique<server>(std::move(handler))) { server_->begin(); }
http_dispatcher::~http_dispatcher() = default;
framed_answer http_dispatcher::answer(const framed_request& request, bool may_stay) const { return server_->answer(request, may_stay); }

framed_answer framed(const http_answer& answer) {
    framed_answer made;
    made.status = answer.status;
    made.bytes = "HTTP/1.1 " + std::to_string(answer.status) + " Refused\r\nConnection: close\r\nContent-Type: " + answer.type +
                 "\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n";
    for (const auto& f : answer.fields) made.bytes += f.first + ": " + f.second + "\r\n";
    made.bytes += "\r\n" + answer.body;
    return made;
}

}  // namespace program
