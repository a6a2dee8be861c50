// NCCL 2 (libnccl.so.2): what tells its version, declared in graft's own words.
#pragma once

#include "../../config.hpp"
#include "member.hpp"

/// Functions of NCCL as rows X(result, exported name, parameters). Results are an `nccl::result`.
#define GRAFT_NCCL_FUNCTIONS(X) \
    X(int, ncclGetVersion, (int* version)) \
    X(const char*, ncclGetErrorString, (int error))

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace api {
namespace nccl {

// What a function returned.
namespace result {
constexpr int success = 0;
constexpr int unhandled_cuda_error = 1;
constexpr int system_error = 2;
constexpr int internal_error = 3;
constexpr int invalid_argument = 4;
constexpr int invalid_usage = 5;
constexpr int remote_error = 6;
}  // namespace result

}  // namespace nccl

/// The functions of NCCL; null until it is loaded.
struct nccl_functions {
    GRAFT_NCCL_FUNCTIONS(GRAFT_GPU_MEMBER)
};

}  // namespace api
}  // namespace gpu
GRAFT_END_NAMESPACE
