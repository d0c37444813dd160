/* vector.h: the element-wise operations of a decoder step: contracts and the order of the sums.
 *
 * Each is a template over lanes.h, so every instruction set gives the same bits. n is a multiple of 16 unless said otherwise;
 * pointers need no alignment; out may be an input. Sums over n run lane-wise (lane i takes elements i, i+16, ...) in ascending
 * order and end in v16_fold_add. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_VECTOR_H
#define FOLDKV_KERNELS_VECTOR_H

#include "config/base.h"

/* out = x * (1 / sqrt(fold(sum x^2) / n + eps)) * weight; the product with weight comes last. */
typedef void rms_norm_fn(const float *x, const float *weight, float eps, uint32_t n, float *out);
/* Rotates one head in place. cosine and sine are [n / 2] for the first n coordinates of x.
 * halves: pairs (i, i + n/2); neighbours: pairs (2i, 2i + 1). a' = a * c - b * s as fma(a, c, -(b * s)); b' = fma(b, c, a * s). */
typedef void rope_fn(float *x, const float *cosine, const float *sine, uint32_t n);
/* out = gate / (1 + exp(-gate)) * up. */
typedef void silu_mul_fn(const float *gate, const float *up, uint32_t n, float *out);
/* x += y. */
typedef void add_fn(float *x, const float *y, uint32_t n);

/* What sampling and scoring need to know of a row of logits. n is any positive number. */
struct logits_summary {
    float max;
    uint32_t argmax;   /* lowest index of the greatest value */
    bool finite;       /* false if any logit is NaN or infinite; then nothing else is meaningful */
    double sum_exp;    /* sum of exp(z - max) over fixed tiles of 4096 logits: f32 lanes in a tile, tiles added in f64 */
};
typedef void logits_summarise_fn(const float *logits, uint32_t n, struct logits_summary *ret_summary);

struct vector_kernels {
    rms_norm_fn *rms_norm;
    rope_fn *rope_halves;
    rope_fn *rope_neighbours;
    silu_mul_fn *silu_mul;
    add_fn *add;
    logits_summarise_fn *logits_summarise;
};

#endif
