/* model_shapes.h: small models by name: every architecture, and every arrangement of heads that a checkpoint may have. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_MODEL_SHAPES_H
#define FOLDKV_TESTS_MODEL_SHAPES_H

#include "tests/support/small_model.h"

enum { MODEL_SHAPES = 9 };

struct model_shape {
    const char *name;
    struct small_model model; /* whole but for types: those are F32 */
};

/* i below MODEL_SHAPES. */
struct model_shape model_shape_at(size_t i);
/* False if there is none of that name. */
bool model_shape_find(const char *name, struct small_model *ret_model);

#endif
