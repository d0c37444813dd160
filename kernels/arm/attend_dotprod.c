/* attend_dotprod.c: grouped attention over int8 K/V, NEON with dot products: two sums of eight
 * registers each. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON 1
#define INT8_DOTPROD 1
#define ATTEND_FLOAT 0
#define ATTEND_SPECIALISED 1
#define ATTEND_NAME(op) op##__dotprod

enum {
    ATTEND_STEP_ROWS = 12,
    ATTEND_BLOCK_ROWS = 6,
    ATTEND_UNROLL_ROWS = 24,
    ATTEND_UNROLL_WIDE = 4,
    I8_BLOCK_ROWS = 2,
    I8_VECTORS = 2
};

#define I8_EACH_ROWS(X)                                                                            \
    X(1)                                                                                           \
    X(2)

#include "kernels/attend_tmpl.h"
