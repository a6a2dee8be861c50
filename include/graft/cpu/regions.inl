// Kernels compiled for every instruction set: each gets a region of its own, with its vector wrapper and, in its namespace, the texts that the
// macro GRAFT_KERNEL_TEXTS names. Text, included once by each dispatch.hpp: what infers and what trains have different texts.

GRAFT_BEGIN_BASELINE
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace baseline {
#include "simd/baseline.hpp"
#include GRAFT_KERNEL_TEXTS
}  // namespace baseline
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_BASELINE

#if GRAFT_ARCH_ARM64
GRAFT_BEGIN_BASELINE
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace neon {
#include "simd/neon.hpp"
#include GRAFT_KERNEL_TEXTS
}  // namespace neon
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_BASELINE
#endif

#if GRAFT_ARCH_WASM
GRAFT_BEGIN_BASELINE
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace wasm {
#include "simd/wasm.hpp"
#include GRAFT_KERNEL_TEXTS
}  // namespace wasm
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_BASELINE
#endif

#if GRAFT_ARCH_X86_64
GRAFT_BEGIN_TARGET("avx2,fma,f16c")  // machines with AVX2 all have FMA and half-float conversion as well
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace avx2 {
#include "simd/avx2.hpp"
#include GRAFT_KERNEL_TEXTS
}  // namespace avx2
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_TARGET

GRAFT_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
GRAFT_BEGIN_KERNEL_NAMESPACE
namespace cpu {
namespace avx512 {
#include "simd/avx512.hpp"
#include GRAFT_KERNEL_TEXTS
}  // namespace avx512
}  // namespace cpu
GRAFT_END_KERNEL_NAMESPACE
GRAFT_END_TARGET
#endif
