/* model.c: a graph, an identity and weights, put together.
 *
 * OWNS    The graph and the manifest, until the last holder lets go; a hold on the weights.
 * THREAD  The caller's, with the pool it hands in.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/model.h"

#include <stdatomic.h>

#include "config/mem.h"

static const char *const kv_names[KV_TYPE_COUNT] = {
    [KV_F16] = "f16", [KV_F32] = "f32", [KV_I8] = "int8"};

const char model_sum_type_name[] = "f32";

const char *model_kv_type_name(enum kv_type type)
{
    ASSERT(type < KV_TYPE_COUNT);
    return kv_names[type];
}

const char *model_query_type_name(enum kv_type type)
{
    return type == KV_I8 ? "int16 of f32" : "f32";
}

enum status model_kv_type(const char *name, enum kv_type *ret_type, struct why *ret_why)
{
    for (int type = 0; type < KV_TYPE_COUNT; type++)
        if (strcmp(name, kv_names[type]) == 0) {
            *ret_type = (enum kv_type)type;
            return OK;
        }
    return why_set(ret_why, STATUS_BAD_OPTION, "cache.type",
                   "cache.type is \"%s\": give f16, f32 or int8", name);
}

/* What the vector kernels need of every width. */
static enum status check_widths(const struct graph *g, struct why *ret_why)
{
    if (g->hidden % ACT_BLOCK != 0)
        return why_set(ret_why, STATUS_BAD_FILE, "embedding_length",
                       "embedding_length is %u: it must be a multiple of %d", g->hidden, ACT_BLOCK);
    if (g->ffn % ACT_BLOCK != 0)
        return why_set(ret_why, STATUS_BAD_FILE, "feed_forward_length",
                       "feed_forward_length is %u: it must be a multiple of %d", g->ffn, ACT_BLOCK);
    return OK;
}

enum status model_manifest(const struct graph *graph, const uint8_t checkpoint_sha256[SHA256_BYTES],
                           enum kv_type kv_type, const struct kernels *kernels,
                           struct manifest **ret_manifest, struct why *ret_why)
{
    char numerics[KERNEL_NUMERICS_ROOM];
    kernel_numerics(KERNEL_CONTRACT, numerics);
    struct manifest_layout layout = {.kv_type = model_kv_type_name(kv_type), .page_tokens = PAGE_TOKENS};
    struct manifest_binding binding = {.backend = isa_name(kernels->isa), .numerics = numerics};
    return manifest_new(graph, checkpoint_sha256, &layout, &binding, ret_manifest, ret_why);
}

/* Graph and manifest around m's weights; packs them first if there are none. */
static enum status fill(struct model *m, const struct gguf *gguf, const struct kernels *kernels,
                        struct workers *workers, struct why *ret_why)
{
    TRY(graph_from_gguf(gguf, &m->graph, ret_why));
    TRY(check_widths(m->graph, ret_why));
    if (m->weights == NULL)
        TRY(weights_pack(gguf, m->graph, workers, &m->weights, ret_why));
    return model_manifest(m->graph, m->weights->checkpoint_sha256, m->kv_type, kernels,
                          &m->manifest, ret_why);
}

static enum status load(const struct gguf *gguf, enum kv_type kv_type,
                        const struct kernels *kernels, struct workers *workers,
                        struct weights *weights, struct model **ret_model, struct why *ret_why)
{
    *ret_model = NULL;
    struct model *m = mem_zalloc(1, sizeof *m);
    if (m == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the model");
    m->holders = 1;
    m->kv_type = kv_type;
    m->weights = weights != NULL ? weights_hold(weights) : NULL;
    enum status s = fill(m, gguf, kernels, workers, ret_why);
    if (s == STATUS_NO_MEMORY)
        why_set(ret_why, s, "", "no memory for the model's weights");
    if (s != OK)
        model_free(&m);
    *ret_model = m;
    return s;
}

enum status model_load(const struct gguf *gguf, enum kv_type kv_type, const struct kernels *kernels,
                       struct workers *workers, struct model **ret_model, struct why *ret_why)
{
    return load(gguf, kv_type, kernels, workers, NULL, ret_model, ret_why);
}

enum status model_over(const struct gguf *gguf, enum kv_type kv_type, const struct kernels *kernels,
                       struct weights *weights, struct model **ret_model, struct why *ret_why)
{
    return load(gguf, kv_type, kernels, NULL, weights, ret_model, ret_why);
}

struct model *model_hold(struct model *m)
{
    atomic_fetch_add(&m->holders, 1);
    return m;
}

void model_free(struct model **model)
{
    struct model *m = *model;
    *model = NULL;
    if (m == NULL || atomic_fetch_sub(&m->holders, 1) > 1)
        return;
    graph_free(&m->graph);
    manifest_free(&m->manifest);
    weights_let_go(&m->weights);
    mem_free(m);
}

struct ledger_shape model_ledger_shape(const struct model *model, uint32_t group)
{
    /* What a K/V type takes: an element, and the scale of a token and head, of K and of V alike. */
    static const struct {
        uint64_t element, scale;
    } bytes[KV_TYPE_COUNT] = {[KV_F16] = {2, 0}, [KV_F32] = {4, 0}, [KV_I8] = {1, sizeof(float)}};
    const struct graph_group *g = &model->graph->groups[group];
    return (struct ledger_shape){.k_heads = g->n_heads,
                                 .v_heads = g->n_heads,
                                 .d_qk = g->d_qk,
                                 .d_v = g->d_v,
                                 .kv_bytes = bytes[model->kv_type].element,
                                 .kv_scale_bytes = bytes[model->kv_type].scale};
}
