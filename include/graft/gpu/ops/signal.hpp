// DFT and STFT as products with matrices of cosines and sines.
#pragma once

#include "../lower/decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// DFT and STFT of ops/signal.hpp up to a length of 2048: for those a product is as fast as it is exact. Its factors are never rounded.
decomposition_table signal_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/signal.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

constexpr std::int64_t longest_transform = 2048, most_transform_elements = std::int64_t(1) << 23;

/// A transform of `n` numbers, of which `used` are given, in `parts` of each; `bins` are wanted, in `out_parts`.
struct transform {
    std::int64_t n = 0, used = 0, parts = 1, bins = 0, out_parts = 2;
    bool inverse = false, onesided = false;

    const char* refuse() const {
        if (n > longest_transform || checked_mul(used * parts, bins * out_parts) > most_transform_elements)
            return "a transform that is too long to be a product";
        return used ? nullptr : "it is empty";
    }
    // How much of part q of bin k the part p of number t is: x[t] times a root of one, of which a real answer has the real part.
    double factor(double cosine, double sine, std::int64_t t, std::int64_t p, std::int64_t q) const {
        if (inverse) sine = -sine;
        const double value = (p == q ? cosine : p ? sine : -sine) / (inverse ? static_cast<double>(n) : 1);
        if (!inverse || !onesided) return value;
        // The other half of the spectrum is the conjugate of this one; what cannot be there is dropped.
        return t != 0 && 2 * t != n ? 2 * value : p ? 0 : value;
    }
    // [used * parts, bins * out_parts].
    value_id matrix(const decomposition& d, dtype type) const {
        const std::int64_t columns = bins * out_parts;
        const value_id made = d.constant(type, {used * parts, columns});
        if (made == no_value) return made;
        tensor& data = d.build.target().at(made).constant;
        std::vector<double> cosines, sines, row(static_cast<std::size_t>(columns));
        for (std::int64_t i = 0; i < n; ++i) {
            const double angle = 2 * ops::fourier::pi * static_cast<double>(i) / static_cast<double>(n);
            cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
        }
        for (std::int64_t i = 0; i < used * parts; ++i) {
            for (std::int64_t j = 0; j < columns; ++j) {
                const auto turn = static_cast<std::size_t>(i / parts * (j / out_parts) % n);
                row[static_cast<std::size_t>(j)] = factor(cosines[turn], sines[turn], i / parts, i % parts, j % out_parts);
            }
            store_from_double(type, data.raw(), i * columns, columns, row.data());
        }
        return made;
    }
    // Of lines [count, used * parts].
    value_id apply(const decomposition& d, value_id lines, dtype type) const { return d.product(lines, false, matrix(d, type), false, type, 1, true); }
};

inline const char* decompose_dft(decomposition& d) {
    const op_context& c = d.c;
    ops::dft_plan p;
    if (!ops::plan_dft(c, p).ok() || p.unknown) return "its length or axis is computed in the graph";
    const shape &x = c.in[0].extents, &y = c.out[0].extents;
    if (y.elements() == 0 || x.elements() == 0) return "it is empty";
    const std::int64_t length = x[p.axis], outer = x.product(0, p.axis), inner = x.product(p.axis + 1, x.rank() - 1);
    transform f;
    f.n = p.n, f.parts = x.back(), f.bins = p.bins, f.out_parts = y.back(), f.inverse = p.inverse, f.onesided = p.onesided;
    f.used = std::min(length, p.inverse && p.onesided ? p.n / 2 + 1 : p.n);
    if (const char* why = f.refuse()) return why;
    const dtype type = c.in[0].type == dtype::float64 ? dtype::float64 : dtype::float32;
    value_id v = d.build.reshape(d.cast(d.in[0], type), {outer, length, inner, f.parts});
    if (f.used < length) v = d.build.apply("Slice", {v, d.build.integers({0}), d.build.integers({f.used}), d.build.integers({1})});
    if (inner > 1) v = d.transpose(v, {0, 2, 1, 3});
    v = d.build.reshape(f.apply(d, d.build.reshape(v, {outer * inner, f.used * f.parts}), type), {outer, inner, f.bins, f.out_parts});
    if (inner > 1) v = d.transpose(v, {0, 2, 1, 3});
    d.out[0] = d.cast(d.build.reshape(v, y), c.in[0].type);
    return nullptr;
}

inline const char* decompose_stft(decomposition& d) {
    const op_context& c = d.c;
    ops::stft_plan p;
    if (!ops::plan_stft(c, p).ok() || p.unknown) return "its step or length is computed in the graph";
    const shape &x = c.in[0].extents, &y = c.out[0].extents;
    if (y.elements() == 0) return "it is empty";
    transform f;
    f.n = p.frame, f.used = p.frame, f.parts = x[2], f.bins = p.bins;
    if (const char* why = f.refuse()) return why;
    const dtype type = c.in[0].type == dtype::float64 ? dtype::float64 : dtype::float32;
    const value_id begin = d.build.mul(d.numbers(0, {p.frames, 1}), d.build.integers({p.step}));
    value_id v = d.build.apply("Gather", {d.cast(d.in[0], type), d.build.add(begin, d.numbers(0, {1, p.frame}))}, {integer_attribute("axis", 1)});
    if (c.has(2)) v = d.build.mul(v, d.build.reshape(d.cast(d.in[2], type), {p.frame, 1}));
    d.out[0] = d.cast(d.build.reshape(f.apply(d, d.build.reshape(v, {x[0] * p.frames, p.frame * f.parts}), type), y), c.in[0].type);
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE decomposition_table signal_decompositions() {
    static constexpr decomposition_row rows[] = {{"DFT", "", detail::decompose_dft, true}, {"STFT", "", detail::decompose_stft, true}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
