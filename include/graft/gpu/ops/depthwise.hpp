// Depthwise convolutions and their gradients in kernels of our own, with all that follows them.
#pragma once

#include "../kernel.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Rows of Conv, and of graft's Conv, ConvGradInput and ConvGradWeight, for convolutions whose every channel is a group of its own with
/// one filter. Values are channels-last: float32, float16 or bfloat16; all sums are float32, in an order that never changes. Every
/// bias, residual and activation goes into the same kernel. Kernels are up to 7 long along the last axis, strides there up to 4.
generated_table depthwise_rows();

/// Whether these kernels take a node; cuDNN is asked for the others.
bool takes_depthwise(const kernel_query& q);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../codegen/reduce.hpp"
#include "activation.hpp"
#include "conv.hpp"
#include "pool.hpp"

#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// On an H100 (3.35 TB/s, 132 multiprocessors at 1.75 GHz: 14.5 bytes a clock each) a 3x3 filter over float16 has to move 4 bytes for an
// output, its input read once: 3.6 outputs a clock. It takes 9 of the 128 multiplications a clock, so memory is the bound and what the
// kernel does beside them must stay cheap:
// - a thread has a pack of 16 bytes of channels and a strip of neighbours along the last axis. Each input pixel of a row is loaded and
//   widened once and goes to all outputs of the strip that it meets: 6 loads for 4 outputs of a 3x3 row, instead of 12.
// - the filters of a block's channels lie in shared memory as float32, turned so that neighbouring threads read neighbouring 16
//   bytes; the factors of one filter row are in registers while the row is passed.
// - neighbouring threads have neighbouring channels, up to 256 bytes of a pixel a block, then neighbouring strips, then rows; a thread
//   makes some rows one below the other. Rows above and below are then read from the first cache, and for a block of h rows about
//   (h + 2) / h of the input comes from the second.
// Accumulators (32), a row of factors (20 to 28) and a pixel take 70 to 100 registers: two or three blocks on a multiprocessor, whose
// 500 threads or more have a row's 6 loads of 16 bytes each on the way, 48 KB. For the full rate some 15 KB are needed (1000 clocks).
// Wide filters multiply more (49 for an output of 7x7, more than memory allows time for): there a pack has half the channels, and a
// strip twice the outputs, so that a pixel that was loaded and widened is used more often.

constexpr int depthwise_threads = 256;
constexpr std::int64_t most_depthwise_stride = 4, longest_depthwise_row = 7, most_depthwise_taps = 384, most_depthwise_step = 1 << 16,
                       depthwise_shared_bytes = 48 << 10;

// Null where the kernels take the node, else why not.
inline const char* read_depthwise(const kernel_query& q, conv_problem& p) {
    const std::string& op = q.n.op_type;
    const char* why = op == "Conv" ? read_conv(q, p) : op == "ConvGradInput" ? read_conv_grad_input(q, p) : read_conv_grad_weight(q, p);
    if (why) return why;
    if (p.x[1] < 2 || p.w[1] != 1 || p.w[0] != p.x[1]) return "it is no depthwise convolution";
    const int last = p.axes.rank - 1;
    if (p.w[last + 2] > longest_depthwise_row || p.axes.stride[last] > most_depthwise_stride) return "a wide kernel or stride";
    if (p.w.product(2, p.w.rank()) > most_depthwise_taps) return "a filter of too many elements";
    for (int a = 0; a <= last; ++a)
        if (std::max({p.axes.stride[a], p.axes.dilation[a], p.axes.pad_begin[a], p.axes.pad_end[a]}) > most_depthwise_step)
            return "a wide stride, dilation or pad";
    return p.x.elements() > most_pool_elements || p.y.elements() > most_pool_elements ? "more elements than a launch has blocks for" : nullptr;
}

// One pixel of a row meets one output of the strip by one tap.
struct strip_meeting {
    std::int64_t pixel;  // from the first pixel of the strip's windows on; with gradients of the input, pixel 0 is the strip's start by the stride
    int output, tap;
};

/// How a convolution is shared out to threads. `from` is what is read row by row, `to` what strips are of.
struct depthwise_plan {
    depthwise_plan(const kernel_query& query, const conv_problem& problem) : q(query), p(problem), last(problem.axes.rank - 1) {
        const bool back = p.direction == convolution_direction::backward_data;
        from = back ? p.y : p.x;
        to = back ? p.x : p.y;
        channels = p.x[1];
        kernel = static_cast<int>(p.w[last + 2]);
        taps = p.w.product(2, p.w.rank());
        lanes = static_cast<int>(16 / size_of(p.type));
        while (lanes > 1 && (channels % lanes || lanes * kernel > 28)) lanes /= 2;
        quad = std::min(lanes, 4);
        packs = channels / lanes;
    }
    // Neighbouring packs of a block, and strips: the divisor of the channels' packs that wastes least, of `most` at most.
    void share_out(int most_accumulators, std::int64_t most_columns) {
        groups = (packs + most_columns - 1) / most_columns;
        columns = static_cast<int>((packs + groups - 1) / groups);
        positions = depthwise_threads / columns;
        choose_strip(most_accumulators / lanes);
    }
    std::int64_t strips() const { return (to[last + 2] + strip - 1) / strip; }
    int threads() const { return columns * positions; }
    // What a pixel of a row gives to: in the order of pixels.
    std::vector<strip_meeting> meetings(int of) const {
        std::vector<strip_meeting> all;
        const std::int64_t stride = p.axes.stride[last], dilation = p.axes.dilation[last], pad = p.axes.pad_begin[last];
        for (int output = 0; output < of; ++output)
            for (int tap = 0; tap < kernel; ++tap) {
                const std::int64_t apart = output + pad - tap * dilation;
                if (p.direction != convolution_direction::backward_data)
                    all.push_back({output * stride + tap * dilation, output, tap});
                else if (apart % stride == 0)
                    all.push_back({apart / stride, output, tap});
            }
        std::stable_sort(all.begin(), all.end(), [](const strip_meeting& a, const strip_meeting& b) { return a.pixel < b.pixel; });
        return all;
    }
    // Statements that load each pixel of a row once and `use` it. `at` in the text is the offset of pixel 0, `first` its coordinate.
    template <class F>
    std::string row(const F& use) const {
        const std::int64_t width = from[last + 2], stride = p.axes.stride[last];
        const bool back = p.direction == convolution_direction::backward_data;
        const std::int64_t least = back ? 0 : -p.axes.pad_begin[last], most = back ? (strips() - 1) * strip / stride : (strips() - 1) * strip * stride + least;
        std::string text, uses;
        const std::vector<strip_meeting> all = meetings(strip);
        for (std::size_t i = 0; i < all.size(); ++i) {
            uses += "            " + use(all[i]) + "\n";
            const std::int64_t pixel = all[i].pixel;
            if (i + 1 < all.size() && all[i + 1].pixel == pixel) continue;
            std::string inside;
            if (least + pixel < 0) inside = "first >= " + decimal(-pixel);
            if (most + pixel >= width) inside += (inside.empty() ? "first < " : " && first < ") + decimal(width - pixel);
            text += "        {\n            const values x = widened(load_pack<" + std::string(memory_name(p.type)) + ", " + decimal(lanes) + ", " +
                    decimal(lanes) + ">(in0 + (at + " + decimal(pixel * channels) + ")" + (inside.empty() ? "" : ", " + inside) + "));\n" + uses +
                    "        }\n";
            uses.clear();
        }
        return text;
    }
    std::int64_t largest_index() const {
        std::int64_t most = 0;
        for (int a = 0; a <= last; ++a) {
            const std::int64_t reach = from[a + 2] + to[a + 2] + p.w[a + 2] * p.axes.dilation[a] + p.axes.pad_begin[a] + p.axes.stride[a];
            most = std::max(most, 4 * reach * (a == last ? channels : 1));
        }
        return most + std::max(from.elements(), to.elements()) + (std::int64_t(1) << 20);
    }

    const kernel_query& q;
    const conv_problem& p;
    int last;  // spatial axis of the strips
    shape from, to;
    std::int64_t channels = 0, taps = 0, packs = 0, groups = 0;
    int kernel = 1, lanes = 1, quad = 1, columns = 1, positions = 1, strip = 1;

private:
    // The length of strips for which a row costs least: loads, factors and stores for each.
    void choose_strip(int most) {
        const int step = p.direction == convolution_direction::backward_data ? static_cast<int>(p.axes.stride[last]) : 1;
        std::int64_t least = 0;
        for (int length = step; length <= std::max(most, step); length += step) {
            std::int64_t pixels = 0, before = INT64_MIN;
            for (const strip_meeting& m : meetings(length)) pixels += m.pixel != before, before = m.pixel;
            const std::int64_t cost = (to[last + 2] + length - 1) / length * (pixels + length + kernel);
            if (!least || cost <= least) least = cost, strip = length;
        }
        // Too little work for a device: shorter strips give more threads.
        while (strip >= 2 * step && strips() * to[0] * to.product(2, last + 2) * packs < std::int64_t(depthwise_threads) * q.on.multiprocessors)
            strip = strip / (2 * step) * step;
    }
};

// What all texts begin with.
inline std::string depthwise_values(const depthwise_plan& d) {
    return fill(R"cuda(struct values { float at[$lanes]; };
template <class T> __device__ __forceinline__ values widened(const pack<T, $lanes>& p) {
    values v;
#pragma unroll
    for (int lane = 0; lane < $lanes; ++lane) v.at[lane] = compute(p.at[lane]);
    return v;
}
__device__ __forceinline__ void take(values& sum, const values& x, const values& factors) {
#pragma unroll
    for (int lane = 0; lane < $lanes; ++lane) sum.at[lane] += x.at[lane] * factors.at[lane];
}
// Values in shared memory lie in fours, `apart` from each other.
template <int apart> __device__ __forceinline__ values gathered(const pack<float, $quad>* fours) {
    values v;
#pragma unroll
    for (int lane = 0; lane < $lanes; ++lane) v.at[lane] = fours[lane / $quad * apart].at[lane % $quad];
    return v;
}
template <int apart> __device__ __forceinline__ void spread(pack<float, $quad>* fours, const values& v) {
#pragma unroll
    for (int four = 0; four < $lanes / $quad; ++four) {
        pack<float, $quad> part;
#pragma unroll
        for (int k = 0; k < $quad; ++k) part.at[k] = v.at[four * $quad + k];
        fours[four * apart] = part;
    }
}
)cuda",
                {{"lanes", decimal(d.lanes)}, {"quad", decimal(d.quad)}});
}

// The loops over the filter's rows: y<d> is the coordinate that a row is read at, r<d> the tap, o<d> the output's coordinate.
struct depthwise_rows_text {
    std::string open, close, tap = "0", at = "n";
};
inline depthwise_rows_text filter_rows(const depthwise_plan& d) {
    depthwise_rows_text text;
    const bool back = d.p.direction == convolution_direction::backward_data;
    for (int a = 0; a < d.last; ++a) {
        const std::int64_t stride = d.p.axes.stride[a], dilation = d.p.axes.dilation[a];
        const bool skips = back && stride > 1 && dilation == 1;  // only every so many taps meet an element
        fillings names = {{"n", decimal(a)},
                          {"stride", decimal(stride)},
                          {"dilation", decimal(dilation)},
                          {"pad", decimal(d.p.axes.pad_begin[a])},
                          {"taps", decimal(d.p.w[a + 2])},
                          {"extent", decimal(d.from[a + 2])},
                          {"step", decimal(skips ? stride : 1)}};
        names.emplace_back("begin", skips ? fill("(int)((o$n + $pad) % $stride)", names) : "0");
        names.emplace_back("misses", stride > 1 && !skips ? fill(" || shifted$n % $stride", names) : "");
        text.open += fill(skips || d.p.w[a + 2] > 3 ? "#pragma unroll 1\n" : "#pragma unroll\n", names);
        text.open += fill("        for (int r$n = $begin; r$n < $taps; r$n += $step) {\n", names);
        if (back) {
            text.open += fill("        const index_t shifted$n = o$n + $pad - r$n * $dilation;\n        const index_t y$n = shifted$n / $stride;\n", names);
            text.open += fill("        if (shifted$n < 0$misses || y$n >= $extent) continue;\n", names);
        } else
            text.open += fill("        const index_t y$n = o$n * $stride - $pad + r$n * $dilation;\n        if (y$n < 0 || y$n >= $extent) continue;\n", names);
        text.close += "        }\n";
        text.tap = fill("($before * $taps + r$n)", {{"before", text.tap}, {"taps", decimal(d.p.w[a + 2])}, {"n", decimal(a)}});
        text.at = fill("($before * $extent + y$n)", {{"before", text.at}, {"extent", decimal(d.from[a + 2])}, {"n", decimal(a)}});
    }
    return text;
}

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE

#include "depthwise_strips.hpp"
#include "depthwise_weight.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE generated_table depthwise_rows() {
    static constexpr generated_row rows[] = {
        {"Conv", "", detail::generate_depthwise},
        {"Conv", "graft", detail::generate_depthwise},
        {"ConvGradInput", "graft", detail::generate_depthwise},
        {"ConvGradWeight", "graft", detail::generate_depthwise_weight},
    };
    return rows;
}
GRAFT_INLINE bool takes_depthwise(const kernel_query& q) {
    for (const generated_row& row : depthwise_rows()) {
        detail::conv_problem p;
        if (q.n.op_type == row.op && q.n.domain == row.domain) return !detail::read_depthwise(q, p);
    }
    return false;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
