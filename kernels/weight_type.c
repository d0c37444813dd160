/* weight_type.c: weight_type.def read as tables.
 *
 * THREAD  any; pure
 */
// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul.h"
#include "kernels/weight_type_priv.h"

static const struct weight_type_row rows[WEIGHT_TYPE_COUNT] = {
#define ACT_I8 true
#define ACT_F32 false
#define WEIGHT(name, text, ggml, elements, source, scale_at, least_at, packed, act)                \
    {text, ggml, elements, source, {scale_at, least_at}, packed, ACT_##act},
#include "kernels/weight_type.def"
#undef WEIGHT
};

const int8_t weight_type_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

const struct weight_type_row *weight_type_row(enum weight_type type)
{
    ASSERT(type < WEIGHT_TYPE_COUNT);
    return &rows[type];
}

const char *weight_type_name(enum weight_type type)
{
    return weight_type_row(type)->name;
}

bool weight_type_from_ggml(uint32_t ggml_id, enum weight_type *ret_type)
{
    for (int i = 0; i < WEIGHT_TYPE_COUNT; i++)
        if (rows[i].ggml_id == ggml_id) {
            *ret_type = (enum weight_type)i;
            return true;
        }
    return false;
}

bool weight_type_takes_quants(enum weight_type type)
{
    return weight_type_row(type)->takes_quants;
}

uint32_t weight_type_block(enum weight_type type)
{
    return weight_type_row(type)->elements;
}

uint32_t weight_type_halves(enum weight_type type, uint32_t ret_at[2])
{
    const struct weight_type_row *row = weight_type_row(type);
    uint32_t n = 0;
    for (; n < 2 && row->halves_at[n] >= 0; n++)
        ret_at[n] = (uint32_t)row->halves_at[n];
    return n;
}

size_t weight_row_bytes(enum weight_type type, uint32_t n_columns)
{
    const struct weight_type_row *row = weight_type_row(type);
    if (n_columns % row->elements != 0)
        return 0;
    return (size_t)(n_columns / row->elements) * row->source_bytes;
}

uint32_t packed_panels(uint32_t n_rows)
{
    return n_rows / PANEL_ROWS + (n_rows % PANEL_ROWS != 0);
}

size_t packed_panel_bytes(enum weight_type type, uint32_t n_columns)
{
    const struct weight_type_row *row = weight_type_row(type);
    return (size_t)(n_columns / row->elements) * row->packed_bytes;
}
