/* quant_tile_groups.h: a tile of a quantised product in groups of four weight rows, over group_sums.
 *
 * Offsets are taken off the weights themselves, because both multiplications here are signed. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ARM_QUANT_TILE_GROUPS_H
#define FOLDKV_KERNELS_ARM_QUANT_TILE_GROUPS_H

#include "kernels/arm/quant_groups.h"

/* The eight quads of one group, signed, without their offset. */
QUANT_INLINE void load_group(const enum weight_type type, const char *values, int8x16_t w[8])
{
    const uint8_t *p = (const uint8_t *)values;
    if (type == WEIGHT_Q8_0) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            w[j] = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p + QUAD_BYTES * j), vdupq_n_u8(0x80)));
        return;
    }
    const int8x16_t offset = vdupq_n_s8(type == WEIGHT_Q4_0 ? 8 : 0);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        uint8x16_t both = vld1q_u8(p + QUAD_BYTES * j);
        w[j] = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(both, vdupq_n_u8(15))), offset);
        w[4 + j] = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(both, 4)), offset);
    }
}

QUANT_INLINE float32x4_t load_scale(const char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)p)));
}

/* One block of one activation row for four weight rows. */
QUANT_INLINE float32x4_t row_block(const enum weight_type type, const struct quant_tile *t, int r,
                                   uint32_t b, const int8x16_t w[8], float32x4_t dw, float32x4_t mw,
                                   float32x4_t acc)
{
    const int8_t *q = t->q + (size_t)r * t->q_stride + (size_t)b * QUANT_COLUMNS;
    size_t s = (size_t)r * t->scale_stride + 2 * (size_t)b;
    float32x4_t f = vcvtq_f32_s32(group_sums(type, w, vld1q_s8(q)));
    float32x4_t product = vmulq_f32(f, vdupq_n_f32(t->d[s]));
    f = vcvtq_f32_s32(group_sums(type, w + 4, vld1q_s8(q + ACT_BLOCK)));
    product = vfmaq_f32(product, f, vdupq_n_f32(t->d[s + 1]));
    acc = vfmaq_f32(acc, dw, product);
    if (type == WEIGHT_Q4_1)
        acc = vfmaq_f32(acc, mw, vdupq_n_f32(t->ds[s] + t->ds[s + 1]));
    return acc;
}

QUANT_INLINE void store_outputs(float *out, const float32x4_t v[GROUPS], uint32_t outputs)
{
    float all[PANEL_ROWS];
    for (int g = 0; g < GROUPS; g++)
        vst1q_f32(all + g * GROUP_ROWS, v[g]);
    memcpy(out, all, (outputs < PANEL_ROWS ? outputs : PANEL_ROWS) * sizeof *out);
}

/* Always panel by panel: the registers hold one group's weights and the sums of ROWS_ONE rows. */
QUANT_INLINE void quant_tile(const enum weight_type type, const int panels, const int rows,
                             const struct quant_tile *t)
{
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        float32x4_t acc[ROWS_ONE][GROUPS];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int g = 0; g < GROUPS; g++)
                acc[r][g] = vdupq_n_f32(0);
        const char *panel = t->w + (size_t)p * t->panel_bytes;
        for (uint32_t b = 0; b < t->n_blocks; b++) {
            const char *block = panel + b * quant_block_bytes(type);
            if (t->stream)
                quant_prefetch(type, 1, rows, t, (size_t)(block - t->w));
#pragma GCC unroll 4
            for (int g = 0; g < GROUPS; g++) {
                int8x16_t w[8];
                load_group(type, block + quant_values_at(type) + g * GROUP_ROWS * 4, w);
                float32x4_t dw = load_scale(block + g * GROUP_ROWS * 2);
                float32x4_t mw =
                    type == WEIGHT_Q4_1 ? load_scale(block + SCALE_BYTES + g * GROUP_ROWS * 2) : dw;
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    acc[r][g] = row_block(type, t, r, b, w, dw, mw, acc[r][g]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            store_outputs(t->out + (size_t)r * t->out_stride + (size_t)p * PANEL_ROWS, acc[r],
                          t->outputs - (uint32_t)p * PANEL_ROWS);
    }
}

#endif
