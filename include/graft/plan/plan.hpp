// The plan: what runs each node of a graph whose shapes are known, where, and where every value lies.
#pragma once

#include "../core/communicator.hpp"
#include "../core/trace.hpp"
#include "../lower/backend.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Where the memory of a value is found in a run.
enum class slot_kind { none, arena, input, output, constant };

/// A value as a step sees it. `extents` and `type` are those of the value; `index` is a byte offset into the arena of its place, or the
/// number of an input, an output, or a value with a constant.
struct slot {
    slot_kind kind = slot_kind::none;
    place_id place = 0;  ///< whose arena; of inputs, who holds the state; of constants, whose copy
    std::int64_t index = 0;
    tensor_view prototype;
};

/// One node of the plan with its kernel.
struct step {
    int node = 0;  ///< in plan::lowered
    place_id place = 0;
    std::shared_ptr<const device_kernel> kernel;  ///< a host_kernel where the device is in the host's memory
    placement_refusal refused;                    ///< why it is on the host
    std::vector<slot> in, out;                    ///< captures of bodies follow the inputs
    std::int64_t workspace_offset = 0;
    std::uint64_t seed = 0;
};

/// Steps in a row at one place. Segments of one place run in their order; those of others at the same time, but for what it waits for.
struct plan_segment {
    place_id place = 0;
    int first = 0, last = 0;  ///< [first, last) of plan::steps
    std::vector<int> after;   ///< segments of other places that have to end before it starts
};

/// A device as a plan uses it.
struct plan_place {
    std::shared_ptr<device> on;
    std::int64_t arena_bytes = 0;                  ///< intermediates and scratch together
    std::int64_t multiply_adds = 0;                ///< of the nodes that ask for it
    std::shared_ptr<const device_program> loaded;  ///< what it keeps for this plan; null: nothing
};

/// Everything a run needs that does not change from run to run. Immutable, shared by contexts.
struct plan {
    std::vector<plan_place> places;  ///< the host first. Outlive the kernels in the steps
    graph lowered;                   ///< keeps constants alive; its nodes are in running order
    std::vector<step> steps;
    std::vector<plan_segment> segments;  ///< all steps, in their order
    std::vector<int> late;               ///< nodes whose output shapes only a run can tell, in order: they run behind the steps, by their reference kernels
    std::vector<std::vector<value_id>> read_last;  ///< for each of `late`, and in front for the steps: inputs and late values that nobody reads behind it
    std::vector<slot> value_slots;                 ///< of every value; none for those made late
    std::vector<slot> outputs;                     ///< where each output of the graph is made; none: made late
    std::vector<int> state_of;                     ///< of each output: the input whose memory it takes, or -1
    std::int64_t scratch_bytes = 0;                ///< at most, of reference kernels, beside the arena
    std::int64_t constant_bytes = 0;
    std::int64_t multiply_adds = 0;   ///< of the graph before lowering
    std::vector<tensor_view> inputs;  ///< the shapes that this plan is for

    std::shared_ptr<const plan> each;  ///< what every sample of the batch goes through by itself, before the steps; null: nothing. The inputs of `lowered` are
                                       ///< its outputs, with a row for each sample
    std::int64_t samples = 0;          ///< that go through it
    std::size_t batch_input = 0;       ///< the place of the input that holds them along its first axis
};

/// Bytes of the outputs that a plan makes; those that only a run can shape are not among them.
inline std::int64_t output_bytes(const plan& p) noexcept {
    std::int64_t bytes = 0;
    for (const slot& s : p.outputs)
        if (s.kind != slot_kind::none) bytes += std::max<std::int64_t>(0, bytes_of(s.prototype.type, s.prototype.extents));
    return bytes;
}
/// Bytes of the host's memory that the places there take for intermediates and scratch; where samples go alone, as many at once as there are threads.
inline std::int64_t host_arena_bytes(const plan& p) noexcept {
    std::int64_t bytes = 0;
    for (const plan_place& at : p.places) bytes += !at.on || at.on->in_host_memory() ? at.arena_bytes : 0;
    if (p.each)
        bytes += output_bytes(*p.each) * p.samples + (output_bytes(*p.each) + host_arena_bytes(*p.each)) * std::min<std::int64_t>(p.samples, default_threads());
    return bytes;
}
/// Bytes of the memories of devices, beside the host's: arenas and constants.
inline std::int64_t device_bytes(const plan& p) noexcept {
    std::int64_t bytes = 0;
    for (const plan_place& at : p.places) bytes += at.on && !at.on->in_host_memory() ? at.arena_bytes + (at.loaded ? at.loaded->constant_bytes() : 0) : 0;
    return bytes;
}

/// Bytes that one place takes of its memory: intermediates and scratch, and the constants that its steps read.
inline std::int64_t place_bytes(const plan& p, place_id place) {
    const plan_place& at = p.places[place];
    std::int64_t bytes = at.arena_bytes + (at.loaded ? at.loaded->constant_bytes() : 0);
    if (at.on && !at.on->in_host_memory()) return bytes;
    // Copies of a network share their packed weights.
    std::vector<std::pair<const void*, std::int64_t>> read;
    for (const step& s : p.steps)
        for (const slot& in : s.in)
            if (s.place == place && in.kind == slot_kind::constant) {
                const tensor& constant = p.lowered.values[static_cast<std::size_t>(in.index)].constant;
                read.emplace_back(constant.raw(), static_cast<std::int64_t>(constant.bytes()));
            }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (const auto& constant : read) bytes += constant.second;
    return bytes;
}

/// Whether what stage `stage` takes of its memory is within `most` bytes. Errors: memory.budget.
inline status check_stage(std::size_t stage, std::int64_t bytes, std::int64_t most) {
    if (bytes <= most) return {};
    return fail(errc::memory_budget, "stage " + std::to_string(stage),
                "it takes " + std::to_string(bytes) + " bytes and may take " + std::to_string(most) + ": take more stages or parts, or a smaller batch");
}

/// What a run offers to who takes part in it: the host's memory, and what kernels may use.
struct run_environment {
    const plan& planned;
    std::byte* arena;  ///< of the host
    const tensor_view* inputs;
    std::vector<tensor>& outputs;
    executor& pool;
    const limits& limit;
    subgraph_runner* bodies;
    scratch_store* scratch;
    const std::shared_ptr<memory_budget>& budget;
    communicator* group;    ///< the members of the run; null: it is the only one
    trace_recorder* trace;  ///< takes down when steps of the host ran; null: nothing does
    int traced_as;          ///< the member that the trace has this run as, where there is no group

    /// Where a value of the host lies; null where it was left out.
    void* address(const slot& s) const {
        switch (s.kind) {
        case slot_kind::arena: return arena + s.index;
        case slot_kind::input: return inputs[s.index].data;
        case slot_kind::output: return outputs[static_cast<std::size_t>(s.index)].raw();
        case slot_kind::constant: return planned.lowered.values[static_cast<std::size_t>(s.index)].constant.raw();
        case slot_kind::none: break;
        }
        return nullptr;
    }
};

/// How graphs are planned and run: told once, and handed on whole to every plan and to every body.
struct execution_options {
    limits limit;
    bool exact = false;                           ///< no reassociating algorithms
    bool reference = false;                       ///< reference kernels of the host only
    bool strict_placement = false;                ///< a node that the device refuses ends the planning
    bool in_order = false;                        ///< places take turns as the nodes of the graph stand; else in as few turns as there can be
    std::uint64_t seed = 0;                       ///< of random nodes that have none of their own
    std::vector<std::shared_ptr<device>> places;  ///< the host's device first; null: nothing runs on the host
    std::shared_ptr<pack_cache> packed;           ///< null: constants are packed anew
    std::shared_ptr<memory_budget> budget;        ///< what the constants that a plan makes count against; null: nothing is counted
    std::shared_ptr<communicator> group;          ///< the members of the run that compute this together; null: it is the only one
    std::shared_ptr<trace_recorder> trace;        ///< takes down when steps of the host ran, while it records; null: nothing does
    int nesting = 0;                              ///< bodies that the graph is the body of
    bool by_sample = false;                       ///< samples of a batch may go alone: see sample_cut
};

/// What an app gives, by the names that its options have in load_options and in step_options alike; the places are the host's device and, where
/// it is not null, the one beside it. `store`, if any, keeps what is packed.
template <class Options>
execution_options execution_of(const Options& given, std::shared_ptr<device> host, std::shared_ptr<device> beside,
                               std::shared_ptr<const packed_store> store = nullptr) {
    execution_options how;
    how.limit = given.limits;
    how.exact = given.exact;
    how.reference = given.reference;
    how.strict_placement = given.strict_placement;
    how.seed = given.seed;
    how.trace = given.trace;
    how.packed = std::make_shared<pack_cache>(std::move(store));
    how.places.push_back(std::move(host));
    if (beside) how.places.push_back(std::move(beside));
    return how;
}

/// Makes the plan of a graph for one set of input shapes (an input without a type keeps its default). Errors: op.*, graph.*, memory.*,
/// placement.refused, device.*.
result<std::shared_ptr<const plan>> make_plan(const graph& g, const tensor_view* inputs, const execution_options& how, executor& pool);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "make_plan.hpp"
#endif
