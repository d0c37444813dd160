/* quant_scales.h: the whole scales of a K type's packed block as floats; one text for every instruction set, in loops that
 * compilers turn into vectors. Pure. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_QUANT_SCALES_H
#define FOLDKV_KERNELS_QUANT_SCALES_H

#include "kernels/quant_layout.h"

/* Of sixteen rows, for each 16 or 32 columns of a block. */
struct quant_scales {
    float d[QUANT_SCALES_MAX][PANEL_ROWS];
    float m[QUANT_SCALES_MAX][PANEL_ROWS]; /* with its sign: to be added */
};

/* The same as whole numbers. */
struct quant_whole_scales {
    int8_t d[QUANT_SCALES_MAX * PANEL_ROWS];
    int8_t m[QUANT_SCALES_MAX * PANEL_ROWS];
};

/* bytes: [12][16]: 0..3 scales 0..3, with two bits of scales 4..7 on top; 4..7 the same of the least values; 8..11 low halves of
 * scales 4..7 (low) and of least values 4..7 (high). */
QUANT_INLINE void quant_scales_six(const uint8_t *bytes, struct quant_whole_scales *ret)
{
    for (int i = 0; i < 4 * PANEL_ROWS; i++) {
        uint8_t d = bytes[i], m = bytes[4 * PANEL_ROWS + i], low = bytes[8 * PANEL_ROWS + i];
        ret->d[i] = (int8_t)(d & 63);
        ret->m[i] = (int8_t)(m & 63);
        ret->d[4 * PANEL_ROWS + i] = (int8_t)((low & 15) | (d >> 2 & 48));
        ret->m[4 * PANEL_ROWS + i] = (int8_t)(low >> 4 | (m >> 2 & 48));
    }
}

/* bytes: [12][16]: 0..7 low halves of scales 0..7 (low) and 8..15 (high); 8..11 two bits each of scales k, 4 + k, 8 + k, 12 + k. */
QUANT_INLINE void quant_scales_q3(const uint8_t *bytes, struct quant_whole_scales *ret)
{
    for (int i = 0; i < 4 * PANEL_ROWS; i++) {
        uint8_t first = bytes[i], second = bytes[4 * PANEL_ROWS + i],
                high = bytes[8 * PANEL_ROWS + i];
        ret->d[i] = (int8_t)(((first & 15) | (high << 4 & 48)) - 32);
        ret->d[4 * PANEL_ROWS + i] = (int8_t)(((second & 15) | (high << 2 & 48)) - 32);
        ret->d[8 * PANEL_ROWS + i] = (int8_t)((first >> 4 | (high & 48)) - 32);
        ret->d[12 * PANEL_ROWS + i] = (int8_t)((second >> 4 | (high >> 2 & 48)) - 32);
    }
}

/* bytes: [6][16]: 0..1 two bits each of scales 0..3, 4..7; 2..5 low halves of scales 2k (low) and 2k + 1 (high). */
QUANT_INLINE void quant_scales_iq4(const uint8_t *bytes, struct quant_whole_scales *ret)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < PANEL_ROWS; i++) {
            uint8_t low = bytes[(2 + k) * PANEL_ROWS + i];
            int high = bytes[k / 2 * PANEL_ROWS + i] >> 4 * (k % 2);
            ret->d[2 * k * PANEL_ROWS + i] = (int8_t)(((low & 15) | (high << 4 & 48)) - 32);
            ret->d[(2 * k + 1) * PANEL_ROWS + i] = (int8_t)((low >> 4 | (high << 2 & 48)) - 32);
        }
}

QUANT_INLINE void quant_scales_whole(const enum weight_type type, const uint8_t *bytes,
                                     struct quant_whole_scales *ret)
{
    if (type == WEIGHT_Q4_K || type == WEIGHT_Q5_K)
        quant_scales_six(bytes, ret);
    if (type == WEIGHT_Q3_K)
        quant_scales_q3(bytes, ret);
    if (type == WEIGHT_IQ4_XS)
        quant_scales_iq4(bytes, ret);
    if (type == WEIGHT_Q6_K)
        memcpy(ret->d, bytes, QUANT_SCALES_MAX * PANEL_ROWS);
    if (type == WEIGHT_Q2_K)
        for (int i = 0; i < QUANT_SCALES_MAX * PANEL_ROWS; i++) {
            ret->d[i] = (int8_t)(bytes[i] & 15);
            ret->m[i] = (int8_t)(bytes[i] >> 4);
        }
}

/* d and m: the block's f16 scales of sixteen rows as floats; bytes: what follows them. */
QUANT_INLINE void quant_scales_expand(const enum weight_type type, const float d[PANEL_ROWS],
                                      const float m[PANEL_ROWS], const char *bytes,
                                      struct quant_scales *ret)
{
    struct quant_whole_scales whole;
    quant_scales_whole(type, (const uint8_t *)bytes, &whole);
    const int n = quant_is_fine(type) ? QUANT_SCALES_MAX : QUANT_GROUPS_MAX;
    for (int s = 0; s < n; s++)
        for (int r = 0; r < PANEL_ROWS; r++)
            ret->d[s][r] = d[r] * (float)whole.d[s * PANEL_ROWS + r];
    for (int s = 0; quant_has_least(type) && s < n; s++)
        for (int r = 0; r < PANEL_ROWS; r++)
            ret->m[s][r] = -(m[r] * (float)whole.m[s * PANEL_ROWS + r]);
}

#endif
