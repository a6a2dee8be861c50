// CuBLASLt as declared by graft against cublasLt.h, where that is installed: calls, values and layouts, when compiled; symbols, when run.
#include <graft/gpu/api/cublaslt.hpp>

#include "vendor.hpp"
#include "../../skipped.hpp"

#include <doctest/doctest.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace {

using namespace graft::gpu::api;
using namespace graft::gpu::api::cublaslt;

GRAFT_CUBLASLT_FUNCTIONS(SAME_CALL)

static_assert(sizeof(cublaslt::algorithm) == sizeof(cublasLtMatmulAlgo_t) && alignof(cublaslt::algorithm) == alignof(cublasLtMatmulAlgo_t), "layout");
static_assert(sizeof(cublaslt::heuristic) == sizeof(cublasLtMatmulHeuristicResult_t), "layout");
static_assert(offsetof(cublaslt::heuristic, how) == offsetof(cublasLtMatmulHeuristicResult_t, algo), "layout");
static_assert(offsetof(cublaslt::heuristic, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), "layout");
static_assert(offsetof(cublaslt::heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state), "layout");
static_assert(offsetof(cublaslt::heuristic, waves_count) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount), "layout");
static_assert(offsetof(cublaslt::heuristic, reserved) == offsetof(cublasLtMatmulHeuristicResult_t, reserved), "layout");

SAME_VALUE(result::success, CUBLAS_STATUS_SUCCESS);
SAME_VALUE(result::not_initialized, CUBLAS_STATUS_NOT_INITIALIZED);
SAME_VALUE(result::alloc_failed, CUBLAS_STATUS_ALLOC_FAILED);
SAME_VALUE(result::invalid_value, CUBLAS_STATUS_INVALID_VALUE);
SAME_VALUE(result::arch_mismatch, CUBLAS_STATUS_ARCH_MISMATCH);
SAME_VALUE(result::mapping_error, CUBLAS_STATUS_MAPPING_ERROR);
SAME_VALUE(result::execution_failed, CUBLAS_STATUS_EXECUTION_FAILED);
SAME_VALUE(result::internal_error, CUBLAS_STATUS_INTERNAL_ERROR);
SAME_VALUE(result::not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_VALUE(result::license_error, CUBLAS_STATUS_LICENSE_ERROR);
SAME_VALUE(compute::float16, CUBLAS_COMPUTE_16F);
SAME_VALUE(compute::float32, CUBLAS_COMPUTE_32F);
SAME_VALUE(compute::float32_pedantic, CUBLAS_COMPUTE_32F_PEDANTIC);
SAME_VALUE(compute::float32_fast_float16, CUBLAS_COMPUTE_32F_FAST_16F);
SAME_VALUE(compute::float32_fast_bfloat16, CUBLAS_COMPUTE_32F_FAST_16BF);
SAME_VALUE(compute::float32_fast_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME_VALUE(compute::float64, CUBLAS_COMPUTE_64F);
SAME_VALUE(compute::float64_pedantic, CUBLAS_COMPUTE_64F_PEDANTIC);
SAME_VALUE(compute::int32, CUBLAS_COMPUTE_32I);
SAME_VALUE(data::float16, CUDA_R_16F);
SAME_VALUE(data::bfloat16, CUDA_R_16BF);
SAME_VALUE(data::float32, CUDA_R_32F);
SAME_VALUE(data::float64, CUDA_R_64F);
SAME_VALUE(data::int8, CUDA_R_8I);
SAME_VALUE(data::uint8, CUDA_R_8U);
SAME_VALUE(data::int32, CUDA_R_32I);
SAME_VALUE(operation::none, CUBLAS_OP_N);
SAME_VALUE(operation::transpose, CUBLAS_OP_T);
SAME_VALUE(order::column_major, CUBLASLT_ORDER_COL);
SAME_VALUE(order::row_major, CUBLASLT_ORDER_ROW);
SAME_VALUE(layout::type, CUBLASLT_MATRIX_LAYOUT_TYPE);
SAME_VALUE(layout::order, CUBLASLT_MATRIX_LAYOUT_ORDER);
SAME_VALUE(layout::rows, CUBLASLT_MATRIX_LAYOUT_ROWS);
SAME_VALUE(layout::columns, CUBLASLT_MATRIX_LAYOUT_COLS);
SAME_VALUE(layout::leading, CUBLASLT_MATRIX_LAYOUT_LD);
SAME_VALUE(layout::batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME_VALUE(layout::batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME_VALUE(matmul::compute_type, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
SAME_VALUE(matmul::scale_type, CUBLASLT_MATMUL_DESC_SCALE_TYPE);
SAME_VALUE(matmul::pointer_mode, CUBLASLT_MATMUL_DESC_POINTER_MODE);
SAME_VALUE(matmul::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_VALUE(matmul::transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_VALUE(matmul::epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_VALUE(matmul::bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_VALUE(matmul::bias_batch_stride, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
SAME_VALUE(matmul::auxiliary_pointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME_VALUE(matmul::auxiliary_leading, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME_VALUE(matmul::auxiliary_batch_stride, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
SAME_VALUE(matmul::auxiliary_type, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE);
SAME_VALUE(matmul::multiprocessor_target, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET);
SAME_VALUE(matmul::bias_type, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME_VALUE(epilogue::none, CUBLASLT_EPILOGUE_DEFAULT);
SAME_VALUE(epilogue::relu, CUBLASLT_EPILOGUE_RELU);
SAME_VALUE(epilogue::relu_aux, CUBLASLT_EPILOGUE_RELU_AUX);
SAME_VALUE(epilogue::bias, CUBLASLT_EPILOGUE_BIAS);
SAME_VALUE(epilogue::relu_bias, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME_VALUE(epilogue::relu_aux_bias, CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
SAME_VALUE(epilogue::relu_backward, CUBLASLT_EPILOGUE_DRELU);
SAME_VALUE(epilogue::relu_backward_bias_gradient, CUBLASLT_EPILOGUE_DRELU_BGRAD);
SAME_VALUE(epilogue::gelu, CUBLASLT_EPILOGUE_GELU);
SAME_VALUE(epilogue::gelu_aux, CUBLASLT_EPILOGUE_GELU_AUX);
SAME_VALUE(epilogue::gelu_bias, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME_VALUE(epilogue::gelu_aux_bias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
SAME_VALUE(epilogue::gelu_backward, CUBLASLT_EPILOGUE_DGELU);
SAME_VALUE(epilogue::gelu_backward_bias_gradient, CUBLASLT_EPILOGUE_DGELU_BGRAD);
SAME_VALUE(epilogue::bias_gradient_a, CUBLASLT_EPILOGUE_BGRADA);
SAME_VALUE(epilogue::bias_gradient_b, CUBLASLT_EPILOGUE_BGRADB);
SAME_VALUE(pointer_mode::host, CUBLASLT_POINTER_MODE_HOST);
SAME_VALUE(pointer_mode::device, CUBLASLT_POINTER_MODE_DEVICE);
SAME_VALUE(pointer_mode::device_vector, CUBLASLT_POINTER_MODE_DEVICE_VECTOR);
SAME_VALUE(preference::search_mode, CUBLASLT_MATMUL_PREF_SEARCH_MODE);
SAME_VALUE(preference::max_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_VALUE(preference::reduction_scheme_mask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_VALUE(preference::min_alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_VALUE(preference::min_alignment_b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_VALUE(preference::min_alignment_c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_VALUE(preference::min_alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME_VALUE(preference::max_waves_count, CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT);
SAME_VALUE(preference::implementation_mask, CUBLASLT_MATMUL_PREF_IMPL_MASK);
SAME_VALUE(reduction_scheme::none, CUBLASLT_REDUCTION_SCHEME_NONE);
SAME_VALUE(reduction_scheme::in_place, CUBLASLT_REDUCTION_SCHEME_INPLACE);
SAME_VALUE(reduction_scheme::compute_type, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME_VALUE(reduction_scheme::output_type, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
SAME_VALUE(reduction_scheme::all, CUBLASLT_REDUCTION_SCHEME_MASK);

}  // namespace
#else
TEST_CASE("the declarations of cuBLASLt are held against its header") { say_skipped("cublasLt.h is not installed"); }
#endif

TEST_CASE("cuBLASLt has every function of the list") {
    const auto missing = missing_symbols("libcublasLt.so", {GRAFT_CUBLASLT_FUNCTIONS(NAME_OF_CALL)});
    CAPTURE(missing.empty() ? std::string() : missing[0]);
    CHECK(missing.empty());
}
