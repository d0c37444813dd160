/* Cache: makes the parts of one generation's paged K/V, and joins them.
 *
 * ALWAYS  (1) Every array is taken here; no other call of this folder allocates.      cache_new
 * OWNS    The pool's mapping, all records, the sequences.
 * THREAD  engine; cache_new and cache_free by whoever starts and stops it, cache_touch and
 *         cache_measured_bytes by any
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache.h"

#include "cache/cache_state.h"
#include "cache/pool_split.h"
#include "config/mem.h"

enum { PAGE_ALIGN = 64 };

/* One group's tables, all sequences' in one array each. */
static enum status make_tables(struct cache *cache, uint32_t g)
{
    struct cache_group *group = &cache->groups[g];
    uint32_t each = cache_blocks_for(cache->shape.context_max), n = cache->shape.sequences_max;
    size_t n_places;
    if (__builtin_mul_overflow((size_t)each, (size_t)n, &n_places))
        return STATUS_NO_MEMORY;
    bool has_serials = group->window > 0;
    group->table_pages = mem_zalloc(n_places, sizeof *group->table_pages);
    group->table_spans = mem_zalloc(n_places, sizeof *group->table_spans);
    group->table_serials = has_serials ? mem_zalloc(n_places, sizeof *group->table_serials) : NULL;
    if (!group->table_pages || !group->table_spans || (has_serials && !group->table_serials))
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        struct sequence_group *part = &cache->sequences[i].groups[g];
        size_t at = (size_t)i * each;
        part->source = NO_PAGE;
        part->serials = has_serials ? group->table_serials + at : NULL;
        block_table_init(&part->table, group->table_pages + at, group->table_spans + at, each);
    }
    return OK;
}

static enum status make_sequences(struct cache *cache)
{
    uint32_t n = cache->shape.sequences_max;
    size_t n_parts;
    if (__builtin_mul_overflow((size_t)n, (size_t)cache->n_groups, &n_parts))
        return STATUS_NO_MEMORY;
    cache->sequences = mem_zalloc(n, sizeof *cache->sequences);
    cache->sequence_groups = mem_zalloc(n_parts, sizeof *cache->sequence_groups);
    if (!cache->sequences || !cache->sequence_groups)
        return STATUS_NO_MEMORY;
    for (uint32_t i = n; i-- > 0;) {
        struct sequence *sequence = &cache->sequences[i];
        sequence->cache = cache;
        sequence->groups = cache->sequence_groups + (size_t)i * cache->n_groups;
        sequence->next_free = cache->free_sequences;
        cache->free_sequences = sequence;
    }
    return OK;
}

static enum status make_group(struct cache *cache, uint32_t g, uint32_t n_blocks)
{
    const struct cache_shape *shape = &cache->shape;
    const struct cache_group_shape *layers = &shape->groups[g];
    struct cache_group *group = &cache->groups[g];
    group->window = layers->window;
    group->scope.cache_group = g;
    memcpy(group->scope.identity, shape->identity, SHA256_BYTES);
    memcpy(group->scope.namespace_id, shape->namespace_id, SHA256_BYTES);
    memcpy(group->scope.numerics, shape->numerics, SHA256_BYTES);
    group->matches = mem_zalloc(cache_blocks_for(shape->context_max), sizeof *group->matches);
    if (group->matches == NULL)
        return STATUS_NO_MEMORY;
    TRY(make_tables(cache, g));
    TRY(block_store_init(&group->store, n_blocks, &group->memory));
    return pool_memory_init(&group->memory, layers->n_layers, layers->n_heads, n_blocks,
                            layers->page_bytes);
}

static enum status make_parts(struct cache *cache, const uint32_t *n_blocks)
{
    TRY(sha256_new(&cache->sha));
    TRY(make_sequences(cache));
    for (uint32_t g = 0; g < cache->n_groups; g++)
        TRY(make_group(cache, g, n_blocks[g]));
    return OK;
}

static void check_shape(const struct cache_shape *shape)
{
    ASSERT(shape->n_groups > 0 && shape->n_groups <= CACHE_GROUPS_MAX);
    ASSERT(shape->context_max > 0 && shape->sequences_max > 0);
    for (uint32_t g = 0; g < shape->n_groups; g++) {
        const struct cache_group_shape *group = &shape->groups[g];
        ASSERT(group->n_layers > 0 && group->n_heads > 0 && group->page_bytes > 0 &&
               group->page_bytes % PAGE_ALIGN == 0);
    }
}

enum status cache_new(const struct cache_shape *shape, struct cache **ret_cache,
                      struct why *ret_why)
{
    check_shape(shape);
    *ret_cache = NULL;
    uint32_t n_blocks[CACHE_GROUPS_MAX];
    TRY(pool_split(shape, n_blocks, ret_why));
    struct cache *cache = mem_zalloc(1, sizeof *cache);
    if (cache == NULL)
        return STATUS_NO_MEMORY;
    cache->shape = *shape;
    cache->n_groups = shape->n_groups;
    if (shape->append_max == 0 || shape->append_max > shape->context_max)
        cache->shape.append_max = shape->context_max;
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
    for (uint32_t g = 0; g < c->n_groups; g++) {
        struct cache_group *group = &c->groups[g];
        pool_memory_release(&group->memory);
        block_store_release(&group->store);
        mem_free(group->table_serials);
        mem_free(group->table_spans);
        mem_free(group->table_pages);
        mem_free(group->matches);
    }
    mem_free(c->sequence_groups);
    mem_free(c->sequences);
    sha256_free(&c->sha);
    mem_free(c);
}

static const struct cache_group *group_of(const struct cache *cache, uint32_t group)
{
    ASSERT(group < cache->n_groups);
    return &cache->groups[group];
}

struct cache_memory cache_memory(const struct cache *cache, uint32_t group)
{
    return group_of(cache, group)->memory.view;
}

void cache_touch(const struct cache *cache, uint32_t group, uint32_t first, uint32_t end,
                 uint32_t share, uint32_t n_shares)
{
    pool_memory_touch(&group_of(cache, group)->memory, first, end, share, n_shares);
}

uint64_t cache_measured_bytes(const struct cache *cache, uint32_t group)
{
    return pool_memory_measure(&group_of(cache, group)->memory);
}

const struct cache_shape *cache_shape(const struct cache *cache)
{
    return &cache->shape;
}

uint32_t cache_groups(const struct cache *cache)
{
    return cache->n_groups;
}

uint32_t cache_blocks_total(const struct cache *cache, uint32_t group)
{
    return group_of(cache, group)->store.n_blocks;
}

uint32_t cache_blocks_available(const struct cache *cache, uint32_t group)
{
    const struct block_store *store = &group_of(cache, group)->store;
    return block_store_free(store) + store->n_cached;
}

uint32_t cache_tokens_max(const struct cache *cache)
{
    uint32_t blocks[CACHE_GROUPS_MAX];
    for (uint32_t g = 0; g < cache->n_groups; g++)
        blocks[g] = cache->groups[g].store.n_blocks - cache->groups[g].store.n_spare;
    return pool_split_tokens(&cache->shape, blocks);
}

void cache_set_quota(struct cache *cache, uint32_t blocks)
{
    uint32_t most[CACHE_GROUPS_MAX];
    ASSERT(blocks > 0);
    (void)pool_split_of(&cache->shape, blocks, most);
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        struct block_store *store = &cache->groups[g].store;
        uint32_t n_spare = store->n_blocks > most[g] ? store->n_blocks - most[g] : 0;
        ASSERT(n_spare <= store->n_spare || store->n_used + store->n_cached == 0);
        store->n_spare = n_spare;
    }
}

uint32_t cache_blocks_at_once(const struct cache *cache, uint32_t group, uint32_t n_tokens)
{
    return cache_window_blocks(group_of(cache, group)->window, cache->shape.append_max, n_tokens);
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
    for (uint32_t g = 0; g < cache->n_groups; g++)
        block_store_purge(&cache->groups[g].store);
}
