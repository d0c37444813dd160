/* attend_avx2.c: grouped attention and K/V storing, AVX2: 12 of the 16 registers hold sums, two a
 * vector; so one vector of K/V at a time. A line is asked for once: the work of a second request
 * costs more than the lines that it saves (Zen 3: three rows at 8,000 tokens 1.02x, one row 1.2x). */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX2 1
#define ATTEND_FLOAT 1
#define ATTEND_SPECIALISED 1
#define ATTEND_NAME(op) op##__avx2

enum {
    ATTEND_BLOCK_ROWS = 6,
    ATTEND_STEP_ROWS = 12,
    ATTEND_VECTORS = 6,
    ATTEND_AT_ONCE = 1,
    ATTEND_TWICE_ROWS = 0,
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
