// The simulated driver: what it does for right programs, and what it finds in wrong ones.
#include "driver_session.hpp"

#include <cerrno>
#include <thread>

#include <unistd.h>

using namespace simulated;

TEST_CASE("The simulator says what it is") {
    REQUIRE(cuda().cuInit(0) == 0);
    char name[64];
    CHECK(cuda().cuDeviceGetName(name, 64, 0) == 0);
    CHECK(std::string(name) == "graft CUDA simulator");
    int version = 0, count_of_devices = 0;
    CHECK(cuda().cuDriverGetVersion(&version) == 0);
    CHECK(version == 13000);
    CHECK(cuda().cuDeviceGetCount(&count_of_devices) == 0);
    CHECK(count_of_devices == 1);
    const char* text = nullptr;
    CHECK(cuda().cuGetErrorName(2, &text) == 0);
    CHECK(std::string(text) == "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_CASE("Copies and kernels on one stream run in order, once something waits for them") {
    const session here;
    const kernels code;
    void* stream = new_stream();
    const std::uint64_t a = device_memory(64 * 4), b = device_memory(64 * 4), c = device_memory(64 * 4);
    int *in = pinned_memory(64), *out = pinned_memory(64);
    for (int i = 0; i < 64; ++i) in[i] = i;
    out[5] = 0;
    CHECK(cuda().cuMemcpyHtoDAsync_v2(a, in, 256, stream) == 0);
    CHECK(cuda().cuMemcpyDtoDAsync_v2(b, a, 256, stream) == 0);
    CHECK(code.launch("add", {a, b, c}, stream) == 0);
    CHECK(code.launch("increment", {c}, stream) == 0);
    CHECK(cuda().cuMemcpyDtoHAsync_v2(out, c, 256, stream) == 0);
    CHECK(out[5] == static_cast<int>(0xdbdbdbdb));  // too early
    CHECK(count("launches") == 0);
    CHECK(cuda().cuStreamQuery(stream) == r::not_ready);
    CHECK(cuda().cuStreamSynchronize(stream) == 0);
    CHECK(cuda().cuStreamQuery(stream) == 0);
    for (int i = 0; i < 64; ++i) CHECK(out[i] == 2 * i + 1);
    CHECK(cuda().cuMemsetD8Async(a, 1, 256, stream) == 0);
    int pageable[64] = {};
    CHECK(cuda().cuMemcpyDtoHAsync_v2(pageable, a, 256, stream) == 0);  // memory that is not pinned is there at once
    CHECK(pageable[63] == 0x01010101);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuMemFree_v2(b) == 0);
    CHECK(cuda().cuMemFree_v2(c) == 0);
    CHECK(cuda().cuMemFreeHost(in) == 0);
    CHECK(cuda().cuMemFreeHost(out) == 0);
    CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
    CHECK(count("problems") == 0);
}

TEST_CASE("Pageable memory may be changed after a copy from it was queued, pinned memory may not") {
    const session here;
    void* stream = new_stream();
    const std::uint64_t a = device_memory(4);
    int pageable = 7, got = 0;
    CHECK(cuda().cuMemcpyHtoDAsync_v2(a, &pageable, 4, stream) == 0);
    pageable = 8;
    CHECK(cuda().cuMemcpyDtoHAsync_v2(&got, a, 4, stream) == 0);
    CHECK(got == 7);
    CHECK(count("problems") == 0);
    int* pinned = pinned_memory(1);
    *pinned = 7;
    CHECK(cuda().cuMemcpyHtoDAsync_v2(a, pinned, 4, stream) == 0);
    *pinned = 8;
    CHECK(cuda().cuStreamSynchronize(stream) == 0);
    CHECK(count("host_race") == 1);
    CHECK(cuda().cuMemFreeHost(pinned) == 0);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
}

TEST_CASE("What two streams do to the same memory without an order is reported") {
    const session here;
    const kernels code;
    void *first = new_stream(), *second = new_stream(), *done = new_event(driver::flag::event_disable_timing);
    const std::uint64_t a = device_memory(256), b = device_memory(256);
    CHECK(code.launch("increment", {a}, first) == 0);
    CHECK(cuda().cuMemcpyDtoDAsync_v2(b, a, 256, second) == 0);
    CHECK(count("unsynchronised") == 1);
    CHECK(report().find("increment on stream") != std::string::npos);
    reset();
    // A write after a read needs an order, too.
    CHECK(code.launch("increment", {a}, first) == 0);
    CHECK(count("unsynchronised") == 1);
    reset();
    CHECK(cuda().cuEventRecord(done, second) == 0);
    CHECK(cuda().cuStreamWaitEvent(first, done, 0) == 0);
    CHECK(code.launch("increment", {b}, first) == 0);
    CHECK(count("problems") == 0);
    // Two reads do not.
    CHECK(cuda().cuCtxSynchronize() == 0);
    CHECK(code.launch("add", {a, a, b}, first) == 0);
    int got[64];
    CHECK(cuda().cuMemcpyDtoHAsync_v2(got, a, 256, second) == 0);
    CHECK(count("problems") == 0);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuMemFree_v2(b) == 0);
    CHECK(cuda().cuEventDestroy_v2(done) == 0);
    CHECK(cuda().cuStreamDestroy_v2(first) == 0);
    CHECK(cuda().cuStreamDestroy_v2(second) == 0);
}

TEST_CASE("A stream that another one does not wait for runs late") {
    const session here;
    void *first = new_stream(), *second = new_stream();
    const std::uint64_t a = device_memory(4);
    CHECK(cuda().cuMemsetD8Async(a, 1, 4, first) == 0);
    CHECK(cuda().cuStreamSynchronize(first) == 0);
    CHECK(cuda().cuMemsetD8Async(a, 2, 4, first) == 0);
    int got = 0;
    CHECK(cuda().cuMemcpyDtoHAsync_v2(&got, a, 4, second) == 0);
    CHECK(got == 0x01010101);
    CHECK(count("unsynchronised") == 1);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuStreamDestroy_v2(first) == 0);
    CHECK(cuda().cuStreamDestroy_v2(second) == 0);
}

TEST_CASE("The legacy default stream and blocking streams wait for each other, others do not") {
    const session here;
    void *blocking = new_stream(driver::flag::stream_default), *free_one = new_stream();
    const std::uint64_t a = device_memory(4), b = device_memory(4);
    int got = 0;
    CHECK(cuda().cuMemsetD8Async(a, 1, 4, blocking) == 0);
    CHECK(cuda().cuMemcpyDtoDAsync_v2(b, a, 4, nullptr) == 0);
    CHECK(cuda().cuMemcpyDtoHAsync_v2(&got, b, 4, blocking) == 0);
    CHECK(got == 0x01010101);
    CHECK(count("problems") == 0);
    CHECK(cuda().cuMemsetD8Async(a, 2, 4, nullptr) == 0);
    CHECK(cuda().cuMemsetD8Async(a, 3, 4, free_one) == 0);
    CHECK(count("unsynchronised") == 1);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuMemFree_v2(b) == 0);
    CHECK(cuda().cuStreamDestroy_v2(blocking) == 0);
    CHECK(cuda().cuStreamDestroy_v2(free_one) == 0);
}

TEST_CASE("Memory that is freed twice, freed and used, or used past its end is reported") {
    const session here;
    const kernels code;
    void* stream = new_stream();
    const std::uint64_t a = device_memory(256), b = device_memory(256);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuMemFree_v2(a) == r::invalid_value);
    CHECK(count("double_free") == 1);
    CHECK(cuda().cuMemsetD8Async(a, 0, 256, stream) == r::invalid_value);
    CHECK(count("use_after_free") == 1);
    CHECK(cuda().cuMemsetD8Async(b, 0, 257, stream) == r::invalid_value);
    CHECK(cuda().cuMemFree_v2(b + 4) == r::invalid_value);
    CHECK(count("invalid_address") == 2);
    int host = 0;
    CHECK(cuda().cuMemsetD8Async(reinterpret_cast<std::uintptr_t>(&host), 0, 4, stream) == r::invalid_value);
    CHECK(count("invalid_address") == 3);
    CHECK(code.launch("beyond", {b}, stream) == 0);  // within the bytes that alignment adds: found afterwards
    CHECK(cuda().cuStreamSynchronize(stream) == 0);
    CHECK(count("out_of_bounds") == 1);
    CHECK(cuda().cuMemFree_v2(b) == 0);
    CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
}

TEST_CASE("With PROTECT, the host cannot follow a device's address, and kernels reach what they are given") {
    const session here;
    const kernels code;
    set("PROTECT", "1");
    const std::uint64_t a = device_memory(4096);
    set("PROTECT", nullptr);
    int ends[2] = {};
    REQUIRE(pipe(ends) == 0);
    CHECK(write(ends[1], reinterpret_cast<const void*>(a), 1) == -1);  // the system reads for us, so that nothing faults
    CHECK(errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    int got = 0;
    CHECK(cuda().cuMemsetD8Async(a, 0, 4096, nullptr) == 0);
    CHECK(code.launch("increment", {a}, nullptr) == 0);
    CHECK(cuda().cuMemcpyDtoHAsync_v2(&got, a, 4, nullptr) == 0);
    CHECK(got == 1);
    CHECK(cuda().cuMemFree_v2(a) == 0);
}

TEST_CASE("A kernel's wrong address stops the context, and waiting tells") {
    const session here;
    void* stream = new_stream();
    const std::uint64_t a = device_memory(256);
    {
        kernels code;
        CHECK(code.launch("far", {a}, stream) == 0);
        CHECK(cuda().cuStreamSynchronize(stream) == r::illegal_address);
        CHECK(count("kernel_fault") == 1);
        CHECK(report().find("an illegal address") != std::string::npos);
        CHECK(code.launch("increment", {a}, stream) == r::illegal_address);
        std::uint64_t more = 0;
        CHECK(cuda().cuMemAlloc_v2(&more, 4) == r::illegal_address);
        CHECK(cuda().cuModuleUnload(code.module) == r::illegal_address);
        CHECK(cuda().cuMemFree_v2(a) == r::illegal_address);
        CHECK(cuda().cuStreamDestroy_v2(stream) == r::illegal_address);
        CHECK(count("module") == 0);
        code.module = nullptr;
    }
    reset();
}

TEST_CASE("Launches with freed memory fail later, as on a GPU") {
    const session here;
    void* stream = new_stream();
    {
        const kernels code;
        const std::uint64_t a = device_memory(256);
        CHECK(cuda().cuMemFree_v2(a) == 0);
        CHECK(code.launch("increment", {a}, stream) == 0);
        CHECK(count("use_after_free") == 1);
    }
    CHECK(cuda().cuStreamDestroy_v2(stream) != -1);
}

TEST_CASE("Work that is queued when its memory is freed runs first") {
    const session here;
    const kernels code;
    void* stream = new_stream();
    const std::uint64_t a = device_memory(256);
    CHECK(code.launch("increment", {a}, stream) == 0);
    CHECK(count("launches") == 0);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(count("launches") == 1);
    CHECK(count("problems") == 0);
    CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
}

TEST_CASE("Events tell when work is done and how long it took") {
    const session here;
    const kernels code;
    void *stream = new_stream(), *start = new_event(), *end = new_event(), *without = new_event(driver::flag::event_disable_timing);
    const std::uint64_t a = device_memory(256);
    float milliseconds = -1;
    CHECK(cuda().cuEventElapsedTime(&milliseconds, start, end) == r::invalid_handle);  // never recorded
    CHECK(cuda().cuEventQuery(start) == 0);
    CHECK(cuda().cuEventRecord(start, stream) == 0);
    CHECK(code.launch("increment", {a}, stream) == 0);
    CHECK(cuda().cuEventRecord(end, stream) == 0);
    CHECK(cuda().cuEventRecord(without, stream) == 0);
    CHECK(cuda().cuEventElapsedTime(&milliseconds, start, end) == r::not_ready);
    int polls = 0;
    while (cuda().cuEventQuery(end) == r::not_ready) ++polls;
    CHECK(polls > 0);
    CHECK(cuda().cuEventElapsedTime(&milliseconds, start, end) == 0);
    CHECK(milliseconds >= 0);
    CHECK(cuda().cuEventSynchronize(without) == 0);
    CHECK(cuda().cuEventElapsedTime(&milliseconds, start, without) == r::invalid_handle);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    for (void* event : {start, end, without}) CHECK(cuda().cuEventDestroy_v2(event) == 0);
    CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
    CHECK(count("problems") == 0);
}

TEST_CASE("What was not given back is counted and named") {
    reset();
    REQUIRE(cuda().cuInit(0) == 0);
    void* context = nullptr;
    REQUIRE(cuda().cuDevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(cuda().cuCtxPushCurrent_v2(context) == 0);
    const std::uint64_t a = device_memory(100);
    int* pinned = pinned_memory(1);
    void *stream = new_stream(), *event = new_event();
    CHECK(count("device_memory") == 1);
    CHECK(count("pinned_memory") == 1);
    CHECK(count("stream") == 1);
    CHECK(count("event") == 1);
    CHECK(count("context") == 1);
    CHECK(count("live") == 5);
    CHECK(report().find("live: device memory") != std::string::npos);
    CHECK(report().find("100 bytes") != std::string::npos);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuMemFreeHost(pinned) == 0);
    CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
    CHECK(cuda().cuEventDestroy_v2(event) == 0);
    CHECK(cuda().cuEventDestroy_v2(event) == r::invalid_handle);
    CHECK(count("invalid_handle") == 1);
    CHECK(cuda().cuCtxPopCurrent_v2(&context) == 0);
    CHECK(cuda().cuDevicePrimaryCtxRelease_v2(0) == 0);
    CHECK(cuda().cuDevicePrimaryCtxRelease_v2(0) == r::invalid_context);
    CHECK(count("unbalanced") == 1);
    CHECK(count("live") == 0);
    reset();
}

TEST_CASE("A context is current for one thread") {
    const session here;
    std::uint64_t address = 0;
    int code = 0;
    std::thread([&] { code = cuda().cuMemAlloc_v2(&address, 4); }).join();
    CHECK(code == r::invalid_context);
}

TEST_CASE("A forced failure comes at its call, and functions that free do so all the same") {
    const session here;
    std::uint64_t a = 0, b = 0;
    fail("cuMemAlloc_v2:2:2,cuMemFree_v2:1:999");
    CHECK(cuda().cuMemAlloc_v2(&a, 4) == 0);
    CHECK(cuda().cuMemAlloc_v2(&b, 4) == r::out_of_memory);
    CHECK(cuda().cuMemAlloc_v2(&b, 4) == 0);
    CHECK(cuda().cuMemFree_v2(a) == r::unknown);
    CHECK(count("device_memory") == 1);
    CHECK(cuda().cuMemFree_v2(b) == 0);
    fail("*:2:700");
    int version = 0;
    CHECK(cuda().cuDriverGetVersion(&version) == 0);
    CHECK(rtc().nvrtcVersion(&version, &version) == r::illegal_address);  // counted over all libraries
    fail("cuDriverGetVersion:0:3");
    CHECK(cuda().cuDriverGetVersion(&version) == r::not_initialized);
    CHECK(cuda().cuDriverGetVersion(&version) == r::not_initialized);
    fail(nullptr);
    CHECK(cuda().cuDriverGetVersion(&version) == 0);
}

TEST_CASE("Memory ends where the setting says") {
    const session here;
    set("MEMORY", "1048576");
    std::size_t free = 0, total = 0;
    CHECK(cuda().cuMemGetInfo_v2(&free, &total) == 0);
    CHECK(total == 1048576);
    const std::uint64_t a = device_memory(total / 2);
    std::uint64_t b = 0;
    CHECK(cuda().cuMemAlloc_v2(&b, total) == r::out_of_memory);
    CHECK(cuda().cuMemGetInfo_v2(&free, &total) == 0);
    CHECK(free == total / 2);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    set("MEMORY", nullptr);
}

TEST_CASE("Two devices have memory of their own and copy to each other; streams stay with their device") {
    set("DEVICES", "2");
    reset();
    REQUIRE(cuda().cuInit(0) == 0);
    int devices = 0;
    CHECK(cuda().cuDeviceGetCount(&devices) == 0);
    CHECK(devices == 2);
    void* contexts[2] = {};
    std::uint64_t memory[2] = {};
    void* streams[2] = {};
    for (int i = 0; i < 2; ++i) {
        REQUIRE(cuda().cuDevicePrimaryCtxRetain(&contexts[i], i) == 0);
        REQUIRE(cuda().cuCtxPushCurrent_v2(contexts[i]) == 0);
        memory[i] = device_memory(256);
        streams[i] = new_stream();
    }
    CHECK(cuda().cuMemsetD8Async(memory[1], 5, 256, streams[1]) == 0);
    CHECK(cuda().cuMemcpyPeerAsync(memory[0], contexts[0], memory[1], contexts[1], 256, streams[1]) == 0);
    int got = 0;
    CHECK(cuda().cuMemcpyDtoHAsync_v2(&got, memory[0], 4, streams[1]) == 0);
    CHECK(got == 0x05050505);
    CHECK(count("problems") == 0);
    CHECK(cuda().cuMemcpyPeerAsync(memory[0], contexts[1], memory[1], contexts[0], 256, streams[1]) == r::invalid_value);
    CHECK(count("wrong_context") == 1);
    {
        const kernels code;  // of device 1
        CHECK(code.launch("increment", {memory[0]}, streams[0]) == r::invalid_handle);
        CHECK(count("wrong_context") == 2);
    }
    for (int i = 1; i >= 0; --i) {
        CHECK(cuda().cuMemFree_v2(memory[i]) == 0);
        CHECK(cuda().cuStreamDestroy_v2(streams[i]) == 0);
        CHECK(cuda().cuCtxPopCurrent_v2(nullptr) == 0);
        CHECK(cuda().cuDevicePrimaryCtxRelease_v2(i) == 0);
    }
    CHECK(count("live") == 0);
    set("DEVICES", "0");
    CHECK(cuda().cuInit(0) == r::no_device);
    set("DEVICES", nullptr);
    CHECK(cuda().cuInit(0) == 0);
    reset();
}

TEST_CASE("Modules that are none, or for another GPU, are refused") {
    const session here;
    void *module = nullptr, *function = nullptr;
    CHECK(cuda().cuModuleLoadData(&module, "no cubin at all") == r::invalid_image);
    std::string cubin = cubin_of("extern \"C\" __global__ void entry() {}", "-arch=sm_80");
    CHECK(cuda().cuModuleLoadData(&module, cubin.data()) == r::no_binary_for_gpu);
    cubin = cubin_of("extern \"C\" __global__ void entry() {}");
    CHECK(cuda().cuModuleLoadData(&module, cubin.data()) == 0);
    CHECK(cuda().cuModuleGetFunction(&function, module, "other") == r::not_found);
    CHECK(cuda().cuModuleGetFunction(&function, module, "entry") == 0);
    int threads = 0;
    CHECK(cuda().cuFuncGetAttribute(&threads, driver::function::max_threads_per_block, function) == 0);
    CHECK(threads == 1024);
    CHECK(cuda().cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 60000, nullptr, nullptr, nullptr) == r::invalid_value);
    CHECK(cuda().cuFuncSetAttribute(function, driver::function::max_dynamic_shared_bytes, 60000) == 0);
    CHECK(cuda().cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 60000, nullptr, nullptr, nullptr) == 0);
    CHECK(cuda().cuFuncSetAttribute(function, driver::function::max_dynamic_shared_bytes, 1 << 20) == r::invalid_value);
    CHECK(cuda().cuModuleUnload(module) == 0);
    CHECK(cuda().cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == r::invalid_handle);
    cubin[cubin.size() - 1] = static_cast<char>(cubin.back() ^ 1);
    CHECK(cuda().cuModuleLoadData(&module, cubin.data()) == r::invalid_image);
}
