// Devices of the CUDA simulator, as graft's back end opens them. What passes here says nothing about a GPU's speed or its bits.
#pragma once

#include "../difference.hpp"

#include <doctest/doctest.h>
#include <graft/gpu.hpp>
#include <graft/gpu/device.hpp>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace simulated {

/// The libraries come from the simulator, and compiled kernels go into its build folder: before anything is loaded.
inline void prepare() {
    setenv("GRAFT_CUDA_PATH", GRAFT_CUDA_SIMULATOR, 1);
    setenv("GRAFT_CACHE_DIR", GRAFT_CUDA_SIMULATOR "/cache", 1);
    setenv("GRAFT_SIMULATOR_DEVICES", "4", 1);
}

inline std::shared_ptr<graft::gpu::cuda_device> open(const graft::device_options& options = {}, int ordinal = 0) {
    prepare();
    graft::gpu::device_functions functions;
    REQUIRE_MESSAGE(graft::gpu::load_driver().report.ok, graft::gpu::load_driver().report.verdict);
    REQUIRE_MESSAGE(graft::gpu::load_nvrtc().report.ok, graft::gpu::load_nvrtc().report.verdict);
    functions.driver = &graft::gpu::load_driver().functions;
    functions.nvrtc = &graft::gpu::load_nvrtc().functions;
    if (graft::gpu::load_cudnn()) functions.cudnn = &graft::gpu::load_cudnn().functions;
    if (graft::gpu::load_cublaslt()) functions.cublaslt = &graft::gpu::load_cublaslt().functions;
    if (graft::gpu::load_nccl()) functions.nccl = &graft::gpu::load_nccl().functions;
    auto opened = graft::gpu::cuda_device::open(functions, ordinal, options);
    const std::string error = opened.ok() ? "" : opened.error().what();
    REQUIRE_MESSAGE(opened.ok(), error);
    return opened.value();
}

/// The device of most tests, with float32 products that are not rounded.
inline std::shared_ptr<graft::gpu::cuda_device> exact_device() {
    static const std::shared_ptr<graft::gpu::cuda_device> it = [] {
        graft::device_options options;
        options.precision = "float32";
        return open(options);
    }();
    return it;
}

/// What a model answers at its second run, which a device records.
inline graft::tensor recorded_answer(const graft::model& m, const graft::tensor& x) {
    graft::session session(m, {1, nullptr});
    graft::tensor y;
    for (int i = 0; i < 2; ++i) y = session.run(x);
    return y;
}

}  // namespace simulated
