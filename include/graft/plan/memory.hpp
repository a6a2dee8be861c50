// Memory from lifetimes: where in one arena every intermediate value lies.
#pragma once

#include "../core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A run of bytes that is in use from step `first` to step `last`, both included. `offset` is the answer.
struct lifetime {
    std::int64_t bytes = 0;
    int first = 0, last = 0;
    std::int64_t offset = 0;
};

/// Gives each lifetime an offset, so that no two which overlap in time overlap in memory; returns the bytes of the arena.
/// Largest first, each into the tightest gap (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
/// Inference", 2020). Offsets are multiples of `alignment`, and as many bytes of slack follow each, so that vector loads may run past
/// the end.
std::int64_t plan_memory(std::vector<lifetime>& lifetimes, std::int64_t alignment = 64);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::int64_t plan_memory(std::vector<lifetime>& lifetimes, std::int64_t alignment) {
    const auto padded = [alignment](const lifetime& l) { return (l.bytes + 2 * alignment - 1) / alignment * alignment; };
    std::vector<std::size_t> order(lifetimes.size()), placed;
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
    std::int64_t arena = 0;
    for (std::size_t index : order) {
        lifetime& l = lifetimes[index];
        if (l.bytes == 0) continue;
        // `placed` is sorted by offset, so gaps show up in one walk.
        std::int64_t best = -1, best_gap = INT64_MAX, end = 0;
        for (std::size_t other : placed) {
            const lifetime& o = lifetimes[other];
            if (o.last < l.first || o.first > l.last) continue;
            const std::int64_t gap = o.offset - end;
            if (gap >= padded(l) && gap < best_gap) best = end, best_gap = gap;
            end = std::max(end, o.offset + padded(o));
        }
        l.offset = best >= 0 ? best : end;
        arena = std::max(arena, l.offset + padded(l));
        placed.insert(
            std::upper_bound(placed.begin(), placed.end(), index, [&](std::size_t a, std::size_t b) { return lifetimes[a].offset < lifetimes[b].offset; }),
            index);
    }
    return arena;
}

GRAFT_END_NAMESPACE
#endif
