// What tells the runner of each access to memory: with -fsanitize=thread the compiler calls these functions, which take the place of its own
// library's. Part of device_shim.hpp.
#pragma once

#define GRAFT_SIMULATOR_ACCESS(name, bytes, writes) \
    extern "C" __attribute__((no_sanitize_thread, visibility("hidden"))) void __tsan_##name(void* p) { \
        if (graft_simulator_state.access) graft_simulator_state.access(p, bytes, writes); \
    }
#define GRAFT_SIMULATOR_ACCESSES(bytes) \
    GRAFT_SIMULATOR_ACCESS(read##bytes, bytes, false) \
    GRAFT_SIMULATOR_ACCESS(write##bytes, bytes, true)
#define GRAFT_SIMULATOR_UNALIGNED(bytes) \
    GRAFT_SIMULATOR_ACCESS(unaligned_read##bytes, bytes, false) \
    GRAFT_SIMULATOR_ACCESS(unaligned_write##bytes, bytes, true)
GRAFT_SIMULATOR_ACCESSES(1)
GRAFT_SIMULATOR_ACCESSES(2)
GRAFT_SIMULATOR_ACCESSES(4)
GRAFT_SIMULATOR_ACCESSES(8)
GRAFT_SIMULATOR_ACCESSES(16)
GRAFT_SIMULATOR_UNALIGNED(2)
GRAFT_SIMULATOR_UNALIGNED(4)
GRAFT_SIMULATOR_UNALIGNED(8)
GRAFT_SIMULATOR_UNALIGNED(16)
#define GRAFT_SIMULATOR_RANGE(name, writes) \
    extern "C" __attribute__((no_sanitize_thread, visibility("hidden"))) void __tsan_##name(void* p, long bytes) { \
        if (graft_simulator_state.access) graft_simulator_state.access(p, bytes, writes); \
    }
GRAFT_SIMULATOR_RANGE(read_range, false)
GRAFT_SIMULATOR_RANGE(write_range, true)
extern "C" __attribute__((no_sanitize_thread, visibility("hidden"))) void __tsan_init() {}
extern "C" __attribute__((no_sanitize_thread, visibility("hidden"))) void __tsan_func_entry(void*) {}
extern "C" __attribute__((no_sanitize_thread, visibility("hidden"))) void __tsan_func_exit(void*) {}
