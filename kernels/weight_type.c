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
#define WEIGHT(name, text, ggml, elements, source, packed, act)                                    \
    {text, ggml, elements, source, packed, ACT_##act},
#include "kernels/weight_type.def"
#undef WEIGHT
};

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
