// Operators that interpolate along axes: Resize and its ancestor Upsample; and the gradient of both.
#pragma once

#include "gradient_common.hpp"
#include "indexing.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

enum class coordinate_mode { half_pixel, pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize, half_pixel_symmetric, tf_half_pixel_for_nn };
enum class nearest_mode { round_prefer_floor, round_prefer_ceil, floor, ceil, simple };
enum class interpolation_mode { nearest, linear, cubic };

/// What a Resize node asks for, by axis of the input.
struct resize_plan {
    shape out;
    interpolation_mode mode = interpolation_mode::nearest;
    coordinate_mode coordinate = coordinate_mode::asymmetric;
    nearest_mode nearest = nearest_mode::simple;
    bool antialias = false, exclude_outside = false;
    int policy = 0;  // of the aspect ratio: 0 stretch, 1 not larger, 2 not smaller than the sizes
    bool resized[shape::max_rank] = {};
    double scale[shape::max_rank], width[shape::max_rank];  // width: scale times the input's extent, not rounded
    double start[shape::max_rank], end[shape::max_rank];    // region of interest, in parts of the input's extent
    double cubic_a = -0.75;
};

inline status read_resize_attributes(const op_context& c, resize_plan& p) {
    static constexpr const char* modes[] = {"nearest", "linear", "cubic", "bilinear", nullptr};
    static constexpr const char* coordinates[] = {"half_pixel",         "pytorch_half_pixel",   "align_corners",        "asymmetric",
                                                  "tf_crop_and_resize", "half_pixel_symmetric", "tf_half_pixel_for_nn", nullptr};
    static constexpr const char* roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", nullptr};
    static constexpr const char* policies[] = {"stretch", "not_larger", "not_smaller", nullptr};
    int chosen = 0;
    GRAFT_TRY(choose(c, "mode", "nearest", modes, chosen));
    p.mode = static_cast<interpolation_mode>(chosen == 3 ? 1 : chosen);
    if (c.version() >= 11) {
        GRAFT_TRY(choose(c, "coordinate_transformation_mode", "half_pixel", coordinates, chosen));
        p.coordinate = static_cast<coordinate_mode>(chosen);
        GRAFT_TRY(choose(c, "nearest_mode", "round_prefer_floor", roundings, chosen));
        p.nearest = static_cast<nearest_mode>(chosen);
        GRAFT_TRY(choose(c, "keep_aspect_ratio_policy", "stretch", policies, p.policy));
    } else if (p.mode == interpolation_mode::cubic)
        return c.fail(errc::op_attribute, "mode cubic came with opset 11");
    p.antialias = c.integer("antialias", 0) != 0;
    p.exclude_outside = c.integer("exclude_outside", 0) != 0;
    p.cubic_a = static_cast<double>(c.real("cubic_coeff_a", -0.75f));
    if (p.antialias && p.mode == interpolation_mode::nearest) return c.fail(errc::op_attribute, "antialias does not go with mode nearest");
    if (p.mode != interpolation_mode::nearest && !is_float(c.in[0].type) && !is_integer(c.in[0].type))
        return c.fail(errc::op_type, "elements that are not numbers can only be resized by mode nearest");
    return {};
}

// The extent that a scale leads to, as ONNX computes it: in float.
inline status scaled_extent(const op_context& c, std::int64_t extent, float scale, std::int64_t& out) {
    if (!(scale > 0) || !(scale < 1e30f)) return c.fail(errc::op_value, "a scale is not a positive finite number");
    if (scale < 1 && c.n.op_type == "Upsample") return c.fail(errc::op_value, "Upsample takes no scale below 1");
    const double exact =
        extent < (1 << 24) ? static_cast<double>(static_cast<float>(extent) * scale) : static_cast<double>(extent) * static_cast<double>(scale);
    if (!(exact < 4e18)) return c.fail(errc::op_shape, "the scaled extent of %lld overflows", extent);
    out = static_cast<std::int64_t>(std::floor(exact));
    return {};
}

/// Reads scales or sizes, which must be known, into the plan.
inline status read_resize(const op_context& c, resize_plan& p) {
    GRAFT_TRY(read_resize_attributes(c, p));
    const shape& s = c.in[0].extents;
    short_list axes;
    bool given_axes = false;
    GRAFT_TRY(read_list(c, -1, "axes", false, axes, given_axes));
    if (!axes.size)
        for (axes.size = 0; axes.size < s.rank(); ++axes.size) axes.values[axes.size] = axes.size;
    GRAFT_TRY(resolve_axes(c, s.rank(), axes));
    p.out = s;
    for (int d = 0; d < s.rank(); ++d) p.scale[d] = 1, p.width[d] = static_cast<double>(s[d]), p.start[d] = 0, p.end[d] = 1;
    const int scales_at = c.version() >= 11 ? 2 : 1;
    const attribute* listed = c.n.find("scales");
    const bool by_sizes = c.version() >= 11 && c.has(3) && c.in[3].extents.elements() > 0;
    const bool by_scales = (c.has(scales_at) && c.in[scales_at].extents.elements() > 0) || (c.version() < 9 && listed);
    if (by_sizes && by_scales) return c.fail(errc::op_attribute, "both scales and sizes are given");
    if (!by_sizes && !by_scales && s.rank()) return c.fail(errc::op_attribute, "neither scales nor sizes are given");
    if (by_sizes) {
        short_list sizes;
        bool given = false;
        GRAFT_TRY(read_list(c, 3, nullptr, false, sizes, given));
        if (sizes.size != axes.size) return c.fail(errc::op_shape, "%lld sizes for %lld axes", sizes.size, axes.size);
        double common = 0;
        for (int i = 0; i < axes.size; ++i) {
            const int d = static_cast<int>(axes[i]);
            if (sizes[i] < 0) return c.fail(errc::op_value, "size %lld is negative", sizes[i]);
            if (s[d] == 0 && sizes[i] != 0) return c.fail(errc::op_shape, "axis %lld is empty: there is nothing to resize", d);
            p.out[d] = sizes[i];
            p.width[d] = static_cast<double>(sizes[i]);
            p.scale[d] = s[d] ? p.width[d] / static_cast<double>(s[d]) : 1;
            if (i == 0 || (p.policy == 1 ? p.scale[d] < common : p.scale[d] > common)) common = p.scale[d];
        }
        for (int i = 0; p.policy && i < axes.size; ++i) {
            const int d = static_cast<int>(axes[i]);
            p.scale[d] = common;
            p.width[d] = common * static_cast<double>(s[d]);
            if (!(p.width[d] < 4e18)) return c.fail(errc::op_shape, "the scaled extent of %lld overflows", s[d]);
            p.out[d] = static_cast<std::int64_t>(p.width[d] + 0.5);
        }
    } else {
        const bool by_input = c.has(scales_at);
        if (by_input && c.in[scales_at].type != dtype::float32) return c.fail(errc::op_type, "the scales must be float");
        const std::int64_t count = by_input ? c.in[scales_at].elements() : listed ? static_cast<std::int64_t>(listed->reals.size()) : 0;
        if (count != axes.size) return c.fail(errc::op_shape, "%lld scales for %lld axes", count, axes.size);
        for (int i = 0; i < axes.size; ++i) {
            const int d = static_cast<int>(axes[i]);
            const float scale = by_input ? c.in[scales_at].as<float>()[i] : listed->reals[static_cast<std::size_t>(i)];
            GRAFT_TRY(scaled_extent(c, s[d], scale, p.out[d]));
            p.scale[d] = static_cast<double>(scale);
            p.width[d] = p.scale[d] * static_cast<double>(s[d]);
        }
    }
    const bool crop = p.coordinate == coordinate_mode::tf_crop_and_resize;
    if (crop && (!c.has(1) || elements_of(c.in[1].extents) != 2 * axes.size))
        return c.fail(errc::op_shape, "tf_crop_and_resize needs two entries of roi an axis");
    if (crop) GRAFT_TRY(check_real(c, 1));
    for (int i = 0; i < axes.size; ++i) {
        const int d = static_cast<int>(axes[i]);
        p.resized[d] = p.out[d] != s[d] || std::fabs(p.scale[d] - 1) > 1e-9;
        if (!crop || !(c.in[1].data)) continue;
        p.start[d] = c.in[1].real(i);
        p.end[d] = c.in[1].real(axes.size + i);
        if (!(std::fabs(p.start[d]) < 1e9) || !(std::fabs(p.end[d]) < 1e9)) return c.fail(errc::op_value, "the roi of axis %lld is not finite", d);
        p.resized[d] = p.resized[d] || p.start[d] != 0 || p.end[d] != 1;
    }
    return {};
}

// Rounded to float where the nearest pixel is wanted: ties and whole numbers then fall as in the float arithmetic of others.
inline double rounded(const resize_plan& p, double x) noexcept {
    return p.mode == interpolation_mode::nearest ? static_cast<double>(static_cast<float>(x)) : x;
}

// Where output i of axis d lies along the input; `outside`: the extrapolation value belongs there.
inline double source_coordinate(const resize_plan& p, const shape& in, int d, std::int64_t i, bool& outside) noexcept {
    const double x = static_cast<double>(i), n = static_cast<double>(in[d]), width = p.width[d], scale = rounded(p, p.scale[d]);
    const double centred = rounded(p, rounded(p, (x + 0.5) / scale) - 0.5);
    outside = false;
    switch (p.coordinate) {
    case coordinate_mode::half_pixel: return centred;
    case coordinate_mode::pytorch_half_pixel: return p.out[d] > 1 ? centred : 0;
    case coordinate_mode::align_corners: return p.out[d] > 1 ? rounded(p, x * (n - 1) / (width - 1)) : 0;
    case coordinate_mode::asymmetric: return rounded(p, x / scale);
    case coordinate_mode::tf_half_pixel_for_nn: return rounded(p, (x + 0.5) / scale);
    case coordinate_mode::half_pixel_symmetric:
        return rounded(p, rounded(p, n / 2 * (1 - static_cast<double>(p.out[d]) / width) + rounded(p, (x + 0.5) / scale)) - 0.5);
    default: {
        double at = p.out[d] > 1 ? p.start[d] * (n - 1) + x * (p.end[d] - p.start[d]) * (n - 1) / (width - 1) : 0.5 * (p.start[d] + p.end[d]) * (n - 1);
        if (p.mode == interpolation_mode::nearest) {
            const float start = static_cast<float>(p.start[d]), end = static_cast<float>(p.end[d]), last = static_cast<float>(n - 1);
            const float step = static_cast<float>(x) * (end - start) * last / static_cast<float>(width - 1);
            at = static_cast<double>(p.out[d] > 1 ? start * last + step : 0.5f * (start + end) * last);
        }
        outside = at < 0 || at > n - 1;
        return at;
    }
    }
}

inline std::int64_t clamp_index(double x, std::int64_t extent) noexcept {
    return x >= static_cast<double>(extent - 1) ? extent - 1 : x > 0 ? static_cast<std::int64_t>(x) : 0;
}
inline std::int64_t nearest_index(const resize_plan& p, const shape& in, int d, double x) noexcept {
    switch (p.nearest) {
    case nearest_mode::round_prefer_floor: x = std::ceil(x - 0.5); break;
    case nearest_mode::round_prefer_ceil: x = std::floor(x + 0.5); break;
    case nearest_mode::floor: x = std::floor(x); break;
    case nearest_mode::ceil: x = std::ceil(x); break;
    default: x = p.scale[d] < 1 ? std::ceil(x) : std::floor(x);
    }
    return clamp_index(x, in[d]);
}

// Keys' cubic kernel, or the triangle, at distance x.
inline double kernel_at(const resize_plan& p, double x) noexcept {
    const double a = p.cubic_a;
    x = std::fabs(x);
    if (p.mode == interpolation_mode::linear) return x < 1 ? 1 - x : 0;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The number of input elements that an output depends on: the kernel is stretched where antialiasing shrinks.
inline double kernel_stretch(const resize_plan& p, int d) noexcept { return p.antialias && p.scale[d] < 1 ? p.scale[d] : 1; }
inline std::int64_t kernel_taps(const resize_plan& p, int d) noexcept {
    const double radius = p.mode == interpolation_mode::linear ? 1 : 2;
    return -2 * static_cast<std::int64_t>(std::floor(-radius / kernel_stretch(p, d)));
}

// The weights of output i of axis d for the inputs from the place that is returned on.
inline double resize_weights(const resize_plan& p, const shape& s, int d, std::int64_t i, double* weights, bool& outside) noexcept {
    const std::int64_t taps = kernel_taps(p, d);
    const double x = source_coordinate(p, s, d, i, outside), whole = std::floor(x), stretch = kernel_stretch(p, d);
    const double first = x == whole ? whole - static_cast<double>(taps / 2) : whole - static_cast<double>(taps / 2) + 1;
    double sum = 0;
    for (std::int64_t k = 0; k < taps; ++k) {
        const double at = first + static_cast<double>(k);
        weights[k] = p.exclude_outside && (at < 0 || at >= static_cast<double>(s[d])) ? 0 : kernel_at(p, (at - x) * stretch);
        sum += weights[k];
    }
    if ((p.exclude_outside || p.antialias) && sum != 0)
        for (std::int64_t k = 0; k < taps; ++k) weights[k] /= sum;
    return first;
}

// One pass: axis d of `from` (row-major, `s`) interpolated to p.out[d] elements.
inline void resize_axis(const resize_plan& p, const shape& s, int d, double extrapolation, double* weights, const double* from, double* to) noexcept {
    const std::int64_t taps = kernel_taps(p, d), n = s[d], m = p.out[d], outer = s.product(0, d), inner = s.product(d + 1, s.rank());
    for (std::int64_t i = 0; i < m; ++i) {
        bool outside = false;
        const double first = resize_weights(p, s, d, i, weights, outside);
        for (std::int64_t o = 0; o < outer; ++o) {
            double* row = to + (o * m + i) * inner;
            for (std::int64_t r = 0; r < inner; ++r) row[r] = outside ? extrapolation : 0;
            for (std::int64_t k = 0; k < taps && !outside; ++k) {
                const double* source = from + (o * n + clamp_index(first + static_cast<double>(k), n)) * inner;
                if (weights[k] != 0)
                    for (std::int64_t r = 0; r < inner; ++r) row[r] += weights[k] * source[r];
            }
        }
    }
}

// Integers are rounded half to even and kept inside their type's range.
inline void store_saturated(dtype type, void* data, std::int64_t n, double* values) noexcept {
    if (is_integer(type)) {
        const int bits = type == dtype::int4 || type == dtype::uint4   ? 4
                         : type == dtype::int2 || type == dtype::uint2 ? 2
                                                                       : static_cast<int>(size_of(type)) * 8;
        const double top = std::ldexp(1.0, is_unsigned(type) ? bits : bits - 1), low = is_unsigned(type) ? 0 : -top;
        const double high = bits < 64 ? top - 1 : std::nextafter(top, 0);
        for (std::int64_t i = 0; i < n; ++i) {
            const double x = std::nearbyint(values[i]);
            values[i] = x < low ? low : x > high ? high : x;
        }
    }
    store_from_double(type, data, 0, n, values);
}

// Resize-10,11,13,18,19, Upsample-7,9: y[i] = sum_k w_k(x_i) x[floor(x_i) + k], axis by axis, where x_i is the coordinate that
// output i has in the input; elements beyond the border repeat it. Before opset 11: asymmetric, nearest below or (shrinking,
// Resize) above.
inline status resize_infer(infer_context& c) {
    GRAFT_TRY(check_any_type(c, 0));
    resize_plan p;
    GRAFT_TRY(read_resize_attributes(c, p));
    for (int i = c.version() >= 11 ? 2 : 1; i < c.inputs; ++i)
        if (unknown(c, i)) return c.defer();
    GRAFT_TRY(read_resize(c, p));
    return c.set(0, c.in[0].type, p.out);
}
inline status resize_nearest(run_context& c, const resize_plan& p) {
    const shape& s = c.in[0].extents;
    axis_maps maps;
    GRAFT_TRY(maps.allocate(c, p.out, p.resized));
    for (int d = 0; d < s.rank(); ++d)
        for (std::int64_t i = 0; p.resized[d] && i < p.out[d]; ++i) {
            bool outside = false;
            const double x = source_coordinate(p, s, d, i, outside);
            maps.map[d][i] = outside ? -1 : nearest_index(p, s, d, x);
        }
    unsigned char fill[8] = {};
    double value = static_cast<double>(c.real("extrapolation_value", 0));
    store_saturated(c.in[0].type, fill, 1, &value);
    copy_mapped(size_of(c.in[0].type), s, p.out, maps, c.in[0].data, c.out[0].data, fill);
    return {};
}
inline status resize_run(run_context& c) {
    resize_plan p;
    GRAFT_TRY(read_resize(c, p));
    if (c.out[0].elements() == 0) return {};
    if (p.mode == interpolation_mode::nearest) return resize_nearest(c, p);
    // The largest tensor between two passes, and the longest kernel.
    shape s = c.in[0].extents;
    std::int64_t most = s.elements(), taps = 0;
    for (int d = 0; d < s.rank(); ++d) {
        if (!p.resized[d]) continue;
        s[d] = p.out[d];
        const std::int64_t n = elements_of(s);
        if (n < 0) return c.fail_shapes("a tensor between two axes overflows");
        most = n > most ? n : most;
        taps = kernel_taps(p, d) > taps ? kernel_taps(p, d) : taps;
    }
    buffer memory[3];
    for (buffer& b : memory) GRAFT_TRY_ASSIGN(b, c.scratch(checked_mul(&b == &memory[2] ? taps : most, 8)));
    double *from = reinterpret_cast<double*>(memory[0].data()), *to = reinterpret_cast<double*>(memory[1].data());
    s = c.in[0].extents;
    load_as_double(c.in[0].type, c.in[0].data, 0, s.elements(), from);
    for (int d = 0; d < s.rank(); ++d) {
        if (!p.resized[d]) continue;
        resize_axis(p, s, d, static_cast<double>(c.real("extrapolation_value", 0)), reinterpret_cast<double*>(memory[2].data()), from, to);
        s[d] = p.out[d];
        std::swap(from, to);
    }
    store_saturated(c.in[0].type, c.out[0].data, s.elements(), from);
    return {};
}

// Scales, sizes and regions are no weights.
inline bool resize_flows(const node&, std::size_t i) { return i == 0; }

// dX = ResizeGrad(dY, the other inputs of the node; its attributes, the shape of X and, as `version`, the opset of the node)
inline status resize_gradient(gradient_context& c) {
    if (!c.wants(0)) return {};
    for (int i = 1; i < static_cast<int>(c.n.inputs.size()); ++i)
        if (!is_constant(c, i)) return c.refuse("its scales, sizes and regions have to be constants");
    if (shape(c.extents(c.in(0))) == shape(c.extents(c.out())) && c.extents(c.out()).elements() == 0) return c.give(0, c.dy()), status();
    std::vector<value_id> inputs = c.n.inputs;
    inputs[0] = c.dy();
    std::vector<attribute> attributes = c.n.attributes;
    const shape x = c.extents(c.in(0));
    attributes.push_back(integers_attribute("shape", std::vector<std::int64_t>(x.begin(), x.end())));
    attributes.push_back(integer_attribute("version", c.n.version));
    c.give(0, c.build.apply_graft("ResizeGrad", std::move(inputs), std::move(attributes)));
    return {};
}

/// The forward node, as `read_resize` wants it: with X's shape in the place of dY's.
struct resized_forward {
    node n;
    std::vector<tensor_view> in;

    explicit resized_forward(const op_context& c) : n(c.n), in(c.in, c.in + c.inputs) {
        const integer_list list = c.integers("shape");
        in[0].extents = shape::from(list.begin(), list.end());
        n.version = static_cast<int>(c.integer("version", newest_opset));
    }
    op_context context(const op_context& c) const noexcept { return {n, in.data(), static_cast<int>(in.size()), nullptr, 0, c.limit}; }
};

// graft.ResizeGrad(dY, roi?, scales?, sizes?): the interpolation turned around, dX[j] = sum over i of w_i(j) dY[i], axis by axis from the last
inline status resize_grad_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    for (int i = 1; i < c.inputs; ++i)
        if (unknown(c, i)) return c.defer();
    if (!c.has_attribute("shape") || c.integers("shape").size != c.in[0].extents.rank()) return c.fail_shapes("shape must have the rank of dY");
    const resized_forward forward(c);
    resize_plan p;
    if (elements_of(forward.in[0].extents) < 0) return c.fail_shapes("the extents of shape overflow");
    GRAFT_TRY(read_resize(forward.context(c), p));
    if (p.out != c.in[0].extents) return c.fail_shapes("dY must have the shape that Resize gives");
    return c.set(0, c.in[0].type, forward.in[0].extents);
}
// One pass back: `from` has p.out[d] elements along axis d, `to` those of `s`.
inline void resize_axis_back(const resize_plan& p, const shape& s, int d, double* weights, const double* from, double* to) noexcept {
    const bool nearest = p.mode == interpolation_mode::nearest;
    const std::int64_t taps = nearest ? 1 : kernel_taps(p, d), n = s[d], m = p.out[d], outer = s.product(0, d), inner = s.product(d + 1, s.rank());
    std::fill(to, to + outer * n * inner, 0.0);
    for (std::int64_t i = 0; i < m; ++i) {
        bool outside = false;
        double first = 0;
        weights[0] = 1;
        if (nearest)
            first = static_cast<double>(nearest_index(p, s, d, source_coordinate(p, s, d, i, outside)));
        else
            first = resize_weights(p, s, d, i, weights, outside);
        for (std::int64_t k = 0; k < taps && !outside; ++k) {
            if (weights[k] == 0) continue;
            const std::int64_t j = clamp_index(first + static_cast<double>(k), n);
            for (std::int64_t o = 0; o < outer; ++o) {
                const double* row = from + (o * m + i) * inner;
                double* sum = to + (o * n + j) * inner;
                for (std::int64_t r = 0; r < inner; ++r) sum[r] += weights[k] * row[r];
            }
        }
    }
}
inline status resize_grad_run(run_context& c) {
    if (c.out[0].elements() == 0) return {};
    const resized_forward forward(c);
    resize_plan p;
    GRAFT_TRY(read_resize(forward.context(c), p));
    // The shapes between the forward's passes, and the largest.
    const shape& x = c.out[0].extents;
    shape between[shape::max_rank + 1];
    std::int64_t most = std::max(x.elements(), c.in[0].elements()), taps = 1;
    between[0] = x;
    for (int d = 0; d < x.rank(); ++d) {
        between[d + 1] = between[d];
        if (!p.resized[d]) continue;
        between[d + 1][d] = p.out[d];
        const std::int64_t n = elements_of(between[d + 1]);
        if (n < 0) return c.fail_shapes("a tensor between two axes overflows");
        most = std::max(most, n);
        if (p.mode != interpolation_mode::nearest) taps = std::max(taps, kernel_taps(p, d));
    }
    buffer memory[3];
    for (buffer& b : memory) GRAFT_TRY_ASSIGN(b, c.scratch(checked_mul(&b == &memory[2] ? taps : most, 8)));
    double *from = reinterpret_cast<double*>(memory[0].data()), *to = reinterpret_cast<double*>(memory[1].data());
    load_as_double(c.in[0].type, c.in[0].data, 0, c.in[0].elements(), from);
    for (int d = x.rank() - 1; d >= 0; --d) {
        if (!p.resized[d]) continue;
        resize_axis_back(p, between[d], d, reinterpret_cast<double*>(memory[2].data()), from, to);
        std::swap(from, to);
    }
    store_from_double(c.out[0].type, c.out[0].data, 0, x.elements(), from);
    return {};
}

inline gradient_table resize_gradients() {
    static constexpr gradient_row rows[] = {{"Resize", "", resize_gradient, resize_flows}, {"Upsample", "", resize_gradient, resize_flows}};
    return rows;
}
inline op_table resize_training_ops() {
    static constexpr op_row rows[] = {
        own("ResizeGrad")
            .inputs(1, 4)
            .functions(resize_grad_infer, resize_grad_run)
            .attributes("antialias:i axes:is coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i extrapolation_value:f "
                        "keep_aspect_ratio_policy:s mode:s nearest_mode:s scales:fs "
                        "shape:is version:i")
            .problems("f32[1,2,6,4] - - i64{1,2,6,4} shape=1,2,3,5; f32[1,1,2,2] - f32{1,1,0.6,0.6} shape=1,1,4,4 mode=linear "
                      "coordinate_transformation_mode=align_corners; "
                      "f32[1,1,4,6] - f32{0.8,1.3} mode=cubic axes=2,3 antialias=1 shape=1,1,5,5; f64[2,8,6] - f32{1,2,2} shape=2,4,3 mode=linear; "
                      "f32[1,1,3,4] f32{1,1,1,2} shape=1,1,3,2 version=10; "
                      "f32[0,1,6,6] - f32{1,1,2,2} shape=0,1,3,3 mode=linear"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_resize(batch_carrier& c) {
    if (!c.only(1)) return false;
    const int axis = c.state(0).axis;
    if (c.output_extents()[axis] != c.extent(0)) return c.conflict("it resizes along the samples");
    std::vector<std::int64_t> sizes, axes;
    const bool sized = c.has(3) && c.value_in(3).extents.elements() > 0;
    if (sized && !c.integers("", 3, sizes)) return c.conflict("its sizes depend on contents");
    if (!c.integers("axes", -1, axes))
        for (int a = 0; a < c.extents(0).rank(); ++a) axes.push_back(a);
    if (!count_from_front(axes, c.extents(0).rank())) return c.conflict("its axis is out of range");
    if (sized && is_among(axes, axis)) c.change = batch_change::sizes;
    return c.answer(0, c.state(0));
}

inline op_table resize_ops() {
    static constexpr op_row rows[] = {
        onnx("Upsample")
            .opsets(7, 8)
            .inputs(1)
            .functions(resize_infer, resize_run)
            .carries(carry_resize)
            .attributes("mode:s scales:fs")
            .problems("f32[1,2,3,4] scales=1,1,2,2 @8; f32[1,1,2,3] scales=1,1,1.5,3 mode=linear @7"),
        onnx("Upsample")
            .opsets(9, 9)
            .inputs(2)
            .functions(resize_infer, resize_run)
            .carries(carry_resize)
            .attributes("mode:s")
            .problems("u8[1,2,3,4] f32{1,1,2,3} @9; f32[1,1,2,2] f32{1,1,2,2} mode=bilinear @9"),
        onnx("Resize")
            .opsets(10, 10)
            .inputs(2)
            .functions(resize_infer, resize_run)
            .carries(carry_resize)
            .attributes("mode:s")
            .problems("f32[1,2,3,4] f32{1,1,2,0.5} @10; f32[1,1,2,2] f32{1,1,2,2} mode=linear @10"),
        onnx("Resize")
            .opsets(11)
            .inputs(1, 4)
            .functions(resize_infer, resize_run)
            .carries(carry_resize)
            .attributes("antialias:i axes:is coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i extrapolation_value:f "
                        "keep_aspect_ratio_policy:s mode:s nearest_mode:s")
            .problems("f32[1,2,3,5] - - i64{1,2,6,4}; f32[1,1,4,4] - f32{1,1,0.6,0.6} mode=linear "
                      "coordinate_transformation_mode=align_corners; "
                      "f32[1,1,5,5] - f32{0.8,1.3} mode=cubic axes=2,3 antialias=1; u8[2,4,3] - - i64{2,7,3} mode=linear; "
                      "f32[1,1,4,4] f32{0.1,-0.2,0.8,1.2} - i64{3,3} mode=linear axes=2,3 "
                      "coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=5; "
                      "f32[0,1,3,3] - f32{1,1,2,2} mode=linear"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
