// The instruction sets that kernels are compiled for: one list, detection, and the override by the environment.
#pragma once

#include "../core/error.hpp"

#include <cstdint>
#include <string>

// Name, floats in a vector, whether this architecture can have it at all; from the slowest to the fastest.
#define GRAFT_ISA_LIST(X) \
    X(baseline, 4, 1) \
    X(neon, 4, GRAFT_ARCH_ARM64) \
    X(wasm, 4, GRAFT_ARCH_WASM) \
    X(avx2, 8, GRAFT_ARCH_X86_64) \
    X(avx512, 16, GRAFT_ARCH_X86_64)
// Code for the sets alone that this architecture can have.
#define GRAFT_ISA_HERE(here, code) GRAFT_ISA_HERE_##here(code)
#define GRAFT_ISA_HERE_0(code)
#define GRAFT_ISA_HERE_1(code) code

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// An instruction set. avx2 means AVX2 with FMA and F16C; avx512 adds F, BW, DQ and VL; baseline is what every machine has.
enum class isa {
#define GRAFT_X(id, width, here) id,
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
};

/// How a device of the CPU computes.
struct arithmetic {
    isa level = isa::baseline;
    bool bfloat16 = false;  ///< operands of convolutions and products are rounded to it where the kernels of bfloat16 take them
};

/// The name that GRAFT_ISA takes, such as "avx512". Static storage.
const char* name(isa set) noexcept;
/// How many floats one vector holds: also the channel block of the blocked layout.
int vector_width(isa set) noexcept;
/// Whether this machine (and its operating system, which must save the registers) can run the set. Thread-safe.
bool available(isa set) noexcept;
/// Whether this machine multiplies bytes four a lane of a set's vectors (avx512: AVX-512 VNNI, avx2: AVX-VNNI, neon: the dot product of Armv8.2), which its
/// kernels use then. Thread-safe.
bool has_byte_products(isa set) noexcept;
/// Whether this machine multiplies pairs of bfloat16 (AVX-512 BF16), which kernels of avx512 use when asked for the precision. Thread-safe.
bool has_bfloat16_pairs() noexcept;
/// Whether this machine looks 64 bytes up in a table of 256 at once (AVX-512 VBMI), for kernels of avx512. Thread-safe.
bool has_byte_permutes() noexcept;
/// Whether this machine multiplies tiles of bfloat16 and of bytes (AMX, with AVX-512 BF16), and its system lets this process: asking for that is the first
/// call's. Thread-safe.
bool has_tiles() noexcept;
/// The names of the available sets, separated by ", ", from the slowest to the fastest.
std::string available_isas();
/// The set to run: the one that the environment variable GRAFT_ISA names, else the fastest available.
/// `cpu.isa` where the name is unknown or the machine lacks the set. The environment is read at every call.
result<isa> active_isa();

}  // namespace cpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "target.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>

#if GRAFT_ARCH_X86_64 && !defined(_MSC_VER)
#include <cpuid.h>
#elif GRAFT_ARCH_X86_64
#include <intrin.h>
#elif GRAFT_ARCH_ARM64 && defined(__linux__)
#include <sys/auxv.h>
#endif

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// One bit for each set and for what only some machines of a set have, found once; 1u << 31 marks that it was.
constexpr std::uint32_t byte_products_bit = 1u << 30, tiles_bit = 1u << 29, bfloat16_pairs_bit = 1u << 28, avx2_byte_products_bit = 1u << 27,
                        byte_permutes_bit = 1u << 26, neon_byte_products_bit = 1u << 25;
inline std::uint32_t detect() noexcept {
    std::uint32_t found = 1u << static_cast<int>(isa::baseline);
    if (GRAFT_ARCH_ARM64) found |= 1u << static_cast<int>(isa::neon);
    if (GRAFT_ARCH_WASM) found |= 1u << static_cast<int>(isa::wasm);
#if GRAFT_ARCH_X86_64
    unsigned leaf1_c = 0, leaf7_b = 0, leaf7_c = 0, leaf7_d = 0, leaf7_1_a = 0, highest = 0;
    std::uint64_t saved = 0;
#if defined(_MSC_VER)
    int r[4];
    __cpuid(r, 0);
    highest = static_cast<unsigned>(r[0]);
    __cpuid(r, 1);
    leaf1_c = static_cast<unsigned>(r[2]);
    if (highest >= 7) {
        __cpuidex(r, 7, 0);
        leaf7_b = static_cast<unsigned>(r[1]);
        leaf7_c = static_cast<unsigned>(r[2]);
        leaf7_d = static_cast<unsigned>(r[3]);
        __cpuidex(r, 7, 1);
        leaf7_1_a = static_cast<unsigned>(r[0]);
    }
    if (leaf1_c >> 27 & 1) saved = _xgetbv(0);
#else
    unsigned a = 0, b = 0, c = 0, d = 0;
    highest = static_cast<unsigned>(__get_cpuid_max(0, nullptr));
    if (__get_cpuid(1, &a, &b, &c, &d)) leaf1_c = c;
    if (highest >= 7 && __get_cpuid_count(7, 0, &a, &b, &c, &d)) leaf7_b = b, leaf7_c = c, leaf7_d = d;
    if (highest >= 7 && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) leaf7_1_a = a;
    if (leaf1_c >> 27 & 1) {
        unsigned low = 0, high = 0;
        __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        saved = low | static_cast<std::uint64_t>(high) << 32;
    }
#endif
    const bool fma = leaf1_c >> 12 & 1, avx = leaf1_c >> 28 & 1, f16c = leaf1_c >> 29 & 1, avx2 = leaf7_b >> 5 & 1;
    const bool f = leaf7_b >> 16 & 1, dq = leaf7_b >> 17 & 1, bw = leaf7_b >> 30 & 1, vl = leaf7_b >> 31 & 1;
    if (avx && avx2 && fma && f16c && (saved & 0x6) == 0x6) {
        found |= 1u << static_cast<int>(isa::avx2);
        if (leaf7_1_a >> 4 & 1) found |= avx2_byte_products_bit;
        if (f && dq && bw && vl && (saved & 0xe6) == 0xe6) {
            found |= 1u << static_cast<int>(isa::avx512);
            const bool vnni = leaf7_c >> 11 & 1;
            if (vnni) found |= byte_products_bit;
            if (leaf7_c >> 1 & 1) found |= byte_permutes_bit;
            const bool bf16 = vnni && leaf7_1_a >> 5 & 1, tiles = leaf7_d >> 24 & 1, of_bf16 = leaf7_d >> 22 & 1, of_bytes = leaf7_d >> 25 & 1;
            if (bf16) found |= bfloat16_pairs_bit;
            if (bf16 && tiles && of_bf16 && of_bytes && (saved & 0x60000) == 0x60000) found |= tiles_bit;
        }
    }
#endif
#if GRAFT_ARCH_ARM64
#if defined(__ARM_FEATURE_DOTPROD)
    found |= neon_byte_products_bit;
#elif defined(__linux__)
    constexpr unsigned long dot_product = 1ul << 20;  // HWCAP_ASIMDDP
    if (getauxval(AT_HWCAP) & dot_product) found |= neon_byte_products_bit;
#endif
#endif
    return found | 1u << 31;
}

inline std::uint32_t detected() noexcept {
    static std::atomic<std::uint32_t> cache{0};
    std::uint32_t found = cache.load(std::memory_order_relaxed);
    if (!found) cache.store(found = detect(), std::memory_order_relaxed);
    return found;
}

// Linux saves tiles for processes that have asked alone (arch_prctl, ARCH_REQ_XCOMP_PERM of the state's component 18), since they need larger stacks for
// signals: a process whose are too small is refused. Permission holds for all threads, and is given again where it was given before.
inline bool may_use_tiles() noexcept {
#if GRAFT_HAS_AMX
    long answer = 158;
    __asm__ __volatile__("syscall" : "+a"(answer) : "D"(0x1023l), "S"(18l) : "rcx", "r11", "memory");
    return answer == 0;
#else
    return false;
#endif
}

}  // namespace detail

GRAFT_INLINE const char* name(isa set) noexcept {
    switch (set) {
#define GRAFT_X(id, width, here) \
    case isa::id: return #id;
        GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    }
    return "unknown";
}

GRAFT_INLINE int vector_width(isa set) noexcept {
    static constexpr int widths[] = {
#define GRAFT_X(id, width, here) width,
        GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    };
    return widths[static_cast<int>(set)];
}

GRAFT_INLINE bool available(isa set) noexcept { return detail::detected() >> static_cast<int>(set) & 1; }

GRAFT_INLINE bool has_byte_products(isa set) noexcept {
    const std::uint32_t bit = set == isa::avx512 ? detail::byte_products_bit
                              : set == isa::avx2 ? detail::avx2_byte_products_bit
                              : set == isa::neon ? detail::neon_byte_products_bit
                                                 : 0;
    return (detail::detected() & bit) != 0;
}

GRAFT_INLINE bool has_byte_permutes() noexcept { return (detail::detected() & detail::byte_permutes_bit) != 0; }

GRAFT_INLINE bool has_bfloat16_pairs() noexcept { return (detail::detected() & detail::bfloat16_pairs_bit) != 0; }

GRAFT_INLINE bool has_tiles() noexcept {
    if (!(detail::detected() & detail::tiles_bit)) return false;
    static std::atomic<int> allowed{0};  // 1: no, 2: yes
    int known = allowed.load(std::memory_order_relaxed);
    if (!known) allowed.store(known = 1 + detail::may_use_tiles(), std::memory_order_relaxed);
    return known == 2;
}

GRAFT_INLINE std::string available_isas() {
    std::string out;
#define GRAFT_X(id, width, here) \
    if (available(isa::id)) out += out.empty() ? #id : ", " #id;
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    return out;
}

GRAFT_INLINE GRAFT_COLD result<isa> active_isa() {
    const char* wish = std::getenv("GRAFT_ISA");
    isa best = isa::baseline;
#define GRAFT_X(id, width, here) \
    if (wish && *wish && std::strcmp(wish, #id) == 0) { \
        if (available(isa::id)) return isa::id; \
        return fail(errc::cpu_isa, "GRAFT_ISA", "this machine has no " #id ", only " + available_isas()); \
    } \
    if (available(isa::id)) best = isa::id;
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    if (wish && *wish) return fail(errc::cpu_isa, "GRAFT_ISA", "\"" + escape(wish) + "\" is no instruction set; this machine has " + available_isas());
    return best;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
#endif
