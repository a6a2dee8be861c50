// Bodies of the gradient of a convolution's weights: how tiles, shards and strips are cut, and runs over threads.
#pragma once

#include "bfloat16_grad.hpp"
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
    if (m == 0) {
        // Taps that lie in the padding cost nothing.
        const auto inside = [](std::int64_t out, std::int64_t in, std::int64_t pad) {
            std::int64_t pixels = 0;
            for (std::int64_t k = -pad; k < 3 - pad; ++k) pixels += std::max<std::int64_t>(0, std::min(out, in - k) - std::max<std::int64_t>(0, -k));
            return double(pixels);
        };
        return inside(p.oh, p.ih, p.pt) * inside(p.ow, p.iw, p.pl) * channels / products_per_ns;
    }
    const double elements = (m + 2) * (m + 2), tiles = double(ceil_div(p.oh, m) * ceil_div(p.ow, m));
    const double blocks = double(ceil_div(p.ic, width) + ceil_div(p.oc, width));
    // Sums go to memory and are transformed back once a shard, of two samples, say.
    return elements * channels * tiles / products_per_ns + tiles * blocks * (m == 4 ? 100 : 32) + channels / double(width) * (m == 4 ? 22 : 12);
}
inline int grad_winograd_size(const conv_problem& p, std::int64_t width) {
    if (p.kh != 3 || p.kw != 3 || p.sh != 1 || p.sw != 1 || p.dh != 1 || p.dw != 1 || p.groups != 1 || p.exact) return 0;
    if (p.ic < width || p.oc < width) return 0;
    const double direct = grad_winograd_cost(p, 0, width), two = grad_winograd_cost(p, 2, width), four = grad_winograd_cost(p, 4, width);
    if (two > 0.9 * direct && four > 0.9 * direct) return 0;
    return two < four ? 2 : 4;
}

// Whether the kernels of bfloat16 take the gradient and are faster. Tiles always are; pairs are twice as many a cycle as floats, but pixels have to be
// gathered, once for each tap.
inline bool faster_in_bfloat16(isa set, const bfloat16_grad_args& a) {
    const bfloat16_kernels* const products = bfloat16_products(set);
    const conv_problem& p = a.p;
    if (!products || p.groups > 1 || std::int64_t(p.kh) * p.kw > bfloat16_most_taps || !fits_bfloat16_grad(a)) return false;
    if (products->tiles) return true;
    constexpr double row_ns = 1, pack_ns = 2;  // of a pixel's vector of channels
    const std::int64_t width = vector_width(set), taps = std::int64_t(p.kh) * p.kw, pixels = p.oh * p.ow;
    const double products_per_ns = 6.0 * double(width), in_vectors = double(ceil_div(p.ic, width) * taps), out_blocks = double(ceil_div(p.oc, bfloat16_block));
    double floats = double(pixels * taps * p.ic * ceil_div(p.oc, width) * width) / products_per_ns;
    if (const int m = grad_winograd_size(p, width)) floats = grad_winograd_cost(p, m, width);
    const double pairs = double(ceil_div(pixels, 16) * 16 * p.ic * taps) * out_blocks * bfloat16_block / (1.7 * products_per_ns);
    return pairs + double(pixels) * (in_vectors * row_ns + out_blocks * double(bfloat16_block / width) * pack_ns) < floats;
}

struct grad_winograd_plan {
    conv_grad_winograd_args a;
    std::int64_t bytes = 0, tiles = 0, together = 0;  // tiles of weights, and how many of them have sums in the workspace at once
    bool whole = false;                               // whether a tile is finished in one go
};

// Where a shard has many tiles, transforms of some strips stay in the second cache and the sums of all weights come by once a run. Where it has
// few, sums are most of what is read and written: each tile of weights is finished in one go, from transforms of the whole batch, so that its
// sums stay in the second cache.
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
    w.tile_floats = (9 * w.lanes + 1) * w.vectors * width;
    w.parts = 1;
    w.levels = 1;
    while (1 << (w.levels - 1) < shards) ++w.levels;
    // A vector more, so that the elements of a sum do not fall into one cache set.
    a.sum_element = (w.lanes * w.vectors + 1) * width;
    a.slot_floats = elements * a.sum_element;
    a.tiles_high = ceil_div(p.oh, a.wino);
    a.tiles_wide = ceil_div(p.ow, a.wino);
    plan.tiles = conv_grad_tiles(w, width);
    const std::int64_t per_image = a.tiles_high * a.tiles_wide, one = elements * (in_blocks + out_blocks) * width * 4, all = p.n * per_image;
    a.tile_room = std::max<std::int64_t>(conv_grad_strips::most, (std::int64_t(1) << 20) / one);
    const std::int64_t shard = std::max<std::int64_t>(p.n / shards, 1) * std::max<std::int64_t>(per_image, 1);
    plan.whole = shard <= conv_grad_strips::most && plan.tiles >= 16 && all * one <= (std::int64_t(64) << 20);
    plan.together = plan.tiles;
    if (plan.whole) {
        a.tile_room = all;
        plan.together = std::min<std::int64_t>(plan.tiles, 32);
    } else {
        // As many as a run's strips may belong to, where the first and the last shard need not be whole, if they fit the second cache.
        const std::int64_t fit = std::max<std::int64_t>(2, (std::int64_t(1) << 20) / (plan.tiles * a.slot_floats * 4));
        a.slots = std::max<std::int64_t>(1, std::min({a.tile_room / shard + 2, p.n, std::int64_t(shards), fit}));
    }
    // A strip of an even number of tiles takes room for one more. Where a shard has several strips, each is longer than half of the longest.
    a.tile_room = std::min(a.tile_room, all);
    a.tile_room += a.tile_room / (conv_grad_strips::most / 2) + shards;
    plan.bytes = (elements * (in_blocks + out_blocks) * width * a.tile_room + plan.together * (a.slots * a.slot_floats + w.levels * w.tile_floats)) * 4;
    return plan;
}

inline void run_grad_winograd(isa set, grad_winograd_plan& plan, executor& pool) {
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    conv_grad_winograd_args& a = plan.a;
    conv_grad_weight_args& w = a.weight;
    const std::int64_t width = vector_width(set), elements = (a.wino + 2) * (a.wino + 2), per_image = a.tiles_high * a.tiles_wide;
    const std::int64_t in_blocks = ceil_div(w.p.ic, width), out_blocks = ceil_div(w.p.oc, width);
    conv_grad_strips all[shards::most];
    std::int64_t full = 0, place = 0, index = 0;
    for (int i = 0; i < w.shards.count; ++i) {
        conv_grad_strips& strips = all[i] = conv_grad_strips_of(w.shards, w.p.n, per_image, i);
        strips.place = place, strips.index = index;
        if (strips.tiles == 0) continue;
        strips.slot = full++ % a.slots;
        place += strips.count * strips.room();
        index += strips.count;
    }
    a.strips = all;
    a.x_transformed = w.workspace;
    a.dy_transformed = a.x_transformed + elements * in_blocks * width * a.tile_room;
    a.sums = a.dy_transformed + elements * out_blocks * width * a.tile_room;
    w.workspace = a.sums + plan.together * a.slots * a.slot_floats;
    conv_args x;
    x.p = w.p;
    x.x = w.x.floats();
    x.wino = a.wino;
    x.tiles_high = a.tiles_high, x.tiles_wide = a.tiles_wide;
    while (a.end.shard < w.shards.count) {
        // As many strips as there is room for, them and their shards' sums; an empty shard has one of no tiles.
        a.begin = a.end;
        std::int64_t room = 0, sums = 0, here = 0;
        a.first_place = all[a.begin.shard].place_of(a.begin.strip);
        const std::int64_t first_index = all[a.begin.shard].index + a.begin.strip;
        while (a.end.shard < w.shards.count) {
            const conv_grad_strips& strips = all[a.end.shard];
            if (strips.tiles > 0) {
                if (room + strips.room() > a.tile_room) break;
                if (room == 0 || a.end.strip == 0) {
                    if (sums == a.slots && !plan.whole) break;
                    ++sums;
                }
                room += strips.room();
                ++here;
            }
            if (++a.end.strip == strips.count) a.end.strip = 0, ++a.end.shard;
        }
        // Half strips of blocks.
        const std::int64_t blocks = in_blocks + out_blocks, half = conv_grad_strips::most / 2;
        parallel_for(pool, here * 2 * blocks, [&](std::int64_t task) {
            const std::int64_t strip = first_index + task / (2 * blocks), block = task / 2 % blocks;
            int shard = a.begin.shard;
            while (all[shard].tiles == 0 || all[shard].index + all[shard].count <= strip) ++shard;
            const conv_grad_strips& strips = all[shard];
            const std::int64_t number = strip - strips.index, length = strips.length_of(number), tile = strips.first + number * strips.length;
            const std::int64_t first = tile + task % 2 * half, last = tile + std::min(length, (task % 2 + 1) * half);
            if (first >= last) return;
            const std::int64_t from = (strips.place_of(number) - a.first_place) * elements * width;
            if (block < in_blocks) {
                conv_args mine = x;
                mine.first_tile = tile;
                mine.tile_room = elements * strips.room();
                mine.in_element = strips.room() * width;
                mine.transformed = a.x_transformed + from * in_blocks;
                kernels(set).conv->winograd_input(mine, block, first, last);
            } else {
                conv_grad_winograd_args mine = a;
                mine.first_tile = tile;
                mine.tile_room = elements * strips.room();
                mine.dy_element = strips.room() * width;
                mine.dy_transformed = a.dy_transformed + from * out_blocks;
                k.winograd_transform(mine, block - in_blocks, first, last);
            }
        });
        if (plan.whole) {
            // Adjacent tiles, which read the same dy, one after the other in the same room.
            parallel_for(pool, plan.together, [&](std::int64_t task) {
                conv_grad_winograd_args mine = a;
                const std::int64_t last = (task + 1) * plan.tiles / plan.together;
                for (std::int64_t tile = task * plan.tiles / plan.together; tile < last; ++tile) {
                    mine.weight.first_tile = tile - task;
                    for (int shard = 0; shard < w.shards.count; ++shard) {
                        mine.begin.shard = shard, mine.end.shard = shard + 1;
                        k.winograd_multiply(mine, tile, 0, elements);
                        k.winograd_end(mine, tile, 0, w.lanes);
                    }
                }
            });
            continue;
        }
        parallel_for(pool, plan.tiles * elements, [&](std::int64_t task) {
            const std::int64_t element = task / plan.tiles;
            k.winograd_multiply(a, task % plan.tiles, element, element + 1);
        });
        if (a.begin.shard == a.end.shard) continue;
        parallel_for(pool, plan.tiles * 4, [&](std::int64_t task) {
            const std::int64_t part = task % 4;
            k.winograd_end(a, task / 4, part * w.lanes / 4, (part + 1) * w.lanes / 4);
        });
    }
}

// The gradient of the bias by itself, a vector of output channels a task.
inline void run_grad_bias(isa set, const conv_problem& p, int shards, const float* dy, float* db, executor& pool) {
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    conv_grad_weight_args a;
    a.p = p;
    a.dy = dy;
    a.db = db;
    a.shards.count = shards;
    parallel_for(pool, ceil_div(p.oc, vector_width(set)), [&](std::int64_t vector) { k.bias(a, vector); });
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
    } else if (p.bfloat16 && detail::faster_in_bfloat16(set, bfloat16_grad_of(set, p, shards))) {
        c.algorithm = conv_grad_weight_algorithm::bfloat16;
        c.reason = "operands in bfloat16";
        c.workspace_bytes = bfloat16_grad_workspace(bfloat16_grad_of(set, p, shards));
        return c;
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

GRAFT_INLINE void run_conv_grad_weight(isa set, const conv_problem& p, const conv_grad_weight_choice& choice, const saved_activation& x, const float* dy,
                                       float* dw, float* db, void* workspace, executor& pool) {
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    if (p.oc == 0 || p.groups == 0) return;
    if (choice.algorithm == conv_grad_weight_algorithm::bfloat16) {
        bfloat16_grad_args of = bfloat16_grad_of(set, p, choice.shards);
        run_bfloat16_grad(set, of, x, dy, dw, workspace, pool);
        if (db) detail::run_grad_bias(set, p, choice.shards, dy, db, pool);
        return;
    }
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
