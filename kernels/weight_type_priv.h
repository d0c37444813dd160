/* weight_type_priv.h: one row of weight_type.def as data, for weight_type.c and packed.c. Any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_KERNELS_WEIGHT_TYPE_PRIV_H
#define FOLDKV_KERNELS_WEIGHT_TYPE_PRIV_H

#include "kernels/matmul.h"

struct weight_type_row {
    const char *name;
    uint32_t ggml_id;
    uint32_t elements;     /* columns of a block */
    uint32_t source_bytes; /* of one row's block in the file */
    int32_t halves_at[2];  /* places of the f16 scale and that of the least value in it; -1: none */
    uint32_t packed_bytes; /* of 16 rows' blocks */
    bool takes_quants;
};

const struct weight_type_row *weight_type_row(enum weight_type type);

#endif
