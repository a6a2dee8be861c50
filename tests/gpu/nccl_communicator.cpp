// The communicator whose data go by NCCL, on devices of the CUDA simulator: beside the one of threads, and how members end.
#include "simulated_backend.hpp"

#include "../cuda_simulator/simulated.hpp"

#include <graft/dist.hpp>
#include <graft/gpu.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using body = std::function<void(graft::communicator&)>;

// Each member has a device and a thread of its own; they know of each other by a group of threads.
std::vector<graft::status> on_members(int size, const std::vector<int>& ordinals, double seconds, const body& each) {
    std::vector<std::shared_ptr<graft::gpu::cuda_device>> devices;
    for (const int ordinal : ordinals) devices.push_back(simulated::open({}, ordinal));
    std::vector<graft::status> joined(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (const auto& notices : graft::make_thread_group(size, seconds))
        threads.emplace_back([&, notices] {
            const auto at = static_cast<std::size_t>(notices->rank());
            auto made = devices[at]->make_communicator(notices);
            if (made.ok()) return each(**made);
            joined[at] = made.take_status();
        });
    for (std::thread& t : threads) t.join();
    return joined;
}
void on_members(int size, const body& each, double seconds = 30) {
    std::vector<int> ordinals;
    for (int i = 0; i < size; ++i) ordinals.push_back(i);
    for (const graft::status& s : on_members(size, ordinals, seconds, each)) CHECK_MESSAGE(s.ok(), (s.ok() ? "" : s.error().detail()));
}
void check(const graft::status& s) { CHECK_MESSAGE(s.ok(), (s.ok() ? "" : s.error().detail())); }
float number(int member, std::int64_t i) { return std::sin(static_cast<float>(member * 1000 + 7 * i)) * static_cast<float>(1 + i % 5); }

}  // namespace

TEST_CASE("members gather, broadcast and meet by NCCL, few bytes and many") {
    simulated::prepare();
    for (const int size : {2, 4}) {
        simulated::reset();
        on_members(size, [size](graft::communicator& me) {
            CHECK(std::string(me.name()) == "nccl");
            CHECK(me.size() == size);
            for (const std::size_t bytes : {std::size_t(0), std::size_t(1), std::size_t(960), std::size_t(961), std::size_t(5000000)}) {
                std::vector<char> own(bytes, static_cast<char>('a' + me.rank())), all(bytes * static_cast<std::size_t>(size));
                if (bytes) own.back() = 'z';
                check(me.all_gather(own.data(), bytes, all.data()));
                bool right = true;
                for (int r = 0; r < size; ++r)
                    for (std::size_t i = 0; i < bytes; ++i)
                        right &= all[static_cast<std::size_t>(r) * bytes + i] == (i + 1 == bytes ? 'z' : static_cast<char>('a' + r));
                CHECK(right);
                // Longer than a piece of staging memory.
                std::vector<char> one(bytes * 2, static_cast<char>(me.rank()));
                check(me.broadcast(one.data(), one.size(), size - 1));
                CHECK(one == std::vector<char>(bytes * 2, static_cast<char>(size - 1)));
                check(me.barrier());
            }
            CHECK(me.all_waited_seconds() > 0);
            check(me.look());
        });
        CHECK(simulated::count("problems") == 0);
        CHECK(simulated::count("call:ncclAllGather") > 0);
        CHECK(simulated::count("call:ncclBroadcast") > 0);
    }
}

TEST_CASE("sums by NCCL are those of plain loops, equal for all members") {
    simulated::prepare();
    for (const int size : {2, 3, 4}) {
        simulated::reset();
        const std::vector<std::int64_t> counts{3, 0, 2100000, 1, 77};  // longer than staging memory, all together
        std::vector<std::vector<std::vector<float>>> got(static_cast<std::size_t>(size));
        on_members(size, [&](graft::communicator& me) {
            std::vector<std::vector<float>> arrays;
            for (const std::int64_t n : counts) {
                arrays.emplace_back(static_cast<std::size_t>(n));
                for (std::int64_t i = 0; i < n; ++i) arrays.back()[static_cast<std::size_t>(i)] = number(me.rank(), i);
            }
            std::vector<const float*> in;
            std::vector<float*> out;
            for (std::vector<float>& a : arrays) in.push_back(a.data()), out.push_back(a.data());
            check(me.all_reduce({in.data(), out.data(), counts.data(), static_cast<int>(counts.size())}));
            // The sums of its part of an array that does not divide by the members.
            for (const std::int64_t n : {std::int64_t(1), std::int64_t(10), std::int64_t(3000001)}) {
                std::vector<float> part(static_cast<std::size_t>(n));
                for (std::int64_t i = 0; i < n; ++i) part[static_cast<std::size_t>(i)] = number(me.rank(), i);
                check(me.reduce_scatter(part.data(), n));
                bool right = true;
                for (std::int64_t i = me.first_of(n, me.rank(), size); i < me.first_of(n, me.rank() + 1, size); ++i) {
                    double sum = 0;
                    for (int r = 0; r < size; ++r) sum += static_cast<double>(number(r, i));
                    right &= std::abs(static_cast<double>(part[static_cast<std::size_t>(i)]) - sum) <= 1e-5;
                }
                CHECK(right);
            }
            got[static_cast<std::size_t>(me.rank())] = std::move(arrays);
        });
        bool right = true;
        for (std::size_t a = 0; a < counts.size(); ++a)
            for (std::int64_t i = 0; i < counts[a]; ++i) {
                double sum = 0;
                for (int r = 0; r < size; ++r) sum += static_cast<double>(number(r, i));
                right &= std::abs(static_cast<double>(got[0][a][static_cast<std::size_t>(i)]) - sum) <= 1e-5;
            }
        CHECK(right);
        for (const auto& other : got) CHECK(other == got[0]);
        CHECK(simulated::count("problems") == 0);
    }
}

TEST_CASE("members that call different things are told what each called, and NCCL is not asked for it") {
    simulated::prepare();
    simulated::reset();
    on_members(3, [](graft::communicator& me) {
        float v = 1;
        const std::int64_t one = 1;
        const float* in = &v;
        float* out = &v;
        const graft::status s = me.rank() == 1 ? me.barrier() : me.all_reduce({&in, &out, &one, 1});
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::dist_mismatch);
        CHECK_MESSAGE(s.error().detail().find("members 0, 2 call all_reduce of 1 elements; member 1 calls barrier") != std::string::npos, s.error().detail());
        CHECK(!me.barrier().ok());
        CHECK(!me.look().ok());
    });
    CHECK(simulated::count("problems") == 0);
}

TEST_CASE("a member that leaves, and one that does not come, end the others' calls") {
    simulated::prepare();
    simulated::reset();
    on_members(3, [](graft::communicator& me) {
        if (me.rank() == 1) return me.leave(graft::fail(graft::errc::data_open, "a.png", "not there").error());
        const graft::status s = me.barrier();
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::dist_peer_lost);
    });
    CHECK(simulated::count("problems") == 0);
    std::atomic<int> ended{0};
    const auto began = std::chrono::steady_clock::now();
    on_members(
        2,
        [&](graft::communicator& me) {
            if (me.rank() == 1) {
                while (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                return me.leave(graft::fail(graft::errc::internal, "test", "over").error());
            }
            const graft::status s = me.barrier();
            ended = 1;
            REQUIRE(!s.ok());
            CHECK(s.error().code() == graft::errc::dist_timeout);
        },
        1);
    CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() < 20);
    CHECK(simulated::count("problems") == 0);
}

TEST_CASE("members that share a GPU or have other versions of NCCL are refused before NCCL is asked") {
    simulated::prepare();
    simulated::reset();
    for (const graft::status& s : on_members(3, {0, 1, 0}, 30, [](graft::communicator&) {})) {
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::dist_mismatch);
        CHECK_MESSAGE(s.error().detail().find("ranks 0 and 2 have one GPU") != std::string::npos, s.error().detail());
    }
    CHECK(simulated::count("call:ncclCommInitRankConfig") == 0);
    // A device of another kind has no such exchange.
    CHECK(simulated::count("problems") == 0);
}
