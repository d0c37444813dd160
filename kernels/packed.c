/* packed.c: from a GGUF tensor's rows to panels of sixteen, and one row back.
 *
 * WHY     A vector unit wants the same column of sixteen weight rows side by side; the file has row behind row.
 * HOW     A block of the file is its scales (one or two halves) and then its values. Packing moves each scale to its
 *         row's place in the panel block and deals the values out four bytes (a quad) at a time. For the float types the
 *         "block" is one value. Q8_0 values are stored + 128, because the vector unit multiplies unsigned by signed.
 * ALWAYS  (1) Every byte of a panel is written, rows that do not exist as zero.   pack_block
 * THREAD  any; pure
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include "kernels/half.h"
#include "kernels/weight_type_priv.h"

enum { QUAD = 4, BLOCK = 32, HALF_BYTES = 2 };

/* Halves at the head of a block. */
static inline uint32_t block_scales(enum weight_type type)
{
    return type == WEIGHT_Q4_1 ? 2 : weight_type_takes_quants(type) ? 1 : 0;
}

/* Row r's quantised block into a panel block. */
static inline void pack_quant(enum weight_type type, const char *source, uint32_t value_bytes,
                              uint32_t r, char *dst)
{
    uint32_t scales = block_scales(type);
    for (uint32_t s = 0; s < scales; s++)
        memcpy(dst + (s * PANEL_ROWS + r) * HALF_BYTES, source + s * HALF_BYTES, HALF_BYTES);
    source += scales * HALF_BYTES;
    dst += scales * HALF_BYTES * PANEL_ROWS;
    uint32_t flip = type == WEIGHT_Q8_0 ? 0x80808080u : 0;
    for (uint32_t j = 0; j < value_bytes / QUAD; j++) {
        uint32_t quad;
        memcpy(&quad, source + j * QUAD, QUAD);
        quad ^= flip; /* a signed byte + 128 is its top bit turned over */
        memcpy(dst + (j * PANEL_ROWS + r) * QUAD, &quad, QUAD);
    }
}

/* One copy for each type, so that the moves are unrolled: three times as fast. */
static inline __attribute__((always_inline)) void
pack_quant_panel(const enum weight_type type, const uint32_t value_bytes, const char *source,
                 size_t row_bytes, uint32_t rows, uint32_t n_blocks, char *dst)
{
    const size_t source_bytes = value_bytes + block_scales(type) * HALF_BYTES;
    const size_t packed_bytes = source_bytes * PANEL_ROWS;
    for (uint32_t b = 0; b < n_blocks; b++) {
        char *block = dst + b * packed_bytes;
        if (rows < PANEL_ROWS)
            memset(block, 0, packed_bytes);
        for (uint32_t r = 0; r < rows; r++)
            pack_quant(type, source + r * row_bytes + b * source_bytes, value_bytes, r, block);
    }
}

/* Float values are moved in squares of 16 rows x 16 columns, so that a cache line is met whole on both sides. */
static inline __attribute__((always_inline)) void pack_float_panel(const size_t value_bytes,
                                                                   const char *source,
                                                                   size_t row_bytes, uint32_t rows,
                                                                   uint32_t n_columns, char *dst)
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
    case WEIGHT_Q4_0:
        pack_quant_panel(WEIGHT_Q4_0, 16, source, row_bytes, rows, n_columns / BLOCK, dst);
        break;
    case WEIGHT_Q4_1:
        pack_quant_panel(WEIGHT_Q4_1, 16, source, row_bytes, rows, n_columns / BLOCK, dst);
        break;
    case WEIGHT_Q8_0:
        pack_quant_panel(WEIGHT_Q8_0, 32, source, row_bytes, rows, n_columns / BLOCK, dst);
        break;
    case WEIGHT_F32:
        pack_float_panel(4, source, row_bytes, rows, n_columns, dst);
        break;
    case WEIGHT_F16:
    case WEIGHT_BF16:
    case WEIGHT_TYPE_COUNT:
    default:
        pack_float_panel(2, source, row_bytes, rows, n_columns, dst);
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

static float half_at(const char *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return half_to_float(h);
}

static void unpack_quant(enum weight_type type, const char *block, uint32_t r, float *ret)
{
    float d = half_at(block + r * HALF_BYTES);
    float m = type == WEIGHT_Q4_1 ? half_at(block + (PANEL_ROWS + r) * HALF_BYTES) : 0.0f;
    int offset = type == WEIGHT_Q8_0 ? 128 : type == WEIGHT_Q4_0 ? 8 : 0;
    const char *quads = block + block_scales(type) * HALF_BYTES * PANEL_ROWS;
    for (uint32_t c = 0; c < BLOCK; c++) {
        uint32_t byte_column = type == WEIGHT_Q8_0 ? c : c % 16;
        unsigned byte =
            (unsigned char)quads[(byte_column / QUAD * PANEL_ROWS + r) * QUAD + c % QUAD];
        unsigned value = type == WEIGHT_Q8_0 ? byte : c < 16 ? byte & 15u : byte >> 4;
        ret[c] = (float)((int)value - offset) * d;
        if (type == WEIGHT_Q4_1)
            ret[c] += m; /* not for the others: adding zero would turn -0 over */
    }
}

void packed_row(const struct packed_matrix *m, uint32_t row, float *ret_row)
{
    ASSERT(row < m->n_rows);
    const char *panel = m->panels + (size_t)(row / PANEL_ROWS) * m->panel_bytes;
    uint32_t r = row % PANEL_ROWS;
    const struct weight_type_row *t = weight_type_row(m->type);
    if (weight_type_takes_quants(m->type)) {
        for (uint32_t b = 0; b < m->n_columns / BLOCK; b++)
            unpack_quant(m->type, panel + (size_t)b * t->packed_bytes, r,
                         ret_row + (size_t)b * BLOCK);
        return;
    }
    for (uint32_t c = 0; c < m->n_columns; c++) {
        const char *value = panel + (size_t)c * t->packed_bytes + r * t->source_bytes;
        uint32_t bits = 0; /* little-endian: a half lands in the low bytes */
        memcpy(&bits, value, t->source_bytes);
        ret_row[c] = m->type == WEIGHT_F32   ? float_from_bits(bits)
                     : m->type == WEIGHT_F16 ? half_to_float((uint16_t)bits)
                                             : bf16_to_float((uint16_t)bits);
    }
}
