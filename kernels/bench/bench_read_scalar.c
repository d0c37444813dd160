/* bench_read_scalar.c: the read loop of the bandwidth probe, scalar. */
// SPDX-License-Identifier: Apache-2.0
#define BENCH_READ bench_read__scalar

#include "kernels/bench/bench_read_tmpl.h"
