/* Cache model group: what one cache group should do, said the plain way: linear scans over blocks
 * that know all their tokens. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_model_group.h"

/* ---- what is known ---- */

bool model_is_cached(const struct model_block *block)
{
    return block->is_taken && block->refs + block->pins == 0;
}

uint32_t model_count_free(const struct model_group *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_blocks; i++)
        n += !g->blocks[i].is_taken;
    return n;
}

uint32_t model_count_cached(const struct model_group *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_blocks; i++)
        n += model_is_cached(&g->blocks[i]);
    return n;
}

uint32_t model_count_shared(const struct model_group *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_blocks; i++)
        n += g->blocks[i].refs > 1;
    return n;
}

uint32_t model_first_seen(const struct model_group *g, uint32_t p)
{
    int64_t lowest = g->window == 0 ? 0 : (int64_t)p - g->window + 1;
    uint32_t i = 0;
    while ((int64_t)(i + 1) * CACHE_PAGE_TOKENS <= lowest)
        i++;
    return i;
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

uint32_t model_find_full(const struct model_group *g, uint32_t salt, const uint32_t *tokens,
                         uint32_t start)
{
    uint32_t end = start + CACHE_PAGE_TOKENS;
    for (uint32_t i = 0; i < g->n_blocks; i++)
        if (is_child(&g->blocks[i], salt, tokens, start) && g->blocks[i].end == end &&
            same_tokens(g->blocks[i].tokens, tokens, end))
            return i;
    return NO_PAGE;
}

uint32_t model_find_head(const struct model_group *g, uint32_t salt, const uint32_t *tokens,
                         uint32_t start, uint32_t end, uint32_t *ret_common)
{
    uint32_t best = 0, before = NO_PAGE, after = NO_PAGE;
    for (uint32_t i = 0; i < g->n_blocks; i++) {
        const struct model_block *block = &g->blocks[i];
        if (!is_child(block, salt, tokens, start))
            continue;
        uint32_t n = common(tokens, end, block);
        best = n > best ? n : best;
        uint32_t *side = compare(tokens, end, NO_PAGE, block, i) < 0 ? &after : &before;
        if (*side == NO_PAGE || (compare(block->tokens, block->end, i, &g->blocks[*side], *side) <
                                 0) == (side == &after))
            *side = i;
    }
    *ret_common = best;
    if (best == 0)
        return NO_PAGE;
    uint32_t found =
        before != NO_PAGE && common(tokens, end, &g->blocks[before]) == best ? before : after;
    ASSERT(found != NO_PAGE && common(tokens, end, &g->blocks[found]) == best);
    return found;
}

/* ---- holders and free pages ---- */

static void let_go(struct model_group *g, struct model_block *block)
{
    if (block->refs + block->pins > 0)
        return;
    block->let_go = ++g->now;
    block->is_taken = block->is_indexed;
}

void model_unref(struct model_group *g, uint32_t page)
{
    ASSERT(g->blocks[page].refs > 0);
    g->blocks[page].refs--;
    let_go(g, &g->blocks[page]);
}

void model_unpin(struct model_group *g, uint32_t page)
{
    ASSERT(g->blocks[page].pins > 0);
    g->blocks[page].pins--;
    let_go(g, &g->blocks[page]);
}

void model_take(struct model_group *g, uint32_t page, uint32_t salt, uint32_t start)
{
    ASSERT(page < g->n_blocks && !g->blocks[page].is_taken);
    g->blocks[page] = (struct model_block){
        .is_taken = true, .refs = 1, .start = start, .end = start, .salt = salt, .taken = ++g->now};
}

bool model_can_reserve(const struct model_group *g, uint32_t n)
{
    return model_count_free(g) + model_count_cached(g) >= n;
}

static void evict_one(struct model_group *g)
{
    uint32_t oldest = NO_PAGE;
    for (uint32_t i = 0; i < g->n_blocks; i++)
        if (model_is_cached(&g->blocks[i]) &&
            (oldest == NO_PAGE || g->blocks[i].let_go < g->blocks[oldest].let_go))
            oldest = i;
    struct model_block *block = &g->blocks[oldest];
    for (uint32_t i = 0; i < g->n_blocks; i++) /* from the leaf: nothing hangs below it */
        ASSERT(i == oldest || g->window > 0 || block->end % CACHE_PAGE_TOKENS != 0 ||
               !is_child(&g->blocks[i], block->salt, block->tokens, block->end));
    model_forget(block);
    g->evicted++;
}

void model_reserve(struct model_group *g, uint32_t n)
{
    if (model_count_free(g) >= n)
        return;
    uint32_t goal = n > g->evict_batch ? n : g->evict_batch;
    while (model_count_free(g) < goal && model_count_cached(g) > 0)
        evict_one(g);
}

/* ---- the index ---- */

void model_forget(struct model_block *block)
{
    if (model_is_cached(block))
        block->is_taken = false;
    block->is_indexed = false;
}

void model_forget_tree(struct model_group *g, uint32_t page)
{
    struct model_block *block = &g->blocks[page];
    bool has_children = g->window == 0 && block->end == block->start + CACHE_PAGE_TOKENS;
    for (uint32_t k = 0; has_children && k < g->n_blocks; k++) {
        struct model_block *other = &g->blocks[k];
        if (model_is_cached(other) && other->salt == block->salt && other->start >= block->end &&
            same_tokens(other->tokens, block->tokens, block->end))
            model_forget(other);
    }
    model_forget(block);
}

void model_forget_covered(struct model_group *g, uint32_t page)
{
    const struct model_block *block = &g->blocks[page];
    for (;;) {
        uint32_t before = NO_PAGE;
        for (uint32_t i = 0; i < g->n_blocks; i++) {
            const struct model_block *other = &g->blocks[i];
            if (i != page && is_child(other, block->salt, block->tokens, block->start) &&
                compare(other->tokens, other->end, i, block, page) < 0 &&
                (before == NO_PAGE ||
                 compare(other->tokens, other->end, i, &g->blocks[before], before) > 0))
                before = i;
        }
        if (before == NO_PAGE || !model_is_cached(&g->blocks[before]) ||
            common(block->tokens, block->end, &g->blocks[before]) !=
                g->blocks[before].end - block->start)
            return;
        model_forget(&g->blocks[before]);
        g->covered++;
    }
}

bool model_is_covered(const struct model_group *g, uint32_t page)
{
    const struct model_block *block = &g->blocks[page];
    for (uint32_t i = 0; i < g->n_blocks; i++)
        if (i != page && is_child(&g->blocks[i], block->salt, block->tokens, block->start) &&
            common(block->tokens, block->end, &g->blocks[i]) == block->end - block->start)
            return true;
    return false;
}

uint32_t model_grow(struct model_group *g, uint32_t page, const uint32_t *tokens, uint32_t end)
{
    struct model_block *block = &g->blocks[page];
    bool is_full = end == block->start + CACHE_PAGE_TOKENS;
    memcpy(block->tokens, tokens, end * sizeof *tokens);
    block->end = end;
    block->is_indexed = false;
    uint32_t same = is_full ? model_find_full(g, block->salt, tokens, block->start) : NO_PAGE;
    if (same != NO_PAGE)
        return same;
    block->is_indexed = true;
    if (is_full)
        model_forget_covered(g, page);
    return page;
}
