/* cache_state.h: struct cache and struct sequence, for the files of this folder. Engine thread. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_STATE_H
#define FOLDKV_CACHE_CACHE_STATE_H

#include "cache/block_store.h"
#include "cache/block_table.h"
#include "cache/cache.h"
#include "cache/chain_key.h"

/* What a look-up found of one block of a prompt (prefix_lookup.c). */
struct prefix_match {
    uint32_t page;             /* NO_PAGE: none */
    uint32_t n_tokens;         /* leading ones that are the same; 64: a full block */
    uint8_t key[SHA256_BYTES]; /* of the block, if all its 64 tokens are in the prompt */
};

struct cache_group {
    uint32_t window; /* 0: none */
    struct chain_scope scope;
    struct pool_memory memory;
    struct block_store store;
    uint32_t *table_pages; /* the tables' arrays, all sequences' in one */
    struct page_span *table_spans;
    uint64_t *table_serials;      /* with a window: of the blocks given back */
    struct prefix_match *matches; /* [blocks of a context], of the look-up at hand */
};

/* One group's part of a sequence. */
struct sequence_group {
    struct block_table table;
    uint64_t *serials; /* with a window: [table.capacity], valid in [n_found, table.first_page) */
    uint32_t source;   /* pinned page of an unfinished copy, or NO_PAGE */
    uint8_t root_key[SHA256_BYTES];
    uint8_t tip_key[SHA256_BYTES]; /* of the last full committed block; the root key before it */
};

/* One of cache->sequences; is_open from sequence_open to sequence_close. */
struct sequence {
    struct cache *cache;
    struct sequence *next_free;
    bool is_open;
    bool is_appending;    /* between append_open and commit or abort */
    uint32_t n_committed; /* tokens */
    uint32_t n_staged;    /* tokens that pages are reserved for behind the committed ones */
    uint32_t n_reused;    /* tokens found at opening */
    uint32_t n_found; /* blocks before it were shared; those from it on are this sequence's own */
    struct sequence_group *groups; /* [cache->n_groups] */
    char salt[CACHE_SALT_BYTES_MAX];
    size_t salt_len;
};

struct cache {
    struct cache_shape shape;
    struct namespace space;
    uint32_t n_groups;
    struct cache_group groups[CACHE_GROUPS_MAX];
    struct sha256 *sha;
    struct sequence *sequences; /* [shape.sequences_max] */
    struct sequence_group *sequence_groups;
    struct sequence *free_sequences;
    struct cache_books totals; /* only the sums that are counted upwards */
};

/* The indexed block above block i of a group's table: NO_PAGE above block 0, and in a group with a
 * window, where blocks are not linked. */
uint32_t sequence_parent(const struct sequence *sequence, uint32_t group, uint32_t i);
/* Gives back a group's pages from the end until the table ends with block n_pages - 1. */
void sequence_shrink(struct sequence *sequence, uint32_t group, uint32_t n_pages);
/* Gives back a group's pages before block first: they become cached. */
void sequence_advance(struct sequence *sequence, uint32_t group, uint32_t first);

#endif
