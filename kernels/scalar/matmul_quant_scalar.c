/* matmul_quant_scalar.c: products with quantised weights in plain C: the definition.
 *
 * HOW     For each panel, activation row and group of 32 columns: the values of sixteen weight rows as integers, their sums
 *         with the two halves of the activations, then the fused steps of each of the sixteen outputs.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_rows.h"

#include <math.h>

#include "kernels/quant_element.h"

/* Sum over one half (16 columns) of (w - offset) * q for weight row r; half 0 or 1. */
QUANT_INLINE int32_t half_sum(const enum weight_type type, const char *group, uint32_t r,
                              uint32_t half, const int8_t *q)
{
    int32_t s = 0;
    for (uint32_t c = 0; c < ACT_BLOCK; c++)
        s += quant_element(type, group, r, half * ACT_BLOCK + c) * q[c];
    return s;
}

/* Group g of a block. q, d, ds: the activations' 32 columns and their two scales. */
QUANT_INLINE void one_group(const enum weight_type type, const char *block, uint32_t g,
                            const int8_t *q, const float *d, const float *ds, float *acc)
{
    const char *group = block + quant_head_bytes(type) + g * quant_group_bytes(type);
    for (uint32_t r = 0; r < PANEL_ROWS; r++) {
        float a = (float)half_sum(type, group, r, 0, q) * d[0];
        int32_t sum_b = half_sum(type, group, r, 1, q + ACT_BLOCK);
        if (quant_is_fine(type)) {
            acc[r] = fmaf(quant_scale(type, block, r, 2 * g), a, acc[r]);
            acc[r] = fmaf(quant_scale(type, block, r, 2 * g + 1), (float)sum_b * d[1], acc[r]);
        } else {
            acc[r] = fmaf(quant_scale(type, block, r, g), fmaf((float)sum_b, d[1], a), acc[r]);
        }
        if (quant_has_least(type) && quant_is_fine(type)) {
            acc[r] = fmaf(quant_least(type, block, r, 2 * g), ds[0], acc[r]);
            acc[r] = fmaf(quant_least(type, block, r, 2 * g + 1), ds[1], acc[r]);
        } else if (quant_has_least(type)) {
            acc[r] = fmaf(quant_least(type, block, r, g), ds[0] + ds[1], acc[r]);
        }
    }
}

QUANT_INLINE void quant_matmul(const enum weight_type type, const struct packed_matrix *m,
                               const struct activations *x, uint32_t row_first, uint32_t row_end,
                               uint32_t panel_first, uint32_t panel_end, float *out,
                               size_t out_stride)
{
    size_t scales = m->n_columns / ACT_BLOCK;
    for (uint32_t p = panel_first; p < panel_end; p++) {
        const char *panel = m->panels + (size_t)p * m->panel_bytes;
        uint32_t left = m->n_rows - p * PANEL_ROWS;
        for (uint32_t row = row_first; row < row_end; row++) {
            float acc[PANEL_ROWS] = {0};
            for (uint32_t i = 0; i < m->n_columns / QUANT_COLUMNS; i++)
                one_group(type, panel + i / quant_groups(type) * quant_block_bytes(type),
                          i % quant_groups(type),
                          x->quants + (size_t)row * m->n_columns + i * QUANT_COLUMNS,
                          x->scale + row * scales + 2 * i, x->scaled_sum + row * scales + 2 * i,
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
QUANT_MATMUL(matmul_q5_0__scalar, WEIGHT_Q5_0)
QUANT_MATMUL(matmul_q5_1__scalar, WEIGHT_Q5_1)
QUANT_MATMUL(matmul_q8_0__scalar, WEIGHT_Q8_0)
QUANT_MATMUL(matmul_q2_k__scalar, WEIGHT_Q2_K)
QUANT_MATMUL(matmul_q3_k__scalar, WEIGHT_Q3_K)
QUANT_MATMUL(matmul_q4_k__scalar, WEIGHT_Q4_K)
QUANT_MATMUL(matmul_q5_k__scalar, WEIGHT_Q5_K)
QUANT_MATMUL(matmul_q6_k__scalar, WEIGHT_Q6_K)
QUANT_MATMUL(matmul_iq4_nl__scalar, WEIGHT_IQ4_NL)
QUANT_MATMUL(matmul_iq4_xs__scalar, WEIGHT_IQ4_XS)
