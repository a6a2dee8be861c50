// The simulated NCCL among processes: each rank is this program once more, which runs the one test that is skipped elsewhere.
#include "nccl_session.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace simulated;
namespace n = nccl::result;
using nccl_session::devices;
using nccl_session::member;
using nccl_session::new_id;
using floats = std::vector<float>;

std::string hexadecimal(const nccl::unique_id& id) {
    std::string text;
    for (const char c : id.bytes)
        for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
    return text;
}
nccl::unique_id id_of(const std::string& text) {
    nccl::unique_id id;
    for (std::size_t i = 0; i < sizeof id.bytes && 2 * i + 1 < text.size(); ++i) id.bytes[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
    return id;
}
std::string told(const char* name) {
    const char* text = std::getenv(name);
    return text ? text : "";
}

// A rank in a process of its own.
class other_process {
public:
    other_process(const nccl::unique_id& id, int rank, int ranks, int device, const char* what) {
        const std::string id_text = "GRAFT_TEST_ID=" + hexadecimal(id), rank_text = "GRAFT_TEST_RANK=" + std::to_string(rank),
                          ranks_text = "GRAFT_TEST_RANKS=" + std::to_string(ranks), device_text = "GRAFT_TEST_DEVICE=" + std::to_string(device),
                          what_text = std::string("GRAFT_TEST_WHAT=") + what;
        std::vector<const char*> words{"env",
                                       "GRAFT_SIMULATOR_DEVICES=8",
                                       id_text.c_str(),
                                       rank_text.c_str(),
                                       ranks_text.c_str(),
                                       device_text.c_str(),
                                       what_text.c_str(),
                                       self_.c_str(),
                                       "--no-skip",
                                       "--test-case=a rank in a process of its own",
                                       nullptr};
        pid_ = fork();
        REQUIRE(pid_ >= 0);
        if (pid_) return;
        if (const int nothing = open("/dev/null", O_WRONLY); nothing >= 0) dup2(nothing, 1);
        execvp("env", const_cast<char**>(words.data()));
        _exit(127);
    }
    ~other_process() {
        if (pid_ > 0) kill(), end();
    }
    void kill() const { ::kill(pid_, SIGKILL); }
    // Its exit code; -1 where a signal ended it.
    int end() {
        int how = 0;
        waitpid(pid_, &how, 0);
        pid_ = -1;
        return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    }

private:
    static std::string own_path() {
        char path[4096] = "";
        (void)!readlink("/proc/self/exe", path, sizeof path - 1);
        return path;
    }
    const std::string self_ = own_path();
    pid_t pid_ = -1;
};

// Asks until the answer is another one than before, or ten seconds are over.
template <class Ask>
int ask_while(int before, const Ask& ask) {
    int now = ask();
    for (int i = 0; i < 10000 && now == before; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        now = ask();
    }
    return now;
}

// What a rank does, in whichever process: sums, gathers, broadcasts and scatters, each of which the next one reads.
void work(member& m, int rank, int ranks) {
    const auto each = static_cast<std::size_t>(ranks);
    float* a = m.put(floats{static_cast<float>(rank), 10, 0.5f});
    float* all = m.put(floats(3 * each, 0.f));
    float* own = m.put(floats(3, 0.f));
    const float sum = static_cast<float>(ranks * (ranks - 1) / 2), size = static_cast<float>(ranks);
    for (int i = 0; i < 3; ++i) {
        CHECK(m.sum(a, a, 3) == n::success);
        CHECK(nccl_library().ncclAllGather(a, all, 3, nccl::data::float32, m.comm, m.stream) == n::success);
        CHECK(nccl_library().ncclReduceScatter(all, own, 3, nccl::data::float32, nccl::reduction::sum, m.comm, m.stream) == n::success);
        CHECK(m.synchronise() == 0);
        CHECK(m.get(a, 3) == floats{sum, 10 * size, 0.5f * size});
        CHECK(m.get(all + 3 * (each - 1), 3) == floats{sum, 10 * size, 0.5f * size});
        CHECK(m.get(own, 3) == floats{sum * size, 10 * size * size, 0.5f * size * size});
        const float given[] = {static_cast<float>(rank), 10, 0.5f};
        CHECK(cuda().cuMemcpyHtoDAsync_v2(reinterpret_cast<std::uintptr_t>(a), given, sizeof given, m.stream) == 0);
        CHECK(m.synchronise() == 0);
    }
    CHECK(nccl_library().ncclBroadcast(a, a, 3, nccl::data::float32, ranks - 1, m.comm, m.stream) == n::success);
    CHECK(m.synchronise() == 0);
    CHECK(m.get(a, 3) == floats{size - 1, 10, 0.5f});
}

}  // namespace

TEST_CASE("a rank in a process of its own" * doctest::skip()) {
    const nccl::unique_id id = id_of(told("GRAFT_TEST_ID"));
    const int rank = std::stoi(told("GRAFT_TEST_RANK")), ranks = std::stoi(told("GRAFT_TEST_RANKS")), device = std::stoi(told("GRAFT_TEST_DEVICE"));
    const std::string what = told("GRAFT_TEST_WHAT");
    REQUIRE(cuda().cuInit(0) == 0);
    member m(device);
    if (what == "twice") {
        CHECK(m.init(ranks, id, rank, 0) == n::invalid_usage);
        CHECK(count("invalid_comm") == 1);
        return;
    }
    if (what == "another size") {
        CHECK(m.init(ranks, id, rank, 0) == n::invalid_argument);
        CHECK(count("invalid_comm") == 1);
        return;
    }
    if (what == "foreign") {
        CHECK(m.init(ranks, id, rank, 0) == n::invalid_argument);
        return;
    }
    CHECK(m.init(ranks, id, rank) == n::success);
    if (what == "work") {
        work(m, rank, ranks);
    } else if (what == "another call") {
        float* a = m.put(floats(4, 1.f));
        const int put = m.sum(a, a, 4);  // what the other called may be known, or not yet
        CHECK((put == n::success || put == n::invalid_usage));
        CHECK(ask_while(n::success, [&] { return m.error(); }) == n::invalid_usage);
        CHECK(count("collective_mismatch") == 1);
        CHECK(m.abort() == n::success);
        return;
    } else if (what == "wait") {
        for (;;) pause();  // until it is killed
    }
    CHECK(m.destroy() == n::success);
    CHECK(count("problems") == 0);
}

TEST_CASE("Ranks that are processes sum, gather, spread and scatter") {
    for (const int ranks : {2, 4}) {
        CAPTURE(ranks);
        const devices eight("8");
        const nccl::unique_id id = new_id();
        std::vector<std::unique_ptr<other_process>> others;
        for (int r = 1; r < ranks; ++r) others.emplace_back(new other_process(id, r, ranks, r, "work"));
        {
            member m(0);
            CHECK(m.init(ranks, id, 0) == n::success);
            work(m, 0, ranks);
            CHECK(m.destroy() == n::success);
        }
        for (const auto& o : others) CHECK(o->end() == 0);
        CHECK(count("problems") == 0);
    }
}

TEST_CASE("Two ranks of this process and two of others are one comm") {
    const devices eight("8");
    const nccl::unique_id id = new_id();
    other_process third(id, 2, 4, 2, "work"), fourth(id, 3, 4, 3, "work");
    std::vector<std::thread> here;
    for (int r = 0; r < 2; ++r)
        here.emplace_back([&, r] {
            member m(r);
            CHECK(m.init(4, id, r) == n::success);
            work(m, r, 4);
            CHECK(m.destroy() == n::success);
        });
    for (std::thread& t : here) t.join();
    CHECK(third.end() == 0);
    CHECK(fourth.end() == 0);
    CHECK(count("problems") == 0);
}

TEST_CASE("Processes that call different collectives are both told so") {
    const devices eight("8");
    const nccl::unique_id id = new_id();
    other_process second(id, 1, 2, 1, "another call");
    member m(0);
    CHECK(m.init(2, id, 0) == n::success);
    float* a = m.put(floats(4, 1.f));
    const int put = m.sum(a, a, 3);
    CHECK((put == n::success || put == n::invalid_usage));
    CHECK(ask_while(n::success, [&] { return m.error(); }) == n::invalid_usage);
    CHECK(count("collective_mismatch") == 1);
    CHECK(m.synchronise() == 0);
    CHECK(m.get(a, 4) == floats(4, 1.f));
    CHECK(m.abort() == n::success);
    CHECK(second.end() == 0);
    CHECK(count("problems") == 1);
}

TEST_CASE("Processes that come twice, say another size, share a device or have a foreign id are refused") {
    const devices eight("8");
    const nccl::unique_id id = new_id();
    member m(0);
    CHECK(m.init(2, id, 0, 0) == n::in_progress);
    CHECK(other_process(id, 0, 2, 3, "twice").end() == 0);
    CHECK(other_process(id, 1, 3, 3, "another size").end() == 0);
    nccl::unique_id foreign = id;
    foreign.bytes[18] ^= 1;
    CHECK(other_process(foreign, 1, 2, 3, "foreign").end() == 0);
    CHECK(m.error() == n::in_progress);
    other_process shares(id, 1, 2, 0, "twice");
    CHECK(shares.end() == 0);
    CHECK(ask_while(n::in_progress, [&] { return m.error(); }) == n::invalid_usage);
    CHECK(m.abort() == n::success);
}

TEST_CASE("A process that is killed leaves the others waiting, or, where that is set, with an error") {
    for (const bool told : {false, true}) {
        CAPTURE(told);
        const devices eight("8");
        if (told) set("NCCL_LOST", "error");
        const nccl::unique_id id = new_id();
        other_process second(id, 1, 2, 1, "wait");
        member m(0);
        CHECK(m.init(2, id, 0, 0) == n::in_progress);
        CHECK(m.wait() == n::success);
        second.kill();
        CHECK(second.end() == -1);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        float* a = m.put(floats(4, 1.f));
        if (told) {
            CHECK(ask_while(n::success, [&] { return m.error(); }) == n::remote_error);
        } else {
            CHECK(m.sum(a, a, 4) == n::in_progress);
            CHECK(m.wait() == n::success);
            for (int i = 0; i < 50; ++i) CHECK(cuda().cuStreamQuery(m.stream) == driver::result::not_ready);
        }
        CHECK(m.abort() == n::success);
        CHECK(m.synchronise() == 0);
        CHECK(m.get(a, 4) == floats(4, 1.f));
        set("NCCL_LOST", nullptr);
        CHECK(count("problems") == 0);
    }
}
