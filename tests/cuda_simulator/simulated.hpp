// For tests that talk to the simulated libraries themselves: loads them, and asks the simulator what it saw.
#pragma once

#include <graft/gpu/api/cublaslt.hpp>
#include <graft/gpu/api/cudnn.hpp>
#include <graft/gpu/api/driver.hpp>
#include <graft/gpu/api/nccl.hpp>
#include <graft/gpu/api/nvml.hpp>
#include <graft/gpu/api/nvrtc.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace simulated {

using namespace graft::gpu::api;

inline void* library(const char* file) {
    void* handle = dlopen((std::string(GRAFT_CUDA_SIMULATOR "/") + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) MESSAGE(dlerror());
    const bool loaded = handle != nullptr;
    REQUIRE(loaded);
    return handle;
}

template <class F>
void bind(F*& function, void* from, const char* name) {
    function = reinterpret_cast<F*>(dlsym(from, name));
    const bool exported = function != nullptr;
    CHECK_MESSAGE(exported, name);
}

#define GRAFT_SIMULATED_BIND(type, name, parameters) bind(f.name, from, #name);
inline const driver_functions& cuda() {
    static const driver_functions functions = [] {
        driver_functions f;
        void* from = library("libcuda.so.1");
        GRAFT_DRIVER_FUNCTIONS(GRAFT_SIMULATED_BIND)
        return f;
    }();
    return functions;
}
inline const nvrtc_functions& rtc() {
    static const nvrtc_functions functions = [] {
        nvrtc_functions f;
        void* from = library("libnvrtc.so.13");
        GRAFT_NVRTC_FUNCTIONS(GRAFT_SIMULATED_BIND)
        return f;
    }();
    return functions;
}
inline const nvml_functions& ml() {
    static const nvml_functions functions = [] {
        nvml_functions f;
        void* from = library("libnvidia-ml.so.1");
        GRAFT_NVML_FUNCTIONS(GRAFT_SIMULATED_BIND)
        return f;
    }();
    return functions;
}
inline const nccl_functions& nccl_library() {
    static const nccl_functions functions = [] {
        nccl_functions f;
        void* from = library("libnccl.so.2");
        GRAFT_NCCL_FUNCTIONS(GRAFT_SIMULATED_BIND)
        return f;
    }();
    return functions;
}

inline const cudnn_functions& dnn() {
    static const cudnn_functions functions = [] {
        cudnn_functions f;
        void* from = library("libcudnn.so.9");
        GRAFT_CUDNN_FUNCTIONS(GRAFT_SIMULATED_BIND)
        return f;
    }();
    return functions;
}
inline const cublaslt_functions& blas() {
    static const cublaslt_functions functions = [] {
        cublaslt_functions f;
        void* from = library("libcublasLt.so.13");
        GRAFT_CUBLASLT_FUNCTIONS(GRAFT_SIMULATED_BIND)
        return f;
    }();
    return functions;
}

/// How often something happened, or how many live: see graft_simulator_counts in simulator.hpp.
inline long count(const char* what) {
    static long (*const f)(const char*) = reinterpret_cast<long (*)(const char*)>(dlsym(library("libcuda.so.1"), "graft_simulator_counts"));
    return f(what);
}
/// What is wrong so far and what lives, in sentences.
inline std::string report() {
    static std::size_t (*const f)(char*, std::size_t) =
        reinterpret_cast<std::size_t (*)(char*, std::size_t)>(dlsym(library("libcuda.so.1"), "graft_simulator_report"));
    std::string text(f(nullptr, 0) + 1, 0);
    f(&text[0], text.size());
    text.pop_back();
    return text;
}
/// Makes calls fail: "cuMemAlloc_v2:3:2", "*:17:999"; null: none.
inline void fail(const char* rules) {
    static void (*const f)(const char*) = reinterpret_cast<void (*)(const char*)>(dlsym(library("libcuda.so.1"), "graft_simulator_fail"));
    f(rules);
}
/// Changes a setting of the environment ("DEVICES", "2"); null: as the environment says.
inline void set(const char* name, const char* value) {
    static void (*const f)(const char*, const char*) =
        reinterpret_cast<void (*)(const char*, const char*)>(dlsym(library("libcuda.so.1"), "graft_simulator_set"));
    f(name, value);
}
/// Forgets problems and counts.
inline void reset() {
    static void (*const f)() = reinterpret_cast<void (*)()>(dlsym(library("libcuda.so.1"), "graft_simulator_reset"));
    f();
}

}  // namespace simulated
