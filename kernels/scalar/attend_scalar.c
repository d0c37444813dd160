/* attend_scalar.c: grouped attention and K/V storing in plain C: the definition. */
// SPDX-License-Identifier: Apache-2.0
#define LANES_SCALAR 1
#define ATTEND_NAME(op) op##__scalar

enum { ATTEND_BLOCK_ROWS = 6, ATTEND_STEP_ROWS = 12, ATTEND_VECTORS = 6 };

#define ATTEND_EACH_ROWS(X, ...)                                                                   \
    X(1, __VA_ARGS__)                                                                              \
    X(2, __VA_ARGS__)                                                                              \
    X(3, __VA_ARGS__)                                                                              \
    X(4, __VA_ARGS__)                                                                              \
    X(5, __VA_ARGS__)                                                                              \
    X(6, __VA_ARGS__)

#include "kernels/attend_tmpl.h"
#include "kernels/kv_store_tmpl.h"
