// The kernel of DeformConv: a product of the weights and of columns that are sampled into shared memory as it goes along. Its gradient is in
// deform_conv_grad.hpp.
#pragma once

#include "../codegen/sort.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// DeformConv and graft's DeformConvGrad of ops/deform_conv.hpp. Their products are of numbers as they are, added up in float32, or float64
/// of such, in an order that never changes.
generated_table deform_conv_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/deform_conv.hpp"
#include "../lower/layouts.hpp"
#include "deform_conv_text.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Where the element at these coordinates is in memory.
inline std::string offset_text(const shape& extents, layout order, const std::string (&axes)[4]) {
    const std::vector<std::int64_t> strides = strides_of(extents, order);
    std::string s;
    for (std::size_t d = 0; d < 4; ++d) s += (d ? " + (" : "(") + axes[d] + ") * " + decimal(strides[d]);
    return s;
}

// A block has 64 maps of 64 pixels, a thread 4 of 4; both sides of the product go through shared memory in slices of 16.
inline const char* generate_deform_conv(const kernel_query& q, program& p) {
    ops::deform_plan plan;
    if (!ops::read_deform(q, plan).ok()) return "its attributes do not fit";
    const shape &x = q.in[0].extents, &w = q.in[1].extents, &o = q.out[0].extents;
    if (o.elements() == 0) return nullptr;
    const bool biased = q.has(3), masked = q.has(4);
    std::int64_t largest = o.elements();
    std::vector<int> inputs;
    for (int i = 0; i < q.inputs; ++i) {
        if (!q.has(i)) continue;
        if (!is_generated(q.in[i].type)) return "an element type that generated kernels do not take";
        largest = std::max(largest, q.in[i].elements());
        inputs.push_back(i);
    }
    const std::int64_t maps = w[0] / plan.group, pixels = o[0] * o[2] * o[3], taps = plan.kernel[0] * plan.kernel[1];
    launch l;
    l.entry = "graft_deform";
    l.block[0] = 256;
    const std::int64_t grid[3] = {(pixels + 63) / 64, (maps + 63) / 64, plan.group};
    if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535) return "more pixels, maps or groups than a launch has blocks for";
    for (int d = 0; d < 3; ++d) l.grid[d] = static_cast<unsigned>(grid[d]);
    const fillings names = {
        {"type", compute_name(q.out[0].type)},
        {"stored", memory_name(q.out[0].type)},
        {"pixels", decimal(pixels)},
        {"maps", decimal(maps)},
        {"taps", decimal(taps)},
        {"depth", decimal(w[1] * taps)},
        {"channels", decimal(w[1])},
        {"per_offset", decimal(x[1] / plan.offset_group)},
        {"out_h", decimal(o[2])},
        {"out_w", decimal(o[3])},
        {"height", decimal(x[2])},
        {"width", decimal(x[3])},
        {"columns", decimal(plan.kernel[1])},
        {"stride_h", decimal(plan.strides[0])},
        {"stride_w", decimal(plan.strides[1])},
        {"pad_h", decimal(plan.pads[0])},
        {"pad_w", decimal(plan.pads[1])},
        {"dilation_h", decimal(plan.dilations[0])},
        {"dilation_w", decimal(plan.dilations[1])},
        {"weight", offset_text(w, q.in_layout[1],
                               {"group * " + decimal(maps) + " + m", "k / " + decimal(taps), "k % " + decimal(taps) + " / " + decimal(plan.kernel[1]),
                                "k % " + decimal(plan.kernel[1])})},
        {"offset_h", offset_text(q.in[2].extents, q.in_layout[2], {"n", "(of * " + decimal(taps) + " + tap) * 2", "oy", "ox"})},
        {"offset_w", offset_text(q.in[2].extents, q.in_layout[2], {"n", "(of * " + decimal(taps) + " + tap) * 2 + 1", "oy", "ox"})},
        {"element", offset_text(x, q.in_layout[0], {"n", "channel", "r", "q"})},
        {"bias", biased ? "load(in3 + group * " + decimal(maps) + " + m)" : std::string("0")},
        {"output", offset_text(o, q.out_layout[0], {"n", "group * " + decimal(maps) + " + m", "oy", "ox"})},
    };
    const std::string mask =
        masked ? "($type)load(in4 + " + offset_text(q.in[4].extents, q.in_layout[4], {"n", "of * " + decimal(taps) + " + tap", "oy", "ox"}) + ")"
               : std::string("1");
    p.source = std::string("namespace graft {\n") + index_definition(largest + (std::int64_t(1) << 24));
    const std::string text = fill(R"cuda(    __shared__ $type weights[16][65];
    __shared__ $type columns[16][65];
    const int thread = (int)threadIdx.x;
    const index_t group = blockIdx.z;
    const index_t first_map = (index_t)blockIdx.y * 64;
    const index_t first_pixel = (index_t)blockIdx.x * 64;
    $type sum[4][4] = {};
    for (index_t begin = 0; begin < $depth; begin += 16) {
        for (int i = thread; i < 1024; i += 256) {
            const index_t k = begin + i % 16;
            const index_t m = first_map + i / 16;
            weights[i % 16][i / 16] = k < $depth && m < $maps ? ($type)load(in1 + $weight) : ($type)0;
        }
        for (int i = thread; i < 1024; i += 256) {
            const index_t k = begin + i / 64;
            const index_t pixel = first_pixel + i % 64;
            $type value = 0;
            if (k < $depth && pixel < $pixels) {
                const index_t n = pixel / ($out_h * $out_w);
                const index_t oy = pixel / $out_w % $out_h;
                const index_t ox = pixel % $out_w;
                const index_t channel = group * $channels + k / $taps;
                const index_t tap = k % $taps;
                const index_t of = channel / $per_offset;
                const $type h = ($type)(oy * $stride_h - $pad_h + tap / $columns * $dilation_h) + ($type)load(in2 + $offset_h);
                const $type v = ($type)(ox * $stride_w - $pad_w + tap % $columns * $dilation_w) + ($type)load(in2 + $offset_w);
                if (h > -1 && h < $height && v > -1 && v < $width) {
                    const $type top = floor(h);
                    const $type left = floor(v);
#pragma unroll
                    for (int corner = 0; corner < 4; ++corner) {
                        const index_t r = (index_t)top + corner / 2;
                        const index_t q = (index_t)left + corner % 2;
                        const $type down = corner / 2 ? h - top : 1 - (h - top);
                        const $type across = corner % 2 ? v - left : 1 - (v - left);
                        if (r >= 0 && r < $height && q >= 0 && q < $width) value += down * across * ($type)load(in0 + $element);
                    }
                    value *= )cuda",
                                  names) +
                             fill(mask.c_str(), names) +
                             fill(R"cuda(;
                }
            }
            columns[i / 64][i % 64] = value;
        }
        __syncthreads();
        add_slice(sum, weights, columns, thread);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const index_t m = first_map + thread / 16 + 16 * i;
            const index_t pixel = first_pixel + thread % 16 + 16 * j;
            if (m >= $maps || pixel >= $pixels) continue;
            const index_t n = pixel / ($out_h * $out_w);
            const index_t oy = pixel / $out_w % $out_h;
            const index_t ox = pixel % $out_w;
            out0[$output] = stored<$stored>(sum[i][j] + ($type)$bias);
        }
)cuda",
                                  names);
    p.source += fill(deform_product, names) + entry_point(q, l, inputs, {0}, std::vector<workspace_parameter>(), text) + "}  // namespace graft\n";
    p.launches.push_back(std::move(l));
    p.note = "a product with columns that are sampled";
    return nullptr;
}

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE

#include "deform_conv_grad.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE generated_table deform_conv_rows() {
    static constexpr generated_row rows[] = {{"DeformConv", "", detail::generate_deform_conv}, {"DeformConvGrad", "graft", detail::generate_deform_conv_grad}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
