/* Sequence: takes the longest cached prefix, and gives back what it holds.
 *
 * WHY     A prompt whose beginning was computed before should start where the knowledge ends, to
 *         the token.
 * HOW     Full blocks are shared by reference. Of the next block only a head may match (or be
 *         wanted: the last prompt token is always computed, for its logits); that head is copied
 *         into a page of the sequence's own, since it will write behind it. The caller copies the
 *         bytes; the source is pinned until it says so. At the end all blocks are let go of, the
 *         last one first. A tail that says nothing which another block does not say is not kept, so
 *         a request that is repeated leaves one tail behind, not one each time.
 * ALWAYS  (1) A page that a sequence may write is in no other table.  sequence_open, append_open
 *         (2) At most n - 1 tokens are reused.  sequence_open
 *         (3) A full committed block of a table is indexed, and its parent is the block in front of
 *             it in the same table: whoever holds a block holds its parents.  append_commit
 *         (4) A pinned source is neither evicted nor freed.  sequence_moved, sequence_close
 * THREAD  engine
 * NOT     Copying numbers.
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/sequence.h"

#include "cache/cache_state.h"

const uint8_t *sequence_parent_key(const struct sequence *sequence, uint32_t i)
{
    uint32_t parent = sequence_parent(sequence, i);
    return parent == NO_PAGE ? sequence->root_key : sequence->cache->store.blocks[parent].key;
}

uint32_t sequence_parent(const struct sequence *sequence, uint32_t i)
{
    return i == 0 ? NO_PAGE : sequence->table.pages[i - 1];
}

void sequence_shrink(struct sequence *sequence, uint32_t n_pages)
{
    while (sequence->table.n_pages > n_pages)
        block_store_unref(&sequence->cache->store, block_table_pop(&sequence->table));
}

/* Shares every full block of ids[n] that the index has. */
static void share_blocks(struct sequence *sequence, const uint32_t *ids, uint32_t n)
{
    struct block_store *store = &sequence->cache->store;
    while (n - sequence->n_committed >= CACHE_PAGE_TOKENS) {
        uint32_t i = sequence->table.n_pages, common;
        uint32_t page = prefix_index_find(&store->index, sequence_parent_key(sequence, i),
                                          ids + sequence->n_committed, CACHE_PAGE_TOKENS, &common);
        if (common < CACHE_PAGE_TOKENS)
            break;
        block_store_ref(store, page);
        block_table_push(&sequence->table, page);
        sequence->n_committed += CACHE_PAGE_TOKENS;
    }
    sequence->n_found = sequence->table.n_pages;
}

/* Finds the longest head of the next block and takes a page for its copy. */
static enum status copy_head(struct sequence *sequence, const uint32_t *ids, uint32_t n,
                             struct cache_move *ret_move)
{
    struct block_store *store = &sequence->cache->store;
    const uint32_t *next = ids + sequence->n_committed;
    uint32_t left = n - sequence->n_committed, common;
    if (left == 0)
        return OK;
    uint32_t source =
        prefix_index_find(&store->index, sequence_parent_key(sequence, sequence->table.n_pages),
                          next, left < CACHE_PAGE_TOKENS ? left : CACHE_PAGE_TOKENS, &common);
    if (source == NO_PAGE)
        return OK;
    block_store_pin(store, source);
    sequence->source = source;
    if (!block_store_reserve(store, 1))
        return STATUS_CACHE_FULL;
    uint32_t page = block_store_take(store, block_table_last(&sequence->table));
    block_table_push(&sequence->table, page);
    memcpy(store->blocks[page].ids, next, common * sizeof *next);
    store->blocks[page].n_tokens = common;
    sequence->n_committed += common;
    *ret_move = (struct cache_move){.n_tokens = common, .from_page = {source}, .to_page = {page}};
    return OK;
}

/* Unpins the source and gives back all pages. */
static void let_go(struct sequence *sequence)
{
    sequence_moved(sequence);
    sequence_shrink(sequence, 0);
}

/* Makes a free sequence an empty one with its root key. */
static void begin(struct sequence *sequence, const uint8_t *salt, size_t salt_len)
{
    struct cache *cache = sequence->cache;
    sequence->is_appending = false;
    sequence->n_committed = sequence->n_staged = sequence->n_reused = sequence->n_found = 0;
    sequence->source = NO_PAGE;
    sequence->salt_len = salt_len;
    if (salt_len > 0)
        memcpy(sequence->salt, salt, salt_len);
    chain_key_root(cache->sha, &cache->scope, (struct slice){sequence->salt, salt_len},
                   sequence->root_key);
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
        share_blocks(sequence, ids, n - 1);
        enum status status = copy_head(sequence, ids, n - 1, ret_move);
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
    if (sequence->source == NO_PAGE)
        return;
    block_store_unpin(&sequence->cache->store, sequence->source);
    sequence->source = NO_PAGE;
}

/* Decides what stays of the last block, if it is a tail that was committed. */
static void settle_tail(struct sequence *sequence)
{
    struct block_store *store = &sequence->cache->store;
    uint32_t tail = block_table_last(&sequence->table);
    if (tail == NO_PAGE || sequence->n_committed % CACHE_PAGE_TOKENS == 0 ||
        !store->blocks[tail].is_indexed)
        return;
    if (prefix_index_is_covered(&store->index, tail))
        block_store_forget(store, tail);
    else
        block_store_forget_covered(store, tail);
}

/* Drops the blocks that this sequence wrote and no other holds. */
static void drop_own(struct sequence *sequence)
{
    struct block_store *store = &sequence->cache->store;
    for (uint32_t i = sequence->table.n_pages; i > sequence->n_found; i--) {
        uint32_t page = sequence->table.pages[i - 1];
        if (store->blocks[page].refs == 1 && store->blocks[page].is_indexed)
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
    if (publish)
        settle_tail(s);
    else
        drop_own(s);
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

const struct page_span *sequence_spans(const struct sequence *sequence, uint32_t group,
                                       uint32_t *ret_first_page, uint32_t *ret_count)
{
    ASSERT(group < sequence->cache->shape.n_groups);
    *ret_first_page = 0;
    *ret_count = sequence->table.n_spans;
    return sequence->table.spans;
}
