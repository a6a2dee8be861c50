// Layouts of values: when two of them are the same order of elements.
#pragma once

#include "../kernel.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Whether row-major and channels-last are the same order of a shape's elements.
inline bool layouts_agree(const shape& s) noexcept { return s.rank() < 3 || s[1] == 1 || s.product(2, s.rank()) == 1; }
/// Whether a value of that shape and layout may be read as channels-last.
inline bool is_channels_last(const shape& s, layout l) noexcept { return l == layout::channels_last || layouts_agree(s); }
/// Whether a value of that shape and layout may be read as row-major.
inline bool is_row_major(const shape& s, layout l) noexcept { return l == layout::row_major || layouts_agree(s); }

}  // namespace gpu
GRAFT_END_NAMESPACE
