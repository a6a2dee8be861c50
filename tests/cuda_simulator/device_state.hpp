// What a kernel that was compiled for the host and the runner that runs it share: the place in the grid, and the ways to wait.
#pragma once

namespace graft_simulator {

struct triple {
    unsigned x, y, z;
};

/// What a thread waits for; also the bytes of `device_state::status`.
enum thread_status : unsigned char { not_started, running, at_warp, at_block, finished };

/// What is done once the threads of a wait have all come.
enum class wait_kind : int { synchronise, shuffle };

/// One for each compiled text, in its shared library. The runner fills it in before each block.
struct device_state {
    triple thread, block, block_size, grid_size;
    unsigned next, count;   ///< threads of the block: how many have started, how many there are
    unsigned current;       ///< the running thread's place in the block
    int backward;           ///< threads start at the last one
    unsigned char* status;  ///< of each thread
    /// Waits for the threads of the block; gives back how many of them came with a predicate that is not zero.
    int (*wait_block)(int predicate, int line);
    /// Waits for the threads of the mask; `value` and `lane` mean what `wait_kind` says.
    unsigned long long (*wait_warp)(wait_kind kind, unsigned mask, unsigned long long value, unsigned lane, int line);
    /// Ends the launch with an error.
    void (*stop)(const char* why, int line);
    /// Told of each access to memory where the text was compiled to find races; null: nobody asks.
    void (*access)(const void* address, unsigned long bytes, bool writes);
};

/// What a parameter is to the kernel, from its type: `const T*` is read, `T*` may be written as well.
enum parameter_kind : unsigned char { plain, read_only, read_write };

/// What the runner has to know of one entry point.
struct entry_description {
    const char* name;
    void (*run)(void** parameters);  ///< runs the threads that have not started, as long as none waits
    unsigned max_threads;            ///< of __launch_bounds__, or 1024
    unsigned parameters;
    const unsigned* parameter_bytes;
    const parameter_kind* parameter_kinds;
    const unsigned* pointee_bytes;
};

/// What a compiled text exports, under the name graft_simulator_module.
struct module_description {
    unsigned version;
    device_state* state;
    unsigned char *shared_begin, *shared_end;  ///< variables that are __shared__
    unsigned char* dynamic_shared;
    unsigned dynamic_shared_bytes;
    const entry_description* entries;
    unsigned entry_count;
};

constexpr unsigned module_version = 3;
constexpr unsigned dynamic_shared_limit = 227u << 10;  ///< of a block, after opting in
constexpr unsigned shared_guard = 4096;                ///< bytes behind it that no kernel may change

}  // namespace graft_simulator
