// cuBLASLt 12 and 13 (libcublasLt.so): the functions and values that graft uses, declared in its own words.
#pragma once

#include "../../config.hpp"
#include "member.hpp"

/// Functions of cuBLASLt as rows X(result, exported name, parameters). Results are a `cublaslt::result`; handles, descriptors, layouts,
/// preferences and streams are void*. A matrix is column-major unless its layout says otherwise.
#define GRAFT_CUBLASLT_FUNCTIONS(X) \
    X(std::size_t, cublasLtGetVersion, ()) \
    X(std::size_t, cublasLtGetCudartVersion, ()) \
    X(const char*, cublasLtGetStatusString, (int error)) \
    X(int, cublasLtCreate, (void** handle)) \
    X(int, cublasLtDestroy, (void* handle)) \
    X(int, cublasLtMatmulDescCreate, (void** operation, int compute, int scale_type)) \
    X(int, cublasLtMatmulDescDestroy, (void* operation)) \
    X(int, cublasLtMatmulDescSetAttribute, (void* operation, int attribute, const void* value, std::size_t bytes)) \
    X(int, cublasLtMatrixLayoutCreate, (void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading)) \
    X(int, cublasLtMatrixLayoutDestroy, (void* layout)) \
    X(int, cublasLtMatrixLayoutSetAttribute, (void* layout, int attribute, const void* value, std::size_t bytes)) \
    X(int, cublasLtMatmulPreferenceCreate, (void** preference)) \
    X(int, cublasLtMatmulPreferenceDestroy, (void* preference)) \
    X(int, cublasLtMatmulPreferenceSetAttribute, (void* preference, int attribute, const void* value, std::size_t bytes)) \
    X(int, cublasLtMatmulAlgoGetHeuristic, \
      (void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference, int capacity, cublaslt::heuristic* found, int* count)) \
    X(int, cublasLtMatmul, \
      (void* handle, void* operation, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout, const void* beta, const void* c, \
       void* c_layout, void* d, void* d_layout, const cublaslt::algorithm* how, void* workspace, std::size_t workspace_bytes, void* stream))

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace api {
namespace cublaslt {

/// A way to multiply: opaque, to be copied and handed back.
struct algorithm {
    std::uint64_t data[8] = {};
};

/// A way that cublasLtMatmulAlgoGetHeuristic proposes, the best first.
struct heuristic {
    algorithm how;
    std::size_t workspace_bytes = 0;
    int state = 0;          ///< a `result`: success for one that can run
    float waves_count = 0;  ///< how full the device is: 1 when every multiprocessor has one round of work
    int reserved[4] = {};
};

// What a function returned.
namespace result {
constexpr int success = 0;
constexpr int not_initialized = 1;
constexpr int alloc_failed = 3;
constexpr int invalid_value = 7;
constexpr int arch_mismatch = 8;
constexpr int mapping_error = 11;
constexpr int execution_failed = 13;
constexpr int internal_error = 14;
constexpr int not_supported = 15;
constexpr int license_error = 16;
}  // namespace result

// What a product is computed in.
namespace compute {
constexpr int float16 = 64;
constexpr int float32 = 68;
constexpr int float32_pedantic = 69;
constexpr int float32_fast_float16 = 74;
constexpr int float32_fast_bfloat16 = 75;
constexpr int float32_fast_tf32 = 77;
constexpr int float64 = 70;
constexpr int float64_pedantic = 71;
constexpr int int32 = 72;
}  // namespace compute

// Types of elements.
namespace data {
constexpr int float16 = 2;
constexpr int bfloat16 = 14;
constexpr int float32 = 0;
constexpr int float64 = 1;
constexpr int int8 = 3;
constexpr int uint8 = 8;
constexpr int int32 = 10;
}  // namespace data

// What is done to a matrix before it is multiplied.
namespace operation {
constexpr int none = 0;
constexpr int transpose = 1;
}  // namespace operation

// How a matrix lies in memory.
namespace order {
constexpr int column_major = 0;
constexpr int row_major = 1;
}  // namespace order

// Attributes of a matrix' layout.
namespace layout {
constexpr int type = 0;
constexpr int order = 1;
constexpr int rows = 2;
constexpr int columns = 3;
constexpr int leading = 4;
constexpr int batch_count = 5;
constexpr int batch_stride = 6;
}  // namespace layout

// Attributes of an operation.
namespace matmul {
constexpr int compute_type = 0;
constexpr int scale_type = 1;
constexpr int pointer_mode = 2;
constexpr int transpose_a = 3;
constexpr int transpose_b = 4;
constexpr int epilogue = 7;
constexpr int bias_pointer = 8;
constexpr int bias_batch_stride = 10;
constexpr int auxiliary_pointer = 11;
constexpr int auxiliary_leading = 12;
constexpr int auxiliary_batch_stride = 13;
constexpr int auxiliary_type = 22;
constexpr int multiprocessor_target = 15;
constexpr int bias_type = 26;
}  // namespace matmul

// What is done to a product before it is stored. A bias has one element for each row of a column-major result.
namespace epilogue {
constexpr int none = 1;
constexpr int relu = 2;
constexpr int relu_aux = 130;
constexpr int bias = 4;
constexpr int relu_bias = 6;
constexpr int relu_aux_bias = 134;
constexpr int relu_backward = 136;
constexpr int relu_backward_bias_gradient = 152;
constexpr int gelu = 32;
constexpr int gelu_aux = 160;
constexpr int gelu_bias = 36;
constexpr int gelu_aux_bias = 164;
constexpr int gelu_backward = 192;
constexpr int gelu_backward_bias_gradient = 208;
constexpr int bias_gradient_a = 256;
constexpr int bias_gradient_b = 512;
}  // namespace epilogue

// Where alpha and beta lie.
namespace pointer_mode {
constexpr int host = 0;
constexpr int device = 1;
constexpr int device_vector = 2;
}  // namespace pointer_mode

// What limits the choice of an algorithm.
namespace preference {
constexpr int search_mode = 0;
constexpr int max_workspace_bytes = 1;
constexpr int reduction_scheme_mask = 3;
constexpr int min_alignment_a = 5;
constexpr int min_alignment_b = 6;
constexpr int min_alignment_c = 7;
constexpr int min_alignment_d = 8;
constexpr int max_waves_count = 9;
constexpr int implementation_mask = 12;
}  // namespace preference

// How partial sums may be joined: bits of preference::reduction_scheme_mask.
namespace reduction_scheme {
constexpr int none = 0;
constexpr int in_place = 1;
constexpr int compute_type = 2;
constexpr int output_type = 4;
constexpr int all = 7;
}  // namespace reduction_scheme

}  // namespace cublaslt

/// The functions of cuBLASLt; null until it is loaded.
struct cublaslt_functions {
    GRAFT_CUBLASLT_FUNCTIONS(GRAFT_GPU_MEMBER)
};

}  // namespace api
}  // namespace gpu
GRAFT_END_NAMESPACE
