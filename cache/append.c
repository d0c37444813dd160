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
 * ALWAYS  (1) A committed length never counts a staged row.  append_commit
 *         (2) The table has exactly the pages for committed and staged tokens.  append_open,
 *             append_commit
 *         (3) Nothing is indexed beyond the committed length.  append_commit
 *         (4) Committed rows are never written again; no page is exchanged while it may be written.
 *             append_commit
 * THREAD  engine
 * NOT     Writing rows: the decoder step does, into the places the spans name.
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/append.h"

#include "cache/cache_state.h"

enum status append_open(struct sequence *sequence, uint32_t n)
{
    struct cache *cache = sequence->cache;
    struct block_store *store = &cache->store;
    ASSERT(sequence->is_open && !sequence->is_appending);
    ASSERT(n >= 1 && n <= cache->shape.context_max - sequence->n_committed);
    uint32_t n_more = cache_blocks_for(sequence->n_committed + n) - sequence->table.n_pages;
    if (!block_store_reserve(store, n_more))
        return STATUS_CACHE_FULL;
    for (; n_more > 0; n_more--)
        block_table_push(&sequence->table,
                         block_store_take(store, block_table_last(&sequence->table)));
    sequence->n_staged = n;
    sequence->is_appending = true;
    return OK;
}

/* The last n ids of block i, which is a tail still. */
static void grow_tail(struct sequence *sequence, uint32_t i, const uint32_t *ids, uint32_t n)
{
    struct block_store *store = &sequence->cache->store;
    uint32_t page = sequence->table.pages[i];
    struct block *block = &store->blocks[page];
    if (block->is_indexed) {
        prefix_index_extend(&store->index, page, ids, n);
        return;
    }
    memcpy(block->ids + block->n_tokens, ids, n * sizeof *ids);
    block->n_tokens += n;
    prefix_index_insert(&store->index, page, sequence_parent_key(sequence, i),
                        sequence_parent(sequence, i));
}

/* The last n ids of block i, which is full with them. */
static void complete_block(struct sequence *sequence, uint32_t i, const uint32_t *ids, uint32_t n)
{
    struct cache *cache = sequence->cache;
    struct block_store *store = &cache->store;
    uint32_t page = sequence->table.pages[i], common;
    struct block *block = &store->blocks[page];
    const uint8_t *parent_key = sequence_parent_key(sequence, i);
    if (block->is_indexed)
        block_store_forget(store, page);
    memcpy(block->ids + block->n_tokens, ids, n * sizeof *ids);
    block->n_tokens += n;
    ASSERT(block->n_tokens == CACHE_PAGE_TOKENS);
    uint32_t same =
        prefix_index_find(&store->index, parent_key, block->ids, CACHE_PAGE_TOKENS, &common);
    if (common == CACHE_PAGE_TOKENS) {
        block_store_ref(store, same);
        block_table_replace(&sequence->table, i, same);
        block_store_unref(store, page);
        return;
    }
    chain_key_block(cache->sha, &cache->scope, (struct slice){sequence->salt, sequence->salt_len},
                    parent_key, block->ids, block->key);
    prefix_index_insert(&store->index, page, parent_key, sequence_parent(sequence, i));
    block_store_forget_covered(store, page);
}

/* Ends the transaction; pages without a committed token are given back. */
static void append_end(struct sequence *sequence)
{
    sequence->n_staged = 0;
    sequence->is_appending = false;
    sequence_shrink(sequence, cache_blocks_for(sequence->n_committed));
}

void append_commit(struct sequence *sequence, const uint32_t *ids, uint32_t n)
{
    ASSERT(sequence->is_appending && n <= sequence->n_staged && sequence->source == NO_PAGE);
    for (uint32_t done = 0; done < n;) {
        uint32_t i = sequence->n_committed / CACHE_PAGE_TOKENS;
        uint32_t room = CACHE_PAGE_TOKENS - sequence->n_committed % CACHE_PAGE_TOKENS;
        if (n - done < room) {
            grow_tail(sequence, i, ids + done, n - done);
            sequence->n_committed += n - done;
            break;
        }
        complete_block(sequence, i, ids + done, room);
        sequence->n_committed += room;
        done += room;
    }
    sequence->cache->totals.committed_tokens += n;
    append_end(sequence);
}

void append_abort(struct sequence *sequence)
{
    ASSERT(sequence->is_appending);
    append_end(sequence);
}
