/* packed.c: from a GGUF tensor's rows to panels of sixteen.
 *
 * WHY     A vector unit wants the same column of sixteen weight rows side by side; the file has row behind row.
 * HOW     A block of the file is scales (halves, and for K types bytes) and values. Packing moves each scale to its row's
 *         place in the panel block and deals the values out four bytes (a quad) at a time, with the bits of a byte sorted to
 *         the columns of one group where the file's order is another. For the float types the "block" is one value.
 *         Q8_0 values are stored + 128, because the vector unit multiplies unsigned by signed.
 * ALWAYS  (1) Every byte of a panel is written, rows that do not exist as zero.   pack_blocks
 * THREAD  any; pure
 * NOT     Reading a row back: packed_row.c.
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include "kernels/quant_layout.h"
#include "kernels/weight_type_priv.h"

enum { QUAD = 4, HALF_BYTES = 2 };

/* One row's block in the file, by parts. */
struct source_block {
    const char *halves[2];
    const char *scales;
    const char *low;  /* nibbles, pairs, or bytes */
    const char *high; /* the bits above */
};

static inline uint32_t quad_at(const char *p, uint32_t i)
{
    uint32_t quad;
    memcpy(&quad, p + (size_t)i * QUAD, QUAD);
    return quad;
}

/* Quads i and i + 1. */
static inline uint64_t two_quads_at(const char *p, uint32_t i)
{
    uint64_t quads;
    memcpy(&quads, p + (size_t)i * QUAD, sizeof quads);
    return quads;
}

static inline void put_quad(char *plane, uint32_t r, uint32_t quad)
{
    memcpy(plane + r * QUAD, &quad, QUAD);
}

QUANT_INLINE struct source_block source_block(const enum weight_type type, const char *p)
{
    switch (type) {
    case WEIGHT_Q5_0:
        return (struct source_block){.halves = {p}, .high = p + 2, .low = p + 6};
    case WEIGHT_Q5_1:
        return (struct source_block){.halves = {p, p + 2}, .high = p + 4, .low = p + 8};
    case WEIGHT_Q2_K:
        return (struct source_block){.halves = {p + 80, p + 82}, .scales = p, .low = p + 16};
    case WEIGHT_Q3_K:
        return (struct source_block){
            .halves = {p + 108}, .scales = p + 96, .high = p, .low = p + 32};
    case WEIGHT_Q4_K:
        return (struct source_block){.halves = {p, p + 2}, .scales = p + 4, .low = p + 16};
    case WEIGHT_Q5_K:
        return (struct source_block){
            .halves = {p, p + 2}, .scales = p + 4, .high = p + 16, .low = p + 48};
    case WEIGHT_Q6_K:
        return (struct source_block){
            .halves = {p + 208}, .scales = p + 192, .high = p + 128, .low = p};
    case WEIGHT_IQ4_XS:
        return (struct source_block){.halves = {p}, .scales = p + 2, .low = p + 8};
    case WEIGHT_Q4_1:
        return (struct source_block){.halves = {p, p + 2}, .low = p + 4};
    case WEIGHT_Q4_0:
    case WEIGHT_Q8_0:
    case WEIGHT_IQ4_NL:
    case WEIGHT_F32:
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_TYPE_COUNT:
    default:
        return (struct source_block){.halves = {p}, .low = p + 2};
    }
}

/* Nibbles of group g to four planes. In a K type 32 bytes hold 64 columns: low halves the first 32 (Q6_K: of 64 bytes and 128
 * columns); in IQ4_XS and the small blocks 16 bytes hold 32 columns as a panel has them. */
QUANT_INLINE void pack_nibbles(const enum weight_type type, const char *low, uint32_t g, uint32_t r,
                               char *planes)
{
    const bool is_paired = type == WEIGHT_Q4_K || type == WEIGHT_Q5_K || type == WEIGHT_Q6_K;
    if (!is_paired) {
        for (uint32_t j = 0; j < 4; j++)
            put_quad(planes + j * QUANT_PLANE_BYTES, r, quad_at(low + g * 16, j));
        return;
    }
    const char *from = type == WEIGHT_Q6_K ? low + g / 4 * 64 + g % 2 * 32 : low + g / 2 * 32;
    const uint32_t shift = type == WEIGHT_Q6_K ? g / 2 % 2 * 4 : g % 2 * 4;
#pragma GCC unroll 2
    for (uint32_t j = 0; j < 4; j += 2) {
        uint64_t first = two_quads_at(from, j) >> shift & 0x0f0f0f0f0f0f0f0fu;
        uint64_t second = two_quads_at(from, 4 + j) >> shift & 0x0f0f0f0f0f0f0f0fu;
        uint64_t both = first | second << 4;
        put_quad(planes + j * QUANT_PLANE_BYTES, r, (uint32_t)both);
        put_quad(planes + (j + 1) * QUANT_PLANE_BYTES, r, (uint32_t)(both >> 32));
    }
}

/* Pairs of group g to two planes: 32 bytes hold 128 columns, two bits each 32. */
QUANT_INLINE void pack_pairs(const char *from, uint32_t g, uint32_t r, char *planes)
{
    from += g / 4 * 32;
    const uint32_t shift = g % 4 * 2;
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t all = two_quads_at(from, 4 * i) >> shift & 0x0303030303030303u;
        all |= (two_quads_at(from, 4 * i + 2) >> shift & 0x0303030303030303u) << 4;
        put_quad(planes + i * QUANT_PLANE_BYTES, r, (uint32_t)(all | all >> 32 << 2));
    }
}

/* Single bits of group g to one plane: 32 bytes hold 256 columns, one bit each 32. */
QUANT_INLINE void pack_bits(const char *from, uint32_t g, uint32_t r, char *plane)
{
    uint64_t all = 0; /* even quads in the low half, odd ones in the high */
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; i++)
        all |= (two_quads_at(from, 2 * i) >> g & 0x0101010101010101u) << i;
    put_quad(plane, r, (uint32_t)(all | all >> 32 << 4));
}

/* Bit 4j + e of a word to bit quant_bit(j) of byte e: two swaps of the bits of a bit's number. */
QUANT_INLINE uint32_t deal_bits(uint32_t bits)
{
    uint32_t t = (bits ^ bits >> 14) & 0x0000ccccu;
    bits ^= t ^ t << 14;
    t = (bits ^ bits >> 7) & 0x00aa00aau;
    return bits ^ t ^ t << 7;
}

/* Group g of a row's block. */
QUANT_INLINE void pack_group(const enum weight_type type, const struct source_block *s, uint32_t g,
                             uint32_t r, char *group)
{
    const enum quant_code code = quant_code(type);
    if (code == CODE_BYTES)
        for (uint32_t j = 0; j < 8; j++) /* a signed byte + 128 is its top bit turned over */
            put_quad(group + j * QUANT_PLANE_BYTES, r, quad_at(s->low, j) ^ 0x80808080u);
    if (code == CODE_NIBBLES || code == CODE_NIBBLES_FIFTH || code == CODE_NIBBLES_PAIRS)
        pack_nibbles(type, s->low, g, r, group);
    if (code == CODE_NIBBLES_PAIRS)
        pack_pairs(s->high, g, r, group + 4 * QUANT_PLANE_BYTES);
    if (code == CODE_NIBBLES_FIFTH && quant_groups(type) == 1)
        put_quad(group + 4 * QUANT_PLANE_BYTES, r, deal_bits(quad_at(s->high, 0)));
    if (code == CODE_NIBBLES_FIFTH && quant_groups(type) > 1)
        pack_bits(s->high, g, r, group + 4 * QUANT_PLANE_BYTES);
    if (code == CODE_PAIRS || code == CODE_PAIRS_THIRD)
        pack_pairs(s->low, g, r, group);
    if (code == CODE_PAIRS_THIRD)
        pack_bits(s->high, g, r, group + 2 * QUANT_PLANE_BYTES);
}

/* Row r's quantised block into a panel block. */
QUANT_INLINE void pack_block(const enum weight_type type, const char *source, uint32_t r,
                             char *block)
{
    const struct source_block s = source_block(type, source);
    memcpy(block + r * HALF_BYTES, s.halves[0], HALF_BYTES);
    if (quant_has_least(type))
        memcpy(block + QUANT_HALVES_BYTES + r * HALF_BYTES, s.halves[1], HALF_BYTES);
    char *scales = block + quant_halves_bytes(type);
    for (uint32_t k = 0; k < quant_scale_bytes(type); k++)
        scales[k * PANEL_ROWS + r] = s.scales[k];
#pragma GCC unroll 8
    for (uint32_t g = 0; g < quant_groups(type); g++)
        pack_group(type, &s, g, r, block + quant_head_bytes(type) + g * quant_group_bytes(type));
}

/* One copy for each type, so that the moves are unrolled: three times as fast. */
QUANT_INLINE void pack_blocks(const enum weight_type type, const size_t source_bytes,
                              const char *source, size_t row_bytes, uint32_t rows,
                              uint32_t n_blocks, char *dst)
{
    const size_t packed_bytes = quant_block_bytes(type);
    for (uint32_t b = 0; b < n_blocks; b++) {
        char *block = dst + b * packed_bytes;
        if (rows < PANEL_ROWS)
            memset(block, 0, packed_bytes);
        for (uint32_t r = 0; r < rows; r++)
            pack_block(type, source + r * row_bytes + b * source_bytes, r, block);
    }
}

/* Float values are moved in squares of 16 rows x 16 columns, so that a cache line is met whole on both sides. */
QUANT_INLINE void pack_float_panel(const size_t value_bytes, const char *source, size_t row_bytes,
                                   uint32_t rows, uint32_t n_columns, char *dst)
{
    size_t column_bytes = value_bytes * PANEL_ROWS;
    if (rows < PANEL_ROWS)
        memset(dst, 0, column_bytes * n_columns);
    for (uint32_t c0 = 0; c0 < n_columns; c0 += 16) {
        uint32_t c_end = n_columns - c0 < 16 ? n_columns : c0 + 16;
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t c = c0; c < c_end; c++)
                memcpy(dst + c * column_bytes + r * value_bytes,
                       source + r * row_bytes + c * value_bytes, value_bytes);
    }
}

static void pack_panel(enum weight_type type, const char *source, size_t row_bytes, uint32_t rows,
                       uint32_t n_columns, char *dst)
{
    switch (type) {
#define PACK_F32(name, elements, value_bytes)                                                      \
    pack_float_panel(value_bytes, source, row_bytes, rows, n_columns, dst)
#define PACK_I8(name, elements, source_bytes)                                                      \
    pack_blocks(WEIGHT_##name, source_bytes, source, row_bytes, rows, n_columns / (elements), dst)
#define WEIGHT(name, text, ggml, elements, source_bytes, scale_at, least_at, packed, act)          \
    case WEIGHT_##name:                                                                            \
        PACK_##act(name, elements, source_bytes);                                                  \
        break;
#include "kernels/weight_type.def"
#undef WEIGHT
    case WEIGHT_TYPE_COUNT:
    default:
        break;
    }
}

void packed_pack(enum weight_type type, const void *source, uint32_t n_rows, uint32_t n_columns,
                 uint32_t panel_first, uint32_t panel_end, char *dst)
{
    size_t row_bytes = weight_row_bytes(type, n_columns);
    size_t panel_bytes = packed_panel_bytes(type, n_columns);
    for (uint32_t p = panel_first; p < panel_end; p++) {
        uint32_t left = n_rows - p * PANEL_ROWS;
        uint32_t rows = left < PANEL_ROWS ? left : PANEL_ROWS;
        pack_panel(type, (const char *)source + (size_t)p * PANEL_ROWS * row_bytes, row_bytes, rows,
                   n_columns, dst + p * panel_bytes);
    }
}
