// Kernels of images that are put together, cut or mixed along their channels: copies of runs of memory, or of lanes.
#pragma once

#include "../dispatch.hpp"
#include "../move_kernels.hpp"
#include "attributes.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

// Blocked images put together along their channels; all but the last have whole blocks, so each image is one run of memory.
struct concat_parameters {
    std::int64_t block, element;  // channels, and bytes
};
inline GRAFT_COLD const char* choose_concat(const kernel_query& q, kernel_choice& choice) {
    for (int i = 0; i < q.inputs; ++i) {
        if (q.in[i].type != q.out[0].type || q.in_layout[i] != q.out_layout[0]) return "its images lie differently";
        if (i + 1 < q.inputs && q.in[i].extents[1] % q.out_layout[0].channels != 0) return "its blocks are not whole";
    }
    choice.set(concat_parameters{q.out_layout[0].channels, bytes_of(q.out[0].type, shape{1})});
    choice.note = "copies of whole blocks";
    return nullptr;
}
inline void run_concat(const kernel_call& c) {
    const std::int64_t block = c.parameters<concat_parameters>().block;
    const shape& y = c.out[0].extents;
    const std::int64_t pixel_bytes = y[2] * y[3] * c.parameters<concat_parameters>().element, out_bytes = (y[1] + block - 1) / block * block * pixel_bytes;
    parallel_for(c.pool, y[0] * c.inputs, [&](std::int64_t task) {
        const std::int64_t image = task / c.inputs;
        const int which = static_cast<int>(task % c.inputs);
        std::int64_t before = 0;
        for (int i = 0; i < which; ++i) before += c.in[i].extents[1];
        const std::int64_t bytes = (c.in[which].extents[1] + block - 1) / block * block * pixel_bytes;
        if (bytes)
            std::memcpy(c.out[0].as<char>() + image * out_bytes + before * pixel_bytes, c.in[which].as<const char>() + image * bytes,
                        static_cast<std::size_t>(bytes));
    });
}

// Whole blocks, or all that are left of the image.
struct slice_channels_parameters {
    std::int64_t skipped, stride, run;  // bytes: before the part, from image to image, of the part in an image
};
inline GRAFT_COLD const char* choose_slice_channels(const kernel_query& q, kernel_choice& choice) {
    const std::int64_t block = q.in_layout[0].channels;
    if (!block || q.out_layout[0] != q.in_layout[0] || q.out[0].type != q.in[0].type) return "it cuts blocks of channels only";
    const shape &x = q.in[0].extents, &y = q.out[0].extents;
    const std::int64_t start = integer_of(q.n, "start", 0);
    if (start % block || (y[1] % block && start + y[1] != x[1])) return "its blocks are not whole";
    const std::int64_t plane = x[2] * x[3] * block * bytes_of(q.in[0].type, shape{1});
    const auto blocks = [&](std::int64_t channels) { return (channels + block - 1) / block; };
    choice.set(slice_channels_parameters{start / block * plane, blocks(x[1]) * plane, blocks(y[1]) * plane});
    choice.note = "copies of whole blocks";
    return nullptr;
}
inline void run_slice_channels(const kernel_call& c) {
    const auto& p = c.parameters<slice_channels_parameters>();
    constexpr std::int64_t piece = 65536;
    const std::int64_t pieces = (p.run + piece - 1) / piece;
    parallel_for(c.pool, c.out[0].extents[0] * pieces, [&](std::int64_t task) {
        const std::int64_t image = task / pieces, first = task % pieces * piece;
        std::memcpy(c.out[0].as<char>() + image * p.run + first, c.in[0].as<const char>() + image * p.stride + p.skipped + first,
                    static_cast<std::size_t>(std::min(piece, p.run - first)));
    });
}

// In blocks, or in planes, which are copied whole.
inline GRAFT_COLD const char* choose_gather_channels(const kernel_query& q, kernel_choice& choice) {
    const layout lies = q.out_layout[0];
    for (int i = 1; i < q.inputs; ++i)
        if (q.in[i].type != dtype::float32 || q.in_layout[i] != lies) return "its images lie differently, or are not float32";
    if (lies.channels && lies.channels != vector_width(q.level)) return "its blocks are no vectors";
    choice.set(std::int64_t(lies.channels));
    choice.note = lies.channels ? "lanes of blocks" : "copies of planes";
    return nullptr;
}
inline void run_gather_channels(const kernel_call& c) {
    const std::int64_t width = c.parameters<std::int64_t>(), block = std::max<std::int64_t>(1, width);
    const std::int64_t* const places = c.in[0].as<const std::int64_t>();
    const shape& y = c.out[0].extents;
    const std::int64_t area = y[2] * y[3], blocks = (y[1] + block - 1) / block;
    // Through pixels first, as the convolutions before and behind: a thread goes on with what lies in its own cache.
    const std::int64_t pieces = std::min<std::int64_t>(c.pool.threads(), (area + 31) / 32);
    parallel_for(c.pool, y[0] * pieces * blocks, [&](std::int64_t task) {
        const std::int64_t image = task / (pieces * blocks), piece = task / blocks % pieces, first = task % blocks * block,
                           lanes = std::min(block, y[1] - first);
        const std::int64_t pixel = area * piece / pieces, pixels = area * (piece + 1) / pieces - pixel;
        float* const to = c.output(0) + ((image * blocks + task % blocks) * area + pixel) * block;
        channel_gather of{};
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
            std::int64_t channel = places[first + lane];
            int input = 1;
            while (channel >= c.in[input].extents[1]) channel -= c.in[input++].extents[1];
            const std::int64_t per_image = (c.in[input].extents[1] + block - 1) / block;
            const float* const from = c.input(input) + ((image * per_image + channel / block) * area + pixel) * block;
            if (width == 0) return void(std::memcpy(to, from, static_cast<std::size_t>(pixels) * sizeof *to));
            int s = 0;
            while (s < of.sources && of.from[s] != from) ++s;
            if (s == of.sources) of.from[of.sources++] = from;
            of.lane[s][lane] = static_cast<std::int32_t>(channel % block);
            of.taken[s][lane] = 1;
        }
        kernels(c.level).move->gather_channels(of, to, pixels);
    });
}

inline kernel_rows channel_kernel_rows() {
    constexpr bool blocks = channels_wanted();
    static constexpr kernel_row rows[] = {
        {"Concat", "graft", blocks ? choose_concat : nullptr, blocks ? run_concat : nullptr, false},
        {"SliceChannels", "graft", blocks ? choose_slice_channels : nullptr, blocks ? run_slice_channels : nullptr, false},
        {"GatherChannels", "graft", blocks ? choose_gather_channels : nullptr, blocks ? run_gather_channels : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
