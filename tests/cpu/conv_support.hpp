// What the tests of convolutions share: tensors in blocks whose gaps hold NaN, the size of an output, a problem in words.
#pragma once

#include "random_source.hpp"
#include "sets.hpp"

#include <graft/core/buffer.hpp>
#include <graft/cpu/conv.hpp>

#include <cmath>
#include <string>

namespace kernel_test {

inline float* floats(const graft::buffer& b) { return reinterpret_cast<float*>(b.data()); }

/// Room for so many floats. What nobody wrote is NaN: a kernel that lets it into a result shows.
inline graft::buffer room(std::int64_t n) {
    graft::buffer b = graft::buffer::allocate(static_cast<std::size_t>(n) * 4).value();
    for (std::int64_t i = 0; i < n; ++i) floats(b)[i] = std::nanf("");
    return b;
}

inline std::int64_t blocked_floats(graft::cpu::isa set, std::int64_t n, std::int64_t c, std::int64_t pixels) {
    const int w = graft::cpu::vector_width(set);
    return n * ((c + w - 1) / w) * w * pixels;
}

/// [n][c][pixels] in blocks. Lanes past the channels hold NaN, as they may after other kernels.
inline graft::buffer blocked(graft::cpu::isa set, const std::vector<float>& x, std::int64_t n, std::int64_t c, std::int64_t pixels) {
    const std::int64_t w = graft::cpu::vector_width(set), blocks = (c + w - 1) / w;
    graft::buffer b = room(blocked_floats(set, n, c, pixels));
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < c; ++k)
            for (std::int64_t p = 0; p < pixels; ++p)
                floats(b)[((i * blocks + k / w) * pixels + p) * w + k % w] = x[static_cast<std::size_t>((i * c + k) * pixels + p)];
    return b;
}

/// Fills in oh and ow, with so much padding below and on the right.
inline void size_output(graft::cpu::conv_problem& p, int pb, int pr) {
    p.oh = (p.ih + p.pt + pb - (p.kh - 1) * p.dh - 1) / p.sh + 1;
    p.ow = (p.iw + p.pl + pr - (p.kw - 1) * p.dw - 1) / p.sw + 1;
}

/// Draws a window, its steps and holes.
inline void draw_window(random_source& random, graft::cpu::conv_problem& p) {
    p.kh = static_cast<int>(random.between(1, 5));
    p.kw = static_cast<int>(random.between(1, 5));
    p.sh = static_cast<int>(random.between(1, 3));
    p.sw = random.between(0, 2) ? p.sh : static_cast<int>(random.between(1, 4));
    p.dh = random.between(0, 3) ? 1 : 2;
    p.dw = random.between(0, 3) ? 1 : 3;
}

/// Draws channels. `kind`: 0 few of them, 1 depthwise, 2 groups, else any.
inline void draw_channels(random_source& random, int kind, graft::cpu::conv_problem& p) {
    if (kind == 0) {
        p.ic = random.between(1, 4);
        p.oc = random.between(1, 70);
        p.in = random.between(0, 3) ? graft::layout::row_major : graft::layout::blocked;
    } else if (kind == 1) {
        p.groups = static_cast<int>(random.between(2, 40));
        p.ic = p.oc = p.groups;
    } else if (kind == 2) {
        p.groups = static_cast<int>(random.between(2, 6));
        const std::int64_t sizes[] = {1, 2, 3, 4, 8, 16, 20, 32};
        p.ic = p.groups * sizes[random.between(0, 7)];
        p.oc = p.groups * sizes[random.between(0, 7)];
    } else {
        p.ic = random.between(1, 40);
        p.oc = random.between(1, 70);
    }
}

/// Draws what pads it behind, up to the window, and gives the output its size.
inline void draw_output(random_source& random, graft::cpu::conv_problem& p) {
    // Drawn one after the other, as compilers differ in which argument they take first.
    const int bottom = static_cast<int>(random.between(0, p.kh - 1)), right = static_cast<int>(random.between(0, p.kw - 1));
    size_output(p, bottom, right);
}

/// What an epilogue's activation makes of a sum.
inline double activate(const graft::epilogue& e, double x) {
    switch (e.act) {
    case graft::activation::relu: return x > 0 ? x : 0;
    case graft::activation::clip: return x < double(e.alpha) ? double(e.alpha) : x > double(e.beta) ? double(e.beta) : x;
    case graft::activation::leaky_relu: return x > 0 ? x : double(e.alpha) * x;
    case graft::activation::sigmoid: return 1 / (1 + std::exp(-x));
    case graft::activation::silu: return x / (1 + std::exp(-x));
    default: return x;
    }
}

inline std::string describe(graft::cpu::isa set, const graft::cpu::conv_problem& p, const char* how) {
    std::string s = std::string(graft::cpu::name(set)) + " (" + how + ")";
    for (std::int64_t v : {p.n, p.ic, p.ih, p.iw, p.oc, p.oh, p.ow}) s += " " + std::to_string(v);
    s += " |";
    for (int v : {p.groups, p.kh, p.kw, p.sh, p.sw, p.dh, p.dw, p.pt, p.pl, int(p.ep.act), int(p.ep.residual), int(p.in)}) s += " " + std::to_string(v);
    return s;
}

}  // namespace kernel_test
