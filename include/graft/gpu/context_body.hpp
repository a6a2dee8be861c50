// Bodies of gpu/context.hpp.
#pragma once

#include "context.hpp"
#include "faults.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

namespace detail {
// One core alone copies slower than the bus that takes it from there.
inline void copy_bytes(void* to, const void* from, std::int64_t bytes, executor& pool) {
    constexpr std::int64_t piece = std::int64_t(1) << 20;
    parallel_for(pool, (bytes + piece - 1) / piece, [&](std::int64_t i) {
        std::memcpy(static_cast<std::byte*>(to) + i * piece, static_cast<const std::byte*>(from) + i * piece,
                    static_cast<std::size_t>(std::min(piece, bytes - i * piece)));
    });
}
// What a Transfer moves: its two sides are alike.
inline std::int64_t copied_bytes(const step& s) { return bytes_of(s.in[0].prototype.type, s.in[0].prototype.extents); }
// Whether it moves to the device.
inline bool brings(const step& s) { return s.out[0].place == s.place; }
inline const cuda_kernel& kernel_of(const step& s) { return static_cast<const cuda_kernel&>(*s.kernel); }
}  // namespace detail

GRAFT_INLINE status pinned_memory::resize(const api::driver_functions& driver, void* context, std::int64_t bytes, const std::string& where) {
    release();
    if (!bytes) return {};
    GRAFT_GPU_TRY(driver, cuMemHostAlloc(&data_, static_cast<std::size_t>(bytes), api::driver::flag::host_alloc_portable), where,
                  "taking pinned memory of the host");
    driver_ = &driver;
    context_ = context;
    bytes_ = bytes;
    return {};
}
GRAFT_INLINE void pinned_memory::release() {
    if (!data_) return;
    current_context now(*driver_, context_);
    driver_->cuMemFreeHost(data_);
    data_ = nullptr;
    bytes_ = 0;
}

GRAFT_INLINE status cuda_stream::open(const api::driver_functions& driver, void* context, const std::string& where) {
    GRAFT_GPU_TRY(driver, cuStreamCreate(&stream_, api::driver::flag::stream_non_blocking), where, "making a stream");
    driver_ = &driver;
    context_ = context;
    return {};
}
GRAFT_INLINE cuda_stream::~cuda_stream() {
    if (!stream_) return;
    current_context now(*driver_, context_);
    driver_->cuStreamDestroy_v2(stream_);
}

GRAFT_INLINE cuda_event::~cuda_event() {
    if (!event_) return;
    current_context now(on_->driver(), on_->context());
    on_->driver().cuEventDestroy_v2(event_);
}
GRAFT_INLINE status cuda_event::record(const cuda_device& on, void* stream) {
    on_ = &on;
    if (!event_) GRAFT_GPU_TRY(on.driver(), cuEventCreate(&event_, api::driver::flag::event_disable_timing), on.name(), "making an event");
    GRAFT_GPU_TRY(on.driver(), cuEventRecord(event_, stream), on.name(), "recording an event");
    return {};
}
GRAFT_INLINE status cuda_event::block(void* stream) const {
    if (event_) GRAFT_GPU_TRY(on_->driver(), cuStreamWaitEvent(stream, event_, 0), on_->name(), "waiting for an event");
    return {};
}
GRAFT_INLINE status cuda_event::wait() const {
    if (event_) GRAFT_GPU_TRY(on_->driver(), cuEventSynchronize(event_), on_->name(), "waiting for an event");
    return {};
}

GRAFT_INLINE result<std::unique_ptr<device_state>> cuda_state::make(std::shared_ptr<cuda_device> on) {
    std::unique_ptr<cuda_state> made(new cuda_state);
    made->on_ = std::move(on);
    current_context now(made->on_->driver(), made->on_->context());
    GRAFT_TRY(driver_status(made->on_->driver(), now.result(), made->on_->name(), "using its context"));
    GRAFT_TRY(made->stream_.open(made->on_->driver(), made->on_->context(), made->on_->name()));
    return std::unique_ptr<device_state>(std::move(made));
}
GRAFT_INLINE result<device_address> cuda_state::address(const void* host, std::int64_t bytes) {
    for (const entry& e : entries_)
        if (e.host == host && e.bytes == bytes) return e.memory.address();
    entry made{const_cast<void*>(host), bytes, {}, true, false};
    GRAFT_TRY_ASSIGN(made.memory, on_->pool().take(bytes, purpose::state));
    entries_.push_back(made);
    return made.memory.address();
}
GRAFT_INLINE status cuda_state::refresh() {
    const api::driver_functions& d = on_->driver();
    bool any = false;
    for (entry& e : entries_) {
        if (!e.stale || !e.bytes) continue;
        GRAFT_GPU_TRY(d, cuMemcpyHtoDAsync_v2(e.memory.address(), e.host, static_cast<std::size_t>(e.bytes), stream_.get()), on_->name(),
                      "bringing state over");
        any = true;
    }
    if (any) GRAFT_GPU_TRY(d, cuStreamSynchronize(stream_.get()), on_->name(), "bringing state over");
    for (entry& e : entries_) e.stale = false;
    return {};
}
GRAFT_INLINE void cuda_state::changed(const void* host) noexcept {
    for (entry& e : entries_)
        if (e.host == host) e.changed = true;
}
GRAFT_INLINE status cuda_state::bring_back(const void* host) {
    const api::driver_functions& d = on_->driver();
    current_context now(d, on_->context());
    GRAFT_TRY(driver_status(d, now.result(), on_->name(), "using its context"));
    for (entry& e : entries_) {
        if ((host && e.host != host) || !e.changed || !e.bytes) continue;
        GRAFT_GPU_TRY(d, cuMemcpyDtoHAsync_v2(e.host, e.memory.address(), static_cast<std::size_t>(e.bytes), stream_.get()), on_->name(),
                      "bringing state back");
        GRAFT_GPU_TRY(d, cuStreamSynchronize(stream_.get()), on_->name(), "bringing state back");
        e.changed = false;
    }
    return {};
}

GRAFT_INLINE result<std::unique_ptr<device_context>> cuda_context::make(std::shared_ptr<cuda_device> on, std::shared_ptr<const plan> p, place_id place,
                                                                        cuda_state* state) {
    std::unique_ptr<cuda_context> made(new cuda_context);
    made->on_ = std::move(on);
    made->plan_ = std::move(p);
    made->place_ = place;
    made->state_ = state;
    made->loaded_ = static_cast<const cuda_program*>(made->plan_->places[place].loaded.get());
    const api::driver_functions& d = made->on_->driver();
    current_context now(d, made->on_->context());
    GRAFT_TRY(driver_status(d, now.result(), made->on_->name(), "using its context"));
    GRAFT_TRY(made->stream_.open(d, made->on_->context(), made->on_->name()));
    if (const std::int64_t bytes = made->plan_->places[place].arena_bytes) GRAFT_TRY_ASSIGN(made->arena_, made->on_->pool().take(bytes, purpose::activations));
    bool calls_library = false;
    for (const step& s : made->plan_->steps) calls_library |= s.place == place && detail::kernel_of(s).library;
    if (calls_library) GRAFT_TRY_ASSIGN(made->libraries_, made->on_->handles());
    GRAFT_TRY(made->prepare_segments());
    GRAFT_TRY(made->prepare_faults());
    return std::unique_ptr<device_context>(std::move(made));
}
// What runs on the stream has to end before its memory goes back to the pool.
GRAFT_INLINE cuda_context::~cuda_context() {
    if (!stream_.get()) return;
    const api::driver_functions& d = on_->driver();
    current_context now(d, on_->context());
    d.cuStreamSynchronize(stream_.get());
    if (ahead_) d.cuStreamSynchronize(ahead_->stream.get());
    for (segment& s : segments_) drop_graph(s);
}

GRAFT_INLINE status cuda_context::prepare_segments() {
    std::int64_t pinned = 0;
    const std::vector<step>& steps = plan_->steps;
    staged_.assign(steps.size(), 0);
    std::size_t most = 1;
    for (std::size_t k = 0; k < plan_->segments.size(); ++k) {
        const plan_segment& planned = plan_->segments[k];
        if (planned.place != place_) continue;
        segments_.emplace_back();
        segment& s = segments_.back();
        s.number = static_cast<int>(k);
        s.first = planned.first;
        s.last = planned.last;
        for (std::size_t i = static_cast<std::size_t>(s.first); i < static_cast<std::size_t>(s.last); ++i) {
            most = std::max(most, std::max(steps[i].in.size(), steps[i].out.size()));
            const cuda_kernel& kernel = detail::kernel_of(steps[i]);
            s.exchanges |= kernel.library && kernel.library->exchanges;
            if (!kernel.copies) continue;
            staged_[i] = pinned;
            (detail::brings(steps[i]) ? s.up : s.down).push_back(i);
            pinned += (detail::copied_bytes(steps[i]) + 255) / 256 * 256;
        }
    }
    in_.resize(most);
    out_.resize(most);
    started_.reserve(segments_.size());
    state_at_.assign(plan_->inputs.size(), 0);
    return pinned_.resize(on_->driver(), on_->context(), pinned, on_->name());
}

GRAFT_INLINE status cuda_context::prepare_faults() {
    std::size_t count = 1;
    bool used = false;
    fault_at_.assign(plan_->steps.size(), 0);
    for (segment& s : segments_) {
        s.first_fault = count;
        for (int i = s.first; i < s.last; ++i) {
            fault_at_[static_cast<std::size_t>(i)] = count;
            const program& kernels = detail::kernel_of(plan_->steps[static_cast<std::size_t>(i)]).generated;
            count += kernels.faults.size();
            for (const launch& l : kernels.launches)
                for (const argument& a : l.arguments) used |= a.kind == argument::from::fault_seen;
        }
        s.faults = count - s.first_fault;
    }
    if (!used) return {};
    const std::int64_t bytes = static_cast<std::int64_t>(count * sizeof(std::uint64_t));
    GRAFT_TRY_ASSIGN(faults_, on_->pool().take(bytes, purpose::activations));
    return found_.resize(on_->driver(), on_->context(), bytes, on_->name());
}

// The first step's that has met one, whose error the host would have stopped at.
GRAFT_INLINE status cuda_context::read_faults(const segment& s) {
    const std::uint64_t* words = reinterpret_cast<const std::uint64_t*>(found_.data());
    for (int i = s.first; s.faults && i < s.last; ++i) {
        const std::vector<fault>& checked = detail::kernel_of(plan_->steps[static_cast<std::size_t>(i)]).generated.faults;
        for (std::size_t k = 0; k < checked.size(); ++k)
            if (const std::uint64_t word = words[fault_at_[static_cast<std::size_t>(i)] + k]) return fault_of(checked[k], word);
    }
    return {};
}

// State is found by the host's address, and brought over where the host has the newer.
GRAFT_INLINE status cuda_context::prepare_state(const run_environment& around) {
    bool moved = false, any = false;
    for (std::size_t i = 0; i < plan_->lowered.inputs.size(); ++i) {
        const value_id id = plan_->lowered.inputs[i];
        const slot& s = plan_->value_slots[id];
        if (s.kind != slot_kind::input || s.place != place_) continue;
        if (!state_) return fail(errc::internal, on_->name(), "the plan keeps state on the device, and there is nowhere to keep it");
        device_address at = 0;
        GRAFT_TRY_ASSIGN(at, state_->address(around.address(s), bytes_of(s.prototype.type, s.prototype.extents)));
        moved |= state_at_[i] && state_at_[i] != at;
        state_at_[i] = at;
        any = true;
    }
    // A graph has its addresses in it.
    for (segment& s : segments_)
        if (moved) drop_graph(s);
    return any ? state_->refresh() : status();
}

GRAFT_INLINE device_address cuda_context::address(const slot& s) const {
    switch (s.kind) {
    case slot_kind::arena: return arena_.address() + static_cast<device_address>(s.index);
    case slot_kind::constant: return loaded_->constants[static_cast<std::size_t>(s.index)];
    case slot_kind::input: return state_at_[static_cast<std::size_t>(s.index)];
    default: return 0;
    }
}

GRAFT_INLINE status cuda_context::start_segment(int number, const run_environment& around) {
    const api::driver_functions& d = on_->driver();
    current_context now(d, on_->context());
    GRAFT_TRY(driver_status(d, now.result(), on_->name(), "using its context"));
    segment* found = nullptr;
    for (segment& s : segments_)
        if (s.number == number) found = &s;
    if (!found) return fail(errc::internal, on_->name(), "a segment of another place was started here");
    if (found == &segments_.front()) GRAFT_TRY(prepare_state(around));
    if (found->exchanges) GRAFT_TRY(on_->join(*around.group));
    around_ = &around;
    exchanged_ |= found->exchanges;
    const std::vector<step>& steps = plan_->steps;
    const bool ahead = ahead_ && found == &segments_.front();
    for (std::size_t i : found->up) {
        const void* from = around.address(steps[i].in[0]);
        if (!ahead || i != ahead_->step)
            detail::copy_bytes(pinned_.data() + staged_[i], from, detail::copied_bytes(steps[i]), around.pool);
        else if (ahead_->holds != from)
            GRAFT_TRY(bring(from, around.pool));
    }
    if (ahead) GRAFT_TRY(take_staged());
    if (status launched = launch_segment(*found); !launched.ok()) {
        // What was put on the stream reads memory that the next run writes. And where a kernel has cost the device, a library that is called
        // after it says only that it failed.
        status ended = wait_for_stream(found->exchanges);
        return ended.ok() || ended.error().code() != errc::device_lost ? std::move(launched) : std::move(ended);
    }
    started_.push_back(found);
    if (!ahead || !ahead_->next) return {};
    brought_ = bring(ahead_->next, around.pool);
    ahead_->next = nullptr;
    return {};
}

// All that was started has ended when the stream has, but for exchanges beside it that nothing on the stream waits for yet.
GRAFT_INLINE status cuda_context::finish_segments(int number) {
    status ended;
    if (!started_.empty() && started_.front()->number <= number) {
        ended = settle();
        started_.clear();
    }
    if (!exchanged_ || number < static_cast<int>(plan_->segments.size())) return ended;
    exchanged_ = false;
    status beside = settle_exchanges();
    return ended.ok() ? std::move(beside) : std::move(ended);
}
// The run is over: where it failed before it came to the end of an exchange, that still has the arena.
GRAFT_INLINE status cuda_context::settle_exchanges() {
    current_context now(on_->driver(), on_->context());
    GRAFT_TRY(driver_status(on_->driver(), now.result(), on_->name(), "using its context"));
    return static_cast<nccl_member*>(around_->group->of_device.get())->settle();
}
// Where members of the run are waited for on the stream, not without limit.
GRAFT_INLINE status cuda_context::wait_for_stream(bool exchanges) {
    if (exchanges) return static_cast<nccl_member*>(around_->group->of_device.get())->finish(stream_.get());
    return driver_status(on_->driver(), on_->driver().cuStreamSynchronize(stream_.get()), on_->name(), "running the network");
}
GRAFT_INLINE status cuda_context::settle() {
    const api::driver_functions& d = on_->driver();
    current_context now(d, on_->context());
    GRAFT_TRY(driver_status(d, now.result(), on_->name(), "using its context"));
    bool exchanges = false;
    for (const segment* s : started_) exchanges |= s->exchanges;
    GRAFT_TRY(wait_for_stream(exchanges));
    if (state_)
        for (const state_pair& pair : plan_->lowered.states) {
            if (pair.output < 0) continue;  // it is only read
            const slot& s = plan_->value_slots[plan_->lowered.inputs[pair.input]];
            if (s.place == place_) state_->changed(around_->address(s));
        }
    for (const segment* s : started_) GRAFT_TRY(read_faults(*s));
    unclean_ = false;
    for (const segment* s : started_)
        for (std::size_t i : s->down) {
            const step& copy = plan_->steps[i];
            detail::copy_bytes(around_->address(copy.out[0]), pinned_.data() + staged_[i], detail::copied_bytes(copy), around_->pool);
        }
    return std::move(brought_);
}

GRAFT_INLINE status cuda_context::launch_segment(segment& s) {
    const api::driver_functions& d = on_->driver();
    status refused;
    {
        std::lock_guard<std::mutex> guard(on_->enqueueing());
        // The first run lets libraries load what they need, which they may not do while a graph is made.
        if (s.ran && !s.graph && !s.exchanges && loaded_->graphs) refused = capture(s);
        // Segments that were started and not looked at yet say to this one whether they have met a fault.
        if (faults_.bytes() && unclean_ && started_.empty())
            GRAFT_GPU_TRY(d, cuMemsetD8Async(faults_.address(), 0, static_cast<std::size_t>(faults_.bytes()), stream_.get()), on_->name(),
                          "clearing what kernels report");
        unclean_ = true;
        if (s.graph) refused = driver_status(d, d.cuGraphLaunch(s.graph, stream_.get()), on_->name(), "launching a graph");
        if (!refused.ok()) drop_graph(s);
        if (!refused.ok() && refused.error().code() == errc::device_lost) return refused;
        if (!s.graph) GRAFT_TRY(enqueue(s));
        s.ran = true;
    }
    if (!refused.ok() && loaded_->graphs.exchange(false))
        on_->warn("kernels are launched one by one, which takes longer, as there is no CUDA graph of them: " + refused.error().detail());
    return {};
}
GRAFT_INLINE void cuda_context::drop_graph(segment& s) {
    if (s.graph) on_->driver().cuGraphExecDestroy(s.graph);
    s.graph = nullptr;
}

// Whether nothing that runs before the Transfer uses the memory that it writes, so that it may be written before all of them run.
GRAFT_INLINE bool cuda_context::lies_free(const segment& s, std::size_t upload) const {
    const slot& to = plan_->steps[upload].out[0];
    const std::int64_t bytes = detail::copied_bytes(plan_->steps[upload]);
    if (to.kind != slot_kind::arena) return false;
    const auto apart = [&](std::int64_t at, std::int64_t size) { return at >= to.index + bytes || to.index >= at + size; };
    for (std::size_t i = static_cast<std::size_t>(s.first); i < upload; ++i) {
        const step& before = plan_->steps[i];
        for (const std::vector<slot>* slots : {&before.in, &before.out})
            for (const slot& used : *slots)
                if (used.kind == slot_kind::arena && used.place == place_ && !apart(used.index, bytes_of(used.prototype.type, used.prototype.extents)))
                    return false;
        if (!apart(before.workspace_offset, before.kernel->workspace_bytes)) return false;
    }
    return true;
}

GRAFT_INLINE status cuda_context::stage(std::int64_t input, const void* address) {
    if (!told_) {
        if (segments_.empty() || segments_.front().first != 0) return {};  // the host computes first
        segment& s = segments_.front();
        for (std::size_t i : s.up) {
            const slot& from = plan_->steps[i].in[0];
            if (from.kind != slot_kind::input || from.index != input || !lies_free(s, i)) continue;
            const api::driver_functions& d = on_->driver();
            current_context now(d, on_->context());
            GRAFT_TRY(driver_status(d, now.result(), on_->name(), "using its context"));
            std::unique_ptr<staged_input> made(new staged_input);
            made->step = i;
            GRAFT_TRY(made->stream.open(d, on_->context(), on_->name()));
            GRAFT_TRY_ASSIGN(made->memory, on_->pool().take(detail::copied_bytes(plan_->steps[i]), purpose::activations));
            ahead_ = std::move(made);
            // A graph that was made has the copy in it.
            drop_graph(s);
        }
        told_ = true;
    }
    if (ahead_) ahead_->next = address;
    return {};
}
// From the host into the memory that is kept for it, as soon as the run that takes what is there has taken it.
GRAFT_INLINE status cuda_context::bring(const void* from, executor& pool) {
    const std::int64_t bytes = detail::copied_bytes(plan_->steps[ahead_->step]);
    void* pinned = pinned_.data() + staged_[ahead_->step];
    ahead_->holds = nullptr;
    if (!bytes) return {};
    GRAFT_TRY(ahead_->brought.wait());
    detail::copy_bytes(pinned, from, bytes, pool);
    std::lock_guard<std::mutex> guard(on_->enqueueing());
    void* stream = ahead_->stream.get();
    GRAFT_TRY(ahead_->taken.block(stream));
    GRAFT_GPU_TRY(on_->driver(), cuMemcpyHtoDAsync_v2(ahead_->memory.address(), pinned, static_cast<std::size_t>(bytes), stream), on_->name(),
                  "copying to the device");
    GRAFT_TRY(ahead_->brought.record(*on_, stream));
    ahead_->holds = from;
    return {};
}
GRAFT_INLINE status cuda_context::take_staged() {
    const step& upload = plan_->steps[ahead_->step];
    const std::int64_t bytes = detail::copied_bytes(upload);
    ahead_->holds = nullptr;
    if (!bytes) return {};
    std::lock_guard<std::mutex> guard(on_->enqueueing());
    GRAFT_TRY(ahead_->brought.block(stream_.get()));
    GRAFT_GPU_TRY(on_->driver(), cuMemcpyDtoDAsync_v2(address(upload.out[0]), ahead_->memory.address(), static_cast<std::size_t>(bytes), stream_.get()),
                  on_->name(), "copying on the device");
    return ahead_->taken.record(*on_, stream_.get());
}

GRAFT_INLINE status cuda_context::capture(segment& s) {
    const api::driver_functions& d = on_->driver();
    GRAFT_GPU_TRY(d, cuStreamBeginCapture_v2(stream_.get(), api::driver::flag::capture_thread_local), on_->name(), "beginning a graph");
    status enqueued = enqueue(s);
    void* graph = nullptr;
    const int ended = d.cuStreamEndCapture(stream_.get(), &graph);
    status made = enqueued.ok() ? driver_status(d, ended, on_->name(), "ending a graph") : std::move(enqueued);
    void* whole = nullptr;
    if (made.ok()) made = driver_status(d, d.cuGraphInstantiateWithFlags(&whole, graph, 0), on_->name(), "making a graph");
    if (made.ok()) s.graph = whole;
    if (graph) d.cuGraphDestroy(graph);
    return made;
}

GRAFT_INLINE status cuda_context::enqueue(const segment& s) {
    for (int i = s.first; i < s.last; ++i) GRAFT_TRY(enqueue_step(static_cast<std::size_t>(i)));
    constexpr std::size_t word = sizeof(std::uint64_t);
    if (s.faults)
        GRAFT_GPU_TRY(on_->driver(),
                      cuMemcpyDtoHAsync_v2(found_.data() + s.first_fault * word, faults_.address() + s.first_fault * word, s.faults * word, stream_.get()),
                      on_->name(), "asking what kernels report");
    return {};
}

GRAFT_INLINE status cuda_context::enqueue_copy(std::size_t i) {
    const api::driver_functions& d = on_->driver();
    const step& s = plan_->steps[i];
    const std::size_t bytes = static_cast<std::size_t>(detail::copied_bytes(s));
    void* pinned = pinned_.data() + staged_[i];
    if (!bytes || (ahead_ && i == ahead_->step)) return {};
    if (detail::brings(s))
        GRAFT_GPU_TRY(d, cuMemcpyHtoDAsync_v2(address(s.out[0]), pinned, bytes, stream_.get()), on_->name(), "copying to the device");
    else
        GRAFT_GPU_TRY(d, cuMemcpyDtoHAsync_v2(pinned, address(s.in[0]), bytes, stream_.get()), on_->name(), "copying from the device");
    return {};
}

GRAFT_INLINE device_address cuda_context::argument_of(const argument& a, std::size_t i, device_address workspace) const {
    switch (a.kind) {
    case argument::from::input: return in_[static_cast<std::size_t>(a.index)];
    case argument::from::output: return out_[static_cast<std::size_t>(a.index)];
    case argument::from::faults: return faults_.address() + fault_at_[i] * sizeof(std::uint64_t);
    case argument::from::fault_seen: return faults_.address();
    case argument::from::number: return static_cast<device_address>(a.index);
    default: return workspace + static_cast<device_address>(a.index);
    }
}
GRAFT_INLINE status cuda_context::enqueue_step(std::size_t i) {
    const api::driver_functions& d = on_->driver();
    const step& s = plan_->steps[i];
    const cuda_kernel& kernel = detail::kernel_of(s);
    if (kernel.copies) return enqueue_copy(i);
    for (std::size_t k = 0; k < s.in.size(); ++k) in_[k] = address(s.in[k]);
    for (std::size_t k = 0; k < s.out.size(); ++k) out_[k] = address(s.out[k]);
    const device_address workspace = arena_.address() + static_cast<device_address>(s.workspace_offset);
    if (kernel.library) return kernel.library->enqueue({*libraries_, stream_.get(), in_.data(), out_.data(), workspace, around_->group});
    for (const cuda_program::entry& e : loaded_->steps[i]) {
        device_address values[most_arguments] = {};
        void* parameters[most_arguments];
        std::size_t count = 0;
        for (const argument& a : e.how->arguments) {
            values[count] = argument_of(a, i, workspace);
            parameters[count] = &values[count];  // a table is one parameter: the first
            ++count;
        }
        const launch& l = *e.how;
        GRAFT_GPU_TRY(
            d,
            cuLaunchKernel(e.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2], l.shared_bytes, stream_.get(), parameters, nullptr),
            on_->name(), "launching a kernel");
    }
    return {};
}

}  // namespace gpu
GRAFT_END_NAMESPACE
