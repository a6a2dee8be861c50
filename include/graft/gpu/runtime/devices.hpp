// The devices that the driver shows this process, by the names that people and other programs know them under.
#pragma once

#include "../../core/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// A device as it can be told without working on it.
struct device_info {
    int ordinal = 0;    ///< as the driver numbers what CUDA_VISIBLE_DEVICES leaves: N of "cuda:N"
    int physical = -1;  ///< as nvidia-smi numbers it, from NVML; without that, what CUDA_VISIBLE_DEVICES says; -1: not known
    std::string name;
    std::string uuid;          ///< "GPU-...", the same in every process; "" where the driver does not tell
    std::string pci_bus_id;    ///< "0000:65:00.0"
    int major = 0, minor = 0;  ///< compute capability
    int multiprocessors = 0;
    std::int64_t memory_bytes = 0;
    std::int64_t free_bytes = -1;  ///< now, from NVML; -1: not known
    std::string driver;            ///< the CUDA that the driver is for: "13.0"
};

/// The devices of this process, in the driver's order. No context is made. Errors: device_unavailable, where the driver cannot be used.
result<std::vector<device_info>> list_devices();

/// What CUDA_VISIBLE_DEVICES means: numbers and UUIDs ("GPU-...", "MIG-...", or their beginnings), in order, up to the first that is
/// neither; nothing for "", "-1" and "none".
std::vector<std::string> visible_devices(const std::string& value);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "driver_status.hpp"
#include "libraries.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE std::vector<std::string> visible_devices(const std::string& value) {
    std::vector<std::string> out;
    std::size_t begin = 0;
    while (begin <= value.size()) {
        const std::size_t end = std::min(value.find(',', begin), value.size());
        std::string item = value.substr(begin, end - begin);
        begin = end + 1;
        item.erase(0, item.find_first_not_of(" \t"));
        item.erase(item.find_last_not_of(" \t") + 1);
        const bool number = !item.empty() && item.size() < 6 && item.find_first_not_of("0123456789") == std::string::npos;
        if (!number && item.rfind("GPU-", 0) != 0 && item.rfind("MIG-", 0) != 0) break;
        out.push_back(item);
    }
    return out;
}

namespace detail {

inline std::string uuid_text(const api::driver::uuid& id) {
    std::string out = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", id.bytes[i]);
        out += two;
        if (i == 3 || i == 5 || i == 7 || i == 9) out += '-';
    }
    return out;
}

// NVML's device: by UUID, else (a part of a device has one of its own) by the bus. Null where there is none.
inline void* find_in_nvml(const device_info& device) {
    const auto& nvml = load_nvml();
    void* found = nullptr;
    if (!nvml) return nullptr;
    const auto& f = nvml.functions;
    if (!device.uuid.empty() && f.nvmlDeviceGetHandleByUUID(device.uuid.c_str(), &found) == api::nvml::result::success) return found;
    found = nullptr;
    if (!device.pci_bus_id.empty() && f.nvmlDeviceGetHandleByPciBusId_v2(device.pci_bus_id.c_str(), &found) == api::nvml::result::success) return found;
    return nullptr;
}

// The number of a device where NVML does not tell it.
inline int number_by_environment(int ordinal) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) return ordinal;
    const std::vector<std::string> items = visible_devices(visible);
    if (static_cast<std::size_t>(ordinal) >= items.size()) return -1;
    const std::string& item = items[static_cast<std::size_t>(ordinal)];
    return item[0] >= '0' && item[0] <= '9' ? std::atoi(item.c_str()) : -1;
}

inline status describe(const api::driver_functions& f, device_info& out) {
    using namespace api::driver;
    int device = 0;
    const auto check = [&](int error) {
        return error == api::driver::result::success ? status()
                                                     : fail(errc::device_unavailable, "cuda:" + std::to_string(out.ordinal), driver_error_text(f, error));
    };
    GRAFT_TRY(check(f.cuDeviceGet(&device, out.ordinal)));
    char text[256] = "";
    GRAFT_TRY(check(f.cuDeviceGetName(text, sizeof text, device)));
    out.name = text;
    GRAFT_TRY(check(f.cuDeviceGetAttribute(&out.major, attribute::compute_capability_major, device)));
    GRAFT_TRY(check(f.cuDeviceGetAttribute(&out.minor, attribute::compute_capability_minor, device)));
    GRAFT_TRY(check(f.cuDeviceGetAttribute(&out.multiprocessors, attribute::multiprocessors, device)));
    std::size_t bytes = 0;
    GRAFT_TRY(check(f.cuDeviceTotalMem_v2(&bytes, device)));
    out.memory_bytes = static_cast<std::int64_t>(bytes);
    uuid id;
    if (f.cuDeviceGetUuid_v2(&id, device) == api::driver::result::success) out.uuid = uuid_text(id);
    char bus[32] = "";
    if (f.cuDeviceGetPCIBusId(bus, sizeof bus, device) == api::driver::result::success) out.pci_bus_id = bus;
    return status();
}

}  // namespace detail

GRAFT_INLINE result<std::vector<device_info>> list_devices() {
    const auto& driver = load_driver();
    if (!driver) return fail(errc::device_unavailable, "cuda", driver.report.verdict);
    int count = 0;
    if (const int error = driver.functions.cuDeviceGetCount(&count); error != api::driver::result::success)
        return fail(errc::device_unavailable, "cuda", "the driver does not count its devices: " + driver_error_text(driver.functions, error));
    std::vector<device_info> out;
    for (int i = 0; i < count; ++i) {
        device_info device;
        device.ordinal = i;
        device.driver = driver.report.version;
        GRAFT_TRY(detail::describe(driver.functions, device));
        device.physical = detail::number_by_environment(i);
        if (void* known = detail::find_in_nvml(device)) {
            const auto& nvml = load_nvml().functions;
            unsigned index = 0;
            api::nvml::memory bytes;
            if (nvml.nvmlDeviceGetIndex(known, &index) == api::nvml::result::success) device.physical = static_cast<int>(index);
            if (nvml.nvmlDeviceGetMemoryInfo(known, &bytes) == api::nvml::result::success) device.free_bytes = static_cast<std::int64_t>(bytes.free);
        }
        out.push_back(std::move(device));
    }
    return out;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
