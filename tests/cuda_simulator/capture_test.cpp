// The simulated driver's captures and graphs.
#include "driver_session.hpp"

using namespace simulated;

TEST_CASE("A captured graph runs each time that it is launched, and not before") {
    const session here;
    kernels code;
    void *stream = new_stream(), *graph = nullptr, *exec = nullptr;
    const std::uint64_t a = device_memory(256);
    int* out = pinned_memory(64);
    CHECK(cuda().cuMemsetD8Async(a, 0, 256, stream) == 0);
    CHECK(cuda().cuStreamBeginCapture_v2(stream, driver::flag::capture_global) == 0);
    CHECK(code.launch("increment", {a}, stream) == 0);
    CHECK(code.launch("increment", {a}, stream) == 0);
    CHECK(cuda().cuMemcpyDtoHAsync_v2(out, a, 256, stream) == 0);
    CHECK(cuda().cuStreamEndCapture(stream, &graph) == 0);
    std::size_t nodes = 0;
    CHECK(cuda().cuGraphGetNodes(graph, nullptr, &nodes) == 0);
    CHECK(nodes == 3);
    CHECK(cuda().cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    CHECK(cuda().cuGraphDestroy(graph) == 0);
    CHECK(cuda().cuStreamSynchronize(stream) == 0);
    CHECK(count("launches") == 0);
    for (int i = 0; i < 3; ++i) CHECK(cuda().cuGraphLaunch(exec, stream) == 0);
    CHECK(cuda().cuStreamSynchronize(stream) == 0);
    CHECK(count("launches") == 6);
    CHECK(count("graph_launches") == 3);
    CHECK(out[63] == 6);
    CHECK(count("problems") == 0);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuGraphLaunch(exec, stream) == 0);  // its memory is gone
    CHECK(count("use_after_free") >= 1);
    CHECK(cuda().cuStreamSynchronize(stream) == r::illegal_address);
    CHECK(cuda().cuGraphExecDestroy(exec) == r::illegal_address);
    CHECK(cuda().cuMemFreeHost(out) == r::illegal_address);
    CHECK(cuda().cuStreamDestroy_v2(stream) == r::illegal_address);
    CHECK(cuda().cuModuleUnload(code.module) == r::illegal_address);
    code.module = nullptr;
}

TEST_CASE("The host's memory belongs to a graph from its launch to its end") {
    const session here;
    void *stream = new_stream(), *graph = nullptr, *exec = nullptr;
    const std::uint64_t a = device_memory(4);
    int *in = pinned_memory(1), *out = pinned_memory(1);
    CHECK(cuda().cuStreamBeginCapture_v2(stream, driver::flag::capture_thread_local) == 0);
    CHECK(cuda().cuMemcpyHtoDAsync_v2(a, in, 4, stream) == 0);
    CHECK(cuda().cuMemcpyDtoHAsync_v2(out, a, 4, stream) == 0);
    CHECK(cuda().cuStreamEndCapture(stream, &graph) == 0);
    CHECK(cuda().cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    for (int i = 1; i < 4; ++i) {
        *in = i;
        CHECK(cuda().cuGraphLaunch(exec, stream) == 0);
        CHECK(*out == static_cast<int>(0xdbdbdbdb));  // too early
        CHECK(cuda().cuStreamSynchronize(stream) == 0);
        CHECK(*out == i);
    }
    CHECK(count("problems") == 0);
    CHECK(cuda().cuGraphLaunch(exec, stream) == 0);
    *in = 9;
    CHECK(cuda().cuStreamSynchronize(stream) == 0);
    CHECK(count("host_race") == 1);
    CHECK(cuda().cuGraphExecDestroy(exec) == 0);
    CHECK(cuda().cuGraphDestroy(graph) == 0);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuMemFreeHost(in) == 0);
    CHECK(cuda().cuMemFreeHost(out) == 0);
    CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
}

TEST_CASE("A capture follows events to other streams, which have to come back") {
    const session here;
    const kernels code;
    void *first = new_stream(), *second = new_stream(), *fork = new_event(), *back = new_event(), *graph = nullptr;
    const std::uint64_t a = device_memory(256), b = device_memory(256);
    for (const bool joined : {true, false}) {
        CHECK(cuda().cuStreamBeginCapture_v2(first, driver::flag::capture_thread_local) == 0);
        CHECK(code.launch("increment", {a}, first) == 0);
        CHECK(cuda().cuEventRecord(fork, first) == 0);
        CHECK(cuda().cuStreamWaitEvent(second, fork, 0) == 0);
        CHECK(code.launch("increment", {b}, second) == 0);
        CHECK(cuda().cuEventRecord(back, second) == 0);
        CHECK(cuda().cuEventQuery(back) == r::captured_event);
        if (joined) CHECK(cuda().cuStreamWaitEvent(first, back, 0) == 0);
        CHECK(cuda().cuStreamEndCapture(first, &graph) == (joined ? 0 : r::capture_unjoined));
        CHECK((graph != nullptr) == joined);
        if (graph) CHECK(cuda().cuGraphDestroy(graph) == 0);
    }
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuMemFree_v2(b) == 0);
    for (void* event : {fork, back}) CHECK(cuda().cuEventDestroy_v2(event) == 0);
    for (void* stream : {first, second}) CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
    CHECK(count("problems") == 0);
}

TEST_CASE("Calls that a capture forbids fail, and the capture is lost") {
    const session here;
    void *stream = new_stream(), *other = new_stream(), *event = new_event(), *graph = nullptr;
    const std::uint64_t a = device_memory(256);
    CHECK(cuda().cuEventRecord(event, other) == 0);
    const auto lost = [&](int code, int expected) {
        CHECK(code == expected);
        CHECK(cuda().cuMemsetD8Async(a, 0, 4, stream) == r::capture_invalidated);
        CHECK(cuda().cuStreamEndCapture(stream, &graph) == r::capture_invalidated);
        CHECK(graph == nullptr);
        CHECK(cuda().cuStreamBeginCapture_v2(stream, driver::flag::capture_global) == 0);
    };
    CHECK(cuda().cuStreamBeginCapture_v2(stream, driver::flag::capture_global) == 0);
    std::uint64_t more = 0;
    lost(cuda().cuMemAlloc_v2(&more, 4), r::capture_unsupported);
    lost(cuda().cuMemFree_v2(a), r::capture_unsupported);
    lost(cuda().cuStreamSynchronize(stream), r::capture_unsupported);
    lost(cuda().cuStreamQuery(stream), r::capture_unsupported);
    lost(cuda().cuCtxSynchronize(), r::capture_unsupported);
    lost(cuda().cuStreamWaitEvent(stream, event, 0), r::capture_isolation);
    CHECK(cuda().cuStreamEndCapture(other, &graph) != 0);
    CHECK(cuda().cuStreamEndCapture(stream, &graph) == 0);
    CHECK(cuda().cuGraphDestroy(graph) == 0);
    CHECK(cuda().cuStreamBeginCapture_v2(nullptr, 0) == r::capture_unsupported);
    CHECK(cuda().cuMemFree_v2(a) == 0);
    CHECK(cuda().cuEventDestroy_v2(event) == 0);
    for (void* s : {stream, other}) CHECK(cuda().cuStreamDestroy_v2(s) == 0);
}
