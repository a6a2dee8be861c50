// NCCL as declared by graft against nccl.h, where that is installed: calls, values and layouts, when compiled; symbols, when run.
#include <graft/gpu/api/nccl.hpp>

#include "vendor.hpp"
#include "../../skipped.hpp"

#include <doctest/doctest.h>

#include <cstddef>

#if __has_include(<nccl.h>)
#include <nccl.h>

namespace {

using namespace graft::gpu::api;
using namespace graft::gpu::api::nccl;

GRAFT_NCCL_FUNCTIONS(SAME_CALL)

SAME_VALUE(result::success, ncclSuccess);
SAME_VALUE(result::unhandled_cuda_error, ncclUnhandledCudaError);
SAME_VALUE(result::system_error, ncclSystemError);
SAME_VALUE(result::internal_error, ncclInternalError);
SAME_VALUE(result::invalid_argument, ncclInvalidArgument);
SAME_VALUE(result::invalid_usage, ncclInvalidUsage);
SAME_VALUE(result::remote_error, ncclRemoteError);
SAME_VALUE(result::in_progress, ncclInProgress);

SAME_VALUE(sizeof(unique_id), sizeof(ncclUniqueId));
SAME_VALUE(offsetof(config, size), offsetof(ncclConfig_t, size));
SAME_VALUE(offsetof(config, magic), offsetof(ncclConfig_t, magic));
SAME_VALUE(offsetof(config, version), offsetof(ncclConfig_t, version));
SAME_VALUE(offsetof(config, blocking), offsetof(ncclConfig_t, blocking));
SAME_VALUE(offsetof(config, blocks_per_cluster), offsetof(ncclConfig_t, cgaClusterSize));
SAME_VALUE(config::unset, NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(config) <= sizeof(ncclConfig_t), "a config of ours is the beginning of theirs");

SAME_VALUE(data::int8, ncclInt8);
SAME_VALUE(data::uint8, ncclUint8);
SAME_VALUE(data::int32, ncclInt32);
SAME_VALUE(data::uint32, ncclUint32);
SAME_VALUE(data::int64, ncclInt64);
SAME_VALUE(data::uint64, ncclUint64);
SAME_VALUE(data::float16, ncclFloat16);
SAME_VALUE(data::float32, ncclFloat32);
SAME_VALUE(data::float64, ncclFloat64);
SAME_VALUE(data::bfloat16, ncclBfloat16);

SAME_VALUE(reduction::sum, ncclSum);
SAME_VALUE(reduction::product, ncclProd);
SAME_VALUE(reduction::maximum, ncclMax);
SAME_VALUE(reduction::minimum, ncclMin);
SAME_VALUE(reduction::average, ncclAvg);

}  // namespace
#else
TEST_CASE("the declarations of NCCL are held against its header") { say_skipped("nccl.h is not installed"); }
#endif

TEST_CASE("a config of NCCL says what it is") {
    const graft::gpu::api::nccl::config c;
    CHECK(c.size == sizeof c);
#if __has_include(<nccl.h>)
    const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    CHECK(c.magic == theirs.magic);
    CHECK(c.version <= theirs.version);
    CHECK(c.blocking == theirs.blocking);
    CHECK(c.blocks_per_cluster == theirs.cgaClusterSize);
#endif
}

TEST_CASE("NCCL has every function of the list") {
    const auto missing = missing_symbols("libnccl.so.2", {GRAFT_NCCL_FUNCTIONS(NAME_OF_CALL)});
    CAPTURE(missing.empty() ? std::string() : missing[0]);
    CHECK(missing.empty());
}
