// How the elements of a value lie in memory.
#pragma once

#include "../core/shape.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// The order of a value's elements in memory; its extents are ONNX's in each. What the caller of a model gives and gets is row-major.
struct layout {
    enum kind : std::uint8_t {
        row_major,      ///< [n][c][h][w]: the last axis is dense
        blocked,        ///< [n][ceil(c / channels)][h][w][channels]; lanes past c hold anything. The CPU's
        channels_last,  ///< [n][h][w][c], weights [m][kh][kw][c]. A GPU's
    };
    kind as = row_major;
    std::uint8_t channels = 0;  ///< of a block; 0 in the other layouts

    constexpr layout() = default;
    constexpr layout(kind order, int block = 0) : as(order), channels(static_cast<std::uint8_t>(block)) {}
    friend constexpr bool operator==(layout a, layout b) noexcept { return a.as == b.as && a.channels == b.channels; }
    friend constexpr bool operator!=(layout a, layout b) noexcept { return !(a == b); }
    /// Whether it is of that kind, however wide its blocks are.
    friend constexpr bool operator==(layout a, kind order) noexcept { return a.as == order; }
    friend constexpr bool operator!=(layout a, kind order) noexcept { return a.as != order; }
};

/// The extents that a value takes in memory: blocks round its channels up to whole ones.
inline shape stored_extents(shape extents, layout lies) {
    if (lies.channels) extents[1] = (extents[1] + lies.channels - 1) / lies.channels * lies.channels;
    return extents;
}
/// The bytes that a value takes in memory; -1 where they overflow.
inline std::int64_t stored_bytes(dtype type, const shape& extents, layout lies) { return bytes_of(type, stored_extents(extents, lies)); }

GRAFT_END_NAMESPACE
