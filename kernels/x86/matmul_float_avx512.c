/* matmul_float_avx512.c: products with F32, F16 and BF16 weights, AVX-512: a tile of at most 24 of the 32 registers. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX512 1
#define FLOAT_NAME(op) op##__avx512

enum { ONE_BYTES = 64, MANY_PANELS = 4, MANY_ROWS = 6 };

#include "kernels/matmul_float_tmpl.h"
