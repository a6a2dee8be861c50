// NVRTC 12 and 13 (libnvrtc.so): the compiler of CUDA C++ at run time, as far as graft uses it, declared in its own words.
#pragma once

#include "../../config.hpp"
#include "member.hpp"

/// Functions of NVRTC as rows X(result, exported name, parameters). Results are an `nvrtc::result`; a program is void*.
#define GRAFT_NVRTC_FUNCTIONS(X) \
    X(int, nvrtcVersion, (int* major, int* minor)) \
    X(const char*, nvrtcGetErrorString, (int error)) \
    X(int, nvrtcCreateProgram, \
      (void** program, const char* source, const char* name, int header_count, const char* const* headers, const char* const* header_names)) \
    X(int, nvrtcDestroyProgram, (void** program)) \
    X(int, nvrtcCompileProgram, (void* program, int option_count, const char* const* options)) \
    X(int, nvrtcGetProgramLogSize, (void* program, std::size_t* bytes)) \
    X(int, nvrtcGetProgramLog, (void* program, char* log)) \
    X(int, nvrtcGetCUBINSize, (void* program, std::size_t* bytes)) \
    X(int, nvrtcGetCUBIN, (void* program, char* cubin)) \
    X(int, nvrtcGetNumSupportedArchs, (int* count)) \
    X(int, nvrtcGetSupportedArchs, (int* archs))

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace api {
namespace nvrtc {

// What a function returned.
namespace result {
constexpr int success = 0;
constexpr int out_of_memory = 1;
constexpr int program_creation_failure = 2;
constexpr int invalid_input = 3;
constexpr int invalid_program = 4;
constexpr int invalid_option = 5;
constexpr int compilation = 6;
constexpr int builtin_operation_failure = 7;
constexpr int internal_error = 11;
}  // namespace result

}  // namespace nvrtc

/// The functions of NVRTC; null until it is loaded.
struct nvrtc_functions {
    GRAFT_NVRTC_FUNCTIONS(GRAFT_GPU_MEMBER)
};

}  // namespace api
}  // namespace gpu
GRAFT_END_NAMESPACE
