// Speed of the matrix product, the elementwise, row and moving kernels: GFLOP/s and GB/s, best of several runs.
//   g++ -std=c++17 -O2 -Iinclude bench/kernels_gemm.cpp -o /tmp/kernels_gemm -lpthread && /tmp/kernels_gemm [threads] [isa]
#include <graft/cpu/gemm.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace graft;
using namespace graft::cpu;

namespace {

struct floats {
    explicit floats(std::int64_t n) : memory(static_cast<std::size_t>(n) + 16) {
        std::uint32_t seed = 1;
        for (float& x : memory) seed = seed * 1664525u + 1013904223u, x = static_cast<float>(seed >> 8) / 16777216.0f - 0.5f;
        data = memory.data();
        while (reinterpret_cast<std::uintptr_t>(data) % 64) ++data;
    }
    std::vector<float> memory;
    float* data;
};

template <class F>
double best_seconds(const F& f) {
    double best = 1e9, total = 0;
    for (int round = 0; round < 2000 && (total < 0.25 || round < 3); ++round) {
        const auto start = std::chrono::steady_clock::now();
        f();
        const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        best = s < best ? s : best, total += s;
    }
    return best;
}

void product(isa set, executor& pool, const char* what, gemm_problem p, bool constant_b) {
    const std::int64_t batches = p.batch[0] * p.batch[1];
    floats a(p.m * p.k * batches), b(p.n * p.k * (constant_b ? 1 : batches)), c(p.m * p.n * batches), bias(p.n);
    if (!constant_b) p.b_strides[1] = p.n * p.k;
    p.a_strides[1] = p.m * p.k, p.c_strides[1] = p.m * p.n;
    p.bias = constant_b ? bias_kind::column : bias_kind::none;
    std::unique_ptr<floats> packed;
    if (constant_b) {
        packed.reset(new floats(packed_b_bytes(set, p.n, p.k) / 4));
        pack_b(set, p, b.data, packed->data, pool);
        p.packed_b = true;
    }
    floats workspace(gemm_workspace_bytes(set, p) / 4);
    const double s = best_seconds([&] { run_gemm(set, p, a.data, constant_b ? packed->data : b.data, bias.data, nullptr, c.data, workspace.data, pool); });
    const double flop = 2.0 * double(p.m) * double(p.n) * double(p.k) * double(batches);
    std::printf("%-8s %d thr  %-34s %9.1f us %7.1f GFLOP/s %6.1f GB/s of B\n", name(set), pool.threads(), what, s * 1e6, flop / s * 1e-9,
                double(p.n) * double(p.k) * 4 / s * 1e-9);
    std::fflush(stdout);
}

gemm_problem mnk(std::int64_t m, std::int64_t n, std::int64_t k) {
    gemm_problem p;
    p.m = m, p.n = n, p.k = k;
    return p;
}

}  // namespace

int main(int argc, char** argv) {
    pool_executor pool(argc > 1 ? std::atoi(argv[1]) : 1);
    for (isa set : {isa::avx512, isa::avx2, isa::baseline, isa::neon, isa::wasm}) {
        if (!available(set) || (argc > 2 && std::strcmp(argv[2], name(set)) != 0)) continue;
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
    }
}
