/* matmul_float_neon.c: products with F32, F16 and BF16 weights, NEON: a tile of at most 16 of the 32 registers. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON 1
#define FLOAT_NAME(op) op##__neon

enum { ONE_BYTES = 128, MANY_PANELS = 2, MANY_ROWS = 2 };

#include "kernels/matmul_float_tmpl.h"
