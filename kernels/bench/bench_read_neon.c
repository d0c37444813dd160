/* bench_read_neon.c: the read loop of the bandwidth probe, neon. */
// SPDX-License-Identifier: Apache-2.0
#define BENCH_READ bench_read__neon

#include "kernels/bench/bench_read_tmpl.h"
