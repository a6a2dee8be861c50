// Integers and values of a kernel's text, with what is known of them when the text is made.
#pragma once

#include "../../core/dtype.hpp"
#include "../../core/shape.hpp"
#include "../kernel.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// How often a statement is run. A kernel is a loop over packs of neighbouring elements, with a loop over the elements inside;
/// whatever uses a name stands at its level or deeper.
enum class level {
    thread,  ///< before the loop: constants, scalars in memory
    pack,    ///< once for each run of the loop
    lane,    ///< for each element of a pack; with packs of one element nothing is
};

/// An integer: part of a coordinate, or an offset.
struct index {
    std::string text = "0";  ///< a name or a literal; where `consecutive`, the value of the pack's first element
    gpu::level level = gpu::level::thread;
    bool consecutive = false;   ///< grows by one from element to element of a pack
    std::int64_t multiple = 0;  ///< `text` is a multiple of this (0: it is 0)
    std::int64_t bound = 1;     ///< it is in [0, bound) for every element; 0: not known
    bool known = true;          ///< it is the literal `number`
    std::int64_t number = 0;
};

/// The index that is a number.
inline index index_of(std::int64_t n) {
    index i;
    i.text = n < 0 ? "(" + std::to_string(n) + ")" : std::to_string(n);
    i.multiple = n < 0 ? -n : n;
    i.bound = n < 0 ? 0 : n + 1;
    i.number = n;
    return i;
}

/// A computed element: the name or literal of a value of the type `type`, which is one that is computed in.
struct operand {
    std::string text;
    dtype type = dtype::undefined;
    gpu::level level = gpu::level::thread;
    explicit operator bool() const noexcept { return !text.empty(); }
};

/// Where an element of a value is: its coordinates, which are computed only where they matter.
///
/// A walk is a counter's way through memory: element number `offset` of the extents `walk`, outermost first. Axis d of the value is
/// axis from[d] of the walk, or what from[d] says else. So a walk in the order of memory costs no division, broadcasting and permuting
/// axes are notes and not text, and an operator that moves elements along one axis leaves the others walked.
struct position {
    static constexpr int zero = -1;   ///< the coordinate is 0
    static constexpr int given = -2;  ///< the coordinate is axes[d]

    shape extents;  ///< of the value
    shape walk;
    index offset;
    std::vector<int> from;
    std::vector<index> axes;

    /// The same text for the same position.
    std::string key() const;
};

/// The position that is element number `offset` in the order in which a tensor lies in memory.
position walk(const shape& extents, layout order, const index& offset);
/// The position with these coordinates, one for each axis.
position at_axes(const shape& extents, std::vector<index> axes);
/// The position whose coordinate along axis d is `i`, in a value that has the extent `extent` there.
position with_axis(position at, int d, const index& i, std::int64_t extent);
/// The same element of a value whose axes are `axes` of this one's, in that order; -1 is a new axis of extent 1.
position with_axes(const position& at, const std::vector<int>& axes);
/// Where a value of the extents `in` is read that is broadcast to the value at `at`.
position broadcast_to(const position& at, const shape& in);

/// Strides in elements of a tensor in memory, by axis of its extents.
std::vector<std::int64_t> strides_of(const shape& extents, layout order);
/// Strides that number elements by some axes alone, row-major: bit d of `axes` for each that counts; 0 along the others.
std::vector<std::int64_t> strides_among(const shape& extents, std::uint32_t axes);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// The axes from the outermost to the innermost in memory.
inline std::vector<int> memory_order(int rank, layout order) {
    std::vector<int> axes;
    for (int d = 0; d < rank; ++d)
        if (order == layout::row_major || d != 1) axes.push_back(d);
    if (order == layout::channels_last && rank > 1) axes.push_back(1);
    return axes;
}

}  // namespace detail

GRAFT_INLINE std::vector<std::int64_t> strides_of(const shape& extents, layout order) {
    std::vector<std::int64_t> strides(static_cast<std::size_t>(extents.rank()));
    const std::vector<int> axes = detail::memory_order(extents.rank(), order);
    std::int64_t step = 1;
    for (std::size_t i = axes.size(); i-- > 0; step *= extents[axes[i]]) strides[static_cast<std::size_t>(axes[i])] = step;
    return strides;
}

GRAFT_INLINE std::vector<std::int64_t> strides_among(const shape& extents, std::uint32_t axes) {
    std::vector<std::int64_t> strides(static_cast<std::size_t>(extents.rank()));
    std::int64_t step = 1;
    for (int d = extents.rank() - 1; d >= 0; --d) {
        if (!(axes >> d & 1u)) continue;
        strides[static_cast<std::size_t>(d)] = step;
        step *= extents[d];
    }
    return strides;
}

GRAFT_INLINE std::string position::key() const {
    std::string s = offset.text;
    for (std::int64_t e : walk) s += "," + std::to_string(e);
    for (std::size_t d = 0; d < from.size(); ++d) s += from[d] == given ? (axes[d].consecutive ? ":+" : ":") + axes[d].text : ":" + std::to_string(from[d]);
    return s;
}

GRAFT_INLINE position walk(const shape& extents, layout order, const index& offset) {
    position p;
    p.extents = extents;
    p.offset = offset;
    p.from.resize(static_cast<std::size_t>(extents.rank()));
    p.axes.resize(p.from.size());
    for (int d : detail::memory_order(extents.rank(), order)) {
        p.from[static_cast<std::size_t>(d)] = p.walk.rank();
        p.walk.push_back(extents[d]);
    }
    return p;
}

GRAFT_INLINE position at_axes(const shape& extents, std::vector<index> axes) {
    position p;
    p.extents = extents;
    p.from.assign(axes.size(), position::given);
    p.axes = std::move(axes);
    return p;
}

GRAFT_INLINE position with_axis(position at, int d, const index& i, std::int64_t extent) {
    at.extents[d] = extent;
    at.from[static_cast<std::size_t>(d)] = position::given;
    at.axes[static_cast<std::size_t>(d)] = i;
    return at;
}

GRAFT_INLINE position with_axes(const position& at, const std::vector<int>& axes) {
    position p;
    p.walk = at.walk;
    p.offset = at.offset;
    for (int a : axes) {
        p.extents.push_back(a < 0 ? 1 : at.extents[a]);
        p.from.push_back(a < 0 ? position::zero : at.from[static_cast<std::size_t>(a)]);
        p.axes.push_back(a < 0 ? index() : at.axes[static_cast<std::size_t>(a)]);
    }
    return p;
}

GRAFT_INLINE position broadcast_to(const position& at, const shape& in) {
    if (in == at.extents) return at;
    std::vector<int> axes;
    for (int d = 0; d < in.rank(); ++d) {
        const int a = d + at.extents.rank() - in.rank();
        axes.push_back(a < 0 || (in[d] == 1 && at.extents[a] != 1) ? -1 : a);
    }
    return with_axes(at, axes);
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
