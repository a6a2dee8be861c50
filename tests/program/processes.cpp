// Processes that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell of each other: they train by NCCL on posed devices as one process does on one, and end
// together where one of them ends.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using program_test::done;
using program_test::graft_program;

const std::string clean =
    "env -u CUDA_VISIBLE_DEVICES -u GRAFT_DEVICE -u GRAFT_REQUIRE_GPU -u LD_LIBRARY_PATH -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE -u WORLD_SIZE "
    "-u RANK -u LOCAL_RANK -u MASTER_ADDR -u MASTER_PORT ";

// A port of the loopback, taken as long as this lives unless it is let go.
class port {
public:
    port() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in a = {};
        a.sin_family = AF_INET;
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof a;
        REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0);
        REQUIRE(::listen(socket_, 8) == 0);
        REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&a), &bytes) == 0);
        number = ntohs(a.sin_port);
    }
    ~port() { let_go(); }
    port(const port&) = delete;
    port& operator=(const port&) = delete;
    void let_go() {
        if (socket_ >= 0) ::close(socket_);
        socket_ = -1;
    }
    int number = 0;

private:
    int socket_;
};

std::string told(int rank, int size, int at) {
    return "RANK=" + std::to_string(rank) + " WORLD_SIZE=" + std::to_string(size) + " LOCAL_RANK=" + std::to_string(rank) +
           " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(at) + " ";
}
bool says(const done& d, const std::string& code, const std::string& text) { return d.refused(code.c_str()) && contains(d.last(), text); }

}  // namespace

TEST_CASE("a variable of the launcher that is missing or cannot be is named") {
    const made_folder folder;
    const auto refused = [&](const std::string& variables, const std::string& variable) {
        CAPTURE(variables);
        const done d = graft_program("evaluate no_model.onnx " + folder.path + " --device cuda", clean + variables);
        CAPTURE(d.err);
        CHECK(d.code == 2);
        CHECK(d.last().rfind("graft: error: usage: " + variable + ": ", 0) == 0);
    };
    refused("WORLD_SIZE=0 RANK=0 ", "WORLD_SIZE");
    refused("WORLD_SIZE=two RANK=0 ", "WORLD_SIZE");
    refused("WORLD_SIZE=2 ", "RANK");
    refused("WORLD_SIZE=2 RANK=2 ", "RANK");
    refused("WORLD_SIZE=2 RANK=-1 ", "RANK");
    refused("WORLD_SIZE=2 RANK=1 MASTER_PORT=29500 ", "MASTER_ADDR");
    refused("WORLD_SIZE=2 RANK=1 MASTER_ADDR=127.0.0.1 ", "MASTER_PORT");
    refused("WORLD_SIZE=2 RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=99999 ", "MASTER_PORT");
}

TEST_CASE("on CPUs processes without MPI are told both ways to join") {
    const made_folder folder;
    const done d = graft_program("evaluate no_model.onnx " + folder.path + " --device cpu", clean + told(0, 2, 29500));
    CHECK(d.code == 1);
    CHECK(d.refused("dist.no_mpi"));
    CHECK(contains(d.last(), "--device cuda"));
    CHECK(contains(d.last(), "-DGRAFT_MPI=ON"));
}

#ifdef GRAFT_CUDA_SIMULATOR
namespace {

const std::string posed = clean + "GRAFT_CUDA_PATH=" GRAFT_CUDA_SIMULATOR " GRAFT_CACHE_DIR=" GRAFT_CUDA_SIMULATOR "/cache GRAFT_SIMULATOR_DEVICES=4 ";

// Pictures of two classes: dark ones and bright ones.
void put_grays(const made_folder& folder) {
    for (int i = 0; i < 12; ++i)
        for (const bool bright : {false, true}) {
            std::string pixels(28 * 28, '\0');
            for (std::size_t p = 0; p < pixels.size(); ++p)
                pixels[p] = static_cast<char>((bright ? 160 : 20) + (p * 7 + static_cast<std::size_t>(i) * 13) % 60);
            folder.put((i < 8 ? "train/" : "val/") + std::string(bright ? "bright/" : "dark/") + std::to_string(i) + ".pgm", "P5 28 28 255\n" + pixels);
        }
}
std::string lenet(const made_folder& folder, const std::string& out) {
    return "train " + folder.path + " --arch lenet --batch 8 --lr 0.01 --threads 1 --precision float32 --json --out " + folder.path + "/" + out + " ";
}

struct rank {
    std::string arguments, variables;
};
// All at once; what each came to.
std::vector<done> run(const std::vector<rank>& ranks) {
    std::vector<done> ends(ranks.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i) threads.emplace_back([&, i] { ends[i] = graft_program(ranks[i].arguments, posed + ranks[i].variables); });
    for (std::thread& t : threads) t.join();
    return ends;
}
std::vector<done> run(int size, const std::string& arguments) {
    std::vector<rank> ranks;
    port at;
    at.let_go();
    for (int r = 0; r < size; ++r) ranks.push_back({arguments, told(r, size, at.number)});
    return run(ranks);
}
}  // namespace

TEST_CASE("two and four processes that NCCL joins learn what one process learns on one device") {
    const made_folder folder;
    put_grays(folder);
    const done one = graft_program(lenet(folder, "one") + "--epochs 2 --device cuda:0", posed);
    CAPTURE(one.err);
    REQUIRE(one.code == 0);
    for (const int size : {2, 4}) {
        const std::string out = "of" + std::to_string(size);
        const std::vector<done> all = run(size, lenet(folder, out) + "--epochs 2 --device cuda");
        for (const done& d : all) CHECK_MESSAGE(d.code == 0, d.err);
        CHECK(all[0].number("loss") == doctest::Approx(one.number("loss")).epsilon(1e-4));
        CHECK(all[0].number("best_top1") == one.number("best_top1"));
        CHECK(all[0].has("\"device\":\"cuda:0\""));
        // Rank 0 alone speaks and writes.
        for (int r = 1; r < size; ++r) CHECK(all[static_cast<std::size_t>(r)].out.empty());
        const std::string a = folder.path + "/one/model.onnx", b = folder.path + "/" + out + "/model.onnx";
        CHECK(file_contents(a).size() == file_contents(b).size());
        const std::string log = file_contents(folder.path + "/" + out + "/metrics.jsonl");
        CHECK(contains(log, "\"members\":[{\"rank\":0,"));
        CHECK(contains(log, "{\"rank\":" + std::to_string(size - 1) + ","));
        const std::string score = "evaluate --device cpu --json ";
        const done first = graft_program(score + a + " " + folder.path + "/val", clean), second = graft_program(score + b + " " + folder.path + "/val", clean);
        REQUIRE(first.code == 0);
        CHECK(second.number("loss") == doctest::Approx(first.number("loss")).epsilon(1e-4));
    }
}

TEST_CASE("processes that NCCL joins exchange beside the backward pass, which changes no byte, and a trace shows it") {
    const made_folder folder;
    put_grays(folder);
    const std::string trace = folder.path + "/trace.json";
    for (const done& d : run(2, lenet(folder, "beside") + "--epochs 2 --device cuda --trace " + trace)) CHECK_MESSAGE(d.code == 0, d.err);
    for (const done& d : run(2, lenet(folder, "between") + "--epochs 2 --device cuda --no-overlap")) CHECK_MESSAGE(d.code == 0, d.err);
    const std::string beside = file_contents(folder.path + "/beside/model.onnx");
    CHECK_FALSE(beside.empty());
    CHECK(beside == file_contents(folder.path + "/between/model.onnx"));
    const std::string events = file_contents(trace);
    for (const char* member : {"0", "1"})
        CHECK_MESSAGE(contains(events, "\"cat\":\"exchange\",\"pid\":" + std::string(member) + ",\"tid\":1,"), events.substr(0, 2000));
}

TEST_CASE("processes that NCCL joins score what one scores") {
    const made_folder folder;
    put_grays(folder);
    REQUIRE(graft_program(lenet(folder, "one") + "--epochs 2 --device cpu", clean).code == 0);
    const std::string verb = "evaluate " + folder.path + "/one/model.onnx " + folder.path + "/val --batch 3 --precision float32 --json --device ";
    const done one = graft_program(verb + "cuda:0", posed);
    REQUIRE(one.code == 0);
    const std::vector<done> two = run(2, verb + "cuda");
    for (const done& d : two) CHECK_MESSAGE(d.code == 0, d.err);
    CHECK(two[0].number("images") == 8);
    CHECK(two[0].number("top1") == one.number("top1"));
    CHECK(two[1].out.empty());
}

TEST_CASE("a rank that is killed ends the others, by name and in time") {
    for (const int victim : {1, 0}) {
        CAPTURE(victim);
        const made_folder folder;
        put_grays(folder);
        port at;
        at.let_go();
        const std::string verb = lenet(folder, "out") + "--epochs 100000 --timeout 60 --device cuda";
        std::vector<done> ends(3);
        std::vector<std::thread> threads;
        for (int r = 0; r < 3; ++r)
            threads.emplace_back([&, r] {
                const std::string pid = folder.path + "/pid" + std::to_string(r);
                ends[static_cast<std::size_t>(r)] = graft_program(verb, posed + told(r, 3, at.number) + "sh -c 'echo $$ >" + pid + "; exec \"$0\" \"$@\"' ");
            });
        const std::string log = folder.path + "/out/metrics.jsonl";
        for (int i = 0; i < 6000 && file_contents(log).empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK_FALSE(file_contents(log).empty());
        const auto killed = std::chrono::steady_clock::now();
        ::kill(std::atoi(file_contents(folder.path + "/pid" + std::to_string(victim)).c_str()), SIGKILL);
        for (std::thread& t : threads) t.join();
        // Long before the time that they wait for each other.
        CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count() < 30);
        for (int r = 0; r < 3; ++r) {
            const done& d = ends[static_cast<std::size_t>(r)];
            CAPTURE(r);
            CAPTURE(d.err);
            if (r == victim) continue;
            CHECK(d.code == 1);
            CHECK(says(d, "dist.peer_lost", "rank " + std::to_string(victim)));
        }
    }
}

TEST_CASE("a port that is taken is named, and all ranks end") {
    const made_folder folder;
    put_grays(folder);
    const port taken;
    const std::string verb = lenet(folder, "out") + "--epochs 1 --timeout 3 --device cuda";
    const std::vector<done> all = run({{verb, told(0, 2, taken.number)}, {verb, told(1, 2, taken.number)}});
    CHECK(all[0].code == 1);
    CHECK(says(all[0], "dist.address_in_use", std::to_string(taken.number)));
    CHECK(all[1].code == 1);
    CHECK(says(all[1], "dist.timeout", std::to_string(taken.number)));  // nobody answers at that port
    // torchrun itself has the port: told before anybody tries.
    const done agent = graft_program(verb, posed + told(1, 2, taken.number) + "TORCHELASTIC_USE_AGENT_STORE=True ");
    CHECK(says(agent, "dist.address_in_use", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"));
}

TEST_CASE("ranks that come twice, do not come, say another size, or share a device end all with a named error") {
    const made_folder folder;
    put_grays(folder);
    const std::string verb = lenet(folder, "out") + "--epochs 1 --timeout 5 --device cuda";
    const auto ends = [&](const std::vector<std::string>& variables, const char* code, const std::string& text) {
        std::vector<rank> ranks;
        for (const std::string& v : variables) ranks.push_back({verb, v});
        for (const done& d : run(ranks)) {
            CAPTURE(d.err);
            CHECK(d.code == 1);
            CHECK(says(d, code, text));
        }
    };
    const auto free = [] {
        port p;
        return p.number;
    };
    int at = free();
    ends({told(0, 3, at), told(1, 3, at), told(1, 3, at)}, "dist.mismatch", "two processes say RANK=1");
    at = free();
    ends({told(0, 3, at), told(1, 3, at), told(2, 4, at)}, "dist.mismatch", "WORLD_SIZE=4, and rank 0 has WORLD_SIZE=3");
    at = free();
    ends({told(0, 3, at), told(1, 3, at)}, "dist.timeout", "rank 2 of 3 did not come within 5 s");
    at = free();
    ends({told(0, 2, at), told(1, 2, at) + "LOCAL_RANK=0 "}, "dist.mismatch", "ranks 0 and 1 have one GPU");
}

TEST_CASE("an error of one rank ends the others, and says why") {
    const made_folder folder;
    put_grays(folder);
    port at;
    at.let_go();
    const std::string verb = lenet(folder, "out") + "--epochs 1 --timeout 20 --device cuda ";
    const std::vector<done> differ = run({{verb, told(0, 2, at.number)}, {verb + "--seed 7", told(1, 2, at.number)}});
    for (const done& d : differ) {
        CAPTURE(d.err);
        CHECK(d.code == 1);
        CHECK(d.refused("dist.mismatch"));
    }
    const std::vector<done> missing =
        run({{verb, told(0, 2, at.number)}, {"train " + folder.path + "/none --arch lenet --out x --timeout 20 --device cuda", told(1, 2, at.number)}});
    CAPTURE(missing[0].err);
    CAPTURE(missing[1].err);
    CHECK(missing[1].code == 1);
    CHECK(missing[1].refused("data.open"));
    CHECK(missing[0].code == 1);
    CHECK(says(missing[0], "dist.peer_lost", "rank 1 has left: data.open"));
}
#endif
#endif
