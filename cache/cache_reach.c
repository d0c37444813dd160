/* cache_reach.c: marks what can be reached, counts what is neither marked nor free.
 *
 * WHY     A page that nobody holds and nobody finds is memory that no request will ever get. The books cannot
 *         show it: they count where blocks change hands, and a leak is where none did.
 * HOW     A bit a block. Tables and copies are walked from the sequences, the index along its own order; no
 *         block is asked what it thinks of itself.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_reach.h"

#include <string.h>

#include "cache/cache_state.h"

static size_t words_of(uint32_t n_blocks)
{
    return ((size_t)n_blocks + 63) / 64;
}

size_t cache_reach_scratch_bytes(const struct cache *cache)
{
    size_t most = 0;
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        size_t words = words_of(cache->groups[g].store.n_blocks);
        most = words > most ? words : most;
    }
    return most * sizeof(uint64_t);
}

static void mark(uint64_t *marks, uint32_t page)
{
    marks[page / 64] |= (uint64_t)1 << page % 64;
}

static void mark_held(const struct cache *cache, uint32_t g, uint64_t *marks)
{
    for (uint32_t i = 0; i < cache->shape.sequences_max; i++) {
        const struct sequence *sequence = &cache->sequences[i];
        if (!sequence->is_open)
            continue;
        const struct sequence_group *part = &sequence->groups[g];
        for (uint32_t k = part->table.first_page; k < part->table.n_pages; k++)
            mark(marks, part->table.pages[k]);
        if (part->source != NO_PAGE)
            mark(marks, part->source);
    }
}

/* From the first in order; no longer than there are blocks, whatever the links say. */
static void mark_found(const struct prefix_index *index, uint64_t *marks)
{
    uint32_t page = index->root;
    while (page != NO_PAGE && index->blocks[page].left != NO_PAGE)
        page = index->blocks[page].left;
    for (uint32_t i = 0; i < index->n_blocks && page != NO_PAGE; i++) {
        mark(marks, page);
        page = index->blocks[page].after;
    }
}

uint64_t cache_unreachable_blocks(const struct cache *cache, void *scratch)
{
    uint64_t *marks = scratch, n = 0;
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        const struct block_store *store = &cache->groups[g].store;
        memset(marks, 0, words_of(store->n_blocks) * sizeof *marks);
        mark_held(cache, g, marks);
        mark_found(&store->index, marks);
        for (uint32_t page = 0; page < store->n_blocks; page++)
            n += (marks[page / 64] >> page % 64 & 1) == 0 &&
                 !page_pool_is_free(store->pages, page);
    }
    return n;
}
