// The simulated libcuda.so.1: devices, contexts, memory, copies.
#include "exports.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace graft_simulator {

// Without a destructor: what is static in a program ends after its main thread's variables do, and may make contexts current still.
context_stack& current_stack() {
    static thread_local context_stack stack;
    return stack;
}

context* current(int& why) {
    if (!the_world().initialized) {
        why = result::not_initialized;
        return nullptr;
    }
    if (current_stack().empty()) {
        why = result::invalid_context;
        return nullptr;
    }
    context** c = the_world().contexts.find(current_stack().back());
    if (!c) {
        problem("invalid_handle", "the thread's current context was released");
        why = result::context_destroyed;
        return nullptr;
    }
    why = (*c)->stopped;
    return *c;
}

int physical(int device) {
    const auto& visible = the_world().visible;
    return device < static_cast<int>(visible.size()) ? visible[static_cast<std::size_t>(device)] : device;
}

namespace {

// As the driver reads CUDA_VISIBLE_DEVICES: numbers up to the first that is none of a device.
std::vector<int> visible_devices() {
    std::vector<int> devices;
    const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        for (int i = 0; i < device_count(); ++i) devices.push_back(i);
        return devices;
    }
    for (const char* at = list; *at;) {
        char* end = nullptr;
        const long n = std::strtol(at, &end, 10);
        if (end == at || n < 0 || n >= device_count() || std::count(devices.begin(), devices.end(), n)) break;
        devices.push_back(static_cast<int>(n));
        if (*end != ',') break;
        at = end + 1;
    }
    return devices;
}

int check_device(int device) {
    if (!the_world().initialized) return result::not_initialized;
    return device < 0 || device >= static_cast<int>(the_world().visible.size()) ? result::invalid_device : 0;
}

int shared_opt_in() {
    const int arch = compute_capability();
    if (arch == 75) return 64 << 10;
    if (arch == 80 || arch == 87) return 163 << 10;
    if (arch == 86 || arch == 89 || arch >= 120) return 99 << 10;
    return 227 << 10;
}

struct attribute_row {
    int attribute, value;
};

int attribute_of(int attribute, int& value) {
    namespace a = driver::attribute;
    const attribute_row rows[] = {{a::max_threads_per_block, 1024},
                                  {a::max_grid_x, 2147483647},
                                  {a::max_grid_y, 65535},
                                  {a::max_grid_z, 65535},
                                  {a::max_shared_bytes_per_block, 48 << 10},
                                  {a::warp_size, 32},
                                  {a::max_registers_per_block, 65536},
                                  {a::clock_khz, 1000000},
                                  {a::multiprocessors, std::atoi(setting("MULTIPROCESSORS", "4").c_str())},
                                  {a::integrated, 0},
                                  {a::compute_mode, std::atoi(setting("COMPUTE_MODE", "0").c_str())},
                                  {a::ecc_enabled, 0},
                                  {a::memory_clock_khz, 1000000},
                                  {a::memory_bus_bits, 512},
                                  {a::l2_bytes, 4 << 20},
                                  {a::max_threads_per_multiprocessor, compute_capability() == 75 ? 1024 : 2048},
                                  {a::copy_engines, 2},
                                  {a::compute_capability_major, compute_capability() / 10},
                                  {a::compute_capability_minor, compute_capability() % 10},
                                  {a::max_shared_bytes_per_multiprocessor, shared_opt_in() + 1024},
                                  {a::max_registers_per_multiprocessor, 65536},
                                  {a::max_shared_bytes_opt_in, shared_opt_in()},
                                  {a::max_blocks_per_multiprocessor, 32}};
    for (const attribute_row& row : rows) {
        if (row.attribute != attribute) continue;
        value = row.value;
        return result::success;
    }
    return result::invalid_value;
}

}  // namespace

int device_attribute(int attribute) {
    int value = 0;
    attribute_of(attribute, value);
    return value;
}

namespace {

struct error_row {
    int code;
    const char *name, *text;
};

const error_row* row_of(int code) {
    static const error_row rows[] = {
        {0, "CUDA_SUCCESS", "no error"},
        {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
        {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
        {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
        {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
        {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
        {36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "API call is not supported in the installed CUDA driver"},
        {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
        {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
        {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
        {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
        {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
        {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
        {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
        {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
        {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
        {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
        {600, "CUDA_ERROR_NOT_READY", "device not ready"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
        {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
        {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
        {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
        {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
        {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
        {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
        {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
        {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
        {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
        {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
        {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
        {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
        {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
        {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
        {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
        {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
        {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "attempt to terminate a thread-local capture sequence from another thread"},
        {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};
    for (const error_row& row : rows) {
        if (row.code == code) return &row;
    }
    return nullptr;
}

// A copy's stream, or null with the reason.
stream* stream_for_copy(void* handle, int& why) {
    stream* s = find_stream(handle, why);
    return why ? nullptr : s;
}

operation copy_operation(const char* what, void* to, const void* from, std::size_t bytes) {
    operation op;
    op.what = what;
    op.work = [to, from, bytes] { std::memcpy(to, from, bytes); };
    return op;
}

int copy_to_device(std::uint64_t to, const void* from, std::size_t bytes, void* handle) {
    int why = 0;
    stream* s = stream_for_copy(handle, why);
    if (!s || bytes == 0) return why;
    if (const int error = check_range({to, bytes}, "cuMemcpyHtoDAsync", false)) return error;
    void* target = reinterpret_cast<void*>(to);
    const bool pinned = find_memory(reinterpret_cast<std::uintptr_t>(from), bytes) != nullptr;
    operation op = copy_operation("cuMemcpyHtoDAsync", target, from, bytes);
    op.writes.push_back({to, bytes});
    if (pinned) {
        const range source(from, bytes);
        op.reads.push_back(source);
        op.from_host = source;
        // The memory belongs to the copy until it ran: that the host does not write to it can be checked.
        if (!s->capturing && !queued_touches(reinterpret_cast<std::uintptr_t>(from), bytes)) {
            const std::uint64_t before = sum_of(source);
            op.work = [target, from, bytes, source, before] {
                if (sum_of(source) != before) problem("host_race", "the host wrote to pinned memory from which a queued cuMemcpyHtoDAsync reads");
                std::memcpy(target, from, bytes);
            };
        }
    } else if (!s->capturing) {  // the driver copies memory that is not pinned before it returns
        auto staged = std::make_shared<std::string>(static_cast<const char*>(from), bytes);
        op.work = [target, staged] { std::memcpy(target, staged->data(), staged->size()); };
    }
    return put(*s, std::move(op), false);
}

int copy_to_host(void* to, std::uint64_t from, std::size_t bytes, void* handle) {
    int why = 0;
    stream* s = stream_for_copy(handle, why);
    if (!s || bytes == 0) return why;
    if (const int error = check_range({from, bytes}, "cuMemcpyDtoHAsync", false)) return error;
    const bool pinned = find_memory(reinterpret_cast<std::uintptr_t>(to), bytes) != nullptr;
    operation op = copy_operation("cuMemcpyDtoHAsync", to, reinterpret_cast<const void*>(from), bytes);
    op.reads.push_back({from, bytes});
    if (pinned) {
        op.to_host = {to, bytes};
        op.writes.push_back(op.to_host);
    }
    const bool spoil = pinned && !s->capturing && !queued_touches(reinterpret_cast<std::uintptr_t>(to), bytes);
    if (const int error = put(*s, std::move(op), false)) return error;
    // Who reads before waiting shall see that it was too early.
    if (spoil && !s->queue.empty()) std::memset(to, 0xdb, bytes);
    if (pinned || s->capturing) return result::success;
    const context& owner = *s->owner;
    wait_for(*s);  // memory that is not pinned is written before the call returns
    return owner.stopped;
}

int copy_on_device(const char* what, std::uint64_t to, std::uint64_t from, std::size_t bytes, void* handle) {
    int why = 0;
    stream* s = stream_for_copy(handle, why);
    if (!s || bytes == 0) return why;
    const range source(from, bytes), target(to, bytes);
    if (const int error = check_range(source, what, false)) return error;
    if (const int error = check_range(target, what, false)) return error;
    operation op = copy_operation(what, reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    op.reads.push_back(source);
    op.writes.push_back(target);
    if (from < to + bytes && to < from + bytes) problem("invalid_address", std::string(what) + " with ranges that overlap");
    return put(*s, std::move(op), false);
}

bool lies_in(std::uint64_t address, void* handle) {
    context** c = the_world().contexts.find(handle);
    const allocation* a = find_memory(address, 1);
    return c && a && a->owner == *c;
}

int free_memory(std::uint64_t address, bool pinned, const context& here) {
    if (address == 0) return result::success;
    world& w = the_world();
    if (w.memory.count(address)) wait_for_everything(here);  // the driver waits for the device before it frees
    const auto at = w.memory.find(address);
    if (at == w.memory.end() || (at->second->device < 0) != pinned) {
        const bool twice = at == w.memory.end() && w.freed.count(address);
        problem(twice ? "double_free" : "invalid_address", twice                  ? "memory was freed twice"
                                                           : at == w.memory.end() ? "an address was freed that no allocation begins at"
                                                                                  : "memory was freed by the wrong function");
        return result::invalid_value;
    }
    release(address);
    return result::success;
}

}  // namespace
}  // namespace graft_simulator

using namespace graft_simulator;

extern "C" {

int cuInit(unsigned flags) {
    call c("cuInit");
    if (c.forced) return c.forced;
    if (flags) return c.end(result::invalid_value);
    world& w = the_world();
    w.visible = visible_devices();
    if (w.visible.empty()) return c.end(result::no_device);
    w.initialized = true;
    return c.end(result::success);
}

int cuDriverGetVersion(int* version) {
    call c("cuDriverGetVersion");
    if (c.forced) return c.forced;
    if (!version) return c.end(result::invalid_value);
    *version = std::atoi(setting("DRIVER", "13000").c_str());
    return c.end(result::success);
}

int cuGetErrorName(int error, const char** text) {
    const error_row* row = row_of(error);
    if (text) *text = row ? row->name : nullptr;
    return row && text ? result::success : result::invalid_value;
}

int cuGetErrorString(int error, const char** text) {
    const error_row* row = row_of(error);
    if (text) *text = row ? row->text : nullptr;
    return row && text ? result::success : result::invalid_value;
}

int cuDeviceGetCount(int* count) {
    call c("cuDeviceGetCount");
    if (c.forced) return c.forced;
    if (!the_world().initialized) return c.end(result::not_initialized);
    if (!count) return c.end(result::invalid_value);
    *count = static_cast<int>(the_world().visible.size());
    return c.end(result::success);
}

int cuDeviceGet(int* device, int ordinal) {
    call c("cuDeviceGet");
    if (c.forced) return c.forced;
    if (const int error = check_device(ordinal)) return c.end(error, ordinal);
    if (!device) return c.end(result::invalid_value);
    *device = ordinal;
    return c.end(result::success, ordinal);
}

int cuDeviceGetName(char* name, int bytes, int device) {
    call c("cuDeviceGetName");
    if (c.forced) return c.forced;
    if (const int error = check_device(device)) return c.end(error, device);
    if (!name || bytes <= 0) return c.end(result::invalid_value);
    std::snprintf(name, static_cast<std::size_t>(bytes), "graft CUDA simulator");
    return c.end(result::success, device);
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
    call c("cuDeviceGetAttribute");
    if (c.forced) return c.forced;
    if (const int error = check_device(device)) return c.end(error, attribute, device);
    if (!value) return c.end(result::invalid_value);
    return c.end(attribute_of(attribute, *value), attribute, device);
}

int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
    call c("cuDeviceTotalMem_v2");
    if (c.forced) return c.forced;
    if (const int error = check_device(device)) return c.end(error, device);
    if (!bytes) return c.end(result::invalid_value);
    *bytes = total_memory();
    return c.end(result::success, device);
}

int cuDeviceGetUuid_v2(driver::uuid* id, int device) {
    call c("cuDeviceGetUuid_v2");
    if (c.forced) return c.forced;
    if (const int error = check_device(device)) return c.end(error, device);
    if (!id) return c.end(result::invalid_value);
    device_uuid(physical(device), id->bytes);
    return c.end(result::success, device);
}

int cuDeviceGetPCIBusId(char* id, int bytes, int device) {
    call c("cuDeviceGetPCIBusId");
    if (c.forced) return c.forced;
    if (const int error = check_device(device)) return c.end(error, device);
    if (!id || bytes <= 0) return c.end(result::invalid_value);
    std::snprintf(id, static_cast<std::size_t>(bytes), "%s", device_bus_id(physical(device)).c_str());
    return c.end(result::success, device);
}

int cuDevicePrimaryCtxRetain(void** handle, int device) {
    call c("cuDevicePrimaryCtxRetain");
    if (c.forced) return c.forced;
    if (const int error = check_device(device)) return c.end(error, device);
    if (!handle) return c.end(result::invalid_value);
    if (setting("COMPUTE_MODE", "0") == "2") return c.end(result::device_unavailable, device);
    world& w = the_world();
    auto& primary = w.primaries[device];
    if (!primary) {
        primary = std::make_unique<context>();
        primary->device = device;
        primary->handle = w.contexts.add(std::make_unique<context*>(primary.get()));
        primary->legacy = new_stream(primary.get(), true, true);
    }
    ++primary->retained;
    *handle = primary->handle;
    return c.end(result::success, device, *handle);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    call c("cuDevicePrimaryCtxRelease_v2");
    if (const int error = check_device(device)) return c.end(error, device);
    world& w = the_world();
    const auto at = w.primaries.find(device);
    if (at == w.primaries.end()) {
        problem("unbalanced", "a primary context was released more often than retained");
        return c.end(result::invalid_context, device);
    }
    if (--at->second->retained == 0) {
        run_everything_of_last(*at->second);
        w.contexts.remove(at->second->handle);
        w.stream_handles.erase(at->second->legacy->handle);
        at->second->legacy->destroyed = true;
        at->second->stopped = result::context_destroyed;
        w.dead_contexts.push_back(std::move(at->second));  // what was not freed in it goes on to be reported as alive
        w.primaries.erase(at);
    }
    return c.end(c.forced, device);
}

int cuCtxPushCurrent_v2(void* handle) {
    call c("cuCtxPushCurrent_v2");
    if (c.forced) return c.forced;
    if (!the_world().initialized) return c.end(result::not_initialized);
    if (!the_world().contexts.find(handle)) {
        problem("invalid_handle", "a context that does not live was made current");
        return c.end(result::invalid_context, handle);
    }
    current_stack().push_back(handle);
    return c.end(result::success, handle);
}

int cuCtxPopCurrent_v2(void** handle) {
    call c("cuCtxPopCurrent_v2");
    if (!the_world().initialized) return c.end(result::not_initialized);
    if (current_stack().empty()) {
        problem("unbalanced", "a context was popped where none is current");
        return c.end(result::invalid_context);
    }
    if (handle) *handle = current_stack().back();
    current_stack().pop_back();
    return c.end(c.forced);
}

int cuCtxSynchronize() {
    call c("cuCtxSynchronize");
    if (c.forced) return c.forced;
    return c.end(synchronise_context());
}

int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    call c("cuMemGetInfo_v2");
    if (c.forced) return c.forced;
    int why = 0;
    const context* here = current(why);
    if (!here || why) return c.end(why);
    if (!free || !total) return c.end(result::invalid_value);
    *total = total_memory();
    *free = *total - std::min(*total, used_memory(physical(here->device)));
    return c.end(result::success);
}

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
    call c("cuMemAlloc_v2");
    if (c.forced) return c.forced;
    int why = 0;
    context* here = current(why);
    if (!here || why) return c.end(why, bytes);
    if (!address) return c.end(result::invalid_value, bytes);
    if (const int error = unsafe_call()) return c.end(error, bytes);
    const int code = allocate(here, here->device, bytes, *address);
    return c.end(code, bytes, code ? 0ull : static_cast<unsigned long long>(*address));
}

int cuMemFree_v2(std::uint64_t address) {
    call c("cuMemFree_v2");
    int why = 0;
    const context* here = current(why);
    if (!here) return c.end(why, address);
    if (const int error = unsafe_call()) return c.end(error, address);
    const int code = free_memory(address, false, *here);
    return c.end(c.forced ? c.forced : why ? why : code, address);  // an error of the context does not keep it from being gone
}

int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
    call c("cuMemHostAlloc");
    if (c.forced) return c.forced;
    int why = 0;
    context* here = current(why);
    if (!here || why) return c.end(why, bytes);
    if (!memory || flags > 7) return c.end(result::invalid_value, bytes);
    if (const int error = unsafe_call()) return c.end(error, bytes);
    std::uint64_t address = 0;
    const int code = allocate(here, -1, bytes, address);
    if (!code) *memory = reinterpret_cast<void*>(address);
    return c.end(code, bytes, static_cast<unsigned long long>(address));
}

int cuMemFreeHost(void* memory) {
    call c("cuMemFreeHost");
    int why = 0;
    const context* here = current(why);
    if (!here) return c.end(why, memory);
    if (const int error = unsafe_call()) return c.end(error, memory);
    const int code = memory ? free_memory(reinterpret_cast<std::uintptr_t>(memory), true, *here) : static_cast<int>(result::invalid_value);
    return c.end(c.forced ? c.forced : why ? why : code, memory);
}

int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
    call c("cuMemcpyHtoDAsync_v2");
    if (c.forced) return c.forced;
    return c.end(copy_to_device(to, from, bytes, stream), to, from, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
    call c("cuMemcpyDtoHAsync_v2");
    if (c.forced) return c.forced;
    return c.end(copy_to_host(to, from, bytes, stream), to, from, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) {
    call c("cuMemcpyDtoDAsync_v2");
    if (c.forced) return c.forced;
    return c.end(copy_on_device("cuMemcpyDtoDAsync", to, from, bytes, stream), to, from, bytes, stream);
}

int cuMemcpyPeerAsync(std::uint64_t to, void* to_context, std::uint64_t from, void* from_context, std::size_t bytes, void* stream) {
    call c("cuMemcpyPeerAsync");
    if (c.forced) return c.forced;
    if (bytes && (!lies_in(to, to_context) || !lies_in(from, from_context))) {
        problem("wrong_context", "cuMemcpyPeerAsync with an address that does not belong to its context");
        return c.end(result::invalid_value, to, to_context, from, from_context, bytes, stream);
    }
    return c.end(copy_on_device("cuMemcpyPeerAsync", to, from, bytes, stream), to, to_context, from, from_context, bytes, stream);
}

int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void* stream) {
    call c("cuMemsetD8Async");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = stream_for_copy(stream, why);
    if (!s || bytes == 0) return c.end(why, to, unsigned{value}, bytes, stream);
    if (const int error = check_range({to, bytes}, "cuMemsetD8Async", false)) return c.end(error, to, unsigned{value}, bytes, stream);
    operation op;
    op.what = "cuMemsetD8Async";
    void* memory = reinterpret_cast<void*>(to);
    op.work = [memory, value, bytes] { std::memset(memory, value, bytes); };
    op.writes.push_back({to, bytes});
    return c.end(put(*s, std::move(op), false), to, unsigned{value}, bytes, stream);
}
}
