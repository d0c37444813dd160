/* cpu_features.c: asks the processor (x86) or the system (Arm) what may be executed.
 *
 * HOW     x86: CPUID for the instruction, XGETBV for whether the system saves the registers; once, because a
 *         virtual machine answers each CPUID by leaving the guest. Arm: the auxiliary vector.
 * THREAD  any
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu_features.h"

#if KERNELS_X86
#include <cpuid.h>
#include <stdatomic.h>

enum { XCR0_YMM = 0x6, XCR0_ZMM = 0xe6 };

struct cpuid_row {
    uint32_t feature;
    uint8_t leaf;
    uint8_t reg; /* of eax, ebx, ecx, edx */
    uint8_t bit;
    uint8_t state; /* what XCR0 must have */
};

static const struct cpuid_row rows[] = {
    {CPU_FMA, 1, 2, 12, XCR0_YMM},      {CPU_F16C, 1, 2, 29, XCR0_YMM},
    {CPU_AVX2, 7, 1, 5, XCR0_YMM},      {CPU_AVX512F, 7, 1, 16, XCR0_ZMM},
    {CPU_AVX512DQ, 7, 1, 17, XCR0_ZMM}, {CPU_AVX512BW, 7, 1, 30, XCR0_ZMM},
    {CPU_AVX512VL, 7, 1, 31, XCR0_ZMM}, {CPU_AVX512VNNI, 7, 2, 11, XCR0_ZMM},
};

static uint32_t saved_registers(uint32_t leaf1_ecx)
{
    if ((leaf1_ecx & bit_OSXSAVE) == 0)
        return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static uint32_t ask(void)
{
    uint32_t leaves[8][4] = {0};
    (void)__get_cpuid(1, &leaves[1][0], &leaves[1][1], &leaves[1][2], &leaves[1][3]);
    (void)__get_cpuid_count(7, 0, &leaves[7][0], &leaves[7][1], &leaves[7][2], &leaves[7][3]);
    uint32_t saved = saved_registers(leaves[1][2]);
    uint32_t features = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool has = (leaves[rows[i].leaf][rows[i].reg] >> rows[i].bit & 1u) != 0;
        if (has && (saved & rows[i].state) == rows[i].state)
            features |= rows[i].feature;
    }
    return features;
}

uint32_t cpu_features(void)
{
    static atomic_uint known; /* 0: not yet, or nothing */
    uint32_t features = atomic_load_explicit(&known, memory_order_relaxed);
    if (features == 0) {
        features = ask();
        atomic_store_explicit(&known, features, memory_order_relaxed);
    }
    return features;
}

#elif KERNELS_ARM
#include <asm/hwcap.h>
#include <sys/auxv.h>

uint32_t cpu_features(void)
{
    uint32_t features = CPU_NEON; /* part of the Armv8-A baseline */
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP)
        features |= CPU_DOTPROD;
    return features;
}

#else

uint32_t cpu_features(void)
{
    return CPU_NONE;
}

#endif
