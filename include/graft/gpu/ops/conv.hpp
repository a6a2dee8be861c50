// Convolutions, their gradients and ConvTranspose by cuDNN, with bias, residual and activation in the same graph where it has engines.
#pragma once

#include "../../core/number_text.hpp"
#include "../../graph/activation.hpp"
#include "../runtime/handles.hpp"
#include "../lower/layouts.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Rows of Conv and ConvTranspose, and of graft's Conv, ConvGradInput and ConvGradWeight (whose sums over the batch are cuDNN's own:
/// `shards` has no meaning on a device). Depthwise ones run in kernels of our own, of ops/depthwise.hpp, instead. Values and weights are channels-last:
/// float32, float16 or bfloat16; all sums are float32. Conv may have an attribute "exact" here (ops/quantized.hpp), which keeps TF32, Winograd and FFT away.
///
/// `make` asks for one graph with everything that the node does. Where cuDNN has no engine for it, the answer is op.unsupported, and
/// the caller splits bias, residual and activation off into a node of their own: a convolution alone nearly always has an engine.
library_table conv_rows();

/// Pads of a convolution's pictures, by spatial axis, where some axis has more on one side than on the other: what both sides have, and
/// what is more at the beginning and at the end. cuDNN is asked for the former alone: an engine for gradients of weights has answered
/// wrongly for the rest (cuDNN 9.19 on an H200, float32, pads 2 and 1).
struct uneven_pads {
    int rank = 0;  ///< 0 where all pads are even
    std::int64_t both[shape::max_rank] = {}, begin[shape::max_rank] = {}, end[shape::max_rank] = {};
    std::int64_t last[shape::max_rank] = {}, output_padding[shape::max_rank] = {};  ///< ConvTranspose's own, for the larger picture
};
/// Those of a node of `conv_rows`.
uneven_pads find_uneven_pads(const op_context& c);

/// Whether cuDNN's pointwise operations have the function.
bool conv_epilogue_supported(activation function) noexcept;

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/conv_transpose.hpp"
#include "../libraries/cudnn_plan.hpp"

#include <cstdio>
#include <limits>
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

/// A node as kernels of convolutions see it. x, w and y are named after the forward convolution, whatever is computed.
struct conv_problem {
    convolution_direction direction = convolution_direction::forward;
    shape x, w, y;
    dtype type = dtype::undefined, result = dtype::undefined;
    convolution_axes axes;
    epilogue after;
    int bias = -1, residual = -1;  ///< which inputs of the node they are

    const shape& written() const noexcept {
        return direction == convolution_direction::forward ? y : direction == convolution_direction::backward_data ? x : w;
    }
};

// A shape with one spatial axis gets one of extent 1 before it.
inline shape at_least_two_axes(shape s) noexcept {
    if (s.rank() == 3) s.insert(2, 1);
    return s;
}

// The pads of one axis. What lies behind the last window is free: the same pad on both sides is what most engines take.
inline bool fit_pads(const ops::window_axis& a, std::int64_t inputs, std::int64_t outputs, std::int64_t& begin, std::int64_t& end) noexcept {
    const std::int64_t least = (outputs - 1) * a.stride + a.span() - inputs - a.pad_begin, most = least + a.stride - 1;
    begin = a.pad_begin;
    end = begin >= least && begin <= most ? begin : std::max<std::int64_t>(least, 0);
    return begin >= 0 && end <= most;
}

inline bool read_axes(const ops::window& w, bool transposed, convolution_axes& axes) noexcept {
    const int added = w.rank == 1 ? 1 : 0;
    axes.rank = w.rank + added;
    for (int i = 0; i < w.rank; ++i) {
        const ops::window_axis& a = w.axis[i];
        const int to = i + added;
        axes.stride[to] = a.stride;
        axes.dilation[to] = a.dilation;
        if (!fit_pads(a, transposed ? a.output : a.input, transposed ? a.input : a.output, axes.pad_begin[to], axes.pad_end[to])) return false;
    }
    return true;
}

// The window of a node of any direction, if its shapes fit; `transposed` where its axes have the roles of ConvTranspose.
inline bool find_window(const op_context& c, ops::window& w, bool& transposed) {
    ops::convolution p;
    ops::transposed_convolution t;
    shape s;
    bool fits = false;
    transposed = c.n.op_type == "ConvTranspose";
    if (transposed)
        fits = ops::plan_conv_transpose(c, t).ok();
    else if (c.n.op_type == "ConvGradInput")
        fits = ops::plan_conv_grad_input(c, s, p).ok();
    else if (c.n.op_type == "ConvGradWeight")
        fits = ops::read_shape_attribute(c, s).ok() && ops::plan_conv_grad(c, c.in[0].extents, s, c.in[1].extents, p).ok();
    else
        fits = ops::plan_convolution(c, 0, 1, 2, p).ok();
    w = transposed ? t.w : p.w;
    return fits;
}

inline bool is_conv_type(dtype t) noexcept { return t == dtype::float32 || t == dtype::float16 || t == dtype::bfloat16; }

// The epilogue of a node: `bias` and `residual` are the inputs that may hold them, -1 for none.
inline const char* read_epilogue(const kernel_query& q, int bias, int residual, conv_problem& p) {
    p.after.act = static_cast<activation>(q.integer("activation", 0));
    p.after.alpha = q.real("alpha", 0);
    p.after.beta = q.real("beta", 0);
    const std::int64_t adds = q.integer("residual", 0);
    p.after.residual = adds != 0;
    p.after.residual_after_activation = adds == 2;
    const shape& y = q.out[0].extents;
    if (bias >= 0 && q.has(bias)) {
        const tensor_view& b = q.in[bias];
        if (b.extents.elements() != y[1] || !is_conv_type(b.type)) return "its bias is not one float for each channel";
        p.bias = bias;
    }
    if (!p.after.residual) return nullptr;
    if (residual < 0 || !q.has(residual)) return "its residual is missing";
    const tensor_view& r = q.in[residual];
    if (r.extents != y || !is_conv_type(r.type)) return "its residual has another shape or type";
    if (!is_channels_last(y, q.in_layout[residual])) return "its residual is not channels-last";
    p.residual = residual;
    return nullptr;
}

// What all directions ask of types and layouts: inputs 0 and 1 are the factors.
inline const char* check_conv_values(const kernel_query& q, conv_problem& p) {
    p.type = q.in[0].type;
    p.result = q.out[0].type;
    if (!is_conv_type(p.type) || q.in[1].type != p.type) return "cuDNN convolves float32, float16 and bfloat16";
    if (p.result != p.type && p.result != dtype::float32) return "the result has neither the type of the factors nor float32";
    const tensor_view* const values[] = {&q.in[0], &q.in[1], &q.out[0]};
    for (const tensor_view* t : values) {
        if (t->extents.rank() < 3 || t->extents.rank() > 5) return "cuDNN has one to three spatial axes";
        if (t->elements() == 0) return "it is empty";
    }
    for (int i = 0; i < 2; ++i)
        if (!is_channels_last(q.in[i].extents, q.in_layout[i])) return "its values are not channels-last";
    if (!is_channels_last(q.out[0].extents, q.out_layout[0])) return "its values are not channels-last";
    return nullptr;
}

inline void set_roles(conv_problem& p, const shape& x, const shape& w, const shape& y) noexcept {
    p.x = at_least_two_axes(x), p.w = at_least_two_axes(w), p.y = at_least_two_axes(y);
}

inline const char* read_conv(const kernel_query& q, conv_problem& p) {
    if (const char* refused = check_conv_values(q, p)) return refused;
    ops::convolution c;
    if (!ops::plan_convolution(q, 0, 1, 2, c).ok() || q.out[0].extents != ops::window_shape(c.n, c.groups * c.oc, c.w)) return "its shapes do not fit";
    set_roles(p, q.in[0].extents, q.in[1].extents, q.out[0].extents);
    if (!read_axes(c.w, false, p.axes)) return "its pads do not fit";
    return read_epilogue(q, 2, 3, p);
}
inline const char* read_conv_transpose(const kernel_query& q, conv_problem& p) {
    p.direction = convolution_direction::backward_data;
    if (const char* refused = check_conv_values(q, p)) return refused;
    ops::transposed_convolution c;
    if (!ops::plan_conv_transpose(q, c).ok() || q.out[0].extents != ops::window_shape(c.n, c.groups * c.oc, c.w)) return "its shapes do not fit";
    set_roles(p, q.out[0].extents, q.in[1].extents, q.in[0].extents);
    if (!read_axes(c.w, true, p.axes)) return "its output reaches past its windows";
    return read_epilogue(q, 2, -1, p);
}
inline const char* read_conv_grad_input(const kernel_query& q, conv_problem& p) {
    p.direction = convolution_direction::backward_data;
    if (const char* refused = check_conv_values(q, p)) return refused;
    ops::convolution c;
    shape x;
    if (!ops::plan_conv_grad_input(q, x, c).ok() || q.out[0].extents != x) return "its shapes do not fit";
    set_roles(p, x, q.in[1].extents, q.in[0].extents);
    if (!read_axes(c.w, false, p.axes)) return "its pads do not fit";
    return read_epilogue(q, -1, 2, p);
}
inline const char* read_conv_grad_weight(const kernel_query& q, conv_problem& p) {
    p.direction = convolution_direction::backward_weight;
    if (const char* refused = check_conv_values(q, p)) return refused;
    ops::convolution c;
    shape w;
    if (!ops::read_shape_attribute(q, w).ok() || q.out[0].extents != w) return "its shapes do not fit";
    if (!ops::plan_conv_grad(q, q.in[0].extents, w, q.in[1].extents, c).ok()) return "its shapes do not fit";
    set_roles(p, q.in[0].extents, w, q.in[1].extents);
    return read_axes(c.w, false, p.axes) ? nullptr : "its pads do not fit";
}

// The pointwise operation of an activation other than `none`.
inline pointwise_operation activation_operation(const epilogue& e) noexcept {
    namespace mode = api::cudnn::pointwise;
    constexpr double most = std::numeric_limits<float>::max();
    pointwise_operation o;
    switch (e.act) {
    case activation::relu: o.mode = mode::relu_forward; break;
    case activation::clip: o.mode = mode::relu_forward, o.clips = true, o.lower = static_cast<double>(e.alpha), o.upper = static_cast<double>(e.beta); break;
    case activation::leaky_relu: o.mode = mode::relu_forward, o.clips = true, o.upper = most, o.slope = static_cast<double>(e.alpha); break;
    case activation::sigmoid: o.mode = mode::sigmoid_forward; break;
    case activation::silu: o.mode = mode::swish_forward; break;
    case activation::tanh: o.mode = mode::tanh_forward; break;
    case activation::gelu: o.mode = mode::gelu_forward; break;
    case activation::gelu_tanh: o.mode = mode::gelu_tanh_forward; break;
    case activation::elu: o.mode = mode::elu_forward, o.parameter = static_cast<double>(e.alpha); break;
    case activation::softplus: o.mode = mode::softplus_forward; break;
    default: break;
    }
    return o;
}

// Ids of tensors in the graph of a node.
struct conv_ids {
    static constexpr std::int64_t x = 1, w = 2, y = 3, bias = 4, residual = 5, first_virtual = 10;
};

/// The graph of a node in the making: each step reads what the last one wrote, and the last of all writes the result.
struct conv_graph {
    cudnn_graph graph;
    std::vector<graph_binding> bindings;
    std::int64_t at = 0;  ///< the tensor that the next step reads
    std::int64_t next_virtual = conv_ids::first_virtual;
    int steps_left = 0;

    // The tensor that a step writes.
    status target(const conv_problem& p, std::int64_t result, std::int64_t& id) {
        const bool last = --steps_left == 0;
        id = last ? result : next_virtual++;
        return graph.add_tensor(id, last ? p.result : dtype::float32, p.written(), !last);
    }
    status step(const conv_problem& p, const pointwise_operation& how, std::int64_t operand, std::int64_t result) {
        std::int64_t to = 0;
        GRAFT_TRY(target(p, result, to));
        GRAFT_TRY(graph.add_pointwise(how, at, operand, to));
        at = to;
        return {};
    }
};

// The factors and the convolution itself.
inline status add_factors(const conv_problem& p, conv_graph& g, std::int64_t result) {
    const bool forward = p.direction == convolution_direction::forward, weight = p.direction == convolution_direction::backward_weight;
    std::int64_t ids[3] = {conv_ids::x, conv_ids::w, conv_ids::y};
    const int inputs[3] = {forward || weight ? 0 : -1, weight ? -1 : 1, forward ? -1 : weight ? 1 : 0};
    const shape* shapes[3] = {&p.x, &p.w, &p.y};
    for (int i = 0; i < 3; ++i) {
        if (inputs[i] < 0) {
            GRAFT_TRY(g.target(p, result, ids[i]));
            g.at = ids[i];
            continue;
        }
        GRAFT_TRY(g.graph.add_tensor(ids[i], p.type, *shapes[i], false));
        g.bindings.push_back({ids[i], {argument::from::input, inputs[i]}});
    }
    g.bindings.push_back({result, {argument::from::output, 0}});
    return g.graph.add_convolution(p.direction, p.axes, ids[0], ids[1], ids[2]);
}

// Bias behind the residual: the order that cuDNN's ready-made engines know.
inline status build_conv_graph(const kernel_query& q, const conv_problem& p, conv_graph& g) {
    static constexpr std::int64_t results[] = {conv_ids::y, conv_ids::x, conv_ids::w};  // by direction
    const std::int64_t result = results[static_cast<int>(p.direction)];
    const bool acts = p.after.act != activation::none, adds = p.residual >= 0;
    g.steps_left = 1 + (p.bias >= 0) + acts + adds;
    GRAFT_TRY(add_factors(p, g, result));
    pointwise_operation add;
    add.mode = api::cudnn::pointwise::add;
    if (adds) {
        GRAFT_TRY(g.graph.add_tensor(conv_ids::residual, q.in[p.residual].type, p.written(), false));
        g.bindings.push_back({conv_ids::residual, {argument::from::input, p.residual}});
    }
    if (adds && !p.after.residual_after_activation) GRAFT_TRY(g.step(p, add, conv_ids::residual, result));
    if (p.bias >= 0) {
        shape channels = shape::filled(p.written().rank(), 1);
        channels[1] = p.written()[1];
        GRAFT_TRY(g.graph.add_tensor(conv_ids::bias, q.in[p.bias].type, channels, false));
        g.bindings.push_back({conv_ids::bias, {argument::from::input, p.bias}});
        GRAFT_TRY(g.step(p, add, conv_ids::bias, result));
    }
    if (acts) GRAFT_TRY(g.step(p, activation_operation(p.after), 0, result));
    if (adds && p.after.residual_after_activation) GRAFT_TRY(g.step(p, add, conv_ids::residual, result));
    return g.graph.finalize();
}

// All that an engine's choice depends on.
inline std::string conv_problem_text(const kernel_query& q, const conv_problem& p) {
    static constexpr const char* directions[] = {"conv", "conv backward data", "conv backward weight"};
    std::string s = directions[static_cast<int>(p.direction)];
    s += " x" + text(p.x) + " w" + text(p.w) + " y" + text(p.y) + " " + name(p.type) + " to " + name(p.result);
    char line[128];
    for (int i = 0; i < p.axes.rank; ++i) {
        std::snprintf(line, sizeof line, " %lld/%lld+%lld+%lld", static_cast<long long>(p.axes.stride[i]), static_cast<long long>(p.axes.dilation[i]),
                      static_cast<long long>(p.axes.pad_begin[i]), static_cast<long long>(p.axes.pad_end[i]));
        s += line;
    }
    if (p.bias >= 0) s += std::string(" bias ") + name(q.in[p.bias].type);
    if (p.residual >= 0) s += std::string(p.after.residual_after_activation ? " late residual " : " residual ") + name(q.in[p.residual].type);
    if (p.after.act != activation::none) {
        s += " act " + std::to_string(static_cast<int>(p.after.act));
        for (float v : {p.after.alpha, p.after.beta}) s += graft::detail::number_text(" %.9g", static_cast<double>(v));
    }
    if (q.options.deterministic) s += " deterministic";
    if (p.type == dtype::float32 && !q.options.tf32) s += " full";
    if (q.integer("exact", 0)) s += " exact";
    return s;
}

inline result<std::unique_ptr<library_kernel>> make_conv_problem(const kernel_query& q, const libraries& with, const char* refused, const conv_problem& p) {
    if (refused) return fail(errc::op_unsupported, graft::location(q.n), refused);
    for (int i = 0; i < p.axes.rank; ++i)
        if (p.axes.pad_begin[i] != p.axes.pad_end[i])
            return fail(errc::op_unsupported, graft::location(q.n), "its pads are not even: cuDNN is not asked for them");
    if (!with.cudnn)
        return fail(errc::device_unavailable, graft::location(q.n), "cuDNN is not loaded: install cuDNN 9; `graft doctor` tells where it is looked for");
    conv_graph g{cudnn_graph(with), {}};
    GRAFT_TRY(build_conv_graph(q, p, g));
    engine_limits limits;
    limits.deterministic = q.options.deterministic;
    const bool exact = q.integer("exact", 0) != 0;
    limits.tensor_cores = p.type != dtype::float32 || (q.options.tf32 && !exact);
    limits.transforms = !exact;
    limits.workspace_bytes = with.choices.workspace_bytes;
    return choose_cudnn_kernel(q, with, limits, g.graph, g.bindings, conv_problem_text(q, p));
}

template <const char* (*Read)(const kernel_query&, conv_problem&)>
inline const char* read_for_cudnn(const kernel_query& q, conv_problem& p) {
    if (const char* refused = Read(q, p)) return refused;
    return conv_epilogue_supported(p.after.act) ? nullptr : "cuDNN has not its activation";
}
template <const char* (*Read)(const kernel_query&, conv_problem&)>
inline const char* refuse_conv(const kernel_query& q) {
    conv_problem p;
    return read_for_cudnn<Read>(q, p);
}
template <const char* (*Read)(const kernel_query&, conv_problem&)>
inline result<std::unique_ptr<library_kernel>> make_conv(const kernel_query& q, const libraries& with) {
    conv_problem p;
    const char* refused = read_for_cudnn<Read>(q, p);
    return make_conv_problem(q, with, refused, p);
}

}  // namespace detail

GRAFT_INLINE uneven_pads find_uneven_pads(const op_context& c) {
    uneven_pads found;
    ops::window w;
    convolution_axes axes;
    bool transposed = false;
    if (!detail::find_window(c, w, transposed) || !detail::read_axes(w, transposed, axes)) return found;
    const int added = axes.rank - w.rank;
    for (int i = 0; i < w.rank; ++i) {
        const std::int64_t begin = axes.pad_begin[i + added], end = axes.pad_end[i + added], both = std::min(begin, end);
        found.both[i] = both, found.begin[i] = begin - both, found.end[i] = end - both;
        if (begin != end) found.rank = w.rank;
        const ops::window_axis& a = w.axis[i];
        const std::int64_t less = (a.input - 1) * a.stride + a.span() - (a.output + found.begin[i] + found.end[i]) - both;
        found.last[i] = std::max<std::int64_t>(less, 0), found.output_padding[i] = std::max<std::int64_t>(-less, 0);
    }
    return found;
}

GRAFT_INLINE bool conv_epilogue_supported(activation function) noexcept {
    return function == activation::none || detail::activation_operation({function}).mode != api::cudnn::pointwise::identity;
}

GRAFT_INLINE library_table conv_rows() {
    using namespace detail;
    static constexpr library_row rows[] = {
        {"Conv", "", refuse_conv<read_conv>, make_conv<read_conv>},
        {"Conv", "graft", refuse_conv<read_conv>, make_conv<read_conv>},
        {"ConvTranspose", "", refuse_conv<read_conv_transpose>, make_conv<read_conv_transpose>},
        {"ConvGradInput", "graft", refuse_conv<read_conv_grad_input>, make_conv<read_conv_grad_input>},
        {"ConvGradWeight", "graft", refuse_conv<read_conv_grad_weight>, make_conv<read_conv_grad_weight>},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
