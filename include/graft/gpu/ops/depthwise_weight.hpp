// The kernels of the gradients of depthwise weights: part of depthwise.hpp.
#pragma once

#include "depthwise.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Each thread sums over strips of dY for all taps of some rows of the filter, in registers; then the block in shared memory, row by
// row of the filter, in a tree; then a second launch adds up what the blocks have. X and dY are read once: 4 bytes and 9 multiplications
// an output of float16 and 3x3, as forward. Registers are what is scarce: with 80 sums for a thread two blocks fit on a multiprocessor.
// 3x3 over packs of 8 has 72; the 100 of 5x5 over packs of 4 are shared out to two blocks and the 196 of 7x7 to four, which read the
// same pixels at about the same time, from the second cache.
constexpr int weight_accumulators = 80, weight_strip_accumulators = 16;

struct weight_gradient_plan {
    explicit weight_gradient_plan(const depthwise_plan& d) {
        filter_rows = d.taps / d.kernel;
        rows = static_cast<int>(std::min<std::int64_t>(filter_rows, std::max(1, weight_accumulators / (d.kernel * d.lanes))));
        parts = (filter_rows + rows - 1) / rows;
        rows = static_cast<int>((filter_rows + parts - 1) / parts);
        items = d.strips() * d.to[0] * d.to.product(2, d.last + 2);
        // By the shapes alone, so that the sums are the same on every device: two blocks for each multiprocessor of a large one, twice,
        // with a few strips for each thread.
        slices = std::max<std::int64_t>(1, std::min(items / (2 * d.positions), 512 / (d.groups * parts)));
        slice = (items + slices - 1) / slices;
    }
    std::int64_t filter_rows, parts, items, slices, slice;
    int rows;  // of the filter, for one block
};

// What a strip of dY gives to row `r` of a part: its pixels of X are read once.
inline std::string weight_row(const depthwise_plan& d, const weight_gradient_plan& w, int r) {
    std::string text = "        do {\n", at = "n";
    text += fill("        const int tap_row = $part$r;\n", {{"part", w.parts > 1 ? "part * " + decimal(w.rows) + " + " : ""}, {"r", decimal(r)}});
    if (w.parts * w.rows != w.filter_rows) text += "        if (tap_row >= " + decimal(w.filter_rows) + ") break;\n";
    for (int a = 0; a < d.last; ++a) {
        const std::int64_t below = d.p.w.product(a + 3, d.last + 2);
        text +=
            fill("        const index_t y$n = o$n * $stride - $pad + tap_row / $below % $taps * $dilation;\n        if (y$n < 0 || y$n >= $extent) break;\n",
                 {{"n", decimal(a)},
                  {"stride", decimal(d.p.axes.stride[a])},
                  {"pad", decimal(d.p.axes.pad_begin[a])},
                  {"below", decimal(below)},
                  {"taps", decimal(d.p.w[a + 2])},
                  {"dilation", decimal(d.p.axes.dilation[a])},
                  {"extent", decimal(d.from[a + 2])}});
        at = fill("($before * $extent + y$n)", {{"before", at}, {"extent", decimal(d.from[a + 2])}, {"n", decimal(a)}});
    }
    text += fill("        const index_t at = ($at * $extent + first) * $channels + channel;\n",
                 {{"at", at}, {"extent", decimal(d.from[d.last + 2])}, {"channels", decimal(d.channels)}});
    text += d.row([&](const strip_meeting& m) { return "take(sum[" + decimal(r * d.kernel + m.tap) + "], x, g" + decimal(m.output) + ");"; });
    return text + "        } while (false);\n";
}

inline std::string weight_strips(const depthwise_plan& d, const weight_gradient_plan& w, const fillings& names) {
    std::string text = fill(R"cuda(    values sum[$sums] = {};
    if (column < $packs - group * $columns) {
        const index_t begin = (index_t)slice * $slice;
        const index_t end = begin + $slice < $items ? begin + $slice : $items;
        for (index_t item = begin + position; item < end; item += $positions) {
        const index_t o$last = item % $strips * $strip;
        const index_t row_of_all = item / $strips;
)cuda",
                            names);
    std::string n = "row_of_all", at = "n";
    for (int a = d.last - 1; a >= 0; --a) {
        text += "        const index_t o" + decimal(a) + " = " + n + " % " + decimal(d.to[a + 2]) + ";\n";
        n += " / " + decimal(d.to[a + 2]);
    }
    for (int a = 0; a <= d.last; ++a) at = fill("($before * $extent + o$n)", {{"before", at}, {"extent", decimal(d.to[a + 2])}, {"n", decimal(a)}});
    text += "        const index_t n = " + n + ";\n        const index_t of_strip = " + at + " * " + decimal(d.channels) + " + channel;\n";
    text += fill("        const index_t first = o$last * $stride - $pad;\n", names);
    const std::int64_t width = d.to[d.last + 2];
    for (int t = 0; t < d.strip; ++t)
        text += fill("        const values g$t = widened(load_pack<$type, $lanes, $lanes>(in1 + (of_strip + $offset)$inside));\n",
                     {{"t", decimal(t)},
                      {"type", memory_name(d.p.type)},
                      {"lanes", decimal(d.lanes)},
                      {"offset", decimal(t * d.channels)},
                      {"inside", (d.strips() - 1) * d.strip + t >= width ? ", o" + decimal(d.last) + " < " + decimal(width - t) : ""}});
    for (int r = 0; r < w.rows; ++r) text += weight_row(d, w, r);
    return text + "        }\n    }\n";
}

// The block's threads with the same channels as one, by the rows of the filter.
inline std::string weight_block_sums(const depthwise_plan& d, const weight_gradient_plan& w, const fillings& names) {
    std::string text = fill("    __shared__ pack<float, $quad> shared[$shared];\n    pack<float, $quad>* const own = shared + (int)threadIdx.x;\n", names);
    text += fill(R"cuda(#pragma unroll
    for (int r = 0; r < $rows; ++r) {
#pragma unroll
        for (int tap = 0; tap < $kernel; ++tap) spread<$threads>(own + tap * $line, sum[r * $kernel + tap]);
        __syncthreads();
)cuda",
                 names);
    for (int left = d.positions; left > 1; left = (left + 1) / 2) {
        const int half = (left + 1) / 2;
        fillings level = names;
        level.emplace_back("below", decimal(left - half));
        level.emplace_back("away", decimal(half * d.columns));
        text += fill(R"cuda(        if (position < $below)
            for (int i = 0; i < $fours; ++i)
                for (int k = 0; k < $quad; ++k) own[i * $threads].at[k] += own[i * $threads + $away].at[k];
        __syncthreads();
)cuda",
                     level);
    }
    text += fill("        const int tap_row = $part + r;\n", {{"part", w.parts > 1 ? "part * " + decimal(w.rows) : "0"}});
    text += fill(R"cuda(        if (position == 0 && column < $packs - group * $columns && tap_row < $filter_rows) {
            for (int tap = 0; tap < $kernel; ++tap) {
                float* to = partial + ((index_t)slice * $taps + tap_row * $kernel + tap) * $channels + channel;
                for (int lane = 0; lane < $lanes; ++lane) to[lane] = own[tap * $line + lane / $quad * $threads].at[lane % $quad];
            }
        }
        __syncthreads();
    }
)cuda",
                 names);
    return text;
}

// Adds up the slices: 32 weights side by side, 8 slices at a time.
inline void add_slices(const kernel_query& q, const depthwise_plan& d, const weight_gradient_plan& w, program& p) {
    launch l;
    l.entry = "graft_depthwise_slices";
    l.block[0] = 256;
    l.grid[0] = static_cast<unsigned>((d.taps * d.channels + 31) / 32);
    const std::string text = fill(R"cuda(    __shared__ float shared[256];
    const int row = (int)threadIdx.x / 32;
    const index_t k = (index_t)blockIdx.x * 32 + (int)threadIdx.x % 32;
    float sum = 0;
    if (k < $weights)
        for (index_t slice = row; slice < $slices; slice += 8) sum += partial[slice * $weights + k];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 4; half; half /= 2) {
        if (row < half) shared[threadIdx.x] += shared[threadIdx.x + half * 32];
        __syncthreads();
    }
    if (row == 0 && k < $weights) out0[k % $channels * $taps + k / $channels] = stored<$type>(shared[threadIdx.x]);
)cuda",
                                  {{"weights", decimal(d.taps * d.channels)},
                                   {"slices", decimal(w.slices)},
                                   {"channels", decimal(d.channels)},
                                   {"taps", decimal(d.taps)},
                                   {"type", memory_name(q.out[0].type)}});
    p.source += entry_point(q, l, {}, {0}, {{"const float* partial", 0}}, text);
    p.launches.push_back(std::move(l));
}

inline const char* generate_depthwise_weight(const kernel_query& q, program& p) {
    conv_problem problem;
    if (const char* why = read_depthwise(q, problem)) return why;
    depthwise_plan d(q, problem);
    d.share_out(weight_strip_accumulators, most_strip_columns);
    const weight_gradient_plan w(d);
    const std::int64_t line = std::int64_t(d.lanes / d.quad) * d.threads(), weights = d.taps * d.channels;
    if (weights > most_pool_elements / 32 || d.groups * w.parts * w.slices > INT32_MAX) return "more weights than a launch has blocks for";
    const fillings names = {{"sums", decimal(w.rows * d.kernel)},
                            {"packs", decimal(d.packs)},
                            {"columns", decimal(d.columns)},
                            {"slice", decimal(w.slice)},
                            {"items", decimal(w.items)},
                            {"positions", decimal(d.positions)},
                            {"strips", decimal(d.strips())},
                            {"strip", decimal(d.strip)},
                            {"last", decimal(d.last)},
                            {"quad", decimal(d.quad)},
                            {"stride", decimal(problem.axes.stride[d.last])},
                            {"pad", decimal(problem.axes.pad_begin[d.last])},
                            {"shared", decimal(d.kernel * line)},
                            {"line", decimal(line)},
                            {"rows", decimal(w.rows)},
                            {"kernel", decimal(d.kernel)},
                            {"threads", decimal(d.threads())},
                            {"filter_rows", decimal(w.filter_rows)},
                            {"taps", decimal(d.taps)},
                            {"channels", decimal(d.channels)},
                            {"lanes", decimal(d.lanes)},
                            {"groups", decimal(d.groups)},
                            {"parts", decimal(w.parts)},
                            {"fours", decimal(d.kernel * (d.lanes / d.quad))}};
    const std::string head = fill(R"cuda(    const int column = (int)threadIdx.x % $columns;
    const int position = (int)threadIdx.x / $columns;
    const int group = (int)(blockIdx.x % $groups);
    const int part = (int)(blockIdx.x / $groups % $parts);
    const int slice = (int)(blockIdx.x / $groups / $parts);
    const index_t channel = ((index_t)group * $columns + column) * $lanes;
)cuda",
                                  names);
    begin_program(p, std::max(d.largest_index(), w.slices * weights + d.threads()));
    launch l;
    l.entry = "graft_depthwise_weight";
    l.block[0] = static_cast<unsigned>(d.threads());
    l.grid[0] = static_cast<unsigned>(d.groups * w.parts * w.slices);
    p.source +=
        depthwise_values(d) + entry_point(q, l, {0, 1}, {}, {{"float* partial", 0}}, head + weight_strips(d, w, names) + weight_block_sums(d, w, names));
    p.launches.push_back(std::move(l));
    add_slices(q, d, w, p);
    p.workspace_bytes = w.slices * weights * 4;
    return end_program(p, "depthwise, sums of strips in two launches");
}

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
