// NVIDIA GPUs as a back end that apps name: runtime<backends::cuda, backends::cpu>.
#pragma once

#include "../lower/backend.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace backends {

/// NVIDIA GPUs of compute capability 7.0 and up, where the driver, cuDNN 9, cuBLASLt and NVRTC can be loaded. Devices are named "cuda"
/// (the first) or "cuda:1", in the order of CUDA_VISIBLE_DEVICES.
struct cuda {
    static const backend& instance() noexcept;
};

}  // namespace backends
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "context_body.hpp"
#include "device_body.hpp"
#include "runtime/hardware.hpp"
#include "runtime/libraries.hpp"
#include "runtime/load.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Opens a device by its name. Errors: device.unavailable, usage.
inline result<std::shared_ptr<device>> open_by_name(const std::string& name, const device_options& options, void (*warn)(const char*)) {
    GRAFT_TRY(available());
    int ordinal = 0, count = 0;
    if (name != "cuda") {
        const std::string number = name.compare(0, 5, "cuda:") == 0 ? name.substr(5) : "";
        if (number.empty() || number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos)
            return fail(errc::usage, name, "devices are named cuda, or cuda:0, cuda:1 and so on");
        ordinal = std::atoi(number.c_str());
    }
    const auto& driver = load_driver().functions;
    GRAFT_GPU_TRY(driver, cuDeviceGetCount(&count), name, "counting devices");
    if (ordinal >= count)
        return fail(errc::device_unavailable, name,
                    "this process sees " + std::to_string(count) + (count == 1 ? " device" : " devices") +
                        ", numbered from 0; graft doctor lists them, and CUDA_VISIBLE_DEVICES chooses among them");
    device_functions functions;
    functions.driver = &driver;
    functions.nvrtc = &load_nvrtc().functions;
    if (load_cudnn()) functions.cudnn = &load_cudnn().functions;
    if (load_cublaslt()) functions.cublaslt = &load_cublaslt().functions;
    if (load_nccl()) functions.nccl = &load_nccl().functions;
    std::shared_ptr<device> opened;
    GRAFT_TRY_ASSIGN(opened, cuda_device::open(functions, ordinal, options, warn));
    return opened;
}

/// A machine without a GPU runs on the CPU, and nothing is amiss; who names libraries in GRAFT_CUDA_PATH wants one.
inline bool expected() { return !detail::environment("GRAFT_CUDA_PATH").empty() || has_hardware(); }

}  // namespace gpu
namespace backends {

GRAFT_INLINE const backend& cuda::instance() noexcept {
    static constexpr backend self = {"cuda", gpu::available, gpu::open_by_name, gpu::expected};
    return self;
}

}  // namespace backends
GRAFT_END_NAMESPACE
#endif
