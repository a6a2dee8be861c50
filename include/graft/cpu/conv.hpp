// Convolution of float32 images: the choice of an algorithm, the packing of weights, and a run over threads.
#pragma once

#include "../core/executor.hpp"
#include "bfloat16.hpp"
#include "conv_kernels.hpp"
#include "isa.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

enum class conv_algorithm {
    direct,       ///< register tiles over the blocked input
    pointwise,    ///< the same with one tap and no border: a matrix product
    depthwise,    ///< as many groups as channels
    winograd2,    ///< F(2x2, 3x3)
    winograd4,    ///< F(4x4, 3x3)
    first_layer,  ///< few channels, read from planes
    grouped,      ///< the direct one for each group
    shared,       ///< groups of few channels, several of which share a vector
    generic,      ///< kernels with very many taps
    bfloat16,     ///< tiles of operands rounded to bfloat16
};

/// How a problem will be computed. Depends on the instruction set and the shape of one sample, never on the batch or the threads.
struct conv_choice {
    conv_algorithm algorithm = conv_algorithm::direct;
    const char* reason = "";                                   ///< for logs; static storage
    std::int64_t packed_bytes = 0;                             ///< of the weights as pack_conv_weights writes them
    std::int64_t workspace_bytes = 0;                          ///< what run_conv needs beside its arguments, aligned to 64
    layout::kind in = layout::blocked, out = layout::blocked;  ///< what it reads and writes
};

/// Picks the algorithm. `problem.in` says what is at hand: planes are taken as they are only by first_layer.
conv_choice choose_conv(isa set, const conv_problem& problem);

/// The choice of bfloat16 for a problem that `takes_bfloat16` says yes to, whatever is faster.
conv_choice choose_bfloat16_conv(const conv_problem& problem);

/// Writes the weights, [oc][ic / groups][kh][kw], in the order in which the algorithm reads them. `weight` holds those of output channels
/// [begin, end), of which conv_channels_at_once gives the parts; `packed` is room for all.
void pack_conv_weights(isa set, const conv_problem& problem, const conv_choice& choice, const float* weight, std::int64_t begin, std::int64_t end, void* packed,
                       executor& pool);
inline void pack_conv_weights(isa set, const conv_problem& problem, const conv_choice& choice, const float* weight, void* packed, executor& pool) {
    pack_conv_weights(set, problem, choice, weight, 0, problem.oc, packed, pool);
}
/// Output channels that are packed in one part, so that their weights are some `floats`: all where groups have to be packed whole.
std::int64_t conv_channels_at_once(isa set, const conv_problem& problem, const conv_choice& choice, std::int64_t floats);

/// y = epilogue(conv(x, weight) + bias). `bias` is null or oc floats; `residual` (null, or of y's shape and layout) may be y.
void run_conv(isa set, const conv_problem& problem, const conv_choice& choice, const float* x, const void* packed, const float* bias, const float* residual,
              float* y, void* workspace, executor& pool);

/// Whether a choice can read (`x`) and write (`y`) images in bfloat16.
bool takes_narrow_images(const conv_problem& problem, const conv_choice& choice, bool x, bool y);
/// The same as run_conv with such images, in place of the floats that are null.
void run_narrow_conv(isa set, const conv_problem& problem, const conv_choice& choice, const float* x, const void* packed, const float* bias,
                     const float* residual, float* y, const narrow_images& narrow, void* workspace, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <atomic>
#include <limits>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr int conv_max_taps = 256;              // half of conv_table_rows of the kernels
constexpr std::int64_t first_layer_max = 4096;  // first_layer_taps
constexpr std::int64_t first_layer_room = 16384;

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Tiles that one run of the first layer takes at once: as many as fit the room on the stack.
inline std::int64_t first_layer_tiles(const conv_problem& p, std::int64_t tile) {
    const std::int64_t extra = (p.kw - 1) * p.dw / p.sw + 1, columns = first_layer_room / (p.ic * ((p.kh - 1) * p.dh + 1) * p.sw);
    const std::int64_t fit = columns > extra ? (columns - extra) / tile : 0, all = ceil_div(p.ow, tile);
    return fit < all ? fit : all;
}

inline std::int64_t direct_weights(const conv_problem& p, int width) { return ceil_div(p.oc / p.groups, width) * width * (p.ic / p.groups) * p.kh * p.kw; }

inline bool is_depthwise(const conv_problem& p) { return p.groups > 1 && p.groups == p.ic && p.ic == p.oc; }

// Groups that lie whole in vectors, more than one in each.
inline bool is_shared(const conv_problem& p, std::int64_t width) {
    const std::int64_t channels = p.ic / p.groups;
    return p.ic == p.oc && channels > 1 && channels < width && width % channels == 0;
}

inline conv_args conv_arguments(isa set, const conv_problem& p, const conv_choice& choice) {
    const conv_kernels& k = *kernels(set).conv;
    const int width = vector_width(set);
    conv_args a;
    a.p = p;
    a.icg = p.ic / p.groups;
    a.ocg = p.oc / p.groups;
    a.pairs = ceil_div(a.ocg, 2 * width);
    a.group_weights = direct_weights(p, width);
    a.scatter = a.ocg % width != 0 && (choice.algorithm == conv_algorithm::grouped || (choice.algorithm == conv_algorithm::generic && p.groups > 1));
    const float infinity = std::numeric_limits<float>::infinity();
    a.low = p.ep.act == activation::relu ? 0 : p.ep.act == activation::clip ? p.ep.alpha : -infinity;
    a.high = p.ep.act == activation::clip ? p.ep.beta : infinity;
    a.clamp = p.ep.act == activation::relu || p.ep.act == activation::clip;
    const bool other = !a.clamp && p.ep.act != activation::none, in_place = !p.ep.residual_after_activation && !a.scatter;
    switch (choice.algorithm) {
    case conv_algorithm::direct:
    case conv_algorithm::pointwise:
    case conv_algorithm::depthwise:
    case conv_algorithm::first_layer:
    case conv_algorithm::grouped: a.run_activation = other && in_place; break;
    default: break;
    }
    a.tile_activation = other && !a.run_activation;
    if (choice.algorithm == conv_algorithm::depthwise) {
        // Rows of about 50 000 products a task, or all of them where the image is small.
        const std::int64_t row = p.ow * p.kh * p.kw;
        a.batch_tiles = ceil_div(20000, row) < p.oh ? ceil_div(20000, row) : p.oh;
        a.batches = ceil_div(p.oh, a.batch_tiles);
    } else if (choice.algorithm == conv_algorithm::first_layer) {
        a.batch_tiles = first_layer_tiles(p, k.first_tile);
        a.batches = ceil_div(p.ow, a.batch_tiles * k.first_tile);
        // Rows of outputs of one task: neighbours share rows of inputs. As many as fit, but not too few tasks.
        const std::int64_t row = p.ic * p.sw * (a.batch_tiles * k.first_tile + (p.kw - 1) * p.dw / p.sw + 1);
        const std::int64_t fit = (first_layer_room / row - (p.kh - 1) * p.dh - 1) / p.sh + 1, most = ceil_div(p.oh * a.batches, 16);
        a.pairs_per_task = fit < most ? fit : most;
        a.tasks_per_batch = ceil_div(p.oh, a.pairs_per_task);
    } else if (choice.algorithm == conv_algorithm::shared) {
        a.pairs_per_task = 8;
        a.tasks_per_batch = ceil_div(ceil_div(p.oc, width), a.pairs_per_task);
        a.batch_tiles = 10000 / (k.tile * a.icg * p.kh * p.kw) + 1;
        a.batches = ceil_div(p.oh * p.ow, a.batch_tiles * k.tile);
    } else {
        // A task has some 400,000 products, 10 us of work: of a small layer two threads would else be given three or five.
        constexpr std::int64_t most = 400000;
        const std::int64_t tiles = ceil_div(p.oh * p.ow, k.tile), products = 2 * k.tile * width * a.icg * p.kh * p.kw;
        a.batches = ceil_div(tiles, 16);
        while (a.batches * a.pairs < 16 && ceil_div(tiles, a.batches * 2) * products > most) a.batches *= 2;
        a.batch_tiles = ceil_div(tiles, a.batches);
        a.batches = ceil_div(tiles, a.batch_tiles);
        a.pairs_per_task = ceil_div(most, a.batch_tiles * products);
        if (a.pairs_per_task > a.pairs) a.pairs_per_task = a.pairs;
        a.tasks_per_batch = ceil_div(a.pairs, a.pairs_per_task);
    }
    return a;
}

constexpr int most_winograd_threads = 64;  // that do runs of tiles each on its own
constexpr std::int64_t winograd_gap = 16;  // pixels between what is transformed and its products: as many as a register tile has, or more

inline std::int64_t winograd_tiles(const conv_problem& p, int m) { return ceil_div(p.oh, m) * ceil_div(p.ow, m); }  // of one image

// Tiles that are transformed at once: as many as keep both sides of the products in the second cache, but not too few for
// the weights, which are read once for each run of tiles.
inline std::int64_t winograd_room(const conv_problem& p, int m, std::int64_t width) {
    const std::int64_t one = (m + 2) * (m + 2) * (ceil_div(p.ic, width) + ceil_div(p.oc, width)) * width * 4;
    const std::int64_t all = winograd_tiles(p, m), fit = (std::int64_t(1) << 20) / one < 49 ? 49 : (std::int64_t(1) << 20) / one;
    return ceil_div(all, ceil_div(all, fit));
}

// Floats of one element of all tiles. The odd cache line keeps the elements of one tile out of each other's cache sets.
inline std::int64_t winograd_element(std::int64_t channels, std::int64_t width, std::int64_t room) { return ceil_div(channels, width) * width * room + 16; }

// Nanoseconds that weights beyond the second cache take to be read so many times.
inline double winograd_reading(const conv_problem& p, int m, std::int64_t width, std::int64_t times) {
    const double weights = double((m + 2) * (m + 2)) * double(p.ic) * double(ceil_div(p.oc, width) * width) * 4;
    return weights > 1e6 ? (weights - 1e6) * double(times) / 25 : 0;
}

// The time that a size of Winograd's output tile (0: the direct algorithm) should take, in nanoseconds of one core: products at
// the speed of the kernels, or weights beyond the second cache at the speed of the memory if that takes longer, as they are asked for
// while others are multiplied; and the transforms. The constants are measured; only their ratio matters.
inline double winograd_cost(const conv_problem& p, int m, std::int64_t width) {
    const double products_per_ns = 6.2 * double(width);
    const double channels = double(p.ic) * double(ceil_div(p.oc, width) * width);
    if (m == 0) return 9 * double(p.oh * p.ow) * channels / products_per_ns;
    const std::int64_t all = winograd_tiles(p, m), room = winograd_room(p, m, width);
    const double elements = (m + 2) * (m + 2);
    // A few tiles fill register tiles of eight badly.
    const double rows = room <= 16 ? double(ceil_div(room, 8) * 8) / double(room) : 1.04;
    const double reading = winograd_reading(p, m, width, ceil_div(all, room));
    const double blocks = double(ceil_div(p.ic, width) + ceil_div(p.oc, width));
    const double products = elements * double(all) * rows * channels / products_per_ns;
    return (products > reading ? products : reading) + double(all) * blocks * (m == 4 ? 55 : 15);
}

inline bool may_be_winograd(const conv_problem& p) {
    return p.groups == 1 && p.kh == 3 && p.kw == 3 && p.sh == 1 && p.sw == 1 && p.dh == 1 && p.dw == 1 && !p.exact;
}

// 4, 2 or 0: the fastest size. Winograd rounds more, so it has to be clearly faster.
inline int winograd_size(const conv_problem& p, std::int64_t width) {
    if (p.ic <= 4) return 0;  // which are read from planes
    const double direct = winograd_cost(p, 0, width), two = winograd_cost(p, 2, width), four = winograd_cost(p, 4, width);
    if (two > 0.9 * direct && four > 0.9 * direct) return 0;
    return two < four ? 2 : 4;
}

// Whether a convolution that the kernels of bfloat16 take is faster there. Tiles are, but for what comes first in a network and has few channels on both sides,
// which is as fast and better not rounded. Pairs are twice as many a cycle as floats, but blocks of 32
// channels may be half empty, and pixels have to be gathered; Winograd's products are fewer.
constexpr double gather_ns = 3;  // of 32 channels of a pixel, on the scale of winograd_cost
inline GRAFT_COLD bool faster_in_bfloat16(isa set, const conv_problem& all) {
    const conv_problem p = one_group(all);
    if (bfloat16_products(set)->tiles) return p.ic > 4 || p.oc > bfloat16_block;
    conv_problem g = p;
    if (p.ic > 4) g.in = layout::blocked;
    g = as_gathered(g);
    const std::int64_t width = vector_width(set), in_blocks = ceil_div(g.ic, bfloat16_block), out_blocks = ceil_div(p.oc, bfloat16_block);
    const double products_per_ns = 6.2 * double(width), pixels = double(p.oh * p.ow);
    double floats = pixels * double(p.kh * p.kw * p.ic * ceil_div(p.oc, width) * width) / products_per_ns;
    if (may_be_winograd(all))
        if (const int m = winograd_size(p, width)) floats = winograd_cost(p, m, width);
    const double computed = double((g.oh - 1) * planes_of(g).pitch + g.ow) * double(g.kh * g.kw);  // what lies between rows as well
    const double pairs = computed * double(in_blocks * out_blocks) * bfloat16_block * bfloat16_block / (1.9 * products_per_ns);
    return pairs + double(g.ih * g.iw * in_blocks) * gather_ns < floats;
}

// The workspace is room for the runs of two threads, or for all tiles.
inline std::int64_t winograd_space(const conv_problem& p, int m, std::int64_t width) {
    const std::int64_t all = p.n * winograd_tiles(p, m), two = 2 * winograd_room(p, m, width);
    return ceil_div(all, 8) * 8 < two ? ceil_div(all, 8) * 8 : two;
}
// With 32 floats more an element, of which winograd_gap is taken.
inline std::int64_t winograd_workspace(const conv_problem& p, int m, std::int64_t width) {
    const std::int64_t space = winograd_space(p, m, width);
    return (m + 2) * (m + 2) * (winograd_element(p.ic, width, space) + winograd_element(p.oc, width, space) + 32);
}

// Runs of tiles that threads do each on its own, or 0 where the threads of a pool share every run. Alone, a thread reads all weights for each of its runs;
// together, they read each other's transforms out of each other's caches: at 2 GB/s where these lie far apart, at 20 where they do not. Which of both makes no
// difference to the bits.
inline std::int64_t winograd_runs(const conv_problem& p, int m, std::int64_t width, std::int64_t threads) {
    const std::int64_t all = p.n * winograd_tiles(p, m), room = winograd_room(p, m, width);
    const std::int64_t both = (ceil_div(p.ic, width) + ceil_div(p.oc, width)) * width;
    const std::int64_t own = (winograd_space(p, m, width) * both + 64 - 32 * threads) / (threads * both), most = own < room ? own : room;
    if (threads > most_winograd_threads || most < 8) return 0;
    const std::int64_t even = ceil_div(ceil_div(all, most), threads) * threads, runs = ceil_div(all, even) < 8 ? ceil_div(all, most) : even;
    if (threads == 1) return runs;
    const double passing = double((m + 2) * (m + 2)) * double(all * both) * 4 * (1 - 1 / double(threads)) / 8;
    return runs > 1 && winograd_reading(p, m, width, runs - ceil_div(all, room)) < passing ? runs : 0;
}

inline void run_winograd(isa set, conv_args& a, executor& pool) {
    const conv_kernels& k = *kernels(set).conv;
    const conv_problem& p = a.p;
    const std::int64_t width = vector_width(set), in_blocks = ceil_div(p.ic, width), out_blocks = ceil_div(p.oc, width);
    const std::int64_t elements = (a.wino + 2) * (a.wino + 2), threads = pool.threads();
    a.tiles_high = ceil_div(p.oh, a.wino);
    a.tiles_wide = ceil_div(p.ow, a.wino);
    a.group_weights = out_blocks * width * p.ic;
    const std::int64_t all = p.n * a.tiles_high * a.tiles_wide, pairs = ceil_div(out_blocks, 2), runs = winograd_runs(p, a.wino, width, threads);
    a.tile_room = runs ? ceil_div(all, runs) : winograd_room(p, a.wino, width);
    a.transformed = a.workspace;
    a.in_element = winograd_element(p.ic, width, a.tile_room);
    a.out_element = winograd_element(p.oc, width, a.tile_room);
    a.products = a.workspace + elements * a.in_element;
    if (runs) {
        // Each takes the part of the workspace that belongs to its runs, or another that is free where it helps out.
        std::atomic<bool> taken[most_winograd_threads] = {};
        return parallel_for(pool, ceil_div(all, a.tile_room), [&](std::int64_t run) {
            std::int64_t part = run * threads / runs;
            while (taken[part].exchange(true, std::memory_order_acquire)) part = (part + 1) % threads;
            conv_args mine = a;
            mine.transformed += part * elements * (a.in_element + a.out_element);
            mine.products += part * elements * (a.in_element + a.out_element);
            mine.first_tile = run * a.tile_room;
            mine.tile_count = all - mine.first_tile < a.tile_room ? all - mine.first_tile : a.tile_room;
            const std::int64_t end = mine.first_tile + mine.tile_count;
            for (std::int64_t block = 0; block < in_blocks; ++block) k.winograd_input(mine, block, mine.first_tile, end);
            for (std::int64_t element = 0; element < elements; ++element) k.winograd_multiply(mine, element, 0, pairs);
            for (std::int64_t block = 0; block < out_blocks; ++block) k.winograd_output(mine, block, mine.first_tile, end);
            taken[part].store(false, std::memory_order_release);
        });
    }
    // The last tiles of the last element read past them, what nobody uses: not where another thread is writing products.
    a.products += winograd_gap * width;
    for (a.first_tile = 0; a.first_tile < all; a.first_tile += a.tile_room) {
        a.tile_count = all - a.first_tile < a.tile_room ? all - a.first_tile : a.tile_room;
        const std::int64_t end = a.first_tile + a.tile_count, parts = ceil_div(a.tile_count, 32);
        const std::int64_t products = a.tile_count * p.ic * 2 * width, together = ceil_div(500000, products) < pairs ? ceil_div(500000, products) : pairs;
        const std::int64_t groups = ceil_div(pairs, together);
        parallel_for(pool, in_blocks * parts, [&](std::int64_t task) {
            const std::int64_t first = a.first_tile + task % parts * 32;
            k.winograd_input(a, task / parts, first, first + 32 < end ? first + 32 : end);
        });
        parallel_for(pool, elements * groups, [&](std::int64_t task) {
            const std::int64_t first = task % groups * together;
            k.winograd_multiply(a, task / groups, first, first + together < pairs ? first + together : pairs);
        });
        parallel_for(pool, out_blocks * parts, [&](std::int64_t task) {
            const std::int64_t first = a.first_tile + task % parts * 32;
            k.winograd_output(a, task / parts, first, first + 32 < end ? first + 32 : end);
        });
    }
}

}  // namespace detail

GRAFT_INLINE GRAFT_COLD conv_choice choose_bfloat16_conv(const conv_problem& p) {
    conv_choice c;
    c.algorithm = conv_algorithm::bfloat16;
    c.reason = "operands in bfloat16";
    if (p.ic <= 4) c.in = p.in;
    conv_problem chosen = p;
    chosen.in = c.in;
    c.workspace_bytes = bfloat16_conv_workspace(chosen);
    c.packed_bytes = p.groups * packed_bfloat16_bytes(bfloat16_weights_of(chosen));
    return c;
}

GRAFT_INLINE GRAFT_COLD conv_choice choose_conv(isa set, const conv_problem& p) {
    const int width = vector_width(set);
    conv_choice c;
    const std::int64_t taps = std::int64_t(p.kh) * p.kw;
    std::int64_t floats = p.groups * detail::direct_weights(p, width);
    if (detail::is_depthwise(p)) {
        c.algorithm = conv_algorithm::depthwise;
        c.reason = "as many groups as channels";
        floats = detail::ceil_div(p.oc, width) * width * taps;
    } else if (p.bfloat16 && takes_bfloat16(p) && detail::faster_in_bfloat16(set, p)) {
        return choose_bfloat16_conv(p);
    } else if (p.in == layout::row_major && p.groups == 1 && p.ic <= 4 && p.ic * taps <= detail::first_layer_max &&
               detail::first_layer_tiles(p, kernels(set).conv->first_tile) > 0) {
        c.algorithm = conv_algorithm::first_layer;
        c.reason = "few channels, read from planes";
        c.in = layout::row_major;
    } else if (taps > detail::conv_max_taps) {
        c.algorithm = conv_algorithm::generic;
        c.reason = "more taps than the tables of the fast kernels hold";
    } else if (p.groups > 1 && detail::is_shared(p, width)) {
        c.algorithm = conv_algorithm::shared;
        c.reason = "groups of few channels that share vectors";
        floats = detail::ceil_div(p.oc, width) * width * (p.ic / p.groups) * taps;
    } else if (p.groups > 1) {
        c.algorithm = conv_algorithm::grouped;
        c.reason = "groups";
    } else if (taps == 1 && p.sh == 1 && p.sw == 1 && p.pt == 0 && p.pl == 0 && p.oh == p.ih && p.ow == p.iw) {
        c.algorithm = conv_algorithm::pointwise;
        c.reason = "one tap, no border";
    } else {
        c.reason = "the general case";
        if (detail::may_be_winograd(p)) {
            const int m = detail::winograd_size(p, width);
            if (m) {
                c.algorithm = m == 4 ? conv_algorithm::winograd4 : conv_algorithm::winograd2;
                c.reason = m == 4 ? "Winograd F(4x4, 3x3)" : "Winograd F(2x2, 3x3)";
                const std::int64_t elements = (m + 2) * (m + 2);
                floats = elements * detail::direct_weights(p, width) / 9;
                c.workspace_bytes = detail::winograd_workspace(p, m, width) * 4;
            }
        }
    }
    c.packed_bytes = floats * 4;
    return c;
}

GRAFT_INLINE void run_conv(isa set, const conv_problem& p, const conv_choice& choice, const float* x, const void* packed, const float* bias,
                           const float* residual, float* y, void* workspace, executor& pool) {
    const conv_kernels& k = *kernels(set).conv;
    const int width = vector_width(set);
    const std::int64_t blocks = detail::ceil_div(p.oc, width), floats = p.n * blocks * p.oh * p.ow * width;
    if (floats == 0) return;
    if (choice.algorithm == conv_algorithm::bfloat16) return run_bfloat16_conv(set, p, x, packed, bias, residual, y, workspace, pool);
    conv_args a = detail::conv_arguments(set, p, choice);
    a.x = x;
    a.weight = static_cast<const float*>(packed);
    a.bias = bias;
    a.residual = residual;
    a.y = y;
    a.workspace = static_cast<float*>(workspace);
    a.wino = choice.algorithm == conv_algorithm::winograd4 ? 4 : choice.algorithm == conv_algorithm::winograd2 ? 2 : 0;
    if (a.wino) return detail::run_winograd(set, a, pool);
    void (*kernel)(const conv_args&, std::int64_t) = k.direct;
    std::int64_t tasks = p.n * p.groups * a.batches * a.tasks_per_batch;
    if (choice.algorithm == conv_algorithm::depthwise) {
        kernel = k.depthwise;
        tasks = p.n * blocks * a.batches;
    } else if (choice.algorithm == conv_algorithm::shared) {
        kernel = k.shared;
        tasks = p.n * a.tasks_per_batch * a.batches;
    } else if (choice.algorithm == conv_algorithm::first_layer) {
        kernel = k.first_layer;
        tasks = p.n * a.tasks_per_batch * a.batches;
    } else if (choice.algorithm == conv_algorithm::generic) {
        kernel = k.generic;
        tasks = p.n * p.oh;
    }
    parallel_for(pool, tasks, [&](std::int64_t task) { kernel(a, task); });
}

GRAFT_INLINE bool takes_narrow_images(const conv_problem& p, const conv_choice& choice, bool x, bool y) {
    if (choice.algorithm == conv_algorithm::bfloat16) {
        // A group of images in bfloat16 has whole blocks.
        const auto whole = [&](std::int64_t channels) { return p.groups == 1 || channels / p.groups % bfloat16_block == 0; };
        return (!x || (choice.in == layout::blocked && whole(p.ic))) && (!y || whole(p.oc));
    }
    return choice.algorithm == conv_algorithm::depthwise && x && y && !p.ep.residual && p.pt >= 0 && p.pl >= 0 &&
           p.kh * std::int64_t(p.kw) <= narrow_depthwise_taps && narrow_depthwise_rows(p) > 0;
}

GRAFT_INLINE void run_narrow_conv(isa set, const conv_problem& p, const conv_choice& choice, const float* x, const void* packed, const float* bias,
                                  const float* residual, float* y, const narrow_images& narrow, void* workspace, executor& pool) {
    if (p.n * p.oc * p.oh * p.ow == 0) return;
    if (choice.algorithm == conv_algorithm::bfloat16) return run_bfloat16_conv(set, p, x, packed, bias, residual, y, workspace, pool, nullptr, narrow);
    conv_args a = detail::conv_arguments(set, p, choice);
    a.narrow_x = narrow.x, a.narrow_y = narrow.y;
    a.weight = static_cast<const float*>(packed);
    a.bias = bias;
    const bfloat16_image_kernels& k = *bfloat16_products(set)->images;
    const std::int64_t groups = detail::blocks_of_32(p.oc) * bfloat16_block / (2 * vector_width(set));
    parallel_for(pool, p.n * groups * a.batches, [&](std::int64_t task) { k.depthwise(a, task); });
}

}  // namespace cpu
GRAFT_END_NAMESPACE

#include "conv_pack_body.hpp"
#endif
