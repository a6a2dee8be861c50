// Speed of the matrix product, the elementwise, row and moving kernels: GFLOP/s and GB/s, best of several runs.
//   g++ -std=c++17 -O2 -Iinclude bench/kernels_gemm.cpp -o /tmp/kernels_gemm -lpthread && /tmp/kernels_gemm [threads] [isa or -]
//   [part of a name]
#include "timing.hpp"

#include <graft/cpu/elementwise.hpp>
#include <graft/cpu/gemm.hpp>
#include <graft/cpu/move.hpp>
#include <graft/cpu/rows.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace graft;
using namespace graft::cpu;
using bench::array;
using bench::best_seconds;

namespace {

const char* part = "";

// `bytes`: read and written, once each.
template <class F>
void moved(isa set, executor& pool, const char* what, std::int64_t bytes, const F& f) {
    if (!std::strstr(what, part)) return;
    const double s = best_seconds(pool.threads(), f);
    std::printf("%-8s %d thr  %-34s %9.1f us %7.1f GB/s\n", name(set), pool.threads(), what, s * 1e6, double(bytes) / s * 1e-9);
    std::fflush(stdout);
}

void product(isa set, executor& pool, const char* what, gemm_problem p, bool constant_b) {
    if (!std::strstr(what, part)) return;
    const std::int64_t batches = p.batch[0] * p.batch[1];
    array a(p.m * p.k * batches), b(p.n * p.k * (constant_b ? 1 : batches)), c(p.m * p.n * batches), bias(p.n);
    if (!constant_b) p.b_strides[1] = p.n * p.k;
    p.a_strides[1] = p.m * p.k, p.c_strides[1] = p.m * p.n;
    p.bias = constant_b ? bias_kind::column : bias_kind::none;
    std::unique_ptr<array> packed;
    if (constant_b) {
        packed.reset(new array(packed_b_bytes(set, p.n, p.k) / 4));
        pack_b(set, p, b.data, packed->data, pool);
        p.packed_b = true;
    }
    array workspace(gemm_workspace_bytes(set, p) / 4);
    const double s =
        best_seconds(pool.threads(), [&] { run_gemm(set, p, a.data, constant_b ? packed->data : b.data, bias.data, nullptr, c.data, workspace.data, pool); });
    const double flop = 2.0 * double(p.m) * double(p.n) * double(p.k) * double(batches);
    std::printf("%-8s %d thr  %-34s %9.1f us %7.1f GFLOP/s %6.1f GB/s of B\n", name(set), pool.threads(), what, s * 1e6, flop / s * 1e-9,
                double(p.n) * double(p.k) * 4 / s * 1e-9);
    std::fflush(stdout);
}

// Tensors of 784 KB, as in the middle of a network: they stay in the second cache, or nearly.
void others(isa set, executor& pool) {
    const std::int64_t n = 64 * 3136;
    array x(n), y(n), z(n), row(n);
    float *a = x.data, *b = y.data, *c = z.data;
    const std::int64_t bytes = n * 4;
    for (activation kind : {activation::relu, activation::sigmoid, activation::silu, activation::hard_swish, activation::tanh, activation::gelu,
                            activation::gelu_tanh, activation::mish}) {
        constexpr const char* names[] = {"none",       "relu", "clip", "leaky_relu", "sigmoid", "silu",     "hard_sigmoid",
                                         "hard_swish", "tanh", "gelu", "gelu_tanh",  "elu",     "softplus", "mish"};
        moved(set, pool, names[static_cast<int>(kind)], 2 * bytes, [&] { run_activation(set, kind, 0, 0, a, b, n, pool); });
    }
    moved(set, pool, "exp", 2 * bytes, [&] { run_unary(set, unary::exp, a, b, n, pool); });
    moved(set, pool, "log", 2 * bytes, [&] { run_unary(set, unary::log, a, b, n, pool); });
    moved(set, pool, "erf", 2 * bytes, [&] { run_unary(set, unary::erf, a, b, n, pool); });
    const std::int64_t map[] = {1, 64, 56, 56}, channels[] = {64, 1, 1}, tokens[] = {1029, 192}, width[] = {192};
    binary_problem add = broadcast(binary::add, map, 4, map, 4);
    moved(set, pool, "add", 3 * bytes, [&] { run_binary(set, add, a, b, c, pool); });
    add.ep.act = activation::relu;
    moved(set, pool, "add+relu", 3 * bytes, [&] { run_binary(set, add, a, b, c, pool); });
    moved(set, pool, "mul by channel", 2 * bytes, [&] { run_binary(set, broadcast(binary::mul, map, 4, channels, 3), a, b, c, pool); });
    const std::int64_t width_of = vector_width(set), blocks[] = {1, 64 / width_of, 56, 56, width_of}, gates[] = {1, 64 / width_of, 1, 1, width_of};
    moved(set, pool, "mul by channel, blocked", 2 * bytes, [&] { run_binary(set, broadcast(binary::mul, blocks, 5, gates, 5), a, b, c, pool); });
    moved(set, pool, "add bias rows 1029x192", 2 * 1029 * 192 * 4, [&] { run_binary(set, broadcast(binary::add, tokens, 2, width, 1), a, b, c, pool); });
    channel_problem affine;
    affine.n = 1, affine.c = 64, affine.area = 3136, affine.blocked = true, affine.ep.act = activation::relu;
    moved(set, pool, "channel scale+shift+relu blocked", 2 * bytes, [&] { run_channel(set, affine, a, row.data, row.data, c, pool); });
    moved(set, pool, "softmax 591x197", 2 * 591 * 197 * 4, [&] { run_softmax(set, a, b, 591, 197, 1, false, pool); });
    moved(set, pool, "softmax columns 64x3136", 2 * bytes, [&] { run_softmax(set, a, b, 1, 64, 3136, false, pool); });
    moved(set, pool, "layer norm 197x192", 2 * 197 * 192 * 4,
          [&] { run_layer_norm(set, a, b, 197, 192, row.data, row.data, 1e-6f, true, nullptr, nullptr, pool); });
    moved(set, pool, "layer norm 261x768", 2 * 261 * 768 * 4,
          [&] { run_layer_norm(set, a, b, 261, 768, row.data, row.data, 1e-6f, true, nullptr, nullptr, pool); });
    moved(set, pool, "instance norm 64x3136", 2 * bytes, [&] { run_group_norm(set, a, b, 1, 64, 3136, 64, row.data, row.data, 1e-5f, pool); });
    moved(set, pool, "mean rows 4096x49", bytes, [&] { run_reduce(set, reduce_kind::mean, a, b, 4096, 49, 1, pool); });
    moved(set, pool, "mean columns 3136x64", bytes, [&] { run_reduce(set, reduce_kind::mean, a, b, 1, 3136, 64, pool); });
    std::vector<std::int64_t> place(3136);
    moved(set, pool, "argmax 64x3136 columns", bytes, [&] { run_arg(set, false, false, a, place.data(), 1, 64, 3136, pool); });
    const int swap[] = {1, 0}, heads[] = {0, 2, 1, 3};
    const std::int64_t wide[] = {64, 3136}, tall[] = {3136, 64}, three[] = {3, 50176}, split[] = {1, 197, 3, 64};
    moved(set, pool, "transpose 64x3136 f32", 2 * bytes, [&] { run_transpose(set, 4, 2, wide, swap, a, b, pool); });
    moved(set, pool, "transpose 3136x64 f32", 2 * bytes, [&] { run_transpose(set, 4, 2, tall, swap, a, b, pool); });
    moved(set, pool, "transpose 3x50176 f32", 2 * 3 * 50176 * 4, [&] { run_transpose(set, 4, 2, three, swap, a, b, pool); });
    moved(set, pool, "transpose heads 197x3x64 f32", 2 * 197 * 192 * 4, [&] { run_transpose(set, 4, 4, split, heads, a, b, pool); });
    moved(set, pool, "transpose 64x3136 u8", 2 * n, [&] { run_transpose(set, 1, 2, wide, swap, a, b, pool); });
    auto* half = reinterpret_cast<std::uint16_t*>(b);
    moved(set, pool, "float32 to float16", 6 * n, [&] { run_to_float16(set, a, half, n, pool); });
    moved(set, pool, "float16 to float32", 6 * n, [&] { run_from_float16(set, half, c, n, pool); });
    moved(set, pool, "float32 to bfloat16", 6 * n, [&] { run_to_bfloat16(set, a, half, n, pool); });
    quantize_problem q;
    q.inner = n, q.is_signed = true;
    const float scale = 0.01f;
    moved(set, pool, "quantize int8", 5 * n, [&] { run_quantize(set, q, a, &scale, nullptr, b, pool); });
    moved(set, pool, "dequantize int8", 5 * n, [&] { run_dequantize(set, q, b, &scale, nullptr, c, pool); });
}

gemm_problem mnk(std::int64_t m, std::int64_t n, std::int64_t k) {
    gemm_problem p;
    p.m = m, p.n = n, p.k = k;
    return p;
}

}  // namespace

int main(int argc, char** argv) {
    pool_executor pool(argc > 1 ? std::atoi(argv[1]) : 1);
    if (argc > 3) part = argv[3];
#define GRAFT_X(id, width, here) isa::id,
    for (isa set : {GRAFT_ISA_LIST(GRAFT_X)}) {
#undef GRAFT_X
        if (!available(set) || (argc > 2 && std::strcmp(argv[2], "-") != 0 && std::strcmp(argv[2], name(set)) != 0)) continue;
        product(set, pool, "ViT-tiny qkv 197x576x192", mnk(197, 576, 192), true);
        product(set, pool, "ViT-tiny proj 197x192x192", mnk(197, 192, 192), true);
        product(set, pool, "ViT-tiny fc1 197x768x192", mnk(197, 768, 192), true);
        gemm_problem gelu = mnk(197, 768, 192);
        gelu.ep.act = activation::gelu;
        product(set, pool, "ViT-tiny fc1+gelu 197x768x192", gelu, true);
        product(set, pool, "ViT-tiny fc2 197x192x768", mnk(197, 192, 768), true);
        gemm_problem qk = mnk(197, 197, 64), av = mnk(197, 64, 197);
        qk.trans_b = true, qk.batch[1] = av.batch[1] = 3;
        product(set, pool, "ViT-tiny QK^T 3x 197x197x64", qk, false);
        product(set, pool, "ViT-tiny AV 3x 197x64x197", av, false);
        product(set, pool, "ConvNeXt 3136x384x96", mnk(3136, 384, 96), true);
        product(set, pool, "ConvNeXt 3136x96x384", mnk(3136, 96, 384), true);
        product(set, pool, "ConvNeXt 196x1536x384", mnk(196, 1536, 384), true);
        product(set, pool, "ConvNeXt 49x768x3072", mnk(49, 768, 3072), true);
        product(set, pool, "square 256", mnk(256, 256, 256), true);
        product(set, pool, "square 1024", mnk(1024, 1024, 1024), true);
        product(set, pool, "square 1024, B not packed", mnk(1024, 1024, 1024), false);
        gemm_problem grad = mnk(1024, 1024, 512);
        grad.trans_a = true;
        product(set, pool, "A^T B 1024x1024x512", grad, false);
        for (int m : {1, 8}) {
            char text[64];
            std::snprintf(text, sizeof text, "ResNet FC %dx1000x2048", m);
            product(set, pool, text, mnk(m, 1000, 2048), true);
            std::snprintf(text, sizeof text, "VGG FC %dx4096x25088", m);
            product(set, pool, text, mnk(m, 4096, 25088), true);
            std::snprintf(text, sizeof text, "VGG FC %dx4096x4096", m);
            product(set, pool, text, mnk(m, 4096, 4096), true);
        }
        others(set, pool);
    }
}
