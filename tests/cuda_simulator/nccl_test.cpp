// The simulated NCCL: comms of ranks that are threads of one process, or streams of one thread.
#include "nccl_session.hpp"

#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

namespace {

using namespace simulated;
namespace n = nccl::result;
using nccl_session::devices;
using nccl_session::member;
using nccl_session::new_id;

// A thread for each rank, with a comm that blocks or not.
void on_ranks(int ranks, int blocking, const std::function<void(member&, int)>& body) {
    const nccl::unique_id id = new_id();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            member m(rank);
            CHECK(m.init(ranks, id, rank, blocking) == (blocking ? n::success : n::in_progress));
            CHECK(m.wait() == n::success);
            body(m, rank);
            CHECK(m.destroy() == n::success);
        });
    }
    for (std::thread& t : threads) t.join();
}

template <class T>
std::vector<T> steps(T first, std::size_t elements) {
    std::vector<T> values(elements);
    std::iota(values.begin(), values.end(), first);
    return values;
}

using floats = std::vector<float>;

}  // namespace

TEST_CASE("Ranks that are threads sum, gather, spread and scatter") {
    for (const int ranks : {1, 2, 4}) {
        for (const int blocking : {1, 0}) {
            CAPTURE(ranks);
            CAPTURE(blocking);
            const devices four("4");
            if (ranks == 4) set("PROTECT", "1");
            on_ranks(ranks, blocking, [&](member& m, int rank) {
                const int expected = blocking ? n::success : n::in_progress;
                const auto all = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(rank);
                const float sum_of_ranks = static_cast<float>(ranks * (ranks - 1) / 2);
                float* a = m.put(steps(static_cast<float>(rank), 8));
                float* b = m.put(floats(8 * all, -1.f));
                CHECK(m.sum(a, b, 8) == expected);
                CHECK(m.wait() == n::success);
                floats wanted(8);
                for (std::size_t i = 0; i < 8; ++i) wanted[i] = sum_of_ranks + static_cast<float>(ranks * static_cast<int>(i));
                CHECK(m.get(b, 8) == wanted);

                CHECK(nccl_library().ncclAllGather(a, b, 8, nccl::data::float32, m.comm, m.stream) == expected);
                CHECK(m.wait() == n::success);
                floats gathered;
                for (int r = 0; r < ranks; ++r)
                    for (const float v : steps(static_cast<float>(r), 8)) gathered.push_back(v);
                CHECK(m.get(b, 8 * all) == gathered);

                CHECK(nccl_library().ncclReduceScatter(b, a, 8, nccl::data::float32, nccl::reduction::sum, m.comm, m.stream) == expected);
                CHECK(m.wait() == n::success);
                floats scattered = steps(static_cast<float>(rank), 8);
                for (float& v : scattered) v *= static_cast<float>(ranks);
                CHECK(m.get(a, 8) == scattered);

                const int root = ranks - 1;
                CHECK(nccl_library().ncclBroadcast(rank == root ? a : nullptr, b, 8, nccl::data::float32, root, m.comm, m.stream) == expected);
                CHECK(m.wait() == n::success);
                floats spread = steps(static_cast<float>(root), 8);
                for (float& v : spread) v *= static_cast<float>(ranks);
                CHECK(m.get(b, 8) == spread);

                // in place
                CHECK(m.sum(a, a, 8) == expected);
                CHECK(m.wait() == n::success);
                float* parts = m.put(floats(2 * all, static_cast<float>(rank)));
                CHECK(nccl_library().ncclAllGather(parts + 2 * me, parts, 2, nccl::data::float32, m.comm, m.stream) == expected);
                CHECK(m.wait() == n::success);
                CHECK(nccl_library().ncclReduceScatter(parts, parts + 2 * me, 2, nccl::data::float32, nccl::reduction::sum, m.comm, m.stream) == expected);
                CHECK(m.wait() == n::success);
                CHECK(m.get(a, 1)[0] == static_cast<float>(ranks) * sum_of_ranks);
                CHECK(m.get(parts + 2 * me, 2) == floats(2, static_cast<float>(ranks * rank)));
                CHECK(nccl_library().ncclCommFinalize(m.comm) == expected);
                CHECK(m.wait() == n::success);
            });
            CHECK(count("problems") == 0);
        }
    }
}

TEST_CASE("Every type of elements is summed") {
    const devices two("2");
    on_ranks(2, 1, [&](member& m, int rank) {
        const auto sum = [&](auto value, int type) {
            auto* at = m.put(std::vector<decltype(value)>{value});
            CHECK(nccl_library().ncclAllReduce(at, at, 1, type, nccl::reduction::sum, m.comm, m.stream) == n::success);
            return m.get(at, 1)[0];
        };
        CHECK(sum(rank ? 0.1 : 0.2, nccl::data::float64) == 0.1 + 0.2);
        CHECK(sum(static_cast<std::uint16_t>(rank ? 0x3c00 : 0xc000), nccl::data::float16) == 0xbc00);   // 1 - 2
        CHECK(sum(static_cast<std::uint16_t>(rank ? 0x3f80 : 0x4000), nccl::data::bfloat16) == 0x4040);  // 1 + 2
        CHECK(sum(static_cast<signed char>(rank ? 100 : -3), nccl::data::int8) == 97);
        CHECK(sum(static_cast<unsigned char>(rank ? 200 : 57), nccl::data::uint8) == 1);
        CHECK(sum(rank ? 2000000000 : -5, nccl::data::int32) == 1999999995);
        CHECK(sum(std::int64_t{1} << (rank ? 62 : 40), nccl::data::int64) == (std::int64_t{1} << 62) + (std::int64_t{1} << 40));
    });
    CHECK(count("problems") == 0);
}

TEST_CASE("Ranks that come at different times wait for each other, each way of waiting") {
    const devices two("2");
    on_ranks(2, 1, [&](member& m, int rank) {
        float* a = m.put(floats(4, static_cast<float>(rank + 1)));
        for (int way = 0; way < 4; ++way) {
            if (way % 2 == rank) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            CHECK(m.sum(a, a, 4) == n::success);
            void* event = nullptr;
            CHECK(cuda().cuEventCreate(&event, 0) == 0);
            CHECK(cuda().cuEventRecord(event, m.stream) == 0);
            if (way == 0) CHECK(cuda().cuEventSynchronize(event) == 0);
            if (way == 1) CHECK(cuda().cuCtxSynchronize() == 0);
            if (way == 2) CHECK(m.synchronise() == 0);
            while (way == 3 && cuda().cuEventQuery(event) == r::not_ready) std::this_thread::yield();
            CHECK(cuda().cuEventQuery(event) == 0);
            CHECK(cuda().cuEventDestroy_v2(event) == 0);
        }
        CHECK(m.get(a, 4) == floats(4, 24.f));
        // memory is freed while the other rank has not come: the device of this one has nothing left to do
        if (rank == 0) CHECK(cuda().cuMemFree_v2(device_memory(64)) == 0);
        CHECK(m.sum(a, a, 4) == n::success);
        if (rank == 1) CHECK(cuda().cuMemFree_v2(device_memory(64)) == 0);
        CHECK(m.synchronise() == 0);
    });
    CHECK(count("problems") == 0);
}

TEST_CASE("One thread drives two ranks by groups, and waits for one of them alone") {
    for (const int blocking : {1, 0}) {
        CAPTURE(blocking);
        const devices two("2");
        const nccl::unique_id id = new_id();
        const int expected = blocking ? n::success : n::in_progress;
        member first(0), second(1);
        CHECK(nccl_library().ncclGroupStart() == 0);
        CHECK(second.init(2, id, 1, blocking) == expected);
        first.enter();
        CHECK(first.init(2, id, 0, blocking) == expected);
        CHECK(nccl_library().ncclGroupEnd() == 0);
        CHECK(first.wait() == n::success);
        CHECK(second.wait() == n::success);
        float *a = first.put(floats{1, 2}), *b = nullptr;
        second.enter();
        b = second.put(floats{10, 20});
        for (int i = 0; i < 2; ++i) {
            CHECK(nccl_library().ncclGroupStart() == 0);
            CHECK(first.sum(a, a, 2) == n::success);
            CHECK(second.sum(b, b, 2) == n::success);
            CHECK(nccl_library().ncclGroupEnd() == expected);
            CHECK(first.wait() == n::success);
            CHECK(second.wait() == n::success);
        }
        CHECK(cuda().cuStreamQuery(first.stream) == r::not_ready);
        CHECK(first.synchronise() == 0);
        CHECK(second.get(b, 2) == floats{22, 44});
        first.enter();
        CHECK(first.get(a, 2) == floats{22, 44});
        CHECK(first.destroy() == n::success);
        CHECK(second.destroy() == n::success);
        for (int i = 0; i < 3; ++i) first.leave();
        CHECK(count("problems") == 0);
    }
}

namespace {

// A step of training: work of one stream, which the comm's stream waits for, and which waits for the comm's.
class step {
public:
    explicit step(member& m) : m_(m), work_(new_stream()) {
        for (void*& e : events_) e = new_event(driver::flag::event_disable_timing);
    }
    ~step() {
        for (void* e : events_) CHECK(cuda().cuEventDestroy_v2(e) == 0);
        CHECK(cuda().cuStreamDestroy_v2(work_) == 0);
    }
    step(const step&) = delete;
    step& operator=(const step&) = delete;

    // Two sums of `a`, each with a copy before it, on the other stream.
    void put(float* a, float* b) {
        const auto copy = [&](float* to, const float* from, void* stream) {
            return cuda().cuMemcpyDtoDAsync_v2(reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from), 8, stream);
        };
        for (int i = 0; i < 2; ++i) {
            order(m_.stream, work_);
            CHECK(copy(b, a, work_) == 0);
            order(work_, m_.stream);
            CHECK(m_.sum(b, a, 2) == n::success);
        }
        order(m_.stream, work_);
        CHECK(copy(b, a, work_) == 0);
    }
    int synchronise() { return cuda().cuStreamSynchronize(work_); }

private:
    void order(void* before, void* after) {
        void* event = events_[next_++ % 2];
        CHECK(cuda().cuEventRecord(event, before) == 0);
        CHECK(cuda().cuStreamWaitEvent(after, event, 0) == 0);
    }

    member& m_;
    void *work_, *events_[2] = {};
    int next_ = 0;
};

}  // namespace

TEST_CASE("Collectives stand between work of other streams, on all ranks at once or one after the other") {
    const devices four("4");
    on_ranks(4, 1, [&](member& m, int rank) {
        step s(m);
        float *a = m.put(floats(2, static_cast<float>(rank))), *b = m.put(floats(2, 0.f));
        CHECK(m.synchronise() == 0);
        for (int i = 0; i < 20; ++i) {
            s.put(a, b);
            if (i % 3 == rank % 3) CHECK(s.synchronise() == 0);
        }
        CHECK(s.synchronise() == 0);
        CHECK(m.get(b, 2) == floats(2, std::ldexp(6.f, 2 * 39)));  // of four ranks, the first sum is 6, each later one four times as much
    });
    CHECK(count("problems") == 0);

    const nccl::unique_id id = new_id();
    member first(0), second(1);
    step of_second(second);
    CHECK(nccl_library().ncclGroupStart() == 0);
    CHECK(second.init(2, id, 1) == n::success);
    float *c = second.put(floats{3, 4}), *d = second.put(floats{0, 0});
    first.enter();
    CHECK(first.init(2, id, 0) == n::success);
    CHECK(nccl_library().ncclGroupEnd() == n::success);
    {
        step of_first(first);
        float *a = first.put(floats{1, 2}), *b = first.put(floats{0, 0});
        CHECK(first.synchronise() == 0);
        of_first.put(a, b);
        second.enter();
        CHECK(second.synchronise() == 0);
        of_second.put(c, d);
        second.leave();
        CHECK(of_first.synchronise() == 0);
        CHECK(first.get(b, 2) == floats{8, 12});
    }
    first.leave();
    CHECK(of_second.synchronise() == 0);
    CHECK(second.get(d, 2) == floats{8, 12});
    CHECK(first.destroy() == n::success);
    CHECK(second.destroy() == n::success);
    CHECK(count("problems") == 0);
}

TEST_CASE("Collectives of one comm on two streams are reported where nothing orders them") {
    for (const bool ordered : {true, false}) {
        CAPTURE(ordered);
        const devices two("2");
        on_ranks(2, 1, [&](member& m, int) {
            float *a = m.put(floats{1}), *b = m.put(floats{2});
            CHECK(m.synchronise() == 0);
            void *other = new_stream(), *event = new_event(driver::flag::event_disable_timing);
            const auto sum = [&](float* of, void* stream) {
                CHECK(nccl_library().ncclAllReduce(of, of, 1, nccl::data::float32, nccl::reduction::sum, m.comm, stream) == n::success);
            };
            sum(a, m.stream);
            if (ordered) {
                CHECK(cuda().cuEventRecord(event, m.stream) == 0);
                CHECK(cuda().cuStreamWaitEvent(other, event, 0) == 0);
            }
            sum(b, other);
            CHECK(cuda().cuStreamSynchronize(other) == 0);
            sum(a, m.stream);  // the host has waited
            CHECK(m.synchronise() == 0);
            CHECK(cuda().cuStreamDestroy_v2(other) == 0);
            CHECK(cuda().cuEventDestroy_v2(event) == 0);
        });
        CHECK(count("unsynchronised") == (ordered ? 0 : 2));
        CHECK(count("problems") == (ordered ? 0 : 2));
    }
}

TEST_CASE("A comm that does not block is in progress until all ranks have come, and puts its work when it is asked after") {
    const devices two("2");
    const nccl::unique_id id = new_id();
    member first(0), second(1);
    CHECK(second.init(2, id, 1, 0) == n::in_progress);
    CHECK(second.error() == n::in_progress);
    CHECK(second.error() == n::in_progress);
    CHECK(second.sum(nullptr, nullptr, 1) == n::invalid_argument);
    CHECK(count("invalid_comm") == 1);
    reset();
    first.enter();
    CHECK(first.init(2, id, 0, 0) == n::in_progress);
    CHECK(second.error() == n::success);
    CHECK(first.error() == n::success);
    float* a = first.put(floats{1});
    CHECK(first.sum(a, a, 1) == n::in_progress);
    CHECK(first.synchronise() == 0);  // nothing is there yet
    CHECK(first.get(a, 1) == floats{1});
    CHECK(count("problems") == 0);
    CHECK(first.sum(a, a, 1) == n::invalid_argument);
    CHECK(count("invalid_comm") == 1);
    CHECK(first.error() == n::success);
    CHECK(cuda().cuStreamQuery(first.stream) == r::not_ready);
    CHECK(cuda().cuStreamQuery(first.stream) == r::not_ready);
    CHECK(cuda().cuStreamQuery(first.stream) == r::not_ready);
    CHECK(first.abort() == n::success);
    CHECK(first.synchronise() == 0);
    CHECK(second.abort() == n::success);
    first.leave();
}

TEST_CASE("A rank that stalls is never ready, until it aborts; the others wait until they do") {
    const devices two("2");
    set("NCCL_STALL", "1");
    std::vector<std::thread> threads;
    const nccl::unique_id id = new_id();
    for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
            member m(rank);
            CHECK(m.init(2, id, rank) == n::success);
            float* a = m.put(floats(3, 1.f));
            CHECK(m.sum(a, a, 3) == n::success);
            CHECK(m.sum(a, a, 3) == n::success);
            std::thread watch([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(rank ? 10 : 30));
                CHECK(m.abort() == n::success);
            });
            for (int i = 0; i < 10; ++i) CHECK(cuda().cuStreamQuery(m.stream) == r::not_ready);
            CHECK(m.synchronise() == 0);
            CHECK(m.get(a, 3) == floats(3, 1.f));
            watch.join();
        });
    }
    for (std::thread& t : threads) t.join();
    CHECK(count("ncclComm_t") == 0);
    CHECK(count("problems") == 0);
}

TEST_CASE("Ranks that call different collectives are told so, and nothing hangs") {
    const devices two("2");
    std::vector<std::thread> threads;
    const nccl::unique_id id = new_id();
    for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
            member m(rank);
            CHECK(m.init(2, id, rank, 0) == n::in_progress);
            CHECK(m.wait() == n::success);
            float* a = m.put(floats(4, 1.f));
            CHECK(m.sum(a, a, 4) == n::in_progress);
            CHECK(m.wait() == n::success);
            CHECK(m.synchronise() == 0);
            CHECK(m.sum(a, a, rank ? 4 : 3) == n::in_progress);
            while (m.error() == n::success) std::this_thread::yield();
            CHECK(m.error() == n::invalid_usage);
            CHECK(m.sum(a, a, 4) == n::invalid_usage);
            CHECK(m.synchronise() == 0);
            CHECK(m.get(a, 4) == floats(4, 2.f));
            CHECK(m.abort() == n::success);
        });
    }
    for (std::thread& t : threads) t.join();
    CHECK(count("collective_mismatch") == 1);
    CHECK(count("problems") == 1);
    CHECK(report().find("is ncclAllReduce of") != std::string::npos);
}

TEST_CASE("Ranks that cannot be, come twice or share a device are refused") {
    const devices two("2");
    const nccl::unique_id id = new_id(), other = new_id(), foreign;
    member first(0), second(1);
    CHECK(second.init(2, id, 2, 0) == n::invalid_argument);
    CHECK(second.init(2, id, -1, 0) == n::invalid_argument);
    CHECK(second.init(2, foreign, 0, 0) == n::invalid_argument);
    CHECK(second.init(2, id, 1, 7) == n::invalid_argument);
    CHECK(count("invalid_comm") == 3);
    REQUIRE(second.init(2, id, 1, 0) == n::in_progress);
    first.enter();
    CHECK(first.init(3, id, 0, 0) == n::invalid_argument);
    CHECK(first.init(2, id, 1, 0) == n::invalid_usage);
    CHECK(count("invalid_comm") == 5);
    CHECK(second.error() == n::in_progress);
    CHECK(first.init(2, id, 0) == n::success);
    CHECK(second.error() == n::success);
    void* zero = first.comm;
    CHECK(first.init(2, id, 0, 0) == n::invalid_usage);
    CHECK(first.comm == nullptr);
    // two ranks on one device: no rank of the comm works
    REQUIRE(first.init(2, other, 0, 0) == n::in_progress);
    void* broken = first.comm;
    CHECK(first.init(2, other, 1, 0) == n::invalid_usage);
    first.comm = broken;
    CHECK(first.error() == n::invalid_usage);
    CHECK(first.abort() == n::success);
    CHECK(second.abort() == n::success);
    CHECK(nccl_library().ncclCommAbort(zero) == n::success);
    first.leave();
    CHECK(count("invalid_comm") == 7);
    CHECK(count("problems") == 7);
}

TEST_CASE("A comm that is destroyed too early, or used afterwards, is reported") {
    const devices two("2");
    const nccl::unique_id id = new_id();
    member first(0), second(1);
    CHECK(second.init(2, id, 1, 0) == n::in_progress);
    first.enter();
    CHECK(first.init(2, id, 0) == n::success);
    CHECK(second.error() == n::success);
    float* a = first.put(floats{1, 2, 3});
    CHECK(first.sum(a, a, 3) == n::success);
    CHECK(first.sum(a, a + 1, 2) == n::invalid_argument);
    CHECK(count("invalid_address") == 1);
    CHECK(first.sum(a, a, 4) == n::invalid_argument);
    CHECK(count("invalid_address") == 2);
    CHECK(nccl_library().ncclAllReduce(a, a, 3, 99, nccl::reduction::sum, first.comm, first.stream) == n::invalid_argument);
    CHECK(nccl_library().ncclAllReduce(a, a, 3, nccl::data::float32, 99, first.comm, first.stream) == n::invalid_argument);
    CHECK(nccl_library().ncclBroadcast(a, a, 3, nccl::data::float32, 2, first.comm, first.stream) == n::invalid_argument);
    CHECK(nccl_library().ncclAllReduce(a, a, 3, nccl::data::float32, nccl::reduction::sum, first.comm, second.stream) == n::unhandled_cuda_error);
    CHECK(second.sum(a, a, 3) == n::invalid_argument);
    CHECK(count("wrong_context") == 2);
    CHECK(first.sum(a, a, 0) == n::success);
    CHECK(first.destroy() == n::success);
    CHECK(count("unbalanced") == 1);
    CHECK(first.synchronise() == 0);
    CHECK(first.get(a, 3) == floats{1, 2, 3});
    CHECK(first.sum(a, a, 3) == n::invalid_argument);
    CHECK(first.destroy() == n::invalid_argument);
    CHECK(count("invalid_handle") == 2);
    CHECK(nccl_library().ncclGroupEnd() == n::invalid_usage);
    CHECK(count("unbalanced") == 2);
    CHECK(second.destroy() == n::success);
    CHECK(count("problems") == 8);
    first.leave();
}

TEST_CASE("A stream that is captured takes no collective; a forced failure of what frees, frees") {
    const devices one("1");
    member m(0);
    CHECK(m.init(1, new_id(), 0) == n::success);
    float* a = m.put(floats{5});
    CHECK(m.synchronise() == 0);
    CHECK(cuda().cuStreamBeginCapture_v2(m.stream, driver::flag::capture_thread_local) == 0);
    CHECK(m.sum(a, a, 1) == n::invalid_usage);
    CHECK(count("invalid_comm") == 1);
    void* graph = nullptr;
    CHECK(cuda().cuStreamEndCapture(m.stream, &graph) == 0);
    CHECK(cuda().cuGraphDestroy(graph) == 0);
    fail("ncclAllReduce:1:3,ncclCommDestroy:1:2");
    CHECK(m.sum(a, a, 1) == n::internal_error);
    CHECK(m.destroy() == n::system_error);
    fail(nullptr);
    CHECK(count("ncclComm_t") == 0);
    CHECK(count("problems") == 1);
}

TEST_CASE("A context that is released before its collective could run gives it up, and says so") {
    const devices two("2");
    const nccl::unique_id id = new_id();
    void* first_comm = nullptr;
    std::uint64_t memory = 0;
    member second(1);
    CHECK(second.init(2, id, 1, 0) == n::in_progress);
    {
        member first(0);
        CHECK(first.init(2, id, 0) == n::success);
        first_comm = first.comm;
        memory = device_memory(4);
        auto* a = reinterpret_cast<float*>(memory);
        CHECK(first.sum(a, a, 1) == n::success);
    }
    CHECK(count("unbalanced") == 1);
    CHECK(count("problems") == 1);
    CHECK(nccl_library().ncclCommAbort(first_comm) == n::success);
    CHECK(second.abort() == n::success);
    CHECK(cuda().cuMemFree_v2(memory) == 0);
}
