// What the tests of the simulated NCCL share: devices, and a rank with a context, a stream and memory of its own.
#pragma once

#include "driver_session.hpp"

#include <cstdint>
#include <thread>
#include <vector>

namespace nccl_session {

using namespace simulated;
namespace n = nccl::result;

// So many devices, and nothing left behind.
class devices {
public:
    explicit devices(const char* count_of_devices) {
        set("DEVICES", count_of_devices);
        reset();
        REQUIRE(cuda().cuInit(0) == 0);
    }
    ~devices() {
        set("DEVICES", nullptr);
        set("NCCL_STALL", nullptr);
        set("PROTECT", nullptr);
        CHECK(cuda().cuInit(0) == 0);
        CHECK(count("live") == 0);
        if (count("live")) MESSAGE(report());
    }
    devices(const devices&) = delete;
    devices& operator=(const devices&) = delete;
};

// A rank's device with a stream; its context is current to the thread that makes it, as long as it lives.
class member {
public:
    explicit member(int device) : device_(device) {
        CHECK(cuda().cuDevicePrimaryCtxRetain(&context, device) == 0);
        CHECK(cuda().cuCtxPushCurrent_v2(context) == 0);
        CHECK(cuda().cuStreamCreate(&stream, driver::flag::stream_non_blocking) == 0);
    }
    ~member() {
        enter();
        for (const std::uint64_t address : memory_) CHECK(cuda().cuMemFree_v2(address) == 0);
        CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
        void* popped = nullptr;
        CHECK(cuda().cuCtxPopCurrent_v2(&popped) == 0);
        CHECK(cuda().cuCtxPopCurrent_v2(&popped) == 0);
        CHECK(cuda().cuDevicePrimaryCtxRelease_v2(device_) == 0);
    }
    member(const member&) = delete;
    member& operator=(const member&) = delete;

    // For threads that have several.
    void enter() const { CHECK(cuda().cuCtxPushCurrent_v2(context) == 0); }
    void leave() const {
        void* popped = nullptr;
        CHECK(cuda().cuCtxPopCurrent_v2(&popped) == 0);
    }

    template <class T>
    T* put(const std::vector<T>& values) {
        std::uint64_t address = 0;
        CHECK(cuda().cuMemAlloc_v2(&address, values.size() * sizeof(T)) == 0);
        CHECK(cuda().cuMemcpyHtoDAsync_v2(address, values.data(), values.size() * sizeof(T), stream) == 0);
        memory_.push_back(address);
        return reinterpret_cast<T*>(address);
    }
    template <class T>
    std::vector<T> get(const T* from, std::size_t elements) const {
        std::vector<T> values(elements);
        CHECK(cuda().cuMemcpyDtoHAsync_v2(values.data(), reinterpret_cast<std::uintptr_t>(from), elements * sizeof(T), stream) == 0);
        return values;
    }

    int init(int ranks, const nccl::unique_id& id, int rank, int blocking = 1) {
        nccl::config how;
        how.blocking = blocking;
        return nccl_library().ncclCommInitRankConfig(&comm, ranks, id, rank, &how);
    }
    int error() const {
        int e = -1;
        CHECK(nccl_library().ncclCommGetAsyncError(comm, &e) == n::success);
        return e;
    }
    int wait() const {
        int e = error();
        while (e == n::in_progress) {
            std::this_thread::yield();
            e = error();
        }
        return e;
    }
    int sum(const float* in, float* out, std::size_t elements) const {
        return nccl_library().ncclAllReduce(in, out, elements, nccl::data::float32, nccl::reduction::sum, comm, stream);
    }
    int synchronise() const { return cuda().cuStreamSynchronize(stream); }
    int destroy() const { return nccl_library().ncclCommDestroy(comm); }
    int abort() const { return nccl_library().ncclCommAbort(comm); }

    void *context = nullptr, *stream = nullptr, *comm = nullptr;

private:
    int device_;
    std::vector<std::uint64_t> memory_;
};

inline nccl::unique_id new_id() {
    nccl::unique_id id;
    REQUIRE(nccl_library().ncclGetUniqueId(&id) == n::success);
    return id;
}

}  // namespace nccl_session
