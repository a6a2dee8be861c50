// The kernel of depthwise convolutions and of their input's gradients: part of depthwise.hpp.
#pragma once

#include "depthwise.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

constexpr int strip_accumulators = 32, most_strip_rows = 4;
constexpr std::int64_t most_strip_columns = 16;

// Bias, residual and activation of one output `t` of the strip, whose sum is sum[t].
inline const char* strip_ending(const depthwise_plan& d, const kernel_body& body, std::string& text) {
    const conv_problem& p = d.p;
    element_emitter e(body, std::max(d.lanes, 2));  // at least 2, so that a sum is a value of its lane
    const operand y = activate(e, {"s", dtype::float32, level::lane}, p.after.act, p.after.alpha, p.after.beta);
    if (e.failure) return e.failure;
    const std::int64_t width = d.to[d.last + 2];
    std::string at = "n", added;
    for (int a = 0; a <= d.last; ++a) at = fill("($before * $extent + o$n)", {{"before", at}, {"extent", decimal(d.to[a + 2])}, {"n", decimal(a)}});
    if (p.residual >= 0)
        added = fill("            const pack<$type, $lanes> added = load_pack<$type, $lanes, $lanes>(in$residual + to);\n",
                     {{"type", memory_name(d.q.in[p.residual].type)}, {"lanes", decimal(d.lanes)}, {"residual", decimal(p.residual)}});
    const bool before = p.residual >= 0 && !p.after.residual_after_activation, behind = p.residual >= 0 && p.after.residual_after_activation;
    text = fill(R"cuda(#pragma unroll
        for (int t = 0; t < $strip; ++t) {
$cut            const index_t to = ($at + t) * $channels + channel;
$added            pack<$type, $lanes> y;
#pragma unroll
            for (int lane = 0; lane < $lanes; ++lane) {
                const float s = sum[t].at[lane]$before;
$activated                y.at[lane] = stored<$type>($y$behind);
            }
            store_pack<$lanes>(out0 + to, y);
        }
)cuda",
                {{"strip", decimal(d.strip)},
                 {"cut", width % d.strip ? fill("            if (o$n + t >= $width) break;\n", {{"n", decimal(d.last)}, {"width", decimal(width)}}) : ""},
                 {"at", at},
                 {"channels", decimal(d.channels)},
                 {"added", added},
                 {"type", memory_name(d.q.out[0].type)},
                 {"lanes", decimal(d.lanes)},
                 {"before", before ? " + compute(added.at[lane])" : ""},
                 {"activated", e.text(level::lane)},
                 {"y", y.text},
                 {"behind", behind ? " + compute(added.at[lane])" : ""}});
    return nullptr;
}

// The filters of the block's channels, to shared memory.
inline std::string staged_filters(const depthwise_plan& d, const fillings& names) {
    return fill(R"cuda(    __shared__ pack<float, $quad> filter[$fours];
    for (int i = (int)threadIdx.x; i < $staged; i += $threads) {
        const int of = i / $taps;
        if (group * $width + of < $channels) filter[(i % $taps * $quads + of % $lanes / $quad) * $columns + of / $lanes].at[of % $quad] = compute(in1[(index_t)group * $width * $taps + i]);
    }
    __syncthreads();
)cuda",
                names) +
           fill("    if (column >= $packs - group * $columns) return;\n", {{"packs", decimal(d.packs)}, {"columns", decimal(d.columns)}});
}

inline const char* generate_depthwise(const kernel_query& q, program& p) {
    conv_problem problem;
    kernel_body body;
    if (const char* why = read_depthwise(q, problem)) return why;
    if (const char* why = read_body(q, body)) return why;
    depthwise_plan d(q, problem);
    d.share_out(strip_accumulators, std::min(most_strip_columns, depthwise_shared_bytes / (d.taps * d.lanes * 4)));
    // Rows below each other, as long as the device is filled twice: three blocks fit on a multiprocessor.
    const int down = d.last - 1;
    std::int64_t rows = 1, items = d.strips() * d.to[0] * d.to.product(2, d.last + 2);
    while (rows < most_strip_rows && 2 * rows <= d.to[down + 2] && items * d.packs / (2 * rows) >= std::int64_t(2) * 768 * q.on.multiprocessors) rows *= 2;
    const std::int64_t row_groups = (d.to[down + 2] + rows - 1) / rows;
    items = items / d.to[down + 2] * row_groups;
    while (d.threads() >= 128 && (items + d.positions - 1) / d.positions * d.groups < q.on.multiprocessors) d.positions /= 2;
    const std::int64_t blocks = (items + d.positions - 1) / d.positions;
    if (blocks > INT32_MAX / d.groups) return "more elements than a launch has blocks for";

    const fillings names = {{"quad", decimal(d.quad)},
                            {"quads", decimal(d.lanes / d.quad)},
                            {"lanes", decimal(d.lanes)},
                            {"columns", decimal(d.columns)},
                            {"threads", decimal(d.threads())},
                            {"taps", decimal(d.taps)},
                            {"channels", decimal(d.channels)},
                            {"width", decimal(d.columns * d.lanes)},
                            {"staged", decimal(d.columns * d.lanes * d.taps)},
                            {"fours", decimal(d.taps * d.columns * (d.lanes / d.quad))},
                            {"groups", decimal(d.groups)},
                            {"positions", decimal(d.positions)},
                            {"items", decimal(items)},
                            {"strips", decimal(d.strips())},
                            {"strip", decimal(d.strip)},
                            {"rows", decimal(rows)},
                            {"row_groups", decimal(row_groups)},
                            {"down", decimal(down)},
                            {"height", decimal(d.to[down + 2])},
                            {"last", decimal(d.last)},
                            {"kernel", decimal(d.kernel)},
                            {"extent", decimal(d.from[d.last + 2])},
                            {"stride", decimal(d.p.axes.stride[d.last])},
                            {"pad", decimal(d.p.axes.pad_begin[d.last])}};
    const bool back = problem.direction == convolution_direction::backward_data;
    std::string text = fill(R"cuda(    const int column = (int)threadIdx.x % $columns;
    const int group = (int)(blockIdx.x % $groups);
)cuda",
                            names) +
                       staged_filters(d, names);
    text += fill(R"cuda(    const index_t item = (index_t)(blockIdx.x / $groups) * $positions + (int)threadIdx.x / $columns;
    if (item >= $items) return;
    const index_t channel = ((index_t)group * $columns + column) * $lanes;
    const index_t o$last = item % $strips * $strip;
    const index_t row_group = item / $strips;
    const index_t top = row_group % $row_groups * $rows;
)cuda",
                 names);
    std::string n = fill("row_group / $row_groups", names);
    if (d.last == 2) {
        text += "    const index_t o0 = " + n + " % " + decimal(d.to[2]) + ";\n";
        n += " / " + decimal(d.to[2]);
    }
    text += "    const index_t n = " + n + ";\n" +
            fill(back ? "    const index_t first = o$last / $stride;\n" : "    const index_t first = o$last * $stride - $pad;\n", names);
    if (problem.bias >= 0)
        text += fill("    const values bias = widened(load_pack<$type, $lanes, $lanes>(in$bias + channel));\n",
                     {{"type", memory_name(q.in[problem.bias].type)}, {"lanes", decimal(d.lanes)}, {"bias", decimal(problem.bias)}});
    const depthwise_rows_text loops = filter_rows(d);
    std::string ending;
    if (const char* why = strip_ending(d, body, ending)) return why;
    text += fill(R"cuda(#pragma unroll 1
    for (int step = 0; step < $rows; ++step) {
        const index_t o$down = top + step;
        if (o$down >= $height) break;
        values sum[$strip] = {};
)cuda",
                 names);
    if (problem.bias >= 0) text += fill("#pragma unroll\n        for (int t = 0; t < $strip; ++t) sum[t] = bias;\n", names);
    text += loops.open + "        const index_t at = (" + loops.at + fill(" * $extent + first) * $channels + channel;\n", names);
    text += fill("        const pack<float, $quad>* factors = filter + $tap * $line + column;\n",
                 {{"quad", decimal(d.quad)}, {"tap", loops.tap}, {"line", decimal(std::int64_t(d.kernel) * (d.lanes / d.quad) * d.columns)}});
    for (int tap = 0; tap < d.kernel; ++tap)
        text += fill("        const values w_$tap = gathered<$columns>(factors + $offset);\n",
                     {{"tap", decimal(tap)}, {"columns", decimal(d.columns)}, {"offset", decimal(std::int64_t(tap) * (d.lanes / d.quad) * d.columns)}});
    text += d.row([](const strip_meeting& m) { return "take(sum[" + decimal(m.output) + "], x, w_" + decimal(m.tap) + ");"; });
    text += loops.close + ending + "    }\n";

    launch l;
    l.entry = "graft_depthwise";
    l.block[0] = static_cast<unsigned>(d.threads());
    l.grid[0] = static_cast<unsigned>(blocks * d.groups);
    std::vector<int> inputs = {0, 1};
    for (const int i : {problem.bias, problem.residual})
        if (i >= 0) inputs.push_back(i);
    begin_program(p, d.largest_index());
    p.source += depthwise_values(d) + entry_point(q, l, inputs, {0}, false, text);
    p.launches.push_back(std::move(l));
    return end_program(p, "depthwise, a strip for each thread");
}

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
