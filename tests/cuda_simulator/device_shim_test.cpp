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
    ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh) ONE(exp) ONE(exp2) ONE(expm1)
    ONE(log) ONE(log2) ONE(log10) ONE(log1p) ONE(sqrt) ONE(cbrt) ONE(erf) ONE(erfc) ONE(ceil) ONE(floor) ONE(trunc) ONE(round) ONE(rint) ONE(nearbyint) ONE(fabs)
    ONE(tgamma) ONE(lgamma) ONE(logb) ONE(exp10) ONE(j0) ONE(j1) ONE(y0) ONE(y1) ONE(rsqrt) ONE(normcdf)
    TWO(pow) TWO(fmod) TWO(remainder) TWO(atan2) TWO(hypot) TWO(fmin) TWO(fmax) TWO(fdim) TWO(copysign) TWO(nextafter)
    D(fma(x, y, x)); D(fma(a, b, a)); D(fmaf(a, b, a)); D(ldexp(x, 2)); D(ldexpf(a, 2)); D(scalbnf(a, 2));
    int e; double dd; float ff; D(frexp(x, &e)); D(frexpf(a, &e)); D(modf(x, &dd)); D(modff(a, &ff));
    D(lrint(x)); D(lrintf(a)); D(llrint(x)); D(llrintf(a)); D(lround(x)); D(lroundf(a)); D(llround(x)); D(llroundf(a));
    double p, q; sincos(x, &p, &q); float pf, qf; sincosf(a, &pf, &qf); D(p + q + pf + qf);
    D(sinpif(a)); D(cospif(a)); D(abs(i[0])); D(abs(l[0])); D(abs(a)); D(abs(x)); D(llabs(l[0]));
    D(isnan(a)); D(isnan(x)); D(isinf(a)); D(isinf(x)); D(isfinite(a)); D(isfinite(x)); D(signbit(a)); D(signbit(x));
    D(min(i[0], 1)); D(max(u[0], 1u)); D(min(l[0], 1ll)); D(max(ul[0], 1ull)); D(min(a, b)); D(max(a, b)); D(min(x, y)); D(max(x, y)); D(min(a, x)); D(max(u[0], 1)); D(min(1, u[0]));
    D(umin(u[0], 1u)); D(umax(u[0], 2u)); D(llmin(l[0], 1ll)); D(llmax(l[0], 1ll));
    D(__expf(a)); D(__exp10f(a)); D(__logf(a)); D(__log2f(a)); D(__log10f(a)); D(__sinf(a)); D(__cosf(a)); D(__tanf(a)); D(__powf(a, b)); __sincosf(a, &pf, &qf);
    D(__fdividef(a, b)); D(fdividef(a, b)); D(__saturatef(a)); D(__frsqrt_rn(a)); D(__frcp_rn(a)); D(__drcp_rn(x)); D(__fsqrt_rn(a)); D(__dsqrt_rn(x));
    D(__fadd_rn(a, b)); D(__fsub_rn(a, b)); D(__fmul_rn(a, b)); D(__fdiv_rn(a, b)); D(__fmaf_rn(a, b, a)); D(__dadd_rn(x, y)); D(__dsub_rn(x, y)); D(__dmul_rn(x, y)); D(__ddiv_rn(x, y)); D(__fma_rn(x, y, x));
#define ROUND(g, v) D(g##_rn(v)); D(g##_rz(v)); D(g##_rd(v)); D(g##_ru(v));
    ROUND(__float2int, a) ROUND(__float2uint, a) ROUND(__float2ll, a) ROUND(__float2ull, a) ROUND(__double2int, x) ROUND(__double2uint, x) ROUND(__double2ll, x) ROUND(__double2ull, x)
    D(__double2float_rn(x)); D(__int2float_rn(i[0])); D(__uint2float_rn(u[0])); D(__ll2float_rn(l[0])); D(__ull2float_rn(ul[0])); D(__int2double_rn(i[0])); D(__uint2double_rn(u[0])); D(__ll2double_rn(l[0])); D(__ull2double_rn(ul[0]));
    D(__float_as_uint(a)); D(__float_as_int(a)); D(__uint_as_float(u[0])); D(__int_as_float(i[0])); D(__double_as_longlong(x)); D(__longlong_as_double(l[0])); D(__hiloint2double(1, 2)); D(__double2hiint(x)); D(__double2loint(x));
    D(__popc(u[0])); D(__popcll(ul[0])); D(__clz(i[0])); D(__clzll(l[0])); D(__ffs(i[0])); D(__ffsll(l[0])); D(__brev(u[0])); D(__byte_perm(u[0], u[1], 0x5140)); D(__funnelshift_l(u[0], u[1], 3)); D(__funnelshift_r(u[0], u[1], 3));
    D(__umulhi(u[0], u[1])); D(__mulhi(i[0], i[1])); D(__umul64hi(ul[0], ul[1])); D(__mul64hi(l[0], l[1])); D(__mul24(i[0], i[1])); D(__umul24(u[0], u[1])); D(__dp4a(i[0], i[1], i[2]));
    D(__ldg(f)); D(__ldg(reinterpret_cast<const float4*>(f)).x); D(__ldcg(f)); D(__ldca(f)); D(__ldcs(f)); D(__ldlu(f)); D(__ldcv(f)); __stwb(f, 1.0f); __stcg(f, 1.0f); __stcs(f, 1.0f); __stwt(f, 1.0f);
    D(atomicAdd(i, 1)); D(atomicAdd(u, 1u)); D(atomicAdd(ul, 1ull)); D(atomicAdd(f, 1.0f)); D(atomicAdd(d, 1.0)); D(atomicExch(i, 1)); D(atomicExch(f, 1.0f)); D(atomicMin(i, 1)); D(atomicMax(u, 1u)); D(atomicMin(l, 1ll)); D(atomicMax(l, 1ll)); D(atomicMax(ul, 1ull));
    D(atomicAnd(u, 1u)); D(atomicOr(u, 1u)); D(atomicXor(i, 1)); D(atomicCAS(i, 1, 2)); D(atomicCAS(u, 1u, 2u)); D(atomicCAS(ul, 1ull, 2ull)); D(atomicSub(i, 1)); D(atomicSub(u, 1u)); D(atomicInc(u, 1u)); D(atomicDec(u, 1u)); D(atomicCAS(us, (unsigned short)1, (unsigned short)2));
    s[threadIdx.x] = a; __syncthreads(); D(__syncthreads_count(1)); D(__syncthreads_or(0)); D(__syncthreads_and(1)); __syncwarp(); __syncwarp(all);
    D(__shfl_xor_sync(all, a, 1)); D(__shfl_down_sync(all, x, 1)); D(__shfl_up_sync(all, i[0], 1)); D(__shfl_sync(all, l[0], 0, 16)); D(__ballot_sync(all, 1)); D(__any_sync(all, 1)); D(__all_sync(all, 1));
    __threadfence(); __threadfence_block(); __threadfence_system();
    char2 c2 = make_char2(1, 2); uchar4 c4 = make_uchar4(1, 2, 3, 4); short2 s2 = make_short2(1, 2); ushort4 s4 = make_ushort4(1, 2, 3, 4); int3 i3 = make_int3(1, 2, 3); uint2 u2 = make_uint2(1, 2);
    longlong2 l2 = make_longlong2(1, 2); ulonglong2 ul2 = make_ulonglong2(1, 2); float4 f4 = make_float4(1, 2, 3, 4); double2 d2 = make_double2(1, 2); dim3 g(1, 2);
    D(c2.x + c4.w + s2.y + s4.z + i3.z + u2.x + l2.y + ul2.x + f4.w + d2.y + g.y + blockIdx.x + blockDim.y + gridDim.z + warpSize);
    D(sizeof(float3) + sizeof(double2) * 10 + alignof(float4) * 100 + alignof(uchar4) * 1000 + alignof(short2) * 10000 + alignof(float2) * 100000 + alignof(uint3) * 1000000);
    if (n > 100000) __trap();
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
    std::string list = "int n = 0; ";
    std::vector<std::string> types;
    for (const char* base : {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong", "float", "double"}) {
        for (const char* n : {"1", "2", "3", "4"}) types.push_back(std::string(base) + n);
    }
    for (const std::string& t : types) list += "p[n++] = sizeof(" + t + "); p[n++] = alignof(" + t + "); ";
    const std::vector<int> sizes = run("int", list, std::vector<int>(2 * types.size()));
    CHECK(sizes[2 * 43] == 16);  // float4
    const nvrtc_functions* rtc = real_compiler();
    if (!rtc) {
        say_skipped("the CUDA toolkit is not here to compare with");
        return;
    }
    CHECK(log_of_real_compiler(*rtc, everything) == "");
    std::string checks = "extern \"C\" __global__ void entry() {\n";
    for (std::size_t i = 0; i < types.size(); ++i) {
        checks += "static_assert(sizeof(" + types[i] + ") == " + std::to_string(sizes[2 * i]) + " && alignof(" + types[i] + ") == " + std::to_string(sizes[2 * i + 1]) + ", \"" + types[i] + "\");\n";
    }
    CHECK(log_of_real_compiler(*rtc, checks + "}") == "");
}

TEST_CASE("Conversions stop at the ends of the type, and NaN becomes 0") {
    std::vector<long long> p(32);
    std::string text = "const float v[] = {2.5f, -2.5f, 3e9f, -3e9f, __int_as_float(0x7f800000), __int_as_float(0x7fc00000), -1}; "
                       "for (int i = 0; i < 7; ++i) { p[4 * i] = __float2int_rn(v[i]); p[4 * i + 1] = __float2uint_rz(v[i]); p[4 * i + 2] = __float2int_rd(v[i]); p[4 * i + 3] = __float2int_ru(v[i]); }";
    p = run("long long", text, p);
    const long long low = -2147483648ll, high = 2147483647, all = 4294967295ll;
    const long long expected[] = {2, 2, 2, 3, -2, 0, -3, -2, high, 3000000000ll, high, high, low, 0, low, low, high, all, high, high, 0, 0, 0, 0, -1, 0, -1, -1};
    for (std::size_t i = 0; i < 28; ++i) CHECK_MESSAGE(p[i] == expected[i], i);
}

TEST_CASE("Functions on bits give what CUDA's manual says") {
    const std::vector<unsigned> p = run("unsigned", "p[0] = __brev(1u); p[1] = __clz(0); p[2] = __clz(1); p[3] = __popc(255u); p[4] = __ffs(8); p[5] = __byte_perm(0x33221100u, 0x77665544u, 0x7531u); "
                                                    "p[6] = __umulhi(0x80000000u, 6u); p[7] = __funnelshift_l(0x80000000u, 1u, 1); p[8] = __funnelshift_r(2u, 1u, 1); p[9] = __mulhi(-1, 5); p[10] = __dp4a(0x01020304, 0x01010101, 5); "
                                                    "p[11] = __ffs(0); p[12] = __clzll(1);", std::vector<unsigned>(13));
    const unsigned expected[] = {0x80000000u, 32, 31, 8, 4, 0x77553311u, 3, 3, 0x80000001u, 0xffffffffu, 15, 0, 63};
    for (std::size_t i = 0; i < 13; ++i) CHECK_MESSAGE(p[i] == expected[i], i);
}

TEST_CASE("Shuffles and votes move what a warp's lanes hold") {
    const std::vector<int> p = run("int", "const int t = threadIdx.x; int* q = p + 8 * t; q[0] = __shfl_xor_sync(~0u, t, 5); q[1] = __shfl_down_sync(~0u, t, 3); q[2] = __shfl_up_sync(~0u, t, 3); "
                                          "q[3] = __shfl_sync(~0u, t, 9); q[4] = __shfl_down_sync(~0u, t, 3, 8); q[5] = __ballot_sync(~0u, t % 2); q[6] = __shfl_sync(~0u, t, 1, 4); q[7] = __syncthreads_count(t < 40);",
                                   std::vector<int>(64 * 8), 64);
    for (int t = 0; t < 64; ++t) {
        const int *q = &p[static_cast<std::size_t>(8 * t)], lane = t % 32, warp = t - lane;
        CHECK(q[0] == (t ^ 5));
        CHECK(q[1] == (lane + 3 < 32 ? t + 3 : t));
        CHECK(q[2] == (lane >= 3 ? t - 3 : t));
        CHECK(q[3] == warp + 9);
        CHECK(q[4] == (t % 8 + 3 < 8 ? t + 3 : t));
        CHECK(q[5] == static_cast<int>(0xaaaaaaaau));
        CHECK(q[6] == t / 4 * 4 + 1);
        CHECK(q[7] == 40);
    }
}

TEST_CASE("Threads are numbered as CUDA numbers them") {
    std::vector<int> p(2 * 3 * 4 + 1, -1);
    const compiled made = compile(R"(extern "C" __global__ void entry(int* p) {
        const int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        p[i] = 100 * threadIdx.x + 10 * threadIdx.y + threadIdx.z;
        const int lane = __ffs(__ballot_sync(0xffffffu, i == 7)) - 1;
        p[24] = lane + 100 * gridDim.z;
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
    CHECK(p[24] == 307);
}
