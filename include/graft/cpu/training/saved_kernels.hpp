// Activations that the forward part of a step has kept for the backward part, as kernels see them.
#pragma once

#include "../../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// The elements of an activation in either type that they are kept in.
struct saved_activation {
    const void* data = nullptr;
    bool narrow = false;  ///< bfloat16; else float32

    saved_activation() = default;
    saved_activation(const float* x) : data(x) {}
    saved_activation(const std::uint16_t* x) : data(x), narrow(true) {}
    const float* floats() const noexcept { return static_cast<const float*>(data); }
    /// From the element `count` on.
    saved_activation from(std::int64_t count) const noexcept {
        saved_activation rest = *this;
        if (data) rest.data = static_cast<const char*>(data) + count * (narrow ? 2 : 4);
        return rest;
    }
};

}  // namespace cpu
GRAFT_END_NAMESPACE
