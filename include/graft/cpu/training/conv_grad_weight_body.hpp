// Bodies of the gradient of a convolution's weights: how tiles, shards and strips are cut, and runs over threads.
#pragma once

#include "conv_grad.hpp"
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr std::int64_t grad_wave = 64;          // tiles whose partial sums lie in the workspace at once
constexpr std::int64_t grad_plane_room = 8192;  // grad_plane_floats of the kernels

// Pixels of a strip for which x and dy stay in the first cache: whole images, rows, or parts of a row.
inline void cut_strips(conv_grad_weight_args& a, std::int64_t width, bool planes) {
    const conv_problem& p = a.p;
    const std::int64_t cache = width == 16 ? 40960 : 32768;  // machines with AVX-512 have a larger first cache
    const auto bytes = [&](std::int64_t rows, std::int64_t columns) {
        std::int64_t tall = (rows - 1) * p.sh + std::int64_t(p.kh - 1) * p.dh + 1, wide = (columns - 1) * p.sw + std::int64_t(p.kw - 1) * p.dw + 1;
        if (planes) return (rows * columns * a.vectors * width + p.ic * tall * wide) * 4;
        tall = std::min(tall, rows * p.kh);
        wide = std::min(wide, columns * p.kw);
        return (rows * columns * a.vectors + tall * wide) * width * 4;
    };
    const auto fits = [&](std::int64_t rows, std::int64_t columns) {
        if (planes &&
            p.ic * ((rows - 1) * p.sh + std::int64_t(p.kh - 1) * p.dh + 1) * ((columns - 1) * p.sw + std::int64_t(p.kw - 1) * p.dw + 1) > grad_plane_room)
            return false;
        return bytes(rows, columns) <= cache;
    };
    std::int64_t parts = 1;
    while (parts < p.ow && !fits(1, ceil_div(p.ow, parts))) ++parts;
    a.strip_columns = ceil_div(p.ow, parts);
    a.strip_rows = 1;
    while (a.strip_rows < p.oh && fits(a.strip_rows + 1, a.strip_columns)) ++a.strip_rows;
    a.strip_rows = ceil_div(p.oh, ceil_div(p.oh, a.strip_rows));
    a.strip_images = 1;
    if (!planes && a.strip_rows == p.oh && parts == 1) a.strip_images = std::max<std::int64_t>(1, cache / bytes(p.oh, p.ow));
}

inline bool grad_reads_planes(const conv_problem& p) {
    return p.in == layout::row_major && p.groups == 1 && p.ic <= 4 && p.ic * p.kh * p.kw <= first_layer_max &&
           p.ic * (std::int64_t(p.kh - 1) * p.dh + 1) * (std::int64_t(p.kw - 1) * p.dw + 1) <= grad_plane_room;
}

inline conv_grad_weight_args conv_grad_weight_arguments(isa set, const conv_problem& problem, conv_grad_weight_algorithm algorithm, int shards) {
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    const std::int64_t width = vector_width(set), taps = std::int64_t(problem.kh) * problem.kw;
    conv_grad_weight_args a;
    conv_problem& p = a.p = problem;
    if (taps == 1 && p.sh == 1 && p.sw == 1 && p.pt == 0 && p.pl == 0 && p.oh == p.ih && p.ow == p.iw) {
        p.ow = p.iw = p.oh * p.ow;
        p.oh = p.ih = 1;
    }
    a.icg = p.ic / p.groups;
    a.ocg = p.oc / p.groups;
    a.shards.count = shards;
    const std::int64_t blocks = ceil_div(p.oc, width);
    std::int64_t rows = 0;
    if (algorithm == conv_grad_weight_algorithm::depthwise) {
        rows = taps;
    } else if (algorithm == conv_grad_weight_algorithm::planes) {
        a.vectors = static_cast<int>(std::min<std::int64_t>(k.plane_vectors, blocks));
        a.lanes = p.ic;
        rows = p.ic * taps + 16;
    } else {
        // Vectors that belong to one group, if any do; else each on its own, with the inputs of all its groups.
        a.vectors = k.vectors;
        if (p.groups > 1) {
            while (a.ocg % (a.vectors * width) != 0 && a.vectors > 1) --a.vectors;
        }
        a.vectors = static_cast<int>(std::min<std::int64_t>(a.vectors, blocks));
        // Tiles of evenly many vectors.
        if (p.groups == 1) a.vectors = static_cast<int>(ceil_div(blocks, ceil_div(blocks, a.vectors)));
        std::int64_t inputs = p.groups == 1 ? p.ic : ((a.vectors * width - 2) / a.ocg + 2) * a.icg;
        if (a.ocg % (a.vectors * width) == 0) inputs = a.icg;
        inputs = std::min(inputs, p.ic);
        // As many input channels as keep a tile in the second cache.
        a.lanes = 49152 / (taps * a.vectors * width * 4);
        a.lanes = a.lanes >= width ? a.lanes / width * width : std::max<std::int64_t>(4, a.lanes / 4 * 4);
        if (a.lanes > inputs) a.lanes = inputs;
        a.chunks = ceil_div(inputs, a.lanes);
        rows = (a.lanes + 16) * taps;
        if (p.groups == 1 && a.lanes % width == 0) rows = a.lanes * taps;
    }
    a.tile_floats = (rows + 1) * a.vectors * width;
    const std::int64_t tiles = ceil_div(blocks, a.vectors) * a.chunks;
    // Few tiles: the shards are spread over threads as well, which takes room for their sums.
    while (tiles * a.parts < 32 && a.parts < shards && tiles * a.parts * a.tile_floats < (std::int64_t(1) << 21)) a.parts *= 2;
    a.levels = 1;
    while (a.parts << (a.levels - 1) < shards) ++a.levels;
    cut_strips(a, width, algorithm == conv_grad_weight_algorithm::planes);
    return a;
}

inline std::int64_t conv_grad_tiles(const conv_grad_weight_args& a, std::int64_t width) { return ceil_div(ceil_div(a.p.oc, width), a.vectors) * a.chunks; }

// The time of one sample in nanoseconds of one core; m = 0: directly. The constants are measured; only their ratio matters.
inline double grad_winograd_cost(const conv_problem& p, int m, std::int64_t width) {
    const double products_per_ns = 6.0 * double(width), channels = double(p.ic) * double(ceil_div(p.oc, width) * width);
    if (m == 0) return 9 * double(p.oh * p.ow) * channels / products_per_ns;
    const double elements = (m + 2) * (m + 2), tiles = double(ceil_div(p.oh, m) * ceil_div(p.ow, m));
    const double blocks = double(ceil_div(p.ic, width) + ceil_div(p.oc, width));
    // Sums go to memory and back once a shard, of two samples, say.
    return elements * channels * (tiles + (m == 4 ? 13 : 26)) / products_per_ns + tiles * blocks * (m == 4 ? 100 : 28);
}
inline int grad_winograd_size(const conv_problem& p, std::int64_t width) {
    if (p.kh != 3 || p.kw != 3 || p.sh != 1 || p.sw != 1 || p.dh != 1 || p.dw != 1 || p.groups != 1 || p.exact) return 0;
    if (p.ic < width || p.oc < width) return 0;
    const double direct = grad_winograd_cost(p, 0, width), two = grad_winograd_cost(p, 2, width), four = grad_winograd_cost(p, 4, width);
    if (two > 0.9 * direct && four > 0.9 * direct) return 0;
    return two < four ? 2 : 4;
}

struct grad_winograd_plan {
    conv_grad_winograd_args a;
    std::int64_t bytes = 0, tiles = 0, slots = 0;  // tiles of weights, and how many of them are summed at once
};

// Where the sums of all weights are small, transforms of some strips stay in the second cache; where they are not, each is finished
// in one go, from transforms of the whole batch.
inline grad_winograd_plan plan_grad_winograd(isa set, const conv_problem& p, conv_grad_weight_algorithm algorithm, int shards) {
    const std::int64_t width = vector_width(set);
    grad_winograd_plan plan;
    conv_grad_winograd_args& a = plan.a;
    a.weight = conv_grad_weight_arguments(set, p, conv_grad_weight_algorithm::direct, shards);
    a.wino = algorithm == conv_grad_weight_algorithm::winograd4 ? 4 : 2;
    const std::int64_t elements = (a.wino + 2) * (a.wino + 2), in_blocks = ceil_div(p.ic, width), out_blocks = ceil_div(p.oc, width);
    conv_grad_weight_args& w = a.weight;
    w.lanes = width;
    w.chunks = in_blocks;
    w.tile_floats = (elements * w.lanes + 1) * w.vectors * width;
    w.parts = 1;
    w.levels = 1;
    while (1 << (w.levels - 1) < shards) ++w.levels;
    a.tiles_high = ceil_div(p.oh, a.wino);
    a.tiles_wide = ceil_div(p.ow, a.wino);
    plan.tiles = conv_grad_tiles(w, width);
    const std::int64_t one = elements * (in_blocks + out_blocks) * width * 4, all = p.n * a.tiles_high * a.tiles_wide;
    const std::int64_t slot = w.levels * w.tile_floats * 4;
    plan.slots = plan.tiles;
    a.tile_room = std::max<std::int64_t>(conv_grad_strips::most, (std::int64_t(1) << 20) / one);
    if (plan.tiles * slot > (std::int64_t(16) << 20) && all * one <= (std::int64_t(64) << 20)) {
        a.tile_room = std::max<std::int64_t>(all, 1);
        plan.slots = std::min<std::int64_t>(plan.tiles, 16);
    }
    // An odd one, so that blocks do not fall into each other's cache sets.
    a.tile_room = std::min(a.tile_room, std::max<std::int64_t>(all, 1)) | 1;
    a.x_element = winograd_element(p.ic, width, a.tile_room);
    a.dy_element = winograd_element(p.oc, width, a.tile_room);
    plan.bytes = elements * (a.x_element + a.dy_element) * 4 + plan.slots * slot;
    return plan;
}

inline void run_grad_winograd(isa set, grad_winograd_plan& plan, executor& pool) {
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    conv_grad_winograd_args& a = plan.a;
    conv_grad_weight_args& w = a.weight;
    const std::int64_t width = vector_width(set), elements = (a.wino + 2) * (a.wino + 2), per_image = a.tiles_high * a.tiles_wide;
    const std::int64_t in_blocks = ceil_div(w.p.ic, width), out_blocks = ceil_div(w.p.oc, width);
    conv_grad_strips all[shards::most];
    for (int i = 0; i < w.shards.count; ++i) all[i] = conv_grad_strips_of(w.shards, w.p.n, per_image, i);
    a.strips = all;
    a.x_transformed = w.workspace;
    a.dy_transformed = a.x_transformed + elements * a.x_element;
    w.workspace = a.dy_transformed + elements * a.dy_element;
    conv_args x;
    x.p = w.p;
    x.x = w.x;
    x.wino = a.wino;
    x.tiles_high = a.tiles_high, x.tiles_wide = a.tiles_wide;
    x.tile_room = a.tile_room;
    x.transformed = a.x_transformed;
    x.in_element = a.x_element;
    while (a.end.shard < w.shards.count) {
        // As many strips as there is room for; an empty shard has one of no tiles.
        a.begin = a.end;
        std::int64_t tiles = 0;
        while (a.end.shard < w.shards.count) {
            const conv_grad_strips& strips = all[a.end.shard];
            if (tiles + strips.length_of(a.end.strip) > a.tile_room) break;
            if (tiles == 0) a.first_tile = strips.first + a.end.strip * strips.length;
            tiles += strips.length_of(a.end.strip);
            if (++a.end.strip == strips.count) a.end.strip = 0, ++a.end.shard;
        }
        x.first_tile = a.first_tile;
        const std::int64_t parts = ceil_div(tiles, 32), end = a.first_tile + tiles;
        parallel_for(pool, (in_blocks + out_blocks) * parts, [&](std::int64_t task) {
            const std::int64_t block = task / parts, first = a.first_tile + task % parts * 32, last = std::min(first + 32, end);
            if (block < in_blocks)
                kernels(set).conv->winograd_input(x, block, first, last);
            else
                k.winograd_transform(a, block - in_blocks, first, last);
        });
        for (w.first_tile = 0; w.first_tile < plan.tiles; w.first_tile += plan.slots) {
            const std::int64_t count = std::min(plan.slots, plan.tiles - w.first_tile);
            parallel_for(pool, count * elements, [&](std::int64_t task) { k.winograd_multiply(a, w.first_tile + task % count, task / count); });
            if (a.end.shard == w.shards.count) parallel_for(pool, count, [&](std::int64_t task) { k.winograd_end(a, w.first_tile + task); });
        }
    }
}

}  // namespace detail

GRAFT_INLINE conv_grad_weight_choice choose_conv_grad_weight(isa set, const conv_problem& p, int shards) {
    const std::int64_t width = vector_width(set);
    conv_grad_weight_choice c;
    c.shards = shards;
    c.reason = p.groups > 1 ? "groups" : "the general case";
    if (detail::is_depthwise(p)) {
        c.algorithm = conv_grad_weight_algorithm::depthwise;
        c.reason = "as many groups as channels";
    } else if (detail::grad_reads_planes(p)) {
        c.algorithm = conv_grad_weight_algorithm::planes;
        c.reason = "few channels, read from planes";
        c.in = layout::row_major;
    } else if (const int m = detail::grad_winograd_size(p, width)) {
        c.algorithm = m == 4 ? conv_grad_weight_algorithm::winograd4 : conv_grad_weight_algorithm::winograd2;
        c.reason = m == 4 ? "Winograd F(4x4, 3x3)" : "Winograd F(2x2, 3x3)";
        c.workspace_bytes = detail::plan_grad_winograd(set, p, c.algorithm, shards).bytes;
        return c;
    }
    const conv_grad_weight_args a = detail::conv_grad_weight_arguments(set, p, c.algorithm, shards);
    const std::int64_t tiles = detail::conv_grad_tiles(a, width);
    c.workspace_bytes = std::min(tiles, detail::grad_wave) * a.parts * a.levels * a.tile_floats * 4;
    return c;
}

GRAFT_INLINE void run_conv_grad_weight(isa set, const conv_problem& p, const conv_grad_weight_choice& choice, const float* x, const float* dy, float* dw,
                                       float* db, void* workspace, executor& pool) {
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    if (p.oc == 0 || p.groups == 0) return;
    conv_grad_weight_args a = detail::conv_grad_weight_arguments(set, p, choice.algorithm, choice.shards);
    a.x = x;
    a.dy = dy;
    a.dw = dw;
    a.db = db;
    a.workspace = static_cast<float*>(workspace);
    if (choice.algorithm == conv_grad_weight_algorithm::winograd2 || choice.algorithm == conv_grad_weight_algorithm::winograd4) {
        detail::grad_winograd_plan plan = detail::plan_grad_winograd(set, p, choice.algorithm, choice.shards);
        plan.a.weight.x = x, plan.a.weight.dy = dy, plan.a.weight.dw = dw, plan.a.weight.db = db;
        plan.a.weight.workspace = static_cast<float*>(workspace);
        return detail::run_grad_winograd(set, plan, pool);
    }
    const std::int64_t tiles = detail::conv_grad_tiles(a, vector_width(set));
    const bool depthwise = choice.algorithm == conv_grad_weight_algorithm::depthwise;
    const auto kernel = depthwise ? k.weight_depthwise : choice.algorithm == conv_grad_weight_algorithm::planes ? k.weight_planes : k.weight;
    const auto end = depthwise ? k.weight_depthwise_end : k.weight_end;
    for (a.first_tile = 0; a.first_tile < tiles; a.first_tile += detail::grad_wave) {
        const std::int64_t count = std::min(tiles - a.first_tile, detail::grad_wave);
        // Tiles of one part of the batch follow each other, as they read the same images.
        parallel_for(pool, count * a.parts, [&](std::int64_t task) {
            kernel(a, a.first_tile + task % count, task / count);
            if (a.parts == 1) end(a, a.first_tile + task);
        });
        if (a.parts > 1) parallel_for(pool, count, [&](std::int64_t task) { end(a, a.first_tile + task); });
    }
}

}  // namespace cpu
GRAFT_END_NAMESPACE
