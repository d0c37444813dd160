/* cache.h: paged K/V for one generation: pages, block tables, the prefix index, append
 * transactions, the namespace.
 *
 * The cache keeps books; it never touches a K or V number. Where bytes must move (the copied head
 * of a shared block) it hands out a move and the caller copies. Engine thread only, except where
 * said: no locks. Nothing allocates after cache_new.
 *
 * Layers of one cache shape are a GROUP with a pool, an index and tables of its own. A block is 64
 * tokens of every layer and head of a group, named by a page number that is the same for all of
 * them. Sequences, appends and prefix hits are for all groups together: what succeeds does so in
 * every group, what fails changes none. This header brings in the others that a user of the cache
 * needs.
 *
 * WINDOW  In a group with a window W a row at position p sees p-W+1 to p. While that row is computed,
 *         its sequence holds floor(p / 64) - floor(max(0, p-W+1) / 64) + 1 blocks; after the commit
 *         it still does. Blocks before those become cached, not free, so that a shared prefix
 *         outlives its first reader.
 *
 * MEMORY  of each group: head-major, 2 MiB-aligned, in huge pages if the system gives them: page p
 *         of head h of the group's layer l starts at base + l * layer_stride + h * head_stride
 *         + p * page_bytes. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_CACHE_CACHE_H
#define FOLDKV_CACHE_CACHE_H

#include "cache/append.h"
#include "cache/cache_books.h"
#include "cache/cache_shape.h"
#include "cache/namespace.h"
#include "cache/page_span.h"
#include "cache/pool_memory.h"
#include "cache/sequence.h"
#include "config/why.h"

struct cache;

/* Splits the bytes over the groups (pool_split.h). CACHE_TOO_SMALL if they hold no block of each,
 * BAD_OPTION if they would hold more than can be numbered (both with a why); NO_MEMORY. On failure
 * *ret_cache is NULL. */
enum status cache_new(const struct cache_shape *shape, struct cache **ret_cache,
                      struct why *ret_why) MUST_USE;
/* Sequences that are still open go with it. */
void cache_free(struct cache **cache);
struct cache_memory cache_memory(const struct cache *cache, uint32_t group);
/* Has the system give the memory of a group's blocks [first, end) now; one of n_shares parts of the
 * work. Any thread, also while sequences are written and read. */
void cache_touch(const struct cache *cache, uint32_t group, uint32_t first, uint32_t end,
                 uint32_t share, uint32_t n_shares);

/* Bytes of a group's memory that the system has given and not taken away. Any thread. */
uint64_t cache_measured_bytes(const struct cache *cache, uint32_t group);

/* What it was made for. Any thread. */
const struct cache_shape *cache_shape(const struct cache *cache);
uint32_t cache_groups(const struct cache *cache);
uint32_t cache_blocks_total(const struct cache *cache, uint32_t group);
/* From now on the groups hold no more, used and cached together, than pool_split_of gives them for so many blocks (at
 * least 1; UINT32_MAX: all there are). It is made smaller only while nothing is held (asserted). */
void cache_set_quota(struct cache *cache, uint32_t blocks);
/* Free and cached blocks: what an append could get. */
uint32_t cache_blocks_available(const struct cache *cache, uint32_t group);
/* Tokens that one sequence can hold when it is alone, under the quota; at most context_max. */
uint32_t cache_tokens_max(const struct cache *cache);
/* Blocks of the group that a sequence of n_tokens holds at once at most. */
uint32_t cache_blocks_at_once(const struct cache *cache, uint32_t group, uint32_t n_tokens);

/* The next state of the namespace (asserted). Freed: no sequence may be open (asserted); every
 * cached block is forgotten. */
void cache_set_namespace_state(struct cache *cache, enum namespace_state state);
enum namespace_state cache_namespace_state(const struct cache *cache);
/* Forgets every cached block that no sequence holds. */
void cache_purge(struct cache *cache);

#endif
