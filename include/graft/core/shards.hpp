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

/// The shards of one of several members that compute a batch together: each has a whole branch of the tree, the halves of which go to the halves
/// of the members (the first one the larger). So what members add up by `sum_members` are the sums of the whole batch, to the bit. There are
/// at most as many members as shards.
struct member_shards {
    int first = 0, count = 1;

    static constexpr member_shards of(int member, int members, int shards) noexcept {
        member_shards own{0, shards};
        while (members > 1) {
            const int left = (members + 1) / 2;
            own.count /= 2;
            if (member < left) {
                members = left;
            } else {
                own.first += own.count;
                member -= left, members -= left;
            }
        }
        return own;
    }
    /// The fewest shards that one of the members has.
    static constexpr int least(int members, int shards) noexcept {
        for (int share = 1; share < members; share *= 2) shards /= 2;
        return shards;
    }
    /// The first of n samples that the member computes, and the one behind its last.
    constexpr std::int64_t begin(std::int64_t n, int shards) const noexcept { return graft::shards{shards}.first(n, first); }
    constexpr std::int64_t end(std::int64_t n, int shards) const noexcept { return graft::shards{shards}.first(n, first + count); }
};

/// Joins leaf(member) over the members [first, first + count) by the tree that their shards are branches of.
template <class T, class Leaf, class Join>
inline T join_members(int first, int count, const Leaf& leaf, const Join& join) {
    if (count == 1) return leaf(first);
    const int left = (count + 1) / 2;
    T a = join_members<T>(first, left, leaf, join);
    return join(a, join_members<T>(first + left, count - left, leaf, join));
}

/// Sums leaf(s) over the shards [first, first + count) by the tree; `count` is a power of two.
template <class T, class F>
inline T sum_shards(int first, int count, const F& leaf) {
    if (count == 1) return leaf(first);
    const T left = sum_shards<T>(first, count / 2, leaf);
    return left + sum_shards<T>(first + count / 2, count / 2, leaf);
}

/// The same of leaves in double, for a sum that is kept as a float (`in_float`) or a double: each leaf and each sum of two is rounded to that, so that branches
/// of the tree that were computed apart, and kept as such, add up to the same.
template <class F>
inline double sum_shards_as(bool in_float, int count, const F& leaf) {
    if (!in_float) return sum_shards<double>(0, count, leaf);
    return static_cast<double>(sum_shards<float>(0, count, [&](int s) { return static_cast<float>(leaf(s)); }));
}

GRAFT_END_NAMESPACE
