/* Cache books: adds up what the parts count.
 *
 * ALWAYS  (1) blocks_free + blocks_used + blocks_cached = cache_blocks_total; each is counted where
 *             blocks change hands, none is the rest of the others.  block_store
 *         (2) expected_bytes comes from the shape, resident_bytes from the mapping; the difference
 *             is named. cache_books
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_books.h"

#include "cache/cache_state.h"

struct cache_books cache_books(const struct cache *cache)
{
    const struct block_store *store = &cache->store;
    struct cache_books books = cache->totals;
    books.blocks_free = page_pool_free_pages(store->pages);
    books.blocks_used = store->n_used;
    books.blocks_cached = store->n_cached;
    books.blocks_shared = store->n_shared;
    books.evicted_blocks = store->n_evicted;
    const struct cache_group_shape *group = &cache->shape.groups[0];
    books.expected_bytes =
        (uint64_t)store->n_blocks * group->page_bytes * group->n_heads * group->n_layers;
    books.resident_bytes = cache->memory.mapped_bytes;
    books.rounding_bytes = books.resident_bytes - books.expected_bytes;
    return books;
}
