/* matmul_quant_scalar.c: products with Q4_0, Q4_1 and Q8_0 weights in plain C: the definition.
 *
 * HOW     For each panel, activation row and block: the values of sixteen weight rows as integers, their sums with the
 *         two halves of the activation block, then one fused step for each of the sixteen outputs.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"

#include <math.h>

#include "kernels/half.h"

enum { BLOCK = 32, SCALE_BYTES = PANEL_ROWS * 2 };

static inline size_t block_bytes(enum weight_type type)
{
    return type == WEIGHT_Q8_0 ? 544 : type == WEIGHT_Q4_1 ? 320 : 288;
}

static inline float half_at(const char *p, uint32_t row)
{
    uint16_t h;
    memcpy(&h, p + row * sizeof h, sizeof h);
    return half_to_float(h);
}

/* Sum over one half (16 columns) of (w - offset) * q for weight row r; half 0 or 1. */
static inline int32_t half_sum(enum weight_type type, const char *quads, uint32_t r, uint32_t half,
                               const int8_t *q)
{
    int32_t s = 0;
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t quad = type == WEIGHT_Q8_0 ? 4 * half + j : j;
        const unsigned char *w = (const unsigned char *)quads + ((size_t)quad * PANEL_ROWS + r) * 4;
        for (uint32_t e = 0; e < 4; e++) {
            int value = type == WEIGHT_Q8_0   ? w[e] - 128
                        : type == WEIGHT_Q4_0 ? (w[e] >> 4 * half & 15) - 8
                                              : w[e] >> 4 * half & 15;
            s += value * q[4 * j + e];
        }
    }
    return s;
}

static inline void one_block(enum weight_type type, const char *block, const int8_t *q,
                             const float *d, const float *ds, float *acc)
{
    const char *quads = block + SCALE_BYTES * (type == WEIGHT_Q4_1 ? 2 : 1);
    for (uint32_t r = 0; r < PANEL_ROWS; r++) {
        float t = (float)half_sum(type, quads, r, 0, q) * d[0];
        t = fmaf((float)half_sum(type, quads, r, 1, q + ACT_BLOCK), d[1], t);
        acc[r] = fmaf(half_at(block, r), t, acc[r]);
        if (type == WEIGHT_Q4_1)
            acc[r] = fmaf(half_at(block + SCALE_BYTES, r), ds[0] + ds[1], acc[r]);
    }
}

static inline __attribute__((always_inline)) void
quant_matmul(enum weight_type type, const struct packed_matrix *m, const struct activations *x,
             uint32_t row_first, uint32_t row_end, uint32_t panel_first, uint32_t panel_end,
             float *out, size_t out_stride)
{
    size_t scales = m->n_columns / ACT_BLOCK;
    for (uint32_t p = panel_first; p < panel_end; p++) {
        const char *panel = m->panels + (size_t)p * m->panel_bytes;
        uint32_t left = m->n_rows - p * PANEL_ROWS;
        for (uint32_t row = row_first; row < row_end; row++) {
            float acc[PANEL_ROWS] = {0};
            for (uint32_t b = 0; b < m->n_columns / BLOCK; b++)
                one_block(type, panel + b * block_bytes(type),
                          x->quants + (size_t)row * m->n_columns + b * BLOCK,
                          x->scale + row * scales + 2 * b, x->scaled_sum + row * scales + 2 * b,
                          acc);
            memcpy(out + row * out_stride + (size_t)p * PANEL_ROWS, acc,
                   (left < PANEL_ROWS ? left : PANEL_ROWS) * sizeof acc[0]);
        }
    }
}

#define QUANT_MATMUL(function, type)                                                               \
    void function(const struct packed_matrix *m, const struct activations *x, uint32_t row_first,  \
                  uint32_t row_end, uint32_t panel_first, uint32_t panel_end, float *out,          \
                  size_t out_stride)                                                               \
    {                                                                                              \
        quant_matmul(type, m, x, row_first, row_end, panel_first, panel_end, out, out_stride);     \
    }

QUANT_MATMUL(matmul_q4_0__scalar, WEIGHT_Q4_0)
QUANT_MATMUL(matmul_q4_1__scalar, WEIGHT_Q4_1)
QUANT_MATMUL(matmul_q8_0__scalar, WEIGHT_Q8_0)
