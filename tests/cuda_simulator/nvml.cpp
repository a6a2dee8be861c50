// The simulated libnvidia-ml.so.1: how made-up devices are doing. Its numbers vary and mean nothing.
#include "simulator.hpp"

#include <graft/gpu/api/nvml.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

using namespace graft::gpu::api;
using namespace graft_simulator;

#define GRAFT_SIMULATOR_DECLARE(type, name, parameters) GRAFT_SIMULATED type name parameters;
GRAFT_NVML_FUNCTIONS(GRAFT_SIMULATOR_DECLARE)

namespace {

namespace result = nvml::result;

struct state {
    std::mutex lock;
    int initialized = 0;
    unsigned samples = 0;
};
state& the_state() {
    static state* s = new state;
    return *s;
}

constexpr std::uintptr_t first_handle = 0x53000000;

unsigned next_sample() {
    const std::lock_guard<std::mutex> lock(the_state().lock);
    return the_state().samples++;
}

// 0, or why the call cannot go on; `index`: of the device.
int begin(const char* name, const void* device, unsigned& index) {
    if (const int forced = fault(name)) return forced;
    const std::lock_guard<std::mutex> lock(the_state().lock);
    if (!the_state().initialized) return result::uninitialized;
    const std::uintptr_t distance = reinterpret_cast<std::uintptr_t>(device) - first_handle;
    if (distance >= static_cast<unsigned>(device_count())) return result::invalid_argument;
    index = static_cast<unsigned>(distance);
    return result::success;
}
int begin(const char* name) {
    if (const int forced = fault(name)) return forced;
    const std::lock_guard<std::mutex> lock(the_state().lock);
    return the_state().initialized ? result::success : result::uninitialized;
}

int put_text(char* text, unsigned bytes, const std::string& value) {
    if (!text) return result::invalid_argument;
    if (bytes <= value.size()) return result::insufficient_size;
    std::memcpy(text, value.c_str(), value.size() + 1);
    return result::success;
}

std::string uuid_text(int device) {
    unsigned char b[16];
    device_uuid(device, b);
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", b[i]);
        text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(two);
    }
    return text;
}

void* handle_of(int device) { return reinterpret_cast<void*>(first_handle + static_cast<std::uintptr_t>(device)); }

}  // namespace

extern "C" {

int nvmlInit_v2() {
    if (const int forced = fault("nvmlInit_v2")) return forced;
    const std::lock_guard<std::mutex> lock(the_state().lock);
    if (++the_state().initialized == 1) handle_made("nvmlInit", &the_state());
    return result::success;
}

int nvmlShutdown() {
    const int forced = fault("nvmlShutdown");
    const std::lock_guard<std::mutex> lock(the_state().lock);
    if (!the_state().initialized) return result::uninitialized;
    if (--the_state().initialized == 0) handle_destroyed("nvmlInit", &the_state());
    return forced;
}

const char* nvmlErrorString(int error) {
    switch (error) {
    case result::success: return "The operation was successful";
    case result::uninitialized: return "NVML was not first initialized with nvmlInit()";
    case result::invalid_argument: return "A supplied argument is invalid";
    case result::not_supported: return "The requested operation is not available on target device";
    case result::no_permission: return "The current user does not have permission for operation";
    case result::not_found: return "A query to find an object was unsuccessful";
    case result::insufficient_size: return "An input argument is not large enough";
    case result::driver_not_loaded: return "NVIDIA driver is not loaded";
    case result::gpu_is_lost: return "The GPU has fallen off the bus or has otherwise become inaccessible";
    case result::version_mismatch: return "RM has detected an NVML/RM version mismatch";
    default: return "An internal driver error occurred";
    }
}

int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
    if (const int error = begin("nvmlSystemGetDriverVersion")) return error;
    return put_text(text, bytes, "580.00.simulated");
}

int nvmlDeviceGetCount_v2(unsigned* count) {
    if (const int error = begin("nvmlDeviceGetCount_v2")) return error;
    if (!count) return result::invalid_argument;
    *count = static_cast<unsigned>(device_count());
    return result::success;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    if (const int error = begin("nvmlDeviceGetHandleByIndex_v2")) return error;
    if (!device || index >= static_cast<unsigned>(device_count())) return result::invalid_argument;
    *device = handle_of(static_cast<int>(index));
    return result::success;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    if (const int error = begin("nvmlDeviceGetHandleByUUID")) return error;
    if (!uuid || !device) return result::invalid_argument;
    for (int i = 0; i < device_count(); ++i) {
        if (uuid_text(i) != uuid) continue;
        *device = handle_of(i);
        return result::success;
    }
    return result::not_found;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
    if (const int error = begin("nvmlDeviceGetHandleByPciBusId_v2")) return error;
    if (!id || !device) return result::invalid_argument;
    for (int i = 0; i < device_count(); ++i) {  // the domain may be written with four or eight digits
        if (device_bus_id(i) != id && "0000" + device_bus_id(i) != id) continue;
        *device = handle_of(i);
        return result::success;
    }
    return result::not_found;
}

int nvmlDeviceGetIndex(void* device, unsigned* index) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetIndex", device, n)) return error;
    if (!index) return result::invalid_argument;
    *index = n;
    return result::success;
}

int nvmlDeviceGetName(void* device, char* text, unsigned bytes) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetName", device, n)) return error;
    return put_text(text, bytes, "graft CUDA simulator");
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetUUID", device, n)) return error;
    return put_text(text, bytes, uuid_text(static_cast<int>(n)));
}

int nvmlDeviceGetUtilizationRates(void* device, nvml::utilization* rates) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetUtilizationRates", device, n)) return error;
    if (!rates) return result::invalid_argument;
    const unsigned sample = next_sample();
    rates->gpu = (37 + 13 * sample) % 101;
    rates->memory = (11 + 7 * sample) % 101;
    return result::success;
}

int nvmlDeviceGetMemoryInfo(void* device, nvml::memory* bytes) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetMemoryInfo", device, n)) return error;
    if (!bytes) return result::invalid_argument;
    bytes->total = total_memory();
    bytes->used = used_memory(static_cast<int>(n));
    bytes->free = bytes->total - bytes->used;
    return result::success;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetPowerUsage", device, n)) return error;
    if (!milliwatts) return result::invalid_argument;
    *milliwatts = 100000 + 7919 * (next_sample() % 16);
    return result::success;
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetTemperature", device, n)) return error;
    if (!celsius || sensor != nvml::sensor::gpu) return result::invalid_argument;
    *celsius = 40 + next_sample() % 30;
    return result::success;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
    unsigned n = 0;
    if (const int error = begin("nvmlDeviceGetCurrentClocksThrottleReasons", device, n)) return error;
    if (!reasons) return result::invalid_argument;
    *reasons = std::strtoull(setting("THROTTLE", "0").c_str(), nullptr, 0);
    return result::success;
}
}
