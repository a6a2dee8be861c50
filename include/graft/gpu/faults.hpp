// Values that a reference kernel refuses and that only a run has: which operators look at them, and the error that a kernel's word stands for.
#pragma once

#include "../ops/ops.hpp"
#include "kernel.hpp"

#include <cstdio>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Whether the node's kernels may report a fault. Regions are checked in kernels also where they are constants.
inline bool may_fault(const graph& g, const node& n) {
    const std::uint8_t checked = ops::row_of(n).traits.checked_inputs;
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
        if (in_mask(checked, i) && n.inputs[i] != no_value && !g.at(n.inputs[i]).constant) return true;
    return false;
}

/// The error that a word which is not 0 stands for.
GRAFT_COLD inline status fault_of(const fault& f, std::uint64_t word) {
    char detail[200];
    std::snprintf(detail, sizeof detail, f.text, static_cast<long long>(f.counted ? ~word : word), static_cast<long long>(f.limit));
    return fail(f.code, f.where, detail);
}

}  // namespace gpu
GRAFT_END_NAMESPACE
