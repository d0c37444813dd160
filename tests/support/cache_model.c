/* Cache model: what the cache should do, said the plain way.
 *
 * WHY     Pages, references, evictions and reuse are easy to say with whole token strings and
 *         linear scans; the cache does them with keys, trees and lists. Both get the same
 *         operations and must agree after each one.
 * HOW     Every block of the model carries all tokens from position 0 to its end. Rows written into
 *         the pool hold a hash of the tokens up to their position, so a page that is shared, copied
 *         or evicted wrongly shows as a wrong number. The model learns page numbers from the cache,
 *         and nothing else: which block is reused, copied or evicted it says by itself.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_model.h"

#include "cache/cache.h"
#include "cache/cache_check.h"

enum {
    CONTEXT_BLOCKS = 6,
    CONTEXT = CONTEXT_BLOCKS * CACHE_PAGE_TOKENS,
    SEQUENCES_MAX = 6,
    BLOCKS_MAX = 64,
    N_LAYERS = 2,
    N_HEADS = 3,
    N_STORIES = 6,
    N_WORDS = 3, /* different token ids: few, so that prompts meet */
    ROW_BYTES = 8,
    PAGE_BYTES = CACHE_PAGE_TOKENS * ROW_BYTES,
};

struct model_block { /* one a page */
    bool is_taken, is_indexed;
    uint32_t refs, pins;
    uint32_t start, end; /* tokens it covers */
    uint32_t salt;
    uint32_t tokens[CONTEXT]; /* [0, end) */
    uint64_t let_go;          /* when the last holder let go */
};

struct model_sequence {
    struct sequence *real; /* NULL: closed */
    uint32_t salt;
    uint32_t tokens[CONTEXT]; /* also those still to come */
    uint32_t n, n_staged, n_found;
    bool is_appending;
    uint32_t pages[CONTEXT_BLOCKS], n_pages;
    struct cache_move move; /* unfinished; n_tokens 0: none */
};

struct model {
    const uint8_t *bytes;
    size_t left;
    struct cache *cache;
    uint32_t n_blocks, n_sequences, evict_batch;
    uint64_t now;
    uint64_t evicted, lookups, hits, copied, committed;
    uint32_t stories[N_STORIES][CONTEXT];
    struct model_block blocks[BLOCKS_MAX];
    struct model_sequence sequences[SEQUENCES_MAX];
    struct cache_model_counts *counts;
};

static uint32_t next_byte(struct model *m)
{
    if (m->left == 0)
        return 0;
    m->left--;
    return *m->bytes++;
}

/* 0..n-1 from two bytes. */
static uint32_t choose(struct model *m, uint32_t n)
{
    uint32_t high = next_byte(m);
    return (high << 8 | next_byte(m)) % n;
}

/* ---- what is known ---- */

static bool is_cached(const struct model_block *block)
{
    return block->is_taken && block->refs + block->pins == 0;
}

static uint32_t count_free(const struct model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_blocks; i++)
        n += !m->blocks[i].is_taken;
    return n;
}

static uint32_t count_cached(const struct model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_blocks; i++)
        n += is_cached(&m->blocks[i]);
    return n;
}

static bool same_tokens(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* True if the indexed block is a child of the chain tokens[0, start). */
static bool is_child(const struct model_block *block, uint32_t salt, const uint32_t *tokens,
                     uint32_t start)
{
    return block->is_indexed && block->salt == salt && block->start == start &&
           same_tokens(block->tokens, tokens, start);
}

/* The order of siblings: tokens, then length, then page. */
static int compare(const uint32_t *a, uint32_t a_end, uint32_t a_page, const struct model_block *b,
                   uint32_t b_page)
{
    uint32_t least = a_end < b->end ? a_end : b->end;
    for (uint32_t i = b->start; i < least; i++)
        if (a[i] != b->tokens[i])
            return a[i] < b->tokens[i] ? -1 : 1;
    if (a_end != b->end)
        return a_end < b->end ? -1 : 1;
    return a_page < b_page ? -1 : a_page > b_page;
}

static uint32_t common(const uint32_t *tokens, uint32_t end, const struct model_block *block)
{
    uint32_t i = block->start;
    while (i < end && i < block->end && tokens[i] == block->tokens[i])
        i++;
    return i - block->start;
}

/* The full block over tokens[start, start + 64), or NO_PAGE. */
static uint32_t find_full(const struct model *m, uint32_t salt, const uint32_t *tokens,
                          uint32_t start)
{
    uint32_t end = start + CACHE_PAGE_TOKENS;
    for (uint32_t i = 0; i < m->n_blocks; i++)
        if (is_child(&m->blocks[i], salt, tokens, start) && m->blocks[i].end == end &&
            same_tokens(m->blocks[i].tokens, tokens, end))
            return i;
    return NO_PAGE;
}

/* The child of tokens[0, start) with most tokens of tokens[start, end) in common. Of several, the
 * last one in order that is not behind the tokens, if it is as good as any behind them. */
static uint32_t find_head(const struct model *m, uint32_t salt, const uint32_t *tokens,
                          uint32_t start, uint32_t end, uint32_t *ret_common)
{
    uint32_t best = 0, before = NO_PAGE, after = NO_PAGE;
    for (uint32_t i = 0; i < m->n_blocks; i++) {
        const struct model_block *block = &m->blocks[i];
        if (!is_child(block, salt, tokens, start))
            continue;
        uint32_t n = common(tokens, end, block);
        best = n > best ? n : best;
        uint32_t *side = compare(tokens, end, NO_PAGE, block, i) < 0 ? &after : &before;
        if (*side == NO_PAGE || (compare(block->tokens, block->end, i, &m->blocks[*side], *side) <
                                 0) == (side == &after))
            *side = i;
    }
    *ret_common = best;
    if (best == 0)
        return NO_PAGE;
    uint32_t found =
        before != NO_PAGE && common(tokens, end, &m->blocks[before]) == best ? before : after;
    ASSERT(found != NO_PAGE && common(tokens, end, &m->blocks[found]) == best);
    return found;
}

/* ---- changes ---- */

static void let_go(struct model *m, uint32_t page)
{
    struct model_block *block = &m->blocks[page];
    if (block->refs + block->pins > 0)
        return;
    block->let_go = ++m->now;
    block->is_taken = block->is_indexed;
}

static void unref(struct model *m, uint32_t page)
{
    ASSERT(m->blocks[page].refs > 0);
    m->blocks[page].refs--;
    let_go(m, page);
}

static void unpin(struct model *m, uint32_t page)
{
    ASSERT(m->blocks[page].pins > 0);
    m->blocks[page].pins--;
    let_go(m, page);
}

static void forget(struct model_block *block)
{
    if (is_cached(block))
        block->is_taken = false;
    block->is_indexed = false;
}

static void evict_one(struct model *m)
{
    uint32_t oldest = NO_PAGE;
    for (uint32_t i = 0; i < m->n_blocks; i++)
        if (is_cached(&m->blocks[i]) &&
            (oldest == NO_PAGE || m->blocks[i].let_go < m->blocks[oldest].let_go))
            oldest = i;
    struct model_block *block = &m->blocks[oldest];
    for (uint32_t i = 0; i < m->n_blocks; i++) /* from the leaf: nothing hangs below it */
        ASSERT(i == oldest || block->end % CACHE_PAGE_TOKENS != 0 ||
               !is_child(&m->blocks[i], block->salt, block->tokens, block->end));
    forget(block);
    m->evicted++;
    m->counts->evictions++;
}

/* False if n pages cannot be had; else that many are free. */
static bool reserve(struct model *m, uint32_t n)
{
    uint32_t n_free = count_free(m);
    if (n_free >= n)
        return true;
    if (n_free + count_cached(m) < n)
        return false;
    uint32_t goal = n > m->evict_batch ? n : m->evict_batch;
    while (count_free(m) < goal && count_cached(m) > 0)
        evict_one(m);
    return true;
}

/* The cache took this page for the sequence's next block; it must be free. */
static void take(struct model *m, struct model_sequence *s, uint32_t page)
{
    ASSERT(page < m->n_blocks && !m->blocks[page].is_taken && s->n_pages < CONTEXT_BLOCKS);
    uint32_t start = s->n_pages * CACHE_PAGE_TOKENS;
    struct model_block *block = &m->blocks[page];
    *block = (struct model_block){
        .is_taken = true, .refs = 1, .start = start, .end = start, .salt = s->salt};
    s->pages[s->n_pages++] = page;
}

/* ---- rows ---- */

static char *row_at(const struct model *m, uint32_t layer, uint32_t head, uint32_t page,
                    uint32_t token)
{
    struct cache_memory memory = cache_memory(m->cache, 0);
    return memory.base + layer * memory.layer_stride + head * memory.head_stride +
           page * memory.page_bytes + (size_t)token * ROW_BYTES;
}

/* The rows of tokens [from, to): written if write, else compared. Each depends on all tokens up to
 * its own. */
static void rows(const struct model *m, const struct model_sequence *s, uint32_t from, uint32_t to,
                 bool write)
{
    uint64_t hash = 0xcbf29ce484222325u + s->salt;
    for (uint32_t t = 0; t < to; t++) {
        hash = (hash ^ s->tokens[t]) * 0x100000001b3u;
        for (uint32_t i = 0; t >= from && i < N_LAYERS * N_HEADS; i++) {
            char *row = row_at(m, i / N_HEADS, i % N_HEADS, s->pages[t / CACHE_PAGE_TOKENS],
                               t % CACHE_PAGE_TOKENS);
            uint64_t value = hash + i;
            if (write)
                memcpy(row, &value, sizeof value);
            else
                ASSERT(memcmp(row, &value, sizeof value) == 0);
        }
    }
}

static void finish_move(struct model *m, struct model_sequence *s)
{
    const struct cache_move *move = &s->move;
    if (move->n_tokens == 0)
        return;
    for (uint32_t i = 0; i < N_LAYERS * N_HEADS; i++)
        memcpy(row_at(m, i / N_HEADS, i % N_HEADS, move->to_page[0], 0),
               row_at(m, i / N_HEADS, i % N_HEADS, move->from_page[0], 0),
               (size_t)move->n_tokens * ROW_BYTES);
    sequence_moved(s->real);
    unpin(m, move->from_page[0]);
    s->move = (struct cache_move){0};
}

/* ---- agreement ---- */

static void compare_sequence(const struct model *m, const struct model_sequence *s)
{
    uint32_t first_page, n_spans, at = 0;
    const struct page_span *spans = sequence_spans(s->real, 0, &first_page, &n_spans);
    for (uint32_t i = 0; i < n_spans; i++)
        for (uint32_t k = 0; k < spans[i].n_pages; k++, at++)
            ASSERT(at < s->n_pages && s->pages[at] == spans[i].first_page + k);
    ASSERT(at == s->n_pages && sequence_length(s->real) == s->n);
    uint32_t n_copied = s->move.n_tokens; /* not in place yet */
    uint32_t head = s->n_found * CACHE_PAGE_TOKENS;
    rows(m, s, 0, n_copied > 0 ? head : s->n, false);
}

static void compare_all(const struct model *m)
{
    const char *wrong = cache_check(m->cache);
    if (wrong != NULL) {
        fprintf(stderr, "%s\n", wrong);
        ASSERT(wrong == NULL);
    }
    uint32_t n_shared = 0, n_open = 0;
    for (uint32_t i = 0; i < m->n_blocks; i++)
        n_shared += m->blocks[i].refs > 1;
    for (uint32_t i = 0; i < m->n_sequences; i++) {
        n_open += m->sequences[i].real != NULL;
        if (m->sequences[i].real != NULL)
            compare_sequence(m, &m->sequences[i]);
    }
    struct cache_books books = cache_books(m->cache);
    ASSERT(books.blocks_free == count_free(m) && books.blocks_cached == count_cached(m));
    ASSERT(books.blocks_free + books.blocks_used + books.blocks_cached == m->n_blocks);
    ASSERT(books.blocks_shared == n_shared && books.sequences == n_open);
    ASSERT(books.evicted_blocks == m->evicted && books.lookup_tokens == m->lookups &&
           books.hit_tokens == m->hits);
    ASSERT(books.copied_tokens == m->copied && books.committed_tokens == m->committed);
    ASSERT(books.resident_bytes == books.expected_bytes + books.rounding_bytes);
    ASSERT(cache_blocks_available(m->cache, 0) == count_free(m) + count_cached(m));
}

/* ---- operations ---- */

static struct model_sequence *choose_open(struct model *m)
{
    uint32_t first = choose(m, m->n_sequences);
    for (uint32_t i = 0; i < m->n_sequences; i++) {
        struct model_sequence *s = &m->sequences[(first + i) % m->n_sequences];
        if (s->real != NULL)
            return s;
    }
    return NULL;
}

/* Shares and pins what an opening takes; the page of the move's source, or NO_PAGE. */
static uint32_t take_prefix(struct model *m, struct model_sequence *s, uint32_t n,
                            uint32_t *ret_common)
{
    *ret_common = 0;
    while (n - s->n >= CACHE_PAGE_TOKENS) {
        uint32_t page = find_full(m, s->salt, s->tokens, s->n);
        if (page == NO_PAGE)
            break;
        m->blocks[page].refs++;
        s->pages[s->n_pages++] = page;
        s->n += CACHE_PAGE_TOKENS;
        m->counts->shared_blocks++;
    }
    s->n_found = s->n_pages;
    uint32_t end = n - s->n < CACHE_PAGE_TOKENS ? n : s->n + CACHE_PAGE_TOKENS;
    uint32_t source = find_head(m, s->salt, s->tokens, s->n, end, ret_common);
    if (source != NO_PAGE) {
        m->counts->tail_sources +=
            m->blocks[source].refs > 0 && m->blocks[source].end % CACHE_PAGE_TOKENS != 0;
        m->blocks[source].pins++;
    }
    return source;
}

static void give_back(struct model *m, struct model_sequence *s, uint32_t n_pages)
{
    while (s->n_pages > n_pages)
        unref(m, s->pages[--s->n_pages]);
}

/* The sequence's prompt: a story, sometimes with one token changed. */
static void write_prompt(struct model *m, struct model_sequence *s)
{
    memcpy(s->tokens, m->stories[choose(m, N_STORIES)], sizeof s->tokens);
    if (next_byte(m) % 4 == 0)
        s->tokens[choose(m, CONTEXT)] = next_byte(m) % N_WORDS;
}

static void op_open(struct model *m)
{
    static struct model_sequence spare; /* for the opening that must fail */
    struct model_sequence *s = &spare;
    for (uint32_t i = 0; i < m->n_sequences; i++)
        s = m->sequences[i].real == NULL ? &m->sequences[i] : s;
    *s = (struct model_sequence){.salt = next_byte(m) % 8 == 0};
    write_prompt(m, s);
    uint32_t n = 1 + choose(m, CONTEXT), head = 0, source = NO_PAGE;
    bool may_reuse = next_byte(m) % 8 != 0, move_now = next_byte(m) % 2 == 0;
    enum status want = s == &spare ? STATUS_UNAVAILABLE : OK;
    if (want == OK && may_reuse)
        source = take_prefix(m, s, n - 1, &head);
    if (head > 0 && !reserve(m, 1))
        want = STATUS_CACHE_FULL;

    struct cache_move move;
    uint8_t salt = 's';
    enum status got = sequence_open(m->cache, s->salt ? &salt : NULL, s->salt, s->tokens, n,
                                    may_reuse, &s->real, &move);
    ASSERT(got == want && (got == OK) == (s->real != NULL));
    m->counts->no_sequence += got == STATUS_UNAVAILABLE;
    m->counts->full_at_open += got == STATUS_CACHE_FULL;
    if (got == STATUS_CACHE_FULL) {
        unpin(m, source);
        give_back(m, s, 0);
    }
    if (got != OK)
        return;
    ASSERT(move.n_tokens == head && (head == 0 || move.from_page[0] == source));
    if (head > 0) {
        take(m, s, move.to_page[0]);
        struct model_block *block = &m->blocks[move.to_page[0]];
        memcpy(block->tokens, s->tokens, (s->n + head) * sizeof *s->tokens);
        block->end = s->n + head;
        s->n += head;
        s->move = move;
    }
    ASSERT(s->n < n && sequence_reused(s->real) == s->n);
    m->counts->opens++;
    m->counts->copied_heads += head > 0;
    m->lookups += may_reuse ? n : 0;
    m->hits += s->n;
    m->copied += head;
    if (move_now)
        finish_move(m, s);
    else
        m->counts->late_moves += head > 0;
}

static void op_append(struct model *m)
{
    struct model_sequence *s = choose_open(m);
    if (s == NULL || s->is_appending || s->n == CONTEXT)
        return;
    uint32_t n = next_byte(m) % 2 == 0 ? 1 : 1 + choose(m, 3 * CACHE_PAGE_TOKENS);
    n = n < CONTEXT - s->n ? n : CONTEXT - s->n;
    uint32_t n_pages = cache_blocks_for(s->n + n);
    bool fits = reserve(m, n_pages - s->n_pages);
    enum status got = append_open(s->real, n);
    ASSERT(got == (fits ? OK : STATUS_CACHE_FULL));
    m->counts->full_at_append += !fits;
    if (!fits)
        return;
    uint32_t first_page, n_spans, at = 0;
    const struct page_span *spans = sequence_spans(s->real, 0, &first_page, &n_spans);
    for (uint32_t i = 0; i < n_spans; i++)
        for (uint32_t k = 0; k < spans[i].n_pages; k++, at++)
            if (at >= s->n_pages)
                take(m, s, spans[i].first_page + k);
    ASSERT(s->n_pages == n_pages);
    s->n_staged = n;
    s->is_appending = true;
    rows(m, s, s->n, s->n + n, true);
}

/* Forgets the cached tails directly in front of a block that says all of them. */
static void forget_covered(struct model *m, uint32_t page)
{
    const struct model_block *block = &m->blocks[page];
    for (;;) {
        uint32_t before = NO_PAGE;
        for (uint32_t i = 0; i < m->n_blocks; i++) {
            const struct model_block *other = &m->blocks[i];
            if (i != page && is_child(other, block->salt, block->tokens, block->start) &&
                compare(other->tokens, other->end, i, block, page) < 0 &&
                (before == NO_PAGE ||
                 compare(other->tokens, other->end, i, &m->blocks[before], before) > 0))
                before = i;
        }
        if (before == NO_PAGE || !is_cached(&m->blocks[before]) ||
            common(block->tokens, block->end, &m->blocks[before]) !=
                m->blocks[before].end - block->start)
            return;
        forget(&m->blocks[before]);
        m->counts->covered_tails++;
    }
}

/* Block i now holds the committed tokens up to end. */
static void grow_block(struct model *m, struct model_sequence *s, uint32_t i, uint32_t end)
{
    uint32_t page = s->pages[i];
    struct model_block *block = &m->blocks[page];
    bool is_full = end == block->start + CACHE_PAGE_TOKENS;
    memcpy(block->tokens, s->tokens, end * sizeof *s->tokens);
    block->end = end;
    block->is_indexed = false;
    uint32_t same = is_full ? find_full(m, s->salt, s->tokens, block->start) : NO_PAGE;
    if (same != NO_PAGE) {
        m->blocks[same].refs++;
        s->pages[i] = same;
        unref(m, page);
        m->counts->exchanged_blocks++;
        return;
    }
    block->is_indexed = true;
    if (is_full)
        forget_covered(m, page);
}

static void op_commit(struct model *m)
{
    struct model_sequence *s = choose_open(m);
    if (s == NULL || !s->is_appending)
        return;
    finish_move(m, s);
    uint32_t n = next_byte(m) % 8 == 0 ? choose(m, s->n_staged + 1) : s->n_staged;
    m->counts->partial_commits += n < s->n_staged;
    append_commit(s->real, s->tokens + s->n, n);
    uint32_t end = s->n + n;
    while (s->n < end) {
        uint32_t i = s->n / CACHE_PAGE_TOKENS, block_end = (i + 1) * CACHE_PAGE_TOKENS;
        s->n = end < block_end ? end : block_end;
        grow_block(m, s, i, s->n);
    }
    give_back(m, s, cache_blocks_for(s->n));
    s->is_appending = false;
    s->n_staged = 0;
    m->committed += n;
    m->counts->commits++;
    if (s->n < CONTEXT && next_byte(m) % 8 == 0)
        s->tokens[s->n] = next_byte(m) % N_WORDS;
}

static void abort_append(struct model *m, struct model_sequence *s)
{
    give_back(m, s, cache_blocks_for(s->n));
    s->is_appending = false;
    s->n_staged = 0;
    m->counts->aborts++;
}

static void op_abort(struct model *m)
{
    struct model_sequence *s = choose_open(m);
    if (s == NULL || !s->is_appending)
        return;
    append_abort(s->real);
    abort_append(m, s);
}

/* The last block stays findable only if no other says all of it. */
static void settle_tail(struct model *m, struct model_sequence *s)
{
    uint32_t page = s->n_pages > 0 ? s->pages[s->n_pages - 1] : NO_PAGE;
    if (page == NO_PAGE || !m->blocks[page].is_indexed || s->n % CACHE_PAGE_TOKENS == 0)
        return;
    struct model_block *block = &m->blocks[page];
    for (uint32_t i = 0; i < m->n_blocks; i++)
        if (i != page && is_child(&m->blocks[i], s->salt, s->tokens, block->start) &&
            common(block->tokens, block->end, &m->blocks[i]) == block->end - block->start) {
            forget(block);
            m->counts->covered_tails++;
            return;
        }
    forget_covered(m, page);
}

/* Forgets the sequence's own blocks that no other holds, and what is cached behind them. */
static void drop_own(struct model *m, struct model_sequence *s)
{
    for (uint32_t i = s->n_pages; i > s->n_found; i--) {
        struct model_block *block = &m->blocks[s->pages[i - 1]];
        if (block->refs > 1 || !block->is_indexed)
            continue;
        m->counts->drops++;
        bool is_full =
            block->end == block->start + CACHE_PAGE_TOKENS; /* nothing hangs from a tail */
        for (uint32_t k = 0; is_full && k < m->n_blocks; k++) {
            struct model_block *other = &m->blocks[k];
            if (is_cached(other) && other->salt == s->salt && other->start >= block->end &&
                same_tokens(other->tokens, block->tokens, block->end))
                forget(other);
        }
        forget(block);
    }
}

static void op_close(struct model *m)
{
    struct model_sequence *s = choose_open(m);
    if (s == NULL)
        return;
    bool publish = next_byte(m) % 4 != 0;
    sequence_close(&s->real, publish);
    ASSERT(s->real == NULL);
    if (s->is_appending)
        abort_append(m, s);
    if (publish)
        settle_tail(m, s);
    else
        drop_own(m, s);
    if (s->move.n_tokens > 0)
        unpin(m, s->move.from_page[0]);
    give_back(m, s, 0);
}

static void op_move(struct model *m)
{
    struct model_sequence *s = choose_open(m);
    if (s != NULL)
        finish_move(m, s);
}

static void op_purge(struct model *m)
{
    if (next_byte(m) % 8 != 0)
        return;
    cache_purge(m->cache);
    for (uint32_t i = 0; i < m->n_blocks; i++)
        if (is_cached(&m->blocks[i]))
            forget(&m->blocks[i]);
    m->counts->purges++;
}

/* Drains, fences and frees the namespace: nothing opens any more, and nothing is left in the end.
 * */
static void end_namespace(struct model *m)
{
    struct sequence *sequence;
    struct cache_move move;
    uint32_t id = 0;
    cache_set_namespace_state(m->cache, NAMESPACE_DRAINING);
    enum status got = sequence_open(m->cache, NULL, 0, &id, 1, true, &sequence, &move);
    ASSERT(got == STATUS_DRAINING && sequence == NULL);
    op_append(m);
    op_commit(m);
    compare_all(m);
    cache_set_namespace_state(m->cache, NAMESPACE_FENCED);
    got = sequence_open(m->cache, NULL, 0, &id, 1, true, &sequence, &move);
    ASSERT(got == STATUS_FENCED && sequence == NULL);
    m->counts->refused += 2;
    for (uint32_t i = 0; i < m->n_sequences; i++)
        sequence_close(&m->sequences[i].real, true);
    struct cache_books books = cache_books(m->cache);
    ASSERT(books.blocks_used == 0 && books.sequences == 0 && cache_check(m->cache) == NULL);
    cache_set_namespace_state(m->cache, NAMESPACE_FREED);
    ASSERT(cache_books(m->cache).blocks_free == m->n_blocks && cache_check(m->cache) == NULL);
}

static void model_init(struct model *m)
{
    static const uint8_t pools[] = {1, 2, 5, 12, 20, 36, 64};
    m->n_blocks = pools[next_byte(m) % sizeof pools];
    m->n_sequences = 1 + next_byte(m) % SEQUENCES_MAX;
    m->evict_batch = m->n_blocks / 16 < 1 ? 1 : m->n_blocks / 16;
    struct cache_shape shape = {.n_groups = 1,
                                .groups = {{N_LAYERS, N_HEADS, PAGE_BYTES, 0}},
                                .pool_bytes =
                                    (size_t)m->n_blocks * PAGE_BYTES * N_LAYERS * N_HEADS + 17,
                                .context_max = CONTEXT,
                                .sequences_max = m->n_sequences};
    enum status status = cache_new(&shape, &m->cache, NULL);
    ASSERT(status == OK && cache_blocks_total(m->cache, 0) == m->n_blocks);
    /* Each story leaves an earlier one at some token. */
    uint32_t state = next_byte(m) + 1;
    for (uint32_t k = 0; k < N_STORIES; k++) {
        uint32_t from = k == 0 ? 0 : choose(m, CONTEXT);
        for (uint32_t i = 0; i < CONTEXT; i++) {
            state = state * 1664525 + 1013904223;
            m->stories[k][i] = i < from ? m->stories[k / 2][i] : (state >> 16) % N_WORDS;
        }
    }
}

void cache_model_play(const uint8_t *bytes, size_t len, struct cache_model_counts *counts)
{
    static void (*const operations[])(struct model *) = {
        op_open,   op_open,   op_open,   op_append, op_append, op_append, op_append, op_commit,
        op_commit, op_commit, op_commit, op_close,  op_close,  op_abort,  op_move,   op_purge};
    static struct model model;
    model = (struct model){.bytes = bytes, .left = len, .counts = counts};
    model_init(&model);
    while (model.left > 0) {
        operations[next_byte(&model) % ARRAY_LEN(operations)](&model);
        compare_all(&model);
        counts->operations++;
    }
    end_namespace(&model);
    cache_free(&model.cache);
}
