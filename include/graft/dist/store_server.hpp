// The store itself: a thread of rank 0's process that keeps keys, and a connection to each rank by which it hears of its end.
#pragma once

#include "../core/start_thread.hpp"
#include "store_protocol.hpp"
#include "store_socket.hpp"

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if GRAFT_HAS_SOCKETS
GRAFT_BEGIN_NAMESPACE
namespace detail {

class store_server {
public:
    // Listens, and waits for `size` ranks so long. A port of 0: one that is free. Errors: dist.address_in_use, dist.peer_lost.
    static result<std::unique_ptr<store_server>> start(const std::string& host, int port, int size, double seconds) {
        std::unique_ptr<store_server> made(new store_server(size, seconds));
        GRAFT_TRY_ASSIGN(made->listener_, listen_on(host, port));
        made->port_ = port;
        store_server* const self = made.get();
        if (!start_thread(made->thread_, [self] { self->run(); }))
            return fail(errc::memory_oom, host_and_port(host, port), "the system gives no thread for the store");
        return result<std::unique_ptr<store_server>>(std::move(made));
    }
    // What was said to the ranks is on its way before connections close.
    ~store_server() {
        ending_ = true;
        if (thread_.joinable()) thread_.join();
    }
    store_server(const store_server&) = delete;
    store_server& operator=(const store_server&) = delete;
    int port() const { return port_; }

private:
    struct connection {
        tcp_socket socket;
        std::string address, in, out;
        double since = 0;
        int rank = -1;      // -1: it has not said
        bool over = false;  // it hears what is left to say, and no more
        bool said_goodbye = false;
        std::string waits_for;  // a key
        std::uint64_t waits_number = 0, goodbye_number = 0;
    };

    store_server(int size, double seconds) : size_(size), seconds_(seconds), until_(seconds_now() + seconds), ranks_(static_cast<std::size_t>(size), nullptr) {}

    // Where memory is wanting all connections end, by which the ranks hear of it.
    void run() {
        const status served = or_out_of_memory<status>("store", [&]() -> status {
            serve();
            return {};
        });
        if (served.ok()) return;
        for (const auto& c : connections_) c->socket.close();
        listener_.close();
    }
    void serve() {
        double ends = 0;
        std::vector<poll_entry> entries;
        for (;;) {
            const double now = seconds_now();
            if (ending_ && ends == 0) ends = now + 1;
            // What this process said last may have to be read yet, and where the ranks did not come together, late ones are to hear why.
            if (ending_ && (now > ends || (now > ends - 0.94 && all_said() && (!refused_ || heard_ >= size_)))) return;
            entries.assign(1, poll_entry());
            entries[0].fd = listener_.get();
            // Where as many wait as may, further ones wait in the system's queue.
            entries[0].events = (ending_ && !refused_) || strangers() >= store_limits::strangers ? 0 : POLLIN;
            for (const auto& c : connections_) {
                entries.emplace_back();
                entries.back().fd = c->socket.get();
                entries.back().events = static_cast<short>((c->over ? 0 : POLLIN) | (c->out.empty() ? 0 : POLLOUT));
            }
            poll_sockets(entries.data(), entries.size(), 20);
            const std::size_t known = connections_.size();
            for (std::size_t i = 0; i < known; ++i)
                if (entries[i + 1].revents) attend(*connections_[i]);
            if (entries[0].revents) take_in();
            look_at_clock();
            for (const auto& c : connections_) write(*c);
            forget();
        }
    }
    void forget() {
        for (std::size_t i = connections_.size(); i-- > 0;) {
            const connection& c = *connections_[i];
            if (c.socket && !(c.over && c.out.empty())) continue;
            if (c.rank >= 0 && ranks_[static_cast<std::size_t>(c.rank)] == &c) ranks_[static_cast<std::size_t>(c.rank)] = nullptr;
            connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    bool all_said() const {
        for (const auto& c : connections_)
            if (!c->out.empty()) return false;
        return true;
    }
    std::size_t strangers() const {
        std::size_t n = 0;
        for (const auto& c : connections_) n += c->rank < 0;
        return n;
    }
    void take_in() {
        while (strangers() < store_limits::strangers) {
            sockaddr_storage address = {};
            socklen_t bytes = sizeof address;
            tcp_socket made(::accept(listener_.get(), reinterpret_cast<sockaddr*>(&address), &bytes));
            if (!made || !made.prepare()) return;
            connections_.emplace_back(new connection);
            connections_.back()->socket = std::move(made);
            connections_.back()->address = peer_text(reinterpret_cast<const sockaddr*>(&address), bytes);
            connections_.back()->since = seconds_now();
        }
    }

    void attend(connection& c) {
        if (c.over) {
            // It reads no more, or has been told why it ends.
            std::string unread, why;
            if (c.socket.receive(unread, store_limits::frame, why) == tcp_socket::state::closed) c.socket.close();
            return;
        }
        std::string why;
        const auto now = c.socket.receive(c.in, store_limits::frame + 4, why);
        if (c.rank < 0 && !hear_hello(c)) {
            if (now == tcp_socket::state::closed) c.socket.close();
            return;
        }
        const char* wrong = nullptr;
        store_frame frame;
        while (c.rank >= 0 && !c.over && take_frame(c.in, frame, wrong))
            if (!answer(c, frame)) wrong = "what is no request";
        if (wrong) return end(c, std::string("it sent ") + wrong);
        if (now == tcp_socket::state::closed) end(c, why.empty() ? "its connection ended" : why);
    }
    // Whether it is known who it is; else it may yet be.
    bool hear_hello(connection& c) {
        const std::size_t here = std::min(c.in.size(), store_magic_name);
        if (std::memcmp(c.in.data(), store_magic, here) != 0) {
            // Programs that look for open ports come and go; who waits in vain hears that there was one.
            stranger_ = c.address;
            c.socket.close();
            return false;
        }
        if (c.in.size() < store_hello_bytes) return false;
        const auto rank = number_at<std::uint32_t>(c.in.data() + 16), size = number_at<std::uint32_t>(c.in.data() + 20);
        ++heard_;
        const bool version = std::memcmp(c.in.data(), store_magic, store_magic_bytes) == 0;
        c.in.erase(0, store_hello_bytes);
        c.out.append(store_magic, store_magic_bytes);
        const std::string who = "a process at " + c.address;
        std::string wrong;
        if (!version)
            wrong = who + " is of another version of graft";
        else if (size != static_cast<std::uint32_t>(size_))
            wrong =
                who + " says RANK=" + std::to_string(rank) + " of WORLD_SIZE=" + std::to_string(size) + ", and rank 0 has WORLD_SIZE=" + std::to_string(size_);
        else if (rank >= size)
            wrong = who + " says RANK=" + std::to_string(rank) + ", which WORLD_SIZE=" + std::to_string(size_) + " does not have";
        else if (ranks_[rank] || (complete_ && !refused_))
            wrong = "two processes say RANK=" + std::to_string(rank) + ": one at " + (ranks_[rank] ? ranks_[rank]->address : "an address that has gone") +
                    ", and one at " + c.address;
        if (refused_) {
            refuse(c, refused_as_, refused_text_);
            return false;
        }
        if (!wrong.empty()) {
            refuse(c, store_refusal::mismatch, wrong);
            // A run that is at work is not ended by who comes late.
            if (!complete_) give_up(store_refusal::mismatch, wrong);
            return false;
        }
        c.rank = static_cast<int>(rank);
        ranks_[rank] = &c;
        if (++joined_ == size_) {
            complete_ = true;
            for (connection* each : ranks_) put_frame(each->out, store_kind::welcome, 0, "");
        }
        return true;
    }
    void refuse(connection& c, store_refusal as, const std::string& text) {
        std::string body(1, static_cast<char>(as));
        put_frame(c.out, store_kind::refused, 0, body + text.substr(0, store_limits::text));
        c.over = true;
    }
    // The ranks will not come together: all that come are told so.
    void give_up(store_refusal as, const std::string& text) {
        if (refused_) return;
        refused_ = true, refused_as_ = as, refused_text_ = text;
        for (connection* each : ranks_)
            if (each) refuse(*each, as, text);
    }
    // A connection is at its end. The owner of what it was removes it.
    void end(connection& c, const std::string& why) {
        c.over = true;
        c.out.clear();
        c.socket.close();
        if (c.rank < 0) return;
        const int rank = c.rank;
        ranks_[static_cast<std::size_t>(rank)] = nullptr;
        if (!complete_) {
            --joined_;
            return give_up(store_refusal::lost, "rank " + std::to_string(rank) + " at " + c.address + " ended before all had come: " + why);
        }
        if (!c.said_goodbye) tell_lost(c, why);
        part();
    }
    void tell_lost(connection& c, const std::string& why) {
        std::string body;
        put_number(body, static_cast<std::uint32_t>(c.rank));
        body += why.substr(0, store_limits::text);
        for (connection* each : ranks_)
            if (each && each != &c) put_frame(each->out, store_kind::left, 0, body);
        c.said_goodbye = true;
    }
    void part() {
        for (connection* each : ranks_)
            if (each && !each->said_goodbye) return;
        for (connection* each : ranks_)
            if (each && each->goodbye_number) put_frame(each->out, store_kind::done, std::exchange(each->goodbye_number, 0), "");
    }

    // Whether it was a request.
    bool answer(connection& c, const store_frame& frame) {
        std::string key, value;
        if (!complete_ || c.said_goodbye) return false;
        switch (frame.kind) {
        case store_kind::set:
            if (!take_key(frame.body, key, value)) return false;
            return keep(c, frame.number, key, value, "");
        case store_kind::get: {
            if (!take_key(frame.body, key, value) || !value.empty()) return false;
            c.waits_for = key, c.waits_number = frame.number;
            if (const auto at = values_.find(key); at != values_.end()) hand(c, at->second);
            return true;
        }
        case store_kind::add: return add(c, frame);
        case store_kind::erase:
            if (!take_key(frame.body, key, value) || !value.empty()) return false;
            if (const auto at = values_.find(key); at != values_.end()) {
                bytes_ -= at->first.size() + at->second.size();
                values_.erase(at);
            }
            put_frame(c.out, store_kind::done, frame.number, "");
            return true;
        case store_kind::leave: tell_lost(c, frame.body); return true;
        case store_kind::goodbye:
            c.said_goodbye = true, c.goodbye_number = frame.number;
            part();
            return true;
        default: return false;
        }
    }
    void hand(connection& c, const std::string& value) {
        put_frame(c.out, store_kind::done, c.waits_number, value);
        c.waits_for.clear();
    }
    bool add(connection& c, const store_frame& frame) {
        std::string key, value;
        if (!take_key(frame.body, key, value) || value.size() != 8) return false;
        std::int64_t sum = 0;
        const auto amount = number_at<std::int64_t>(value.data());
        if (const auto at = values_.find(key); at != values_.end()) {
            if (at->second.size() != 8) return full(c, frame.number, "what is added to is no number");
            sum = number_at<std::int64_t>(at->second.data());
        }
        using range = std::numeric_limits<std::int64_t>;
        if (amount > 0 ? sum > range::max() - amount : sum < range::min() - amount) return full(c, frame.number, "the sum is too large");
        std::string said;
        put_number(said, sum + amount);
        return keep(c, frame.number, key, said, said);
    }
    bool keep(connection& c, std::uint64_t number, const std::string& key, const std::string& value, const std::string& said) {
        auto at = values_.find(key);
        const std::size_t before = at == values_.end() ? 0 : key.size() + at->second.size();
        if (at == values_.end() && values_.size() >= store_limits::keys) return full(c, number, "the store has as many keys as it may");
        if (bytes_ - before + key.size() + value.size() > store_limits::bytes) return full(c, number, "the store is as full as it may be");
        bytes_ += key.size() + value.size() - before;
        values_[key] = value;
        put_frame(c.out, store_kind::done, number, said);
        for (connection* each : ranks_)
            if (each && each->waits_for == key) hand(*each, value);
        return true;
    }
    bool full(connection& c, std::uint64_t number, const char* why) {
        put_frame(c.out, store_kind::refused, number, std::string(1, static_cast<char>(store_refusal::full)) + why);
        return true;
    }

    void look_at_clock() {
        const double now = seconds_now();
        for (const auto& c : connections_)
            if (c->rank < 0 && !c->over && now - c->since > store_limits::hello_seconds) stranger_ = c->address, c->socket.close();
        if (complete_ || refused_ || now < until_) return;
        std::string missing;
        int count = 0;
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            if (ranks_[r]) continue;
            if (++count <= 16) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
        }
        std::string text = (count == 1 ? "rank " : "ranks ") + missing + (count > 16 ? ", ..." : "") + " of " + std::to_string(size_) +
                           " did not come within " + std::to_string(static_cast<long long>(seconds_)) + " s";
        if (!stranger_.empty()) text += "; what connected from " + stranger_ + " is no process of graft";
        give_up(store_refusal::late, text);
    }
    void write(connection& c) {
        if (!c.socket) return;
        std::string why;
        if (c.out.size() > store_limits::unsent) return end(c, "it does not read what it is sent");
        if (!c.out.empty() && c.socket.give(c.out, why) == tcp_socket::state::closed) end(c, why);
    }

    const int size_;
    const double seconds_, until_;
    int port_ = 0, joined_ = 0, heard_ = 0;  // heard: who said who they are
    tcp_socket listener_;
    std::vector<std::unique_ptr<connection>> connections_;
    std::vector<connection*> ranks_;
    std::map<std::string, std::string> values_;
    std::size_t bytes_ = 0;
    bool complete_ = false, refused_ = false;
    store_refusal refused_as_ = store_refusal::mismatch;
    std::string refused_text_, stranger_;
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
