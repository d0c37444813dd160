/* Sequence: takes the longest cached prefix, and gives back what it holds.
 *
 * WHY     A prompt whose beginning was computed before should start where the knowledge ends, to
 *         the token.
 * HOW     Full blocks are shared by reference; in a group with a window only those that the next
 *         row sees. Of the next block only a head may match (or be wanted: the last prompt token is
 *         always computed, for its logits); that head is copied into a page of the sequence's own,
 *         since it will write behind it. The caller copies the bytes; the source is pinned until it
 *         says so. At the end all blocks are let go of, the last one first. A tail that says
 *         nothing which another block does not say is not kept, so a request that is repeated leaves
 *         one tail behind, not one each time.
 * ALWAYS  (1) A page that a sequence may write is in no other table.  sequence_open, append_open
 *         (2) At most n - 1 tokens are reused.  sequence_open
 *         (3) A full committed block of a table is indexed, and, in a group without a window, its
 *             parent is the block in front of it in the same table: whoever holds a block holds its
 *             parents.  append_commit
 *         (4) A pinned source is neither evicted nor freed.  sequence_moved, sequence_close
 *         (5) All groups reuse equally many tokens, or none of them has changed.  sequence_open
 *         (6) A table begins with the first block that the next row sees, or, after a commit, the
 *             last one saw.  sequence_open, append_open, append_commit
 * THREAD  engine
 * NOT     Copying numbers; how long the prefix is: prefix_lookup.
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/sequence.h"

#include "cache/cache_state.h"
#include "cache/prefix_lookup.h"

uint32_t sequence_parent(const struct sequence *sequence, uint32_t group, uint32_t i)
{
    if (i == 0 || sequence->cache->groups[group].window > 0)
        return NO_PAGE;
    return sequence->groups[group].table.pages[i - 1];
}

void sequence_shrink(struct sequence *sequence, uint32_t group, uint32_t n_pages)
{
    struct block_table *table = &sequence->groups[group].table;
    while (table->n_pages > n_pages && table->n_pages > table->first_page)
        block_store_unref(&sequence->cache->groups[group].store, block_table_pop(table));
}

void sequence_advance(struct sequence *sequence, uint32_t group, uint32_t first)
{
    struct block_store *store = &sequence->cache->groups[group].store;
    struct sequence_group *part = &sequence->groups[group];
    while (part->table.first_page < first) {
        uint32_t i = part->table.first_page, page = block_table_shift(&part->table);
        part->serials[i] = store->blocks[page].serial;
        block_store_unref(store, page);
    }
}

/* Shares a group's full blocks of the first p tokens that a row at p sees, and pins the source of the
 * rest. */
static void take_prefix(struct sequence *sequence, uint32_t g, uint32_t p)
{
    struct cache_group *group = &sequence->cache->groups[g];
    struct sequence_group *part = &sequence->groups[g];
    uint32_t first = cache_window_first(group->window, p), n_full = p / CACHE_PAGE_TOKENS;
    block_table_reset(&part->table, first);
    for (uint32_t i = first; i < n_full; i++) {
        block_store_ref(&group->store, group->matches[i].page);
        block_table_push(&part->table, group->matches[i].page);
    }
    if (n_full > 0)
        memcpy(part->tip_key, group->matches[n_full - 1].key, SHA256_BYTES);
    if (p % CACHE_PAGE_TOKENS == 0)
        return;
    part->source = group->matches[n_full].page;
    block_store_pin(&group->store, part->source);
}

/* A page of a group for the copy of the last n tokens of ids[p]. */
static void take_head(struct sequence *sequence, uint32_t g, const uint32_t *ids, uint32_t p,
                      struct cache_move *move)
{
    struct block_store *store = &sequence->cache->groups[g].store;
    struct sequence_group *part = &sequence->groups[g];
    uint32_t page = block_store_take(store, block_table_last(&part->table));
    block_table_push(&part->table, page);
    memcpy(store->blocks[page].ids, ids + p - move->n_tokens, move->n_tokens * sizeof *ids);
    store->blocks[page].n_tokens = move->n_tokens;
    move->from_page[g] = part->source;
    move->to_page[g] = page;
}

/* Reuses the longest prefix of ids[n]. */
static enum status reuse(struct sequence *sequence, const uint32_t *ids, uint32_t n,
                         struct cache_move *ret_move)
{
    struct cache *cache = sequence->cache;
    uint32_t p = prefix_lookup(sequence, ids, n);
    for (uint32_t g = 0; g < cache->n_groups; g++)
        take_prefix(sequence, g, p);
    sequence->n_committed = p;
    sequence->n_found = p / CACHE_PAGE_TOKENS;
    if (p % CACHE_PAGE_TOKENS == 0)
        return OK;
    for (uint32_t g = 0; g < cache->n_groups; g++)
        if (!block_store_can_reserve(&cache->groups[g].store, 1))
            return STATUS_CACHE_FULL;
    ret_move->n_tokens = p % CACHE_PAGE_TOKENS;
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        bool is_there = block_store_reserve(&cache->groups[g].store, 1);
        ASSERT(is_there);
        take_head(sequence, g, ids, p, ret_move);
    }
    return OK;
}

/* Unpins the sources and gives back all pages. */
static void let_go(struct sequence *sequence)
{
    sequence_moved(sequence);
    for (uint32_t g = 0; g < sequence->cache->n_groups; g++)
        sequence_shrink(sequence, g, 0);
}

/* Makes a free sequence an empty one with its root keys. */
static void begin(struct sequence *sequence, const uint8_t *salt, size_t salt_len)
{
    struct cache *cache = sequence->cache;
    sequence->is_appending = false;
    sequence->n_committed = sequence->n_staged = sequence->n_reused = sequence->n_found = 0;
    sequence->salt_len = salt_len;
    if (salt_len > 0)
        memcpy(sequence->salt, salt, salt_len);
    for (uint32_t g = 0; g < cache->n_groups; g++) {
        struct sequence_group *part = &sequence->groups[g];
        part->source = NO_PAGE;
        block_table_reset(&part->table, 0);
        chain_key_root(cache->sha, &cache->groups[g].scope,
                       (struct slice){sequence->salt, salt_len}, part->root_key);
        memcpy(part->tip_key, part->root_key, SHA256_BYTES);
    }
}

enum status sequence_open(struct cache *cache, const uint8_t *salt, size_t salt_len,
                          const uint32_t *ids, uint32_t n, bool may_reuse,
                          struct sequence **ret_sequence, struct cache_move *ret_move)
{
    ASSERT(n >= 1 && n <= cache->shape.context_max && salt_len <= CACHE_SALT_BYTES_MAX);
    *ret_sequence = NULL;
    *ret_move = (struct cache_move){0};
    TRY(namespace_admits(&cache->space));
    struct sequence *sequence = cache->free_sequences;
    if (sequence == NULL)
        return STATUS_UNAVAILABLE;
    begin(sequence, salt, salt_len);
    if (may_reuse) {
        enum status status = reuse(sequence, ids, n - 1, ret_move);
        if (status != OK) {
            let_go(sequence);
            return status;
        }
        cache->totals.lookup_tokens += n;
        cache->totals.hit_tokens += sequence->n_committed;
        cache->totals.copied_tokens += ret_move->n_tokens;
    }
    sequence->n_reused = sequence->n_committed;
    sequence->is_open = true;
    cache->free_sequences = sequence->next_free;
    cache->totals.sequences++;
    *ret_sequence = sequence;
    return OK;
}

void sequence_moved(struct sequence *sequence)
{
    for (uint32_t g = 0; g < sequence->cache->n_groups; g++) {
        struct sequence_group *part = &sequence->groups[g];
        if (part->source == NO_PAGE)
            continue;
        block_store_unpin(&sequence->cache->groups[g].store, part->source);
        part->source = NO_PAGE;
    }
}

/* Decides what stays of a group's last block, if it is a tail that was committed. */
static void settle_tail(struct sequence *sequence, uint32_t g)
{
    struct block_store *store = &sequence->cache->groups[g].store;
    uint32_t tail = block_table_last(&sequence->groups[g].table);
    if (tail == NO_PAGE || sequence->n_committed % CACHE_PAGE_TOKENS == 0 ||
        !store->blocks[tail].is_indexed)
        return;
    if (prefix_index_is_covered(&store->index, tail))
        block_store_forget(store, tail);
    else
        block_store_forget_covered(store, tail);
}

/* Drops a group's blocks that this sequence wrote and no other holds, those given back before
 * included. */
static void drop_own(struct sequence *sequence, uint32_t g)
{
    struct block_store *store = &sequence->cache->groups[g].store;
    const struct sequence_group *part = &sequence->groups[g];
    const struct block_table *table = &part->table;
    for (uint32_t i = table->n_pages; i > sequence->n_found; i--) {
        uint32_t page = table->pages[i - 1];
        const struct block *block = &store->blocks[page];
        bool is_held = i > table->first_page;
        if (!block->is_indexed || block->refs != is_held ||
            (!is_held && block->serial != part->serials[i - 1]))
            continue;
        block_store_forget_tree(store, page);
    }
}

void sequence_close(struct sequence **sequence, bool publish)
{
    struct sequence *s = *sequence;
    *sequence = NULL;
    if (s == NULL)
        return;
    ASSERT(s->is_open);
    if (s->is_appending)
        append_abort(s);
    for (uint32_t g = 0; g < s->cache->n_groups; g++) {
        if (publish)
            settle_tail(s, g);
        else
            drop_own(s, g);
    }
    let_go(s);
    s->is_open = false;
    s->next_free = s->cache->free_sequences;
    s->cache->free_sequences = s;
    s->cache->totals.sequences--;
}

uint32_t sequence_length(const struct sequence *sequence)
{
    return sequence->n_committed;
}

uint32_t sequence_reused(const struct sequence *sequence)
{
    return sequence->n_reused;
}

uint32_t sequence_blocks_lacking(const struct sequence *sequence, uint32_t group, uint32_t n_tokens)
{
    const struct block_table *table = &sequence->groups[group].table;
    uint32_t end = cache_blocks_for(n_tokens), held = table->n_pages - table->first_page;
    uint32_t most = cache_blocks_at_once(sequence->cache, group, n_tokens);
    uint32_t left = end > table->first_page ? end - table->first_page : 0;
    uint32_t needed = left < most ? left : most;
    return needed > held ? needed - held : 0;
}

const struct page_span *sequence_spans(const struct sequence *sequence, uint32_t group,
                                       uint32_t *ret_first_page, uint32_t *ret_count)
{
    ASSERT(group < sequence->cache->n_groups);
    const struct block_table *table = &sequence->groups[group].table;
    *ret_first_page = table->first_page;
    *ret_count = table->n_spans - table->first_span;
    return table->spans + table->first_span;
}
