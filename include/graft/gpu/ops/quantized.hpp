// Arithmetic on quantised tensors as products and convolutions of whole numbers in float32, whose sums are exact.
#pragma once

#include "quantize.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// ConvInteger, QLinearConv, MatMulInteger and QLinearMatMul of ops/quantized.hpp. A sum that may pass 2^24 is taken in parts, which are
/// added as int32; the products have an attribute "exact", by which kernels neither round their factors nor transform them.
decomposition_table quantized_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/quantized.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

constexpr double most_exact = 16777216;  ///< whole numbers up to here are float32, whatever the order they are added in
constexpr std::int64_t most_sum_parts = 16;

// The least and the most that an input may hold.
inline void range_of(const op_context& c, int i, double& low, double& high) {
    ops::quantized_range(c.in[i].type, low, high);
    const std::int64_t n = c.in[i].data ? c.in[i].elements() : 0;
    for (std::int64_t k = 0; k < n; ++k) {
        const double x = c.in[i].real(k);
        low = k ? std::min(low, x) : x;
        high = k ? std::max(high, x) : x;
    }
}
// How far input i may lie from its zero point, input z.
inline double most_of(const op_context& c, int i, int z) {
    double low = 0, high = 0, least = 0, most = 0;
    range_of(c, i, low, high);
    if (c.has(z)) range_of(c, z, least, most);
    return std::max(std::fabs(low - most), std::fabs(high - least));
}
inline bool known(const op_context& c, int i, int z) { return c.in[i].data && (!c.has(z) || c.in[z].data); }

// Input i less its zero point, in float32. `along`: the zero point's extents, so that it is broadcast.
inline value_id centred(const decomposition& d, int i, int z, const shape& along) {
    emitter& e = d.build;
    const value_id x = d.cast(d.in[static_cast<std::size_t>(i)], dtype::float32);
    return d.c.has(z) ? e.sub(x, e.reshape(d.cast(d.in[static_cast<std::size_t>(z)], dtype::float32), along)) : x;
}
inline value_id slice(const decomposition& d, value_id x, std::int64_t axis, std::int64_t first, std::int64_t last) {
    if (!d.build.failure.ok() || (first == 0 && last == d.build.extents(x)[static_cast<int>(axis)])) return x;
    return d.build.apply("Slice", {x, d.build.integers({first}), d.build.integers({last}), d.build.integers({axis})});
}
inline value_id whole(const decomposition& d, const char* op, value_id a, value_id b, std::vector<attribute> attributes) {
    const value_id y = d.build.apply(op, {a, b}, std::move(attributes));
    if (y != no_value) d.build.target().nodes.back().attributes.push_back(integer_attribute("exact", 1));
    return d.cast(y, dtype::int32);
}

// Terms of a sum, [results][terms]: into how many parts of neighbours it falls so that none may pass what is exact. 0: too many.
inline std::int64_t sum_parts(const std::vector<double>& sizes, std::int64_t terms, double factor, std::int64_t most_parts) {
    for (std::int64_t parts = 1; parts <= std::min(terms, most_parts); parts *= 2) {
        const std::int64_t of = (terms + parts - 1) / parts, results = static_cast<std::int64_t>(sizes.size()) / terms;
        bool fits = true;
        for (std::int64_t r = 0; r < results && fits; ++r)
            for (std::int64_t first = 0; first < terms && fits; first += of) {
                double sum = 0;
                for (std::int64_t k = first; k < std::min(terms, first + of); ++k) sum += sizes[static_cast<std::size_t>(r * terms + k)];
                fits = sum * factor <= most_exact;
            }
        if (fits) return parts;
    }
    return 0;
}

// saturate(round_half_even(float(sums) * scale) + zero)
inline value_id requantized(const decomposition& d, value_id sums, value_id scale, value_id zero, dtype type) {
    emitter& e = d.build;
    double low = 0, high = 0;
    ops::quantized_range(type, low, high);
    return d.cast(saturated(d, e.add(e.apply("Round", {e.mul(d.cast(sums, dtype::float32), scale)}), d.cast(zero, dtype::float32)), low, high), type);
}
inline bool scales_can_be_used(const op_context& c, std::initializer_list<int> scales, int divisor) {
    for (int i : scales)
        if (c.in[i].data && !ops::check_scales(c, i, i == divisor).ok()) return false;
    return true;
}

// The int32 sums of a convolution of input x_at with the weights w_at.
inline const char* integer_convolution(const decomposition& d, int x_at, int x_zero, int w_at, int w_zero, value_id& sums) {
    const op_context& c = d.c;
    const shape w = c.in[w_at].extents;
    const std::int64_t channels = w[1], taps = w.product(2, w.rank());
    // The weights by output and input channel: as they are, or as large as they may be.
    std::vector<double> sizes(static_cast<std::size_t>(known(c, w_at, w_zero) ? w[0] * channels : channels), 0);
    const double largest = most_of(c, w_at, w_zero), factor = most_of(c, x_at, x_zero);
    for (std::size_t k = 0; k < sizes.size(); ++k)
        for (std::int64_t t = 0; t < taps; ++t) {
            const std::int64_t at = static_cast<std::int64_t>(k) * taps + t, m = static_cast<std::int64_t>(k) / channels;
            const double zero = known(c, w_at, w_zero) && c.has(w_zero) ? c.in[w_zero].real(c.in[w_zero].elements() == 1 ? 0 : m) : 0;
            sizes[k] += known(c, w_at, w_zero) ? std::fabs(c.in[w_at].real(at) - zero) : largest;
        }
    const std::int64_t parts = sum_parts(sizes, channels, factor, c.integer("group", 1) == 1 ? most_sum_parts : 1);
    if (!parts) return "its sums may be too large to be exact in float32";
    shape along = shape::filled(w.rank(), 1);
    if (c.has(w_zero) && c.in[w_zero].elements() != 1) along[0] = w[0];
    const value_id x = centred(d, x_at, x_zero, shape{}), weights = centred(d, w_at, w_zero, along);
    std::vector<attribute> attributes;
    for (const char* name : {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"})
        if (const attribute* a = c.n.find(name)) attributes.push_back(*a);
    const std::int64_t of = (channels + parts - 1) / parts;
    for (std::int64_t first = 0; first < channels; first += of) {
        const std::int64_t last = std::min(channels, first + of);
        const value_id part = whole(d, "Conv", parts == 1 ? x : slice(d, x, 1, first, last), slice(d, weights, 1, first, last), attributes);
        sums = first ? d.build.add(sums, part) : part;
    }
    return nullptr;
}
inline const char* decompose_conv_integer(decomposition& d) { return d.any_empty() ? "it is empty" : integer_convolution(d, 0, 2, 1, 3, d.out[0]); }
inline const char* decompose_qlinear_conv(decomposition& d) {
    const op_context& c = d.c;
    emitter& e = d.build;
    if (d.any_empty()) return "it is empty";
    if (!scales_can_be_used(c, {1, 4, 6}, 6)) return "one of its scales is zero or not a number";
    value_id sums = no_value;
    if (const char* why = integer_convolution(d, 0, 2, 3, 5, sums)) return why;
    shape along = shape::filled(c.in[3].extents.rank(), 1);
    along[1] = c.in[3].extents[0];
    // With a bias a sum may pass what int32 holds.
    if (c.has(8)) sums = e.add(d.cast(sums, dtype::int64), d.cast(e.reshape(d.in[8], along), dtype::int64));
    const value_id w_scale = c.in[4].elements() == 1 ? e.reshape(d.in[4], shape{}) : e.reshape(d.in[4], along);
    const value_id scale = e.div(e.mul(e.reshape(d.in[1], shape{}), w_scale), e.reshape(d.in[6], shape{}));
    d.out[0] = requantized(d, sums, scale, e.reshape(d.in[7], shape{}), c.out[0].type);
    return nullptr;
}

// The extents in which a matrix's parameter is broadcast to it, or to the product: one for all, or for each row or column.
inline shape matrix_parameter_extents(const op_context& c, int i, bool by_row) {
    const shape& p = c.in[i].extents;
    if (c.in[i].elements() == 1) return {};
    if (p.rank() == 1) return by_row ? shape{p[0], 1} : p;
    return p;
}
inline const char* integer_product(const decomposition& d, int a, int a_zero, int b, int b_zero, value_id& sums) {
    const op_context& c = d.c;
    const shape &left = c.in[a].extents, &right = c.in[b].extents;
    if (left.rank() < 2 || right.rank() < 2) return "a factor that is a vector";
    const std::int64_t terms = left.back(), columns = right.back(), batches = right.product(0, right.rank() - 2);
    const bool exact_sizes = known(c, b, b_zero) && (!c.has(b_zero) || c.in[b_zero].elements() == 1);
    std::vector<double> sizes(static_cast<std::size_t>(exact_sizes ? batches * columns * terms : terms), most_of(c, b, b_zero));
    for (std::size_t k = 0; exact_sizes && k < sizes.size(); ++k) {
        const std::int64_t result = static_cast<std::int64_t>(k) / terms, term = static_cast<std::int64_t>(k) % terms;
        sizes[k] = std::fabs(c.in[b].real((result / columns * terms + term) * columns + result % columns) - (c.has(b_zero) ? c.in[b_zero].real(0) : 0));
    }
    const std::int64_t parts = sum_parts(sizes, terms, most_of(c, a, a_zero), most_sum_parts);
    if (!parts) return "its sums may be too large to be exact in float32";
    const value_id x = centred(d, a, a_zero, c.has(a_zero) ? matrix_parameter_extents(c, a_zero, true) : shape{});
    const value_id y = centred(d, b, b_zero, c.has(b_zero) ? matrix_parameter_extents(c, b_zero, false) : shape{});
    const std::int64_t of = (terms + parts - 1) / parts;
    for (std::int64_t first = 0; first < terms; first += of) {
        const std::int64_t last = std::min(terms, first + of);
        const value_id part = whole(d, "MatMul", slice(d, x, left.rank() - 1, first, last), slice(d, y, right.rank() - 2, first, last), {});
        sums = first ? d.build.add(sums, part) : part;
    }
    return nullptr;
}
inline const char* decompose_matmul_integer(decomposition& d) { return d.any_empty() ? "it is empty" : integer_product(d, 0, 2, 1, 3, d.out[0]); }
inline const char* decompose_qlinear_matmul(decomposition& d) {
    const op_context& c = d.c;
    emitter& e = d.build;
    if (d.any_empty()) return "it is empty";
    for (int i : {0, 3, 7})
        if (c.in[i].type != dtype::int8 && c.in[i].type != dtype::uint8) return "its types are not integers of 8 bits";
    if (!scales_can_be_used(c, {1, 4, 6}, 6)) return "one of its scales is zero or not a number";
    value_id sums = no_value;
    if (const char* why = integer_product(d, 0, 2, 3, 5, sums)) return why;
    const auto parameter = [&](int i, bool by_row) {
        return e.reshape(d.cast(d.in[static_cast<std::size_t>(i)], dtype::float32), matrix_parameter_extents(c, i, by_row));
    };
    const value_id scale = e.div(e.mul(parameter(1, true), parameter(4, false)), parameter(6, true));
    d.out[0] = requantized(d, sums, scale, parameter(7, true), c.out[0].type);
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE decomposition_table quantized_decompositions() {
    static constexpr decomposition_row rows[] = {
        {"ConvInteger", "", detail::decompose_conv_integer, true},
        {"QLinearConv", "", detail::decompose_qlinear_conv, true},
        {"MatMulInteger", "", detail::decompose_matmul_integer, true},
        {"QLinearMatMul", "", detail::decompose_qlinear_matmul, true},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
