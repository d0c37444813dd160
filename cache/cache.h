/* cache.h: paged K/V for one generation: pages, block tables, the prefix index, append
 * transactions, the namespace.
 *
 * The cache keeps books; it never touches a K or V number. Where bytes must move (the copied head
 * of a shared block) it hands out a move and the caller copies. Engine thread only, except where
 * said: no locks. Nothing allocates after cache_new.
 *
 * One cache group so far: every layer has the same number of K/V heads and the same unit sizes. A
 * block is 64 tokens of every layer and head, named by a page number that is the same for all of
 * them. This header brings in the others that a user of the cache needs.
 *
 * MEMORY  head-major, 2 MiB-aligned, in huge pages if the system gives them: page p of head h of
 *         layer l starts at base + l * layer_stride + h * head_stride + p * page_bytes. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_H
#define FOLDKV_CACHE_CACHE_H

#include "cache/append.h"
#include "cache/cache_books.h"
#include "cache/namespace.h"
#include "cache/page_span.h"
#include "cache/pool_memory.h"
#include "cache/sequence.h"
#include "config/sha256.h"
#include "config/why.h"

struct cache;

/* Layers of one cache shape. */
struct cache_group_shape {
    uint32_t n_layers;
    uint32_t n_heads;  /* K/V heads a layer */
    size_t page_bytes; /* K and V parts of 64 tokens of one head of one layer; a multiple of 64 */
    uint32_t window;   /* a row at p sees p - window + 1 .. p; 0: all before it */
};

struct cache_shape {
    uint32_t n_groups; /* 1..CACHE_GROUPS_MAX */
    struct cache_group_shape groups[CACHE_GROUPS_MAX];
    size_t pool_bytes; /* what the operator allows; rounded down to whole blocks */
    uint32_t context_max;           /* tokens a sequence may hold */
    uint32_t sequences_max;         /* sequences open at once */
    uint8_t identity[SHA256_BYTES]; /* I */
    uint8_t namespace_id[SHA256_BYTES];
    uint8_t numerics[SHA256_BYTES]; /* hash of the binding */
};

/* CACHE_TOO_SMALL if the pool holds no block at all, BAD_OPTION if it would hold more than can be
 * numbered (both with a why); NO_MEMORY. On failure *ret_cache is NULL. */
enum status cache_new(const struct cache_shape *shape, struct cache **ret_cache,
                      struct why *ret_why) MUST_USE;
/* Sequences that are still open go with it. */
void cache_free(struct cache **cache);
struct cache_memory cache_memory(const struct cache *cache, uint32_t group);
/* Has the system give the memory of a group's blocks [first, end) now; one of n_shares parts of the
 * work. Any thread, also while sequences are written and read. */
void cache_touch(const struct cache *cache, uint32_t group, uint32_t first, uint32_t end,
                 uint32_t share, uint32_t n_shares);

uint32_t cache_groups(const struct cache *cache);
uint32_t cache_blocks_total(const struct cache *cache, uint32_t group);
/* Free and cached blocks: what an append could get. */
uint32_t cache_blocks_available(const struct cache *cache, uint32_t group);

/* The next state of the namespace (asserted). Freed: no sequence may be open (asserted); every
 * cached block is forgotten. */
void cache_set_namespace_state(struct cache *cache, enum namespace_state state);
enum namespace_state cache_namespace_state(const struct cache *cache);
/* Forgets every cached block that no sequence holds. */
void cache_purge(struct cache *cache);

#endif
