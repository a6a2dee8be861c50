// What the driver's results mean to a user.
#pragma once

#include "../../core/error.hpp"
#include "../api/driver.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// A driver's error: "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected".
std::string driver_error_text(const api::driver_functions& driver, int error);

/// A result of the driver as a status: `what` says what was being done, `where` names the device. Errors: memory.oom, device.lost
/// (the process has to be started anew to use the device again), device.unavailable for everything else.
status driver_status(const api::driver_functions& driver, int result, const std::string& where, const char* what);

/// Whether the device is lost to this process after such a result.
bool is_lost(int result) noexcept;

// Ends the function with the status of a driver's call that failed.
#define GRAFT_GPU_TRY(driver, call, where, what) \
    do { \
        const int graft_gpu_result = (driver).call; \
        if (graft_gpu_result) return ::graft::gpu::driver_status((driver), graft_gpu_result, (where), (what)); \
    } while (0)

/// Makes the device's context the calling thread's, for as long as it lives.
class current_context {
public:
    current_context(const api::driver_functions& driver, void* context) : driver_(driver), result_(driver.cuCtxPushCurrent_v2(context)) {}
    ~current_context() {
        void* popped = nullptr;
        if (!result_) driver_.cuCtxPopCurrent_v2(&popped);
    }
    current_context(const current_context&) = delete;
    current_context& operator=(const current_context&) = delete;
    int result() const noexcept { return result_; }

private:
    const api::driver_functions& driver_;
    int result_;
};

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE bool is_lost(int result) noexcept {
    using namespace api::driver::result;
    for (int lost : {deinitialized, ecc_uncorrectable, nvlink_uncorrectable, contained, illegal_address, launch_timeout, context_destroyed, device_assert,
                     hardware_stack_error, illegal_instruction, misaligned_address, invalid_address_space, invalid_pc, launch_failed, unknown})
        if (result == lost) return true;
    return false;
}

GRAFT_INLINE std::string driver_error_text(const api::driver_functions& driver, int error) {
    const char *name = nullptr, *text = nullptr;
    driver.cuGetErrorName(error, &name);
    driver.cuGetErrorString(error, &text);
    return (name ? name : "error " + std::to_string(error)) + (text ? std::string(": ") + text : "");
}

GRAFT_INLINE status driver_status(const api::driver_functions& driver, int result, const std::string& where, const char* what) {
    if (!result) return {};
    const std::string said = std::string(what) + " failed: " + driver_error_text(driver, result);
    if (result == api::driver::result::out_of_memory)
        return fail(errc::memory_oom, where, said + "; take a smaller batch, or free memory that others use on this device");
    if (is_lost(result))
        return fail(errc::device_lost, where,
                    said + "; the device cannot be used by this process any more: start it again, and resume from the last checkpoint");
    return fail(errc::device_unavailable, where, said);
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
