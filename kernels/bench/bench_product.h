/* bench_product.h: a set of distinct packed matrices of one type and a row of activations for each, multiplied by all
 * workers as a decoder would: one matrix after another, a barrier behind each. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_BENCH_BENCH_PRODUCT_H
#define FOLDKV_KERNELS_BENCH_BENCH_PRODUCT_H

#include "kernels/kernel.h"
#include "kernels/workers.h"

struct bench_product {
    struct workers *workers;       /* a loan */
    const struct kernels *kernels; /* a loan */
    char *memory;                  /* n_matrices matrices, one behind the other */
    size_t memory_bytes;
    struct packed_matrix matrix; /* the first */
    size_t matrix_bytes;
    uint32_t n_matrices;
    uint32_t n; /* activation rows */
    struct activations x;
    float *values;
    int8_t *quants;
    float *scale;
    float *scaled_sum;
    int32_t *sum;
    float *out; /* [n][n_rows] */
};

/* Matrices that together hold at least bytes; at most n_max activation rows. NO_MEMORY leaves nothing behind. */
enum status bench_product_init(struct bench_product *p, struct workers *workers,
                               const struct kernels *kernels, enum weight_type type,
                               uint32_t n_rows, uint32_t n_columns, size_t bytes, uint32_t n_max,
                               struct why *ret_why) MUST_USE;
void bench_product_release(struct bench_product *p);
/* All matrices times n activation rows; seconds. */
double bench_product_pass(struct bench_product *p, uint32_t n);

#endif
