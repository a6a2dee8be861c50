// What the GPU of a run is doing: for the progress bar, the logs and the report.
#pragma once

#include <graft/gpu/runtime/watch.hpp>

#include <limits>
#include <memory>
#include <string>

namespace program {

/// Figures of a GPU; NaN where it does not tell.
struct gpu_figures {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();
    double busy = none;           ///< share of the time in which a kernel ran, 0..1
    double memory_access = none;  ///< share of the time in which its memory was read or written, 0..1
    double bytes = none, watts = none, celsius = none;
    double throttled = none;                                ///< 1 while heat or its power supply makes it slower, else 0; their mean is a share of the time
    graft::gpu::throttle why = graft::gpu::throttle::none;  ///< of `throttled`; of means, the last reason
};

/// Samples a GPU twice a second at most, however often it is asked to.
class gpu_use {
public:
    /// `device` as runs name it; it watches nothing where that is no GPU or NVML does not know it.
    explicit gpu_use(const std::string& device);

    bool watching() const { return watch_ != nullptr; }
    void poll();
    const gpu_figures& latest() const { return latest_; }
    /// Means of the samples since the last call, of one taken now where there were none.
    gpu_figures take_means();
    /// Whether NVML has said that the device no longer answers.
    bool lost() const { return lost_; }

private:
    struct mean {
        double sum = 0, count = 0;
        double take();
    };
    void sample();

    std::unique_ptr<graft::gpu::device_watch> watch_;
    gpu_figures latest_;
    mean busy_, memory_access_, bytes_, watts_, celsius_, throttled_;
    graft::gpu::throttle why_ = graft::gpu::throttle::none;
    double last_ = -1e9;
    bool lost_ = false;
};

}  // namespace program
