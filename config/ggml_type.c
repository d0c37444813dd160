/* ggml_type.c: ggml_type.def read as a table. */
// SPDX-License-Identifier: Apache-2.0
#include "config/ggml_type.h"

static const struct ggml_type types[] = {
#define GGML_TYPE(name, id, block_elements, block_bytes) {id, #name, block_elements, block_bytes},
#include "config/ggml_type.def"
#undef GGML_TYPE
};

const struct ggml_type *ggml_type_find(uint32_t id)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].id == id)
            return &types[i];
    }
    return NULL;
}
