/* model_shapes.c: shapes as they come: one head to all, uneven groups, layers that differ, windows shorter than a text.
 *
 * NOT     Free to change: tests/data/shapes-reference.json holds what another program makes of these very files.
 *         tests/support/shapes_reference.py writes it anew.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/model_shapes.h"

static const uint32_t uneven_heads[] = {1, 4, 2, 2};
static const uint32_t odd_k_map[] = {2, 0, 2, 1, 2, 2}, odd_v_map[] = {0, 1, 1, 2, 0, 0};
static const uint32_t layer_map[] = {0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1};

/* What is not named here is as in small_model_default. */
static const struct model_shape shapes[MODEL_SHAPES] = {
    {"llama", {.layers = 3, .heads = 6, .kv_heads = 2, .d_qk = 16, .d_v = 16}},
    {"rope-factors",
     {.layers = 3, .heads = 6, .kv_heads = 2, .d_qk = 32, .d_v = 16, .has_rope_factors = true}},
    {"layer-heads", /* another H_kv in each layer, d_qk unlike d_v */
     {.layers = 4, .heads = 4, .layer_kv_heads = uneven_heads, .d_qk = 16, .d_v = 48}},
    {"maps", /* K maps unlike V maps, groups of one to four, no two neighbours alike */
     {.layers = 2,
      .heads = 6,
      .kv_heads = 3,
      .d_qk = 32,
      .d_v = 16,
      .k_map = odd_k_map,
      .n_k_map = 6,
      .v_map = odd_v_map,
      .n_v_map = 6}},
    {"layer-maps", /* another map in each layer */
     {.architecture = "qwen3",
      .layers = 3,
      .heads = 6,
      .kv_heads = 2,
      .d_qk = 16,
      .d_v = 32,
      .k_map = layer_map,
      .n_k_map = 18,
      .v_map = layer_map,
      .n_v_map = 18}},
    {"qwen2",
     {.architecture = "qwen2",
      .layers = 2,
      .heads = 14,
      .kv_heads = 2,
      .d_qk = 16,
      .d_v = 16,
      .has_output = true}},
    {"qwen3",
     {.architecture = "qwen3", .layers = 2, .heads = 8, .kv_heads = 4, .d_qk = 32, .d_v = 32}},
    {"exaone4",
     {.architecture = "exaone4",
      .layers = 3,
      .heads = 8,
      .kv_heads = 2,
      .d_qk = 16,
      .d_v = 16,
      .has_rope_factors = true}},
    {"gemma3",
     {.architecture = "gemma3",
      .layers = 7,
      .heads = 4,
      .kv_heads = 1,
      .d_qk = 64,
      .d_v = 64,
      .window = 100}},
};

struct model_shape model_shape_at(size_t i)
{
    struct model_shape s = shapes[i];
    struct small_model usual = small_model_default();
    s.model.hidden = usual.hidden;
    s.model.ffn = usual.ffn;
    s.model.vocab = usual.vocab;
    s.model.context = usual.context;
    s.model.seed = usual.seed;
    return s;
}

bool model_shape_find(const char *name, struct small_model *ret_model)
{
    for (size_t i = 0; i < MODEL_SHAPES; i++)
        if (strcmp(shapes[i].name, name) == 0) {
            *ret_model = model_shape_at(i).model;
            return true;
        }
    return false;
}
