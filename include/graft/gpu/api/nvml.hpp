// NVML (libnvidia-ml.so.1, nvml.dll): what tells how a device is doing, as far as graft uses it, declared in its own words.
#pragma once

#include "../../config.hpp"
#include "member.hpp"

/// Functions of NVML as rows X(result, exported name, parameters). Results are an `nvml::result`; a device is void*.
#define GRAFT_NVML_FUNCTIONS(X) \
    X(int, nvmlInit_v2, ()) \
    X(int, nvmlShutdown, ()) \
    X(const char*, nvmlErrorString, (int error)) \
    X(int, nvmlSystemGetDriverVersion, (char* text, unsigned bytes)) \
    X(int, nvmlDeviceGetCount_v2, (unsigned* count)) \
    X(int, nvmlDeviceGetHandleByIndex_v2, (unsigned index, void** device)) \
    X(int, nvmlDeviceGetHandleByUUID, (const char* uuid, void** device)) \
    X(int, nvmlDeviceGetHandleByPciBusId_v2, (const char* id, void** device)) \
    X(int, nvmlDeviceGetIndex, (void* device, unsigned* index)) \
    X(int, nvmlDeviceGetName, (void* device, char* text, unsigned bytes)) \
    X(int, nvmlDeviceGetUUID, (void* device, char* text, unsigned bytes)) \
    X(int, nvmlDeviceGetUtilizationRates, (void* device, nvml::utilization* rates)) \
    X(int, nvmlDeviceGetMemoryInfo, (void* device, nvml::memory* bytes)) \
    X(int, nvmlDeviceGetPowerUsage, (void* device, unsigned* milliwatts)) \
    X(int, nvmlDeviceGetTemperature, (void* device, int sensor, unsigned* celsius)) \
    X(int, nvmlDeviceGetCurrentClocksThrottleReasons, (void* device, unsigned long long* reasons))

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace api {
namespace nvml {

/// Of the last sampling period, in percent.
struct utilization {
    unsigned gpu = 0;     ///< of the time in which a kernel ran
    unsigned memory = 0;  ///< of the time in which memory was read or written
};

/// Of the whole device, in bytes.
struct memory {
    unsigned long long total = 0, free = 0, used = 0;
};

// What a function returned.
namespace result {
constexpr int success = 0;
constexpr int uninitialized = 1;
constexpr int invalid_argument = 2;
constexpr int not_supported = 3;
constexpr int no_permission = 4;
constexpr int not_found = 6;
constexpr int insufficient_size = 7;
constexpr int driver_not_loaded = 9;
constexpr int gpu_is_lost = 15;
constexpr int version_mismatch = 18;
constexpr int unknown = 999;
}  // namespace result

// Where a temperature is taken.
namespace sensor {
constexpr int gpu = 0;
}  // namespace sensor

// Why clocks are lower than they could be, as bits.
namespace throttle {
constexpr unsigned long long software_power_cap = 0x4;
constexpr unsigned long long hardware_slowdown = 0x8;
constexpr unsigned long long software_thermal = 0x20;
constexpr unsigned long long hardware_thermal = 0x40;
constexpr unsigned long long hardware_power_brake = 0x80;
}  // namespace throttle

}  // namespace nvml

/// The functions of NVML; null until it is loaded.
struct nvml_functions {
    GRAFT_NVML_FUNCTIONS(GRAFT_GPU_MEMBER)
};

}  // namespace api
}  // namespace gpu
GRAFT_END_NAMESPACE
