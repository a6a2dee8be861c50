// Compiles CUDA C++ for the host with g++ and runs its kernels thread by thread. Part of the CUDA simulator, which only tests use.
#pragma once

#include "device_state.hpp"

#include <memory>
#include <string>
#include <vector>

namespace graft_simulator {

/// What became of a text: the path of a shared library, or why there is none.
struct compiled {
    bool ok = false;
    std::string path;
    std::string log;
};

/// Compiles `source`, or finds what an earlier call (of any process) made of the same text. `options`: only -D and -U are looked at.
compiled compile(const std::string& source, const std::vector<std::string>& options = {});

/// Whether texts are compiled so that launches find races: GRAFT_SIMULATOR_RACES is set to something else than 0.
bool finds_races();

/// The folder that compiled texts are kept in; it exists afterwards.
std::string cache_folder();

class kernel_module;

/// An entry point of a loaded text.
struct function {
    std::shared_ptr<kernel_module> module;
    const entry_description* entry = nullptr;
    unsigned dynamic_shared_limit = 48u << 10;  ///< what launches may ask for
};

/// Loads what `compile` made. Texts stay loaded: the same path gives the same module. Null where it is none, with the reason in `why`.
std::shared_ptr<kernel_module> load(const std::string& path, std::string& why);

/// The entry point of that name; `entry` is null where there is none.
function find(const std::shared_ptr<kernel_module>& module, const std::string& name);

/// Bytes of the text's __shared__ variables, of all its entry points together.
unsigned static_shared_bytes(const function& f);

/// How a launch ended.
struct outcome {
    enum kind_type { done, invalid, illegal_address, misaligned_address, illegal_instruction, failed } kind = done;
    std::string message;
    std::string race = {};  ///< the first access that another thread's write may come before or after, if the text was compiled to find it
};

/// Checks a launch without running it.
outcome check(const function& f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes);

/// Runs every thread of the grid. `parameters[i]` points to the i-th parameter's value, as for cuLaunchKernel. One launch runs at a
/// time; neighbouring blocks start their threads in opposite orders, so that missing barriers show. Shared memory is spoilt before
/// each block.
outcome launch(const function& f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, void** parameters);

/// While it lives, the signals of faults stay with the runner from one launch to the next, which saves system calls.
class several_launches {
public:
    several_launches();
    ~several_launches();
    several_launches(const several_launches&) = delete;
    several_launches& operator=(const several_launches&) = delete;
};

}  // namespace graft_simulator
