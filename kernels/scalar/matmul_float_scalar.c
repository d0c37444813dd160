/* matmul_float_scalar.c: products with F32, F16 and BF16 weights, in plain C: the definition. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_SCALAR 1
#define FLOAT_NAME(op) op##__scalar

enum { ONE_BYTES = 64, MANY_PANELS = 1, MANY_ROWS = 2 };

#include "kernels/matmul_float_tmpl.h"
