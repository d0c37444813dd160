/* attend_neon.c: grouped attention and K/V storing, NEON: 24 of the 32 registers hold sums, four a
 * vector. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_NEON 1
#define ATTEND_FLOAT 1
#define ATTEND_SPECIALISED 1
#define ATTEND_NAME(op) op##__neon

enum {
    ATTEND_BLOCK_ROWS = 6,
    ATTEND_STEP_ROWS = 12,
    ATTEND_VECTORS = 6,
    ATTEND_AT_ONCE = 4,
    ATTEND_TWICE_ROWS = 12,
    ATTEND_UNROLL_ROWS = 24,
    ATTEND_UNROLL_WIDE = 4,
    I8_BLOCK_ROWS = 4,
    I8_VECTORS = 4
};

#define ATTEND_EACH_ROWS(X, ...)                                                                   \
    X(1, __VA_ARGS__)                                                                              \
    X(2, __VA_ARGS__)                                                                              \
    X(3, __VA_ARGS__)                                                                              \
    X(4, __VA_ARGS__)                                                                              \
    X(5, __VA_ARGS__)                                                                              \
    X(6, __VA_ARGS__)

#define I8_EACH_ROWS(X)                                                                            \
    X(1)                                                                                           \
    X(2)                                                                                           \
    X(3)                                                                                           \
    X(4)

#include "kernels/attend_tmpl.h"
#include "kernels/kv_store_tmpl.h"
