/* bench_read_avx512.c: the read loop of the bandwidth probe, avx512. */
// SPDX-License-Identifier: Apache-2.0
#define BENCH_READ bench_read__avx512

#include "kernels/bench/bench_read_tmpl.h"
