// The driver as declared by graft against cuda.h, where that is installed: calls, values and layouts, when compiled; symbols, when run.
#include <graft/gpu/api/driver.hpp>

#include "vendor.hpp"
#include "../../skipped.hpp"

#include <doctest/doctest.h>

#if __has_include(<cuda.h>)
#define __CUDA_API_VERSION_INTERNAL  // declares each version of a function by its own name, and no macros
#include <cuda.h>

namespace {

using namespace graft::gpu::api;
using namespace graft::gpu::api::driver;

GRAFT_DRIVER_FUNCTIONS(SAME_CALL)

static_assert(sizeof(driver::uuid) == sizeof(CUuuid), "a UUID's layout");
static_assert(sizeof(std::uint64_t) == sizeof(CUdeviceptr), "an address' size");

SAME_VALUE(result::success, CUDA_SUCCESS);
SAME_VALUE(result::invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(result::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(result::deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(result::stub_library, CUDA_ERROR_STUB_LIBRARY);
SAME_VALUE(result::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_VALUE(result::no_device, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(result::invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(result::invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(result::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(result::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(result::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(result::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_VALUE(result::contained, CUDA_ERROR_CONTAINED);
SAME_VALUE(result::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(result::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(result::not_found, CUDA_ERROR_NOT_FOUND);
SAME_VALUE(result::not_ready, CUDA_ERROR_NOT_READY);
SAME_VALUE(result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(result::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME_VALUE(result::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(result::context_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(result::device_assert, CUDA_ERROR_ASSERT);
SAME_VALUE(result::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_VALUE(result::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME_VALUE(result::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME_VALUE(result::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME_VALUE(result::invalid_pc, CUDA_ERROR_INVALID_PC);
SAME_VALUE(result::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(result::not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(result::not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(result::system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
SAME_VALUE(result::driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(result::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(result::capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_VALUE(result::capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME_VALUE(result::capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME_VALUE(result::capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME_VALUE(result::capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_VALUE(result::captured_event, CUDA_ERROR_CAPTURED_EVENT);
SAME_VALUE(result::capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME_VALUE(result::external_device, CUDA_ERROR_EXTERNAL_DEVICE);
SAME_VALUE(result::unknown, CUDA_ERROR_UNKNOWN);
SAME_VALUE(attribute::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(attribute::max_grid_x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
SAME_VALUE(attribute::max_grid_y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
SAME_VALUE(attribute::max_grid_z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
SAME_VALUE(attribute::max_shared_bytes_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME_VALUE(attribute::warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME_VALUE(attribute::max_registers_per_block, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
SAME_VALUE(attribute::clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME_VALUE(attribute::multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(attribute::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME_VALUE(attribute::compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME_VALUE(attribute::ecc_enabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
SAME_VALUE(attribute::memory_clock_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME_VALUE(attribute::memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME_VALUE(attribute::l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_VALUE(attribute::max_threads_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME_VALUE(attribute::copy_engines, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME_VALUE(attribute::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(attribute::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(attribute::max_shared_bytes_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME_VALUE(attribute::max_registers_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME_VALUE(attribute::max_shared_bytes_opt_in, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(attribute::max_blocks_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
SAME_VALUE(compute_mode::shared, CU_COMPUTEMODE_DEFAULT);
SAME_VALUE(compute_mode::prohibited, CU_COMPUTEMODE_PROHIBITED);
SAME_VALUE(compute_mode::exclusive_process, CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
SAME_VALUE(function::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(function::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_VALUE(function::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME_VALUE(function::registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(function::max_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(function::shared_carveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME_VALUE(flag::stream_default, CU_STREAM_DEFAULT);
SAME_VALUE(flag::stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(flag::event_default, CU_EVENT_DEFAULT);
SAME_VALUE(flag::event_blocking_sync, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(flag::event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(flag::event_wait_default, CU_EVENT_WAIT_DEFAULT);
SAME_VALUE(flag::host_alloc_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME_VALUE(flag::host_alloc_device_map, CU_MEMHOSTALLOC_DEVICEMAP);
SAME_VALUE(flag::host_alloc_write_combined, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME_VALUE(flag::capture_global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(flag::capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(flag::capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);

}  // namespace
#else
TEST_CASE("the declarations of the driver are held against its header") { say_skipped("cuda.h is not installed"); }
#endif

TEST_CASE("the driver has every function of the list") {
    const auto missing = missing_symbols("stubs/libcuda.so", {GRAFT_DRIVER_FUNCTIONS(NAME_OF_CALL)});
    CAPTURE(missing.empty() ? std::string() : missing[0]);
    CHECK(missing.empty());
}
