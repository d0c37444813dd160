/* matmul_quant_avx2.c: products with Q4_0, Q4_1 and Q8_0 weights, AVX2.
 *
 * HOW     A quad (4 columns) of eight weight rows fills a register; a panel is two sides of eight rows. vpmaddubsw makes
 *         16-bit sums of two products of unsigned by signed bytes, and would saturate:
 *         4-bit weights: 8 products of 15 * 127 at most stay under 2^15, so a half block is added up in 16 bits;
 *         Q8_0: |w| times q with the sign of w, 2 * 128 * 127 < 2^15 (q is never -128), widened quad by quad.
 *         The offset of Q4_0 (8 times the activations' sum) comes off at the end.
 */
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define QUANT_NAME(op) op##__avx2

enum { ROWS_ONE = 4, ROWS_TWO = 4 };

#include "kernels/matmul_quant_tmpl.h"

enum { SIDE_ROWS = 8, SIDES = 2, QUAD_BYTES = PANEL_ROWS * 4 };

/* The eight quads of one side: unsigned for 4-bit weights, signed for Q8_0. */
QUANT_INLINE void load_side(const enum weight_type type, const char *values, __m256i w[8])
{
    if (type == WEIGHT_Q8_0) {
        const __m256i flip = _mm256_set1_epi8((char)0x80);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            w[j] = _mm256_xor_si256(
                _mm256_loadu_si256((const __m256i *)(const void *)(values + QUAD_BYTES * j)), flip);
        return;
    }
    const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)(values + QUAD_BYTES * j));
        w[j] = _mm256_and_si256(both, low);
        w[4 + j] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
    }
}

QUANT_INLINE __m256 load_scale(const char *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* A quad of activations in every lane. */
QUANT_INLINE __m256i broadcast_quad(const int8_t *q)
{
    int32_t quad;
    memcpy(&quad, q, sizeof quad);
    return _mm256_set1_epi32(quad);
}

/* Eight sums over one half: w holds its four quads. */
QUANT_INLINE __m256i half_sums(const enum weight_type type, const __m256i *w, const int8_t *q,
                               int32_t q_sum)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sums = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m256i quad = broadcast_quad(q + 4 * j);
        if (type == WEIGHT_Q8_0) {
            __m256i pairs =
                _mm256_maddubs_epi16(_mm256_abs_epi8(w[j]), _mm256_sign_epi8(quad, w[j]));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
        } else {
            sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(w[j], quad));
        }
    }
    if (type == WEIGHT_Q8_0)
        return sums;
    sums = _mm256_madd_epi16(sums, ones);
    return type == WEIGHT_Q4_0 ? _mm256_sub_epi32(sums, _mm256_set1_epi32(8 * q_sum)) : sums;
}

/* One block of one activation row for eight weight rows. */
QUANT_INLINE __m256 row_block(const enum weight_type type, const struct quant_tile *t, int r,
                              uint32_t b, const __m256i w[8], __m256 dw, __m256 mw, __m256 acc)
{
    const int8_t *q = t->q + (size_t)r * t->q_stride + (size_t)b * QUANT_COLUMNS;
    size_t s = (size_t)r * t->scale_stride + 2 * (size_t)b;
    __m256 f = _mm256_cvtepi32_ps(half_sums(type, w, q, t->sum[s]));
    __m256 product = _mm256_mul_ps(f, _mm256_set1_ps(t->d[s]));
    f = _mm256_cvtepi32_ps(half_sums(type, w + 4, q + ACT_BLOCK, t->sum[s + 1]));
    product = _mm256_fmadd_ps(f, _mm256_set1_ps(t->d[s + 1]), product);
    acc = _mm256_fmadd_ps(dw, product, acc);
    if (type == WEIGHT_Q4_1)
        acc = _mm256_fmadd_ps(mw, _mm256_set1_ps(t->ds[s] + t->ds[s + 1]), acc);
    return acc;
}

QUANT_INLINE void store_outputs(float *out, const __m256 v[SIDES], uint32_t outputs)
{
    if (outputs >= PANEL_ROWS) {
        _mm256_storeu_ps(out, v[0]);
        _mm256_storeu_ps(out + SIDE_ROWS, v[1]);
        return;
    }
    float all[PANEL_ROWS];
    _mm256_storeu_ps(all, v[0]);
    _mm256_storeu_ps(all + SIDE_ROWS, v[1]);
    memcpy(out, all, outputs * sizeof *out);
}

/* Always panel by panel: sixteen registers hold one side's weights and the sums, no more. */
QUANT_INLINE void quant_tile(const enum weight_type type, const int panels, const int rows,
                             const struct quant_tile *t)
{
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        __m256 acc[ROWS_ONE][SIDES];
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            acc[r][0] = acc[r][1] = _mm256_setzero_ps();
        const char *panel = t->w + (size_t)p * t->panel_bytes;
        for (uint32_t b = 0; b < t->n_blocks; b++) {
            const char *block = panel + b * quant_block_bytes(type);
            if (t->stream)
                quant_prefetch(type, 1, rows, t, (size_t)(block - t->w));
#pragma GCC unroll 2
            for (int side = 0; side < SIDES; side++) {
                __m256i w[8];
                load_side(type, block + quant_values_at(type) + side * SIDE_ROWS * 4, w);
                __m256 dw = load_scale(block + side * SIDE_ROWS * 2);
                __m256 mw = type == WEIGHT_Q4_1
                                ? load_scale(block + SCALE_BYTES + side * SIDE_ROWS * 2)
                                : dw;
#pragma GCC unroll 12
                for (int r = 0; r < rows; r++)
                    acc[r][side] = row_block(type, t, r, b, w, dw, mw, acc[r][side]);
            }
        }
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            store_outputs(t->out + (size_t)r * t->out_stride + (size_t)p * PANEL_ROWS, acc[r],
                          t->outputs - (uint32_t)p * PANEL_ROWS);
    }
}
