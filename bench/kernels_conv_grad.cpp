// Times of convolution's gradients on layers of real networks, beside the forward pass: best of many runs, in microseconds an image and
// GFLOP/s. Arguments: [filter of the layer's name] [threads] [batch] [bfloat16]; GRAFT_ISA chooses the instruction set.
#include "timing.hpp"

#include <graft/cpu/training/conv_grad.hpp>

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
    int ic, oc, size, kernel, stride, pad, groups, batch;
};

const layer layers[] = {
    {"r.conv1 7x7s2 3->64 @224", 3, 64, 224, 7, 2, 3, 1, 16},
    {"r.3x3 64 @56", 64, 64, 56, 3, 1, 1, 1, 16},
    {"r.3x3s2 64->128 @56", 64, 128, 56, 3, 2, 1, 1, 16},
    {"r.1x1s2 64->128 @56", 64, 128, 56, 1, 2, 0, 1, 16},
    {"r.3x3 128 @28", 128, 128, 28, 3, 1, 1, 1, 16},
    {"r.3x3s2 128->256 @28", 128, 256, 28, 3, 2, 1, 1, 16},
    {"r.3x3 256 @14", 256, 256, 14, 3, 1, 1, 1, 16},
    {"r.3x3s2 256->512 @14", 256, 512, 14, 3, 2, 1, 1, 16},
    {"r.3x3 512 @7", 512, 512, 7, 3, 1, 1, 1, 16},
    {"r50.1x1 64->256 @56", 64, 256, 56, 1, 1, 0, 1, 16},
    {"r50.1x1 1024->256 @14", 1024, 256, 14, 1, 1, 0, 1, 16},
    {"m.conv1 3x3s2 3->32 @224", 3, 32, 224, 3, 2, 1, 1, 16},
    {"m.dw3x3 32 @112", 32, 32, 112, 3, 1, 1, 32, 16},
    {"m.1x1 32->16 @112", 32, 16, 112, 1, 1, 0, 1, 16},
    {"m.1x1 16->96 @112", 16, 96, 112, 1, 1, 0, 1, 16},
    {"m.dw3x3s2 96 @112", 96, 96, 112, 3, 2, 1, 96, 16},
    {"m.1x1 24->144 @56", 24, 144, 56, 1, 1, 0, 1, 16},
    {"m.dw3x3 144 @56", 144, 144, 56, 3, 1, 1, 144, 16},
    {"m.1x1 192->32 @28", 192, 32, 28, 1, 1, 0, 1, 16},
    {"m.dw3x3 384 @14", 384, 384, 14, 3, 1, 1, 384, 16},
    {"m.1x1 576->96 @14", 576, 96, 14, 1, 1, 0, 1, 16},
    {"m.dw3x3 960 @7", 960, 960, 7, 3, 1, 1, 960, 16},
    {"m.1x1 320->1280 @7", 320, 1280, 7, 1, 1, 0, 1, 16},
    {"s.conv1 3x3s2 3->64 @224", 3, 64, 224, 3, 2, 0, 1, 16},
    {"s.1x1 64->16 @55", 64, 16, 55, 1, 1, 0, 1, 16},
    {"s.3x3 16->64 @55", 16, 64, 55, 3, 1, 1, 1, 16},
    {"s.1x1 16->64 @55", 16, 64, 55, 1, 1, 0, 1, 16},
    {"s.3x3 32->128 @27", 32, 128, 27, 3, 1, 1, 1, 16},
    {"s.3x3 64->256 @13", 64, 256, 13, 3, 1, 1, 1, 16},
    {"s.1x1 512->1000 @13", 512, 1000, 13, 1, 1, 0, 1, 16},
    {"l.5x5 1->6 @28", 1, 6, 28, 5, 1, 0, 1, 64},
    {"l.5x5 6->16 @12", 6, 16, 12, 5, 1, 0, 1, 64},
    {"c.dw7x7 96 @56", 96, 96, 56, 7, 1, 3, 96, 4},
    {"x.3x3 g32 128 @56", 128, 128, 56, 3, 1, 1, 32, 4},
    {"x.3x3s2 g32 256 @56", 256, 256, 56, 3, 2, 1, 32, 4},
    {"y.3x3 g10 240(24) @28", 240, 240, 28, 3, 1, 1, 10, 4},
};

}  // namespace

int main(int argc, char** argv) {
    const char* filter = argc > 1 ? argv[1] : "";
    pool_executor pool(argc > 2 ? std::atoi(argv[2]) : 1);
    const int threads = pool.threads();
    const isa set = active_isa().value();
    const int w = vector_width(set);
    std::printf("%s, %d threads\n%-26s %19s %19s %19s %9s %9s  %s\n", name(set), threads, "layer (us an image, GF/s)", "forward", "weight", "input", "pack",
                "pack dx", "algorithms");
    for (const layer& l : layers) {
        if (!std::strstr(l.name, filter)) continue;
        conv_problem p;
        p.n = argc > 3 ? std::atoi(argv[3]) : l.batch;
        p.bfloat16 = argc > 4;
        p.ic = l.ic;
        p.oc = l.oc;
        p.ih = p.iw = l.size;
        p.kh = p.kw = l.kernel;
        p.sh = p.sw = l.stride;
        p.pt = p.pl = l.pad;
        p.groups = l.groups;
        p.oh = p.ow = (l.size + 2 * l.pad - l.kernel) / l.stride + 1;
        p.in = l.ic <= 4 ? layout::row_major : layout::blocked;
        const conv_choice c = choose_conv(set, p);
        const conv_grad_weight_choice cw = choose_conv_grad_weight(set, p, 8);
        const conv_grad_input_choice ci = choose_conv_grad_input(set, p);
        const array x(p.n * (p.ic + w) * p.ih * p.iw), y(p.n * (p.oc + w) * p.oh * p.ow);
        const array weight(p.oc * p.ic / p.groups * p.kh * p.kw), packed(c.packed_bytes / 4), space(c.workspace_bytes / 4);
        const array dx(p.n * (p.ic + w) * p.ih * p.iw), dw(p.oc * p.ic / p.groups * p.kh * p.kw), db(p.oc);
        const array packed_dx(ci.packed_bytes / 4), space_dx(ci.workspace_bytes / 4), space_dw(cw.workspace_bytes / 4), space_pack(ci.pack_workspace_bytes / 4);
        const double pack = best_seconds(threads, [&] { repack_conv_weights(set, p, c, weight.data, packed.data, pool); });
        const double pack_dx = best_seconds(threads, [&] { pack_conv_grad_input_weights(set, p, ci, weight.data, packed_dx.data, space_pack.data, pool); });
        const double forward = best_seconds(threads, [&] { run_conv(set, p, c, x.data, packed.data, nullptr, nullptr, y.data, space.data, pool); });
        const double by_weight = best_seconds(threads, [&] { run_conv_grad_weight(set, p, cw, x.data, y.data, dw.data, db.data, space_dw.data, pool); });
        // The first layer's input needs no gradient.
        const double by_input =
            l.ic <= 4 ? 0 : best_seconds(threads, [&] { run_conv_grad_input(set, p, ci, y.data, packed_dx.data, nullptr, dx.data, space_dx.data, pool); });
        const double flops = 2.0 * double(p.n * p.oc * p.oh * p.ow) * double(p.ic / p.groups * p.kh * p.kw), image = 1e6 / double(p.n);
        std::printf("%-26s %10.1f %8.1f %10.1f %8.1f %10.1f %8.1f %9.1f %9.1f  %s; %s; %s\n", l.name, forward * image, flops / forward / 1e9, by_weight * image,
                    flops / by_weight / 1e9, by_input * image, by_input > 0 ? flops / by_input / 1e9 : 0.0, pack * 1e6, pack_dx * 1e6, c.reason, cw.reason,
                    ci.reason);
        std::fflush(stdout);
    }
}
