/* cache_state.h: struct cache and struct sequence, for the files of this folder. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_STATE_H
#define FOLDKV_CACHE_CACHE_STATE_H

#include "cache/block_store.h"
#include "cache/block_table.h"
#include "cache/cache.h"
#include "cache/chain_key.h"

/* One of cache->sequences; is_open from sequence_open to sequence_close. */
struct sequence {
    struct cache *cache;
    struct sequence *next_free;
    bool is_open;
    bool is_appending;    /* between append_open and commit or abort */
    uint32_t n_committed; /* tokens */
    uint32_t n_staged;    /* tokens that pages are reserved for behind the committed ones */
    uint32_t n_reused;    /* tokens found at opening */
    uint32_t n_found;     /* blocks of them that are shared; those behind are this sequence's own */
    uint32_t source;      /* pinned page of an unfinished copy, or NO_PAGE */
    struct block_table table;
    uint8_t root_key[SHA256_BYTES];
    char salt[CACHE_SALT_BYTES_MAX];
    size_t salt_len;
};

struct cache {
    struct cache_shape shape;
    struct chain_scope scope;
    struct namespace space;
    struct pool_memory memory;
    struct block_store store;
    struct sha256 *sha;
    struct sequence *sequences; /* [shape.sequences_max] */
    struct sequence *free_sequences;
    uint32_t *table_pages; /* the tables' arrays, all sequences' in one */
    struct page_span *table_spans;
    struct cache_books totals; /* only the sums that are counted upwards */
};

/* The key above block i of a sequence, and the indexed block that bears it (NO_PAGE above block 0).
 * */
const uint8_t *sequence_parent_key(const struct sequence *sequence, uint32_t i);
uint32_t sequence_parent(const struct sequence *sequence, uint32_t i);
/* Gives back pages from the end until only n are left. */
void sequence_shrink(struct sequence *sequence, uint32_t n_pages);

#endif
