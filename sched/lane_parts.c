/* lane_parts.c: builds a lane's parts in order, and takes them down in reverse.
 *
 * HOW     kernels -> model (packed by the workers, over shared weights, or another lane's) -> cache (its
 *         head touched by the workers) -> scheduler. Each needs only those before it.
 * OWNS    All of struct lane_parts.
 * THREAD  The loader's; from engine_add on the scheduler and the cache are the engine thread's.
 */
// SPDX-License-Identifier: Apache-2.0
#include "sched/lane_parts.h"

#include "cache/cache.h"
#include "cache/pool_size.h"
#include "cache/pool_split.h"
#include "config/mem.h"
#include "sched/available_memory.h"

enum { READY_TOKENS = 8192 };

static enum status pick_kernels(const struct lane_terms *terms, struct kernels *ret_kernels,
                                struct why *ret_why)
{
    if (terms->kernels != NULL) {
        *ret_kernels = *terms->kernels;
        return OK;
    }
    if (terms->isa != NULL && terms->isa[0] != '\0')
        return kernels_pick_named(terms->isa, ret_kernels, ret_why);
    kernels_pick(isa_available(), ret_kernels);
    return OK;
}

enum status lane_parts_namespace(const struct manifest *m, uint8_t ret_namespace[SHA256_BYTES])
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

static enum status take_namespace(struct lane_parts *p, const struct lane_terms *terms)
{
    static const uint8_t none[SHA256_BYTES];
    if (memcmp(terms->namespace_id, none, SHA256_BYTES) == 0)
        return lane_parts_namespace(p->model->manifest, p->namespace_id);
    memcpy(p->namespace_id, terms->namespace_id, SHA256_BYTES);
    return OK;
}

uint32_t lane_parts_ready_blocks(const struct lane_parts *p, uint32_t group)
{
    uint32_t total = cache_blocks_total(p->cache, group);
    uint32_t tokens = p->context_max < READY_TOKENS ? p->context_max : READY_TOKENS;
    uint32_t context = cache_blocks_at_once(p->cache, group, tokens);
    return context < total ? context : total;
}

struct touching {
    const struct lane_parts *parts;
    uint32_t n_threads;
};

static void touch_share(void *arg, uint32_t tid)
{
    const struct touching *t = arg;
    for (uint32_t i = 0; i < cache_groups(t->parts->cache); i++)
        cache_touch(t->parts->cache, i, 0, lane_parts_ready_blocks(t->parts, i), tid, t->n_threads);
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

static enum status make_cache(struct lane_parts *p, uint64_t cache_bytes,
                              const struct lane_limits *o, struct workers *workers,
                              struct why *ret_why)
{
    const struct graph *g = p->model->graph;
    struct cache_shape shape = {
        .context_max = g->context,
        .append_max = o->prefill_chunk < g->context ? o->prefill_chunk : g->context,
        .sequences_max = o->running_max,
    };
    shape_groups(p->model, &shape);
    struct pool_size_limits limits = {.option_bytes = cache_bytes,
                                      .available_bytes = available_memory_bytes(),
                                      .block_bytes = pool_split_sequence_bytes(&shape, 1),
                                      .context_bytes =
                                          pool_split_sequence_bytes(&shape, g->context),
                                      .context = g->context};
    memcpy(shape.identity, p->model->manifest->identity, SHA256_BYTES);
    memcpy(shape.numerics, p->model->manifest->binding_hash, SHA256_BYTES);
    memcpy(shape.namespace_id, p->namespace_id, SHA256_BYTES);
    TRY(pool_size(&limits, &shape.pool_bytes, ret_why));
    enum status s = cache_new(&shape, &p->cache, ret_why);
    if (s == STATUS_NO_MEMORY)
        why_set(ret_why, s, "", "no memory for a page pool of %zu bytes", shape.pool_bytes);
    TRY(s);
    if (workers == NULL)
        return OK;
    struct touching touching = {p, workers_count(workers)};
    workers_run(workers, touch_share, &touching);
    return OK;
}

static enum status make_scheduler(struct lane_parts *p, const struct lane_terms *terms,
                                  const struct lane_limits *o, scheduler_news_fn *on_news,
                                  void *user, struct why *ret_why)
{
    struct scheduler_limits limits = {
        .running_max = o->running_max,
        .context_max = p->context_max,
        .stop_ids = terms->stop_ids,
        .n_stop_ids = terms->n_stop_ids,
    };
    enum status s = scheduler_new(p->model, p->cache, &limits, on_news, user, &p->scheduler);
    return s == OK ? OK : why_set(ret_why, s, "", "no memory for the scheduler");
}

struct decoder_memory lane_parts_memory(const struct lane_parts *p)
{
    struct decoder_memory pages = {0};
    for (uint32_t i = 0; i < p->model->graph->n_groups; i++) {
        struct cache_memory memory = cache_memory(p->cache, i);
        pages.groups[i] = (struct decoder_group_memory){.base = memory.base,
                                                        .layer_stride = memory.layer_stride,
                                                        .head_stride = memory.head_stride,
                                                        .page_bytes = memory.page_bytes};
    }
    pages.type = p->model->kv_type;
    memcpy(pages.generation, p->namespace_id, SHA256_BYTES);
    return pages;
}

static enum status make_model(struct lane_parts *p, const struct gguf *gguf,
                              const struct lane_terms *terms, struct workers *workers,
                              struct weights *weights, struct why *ret_why)
{
    enum kv_type kv_type;
    TRY(model_kv_type(terms->cache_type, &kv_type, ret_why));
    TRY(pick_kernels(terms, &p->kernels, ret_why));
    if (weights != NULL)
        return model_over(gguf, kv_type, &p->kernels, weights, &p->model, ret_why);
    return model_load(gguf, kv_type, &p->kernels, workers, &p->model, ret_why);
}

enum status lane_parts_init(struct lane_parts *p, const struct gguf *gguf,
                            const struct lane_terms *terms, const struct lane_limits *limits,
                            struct workers *workers, struct weights *weights,
                            scheduler_news_fn *on_news, void *user, struct why *ret_why)
{
    if (p->model == NULL)
        TRY(make_model(p, gguf, terms, workers, weights, ret_why));
    p->context_max = p->model->graph->context;
    if (take_namespace(p, terms) != OK)
        return why_set(ret_why, STATUS_NO_MEMORY, "", "no memory for the cache's name");
    TRY(make_cache(p, terms->cache_bytes, limits, workers, ret_why));
    return make_scheduler(p, terms, limits, on_news, user, ret_why);
}

void lane_parts_release_pool(struct lane_parts *p)
{
    scheduler_free(&p->scheduler);
    cache_free(&p->cache);
}

void lane_parts_release(struct lane_parts *p)
{
    lane_parts_release_pool(p);
    model_free(&p->model);
}
