// Runs of a plan on a GPU: what a plan keeps there, the state that stays there, and one caller's memory and stream.
#pragma once

#include "device.hpp"
#include "../plan/plan.hpp"

#include <atomic>
#include <memory>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// A plan's kernels, as the driver launches them, and its constants.
class cuda_program final : public device_program {
public:
    struct entry {
        void* function;
        const launch* how;
    };
    std::vector<std::vector<entry>> steps;  ///< by step of the plan; empty for library kernels and copies
    std::vector<device_address> constants;  ///< by value of the plan's graph
    std::vector<std::shared_ptr<const resident_constant>> held;
    std::vector<std::shared_ptr<void>> modules;  ///< of the steps that have kernels, in their order
    std::int64_t bytes = 0;
    mutable std::atomic<bool> graphs{true};  ///< whether its runs may become CUDA graphs: until one cannot

    inline std::int64_t constant_bytes() const noexcept override { return bytes; }
};

/// Memory of the host that the device's copy engines reach without a detour.
class pinned_memory {
public:
    pinned_memory() = default;
    ~pinned_memory() { release(); }
    pinned_memory(const pinned_memory&) = delete;
    pinned_memory& operator=(const pinned_memory&) = delete;
    /// What it held before is lost. The device's context is current. Errors: memory.oom.
    status resize(const api::driver_functions& driver, void* context, std::int64_t bytes, const std::string& where);
    std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
    std::int64_t bytes() const noexcept { return bytes_; }

private:
    void release();
    const api::driver_functions* driver_ = nullptr;
    void *context_ = nullptr, *data_ = nullptr;
    std::int64_t bytes_ = 0;
};

/// A stream of a device.
class cuda_stream {
public:
    cuda_stream() = default;
    ~cuda_stream();
    cuda_stream(const cuda_stream&) = delete;
    cuda_stream& operator=(const cuda_stream&) = delete;
    status open(const api::driver_functions& driver, void* context, const std::string& where);
    void* get() const noexcept { return stream_; }

private:
    const api::driver_functions* driver_ = nullptr;
    void *context_ = nullptr, *stream_ = nullptr;
};

/// An event of a device, made when it is first recorded.
class cuda_event {
public:
    cuda_event() = default;
    ~cuda_event();
    cuda_event(const cuda_event&) = delete;
    cuda_event& operator=(const cuda_event&) = delete;
    /// What was put on the stream so far. The device's context is current.
    status record(const cuda_device& on, void* stream);
    /// What is put on the stream from here on waits for it; never recorded, there is nothing to wait for.
    status block(void* stream) const;
    /// Waits for it.
    status wait() const;

private:
    const cuda_device* on_ = nullptr;
    void* event_ = nullptr;
};

/// State in a device's memory, by the address of the host's copy.
class cuda_state final : public device_state {
public:
    static result<std::unique_ptr<device_state>> make(std::shared_ptr<cuda_device> on);
    inline void host_changed(const void* address) noexcept override {
        for (entry& e : entries_)
            if (!address || e.host == address) e.stale = true, e.changed = false;
    }
    inline status read_back(const void* address) override { return bring_back(address); }
    /// Where the state of that host address lies; takes memory, and the host's contents, where they are not there yet. Errors: memory.oom,
    /// device.lost.
    result<device_address> address(const void* host, std::int64_t bytes);
    /// Brings over what the host has changed.
    status refresh();
    /// A run has changed it.
    void changed(const void* host) noexcept;

private:
    struct entry {
        void* host;
        std::int64_t bytes;
        device_memory memory;
        bool stale, changed;
    };
    status bring_back(const void* host);
    std::shared_ptr<cuda_device> on_;
    cuda_stream stream_;
    std::vector<entry> entries_;
};

/// One caller's arena and stream. Runs of device steps become CUDA graphs at their second run, where that can be; else they are launched one
/// by one, which is said once.
class cuda_context final : public device_context {
public:
    static result<std::unique_ptr<device_context>> make(std::shared_ptr<cuda_device> on, std::shared_ptr<const plan> p, place_id place, cuda_state* state);
    ~cuda_context();
    inline status start(int number, const run_environment& around) override { return start_segment(number, around); }
    inline status finish(int number) override { return finish_segments(number); }
    inline status expect(std::int64_t input, const void* address) override { return stage(input, address); }

private:
    // A run of device steps between host steps.
    struct segment {
        int number = 0;  // in plan::segments
        int first = 0, last = 0;
        std::vector<std::size_t> up, down;        // its copies, by step
        std::size_t first_fault = 0, faults = 0;  // words of what its kernels check
        bool ran = false;
        bool exchanges = false;  // its kernels wait for other members of the run
        void* graph = nullptr;
    };

    // An input that is brought to memory of its own while the run before computes, on a stream of its own.
    struct staged_input {
        std::size_t step = 0;  // its Transfer
        cuda_stream stream;
        device_memory memory;
        cuda_event brought, taken;
        const void *holds = nullptr, *next = nullptr;  // host addresses: of what is there or on its way, and of what the next run will take
    };

    status start_segment(int number, const run_environment& around);
    status finish_segments(int number);
    status settle();
    status settle_exchanges();
    status wait_for_stream(bool exchanges);
    status launch_segment(segment& s);
    status stage(std::int64_t input, const void* address);
    status bring(const void* from, executor& pool);
    status take_staged();
    bool lies_free(const segment& s, std::size_t upload) const;
    status prepare_segments();
    status prepare_faults();
    status read_faults(const segment& s);
    status prepare_state(const run_environment& around);
    status enqueue(const segment& s);
    status enqueue_step(std::size_t i);
    status enqueue_copy(std::size_t i);
    status capture(segment& s);
    void drop_graph(segment& s);
    device_address address(const slot& s) const;
    device_address argument_of(const argument& a, std::size_t i, device_address workspace) const;

    std::shared_ptr<cuda_device> on_;
    std::shared_ptr<const plan> plan_;
    place_id place_ = 0;
    const cuda_program* loaded_ = nullptr;
    cuda_state* state_ = nullptr;
    cuda_stream stream_;
    device_memory arena_;
    pinned_memory pinned_;
    std::vector<segment> segments_;
    std::vector<segment*> started_;            // and not finished yet
    const run_environment* around_ = nullptr;  // of the run that they are part of
    bool exchanged_ = false;                   // whether segments of this run that were started exchange
    status brought_;                           // of what was brought ahead meanwhile
    std::unique_ptr<staged_input> ahead_;      // once somebody has told what comes next,
    bool told_ = false;                        // where it can be brought ahead
    std::vector<std::int64_t> staged_;         // of each copy step, its place in pinned memory
    std::vector<device_address> state_at_;     // of each input of the graph that is state
    std::vector<device_address> in_, out_;     // of the step that is enqueued
    const libraries* libraries_ = nullptr;
    // Of kernels with checks: a word that says whether there was a fault, and one for each fault, by step. They are 0 but in the run that has
    // met one; `unclean_`: an earlier run may not have ended like that.
    device_memory faults_;
    pinned_memory found_;
    std::vector<std::size_t> fault_at_;
    bool unclean_ = true;
};

/// Milliseconds that a library's kernel takes on memory of its own: see library_choices.
double measure_on_device(void* device, const kernel_query& query, const library_kernel& kernel, int runs);

inline result<std::unique_ptr<device_context>> cuda_device::make_context(std::shared_ptr<const plan> p, place_id place, device_state* state) {
    return cuda_context::make(shared_from_this(), std::move(p), place, static_cast<cuda_state*>(state));
}
inline result<std::unique_ptr<device_state>> cuda_device::make_state() { return cuda_state::make(shared_from_this()); }

}  // namespace gpu
GRAFT_END_NAMESPACE
