// Kernels that sort: items of a key and a number, in shared memory where they fit and in the workspace where they do not; and what is made of
// it, the updates of each row of a tensor in their order.
#pragma once

#include "reduce.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Lines of items, each sorted by itself into the workspace: ascending keys, equal ones by number. No two items of a line are equal, so
/// that a sorting network gives one order, and the same bits every time.
struct sorting {
    std::int64_t count = 0;  ///< items of a line
    std::int64_t lines = 1;
    bool wide = false;        ///< keys of 64 bits; else of 32
    std::int64_t offset = 0;  ///< of the sorted items in the workspace, in bytes

    std::int64_t item_bytes() const noexcept { return wide ? 16 : 8; }
    /// Items that a block has in shared memory.
    std::int64_t tile() const noexcept { return wide ? 1024 : 2048; }
    /// Items of a line with those that fill it up to a power of two, which come last.
    std::int64_t padded() const noexcept;
    std::int64_t bytes() const noexcept { return lines * padded() * item_bytes(); }
};

/// Longest line, and the most items in all: they lie in the workspace.
constexpr std::int64_t longest_sort = std::int64_t(1) << 26, most_sorted = std::int64_t(1) << 27;

/// The functions that kernels of items share: `item`, `make_item(key, number)`, `key_of`, `number_of`, `last_item()`, `sort_tile`.
std::string sort_functions(bool wide);

/// Adds the kernels of a sort. `making`: statements that give `made` the item number `i` of line `line`; they read `inputs`.
void add_sort(const kernel_query& q, program& p, const sorting& s, const std::vector<int>& inputs, const std::string& making);

/// Which updates go to each row of a tensor. `row`: statements that define `const long long row` of update number `u`; outside of
/// [0, rows): nowhere. They read `inputs`.
struct updates {
    std::int64_t count = 0, rows = 0;
    std::vector<int> inputs;
    std::string row;
    std::int64_t lines = 1;  ///< the updates come in so many equal runs, of which no two have a row in common: each is sorted by itself

    sorting order() const noexcept {
        sorting s;
        s.count = count / lines;
        s.lines = lines;
        s.offset = (rows * 4 + 255) / 256 * 256;
        return s;
    }
    /// Whether they can be sorted.
    bool fit() const noexcept { return count / lines <= longest_sort && lines <= most_sorted / order().padded(); }
    /// Items of all lines, with those that fill them up.
    std::int64_t items() const noexcept { return lines * order().padded(); }
};
constexpr std::int64_t most_rows = INT32_MAX - 1;

/// Adds kernels after which "const int* last", at the workspace's byte 0, has for each row the last of its updates, or -1.
void add_last_updates(const kernel_query& q, program& p, const updates& u);

/// Adds kernels after which updates are sorted by row, each row's in their order: "const item* items", of which "const int* first" has the
/// first of each row, or -1. A row ends where its `updates::items()` do, or key_of(items[p]) is another. Parameters of both are returned.
std::vector<workspace_parameter> add_sorted_updates(const kernel_query& q, program& p, const updates& u);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline std::int64_t power_of_two(std::int64_t least) noexcept {
    std::int64_t n = 2;
    while (n < least) n *= 2;
    return n;
}
constexpr int sort_threads = 256;

// Adds a kernel of which each thread has one element, of `count`, by the name i.
inline void add_each(const kernel_query& q, program& p, const char* entry, std::int64_t count, const std::vector<int>& inputs, const std::vector<int>& outputs,
                     const std::vector<workspace_parameter>& workspace, const std::string& statements) {
    launch l;
    l.entry = entry;
    l.block[0] = sort_threads;
    l.grid[0] = static_cast<unsigned>((count + sort_threads - 1) / sort_threads);
    const std::string head = fill("    const index_t i = (index_t)blockIdx.x * $threads + (int)threadIdx.x;\n    if (i >= $count) return;\n",
                                  {{"threads", decimal(sort_threads)}, {"count", decimal(count)}});
    p.source += entry_point(q, l, inputs, outputs, workspace, head + statements);
    p.launches.push_back(std::move(l));
}

}  // namespace detail

GRAFT_INLINE std::int64_t sorting::padded() const noexcept { return detail::power_of_two(count); }

GRAFT_INLINE std::string sort_functions(bool wide) {
    const char* narrow_item = R"cuda(typedef unsigned long long item;
typedef unsigned int sort_key;
__device__ __forceinline__ item make_item(sort_key key, unsigned int number) { return (item)key << 32 | number; }
__device__ __forceinline__ sort_key key_of(item x) { return (sort_key)(x >> 32); }
__device__ __forceinline__ unsigned int number_of(item x) { return (unsigned int)x; }
__device__ __forceinline__ bool before(item a, item b) { return a < b; }
)cuda";
    const char* wide_item = R"cuda(typedef unsigned long long sort_key;
struct alignas(16) item { sort_key key; unsigned int number; };
__device__ __forceinline__ item make_item(sort_key key, unsigned int number) {
    item x;
    x.key = key;
    x.number = number;
    return x;
}
__device__ __forceinline__ sort_key key_of(const item& x) { return x.key; }
__device__ __forceinline__ unsigned int number_of(const item& x) { return x.number; }
__device__ __forceinline__ bool before(const item& a, const item& b) { return a.key < b.key || (a.key == b.key && a.number < b.number); }
)cuda";
    // The network of Batcher whose first step of each merge mirrors one half, so that all comparisons have one direction.
    return std::string(wide ? wide_item : narrow_item) + R"cuda(__device__ __forceinline__ item last_item() { return make_item(~(sort_key)0, 0xffffffffu); }
__device__ __forceinline__ void exchange(item& a, item& b) {
    if (!before(b, a)) return;
    const item x = a;
    a = b;
    b = x;
}
// Comparison number t of those between the halves of runs of `size`, mirrored; and of those at a distance, a power of two.
template <class T> __device__ __forceinline__ void exchange_mirrored(item* s, T t, T size) {
    const T half = size / 2, in_run = t & (half - 1), run = (t - in_run) * 2;
    exchange(s[run + in_run], s[run + size - 1 - in_run]);
}
template <class T> __device__ __forceinline__ void exchange_at(item* s, T t, T distance) {
    const T a = 2 * t - (t & (distance - 1));
    exchange(s[a], s[a + distance]);
}
// By all threads of a block: runs of `sorted` of the `tile` items become runs of `wanted`; or, without mirroring, runs of `tile` whose
// comparisons at larger distances have been made.
template <int tile, int sorted, int wanted, bool mirrored> __device__ __forceinline__ void sort_tile(item* s) {
    for (int size = sorted * 2; size <= wanted; size *= 2)
        for (int distance = size / 2; distance; distance /= 2) {
            __syncthreads();
            for (int t = (int)threadIdx.x; t < tile / 2; t += (int)blockDim.x) {
                if (mirrored && distance == size / 2)
                    exchange_mirrored(s, t, size);
                else
                    exchange_at(s, t, distance);
            }
        }
    __syncthreads();
}
)cuda";
}

GRAFT_INLINE void add_sort(const kernel_query& q, program& p, const sorting& s, const std::vector<int>& inputs, const std::string& making) {
    const std::int64_t padded = s.padded(), total = s.lines * padded, tile = std::min(s.tile(), detail::power_of_two(total));
    const fillings names = {{"tile", decimal(tile)},
                            {"wanted", decimal(std::min(tile, padded))},
                            {"half", decimal(tile / 2)},
                            {"padded", decimal(padded)},
                            {"total", decimal(total)},
                            {"count", decimal(s.count)},
                            {"threads", decimal(detail::sort_threads)},
                            {"making", making}};
    const std::vector<workspace_parameter> items = {{"item* items", s.offset}};
    const auto add = [&](const std::string& entry, std::int64_t blocks, const std::vector<int>& read, const std::string& text, bool again = false) {
        launch l;
        l.entry = entry;
        l.block[0] = detail::sort_threads;
        l.grid[0] = static_cast<unsigned>(blocks);
        const std::string made = entry_point(q, l, read, {}, items, text);
        if (!again) p.source += made;
        p.launches.push_back(std::move(l));
    };
    const std::int64_t tiles = (total + tile - 1) / tile;
    add("graft_sort", tiles, inputs,
        fill(R"cuda(    __shared__ item s[$tile];
    const index_t tile_begin = (index_t)blockIdx.x * $tile;
    for (int t = (int)threadIdx.x; t < $tile; t += $threads) {
        const index_t line = (tile_begin + t) / $padded;
        const index_t i = (tile_begin + t) % $padded;
        item made = last_item();
        if (tile_begin + t < $total && i < $count) {
$making        }
        s[t] = made;
    }
    sort_tile<$tile, 1, $wanted, true>(s);
    for (int t = (int)threadIdx.x; t < $tile; t += $threads)
        if (tile_begin + t < $total) items[tile_begin + t] = s[t];
)cuda",
             names));
    // Longer lines are merged: comparisons farther apart than a tile through memory, the others in shared memory. A tile divides a line here.
    const std::string each = fill("    const index_t t = (index_t)blockIdx.x * $threads + (int)threadIdx.x;\n    if (t >= $comparisons) return;\n",
                                  {{"threads", decimal(detail::sort_threads)}, {"comparisons", decimal(total / 2)}});
    const std::int64_t blocks = (total / 2 + detail::sort_threads - 1) / detail::sort_threads;
    for (std::int64_t size = 2 * tile; size <= padded; size *= 2) {
        add("graft_mirror" + decimal(size), blocks, {}, each + "    exchange_mirrored<index_t>(items, t, " + decimal(size) + ");\n");
        for (std::int64_t distance = size / 4; distance >= tile; distance /= 2)
            add("graft_step" + decimal(distance), blocks, {}, each + "    exchange_at<index_t>(items, t, " + decimal(distance) + ");\n", distance < size / 4);
        add("graft_tiles", tiles, {},
            fill(R"cuda(    __shared__ item s[$tile];
    item* from = items + (index_t)blockIdx.x * $tile;
    for (int t = (int)threadIdx.x; t < $tile; t += $threads) s[t] = from[t];
    sort_tile<$tile, $half, $tile, false>(s);
    for (int t = (int)threadIdx.x; t < $tile; t += $threads) from[t] = s[t];
)cuda",
                 names),
            size > 2 * tile);
    }
}

GRAFT_INLINE void add_last_updates(const kernel_query& q, program& p, const updates& u) {
    const std::vector<workspace_parameter> last = {{"int* last", 0}};
    p.workspace_bytes = u.rows * 4;
    detail::add_each(q, p, "graft_clear", u.rows, {}, {}, last, "    last[i] = -1;\n");
    // The largest number is the same in whichever order they come.
    const std::string text =
        "    const index_t u = i;\n" + u.row + fill("    if (row >= 0 && row < $rows) atomicMax(last + row, (int)u);\n", {{"rows", decimal(u.rows)}});
    if (u.count) detail::add_each(q, p, "graft_last", u.count, u.inputs, {}, last, text);
}

GRAFT_INLINE std::vector<workspace_parameter> add_sorted_updates(const kernel_query& q, program& p, const updates& u) {
    const sorting s = u.order();
    p.workspace_bytes = s.offset + s.bytes();
    p.source += sort_functions(false);
    detail::add_each(q, p, "graft_clear", u.rows, {}, {}, {{"int* first", 0}}, "    first[i] = -1;\n");
    const fillings names = {{"rows", decimal(u.rows)}, {"row", u.row}, {"each", decimal(s.count)}, {"padded", decimal(s.padded())}};
    add_sort(q, p, s, u.inputs,
             fill("        const index_t u = line * $each + i;\n$row        if (row >= 0 && row < $rows) made = make_item((sort_key)row, (unsigned int)u);\n",
                  names));
    detail::add_each(
        q, p, "graft_first", u.items(), {}, {}, {{"const item* items", s.offset}, {"int* first", 0}},
        fill("    const sort_key row = key_of(items[i]);\n    if (row < $rows && (i % $padded == 0 || key_of(items[i - 1]) != row)) first[row] = (int)i;\n",
             names));
    return {{"const item* items", s.offset}, {"const int* first", 0}};
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
