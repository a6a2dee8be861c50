// The CPU in bfloat16, for tests of networks and of steps.
#pragma once

#include "emulated_products.hpp"

#include <graft/cpu/dispatch.hpp>
#include <graft/graft.hpp>

#include <memory>

/// Whether it can be had: of the machine, or of what stands in for it.
inline bool multiplies_bfloat16() { return graft::cpu::bfloat16_products(graft::cpu::active_isa().value()) != nullptr; }

inline std::shared_ptr<graft::device> cpu_in_bfloat16() {
    graft::device_options how;
    how.precision = "bfloat16";
    return graft::runtime<graft::backends::cpu>::open("cpu", how);
}
