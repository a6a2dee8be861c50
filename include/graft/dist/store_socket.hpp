// Sockets of TCP as the store needs them, on POSIX and Windows: listening, connecting, bytes that come and go without waiting. In no umbrella: the
// system's headers come with it.
#pragma once

#include "../core/clock.hpp"
#include "../core/error.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// WebAssembly has no sockets.
#if !defined(__wasm__) && !defined(__EMSCRIPTEN__)
#define GRAFT_HAS_SOCKETS 1
#if defined(_WIN32)
// What comes with the sockets is windows.h: as little of it as can be.
#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <winsock2.h>

#include <ws2tcpip.h>
#else
#include <cerrno>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#endif
#else
#define GRAFT_HAS_SOCKETS 0
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

// "127.0.0.1:29500", "[::1]:29500".
inline std::string host_and_port(const std::string& host, int port) {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

#if GRAFT_HAS_SOCKETS

#if defined(_WIN32)
using native_socket = SOCKET;
constexpr native_socket no_socket = INVALID_SOCKET;
using poll_entry = WSAPOLLFD;
namespace socket_error {
constexpr int again = WSAEWOULDBLOCK, in_use = WSAEADDRINUSE, refused_access = WSAEACCES, interrupted = WSAEINTR, under_way = WSAEWOULDBLOCK;
}
inline int last_socket_error() { return WSAGetLastError(); }
inline void close_native(native_socket s) { closesocket(s); }
inline int poll_sockets(poll_entry* entries, std::size_t count, int milliseconds) { return WSAPoll(entries, static_cast<ULONG>(count), milliseconds); }
inline bool make_nonblocking(native_socket s) {
    u_long on = 1;
    return ioctlsocket(s, FIONBIO, &on) == 0;
}
constexpr int send_flags = 0;
#else
using native_socket = int;
constexpr native_socket no_socket = -1;
using poll_entry = pollfd;
namespace socket_error {
constexpr int again = EAGAIN, in_use = EADDRINUSE, refused_access = EACCES, interrupted = EINTR, under_way = EINPROGRESS;
}
inline int last_socket_error() { return errno; }
inline void close_native(native_socket s) { ::close(s); }
inline int poll_sockets(poll_entry* entries, std::size_t count, int milliseconds) { return ::poll(entries, static_cast<nfds_t>(count), milliseconds); }
inline bool make_nonblocking(native_socket s) {
    const int flags = fcntl(s, F_GETFL, 0);
    return flags >= 0 && fcntl(s, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(s, F_SETFD, FD_CLOEXEC) == 0;
}
#if defined(MSG_NOSIGNAL)
constexpr int send_flags = MSG_NOSIGNAL;  // a peer that is gone is an error, no signal
#else
constexpr int send_flags = 0;
#endif
#endif

inline GRAFT_COLD std::string socket_text(int code) {
#if defined(_WIN32)
    return "Winsock error " + std::to_string(code);
#else
    return system_message(code);
#endif
}

// Winsock has to be begun in each process; begun more than once it only counts.
inline bool begin_sockets() {
#if defined(_WIN32)
    WSADATA about;
    static const bool begun = WSAStartup(MAKEWORD(2, 2), &about) == 0;
    return begun;
#else
    return true;
#endif
}

inline bool set_option(native_socket s, int level, int name, int value) {
    return setsockopt(s, level, name, reinterpret_cast<const char*>(&value), sizeof value) == 0;
}

// A connection's far end as numbers.
inline std::string peer_text(const sockaddr* address, socklen_t bytes) {
    char host[64] = "", service[16] = "";
    if (getnameinfo(address, bytes, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0) return "an unknown address";
    return host_and_port(host, std::atoi(service));
}

// A socket that does not block, and is closed with its owner.
class tcp_socket {
public:
    tcp_socket() = default;
    explicit tcp_socket(native_socket s) : socket_(s) {}
    tcp_socket(tcp_socket&& other) noexcept : socket_(std::exchange(other.socket_, no_socket)) {}
    tcp_socket& operator=(tcp_socket&& other) noexcept {
        std::swap(socket_, other.socket_);
        return *this;
    }
    ~tcp_socket() { close(); }
    void close() {
        if (socket_ != no_socket) close_native(std::exchange(socket_, no_socket));
    }
    native_socket get() const { return socket_; }
    explicit operator bool() const { return socket_ != no_socket; }

    // For small messages that are waited for, and so that a far end that has lost its power is noticed at some time.
    bool prepare() {
        if (!make_nonblocking(socket_)) return false;
#if defined(SO_NOSIGPIPE)
        set_option(socket_, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
        return set_option(socket_, IPPROTO_TCP, TCP_NODELAY, 1) && set_option(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
    }

    enum class state { open, closed };
    // Adds to `in` what has come, up to `most` bytes at a time. `why` tells how it ended.
    state receive(std::string& in, std::size_t most, std::string& why) {
        char bytes[16384];
        for (std::size_t got = 0; got < most;) {
            const auto n = recv(socket_, bytes, static_cast<int>(std::min(sizeof bytes, most - got)), 0);
            if (n > 0) {
                in.append(bytes, static_cast<std::size_t>(n));
                got += static_cast<std::size_t>(n);
                continue;
            }
            if (n == 0) {
                why = "it closed the connection";
                return state::closed;
            }
            const int code = last_socket_error();
            if (code == socket_error::interrupted) continue;
            if (code == socket_error::again) return state::open;
            why = socket_text(code);
            return state::closed;
        }
        return state::open;
    }
    // Takes from `out` what the system takes.
    state give(std::string& out, std::string& why) {
        std::size_t at = 0;
        state now = state::open;
        while (at < out.size()) {
            const auto n = ::send(socket_, out.data() + at, static_cast<int>(std::min<std::size_t>(out.size() - at, 1 << 20)), send_flags);
            if (n >= 0) {
                at += static_cast<std::size_t>(n);
                continue;
            }
            const int code = last_socket_error();
            if (code == socket_error::interrupted) continue;
            if (code == socket_error::again) break;
            why = socket_text(code);
            now = state::closed;
            break;
        }
        out.erase(0, at);
        return now;
    }

private:
    native_socket socket_ = no_socket;
};

// The addresses of a host; the system's resolver has its own limit of time.
class host_addresses {
public:
    host_addresses() = default;
    ~host_addresses() {
        if (first_) freeaddrinfo(first_);
    }
    host_addresses(const host_addresses&) = delete;
    host_addresses& operator=(const host_addresses&) = delete;
    // Null as `host`: all of this machine's. Answers with what is wrong, or "".
    std::string find(const char* host, int port, int flags) {
        addrinfo wanted = {};
        wanted.ai_family = AF_UNSPEC;
        wanted.ai_socktype = SOCK_STREAM;
        wanted.ai_flags = flags;
        const int code = getaddrinfo(host, std::to_string(port).c_str(), &wanted, &first_);
        if (code == 0) return "";
        first_ = nullptr;
#if defined(_WIN32)
        return "Winsock error " + std::to_string(code);
#else
        return gai_strerror(code);
#endif
    }
    const addrinfo* first() const { return first_; }

private:
    addrinfo* first_ = nullptr;
};

// Whether it names this machine's loopback and nothing else. Other names are not looked up: a machine's own name may mean its loopback to itself alone.
inline bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || (host.rfind("127.", 0) == 0 && host.find_first_not_of("0123456789.") == std::string::npos);
}

inline result<tcp_socket> listen_at(const addrinfo& at, int& code) {
    tcp_socket made(::socket(at.ai_family, at.ai_socktype, at.ai_protocol));
    code = 0;
    const auto failed = [&] {
        code = last_socket_error();
        return result<tcp_socket>(fail(errc::dist_address_in_use, "listen", socket_text(code)));
    };
    if (!made || !make_nonblocking(made.get())) return failed();
#if defined(_WIN32)
    set_option(made.get(), SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);  // else two processes may have one port
#else
    set_option(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // a port whose last run has just ended is free
#endif
    // One socket for both, so that a port is taken as a whole.
    if (at.ai_family == AF_INET6) set_option(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(made.get(), at.ai_addr, static_cast<socklen_t>(at.ai_addrlen)) != 0 || ::listen(made.get(), 512) != 0) return failed();
    return result<tcp_socket>(std::move(made));
}

// Listens at a port: on the loopback where `host` is that, else on all addresses of this machine. A port of 0: one that is free, told in `port`.
inline result<tcp_socket> listen_on(const std::string& host, int& port) {
    const std::string where = host_and_port(host, port);
    const auto refuse = [&](errc code, const std::string& why) { return result<tcp_socket>(fail(code, where, why)); };
    if (!begin_sockets()) return refuse(errc::dist_peer_lost, "this system's sockets cannot be used");
    host_addresses addresses;
    if (const std::string why = addresses.find(is_loopback(host) ? host.c_str() : nullptr, port, AI_PASSIVE); !why.empty())
        return refuse(errc::dist_peer_lost, "the address cannot be listened at: " + why);
    int code = 0, first_code = 0;
    // IPv6 first: its socket takes IPv4 as well, where the machine has both.
    for (const int family : {AF_INET6, AF_INET})
        for (const addrinfo* a = addresses.first(); a; a = a->ai_next) {
            if (a->ai_family != family) continue;
            auto made = listen_at(*a, code);
            if (made.ok()) {
                sockaddr_storage own = {};
                socklen_t bytes = sizeof own;
                if (getsockname(made->get(), reinterpret_cast<sockaddr*>(&own), &bytes) == 0)
                    port = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                                           : reinterpret_cast<const sockaddr_in&>(own).sin_port);
                return made;
            }
            if (code == socket_error::in_use)
                return refuse(errc::dist_address_in_use,
                              "port " + std::to_string(port) + " is taken by another program of this machine, or by a run that has not ended");
            if (!first_code) first_code = code;
        }
    if (first_code == socket_error::refused_access)
        return refuse(errc::dist_address_in_use, "port " + std::to_string(port) + " may not be listened at by this user: ports below 1024 are the system's");
    return refuse(errc::dist_peer_lost, "the address cannot be listened at: " + socket_text(first_code));
}

// One try of one address; no socket where nobody answers by `until`.
inline tcp_socket connect_once(const addrinfo& at, double until, std::string& why) {
    tcp_socket made(::socket(at.ai_family, at.ai_socktype, at.ai_protocol));
    if (!made || !make_nonblocking(made.get())) {
        why = socket_text(last_socket_error());
        return tcp_socket();
    }
    if (::connect(made.get(), at.ai_addr, static_cast<socklen_t>(at.ai_addrlen)) != 0) {
        if (const int code = last_socket_error(); code != socket_error::under_way) {
            why = socket_text(code);
            return tcp_socket();
        }
        poll_entry entry = {};
        entry.fd = made.get(), entry.events = POLLOUT;
        while (poll_sockets(&entry, 1, 20) <= 0 || !entry.revents)
            if (seconds_now() > until) {
                why = "no answer";
                return tcp_socket();
            }
        int code = 0;
        socklen_t bytes = sizeof code;
        if (getsockopt(made.get(), SOL_SOCKET, SO_ERROR, reinterpret_cast<char*>(&code), &bytes) != 0) code = last_socket_error();
        if (code) {
            why = socket_text(code);
            return tcp_socket();
        }
    }
    // Where nobody listens at a port that the system also gives to who connects, a socket may meet itself.
    sockaddr_storage own = {}, peer = {};
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    if (getsockname(made.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
        getpeername(made.get(), reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 && own_bytes == peer_bytes && std::memcmp(&own, &peer, own_bytes) == 0) {
        why = "nobody listens";
        return tcp_socket();
    }
    if (made.prepare()) return made;
    why = socket_text(last_socket_error());
    return tcp_socket();
}

// Whoever listens may come later: tried until `until`. Errors: dist.timeout, with what was in the way last.
inline result<tcp_socket> connect_to(const std::string& host, int port, double until) {
    std::string why = "no address";
    if (!begin_sockets()) return fail(errc::dist_peer_lost, host_and_port(host, port), "this system's sockets cannot be used");
    const double began = seconds_now();
    for (;;) {
        host_addresses addresses;
        if (const std::string wrong = addresses.find(host.c_str(), port, 0); !wrong.empty()) why = "the host is not found: " + wrong;
        for (const addrinfo* a = addresses.first(); a; a = a->ai_next) {
            const double now = seconds_now();
            // Several addresses share what time is left, so that one behind which nobody is does not take all of it.
            tcp_socket made = connect_once(*a, std::min(until, now + std::max(0.5, (until - now) / 4)), why);
            if (made) return result<tcp_socket>(std::move(made));
        }
        const double now = seconds_now();
        if (now > until) break;
        std::this_thread::sleep_for(std::chrono::duration<double>(std::min(0.5, 0.02 + (now - began) / 8)));
    }
    return fail(errc::dist_timeout, host_and_port(host, port), "rank 0 does not listen there: " + why);
}

#endif

}  // namespace detail
GRAFT_END_NAMESPACE
