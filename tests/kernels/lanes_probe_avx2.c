/* lanes_probe_avx2.c: the operations of lanes.h, avx2. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX2 1
#define LANES_PROBE lanes_probe__avx2

#include "tests/kernels/lanes_probe_tmpl.h"
