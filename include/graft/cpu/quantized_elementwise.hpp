// Sums, products, functions and means of 8-bit tensors, requantised as ONNX has it. All sets and all numbers of threads give the same codes.
#pragma once

#include "../core/executor.hpp"
#include "isa.hpp"
#include "quantized_kernels.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// y = a + b, requantised; n codes each, whole lanes where the problem says so.
void run_quantized_sum(isa set, const quantized_sum_problem& problem, const void* a, const void* b, void* y, std::int64_t n, executor& pool);
/// y = a * b, requantised; both of n codes, or b of a code for each channel of the images that `by` tells of, as these lie.
void run_quantized_product(isa set, const quantized_product_problem& problem, const void* a, const void* b, void* y, std::int64_t n, const code_groups& by,
                           executor& pool);
/// The mean of each channel, in the order of the channels: groups * together codes an image, in lanes and pixels some of no channel.
void run_quantized_mean(isa set, const quantized_mean_problem& problem, const code_groups& of, const void* x, void* y, executor& pool);
/// y[i] = table[x[i]] for n codes, all as the bytes that they are in memory. Flips are those that codes have where they lie, beside those of the table: 128 for
/// signed ones in lanes or pixels, else 0.
void run_lookup(isa set, const std::uint8_t* table, int x_flip, int y_flip, const void* x, void* y, std::int64_t n, executor& pool);

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

constexpr std::int64_t codes_a_task = 16384;
// Groups of a task.
inline std::int64_t groups_a_task(const code_groups& of) { return std::max<std::int64_t>(1, codes_a_task / of.codes()); }

}  // namespace detail

GRAFT_INLINE void run_quantized_sum(isa set, const quantized_sum_problem& problem, const void* a, const void* b, void* y, std::int64_t n, executor& pool) {
    const byte_kernels* const lanes = problem.lanes && problem.fits_int32() ? byte_products(set) : nullptr;
    parallel_for_pieces(pool, n, detail::codes_a_task, [&](std::int64_t first, std::int64_t count) {
        if (lanes) {
            const auto at = [&](const void* codes) { return static_cast<const std::int32_t*>(codes) + first / 4; };
            return lanes->sum(problem, at(a), at(b), const_cast<std::int32_t*>(at(y)), count / 4);
        }
        kernels(set).quantized->sum(problem, static_cast<const std::uint8_t*>(a) + first, static_cast<const std::uint8_t*>(b) + first,
                                    static_cast<std::uint8_t*>(y) + first, count);
    });
}

GRAFT_INLINE void run_quantized_product(isa set, const quantized_product_problem& problem, const void* a, const void* b, void* y, std::int64_t n,
                                        const code_groups& by, executor& pool) {
    const auto from_a = static_cast<const std::uint8_t*>(a), from_b = static_cast<const std::uint8_t*>(b);
    const auto to = static_cast<std::uint8_t*>(y);
    const quantized_kernels& k = *kernels(set).quantized;
    if (!problem.of_channels)
        return parallel_for_pieces(pool, n, detail::codes_a_task,
                                   [&](std::int64_t first, std::int64_t count) { k.product(problem, from_a + first, from_b + first, to + first, count); });
    parallel_for_pieces(pool, by.images * by.groups, detail::groups_a_task(by), [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t group = first; group < first + count; ++group) {
            // Sixteen at a time: all of fewer, which repeat, or a part of 64.
            const std::uint8_t* const channels = from_b + group * by.together;
            const std::int64_t at = group * by.codes(), pitch = std::max(16, by.together);
            for (int part = 0; part < by.together; part += 16) {
                std::uint8_t some[16];
                for (int i = 0; i < 16; ++i) some[i] = channels[part + i % by.together];
                k.product_by_channel(problem, from_a + at + part, some, to + at + part, by.codes() - part, pitch);
            }
        }
    });
}

GRAFT_INLINE void run_quantized_mean(isa set, const quantized_mean_problem& p, const code_groups& of, const void* x, void* y, executor& pool) {
    const auto sum = kernels(set).quantized->column_sums;
    parallel_for_pieces(pool, of.images * of.groups, detail::groups_a_task(of), [&](std::int64_t first, std::int64_t count) {
        for (std::int64_t group = first; group < first + count; ++group) {
            std::int32_t sums[code_columns];
            sum(p.x_signed, static_cast<const std::uint8_t*>(x) + group * of.codes(), of.codes(), sums);
            for (int channel = 0; channel < of.together; ++channel) {
                std::int64_t total = 0;
                for (int i = channel; i < code_columns; i += of.together) total += sums[i];
                // The mean is a float, and what it is in steps of y another: as the operators between the pair have it.
                const double mean = static_cast<double>(total - p.x_zero * of.pixels) * static_cast<double>(p.x_scale) / static_cast<double>(of.pixels);
                const float steps = std::nearbyint(static_cast<float>(mean) / p.y_scale) + static_cast<float>(p.y_zero);
                const float code = std::min(std::max(steps, static_cast<float>(p.low)), static_cast<float>(p.high));
                static_cast<std::uint8_t*>(y)[group * of.together + channel] = static_cast<std::uint8_t>(static_cast<int>(code));
            }
        }
    });
}

GRAFT_INLINE void run_lookup(isa set, const std::uint8_t* table, int x_flip, int y_flip, const void* x, void* y, std::int64_t n, executor& pool) {
    std::uint8_t flipped[256];
    for (int i = 0; i < 256; ++i) flipped[i] = static_cast<std::uint8_t>(table[i ^ x_flip] ^ y_flip);
    const byte_lookup look_up = lookup(set);
    parallel_for_pieces(pool, n, 32768, [&](std::int64_t first, std::int64_t count) {
        look_up(flipped, static_cast<const std::uint8_t*>(x) + first, static_cast<std::uint8_t*>(y) + first, count);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
