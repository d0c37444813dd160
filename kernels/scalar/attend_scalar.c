/* attend_scalar.c: grouped attention and K/V storing in plain C: the definition. One function serves
 * all shapes: there are no registers to fill. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_SCALAR 1
#define ATTEND_FLOAT 1
#define ATTEND_SPECIALISED 0
#define ATTEND_NAME(op) op##__scalar

enum {
    ATTEND_BLOCK_ROWS = 4,
    ATTEND_STEP_ROWS = 12,
    ATTEND_VECTORS = 4,
    ATTEND_AT_ONCE = 4,
    ATTEND_TWICE_ROWS = 12,
    ATTEND_UNROLL_ROWS = 1,
    ATTEND_UNROLL_WIDE = 1,
    I8_BLOCK_ROWS = 4,
    I8_VECTORS = 4
};

#include "kernels/attend_tmpl.h"
#include "kernels/kv_store_tmpl.h"
