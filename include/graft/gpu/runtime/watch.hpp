// How devices are doing while they work: what NVML tells of each.
#pragma once

#include "devices.hpp"

#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Why a device's clocks are lower than they could be.
enum class throttle {
    none,         ///< they are not, or the device is idle, or does not tell
    power_limit,  ///< the driver keeps it under its power limit, as it does with many a device that is busy
    heat,
    power_brake  ///< the device or its power supply had to act: clocks are a half or less
};
/// "power limit", "heat", "power brake", or "" for none.
const char* name(throttle why) noexcept;

/// A device at one moment, everything that runs on it together. What the device or its driver does not tell is -1.
struct device_sample {
    int utilization = -1;    ///< percent of the driver's last sampling period (up to a second) in which a kernel ran
    int memory_access = -1;  ///< percent of it in which the device's memory was read or written
    std::int64_t memory_used = -1, memory_bytes = -1;
    double watts = -1;
    int celsius = -1;
    throttle throttled = throttle::none;
    bool lost = false;  ///< the device no longer answers, and will not before the machine or the device is restarted
};

/// Asks how devices are doing. Cheap enough to be asked once a second; safe for several threads; makes no context.
class device_watch {
public:
    /// Finds each device in NVML, by its UUID, else by its bus. Where NVML cannot be used, every sample is empty: load_nvml() says why.
    explicit device_watch(const std::vector<device_info>& devices);

    std::size_t size() const noexcept { return handles_.size(); }
    /// Whether NVML knows that device.
    bool knows(std::size_t device) const noexcept { return handles_[device] != nullptr; }
    /// A sample of the device that was given as number `device`.
    device_sample sample(std::size_t device) const;

private:
    std::vector<void*> handles_;  // NVML's; null for a device that it does not know
};

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE device_watch::device_watch(const std::vector<device_info>& devices) {
    for (const device_info& device : devices) handles_.push_back(detail::find_in_nvml(device));
}

GRAFT_INLINE const char* name(throttle why) noexcept {
    switch (why) {
    case throttle::power_limit: return "power limit";
    case throttle::heat: return "heat";
    case throttle::power_brake: return "power brake";
    case throttle::none: break;
    }
    return "";
}

namespace detail {
// The gravest of the reasons.
inline throttle throttle_of(unsigned long long reasons) noexcept {
    namespace why = api::nvml::throttle;
    if (reasons & (why::software_thermal | why::hardware_thermal)) return throttle::heat;
    if (reasons & (why::hardware_power_brake | why::hardware_slowdown)) return throttle::power_brake;
    return reasons & why::software_power_cap ? throttle::power_limit : throttle::none;
}
}  // namespace detail

GRAFT_INLINE device_sample device_watch::sample(std::size_t device) const {
    device_sample out;
    void* handle = handles_[device];
    if (!handle) return out;
    const api::nvml_functions& f = load_nvml().functions;
    const auto told = [&](int answer) {
        out.lost = out.lost || answer == api::nvml::result::gpu_is_lost;
        return answer == api::nvml::result::success;
    };
    api::nvml::utilization rates;
    if (told(f.nvmlDeviceGetUtilizationRates(handle, &rates))) {
        out.utilization = static_cast<int>(rates.gpu);
        out.memory_access = static_cast<int>(rates.memory);
    }
    api::nvml::memory bytes;
    if (told(f.nvmlDeviceGetMemoryInfo(handle, &bytes))) {
        out.memory_used = static_cast<std::int64_t>(bytes.used);
        out.memory_bytes = static_cast<std::int64_t>(bytes.total);
    }
    unsigned value = 0;
    if (told(f.nvmlDeviceGetPowerUsage(handle, &value))) out.watts = value / 1000.0;
    if (told(f.nvmlDeviceGetTemperature(handle, api::nvml::sensor::gpu, &value))) out.celsius = static_cast<int>(value);
    unsigned long long reasons = 0;
    if (told(f.nvmlDeviceGetCurrentClocksThrottleReasons(handle, &reasons))) out.throttled = detail::throttle_of(reasons);
    return out;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
