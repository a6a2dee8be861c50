// How the work of a reduction is shared out, and the text of its states: part of reduce.hpp.
#pragma once

#include "reduce.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE reduction_axes join_axes(const shape& extents, layout order, std::uint32_t axes, std::int64_t groups) {
    reduction_axes j;
    std::int64_t stride = 1;
    int before = -1;  // kind of the neighbour inside
    const auto take = [&](std::int64_t extent, int kind) {
        (kind ? j.count : j.outputs) *= extent;
        if (extent == 1) return;
        std::vector<reduction_axes::run>& runs = kind ? j.reduced : j.kept;
        if (before < 0) j.across = kind == 0;
        if (before == kind)
            runs.back().extent *= extent;
        else
            runs.push_back({extent, stride});
        before = kind;
        stride *= extent;
    };
    const std::vector<int> memory = detail::memory_order(extents.rank(), order);
    for (std::size_t i = memory.size(); i-- > 0;) {
        const int axis = memory[i];
        if (axis == 1 && groups) take(extents[axis] / groups, 1);
        take(axis == 1 && groups ? groups : extents[axis], axis == 1 && groups ? 0 : static_cast<int>(axes >> axis & 1u));
    }
    return j;
}

namespace detail {

constexpr int reduction_threads = 256;

inline std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// Element number `number` of the joined axes, as an offset.
inline index spread(element_emitter& e, const index& number, const std::vector<reduction_axes::run>& runs) {
    index sum;
    std::int64_t inner = 1;
    for (const reduction_axes::run& r : runs) {
        sum = e.add(sum, e.multiply(e.remainder(e.divide(number, inner), r.extent), r.stride));
        inner *= r.extent;
    }
    return sum;
}
// The number along the kept axes of the element at `offset`.
inline index gather(element_emitter& e, const index& offset, const std::vector<reduction_axes::run>& runs) {
    index sum;
    std::int64_t inner = 1;
    for (const reduction_axes::run& r : runs) {
        sum = e.add(sum, e.multiply(e.remainder(e.divide(offset, r.stride), r.extent), inner));
        inner *= r.extent;
    }
    return sum;
}

// How the work is shared out. It follows from shapes alone, so that the sums are the same on every device.
struct reduction_plan {
    reduction_axes joined;
    int lanes = 1;
    int group = 1;            // threads of a result where reduced elements lie side by side
    int columns = 1;          // threads side by side, where they do not; the others of a block go on below
    std::int64_t pieces = 1;  // parts that are summed up by blocks of their own
    std::int64_t piece = 1;   // elements of a part
    std::int64_t blocks = 1;  // of one part
    bool fused = false;       // one kernel sums up and maps
    std::int64_t partial_bytes = 0, statistics_at = 0;
};

inline std::size_t state_bytes(const reducer& by) {
    std::size_t bytes = 0, widest = 1;
    for (const reducer::field& f : by.fields) {
        const std::size_t size = size_of(f.type);
        bytes = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(size))) + size;
        widest = std::max(widest, size);
    }
    return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(widest)));
}

inline void plan_rows(reduction_plan& p, bool maps) {
    const std::int64_t packs = p.joined.count / p.lanes, outputs = p.joined.outputs;
    while (p.group < 32 && p.group < packs) p.group *= 2;
    if (packs >= 512 || (packs >= 64 && outputs < 256)) p.group = reduction_threads;
    p.fused = maps;
    // A row that one block would take long for, while most of the device has nothing to do.
    if (p.group == reduction_threads && outputs <= 128 && packs >= 16 * reduction_threads) {
        p.pieces = std::max<std::int64_t>(1, std::min({packs / (8 * reduction_threads), 1024 / outputs, std::int64_t(256)}));
        p.fused = maps && p.pieces == 1;
    }
    p.piece = round_up((packs + p.pieces - 1) / p.pieces, p.group) * p.lanes;
    p.blocks = (outputs * p.group + reduction_threads - 1) / reduction_threads;
}
inline void plan_columns(reduction_plan& p) {
    const std::int64_t packs = p.joined.outputs / p.lanes;
    p.columns = 32;
    while (p.columns > 1 && p.columns / 2 >= packs) p.columns /= 2;
    while (p.columns < reduction_threads && 2 * (reduction_threads / p.columns) > p.joined.count) p.columns *= 2;
    const std::int64_t rows = reduction_threads / p.columns;
    p.blocks = (packs + p.columns - 1) / p.columns;
    p.pieces = std::max<std::int64_t>(1, std::min({p.joined.count / (16 * rows), 1024 / p.blocks, std::int64_t(256)}));
    p.piece = round_up((p.joined.count + p.pieces - 1) / p.pieces, rows);
}
inline reduction_plan plan_reduction_kernels(const reduction& r) {
    reduction_plan p;
    p.joined = join_axes(r.extents, r.order, r.axes, r.groups);
    if (p.joined.outputs == 0) return p;
    p.lanes = r.bytes >= 16 ? 1 : static_cast<int>(std::min<std::size_t>(8, 16 / r.bytes));
    while (p.lanes > 1 && p.joined.innermost() % p.lanes) p.lanes /= 2;
    if (p.joined.count == 0) p.lanes = 1;
    if (p.joined.across)
        plan_columns(p);
    else
        plan_rows(p, !r.mapped.empty());
    p.partial_bytes = p.pieces > 1 ? round_up(p.pieces * p.joined.outputs * static_cast<std::int64_t>(state_bytes(r.by)), 256) : 0;
    p.statistics_at = p.partial_bytes;
    return p;
}

// The state, and what is done to states.
inline std::string state_text(const reducer& by) {
    std::string fields, start, down, first, parameters;
    for (const reducer::field& f : by.fields) {
        const fillings names = {{"type", memory_name(f.type)}, {"name", f.name}, {"start", f.start}};
        fields += fill("$type $name; ", names);
        start += fill("    s.$name = $start;\n", names);
        down += fill("    r.$name = __shfl_down_sync(0xffffffffu, s.$name, distance, group);\n", names);
        first += fill("    r.$name = __shfl_sync(0xffffffffu, s.$name, 0, group);\n", names);
    }
    for (std::size_t i = 0; i < by.elements.size(); ++i) parameters += std::string(", ") + memory_name(by.elements[i]) + " x" + std::to_string(i);
    return fill(R"cuda(struct state { $fields};
$helpers
__device__ __forceinline__ state start() {
    state s;
$start    return s;
}
__device__ __forceinline__ void take(state& s, int taken, index_t position$parameters) {
    $take
}
__device__ __forceinline__ void merge(state& a, const state& b) {
    $merge
}
__device__ __forceinline__ state down(const state& s, int distance, int group) {
    state r;
$down    return r;
}
__device__ __forceinline__ state first(const state& s, int group) {
    state r;
$first    return r;
}
// The states of `group` neighbouring threads as one, for all of them.
template <int group> __device__ __forceinline__ state merged(state s, state* shared) {
    constexpr int width = group < 32 ? group : 32;
#pragma unroll
    for (int d = width / 2; d; d /= 2) merge(s, down(s, d, width));
    if (group <= 32) return first(s, width);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = s;
    __syncthreads();
    s = shared[0];
#pragma unroll
    for (int w = 1; w < group / 32; ++w) merge(s, shared[w]);
    return s;
}
)cuda",
                {{"fields", fields},
                 {"helpers", by.helpers},
                 {"start", start},
                 {"parameters", parameters},
                 {"take", by.take},
                 {"merge", by.merge},
                 {"down", down},
                 {"first", first}});
}

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
