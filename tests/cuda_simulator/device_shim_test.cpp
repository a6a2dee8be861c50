// What the shim offers to kernels: nothing that CUDA does not know, of CUDA's sizes, with CUDA's results at the edges.
#include "kernel_runner.hpp"
#include "simulated.hpp"
#include "../skipped.hpp"

namespace {

using namespace graft_simulator;
using graft::gpu::api::nvrtc_functions;

// Calls everything.
const char* const everything = R"cuda(
extern "C" __global__ void __launch_bounds__(128) entry(double* d, float* f, int* i, unsigned* u, long long* l, unsigned long long* ul, unsigned short* us) {
    __shared__ float s[128];
    const unsigned all = 0xffffffffu;
    int n = 0;
    auto D = [&](double v) { d[n++] = v; };
    const float a = f[0], b = f[1]; const double x = d[0], y = d[1];
#define ONE(g) D(g(x)); D(g(a)); D(g##f(a));
#define TWO(g) D(g(x, y)); D(g(a, b)); D(g##f(a, b));
    ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh) ONE(exp) ONE(expm1)
    ONE(log) ONE(log1p) ONE(sqrt) ONE(erf) ONE(erfc) ONE(ceil) ONE(floor) ONE(round) ONE(rint) ONE(nearbyint) ONE(fabs)
    ONE(rsqrt)
    TWO(pow) TWO(fmod) TWO(remainder) TWO(fmin) TWO(fmax) TWO(copysign)
    D(fmaf(a, b, a)); D(ldexp(x, 2)); D(ldexpf(a, 2));
    int e; D(frexp(x, &e)); D(frexpf(a, &e));
    D(abs(i[0])); D(abs(l[0])); D(abs(a)); D(abs(x));
    D(isnan(a)); D(isnan(x)); D(isinf(a)); D(isinf(x)); D(isfinite(a)); D(isfinite(x));
    D(min(i[0], 1)); D(max(u[0], 1u)); D(min(l[0], 1ll)); D(max(ul[0], 1ull)); D(min(a, b)); D(max(a, b)); D(min(x, y)); D(max(x, y)); D(min(a, x)); D(max(u[0], 1)); D(min(1, u[0]));
    D(__expf(a));
    D(atomicAdd(i, 1)); D(atomicAdd(u, 1u)); D(atomicAdd(ul, 1ull)); D(atomicAdd(f, 1.0f)); D(atomicAdd(d, 1.0)); D(atomicExch(i, 1)); D(atomicExch(f, 1.0f)); D(atomicMax(u, 1u)); D(atomicMax(l, 1ll)); D(atomicMax(ul, 1ull));
    D(atomicCAS(i, 1, 2)); D(atomicCAS(u, 1u, 2u)); D(atomicCAS(ul, 1ull, 2ull)); D(atomicCAS(us, (unsigned short)1, (unsigned short)2));
    s[threadIdx.x] = a; __syncthreads(); D(__syncthreads_count(1)); __syncwarp(); __syncwarp(all);
    D(__shfl_xor_sync(all, a, 1)); D(__shfl_down_sync(all, x, 1)); D(__shfl_sync(all, l[0], 0, 16));
    D(sizeof(float4) + alignof(float4) * 100 + blockIdx.x + blockDim.y + gridDim.z);
}
)cuda";

// NVIDIA's own compiler, where the toolkit is.
const nvrtc_functions* real_compiler() {
    simulated::cuda();  // which the real one must not take for the driver that it looks for
    simulated::rtc();
    static nvrtc_functions f;
    for (const char* path : {"/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.12"}) {
        void* from = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!from) continue;
        using simulated::bind;
        GRAFT_NVRTC_FUNCTIONS(GRAFT_SIMULATED_BIND)
        return &f;
    }
    return nullptr;
}

std::string log_of_real_compiler(const nvrtc_functions& rtc, const std::string& source) {
    void* program = nullptr;
    REQUIRE(rtc.nvrtcCreateProgram(&program, source.c_str(), "shim.cu", 0, nullptr, nullptr) == 0);
    const char* options[] = {"-arch=sm_90", "-default-device", "-w"};
    const int code = rtc.nvrtcCompileProgram(program, 3, options);
    std::size_t bytes = 0;
    CHECK(rtc.nvrtcGetProgramLogSize(program, &bytes) == 0);
    std::string log(bytes, 0);
    CHECK(rtc.nvrtcGetProgramLog(program, &log[0]) == 0);
    CHECK(rtc.nvrtcDestroyProgram(&program) == 0);
    return code ? log : "";
}

// Runs `statements` with `p`, an array of T, in one thread and gives it back.
template <class T>
std::vector<T> run(const char* type, const std::string& statements, std::vector<T> p, unsigned threads = 1) {
    const compiled made = compile("extern \"C\" __global__ void entry(" + std::string(type) + "* p) { " + statements + " }");
    REQUIRE_MESSAGE(made.ok, made.log);
    std::string why;
    const auto module = load(made.path, why);
    const bool loaded = module != nullptr;
    REQUIRE_MESSAGE(loaded, why);
    void* address = p.data();
    void* parameters[] = {&address};
    const unsigned grid[3] = {1, 1, 1}, block[3] = {threads, 1, 1};
    const outcome o = launch(find(module, "entry"), grid, block, 0, parameters);
    CHECK(o.message == "");
    return p;
}

}  // namespace

TEST_CASE("The shim has what CUDA has, and the same sizes and alignments of vectors") {
    const compiled here = compile(everything);
    CHECK_MESSAGE(here.ok, here.log);
    const std::vector<int> sizes = run("int", "p[0] = sizeof(float4); p[1] = alignof(float4);", std::vector<int>(2));
    CHECK(sizes == std::vector<int>{16, 16});
    const nvrtc_functions* rtc = real_compiler();
    if (!rtc) {
        say_skipped("the CUDA toolkit is not here to compare with");
        return;
    }
    CHECK(log_of_real_compiler(*rtc, everything) == "");
    CHECK(log_of_real_compiler(*rtc, "extern \"C\" __global__ void entry() { static_assert(sizeof(float4) == 16 && alignof(float4) == 16, \"\"); }") == "");
}

TEST_CASE("Shuffles move what a warp's lanes hold") {
    const std::vector<int> p = run("int",
                                   "const int t = threadIdx.x; int* q = p + 8 * t; q[0] = __shfl_xor_sync(~0u, t, 5); q[1] = __shfl_down_sync(~0u, t, 3); q[2] "
                                   "= __shfl_sync(~0u, t, 1, 4); "
                                   "q[3] = __shfl_sync(~0u, t, 9); q[4] = __shfl_down_sync(~0u, t, 3, 8); q[5] = __syncthreads_count(t < 40);",
                                   std::vector<int>(64 * 8), 64);
    for (int t = 0; t < 64; ++t) {
        const int *q = &p[static_cast<std::size_t>(8 * t)], lane = t % 32, warp = t - lane;
        CHECK(q[0] == (t ^ 5));
        CHECK(q[1] == (lane + 3 < 32 ? t + 3 : t));
        CHECK(q[2] == t / 4 * 4 + 1);
        CHECK(q[3] == warp + 9);
        CHECK(q[4] == (t % 8 + 3 < 8 ? t + 3 : t));
        CHECK(q[5] == 40);
    }
}

TEST_CASE("Threads are numbered as CUDA numbers them") {
    std::vector<int> p(2 * 3 * 4 + 1, -1);
    const compiled made = compile(R"(extern "C" __global__ void entry(int* p) {
        const int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        p[i] = 100 * threadIdx.x + 10 * threadIdx.y + threadIdx.z;
        if (i == 7) p[24] = threadIdx.x + 10 * threadIdx.y + 100 * gridDim.z;
    })");
    REQUIRE_MESSAGE(made.ok, made.log);
    std::string why;
    const function f = find(load(made.path, why), "entry");
    void* address = p.data();
    void* parameters[] = {&address};
    const unsigned grid[3] = {2, 1, 3}, block[3] = {2, 3, 4};
    CHECK(launch(f, grid, block, 0, parameters).message == "");
    for (int z = 0; z < 4; ++z) {
        for (int y = 0; y < 3; ++y) {
            for (int x = 0; x < 2; ++x) CHECK(p[static_cast<std::size_t>(x + 2 * (y + 3 * z))] == 100 * x + 10 * y + z);
        }
    }
    CHECK(p[24] == 301);  // 7 = 1 + 2 * (0 + 3 * 1)
}
