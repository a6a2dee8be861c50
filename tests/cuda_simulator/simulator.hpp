// What the simulated libraries share. It lives in the simulated libcuda.so.1, which the others link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#define GRAFT_SIMULATOR_API __attribute__((visibility("default")))

/// For the functions that a simulated library exports: C names, of exactly the types that graft declares.
#define GRAFT_SIMULATED extern "C" __attribute__((visibility("default")))

namespace graft_simulator {

/// Bytes that work reads or writes: in device memory, or in pinned host memory.
struct range {
    std::uint64_t address = 0;
    std::size_t bytes = 0;

    range() = default;
    range(std::uint64_t a, std::size_t n) : address(a), bytes(n) {}
    range(const void* p, std::size_t n) : address(reinterpret_cast<std::uintptr_t>(p)), bytes(n) {}
};

/// Puts work on a stream (null: the legacy default stream of the current context). It runs later, when something waits for it, or each
/// time that the graph is launched into which the stream is being captured: keep copies of what it needs, not pointers to the caller's
/// variables. Device memory is touched inside of work alone: with GRAFT_SIMULATOR_PROTECT=1 it faults elsewhere, and where the ranges
/// do not name it. Every range has to lie in live memory, which is checked now and at each run; what other streams did to the ranges
/// without an order between is reported. Empty ranges are left out.
/// Gives back a driver's result: success, invalid_value (a range outside of live memory), invalid_handle (not a stream),
/// invalid_context, or the error that stopped the context. Name the bytes that are really touched.
GRAFT_SIMULATOR_API int enqueue(const char* what, void* stream, std::function<void()> work, std::vector<range> reads, std::vector<range> writes);

/// Where work stands: which stream, and what number it has there.
struct place {
    std::size_t stream = 0;
    std::uint64_t sequence = 0;
};

/// The same for work that may not be ready when what stands before it has run: streams stop there until `ready` (under the simulator's
/// lock) is true, and who waits for them lets other threads call the simulator. `ready` may run other streams by `run_to`. For streams
/// that are not being captured; a stream's context need not be current.
GRAFT_SIMULATOR_API int enqueue_when(const char* what, void* stream, std::function<bool()> ready, std::function<void()> work, std::vector<range> reads,
                                     std::vector<range> writes, place& at);

/// Runs what can run up to there; whether all did.
GRAFT_SIMULATOR_API bool run_to(const place& at);
/// Whether what stands there has run.
GRAFT_SIMULATOR_API bool is_done(const place& at);

/// Holds the simulator's lock, under which `work` and `ready` run: for the state that they share with a library's functions.
class GRAFT_SIMULATOR_API waiting_lock {
public:
    waiting_lock();
    ~waiting_lock();
    waiting_lock(const waiting_lock&) = delete;
    waiting_lock& operator=(const waiting_lock&) = delete;
    /// Waits, and lets other threads call the simulator meanwhile. Asks whenever something was put, ran, or `changed`.
    void wait_until(const std::function<bool()>& happened);
    /// Says that something may be ready now.
    void changed();
};

/// Inside of `work`: the context stops with this driver's result, as after a kernel's fault, and `why` is reported.
GRAFT_SIMULATOR_API void fail_work(int result, const std::string& why);

/// Counts a call of an exported function, and tells whether it shall fail: the code to give back, or 0. Call it first in each function
/// that gives back a code, with the exported name. A function that frees, frees all the same before it gives the code back.
GRAFT_SIMULATOR_API int fault(const char* function);

/// Writes a line to the log, if there is one (GRAFT_SIMULATOR_LOG).
GRAFT_SIMULATOR_API void log_call(const char* function, const std::string& arguments, int result);
GRAFT_SIMULATOR_API bool logging();

/// Handles of a library, for the report of what was never destroyed. `kind` is a name such as "cudnnHandle_t".
GRAFT_SIMULATOR_API void handle_made(const char* kind, const void* handle);
/// False, and reported (kind "invalid_handle"), where no such handle lives: it was destroyed before, or never made.
GRAFT_SIMULATOR_API bool handle_destroyed(const char* kind, const void* handle);
/// Whether it lives; reported where not.
GRAFT_SIMULATOR_API bool handle_used(const char* kind, const void* handle);

/// Something wrong that the caller did: counted under `kind` and written to the report.
GRAFT_SIMULATOR_API void problem(const char* kind, const std::string& text);

/// The device of the thread's current context, or -1 without one.
GRAFT_SIMULATOR_API int current_device();

/// Whether a stream may be used now with the current context: a driver's result (success, invalid_handle, invalid_context, or the error
/// that stopped the context). Null is the legacy default stream.
GRAFT_SIMULATOR_API int check_stream(void* stream);

/// The device of a stream's context (null: the current one), or -1 where no such stream lives, which is reported.
GRAFT_SIMULATOR_API int device_of_stream(void* stream);
/// The device in whose memory all of the bytes lie, or -1.
GRAFT_SIMULATOR_API int device_of(const range& r);

/// Whether what is put on the stream next comes behind that work: on the same stream, by events, or as the host has waited for it.
GRAFT_SIMULATOR_API bool is_behind(void* stream, const place& at);

/// Whether the stream is being captured into a graph.
GRAFT_SIMULATOR_API bool is_capturing(void* stream);

/// Whether all of the bytes lie in live device memory (`pinned` too: or in pinned host memory).
GRAFT_SIMULATOR_API bool is_live(const range& r, bool pinned = false);

/// Waits as cuCtxSynchronize does: for library calls that synchronise. A driver's result.
GRAFT_SIMULATOR_API int synchronise_context();

/// A setting: GRAFT_SIMULATOR_<name> of the environment, or what graft_simulator_set made of it.
GRAFT_SIMULATOR_API std::string setting(const char* name, const char* otherwise);

/// The number of devices, and the compute capability of each (major * 10 + minor).
GRAFT_SIMULATOR_API int device_count();
GRAFT_SIMULATOR_API int compute_capability();
/// Bytes of a device's memory: all, and those in use.
GRAFT_SIMULATOR_API std::size_t total_memory();
GRAFT_SIMULATOR_API std::size_t used_memory(int device);
/// The bytes of a device's id, and its place on the bus as text.
GRAFT_SIMULATOR_API void device_uuid(int device, unsigned char bytes[16]);
GRAFT_SIMULATOR_API std::string device_bus_id(int device);

}  // namespace graft_simulator

// For tests, by dlsym on libcuda.so.1.
extern "C" {

/// How often something happened. `what`: a kind of problem ("double_free", "use_after_free", "invalid_address", "invalid_handle",
/// "wrong_context", "shared_handle", "unsynchronised", "host_race", "out_of_bounds", "kernel_fault", "unbalanced", "invalid_comm", "collective_mismatch"),
/// "problems" (all of these), a kind of thing that lives ("device_memory", "pinned_memory", "stream", "event", "module", "graph", "graph_exec", "context", or a
/// library's handle), "live" (all of these), "calls" (of all functions), "call:NAME" (of one), "launches", "graph_launches".
GRAFT_SIMULATOR_API long graft_simulator_counts(const char* what);

/// Writes what is wrong so far and what lives, as text ended by 0, cut to `bytes`. Gives back its whole length.
GRAFT_SIMULATOR_API std::size_t graft_simulator_report(char* text, std::size_t bytes);

/// Sets what shall fail ("cuMemAlloc_v2:3:2,*:17:999"; as GRAFT_SIMULATOR_FAIL), counting calls from here on. Null or "": nothing.
GRAFT_SIMULATOR_API void graft_simulator_fail(const char* rules);

/// Forgets problems and the counts of calls; what lives stays.
GRAFT_SIMULATOR_API void graft_simulator_reset(void);

/// Changes a setting ("DEVICES", "MEMORY", "COMPUTE"); null: what the environment says.
GRAFT_SIMULATOR_API void graft_simulator_set(const char* name, const char* value);
}
