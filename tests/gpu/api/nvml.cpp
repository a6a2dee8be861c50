// NVML as declared by graft against nvml.h, where that is installed: calls, values and layouts, when compiled; symbols, when run.
#include <graft/gpu/api/nvml.hpp>

#include "vendor.hpp"
#include "../../skipped.hpp"

#include <doctest/doctest.h>

#if __has_include(<nvml.h>)
#include <nvml.h>

namespace {

using namespace graft::gpu::api;
using namespace graft::gpu::api::nvml;

GRAFT_NVML_FUNCTIONS(SAME_CALL)

static_assert(sizeof(nvml::utilization) == sizeof(nvmlUtilization_t) && sizeof(nvml::memory) == sizeof(nvmlMemory_t), "layout");
static_assert(offsetof(nvml::utilization, gpu) == offsetof(nvmlUtilization_t, gpu), "layout");
static_assert(offsetof(nvml::utilization, memory) == offsetof(nvmlUtilization_t, memory), "layout");
static_assert(offsetof(nvml::memory, total) == offsetof(nvmlMemory_t, total), "layout");
static_assert(offsetof(nvml::memory, free) == offsetof(nvmlMemory_t, free), "layout");
static_assert(offsetof(nvml::memory, used) == offsetof(nvmlMemory_t, used), "layout");

SAME_VALUE(result::success, NVML_SUCCESS);
SAME_VALUE(result::uninitialized, NVML_ERROR_UNINITIALIZED);
SAME_VALUE(result::invalid_argument, NVML_ERROR_INVALID_ARGUMENT);
SAME_VALUE(result::not_supported, NVML_ERROR_NOT_SUPPORTED);
SAME_VALUE(result::no_permission, NVML_ERROR_NO_PERMISSION);
SAME_VALUE(result::not_found, NVML_ERROR_NOT_FOUND);
SAME_VALUE(result::insufficient_size, NVML_ERROR_INSUFFICIENT_SIZE);
SAME_VALUE(result::driver_not_loaded, NVML_ERROR_DRIVER_NOT_LOADED);
SAME_VALUE(result::gpu_is_lost, NVML_ERROR_GPU_IS_LOST);
SAME_VALUE(result::version_mismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
SAME_VALUE(result::unknown, NVML_ERROR_UNKNOWN);
SAME_VALUE(sensor::gpu, NVML_TEMPERATURE_GPU);
SAME_VALUE(throttle::software_power_cap, nvmlClocksThrottleReasonSwPowerCap);
SAME_VALUE(throttle::hardware_slowdown, nvmlClocksThrottleReasonHwSlowdown);
SAME_VALUE(throttle::software_thermal, nvmlClocksThrottleReasonSwThermalSlowdown);
SAME_VALUE(throttle::hardware_thermal, nvmlClocksThrottleReasonHwThermalSlowdown);
SAME_VALUE(throttle::hardware_power_brake, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);

}  // namespace
#else
TEST_CASE("the declarations of NVML are held against its header") { say_skipped("nvml.h is not installed"); }
#endif
