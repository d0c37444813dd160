/* Pool split: from bytes to blocks of each group.
 *
 * HOW     The blocks of every group rise with one number, so bisection finds the largest one that
 *         fits: first T; then, if windows have to give way, T up to one context with the windows of
 *         one sequence, and after that the windows in sixteenths of a sequence.
 * ALWAYS  (1) The sum is within the bytes.  largest
 *         (2) With at least pool_split_sequence_bytes(context_max) bytes one sequence can hold a
 *             full context.  pool_split
 */
// SPDX-License-Identifier: Apache-2.0
#include "cache/pool_split.h"

enum { BLOCKS_MAX = 1 << 30, CACHED_SHARE = 8, SEQUENCE_PARTS = 16 };

/* What the number of each group's blocks depends on. */
struct split {
    const struct cache_shape *shape;
    uint64_t tokens;  /* T, in blocks */
    uint64_t windows; /* of so many sixteenths of a sequence; 0: of all, and the cached share */
};

static uint32_t append_max(const struct cache_shape *shape)
{
    return shape->append_max > 0 ? shape->append_max : shape->context_max;
}

static uint64_t group_blocks(const struct split *s, uint32_t group)
{
    const struct cache_shape *shape = s->shape;
    uint32_t window = shape->groups[group].window;
    if (window == 0)
        return s->tokens;
    uint64_t one = cache_window_blocks(window, append_max(shape), shape->context_max);
    uint64_t n = s->windows > 0 ? (one * s->windows + SEQUENCE_PARTS - 1) / SEQUENCE_PARTS
                                : one * shape->sequences_max + s->tokens / CACHED_SHARE;
    return n < s->tokens ? n : s->tokens;
}

/* Adds n blocks of the group; false if the sum overflows. */
static bool add_blocks(const struct cache_group_shape *group, uint64_t n, uint64_t *bytes)
{
    uint64_t more;
    return !__builtin_mul_overflow((uint64_t)group->page_bytes, (uint64_t)group->n_heads, &more) &&
           !__builtin_mul_overflow(more, (uint64_t)group->n_layers, &more) &&
           !__builtin_mul_overflow(more, n, &more) && !__builtin_add_overflow(*bytes, more, bytes);
}

static uint64_t split_bytes(const struct split *s)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < s->shape->n_groups; g++)
        if (!add_blocks(&s->shape->groups[g], group_blocks(s, g), &bytes))
            return UINT64_MAX;
    return bytes;
}

/* The largest *number in [least - 1, most] with which the split is within the pool's bytes. */
static void largest(struct split *s, uint64_t *number, uint64_t least, uint64_t most)
{
    uint64_t fits = least - 1, too_many = most + 1;
    while (too_many - fits > 1) {
        *number = fits + (too_many - fits) / 2;
        if (split_bytes(s) <= s->shape->pool_bytes)
            fits = *number;
        else
            too_many = *number;
    }
    *number = fits;
}

uint64_t pool_split_sequence_bytes(const struct cache_shape *shape, uint32_t n_tokens)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < shape->n_groups; g++) {
        const struct cache_group_shape *group = &shape->groups[g];
        if (!add_blocks(group, cache_window_blocks(group->window, append_max(shape), n_tokens),
                        &bytes))
            return UINT64_MAX;
    }
    return bytes;
}

uint64_t pool_split_of(const struct cache_shape *shape, uint32_t blocks,
                       uint32_t ret_blocks[CACHE_GROUPS_MAX])
{
    const struct split s = {.shape = shape, .tokens = blocks};
    for (uint32_t g = 0; g < shape->n_groups; g++)
        ret_blocks[g] = (uint32_t)group_blocks(&s, g);
    return split_bytes(&s);
}

uint32_t pool_split_tokens(const struct cache_shape *shape, const uint32_t *blocks)
{
    uint64_t tokens = shape->context_max;
    for (uint32_t g = 0; g < shape->n_groups; g++) {
        uint64_t held = (uint64_t)blocks[g] * CACHE_PAGE_TOKENS;
        uint32_t most =
            cache_window_blocks(shape->groups[g].window, append_max(shape), shape->context_max);
        if (blocks[g] < most && held < tokens)
            tokens = held;
    }
    return (uint32_t)tokens;
}

/* Windows give way to one full context. */
static void make_room(struct split *s, uint32_t context_blocks)
{
    struct split alone = {s->shape, 0, SEQUENCE_PARTS};
    largest(&alone, &alone.tokens, s->tokens + 1, context_blocks);
    if (alone.tokens <= s->tokens)
        return;
    *s = alone;
    largest(s, &s->windows, SEQUENCE_PARTS + 1, (uint64_t)SEQUENCE_PARTS * s->shape->sequences_max);
}

enum status pool_split(const struct cache_shape *shape, uint32_t ret_blocks[CACHE_GROUPS_MAX],
                       struct why *ret_why)
{
    struct split s = {.shape = shape, .tokens = (uint64_t)BLOCKS_MAX + 1};
    if (split_bytes(&s) <= shape->pool_bytes) {
        s.tokens = BLOCKS_MAX;
        return why_set(ret_why, STATUS_BAD_OPTION, "cache.bytes",
                       "cache.bytes is %zu, at most %llu can be used", shape->pool_bytes,
                       (unsigned long long)split_bytes(&s));
    }
    largest(&s, &s.tokens, 1, BLOCKS_MAX);
    if (s.tokens == 0)
        return why_set(ret_why, STATUS_CACHE_TOO_SMALL, "cache.bytes",
                       "cache.bytes is %zu, one block of %d tokens takes %llu", shape->pool_bytes,
                       CACHE_PAGE_TOKENS, (unsigned long long)pool_split_sequence_bytes(shape, 1));
    uint32_t context_blocks = cache_blocks_for(shape->context_max);
    if (s.tokens < context_blocks)
        make_room(&s, context_blocks);
    for (uint32_t g = 0; g < shape->n_groups; g++)
        ret_blocks[g] = (uint32_t)group_blocks(&s, g);
    return OK;
}
