// What the tests of the simulated driver share: a current context, memory, streams, a few kernels.
#pragma once

#include "simulated.hpp"

namespace simulated {

namespace r = driver::result;

// A context that is current, and the check that a case leaves nothing behind but what it asks for.
class session {
public:
    session() {
        reset();
        REQUIRE(cuda().cuInit(0) == 0);
        REQUIRE(cuda().cuDevicePrimaryCtxRetain(&context, 0) == 0);
        REQUIRE(cuda().cuCtxPushCurrent_v2(context) == 0);
    }
    ~session() {
        void* popped = nullptr;
        CHECK(cuda().cuCtxPopCurrent_v2(&popped) == 0);
        CHECK(popped == context);
        CHECK(cuda().cuDevicePrimaryCtxRelease_v2(0) == 0);
        CHECK(count("live") == 0);
        if (count("live")) MESSAGE(report());
    }
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    void* context = nullptr;
};

inline std::uint64_t device_memory(std::size_t bytes) {
    std::uint64_t address = 0;
    REQUIRE(cuda().cuMemAlloc_v2(&address, bytes) == 0);
    return address;
}
inline int* pinned_memory(std::size_t count_of_ints) {
    void* memory = nullptr;
    REQUIRE(cuda().cuMemHostAlloc(&memory, count_of_ints * sizeof(int), 0) == 0);
    return static_cast<int*>(memory);
}
inline void* new_stream(unsigned flags = driver::flag::stream_non_blocking) {
    void* stream = nullptr;
    REQUIRE(cuda().cuStreamCreate(&stream, flags) == 0);
    return stream;
}
inline void* new_event(unsigned flags = 0) {
    void* event = nullptr;
    REQUIRE(cuda().cuEventCreate(&event, flags) == 0);
    return event;
}

inline std::string cubin_of(const char* source, const char* arch = "-arch=sm_90") {
    void* program = nullptr;
    REQUIRE(rtc().nvrtcCreateProgram(&program, source, "test.cu", 0, nullptr, nullptr) == 0);
    const int code = rtc().nvrtcCompileProgram(program, 1, &arch);
    std::size_t bytes = 0;
    CHECK(rtc().nvrtcGetProgramLogSize(program, &bytes) == 0);
    std::string log(bytes, 0), cubin;
    CHECK(rtc().nvrtcGetProgramLog(program, &log[0]) == 0);
    if (code) MESSAGE(log);
    REQUIRE(code == 0);
    CHECK(rtc().nvrtcGetCUBINSize(program, &bytes) == 0);
    cubin.resize(bytes);
    CHECK(rtc().nvrtcGetCUBIN(program, &cubin[0]) == 0);
    CHECK(rtc().nvrtcDestroyProgram(&program) == 0);
    return cubin;
}

// A module with the kernels that the cases use.
class kernels {
public:
    kernels() {
        const std::string cubin = cubin_of(R"(
            extern "C" __global__ void __launch_bounds__(64) add(const int* a, const int* b, int* c) {
                c[blockIdx.x * 64 + threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x] + b[blockIdx.x * 64 + threadIdx.x];
            }
            extern "C" __global__ void __launch_bounds__(64) increment(int* a) { a[blockIdx.x * 64 + threadIdx.x] += 1; }
            extern "C" __global__ void beyond(int* a) { a[64 + threadIdx.x] = 1; }
            extern "C" __global__ void far(int* a) { a[1 << 20] = 1; })");
        REQUIRE(cuda().cuModuleLoadData(&module, cubin.data()) == 0);
    }
    ~kernels() {
        if (module) CHECK(cuda().cuModuleUnload(module) == 0);
    }
    kernels(const kernels&) = delete;
    kernels& operator=(const kernels&) = delete;

    int launch(const char* name, std::vector<std::uint64_t> pointers, void* stream, unsigned blocks = 1, unsigned threads = 64) const {
        void* function = nullptr;
        if (const int error = cuda().cuModuleGetFunction(&function, module, name)) return error;
        std::vector<void*> parameters;
        for (std::uint64_t& p : pointers) parameters.push_back(&p);
        return cuda().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters.data(), nullptr);
    }

    void* module = nullptr;
};

}  // namespace simulated
