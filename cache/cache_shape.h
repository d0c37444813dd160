/* cache_shape.h: what a cache is made for: its groups, its bytes, its limits; and what a window
 * spans. Pure; any thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_SHAPE_H
#define FOLDKV_CACHE_CACHE_SHAPE_H

#include "cache/page_span.h"
#include "config/sha256.h"

/* A cache group: the layers of one cache shape. */
struct cache_group_shape {
    uint32_t n_layers;
    uint32_t n_heads;  /* K/V heads a layer */
    size_t page_bytes; /* K and V parts of 64 tokens of one head of one layer; a multiple of 64 */
    uint32_t window;   /* W: a row at position p sees p - W + 1 to p; 0: everything before it */
};

struct cache_shape {
    uint32_t n_groups; /* 1..CACHE_GROUPS_MAX */
    struct cache_group_shape groups[CACHE_GROUPS_MAX];
    size_t pool_bytes;      /* what the operator allows all groups together (pool_split.h) */
    uint32_t context_max;   /* tokens a sequence may hold */
    uint32_t append_max;    /* rows that one append stages at most; 0: context_max */
    uint32_t sequences_max; /* sequences open at once */
    uint8_t identity[SHA256_BYTES]; /* I */
    uint8_t namespace_id[SHA256_BYTES];
    uint8_t numerics[SHA256_BYTES]; /* hash of the binding */
};

/* The first block that a row at this position sees; that of the next block if it sees itself alone
 * and starts one. */
static inline uint32_t cache_window_first(uint32_t window, uint32_t position)
{
    return window == 0 || position < window ? 0 : (position - window + 1) / CACHE_PAGE_TOKENS;
}

/* Blocks that a sequence of n_tokens holds at once at most: all, or what the window of an append's
 * first row and the append span. */
static inline uint32_t cache_window_blocks(uint32_t window, uint32_t append_max, uint32_t n_tokens)
{
    uint32_t all = cache_blocks_for(n_tokens);
    uint64_t seen = (uint64_t)window - 1 + append_max; /* tokens */
    uint64_t spanned = (seen + CACHE_PAGE_TOKENS - 2) / CACHE_PAGE_TOKENS + 1;
    return window == 0 || spanned > all ? all : (uint32_t)spanned;
}

#endif
