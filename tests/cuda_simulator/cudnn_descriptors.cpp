// Attributes of the simulated cuDNN's descriptors: their types and counts, and what tensors and operations have to be.
#include "cudnn_descriptors.hpp"

#include <algorithm>

namespace graft_simulator {

namespace {

namespace attribute = cudnn::attribute;
namespace type = cudnn::attribute_type;
namespace result = cudnn::result;

constexpr int none = -1, any_operation = -2;

// kind, name, type, least, most, needed, other type, kind of descriptor
const cudnn_attribute table[] = {
    {cudnn::tensor_descriptor, attribute::tensor_data_type, type::data_type, 1, 1, true, none, none},
    {cudnn::tensor_descriptor, attribute::tensor_dimensions, type::int64, 1, 8, true, none, none},
    {cudnn::tensor_descriptor, attribute::tensor_strides, type::int64, 1, 8, true, none, none},
    {cudnn::tensor_descriptor, attribute::tensor_byte_alignment, type::int64, 1, 1, true, none, none},
    {cudnn::tensor_descriptor, attribute::tensor_unique_id, type::int64, 1, 1, true, none, none},
    {cudnn::tensor_descriptor, attribute::tensor_is_virtual, type::boolean, 1, 1, false, none, none},
    {cudnn::tensor_descriptor, attribute::tensor_is_by_value, type::boolean, 1, 1, false, none, none},
    {cudnn::matmul_descriptor, attribute::matmul_compute_type, type::data_type, 1, 1, true, none, none},
    {cudnn::matmul_operation_descriptor, attribute::matmul_operation_a, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor},
    {cudnn::matmul_operation_descriptor, attribute::matmul_operation_b, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor},
    {cudnn::matmul_operation_descriptor, attribute::matmul_operation_c, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor},
    {cudnn::matmul_operation_descriptor, attribute::matmul_operation_matmul, type::descriptor, 1, 1, true, none, cudnn::matmul_descriptor},
    {cudnn::reduction_descriptor, attribute::reduction_operator, type::reduction_operator, 1, 1, true, none, none},
    {cudnn::reduction_descriptor, attribute::reduction_compute_type, type::data_type, 1, 1, true, none, none},
    {cudnn::reduction_operation_descriptor, attribute::reduction_operation_x, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor},
    {cudnn::reduction_operation_descriptor, attribute::reduction_operation_y, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor},
    {cudnn::reduction_operation_descriptor, attribute::reduction_operation_reduction, type::descriptor, 1, 1, true, none, cudnn::reduction_descriptor},
    {cudnn::convolution_descriptor, attribute::convolution_spatial_dims, type::int64, 1, 1, true, none, none},
    {cudnn::convolution_descriptor, attribute::convolution_compute_type, type::data_type, 1, 1, true, none, none},
    {cudnn::convolution_descriptor, attribute::convolution_mode, type::convolution_mode, 1, 1, true, none, none},
    {cudnn::convolution_descriptor, attribute::convolution_pre_paddings, type::int64, 1, 6, true, none, none},
    {cudnn::convolution_descriptor, attribute::convolution_post_paddings, type::int64, 1, 6, true, none, none},
    {cudnn::convolution_descriptor, attribute::convolution_dilations, type::int64, 1, 6, true, none, none},
    {cudnn::convolution_descriptor, attribute::convolution_strides, type::int64, 1, 6, true, none, none},
#define CONVOLUTION(kind, X, W, Y, name) \
    {kind, attribute::X, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor}, \
        {kind, attribute::W, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor}, \
        {kind, attribute::Y, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor}, \
        {kind, attribute::name##_convolution, type::descriptor, 1, 1, true, none, cudnn::convolution_descriptor}, \
        {kind, attribute::name##_alpha, type::float32, 1, 1, true, type::float64, none}, \
        {kind, attribute::name##_beta, type::float32, 1, 1, true, type::float64, none},
    CONVOLUTION(cudnn::convolution_forward_descriptor, convolution_forward_x, convolution_forward_w, convolution_forward_y, convolution_forward)
        CONVOLUTION(cudnn::convolution_backward_data_descriptor, convolution_backward_data_dx, convolution_backward_data_w, convolution_backward_data_dy,
                    convolution_backward_data) CONVOLUTION(cudnn::convolution_backward_filter_descriptor, convolution_backward_filter_x,
                                                           convolution_backward_filter_dw, convolution_backward_filter_dy, convolution_backward_filter)
#undef CONVOLUTION
            {cudnn::pointwise_descriptor, attribute::pointwise_mode, type::pointwise_mode, 1, 1, true, none, none},
    {cudnn::pointwise_descriptor, attribute::pointwise_compute_type, type::data_type, 1, 1, true, none, none},
    {cudnn::pointwise_descriptor, attribute::pointwise_relu_lower_clip, type::float64, 1, 1, false, type::float32, none},
    {cudnn::pointwise_descriptor, attribute::pointwise_relu_upper_clip, type::float64, 1, 1, false, type::float32, none},
    {cudnn::pointwise_descriptor, attribute::pointwise_relu_lower_clip_slope, type::float64, 1, 1, false, type::float32, none},
    {cudnn::pointwise_descriptor, attribute::pointwise_elu_alpha, type::float64, 1, 1, false, type::float32, none},
    {cudnn::pointwise_descriptor, attribute::pointwise_softplus_beta, type::float64, 1, 1, false, type::float32, none},
    {cudnn::pointwise_descriptor, attribute::pointwise_swish_beta, type::float64, 1, 1, false, type::float32, none},
    {cudnn::pointwise_operation_descriptor, attribute::pointwise_operation_pointwise, type::descriptor, 1, 1, true, none, cudnn::pointwise_descriptor},
    {cudnn::pointwise_operation_descriptor, attribute::pointwise_operation_x, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor},
    {cudnn::pointwise_operation_descriptor, attribute::pointwise_operation_b, type::descriptor, 1, 1, false, none, cudnn::tensor_descriptor},
    {cudnn::pointwise_operation_descriptor, attribute::pointwise_operation_y, type::descriptor, 1, 1, true, none, cudnn::tensor_descriptor},
    {cudnn::pointwise_operation_descriptor, attribute::pointwise_operation_alpha1, type::float32, 1, 1, false, type::float64, none},
    {cudnn::pointwise_operation_descriptor, attribute::pointwise_operation_alpha2, type::float32, 1, 1, false, type::float64, none},
    {cudnn::operation_graph_descriptor, attribute::operation_graph_handle, type::handle, 1, 1, false, none, none},
    {cudnn::operation_graph_descriptor, attribute::operation_graph_operations, type::descriptor, 1, 64, true, none, any_operation},
    {cudnn::engine_heuristic_descriptor, attribute::engine_heuristic_operation_graph, type::descriptor, 1, 1, true, none, cudnn::operation_graph_descriptor},
    {cudnn::engine_heuristic_descriptor, attribute::engine_heuristic_mode, type::heuristic_mode, 1, 1, true, none, none},
    {cudnn::engine_heuristic_descriptor, attribute::engine_heuristic_device, type::descriptor, 1, 1, false, none, cudnn::device_descriptor},
    {cudnn::engine_descriptor, attribute::engine_operation_graph, type::descriptor, 1, 1, true, none, cudnn::operation_graph_descriptor},
    {cudnn::engine_descriptor, attribute::engine_global_index, type::int64, 1, 1, true, none, none},
    {cudnn::engine_descriptor, attribute::engine_device, type::descriptor, 1, 1, false, none, cudnn::device_descriptor},
    {cudnn::engine_config_descriptor, attribute::engine_config_engine, type::descriptor, 1, 1, true, none, cudnn::engine_descriptor},
    {cudnn::engine_config_descriptor, attribute::engine_config_knob_choices, type::descriptor, 1, 64, false, none, cudnn::knob_choice_descriptor},
    {cudnn::knob_choice_descriptor, attribute::knob_choice_type, type::knob_type, 1, 1, true, none, none},
    {cudnn::knob_choice_descriptor, attribute::knob_choice_value, type::int64, 1, 1, true, none, none},
    {cudnn::execution_plan_descriptor, attribute::execution_plan_engine_config, type::descriptor, 1, 1, false, none, cudnn::engine_config_descriptor},
    {cudnn::execution_plan_descriptor, attribute::execution_plan_json, type::text, 1, 1 << 24, false, none, none},
    {cudnn::execution_plan_descriptor, attribute::execution_plan_handle, type::handle, 1, 1, false, none, none},
    {cudnn::execution_plan_descriptor, attribute::execution_plan_device, type::descriptor, 1, 1, false, none, cudnn::device_descriptor},
    {cudnn::variant_pack_descriptor, attribute::variant_pack_unique_ids, type::int64, 1, 64, true, none, none},
    {cudnn::variant_pack_descriptor, attribute::variant_pack_data_pointers, type::void_pointer, 1, 64, true, none, none},
    {cudnn::variant_pack_descriptor, attribute::variant_pack_workspace, type::void_pointer, 1, 1, true, none, none},
    {cudnn::device_descriptor, attribute::device_json, type::text, 1, 1 << 16, true, none, none},
};

int complete_tensor(const cudnn_descriptor& d) {
    const auto &extents = d.integers(attribute::tensor_dimensions), &strides = d.integers(attribute::tensor_strides);
    const std::size_t size = cudnn_size(static_cast<int>(d.integer(attribute::tensor_data_type)));
    const std::int64_t alignment = d.integer(attribute::tensor_byte_alignment);
    if (!size) return cudnn_error(result::not_supported, "a tensor's type is unknown");
    if (extents.size() != strides.size()) return cudnn_error(result::bad_parameter, "a tensor has not as many strides as dimensions");
    if (alignment <= 0 || (alignment & (alignment - 1)) || alignment % static_cast<std::int64_t>(size))
        return cudnn_error(result::bad_parameter, "a tensor's alignment is no power of two of its elements");
    for (const std::int64_t e : extents)
        if (e < 1) return cudnn_error(result::bad_parameter, "a tensor has an empty dimension");
    for (const std::int64_t s : strides)
        if (s < 1) return cudnn_error(result::bad_parameter, "a tensor has a stride below 1");
    return result::success;
}

int complete_convolution(const cudnn_descriptor& d) {
    const std::size_t rank = static_cast<std::size_t>(d.integer(attribute::convolution_spatial_dims));
    if (rank < 1 || rank > 3) return cudnn_error(result::not_supported, "a convolution has one to three spatial dimensions");
    const struct {
        int name;
        std::int64_t least;
    } lists[] = {{attribute::convolution_pre_paddings, 0},
                 {attribute::convolution_post_paddings, 0},
                 {attribute::convolution_dilations, 1},
                 {attribute::convolution_strides, 1}};
    for (const auto& list : lists) {
        const auto& values = d.integers(list.name);
        if (values.size() != rank) return cudnn_error(result::bad_parameter, "a list of a convolution has not one item for each spatial dimension");
        if (*std::min_element(values.begin(), values.end()) < list.least)
            return cudnn_error(result::bad_parameter, "a convolution's padding, stride or dilation is too small");
    }
    const std::int64_t compute = d.integer(attribute::convolution_compute_type), mode = d.integer(attribute::convolution_mode);
    if (compute != cudnn::data::float32 && compute != cudnn::data::float64)
        return cudnn_error(result::not_supported, "a convolution computes float32 or float64 here");
    return mode == cudnn::convolution::cross_correlation ? result::success : cudnn_error(result::not_supported, "the simulator only has cross-correlation");
}

int complete_convolution_operation(const cudnn_descriptor& d) {
    convolution_roles roles;
    roles_of(d.kind, roles);
    const cudnn_descriptor *x = d.descriptor(roles.x), *w = d.descriptor(roles.w), *y = d.descriptor(roles.y), *c = d.descriptor(roles.convolution);
    const auto &xe = x->integers(attribute::tensor_dimensions), &we = w->integers(attribute::tensor_dimensions),
               &ye = y->integers(attribute::tensor_dimensions);
    const std::size_t rank = static_cast<std::size_t>(c->integer(attribute::convolution_spatial_dims));
    if (xe.size() != rank + 2 || we.size() != rank + 2 || ye.size() != rank + 2)
        return cudnn_error(result::bad_parameter, "tensors of a convolution have two dimensions more than it");
    if (xe[0] != ye[0]) return cudnn_error(result::bad_parameter, "x and y of a convolution differ in their batch");
    if (we[0] != ye[1]) return cudnn_error(result::bad_parameter, "y of a convolution has not as many channels as w has filters");
    if (xe[1] % we[1] || we[0] % (xe[1] / we[1])) return cudnn_error(result::bad_parameter, "channels of a convolution make no groups");
    for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t span = (we[i + 2] - 1) * c->integers(attribute::convolution_dilations)[i] + 1;
        const std::int64_t room = xe[i + 2] + c->integers(attribute::convolution_pre_paddings)[i] + c->integers(attribute::convolution_post_paddings)[i] - span;
        if (room < 0 || room / c->integers(attribute::convolution_strides)[i] + 1 != ye[i + 2])
            return cudnn_error(result::bad_parameter, "y of a convolution has not the size that x, w and pads give");
    }
    if (d.real(roles.alpha, 1) != 1 || d.real(roles.beta, 0) != 0)
        return cudnn_error(result::not_supported, "the simulator has convolutions with alpha 1 and beta 0 alone");
    return result::success;
}

bool is_binary(std::int64_t mode) {
    namespace p = cudnn::pointwise;
    return mode == p::add || mode == p::multiply || mode == p::minimum || mode == p::maximum || mode == p::subtract || mode == p::divide;
}
bool is_unary(std::int64_t mode) {
    namespace p = cudnn::pointwise;
    return (mode >= p::relu_forward && mode <= p::gelu_tanh_forward) || mode == p::identity || mode == p::exp || mode == p::log;
}

int complete_pointwise(const cudnn_descriptor& d) {
    const std::int64_t mode = d.integer(attribute::pointwise_mode);
    if (!is_binary(mode) && !is_unary(mode)) return cudnn_error(result::not_supported, "the simulator has not this pointwise operation");
    const struct {
        int name;
        int mode;
    } owners[] = {
        {attribute::pointwise_relu_lower_clip, cudnn::pointwise::relu_forward},       {attribute::pointwise_relu_upper_clip, cudnn::pointwise::relu_forward},
        {attribute::pointwise_relu_lower_clip_slope, cudnn::pointwise::relu_forward}, {attribute::pointwise_elu_alpha, cudnn::pointwise::elu_forward},
        {attribute::pointwise_softplus_beta, cudnn::pointwise::softplus_forward},     {attribute::pointwise_swish_beta, cudnn::pointwise::swish_forward}};
    for (const auto& o : owners)
        if (d.find(o.name) && mode != o.mode) return cudnn_error(result::bad_parameter, "a pointwise operation has an attribute of another one");
    return d.integer(attribute::pointwise_compute_type) == cudnn::data::float32
               ? result::success
               : cudnn_error(result::not_supported, "pointwise operations compute float32 here");
}

int complete_pointwise_operation(const cudnn_descriptor& d) {
    const cudnn_descriptor *p = d.descriptor(attribute::pointwise_operation_pointwise), *x = d.descriptor(attribute::pointwise_operation_x),
                           *b = d.descriptor(attribute::pointwise_operation_b), *y = d.descriptor(attribute::pointwise_operation_y);
    if (is_binary(p->integer(attribute::pointwise_mode)) != (b != nullptr))
        return cudnn_error(result::bad_parameter, "a pointwise operation has the wrong number of operands");
    const auto &xe = x->integers(attribute::tensor_dimensions), &ye = y->integers(attribute::tensor_dimensions);
    if (xe != ye) return cudnn_error(result::bad_parameter, "x and y of a pointwise operation differ in shape");
    if (!b) return result::success;
    const auto& be = b->integers(attribute::tensor_dimensions);
    if (be.size() != ye.size()) return cudnn_error(result::bad_parameter, "operands of a pointwise operation differ in rank");
    for (std::size_t i = 0; i < be.size(); ++i)
        if (be[i] != 1 && be[i] != ye[i]) return cudnn_error(result::bad_parameter, "an operand of a pointwise operation cannot be broadcast");
    return result::success;
}

int complete_pack(const cudnn_descriptor& d) {
    std::vector<std::int64_t> ids = d.integers(attribute::variant_pack_unique_ids);
    if (ids.size() != d.integers(attribute::variant_pack_data_pointers).size())
        return cudnn_error(result::bad_parameter, "a variant pack has not one pointer for each id");
    std::sort(ids.begin(), ids.end());
    if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) return cudnn_error(2009, "a variant pack names an id twice");
    return result::success;
}

int check_kind(cudnn_descriptor& d) {
    switch (d.kind) {
    case cudnn::tensor_descriptor: return complete_tensor(d);
    case cudnn::convolution_descriptor: return complete_convolution(d);
    case cudnn::convolution_forward_descriptor:
    case cudnn::convolution_backward_data_descriptor:
    case cudnn::convolution_backward_filter_descriptor: return complete_convolution_operation(d);
    case cudnn::pointwise_descriptor: return complete_pointwise(d);
    case cudnn::pointwise_operation_descriptor: return complete_pointwise_operation(d);
    case cudnn::matmul_operation_descriptor: return complete_matmul_operation(d);
    case cudnn::reduction_descriptor: return complete_reduction(d);
    case cudnn::reduction_operation_descriptor: return complete_reduction_operation(d);
    case cudnn::operation_graph_descriptor: return complete_operation_graph(d);
    case cudnn::engine_heuristic_descriptor: return complete_heuristic(d);
    case cudnn::engine_descriptor: return complete_engine(d);
    case cudnn::engine_config_descriptor: return complete_configuration(d);
    case cudnn::execution_plan_descriptor: return complete_plan(d);
    case cudnn::variant_pack_descriptor: return complete_pack(d);
    default: return result::success;
    }
}

}  // namespace

const cudnn_attribute* find_attribute(int kind, int name) {
    for (const cudnn_attribute& a : table)
        if (a.kind == kind && a.name == name) return &a;
    return nullptr;
}

bool is_known(int kind) {
    for (const cudnn_attribute& a : table)
        if (a.kind == kind) return true;
    return false;
}

bool is_operation(int kind) {
    convolution_roles roles;
    return kind == cudnn::pointwise_operation_descriptor || kind == cudnn::matmul_operation_descriptor || kind == cudnn::reduction_operation_descriptor ||
           roles_of(kind, roles);
}

std::int64_t id_of(const cudnn_descriptor* tensor) { return tensor->integer(attribute::tensor_unique_id); }

operation_tensors tensors_of(const cudnn_descriptor& operation) {
    operation_tensors all;
    convolution_roles r;
    std::vector<int> names{attribute::pointwise_operation_x, attribute::pointwise_operation_b};
    int written = attribute::pointwise_operation_y;
    if (roles_of(operation.kind, r))
        names = {r.x, r.w, r.y}, written = r.written;
    else if (operation.kind == cudnn::matmul_operation_descriptor)
        names = {attribute::matmul_operation_a, attribute::matmul_operation_b}, written = attribute::matmul_operation_c;
    else if (operation.kind == cudnn::reduction_operation_descriptor)
        names = {attribute::reduction_operation_x}, written = attribute::reduction_operation_y;
    for (const int name : names)
        if (const cudnn_descriptor* t = name == written ? nullptr : operation.descriptor(name)) all.read.push_back(t);
    all.written = operation.descriptor(written);
    return all;
}

bool roles_of(int kind, convolution_roles& r) {
    if (kind == cudnn::convolution_forward_descriptor)
        r = {attribute::convolution_forward_x,     attribute::convolution_forward_w,
             attribute::convolution_forward_y,     attribute::convolution_forward_convolution,
             attribute::convolution_forward_alpha, attribute::convolution_forward_beta,
             attribute::convolution_forward_y};
    else if (kind == cudnn::convolution_backward_data_descriptor)
        r = {attribute::convolution_backward_data_dx,          attribute::convolution_backward_data_w,     attribute::convolution_backward_data_dy,
             attribute::convolution_backward_data_convolution, attribute::convolution_backward_data_alpha, attribute::convolution_backward_data_beta,
             attribute::convolution_backward_data_dx};
    else if (kind == cudnn::convolution_backward_filter_descriptor)
        r = {attribute::convolution_backward_filter_x,           attribute::convolution_backward_filter_dw,    attribute::convolution_backward_filter_dy,
             attribute::convolution_backward_filter_convolution, attribute::convolution_backward_filter_alpha, attribute::convolution_backward_filter_beta,
             attribute::convolution_backward_filter_dw};
    else
        return false;
    return true;
}

std::size_t cudnn_size(int t) {
    switch (t) {
    case cudnn::data::float32: return 4;
    case cudnn::data::float64: return 8;
    case cudnn::data::float16:
    case cudnn::data::bfloat16: return 2;
    default: return 0;
    }
}

int complete_descriptor(const cudnn_pointer& d) {
    if (d->complete) return cudnn_error(result::bad_parameter, "a descriptor is completed twice");
    for (const cudnn_attribute& a : table)
        if (a.kind == d->kind && a.needed && !d->find(a.name)) return cudnn_error(result::bad_parameter, "attribute " + std::to_string(a.name) + " is missing");
    const int code = check_kind(*d);
    d->complete = code == result::success;
    return code;
}

}  // namespace graft_simulator
