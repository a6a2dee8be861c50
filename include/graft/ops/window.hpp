// Sliding windows over any number of spatial axes: attributes of convolutions and pools, padding rules, output sizes.
// Also what convolutions, pools and matrix products share: whole tensors as double or 64-bit integers.
#pragma once

#include "../graph/op.hpp"
#include "common.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Whether a tensor has no elements; loops over the other extents must not start then, since these may be anything.
inline bool is_empty(const tensor_view& t) noexcept { return elements_of(t.extents) == 0; }

/// Rounds a double to the precision of an arithmetic float type.
inline double round_to(dtype type, double x) noexcept {
    switch (type) {
    case dtype::float32: return static_cast<double>(static_cast<float>(x));
    case dtype::float16: return static_cast<double>(to_float(to_float16(x)));
    case dtype::bfloat16: return static_cast<double>(to_float(to_bfloat16(x)));
    default: return x;
    }
}

/// The elements of a tensor in another type, contiguous: double or 64-bit integers (unsigned, so that they wrap).
template <class T>
struct widened {
    buffer memory;
    const T* data = nullptr;
};

inline void load_widened(dtype type, const void* data, std::int64_t first, std::int64_t n, double* out) { load_as_double(type, data, first, n, out); }
inline void load_widened(dtype type, const void* data, std::int64_t first, std::int64_t n, std::uint64_t* out) {
    load_as_int64(type, data, first, n, reinterpret_cast<std::int64_t*>(out));
}
inline void store_widened(dtype type, void* data, std::int64_t first, std::int64_t n, const double* in) { store_from_double(type, data, first, n, in); }
inline void store_widened(dtype type, void* data, std::int64_t first, std::int64_t n, const std::uint64_t* in) {
    store_from_int64(type, data, first, n, reinterpret_cast<const std::int64_t*>(in));
}

/// Widens a whole tensor into scratch memory, once, so that loops over it are plain.
template <class T>
GRAFT_NOINLINE status widen(const run_context& c, const tensor_view& t, widened<T>& out) {
    if (t.type == dtype_of<T>::value) {
        out.data = t.as<T>();
        return {};
    }
    const std::int64_t n = std::max<std::int64_t>(elements_of(t.extents), 0);
    GRAFT_TRY_ASSIGN(out.memory, c.scratch(checked_mul(n, sizeof(T))));
    T* to = reinterpret_cast<T*>(out.memory.data());
    constexpr std::int64_t block = 1 << 16;
    parallel_for(c.pool, (n + block - 1) / block,
                 [&](std::int64_t i) { load_widened(t.type, t.data, i * block, std::min(block, n - i * block), to + i * block); });
    out.data = to;
    return {};
}

/// Scratch memory for `n` elements of T.
template <class T>
inline status scratch_of(const run_context& c, std::int64_t n, buffer& memory, T*& data) {
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(n, sizeof(T))));
    data = reinterpret_cast<T*>(memory.data());
    return {};
}

/// Walks a shape in row-major order and keeps an offset by other strides beside it: broadcasting, transposing, reducing.
struct strided_walk {
    int rank = 0;
    std::int64_t extent[shape::max_rank], stride[shape::max_rank], index[shape::max_rank];
    std::int64_t offset = 0;

    /// Over `target`, with `source` broadcast to it from the right; `source` must fit.
    strided_walk(const shape& target, const shape& source) noexcept : rank(target.rank()) {
        std::int64_t step = 1;
        for (int i = rank - 1, j = source.rank() - 1; i >= 0; --i, --j) {
            extent[i] = target[i];
            index[i] = 0;
            stride[i] = j >= 0 && source[j] != 1 ? step : 0;
            if (j >= 0) step *= source[j];
        }
    }
    void next() noexcept {
        for (int i = rank - 1; i >= 0; --i) {
            offset += stride[i];
            if (++index[i] < extent[i]) return;
            offset -= stride[i] * extent[i];
            index[i] = 0;
        }
    }
};

/// One spatial axis of a window: tap k of output o reads input o * stride - pad_begin + k * dilation.
struct window_axis {
    std::int64_t input, output, kernel, stride, dilation, pad_begin, pad_end;

    /// Length of input that the kernel spans.
    std::int64_t span() const noexcept { return (kernel - 1) * dilation + 1; }
    /// The taps [first, last) of output `o` that lie inside [-before, input + after).
    void taps(std::int64_t o, std::int64_t before, std::int64_t after, std::int64_t& first, std::int64_t& last) const noexcept {
        const std::int64_t start = o * stride - pad_begin, end = input + after;
        first = start >= -before ? 0 : (-before - start + dilation - 1) / dilation;
        last = start >= end ? 0 : std::min(kernel, (end - start + dilation - 1) / dilation);
        if (first > last) first = last;
    }
    /// The outputs [first, last) whose element under tap `t` lies in the input, at o * stride + `shift`.
    void outputs(std::int64_t t, std::int64_t& shift, std::int64_t& first, std::int64_t& last) const noexcept {
        shift = t * dilation - pad_begin;
        first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
        last = std::min(output, shift >= input ? 0 : (input - shift + stride - 1) / stride);
    }
};

/// The spatial axes of a convolution or pool.
struct window {
    int rank = 0;
    window_axis axis[shape::max_rank];

    std::int64_t inputs() const noexcept { return product(&window_axis::input); }
    std::int64_t outputs() const noexcept { return product(&window_axis::output); }
    std::int64_t taps() const noexcept { return product(&window_axis::kernel); }
    std::int64_t product(std::int64_t window_axis::*field) const noexcept {
        std::uint64_t n = 1;  // unsigned: an empty batch may have extents whose product wraps
        for (int i = 0; i < rank; ++i) n *= static_cast<std::uint64_t>(axis[i].*field);
        return static_cast<std::int64_t>(n);
    }
};

/// Reads an attribute of one integer an axis, each >= `least`, `otherwise` where it is absent.
GRAFT_NOINLINE inline status read_spatial(const op_context& c, const char* name, std::int64_t least, int count, std::int64_t otherwise, std::int64_t* out) {
    const integer_list list = c.integers(name);
    if (list.size && list.size != count)
        return c.fail(errc::op_attribute, "strides, dilations, pads or kernel_shape has %lld items, but %lld are needed", list.size, count);
    for (int i = 0; i < count; ++i) {
        out[i] = list.size ? list[i] : otherwise;
        if (out[i] < least || out[i] > std::int64_t(1) << 40)
            return c.fail(errc::op_attribute, "strides, dilations, pads or kernel_shape holds %lld, which is less than %lld or too large", out[i], least);
    }
    return {};
}

/// Splits `total` padding as SAME_UPPER (or SAME_LOWER) has it.
inline void split_padding(std::int64_t total, bool lower, window_axis& a) noexcept {
    a.pad_begin = lower ? total - total / 2 : total / 2;
    a.pad_end = total - a.pad_begin;
}

/// Which padding rule a node asks for.
enum class padding_rule { explicit_pads, same_upper, same_lower, valid };

inline status read_padding_rule(const op_context& c, padding_rule& rule) {
    const char* text = c.string("auto_pad", "NOTSET");
    if (!std::strcmp(text, "NOTSET") || !*text)
        rule = padding_rule::explicit_pads;
    else if (!std::strcmp(text, "SAME_UPPER"))
        rule = padding_rule::same_upper;
    else if (!std::strcmp(text, "SAME_LOWER"))
        rule = padding_rule::same_lower;
    else if (!std::strcmp(text, "VALID"))
        rule = padding_rule::valid;
    else
        return c.fail(errc::op_attribute, "auto_pad is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID");
    return {};
}

/// Reads kernel, strides, dilations, pads and auto_pad for an input [N, C, spatial...]; `weight` (of a convolution, [M, C,
/// spatial...]) gives the kernel, else kernel_shape must. Output sizes are not set.
GRAFT_NOINLINE inline status read_window(const op_context& c, const shape& input, const shape* weight, window& w) {
    w.rank = input.rank() - 2;
    if (w.rank < 1) return c.fail_shapes("the input needs at least three dimensions: batch, channels, and one spatial axis");
    if (weight && weight->rank() != input.rank()) return c.fail_shapes("input and weights must have the same rank");
    std::int64_t kernel[shape::max_rank], stride[shape::max_rank], dilation[shape::max_rank], pad[2 * shape::max_rank];
    if (!weight && !c.integers("kernel_shape").size) return c.fail(errc::op_attribute, "kernel_shape is missing");
    GRAFT_TRY(read_spatial(c, "kernel_shape", 1, w.rank, weight ? 1 : 0, kernel));
    GRAFT_TRY(read_spatial(c, "strides", 1, w.rank, 1, stride));
    GRAFT_TRY(read_spatial(c, "dilations", 1, w.rank, 1, dilation));
    GRAFT_TRY(read_spatial(c, "pads", 0, 2 * w.rank, 0, pad));
    const bool given = c.integers("kernel_shape").size != 0;
    for (int i = 0; i < w.rank; ++i) {
        if (weight && given && kernel[i] != (*weight)[i + 2]) return c.fail_shapes("kernel_shape differs from the weights' shape");
        if (weight) kernel[i] = (*weight)[i + 2];
        if (kernel[i] < 1) return c.fail_shapes("the kernel has an empty axis");
        w.axis[i] = {input[i + 2], 0, kernel[i], stride[i], dilation[i], pad[i], pad[i + w.rank]};
        const std::int64_t span = checked_add(checked_mul(kernel[i] - 1, dilation[i]), 1);
        if (span < 0 || checked_add(checked_add(input[i + 2], span), pad[i] + pad[i + w.rank]) < 0)
            return c.fail(errc::op_attribute, "kernel %lld with dilation %lld overflows", kernel[i], dilation[i]);
    }
    return {};
}

/// Output sizes and, for SAME_* and VALID, pads of a forward window. `ceil_mode` never adds a window that starts in the end
/// padding. `overhang`: a window larger than its padded input by less than a stride still gives one output, as the division that
/// other engines do has it (pools).
GRAFT_NOINLINE inline status size_window(const op_context& c, bool ceil_mode, window& w, bool overhang = false) {
    padding_rule rule = padding_rule::explicit_pads;
    GRAFT_TRY(read_padding_rule(c, rule));
    for (int i = 0; i < w.rank; ++i) {
        window_axis& a = w.axis[i];
        if (rule == padding_rule::same_upper || rule == padding_rule::same_lower) {
            a.output = a.input / a.stride + (a.input % a.stride != 0);
            const std::int64_t needed = checked_add(checked_mul(std::max<std::int64_t>(a.output - 1, 0), a.stride), a.span());
            if (needed < 0) return c.fail(errc::op_attribute, "the padding of axis %lld overflows", i);
            split_padding(std::max<std::int64_t>(needed - a.input, 0), rule == padding_rule::same_lower, a);
            continue;
        }
        if (rule == padding_rule::valid) a.pad_begin = a.pad_end = 0;
        const std::int64_t padded = a.input + a.pad_begin + a.pad_end, room = padded - a.span();
        if (room < 0) {
            if (overhang && padded > 0 && -room < a.stride) {
                a.output = 1;
                continue;
            }
            if (padded != 0)
                return c.fail(errc::op_shape, "the window spans %lld, more than the padded input's %lld on spatial axis %lld", a.span(), padded, i);
            a.output = 0;
            continue;
        }
        a.output = room / a.stride + 1;
        if (ceil_mode && room % a.stride && a.output * a.stride < a.input + a.pad_begin) ++a.output;
    }
    return {};
}

/// Calls f(offset of the row among the outputs, offset among the inputs of what output 0 would see, first, last) for every row of outputs, of which a
/// tap sees inside the input those of [first, last).
template <class F>
inline void for_rows_under_tap(const window& w, const std::int64_t* tap, const F& f) {
    const int last_axis = w.rank - 1;
    const window_axis& row = w.axis[last_axis];
    std::int64_t shift, first, last, at[shape::max_rank] = {};
    row.outputs(tap[last_axis], shift, first, last);
    for (std::int64_t r = 0, rows = row.output ? w.outputs() / row.output : 0; r < rows; ++r) {
        std::int64_t in_row = 0;
        bool inside = true;
        for (int i = 0; i < last_axis; ++i) {
            const window_axis& a = w.axis[i];
            const std::int64_t from = at[i] * a.stride - a.pad_begin + tap[i] * a.dilation;
            inside = inside && from >= 0 && from < a.input;
            in_row = in_row * a.input + from;
        }
        if (inside) f(r * row.output, in_row * row.input + shift, first, last);
        for (int i = last_axis - 1; i >= 0 && ++at[i] == w.axis[i].output; --i) at[i] = 0;
    }
}

/// [first, second, outputs of the window...].
inline shape window_shape(std::int64_t first, std::int64_t second, const window& w) noexcept {
    shape s{first, second};
    for (int i = 0; i < w.rank; ++i) s.push_back(w.axis[i].output);
    return s;
}

}  // namespace ops
GRAFT_END_NAMESPACE
