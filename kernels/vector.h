/* vector.h: the element-wise operations of a decoder step: contracts and the order of the sums.
 *
 * Each is a template over lanes.h, so every instruction set gives the same bits. n is a multiple of
 * 16 unless said otherwise; pointers need no alignment; out may be an input. Sums over n run
 * lane-wise (lane i takes elements i, i+16, ...) in ascending order by v16_fma or v16_add and end
 * in v16_fold_add. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_VECTOR_H
#define FOLDKV_KERNELS_VECTOR_H

#include "config/base.h"

/* out = x * (1 / sqrt(fold(sum x^2) / n + eps)) * weight; the product with weight comes last. */
typedef void rms_norm_fn(const float *x, const float *weight, float eps, uint32_t n, float *out);
/* Rotates one head in place. cosine and sine are [n / 2] for the first n coordinates of x.
 * halves: pairs (i, i + n/2); neighbours: pairs (2i, 2i + 1).
 * a' = a * c - b * s as fma(a, c, -(b * s)); b' = fma(b, c, a * s). */
typedef void rope_fn(float *x, const float *cosine, const float *sine, uint32_t n);
/* out = gate / (1 + exp(-gate)) * up. */
typedef void silu_mul_fn(const float *gate, const float *up, uint32_t n, float *out);
/* out = gelu(gate) * up with the tanh approximation, 0.5 g (1 + tanh(c (g + 0.044715 g^3))) and
 * c = sqrt(2 / pi), written without a tanh: gate / (1 + exp(-2 c g (1 + 0.044715 g^2))) * up. */
typedef void gelu_mul_fn(const float *gate, const float *up, uint32_t n, float *out);
/* x += y. */
typedef void add_fn(float *x, const float *y, uint32_t n);
/* x *= by. */
typedef void scale_fn(float *x, float by, uint32_t n);

/* What follows reads a row of logits in tiles of LOGITS_TILE (the last one may be shorter); n is
 * any positive number. */
enum { LOGITS_TILE = 256 };

static inline uint32_t logits_tiles(uint32_t n)
{
    return n / LOGITS_TILE + (n % LOGITS_TILE != 0);
}

struct logits_peak {
    float max;       /* logits[argmax] */
    uint32_t argmax; /* lowest index of the greatest value */
    bool is_finite;  /* false if any logit is NaN or infinite; then nothing else is meaningful */
};
/* The peak, and the greatest value of each tile. */
typedef void logits_peak_fn(const float *logits, uint32_t n, float *tile_max,
                            struct logits_peak *ret_peak);
/* weights = exp((logits - max) * scale), if weights is not NULL; tile_sums: each tile's sum,
 * lane-wise in f32 and folded. Returns the tile sums added in f64, ascending. */
typedef double logits_weigh_fn(const float *logits, uint32_t n, float max, float scale,
                               float *weights, float *tile_sums);
/* Writes the index of each value that is >= least, ascending, and returns how many there are. ids
 * has room for n. */
typedef uint32_t find_at_least_fn(const float *values, uint32_t n, float least, uint32_t *ids);

struct vector_kernels {
    rms_norm_fn *rms_norm;
    rope_fn *rope_halves;
    rope_fn *rope_neighbours;
    silu_mul_fn *silu_mul;
    gelu_mul_fn *gelu_mul;
    add_fn *add;
    scale_fn *scale;
    logits_peak_fn *logits_peak;
    logits_weigh_fn *logits_weigh;
    find_at_least_fn *find_at_least;
};

#endif
