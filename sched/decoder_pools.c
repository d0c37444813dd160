/* decoder_pools.c: the caches that a decoder computes over: their memory, layer by layer, and their
 * place in every plan.
 *
 * WHY     Lanes with the same weights are walked through together, so that the weights are read once
 *         a step; their pages stay apart, each in its own cache.
 * HOW     A cache that is attached gets the lowest free number. All plans of its K/V type admit its
 *         generation under that number, and each layer notes where its pages are; a sequence carries the number.
 * ALWAYS  (1) A layer's pages are found by its place in its group.                  layer_memory
 *         (2) What was detached is served by no plan.                             decoder_detach
 * OWNS    Nothing: memory is its cache's.
 * THREAD  engine, between steps
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/decoder_priv.h"

static struct kv_layer layer_memory(const struct decoder *d, uint32_t layer, uint32_t pool)
{
    const struct graph_layer *l = &d->model->graph->layers[layer];
    const struct decoder_group_memory *group = &d->pools[pool].groups[l->cache_group];
    enum kv_type type = d->pools[pool].type;
    return (struct kv_layer){
        .base = group->base + l->group_index * group->layer_stride,
        .head_stride = group->head_stride,
        .page_stride = group->page_bytes,
        .unit_stride = group->page_bytes / PAGE_UNITS,
        .v_offset = kv_k_part_bytes(type, l->d_qk),
        .n_heads = (uint16_t)l->n_k_heads,
        .d_qk = (uint16_t)l->d_qk,
        .d_v = (uint16_t)l->d_v,
        .type = type,
        .generation = d->pools[pool].generation,
    };
}

enum status decoder_attach(struct decoder *d, const struct decoder_memory *memory,
                           uint32_t *ret_pool, struct why *ret_why)
{
    uint32_t pool = 0;
    while (pool < DECODER_POOLS_MAX && (d->pools_attached >> pool & 1) != 0)
        pool++;
    if (pool == DECODER_POOLS_MAX)
        return why_set(ret_why, STATUS_UNAVAILABLE, "",
                       "%d caches share these weights already, which is the most that one step walks",
                       DECODER_POOLS_MAX);
    TRY(decoder_plan_type(d, memory->type, ret_why));
    d->pools_attached |= 1u << pool;
    d->pools[pool] = *memory;
    for (uint32_t l = 0; l < d->model->graph->n_layers; l++)
        d->layers[l].memory[pool] = layer_memory(d, l, pool);
    for (uint32_t i = 0; i < d->n_plans; i++) {
        if (d->plans[i].type != memory->type)
            continue;
        attention_plan_admit(d->plans[i].all, pool, memory->generation);
        attention_plan_admit(d->plans[i].asked, pool, memory->generation);
    }
    *ret_pool = pool;
    return OK;
}

void decoder_detach(struct decoder *d, uint32_t pool)
{
    ASSERT(pool < DECODER_POOLS_MAX && (d->pools_attached >> pool & 1) != 0);
    enum kv_type type = d->pools[pool].type;
    d->pools_attached &= ~(1u << pool);
    for (uint32_t i = 0; i < d->n_plans; i++) {
        if (d->plans[i].type != type)
            continue;
        attention_plan_dismiss(d->plans[i].all, pool);
        attention_plan_dismiss(d->plans[i].asked, pool);
    }
}

uint64_t decoder_workspace_bytes(const struct decoder *d, uint32_t pool)
{
    ASSERT(pool < DECODER_POOLS_MAX && (d->pools_attached >> pool & 1) != 0);
    enum kv_type type = d->pools[pool].type;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < d->n_plans; i++)
        if (d->plans[i].type == type)
            bytes += attention_plan_workspace_bytes(d->plans[i].all) +
                     attention_plan_workspace_bytes(d->plans[i].asked);
    return bytes;
}

enum status decoder_check(const struct decoder *d, uint32_t pool)
{
    ASSERT(pool < DECODER_POOLS_MAX);
    const uint8_t *generation = d->pools[pool].generation;
    enum kv_type type = d->pools[pool].type;
    for (uint32_t i = 0; i < d->n_plans; i++)
        if (d->plans[i].type == type &&
            (!attention_plan_admits(d->plans[i].all, pool, generation) ||
             !attention_plan_admits(d->plans[i].asked, pool, generation)))
            return STATUS_STALE_PLAN;
    return OK;
}

void decoder_copy_page(const struct decoder *d, uint32_t pool, uint32_t group, uint32_t from_page,
                       uint32_t to_page, uint32_t n_tokens)
{
    const struct graph_group *g = &d->model->graph->groups[group];
    const struct decoder_group_memory *memory = &d->pools[pool].groups[group];
    uint32_t units = (n_tokens + ATTEND_UNIT - 1) / ATTEND_UNIT;
    size_t bytes = memory->page_bytes / PAGE_UNITS * units;
    for (uint32_t l = 0; l < g->n_layers; l++) {
        for (uint32_t h = 0; h < g->n_heads; h++) {
            char *head = memory->base + l * memory->layer_stride + h * memory->head_stride;
            memcpy(head + to_page * memory->page_bytes, head + from_page * memory->page_bytes,
                   bytes);
        }
    }
}
