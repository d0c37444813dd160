/* bench_read_avx2.c: the read loop of the bandwidth probe, avx2. */
// SPDX-License-Identifier: Apache-2.0
#define BENCH_READ bench_read__avx2

#include "kernels/bench/bench_read_tmpl.h"
