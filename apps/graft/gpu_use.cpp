// Samples of the GPU of a run, and their means.
#include "gpu_use.hpp"

#include "console.hpp"

#include <cmath>

namespace program {

gpu_use::gpu_use(const std::string& device) {
    if (device.compare(0, 5, "cuda:") != 0) return;
    auto devices = graft::gpu::list_devices();
    if (!devices.ok()) return;
    for (const graft::gpu::device_info& d : devices.value()) {
        if ("cuda:" + std::to_string(d.ordinal) != device) continue;
        watch_ = std::make_unique<graft::gpu::device_watch>(std::vector<graft::gpu::device_info>{d});
        if (!watch_->knows(0)) watch_.reset();
    }
}

double gpu_use::mean::take() {
    const double value = count > 0 ? sum / count : gpu_figures::none;
    *this = mean();
    return value;
}

void gpu_use::sample() {
    last_ = seconds_now();
    const graft::gpu::device_sample s = watch_->sample(0);
    lost_ = lost_ || s.lost;
    latest_ = gpu_figures();
    if (s.utilization >= 0) latest_.busy = s.utilization / 100.0;
    if (s.memory_access >= 0) latest_.memory_access = s.memory_access / 100.0;
    if (s.memory_used >= 0) latest_.bytes = static_cast<double>(s.memory_used);
    if (s.watts >= 0) latest_.watts = s.watts;
    if (s.celsius >= 0) latest_.celsius = s.celsius;
    // A power limit is what a busy device runs into by design.
    using graft::gpu::throttle;
    const bool throttled = s.throttled == throttle::heat || s.throttled == throttle::power_brake;
    if (s.utilization >= 0) latest_.throttled = throttled ? 1 : 0;
    if (throttled) why_ = latest_.why = s.throttled;
    const auto add = [](mean& to, double value) {
        if (std::isfinite(value)) to.sum += value, to.count += 1;
    };
    add(busy_, latest_.busy), add(memory_access_, latest_.memory_access), add(bytes_, latest_.bytes), add(watts_, latest_.watts),
        add(celsius_, latest_.celsius);
    add(throttled_, latest_.throttled);
}

void gpu_use::poll() {
    if (watch_ && seconds_now() - last_ >= 0.5) sample();
}

gpu_figures gpu_use::take_means() {
    if (watch_ && !(busy_.count + bytes_.count + watts_.count + celsius_.count > 0)) sample();
    return {busy_.take(), memory_access_.take(), bytes_.take(), watts_.take(), celsius_.take(), throttled_.take(), why_};
}

}  // namespace program
