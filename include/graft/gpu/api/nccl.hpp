// NCCL 2.14 and later (libnccl.so.2): what ranks exchange by, declared in graft's own words.
#pragma once

#include "../../config.hpp"
#include "member.hpp"

#include <climits>

/// Functions of NCCL as rows X(result, exported name, parameters). Results are an `nccl::result`; comms and streams are void*. Counts are
/// of elements. Functions on a comm that does not block may answer `in_progress`: the comm is used again, and its streams are waited
/// for, when ncclCommGetAsyncError has told `success`.
#define GRAFT_NCCL_FUNCTIONS(X) \
    X(int, ncclGetVersion, (int* version)) \
    X(const char*, ncclGetErrorString, (int error)) \
    X(int, ncclGetUniqueId, (nccl::unique_id * id)) \
    X(int, ncclCommInitRankConfig, (void** comm, int ranks, nccl::unique_id id, int rank, nccl::config* config)) \
    X(int, ncclCommGetAsyncError, (void* comm, int* error)) \
    X(int, ncclCommFinalize, (void* comm)) \
    X(int, ncclCommDestroy, (void* comm)) \
    X(int, ncclCommAbort, (void* comm)) \
    X(int, ncclAllReduce, (const void* in, void* out, std::size_t count, int type, int reduction, void* comm, void* stream)) \
    X(int, ncclAllGather, (const void* in, void* out, std::size_t send_count, int type, void* comm, void* stream)) \
    X(int, ncclBroadcast, (const void* in, void* out, std::size_t count, int type, int root, void* comm, void* stream)) \
    X(int, ncclReduceScatter, (const void* in, void* out, std::size_t receive_count, int type, int reduction, void* comm, void* stream)) \
    X(int, ncclGroupStart, ()) \
    X(int, ncclGroupEnd, ())

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace api {
namespace nccl {

/// What the ranks of one comm find each other by: one rank asks for it, and tells the others its bytes.
struct unique_id {
    char bytes[128] = {};
};

/// How a comm is made: the part that every NCCL since 2.14 knows. A newer one takes its own values for what lies behind `size` bytes,
/// or came after `version`.
struct config {
    static constexpr int unset = INT_MIN;  ///< the library chooses

    std::size_t size = sizeof(std::size_t) + 4 * sizeof(int);
    unsigned magic = 0xcafebeef;
    unsigned version = 21400;
    int blocking = unset;  ///< 0: calls return at once, perhaps with `in_progress`; 1, as when unset: they wait for the other ranks
    int blocks_per_cluster = unset;
};
static_assert(sizeof(config) == sizeof(std::size_t) + 4 * sizeof(int), "a config is not as long as it says");

// What a function returned.
namespace result {
constexpr int success = 0;
constexpr int unhandled_cuda_error = 1;
constexpr int system_error = 2;
constexpr int internal_error = 3;
constexpr int invalid_argument = 4;
constexpr int invalid_usage = 5;
constexpr int remote_error = 6;
constexpr int in_progress = 7;
}  // namespace result

// Types of elements.
namespace data {
constexpr int int8 = 0;
constexpr int uint8 = 1;
constexpr int int32 = 2;
constexpr int uint32 = 3;
constexpr int int64 = 4;
constexpr int uint64 = 5;
constexpr int float16 = 6;
constexpr int float32 = 7;
constexpr int float64 = 8;
constexpr int bfloat16 = 9;
}  // namespace data

// What becomes of the ranks' elements.
namespace reduction {
constexpr int sum = 0;
constexpr int product = 1;
constexpr int maximum = 2;
constexpr int minimum = 3;
constexpr int average = 4;
}  // namespace reduction

}  // namespace nccl

/// The functions of NCCL; null until it is loaded.
struct nccl_functions {
    GRAFT_NCCL_FUNCTIONS(GRAFT_GPU_MEMBER)
};

}  // namespace api
}  // namespace gpu
GRAFT_END_NAMESPACE
