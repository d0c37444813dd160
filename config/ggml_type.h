/* ggml_type.h: names and block sizes of the tensor types a GGUF file may hold, from
 * ggml_type.def. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CONFIG_GGML_TYPE_H
#define FOLDKV_CONFIG_GGML_TYPE_H

#include "config/base.h"

enum ggml_type_id {
#define GGML_TYPE(name, id, block_elements, block_bytes) GGML_##name = id,
#include "config/ggml_type.def"
#undef GGML_TYPE
};

struct ggml_type {
    uint32_t id;
    const char *name;
    uint32_t block_elements, block_bytes;
};

/* NULL if the id is not known. */
const struct ggml_type *ggml_type_find(uint32_t id);

#endif
