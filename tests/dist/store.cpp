// The store by which processes meet without MPI: keys and waits, ranks that do not come, come twice or end, and bytes that no process of graft sends. Ranks
// are threads here; what speaks another protocol are sockets of the test's own.
#include <graft/graft.hpp>
#include <graft/dist/store.hpp>

#include <doctest/doctest.h>

#include "../skipped.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using clock_type = std::chrono::steady_clock;
double seconds_since(clock_type::time_point t) { return std::chrono::duration<double>(clock_type::now() - t).count(); }

// A socket of the loopback that knows nothing of the store.
class plain_socket {
public:
    plain_socket() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) { REQUIRE(socket_ >= 0); }
    explicit plain_socket(int socket) : socket_(socket) {}
    ~plain_socket() { close(); }
    plain_socket(const plain_socket&) = delete;
    plain_socket& operator=(const plain_socket&) = delete;
    void close() {
        if (socket_ >= 0) ::close(socket_);
        socket_ = -1;
    }
    // Port 0: one that is free. Answers with the port.
    int listen(int port = 0) {
        sockaddr_in a = address(port);
        REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0);
        REQUIRE(::listen(socket_, 16) == 0);
        socklen_t bytes = sizeof a;
        REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&a), &bytes) == 0);
        return ntohs(a.sin_port);
    }
    int accept() const { return ::accept(socket_, nullptr, nullptr); }
    void connect(int port) const {
        const sockaddr_in a = address(port);
        for (int i = 0; i < 200; ++i) {
            if (::connect(socket_, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        FAIL("nobody listens");
    }
    void say(const std::string& bytes) const { (void)!::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
    // What comes within the time, until the other side ends; `ended` says whether it did.
    std::string hear(double seconds, bool* ended = nullptr) const {
        std::string all;
        timeval wait{static_cast<time_t>(seconds), static_cast<suseconds_t>((seconds - static_cast<double>(static_cast<long>(seconds))) * 1e6)};
        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        char bytes[512];
        ssize_t n = 0;
        while ((n = ::recv(socket_, bytes, sizeof bytes, 0)) > 0) all.append(bytes, static_cast<std::size_t>(n));
        if (ended) *ended = n == 0 || errno == ECONNRESET;
        return all;
    }

private:
    static sockaddr_in address(int port) {
        sockaddr_in a = {};
        a.sin_family = AF_INET;
        a.sin_port = htons(static_cast<std::uint16_t>(port));
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return a;
    }
    int socket_;
};
int free_port() { return plain_socket().listen(); }

std::string little(std::uint64_t v, int bytes) {
    std::string s;
    for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i) & 255);
    return s;
}
// The first bytes of rank `rank` of `size`, as the protocol has them.
std::string hello(int rank, int size) {
    return std::string("graft store 01\r\n") + little(static_cast<std::uint64_t>(rank), 4) + little(static_cast<std::uint64_t>(size), 4);
}
std::string frame(int kind, const std::string& body) { return little(9 + body.size(), 4) + little(static_cast<std::uint64_t>(kind), 1) + little(1, 8) + body; }

graft::store_options at(int port, int rank, int size, double seconds = 20, const char* host = "127.0.0.1") {
    graft::store_options o;
    o.host = host, o.port = port, o.rank = rank, o.size = size, o.timeout_seconds = seconds;
    return o;
}
using ending = std::vector<graft::status>;
using work = std::function<graft::status(graft::store&)>;

// Each of the options is a rank in a thread of its own, which joins and does its work; what it came to.
ending run(const std::vector<graft::store_options>& ranks, const work& each) {
    ending ends(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i)
        threads.emplace_back([&, i] {
            auto joined = graft::join_store(ranks[i]);
            ends[i] = joined.ok() ? each(**joined) : joined.take_status();
        });
    for (std::thread& t : threads) t.join();
    return ends;
}
ending run(int size, const work& each, double seconds = 20, const char* host = "127.0.0.1") {
    std::vector<graft::store_options> ranks;
    const int port = free_port();
    for (int r = size; r-- > 0;) ranks.push_back(at(port, r, size, seconds, host));  // rank 0 comes last
    ending ends = run(ranks, each);
    std::reverse(ends.begin(), ends.end());
    return ends;
}
void check_ok(const ending& ends) {
    for (const graft::status& s : ends) CHECK_MESSAGE(s.ok(), (s.ok() ? "" : s.error().detail()));
}
void check_error(const graft::status& s, graft::errc code, const std::string& says) {
    REQUIRE(!s.ok());
    CHECK_MESSAGE(s.error().code() == code, s.error().detail());
    CHECK_MESSAGE(s.error().detail().find(says) != std::string::npos, s.error().detail());
}
graft::status expect(bool right, const char* what) { return right ? graft::status() : graft::fail(graft::errc::internal, "test", what); }

}  // namespace

TEST_CASE("values that one rank sets are read by others, who wait for them") {
    for (int size : {1, 2, 5}) {
        check_ok(run(size, [size](graft::store& s) -> graft::status {
            const std::string own = "from " + std::to_string(s.rank()), binary("\0\1\2", 3);
            // What is waited for is set later.
            if (s.rank() == size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
            GRAFT_TRY(s.set(own, own + binary));
            for (int r = 0; r < size; ++r) {
                std::string got;
                GRAFT_TRY_ASSIGN(got, s.get("from " + std::to_string(r), 10));
                GRAFT_TRY(expect(got == "from " + std::to_string(r) + binary, "another value"));
            }
            std::int64_t sum = 0;
            GRAFT_TRY_ASSIGN(sum, s.add("count", s.rank() + 1));
            GRAFT_TRY(expect(sum >= s.rank() + 1, "a sum too low"));
            GRAFT_TRY(s.part());
            return {};
        }));
    }
}

TEST_CASE("numbers are added up, by all ranks at once, and not past their ends") {
    std::vector<std::int64_t> last(4);
    check_ok(run(4, [&](graft::store& s) -> graft::status {
        for (int i = 0; i < 50; ++i) GRAFT_TRY_ASSIGN(last[static_cast<std::size_t>(s.rank())], s.add("n", i % 2 ? 3 : -1));
        return s.part();
    }));
    CHECK(*std::max_element(last.begin(), last.end()) >= 199);  // the sum is 200; before the very last of all it may have been 201
    check_ok(run(1, [](graft::store& s) -> graft::status {
        const std::int64_t most = std::numeric_limits<std::int64_t>::max();
        std::int64_t sum = 0;
        GRAFT_TRY_ASSIGN(sum, s.add("n", most));
        GRAFT_TRY(expect(sum == most, "not the largest"));
        check_error(s.add("n", 1).take_status(), graft::errc::usage, "too large");
        GRAFT_TRY_ASSIGN(sum, s.add("n", -1));
        GRAFT_TRY(expect(sum == most - 1, "an error changed it"));
        GRAFT_TRY(s.set("text", "abc"));
        check_error(s.add("text", 1).take_status(), graft::errc::usage, "no number");
        GRAFT_TRY(s.erase("text"));
        GRAFT_TRY_ASSIGN(sum, s.add("text", 5));
        GRAFT_TRY(expect(sum == 5, "what was erased is there"));
        return {};
    }));
}

TEST_CASE("a wait for what nobody sets ends in time, and the store goes on") {
    check_ok(run(2, [](graft::store& s) -> graft::status {
        if (s.rank() == 1) {
            const auto began = clock_type::now();
            check_error(s.get("nothing", 0.3).take_status(), graft::errc::dist_timeout, "has no nothing within 0.3 s");
            CHECK(seconds_since(began) < 5);
            CHECK(seconds_since(began) >= 0.29);
            // An answer that comes late is not taken for that to another question.
            GRAFT_TRY(s.set("nothing", "late"));
            GRAFT_TRY(s.set("other", "right"));
            std::string got;
            GRAFT_TRY_ASSIGN(got, s.get("other", 10));
            GRAFT_TRY(expect(got == "right", "the answer to another question"));
        }
        return s.part();
    }));
}

TEST_CASE("keys and values have limits, and so has all together") {
    check_ok(run(1, [](graft::store& s) -> graft::status {
        check_error(s.set("", "x"), graft::errc::usage, "a key of the store has 1 to 256 bytes");
        check_error(s.get(std::string(257, 'k'), 1).take_status(), graft::errc::usage, "257");
        check_error(s.set("k", std::string(65537, 'v')), graft::errc::usage, "65536 bytes at most");
        GRAFT_TRY(s.set(std::string(256, 'k'), std::string(65536, 'v')));
        std::string got;
        GRAFT_TRY_ASSIGN(got, s.get(std::string(256, 'k'), 1));
        GRAFT_TRY(expect(got == std::string(65536, 'v'), "another value"));
        graft::status last;
        int kept = 0;
        for (; kept < 2000 && last.ok(); ++kept) last = s.set("k" + std::to_string(kept), std::string(65536, 'v'));
        check_error(last, graft::errc::usage, "as full as it may be");
        CHECK(kept > 1000);
        GRAFT_TRY(s.erase("k0"));
        GRAFT_TRY(s.set("again", std::string(60000, 'v')));
        return s.part();
    }));
}

TEST_CASE("options that cannot be are refused before anybody is asked") {
    check_error(graft::join_store(at(29500, 2, 2)).take_status(), graft::errc::usage, "no rank 2 of 2");
    check_error(graft::join_store(at(29500, -1, 2)).take_status(), graft::errc::usage, "no rank -1");
    check_error(graft::join_store(at(29500, 0, 5000)).take_status(), graft::errc::usage, "1 to 4096 ranks");
    check_error(graft::join_store(at(0, 0, 2)).take_status(), graft::errc::usage, "a port is 1 to 65535");
    check_error(graft::join_store(at(70000, 0, 2)).take_status(), graft::errc::usage, "a port is 1 to 65535");
    check_error(graft::join_store(at(29500, 0, 2, 20, "")).take_status(), graft::errc::usage, "not named");
    check_error(graft::join_store(at(29500, 0, 2, 0)).take_status(), graft::errc::usage, "timeout_seconds");
}

TEST_CASE("a port that is taken is named") {
    plain_socket other;
    const int port = other.listen();
    for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0"})
        check_error(graft::join_store(at(port, 0, 2, 5, host)).take_status(), graft::errc::dist_address_in_use, "port " + std::to_string(port) + " is taken");
    // Free again, it is listened at, also where a connection to it has just ended.
    other.close();
    for (int i = 0; i < 2; ++i) check_ok(run({at(port, 0, 2), at(port, 1, 2)}, [](graft::store& s) { return s.part(); }));
}

TEST_CASE("two processes of one rank, or of worlds of two sizes, are told so, and so are all that wait with them") {
    {
        const int port = free_port();
        const auto began = clock_type::now();
        for (const graft::status& s : run({at(port, 0, 3), at(port, 1, 3), at(port, 1, 3)}, [](graft::store& s) { return s.part(); }))
            check_error(s, graft::errc::dist_mismatch, "two processes say RANK=1");
        CHECK(seconds_since(began) < 10);
    }
    const int port = free_port();
    for (const graft::status& s : run({at(port, 0, 3), at(port, 1, 3), at(port, 2, 4)}, [](graft::store& s) { return s.part(); }))
        check_error(s, graft::errc::dist_mismatch, "says RANK=2 of WORLD_SIZE=4, and rank 0 has WORLD_SIZE=3");
}

TEST_CASE("who comes to a run that is complete is turned away, and the run goes on") {
    const int port = free_port();
    check_ok(run({at(port, 0, 2), at(port, 1, 2)}, [port](graft::store& s) -> graft::status {
        if (s.rank() == 1) check_error(graft::join_store(at(port, 1, 2)).take_status(), graft::errc::dist_mismatch, "two processes say RANK=1");
        return s.part();
    }));
}

TEST_CASE("ranks that do not come are named to those that wait") {
    const int port = free_port();
    const auto began = clock_type::now();
    for (const graft::status& s : run({at(port, 0, 4, 1), at(port, 2, 4, 1)}, [](graft::store& s) { return s.part(); }))
        check_error(s, graft::errc::dist_timeout, "ranks 1, 3 of 4 did not come within 1 s");
    CHECK(seconds_since(began) < 8);
    // Rank 0 itself.
    check_error(graft::join_store(at(port, 1, 2, 0.5)).take_status(), graft::errc::dist_timeout, "rank 0 does not listen there");
    check_error(graft::join_store(at(port, 1, 2, 0.5, "no-such-host.invalid")).take_status(), graft::errc::dist_timeout, "the host is not found");
}

TEST_CASE("another program at the port is told from rank 0") {
    for (const std::string greeting : {"SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "graft store 99\r\n", ""}) {
        plain_socket other;
        const int port = other.listen();
        std::thread program([&] {
            plain_socket one(other.accept());
            one.say(greeting);
            one.hear(greeting.empty() ? 4 : 0.2);
        });
        const auto began = clock_type::now();
        const graft::status joined = graft::join_store(at(port, 1, 2, 1)).take_status();
        if (greeting.empty())
            check_error(joined, graft::errc::dist_timeout, "does not answer");
        else
            check_error(joined, graft::errc::dist_mismatch, greeting[0] == 'g' ? "another version of graft" : "another program listens there");
        CHECK(seconds_since(began) < 8);
        program.join();
    }
}

TEST_CASE("strangers at rank 0's port do not disturb those that come, and are named where nobody does") {
    const int port = free_port();
    std::thread strangers([&] {
        std::mt19937 random(7);
        for (int i = 0; i < 100; ++i) {
            plain_socket one;
            one.connect(port);
            std::string bytes(random() % 100, 0);
            for (char& c : bytes) c = static_cast<char>(random());
            one.say(i % 2 ? bytes : hello(0, 2).substr(0, random() % 24) + bytes.substr(0, i % 4 ? 0 : 1));
            if (i % 3 == 0) one.hear(0.01);
        }
    });
    const auto late = [&](int rank) {
        auto o = at(port, rank, 2);
        return o;
    };
    check_ok(run({late(0), late(1)}, [&](graft::store& s) -> graft::status {
        if (s.rank() == 0) strangers.join();
        return s.part();
    }));

    const int other = free_port();
    std::thread stranger([&] {
        plain_socket one;
        one.connect(other);
        one.say("GET / HTTP/1.1\r\n\r\n");
        bool ended = false;
        CHECK(one.hear(5, &ended).empty());
        CHECK(ended);
    });
    check_error(graft::join_store(at(other, 0, 2, 1)).take_status(), graft::errc::dist_timeout, "is no process of graft");
    stranger.join();
}

TEST_CASE("bytes that are no requests end the rank that sent them, and the others hear of it") {
    const std::string bad[] = {std::string("\xff\xff\xff\xff", 4),        // a length of four GiB
                               little(8, 4) + std::string(8, 0),          // shorter than a head
                               little(9 + 2 + 256 + 65536 + 1, 4) + "x",  // one byte too long
                               frame(99, ""),                             // no such kind
                               frame(16, ""),
                               frame(18, little(0, 4)),
                               frame(19, "x"),  // what only the store says
                               frame(1, ""),
                               frame(1, little(0, 2) + "v"),                      // no key
                               frame(1, little(300, 2) + std::string(300, 'k')),  // too long a key
                               frame(1, little(9, 2) + "k"),                      // a key past the end
                               frame(2, little(1, 2) + "kv"),                     // a value where none belongs
                               frame(3, little(1, 2) + "k1234567")};              // a number of seven bytes
    for (const std::string& bytes : bad) {
        const int port = free_port();
        std::thread hostile([&] {
            plain_socket one;
            one.connect(port);
            one.say(hello(1, 3) + "");
            // Only when all have come it may speak.
            std::this_thread::sleep_for(std::chrono::milliseconds(150));
            one.say(bytes);
            bool ended = false;
            one.hear(10, &ended);
            CHECK(ended);
        });
        const auto began = clock_type::now();
        for (const graft::status& s : run({at(port, 0, 3), at(port, 2, 3)}, [](graft::store& s) -> graft::status { return s.get("never", 10).take_status(); }))
            check_error(s, graft::errc::dist_peer_lost, "rank 1");
        CHECK(seconds_since(began) < 8);
        hostile.join();
    }
}

TEST_CASE("random bytes of a rank end it, and nothing else") {
    std::mt19937 random(11);
    for (int round = 0; round < 20; ++round) {
        const int port = free_port();
        std::string bytes;
        for (int i = 0; i < 40; ++i) {
            std::string body(random() % 40, 0);
            for (char& c : body) c = static_cast<char>(random() % 8);
            // No goodbye, behind which nobody misses it.
            bytes += frame(static_cast<int>(random() % 5), little(random() % 20, 2) + body);
        }
        bytes += std::string(4, '\xff');
        std::thread hostile([&] {
            plain_socket one;
            one.connect(port);
            one.say(hello(1, 2));
            std::this_thread::sleep_for(std::chrono::milliseconds(60));
            one.say(bytes);
            one.hear(10);
        });
        check_error(run({at(port, 0, 2)}, [](graft::store& s) -> graft::status { return s.get("never", 10).take_status(); })[0], graft::errc::dist_peer_lost,
                    "rank 1");
        hostile.join();
    }
}

TEST_CASE("a rank that ends without goodbye is noticed by those that look, those that wait and those that part") {
    for (int how = 0; how < 3; ++how) {
        const int port = free_port();
        std::thread dies([&] {
            plain_socket one;
            one.connect(port);
            one.say(hello(2, 3));
            one.hear(0.3);
        });
        const auto began = clock_type::now();
        const ending ends = run({at(port, 0, 3), at(port, 1, 3)}, [how](graft::store& s) -> graft::status {
            if (how == 1) return s.get("never", 10).take_status();
            if (how == 2) return s.part();
            for (;;) {
                GRAFT_TRY(s.look());
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
        });
        for (const graft::status& s : ends) check_error(s, graft::errc::dist_peer_lost, "rank 2 has left: it closed the connection");
        CHECK(seconds_since(began) < 5);
        dies.join();
    }
    // Before all have come.
    const int port = free_port();
    std::thread dies([&] {
        plain_socket one;
        one.connect(port);
        one.say(hello(2, 3));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
    check_error(graft::join_store(at(port, 0, 3)).take_status(), graft::errc::dist_peer_lost, "rank 2 at 127.0.0.1:");
    dies.join();
}

TEST_CASE("rank 0 that ends is noticed by all, and what a rank says at its end is heard") {
    const ending gone = run(3, [](graft::store& s) -> graft::status { return s.rank() == 0 ? graft::status() : s.get("never", 10).take_status(); });
    CHECK(gone[0].ok());
    for (int r : {1, 2}) check_error(gone[static_cast<std::size_t>(r)], graft::errc::dist_peer_lost, "rank 0 has");
    for (int who : {0, 1}) {
        const ending told = run(3, [who](graft::store& s) -> graft::status {
            if (s.rank() != who) return s.get("never", 10).take_status();
            s.leave(graft::fail(graft::errc::data_open, "photos/a.png", "is\nnot there").error());
            return {};
        });
        for (int r : {0, 1, 2})
            if (r != who)
                check_error(told[static_cast<std::size_t>(r)], graft::errc::dist_peer_lost,
                            "rank " + std::to_string(who) + " has left: data.open: photos/a.png: is not there");
    }
}

TEST_CASE("parting waits for who is late") {
    const auto began = clock_type::now();
    check_ok(run(3, [](graft::store& s) -> graft::status {
        if (s.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        GRAFT_TRY(s.part());
        return {};
    }));
    CHECK(seconds_since(began) >= 0.3);
    const ending late = run(
        2,
        [](graft::store& s) -> graft::status {
            if (s.rank() == 0) return s.part();
            std::this_thread::sleep_for(std::chrono::milliseconds(1500));
            return {};
        },
        0.6);
    check_error(late[0], graft::errc::dist_timeout, "does not hear from all others");
}

TEST_CASE("IPv6 and names of the loopback serve as well") {
    check_ok(run(
        2, [](graft::store& s) { return s.part(); }, 20, "localhost"));
    const int v6 = ::socket(AF_INET6, SOCK_STREAM, 0);
    sockaddr_in6 a = {};
    a.sin6_family = AF_INET6;
    a.sin6_addr = in6addr_loopback;
    const bool has = v6 >= 0 && ::bind(v6, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
    if (v6 >= 0) ::close(v6);
    if (!has) return say_skipped("this machine has no IPv6");
    check_ok(run(
        2,
        [](graft::store& s) -> graft::status {
            GRAFT_TRY(expect(s.address().rfind("[::1]:", 0) == 0, "not the address that was given"));
            return s.part();
        },
        20, "::1"));
}

TEST_CASE("a control plane over the store gathers and hands round a few bytes, and tells calls apart") {
    for (int size : {1, 2, 4}) {
        check_ok(run(size, [size](graft::store& s) -> graft::status {
            // Shared by name alone: the test holds the store.
            const auto plane = graft::make_control_plane(std::shared_ptr<graft::store>(&s, [](graft::store*) {}));
            CHECK(std::string(plane->name()) == "store");
            for (int i = 0; i < 20; ++i) {
                const int own = plane->rank() * 100 + i;
                std::vector<int> all(static_cast<std::size_t>(size));
                GRAFT_TRY(plane->all_gather(&own, sizeof own, all.data()));
                for (int r = 0; r < size; ++r) GRAFT_TRY(expect(all[static_cast<std::size_t>(r)] == r * 100 + i, "another number"));
                int given = plane->rank() == i % size ? i : -1;
                GRAFT_TRY(plane->broadcast(&given, sizeof given, i % size));
                GRAFT_TRY(expect(given == i, "another broadcast"));
                GRAFT_TRY(plane->barrier());
            }
            std::vector<char> much(40000);
            check_error(plane->broadcast(much.data(), much.size(), 0), graft::errc::usage, "32768 bytes at most");
            check_error(plane->broadcast(much.data(), 1, size), graft::errc::usage, "no rank");
            return s.part();
        }));
    }
    const ending differ = run(3, [](graft::store& s) -> graft::status {
        const auto plane = graft::make_control_plane(std::shared_ptr<graft::store>(&s, [](graft::store*) {}));
        std::int64_t own = 1, all[3];
        const graft::status first = s.rank() == 1 ? plane->barrier() : plane->all_gather(&own, sizeof own, all);
        CHECK(!first.ok());
        return plane->barrier();  // after an error nothing succeeds
    });
    for (const graft::status& s : differ) check_error(s, graft::errc::dist_mismatch, "members 0, 2 call all_gather of 8 bytes; member 1 calls barrier");
    const ending late = run(
        3,
        [](graft::store& s) -> graft::status {
            const auto plane = graft::make_control_plane(std::shared_ptr<graft::store>(&s, [](graft::store*) {}));
            graft::status done = s.rank() == 1 ? graft::status() : plane->barrier();
            std::this_thread::sleep_for(std::chrono::milliseconds(s.rank() == 1 ? 1500 : 500));
            return done;
        },
        0.5);
    for (int r : {0, 2}) check_error(late[static_cast<std::size_t>(r)], graft::errc::dist_timeout, "member 1 did not come to call 1 (barrier)");
}
