/* matmul_quant_avx512.c: products with Q4_0, Q4_1 and Q8_0 weights, AVX-512 VNNI.
 *
 * HOW     One register holds a quad (4 columns) of a panel's sixteen rows, so a block is 8 registers. vpdpbusd adds four
 *         products of unsigned weights with a broadcast quad of signed activations to sixteen sums; the offset of the
 *         weights (8 or 128) times the sum of the activations goes into the sums' starting value.
 *         It does not saturate: |sum| <= 16 * 255 * 127.
 */
// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#define QUANT_NAME(op) op##__avx512

/* Registers: 8 of weights, ROWS_ONE sums, 5 others; or 16 of weights, 2 * ROWS_TWO sums, 4 others. */
enum { ROWS_ONE = 12, ROWS_TWO = 6 };

#include "kernels/matmul_quant_tmpl.h"

/* The eight quads of a block's sixteen rows, as unsigned bytes. */
QUANT_INLINE void load_quads(const enum weight_type type, const char *values, __m512i w[8])
{
    if (type == WEIGHT_Q8_0) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            w[j] = _mm512_loadu_si512(values + 64 * j);
        return;
    }
    const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i both = _mm512_loadu_si512(values + 64 * j);
        w[j] = _mm512_and_si512(both, low);
        w[4 + j] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
}

QUANT_INLINE __m512 load_scale(const char *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* A quad of activations in every lane. */
QUANT_INLINE __m512i broadcast_quad(const int8_t *q)
{
    int32_t quad;
    memcpy(&quad, q, sizeof quad);
    return _mm512_set1_epi32(quad);
}

/* The sums start at -offset * (activations' sum). */
QUANT_INLINE __m512i starting_sum(const enum weight_type type, const int32_t *sum)
{
    if (type == WEIGHT_Q4_1)
        return _mm512_setzero_si512();
    const unsigned shift = type == WEIGHT_Q8_0 ? 7 : 3;
    return _mm512_sub_epi32(_mm512_setzero_si512(),
                            _mm512_slli_epi32(_mm512_set1_epi32(*sum), shift));
}

QUANT_INLINE void store_outputs(float *out, __m512 v, uint32_t outputs)
{
    __mmask16 mask = (__mmask16)(outputs >= PANEL_ROWS ? 0xffffu : (1u << outputs) - 1);
    _mm512_mask_storeu_ps(out, mask, v);
}

/* One activation row's block for every panel of the tile: acc += its products. */
QUANT_INLINE void row_block(const enum weight_type type, const int panels,
                            const struct quant_tile *t, int r, uint32_t b, __m512i w[2][8],
                            const __m512 dw[2], const __m512 mw[2], __m512 acc[2])
{
    const int8_t *q = t->q + (size_t)r * t->q_stride + (size_t)b * QUANT_COLUMNS;
    size_t s = (size_t)r * t->scale_stride + 2 * (size_t)b;
    __m512 product[2];
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; h++) {
        __m512i sums[2];
        sums[0] = sums[1] = starting_sum(type, t->sum + s + h);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            __m512i quad = broadcast_quad(q + h * ACT_BLOCK + 4 * j);
            if (panels ==
                2) /* one load for both panels: the compiler would fold it into each product */
                __asm__("" : "+v"(quad));
#pragma GCC unroll 2
            for (int p = 0; p < panels; p++)
                sums[p] = _mm512_dpbusd_epi32(sums[p], w[p][4 * h + (unsigned)j], quad);
        }
        __m512 d = _mm512_set1_ps(t->d[s + h]);
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) {
            __m512 f = _mm512_cvtepi32_ps(sums[p]);
            product[p] = h == 0 ? _mm512_mul_ps(f, d) : _mm512_fmadd_ps(f, d, product[p]);
        }
    }
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++)
        acc[p] = _mm512_fmadd_ps(dw[p], product[p], acc[p]);
    if (type != WEIGHT_Q4_1)
        return;
    __m512 ds = _mm512_add_ps(_mm512_set1_ps(t->ds[s]), _mm512_set1_ps(t->ds[s + 1]));
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++)
        acc[p] = _mm512_fmadd_ps(mw[p], ds, acc[p]);
}

QUANT_INLINE void quant_tile(const enum weight_type type, const int panels, const int rows,
                             const struct quant_tile *t)
{
    __m512 acc[ROWS_ONE][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        size_t at = b * quant_block_bytes(type);
        if (t->stream)
            quant_prefetch(type, panels, rows, t, at);
        __m512i w[2][8];
        __m512 dw[2], mw[2];
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) {
            const char *block = t->w + (size_t)p * t->panel_bytes + at;
            load_quads(type, block + quant_values_at(type), w[p]);
            dw[p] = load_scale(block);
            mw[p] = type == WEIGHT_Q4_1 ? load_scale(block + SCALE_BYTES) : _mm512_setzero_ps();
        }
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            row_block(type, panels, t, r, b, w, dw, mw, acc[r]);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++)
            store_outputs(t->out + (size_t)r * t->out_stride + (size_t)p * PANEL_ROWS, acc[r][p],
                          t->outputs - (uint32_t)p * PANEL_ROWS);
}
