// Lowering for a GPU: fusion, precision, layouts, and chains of element-wise operators as one kernel.
#pragma once

#include "../../lower/backend.hpp"
#include "query.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The numbers that a device computes with.
struct numbers {
    dtype activations = dtype::float32;  ///< of values between operators where the graph has float32: float32, float16 or bfloat16
    bool tf32 = true;                    ///< products of float32 may round their factors to TF32
    bool deterministic = false;
    kernel_options options() const noexcept { return {deterministic, tf32}; }
};

/// The numbers of a name: "float32", "tf32", "float16", "bfloat16"; "auto" is tf32 where the device has it. Errors: usage,
/// device.unavailable (the device has no such arithmetic).
result<numbers> numbers_of(const device_options& options, const device_traits& on);

/// Rewrites the nodes of one place (`with.on`): fuses what the CPU's lowering fuses as well (lower/fuse.hpp), gives values
/// their types and layouts, and makes one node Fusion of element-wise neighbours.
status lower_for_gpu(graph& g, const lowering& with, const numbers& used, const kernel_question& ask);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "lower_body.hpp"
#endif
