// The simulator's own compiler and runner: what they compute, and what they find in wrong kernels.
#include "kernel_runner.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using namespace graft_simulator;

struct launch_of {
    unsigned grid = 1, block = 32, shared_bytes = 0;
};

outcome run(const std::string& source, launch_of how, std::vector<void*> pointers) {
    const compiled made = compile(source);
    if (!made.ok) return {outcome::invalid, made.log};
    std::string why;
    const auto module = load(made.path, why);
    if (!module) return {outcome::invalid, why};
    std::vector<void*> parameters;
    for (void*& pointer : pointers) parameters.push_back(&pointer);
    const unsigned grid[3] = {how.grid, 1, 1}, block[3] = {how.block, 1, 1};
    return launch(find(module, "entry"), grid, block, how.shared_bytes, parameters.data());
}

bool has(const outcome& o, const char* text) { return o.message.find(text) != std::string::npos; }

}  // namespace

TEST_CASE("A kernel on the host computes each thread's element") {
    std::vector<float> a(1000), b(1000, -1);
    for (int i = 0; i < 1000; ++i) a[static_cast<std::size_t>(i)] = static_cast<float>(i) / 100;
    const outcome o = run(R"(extern "C" __global__ void __launch_bounds__(256) entry(const float* __restrict__ a, float* __restrict__ b) {
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < 1000) b[i] = __expf(a[i]) + fmaf(a[i], 2.0f, 1.0f);
    })",
                          {4, 256, 0}, {a.data(), b.data()});
    CHECK(o.message == "");
    for (std::size_t i = 0; i < 1000; ++i) CHECK(b[i] == doctest::Approx(std::exp(a[i]) + a[i] * 2 + 1));
}

TEST_CASE("Threads of a block meet at barriers, in shuffles and in shared memory") {
    std::vector<float> a(512), sums(2, -1);
    for (std::size_t i = 0; i < 512; ++i) a[i] = static_cast<float>(i);
    const outcome o = run(R"(
        template <class T> __device__ __forceinline__ T warp_sum(T v) {
            for (int m = 16; m; m >>= 1) v += __shfl_xor_sync(0xffffffffu, v, m);
            return v;
        }
        extern "C" __global__ void __launch_bounds__(256) entry(const float* a, float* sums) {
            __shared__ float part[8];
            extern __shared__ __align__(16) float all[];
            all[threadIdx.x] = a[blockIdx.x * 256 + threadIdx.x];
            __syncthreads();
            float v = warp_sum(all[255 - threadIdx.x]);
            if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
            __syncthreads();
            if (threadIdx.x < 8) {
                v = part[threadIdx.x];
                for (int d = 4; d; d >>= 1) v += __shfl_down_sync(0xffu, v, d, 8);
                if (threadIdx.x == 0) sums[blockIdx.x] = v;
            }
        })",
                          {2, 256, 1024}, {a.data(), sums.data()});
    CHECK(o.message == "");
    CHECK(sums[0] == 255 * 256 / 2);
    CHECK(sums[1] == 255 * 256 / 2 + 256 * 256);
}

TEST_CASE("A missing barrier shows") {
    // Each thread reads what the next one wrote; in one of two neighbouring blocks that has not happened yet.
    std::vector<float> out(128);
    const outcome o = run(R"(extern "C" __global__ void entry(float* out) {
        __shared__ float x[64];
        x[threadIdx.x] = 1;
        out[blockIdx.x * 64 + threadIdx.x] = x[(threadIdx.x + 1) % 64];
    })",
                          {2, 64, 0}, {out.data()});
    CHECK(o.message == "");
    bool wrong = false;
    for (const float v : out) wrong = wrong || v != 1;
    CHECK(wrong);
}

TEST_CASE("What an earlier block left in shared memory is spoilt") {
    float out[2] = {0, 0};
    const outcome o = run(R"(extern "C" __global__ void entry(float* out) {
        __shared__ float x;
        if (blockIdx.x == 0) x = 1;
        out[blockIdx.x] = x;
    })",
                          {2, 1, 0}, {out});
    CHECK(o.message == "");
    CHECK(out[0] == 1);
    CHECK(std::isnan(out[1]));
}

TEST_CASE("Threads that returned are not waited for at a barrier") {
    float out[64] = {};
    const outcome o = run(R"(extern "C" __global__ void entry(float* out) {
        if (threadIdx.x < 3) return;
        __syncthreads();
        out[threadIdx.x] = 1;
    })",
                          {1, 64, 0}, {out});
    CHECK(o.message == "");
    CHECK(out[2] == 0);
    CHECK(out[3] == 1);
}

TEST_CASE("Threads that can never go on are reported") {
    const outcome deadlock = run(R"(extern "C" __global__ void entry() {
        if (threadIdx.x < 3) __syncthreads(); else __syncwarp();
    })",
                                 {1, 64, 0}, {});
    CHECK(deadlock.kind == outcome::failed);
    CHECK(has(deadlock, "deadlock"));
    const outcome divergent = run("extern \"C\" __global__ void entry() {\n if (threadIdx.x < 3) __syncthreads();\n else __syncthreads();\n }", {1, 64, 0}, {});
    CHECK(has(divergent, "two barriers, at lines"));
    const outcome mask = run("extern \"C\" __global__ void entry(int* p) { p[0] = __shfl_sync(1u, 5, 0); }", {1, 32, 0}, {nullptr});
    CHECK(mask.kind != outcome::done);
}

TEST_CASE("Wrong addresses end the launch, not the process") {
    alignas(16) float out[64] = {};
    const outcome null = run("extern \"C\" __global__ void entry(float* p) { p[threadIdx.x] = 1; }", {1, 32, 0}, {nullptr});
    CHECK(null.kind == outcome::illegal_address);
    CHECK(has(null, "in entry, block (0, 0, 0), thread (0, 0, 0)"));
    const outcome misaligned = run("extern \"C\" __global__ void entry(float* p) { reinterpret_cast<float4*>(p + 1)->x = 1; }", {1, 1, 0}, {out});
    CHECK(misaligned.kind == outcome::misaligned_address);
    const outcome bounds =
        run("extern \"C\" __global__ void entry(float* p) { __shared__ float x[4]; const int i = threadIdx.x; x[i] = 1; p[0] = x[0]; }", {1, 5, 0}, {out});
    CHECK(bounds.kind == outcome::misaligned_address);
    const outcome behind = run("extern \"C\" __global__ void entry() { extern __shared__ float x[]; x[threadIdx.x] = 1; }", {1, 32, 64}, {});
    CHECK(has(behind, "behind the shared memory"));
    const outcome zero = run("extern \"C\" __global__ void entry(int* p) { p[0] = 5 / static_cast<int>(threadIdx.x); }", {1, 1, 0}, {out});
    CHECK(has(zero, "divided by zero"));
    const outcome deep = run(R"(
        __device__ int sum(int n, int* p) { volatile char b[1000]; b[0] = 1; return n ? sum(n - 1, p) + b[0] : *p; }
        extern "C" __global__ void entry(int* p) { p[1] = sum(100000, p); })",
                             {1, 1, 0}, {out});
    CHECK(deep.kind == outcome::illegal_address);
    CHECK(run("extern \"C\" __global__ void entry(float* p) { p[0] = 3; }", {1, 1, 0}, {out}).message == "");
    CHECK(out[0] == 3);
}

TEST_CASE("Launches that a GPU refuses are refused") {
    const char* source = "extern \"C\" __global__ void __launch_bounds__(128) entry() {}";
    CHECK(run(source, {1, 128, 0}, {}).message == "");
    CHECK(has(run(source, {1, 256, 0}, {}), "__launch_bounds__"));
    CHECK(has(run(source, {0, 128, 0}, {}), "empty"));
    CHECK(has(run(source, {1, 2048, 0}, {}), "too large"));
    CHECK(has(run(source, {1, 32, 60000}, {}), "without opting in"));
}

TEST_CASE("Errors of a text are shown with its lines, and what only a GPU can do says so") {
    const compiled unknown = compile("extern \"C\" __global__ void entry(float* p) {\n    p[0] = missing;\n}\n");
    CHECK_FALSE(unknown.ok);
    CHECK(unknown.log.find("kernel.cu:2:") != std::string::npos);
    CHECK(unknown.log.find("missing") != std::string::npos);
    const compiled ptx = compile("extern \"C\" __global__ void entry(unsigned* p) { asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(p[0])); }");
    CHECK_FALSE(ptx.ok);
    CHECK(ptx.log.find("GPU only") != std::string::npos);
    const compiled mma = compile("using namespace nvcuda;\nextern \"C\" __global__ void entry() {}");
    CHECK_FALSE(mma.ok);
    CHECK(mma.log.find("GPU only") != std::string::npos);
}

TEST_CASE("The same text is compiled once") {
    const std::string source = "extern \"C\" __global__ void entry(float* p) { p[0] = 1; }";
    const compiled first = compile(source), again = compile(source), other = compile(source, {"-DX=1"});
    CHECK(first.path == again.path);
    CHECK(first.path != other.path);
}

TEST_CASE("Races of threads are found, whatever the order they run in, and what barriers and atomics order is none") {
    setenv("GRAFT_SIMULATOR_RACES", "1", 1);
    std::vector<float> a(128, 1), b(128);
    const auto race_in = [&](const char* body) {
        const outcome o =
            run(std::string("extern \"C\" __global__ void entry(float* a, float* b) {\n    const int i = blockIdx.x * 64 + threadIdx.x;\n    ") + body + "\n}",
                {2, 64, 256}, {a.data(), b.data()});
        CHECK(o.message == "");
        return o.race;
    };
    CHECK(race_in("b[i] = a[127 - i];") == "");
    CHECK(race_in("a[i] = 2 * a[i];") == "");
    CHECK(race_in("struct two { float x, y; }; if (i < 64) ((two*)b)[i] = ((const two*)a)[i];") == "");
    CHECK(race_in("atomicAdd(b, a[i]);") == "");
    CHECK(race_in("extern __shared__ float x[]; x[threadIdx.x] = a[i]; __syncthreads(); b[i] = x[63 - threadIdx.x];") == "");
    CHECK(race_in("__shared__ float x[64]; x[threadIdx.x] = a[i]; __syncwarp(); b[i] = x[threadIdx.x ^ 31];") == "");
    for (const char* wrong : {"a[i] = a[127 - i];", "a[i] = i ? a[i - 1] : 0;", "a[i] = i < 127 ? a[i + 1] : 0;", "b[i / 2] = 1;",
                              "__shared__ float x[64]; x[threadIdx.x] = a[i]; b[i] = x[threadIdx.x ^ 31];",
                              "__shared__ float x[64]; x[threadIdx.x] = a[i]; __syncwarp(); b[i] = x[63 - threadIdx.x];",
                              "struct two { float x, y; }; two t = ((const two*)a)[i % 64]; a[i] = t.y;"}) {
        CAPTURE(wrong);
        CHECK(race_in(wrong).find(" races with thread ") != std::string::npos);
    }
    unsetenv("GRAFT_SIMULATOR_RACES");
}
