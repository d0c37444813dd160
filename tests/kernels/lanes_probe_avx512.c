/* lanes_probe_avx512.c: the operations of lanes.h, avx512. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX512 1
#define LANES_PROBE lanes_probe__avx512

#include "tests/kernels/lanes_probe_tmpl.h"
