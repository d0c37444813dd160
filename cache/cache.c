/* Cache: makes the parts of one generation's paged K/V, and joins them.
 *
 * ALWAYS  (1) Every array is taken here; no other call of this folder allocates.      cache_new
 * OWNS    The pool's mapping, all records, the sequences.
 * THREAD  engine; cache_new and cache_free by whoever starts and stops it, cache_touch by any
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache.h"

#include "cache/cache_state.h"
#include "config/mem.h"

enum { PAGE_ALIGN = 64, BLOCKS_MAX = 1 << 30 };

/* Whole blocks that the pool holds. */
static enum status count_blocks(const struct cache_shape *shape, uint32_t *ret_blocks,
                                struct why *ret_why)
{
    const struct cache_group_shape *group = &shape->groups[0];
    size_t block_bytes;
    if (__builtin_mul_overflow(group->page_bytes, (size_t)group->n_heads, &block_bytes) ||
        __builtin_mul_overflow(block_bytes, (size_t)group->n_layers, &block_bytes))
        block_bytes = SIZE_MAX;
    size_t n = shape->pool_bytes / block_bytes;
    if (n == 0)
        return why_set(ret_why, STATUS_CACHE_TOO_SMALL, "cache.bytes",
                       "cache.bytes is %zu, one block of %d tokens takes %zu", shape->pool_bytes,
                       CACHE_PAGE_TOKENS, block_bytes);
    if (n > BLOCKS_MAX)
        return why_set(ret_why, STATUS_BAD_OPTION, "cache.bytes",
                       "cache.bytes is %zu, at most %zu can be used", shape->pool_bytes,
                       (size_t)BLOCKS_MAX * block_bytes);
    *ret_blocks = (uint32_t)n;
    return OK;
}

static enum status make_sequences(struct cache *cache)
{
    uint32_t each = cache_blocks_for(cache->shape.context_max), n = cache->shape.sequences_max;
    size_t n_places;
    if (__builtin_mul_overflow((size_t)each, (size_t)n, &n_places))
        return STATUS_NO_MEMORY;
    cache->sequences = mem_zalloc(n, sizeof *cache->sequences);
    cache->table_pages = mem_zalloc(n_places, sizeof *cache->table_pages);
    cache->table_spans = mem_zalloc(n_places, sizeof *cache->table_spans);
    if (!cache->sequences || !cache->table_pages || !cache->table_spans)
        return STATUS_NO_MEMORY;
    for (uint32_t i = n; i-- > 0;) {
        struct sequence *sequence = &cache->sequences[i];
        sequence->cache = cache;
        sequence->source = NO_PAGE;
        sequence->next_free = cache->free_sequences;
        cache->free_sequences = sequence;
        block_table_init(&sequence->table, cache->table_pages + (size_t)i * each,
                         cache->table_spans + (size_t)i * each, each);
    }
    return OK;
}

static enum status make_parts(struct cache *cache, uint32_t n_blocks)
{
    const struct cache_shape *shape = &cache->shape;
    memcpy(cache->scope.identity, shape->identity, SHA256_BYTES);
    memcpy(cache->scope.namespace_id, shape->namespace_id, SHA256_BYTES);
    memcpy(cache->scope.numerics, shape->numerics, SHA256_BYTES);
    TRY(sha256_new(&cache->sha));
    TRY(make_sequences(cache));
    TRY(block_store_init(&cache->store, n_blocks, &cache->memory));
    const struct cache_group_shape *group = &shape->groups[0];
    return pool_memory_init(&cache->memory, group->n_layers, group->n_heads, n_blocks,
                            group->page_bytes);
}

enum status cache_new(const struct cache_shape *shape, struct cache **ret_cache,
                      struct why *ret_why)
{
    const struct cache_group_shape *group = &shape->groups[0];
    ASSERT(shape->n_groups == 1 && group->window == 0); /* what is implemented */
    ASSERT(group->n_layers > 0 && group->n_heads > 0 && group->page_bytes > 0);
    ASSERT(group->page_bytes % PAGE_ALIGN == 0 && shape->context_max > 0 &&
           shape->sequences_max > 0);
    *ret_cache = NULL;
    uint32_t n_blocks = 0;
    TRY(count_blocks(shape, &n_blocks, ret_why));
    struct cache *cache = mem_zalloc(1, sizeof *cache);
    if (cache == NULL)
        return STATUS_NO_MEMORY;
    cache->shape = *shape;
    enum status status = make_parts(cache, n_blocks);
    if (status != OK) {
        cache_free(&cache);
        return why_set(ret_why, status, "cache.bytes", "no memory for a cache of %zu bytes",
                       shape->pool_bytes);
    }
    *ret_cache = cache;
    return OK;
}

void cache_free(struct cache **cache)
{
    struct cache *c = *cache;
    *cache = NULL;
    if (c == NULL)
        return;
    pool_memory_release(&c->memory);
    block_store_release(&c->store);
    mem_free(c->table_spans);
    mem_free(c->table_pages);
    mem_free(c->sequences);
    sha256_free(&c->sha);
    mem_free(c);
}

struct cache_memory cache_memory(const struct cache *cache, uint32_t group)
{
    ASSERT(group < cache->shape.n_groups);
    return cache->memory.view;
}

void cache_touch(const struct cache *cache, uint32_t group, uint32_t first, uint32_t end,
                 uint32_t share, uint32_t n_shares)
{
    ASSERT(group < cache->shape.n_groups);
    pool_memory_touch(&cache->memory, first, end, share, n_shares);
}

uint32_t cache_groups(const struct cache *cache)
{
    return cache->shape.n_groups;
}

uint32_t cache_blocks_total(const struct cache *cache, uint32_t group)
{
    ASSERT(group < cache->shape.n_groups);
    return cache->store.n_blocks;
}

uint32_t cache_blocks_available(const struct cache *cache, uint32_t group)
{
    ASSERT(group < cache->shape.n_groups);
    return page_pool_free_pages(cache->store.pages) + cache->store.n_cached;
}

void cache_set_namespace_state(struct cache *cache, enum namespace_state state)
{
    ASSERT(state != NAMESPACE_FREED || cache->totals.sequences == 0);
    namespace_set_state(&cache->space, state);
    if (state == NAMESPACE_FREED)
        cache_purge(cache);
}

enum namespace_state cache_namespace_state(const struct cache *cache)
{
    return cache->space.state;
}

void cache_purge(struct cache *cache)
{
    block_store_purge(&cache->store);
}
