/* quant_element.h: one value and one scale of a packed block, read the plain way: what packed_row and the scalar products mean
 * by a layout. Pure. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_QUANT_ELEMENT_H
#define FOLDKV_KERNELS_QUANT_ELEMENT_H

#include "kernels/half.h"
#include "kernels/quant_layout.h"

QUANT_INLINE float quant_half(const char *halves, uint32_t row)
{
    uint16_t h;
    memcpy(&h, halves + row * sizeof h, sizeof h);
    return half_to_float(h);
}

/* Value c (0..31) of a row in a group, without its offset. */
QUANT_INLINE int quant_element(const enum weight_type type, const char *group, uint32_t row,
                               uint32_t c)
{
    const uint8_t *byte = (const uint8_t *)group + row * 4 + c % 4;
    const enum quant_code code = quant_code(type);
    uint32_t j = c / 4;
    int value = 0;
    if (code == CODE_BYTES)
        return byte[j * QUANT_PLANE_BYTES] - quant_offset(type);
    if (code == CODE_NIBBLES || code == CODE_NIBBLES_FIFTH || code == CODE_NIBBLES_PAIRS) {
        value = byte[j % 4 * QUANT_PLANE_BYTES] >> 4 * (j / 4) & 15;
        byte += 4 * QUANT_PLANE_BYTES;
    }
    if (quant_is_listed(type))
        return weight_type_iq4[value];
    if (code == CODE_NIBBLES_FIFTH)
        value |= (*byte >> quant_bit(j) & 1) << 4;
    if (code == CODE_NIBBLES_PAIRS)
        value |= (byte[j / 4 * QUANT_PLANE_BYTES] >> 2 * (j % 4) & 3) << 4;
    if (code == CODE_PAIRS || code == CODE_PAIRS_THIRD)
        value = byte[j / 4 * QUANT_PLANE_BYTES] >> 2 * (j % 4) & 3;
    if (code == CODE_PAIRS_THIRD)
        value |= (byte[2 * QUANT_PLANE_BYTES] >> quant_bit(j) & 1) << 2;
    return value - quant_offset(type);
}

/* Byte k of a row's whole scales; bytes: what follows the block's halves. */
QUANT_INLINE int quant_scale_byte(const char *bytes, uint32_t row, uint32_t k)
{
    return (uint8_t)bytes[k * PANEL_ROWS + row];
}

/* Whole scale s of a row; 1 for types of 32 columns. */
QUANT_INLINE int quant_whole_scale(const enum weight_type type, const char *bytes, uint32_t row,
                                   uint32_t s)
{
    int low, high;
    switch (type) {
    case WEIGHT_Q4_K:
    case WEIGHT_Q5_K:
        if (s < 4)
            return quant_scale_byte(bytes, row, s) & 63;
        return (quant_scale_byte(bytes, row, s + 4) & 15) |
               quant_scale_byte(bytes, row, s - 4) >> 6 << 4;
    case WEIGHT_Q2_K:
        return quant_scale_byte(bytes, row, s) & 15;
    case WEIGHT_Q3_K:
        low = quant_scale_byte(bytes, row, s % 8) >> 4 * (s / 8) & 15;
        high = quant_scale_byte(bytes, row, 8 + s % 4) >> 2 * (s / 4) & 3;
        return (low | high << 4) - 32;
    case WEIGHT_Q6_K:
        return (int8_t)quant_scale_byte(bytes, row, s);
    case WEIGHT_IQ4_XS:
        low = quant_scale_byte(bytes, row, 2 + s / 2) >> 4 * (s % 2) & 15;
        high = quant_scale_byte(bytes, row, s / 4) >> 2 * (s % 4) & 3;
        return (low | high << 4) - 32;
    case WEIGHT_Q4_0:
    case WEIGHT_Q4_1:
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1:
    case WEIGHT_Q8_0:
    case WEIGHT_IQ4_NL:
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_TYPE_COUNT:
    default:
        return 1;
    }
}

/* Whole scale s of a row's least values; 1 for types of 32 columns. */
QUANT_INLINE int quant_whole_least(const enum weight_type type, const char *bytes, uint32_t row,
                                   uint32_t s)
{
    if (type == WEIGHT_Q2_K)
        return quant_scale_byte(bytes, row, s) >> 4;
    if (type != WEIGHT_Q4_K && type != WEIGHT_Q5_K)
        return 1;
    if (s < 4)
        return quant_scale_byte(bytes, row, s + 4) & 63;
    return quant_scale_byte(bytes, row, s + 4) >> 4 | quant_scale_byte(bytes, row, s) >> 6 << 4;
}

/* What a row's values of scale s are multiplied with. */
QUANT_INLINE float quant_scale(const enum weight_type type, const char *block, uint32_t row,
                               uint32_t s)
{
    const char *bytes = block + quant_halves_bytes(type);
    return quant_half(block, row) * (float)quant_whole_scale(type, bytes, row, s);
}

/* What is then added; 0 without a least value. K types take a least value off, the others add one. */
QUANT_INLINE float quant_least(const enum weight_type type, const char *block, uint32_t row,
                               uint32_t s)
{
    if (!quant_has_least(type))
        return 0.0f;
    float m = quant_half(block + QUANT_HALVES_BYTES, row);
    if (quant_groups(type) == 1)
        return m;
    return -(m * (float)quant_whole_least(type, block + quant_halves_bytes(type), row, s));
}

#endif
