// Signals: DFT and STFT by fast Fourier transforms of any length, and MelWeightMatrix.
#pragma once

#include "indexing.hpp"
#include "window.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// A forward Fourier transform of `n` complex numbers: radix 2 where n is a power of two, else Bluestein's chirp convolution.
struct fourier {
    std::int64_t n = 0, m = 0;  ///< m: the power of two that is worked in
    buffer memory;
    double *roots = nullptr, *chirp = nullptr, *kernel = nullptr, *work = nullptr;  ///< pairs: m / 2, n, m, m

    static constexpr double pi = 3.14159265358979323846;

    GRAFT_NOINLINE status make(const run_context& c, std::int64_t length) {
        n = length;
        m = 1;
        // 2^40 numbers are far over any memory limit, which scratch memory then refuses.
        while (m < n && m < std::int64_t(1) << 40) m *= 2;
        if (m != n)
            while (m < 2 * n - 1 && m < std::int64_t(1) << 41) m *= 2;
        const std::int64_t chirps = m == n ? 0 : n, kernels = m == n ? 0 : m;
        GRAFT_TRY(scratch_of(c, checked_mul(checked_add(checked_add(m, chirps), checked_mul(kernels, 2)), 2), memory, roots));
        chirp = roots + m;
        kernel = roots + 2 * m;
        for (std::int64_t k = 0; k < m / 2; ++k) set(roots, k, -2 * pi * static_cast<double>(k) / static_cast<double>(m));
        if (m == n) return {};
        kernel = chirp + 2 * n;
        work = kernel + 2 * m;
        for (std::int64_t k = 0; k < n; ++k) set(chirp, k, pi * static_cast<double>(k * k % (2 * n)) / static_cast<double>(n));
        std::fill(kernel, kernel + 2 * m, 0.0);
        for (std::int64_t k = 0; k < n; ++k)
            for (int part = 0; part < 2; ++part) kernel[2 * k + part] = kernel[2 * ((m - k) % m) + part] = chirp[2 * k + part];
        radix2(kernel);
        return {};
    }
    static void set(double* pairs, std::int64_t k, double angle) noexcept {
        pairs[2 * k] = std::cos(angle);
        pairs[2 * k + 1] = std::sin(angle);
    }
    static void multiply(double* a, double real, double imaginary) noexcept {
        const double x = a[0] * real - a[1] * imaginary;
        a[1] = a[0] * imaginary + a[1] * real;
        a[0] = x;
    }
    GRAFT_NOINLINE void radix2(double* x) const noexcept {
        for (std::int64_t i = 1, j = 0; i < m; ++i) {
            std::int64_t bit = m >> 1;
            for (; j & bit; bit >>= 1) j ^= bit;
            j ^= bit;
            if (i < j) {
                std::swap(x[2 * i], x[2 * j]);
                std::swap(x[2 * i + 1], x[2 * j + 1]);
            }
        }
        for (std::int64_t half = 1; half < m; half *= 2)
            for (std::int64_t start = 0; start < m; start += 2 * half)
                for (std::int64_t k = 0; k < half; ++k) {
                    double *a = x + 2 * (start + k), *b = a + 2 * half;
                    const double* root = roots + 2 * k * (m / (2 * half));
                    multiply(b, root[0], root[1]);
                    const double real = b[0], imaginary = b[1];
                    b[0] = a[0] - real;
                    b[1] = a[1] - imaginary;
                    a[0] += real;
                    a[1] += imaginary;
                }
    }
    /// Transforms the n pairs at `x` in place.
    GRAFT_NOINLINE void forward(double* x) const noexcept {
        if (m == n) return radix2(x);
        std::fill(work + 2 * n, work + 2 * m, 0.0);
        for (std::int64_t k = 0; k < n; ++k) {
            work[2 * k] = x[2 * k];
            work[2 * k + 1] = x[2 * k + 1];
            multiply(work + 2 * k, chirp[2 * k], -chirp[2 * k + 1]);
        }
        radix2(work);
        // The inverse transform is the forward one between conjugations.
        for (std::int64_t k = 0; k < m; ++k) {
            multiply(work + 2 * k, kernel[2 * k], kernel[2 * k + 1]);
            work[2 * k + 1] = -work[2 * k + 1];
        }
        radix2(work);
        for (std::int64_t k = 0; k < n; ++k) {
            x[2 * k] = work[2 * k] / static_cast<double>(m);
            x[2 * k + 1] = -work[2 * k + 1] / static_cast<double>(m);
            multiply(x + 2 * k, chirp[2 * k], -chirp[2 * k + 1]);
        }
    }
};

/// Fails with op.type or op.shape unless input `i` holds one int64, or one int32 where that is allowed.
inline status check_one_integer(const op_context& c, int i, bool int32_too = true) {
    GRAFT_TRY(check_index_type(c, i, int32_too));
    return check_scalar(c, i);
}

/// Sizes of a DFT: [outer][length][inner][parts] becomes [outer][bins][inner][out_parts].
struct dft_plan {
    int axis = 0;
    std::int64_t n = 0, bins = 0;
    bool inverse = false, onesided = false, unknown = false;
};
GRAFT_NOINLINE inline status plan_dft(const op_context& c, dft_plan& p) {
    const shape& x = c.in[0].extents;
    if (x.rank() < 2 || (x.back() != 1 && x.back() != 2)) return c.fail_shapes("the input must be [..., length, ..., 1 or 2]");
    p.inverse = c.integer("inverse", 0) != 0;
    p.onesided = c.integer("onesided", 0) != 0;
    if (p.inverse && p.onesided && x.back() != 2) return c.fail_shapes("the inverse of a one-sided transform needs complex input");
    std::int64_t axis = c.version() < 20 ? c.integer("axis", 1) : -2;
    for (int i = 1; i < 3; ++i) {
        if (!c.has(i)) continue;
        GRAFT_TRY(check_one_integer(c, i, i == 1));
        if (!c.in[i].data) return p.unknown = true, status();
    }
    if (c.has(2)) axis = c.in[2].integer(0);
    GRAFT_TRY(c.axis(axis, x.rank(), p.axis));
    if (p.axis == x.rank() - 1) return c.fail(errc::op_attribute, "axis %lld is that of the real and imaginary parts", axis);
    const std::int64_t length = x[p.axis];
    p.n = c.has(1) ? c.in[1].integer(0) : p.inverse && p.onesided ? checked_mul(std::max<std::int64_t>(length - 1, 0), 2) : length;
    if (p.n < 1) return c.fail(errc::op_value, "the length of the transform is %lld", p.n);
    p.bins = p.onesided && !p.inverse ? p.n / 2 + 1 : p.n;
    return {};
}

// DFT-17,20: X[k] = sum over t of x[t] * exp(-2 pi i k t / n); inverse: exp(+...), divided by n; onesided: the first n / 2 + 1
// bins
inline status dft_infer(infer_context& c) {
    dft_plan p;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(plan_dft(c, p));
    if (p.unknown) return c.defer();
    shape y = c.in[0].extents;
    y[p.axis] = p.bins;
    y[y.rank() - 1] = p.inverse && p.onesided ? 1 : 2;
    return c.set(0, c.in[0].type, y);
}
inline status dft_run(run_context& c) {
    dft_plan p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_dft(c, p));
    const shape &x = c.in[0].extents, &y = c.out[0].extents;
    const std::int64_t parts = x.back(), out_parts = y.back(), length = x[p.axis], outer = x.product(0, p.axis), inner = x.product(p.axis + 1, x.rank() - 1);
    fourier f;
    GRAFT_TRY(f.make(c, p.n));
    buffer memory;
    double* line = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(p.n, 2), memory, line));
    const std::int64_t used = std::min(length, p.inverse && p.onesided ? p.n / 2 + 1 : p.n);
    const double sign = p.inverse ? -1 : 1, factor = p.inverse ? 1 / static_cast<double>(p.n) : 1;
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t i = 0; i < inner; ++i) {
            std::fill(line, line + 2 * p.n, 0.0);
            for (std::int64_t t = 0; t < used; ++t) {
                load_as_double(c.in[0].type, c.in[0].data, ((o * length + t) * inner + i) * parts, parts, line + 2 * t);
                line[2 * t + 1] *= sign;
            }
            if (p.inverse && p.onesided) {
                // The other half of the spectrum of a real signal; the parts that cannot be there are dropped.
                line[1] = 0;
                if (p.n % 2 == 0) line[p.n + 1] = 0;
                for (std::int64_t t = p.n / 2 + 1; t < p.n; ++t) {
                    line[2 * t] = line[2 * (p.n - t)];
                    line[2 * t + 1] = -line[2 * (p.n - t) + 1];
                }
            }
            f.forward(line);
            for (std::int64_t k = 0; k < p.bins; ++k) {
                const double pair[] = {line[2 * k] * factor, sign * line[2 * k + 1] * factor};
                store_from_double(c.out[0].type, c.out[0].data, ((o * p.bins + k) * inner + i) * out_parts, out_parts, pair);
            }
        }
    return {};
}

/// Sizes of an STFT.
struct stft_plan {
    std::int64_t step = 0, frame = 0, frames = 0, bins = 0;
    bool unknown = false;
};
GRAFT_NOINLINE inline status plan_stft(const op_context& c, stft_plan& p) {
    const shape& x = c.in[0].extents;
    if (x.rank() != 3 || (x[2] != 1 && x[2] != 2)) return c.fail_shapes("the signal must be [batch, length, 1 or 2]");
    GRAFT_TRY(check_one_integer(c, 1));
    if (c.has(3)) GRAFT_TRY(check_one_integer(c, 3));
    GRAFT_TRY(check_same_type(c, 3, 1));
    if (c.has(2) && c.in[2].extents.rank() != 1) return c.fail_shapes("the window must be a vector");
    if (!c.in[1].data || (c.has(3) && !c.in[3].data)) return p.unknown = true, status();
    p.step = c.in[1].integer(0);
    p.frame = c.has(3) ? c.in[3].integer(0) : c.has(2) ? c.in[2].extents[0] : x[1];
    if (p.step < 1 || p.frame < 1) return c.fail(errc::op_value, "frame_step is %lld and frame_length %lld, but both must be at least 1", p.step, p.frame);
    if (p.frame > x[1]) return c.fail(errc::op_value, "frame_length %lld is more than the signal's length %lld", p.frame, x[1]);
    GRAFT_TRY(check_vector(c, 2, p.frame));
    p.frames = (x[1] - p.frame) / p.step + 1;
    p.bins = c.integer("onesided", 1) ? p.frame / 2 + 1 : p.frame;
    return {};
}

// STFT-17: the transforms of frames of the signal, `frame_step` apart, each times the window
inline status stft_infer(infer_context& c) {
    stft_plan p;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 2, 0));
    GRAFT_TRY(plan_stft(c, p));
    if (p.unknown) return c.defer();
    return c.set(0, c.in[0].type, {c.in[0].extents[0], p.frames, p.bins, 2});
}
inline status stft_run(run_context& c) {
    stft_plan p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_stft(c, p));
    const std::int64_t batch = c.in[0].extents[0], length = c.in[0].extents[1], parts = c.in[0].extents[2];
    fourier f;
    GRAFT_TRY(f.make(c, p.frame));
    widened<double> x, window_values;
    GRAFT_TRY(widen(c, c.in[0], x));
    if (c.has(2)) GRAFT_TRY(widen(c, c.in[2], window_values));
    buffer memory;
    double* line = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(p.frame, 2), memory, line));
    for (std::int64_t r = 0; r < batch * p.frames; ++r) {
        const double* source = x.data + (r / p.frames * length + r % p.frames * p.step) * parts;
        for (std::int64_t t = 0; t < p.frame; ++t) {
            const double weight = window_values.data ? window_values.data[t] : 1.0;
            line[2 * t] = source[t * parts] * weight;
            line[2 * t + 1] = parts == 2 ? source[t * parts + 1] * weight : 0.0;
        }
        f.forward(line);
        store_from_double(c.out[0].type, c.out[0].data, r * p.bins * 2, p.bins * 2, line);
    }
    return {};
}

// MelWeightMatrix-17: triangles that sum the bins of a spectrum into bands, evenly spaced in mel = 2595 * log10(1 + hertz / 700)
inline status mel_infer(infer_context& c) {
    for (int i = 0; i < 5; ++i) {
        if (i < 3)
            GRAFT_TRY(check_one_integer(c, i));
        else
            GRAFT_TRY(check_real(c, i));
        GRAFT_TRY(check_same_type(c, i, i < 3 ? 0 : 3));
        if (elements_of(c.in[i].extents) != 1) return c.fail(errc::op_shape, "input %lld must hold one element", i);
    }
    const std::int64_t type = c.integer("output_datatype", 1);
    if (type < 1 || type > 26 || (!is_integer(static_cast<dtype>(type)) && !is_arithmetic_float(static_cast<dtype>(type))))
        return refuse_type_number(c, errc::op_attribute, "output_datatype %s is no number type", type);
    if (!c.in[0].data || !c.in[1].data) return c.defer();
    const std::int64_t bands = c.in[0].integer(0), length = c.in[1].integer(0);
    if (bands < 0 || bands > std::int64_t(1) << 40 || length < 1 || length > std::int64_t(1) << 40)
        return c.fail(errc::op_value, "num_mel_bins is %lld and dft_length %lld", bands, length);
    return c.set(0, static_cast<dtype>(type), {length / 2 + 1, bands});
}
inline std::int64_t mel_edge(double low, double step, std::int64_t i, std::int64_t length, double rate) {
    const double hertz = 700 * std::expm1((static_cast<double>(i) * step + low) / 2595 * std::log(10.0));
    return cut(std::floor(static_cast<double>(length + 1) * hertz / rate));
}
inline GRAFT_COLD status mel_run(run_context& c) {
    const std::int64_t bands = c.in[0].integer(0), length = c.in[1].integer(0), bins = length / 2 + 1, rate = c.in[2].integer(0);
    if (is_empty(c.out[0])) return {};
    if (rate < 1) return c.fail(errc::op_value, "sample_rate is %lld", rate);
    const double low = 2595 * std::log1p(c.in[3].real(0) / 700) / std::log(10.0), high = 2595 * std::log1p(c.in[4].real(0) / 700) / std::log(10.0);
    const double step = (high - low) / static_cast<double>(bands + 2);
    std::memset(c.out[0].data, 0, static_cast<std::size_t>(bytes_of(c.out[0].type, c.out[0].extents)));
    for (std::int64_t i = 0; i < bands; ++i) {
        std::int64_t edge[3];
        for (int k = 0; k < 3; ++k) {
            edge[k] = mel_edge(low, step, i + k, length, static_cast<double>(rate));
            if (edge[k] < 0 || edge[k] > bins || (k == 1 && edge[k] == bins) || (k && edge[k] < edge[k - 1]))
                return c.fail(errc::op_value, "an edge of band %lld lies at bin %lld, outside the %lld bins of the spectrum", i, edge[k], bins);
        }
        for (std::int64_t j = edge[0]; j < std::max(edge[2], edge[1] + 1); ++j) {
            double y = 1;
            if (j < edge[1])
                y = static_cast<double>(j - edge[0]) / static_cast<double>(edge[1] - edge[0]);
            else if (edge[2] > edge[1])
                y = static_cast<double>(edge[2] - j) / static_cast<double>(edge[2] - edge[1]);
            store_from_double(c.out[0].type, c.out[0].data, j * bands + i, 1, &y);
        }
    }
    return {};
}

inline op_table signal_ops() {
    static constexpr op_row rows[] = {
        onnx("DFT")
            .opsets(17, 19)
            .inputs(1, 2)
            .functions(dft_infer, dft_run)
            .combines()
            .attributes("axis:i inverse:i onesided:i")
            .problems("f32[1,16,1] @17; f32[2,10,3,2] axis=1 inverse=1 @19; f32[1,9,1] i64(12) onesided=1 @17"),
        onnx("DFT")
            .opsets(20)
            .inputs(1, 3)
            .functions(dft_infer, dft_run)
            .combines()
            .attributes("inverse:i onesided:i")
            .problems("f32[1,16,1]; f32[2,10,3,2] - i64(1) inverse=1; f32[1,7,2] i64(12) onesided=1 inverse=1; f32[0,5,1]; "
                      "f32[1,13,2] i64(5)"),
        onnx("STFT")
            .opsets(17)
            .inputs(2, 4)
            .functions(stft_infer, stft_run)
            .combines()
            .attributes("onesided:i")
            .problems("f32[1,64,1] i64(8) - i64(16); f32[2,30,2] i64(7) f32[12] onesided=0; f32[0,16,1] i64(4) - i64(8)"),
        onnx("MelWeightMatrix")
            .opsets(17)
            .inputs(5)
            .functions(mel_infer, mel_run)
            .attributes("output_datatype:i")
            .problems("i32(8) i32(16) i32(8192) f32(0) f32(4096); i64(0) i64(16) i64(8192) f32(0) f32(4096)"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
