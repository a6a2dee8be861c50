// What a device beside the CPU offers: kernels for the nodes that it takes, memory of its own, and runs of planned steps.
#pragma once

#include "../core/executor.hpp"
#include "../graph/op.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

struct lowering;
struct plan;
struct slot;

/// A node with known shapes, asked of a device. `in_layout` and `out_layout` tell how each value lies, `memory` for each
/// input the value whose memory it may lie in.
struct device_query : op_context {
    const layout* in_layout;
    const layout* out_layout;
    const value_id* memory;
};

/// What a device runs for one node of a lowered graph. Immutable; shared by contexts.
class device_kernel {
public:
    inline virtual ~device_kernel() {}

    std::int64_t workspace_bytes = 0;  ///< scratch memory of the device
    bool in_place = false;             ///< output 0 may take the memory of input 0
    std::string note;                  ///< for the placement table
};

/// What a device keeps for a plan: compiled kernels, and the constants that they read.
class device_program {
public:
    inline virtual ~device_program() {}
    inline virtual std::int64_t constant_bytes() const noexcept = 0;
};

/// State that stays on a device from run to run, known by the address that it has on the host. For one thread at a time.
class device_state {
public:
    inline virtual ~device_state() {}
    /// The host has written over its copy at `address`, or over all of them where that is null: the next run takes what lies there.
    inline virtual void host_changed(const void* address) noexcept = 0;
    /// Brings what runs have changed back into the host's copy at `address`, or into all of them where that is null. Errors: device.lost.
    inline virtual status read_back(const void* address) = 0;
};

/// Where the host's side of a run lies.
class host_addresses {
public:
    inline virtual ~host_addresses() {}
    inline virtual void* address(const slot& s) const = 0;
};

/// The memory and the queue of one context on a device. Not for two threads at once.
class device_context {
public:
    inline virtual ~device_context() {}
    /// Runs the steps [first, last) of the plan, all of them the device's, and returns when what they bring to the host is there. `pool`
    /// serves copies of the host.
    inline virtual status run(int first, int last, const host_addresses& host, executor& pool) = 0;
    /// Input `input` of the run after the next one will lie at `address`, where it is complete already: it may be brought over while the
    /// next run computes. A run whose input lies elsewhere takes it from there.
    inline virtual status expect(std::int64_t input, const void* address) = 0;
};

/// A device that was opened. Safe from many threads.
class device {
public:
    inline virtual ~device() {}
    /// As users name it: "cuda:0".
    inline virtual const std::string& name() const noexcept = 0;
    /// Null where it takes the node, else the reason why not. Constants have their data, other inputs none.
    inline virtual const char* refuse(const op_context& node) const = 0;
    /// Rewrites the nodes that it has: fusion, precision, layout. New ones need node::on_device and a row (node::op); nodes of the host are
    /// in domains that begin with "host:". Inputs and outputs of the graph stay row-major.
    inline virtual status lower(graph& g, const lowering& with) = 0;
    /// The kernel of a lowered node. Errors: op.unsupported, and device.* where a library fails.
    inline virtual result<std::shared_ptr<const device_kernel>> prepare(const device_query& node) = 0;
    /// Compiles what a plan's kernels need and brings its constants over. Errors: memory.oom, device.*.
    inline virtual result<std::shared_ptr<const device_program>> load(const plan& p, executor& pool) = 0;
    /// Memory and a queue for runs of a plan. `state` may be null where the plan has none. Errors: memory.oom, device.*.
    inline virtual result<std::unique_ptr<device_context>> make_context(std::shared_ptr<const plan> p, device_state* state) = 0;
    inline virtual result<std::unique_ptr<device_state>> make_state() = 0;
};

GRAFT_END_NAMESPACE
