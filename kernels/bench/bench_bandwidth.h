/* bench_bandwidth.h: what the machine can read a second: the denominator of "percent of the limit".
 *
 * The limit is the better of plain and prefetched reads, by the same threads over the same bytes, alternating with the
 * kernel measured. One probe a benchmark; from the thread that runs the workers. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_BENCH_BENCH_BANDWIDTH_H
#define FOLDKV_KERNELS_BENCH_BENCH_BANDWIDTH_H

#include "kernels/kernel.h"
#include "kernels/workers.h"

enum { BENCH_ROUNDS_MAX = 64 };

/* Medians so far of plain and prefetched passes over one buffer; lives on the caller's stack. */
struct bench_bandwidth {
    struct workers *workers;
    enum isa isa;
    const char *base; /* a loan, 64-byte aligned */
    size_t bytes;
    uint32_t rounds;
    double plain_s[BENCH_ROUNDS_MAX];
    double prefetched_s[BENCH_ROUNDS_MAX];
};

void bench_bandwidth_init(struct bench_bandwidth *b, struct workers *workers, enum isa isa,
                          const char *base, size_t bytes);
/* Reads the buffer twice, once each way, all threads together; at most BENCH_ROUNDS_MAX times. */
void bench_bandwidth_round(struct bench_bandwidth *b);
/* Bytes a second by the better median. */
double bench_bandwidth_limit(struct bench_bandwidth *b);

#endif
