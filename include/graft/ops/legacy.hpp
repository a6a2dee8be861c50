// Experimental operators that ONNX 1.0 to 1.4 had and style-transfer networks of the time still use.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Affine-1: y = alpha * x + beta.  Scale-1: y = scale * x.  ScaledTanh-1: y = alpha * tanh(beta * x).
// ParametricSoftplus-1: y = alpha * log(1 + exp(beta * x)).
inline void affine_real(double* x, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = p.a * x[i] + p.b;
}
inline void scaled_tanh_real(double* x, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) x[i] = p.a * std::tanh(p.b * x[i]);
}
inline void parametric_softplus_real(double* x, int n, const element_parameters& p) {
    for (int i = 0; i < n; ++i) {
        const double t = p.b * x[i];
        x[i] = p.a * (std::max(t, 0.0) + std::log1p(std::exp(-std::fabs(t))));
    }
}
inline status legacy_elementwise(run_context& c, real_function f, const char* a, const char* b) {
    element_parameters p;
    p.a = static_cast<double>(c.real(a, 1));
    p.b = b ? static_cast<double>(c.real(b, f == affine_real ? 0.0f : 1.0f)) : 0;
    return unary_elementwise(c, f, nullptr, p);
}
inline status affine_run(run_context& c) { return legacy_elementwise(c, affine_real, "alpha", "beta"); }
inline status scale_run(run_context& c) { return legacy_elementwise(c, affine_real, "scale", nullptr); }
inline status scaled_tanh_run(run_context& c) { return legacy_elementwise(c, scaled_tanh_real, "alpha", "beta"); }
inline status parametric_softplus_run(run_context& c) { return legacy_elementwise(c, parametric_softplus_real, "alpha", "beta"); }

// ImageScaler-1: y[n,c,h,w] = scale * x[n,c,h,w] + bias[c].
inline status image_scaler_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    const attribute* bias = c.n.find("bias");
    const shape& x = c.in[0].extents;
    if (x.rank() != 4) return c.fail_shapes("ImageScaler takes images of rank 4");
    if (bias && static_cast<std::int64_t>(bias->reals.size()) != x[1]) return c.fail(errc::op_attribute, "'bias' needs %lld numbers, one a channel", x[1]);
    return c.set(0, c.in[0].type, x);
}
inline status image_scaler_run(run_context& c) {
    const attribute* bias = c.n.find("bias");
    const double scale = static_cast<double>(c.real("scale", 1));
    const shape& s = c.in[0].extents;
    const std::int64_t area = s[2] * s[3];
    double block[block_size];
    for (std::int64_t plane = 0; plane < s[0] * s[1]; ++plane) {
        const double shift = bias ? static_cast<double>(bias->reals[static_cast<std::size_t>(plane % s[1])]) : 0;
        for (std::int64_t i = 0; i < area; i += block_size) {
            const std::int64_t n = std::min<std::int64_t>(block_size, area - i);
            load_as_double(c.in[0].type, c.in[0].data, plane * area + i, n, block);
            for (std::int64_t k = 0; k < n; ++k) block[k] = block[k] * scale + shift;
            store_from_double(c.out[0].type, c.out[0].data, plane * area + i, n, block);
        }
    }
    return {};
}

// Crop-1: cuts `border` (left, top, right, bottom) off images, or with `scale` keeps height and width from the left and top border on.
inline status crop_window(const op_context& c, std::int64_t& top, std::int64_t& left, std::int64_t& height, std::int64_t& width) {
    const integer_list border = c.integers("border"), scale = c.integers("scale");
    const shape& x = c.in[0].extents;
    if (x.rank() != 4) return c.fail_shapes("Crop takes images of rank 4");
    if (border.size != 4 || (scale.size != 0 && scale.size != 2)) return c.fail(errc::op_attribute, "'border' needs 4 entries, 'scale' 2 or none");
    for (std::int64_t b : border)
        if (b < 0 || b > std::max(x[2], x[3])) return c.fail(errc::op_attribute, "border %lld is out of range", b);
    left = border[0], top = border[1];
    height = scale.size ? scale[0] : x[2] - top - border[3];
    width = scale.size ? scale[1] : x[3] - left - border[2];
    if (height < 0 || width < 0 || height > x[2] - top || width > x[3] - left) return c.fail_shapes("the image is smaller than what Crop cuts off");
    return {};
}
inline status crop_infer(infer_context& c) {
    GRAFT_TRY(check_type(c, 0, accept::any));
    std::int64_t top = 0, left = 0, height = 0, width = 0;
    GRAFT_TRY(crop_window(c, top, left, height, width));
    return c.set(0, c.in[0].type, {c.in[0].extents[0], c.in[0].extents[1], height, width});
}
inline status crop_run(run_context& c) {
    std::int64_t top = 0, left = 0, height = 0, width = 0;
    GRAFT_TRY(crop_window(c, top, left, height, width));
    const shape& x = c.in[0].extents;
    const std::size_t size = size_of(c.in[0].type);
    const auto* from = static_cast<const std::byte*>(c.in[0].data);
    auto* to = static_cast<std::byte*>(c.out[0].data);
    const std::size_t row = static_cast<std::size_t>(width) * size;
    if (row == 0) return {};
    for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane)
        for (std::int64_t y = 0; y < height; ++y, to += row)
            std::memcpy(to, from + static_cast<std::size_t>((plane * x[2] + top + y) * x[3] + left) * size, row);
    return {};
}

inline status affine_gradient(gradient_context& c) {
    c.give(0, scaled(c, c.dy(), static_cast<double>(c.real(c.n.op_type == "Affine" ? "alpha" : "scale", 1))));
    return {};
}
// Of alpha * f(beta * x): alpha * beta * f'(beta * x).
inline status stretched_gradient(gradient_context& c, activation kind) {
    const double alpha = static_cast<double>(c.real("alpha", 1)), beta = static_cast<double>(c.real("beta", 1));
    c.give(0, scaled(c, activation_gradient(c, c.dy(), scaled(c, c.in(0), beta), kind), alpha * beta));
    return {};
}
inline status scaled_tanh_gradient(gradient_context& c) { return stretched_gradient(c, activation::tanh); }
inline status parametric_softplus_gradient(gradient_context& c) { return stretched_gradient(c, activation::softplus); }
inline status crop_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    std::int64_t top = 0, left = 0, height = 0, width = 0;
    GRAFT_TRY(crop_window(forward_context(c, in), top, left, height, width));
    const shape x = c.extents(c.in(0));
    c.give(0, c.build.apply("Pad", {c.dy(), c.build.integers({0, 0, top, left, 0, 0, x[2] - top - height, x[3] - left - width})}));
    return {};
}

inline op_table legacy_ops() {
    static constexpr op_row rows[] = {
        onnx("Affine")
            .opsets(1, 9)
            .inputs(1)
            .functions(real_infer, affine_run)
            .elementwise()
            .attributes("alpha:f beta:f")
            .problems("f32[2,3] alpha=2 beta=-1 @7; f32[0,3] @7"),
        onnx("Scale").opsets(1, 9).inputs(1).functions(real_infer, scale_run).elementwise().attributes("scale:f").problems("f32[2,3] scale=2 @7; f64[5] @7"),
        onnx("ScaledTanh")
            .opsets(1, 9)
            .inputs(1)
            .functions(real_infer, scaled_tanh_run)
            .elementwise()
            .attributes("alpha:f beta:f")
            .problems("f32[2,3] alpha=2 beta=0.5 @7; f16[7] @7"),
        onnx("ParametricSoftplus")
            .opsets(1, 9)
            .inputs(1)
            .functions(real_infer, parametric_softplus_run)
            .elementwise()
            .attributes("alpha:f beta:f")
            .problems("f32[2,3] alpha=2 beta=0.5 @7; f32[1] @7"),
        onnx("ImageScaler")
            .opsets(1, 9)
            .inputs(1)
            .functions(image_scaler_infer, image_scaler_run)
            .carries(carry_first_axis<1>)
            .attributes("bias:fs scale:f")
            .problems("f32[2,3,4,5] scale=2 bias=1,2,3 @7; f16[1,1,3,3] scale=0.5 @7"),
        onnx("Crop")
            .opsets(1, 9)
            .inputs(1)
            .functions(crop_infer, crop_run)
            .carries(carry_first_axis<1>)
            .attributes("border:is scale:is")
            .problems("f32[2,3,7,8] border=1,2,3,1 @7; u8[1,2,6,6] border=1,1,0,0 scale=3,4 @7; f32[1,1,4,4] border=2,2,2,2 @7"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table legacy_gradients() {
    static constexpr gradient_row rows[] = {
        {"Affine", "", affine_gradient},          {"Scale", "", affine_gradient},
        {"ScaledTanh", "", scaled_tanh_gradient}, {"ParametricSoftplus", "", parametric_softplus_gradient},
        {"ImageScaler", "", affine_gradient},     {"Crop", "", crop_gradient},
    };
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
