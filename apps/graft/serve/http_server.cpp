// The connections: who may send, what has come, what has to go, and until when.
#include "http_server.hpp"

#include <graft/core/clock.hpp>
#include <graft/dist/store_socket.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace program {
namespace {

using graft::detail::poll_entry;
using graft::detail::seconds_now;
using graft::detail::tcp_socket;

// A request on its way to a thread that answers, and its answer on the way back.
struct work_item {
    std::uint64_t connection = 0;
    framed_request request;
    framed_answer answer;
    double began = 0, seconds = 0;
};

// Wakes the thread that polls.
class wake_pipe {
public:
    bool open() { return ::pipe(ends_) == 0 && graft::detail::make_nonblocking(ends_[0]) && graft::detail::make_nonblocking(ends_[1]); }
    wake_pipe() = default;
    ~wake_pipe() {
        for (const int e : ends_)
            if (e >= 0) ::close(e);
    }
    wake_pipe(const wake_pipe&) = delete;
    wake_pipe& operator=(const wake_pipe&) = delete;
    // A pipe that is full will wake it as well.
    void wake() const { static_cast<void>(!::write(ends_[1], "", 1)); }
    void drain() const {
        char bytes[256];
        while (::read(ends_[0], bytes, sizeof bytes) > 0) {
        }
    }
    int get() const { return ends_[0]; }

private:
    int ends_[2] = {-1, -1};
};

// The threads that answer.
class answering_threads {
public:
    answering_threads(const http_dispatcher& dispatcher, const wake_pipe& wake) : dispatcher_(dispatcher), wake_(wake) {}
    ~answering_threads() {
        {
            const std::lock_guard<std::mutex> hold(lock_);
            ending_ = true;
        }
        some_.notify_all();
        for (std::thread& t : threads_) t.join();
    }
    answering_threads(const answering_threads&) = delete;
    answering_threads& operator=(const answering_threads&) = delete;

    void start(int count) {
        for (int i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
    }
    void give(work_item item) {
        {
            const std::lock_guard<std::mutex> hold(lock_);
            waiting_.push_back(std::move(item));
        }
        some_.notify_one();
    }
    std::vector<work_item> answered() {
        const std::lock_guard<std::mutex> hold(lock_);
        return std::exchange(answered_, {});
    }
    std::size_t waiting() const {
        const std::lock_guard<std::mutex> hold(lock_);
        return waiting_.size();
    }
    std::size_t answering() const { return answering_; }
    /// Connections are closed behind their answers from now on.
    void drain() { draining_ = true; }

private:
    void work() {
        std::unique_lock<std::mutex> hold(lock_);
        for (;;) {
            some_.wait(hold, [&] { return ending_ || !waiting_.empty(); });
            if (ending_) return;
            work_item item = std::move(waiting_.front());
            waiting_.pop_front();
            hold.unlock();
            ++answering_;
            try {
                item.answer = dispatcher_.answer(item.request, !draining_);
            } catch (const std::exception&) {
                item.answer = framed_answer();  // no memory, even for an answer: the connection ends
            }
            item.seconds = seconds_now() - item.began;
            item.request.bytes = std::string();
            --answering_;
            hold.lock();
            answered_.push_back(std::move(item));
            wake_.wake();
        }
    }

    const http_dispatcher& dispatcher_;
    const wake_pipe& wake_;
    mutable std::mutex lock_;
    std::condition_variable some_;
    std::deque<work_item> waiting_;
    std::vector<work_item> answered_;
    std::vector<std::thread> threads_;
    std::atomic<std::size_t> answering_{0};
    std::atomic<bool> draining_{false};
    bool ending_ = false;
};

// One client. It reads a request, waits for the answer, writes it, and begins anew; or ends with an answer, and then waits a moment for the client to read it:
// closing a socket with unread bytes in it would take the answer away.
struct connection {
    explicit connection(const http_limits& limits) : reader(limits) {}
    enum class phase { reading, waiting, writing, lingering };
    tcp_socket socket;
    std::string peer, in, out;
    request_reader reader;
    phase now = phase::reading;
    double deadline = 0;
    bool stays = true, at_end = false, reading_request = false;  // at_end: the client sends no more
    std::size_t bytes_in = 0, counted = 0;                       // counted: of the memory of all
    http_record record;
};

class poll_server final : public http_server {
public:
    explicit poll_server(http_server_options options) : options_(std::move(options)), dispatcher_(options_.handler), threads_(dispatcher_, wake_) {}

    graft::status open() {
        const std::string where = graft::detail::host_and_port(options_.host, options_.port);
        graft::detail::host_addresses addresses;
        if (const std::string why = addresses.find(options_.host.c_str(), options_.port, AI_PASSIVE); !why.empty())
            return graft::fail(graft::errc::usage, "--host " + options_.host, "this address cannot be listened at: " + why);
        int code = 0;
        for (const addrinfo* a = addresses.first(); a && !listener_; a = a->ai_next) {
            auto made = graft::detail::listen_at(*a, code);
            if (made.ok()) listener_ = std::move(made).value();
        }
        if (!listener_)
            return graft::fail(graft::errc::dist_address_in_use, where,
                               code == graft::detail::socket_error::in_use ? "another program has this port: give --port another one, or 0 for one that is free"
                                                                           : "it cannot be listened at: " + graft::detail::socket_text(code));
        sockaddr_storage own = {};
        socklen_t bytes = sizeof own;
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &bytes);
        address_ = graft::detail::peer_text(reinterpret_cast<const sockaddr*>(&own), bytes);
        if (!wake_.open()) return graft::fail(graft::errc::internal, where, graft::detail::system_message());
        return {};
    }

    const std::string& address() const noexcept override { return address_; }
    http_counts counts() const override { return {open_, threads_.waiting(), threads_.answering()}; }

    graft::status run(const std::function<bool()>& stops) override {
        threads_.start(options_.handlers);
        bool draining = false;
        while (!draining || !connections_.empty()) {
            if (!draining && stops()) {
                draining = true;
                listener_.close();
                threads_.drain();
            }
            poll_once(draining);
        }
        return {};
    }

private:
    void poll_once(bool draining) {
        entries_.clear();
        polled_.clear();
        entries_.push_back(entry(wake_.get(), POLLIN));
        const bool accepts = listener_ && connections_.size() < options_.limits.connections && seconds_now() >= accept_again_;
        if (accepts) entries_.push_back(entry(listener_.get(), POLLIN));
        const std::size_t first = entries_.size();
        const double before = seconds_now();
        double wait = 0.2;
        for (auto& c : connections_) {
            // Whoever waits for an answer is looked at again when that is there: a client that has gone would wake this loop for ever.
            if (c.second->now == connection::phase::waiting) continue;
            wait = std::min(wait, std::max(0.0, c.second->deadline - before));
            entries_.push_back(entry(c.second->socket.get(), c.second->now == connection::phase::writing ? POLLOUT : POLLIN));
            polled_.push_back(c.first);
        }
        graft::detail::poll_sockets(entries_.data(), entries_.size(), static_cast<int>(wait * 1000) + 1);
        if (entries_[0].revents) wake_.drain();
        for (work_item& item : threads_.answered()) {
            try {
                send_answer(item, draining);
            } catch (const std::bad_alloc&) {
                if (const auto found = connections_.find(item.connection); found != connections_.end()) forget(found);
            }
        }
        if (accepts && entries_[1].revents) accept_all();
        const double now = seconds_now();
        for (std::size_t i = 0; i < polled_.size(); ++i) {
            const auto found = connections_.find(polled_[i]);
            if (found == connections_.end()) continue;
            connection& c = *found->second;
            try {
                if (entries_[first + i].revents)
                    go_on(polled_[i], c);
                else if (now > c.deadline)
                    expire(c);
            } catch (const std::bad_alloc&) {
                c.socket.close();  // whoever asked for too much goes, and nobody else
            }
            const bool idle = draining && c.now == connection::phase::reading && !c.reader.begun();
            if (!c.socket || idle) forget(found);
        }
        open_ = connections_.size();
    }

    static poll_entry entry(graft::detail::native_socket s, short events) {
        poll_entry e = {};
        e.fd = s, e.events = events;
        return e;
    }

    void accept_all() {
        for (int i = 0; i < 64 && connections_.size() < options_.limits.connections; ++i) {
            sockaddr_storage far = {};
            socklen_t bytes = sizeof far;
            tcp_socket made(::accept(listener_.get(), reinterpret_cast<sockaddr*>(&far), &bytes));
            if (!made) {
                // No more descriptors: whoever waits is taken when somebody has gone.
                if (const int code = graft::detail::last_socket_error(); code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS)
                    accept_again_ = seconds_now() + 0.1;
                return;
            }
            if (!made.prepare()) continue;
            auto c = std::make_unique<connection>(options_.limits);
            c->socket = std::move(made);
            c->peer = graft::detail::peer_text(reinterpret_cast<const sockaddr*>(&far), bytes);
            c->deadline = seconds_now() + options_.limits.request_seconds;
            connections_.emplace(next_++, std::move(c));
        }
    }

    using place = std::unordered_map<std::uint64_t, std::unique_ptr<connection>>::iterator;
    void forget(place at) {
        memory_ -= at->second->counted;
        connections_.erase(at);
    }
    void count_memory(connection& c) {
        const std::size_t held = c.reader.held() + c.in.size();
        memory_ += held - c.counted;
        c.counted = held;
    }

    void go_on(std::uint64_t id, connection& c) {
        std::string why;
        switch (c.now) {
        case connection::phase::reading: return read_more(id, c);
        case connection::phase::writing: return write_more(id, c);
        case connection::phase::lingering:
            if (c.socket.receive(c.in, 1 << 20, why) == tcp_socket::state::closed) c.socket.close();
            c.in.clear();
            return;
        case connection::phase::waiting: return;
        }
    }

    void read_more(std::uint64_t id, connection& c) {
        std::string why;
        const std::size_t had = c.in.size();
        const auto state = c.socket.receive(c.in, std::size_t(256) << 10, why);
        c.bytes_in += c.in.size() - had;
        if (state == tcp_socket::state::closed) {
            if (why != "it closed the connection" || (c.in.empty() && !c.reader.begun())) return c.socket.close();
            c.at_end = true;
        }
        read_request(id, c);
    }

    void read_request(std::uint64_t id, connection& c) {
        const bool fresh = !c.reader.begun();
        const auto state = c.reader.read(c.in);
        count_memory(c);
        if (fresh && c.reader.begun()) c.deadline = seconds_now() + options_.limits.request_seconds;
        if (state == request_reader::state::refused) return refuse(c, c.reader.refused());
        if (state == request_reader::state::more) {
            if (c.at_end) return refuse(c, refusal(400, "http.malformed", "the request ends too early"));
            if (memory_ > static_cast<std::size_t>(options_.limits.memory_bytes) && c.reader.held() > 65536)
                return refuse(c, refusal(503, "http.busy", "the requests of all clients together are too large now"));
            if (c.reader.wants_continue()) {
                // Few bytes: either the socket takes them or the client is gone.
                std::string go = "HTTP/1.1 100 Continue\r\n\r\n", why;
                c.socket.give(go, why);
            }
            return;
        }
        work_item item;
        item.connection = id;
        item.request = c.reader.take();
        item.began = seconds_now();
        c.record = {c.peer, item.request.method, item.request.target, 0, std::exchange(c.bytes_in, 0), 0, 0};
        c.stays = item.request.keep_alive;
        if (threads_.waiting() >= options_.limits.waiting) return refuse(c, refusal(503, "http.busy", "more requests wait than may (--queue)"));
        c.now = connection::phase::waiting;
        threads_.give(std::move(item));
    }

    // The last answer of a connection.
    void refuse(connection& c, const http_answer& answer) {
        framed_answer made = framed(answer);
        c.stays = false;
        if (c.record.method.empty()) c.record.peer = c.peer;
        log(c, made, 0);
        begin_writing(c, std::move(made.bytes));
        write_more(0, c);
    }
    void log(connection& c, const framed_answer& answer, double seconds) {
        c.record.status = answer.status;
        c.record.bytes_out = answer.bytes.size();
        c.record.seconds = seconds;
        if (options_.log) options_.log(c.record);
        c.record = http_record();
    }

    void send_answer(work_item& item, bool draining) {
        const auto found = connections_.find(item.connection);
        if (found == connections_.end()) return;
        connection& c = *found->second;
        c.stays = item.answer.keep_alive && !draining && !(c.at_end && c.in.empty());
        log(c, item.answer, item.seconds);
        begin_writing(c, std::move(item.answer.bytes));
        write_more(item.connection, c);
        if (!c.socket) forget(found);
    }
    void begin_writing(connection& c, std::string bytes) {
        c.out = std::move(bytes);
        c.now = connection::phase::writing;
        c.deadline = seconds_now() + options_.limits.request_seconds;
        memory_ -= c.counted;
        c.counted = 0;
    }

    void write_more(std::uint64_t id, connection& c) {
        std::string why;
        if (c.socket.give(c.out, why) == tcp_socket::state::closed) return c.socket.close();
        if (!c.out.empty()) return;
        c.out = std::string();
        if (!c.stays) {
            ::shutdown(c.socket.get(), SHUT_WR);
            if (c.at_end) return c.socket.close();
            c.now = connection::phase::lingering;
            c.deadline = seconds_now() + 1;
            return;
        }
        c.now = connection::phase::reading;
        c.deadline = seconds_now() + options_.limits.idle_seconds;
        if (!c.in.empty()) read_request(id, c);  // it was sent with the one before
    }

    void expire(connection& c) {
        const bool asked = c.now == connection::phase::reading && c.reader.begun();
        if (!asked) return c.socket.close();
        refuse(c, refusal(408, "http.timeout",
                          "the request was not whole after " + std::to_string(static_cast<int>(options_.limits.request_seconds + 0.5)) + " s (--timeout)"));
    }

    http_server_options options_;
    std::string address_;
    tcp_socket listener_;
    wake_pipe wake_;
    http_dispatcher dispatcher_;
    std::unordered_map<std::uint64_t, std::unique_ptr<connection>> connections_;
    std::vector<poll_entry> entries_;
    std::vector<std::uint64_t> polled_;
    std::uint64_t next_ = 1;
    std::size_t memory_ = 0;
    double accept_again_ = 0;
    std::atomic<std::size_t> open_{0};
    answering_threads threads_;  // ends before what it uses
};

}  // namespace

graft::result<std::unique_ptr<http_server>> http_server::listen(http_server_options options) {
    auto made = std::make_unique<poll_server>(std::move(options));
    GRAFT_TRY(made->open());
    return std::unique_ptr<http_server>(std::move(made));
}

}  // namespace program
