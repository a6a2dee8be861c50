// The image as windows read it: padded, and cut into planes, so that the pixels of neighbouring outputs are neighbours for every tap.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// A padded image with a plane for each remainder of the strides that a tap needs. Output (oy, ox) is pixel oy * pitch + ox, and for
/// tap t it reads the pixel taps[t] further on.
struct image_planes {
    std::int64_t pitch = 0, rows = 0;  // of a plane, in pixels
    std::int64_t row_phases = 0, column_phases = 0;
    const std::int64_t* row_phase = nullptr;     // the remainders, [row_phases]
    const std::int64_t* column_phase = nullptr;  // [column_phases]
    const std::int64_t* taps = nullptr;          // [kh * kw], perhaps more than once

    std::int64_t plane() const noexcept { return pitch * rows; }
    std::int64_t planes() const noexcept { return plane() * row_phases * column_phases; }
};

namespace detail {

// Remainders of the strides that taps have, in order; returns how many.
inline std::int64_t tap_phases(int kernel, int dilation, int stride, std::int64_t* out) {
    std::int64_t count = 0;
    for (int r = 0; r < stride; ++r)
        for (int k = 0; k < kernel; ++k)
            if (std::int64_t(k) * dilation % stride == r) {
                if (out) out[count] = r;
                ++count;
                break;
            }
    return count;
}

// The planes of a problem with a window, without the lists that they point to.
template <class Problem>
image_planes planes_of(const Problem& p) {
    image_planes g;
    g.pitch = p.ow + std::int64_t(p.kw - 1) * p.dw / p.sw;
    g.rows = p.oh + std::int64_t(p.kh - 1) * p.dh / p.sh;
    g.row_phases = tap_phases(p.kh, p.dh, p.sh, nullptr);
    g.column_phases = tap_phases(p.kw, p.dw, p.sw, nullptr);
    return g;
}

// Bytes of those lists; `times`: how often the taps stand there, one list behind the other.
template <class Problem>
std::int64_t plane_list_bytes(const Problem& p, int times = 1) {
    return (8 * (std::int64_t(p.kh) * p.kw * times + p.kh + p.kw) + 63) / 64 * 64;
}

// Writes them for planes of these sizes, and points there.
template <class Problem>
GRAFT_COLD void list_taps(const Problem& p, image_planes& g, void* lists, int times = 1) {
    const std::int64_t count = std::int64_t(p.kh) * p.kw;
    std::int64_t *const taps = static_cast<std::int64_t*>(lists), *const row_phase = taps + count * times, *const column_phase = row_phase + p.kh;
    tap_phases(p.kh, p.dh, p.sh, row_phase);
    tap_phases(p.kw, p.dw, p.sw, column_phase);
    for (int ky = 0; ky < p.kh; ++ky)
        for (int kx = 0; kx < p.kw; ++kx) {
            const std::int64_t below = std::int64_t(ky) * p.dh, beside = std::int64_t(kx) * p.dw;
            std::int64_t py = 0, px = 0;
            while (row_phase[py] != below % p.sh) ++py;
            while (column_phase[px] != beside % p.sw) ++px;
            taps[ky * p.kw + kx] = (py * g.column_phases + px) * g.plane() + below / p.sh * g.pitch + beside / p.sw;
        }
    for (std::int64_t i = count; i < count * times; ++i) taps[i] = taps[i - count];
    g.taps = taps;
    g.row_phase = row_phase;
    g.column_phase = column_phase;
}

}  // namespace detail
}  // namespace cpu
GRAFT_END_NAMESPACE
