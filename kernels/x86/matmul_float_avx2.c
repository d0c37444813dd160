/* matmul_float_avx2.c: products with F32, F16 and BF16 weights, AVX2: a tile's sums are at most 12 of the 16
 * registers. One panel times six rows: of two times three, two halves each, four vectors of weights would leave no register for
 * a row, and sums would wait on the stack (F16, 512 rows: half the speed). */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX2 1
#define FLOAT_NAME(op) op##__avx2

enum { ONE_BYTES = 64, MANY_PANELS = 1, MANY_ROWS = 6 };

#include "kernels/matmul_float_tmpl.h"
