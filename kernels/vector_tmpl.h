/* vector_tmpl.h: the element-wise operations and the reading of a row of logits, over lanes.h;
 * included once an instruction set.
 *
 * WHY     Norms, rotations and sampling are little work beside the products, but they stand between
 *         them on one thread's path.
 * HOW     Sixteen lanes at a time; a tail goes through a padded array on the stack, so nothing is
 *         read past the end and every element sees the same operations.
 * ALWAYS  (1) Sums run lane i over elements i, i + 16, ..., then v16_fold_add; squares lane i of chain c over elements
 *             16 c + i, 64 + 16 c + i, ..., what is left over in chain 0, then (0 + 1) + (2 + 3).
 *             logits_weigh, sum_of_squares
 *         (2) NaN and infinity stick: x * 0 + seen is NaN from the first of them on.  logits_peak
 *
 * The includer defines LANES_x and VECTOR_NAME(op). */
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/kernel_rows.h"
#include "kernels/lanes.h"

enum { LANES = 16 };

/* The first n (less than sixteen) elements of p, fill in the lanes above. */
LANES_INLINE v16 load_tail(const float *p, uint32_t n, float fill)
{
    float all[LANES];
    v16_store(all, v16_set1(fill));
    memcpy(all, p, n * sizeof *p);
    return v16_load(all);
}

LANES_INLINE void store_tail(float *p, v16 v, uint32_t n)
{
    float all[LANES];
    v16_store(all, v);
    memcpy(p, all, n * sizeof *p);
}

/* In four chains, so that none waits for itself: a row's norm is on the path of everything behind it. */
LANES_INLINE float sum_of_squares(const float *x, uint32_t n)
{
    v16 squares[4] = {v16_zero(), v16_zero(), v16_zero(), v16_zero()};
    uint32_t i = 0;
    for (; n - i >= 4 * LANES; i += 4 * LANES)
        for (uint32_t chain = 0; chain < 4; chain++) {
            v16 v = v16_load(x + i + chain * LANES);
            squares[chain] = v16_fma(v, v, squares[chain]);
        }
    for (; i < n; i += LANES) {
        v16 v = v16_load(x + i);
        squares[0] = v16_fma(v, v, squares[0]);
    }
    return v16_fold_add(v16_add(v16_add(squares[0], squares[1]), v16_add(squares[2], squares[3])));
}

void VECTOR_NAME(rms_norm)(const float *x, const float *weight, float eps, uint32_t n, float *out)
{
    v16 scale = v16_set1(1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps));
    for (uint32_t i = 0; i < n; i += LANES)
        v16_store(out + i, v16_mul(v16_mul(v16_load(x + i), scale), v16_load(weight + i)));
}

LANES_INLINE void rotate(v16 *a, v16 *b, v16 cosine, v16 sine)
{
    v16 b_sine = v16_sub(v16_set1(-0.0f), v16_mul(*b, sine)); /* -0 - x is -x for both zeros */
    v16 a_sine = v16_mul(*a, sine);
    *a = v16_fma(*a, cosine, b_sine);
    *b = v16_fma(*b, cosine, a_sine);
}

void VECTOR_NAME(rope_halves)(float *x, const float *cosine, const float *sine, uint32_t n)
{
    uint32_t half = n / 2;
    uint32_t i = 0;
    for (; half - i >= LANES; i += LANES) {
        v16 a = v16_load(x + i);
        v16 b = v16_load(x + half + i);
        rotate(&a, &b, v16_load(cosine + i), v16_load(sine + i));
        v16_store(x + i, a);
        v16_store(x + half + i, b);
    }
    if (i == half)
        return;
    v16 a = load_tail(x + i, half - i, 0.0f);
    v16 b = load_tail(x + half + i, half - i, 0.0f);
    rotate(&a, &b, load_tail(cosine + i, half - i, 0.0f), load_tail(sine + i, half - i, 0.0f));
    store_tail(x + i, a, half - i);
    store_tail(x + half + i, b, half - i);
}

void VECTOR_NAME(rope_neighbours)(float *x, const float *cosine, const float *sine, uint32_t n)
{
    uint32_t half = n / 2;
    uint32_t i = 0;
    v16 a;
    v16 b;
    for (; half - i >= LANES; i += LANES) {
        v16_load_pairs(x + 2 * i, &a, &b);
        rotate(&a, &b, v16_load(cosine + i), v16_load(sine + i));
        v16_store_pairs(x + 2 * i, a, b);
    }
    if (i == half)
        return;
    float pairs[2 * LANES] = {0};
    memcpy(pairs, x + 2 * i, 2 * (half - i) * sizeof *x);
    v16_load_pairs(pairs, &a, &b);
    rotate(&a, &b, load_tail(cosine + i, half - i, 0.0f), load_tail(sine + i, half - i, 0.0f));
    v16_store_pairs(pairs, a, b);
    memcpy(x + 2 * i, pairs, 2 * (half - i) * sizeof *x);
}

void VECTOR_NAME(silu_mul)(const float *gate, const float *up, uint32_t n, float *out)
{
    v16 one = v16_set1(1.0f);
    for (uint32_t i = 0; i < n; i += LANES) {
        v16 g = v16_load(gate + i);
        v16 below = v16_add(one, v16_exp(v16_sub(v16_zero(), g)));
        v16_store(out + i, v16_mul(v16_div(g, below), v16_load(up + i)));
    }
}

/* 0.5 (1 + tanh(u)) is 1 / (1 + exp(-2 u)), so the gate costs one exponential. */
void VECTOR_NAME(gelu_mul)(const float *gate, const float *up, uint32_t n, float *out)
{
    v16 one = v16_set1(1.0f);
    v16 cubic = v16_set1(0.044715f);
    v16 slope = v16_set1(-1.5957691216f); /* -2 sqrt(2 / pi) */
    for (uint32_t i = 0; i < n; i += LANES) {
        v16 g = v16_load(gate + i);
        v16 bend = v16_fma(v16_mul(g, g), cubic, one);
        v16 below = v16_add(one, v16_exp(v16_mul(v16_mul(g, bend), slope)));
        v16_store(out + i, v16_mul(v16_div(g, below), v16_load(up + i)));
    }
}

void VECTOR_NAME(add)(float *x, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += LANES)
        v16_store(x + i, v16_add(v16_load(x + i), v16_load(y + i)));
}

void VECTOR_NAME(scale)(float *x, float by, uint32_t n)
{
    v16 factor = v16_set1(by);
    for (uint32_t i = 0; i < n; i += LANES)
        v16_store(x + i, v16_mul(v16_load(x + i), factor));
}

/* What four chains have seen of a tile; one chain would wait for itself. */
struct peak_chains {
    v16 max[4];
    v16 seen[4];
};

LANES_INLINE void peak_take(struct peak_chains *c, int chain, v16 v)
{
    c->max[chain] = v16_max(v, c->max[chain]);
    c->seen[chain] = v16_fma(v, v16_zero(), c->seen[chain]);
}

/* The greatest value of the n logits of a tile. */
LANES_INLINE float peak_tile(struct peak_chains *c, const float *logits, uint32_t n)
{
    for (int chain = 0; chain < 4; chain++)
        c->max[chain] = v16_set1(-INFINITY);
    uint32_t i = 0;
    for (; n - i >= 4 * LANES; i += 4 * LANES)
        for (uint32_t chain = 0; chain < 4; chain++)
            peak_take(c, (int)chain, v16_load(logits + i + chain * LANES));
    for (; n - i >= LANES; i += LANES)
        peak_take(c, 0, v16_load(logits + i));
    if (i < n) /* the fill is one of the tile's own values, so that it changes nothing */
        peak_take(c, 0, load_tail(logits + i, n - i, logits[i]));
    return v16_fold_max(v16_max(v16_max(c->max[0], c->max[1]), v16_max(c->max[2], c->max[3])));
}

LANES_INLINE bool is_all_finite(const struct peak_chains *c)
{
    float seen[LANES];
    v16_store(seen, v16_add(v16_add(c->seen[0], c->seen[1]), v16_add(c->seen[2], c->seen[3])));
    bool finite = true;
    for (int i = 0; i < LANES; i++)
        finite &= (float_bits(seen[i]) & 0x7fffffffu) == 0;
    return finite;
}

/* Index of the first value that is >= least; one is. */
LANES_INLINE uint32_t first_at_least(const float *values, uint32_t n, float least)
{
    uint32_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        uint32_t mask = v16_ge_mask(v16_load(values + i), v16_set1(least));
        if (mask != 0)
            return i + (uint32_t)__builtin_ctz(mask);
    }
    while (values[i] < least)
        i++;
    return i;
}

void VECTOR_NAME(logits_peak)(const float *logits, uint32_t n, float *tile_max,
                              struct logits_peak *ret_peak)
{
    struct peak_chains chains = {.seen = {v16_zero(), v16_zero(), v16_zero(), v16_zero()}};
    uint32_t best = 0;
    for (uint32_t t = 0; t < logits_tiles(n); t++) {
        uint32_t first = t * LOGITS_TILE;
        tile_max[t] =
            peak_tile(&chains, logits + first, n - first < LOGITS_TILE ? n - first : LOGITS_TILE);
        best = tile_max[t] > tile_max[best] ? t : best;
    }
    memset(ret_peak, 0, sizeof *ret_peak);
    if (!is_all_finite(&chains))
        return;
    uint32_t first = best * LOGITS_TILE;
    ret_peak->argmax = first + first_at_least(logits + first, n - first, tile_max[best]);
    ret_peak->max = logits[ret_peak->argmax];
    ret_peak->is_finite = true;
}

double VECTOR_NAME(logits_weigh)(const float *logits, uint32_t n, float max, float scale,
                                 float *weights, float *tile_sums)
{
    double total = 0.0;
    v16 top = v16_set1(max);
    v16 by = v16_set1(scale);
    for (uint32_t first = 0; first < n;) {
        uint32_t end = n - first < LOGITS_TILE ? n : first + LOGITS_TILE;
        uint32_t i = first;
        v16 sum = v16_zero();
        for (; end - i >= LANES; i += LANES) {
            v16 w = v16_exp(v16_mul(v16_sub(v16_load(logits + i), top), by));
            sum = v16_add(sum, w);
            if (weights != NULL)
                v16_store(weights + i, w);
        }
        if (i < end) {
            /* The lanes above the end become -inf after the scale, so that they weigh exactly 0. */
            v16 w = v16_exp(v16_keep(v16_mul(v16_sub(load_tail(logits + i, end - i, max), top), by),
                                     (int)(end - i)));
            sum = v16_add(sum, w);
            if (weights != NULL)
                store_tail(weights + i, w, end - i);
        }
        *tile_sums = v16_fold_add(sum);
        total += (double)*tile_sums++;
        first = end;
    }
    return total;
}

uint32_t VECTOR_NAME(find_at_least)(const float *values, uint32_t n, float least, uint32_t *ids)
{
    uint32_t count = 0;
    uint32_t i = 0;
    v16 bound = v16_set1(least);
    for (; n - i >= LANES; i += LANES)
        for (uint32_t mask = v16_ge_mask(v16_load(values + i), bound); mask != 0; mask &= mask - 1)
            ids[count++] = i + (uint32_t)__builtin_ctz(mask);
    for (; i < n; i++)
        if (values[i] >= least)
            ids[count++] = i;
    return count;
}
