// cuDNN 9 (libcudnn.so.9): the functions of its backend API and the values that graft uses, declared in its own words.
#pragma once

#include "../../config.hpp"
#include "member.hpp"

/// Functions of cuDNN as rows X(result, exported name, parameters). Results are a `cudnn::result`; handles, descriptors and streams are
/// void*. Attributes are set and got as arrays of the type that an `attribute_type` names: enumerations as int, booleans as bool,
/// descriptors as void*.
#define GRAFT_CUDNN_FUNCTIONS(X) \
    X(std::size_t, cudnnGetVersion, ()) \
    X(std::size_t, cudnnGetCudartVersion, ()) \
    X(const char*, cudnnGetErrorString, (int error)) \
    X(void, cudnnGetLastErrorString, (char* text, std::size_t bytes)) \
    X(int, cudnnCreate, (void** handle)) \
    X(int, cudnnDestroy, (void* handle)) \
    X(int, cudnnSetStream, (void* handle, void* stream)) \
    X(int, cudnnBackendCreateDescriptor, (int type, void** descriptor)) \
    X(int, cudnnBackendDestroyDescriptor, (void* descriptor)) \
    X(int, cudnnBackendSetAttribute, (void* descriptor, int name, int type, std::int64_t count, const void* elements)) \
    X(int, cudnnBackendGetAttribute, (const void* descriptor, int name, int type, std::int64_t capacity, std::int64_t* count, void* elements)) \
    X(int, cudnnBackendFinalize, (void* descriptor)) \
    X(int, cudnnBackendExecute, (void* handle, void* plan, void* variant_pack))

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace api {
namespace cudnn {

// What a function returned. Thousands are kinds; what is above a kind's first value says more about it.
namespace result {
constexpr int success = 0;
constexpr int not_initialized = 1001;
constexpr int sublibrary_version_mismatch = 1002;
constexpr int sublibrary_loading_failed = 1008;
constexpr int bad_parameter = 2000;
constexpr int not_supported = 3000;
constexpr int arch_mismatch = 3007;
constexpr int internal_error = 4000;
constexpr int host_allocation_failed = 4003;
constexpr int device_allocation_failed = 4004;
constexpr int execution_failed = 5000;
}  // namespace result

// Kinds of descriptors.
constexpr int pointwise_descriptor = 0;
constexpr int convolution_descriptor = 1;
constexpr int engine_descriptor = 2;
constexpr int engine_config_descriptor = 3;
constexpr int engine_heuristic_descriptor = 4;
constexpr int execution_plan_descriptor = 5;
constexpr int knob_choice_descriptor = 7;
constexpr int knob_info_descriptor = 8;
constexpr int layout_info_descriptor = 9;
constexpr int convolution_forward_descriptor = 10;
constexpr int convolution_backward_filter_descriptor = 11;
constexpr int convolution_backward_data_descriptor = 12;
constexpr int pointwise_operation_descriptor = 13;
constexpr int operation_graph_descriptor = 15;
constexpr int variant_pack_descriptor = 16;
constexpr int tensor_descriptor = 17;
constexpr int matmul_descriptor = 18;
constexpr int matmul_operation_descriptor = 19;
constexpr int reduction_descriptor = 21;
constexpr int reduction_operation_descriptor = 22;
constexpr int resample_descriptor = 24;
constexpr int resample_forward_descriptor = 25;
constexpr int resample_backward_descriptor = 26;
constexpr int device_descriptor = 38;  // not in the first versions of 9

// Types of attributes' elements.
namespace attribute_type {
constexpr int handle = 0;
constexpr int data_type = 1;
constexpr int boolean = 2;
constexpr int int64 = 3;
constexpr int float32 = 4;
constexpr int float64 = 5;
constexpr int void_pointer = 6;
constexpr int convolution_mode = 7;
constexpr int heuristic_mode = 8;
constexpr int knob_type = 9;
constexpr int numerical_note = 11;
constexpr int layout_type = 12;
constexpr int attribute_name = 13;
constexpr int pointwise_mode = 14;
constexpr int descriptor = 15;
constexpr int reduction_operator = 18;
constexpr int behavior_note = 19;
constexpr int reordering_mode = 20;
constexpr int resample_mode = 21;
constexpr int padding_mode = 22;
constexpr int int32 = 23;
constexpr int text = 24;
constexpr int fraction = 26;
}  // namespace attribute_type

// Names of attributes, by the descriptor that has them.
namespace attribute {
constexpr int tensor_byte_alignment = 900;
constexpr int tensor_data_type = 901;
constexpr int tensor_dimensions = 902;
constexpr int tensor_strides = 903;
constexpr int tensor_vector_count = 904;
constexpr int tensor_vectorized_dimension = 905;
constexpr int tensor_unique_id = 906;
constexpr int tensor_is_virtual = 907;
constexpr int tensor_is_by_value = 908;
constexpr int tensor_reordering_mode = 909;
constexpr int convolution_compute_type = 100;
constexpr int convolution_mode = 101;
constexpr int convolution_dilations = 102;
constexpr int convolution_strides = 103;
constexpr int convolution_post_paddings = 104;
constexpr int convolution_pre_paddings = 105;
constexpr int convolution_spatial_dims = 106;
constexpr int convolution_forward_alpha = 700;
constexpr int convolution_forward_beta = 701;
constexpr int convolution_forward_convolution = 702;
constexpr int convolution_forward_w = 703;
constexpr int convolution_forward_x = 704;
constexpr int convolution_forward_y = 705;
constexpr int convolution_backward_data_alpha = 706;
constexpr int convolution_backward_data_beta = 707;
constexpr int convolution_backward_data_convolution = 708;
constexpr int convolution_backward_data_w = 709;
constexpr int convolution_backward_data_dx = 710;
constexpr int convolution_backward_data_dy = 711;
constexpr int convolution_backward_filter_alpha = 712;
constexpr int convolution_backward_filter_beta = 713;
constexpr int convolution_backward_filter_convolution = 714;
constexpr int convolution_backward_filter_dw = 715;
constexpr int convolution_backward_filter_x = 716;
constexpr int convolution_backward_filter_dy = 717;
constexpr int pointwise_mode = 0;
constexpr int pointwise_compute_type = 1;
constexpr int pointwise_relu_lower_clip = 3;
constexpr int pointwise_relu_upper_clip = 4;
constexpr int pointwise_relu_lower_clip_slope = 5;
constexpr int pointwise_elu_alpha = 6;
constexpr int pointwise_softplus_beta = 7;
constexpr int pointwise_swish_beta = 8;
constexpr int pointwise_axis = 9;
constexpr int pointwise_operation_pointwise = 750;
constexpr int pointwise_operation_x = 751;
constexpr int pointwise_operation_b = 752;
constexpr int pointwise_operation_y = 753;
constexpr int pointwise_operation_alpha1 = 754;
constexpr int pointwise_operation_alpha2 = 755;
constexpr int pointwise_operation_dx = 756;
constexpr int pointwise_operation_dy = 757;
constexpr int pointwise_operation_t = 758;
constexpr int matmul_compute_type = 1500;
constexpr int matmul_operation_a = 1520;
constexpr int matmul_operation_b = 1521;
constexpr int matmul_operation_c = 1522;
constexpr int matmul_operation_matmul = 1523;
constexpr int reduction_operator = 1600;
constexpr int reduction_compute_type = 1601;
constexpr int reduction_operation_x = 1610;
constexpr int reduction_operation_y = 1611;
constexpr int reduction_operation_reduction = 1612;
constexpr int resample_mode = 1700;
constexpr int resample_compute_type = 1701;
constexpr int resample_spatial_dims = 1702;
constexpr int resample_post_paddings = 1703;
constexpr int resample_pre_paddings = 1704;
constexpr int resample_strides = 1705;
constexpr int resample_window_dims = 1706;
constexpr int resample_nan_propagation = 1707;
constexpr int resample_padding_mode = 1708;
constexpr int resample_forward_x = 1710;
constexpr int resample_forward_y = 1711;
constexpr int resample_forward_index = 1712;
constexpr int resample_forward_resample = 1716;
constexpr int resample_backward_dx = 1720;
constexpr int resample_backward_dy = 1721;
constexpr int resample_backward_index = 1722;
constexpr int resample_backward_resample = 1725;
constexpr int resample_backward_x = 1726;
constexpr int resample_backward_y = 1727;
constexpr int operation_graph_handle = 800;
constexpr int operation_graph_operations = 801;
constexpr int operation_graph_engine_count = 802;
constexpr int engine_heuristic_mode = 200;
constexpr int engine_heuristic_operation_graph = 201;
constexpr int engine_heuristic_results = 202;
constexpr int engine_heuristic_device = 204;
constexpr int engine_config_engine = 300;
constexpr int engine_config_knob_choices = 302;
constexpr int engine_config_workspace_bytes = 303;
constexpr int engine_operation_graph = 1300;
constexpr int engine_global_index = 1301;
constexpr int engine_device = 1307;
constexpr int engine_knob_info = 1302;
constexpr int engine_numerical_note = 1303;
constexpr int engine_behavior_note = 1305;
constexpr int engine_layout_info = 1304;
constexpr int knob_choice_type = 600;
constexpr int knob_choice_value = 601;
constexpr int knob_info_type = 1200;
constexpr int knob_info_maximum = 1201;
constexpr int knob_info_minimum = 1202;
constexpr int knob_info_stride = 1203;
constexpr int execution_plan_handle = 400;
constexpr int execution_plan_engine_config = 401;
constexpr int execution_plan_workspace_bytes = 402;
constexpr int execution_plan_json = 405;
constexpr int execution_plan_device = 407;
constexpr int device_json = 2702;
constexpr int variant_pack_unique_ids = 1000;
constexpr int variant_pack_data_pointers = 1001;
constexpr int variant_pack_workspace = 1003;
}  // namespace attribute

// Types of elements.
namespace data {
constexpr int float32 = 0;
constexpr int float64 = 1;
constexpr int float16 = 2;
constexpr int bfloat16 = 9;
constexpr int int8 = 3;
constexpr int uint8 = 6;
constexpr int int32 = 4;
constexpr int int64 = 10;
constexpr int boolean = 11;
}  // namespace data

// Whether a convolution turns its filter round. ONNX's Conv is cross_correlation.
namespace convolution {
constexpr int flipped = 0;
constexpr int cross_correlation = 1;
}  // namespace convolution

// What a pointwise operation does.
namespace pointwise {
constexpr int add = 0;
constexpr int add_square = 5;
constexpr int subtract = 9;
constexpr int multiply = 1;
constexpr int divide = 6;
constexpr int minimum = 2;
constexpr int maximum = 3;
constexpr int power = 8;
constexpr int absolute = 10;
constexpr int negate = 16;
constexpr int exp = 13;
constexpr int log = 15;
constexpr int sqrt = 4;
constexpr int rsqrt = 17;
constexpr int erf = 20;
constexpr int identity = 21;
constexpr int reciprocal = 22;
constexpr int relu_forward = 100;
constexpr int tanh_forward = 101;
constexpr int sigmoid_forward = 102;
constexpr int elu_forward = 103;
constexpr int gelu_forward = 104;
constexpr int softplus_forward = 105;
constexpr int swish_forward = 106;
constexpr int gelu_tanh_forward = 107;
constexpr int relu_backward = 200;
constexpr int tanh_backward = 201;
constexpr int sigmoid_backward = 202;
constexpr int elu_backward = 203;
constexpr int gelu_backward = 204;
constexpr int softplus_backward = 205;
constexpr int swish_backward = 206;
constexpr int gelu_tanh_backward = 207;
constexpr int compare_equal = 300;
constexpr int compare_greater = 302;
constexpr int compare_greater_equal = 303;
constexpr int compare_less = 304;
constexpr int compare_less_equal = 305;
constexpr int binary_select = 601;
}  // namespace pointwise

// What a reduction does.
namespace reduce {
constexpr int add = 0;
constexpr int multiply = 1;
constexpr int minimum = 2;
constexpr int maximum = 3;
constexpr int average = 5;
}  // namespace reduce

// What a resampling does.
namespace resample {
constexpr int average_include_padding = 2;
constexpr int average_exclude_padding = 4;
constexpr int maximum = 3;
}  // namespace resample

// What lies around a resampled image.
namespace padding {
constexpr int zero = 0;
constexpr int negative_infinity = 1;
}  // namespace padding

// How engines are proposed: `a` is the accurate, quick one; `fallback` gives engines that work nearly always.
namespace heuristic {
constexpr int instant = 0;
constexpr int b = 1;
constexpr int fallback = 2;
constexpr int a = 3;
}  // namespace heuristic

// What an engine does to numbers.
namespace numerical_note {
constexpr int tensor_core = 0;
constexpr int down_convert_inputs = 1;
constexpr int reduced_precision_reduction = 2;
constexpr int fft = 3;
constexpr int nondeterministic = 4;
constexpr int winograd = 5;
constexpr int winograd_4x4 = 6;
constexpr int winograd_6x6 = 7;
constexpr int winograd_13x13 = 8;
constexpr int strict_nan = 9;  // not in the first versions of 9
}  // namespace numerical_note

// How an engine behaves.
namespace behavior_note {
constexpr int runtime_compilation = 0;
constexpr int requires_filter_reorder = 1;
constexpr int requires_bias_reorder = 2;
constexpr int supports_graph_construction = 3;
}  // namespace behavior_note

// What a plan's knobs turn.
namespace knob {
constexpr int swizzle = 1;
constexpr int tile_size = 2;
constexpr int split_k_buffers = 12;
constexpr int stages = 14;
constexpr int kernel_config = 24;
constexpr int workspace = 25;
}  // namespace knob

}  // namespace cudnn

/// The functions of cuDNN; null until it is loaded.
struct cudnn_functions {
    GRAFT_CUDNN_FUNCTIONS(GRAFT_GPU_MEMBER)
};

}  // namespace api
}  // namespace gpu
GRAFT_END_NAMESPACE
