// Values that a reference kernel refuses and that only a run has: which operators look at them, and the error that a kernel's word stands for.
#pragma once

#include "kernel.hpp"

#include <cstdio>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The inputs of an operator whose contents its reference kernel may refuse: from `first` to `last`.
struct checked_inputs {
    const char* op;
    int first, last;
};

/// Those of a node; null where there are none. Regions are checked in kernels also where they are constants.
inline const checked_inputs* find_checked(const node& n) {
    static constexpr checked_inputs all[] = {
        {"Gather", 1, 1},     {"GatherElements", 1, 1}, {"GatherND", 1, 1}, {"MaxRoiPool", 0, 1},      {"MaxUnpool", 1, 1}, {"ReverseSequence", 1, 1}, {"RoiAlign", 0, 2},
        {"RoiAlignGrad", 0, 2}, {"Scatter", 1, 1},      {"ScatterElements", 1, 1}, {"ScatterND", 1, 1}, {"TargetInRange", 0, 0}, {"TensorScatter", 2, 2},
    };
    for (const checked_inputs& row : all)
        if (n.op_type == row.op) return &row;
    return nullptr;
}

/// Whether the node's kernels may report a fault.
inline bool may_fault(const graph& g, const node& n) {
    const checked_inputs* of = find_checked(n);
    for (int i = of ? of->first : 0; of && i <= of->last && i < static_cast<int>(n.inputs.size()); ++i) {
        const value_id id = n.inputs[static_cast<std::size_t>(i)];
        if (id != no_value && !g.values[static_cast<std::size_t>(id)].constant) return true;
    }
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
