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

/* A group's tables that hold the page, and copies that read it. */
static void count_holders(const struct cache *cache, uint32_t g, uint32_t page, uint32_t *ret_refs,
                          uint32_t *ret_pins)
{
    *ret_refs = *ret_pins = 0;
    for (uint32_t i = 0; i < cache->shape.sequences_max; i++) {
        const struct sequence_group *part = &cache->sequences[i].groups[g];
        for (uint32_t k = part->table.first_page; k < part->table.n_pages; k++)
            *ret_refs += part->table.pages[k] == page;
        *ret_pins += part->source == page;
    }
}

static const char *check_holders(const struct cache *cache, uint32_t g)
{
    const struct block_store *store = &cache->groups[g].store;
    for (uint32_t page = 0; page < store->n_blocks; page++) {
        uint32_t refs, pins;
        count_holders(cache, g, page, &refs, &pins);
        const struct block *block = &store->blocks[page];
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
    uint32_t at = table->first_page;
    if (table->first_span > table->first_page)
        return "block_table 2: runs used up are no more than pages given back";
    for (uint32_t i = table->first_span; i < table->n_spans; i++) {
        const struct page_span *span = &table->spans[i];
        if (i > table->first_span && span[-1].first_page + span[-1].n_pages == span->first_page)
            return "block_table 1: no two neighbouring spans could be one";
        for (uint32_t k = 0; k < span->n_pages; k++, at++)
            if (at >= table->n_pages || table->pages[at] != span->first_page + k)
                return "block_table 1: the spans name the same pages in the same order";
    }
    return at == table->n_pages ? NULL : "block_table 1: the spans name all pages";
}

/* The key above block i of a table, or NULL if the sequence does not know it any more. */
static const uint8_t *parent_key_of(const struct sequence *sequence, uint32_t g, uint32_t i)
{
    const struct sequence_group *part = &sequence->groups[g];
    if (i == 0)
        return part->root_key;
    if (i == sequence->n_committed / CACHE_PAGE_TOKENS)
        return part->tip_key;
    if (i == part->table.first_page)
        return NULL;
    return sequence->cache->groups[g].store.blocks[part->table.pages[i - 1]].key;
}

/* Block i of an open sequence's table, which holds n > 0 committed tokens. */
static const char *check_committed(const struct sequence *sequence, uint32_t g, uint32_t i,
                                   uint32_t n)
{
    const struct cache *cache = sequence->cache;
    const struct cache_group *group = &cache->groups[g];
    const struct block *block = &group->store.blocks[sequence->groups[g].table.pages[i]];
    const uint8_t *parent_key = parent_key_of(sequence, g, i);
    if (parent_key == NULL)
        parent_key = block->parent_key;
    if (block->n_tokens != n)
        return "append 3: a block has the committed tokens and no more";
    if (block->is_indexed && (block->parent != sequence_parent(sequence, g, i) ||
                              memcmp(block->parent_key, parent_key, SHA256_BYTES) != 0))
        return "sequence 3: a block's parent is the block in front of it in the table";
    if (n < CACHE_PAGE_TOKENS)
        return NULL;
    uint8_t key[SHA256_BYTES];
    chain_key_block(cache->sha, &group->scope, (struct slice){sequence->salt, sequence->salt_len},
                    parent_key, block->ids, key);
    if (!block->is_indexed || memcmp(block->key, key, SHA256_BYTES) != 0)
        return "sequence 3: a full committed block is indexed under the key of its chain";
    return NULL;
}

/* Where a group's table begins and ends. */
static const char *check_extent(const struct sequence *sequence, uint32_t g)
{
    const struct block_table *table = &sequence->groups[g].table;
    uint32_t window = sequence->cache->groups[g].window, n = sequence->n_committed;
    uint32_t most = cache_window_first(window, n);
    uint32_t least = n == 0 || sequence->is_appending ? most : cache_window_first(window, n - 1);
    if (table->n_pages != cache_blocks_for(n + sequence->n_staged))
        return "append 2: the table has the pages of committed and staged tokens";
    if (table->first_page < least || table->first_page > most)
        return "sequence 6: a table begins with the first block that is seen";
    return NULL;
}

static const char *check_part(const struct sequence *sequence, uint32_t g)
{
    const struct sequence_group *part = &sequence->groups[g];
    const struct block_table *table = &part->table;
    const char *wrong = check_extent(sequence, g);
    if (sequence->n_committed < CACHE_PAGE_TOKENS &&
        memcmp(part->tip_key, part->root_key, SHA256_BYTES) != 0)
        wrong = "sequence 3: the tip of an empty chain is its root";
    for (uint32_t i = table->first_page; wrong == NULL && i < table->n_pages; i++) {
        const struct block *block = &sequence->cache->groups[g].store.blocks[table->pages[i]];
        uint32_t from = i * CACHE_PAGE_TOKENS, n = 0;
        if (from < sequence->n_committed)
            n = sequence->n_committed - from < CACHE_PAGE_TOKENS ? sequence->n_committed - from
                                                                 : CACHE_PAGE_TOKENS;
        if (n == 0 && (block->is_indexed || block->n_tokens != 0))
            return "append 3: nothing is indexed beyond the committed length";
        wrong = n > 0 ? check_committed(sequence, g, i, n) : NULL;
        if (wrong == NULL && i + 1 == sequence->n_committed / CACHE_PAGE_TOKENS &&
            memcmp(part->tip_key, block->key, SHA256_BYTES) != 0)
            wrong = "sequence 3: the tip is the key of the last full block";
    }
    return wrong != NULL ? wrong : check_table(table);
}

static const char *check_sequence(const struct sequence *sequence)
{
    const char *wrong = NULL;
    if (sequence->n_staged > 0 && !sequence->is_appending && sequence->is_open)
        return "append 1: rows are staged in an open append only";
    for (uint32_t g = 0; g < sequence->cache->n_groups && wrong == NULL; g++) {
        const struct sequence_group *part = &sequence->groups[g];
        bool is_empty = part->table.n_pages == part->table.first_page && part->source == NO_PAGE;
        if (sequence->is_open)
            wrong = check_part(sequence, g);
        else if (!is_empty)
            wrong = "sequence: a closed one holds nothing";
        if ((part->source == NO_PAGE) != (sequence->groups[0].source == NO_PAGE))
            wrong = "sequence 5: a move is one for all groups";
    }
    return wrong;
}

const char *cache_check(const struct cache *cache)
{
    const char *wrong = NULL;
    for (uint32_t g = 0; g < cache->n_groups && wrong == NULL; g++) {
        wrong = block_store_check(&cache->groups[g].store);
        wrong = wrong != NULL ? wrong : check_holders(cache, g);
    }
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < cache->shape.sequences_max && wrong == NULL; i++) {
        n_open += cache->sequences[i].is_open;
        wrong = check_sequence(&cache->sequences[i]);
    }
    if (wrong == NULL && n_open != cache->totals.sequences)
        return "cache_books: sequences counts the open ones";
    return wrong;
}
