/* Cache books: adds up what the parts count.
 *
 * ALWAYS  (1) blocks_free + blocks_used + blocks_cached = blocks_total, in every group; each is
 *             counted where blocks change hands, none is the rest of the others.  block_store
 *         (2) expected_bytes comes from the shape, resident_bytes from the mapping; the difference
 *             is named. cache_group_books
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_books.h"

#include "cache/cache_state.h"

struct cache_group_books cache_group_books(const struct cache *cache, uint32_t group)
{
    ASSERT(group < cache->n_groups);
    const struct block_store *store = &cache->groups[group].store;
    const struct cache_group_shape *shape = &cache->shape.groups[group];
    struct cache_group_books books = {
        .blocks_total = store->n_blocks,
        .blocks_free = page_pool_free_pages(store->pages),
        .blocks_used = store->n_used,
        .blocks_cached = store->n_cached,
        .blocks_shared = store->n_shared,
        .evicted_blocks = store->n_evicted,
        .block_bytes = (uint64_t)shape->page_bytes * shape->n_heads * shape->n_layers,
        .resident_bytes = cache->groups[group].memory.mapped_bytes,
    };
    books.expected_bytes = books.blocks_total * books.block_bytes;
    books.rounding_bytes = books.resident_bytes - books.expected_bytes;
    return books;
}

struct cache_books cache_books(const struct cache *cache)
{
    struct cache_books sum = cache->totals;
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        struct cache_group_books books = cache_group_books(cache, g);
        sum.blocks_total += books.blocks_total;
        sum.blocks_free += books.blocks_free;
        sum.blocks_used += books.blocks_used;
        sum.blocks_cached += books.blocks_cached;
        sum.blocks_shared += books.blocks_shared;
        sum.evicted_blocks += books.evicted_blocks;
        sum.expected_bytes += books.expected_bytes;
        sum.resident_bytes += books.resident_bytes;
        sum.rounding_bytes += books.rounding_bytes;
    }
    return sum;
}
