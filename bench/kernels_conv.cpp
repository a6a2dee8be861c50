// Times of convolution kernels on layers of real networks: best of many runs, in microseconds and GFLOP/s.
// Arguments: [filter of the layer's name] [threads] [exact]; GRAFT_ISA chooses the instruction set.
#include "timing.hpp"

#include <graft/cpu/conv.hpp>
#include <graft/cpu/pool.hpp>
#include <graft/cpu/reorder.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace graft;
using namespace graft::cpu;
using bench::array;
using bench::best_seconds;

namespace {

struct layer {
    const char* name;
    int ic, oc, size, kernel, stride, pad, groups;
    double prototype;  // us of the prototype, one thread, AVX-512; 0: none
};

const layer layers[] = {
    {"r.conv1 7x7s2 3->64 @224", 3, 64, 224, 7, 2, 3, 1, 1397},
    {"r.1x1 64->64 @56", 64, 64, 56, 1, 1, 0, 1, 119},
    {"r.1x1 64->256 @56", 64, 256, 56, 1, 1, 0, 1, 484},
    {"r.3x3 64 @56", 64, 64, 56, 3, 1, 1, 1, 1059},
    {"r.1x1 256->64 @56", 256, 64, 56, 1, 1, 0, 1, 507},
    {"r.3x3s2 128 @56", 128, 128, 56, 3, 2, 1, 1, 1206},
    {"r.1x1 128->512 @28", 128, 512, 28, 1, 1, 0, 1, 465},
    {"r.1x1s2 256->512 @56", 256, 512, 56, 1, 2, 0, 1, 1366},
    {"r.3x3 128 @28", 128, 128, 28, 3, 1, 1, 1, 1037},
    {"r.1x1 1024->256 @14", 1024, 256, 14, 1, 1, 0, 1, 465},
    {"r.3x3 256 @14", 256, 256, 14, 3, 1, 1, 1, 1048},
    {"r.1x1 2048->512 @7", 2048, 512, 7, 1, 1, 0, 1, 493},
    {"r.3x3 512 @7", 512, 512, 7, 3, 1, 1, 1, 1115},
    {"v.3x3 64 @224", 64, 64, 224, 3, 1, 1, 1, 0},
    {"v.3x3 256 @56", 256, 256, 56, 3, 1, 1, 1, 0},
    {"v.3x3 512 @28", 512, 512, 28, 3, 1, 1, 1, 0},
    {"v.3x3 512 @14", 512, 512, 14, 3, 1, 1, 1, 0},
    {"m.conv1 3x3s2 3->32 @224", 3, 32, 224, 3, 2, 1, 1, 0},
    {"m.1x1 32->16 @112", 32, 16, 112, 1, 1, 0, 1, 81},
    {"m.1x1 16->96 @112", 16, 96, 112, 1, 1, 0, 1, 251},
    {"m.1x1 24->144 @56", 24, 144, 56, 1, 1, 0, 1, 118},
    {"m.1x1 192->32 @28", 192, 32, 28, 1, 1, 0, 1, 43},
    {"m.1x1 576->96 @14", 576, 96, 14, 1, 1, 0, 1, 96},
    {"m.1x1 320->1280 @7", 320, 1280, 7, 1, 1, 0, 1, 184},
    {"m.dw3x3 32 @112", 32, 32, 112, 3, 1, 1, 32, 95},
    {"m.dw3x3s2 96 @112", 96, 96, 112, 3, 2, 1, 96, 185},
    {"m.dw3x3 144 @56", 144, 144, 56, 3, 1, 1, 144, 110},
    {"m.dw3x3 384 @14", 384, 384, 14, 3, 1, 1, 384, 12},
    {"m.dw3x3 960 @7", 960, 960, 7, 3, 1, 1, 960, 8.9},
    {"e.dw5x5 240 @28", 240, 240, 28, 5, 1, 2, 240, 0},
    {"c.dw7x7 96 @56", 96, 96, 56, 7, 1, 3, 96, 0},
    {"c.4x4s4 3->96 @224", 3, 96, 224, 4, 4, 0, 1, 0},
    {"t.16x16s16 3->192 @224", 3, 192, 224, 16, 16, 0, 1, 0},
    {"a.11x11s4 3->64 @224", 3, 64, 224, 11, 4, 2, 1, 0},
    {"x.3x3 g32 128 @56", 128, 128, 56, 3, 1, 1, 32, 0},
    {"x.3x3 g32 256 @28", 256, 256, 28, 3, 1, 1, 32, 0},
    {"x.3x3 g32 1024 @7", 1024, 1024, 7, 3, 1, 1, 32, 0},
    {"y.3x3 g10 240(24) @28", 240, 240, 28, 3, 1, 1, 10, 0},
    {"s.1x1 g3 240->60 @28", 240, 60, 28, 1, 1, 0, 3, 0},
};

}  // namespace

int main(int argc, char** argv) {
    const char* filter = argc > 1 ? argv[1] : "";
    pool_executor pool(argc > 2 ? std::atoi(argv[2]) : 1);
    const isa set = active_isa().value();
    const int w = vector_width(set);
    std::printf("%s, %d threads\n%-28s %9s %8s %9s  %s\n", name(set), pool.threads(), "layer", "us", "GF/s", "prototype", "algorithm");
    for (const layer& l : layers) {
        if (!std::strstr(l.name, filter)) continue;
        conv_problem p;
        p.ic = l.ic;
        p.oc = l.oc;
        p.ih = p.iw = l.size;
        p.kh = p.kw = l.kernel;
        p.sh = p.sw = l.stride;
        p.pt = p.pl = l.pad;
        p.groups = l.groups;
        p.oh = p.ow = (l.size + 2 * l.pad - l.kernel) / l.stride + 1;
        p.in = l.ic <= 4 ? layout::row_major : layout::blocked;
        p.ep.act = activation::relu;
        p.exact = argc > 3;
        const conv_choice c = choose_conv(set, p);
        const array x((p.ic + w) * p.ih * p.iw), y((p.oc + w) * p.oh * p.ow), bias(p.oc);
        const array weight(p.oc * p.ic / p.groups * p.kh * p.kw), packed(c.packed_bytes / 4), space(c.workspace_bytes / 4);
        pack_conv_weights(set, p, c, weight.data, packed.data, pool);
        const double s = best_seconds(pool.threads(), [&] { run_conv(set, p, c, x.data, packed.data, bias.data, nullptr, y.data, space.data, pool); });
        const double flops = 2.0 * double(p.oc * p.oh * p.ow) * double(p.ic / p.groups * p.kh * p.kw);
        std::printf("%-28s %9.1f %8.1f %9.1f  %s\n", l.name, s * 1e6, flops / s / 1e9, l.prototype, c.reason);
    }
    if (std::strstr("pool", filter) || !*filter) {
        pool_problem p;
        p.c = 64;
        p.ih = p.iw = 112;
        p.oh = p.ow = 56;
        p.kh = p.kw = 3;
        p.sh = p.sw = 2;
        p.pt = p.pl = p.pb = p.pr = 1;
        const array in(p.c * p.ih * p.iw), out(p.c * p.ih * p.iw);
        float *x = in.data, *y = out.data;
        std::printf("max pool 3x3s2 64 @112 %9.1f us\n", best_seconds(pool.threads(), [&] { run_max_pool(set, p, x, y, pool); }) * 1e6);
        p.l = layout::row_major;
        std::printf("max pool, planes       %9.1f us\n", best_seconds(pool.threads(), [&] { run_max_pool(set, p, x, y, pool); }) * 1e6);
        std::printf("average 2048 @7        %9.1f us\n",
                    best_seconds(pool.threads(), [&] { run_global_average_pool(set, layout::blocked, 1, 2048, 49, x, y, pool); }) * 1e6);
        std::printf("to blocked 64 @112     %9.1f us\n", best_seconds(pool.threads(), [&] { to_blocked(set, x, 1, 64, 112 * 112, y, pool); }) * 1e6);
        std::printf("to planes 64 @112      %9.1f us\n", best_seconds(pool.threads(), [&] { to_nchw(set, x, 1, 64, 112 * 112, y, pool); }) * 1e6);
    }
}
