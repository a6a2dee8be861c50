// The CUDA driver (libcuda.so.1, nvcuda.dll): the functions and values that graft uses, declared in its own words.
#pragma once

#include "../../config.hpp"
#include "member.hpp"

/// Functions of the driver as rows X(result, exported name, parameters). Results are a `driver::result`, contexts, streams, events,
/// modules, functions and graphs are void*, devices are int, and an address on a device is std::uint64_t. Exported by the drivers of
/// CUDA 12 and 13 alike.
#define GRAFT_DRIVER_FUNCTIONS(X) \
    X(int, cuInit, (unsigned flags)) \
    X(int, cuDriverGetVersion, (int* version)) \
    X(int, cuGetErrorName, (int error, const char** text)) \
    X(int, cuGetErrorString, (int error, const char** text)) \
    X(int, cuDeviceGetCount, (int* count)) \
    X(int, cuDeviceGet, (int* device, int ordinal)) \
    X(int, cuDeviceGetName, (char* name, int bytes, int device)) \
    X(int, cuDeviceGetAttribute, (int* value, int attribute, int device)) \
    X(int, cuDeviceTotalMem_v2, (std::size_t * bytes, int device)) \
    X(int, cuDeviceGetUuid_v2, (driver::uuid * id, int device)) \
    X(int, cuDeviceGetPCIBusId, (char* id, int bytes, int device)) \
    X(int, cuDevicePrimaryCtxRetain, (void** context, int device)) \
    X(int, cuDevicePrimaryCtxRelease_v2, (int device)) \
    X(int, cuCtxPushCurrent_v2, (void* context)) \
    X(int, cuCtxPopCurrent_v2, (void** context)) \
    X(int, cuCtxSynchronize, ()) \
    X(int, cuMemGetInfo_v2, (std::size_t * free, std::size_t * total)) \
    X(int, cuMemAlloc_v2, (std::uint64_t * address, std::size_t bytes)) \
    X(int, cuMemFree_v2, (std::uint64_t address)) \
    X(int, cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned flags)) \
    X(int, cuMemFreeHost, (void* memory)) \
    X(int, cuMemcpyHtoDAsync_v2, (std::uint64_t to, const void* from, std::size_t bytes, void* stream)) \
    X(int, cuMemcpyDtoHAsync_v2, (void* to, std::uint64_t from, std::size_t bytes, void* stream)) \
    X(int, cuMemcpyDtoDAsync_v2, (std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream)) \
    X(int, cuMemcpyPeerAsync, (std::uint64_t to, void* to_context, std::uint64_t from, void* from_context, std::size_t bytes, void* stream)) \
    X(int, cuMemsetD8Async, (std::uint64_t to, unsigned char value, std::size_t bytes, void* stream)) \
    X(int, cuStreamCreate, (void** stream, unsigned flags)) \
    X(int, cuStreamDestroy_v2, (void* stream)) \
    X(int, cuStreamSynchronize, (void* stream)) \
    X(int, cuStreamQuery, (void* stream)) \
    X(int, cuStreamWaitEvent, (void* stream, void* event, unsigned flags)) \
    X(int, cuStreamBeginCapture_v2, (void* stream, int mode)) \
    X(int, cuStreamEndCapture, (void* stream, void** graph)) \
    X(int, cuEventCreate, (void** event, unsigned flags)) \
    X(int, cuEventDestroy_v2, (void* event)) \
    X(int, cuEventRecord, (void* event, void* stream)) \
    X(int, cuEventQuery, (void* event)) \
    X(int, cuEventSynchronize, (void* event)) \
    X(int, cuEventElapsedTime, (float* milliseconds, void* start, void* end)) \
    X(int, cuModuleLoadData, (void** module, const void* image)) \
    X(int, cuModuleUnload, (void* module)) \
    X(int, cuModuleGetFunction, (void** function, void* module, const char* name)) \
    X(int, cuFuncSetAttribute, (void* function, int attribute, int value)) \
    X(int, cuFuncGetAttribute, (int* value, int attribute, void* function)) \
    X(int, cuLaunchKernel, \
      (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
       void* stream, void** parameters, void** extra)) \
    X(int, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* blocks, void* function, int threads, std::size_t shared_bytes)) \
    X(int, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags)) \
    X(int, cuGraphLaunch, (void* executable, void* stream)) \
    X(int, cuGraphExecDestroy, (void* executable)) \
    X(int, cuGraphDestroy, (void* graph)) \
    X(int, cuGraphGetNodes, (void* graph, void** nodes, std::size_t* count))

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace api {
namespace driver {

/// The name that a device keeps in every process.
struct uuid {
    unsigned char bytes[16] = {};
};

// What a function returned.
namespace result {
constexpr int success = 0;
constexpr int invalid_value = 1;
constexpr int out_of_memory = 2;
constexpr int not_initialized = 3;
constexpr int deinitialized = 4;
constexpr int stub_library = 34;
constexpr int device_unavailable = 46;
constexpr int no_device = 100;
constexpr int invalid_device = 101;
constexpr int invalid_image = 200;
constexpr int invalid_context = 201;
constexpr int no_binary_for_gpu = 209;
constexpr int ecc_uncorrectable = 214;
constexpr int nvlink_uncorrectable = 220;
constexpr int contained = 226;
constexpr int operating_system = 304;
constexpr int invalid_handle = 400;
constexpr int not_found = 500;
constexpr int not_ready = 600;
constexpr int illegal_address = 700;
constexpr int launch_out_of_resources = 701;
constexpr int launch_timeout = 702;
constexpr int context_destroyed = 709;
constexpr int device_assert = 710;
constexpr int hardware_stack_error = 714;
constexpr int illegal_instruction = 715;
constexpr int misaligned_address = 716;
constexpr int invalid_address_space = 717;
constexpr int invalid_pc = 718;
constexpr int launch_failed = 719;
constexpr int not_permitted = 800;
constexpr int not_supported = 801;
constexpr int system_not_ready = 802;
constexpr int driver_mismatch = 803;
constexpr int capture_unsupported = 900;
constexpr int capture_invalidated = 901;
constexpr int capture_unmatched = 903;
constexpr int capture_unjoined = 904;
constexpr int capture_isolation = 905;
constexpr int capture_implicit = 906;
constexpr int captured_event = 907;
constexpr int capture_wrong_thread = 908;
constexpr int external_device = 911;
constexpr int unknown = 999;
}  // namespace result

// What cuDeviceGetAttribute tells.
namespace attribute {
constexpr int max_threads_per_block = 1;
constexpr int max_grid_x = 5;
constexpr int max_grid_y = 6;
constexpr int max_grid_z = 7;
constexpr int max_shared_bytes_per_block = 8;
constexpr int warp_size = 10;
constexpr int max_registers_per_block = 12;
constexpr int clock_khz = 13;
constexpr int multiprocessors = 16;
constexpr int integrated = 18;
constexpr int compute_mode = 20;
constexpr int ecc_enabled = 32;
constexpr int memory_clock_khz = 36;
constexpr int memory_bus_bits = 37;
constexpr int l2_bytes = 38;
constexpr int max_threads_per_multiprocessor = 39;
constexpr int copy_engines = 40;
constexpr int compute_capability_major = 75;
constexpr int compute_capability_minor = 76;
constexpr int max_shared_bytes_per_multiprocessor = 81;
constexpr int max_registers_per_multiprocessor = 82;
constexpr int max_shared_bytes_opt_in = 97;
constexpr int max_blocks_per_multiprocessor = 106;
}  // namespace attribute

// Whether a device may be used: values of attribute::compute_mode.
namespace compute_mode {
constexpr int shared = 0;
constexpr int prohibited = 2;
constexpr int exclusive_process = 3;
}  // namespace compute_mode

// What cuFuncSetAttribute and cuFuncGetAttribute know.
namespace function {
constexpr int max_threads_per_block = 0;
constexpr int shared_bytes = 1;
constexpr int local_bytes = 3;
constexpr int registers = 4;
constexpr int max_dynamic_shared_bytes = 8;
constexpr int shared_carveout = 9;
}  // namespace function

// Flags of streams, events, pinned memory; modes of capture.
namespace flag {
constexpr int stream_default = 0;
constexpr int stream_non_blocking = 1;
constexpr int event_default = 0;
constexpr int event_blocking_sync = 1;
constexpr int event_disable_timing = 2;
constexpr int event_wait_default = 0;
constexpr int host_alloc_portable = 1;
constexpr int host_alloc_device_map = 2;
constexpr int host_alloc_write_combined = 4;
constexpr int capture_global = 0;
constexpr int capture_thread_local = 1;
constexpr int capture_relaxed = 2;
}  // namespace flag

}  // namespace driver

/// The functions of the CUDA driver; null until it is loaded.
struct driver_functions {
    GRAFT_DRIVER_FUNCTIONS(GRAFT_GPU_MEMBER)
};

}  // namespace api
}  // namespace gpu
GRAFT_END_NAMESPACE
