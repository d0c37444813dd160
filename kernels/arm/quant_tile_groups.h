/* quant_tile_groups.h: a tile of a quantised product in groups of four weight rows, over group_sums.
 *
 * Offsets are taken off the weights themselves, because both multiplications here are signed. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_ARM_QUANT_TILE_GROUPS_H
#define FOLDKV_KERNELS_ARM_QUANT_TILE_GROUPS_H

#include "kernels/arm/quant_groups.h"

QUANT_INLINE uint8x16_t load_plane(const char *planes, int i)
{
    return vld1q_u8((const uint8_t *)planes + QUANT_PLANE_BYTES * i);
}

/* low | (bits << left or >> -left) & mask: the bits above a value's low ones, from a plane that serves several quads. */
QUANT_INLINE uint8x16_t with_bits(uint8x16_t low, uint8x16_t bits, int left, uint8x16_t mask)
{
    return vorrq_u8(low, vandq_u8(vshlq_u8(bits, vdupq_n_s8((int8_t)left)), mask));
}

QUANT_INLINE void load_nibbles(const char *planes, uint8x16_t w[8])
{
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        uint8x16_t both = load_plane(planes, j);
        w[j] = vandq_u8(both, vdupq_n_u8(15));
        w[4 + j] = vshrq_n_u8(both, 4);
    }
}

/* Adds a plane's two bits to each of eight quads, or sets them: at = 4 or 0 is the lower one's place in a value. */
QUANT_INLINE void add_pairs(const char *planes, int at, uint8x16_t w[8])
{
    const uint8x16_t mask = vdupq_n_u8((uint8_t)(3 << at));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        uint8x16_t plane = load_plane(planes, i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            w[4 * i + k] = with_bits(w[4 * i + k], plane, at - 2 * k, mask);
    }
}

QUANT_INLINE void add_bits(const char *planes, int at, uint8x16_t w[8])
{
    const uint8x16_t mask = vdupq_n_u8((uint8_t)(1 << at));
    uint8x16_t plane = load_plane(planes, 0);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = with_bits(w[j], plane, at - (int)quant_bit((uint32_t)j), mask);
}

/* The eight quads of four rows, signed, without their offset. */
QUANT_INLINE void load_rows(const enum weight_type type, const char *group, int8x16_t ret[8])
{
    const enum quant_code code = quant_code(type);
    uint8x16_t w[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = code == CODE_BYTES ? load_plane(group, j) : vdupq_n_u8(0);
    if (code == CODE_NIBBLES || code == CODE_NIBBLES_FIFTH || code == CODE_NIBBLES_PAIRS)
        load_nibbles(group, w);
    if (code == CODE_NIBBLES_FIFTH)
        add_bits(group + 4 * QUANT_PLANE_BYTES, 4, w);
    if (code == CODE_NIBBLES_PAIRS)
        add_pairs(group + 4 * QUANT_PLANE_BYTES, 4, w);
    if (code == CODE_PAIRS || code == CODE_PAIRS_THIRD)
        add_pairs(group, 0, w);
    if (code == CODE_PAIRS_THIRD)
        add_bits(group + 2 * QUANT_PLANE_BYTES, 2, w);
    const uint8x16_t offset = vdupq_n_u8((uint8_t)quant_offset(type));
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        ret[j] = quant_is_listed(type) ? vqtbl1q_s8(vld1q_s8(weight_type_iq4), w[j])
                                       : vreinterpretq_s8_u8(vsubq_u8(w[j], offset));
}

QUANT_INLINE float32x4_t load_halves(const char *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)p)));
}

/* The scales of a K type's block. */
QUANT_INLINE void load_scales(const enum weight_type type, const char *block,
                              struct quant_scales *ret)
{
    const char *bytes = block + quant_halves_bytes(type);
    const char *least = bytes - QUANT_HALVES_BYTES; /* d itself where there is none */
    float d[PANEL_ROWS], m[PANEL_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < PANEL_ROWS; r += GROUP_ROWS) {
        vst1q_f32(d + r, load_halves(block + r * 2));
        vst1q_f32(m + r, load_halves(least + r * 2));
    }
    quant_scales_expand(type, d, m, bytes, ret);
}

/* A group's scales and least values for four rows from row first on: one or two. */
QUANT_INLINE void group_scales(const enum weight_type type, const char *block,
                               const struct quant_scales *scales, uint32_t g, int first,
                               float32x4_t d[2], float32x4_t m[2])
{
    const uint32_t n = quant_is_fine(type) ? 2 : 1;
#pragma GCC unroll 2
    for (uint32_t i = 0; i < n; i++)
        if (quant_groups(type) == 1) {
            d[i] = load_halves(block + first * 2);
            m[i] =
                quant_has_least(type) ? load_halves(block + QUANT_HALVES_BYTES + first * 2) : d[i];
        } else {
            d[i] = vld1q_f32(scales->d[n * g + i] + first);
            m[i] = quant_has_least(type) ? vld1q_f32(scales->m[n * g + i] + first) : d[i];
        }
}

/* Group i of one activation row for four weight rows. */
QUANT_INLINE float32x4_t row_group(const enum weight_type type, const struct quant_tile *t, int r,
                                   uint32_t i, const int8x16_t w[8], const float32x4_t d[2],
                                   const float32x4_t m[2], float32x4_t acc)
{
    const int8_t *q = t->q + (size_t)r * t->q_stride + (size_t)i * QUANT_COLUMNS;
    size_t s = (size_t)r * t->scale_stride + 2 * (size_t)i;
    float32x4_t a = vcvtq_f32_s32(group_sums(type, w, vld1q_s8(q)));
    float32x4_t b = vcvtq_f32_s32(group_sums(type, w + 4, vld1q_s8(q + ACT_BLOCK)));
    a = vmulq_f32(a, vdupq_n_f32(t->d[s]));
    if (quant_is_fine(type)) {
        acc = vfmaq_f32(acc, d[0], a);
        acc = vfmaq_f32(acc, d[1], vmulq_f32(b, vdupq_n_f32(t->d[s + 1])));
    } else {
        acc = vfmaq_f32(acc, d[0], vfmaq_f32(a, b, vdupq_n_f32(t->d[s + 1])));
    }
    if (quant_has_least(type) && quant_is_fine(type)) {
        acc = vfmaq_f32(acc, m[0], vdupq_n_f32(t->ds[s]));
        acc = vfmaq_f32(acc, m[1], vdupq_n_f32(t->ds[s + 1]));
    } else if (quant_has_least(type)) {
        acc = vfmaq_f32(acc, m[0], vdupq_n_f32(t->ds[s] + t->ds[s + 1]));
    }
    return acc;
}

QUANT_INLINE void store_outputs(float *out, const float32x4_t v[GROUPS], uint32_t outputs)
{
    float all[PANEL_ROWS];
    for (int g = 0; g < GROUPS; g++)
        vst1q_f32(all + g * GROUP_ROWS, v[g]);
    memcpy(out, all, (outputs < PANEL_ROWS ? outputs : PANEL_ROWS) * sizeof *out);
}

QUANT_INLINE void quant_tile(const enum weight_type type, const int rows,
                             const struct quant_tile *t)
{
    const uint32_t groups = quant_groups(type);
    struct quant_scales scales;
    float32x4_t acc[ROWS_ONE][GROUPS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int g = 0; g < GROUPS; g++)
            acc[r][g] = vdupq_n_f32(0);
    for (uint32_t i = 0; i < t->n_blocks * groups; i++) {
        const uint32_t g = i % groups;
        const char *block = t->w + i / groups * quant_block_bytes(type);
        const char *group = block + quant_head_bytes(type) + g * quant_group_bytes(type);
        if (t->stream)
            quant_prefetch(type, rows, t, i);
        if (groups > 1 && g == 0)
            load_scales(type, block, &scales);
#pragma GCC unroll 4
        for (int n = 0; n < GROUPS; n++) {
            int8x16_t w[8];
            float32x4_t d[2], m[2];
            load_rows(type, group + n * GROUP_ROWS * 4, w);
            group_scales(type, block, &scales, g, n * GROUP_ROWS, d, m);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                acc[r][n] = row_group(type, t, r, i, w, d, m, acc[r][n]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        store_outputs(t->out + (size_t)r * t->out_stride, acc[r], t->outputs);
}

#endif
