/* bench_time.h: a clock and a median for the benchmarks; nothing else below the server reads a clock. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_BENCH_BENCH_TIME_H
#define FOLDKV_KERNELS_BENCH_BENCH_TIME_H

#include "config/base.h"

double bench_time_s(void);
/* Sorts values[0..n-1]; n > 0. */
double bench_median(double *values, uint32_t n);

#endif
