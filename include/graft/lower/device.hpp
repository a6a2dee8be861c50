// What a device offers, the CPU among them: which nodes it takes, how it rewrites and prepares them, memory, and runs of planned steps.
#pragma once

#include "../core/communicator.hpp"
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
struct run_environment;

/// A node with known shapes, asked of a device. `memory` tells for each input the value whose memory it may lie in.
struct device_query : op_context {
    const layout* in_layout;
    const layout* out_layout;
    const value_id* memory;
    bool exact;      ///< no reassociating algorithms
    bool reference;  ///< reference kernels only

    /// Whether another input may lie in the same memory as input `which`.
    bool shares_memory(int which) const noexcept {
        for (int i = 0; i < inputs; ++i)
            if (i != which && has(i) && memory[i] == memory[which]) return true;
        return false;
    }
};

/// Why a place did not take a node, which the host has therefore; static text. Of what the host is to have anyway, place 0.
struct placement_refusal {
    place_id by = 0;
    const char* why = "";
};

/// What a device runs for one node of a lowered graph. Immutable; shared by contexts.
class device_kernel {
public:
    inline virtual ~device_kernel() {}

    std::int64_t workspace_bytes = 0;  ///< scratch memory in the arena of its place
    std::int64_t scratch_bytes = 0;    ///< at most, of the host's memory, beside the arena
    bool in_place = false;             ///< output 0 may take the memory of input 0
    std::string note;                  ///< for the placement table: which algorithm
    const char* refusal = "";          ///< for the placement table: why none that is faster took the node. Static
};

/// One run of a host kernel. `data` of absent inputs is null.
struct host_call {
    const node& n;
    const tensor_view* in;
    int inputs;
    tensor_view* out;
    int outputs;
    void* workspace;
    std::uint64_t seed;
    const run_environment& around;
};

/// A kernel of a device that works in the host's memory, called by whoever runs the plan.
class host_kernel : public device_kernel {
public:
    /// Errors: op.*, memory.*.
    inline virtual status run(const host_call& call) const = 0;
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

/// The memory and the queue of one context at a place. Not for two threads at once.
class device_context {
public:
    inline virtual ~device_context() {}
    /// Begins the steps of plan::segments[segment], all of them at its place and behind those that it was given before; they may still run when it
    /// returns. What they read of other places is there, and so is `around` until `finish`. Where it fails, none of them runs. Errors: op.*,
    /// memory.*, device.*.
    inline virtual status start(int segment, const run_environment& around) = 0;
    /// Returns when the segments that it was given have ended, as far as `segment`, and others may read what they made. The first failure of
    /// them is told once, and steps behind it may not have run. Errors: op.*, memory.*, device.*.
    inline virtual status finish(int segment) = 0;
    /// Input `input` of the run after the next one will lie at `address`, where it is complete already: it may be brought over while the
    /// next run computes. A run whose input lies elsewhere takes it from there.
    inline virtual status expect(std::int64_t, const void*) { return {}; }
    /// Seconds that its steps have computed since it was made, up to the last `finish`; below 0 where it does not measure them.
    inline virtual double busy_seconds() const noexcept { return -1; }
};

/// A device that was opened. Safe from many threads.
class device {
public:
    inline virtual ~device() {}
    /// As users name it: "cpu", "cuda:0".
    inline virtual const std::string& name() const noexcept = 0;
    /// Whether its kernels are host kernels, which read and write the host's memory.
    inline virtual bool in_host_memory() const noexcept { return false; }
    /// What it computes in where that is not float32, as `device_options::precision` names it: devices in the host's memory say so.
    inline virtual const char* precision() const noexcept { return "float32"; }
    /// Null where it takes the node, else the reason why not. Constants have their data, other inputs none.
    inline virtual const char* refuse(const op_context& node) const = 0;
    /// Rewrites the nodes of its place (`with.on`): fusion, precision, layout. New ones need node::place and a row (node::op). What other
    /// places read, and the inputs and outputs of the graph, stay row-major.
    inline virtual status lower(graph& g, const lowering& with) = 0;
    /// The kernel of a lowered node. Errors: op.unsupported, and device.* where a library fails.
    inline virtual result<std::shared_ptr<const device_kernel>> prepare(const device_query& node) = 0;
    /// Compiles what the kernels at `place` need and brings their constants over; null where there is nothing to keep. Errors: memory.oom,
    /// device.*.
    inline virtual result<std::shared_ptr<const device_program>> load(const plan& p, place_id place, executor& pool) = 0;
    /// Memory and a queue for runs of a plan. `state` may be null where the plan has none there. Errors: memory.*, device.*.
    inline virtual result<std::unique_ptr<device_context>> make_context(std::shared_ptr<const plan> p, place_id place, device_state* state) = 0;
    /// Whether it exchanges with the other members of a run itself (AllReduce, AllReduceStart, AllReduceEnd and AllGather with by_device = 1); if not, the host
    /// does for it. All members call it at once, each with its device, and all hear the same. Errors: dist.*.
    inline virtual status exchanges(communicator&, bool& itself) {
        itself = false;
        return {};
    }
    /// A communicator whose data go from device to device, for members that what is given joins; all of them call it at once, each with a device of its own.
    /// It holds what is given as long as it lives. Errors: usage (it has no such exchange), dist.*, device.*, memory.*.
    inline virtual result<std::shared_ptr<communicator>> make_communicator(const std::shared_ptr<control_plane>&) {
        return fail(errc::usage, name(), "this device does not exchange with the other members of a run itself");
    }
    /// Null where the host's memory is its own.
    inline virtual result<std::unique_ptr<device_state>> make_state() = 0;
};

GRAFT_END_NAMESPACE
