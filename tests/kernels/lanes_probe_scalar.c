/* lanes_probe_scalar.c: the operations of lanes.h, scalar. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_SCALAR 1
#define LANES_PROBE lanes_probe__scalar

#include "tests/kernels/lanes_probe_tmpl.h"
