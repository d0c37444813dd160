/* cache_model_group.h: one cache group of the naive model: its blocks, each with the whole token
 * string up to its end. For cache_model.c. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_TESTS_CACHE_MODEL_GROUP_H
#define FOLDKV_TESTS_CACHE_MODEL_GROUP_H

#include "cache/page_span.h"

enum {
    MODEL_CONTEXT_BLOCKS = 8,
    MODEL_CONTEXT = MODEL_CONTEXT_BLOCKS * CACHE_PAGE_TOKENS,
    MODEL_BLOCKS_MAX = 200,
};

struct model_block { /* one a page */
    bool is_taken, is_indexed;
    uint32_t refs, pins;
    uint32_t start, end; /* tokens it covers */
    uint32_t salt;
    uint32_t tokens[MODEL_CONTEXT]; /* [0, end) */
    uint64_t let_go;                /* when the last holder let go */
    uint64_t taken;                 /* when it was taken last */
};

struct model_group {
    uint32_t window; /* 0: none */
    uint32_t n_blocks, evict_batch;
    uint64_t now, evicted, covered; /* covered tails that were forgotten */
    struct model_block blocks[MODEL_BLOCKS_MAX];
};

bool model_is_cached(const struct model_block *block);
uint32_t model_count_free(const struct model_group *g);
uint32_t model_count_cached(const struct model_group *g);
uint32_t model_count_shared(const struct model_group *g);

/* The first block that a row at position p sees some token of; 0 without a window. */
uint32_t model_first_seen(const struct model_group *g, uint32_t p);
/* The full block over tokens[start, start + 64), or NO_PAGE. */
uint32_t model_find_full(const struct model_group *g, uint32_t salt, const uint32_t *tokens,
                         uint32_t start);
/* The child of tokens[0, start) with most tokens of tokens[start, end) in common. Of several, the
 * last one in order that is not behind the tokens, if it is as good as any behind them. */
uint32_t model_find_head(const struct model_group *g, uint32_t salt, const uint32_t *tokens,
                         uint32_t start, uint32_t end, uint32_t *ret_common);

void model_unref(struct model_group *g, uint32_t page);
void model_unpin(struct model_group *g, uint32_t page);
/* The cache took this page, which must be free, for the block that starts at token start. */
void model_take(struct model_group *g, uint32_t page, uint32_t salt, uint32_t start);
/* Whether n pages can be had. */
bool model_can_reserve(const struct model_group *g, uint32_t n);
/* Evicts until n pages are free, as the cache does. */
void model_reserve(struct model_group *g, uint32_t n);

void model_forget(struct model_block *block);
/* The same with all that is cached behind it, where blocks hang from each other. */
void model_forget_tree(struct model_group *g, uint32_t page);
/* Forgets the cached tails directly in front of a block that says all of them. */
void model_forget_covered(struct model_group *g, uint32_t page);
/* True if another child of the same chain begins with all of this block's tokens. */
bool model_is_covered(const struct model_group *g, uint32_t page);
/* The block now holds tokens[0, end): enters it, or returns the equal full one that is there. */
uint32_t model_grow(struct model_group *g, uint32_t page, const uint32_t *tokens, uint32_t end);

#endif
