// A back end: what an app names so that its devices can be opened; and what lowering is given.
#pragma once

#include "../graph/op.hpp"
#include "device.hpp"
#include "pack_cache.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What lowering is given.
struct lowering {
    const limits& limit;
    executor& pool;
    pack_cache* packed;                               ///< null: constants are packed anew
    bool exact;                                       ///< no reassociating algorithms
    std::shared_ptr<memory_budget> budget = nullptr;  ///< what the constants that it makes count against
    place_id on = 0;                                  ///< whose nodes are rewritten
};

/// A constant in the form that `key` tells of, a tensor that `make` fills: made once for all plans of a model, and found again in
/// later processes where the cache has a store. Errors: memory.oom, memory.budget, and those of `make`.
result<tensor> packed_once(const lowering& with, const tensor& source, const std::string& key, dtype type, const shape& extents,
                           const std::function<status(tensor&)>& make);

/// How the devices of a back end are used.
struct device_options {
    std::string precision = "auto";  ///< float32, tf32, float16, bfloat16; auto: tf32 where the device has it, else float32. Of a CPU: float32; bfloat16, where
                                     ///< it multiplies tiles of it
    bool deterministic = false;      ///< only algorithms that give the same bits every time
    std::int64_t memory_bytes = 0;   ///< what it may take of the device's memory; 0: all of it
};

/// A back end. Functions, so that an app compiles only the back ends that its runtime names.
struct backend {
    const char* name;
    /// A failed status where the back end cannot be used on this machine says why not.
    status (*available)();
    /// Opens the device of a name such as "cuda" or "cuda:1"; contexts of a process share it. `warn`, which may be null, is told on any
    /// thread what the device does in a slower way than it should. Errors: device.*, cpu.isa.
    result<std::shared_ptr<device>> (*open)(const std::string& name, const device_options& options, void (*warn)(const char* text));
    /// Whether somebody is to be told where `auto` cannot open a device: that this machine has one, or that one was asked for. Null: always.
    bool (*expected)() = nullptr;
    bool host = false;  ///< its device has the host's memory, and takes what no other does
};

/// Where a node runs, and why not elsewhere.
struct placement {
    std::string node, op_type, device, kernel, reason;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
GRAFT_INLINE GRAFT_COLD result<tensor> packed_once(const lowering& with, const tensor& source, const std::string& key, dtype type, const shape& extents,
                                                   const std::function<status(tensor&)>& make) {
    tensor packed = with.packed ? with.packed->find(source, key, type, extents, with.pool) : tensor();
    if (packed) return packed;
    GRAFT_TRY_ASSIGN(packed, with.packed ? with.packed->make(type, extents, with.budget) : tensor::make(type, extents, with.budget));
    GRAFT_TRY(make(packed));
    if (with.packed) with.packed->add(source, key, packed);
    return packed;
}
GRAFT_END_NAMESPACE
#endif
