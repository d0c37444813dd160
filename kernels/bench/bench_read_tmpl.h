/* bench_read_tmpl.h: reads memory as fast as an instruction set can; included once an instruction set, which decides what a
 * 64-byte vector of the compiler becomes. The includer defines BENCH_READ, the function's name. */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bench/bench_bandwidth_priv.h"
#include "kernels/prefetch.h"

typedef uint64_t line __attribute__((vector_size(64), aligned(64), may_alias));

enum { STRIDE_LINES = 4 };

uint64_t BENCH_READ(const char *p, size_t bytes, size_t ahead)
{
    line any[STRIDE_LINES] = {{0}};
    for (size_t at = 0; at + sizeof any <= bytes; at += sizeof any) {
        if (ahead != 0)
#pragma GCC unroll 4
            for (size_t i = 0; i < STRIDE_LINES; i++)
                prefetch_line(p, at + ahead + i * sizeof(line));
#pragma GCC unroll 4
        for (size_t i = 0; i < STRIDE_LINES; i++)
            any[i] |= *(const line *)(const void *)(p + at + i * sizeof(line));
    }
    line all = any[0] | any[1] | any[2] | any[3];
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word |= all[i];
    return word;
}
