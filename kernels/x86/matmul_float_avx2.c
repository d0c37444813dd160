/* matmul_float_avx2.c: products with F32, F16 and BF16 weights, AVX2: a tile of at most 12 of the 16 registers. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX2 1
#define FLOAT_NAME(op) op##__avx2

enum { ONE_BYTES = 64, MANY_PANELS = 2, MANY_ROWS = 3 };

#include "kernels/matmul_float_tmpl.h"
