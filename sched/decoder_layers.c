/* decoder_layers.c: what the layers share: schedules of attention, rotations.
 *
 * WHY     Layers may differ in everything: heads, maps, windows, rotations. What is alike must be
 *         made once a step all the same.
 * HOW     Each layer looks for a plan and a rotation like its own among those of the layers before
 *         it, and makes one if there is none. A plan belongs to a cache group, since its pages are
 *         the group's; layers of one group with other maps have another plan over the same pages.
 * ALWAYS  A plan is made for one architecture hash.                                   make_plan
 * NOT     The pages that plans are run over: decoder_pools.c.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

#include "config/mem.h"
#include "kernels/elementary.h"

static bool is_same_plan(const struct graph_layer *a, const struct graph_layer *b)
{
    size_t map_bytes = a->n_query_heads * sizeof *a->query_to_k_head;
    return a->cache_group == b->cache_group && a->n_query_heads == b->n_query_heads &&
           memcmp(&a->attention_scale, &b->attention_scale, sizeof a->attention_scale) == 0 &&
           memcmp(a->query_to_k_head, b->query_to_k_head, map_bytes) == 0 &&
           memcmp(a->query_to_v_head, b->query_to_v_head, map_bytes) == 0;
}

static enum status make_plan(const struct decoder *d, uint32_t layer, enum kv_type type,
                             struct layer_plan *plan, struct why *ret_why)
{
    const struct graph_layer *l = &d->model->graph->layers[layer];
    struct attention_shape shape = {
        .n_query_heads = l->n_query_heads,
        .n_kv_heads = l->n_k_heads,
        .d_qk = l->d_qk,
        .d_v = l->d_v,
        .window = l->window,
        .type = type,
        .scale = l->attention_scale,
        .query_to_k_head = l->query_to_k_head,
        .query_to_v_head = l->query_to_v_head,
        .n_threads = workers_count(d->workers),
        .rows_max = d->limits.rows_max,
        .sequences_max = d->limits.sequences_max,
        .context_max = d->limits.context_max,
    };
    memcpy(shape.architecture_hash, d->model->manifest->architecture_hash, SHA256_BYTES);
    TRY(attention_plan_new(&shape, &d->kernels->attention, &plan->all, ret_why));
    TRY(attention_plan_new(&shape, &d->kernels->attention, &plan->asked, ret_why));
    plan->type = type;
    plan->group = l->cache_group;
    plan->layer = layer;
    return OK;
}

static void free_plan(struct layer_plan *plan)
{
    attention_plan_free(&plan->all);
    attention_plan_free(&plan->asked);
}

static bool is_plan_for(const struct decoder *d, const struct layer_plan *plan, uint32_t layer,
                        enum kv_type type)
{
    const struct graph_layer *layers = d->model->graph->layers;
    return plan->type == type && is_same_plan(&layers[layer], &layers[plan->layer]);
}

static enum status find_plan(struct decoder *d, uint32_t layer, enum kv_type type,
                             struct why *ret_why)
{
    uint32_t i = 0;
    while (i < d->n_plans && !is_plan_for(d, &d->plans[i], layer, type))
        i++;
    if (i == d->n_plans) {
        d->n_plans++; /* half made, it is freed all the same */
        TRY(make_plan(d, layer, type, &d->plans[i], ret_why));
    }
    d->layers[layer].plans[type] = &d->plans[i];
    return OK;
}

enum status decoder_plan_type(struct decoder *d, enum kv_type type, struct why *ret_why)
{
    uint32_t n_before = d->n_plans, n_layers = d->model->graph->n_layers;
    if (d->layers[0].plans[type] != NULL)
        return OK;
    enum status s = OK;
    for (uint32_t i = 0; i < n_layers && s == OK; i++)
        s = find_plan(d, i, type, ret_why);
    if (s == OK)
        return OK;
    while (d->n_plans > n_before)
        free_plan(&d->plans[--d->n_plans]);
    for (uint32_t i = 0; i < n_layers; i++)
        d->layers[i].plans[type] = NULL;
    return s;
}

static bool is_same_rope(const struct rope_table *table, const struct graph_layer *l)
{
    return memcmp(&table->base, &l->rope_base, sizeof table->base) == 0 &&
           table->n_dims == l->rope_dims && table->has_factors == l->has_rope_factors;
}

/* base^(-2i / dims) for the i-th pair, divided by its factor if there is one. */
static enum status make_rope(struct decoder *d, const struct graph_layer *l)
{
    struct rope_table *table = &d->ropes[d->n_ropes++];
    *table = (struct rope_table){
        .base = l->rope_base, .n_dims = l->rope_dims, .has_factors = l->has_rope_factors};
    uint32_t half = l->rope_dims / 2;
    const struct buffer_row buffers[] = {
        {(void **)&table->frequency, half, sizeof(double)},
        {(void **)&table->cosine, (size_t)d->limits.rows_max * half, sizeof(float)},
        {(void **)&table->sine, (size_t)d->limits.rows_max * half, sizeof(float)},
    };
    TRY(decoder_take_buffers(buffers, ARRAY_LEN(buffers)));
    const float *factors = d->model->graph->rope_factors;
    double log_base = elementary_log(l->rope_base);
    for (uint32_t i = 0; i < half; i++) {
        table->frequency[i] = elementary_exp(-log_base * 2.0 * (double)i / (double)l->rope_dims);
        if (l->has_rope_factors)
            table->frequency[i] /= (double)factors[i];
    }
    return OK;
}

static enum status find_rope(struct decoder *d, uint32_t layer)
{
    const struct graph_layer *l = &d->model->graph->layers[layer];
    if (!l->is_rotated)
        return OK;
    uint32_t i = 0;
    while (i < d->n_ropes && !is_same_rope(&d->ropes[i], l))
        i++;
    if (i == d->n_ropes)
        TRY(make_rope(d, l));
    d->layers[layer].rope = &d->ropes[i];
    return OK;
}

enum status decoder_layers_init(struct decoder *d, struct why *ret_why)
{
    uint32_t n = d->model->graph->n_layers;
    d->layers = mem_zalloc(n, sizeof *d->layers);
    d->plans = mem_zalloc((size_t)n * KV_TYPE_COUNT, sizeof *d->plans);
    d->ropes = mem_zalloc(n, sizeof *d->ropes);
    if (d->layers == NULL || d->plans == NULL || d->ropes == NULL)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the decoder's layers");
    for (uint32_t i = 0; i < n; i++) {
        if (find_rope(d, i) != OK)
            return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the decoder's rotations");
        d->layers[i].rows_by_heads =
            decoder_rows_by_heads(&d->model->graph->layers[i], workers_count(d->workers));
    }
    return decoder_plan_type(d, d->model->kv_type, ret_why);
}

void decoder_layers_release(struct decoder *d)
{
    for (uint32_t i = 0; i < d->n_plans; i++)
        free_plan(&d->plans[i]);
    for (uint32_t i = 0; i < d->n_ropes; i++) {
        mem_free(d->ropes[i].frequency);
        mem_free(d->ropes[i].cosine);
        mem_free(d->ropes[i].sine);
    }
    mem_free(d->plans);
    mem_free(d->ropes);
    mem_free(d->layers);
}
