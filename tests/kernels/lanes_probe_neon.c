/* lanes_probe_neon.c: the operations of lanes.h, neon. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON 1
#define LANES_PROBE lanes_probe__neon

#include "tests/kernels/lanes_probe_tmpl.h"
