// Pooling and changes of layout against plain loops, on every instruction set of this machine and both layouts.
#include "random_source.hpp"
#include "sets.hpp"

#include <doctest/doctest.h>

#include <graft/core/buffer.hpp>
#include <graft/cpu/pool.hpp>
#include <graft/cpu/reorder.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace graft;
using namespace graft::cpu;

namespace {

using kernel_test::random_source;
using kernel_test::sets;

std::vector<double> reference(const pool_problem& p, bool max, const std::vector<float>& x) {
    std::vector<double> y;
    for (std::int64_t plane = 0; plane < p.n * p.c; ++plane)
        for (std::int64_t oy = 0; oy < p.oh; ++oy)
            for (std::int64_t ox = 0; ox < p.ow; ++ox) {
                double best = -std::numeric_limits<double>::infinity(), sum = 0;
                int inside = 0, padded = 0;
                for (int ky = 0; ky < p.kh; ++ky)
                    for (int kx = 0; kx < p.kw; ++kx) {
                        const std::int64_t iy = oy * p.sh - p.pt + ky * p.dh, ix = ox * p.sw - p.pl + kx * p.dw;
                        padded += iy < p.ih + p.pb && ix < p.iw + p.pr;
                        if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
                        const double v = double(x[static_cast<std::size_t>((plane * p.ih + iy) * p.iw + ix)]);
                        best = v > best || v != v ? v : best;
                        sum += v;
                        ++inside;
                    }
                y.push_back(max ? best : sum / (p.count_include_pad ? padded : inside));
            }
    return y;
}

bool close(float got, double want) {
    if (want != want) return got != got;
    return std::isinf(want) ? double(got) == want : std::fabs(double(got) - want) < 1e-5;
}

// Through the blocked layout and back.
template <class F>
std::vector<float> in_blocks(isa set, std::int64_t n, std::int64_t c, std::int64_t in, std::int64_t out, const std::vector<float>& x, const F& f) {
    executor alone;
    const std::int64_t w = vector_width(set), blocks = n * ((c + w - 1) / w);
    std::vector<float> xb(static_cast<std::size_t>(blocks * in * w), -5.0f), yb(static_cast<std::size_t>(blocks * out * w)),
        y(static_cast<std::size_t>(n * c * out));
    to_blocked(set, x.data(), n, c, in, xb.data(), alone);
    f(xb.data(), yb.data());
    to_nchw(set, yb.data(), n, c, out, y.data(), alone);
    return y;
}

}  // namespace

TEST_CASE("changing the layout and back gives the same bytes, and lanes past the channels are 0") {
    random_source random;
    pool_executor pool(2);
    for (isa set : sets())
        for (int round = 0; round < 60; ++round) {
            const std::int64_t n = random.between(0, 3), c = random.between(1, 40), pixels = random.between(1, 70) * (round == 7 ? 100 : 1);
            const std::int64_t w = vector_width(set), blocks = (c + w - 1) / w;
            const std::vector<float> x = random.reals(n * c * pixels);
            std::vector<float> b(static_cast<std::size_t>(n * blocks * pixels * w), 7.0f), back(x.size());
            to_blocked(set, x.data(), n, c, pixels, b.data(), pool);
            to_nchw(set, b.data(), n, c, pixels, back.data(), pool);
            INFO(name(set), " ", n, " ", c, " ", pixels);
            CHECK((x.empty() || std::memcmp(x.data(), back.data(), x.size() * 4) == 0));
            bool right = true;
            for (std::int64_t i = 0; i < n; ++i)
                for (std::int64_t k = 0; k < blocks * w; ++k)
                    for (std::int64_t p = 0; p < pixels; ++p) {
                        const float want = k < c ? x[static_cast<std::size_t>((i * c + k) * pixels + p)] : 0;
                        right = right && b[static_cast<std::size_t>(((i * blocks + k / w) * pixels + p) * w + k % w)] == want;
                    }
            CHECK(right);
        }
}

TEST_CASE("pooling agrees with plain loops on random windows") {
    random_source random;
    executor alone;
    for (int round = 0; round < 400; ++round) {
        pool_problem p;
        p.n = random.between(1, 2);
        p.c = random.between(1, 36);
        p.kh = static_cast<int>(random.between(1, 4));
        p.kw = static_cast<int>(random.between(1, 4));
        p.sh = static_cast<int>(random.between(1, 3));
        p.sw = static_cast<int>(random.between(1, 5));
        p.dh = random.between(0, 3) ? 1 : 2;
        p.dw = random.between(0, 3) ? 1 : 2;
        p.pt = static_cast<int>(random.between(0, p.kh - 1));
        p.pl = static_cast<int>(random.between(0, p.kw - 1));
        p.pb = static_cast<int>(random.between(0, p.kh - 1));
        p.pr = static_cast<int>(random.between(0, p.kw - 1));
        p.ih = random.between(1, 12) + (p.kh - 1) * p.dh;
        p.iw = random.between(1, 40) + (p.kw - 1) * p.dw;
        p.count_include_pad = random.between(0, 1);
        const std::int64_t h = p.ih + p.pt + p.pb - (p.kh - 1) * p.dh - 1, w = p.iw + p.pl + p.pr - (p.kw - 1) * p.dw - 1;
        const bool ceil_mode = random.between(0, 1), max = random.between(0, 1);
        p.oh = (h + (ceil_mode ? p.sh - 1 : 0)) / p.sh + 1;
        p.ow = (w + (ceil_mode ? p.sw - 1 : 0)) / p.sw + 1;
        // A last window has to start inside the image or the padding before it.
        if ((p.oh - 1) * p.sh >= p.ih + p.pt) --p.oh;
        if ((p.ow - 1) * p.sw >= p.iw + p.pl) --p.ow;
        std::vector<float> x = random.reals(p.n * p.c * p.ih * p.iw);
        if (round % 10 == 0) x[x.size() / 2] = std::nanf("");
        const std::vector<double> want = reference(p, max, x);
        for (isa set : sets()) {
            auto* run = max ? &run_max_pool : &run_average_pool;
            for (layout::kind l : {layout::row_major, layout::blocked}) {
                p.l = l;
                std::vector<float> y(want.size());
                if (l == layout::row_major)
                    run(set, p, x.data(), y.data(), alone);
                else
                    y = in_blocks(set, p.n, p.c, p.ih * p.iw, p.oh * p.ow, x, [&](const float* in, float* out) { run(set, p, in, out, alone); });
                bool right = true;
                for (std::size_t i = 0; i < want.size(); ++i) right = right && close(y[i], want[i]);
                INFO(name(set), " ", round, " max ", max, " blocked ", l == layout::blocked, " ceil ", ceil_mode);
                CHECK(right);
            }
        }
    }
}

TEST_CASE("whole planes are averaged and searched, whatever their size") {
    random_source random;
    executor alone;
    for (std::int64_t pixels : {1, 3, 4, 7, 16, 49, 63, 196, 1000}) {
        const std::int64_t n = 2, c = 21;
        std::vector<float> x = random.reals(n * c * pixels);
        x[x.size() / 2] = std::nanf("");
        for (isa set : sets())
            for (bool max : {false, true}) {
                auto* run = max ? &run_global_max_pool : &run_global_average_pool;
                std::vector<float> planes(static_cast<std::size_t>(n * c));
                run(set, layout::row_major, n, c, pixels, x.data(), planes.data(), alone);
                const std::vector<float> blocks =
                    in_blocks(set, n, c, pixels, 1, x, [&](const float* in, float* out) { run(set, layout::blocked, n, c, pixels, in, out, alone); });
                pool_problem p;
                p.n = n;
                p.c = c;
                p.ih = p.kh = 1;
                p.iw = pixels;
                p.kw = static_cast<int>(pixels);
                const std::vector<double> want = reference(p, max, x);
                bool right = true;
                for (std::size_t i = 0; i < want.size(); ++i) right = right && close(planes[i], want[i]) && close(blocks[i], want[i]);
                INFO(name(set), " ", pixels, " max ", max);
                CHECK(right);
            }
    }
}

TEST_CASE("the number of threads changes no bit of a pooling") {
    random_source random;
    pool_problem p;
    p.n = 2;
    p.c = 40;
    p.ih = p.iw = 60;
    p.oh = p.ow = 30;
    p.kh = p.kw = 3;
    p.sh = p.sw = 2;
    p.pt = p.pl = p.pb = p.pr = 1;
    for (layout::kind l : {layout::row_major, layout::blocked})
        for (isa set : sets()) {
            p.l = l;
            const std::vector<float> x = random.reals(p.n * 48 * p.ih * p.iw);
            std::vector<float> first(static_cast<std::size_t>(p.n * 48 * p.oh * p.ow)), again(first.size());
            executor alone;
            run_average_pool(set, p, x.data(), first.data(), alone);
            for (int threads = 2; threads <= 4; ++threads) {
                pool_executor pool(threads);
                run_average_pool(set, p, x.data(), again.data(), pool);
                CHECK(std::memcmp(first.data(), again.data(), first.size() * 4) == 0);
            }
        }
}
