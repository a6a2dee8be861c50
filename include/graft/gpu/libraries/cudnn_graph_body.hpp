// Bodies of gpu/libraries/cudnn_graph.hpp.
#pragma once

#include "cudnn_graph.hpp"

#include <cstdio>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE GRAFT_COLD status cudnn_failure(const api::cudnn_functions& functions, int code, const char* what) {
    namespace result = api::cudnn::result;
    char last[512] = "";
    if (functions.cudnnGetLastErrorString) functions.cudnnGetLastErrorString(last, sizeof last);
    last[sizeof last - 1] = 0;
    const char* name = functions.cudnnGetErrorString ? functions.cudnnGetErrorString(code) : nullptr;
    std::string text = std::string(what) + ": " + (name ? name : "error") + " (" + std::to_string(code) + ")";
    if (last[0]) text += std::string(", ") + last;
    if (code == result::host_allocation_failed || code == result::device_allocation_failed)
        return fail(errc::memory_oom, "cuDNN", text + "; use a smaller batch");
    if (code >= result::bad_parameter && code < result::internal_error) return fail(errc::op_unsupported, "cuDNN", text);
    return fail(errc::device_unavailable, "cuDNN", text + "; `graft doctor` tells which libraries are used");
}

GRAFT_INLINE int cudnn_type(dtype type) noexcept {
    namespace data = api::cudnn::data;
    switch (type) {
    case dtype::float32: return data::float32;
    case dtype::float64: return data::float64;
    case dtype::float16: return data::float16;
    case dtype::bfloat16: return data::bfloat16;
    default: return -1;
    }
}

GRAFT_INLINE status cudnn_descriptor::checked(int code, const char* doing) const {
    if (code == api::cudnn::result::success) return {};
    char text[160];
    std::snprintf(text, sizeof text, "%s of %s", doing, what_);
    return cudnn_failure(*functions_, code, text);
}
GRAFT_INLINE status cudnn_descriptor::create(const api::cudnn_functions& functions, int kind, const char* what) {
    reset();
    functions_ = &functions;
    what_ = what;
    return checked(functions.cudnnBackendCreateDescriptor(kind, &raw_), "creation");
}
GRAFT_INLINE void cudnn_descriptor::reset() noexcept {
    if (raw_) functions_->cudnnBackendDestroyDescriptor(raw_);
    raw_ = nullptr;
}
GRAFT_INLINE status cudnn_descriptor::set(int name, int type, std::int64_t count, const void* elements) {
    const int code = functions_->cudnnBackendSetAttribute(raw_, name, type, count, elements);
    if (code == api::cudnn::result::success) return {};
    char doing[48];
    std::snprintf(doing, sizeof doing, "attribute %d", name);
    return checked(code, doing);
}
GRAFT_INLINE status cudnn_descriptor::set_integers(int name, std::int64_t count, const std::int64_t* values) {
    return set(name, api::cudnn::attribute_type::int64, count, values);
}
GRAFT_INLINE status cudnn_descriptor::set_float(int name, float value) { return set(name, api::cudnn::attribute_type::float32, 1, &value); }
GRAFT_INLINE status cudnn_descriptor::set_double(int name, double value) { return set(name, api::cudnn::attribute_type::float64, 1, &value); }
GRAFT_INLINE status cudnn_descriptor::set_descriptor(int name, const cudnn_descriptor& value) {
    return set(name, api::cudnn::attribute_type::descriptor, 1, &value.raw_);
}
GRAFT_INLINE status cudnn_descriptor::finalize() { return checked(functions_->cudnnBackendFinalize(raw_), "completion"); }
GRAFT_INLINE status cudnn_descriptor::get(int name, int type, std::int64_t capacity, std::int64_t& count, void* elements) const {
    count = 0;
    const int code = functions_->cudnnBackendGetAttribute(raw_, name, type, capacity, &count, elements);
    if (code == api::cudnn::result::success) return {};
    char doing[48];
    std::snprintf(doing, sizeof doing, "reading attribute %d", name);
    return checked(code, doing);
}

GRAFT_INLINE status cudnn_graph::add_tensor(std::int64_t id, dtype type, const shape& extents, bool is_virtual) {
    const int rank = extents.rank();
    if (rank < 4 || rank > 5 || bytes_of(type, extents) <= 0) return fail(errc::op_unsupported, "cuDNN", "a tensor of shape " + text(extents));
    std::int64_t strides[5], step = extents[1];
    strides[1] = 1;
    for (int i = rank - 1; i >= 2; --i) strides[i] = step, step *= extents[i];
    strides[0] = step;
    return add_strided(id, type, extents, strides, is_virtual);
}
GRAFT_INLINE status cudnn_graph::add_strided(std::int64_t id, dtype type, const shape& extents, const std::int64_t* strides, bool is_virtual) {
    return describe_tensor(id, type, extents, strides, is_virtual ? api::cudnn::attribute::tensor_is_virtual : 0);
}
GRAFT_INLINE status cudnn_graph::add_scalar(std::int64_t id, float value) {
    static constexpr std::int64_t strides[] = {1, 1, 1, 1};
    scalars_.push_back({id, value});
    return describe_tensor(id, dtype::float32, {1, 1, 1, 1}, strides, api::cudnn::attribute::tensor_is_by_value);
}
// `is`: an attribute that is true of the tensor, 0 for none.
GRAFT_INLINE status cudnn_graph::describe_tensor(std::int64_t id, dtype type, const shape& extents, const std::int64_t* strides, int is) {
    namespace attribute = api::cudnn::attribute;
    const bool yes = true;
    cudnn_descriptor t;
    GRAFT_TRY(t.create(*with_->cudnn, api::cudnn::tensor_descriptor, "a tensor"));
    GRAFT_TRY(t.set_enumerator(attribute::tensor_data_type, api::cudnn::attribute_type::data_type, cudnn_type(type)));
    GRAFT_TRY(t.set_integers(attribute::tensor_dimensions, extents.rank(), extents.begin()));
    GRAFT_TRY(t.set_integers(attribute::tensor_strides, extents.rank(), strides));
    GRAFT_TRY(t.set_integer(attribute::tensor_byte_alignment, is == attribute::tensor_is_by_value ? 4 : 16));
    GRAFT_TRY(t.set_integer(attribute::tensor_unique_id, id));
    if (is) GRAFT_TRY(t.set(is, api::cudnn::attribute_type::boolean, 1, &yes));
    GRAFT_TRY(t.finalize());
    tensors_.emplace_back(id, std::move(t));
    return {};
}

GRAFT_INLINE const cudnn_descriptor* cudnn_graph::tensor(std::int64_t id) const noexcept {
    for (const auto& known : tensors_)
        if (known.first == id) return &known.second;
    return nullptr;
}
GRAFT_INLINE status cudnn_graph::set_tensor(cudnn_descriptor& operation, int name, std::int64_t id) {
    const cudnn_descriptor* t = tensor(id);
    if (!t) return fail(errc::internal, "cuDNN", "an operation names a tensor that its graph has not");
    return operation.set_descriptor(name, *t);
}

namespace detail {
// The attributes of the three convolutions, which differ in name only.
struct convolution_names {
    int kind, x, w, y, convolution, alpha, beta;
};
inline convolution_names convolution_names_of(convolution_direction direction) noexcept {
    namespace attribute = api::cudnn::attribute;
    if (direction == convolution_direction::forward)
        return {api::cudnn::convolution_forward_descriptor, attribute::convolution_forward_x,           attribute::convolution_forward_w,
                attribute::convolution_forward_y,           attribute::convolution_forward_convolution, attribute::convolution_forward_alpha,
                attribute::convolution_forward_beta};
    if (direction == convolution_direction::backward_data)
        return {api::cudnn::convolution_backward_data_descriptor, attribute::convolution_backward_data_dx,          attribute::convolution_backward_data_w,
                attribute::convolution_backward_data_dy,          attribute::convolution_backward_data_convolution, attribute::convolution_backward_data_alpha,
                attribute::convolution_backward_data_beta};
    return {api::cudnn::convolution_backward_filter_descriptor, attribute::convolution_backward_filter_x,
            attribute::convolution_backward_filter_dw,          attribute::convolution_backward_filter_dy,
            attribute::convolution_backward_filter_convolution, attribute::convolution_backward_filter_alpha,
            attribute::convolution_backward_filter_beta};
}
}  // namespace detail

GRAFT_INLINE status cudnn_graph::add_convolution(convolution_direction direction, const convolution_axes& axes, std::int64_t x, std::int64_t w,
                                                 std::int64_t y) {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    cudnn_descriptor c, operation;
    GRAFT_TRY(c.create(*with_->cudnn, api::cudnn::convolution_descriptor, "a convolution"));
    GRAFT_TRY(c.set_enumerator(attribute::convolution_compute_type, type::data_type, api::cudnn::data::float32));
    GRAFT_TRY(c.set_enumerator(attribute::convolution_mode, type::convolution_mode, api::cudnn::convolution::cross_correlation));
    GRAFT_TRY(c.set_integer(attribute::convolution_spatial_dims, axes.rank));
    GRAFT_TRY(c.set_integers(attribute::convolution_pre_paddings, axes.rank, axes.pad_begin));
    GRAFT_TRY(c.set_integers(attribute::convolution_post_paddings, axes.rank, axes.pad_end));
    GRAFT_TRY(c.set_integers(attribute::convolution_dilations, axes.rank, axes.dilation));
    GRAFT_TRY(c.set_integers(attribute::convolution_strides, axes.rank, axes.stride));
    GRAFT_TRY(c.finalize());
    const detail::convolution_names names = detail::convolution_names_of(direction);
    GRAFT_TRY(operation.create(*with_->cudnn, names.kind, "the operation of a convolution"));
    GRAFT_TRY(set_tensor(operation, names.x, x));
    GRAFT_TRY(set_tensor(operation, names.w, w));
    GRAFT_TRY(set_tensor(operation, names.y, y));
    GRAFT_TRY(operation.set_descriptor(names.convolution, c));
    GRAFT_TRY(operation.set_float(names.alpha, 1));
    GRAFT_TRY(operation.set_float(names.beta, 0));
    GRAFT_TRY(operation.finalize());
    parameters_.push_back(std::move(c));
    operations_.push_back(std::move(operation));
    return {};
}

GRAFT_INLINE status cudnn_graph::add_pointwise(const pointwise_operation& how, std::int64_t x, std::int64_t b, std::int64_t y) {
    namespace attribute = api::cudnn::attribute;
    namespace mode = api::cudnn::pointwise;
    namespace type = api::cudnn::attribute_type;
    cudnn_descriptor p, operation;
    GRAFT_TRY(p.create(*with_->cudnn, api::cudnn::pointwise_descriptor, "a pointwise function"));
    GRAFT_TRY(p.set_enumerator(attribute::pointwise_mode, type::pointwise_mode, how.mode));
    GRAFT_TRY(p.set_enumerator(attribute::pointwise_compute_type, type::data_type, api::cudnn::data::float32));
    if (how.clips) {
        GRAFT_TRY(p.set_double(attribute::pointwise_relu_lower_clip, how.lower));
        GRAFT_TRY(p.set_double(attribute::pointwise_relu_upper_clip, how.upper));
        GRAFT_TRY(p.set_double(attribute::pointwise_relu_lower_clip_slope, how.slope));
    }
    if (how.mode == mode::elu_forward) GRAFT_TRY(p.set_double(attribute::pointwise_elu_alpha, how.parameter));
    if (how.mode == mode::softplus_forward) GRAFT_TRY(p.set_double(attribute::pointwise_softplus_beta, how.parameter));
    if (how.mode == mode::swish_forward) GRAFT_TRY(p.set_double(attribute::pointwise_swish_beta, how.parameter));
    GRAFT_TRY(p.finalize());
    GRAFT_TRY(operation.create(*with_->cudnn, api::cudnn::pointwise_operation_descriptor, "a pointwise operation"));
    GRAFT_TRY(operation.set_descriptor(attribute::pointwise_operation_pointwise, p));
    GRAFT_TRY(set_tensor(operation, attribute::pointwise_operation_x, x));
    if (b) GRAFT_TRY(set_tensor(operation, attribute::pointwise_operation_b, b));
    GRAFT_TRY(set_tensor(operation, attribute::pointwise_operation_y, y));
    GRAFT_TRY(operation.finalize());
    parameters_.push_back(std::move(p));
    operations_.push_back(std::move(operation));
    return {};
}

GRAFT_INLINE status cudnn_graph::add_matmul(std::int64_t a, std::int64_t b, std::int64_t c) {
    namespace attribute = api::cudnn::attribute;
    cudnn_descriptor m, operation;
    GRAFT_TRY(m.create(*with_->cudnn, api::cudnn::matmul_descriptor, "a product of matrices"));
    GRAFT_TRY(m.set_enumerator(attribute::matmul_compute_type, api::cudnn::attribute_type::data_type, api::cudnn::data::float32));
    GRAFT_TRY(m.finalize());
    GRAFT_TRY(operation.create(*with_->cudnn, api::cudnn::matmul_operation_descriptor, "the operation of a product of matrices"));
    GRAFT_TRY(set_tensor(operation, attribute::matmul_operation_a, a));
    GRAFT_TRY(set_tensor(operation, attribute::matmul_operation_b, b));
    GRAFT_TRY(set_tensor(operation, attribute::matmul_operation_c, c));
    GRAFT_TRY(operation.set_descriptor(attribute::matmul_operation_matmul, m));
    GRAFT_TRY(operation.finalize());
    parameters_.push_back(std::move(m));
    operations_.push_back(std::move(operation));
    return {};
}

GRAFT_INLINE status cudnn_graph::add_reduction(int how, std::int64_t x, std::int64_t y) {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    cudnn_descriptor r, operation;
    GRAFT_TRY(r.create(*with_->cudnn, api::cudnn::reduction_descriptor, "a reduction"));
    GRAFT_TRY(r.set_enumerator(attribute::reduction_compute_type, type::data_type, api::cudnn::data::float32));
    GRAFT_TRY(r.set_enumerator(attribute::reduction_operator, type::reduction_operator, how));
    GRAFT_TRY(r.finalize());
    GRAFT_TRY(operation.create(*with_->cudnn, api::cudnn::reduction_operation_descriptor, "the operation of a reduction"));
    GRAFT_TRY(operation.set_descriptor(attribute::reduction_operation_reduction, r));
    GRAFT_TRY(set_tensor(operation, attribute::reduction_operation_x, x));
    GRAFT_TRY(set_tensor(operation, attribute::reduction_operation_y, y));
    GRAFT_TRY(operation.finalize());
    parameters_.push_back(std::move(r));
    operations_.push_back(std::move(operation));
    return {};
}

GRAFT_INLINE status cudnn_graph::finalize() { return join_operations(with_->cudnn_handle, graph_); }
GRAFT_INLINE status cudnn_graph::join_operations(void* handle, cudnn_descriptor& graph) const {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    std::vector<void*> operations;
    for (const cudnn_descriptor& o : operations_) operations.push_back(o.raw());
    GRAFT_TRY(graph.create(*with_->cudnn, api::cudnn::operation_graph_descriptor, "an operation graph"));
    GRAFT_TRY(graph.set(attribute::operation_graph_operations, type::descriptor, static_cast<std::int64_t>(operations.size()), operations.data()));
    if (!with_->cudnn_device) GRAFT_TRY(graph.set(attribute::operation_graph_handle, type::handle, 1, &handle));
    return graph.finalize();
}

GRAFT_INLINE status cudnn_graph::propose(int mode, std::vector<cudnn_descriptor>& configs) const {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    cudnn_descriptor heuristic;
    GRAFT_TRY(heuristic.create(*with_->cudnn, api::cudnn::engine_heuristic_descriptor, "an engine heuristic"));
    GRAFT_TRY(heuristic.set_descriptor(attribute::engine_heuristic_operation_graph, graph_));
    GRAFT_TRY(heuristic.set_enumerator(attribute::engine_heuristic_mode, type::heuristic_mode, mode));
    if (with_->cudnn_device) GRAFT_TRY(heuristic.set(attribute::engine_heuristic_device, type::descriptor, 1, &with_->cudnn_device));
    GRAFT_TRY(heuristic.finalize());
    std::int64_t count = 0, written = 0;
    GRAFT_TRY(heuristic.get(attribute::engine_heuristic_results, type::descriptor, 0, count, nullptr));
    count = count < 0 ? 0 : count > 256 ? 256 : count;
    std::vector<cudnn_descriptor> found(static_cast<std::size_t>(count));
    std::vector<void*> raw;
    for (cudnn_descriptor& f : found) {
        GRAFT_TRY(f.create(*with_->cudnn, api::cudnn::engine_config_descriptor, "an engine configuration"));
        raw.push_back(f.raw());
    }
    if (count) GRAFT_TRY(heuristic.get(attribute::engine_heuristic_results, type::descriptor, count, written, raw.data()));
    // Fewer may be written than were announced.
    for (std::int64_t i = 0; i < written && i < count; ++i) configs.push_back(std::move(found[static_cast<std::size_t>(i)]));
    return {};
}

GRAFT_INLINE status cudnn_graph::configure(const engine_choice& choice, void* handle, cudnn_descriptor& config) const {
    cudnn_descriptor graph;
    GRAFT_TRY(join_operations(handle, graph));
    return configure_on(graph, choice, config);
}
GRAFT_INLINE status cudnn_graph::configure_on(const cudnn_descriptor& graph, const engine_choice& choice, cudnn_descriptor& config) const {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    cudnn_descriptor e;
    GRAFT_TRY(e.create(*with_->cudnn, api::cudnn::engine_descriptor, "an engine"));
    GRAFT_TRY(e.set_descriptor(attribute::engine_operation_graph, graph));
    GRAFT_TRY(e.set_integer(attribute::engine_global_index, choice.engine));
    if (with_->cudnn_device) GRAFT_TRY(e.set(attribute::engine_device, type::descriptor, 1, &with_->cudnn_device));
    GRAFT_TRY(e.finalize());
    std::vector<cudnn_descriptor> choices(choice.knobs.size());
    std::vector<void*> raw;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        GRAFT_TRY(choices[i].create(*with_->cudnn, api::cudnn::knob_choice_descriptor, "the choice of a knob"));
        GRAFT_TRY(choices[i].set_enumerator(attribute::knob_choice_type, type::knob_type, choice.knobs[i].first));
        GRAFT_TRY(choices[i].set_integer(attribute::knob_choice_value, choice.knobs[i].second));
        GRAFT_TRY(choices[i].finalize());
        raw.push_back(choices[i].raw());
    }
    GRAFT_TRY(config.create(*with_->cudnn, api::cudnn::engine_config_descriptor, "an engine configuration"));
    GRAFT_TRY(config.set_descriptor(attribute::engine_config_engine, e));
    if (!raw.empty()) GRAFT_TRY(config.set(attribute::engine_config_knob_choices, type::descriptor, static_cast<std::int64_t>(raw.size()), raw.data()));
    return config.finalize();
}

}  // namespace gpu
GRAFT_END_NAMESPACE
