/* Cache model: what the cache should do, said the plain way.
 *
 * WHY     Pages, references, evictions and reuse are easy to say with whole token strings and
 *         linear scans; the cache does them with keys, trees and lists. Both get the same
 *         operations and must agree after each one.
 * HOW     Every block of the model carries all tokens from position 0 to its end. Rows written into
 *         the pools hold a hash of the tokens up to their position, so a page that is shared, copied
 *         or evicted wrongly shows as a wrong number. How long a hit is, is tried from above: every
 *         length, every group, every block. The model learns page numbers from the cache, and
 *         nothing else: which block is reused, copied, given back or evicted it says by itself.
 */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_model.h"

#include "cache/cache.h"
#include "cache/cache_check.h"
#include "tests/support/cache_model_group.h"

enum {
    GROUPS_MAX = 3,
    CONTEXT_BLOCKS = MODEL_CONTEXT_BLOCKS,
    CONTEXT = MODEL_CONTEXT,
    APPEND_MAX = 2 * CACHE_PAGE_TOKENS,
    SEQUENCES_MAX = 6,
    N_STORIES = 6,
    N_WORDS = 3, /* different token ids: few, so that prompts meet */
    ROW_BYTES = 8,
    PAGE_BYTES = CACHE_PAGE_TOKENS * ROW_BYTES,
};

/* Windows of each group; the layers and heads differ, too. */
static const struct {
    uint32_t n_groups, windows[GROUPS_MAX];
} layouts[] = {{1, {0}},          {2, {0, 100}},   {2, {64, 0}}, {1, {70}},
               {3, {0, 20, 130}}, {3, {1, 0, 65}}, {2, {0, 0}},  {2, {150, 33}}};

struct model_sequence {
    struct sequence *real; /* NULL: closed */
    uint32_t salt;
    uint32_t tokens[CONTEXT]; /* also those still to come */
    uint32_t n, n_staged, n_found;
    bool is_appending;
    uint32_t n_pages;                           /* end of every table */
    uint32_t first[GROUPS_MAX];                 /* beginning of each */
    uint32_t pages[GROUPS_MAX][CONTEXT_BLOCKS]; /* those given back stay noted ... */
    uint64_t taken[GROUPS_MAX][CONTEXT_BLOCKS]; /* ... with the time of their taking */
    struct cache_move move;                     /* unfinished; n_tokens 0: none */
};

struct model {
    const uint8_t *bytes;
    size_t left;
    struct cache *cache;
    uint32_t n_groups, n_sequences;
    uint64_t lookups, hits, copied, committed;
    uint32_t stories[N_STORIES][CONTEXT];
    struct model_group groups[GROUPS_MAX];
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

/* ---- shapes ---- */

static uint32_t n_layers(uint32_t group)
{
    return 1 + group % 2;
}

static uint32_t n_heads(uint32_t group)
{
    return 3 - group;
}

/* ---- rows ---- */

static char *row_at(const struct model *m, uint32_t group, uint32_t i, uint32_t page,
                    uint32_t token)
{
    struct cache_memory memory = cache_memory(m->cache, group);
    return memory.base + i / n_heads(group) * memory.layer_stride +
           i % n_heads(group) * memory.head_stride + page * memory.page_bytes +
           (size_t)token * ROW_BYTES;
}

/* A group's rows of tokens [from, to): written if write, else compared. Each depends on all tokens
 * up to its own. */
static void rows(const struct model *m, const struct model_sequence *s, uint32_t group,
                 uint32_t from, uint32_t to, bool write)
{
    uint64_t hash = 0xcbf29ce484222325u + s->salt + 8 * group;
    for (uint32_t t = 0; t < to; t++) {
        hash = (hash ^ s->tokens[t]) * 0x100000001b3u;
        for (uint32_t i = 0; t >= from && i < n_layers(group) * n_heads(group); i++) {
            char *row =
                row_at(m, group, i, s->pages[group][t / CACHE_PAGE_TOKENS], t % CACHE_PAGE_TOKENS);
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
    for (uint32_t g = 0; g < m->n_groups; g++)
        for (uint32_t i = 0; i < n_layers(g) * n_heads(g); i++)
            memcpy(row_at(m, g, i, move->to_page[g], 0), row_at(m, g, i, move->from_page[g], 0),
                   (size_t)move->n_tokens * ROW_BYTES);
    sequence_moved(s->real);
    for (uint32_t g = 0; g < m->n_groups; g++)
        model_unpin(&m->groups[g], move->from_page[g]);
    s->move = (struct cache_move){0};
}

/* ---- agreement ---- */

static void compare_table(const struct model *m, const struct model_sequence *s, uint32_t group)
{
    uint32_t first_page, n_spans;
    const struct page_span *spans = sequence_spans(s->real, group, &first_page, &n_spans);
    ASSERT(first_page == s->first[group]);
    uint32_t at = first_page;
    for (uint32_t i = 0; i < n_spans; i++)
        for (uint32_t k = 0; k < spans[i].n_pages; k++, at++)
            ASSERT(at < s->n_pages && s->pages[group][at] == spans[i].first_page + k);
    ASSERT(at == s->n_pages);
    /* a copied head may not be in place yet */
    uint32_t whole = s->move.n_tokens > 0 ? s->n_found * CACHE_PAGE_TOKENS : s->n;
    rows(m, s, group, first_page * CACHE_PAGE_TOKENS, whole, false);
}

static void compare_group(const struct model *m, uint32_t group)
{
    const struct model_group *g = &m->groups[group];
    struct cache_group_books books = cache_group_books(m->cache, group);
    uint32_t n_free = model_count_free(g), n_cached = model_count_cached(g);
    ASSERT(books.blocks_total == g->n_blocks);
    ASSERT(books.blocks_free == n_free && books.blocks_cached == n_cached);
    ASSERT(books.blocks_free + books.blocks_used + books.blocks_cached == g->n_blocks);
    ASSERT(books.blocks_shared == model_count_shared(g) && books.evicted_blocks == g->evicted);
    ASSERT(books.resident_bytes == books.expected_bytes + books.rounding_bytes);
    ASSERT(cache_blocks_available(m->cache, group) == n_free + n_cached);
}

static void compare_all(const struct model *m)
{
    const char *wrong = cache_check(m->cache);
    if (wrong != NULL) {
        fprintf(stderr, "%s\n", wrong);
        ASSERT(wrong == NULL);
    }
    uint32_t n_open = 0;
    for (uint32_t g = 0; g < m->n_groups; g++)
        compare_group(m, g);
    for (uint32_t i = 0; i < m->n_sequences; i++) {
        const struct model_sequence *s = &m->sequences[i];
        n_open += s->real != NULL;
        for (uint32_t g = 0; s->real != NULL && g < m->n_groups; g++)
            compare_table(m, s, g);
        ASSERT(s->real == NULL || sequence_length(s->real) == s->n);
    }
    struct cache_books books = cache_books(m->cache);
    ASSERT(books.sequences == n_open && books.lookup_tokens == m->lookups &&
           books.hit_tokens == m->hits);
    ASSERT(books.copied_tokens == m->copied && books.committed_tokens == m->committed);
}

/* ---- changes ---- */

/* The cache took this page for block i of the sequence. */
static void take(struct model *m, struct model_sequence *s, uint32_t group, uint32_t i,
                 uint32_t page)
{
    ASSERT(i < CONTEXT_BLOCKS);
    model_take(&m->groups[group], page, s->salt, i * CACHE_PAGE_TOKENS);
    s->pages[group][i] = page;
}

static void give_back(struct model *m, struct model_sequence *s, uint32_t n_pages)
{
    for (uint32_t g = 0; g < m->n_groups; g++)
        for (uint32_t i = s->n_pages; i > n_pages && i > s->first[g]; i--)
            model_unref(&m->groups[g], s->pages[g][i - 1]);
    s->n_pages = s->n_pages < n_pages ? s->n_pages : n_pages;
}

/* Gives back what a row at position p does not see. */
static void give_back_unseen(struct model *m, struct model_sequence *s, uint32_t p)
{
    for (uint32_t group = 0; group < m->n_groups; group++) {
        struct model_group *g = &m->groups[group];
        for (uint32_t end = model_first_seen(g, p); s->first[group] < end; s->first[group]++) {
            uint32_t i = s->first[group], page = s->pages[group][i];
            s->taken[group][i] = g->blocks[page].taken;
            model_unref(g, page);
            m->counts->given_back++;
        }
    }
}

/* ---- the longest prefix ---- */

/* What a group has of each block of a prompt. */
struct prefix {
    uint32_t pages[CONTEXT_BLOCKS], common[CONTEXT_BLOCKS];
};

/* Looks at every block of tokens[0, n). */
static void look_up(const struct model_group *g, const struct model_sequence *s, uint32_t n,
                    struct prefix *ret)
{
    *ret = (struct prefix){0};
    for (uint32_t i = 0; i < cache_blocks_for(n); i++) {
        uint32_t start = i * CACHE_PAGE_TOKENS, end = start + CACHE_PAGE_TOKENS;
        ret->pages[i] =
            model_find_head(g, s->salt, s->tokens, start, end < n ? end : n, &ret->common[i]);
    }
}

/* Whether the group has all that a hit of p tokens needs of it. */
static bool serves(const struct model_group *g, const struct prefix *prefix, uint32_t p)
{
    for (uint32_t i = model_first_seen(g, p); i < cache_blocks_for(p); i++) {
        uint32_t start = i * CACHE_PAGE_TOKENS;
        uint32_t needed = p - start < CACHE_PAGE_TOKENS ? p - start : CACHE_PAGE_TOKENS;
        if (prefix->common[i] < needed)
            return false;
    }
    return true;
}

/* The longest hit of at most n tokens. Groups without a window are looked up first: what they have
 * bounds what is asked of the others. */
static uint32_t longest(struct model *m, const struct model_sequence *s, uint32_t n,
                        struct prefix prefixes[GROUPS_MAX])
{
    uint32_t p = n;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t g = 0; g < m->n_groups; g++) {
            if ((m->groups[g].window > 0) != (pass == 1))
                continue;
            look_up(&m->groups[g], s, p, &prefixes[g]);
            while (pass == 0 && !serves(&m->groups[g], &prefixes[g], p))
                p--;
        }
    }
    uint32_t reach = p;
    for (uint32_t g = 0; g < m->n_groups;)
        if (serves(&m->groups[g], &prefixes[g], p)) {
            g++;
        } else {
            p--;
            g = 0;
        }
    m->counts->shortened += p < reach;
    return p;
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

/* Shares and pins what an opening takes; the sources' pages, and how many tokens are copied. */
static uint32_t take_prefix(struct model *m, struct model_sequence *s, uint32_t n,
                            uint32_t sources[GROUPS_MAX])
{
    static struct prefix prefixes[GROUPS_MAX];
    uint32_t p = longest(m, s, n, prefixes), head = p % CACHE_PAGE_TOKENS;
    s->n = p;
    s->n_found = s->n_pages = p / CACHE_PAGE_TOKENS;
    bool has_gap = false;
    for (uint32_t group = 0; group < m->n_groups; group++) {
        struct model_group *g = &m->groups[group];
        s->first[group] = model_first_seen(g, p);
        for (uint32_t i = 0; i < s->first[group]; i++)
            has_gap |= prefixes[group].common[i] < CACHE_PAGE_TOKENS;
        for (uint32_t i = s->first[group]; i < s->n_found; i++) {
            uint32_t page = model_find_full(g, s->salt, s->tokens, i * CACHE_PAGE_TOKENS);
            g->blocks[page].refs++;
            s->pages[group][i] = page;
            m->counts->shared_blocks++;
        }
        if (head == 0)
            continue;
        sources[group] = prefixes[group].pages[s->n_found];
        struct model_block *source = &g->blocks[sources[group]];
        m->counts->tail_sources += source->refs > 0 && source->end % CACHE_PAGE_TOKENS != 0;
        source->pins++;
    }
    m->counts->window_hits += has_gap;
    return head;
}

/* The sequence's prompt: a story, sometimes with one token changed. */
static void write_prompt(struct model *m, struct model_sequence *s)
{
    memcpy(s->tokens, m->stories[choose(m, N_STORIES)], sizeof s->tokens);
    if (next_byte(m) % 4 == 0)
        s->tokens[choose(m, CONTEXT)] = next_byte(m) % N_WORDS;
}

/* The copied head's pages; false, and nothing held, if a group has none. */
static bool reserve_head(struct model *m, struct model_sequence *s,
                         const uint32_t sources[GROUPS_MAX])
{
    bool fits = true;
    for (uint32_t g = 0; g < m->n_groups; g++)
        fits &= model_can_reserve(&m->groups[g], 1);
    for (uint32_t g = 0; g < m->n_groups; g++) {
        if (fits)
            model_reserve(&m->groups[g], 1);
        else
            model_unpin(&m->groups[g], sources[g]);
    }
    if (!fits)
        give_back(m, s, 0);
    return fits;
}

static void note_move(struct model *m, struct model_sequence *s, const struct cache_move *move,
                      const uint32_t sources[GROUPS_MAX])
{
    for (uint32_t g = 0; g < m->n_groups; g++) {
        ASSERT(move->from_page[g] == sources[g]);
        take(m, s, g, s->n_found, move->to_page[g]);
        struct model_block *block = &m->groups[g].blocks[move->to_page[g]];
        memcpy(block->tokens, s->tokens, s->n * sizeof *s->tokens);
        block->end = s->n;
    }
    s->n_pages++;
    s->move = *move;
}

static void op_open(struct model *m)
{
    static struct model_sequence spare; /* for the opening that must fail */
    struct model_sequence *s = &spare;
    for (uint32_t i = 0; i < m->n_sequences; i++)
        s = m->sequences[i].real == NULL ? &m->sequences[i] : s;
    *s = (struct model_sequence){.salt = next_byte(m) % 8 == 0};
    write_prompt(m, s);
    uint32_t n = 1 + choose(m, CONTEXT), head = 0, sources[GROUPS_MAX];
    bool may_reuse = next_byte(m) % 8 != 0, move_now = next_byte(m) % 2 == 0;
    enum status want = s == &spare ? STATUS_UNAVAILABLE : OK;
    if (want == OK && may_reuse)
        head = take_prefix(m, s, n - 1, sources);
    if (head > 0 && !reserve_head(m, s, sources))
        want = STATUS_CACHE_FULL;

    struct cache_move move;
    uint8_t salt = 's';
    enum status got = sequence_open(m->cache, s->salt ? &salt : NULL, s->salt, s->tokens, n,
                                    may_reuse, &s->real, &move);
    ASSERT(got == want && (got == OK) == (s->real != NULL));
    m->counts->no_sequence += got == STATUS_UNAVAILABLE;
    m->counts->full_at_open += got == STATUS_CACHE_FULL;
    if (got != OK)
        return;
    ASSERT(move.n_tokens == head);
    if (head > 0)
        note_move(m, s, &move, sources);
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

/* Whether every group has n more pages for the sequence, its own behind the window included. */
static bool has_room(struct model *m, const struct model_sequence *s, uint32_t n)
{
    uint32_t n_fit = 0;
    for (uint32_t group = 0; group < m->n_groups; group++) {
        const struct model_group *g = &m->groups[group];
        uint32_t n_own = 0;
        for (uint32_t i = s->first[group]; i < model_first_seen(g, s->n); i++) {
            const struct model_block *block = &g->blocks[s->pages[group][i]];
            n_own += block->refs == 1 && block->pins == 0;
        }
        bool fits = model_count_free(g) + model_count_cached(g) + n_own >= n;
        n_fit += fits;
    }
    m->counts->full_in_some += n_fit > 0 && n_fit < m->n_groups;
    return n_fit == m->n_groups;
}

static void op_append(struct model *m)
{
    struct model_sequence *s = choose_open(m);
    if (s == NULL || s->is_appending || s->n == CONTEXT)
        return;
    uint32_t n = next_byte(m) % 4 == 0 ? 1 : 1 + choose(m, APPEND_MAX);
    n = n < CONTEXT - s->n ? n : CONTEXT - s->n;
    uint32_t end = cache_blocks_for(s->n + n), more = end - s->n_pages;
    bool fits = has_room(m, s, more);
    enum status got = append_open(s->real, n);
    ASSERT(got == (fits ? OK : STATUS_CACHE_FULL));
    m->counts->full_at_append += !fits;
    if (!fits)
        return;
    give_back_unseen(m, s, s->n);
    for (uint32_t g = 0; g < m->n_groups; g++) {
        uint32_t first_page, n_spans;
        const struct page_span *spans = sequence_spans(s->real, g, &first_page, &n_spans);
        uint32_t at = first_page;
        model_reserve(&m->groups[g], more);
        for (uint32_t i = 0; i < n_spans; i++)
            for (uint32_t k = 0; k < spans[i].n_pages; k++, at++)
                if (at >= s->n_pages)
                    take(m, s, g, at, spans[i].first_page + k);
        ASSERT(at == end);
    }
    s->n_pages = end;
    s->n_staged = n;
    s->is_appending = true;
    for (uint32_t g = 0; g < m->n_groups; g++)
        rows(m, s, g, s->n, s->n + n, true);
}

/* Tokens up to end are committed now in one group. */
static void grow_group(struct model *m, struct model_sequence *s, uint32_t group, uint32_t end)
{
    struct model_group *g = &m->groups[group];
    for (uint32_t at = s->n; at < end;) {
        uint32_t i = at / CACHE_PAGE_TOKENS, block_end = (i + 1) * CACHE_PAGE_TOKENS;
        at = end < block_end ? end : block_end;
        uint32_t page = s->pages[group][i], kept = model_grow(g, page, s->tokens, at);
        if (kept == page)
            continue;
        g->blocks[kept].refs++;
        s->pages[group][i] = kept;
        model_unref(g, page);
        m->counts->exchanged_blocks++;
    }
}

static void end_append(struct model *m, struct model_sequence *s)
{
    give_back(m, s, cache_blocks_for(s->n));
    s->is_appending = false;
    s->n_staged = 0;
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
    for (uint32_t g = 0; g < m->n_groups; g++)
        grow_group(m, s, g, s->n + n);
    s->n += n;
    end_append(m, s);
    if (n > 0)
        give_back_unseen(m, s, s->n - 1);
    m->committed += n;
    m->counts->commits++;
    if (s->n < CONTEXT && next_byte(m) % 8 == 0)
        s->tokens[s->n] = next_byte(m) % N_WORDS;
}

static void op_abort(struct model *m)
{
    struct model_sequence *s = choose_open(m);
    if (s == NULL || !s->is_appending)
        return;
    append_abort(s->real);
    end_append(m, s);
    m->counts->aborts++;
}

/* The last block stays findable only if no other says all of it. */
static void settle_tail(struct model *m, struct model_sequence *s, uint32_t group)
{
    struct model_group *g = &m->groups[group];
    if (s->n_pages == s->first[group] || s->n % CACHE_PAGE_TOKENS == 0)
        return;
    uint32_t page = s->pages[group][s->n_pages - 1];
    if (!g->blocks[page].is_indexed)
        return;
    if (model_is_covered(g, page)) {
        model_forget(&g->blocks[page]);
        g->covered++;
    } else {
        model_forget_covered(g, page);
    }
}

/* Forgets the sequence's own blocks that no other holds, and what is cached behind them. */
static void drop_own(struct model *m, struct model_sequence *s, uint32_t group)
{
    struct model_group *g = &m->groups[group];
    for (uint32_t i = s->n_pages; i-- > s->n_found;) {
        uint32_t page = s->pages[group][i];
        struct model_block *block = &g->blocks[page];
        bool is_held = i >= s->first[group];
        bool is_own =
            is_held ? block->refs == 1 : block->refs == 0 && block->taken == s->taken[group][i];
        if (!is_own || !block->is_indexed)
            continue;
        m->counts->drops++;
        m->counts->drops_behind += !is_held;
        model_forget_tree(g, page);
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
        end_append(m, s);
    for (uint32_t g = 0; g < m->n_groups; g++) {
        if (publish)
            settle_tail(m, s, g);
        else
            drop_own(m, s, g);
        if (s->move.n_tokens > 0)
            model_unpin(&m->groups[g], s->move.from_page[g]);
    }
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
    for (uint32_t g = 0; g < m->n_groups; g++)
        for (uint32_t i = 0; i < m->groups[g].n_blocks; i++)
            if (model_is_cached(&m->groups[g].blocks[i]))
                model_forget(&m->groups[g].blocks[i]);
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
    books = cache_books(m->cache);
    ASSERT(books.blocks_free == books.blocks_total && cache_check(m->cache) == NULL);
}

/* Each story leaves an earlier one at some token. */
static void write_stories(struct model *m)
{
    uint32_t state = next_byte(m) + 1;
    for (uint32_t k = 0; k < N_STORIES; k++) {
        uint32_t from = k == 0 ? 0 : choose(m, CONTEXT);
        for (uint32_t i = 0; i < CONTEXT; i++) {
            state = state * 1664525 + 1013904223;
            m->stories[k][i] = i < from ? m->stories[k / 2][i] : (state >> 16) % N_WORDS;
        }
    }
}

static void model_init(struct model *m)
{
    static const uint8_t pools[] = {1, 2, 4, 9, 16, 30, 60};
    uint32_t first = next_byte(m), layout = first / sizeof pools % ARRAY_LEN(layouts);
    m->n_groups = layouts[layout].n_groups;
    m->n_sequences = 1 + next_byte(m) % SEQUENCES_MAX;
    struct cache_shape shape = {.n_groups = m->n_groups,
                                .pool_bytes = 17,
                                .context_max = CONTEXT,
                                .append_max = APPEND_MAX,
                                .sequences_max = m->n_sequences};
    for (uint32_t g = 0; g < m->n_groups; g++) {
        m->groups[g].window = layouts[layout].windows[g];
        shape.groups[g] =
            (struct cache_group_shape){n_layers(g), n_heads(g), PAGE_BYTES, m->groups[g].window};
        shape.pool_bytes +=
            (size_t)pools[first % sizeof pools] * PAGE_BYTES * n_layers(g) * n_heads(g);
    }
    enum status status = cache_new(&shape, &m->cache, NULL);
    ASSERT(status == OK);
    for (uint32_t g = 0; g < m->n_groups; g++) {
        uint32_t n = cache_blocks_total(m->cache, g);
        ASSERT(n <= MODEL_BLOCKS_MAX);
        m->groups[g].n_blocks = n;
        m->groups[g].evict_batch = n / 16 < 1 ? 1 : n / 16 > 16 ? 16 : n / 16;
    }
    write_stories(m);
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
    for (uint32_t g = 0; g < model.n_groups; g++) {
        counts->evictions += model.groups[g].evicted;
        counts->covered_tails += model.groups[g].covered;
    }
    end_namespace(&model);
    cache_free(&model.cache);
}
