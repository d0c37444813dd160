/* attend_avx512.c: grouped attention and K/V storing, AVX-512: at most 24 of the 32 registers hold
 * sums. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_AVX512 1
#define ATTEND_FLOAT 1
#define ATTEND_SPECIALISED 1
#define ATTEND_NAME(op) op##__avx512

enum {
    ATTEND_BLOCK_ROWS = 24,
    ATTEND_STEP_ROWS = 24,
    ATTEND_VECTORS = 24,
    ATTEND_AT_ONCE = 4,
    ATTEND_TWICE_ROWS = 12,
    ATTEND_UNROLL_ROWS = 24,
    ATTEND_UNROLL_WIDE = 4,
    I8_BLOCK_ROWS = 12,
    I8_VECTORS = 12
};

#define ATTEND_EACH_ROWS(X, ...)                                                                   \
    X(1, __VA_ARGS__)                                                                              \
    X(2, __VA_ARGS__)                                                                              \
    X(3, __VA_ARGS__)                                                                              \
    X(4, __VA_ARGS__)                                                                              \
    X(5, __VA_ARGS__)                                                                              \
    X(6, __VA_ARGS__)                                                                              \
    X(7, __VA_ARGS__)                                                                              \
    X(8, __VA_ARGS__)                                                                              \
    X(9, __VA_ARGS__)                                                                              \
    X(10, __VA_ARGS__)                                                                             \
    X(11, __VA_ARGS__)                                                                             \
    X(12, __VA_ARGS__)                                                                             \
    X(13, __VA_ARGS__)                                                                             \
    X(14, __VA_ARGS__)                                                                             \
    X(15, __VA_ARGS__)                                                                             \
    X(16, __VA_ARGS__)                                                                             \
    X(17, __VA_ARGS__)                                                                             \
    X(18, __VA_ARGS__)                                                                             \
    X(19, __VA_ARGS__)                                                                             \
    X(20, __VA_ARGS__)                                                                             \
    X(21, __VA_ARGS__)                                                                             \
    X(22, __VA_ARGS__)                                                                             \
    X(23, __VA_ARGS__)                                                                             \
    X(24, __VA_ARGS__)

#define I8_EACH_ROWS(X)                                                                            \
    X(1)                                                                                           \
    X(2)                                                                                           \
    X(3)                                                                                           \
    X(4)                                                                                           \
    X(5)                                                                                           \
    X(6)                                                                                           \
    X(7)                                                                                           \
    X(8)                                                                                           \
    X(9)                                                                                           \
    X(10)                                                                                          \
    X(11)                                                                                          \
    X(12)

#include "kernels/attend_tmpl.h"
#include "kernels/kv_store_tmpl.h"
