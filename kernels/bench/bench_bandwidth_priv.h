/* bench_bandwidth_priv.h: the read loops, one an instruction set. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_BENCH_BENCH_BANDWIDTH_PRIV_H
#define FOLDKV_KERNELS_BENCH_BENCH_BANDWIDTH_PRIV_H

#include "config/base.h"

/* Reads p[0..bytes), 64-byte aligned, whole 256-byte pieces of it; prefetches ahead bytes on unless 0. The result depends on
 * every word read. */
typedef uint64_t bench_read_fn(const char *p, size_t bytes, size_t ahead);

bench_read_fn bench_read__scalar, bench_read__avx2, bench_read__avx512, bench_read__neon;

#endif
