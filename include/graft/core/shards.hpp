// Sums over a batch as one fixed tree over logical shards, so that neither threads nor replicas change a bit of them.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// How a batch is cut: the samples in halves (the second one the larger), and those in halves, until there are `count` parts; some are
/// empty where there are fewer samples. Each shard is summed by itself, in the order of its samples; the sums are joined in pairs,
/// ((0+1)+(2+3))+((4+5)+(6+7)), empty ones as +0. So half of a batch in half of the shards is a batch of its own, cut in the same places.
struct shards {
    static constexpr int most = 256;
    int count = 8;  ///< a power of two, 1 ... most

    static constexpr bool legal(std::int64_t count) noexcept { return count >= 1 && count <= most && (count & (count - 1)) == 0; }
    /// The first sample of shard s of n samples; n for s = count.
    constexpr std::int64_t first(std::int64_t n, int s) const noexcept {
        if (s >= count) return n;
        std::int64_t low = 0, high = n;
        for (int part = count / 2; part > 0; part /= 2) {
            const std::int64_t middle = low + (high - low) / 2;
            if (s & part)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
    constexpr std::int64_t last(std::int64_t n, int s) const noexcept { return first(n, s + 1); }
};

/// Sums leaf(s) over the shards [first, first + count) by the tree; `count` is a power of two.
template <class T, class F>
inline T sum_shards(int first, int count, const F& leaf) {
    if (count == 1) return leaf(first);
    const T left = sum_shards<T>(first, count / 2, leaf);
    return left + sum_shards<T>(first + count / 2, count / 2, leaf);
}

GRAFT_END_NAMESPACE
