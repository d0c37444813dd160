/* Prefix lookup: the longest prefix that every group holds.
 *
 * WHY     A group without a window needs every block from the first on, so it says how far a hit can
 *         reach. A group with a window needs only the last blocks of the hit, and those in front of
 *         them may have been evicted: a longer hit may be possible where a shorter one is not.
 * HOW     Each group notes for each block how many leading tokens it has. Without a window the walk
 *         goes from block to block and ends at the first that is not whole. With one it goes on, for
 *         a block's key follows from its tokens, whether it is there or not. Then P comes down from
 *         the reach of the others: where a block of the window before P lacks a token, no P between
 *         that token and this P can be, so the next to try is that token. Windows differ, so this
 *         is repeated until no group objects.
 * ALWAYS  (1) Each block of a group is looked up once and looked at once: O(blocks log pool).
 *             match_windowed, longest_in
 *         (2) Where P ends inside a block, every group has all of that block's tokens before P, so
 *             a copied head is whole.  longest_in
 * THREAD  engine
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/prefix_lookup.h"

#include "cache/cache_state.h"

/* Looks up block i of ids[n]. */
static struct prefix_match *match_block(struct cache_group *group, const uint8_t *parent_key,
                                        const uint32_t *ids, uint32_t n, uint32_t i)
{
    struct prefix_match *match = &group->matches[i];
    uint32_t from = i * CACHE_PAGE_TOKENS, left = n - from;
    match->page =
        prefix_index_find(&group->store.index, parent_key, ids + from,
                          left < CACHE_PAGE_TOKENS ? left : CACHE_PAGE_TOKENS, &match->n_tokens);
    if (match->n_tokens == CACHE_PAGE_TOKENS)
        memcpy(match->key, group->store.blocks[match->page].key, SHA256_BYTES);
    return match;
}

/* Tokens from 0 on, at most n, that a group without a window holds. */
static uint32_t match_whole(const struct sequence *sequence, uint32_t g, const uint32_t *ids,
                            uint32_t n)
{
    const uint8_t *parent_key = sequence->groups[g].root_key;
    for (uint32_t i = 0; i < cache_blocks_for(n); i++) {
        const struct prefix_match *match =
            match_block(&sequence->cache->groups[g], parent_key, ids, n, i);
        if (match->n_tokens < CACHE_PAGE_TOKENS)
            return i * CACHE_PAGE_TOKENS + match->n_tokens;
        parent_key = match->key;
    }
    return n;
}

/* Notes what a group with a window has of every block of ids[n]. */
static void match_windowed(const struct sequence *sequence, uint32_t g, const uint32_t *ids,
                           uint32_t n)
{
    struct cache *cache = sequence->cache;
    struct cache_group *group = &cache->groups[g];
    const uint8_t *parent_key = sequence->groups[g].root_key;
    for (uint32_t i = 0; i < cache_blocks_for(n); i++) {
        struct prefix_match *match = match_block(group, parent_key, ids, n, i);
        if (match->n_tokens < CACHE_PAGE_TOKENS && n - i * CACHE_PAGE_TOKENS >= CACHE_PAGE_TOKENS)
            chain_key_block(cache->sha, &group->scope,
                            (struct slice){sequence->salt, sequence->salt_len}, parent_key,
                            ids + (size_t)i * CACHE_PAGE_TOKENS, match->key);
        parent_key = match->key;
    }
}

/* The longest P <= most before which this group has the blocks of its window. */
static uint32_t longest_in(const struct cache_group *group, uint32_t most)
{
    uint32_t p = most, first = cache_window_first(group->window, p);
    for (uint32_t i = cache_blocks_for(p); i > first;) {
        uint32_t start = --i * CACHE_PAGE_TOKENS, has = group->matches[i].n_tokens;
        uint32_t needed = p - start < CACHE_PAGE_TOKENS ? p - start : CACHE_PAGE_TOKENS;
        if (has >= needed)
            continue;
        p = start + has;
        first = cache_window_first(group->window, p);
    }
    return p;
}

uint32_t prefix_lookup(const struct sequence *sequence, const uint32_t *ids, uint32_t n)
{
    const struct cache *cache = sequence->cache;
    uint32_t p = n;
    for (uint32_t g = 0; g < cache->n_groups; g++)
        if (cache->groups[g].window == 0)
            p = match_whole(sequence, g, ids, p);
    for (uint32_t g = 0; g < cache->n_groups; g++)
        if (cache->groups[g].window > 0)
            match_windowed(sequence, g, ids, p);
    for (uint32_t before = p + 1; before != p;) {
        before = p;
        for (uint32_t g = 0; g < cache->n_groups; g++)
            if (cache->groups[g].window > 0)
                p = longest_in(&cache->groups[g], p);
    }
    return p;
}
