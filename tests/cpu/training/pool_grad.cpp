// Gradients of pooling against plain loops: ties, pads, dilations, ceil mode, both layouts, threads.
#include <graft/cpu/pool.hpp>
#include <graft/cpu/training/pool_grad.hpp>

#include <doctest/doctest.h>

#include "support.hpp"

using namespace graft;
using namespace graft::cpu;
using namespace training_test;

namespace {

std::vector<double> plain(const pool_problem& p, bool max, const std::vector<float>& dy, const std::vector<float>& x) {
    std::vector<double> dx(x.size(), 0.0);
    for (std::int64_t plane = 0; plane < p.n * p.c; ++plane)
        for (std::int64_t oy = 0; oy < p.oh; ++oy)
            for (std::int64_t ox = 0; ox < p.ow; ++ox) {
                const double g = static_cast<double>(dy[static_cast<std::size_t>((plane * p.oh + oy) * p.ow + ox)]);
                std::vector<std::size_t> inside;
                int padded = 0;
                for (int ky = 0; ky < p.kh; ++ky)
                    for (int kx = 0; kx < p.kw; ++kx) {
                        const std::int64_t iy = oy * p.sh - p.pt + ky * p.dh, ix = ox * p.sw - p.pl + kx * p.dw;
                        padded += iy < p.ih + p.pb && ix < p.iw + p.pr;
                        if (iy >= 0 && iy < p.ih && ix >= 0 && ix < p.iw) inside.push_back(static_cast<std::size_t>((plane * p.ih + iy) * p.iw + ix));
                    }
                if (inside.empty()) continue;
                if (max) {
                    std::size_t best = inside[0];
                    for (std::size_t i : inside)
                        if (x[i] > x[best]) best = i;
                    dx[best] += g;
                } else {
                    for (std::size_t i : inside) dx[i] += g / static_cast<double>(p.count_include_pad ? padded : static_cast<int>(inside.size()));
                }
            }
    return dx;
}

struct forms {
    std::vector<float> planes, blocks;
};

// The gradient by the places that the forward pass keeps; its own output is compared with the one of inference.
std::vector<float> max_gradient(isa set, const pool_problem& p, const std::vector<float>& dy, const std::vector<float>& x, executor& pool) {
    std::vector<float> y(dy.size(), 5.0f), want(dy.size(), 4.0f), dx(x.size(), 5.0f);
    std::vector<std::uint8_t> places(dy.size(), 255), alone(dy.size(), 254);
    run_max_pool_places(set, p, x.data(), y.data(), places.data(), pool);
    run_max_pool_places(set, p, x.data(), nullptr, alone.data(), pool);
    run_max_pool(set, p, x.data(), want.data(), pool);
    CHECK(same(y, want));
    CHECK(places == alone);
    run_max_pool_grad(set, p, dy.data(), places.data(), dx.data(), pool);
    return dx;
}

forms run(isa set, pool_problem p, bool max, const std::vector<float>& dy, const std::vector<float>& x, executor& pool) {
    const int w = vector_width(set);
    const auto gradient = [&](const std::vector<float>& of, const std::vector<float>& at) {
        if (max) return max_gradient(set, p, of, at, pool);
        std::vector<float> dx(at.size(), 5.0f);
        run_average_pool_grad(set, p, of.data(), dx.data(), pool);
        return dx;
    };
    forms f;
    p.l = layout::row_major;
    f.planes = gradient(dy, x);
    p.l = layout::blocked;
    f.blocks = to_planes(gradient(to_blocks(dy, p.n, p.c, p.oh * p.ow, w), to_blocks(x, p.n, p.c, p.ih * p.iw, w)), p.n, p.c, p.ih * p.iw, w);
    return f;
}

pool_problem made(std::int64_t n, std::int64_t c, std::int64_t size, int kernel, int stride, int pad, int dilation, bool ceil, bool include_pad) {
    pool_problem p;
    p.n = n, p.c = c, p.ih = size, p.iw = size + 2;
    p.kh = kernel, p.kw = kernel, p.sh = stride, p.sw = stride, p.dh = p.dw = dilation;
    p.pt = p.pl = p.pb = p.pr = pad;
    p.count_include_pad = include_pad;
    const auto out = [&](std::int64_t in) {
        const std::int64_t room = in + 2 * pad - (kernel - 1) * dilation - 1;
        std::int64_t o = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
        if (ceil && (o - 1) * stride >= in + pad) --o;  // a window has to begin inside
        return o;
    };
    p.oh = out(p.ih), p.ow = out(p.iw);
    return p;
}

const pool_problem problems[] = {
    made(1, 1, 4, 2, 2, 0, 1, false, false), made(2, 3, 7, 3, 2, 1, 1, false, false),  made(1, 17, 8, 3, 1, 1, 1, false, true),
    made(3, 5, 9, 2, 3, 0, 1, false, false), made(2, 20, 10, 3, 2, 0, 1, true, false), made(1, 4, 11, 3, 2, 1, 2, false, true),
    made(9, 2, 6, 5, 1, 2, 1, false, true),  made(1, 40, 13, 2, 2, 0, 1, true, true),  made(2, 33, 112, 3, 2, 1, 1, false, false),
};

}  // namespace

TEST_CASE("gradients of max and average pooling go where PyTorch's go") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (const pool_problem& p : problems)
            for (bool max : {true, false}) {
                INFO("instruction set " << std::string(name(set)) << ", kernel " << p.kh << " stride " << p.sh << " pad " << p.pt << " c " << p.c << " max "
                                        << max);
                const std::vector<float> dy = numbers(p.n * p.c * p.oh * p.ow, 1);
                std::vector<float> x = numbers(p.n * p.c * p.ih * p.iw, 2);
                // Few different values: ties in most windows.
                for (float& v : x) v = std::floor(v * 3);
                const forms f = run(set, p, max, dy, x, alone), again = run(set, p, max, dy, x, three);
                const std::vector<double> want = plain(p, max, dy, x);
                CHECK(distance(f.planes, want, 1) < 5e-7);
                CHECK(distance(f.blocks, want, 1) < 5e-7);
                CHECK(same(f.planes, again.planes));
                CHECK(same(f.blocks, again.blocks));
            }
}

TEST_CASE("the gradient of a global average is the same for every pixel") {
    executor alone;
    pool_executor three(3);
    for (isa set : sets())
        for (std::int64_t c : {1, 5, 16, 37})
            for (std::int64_t size : {1, 3, 7, 60}) {
                pool_problem p;
                p.n = 3, p.c = c, p.ih = size, p.iw = size + 1, p.oh = p.ow = 1;
                p.kh = static_cast<int>(p.ih), p.kw = static_cast<int>(p.iw);
                const std::vector<float> dy = numbers(3 * c, 1), x = numbers(3 * c * p.ih * p.iw, 2);
                const forms f = run(set, p, false, dy, x, alone), again = run(set, p, false, dy, x, three);
                CHECK(distance(f.planes, plain(p, false, dy, x)) < 1e-6);
                CHECK(same(f.planes, f.blocks));
                CHECK(same(f.blocks, again.blocks));
            }
}
