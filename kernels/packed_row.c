/* packed_row.c: one row of a packed matrix as floats.
 *
 * HOW     Values times their scale, plus their least value, each rounded once, in the order that GGUF's reference readers take.
 * THREAD  any; pure
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"

#include "kernels/quant_element.h"
#include "kernels/weight_type_priv.h"

/* The row's block: one call for each type, so that its layout folds away. */
QUANT_INLINE void unpack_block(const enum weight_type type, const char *block, uint32_t r,
                               float *ret)
{
    for (uint32_t g = 0; g < quant_groups(type); g++, ret += QUANT_COLUMNS) {
        const char *group = block + quant_head_bytes(type) + g * quant_group_bytes(type);
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t s = quant_is_fine(type) ? 2 * g + h : g;
            float d = quant_scale(type, block, r, s);
            float m = quant_least(type, block, r, s);
            for (uint32_t c = h * ACT_BLOCK; c < (h + 1) * ACT_BLOCK; c++) {
                ret[c] = d * (float)quant_element(type, group, r, c);
                if (quant_has_least(type))
                    ret[c] += m; /* not for the others: adding zero would turn -0 over */
            }
        }
    }
}

QUANT_INLINE void unpack_blocks(const enum weight_type type, const char *panel, uint32_t r,
                                uint32_t n_blocks, float *ret)
{
    for (uint32_t b = 0; b < n_blocks; b++)
        unpack_block(type, panel + b * quant_block_bytes(type), r,
                     ret + (size_t)b * quant_groups(type) * QUANT_COLUMNS);
}

static void unpack_floats(enum weight_type type, const char *panel, uint32_t r, uint32_t n_columns,
                          float *ret)
{
    const struct weight_type_row *t = weight_type_row(type);
    for (uint32_t c = 0; c < n_columns; c++) {
        uint32_t bits = 0; /* little-endian: a half lands in the low bytes */
        memcpy(&bits, panel + (size_t)c * t->packed_bytes + r * t->source_bytes, t->source_bytes);
        ret[c] = type == WEIGHT_F32   ? float_from_bits(bits)
                 : type == WEIGHT_F16 ? half_to_float((uint16_t)bits)
                                      : bf16_to_float((uint16_t)bits);
    }
}

void packed_row(const struct packed_matrix *m, uint32_t row, float *ret_row)
{
    ASSERT(row < m->n_rows);
    const char *panel = m->panels + (size_t)(row / PANEL_ROWS) * m->panel_bytes;
    uint32_t r = row % PANEL_ROWS;
    switch (m->type) {
#define UNPACK_F32(name, elements) unpack_floats(WEIGHT_##name, panel, r, m->n_columns, ret_row)
#define UNPACK_I8(name, elements)                                                                  \
    unpack_blocks(WEIGHT_##name, panel, r, m->n_columns / (elements), ret_row)
#define WEIGHT(name, text, ggml, elements, source, scale_at, least_at, packed, act)                \
    case WEIGHT_##name:                                                                            \
        UNPACK_##act(name, elements);                                                              \
        break;
#include "kernels/weight_type.def"
#undef WEIGHT
    case WEIGHT_TYPE_COUNT:
    default:
        break;
    }
}
