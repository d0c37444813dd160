/* engine_load.c: builds an engine's parts in order, and takes them down in reverse.
 *
 * HOW     kernels -> workers -> model (packed by the workers) -> cache (its head touched by the workers) ->
 *         decoder -> scheduler. Each needs only those before it.
 * OWNS    All of struct engine_parts.
 * THREAD  The one that calls engine_new; the pool of workers is handed over to the engine thread
 *         for good.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/engine_load.h"

#include "cache/pool_size.h"
#include "cache/pool_split.h"
#include "config/mem.h"
#include "sched/available_memory.h"

enum { READY_TOKENS = 8192 };

static enum status pick_kernels(const char *name, struct kernels *ret_kernels, struct why *ret_why)
{
    if (name != NULL && name[0] != '\0')
        return kernels_pick_named(name, ret_kernels, ret_why);
    kernels_pick(isa_available(), ret_kernels);
    return OK;
}

/* The namespace of a process without a registry: its identity and binding, so that restarts agree.
 * */
static enum status namespace_of(const struct manifest *m, uint8_t ret_namespace[SHA256_BYTES])
{
    struct sha256 *sha;
    TRY(sha256_new(&sha));
    sha256_start(sha);
    sha256_part(sha, 'I', m->identity, SHA256_BYTES);
    sha256_part(sha, 'B', m->binding_hash, SHA256_BYTES);
    sha256_finish(sha, ret_namespace);
    sha256_free(&sha);
    return OK;
}

uint32_t engine_parts_ready_blocks(const struct engine_parts *p, uint32_t group)
{
    uint32_t total = cache_blocks_total(p->cache, group);
    uint32_t tokens = p->context_max < READY_TOKENS ? p->context_max : READY_TOKENS;
    uint32_t context = cache_blocks_at_once(p->cache, group, tokens);
    return context < total ? context : total;
}

static void touch_share(void *arg, uint32_t tid)
{
    struct engine_parts *p = arg;
    for (uint32_t i = 0; i < cache_groups(p->cache); i++)
        cache_touch(p->cache, i, 0, engine_parts_ready_blocks(p, i), tid,
                    workers_count(p->workers));
}

_Static_assert((int)GRAPH_CACHE_GROUPS_MAX == (int)CACHE_GROUPS_MAX &&
                   (int)ENGINE_GROUPS_MAX == (int)CACHE_GROUPS_MAX,
               "graph, cache and counters know equally many groups");

/* The graph's groups, as the cache sees them. */
static void shape_groups(const struct model *model, struct cache_shape *shape)
{
    const struct graph *g = model->graph;
    shape->n_groups = g->n_groups;
    for (uint32_t i = 0; i < g->n_groups; i++)
        shape->groups[i] = (struct cache_group_shape){
            .n_layers = g->groups[i].n_layers,
            .n_heads = g->groups[i].n_heads,
            .page_bytes = decoder_page_bytes(g, i, model->kv_type),
            .window = g->groups[i].window,
        };
}

static enum status make_cache(struct engine_parts *p, const struct engine_options *o,
                              struct why *ret_why)
{
    const struct graph *g = p->model->graph;
    struct cache_shape shape = {
        .context_max = g->context,
        .append_max = o->prefill_chunk < g->context ? o->prefill_chunk : g->context,
        .sequences_max = o->running_max,
    };
    shape_groups(p->model, &shape);
    struct pool_size_limits limits = {.option_bytes = o->cache_bytes,
                                      .available_bytes = available_memory_bytes(),
                                      .block_bytes = pool_split_sequence_bytes(&shape, 1),
                                      .context_bytes =
                                          pool_split_sequence_bytes(&shape, g->context),
                                      .context = g->context};
    memcpy(shape.identity, p->model->manifest->identity, SHA256_BYTES);
    memcpy(shape.numerics, p->model->manifest->binding_hash, SHA256_BYTES);
    TRY(namespace_of(p->model->manifest, shape.namespace_id));
    TRY(pool_size(&limits, &shape.pool_bytes, ret_why));
    TRY(cache_new(&shape, &p->cache, ret_why));
    workers_run(p->workers, touch_share, p);
    return OK;
}

static enum status make_pass(struct engine_parts *p, const struct engine_options *o,
                             struct why *ret_why)
{
    struct pass_limits limits = {
        .running_max = o->running_max,
        .prefill_chunk = o->prefill_chunk,
        .context_max = p->context_max,
        .is_paced = true,
    };
    return pass_new(p->model, &p->kernels, p->workers, &limits, &p->pass, ret_why);
}

static enum status make_scheduler(struct engine_parts *p, const struct engine_options *o,
                                  scheduler_news_fn *on_news, void *user, struct why *ret_why)
{
    struct scheduler_limits limits = {
        .running_max = o->running_max,
        .context_max = p->context_max,
        .stop_ids = o->stop_ids,
        .n_stop_ids = o->n_stop_ids,
    };
    enum status s = scheduler_new(p->model, p->cache, &limits, on_news, user, &p->scheduler);
    return s == OK ? OK : why_set(ret_why, s, "", "no memory for the scheduler");
}

static enum status join(struct engine_parts *p, struct why *ret_why)
{
    struct decoder_memory pages = {0};
    for (uint32_t i = 0; i < p->model->graph->n_groups; i++) {
        struct cache_memory memory = cache_memory(p->cache, i);
        pages.groups[i] = (struct decoder_group_memory){.base = memory.base,
                                                        .layer_stride = memory.layer_stride,
                                                        .head_stride = memory.head_stride,
                                                        .page_bytes = memory.page_bytes};
    }
    TRY(namespace_of(p->model->manifest, pages.generation));
    return pass_join(p->pass, p->scheduler, &pages, ret_why);
}

enum status engine_parts_init(struct engine_parts *p, const struct gguf *gguf,
                              const struct engine_options *o, scheduler_news_fn *on_news,
                              void *user, struct why *ret_why)
{
    enum kv_type kv_type;
    TRY(model_kv_type(o->cache_type, &kv_type, ret_why));
    TRY(pick_kernels(o->isa, &p->kernels, ret_why));
    TRY(workers_new(o->n_threads, &p->workers, ret_why));
    TRY(model_load(gguf, kv_type, &p->kernels, p->workers, &p->model, ret_why));
    p->context_max = p->model->graph->context;
    TRY(make_cache(p, o, ret_why));
    TRY(make_pass(p, o, ret_why));
    TRY(make_scheduler(p, o, on_news, user, ret_why));
    return join(p, ret_why);
}

void engine_parts_release(struct engine_parts *p)
{
    pass_free(&p->pass);
    scheduler_free(&p->scheduler);
    cache_free(&p->cache);
    model_free(&p->model);
    workers_free(&p->workers);
}
