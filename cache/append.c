/* Append: new K/V enters pages as one transaction.
 *
 * WHY     A step that dies half way must leave nothing that a later step, or another request, can
 *         find.
 * HOW     Open puts pages behind the table; rows are written there and behind the committed part of
 *         the tail, which nobody else reads. Commit notes the ids, moves the committed length and
 *         enters the blocks in the index; abort gives the pages back. A tail grows in the index
 *         without a hash; the key is computed once, when its block is full. If an equal full block
 *         is indexed already (two requests computed the same prompt side by side), the table takes
 *         that one and the own page becomes free: the numbers are the same, by exactness, no byte
 *         is written, and the chain below hangs from blocks that this sequence holds, which is what
 *         lets every cached block be evicted.
 *         In a group with a window blocks are given back twice: before the append those that its
 *         first row does not see (later rows see no more of them), which are had again at once if
 *         pages are short; and after the commit those that the last committed row did not see.
 * ALWAYS  (1) A committed length never counts a staged row.  append_commit
 *         (2) Each table has exactly the pages for committed and staged tokens, from the first that
 *             is seen on.  append_open, append_commit
 *         (3) Nothing is indexed beyond the committed length.  append_commit
 *         (4) Committed rows are never written again; no page is exchanged while it may be written.
 *             append_commit
 *         (5) Pages are taken in every group or in none.  append_open
 * THREAD  engine
 * NOT     Writing rows: the decoder step does, into the places the spans name.
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/append.h"

#include "cache/cache_state.h"

/* Whether a group has n_more blocks, if those before block first are given back. */
static bool has_room(const struct sequence *sequence, uint32_t g, uint32_t first, uint32_t n_more)
{
    const struct block_store *store = &sequence->cache->groups[g].store;
    const struct block_table *table = &sequence->groups[g].table;
    if (block_store_can_reserve(store, n_more))
        return true;
    uint32_t n_own = 0;
    for (uint32_t i = table->first_page; i < first; i++) {
        const struct block *block = &store->blocks[table->pages[i]];
        n_own += block->refs == 1 && block->pins == 0;
    }
    return n_own >= n_more || block_store_can_reserve(store, n_more - n_own);
}

enum status append_open(struct sequence *sequence, uint32_t n)
{
    struct cache *cache = sequence->cache;
    uint32_t p = sequence->n_committed, end = cache_blocks_for(p + n);
    ASSERT(sequence->is_open && !sequence->is_appending);
    ASSERT(n >= 1 && n <= cache->shape.append_max && n <= cache->shape.context_max - p);
    for (uint32_t g = 0; g < cache->n_groups; g++)
        if (!has_room(sequence, g, cache_window_first(cache->groups[g].window, p),
                      end - sequence->groups[g].table.n_pages))
            return STATUS_CACHE_FULL;
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        struct block_store *store = &cache->groups[g].store;
        struct block_table *table = &sequence->groups[g].table;
        sequence_advance(sequence, g, cache_window_first(cache->groups[g].window, p));
        bool is_there = block_store_reserve(store, end - table->n_pages);
        ASSERT(is_there);
        while (table->n_pages < end)
            block_table_push(table, block_store_take(store, block_table_last(table)));
    }
    sequence->n_staged = n;
    sequence->is_appending = true;
    return OK;
}

/* The last n ids of block i, which is a tail still. */
static void grow_tail(struct sequence *sequence, uint32_t g, uint32_t i, const uint32_t *ids,
                      uint32_t n)
{
    struct block_store *store = &sequence->cache->groups[g].store;
    uint32_t page = sequence->groups[g].table.pages[i];
    struct block *block = &store->blocks[page];
    if (block->is_indexed) {
        prefix_index_extend(&store->index, page, ids, n);
        return;
    }
    memcpy(block->ids + block->n_tokens, ids, n * sizeof *ids);
    block->n_tokens += n;
    prefix_index_insert(&store->index, page, sequence->groups[g].tip_key,
                        sequence_parent(sequence, g, i));
}

/* Enters block i, full now, or exchanges it for the equal one that was there before. */
static void enter_full(struct sequence *sequence, uint32_t g, uint32_t i)
{
    struct cache *cache = sequence->cache;
    struct block_store *store = &cache->groups[g].store;
    struct sequence_group *part = &sequence->groups[g];
    uint32_t page = part->table.pages[i], common;
    struct block *block = &store->blocks[page];
    uint32_t same =
        prefix_index_find(&store->index, part->tip_key, block->ids, CACHE_PAGE_TOKENS, &common);
    if (common == CACHE_PAGE_TOKENS) {
        block_store_ref(store, same);
        block_table_replace(&part->table, i, same);
        block_store_unref(store, page);
        memcpy(part->tip_key, store->blocks[same].key, SHA256_BYTES);
        return;
    }
    chain_key_block(cache->sha, &cache->groups[g].scope,
                    (struct slice){sequence->salt, sequence->salt_len}, part->tip_key, block->ids,
                    block->key);
    prefix_index_insert(&store->index, page, part->tip_key, sequence_parent(sequence, g, i));
    block_store_forget_covered(store, page);
    memcpy(part->tip_key, block->key, SHA256_BYTES);
}

/* The last n ids of block i, which is full with them. */
static void complete_block(struct sequence *sequence, uint32_t g, uint32_t i, const uint32_t *ids,
                           uint32_t n)
{
    struct block_store *store = &sequence->cache->groups[g].store;
    uint32_t page = sequence->groups[g].table.pages[i];
    struct block *block = &store->blocks[page];
    if (block->is_indexed)
        block_store_forget(store, page);
    memcpy(block->ids + block->n_tokens, ids, n * sizeof *ids);
    block->n_tokens += n;
    ASSERT(block->n_tokens == CACHE_PAGE_TOKENS);
    enter_full(sequence, g, i);
}

/* ids[n] in one group, from the committed length on. */
static void commit_group(struct sequence *sequence, uint32_t g, const uint32_t *ids, uint32_t n)
{
    uint32_t at = sequence->n_committed, end = at + n;
    while (at < end) {
        uint32_t i = at / CACHE_PAGE_TOKENS, room = CACHE_PAGE_TOKENS - at % CACHE_PAGE_TOKENS;
        uint32_t more = end - at < room ? end - at : room;
        if (more < room)
            grow_tail(sequence, g, i, ids, more);
        else
            complete_block(sequence, g, i, ids, more);
        at += more;
        ids += more;
    }
}

/* Ends the transaction; pages without a committed token are given back. */
static void append_end(struct sequence *sequence)
{
    sequence->n_staged = 0;
    sequence->is_appending = false;
    for (uint32_t g = 0; g < sequence->cache->n_groups; g++)
        sequence_shrink(sequence, g, cache_blocks_for(sequence->n_committed));
}

void append_commit(struct sequence *sequence, const uint32_t *ids, uint32_t n)
{
    struct cache *cache = sequence->cache;
    ASSERT(sequence->is_appending && n <= sequence->n_staged);
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        ASSERT(sequence->groups[g].source == NO_PAGE);
        commit_group(sequence, g, ids, n);
    }
    sequence->n_committed += n;
    cache->totals.committed_tokens += n;
    append_end(sequence);
    for (uint32_t g = 0; n > 0 && g < cache->n_groups; g++)
        sequence_advance(sequence, g,
                         cache_window_first(cache->groups[g].window, sequence->n_committed - 1));
}

void append_abort(struct sequence *sequence)
{
    ASSERT(sequence->is_appending);
    append_end(sequence);
}
