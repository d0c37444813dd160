/* cpu_features.h: which instructions this processor and its system allow; read once, by pick.c alone. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_CPU_FEATURES_H
#define FOLDKV_KERNELS_CPU_FEATURES_H

#include "config/base.h"

#if defined(__x86_64__)
#define KERNELS_X86 1
#define KERNELS_ARM 0
#elif defined(__aarch64__)
#define KERNELS_X86 0
#define KERNELS_ARM 1
#else
#define KERNELS_X86 0
#define KERNELS_ARM 0
#endif

enum cpu_feature {
    CPU_NONE = 0,
    CPU_AVX2 = 1 << 0,
    CPU_FMA = 1 << 1,
    CPU_F16C = 1 << 2,
    CPU_AVX512F = 1 << 3,
    CPU_AVX512BW = 1 << 4,
    CPU_AVX512DQ = 1 << 5,
    CPU_AVX512VL = 1 << 6,
    CPU_AVX512VNNI = 1 << 7,
    CPU_NEON = 1 << 8,
    CPU_DOTPROD = 1 << 9,

    /* What an instruction set of kernel.h stands for; the same sets as the flags in meson.build. */
    CPU_FOR_AVX2 = CPU_AVX2 | CPU_FMA | CPU_F16C,
    CPU_FOR_AVX512 =
        CPU_FOR_AVX2 | CPU_AVX512F | CPU_AVX512BW | CPU_AVX512DQ | CPU_AVX512VL | CPU_AVX512VNNI,
    CPU_FOR_NEON = CPU_NEON,
    CPU_FOR_DOTPROD = CPU_NEON | CPU_DOTPROD,
};

/* Bits of enum cpu_feature. A vector set counts only if the system saves its registers too. */
uint32_t cpu_features(void);

#endif
