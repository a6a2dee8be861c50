// What a back end offers to planning: whether it takes a node, and how it rewrites a graph for itself.
#pragma once

#include "../cpu/kernel.hpp"
#include "../graph/op.hpp"
#include "device.hpp"
#include "pack_cache.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What lowering is given.
struct lowering {
    const limits& limit;
    executor& pool;
    pack_cache* packed;  ///< null: constants are packed anew
    bool exact;          ///< no reassociating algorithms
    std::shared_ptr<memory_budget> budget = nullptr;  ///< what the constants that it makes count against
};

/// How the devices of a back end are used.
struct device_options {
    std::string precision = "auto";  ///< float32, tf32, float16, bfloat16; auto: tf32 where the device has it, else float32
    bool deterministic = false;      ///< only algorithms that give the same bits every time
    std::int64_t memory_bytes = 0;   ///< what it may take of the device's memory; 0: all of it
};

/// A back end, as planning sees it. Functions, so that an app compiles only the back ends that its runtime names. Either it runs on
/// the host and has `lower` and `choose`, or it has devices and `open`.
struct backend {
    const char* name;
    /// Null where the back end can be used on this machine; else a failed status says why not.
    status (*available)();
    /// Null where it takes the node, else the reason why not.
    const char* (*refuse)(const node&);
    /// Rewrites a graph with known shapes: fusion, layout, packing. Adds operators of the domain `graft`.
    status (*lower)(graph&, const lowering&);
    /// The kernel that runs a lowered node; null, with the reason, where the reference kernel has to.
    const cpu::kernel_row* (*choose)(const cpu::kernel_query&, cpu::kernel_choice&, const char*& refusal);
    /// Opens the device of a name such as "cuda" or "cuda:1"; contexts of a process share it. `warn`, which may be null, is told on any
    /// thread what the device does in a slower way than it should. Errors: device.*.
    result<std::shared_ptr<device>> (*open)(const std::string& name, const device_options& options, void (*warn)(const char* text));
    /// Whether somebody is to be told where `auto` cannot open a device: that this machine has one, or that one was asked for. Null: always.
    bool (*expected)() = nullptr;
};

namespace detail {

// The CPU as a back end: everywhere, and whatever this build holds.
constexpr backend cpu_backend(status (*lower)(graph&, const lowering&), const cpu::kernel_row* (*choose)(const cpu::kernel_query&, cpu::kernel_choice&, const char*&)) {
    return {"cpu", [] { return status(); }, [](const node& n) -> const char* { return n.op && n.op->run ? nullptr : "the operator is not compiled into this build (GRAFT_OPS)"; },
            lower, choose, nullptr};
}

}  // namespace detail

/// Where a node runs, and why not elsewhere.
struct placement {
    std::string node, op_type, device, kernel, reason;
};

GRAFT_END_NAMESPACE
