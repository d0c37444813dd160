/* quant_layout.h: the sizes and parts of a packed block of quantised weights (matmul.h, PACKED LAYOUT), as functions of a type
 * that compilers fold away. Pure. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_QUANT_LAYOUT_H
#define FOLDKV_KERNELS_QUANT_LAYOUT_H

#include "kernels/matmul.h"

#define QUANT_INLINE static inline __attribute__((always_inline, unused))

enum {
    QUANT_COLUMNS = 32, /* of a group */
    QUANT_PLANE_BYTES = PANEL_ROWS * 4,
    QUANT_HALVES_BYTES = PANEL_ROWS * 2,
    QUANT_GROUPS_MAX = 8, /* groups of a block */
    QUANT_SCALES_MAX = 16,
};

/* How the values of a group are stored. */
enum quant_code {
    CODE_NIBBLES,
    CODE_NIBBLES_FIFTH,
    CODE_NIBBLES_PAIRS,
    CODE_PAIRS,
    CODE_PAIRS_THIRD,
    CODE_BYTES
};

QUANT_INLINE enum quant_code quant_code(const enum weight_type type)
{
    switch (type) {
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1:
    case WEIGHT_Q5_K:
        return CODE_NIBBLES_FIFTH;
    case WEIGHT_Q8_0:
        return CODE_BYTES;
    case WEIGHT_Q2_K:
        return CODE_PAIRS;
    case WEIGHT_Q3_K:
        return CODE_PAIRS_THIRD;
    case WEIGHT_Q6_K:
        return CODE_NIBBLES_PAIRS;
    case WEIGHT_Q4_0:
    case WEIGHT_Q4_1:
    case WEIGHT_Q4_K:
    case WEIGHT_IQ4_NL:
    case WEIGHT_IQ4_XS:
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_TYPE_COUNT:
    default:
        return CODE_NIBBLES;
    }
}

QUANT_INLINE size_t quant_group_bytes(const enum weight_type type)
{
    static const uint8_t planes[] = {
        [CODE_NIBBLES] = 4, [CODE_NIBBLES_FIFTH] = 5, [CODE_NIBBLES_PAIRS] = 6,
        [CODE_PAIRS] = 2,   [CODE_PAIRS_THIRD] = 3,   [CODE_BYTES] = 8};
    return (size_t)planes[quant_code(type)] * QUANT_PLANE_BYTES;
}

/* Whole scales of a block of the file, as bytes; 0 for types of 32 columns. */
QUANT_INLINE size_t quant_scale_bytes(const enum weight_type type)
{
    return type == WEIGHT_Q2_K || type == WEIGHT_Q6_K                          ? 16
           : type == WEIGHT_Q3_K || type == WEIGHT_Q4_K || type == WEIGHT_Q5_K ? 12
           : type == WEIGHT_IQ4_XS                                             ? 6
                                                                               : 0;
}

QUANT_INLINE uint32_t quant_groups(const enum weight_type type)
{
    return quant_scale_bytes(type) != 0 ? QUANT_GROUPS_MAX : 1;
}

/* True for w = d * value + m. */
QUANT_INLINE bool quant_has_least(const enum weight_type type)
{
    return type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1 || type == WEIGHT_Q2_K ||
           type == WEIGHT_Q4_K || type == WEIGHT_Q5_K;
}

/* True for one scale each 16 columns, else each 32. */
QUANT_INLINE bool quant_is_fine(const enum weight_type type)
{
    return type == WEIGHT_Q2_K || type == WEIGHT_Q3_K || type == WEIGHT_Q6_K;
}

/* True if a nibble stands for an entry of weight_type_iq4. */
QUANT_INLINE bool quant_is_listed(const enum weight_type type)
{
    return type == WEIGHT_IQ4_NL || type == WEIGHT_IQ4_XS;
}

/* The f16 scales at the head of a block. */
QUANT_INLINE size_t quant_halves_bytes(const enum weight_type type)
{
    return quant_has_least(type) ? 2 * QUANT_HALVES_BYTES : QUANT_HALVES_BYTES;
}

QUANT_INLINE size_t quant_head_bytes(const enum weight_type type)
{
    return quant_halves_bytes(type) + quant_scale_bytes(type) * PANEL_ROWS;
}

QUANT_INLINE size_t quant_block_bytes(const enum weight_type type)
{
    return quant_head_bytes(type) + quant_groups(type) * quant_group_bytes(type);
}

/* A value is stored as itself plus this, 0 where there is a least value. The list's values and bytes: 128. */
QUANT_INLINE int quant_offset(const enum weight_type type)
{
    return type == WEIGHT_Q4_0                            ? 8
           : type == WEIGHT_Q5_0                          ? 16
           : type == WEIGHT_Q6_K                          ? 32
           : type == WEIGHT_Q3_K                          ? 4
           : type == WEIGHT_Q8_0 || quant_is_listed(type) ? 128
                                                          : 0;
}

/* The bit of a plane of single bits that serves quad j. */
QUANT_INLINE uint32_t quant_bit(uint32_t j)
{
    return j / 2 + 4 * (j % 2);
}

#endif
