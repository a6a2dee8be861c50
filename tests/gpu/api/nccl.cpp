// NCCL as declared by graft against nccl.h, where that is installed: calls, values and layouts, when compiled; symbols, when run.
#include <graft/gpu/api/nccl.hpp>

#include "vendor.hpp"
#include "../../skipped.hpp"

#include <doctest/doctest.h>

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

}  // namespace
#else
TEST_CASE("the declarations of NCCL are held against its header") { say_skipped("nccl.h is not installed"); }
#endif

TEST_CASE("NCCL has every function of the list") {
    const auto missing = missing_symbols("libnccl.so.2", {GRAFT_NCCL_FUNCTIONS(NAME_OF_CALL)});
    CAPTURE(missing.empty() ? std::string() : missing[0]);
    CHECK(missing.empty());
}
