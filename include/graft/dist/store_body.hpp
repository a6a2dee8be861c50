// Bodies of dist/store.hpp.
#pragma once

#include "../core/clock.hpp"
#include "../core/member_call.hpp"
#include "store_server.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

#if GRAFT_HAS_SOCKETS

// Time that passes while a process is stopped is no waiting.
class store_patience {
public:
    explicit store_patience(double seconds) : left_(seconds), last_(seconds_now()) {}
    double left() {
        const double now = seconds_now();
        left_ -= std::min(1.0, now - last_);
        last_ = now;
        return left_;
    }

private:
    double left_, last_;
};

class tcp_store final : public store {
public:
    explicit tcp_store(const store_options& options) : options_(options), address_(host_and_port(options.host, options.port)) {}
    int rank() const noexcept override { return options_.rank; }
    int size() const noexcept override { return options_.size; }
    double timeout_seconds() const noexcept override { return options_.timeout_seconds; }
    const std::string& address() const noexcept override { return address_; }

    status join() {
        store_patience waiting(options_.timeout_seconds);
        const bool first = options_.rank == 0;
        std::string host = options_.host;
        int port = options_.port;
        if (first) {
            GRAFT_TRY_ASSIGN(server_, store_server::start(host, port, options_.size, options_.timeout_seconds));
            port = server_->port();
            address_ = host_and_port(host, port);
            // Rank 0's name may mean this machine to the others alone.
            if (!is_loopback(host)) host = "localhost";
        }
        GRAFT_TRY_ASSIGN(socket_, connect_to(host, port, seconds_now() + options_.timeout_seconds));
        out_.assign(store_magic, store_magic_bytes);
        put_number(out_, static_cast<std::uint32_t>(options_.rank));
        put_number(out_, static_cast<std::uint32_t>(options_.size));
        // Who has come waits for the others as long as the store does, which began sooner or later, and names who is missing.
        while (!welcome_) {
            GRAFT_TRY(pump(20));
            if (waiting.left() < -2)
                return fail(errc::dist_timeout, address_,
                            greeted_ ? "rank 0 does not tell whether all have come"
                                     : "what listens there does not answer: MASTER_ADDR and MASTER_PORT have to be those of this run's rank 0");
        }
        return {};
    }

    status set(const std::string& key, const std::string& value) override {
        GRAFT_TRY(check(key, value));
        return ask(store_kind::set, keyed(key, value), options_.timeout_seconds, "does not answer").take_status();
    }
    result<std::string> get(const std::string& key, double seconds) override {
        if (status s = check(key, ""); !s.ok()) return s;
        return ask(store_kind::get, keyed(key), seconds, ("has no " + key).c_str());
    }
    result<std::int64_t> add(const std::string& key, std::int64_t amount) override {
        std::string value, sum;
        put_number(value, amount);
        if (status s = check(key, value); !s.ok()) return s;
        GRAFT_TRY_ASSIGN(sum, ask(store_kind::add, keyed(key, value), options_.timeout_seconds, "does not answer"));
        if (sum.size() != 8) return spoil(errc::dist_mismatch, "the store answered what is no number");
        return number_at<std::int64_t>(sum.data());
    }
    status erase(const std::string& key) override {
        GRAFT_TRY(check(key, ""));
        return ask(store_kind::erase, keyed(key), options_.timeout_seconds, "does not answer").take_status();
    }
    status look() override {
        GRAFT_TRY(pump(0));
        return lost_ ? status(*lost_) : status();
    }
    void leave(const error& why) noexcept override {
        if (failed_ || left_) return;
        left_ = true;
        (void)or_out_of_memory<status>("leave", [&]() -> status {
            put_frame(out_, store_kind::leave, 0, (std::string(text(why.code())) + ": " + why.where() + ": " + why.detail()).substr(0, store_limits::text));
            store_patience waiting(0.5);
            while (!out_.empty() && waiting.left() > 0) GRAFT_TRY(pump(10));
            return {};
        });
    }
    status part() override {
        if (left_) return fail(errc::dist_peer_lost, address_, "this process has left");
        left_ = true;
        GRAFT_TRY(ask(store_kind::goodbye, "", options_.timeout_seconds, "does not hear from all others that they have come to their end").take_status());
        // The store lets all go where the last one to be waited for is lost.
        return lost_ ? status(*lost_) : status();
    }

private:
    GRAFT_COLD status check(const std::string& key, const std::string& value) const {
        if (key.empty() || key.size() > store_limits::key)
            return fail(errc::usage, address_,
                        "a key of the store has 1 to " + std::to_string(store_limits::key) + " bytes, not " + std::to_string(key.size()));
        if (value.size() > store_limits::value)
            return fail(errc::usage, address_,
                        "a value of the store has " + std::to_string(store_limits::value) + " bytes at most, not " + std::to_string(value.size()));
        return {};
    }
    GRAFT_COLD status spoil(errc code, const std::string& why) {
        failed_.emplace(fail(code, address_, why).error());
        socket_.close();
        return status(*failed_);
    }
    result<std::string> ask(store_kind kind, const std::string& body, double seconds, const char* late) {
        if (failed_) return status(*failed_);
        const std::uint64_t number = ++asked_;
        put_frame(out_, kind, number, body);
        store_patience waiting(seconds);
        answered_ = 0;
        for (;;) {
            // What has come is read before the time is up, also by a process that was stopped.
            const double left = waiting.left();
            GRAFT_TRY(pump(left > 0 ? 20 : 0));
            if (answered_ == number) break;
            // What a rank set before it left may still be had: all that it told the others is read before its end is.
            if (lost_ && heard_loss_ + 0.1 < seconds_now()) return spoil(lost_->code(), lost_->detail());
            if (left <= 0) {
                char time[32];
                std::snprintf(time, sizeof time, "%g s", seconds);
                return fail(errc::dist_timeout, address_, std::string("the store ") + late + " within " + time);
            }
        }
        if (!refused_) return std::move(answer_);
        return fail(errc::usage, address_, answer_);
    }

    // Sends and receives what can be, waiting so long at most.
    status pump(int milliseconds) {
        if (failed_) return status(*failed_);
        poll_entry entry = {};
        entry.fd = socket_.get();
        entry.events = static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT));
        if (poll_sockets(&entry, 1, milliseconds) <= 0) return {};
        std::string why;
        auto now = tcp_socket::state::open;
        if (!out_.empty()) now = socket_.give(out_, why);
        const auto came = socket_.receive(in_, store_limits::frame + 4, why);
        GRAFT_TRY(hear());
        if (now == tcp_socket::state::open && came == tcp_socket::state::open) return {};
        if (!greeted_)
            return spoil(errc::dist_mismatch,
                         "what listens there is no store of graft: it ended the connection. Another program may have the port, or rank 0 has ended");
        // What a rank said before it took rank 0 with it, or rank 0 itself, tells more.
        return lost_ ? spoil(lost_->code(), lost_->detail()) : spoil(errc::dist_peer_lost, "rank 0 has ended: " + why);
    }
    status hear() {
        if (!greeted_) {
            const std::size_t here = std::min(in_.size(), store_magic_bytes);
            if (std::memcmp(in_.data(), store_magic, std::min(here, store_magic_name)) != 0)
                return spoil(errc::dist_mismatch, "another program listens there, not rank 0 of this run: give MASTER_PORT a port that is free");
            if (here < store_magic_bytes) return {};
            if (std::memcmp(in_.data(), store_magic, store_magic_bytes) != 0) return spoil(errc::dist_mismatch, "rank 0 is of another version of graft");
            in_.erase(0, store_magic_bytes);
            greeted_ = true;
        }
        store_frame frame;
        const char* wrong = nullptr;
        while (take_frame(in_, frame, wrong)) GRAFT_TRY(hear(frame));
        return wrong ? spoil(errc::dist_mismatch, std::string("rank 0 sent ") + wrong) : status();
    }
    status hear(store_frame& frame) {
        switch (frame.kind) {
        case store_kind::welcome: welcome_ = true; return {};
        case store_kind::left:
            if (frame.body.size() < 4) break;
            if (lost_) return {};
            heard_loss_ = seconds_now();
            lost_.emplace(fail(errc::dist_peer_lost, address_,
                               "rank " + std::to_string(number_at<std::uint32_t>(frame.body.data())) + " has left: " + store_text(frame.body.substr(4)))
                              .error());
            return {};
        case store_kind::refused:
            if (frame.body.empty()) break;
            if (frame.number == 0) {
                const auto as = static_cast<store_refusal>(frame.body[0]);
                return spoil(as == store_refusal::late   ? errc::dist_timeout
                             : as == store_refusal::lost ? errc::dist_peer_lost
                                                         : errc::dist_mismatch,
                             store_text(frame.body.substr(1)));
            }
            if (frame.number == asked_) answered_ = frame.number, refused_ = true, answer_ = store_text(frame.body.substr(1));
            return {};
        case store_kind::done:
            // The answer to what was given up is no one's.
            if (frame.number == asked_) answered_ = frame.number, refused_ = false, answer_ = std::move(frame.body);
            return {};
        default: break;
        }
        return spoil(errc::dist_mismatch, "rank 0 sent what is no answer");
    }

    const store_options options_;
    std::string address_;
    std::unique_ptr<store_server> server_;
    tcp_socket socket_;  // closed before the server ends, so that this process is not waited for
    std::string in_, out_, answer_;
    std::uint64_t asked_ = 0, answered_ = 0;
    bool greeted_ = false, welcome_ = false, refused_ = false, left_ = false;
    double heard_loss_ = 0;
    std::optional<error> lost_, failed_;  // another rank's end; this one's last error
};

#endif

// Members that tell each other a few bytes by keys of the store: each call's are the next ones, and forgotten when the call behind it has ended.
class store_control_plane final : public control_plane {
public:
    explicit store_control_plane(std::shared_ptr<store> over) : store_(std::move(over)) {}
    int rank() const noexcept override { return store_->rank(); }
    int size() const noexcept override { return store_->size(); }
    const char* name() const noexcept override { return "store"; }
    double timeout_seconds() const noexcept override { return store_->timeout_seconds(); }
    status look() override { return store_->look(); }
    void leave(const error& why) noexcept override { store_->leave(why); }

    status all_gather(const void* own, std::size_t bytes, void* all) override {
        member_call call;
        call.kind = member_call::gather, call.size = bytes;
        return exchange(call, own, bytes, [&](int q, const char* data) {
            if (bytes) std::memcpy(static_cast<char*>(all) + bytes * static_cast<std::size_t>(q), data, bytes);
        });
    }
    status broadcast(void* data, std::size_t bytes, int from) override {
        if (from < 0 || from >= size()) return fail(errc::usage, store_->address(), "there is no rank " + std::to_string(from) + " to broadcast from");
        member_call call;
        call.kind = member_call::cast, call.size = bytes, call.from = from;
        const bool gives = rank() == from;
        return exchange(call, data, bytes, [&](int q, const char* came) {
            if (q == from && !gives && bytes) std::memcpy(data, came, bytes);
        });
    }
    status barrier() override {
        return exchange(member_call(), nullptr, 0, [](int, const char*) {});
    }

private:
    static constexpr std::size_t most = 32768;

    template <class F>
    status exchange(member_call call, const void* own, std::size_t bytes, const F& take) {
        if (failed_) return status(*failed_);
        if (bytes > most)
            return fail(errc::usage, store_->address(), "the store is for notices of " + std::to_string(most) + " bytes at most, not " + std::to_string(bytes));
        call.sequence = ++calls_;
        status done = or_out_of_memory<status>("store", [&] { return exchange_keys(call, own, bytes, take); });
        if (!done.ok()) failed_.emplace(done.error());
        return done;
    }
    std::string key(std::uint64_t call, int rank) const { return "call/" + std::to_string(call) + "/" + std::to_string(rank); }
    template <class F>
    status exchange_keys(const member_call& call, const void* own, std::size_t bytes, const F& take) {
        std::string said(sizeof call + bytes, 0);
        std::memcpy(&said[0], &call, sizeof call);
        if (bytes) std::memcpy(&said[sizeof call], own, bytes);
        GRAFT_TRY(store_->set(key(call.sequence, rank()), said));
        std::vector<member_call> calls(static_cast<std::size_t>(size()), call);
        std::vector<std::string> came(static_cast<std::size_t>(size()));
        std::vector<int> missing;
        const double until = seconds_now() + timeout_seconds();
        for (int q = 0; q < size(); ++q) {
            if (q == rank()) continue;
            auto got = store_->get(key(call.sequence, q), std::max(until - seconds_now(), 0.05));
            if (!got.ok() && got.error().code() == errc::dist_timeout) {
                missing.push_back(q);
                continue;
            }
            GRAFT_TRY_ASSIGN(came[static_cast<std::size_t>(q)], std::move(got));
            if (came[static_cast<std::size_t>(q)].size() < sizeof call)
                return fail(errc::dist_mismatch, store_->address(), member_list({q}) + " said what is no call");
            std::memcpy(&calls[static_cast<std::size_t>(q)], came[static_cast<std::size_t>(q)].data(), sizeof call);
        }
        if (!missing.empty())
            return fail(errc::dist_timeout, store_->address(),
                        member_list(missing) + " did not come to call " + std::to_string(call.sequence) + " (" + call.text() + ") within " +
                            std::to_string(static_cast<long long>(timeout_seconds())) + " s");
        for (int q = 0; q < size(); ++q) {
            const std::string& data = q == rank() ? said : came[static_cast<std::size_t>(q)];
            if (!alike(calls[static_cast<std::size_t>(q)], call) || data.size() != said.size()) return calls_differ(calls, call, store_->address());
        }
        // All have read what belongs to the call before: they have come to this one.
        if (call.sequence > 1) GRAFT_TRY(store_->erase(key(call.sequence - 1, rank())));
        for (int q = 0; q < size(); ++q) take(q, (q == rank() ? said : came[static_cast<std::size_t>(q)]).data() + sizeof call);
        return {};
    }

    std::shared_ptr<store> store_;
    std::uint64_t calls_ = 0;
    std::optional<error> failed_;
};

}  // namespace detail

inline result<std::shared_ptr<store>> join_store(const store_options& options) GRAFT_MEMORY_TRY {
    using made = result<std::shared_ptr<store>>;
    const std::string where = detail::host_and_port(options.host, options.port);
    const auto wrong = [&](const std::string& why) { return made(fail(errc::usage, where, why)); };
    if (!(options.timeout_seconds > 0)) return wrong("timeout_seconds must be positive");
#if GRAFT_HAS_SOCKETS
    if (options.size < 1 || options.size > detail::store_limits::ranks)
        return wrong("a run has 1 to " + std::to_string(detail::store_limits::ranks) + " ranks, not " + std::to_string(options.size));
    if (options.rank < 0 || options.rank >= options.size)
        return wrong("there is no rank " + std::to_string(options.rank) + " of " + std::to_string(options.size));
    if (options.host.empty() || options.host.size() > 255) return wrong("rank 0's host is not named");
    if (options.port < (options.size == 1 ? 0 : 1) || options.port > 65535) return wrong("a port is 1 to 65535");
    auto one = std::make_shared<detail::tcp_store>(options);
    GRAFT_TRY(one->join());
    return made(std::shared_ptr<store>(std::move(one)));
#else
    return wrong("this system has no sockets by which processes could join");
#endif
}
GRAFT_MEMORY_CATCH("join_store")

inline std::shared_ptr<control_plane> make_control_plane(std::shared_ptr<store> over) { return std::make_shared<detail::store_control_plane>(std::move(over)); }

GRAFT_END_NAMESPACE
