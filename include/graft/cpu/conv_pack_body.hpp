// Bodies of cpu/conv.hpp that bring weights into the order in which kernels read them: whole rows at a time, on all threads.
#pragma once

#include "conv.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Output channels that are transformed side by side: a fixed number, so that compilers make vectors of them.
constexpr int pack_lanes = 4;
struct pack_row {
    double lane[pack_lanes];
};

// u = G g of F(4x4, 3x3) and of F(2x2, 3x3) (Lavin and Gray, 2015).
inline void winograd_weights(const pack_row& a, const pack_row& b, const pack_row& c, pack_row (&u)[6]) {
    constexpr double sixth = 1.0 / 6, twelfth = 1.0 / 12, least = 1.0 / 24;
    for (int i = 0; i < pack_lanes; ++i) {
        const double even = -sixth * (a.lane[i] + c.lane[i]), odd = sixth * b.lane[i];
        const double wide_even = least * a.lane[i] + sixth * c.lane[i], wide_odd = twelfth * b.lane[i];
        u[0].lane[i] = 0.25 * a.lane[i];
        u[1].lane[i] = even - odd;
        u[2].lane[i] = even + odd;
        u[3].lane[i] = wide_even + wide_odd;
        u[4].lane[i] = wide_even - wide_odd;
        u[5].lane[i] = c.lane[i];
    }
}
inline void winograd_weights(const pack_row& a, const pack_row& b, const pack_row& c, pack_row (&u)[4]) {
    for (int i = 0; i < pack_lanes; ++i) {
        const double even = 0.5 * (a.lane[i] + c.lane[i]), odd = 0.5 * b.lane[i];
        u[0].lane[i] = a.lane[i];
        u[1].lane[i] = even + odd;
        u[2].lane[i] = even - odd;
        u[3].lane[i] = c.lane[i];
    }
}

// U = G g G^T of some output channels with one input channel, rounded once. `from`: nine taps of each, null past the last channel; `to`: U's
// first element, with `element` floats from each to the next.
template <int N>
inline void pack_winograd_lanes(const float* const (&from)[pack_lanes], float* to, std::int64_t element) {
    pack_row g[9], half[3][N];
    for (int t = 0; t < 9; ++t)
        for (int i = 0; i < pack_lanes; ++i) g[t].lane[i] = from[i] ? double(from[i][t]) : 0;
    for (int k = 0; k < 3; ++k) winograd_weights(g[k], g[3 + k], g[6 + k], half[k]);
    for (int r = 0; r < N; ++r) {
        pack_row u[N];
        winograd_weights(half[0][r], half[1][r], half[2][r], u);
        for (int k = 0; k < N; ++k, to += element)
            for (int i = 0; i < pack_lanes; ++i) to[i] = static_cast<float>(u[k].lane[i]);
    }
}

// A pair of vectors of output channels, [element][ic][lanes] with `element` floats between the elements.
template <int N>
inline void pack_winograd_pair(const float* weight, std::int64_t ic, std::int64_t channels, std::int64_t lanes, float* to, std::int64_t element) {
    for (std::int64_t c = 0; c < ic; ++c)
        for (std::int64_t j = 0; j < lanes; j += pack_lanes) {
            const float* from[pack_lanes];
            for (int i = 0; i < pack_lanes; ++i) from[i] = j + i < channels ? weight + ((j + i) * ic + c) * 9 : nullptr;
            pack_winograd_lanes<N>(from, to + c * lanes + j, element);
        }
}

// The same for kernels that read taps: blocks of input channels, [tap][input channel of the block][lanes] in each. `first` is the length of
// the first block, `block` that of the others.
inline void pack_taps_pair(const float* weight, std::int64_t ic, std::int64_t taps, std::int64_t channels, std::int64_t lanes, std::int64_t first,
                           std::int64_t block, float* to) {
    // One row of weights after the other, as far as what is written stays in the first cache.
    const std::int64_t blocks_at_once = 128 / (block * taps) + 1;
    for (std::int64_t c = 0, end; c < ic; c = end) {
        end = (c ? c : first - block) + blocks_at_once * block;
        if (end > ic) end = ic;
        for (std::int64_t j = 0; j < lanes; ++j) {
            if (j >= channels) {
                for (std::int64_t i = c * taps; i < end * taps; ++i) to[i * lanes + j] = 0;
                continue;
            }
            const float* from = weight + (j * ic + c) * taps;
            float* out = to + c * taps * lanes + j;
            if (taps == 1) {
                for (std::int64_t i = 0; i < end - c; ++i) out[i * lanes] = from[i];
                continue;
            }
            for (std::int64_t start = c, length; start < end; start += length, out += length * taps * lanes) {
                length = start ? block : first;
                if (length > end - start) length = end - start;
                for (std::int64_t k = 0; k < length; ++k)
                    for (std::int64_t t = 0; t < taps; ++t) out[(t * length + k) * lanes] = *from++;
            }
        }
    }
}

}  // namespace detail

GRAFT_INLINE std::int64_t conv_channels_at_once(isa set, const conv_problem& p, const conv_choice& choice, std::int64_t floats) {
    const std::int64_t pair = choice.algorithm == conv_algorithm::bfloat16 ? bfloat16_block : 2 * vector_width(set), of_pair = pair * p.ic * p.kh * p.kw;
    return p.groups > 1 || of_pair == 0 || floats / of_pair * pair >= p.oc ? p.oc : floats > of_pair ? floats / of_pair * pair : pair;
}

GRAFT_INLINE void pack_conv_weights(isa set, const conv_problem& p, const conv_choice& choice, const float* weight, std::int64_t begin, std::int64_t end,
                                    void* packed, executor& pool) {
    if (choice.algorithm == conv_algorithm::bfloat16) {
        if (p.groups == 1) return pack_bfloat16(set, bfloat16_weights_of(p), weight, begin, end, packed, pool);
        const std::int64_t channels = p.oc / p.groups, of_group = channels * (p.ic / p.groups) * p.kh * p.kw;
        for (int g = 0; g < p.groups; ++g)
            pack_bfloat16(set, bfloat16_weights_of(p), weight + g * of_group, 0, channels, static_cast<char*>(packed) + g * (choice.packed_bytes / p.groups),
                          pool);
        return;
    }
    const std::int64_t width = vector_width(set), taps = std::int64_t(p.kh) * p.kw, icg = p.ic / p.groups, ocg = p.oc / p.groups;
    float* const all = static_cast<float*>(packed);
    if (choice.algorithm == conv_algorithm::depthwise || choice.algorithm == conv_algorithm::shared) {
        parallel_for(pool, detail::ceil_div(p.oc, width), [&](std::int64_t block) {
            const std::int64_t channels = p.oc - block * width;
            const float* const from = weight + block * width * icg * taps;
            float* to = all + block * width * icg * taps;
            for (std::int64_t t = 0; t < taps; ++t)
                for (std::int64_t k = 0; k < icg; ++k)
                    for (std::int64_t j = 0; j < width; ++j) *to++ = j < channels ? from[(j * icg + k) * taps + t] : 0;
        });
        return;
    }
    const bool planes = choice.algorithm == conv_algorithm::first_layer;
    const std::int64_t element = detail::ceil_div(p.oc, width) * width * p.ic, whole = detail::direct_weights(p, static_cast<int>(width));
    // A pair of vectors of channels is a task; a group's last pair may be one vector.
    const std::int64_t first_pair = begin / (2 * width),
                       pairs = p.groups > 1 ? detail::ceil_div(ocg, 2 * width) : detail::ceil_div(end, 2 * width) - first_pair;
    parallel_for(pool, p.groups * pairs, [&](std::int64_t task) {
        const std::int64_t group = task / pairs, o = (first_pair + task % pairs) * 2 * width, left = ocg - o, lanes = left > width ? 2 * width : width;
        const float* const from = weight + (group * ocg + o - begin) * icg * taps;
        if (choice.algorithm == conv_algorithm::winograd4) return detail::pack_winograd_pair<6>(from, icg, left, lanes, all + o * icg, element);
        if (choice.algorithm == conv_algorithm::winograd2) return detail::pack_winograd_pair<4>(from, icg, left, lanes, all + o * icg, element);
        const std::int64_t block = planes ? 1 : width, first = planes ? 1 : width - group * icg % width;
        detail::pack_taps_pair(from, icg, taps, left, lanes, first, block, all + group * whole + o * icg * taps);
    });
}

}  // namespace cpu
GRAFT_END_NAMESPACE
