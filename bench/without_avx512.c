// A processor without AVX-512 and AMX, for programs that have no switch for that: while it is preloaded, CPUID tells of neither.
//
//   gcc -O2 -shared -fPIC bench/without_avx512.c -o build/without_avx512.so
//   LD_PRELOAD=$PWD/build/without_avx512.so build/release/graft doctor
//
// ONNX Runtime, and OpenVINO's matrix products, ask CPUID and nothing else which vectors they may use. Linux faults on that instruction where it is
// asked to (arch_prctl(2), ARCH_SET_CPUID; `cpuid_fault` in /proc/cpuinfo), in the thread that asks and in all that it starts; here the fault is
// answered with what the processor says, less its AVX-512, AMX and AVX-VNNI: the vectors of a desktop between 2013 and now. Where the kernel
// cannot, the program ends with a message, as its timings would be of other vectors than they say.
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012

static struct sigaction others;  // whoever had the signal before

static void forget(unsigned* bits, unsigned forgotten) { *bits &= ~forgotten; }

static void answer(unsigned leaf, unsigned subleaf, unsigned said[4]) {
    __cpuid_count(leaf, subleaf, said[0], said[1], said[2], said[3]);
    if (leaf == 7 && subleaf == 0) {
        forget(&said[1], 1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);  // AVX512F, DQ, IFMA, PF, ER, CD, BW, VL
        forget(&said[2], 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);                                     // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
        forget(&said[3],
               1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);  // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8
    } else if (leaf == 7 && subleaf == 1) {
        forget(&said[0], 1u << 4 | 1u << 5 | 1u << 21 | 1u << 23);            // AVX-VNNI, AVX512_BF16, AMX-FP16, AVX-IFMA
        forget(&said[3], 1u << 4 | 1u << 5 | 1u << 8 | 1u << 10 | 1u << 19);  // AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10
    } else if (leaf == 13 && subleaf == 0) {
        forget(&said[0], 0xe0u | 3u << 17);  // registers of AVX-512 and AMX that the system would keep
    } else if (leaf == 0x1d || leaf == 0x1e || leaf == 0x24) {
        said[0] = said[1] = said[2] = said[3] = 0;  // sizes of tiles, AVX10
    }
}

static void on_fault(int signal, siginfo_t* info, void* given) {
    greg_t* registers = ((ucontext_t*)given)->uc_mcontext.gregs;
    const unsigned char* at = (const unsigned char*)registers[REG_RIP];
    if (info->si_code != SI_KERNEL || at[0] != 0x0f || at[1] != 0xa2) {
        if (others.sa_flags & SA_SIGINFO && others.sa_sigaction) {
            others.sa_sigaction(signal, info, given);
        } else {
            sigaction(signal, &others, NULL);  // and the instruction faults again
        }
        return;
    }
    unsigned said[4];
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    answer((unsigned)registers[REG_RAX], (unsigned)registers[REG_RCX], said);
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    registers[REG_RAX] = said[0], registers[REG_RBX] = said[1], registers[REG_RCX] = said[2], registers[REG_RDX] = said[3];
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSEGV, &ours, &others) || syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) {
        perror("without_avx512: this kernel or processor cannot keep CPUID from a program");
        _Exit(125);
    }
}
