// NVRTC as declared by graft against nvrtc.h, where that is installed: calls, values and layouts, when compiled; symbols, when run.
#include <graft/gpu/api/nvrtc.hpp>

#include "vendor.hpp"
#include "../../skipped.hpp"

#include <doctest/doctest.h>

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

namespace {

using namespace graft::gpu::api;
using namespace graft::gpu::api::nvrtc;

GRAFT_NVRTC_FUNCTIONS(SAME_CALL)

SAME_VALUE(result::success, NVRTC_SUCCESS);
SAME_VALUE(result::out_of_memory, NVRTC_ERROR_OUT_OF_MEMORY);
SAME_VALUE(result::program_creation_failure, NVRTC_ERROR_PROGRAM_CREATION_FAILURE);
SAME_VALUE(result::invalid_input, NVRTC_ERROR_INVALID_INPUT);
SAME_VALUE(result::invalid_program, NVRTC_ERROR_INVALID_PROGRAM);
SAME_VALUE(result::invalid_option, NVRTC_ERROR_INVALID_OPTION);
SAME_VALUE(result::compilation, NVRTC_ERROR_COMPILATION);
SAME_VALUE(result::builtin_operation_failure, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE);
SAME_VALUE(result::internal_error, NVRTC_ERROR_INTERNAL_ERROR);

}  // namespace
#else
TEST_CASE("the declarations of NVRTC are held against its header") { say_skipped("nvrtc.h is not installed"); }
#endif

TEST_CASE("NVRTC has every function of the list") {
    const auto missing = missing_symbols("libnvrtc.so", {GRAFT_NVRTC_FUNCTIONS(NAME_OF_CALL)});
    CAPTURE(missing.empty() ? std::string() : missing[0]);
    CHECK(missing.empty());
}
