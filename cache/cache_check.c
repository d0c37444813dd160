/* Cache check: every invariant of the folder, tested on a live cache.
 *
 * WHY     An invariant that no test can see is a wish. Randomised tests call this after each
 *         operation.
 * HOW     Recounts refs and pins from the tables, recomputes every key of every open sequence from its
 *         tokens, and asks each part for its own walk.
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_check.h"

#include "cache/cache_state.h"

/* Tables that hold the page, and copies that read it. */
static void count_holders(const struct cache *cache, uint32_t page, uint32_t *ret_refs,
                          uint32_t *ret_pins)
{
    *ret_refs = *ret_pins = 0;
    for (uint32_t i = 0; i < cache->shape.sequences_max; i++) {
        const struct sequence *sequence = &cache->sequences[i];
        for (uint32_t k = 0; k < sequence->table.n_pages; k++)
            *ret_refs += sequence->table.pages[k] == page;
        *ret_pins += sequence->source == page;
    }
}

static const char *check_holders(const struct cache *cache)
{
    for (uint32_t page = 0; page < cache->store.n_blocks; page++) {
        uint32_t refs, pins;
        count_holders(cache, page, &refs, &pins);
        const struct block *block = &cache->store.blocks[page];
        if (block->refs != refs)
            return "block_store 2: refs counts the tables that hold the block";
        if (block->pins != pins)
            return "sequence 4: pins counts the unfinished copies that read the block";
        if (refs > 1 && !(block->is_indexed && block->n_tokens == CACHE_PAGE_TOKENS))
            return "sequence 1: only a full committed block is in two tables";
    }
    return NULL;
}

static const char *check_table(const struct block_table *table)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < table->n_spans; i++) {
        const struct page_span *span = &table->spans[i];
        if (i > 0 && span[-1].first_page + span[-1].n_pages == span->first_page)
            return "block_table 1: no two neighbouring spans could be one";
        for (uint32_t k = 0; k < span->n_pages; k++, at++)
            if (at >= table->n_pages || table->pages[at] != span->first_page + k)
                return "block_table 1: the spans name the same pages in the same order";
    }
    return at == table->n_pages ? NULL : "block_table 1: the spans name all pages";
}

/* Block i of an open sequence, which holds n > 0 committed tokens. */
static const char *check_committed(const struct sequence *sequence, uint32_t i, uint32_t n)
{
    const struct cache *cache = sequence->cache;
    const struct block *block = &cache->store.blocks[sequence->table.pages[i]];
    const uint8_t *parent_key = sequence_parent_key(sequence, i);
    if (block->n_tokens != n)
        return "append 3: a block has the committed tokens and no more";
    if (block->is_indexed && (block->parent != sequence_parent(sequence, i) ||
                              memcmp(block->parent_key, parent_key, SHA256_BYTES) != 0))
        return "sequence 3: a block's parent is the block in front of it in the table";
    if (n < CACHE_PAGE_TOKENS)
        return NULL;
    uint8_t key[SHA256_BYTES];
    chain_key_block(cache->sha, &cache->scope, (struct slice){sequence->salt, sequence->salt_len},
                    parent_key, block->ids, key);
    if (!block->is_indexed || memcmp(block->key, key, SHA256_BYTES) != 0)
        return "sequence 3: a full committed block is indexed under the key of its chain";
    return NULL;
}

static const char *check_sequence(const struct sequence *sequence)
{
    const struct block_table *table = &sequence->table;
    if (!sequence->is_open)
        return table->n_pages == 0 && sequence->source == NO_PAGE
                   ? NULL
                   : "sequence: a closed one holds nothing";
    if (sequence->n_staged > 0 && !sequence->is_appending)
        return "append 1: rows are staged in an open append only";
    if (table->n_pages != cache_blocks_for(sequence->n_committed + sequence->n_staged))
        return "append 2: the table has the pages of committed and staged tokens";
    for (uint32_t i = 0; i < table->n_pages; i++) {
        const struct block *block = &sequence->cache->store.blocks[table->pages[i]];
        uint32_t from = i * CACHE_PAGE_TOKENS, n = 0;
        if (from < sequence->n_committed)
            n = sequence->n_committed - from < CACHE_PAGE_TOKENS ? sequence->n_committed - from
                                                                 : CACHE_PAGE_TOKENS;
        if (n == 0 && (block->is_indexed || block->n_tokens != 0))
            return "append 3: nothing is indexed beyond the committed length";
        const char *wrong = n > 0 ? check_committed(sequence, i, n) : NULL;
        if (wrong != NULL)
            return wrong;
    }
    return check_table(table);
}

const char *cache_check(const struct cache *cache)
{
    const char *wrong = block_store_check(&cache->store);
    wrong = wrong != NULL ? wrong : check_holders(cache);
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < cache->shape.sequences_max && wrong == NULL; i++) {
        n_open += cache->sequences[i].is_open;
        wrong = check_sequence(&cache->sequences[i]);
    }
    if (wrong == NULL && n_open != cache->totals.sequences)
        return "cache_books: sequences counts the open ones";
    return wrong;
}
