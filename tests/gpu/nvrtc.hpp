// The real NVRTC, where the machine has it: it compiles for GPUs without one.
#pragma once

#include <graft/gpu/api/nvrtc.hpp>
#include <graft/gpu/codegen/prelude.hpp>

#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace real_nvrtc {

/// NVRTC's functions, or null with the reason.
inline const graft::gpu::api::nvrtc_functions* functions(std::string& why) {
    static graft::gpu::api::nvrtc_functions all{};
    static const bool found = [] {
        std::vector<std::string> names;
        if (const char* folder = std::getenv("CUDA_HOME")) names.push_back(std::string(folder) + "/lib64/libnvrtc.so");
        for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.12"})
            names.push_back(name);
        void* library = nullptr;
        for (const std::string& name : names)
            if (!library) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) return false;
#define GRAFT_TEST_SYMBOL(result, name, parameters) all.name = reinterpret_cast<result(*) parameters>(dlsym(library, #name));
        GRAFT_NVRTC_FUNCTIONS(GRAFT_TEST_SYMBOL)
#undef GRAFT_TEST_SYMBOL
        return all.nvrtcCompileProgram && all.nvrtcGetCUBINSize;
    }();
    if (!found) why = "libnvrtc.so.13 is not on this machine";
    return found ? &all : nullptr;
}

/// Compiles a text for an architecture ("sm_80"); gives NVRTC's log: empty where there is neither an error nor a warning. `more`: another option.
inline std::string compile(const graft::gpu::api::nvrtc_functions& f, const std::string& source, const std::string& arch, const char* more = nullptr) {
    void* program = nullptr;
    if (f.nvrtcCreateProgram(&program, source.c_str(), "graft.cu", 0, nullptr, nullptr) != 0) return "no program";
    const std::string option = "--gpu-architecture=" + arch;
    const char* options[] = {option.c_str(), "--std=c++17", more};
    const int result = f.nvrtcCompileProgram(program, more ? 3 : 2, options);
    std::size_t bytes = 0;
    std::string log;
    if (f.nvrtcGetProgramLogSize(program, &bytes) == 0 && bytes > 1) {
        log.resize(bytes);
        f.nvrtcGetProgramLog(program, &log[0]);
        log.resize(bytes - 1);
    }
    std::size_t cubin = 0;
    if (log.empty() && (result != 0 || f.nvrtcGetCUBINSize(program, &cubin) != 0 || cubin == 0))
        log = std::string("NVRTC says ") + f.nvrtcGetErrorString(result);
    f.nvrtcDestroyProgram(&program);
    return log;
}

}  // namespace real_nvrtc
